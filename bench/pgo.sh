#!/bin/sh
# Makes cmd/zkd/default.pgo anew: what the compiler knows of where a busy server's CPU goes (docs/adr/0025). It takes a minute and a half and wants a machine that does
# nothing else; servers listen on 127.0.0.1, ports 28181 to 28190.
set -eu
cd "$(dirname "$0")/.."
dir=$(mktemp -d)
pids=
stop() {
	for p in $pids; do kill "$p" 2>/dev/null || :; done
	for p in $pids; do wait "$p" 2>/dev/null || :; done
	pids=
}
trap 'code=$?; stop; rm -rf "$dir"; [ $code = 0 ] || echo "$0: not finished; cmd/zkd/default.pgo is what it was" >&2' EXIT
trap 'exit 1' INT TERM
go build -pgo=off -o "$dir/zkd" ./cmd/zkd
go build -o "$dir/zkbench" ./bench/cmd/zkbench
go build -o "$dir/zkcli" ./cmd/zkcli

# start NAME CLIENTPORT [LINE…]: a server that writes the profile NAME.
start() {
	name=$1 port=$2
	shift 2
	printf 'clientPort=%s\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\n' "$port" >"$dir/$name.cfg"
	for line; do echo "$line" >>"$dir/$name.cfg"; done
	"$dir/zkd" --config "$dir/$name.cfg" --log-level error --cpu-profile "$dir/$name.prof" &
	pids="$pids $!"
}

# ready SERVERS: waits until they answer.
ready() { "$dir/zkcli" --server "$1" stat / >/dev/null 2>&1; }

# bench WORKLOAD CONNECTIONS INFLIGHT: on an ensemble of its own, for each workload counts alike.
bench() {
	echo "$*"
	for i in 1 2 3; do
		mkdir -p "$dir/$1-$2-$3/$i"
		echo $i >"$dir/$1-$2-$3/$i/myid"
		start "$1-$2-$3-$i" 2818$i "dataDir=$dir/$1-$2-$3/$i" server.1=127.0.0.1:28184:28185 server.2=127.0.0.1:28186:28187 server.3=127.0.0.1:28188:28189
	done
	servers=127.0.0.1:28181,127.0.0.1:28182,127.0.0.1:28183
	ready $servers
	"$dir/zkbench" "$1" --server $servers --conns "$2" --inflight "$3" --duration 6s --keep --quiet >/dev/null 2>"$dir/said" || {
		cat "$dir/said" >&2
		return 1
	}
	stop
	rm -rf "$dir/$1-$2-$3"
}

for work in get exists children set mixed; do bench $work 16 64; done
for work in get set; do bench $work 16 1; done
bench set 1 1
for work in sessions churn; do bench $work 32 1; done
echo "fill, then start"
start fill 28190 "dataDir=$dir/one"
ready 127.0.0.1:28190
"$dir/zkbench" fill --server 127.0.0.1:28190 --conns 16 --inflight 64 --size 100 --count 1000000 --keep --quiet >/dev/null
stop
for i in 1 2 3 4; do
	start start$i 28190 "dataDir=$dir/one"
	ready 127.0.0.1:28190
	stop
done
go tool pprof -proto -output "$dir/all" "$dir/zkd" "$dir"/*.prof >/dev/null 2>&1
mv "$dir/all" cmd/zkd/default.pgo
ls -l cmd/zkd/default.pgo
