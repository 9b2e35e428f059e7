#!/bin/bash
# zookeeper.sh NODES DIR [SETTING=VALUE ...]
#
# Runs Apache ZooKeeper 3.9.5 from the jars that install.sh fetched, in the foreground:
# one standalone server, or an ensemble of NODES on 127.0.0.1, on free ports, with data
# and logs below DIR. Further settings are lines of zoo.cfg. Prints the connect string
# once every member serves. SIGTERM or Ctrl-C stops it.
set -eu

usage='usage: zookeeper.sh NODES DIR [SETTING=VALUE ...]'
nodes=${1:?$usage}
dir=${2:?$usage}
shift 2
here=$(cd "$(dirname "$0")" && pwd)
cache=${ZKD_FOREIGN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/zkd-foreign}

read -r -a ports < <(python3 "$here/../free_ports.py" $((nodes * 3)))
connect=
members=
for ((i = 0; i < nodes; i++)); do
	connect=$connect,127.0.0.1:${ports[i]}
	members+="server.$((i + 1))=127.0.0.1:${ports[nodes + i]}:${ports[2 * nodes + i]}"$'\n'
done
connect=${connect#,}

pids=()
stop() {
	trap - EXIT INT TERM
	[ ${#pids[@]} = 0 ] || kill "${pids[@]}" 2>/dev/null || true
	wait
	exit "${1:-0}"
}
trap 'stop 1' EXIT
trap stop INT TERM

for ((i = 0; i < nodes; i++)); do
	data=$dir/node$((i + 1))
	mkdir -p "$data"
	echo $((i + 1)) >"$data/myid"
	{
		printf '%s\n' tickTime=2000 initLimit=10 syncLimit=5 "dataDir=$data" maxClientCnxns=0 \
			clientPortAddress=127.0.0.1 "clientPort=${ports[i]}" "$@"
		[ "$nodes" = 1 ] || printf '%s' "$members"
	} >"$data/zoo.cfg"
	java -Xmx256m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dzookeeper.admin.enableServer=false \
		-cp "$cache/java/*" org.apache.zookeeper.server.quorum.QuorumPeerMain "$data/zoo.cfg" >"$data/log" 2>&1 &
	pids+=($!)
done

python3 "$here/../await_serving.py" "$connect" 60 || stop 1
echo "$connect"
wait -n || true
echo "zookeeper.sh: a server ended; its log is below $dir" >&2
stop 1
