// Package mmkeeper lets a process that is killed close its sockets before its memory is freed.
//
// When a process ends, Linux first frees its memory and then closes its files: do_exit calls exit_mm before exit_files. That is 20 to 150 ms for each half
// gigabyte of pages of 4 KiB, and for that long nobody else can know that the process is gone. For a leader it is most of the fail-over, and
// grows with the tree.
//
// The memory is freed by the last one that has it. So a keeper, a process without files that shares the memory (clone with CLONE_VM and
// nothing else), sleeps beside the server. It wakes up when the server's main thread has ended, waits until the other threads are through too, and ends:
// then the memory is freed, behind everything else.
//
//	server killed ─▶ each thread lets go of memory and files ─▶ sockets close ─▶ peers elect
//	                 └─▶ PR_SET_PDEATHSIG ─▶ keeper rests linger ─▶ ends ─▶ memory is freed
//
// Invariants:
//
//   - The keeper runs some forty instructions of assembly and no Go: it has no stack that the collector knows, and all signals are blocked in it, so
//     that no handler of the runtime runs there.
//   - It has no file: what was open when it began it closes, and its working directory is the root. What the memory itself holds it holds as long: the
//     program's file, and an io_uring that is mapped.
//   - It outlives its parent by linger and the freeing, or by look more if the kernel cannot tell it of the parent's end; unless somebody stops it.
//   - It helps who is killed alone. Where it is killed with its parent, as by the OOM killer or with a whole process group or cgroup, memory is
//     mostly freed first, as without it.
package mmkeeper
