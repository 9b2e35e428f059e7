#!/bin/sh
# Says in shares of their CPU what running servers do: profile.sh PID[,PID…] [SECONDS]. It needs Linux, perf and awk, and the right to look at the kernel.
# A sample counts for the first kind that any function of its stack belongs to, in the order below.
set -eu
[ $# -ge 1 ] || { echo "usage: $0 PID[,PID...] [SECONDS]" >&2; exit 2; }
data=$(mktemp)
trap 'rm -f "$data"' EXIT
perf record -q -F 999 -g -o "$data" -p "$1" -- sleep "${2:-5}" || {
	echo "$0: perf record failed: is perf there, does process $1 run, may you look at it and at the kernel (kernel.perf_event_paranoid)?" >&2
	exit 1
}
perf script -i "$data" -F ip,sym 2>/dev/null | awk '
function count() {
	if (stack == "") return
	all++
	for (i = 1; i <= kinds; i++) if (stack ~ pattern[i]) { n[i]++; break }
	if (i > kinds) n[i]++
	stack = ""
}
function kind(what, functions) { name[++kinds] = what; pattern[kinds] = functions }
BEGIN {
	kind("memory: allocating, collecting", " (runtime\\.gc|runtime\\.bgsweep|runtime\\.bgscavenge|runtime\\.mallocgc|runtime\\.markroot|runtime\\.scanobject)")
	kind("opening and closing connections", " (__sys_accept4|__x64_sys_accept4|tcp_close|inet_release|sock_close|__sock_release|tcp_v4_syn_recv_sock|tcp_conn_request|tcp_check_req|inet_csk_accept|tcp_fin|__x64_sys_close|__x64_sys_epoll_ctl|__x64_sys_shutdown|__x64_sys_setsockopt|__x64_sys_socket|__x64_sys_getsockname)")
	kind("sockets: writing", " (tcp_sendmsg|__x64_sys_write|__x64_sys_sendto|ksys_write)")
	kind("sockets: reading", " (tcp_recvmsg|__x64_sys_read|__x64_sys_recvfrom|ksys_read)")
	kind("disk", " (io_uring_enter|__x64_sys_io_uring_enter|__do_sys_io_uring_enter|io_wq_worker|ext4_|blk_|vfs_fsync|__x64_sys_fdatasync)")
	kind("page faults", " (asm_exc_page_fault|exc_page_fault)")
	kind("sleeping, waking, switching", " (__x64_sys_futex|do_futex|schedule|__schedule|__x64_sys_epoll_p?wait|do_epoll_wait|runtime\\.findRunnable|runtime\\.schedule|runtime\\.park_m|runtime\\.goready|runtime\\.ready|runtime\\.sysmon|runtime\\.wakep|runtime\\.mcall|try_to_wake_up|runtime\\.netpoll)")
	kind("other system calls and interrupts", " (entry_SYSCALL_64|asm_|do_syscall_64|ret_from_fork)")
	name[kinds + 1] = "own code, with the libraries"
}
NF == 0 { count(); next }
{ stack = stack " " $2 }
END {
	count()
	if (all == 0) { print "no samples"; exit 1 }
	for (i = 1; i <= kinds + 1; i++) printf "%5.1f %%  %s\n", 100 * n[i] / all, name[i]
	printf "%d samples\n", all
}'
