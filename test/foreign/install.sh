#!/bin/sh
# Installs the foreign clients that the suites drive, and only what is missing:
#   Debian   zookeeper (the shell's classes), zookeeper-bin (cli_mt),
#            libzookeeper-mt-dev (headers and library of the C client)
#   kazoo    into a virtual environment below $ZKD_FOREIGN_CACHE
#   zsh, fish for their completion scripts; without them the tests of these skip
#   java     the jars of java/pom.xml (Apache ZooKeeper 3.9.5, Curator) and the
#            compiled tours, and node's client, into $ZKD_FOREIGN_CACHE too
# The zookeeper package has no service of its own (that is zookeeperd), so
# nothing starts. Silent when there is nothing to do.
set -eu

cache=${ZKD_FOREIGN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/zkd-foreign}
kazoo_version=2.10.0

missing=
for package in zookeeper zookeeper-bin libzookeeper-mt-dev gcc python3-venv; do
	status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
	[ "$status" = installed ] || missing="$missing $package"
done
# These may come from elsewhere than Debian.
command -v javac >/dev/null || missing="$missing default-jdk-headless"
command -v mvn >/dev/null || missing="$missing maven"
command -v node >/dev/null || missing="$missing nodejs"
command -v npm >/dev/null || missing="$missing npm"
command -v openssl >/dev/null || missing="$missing openssl"
sudo=
[ "$(id -u)" = 0 ] || sudo='sudo -n'
export DEBIAN_FRONTEND=noninteractive
if [ -n "$missing" ]; then
	log=$(mktemp)
	trap 'rm -f "$log"' EXIT
	# A stale package list is the usual reason for a first failure, so the list
	# is fetched only then.
	# shellcheck disable=SC2086 # a list of words on purpose
	if ! $sudo apt-get install -y -q --no-install-recommends $missing >"$log" 2>&1; then
		if ! { $sudo apt-get update -q && $sudo apt-get install -y -q --no-install-recommends $missing; } >"$log" 2>&1; then
			tail -n 20 "$log" >&2
			echo "install.sh: cannot install$missing" >&2
			exit 1
		fi
	fi
fi

for shell in zsh fish; do
	command -v "$shell" >/dev/null || $sudo apt-get install -y -q --no-install-recommends "$shell" >/dev/null 2>&1 ||
		echo "install.sh: cannot install $shell: zkcli's completion in it goes untested" >&2
done

python=$cache/venv/bin/python
if ! "$python" -c "import kazoo.version as v; assert v.__version__ == '$kazoo_version'" 2>/dev/null; then
	mkdir -p "$cache"
	python3 -m venv "$cache/venv"
	"$python" -m pip install -q --disable-pip-version-check "kazoo==$kazoo_version"
fi

here=$(cd "$(dirname "$0")" && pwd)
sources=$(cat "$here/java/pom.xml" "$here"/java/src/main/java/tour/*.java | sha256sum | cut -d ' ' -f 1)
if [ "$(cat "$cache/java/sources" 2>/dev/null)" != "$sources" ]; then
	rm -rf "$cache/java"
	mkdir -p "$cache/java/classes"
	mvn -q -B -f "$here/java/pom.xml" dependency:copy-dependencies -DoutputDirectory="$cache/java"
	javac -nowarn -d "$cache/java/classes" -cp "$cache/java/*" "$here"/java/src/main/java/tour/*.java
	echo "$sources" >"$cache/java/sources"
fi

if ! cmp -s "$here/node/package.json" "$cache/node/package.json"; then
	mkdir -p "$cache/node"
	rm -f "$cache/node/package.json"
	(cd "$cache/node" && cp "$here/node/package.json" wanted.json && mv wanted.json package.json &&
		npm install --silent --no-audit --no-fund --ignore-scripts || { rm -f package.json; exit 1; })
fi
