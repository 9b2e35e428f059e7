#!/bin/bash
# zkcli.sh [CONNECT]
#
# Tests zkcli and pkg/client against Apache ZooKeeper: against the servers of CONNECT, or against
# Debian's own, one and three of them, 3.9.5 if install.sh has fetched it, and 3.5, 3.6 and 3.7, whose
# jars it fetches itself; without any of them it says so and ends well.
# With ZKD_LIVE_LONG=1 the recipes go through ten times as many faults.
# The same Go tests as "go test" runs against zkd, and, where Apache's own shell is there, the
# same commands through both shells: what they print on standard output has to be the same.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."

tests() {
	ZKD_LIVE_SERVERS=$1 go test -count=1 ./cmd/zkcli ./pkg/client/live
	# Of an old server the shells want what it does not know, and each has its own way round that.
	[ ! -e /usr/share/java/zookeeper.jar ] || [ -n "${jars:-}" ] || shells "$1"
}

# shells feeds the same lines to both shells; Apache's is that of the servers' version if it is 3.9.5, otherwise Debian's.
shells() {
	local classes=/usr/share/java/zookeeper.jar
	[[ ${script:-} != java/* ]] || classes="$cache/java/*:/usr/share/java/commons-cli.jar"
	local java=(java -Xmx64m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp "$classes"
		org.apache.zookeeper.ZooKeeperMain -server "${1%%,*}")
	go build -o "$work/zkcli" ./cmd/zkcli
	"$work/zkcli" -server "${1%%,*}" deleteall /zkcli-both 2>/dev/null || true
	"${java[@]}" <"$here/zkcli-commands.txt" 2>"$work/java.err" >"$work/java.all" || true
	"$work/zkcli" -server "${1%%,*}" deleteall /zkcli-both 2>/dev/null || true
	"$work/zkcli" -server "${1%%,*}" <"$here/zkcli-commands.txt" 2>"$work/ours.err" >"$work/ours.all" || true
	for one in java ours; do
		plain <"$work/$one.all" >"$work/$one.out"
		events <"$work/$one.all" >"$work/$one.events"
	done
	diff -u "$work/java.out" "$work/ours.out"
	diff -u "$work/java.events" "$work/ours.events"
	diff -u <(grep '^Created' "$work/java.err") <(grep '^Created' "$work/ours.err")
	if [[ ${script:-} == java/* ]]; then
		echo help | "${java[@]}" 2>&1 >"$work/banner" | grep -A99 '^ZooKeeper -server' | grep -v '^Command not found' >"$work/help" || true
		diff -u cmd/zkcli/testdata/zkCli.sh/help-3.9.5.txt "$work/help"
	fi
	echo "zkcli.sh: both shells print the same ($(wc -l <"$work/ours.out") lines)"
}

# events leaves what watches reported. Apache's shell prints it on another thread than what its commands say, so it has no
# place among these.
events() {
	grep -o 'WatchedEvent .*' | grep -v 'type:None' | sed -E 's/zxid: [0-9]+/zxid: N/'
}

# plain leaves the data: no banner, no log, no event, no empty line, no numbers that differ from run to run.
plain() {
	grep -v -e '^$' -e '^WATCHER::' -e '^WatchedEvent ' -e '^Connecting to' -e '^Welcome to' -e '^JLine' -e ' - INFO ' -e '\[main' -e '^log4j' |
		sed -E 's/(Zxid|Owner) = 0x[0-9a-f]{2,}/\1 = 0xN/; s/^([cm])time = .*/\1time = T/; s/[[:space:]]+$//'
}

# older VERSION fetches the jars of an old server, once.
older() {
	local jars=$cache/zookeeper-$1
	[ ! -e "$jars/complete" ] || return 0
	rm -rf "$jars"
	mkdir -p "$jars"
	cat >"$jars/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>zkd</groupId>
  <artifactId>foreign-zookeeper</artifactId>
  <version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.zookeeper</groupId><artifactId>zookeeper</artifactId><version>$1</version></dependency>
    <!-- The server wants these two; it does not pull them in itself. -->
    <dependency><groupId>io.dropwizard.metrics</groupId><artifactId>metrics-core</artifactId><version>3.2.6</version></dependency>
    <dependency><groupId>org.xerial.snappy</groupId><artifactId>snappy-java</artifactId><version>1.1.10.5</version></dependency>
  </dependencies>
</project>
POM
	mvn -q -B -f "$jars/pom.xml" dependency:copy-dependencies -DoutputDirectory="$jars/java"
	touch "$jars/complete"
}

work=$(mktemp -d)
pid=
stop() {
	[ -z "$pid" ] || { kill "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true; }
	pid=
}
trap 'stop; rm -rf "$work"' EXIT

if [ $# -gt 0 ]; then
	tests "$1"
	exit
fi
cache=${ZKD_FOREIGN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/zkd-foreign}
servers=()
if [ -e /usr/share/java/zookeeper.jar ]; then
	servers+=("apache.sh 1" "apache.sh 3")
fi
if compgen -G "$cache/java/zookeeper-3*.jar" >/dev/null; then # install.sh has fetched 3.9.5
	servers+=("java/zookeeper.sh 3")
fi
if command -v mvn >/dev/null; then
	for version in 3.5.10 3.6.4 3.7.2; do
		older "$version"
		servers+=("java/zookeeper.sh 1 $cache/zookeeper-$version")
	done
fi
if [ ${#servers[@]} = 0 ]; then
	echo "zkcli.sh: no Apache ZooKeeper here, nothing tested" >&2
	exit 0
fi
for server in "${servers[@]}"; do
	read -r script nodes jars <<<"$server"
	echo "zkcli.sh: against $server"
	rm -f "$work/connect"
	ZKD_FOREIGN_CACHE=${jars:-$cache} "$here/$script" "$nodes" "$work/$script-$nodes${jars##*/}" >"$work/connect" 2>"$work/apache.err" &
	pid=$!
	for _ in $(seq 300); do
		[ ! -s "$work/connect" ] || break
		kill -0 $pid 2>/dev/null || { cat "$work/apache.err" >&2; exit 1; }
		sleep 0.2
	done
	tests "$(head -1 "$work/connect")"
	stop
done
# Three servers of 3.9.5 that the tests may kill, as "go test" does with zkd's.
if compgen -G "$cache/java/zookeeper-3*.jar" >/dev/null; then
	echo "zkcli.sh: against three of 3.9.5, with kills, partitions and expired sessions"
	ZKD_LIVE_JARS=$cache/java go test -count=1 -timeout 40m ./pkg/client/live
fi
