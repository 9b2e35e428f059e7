#!/bin/bash
# run.sh [--core] [--ttl] [--suites NAME,...] [HOST:PORT,HOST:PORT,...]
# run.sh [--core] [--suites NAME,...] --apache NODES
# run.sh [--core] [--ttl] [--suites NAME,...] --zookeeper NODES
#
# Runs the suites with real foreign clients and sums up. With a connect string
# they run against that ensemble, with --apache against Debian's own server,
# with --zookeeper against Apache ZooKeeper 3.9.5, otherwise against "zkd dev" with three members on free ports.
#
#   --core     leave out what needs requests beyond those of ZooKeeper 3.4, and
#              the byte vectors
#   --ttl      servers that take TTL nodes, which by default they refuse: gozk
#              and curator use them, shell checks the refusal
#   --suites   some of: kazoo c cli_mt gozk shell java curator node vectors
#
# Exit code 0 if every check of every suite passed, 1 if not, 2 for wrong usage.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
usage='usage: run.sh [--core] [--ttl] [--suites NAME,...] [HOST:PORT,... | --apache NODES | --zookeeper NODES]'
suites=kazoo,c,cli_mt,gozk,shell,java,curator,node,vectors
explicit=
core=
apache=
TOUR_TTL=
ttl=extendedTypesEnabled=true
connect=
while [ $# -gt 0 ]; do
	case $1 in
	--core) core=1 ;;
	--ttl) TOUR_TTL=1 ;;
	--suites) suites=${2:?$usage} explicit=1 && shift ;;
	--apache) apache=${2:?$usage} original=$here/apache.sh && shift ;;
	--zookeeper) apache=${2:?$usage} original=$here/java/zookeeper.sh && shift ;;
	-*)
		echo "$usage" >&2
		exit 2
		;;
	*) connect=$1 ;;
	esac
	shift
done
if [ -n "$core" ]; then
	export ZKD_FOREIGN_CORE=1
	[ -n "$explicit" ] || suites=kazoo,c,cli_mt,gozk,shell,node
else
	unset ZKD_FOREIGN_CORE
fi
export PYTHONDONTWRITEBYTECODE=1

"$here/install.sh"
python=${ZKD_FOREIGN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/zkd-foreign}/venv/bin/python
work=$(mktemp -d)
# In memory where that is possible: these suites are about answers, and a disk that other jobs keep busy for seconds
# makes a leader step down, which an unprepared client reports as a lost connection.
data=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d)
server=
server_code=0
passed=0
failed=0

# stop_server ends the ensemble that this script started, and waits for it.
stop_server() {
	[ -n "$server" ] || return 0
	local tries=0
	kill -TERM "$server" 2>/dev/null || true
	while kill -0 "$server" 2>/dev/null; do
		tries=$((tries + 1))
		[ "$tries" -ne 200 ] || kill -KILL "$server"
		sleep 0.1
	done
	server_code=0
	wait "$server" || server_code=$?
	server=
}
trap 'stop_server; rm -rf "$work" "$data"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# check reports one check of this script itself.
check() {
	local name=$1 ok=$2 detail=$3
	if [ "$ok" = yes ]; then
		passed=$((passed + 1))
		echo "ok run $name"
	else
		failed=$((failed + 1))
		echo "FAIL run $name: $detail"
	fi
}

# start_apache and start_zkd set connect once every member serves.
start_apache() {
	"$original" "$apache" "$work/apache" ${TOUR_TTL:+"$ttl"} >"$work/out" 2>"$work/err" &
	server=$!
	local tries=0
	until [ -s "$work/out" ]; do
		tries=$((tries + 1))
		if [ "$tries" -gt 700 ] || ! kill -0 "$server" 2>/dev/null; then
			cat "$work/err" >&2
			echo "run.sh: Apache ZooKeeper does not serve" >&2
			exit 1
		fi
		sleep 0.1
	done
	connect=$(head -n 1 "$work/out")
}

start_zkd() {
	local first
	first=$(python3 "$here/free_ports.py" --run 3)
	connect=127.0.0.1:$first,127.0.0.1:$((first + 1)),127.0.0.1:$((first + 2))
	# Not "go run", which would not hand on the signal that stops the ensemble.
	(cd "$here/../.." && go build -o "$work/zkd" ./cmd/zkd)
	"$work/zkd" dev --nodes 3 --client-port "$first" --data-dir "$data" ${TOUR_TTL:+--set "$ttl"} >"$work/out" 2>"$work/err" &
	server=$!
	if ! python3 "$here/await_serving.py" "$connect" 60; then
		tail -n 40 "$work/err" >&2
		echo "run.sh: zkd dev does not serve" >&2
		exit 1
	fi
	local tries=0
	until grep -qF "$connect" "$work/out" || [ "$tries" -ge 50 ]; do
		tries=$((tries + 1))
		sleep 0.1
	done
	if grep -qF "$connect" "$work/out"; then
		check connect-string-printed yes ''
	else
		check connect-string-printed no "zkd dev printed $(head -c 300 "$work/out")"
	fi
}

# suite runs one program within its bound and adds up its last line.
suite() {
	local name=$1 seconds=$2 code=0 last
	shift 2
	echo "== $name"
	TOUR_TTL=${TOUR_TTL:-} timeout -k 5 "$seconds" "$@" >"$work/suite" 2>"$work/suite.err" || code=$?
	cat "$work/suite"
	last=$(tail -n 1 "$work/suite")
	if [[ $last =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
		passed=$((passed + BASH_REMATCH[1]))
		failed=$((failed + BASH_REMATCH[2]))
		[ "$code" = 0 ] || [ "${BASH_REMATCH[2]}" != 0 ] || check "$name" no "exit code $code"
	else
		tail -n 20 "$work/suite.err" >&2
		check "$name" no "ended with exit code $code and no sum (124: out of time)"
	fi
}

started=
if [ -n "$apache" ]; then
	start_apache
elif [ -z "$connect" ]; then
	started=zkd
	start_zkd
fi

echo "suites against $connect"
for name in ${suites//,/ }; do
	case $name in
	kazoo) suite kazoo 90 "$python" "$here/kazoo_tour.py" "$connect" ;;
	c) suite c 90 "$here/c/run.sh" "$connect" ;;
	cli_mt) suite cli_mt 60 python3 "$here/c/cli_mt.py" "$connect" ;;
	gozk)
		(cd "$here/../.." && go build -o "$work/gozk" ./test/foreign/gozk)
		suite gozk 90 "$work/gozk" "$connect"
		;;
	shell) suite shell 120 python3 "$here/shell.py" "$connect" ;;
	java | curator) suite "$name" 180 "$here/java/run.sh" "$name" "$connect" ;;
	node) suite node 90 "$here/node/run.sh" "$connect" ;;
	vectors)
		for member in ${connect//,/ }; do
			suite "vectors $member" 60 "$here/vectors/check.sh" "$member" default
		done
		;;
	*)
		echo "run.sh: no suite $name" >&2
		exit 2
		;;
	esac
done

if [ -n "$server" ]; then
	stop_server
	if [ "$started" = zkd ]; then
		if [ "$server_code" = 0 ]; then
			check stops-on-SIGTERM yes ''
		else
			check stops-on-SIGTERM no "exit code $server_code (137: killed after 20 s)"
		fi
	fi
fi
if [ "$failed" -gt 0 ] && [ -d "$data/1" ]; then
	echo "what the servers logged:" >&2
	grep -hv recovered "$data"/*/zkd.log | sort | tail -n 80 >&2
fi
echo "all suites: $passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
