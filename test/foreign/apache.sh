#!/bin/bash
# apache.sh NODES DIR [default|extended]
#
# Runs Debian's Apache ZooKeeper in the foreground: one standalone server, or an
# ensemble of NODES on 127.0.0.1, on free ports, with its data and its logs
# below DIR. Prints the connect string once every member serves. SIGTERM or
# Ctrl-C stops it. The suites are proved against it: what they ask for is what
# the original does. "extended" switches on what the extended byte vectors want.
set -eu

usage='usage: apache.sh NODES DIR [default|extended]'
nodes=${1:?$usage}
dir=${2:?$usage}
profile=${3:-default}
here=$(cd "$(dirname "$0")" && pwd)

java=(java -Xmx256m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
	-Dzookeeper.admin.enableServer=false
	-cp "$dir/conf:/usr/share/java/zookeeper.jar")
words=srvr
case $profile in
default) ;;
extended)
	words='*'
	java+=(-Dzookeeper.extendedTypesEnabled=true -Dzookeeper.enforceQuota=true
		-Dznode.container.checkIntervalMs=1000
		"-Dzookeeper.DigestAuthenticationProvider.superDigest=super:$(
			printf super:secret | openssl dgst -sha1 -binary | base64)")
	;;
*)
	echo "$usage" >&2
	exit 2
	;;
esac

mkdir -p "$dir/conf"
cat >"$dir/conf/log4j.properties" <<'PROPERTIES'
log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{ISO8601} %-5p %c{1} %m%n
PROPERTIES

read -r -a ports < <(python3 "$here/free_ports.py" $((nodes * 3)))
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
		printf '%s\n' tickTime=2000 initLimit=10 syncLimit=5 "dataDir=$data" \
			clientPortAddress=127.0.0.1 "clientPort=${ports[i]}" "4lw.commands.whitelist=$words"
		[ "$nodes" = 1 ] || printf '%s' "$members"
	} >"$data/zoo.cfg"
	"${java[@]}" org.apache.zookeeper.server.quorum.QuorumPeerMain "$data/zoo.cfg" \
		>"$data/log" 2>&1 &
	pids+=($!)
done

python3 "$here/await_serving.py" "$connect" 60 || stop 1
echo "$connect"
wait -n || true
echo "apache.sh: a server ended; its log is below $dir" >&2
stop 1
