#!/bin/bash
# members.sh [ZKD]
#
# Replays both profiles of recorded vectors against zkd: one standalone server, and
# every member of an ensemble of three voters and an observer. ZKD is the program
# (default: built from this repository). The last line sums up; the exit code is 1
# if any vector differs that expected-differences.txt does not list.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
# In memory where that is possible: quotas are judged by what the leader has applied, in the original too, and a leader whose disk is the slowest
# may be a write behind what a follower has answered.
dir=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d)
pids=()
stop() {
	[ ${#pids[@]} = 0 ] || kill "${pids[@]}" 2>/dev/null || true
	wait
	pids=()
}
trap 'stop; rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM

zkd=${1:-$dir/zkd}
[ $# -gt 0 ] || (cd "$here/../../.." && go build -o "$zkd" ./cmd/zkd)

settings() { # PROFILE
	printf '%s\n' tickTime=2000 initLimit=10 syncLimit=5 clientPortAddress=127.0.0.1 maxClientCnxns=0
	[ "$1" = extended ] || return 0
	printf '%s\n' '4lw.commands.whitelist=*' extendedTypesEnabled=true enforceQuota=true znode.container.checkIntervalMs=1000 \
		"DigestAuthenticationProvider.superDigest=super:$(printf super:secret | openssl dgst -sha1 -binary | base64)"
}

# start PROFILE NODES: sets connect. The last of several nodes is an observer.
start() {
	local ports members='' i data
	read -r -a ports < <(python3 "$here/../free_ports.py" $(($2 * 3)))
	connect=
	for ((i = 0; i < $2; i++)); do
		connect=$connect,127.0.0.1:${ports[i]}
		members+="server.$((i + 1))=127.0.0.1:${ports[$2 + i]}:${ports[2 * $2 + i]}:"
		if ((i > 0 && i == $2 - 1)); then members+=observer$'\n'; else members+=participant$'\n'; fi
	done
	connect=${connect#,}
	for ((i = 0; i < $2; i++)); do
		data=$dir/$1-$2-$i
		mkdir -p "$data"
		echo $((i + 1)) >"$data/myid"
		{
			settings "$1"
			printf '%s\n' "dataDir=$data" "clientPort=${ports[i]}"
			[ "$2" = 1 ] || printf '%s' "$members"
		} >"$data/zoo.cfg"
		"$zkd" --config "$data/zoo.cfg" 2>"$data/log" &
		pids+=($!)
	done
	python3 "$here/../await_serving.py" "$connect" 60
}

bad=0
checked=0
for profile in default extended; do
	for nodes in 1 4; do
		start "$profile" $nodes
		for member in ${connect//,/ }; do
			checked=$((checked + 1))
			if "$here/check.sh" "$member" "$profile" >"$dir/out" 2>&1; then
				echo "ok $profile, $nodes servers, $member: $(tail -n 1 "$dir/out")"
			else
				grep -v '^ok ' "$dir/out" || true
				echo "FAIL $profile, $nodes servers, $member"
				bad=$((bad + 1))
			fi
		done
		stop
	done
done
echo "$checked servers checked, $bad differ"
[ $bad = 0 ]
