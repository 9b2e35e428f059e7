#!/bin/sh
# Installs the foreign clients that the suites drive, and only what is missing:
#   Debian   zookeeper (the shell's classes), zookeeper-bin (cli_mt),
#            libzookeeper-mt-dev (headers and library of the C client)
#   kazoo    into a virtual environment below $ZKD_FOREIGN_CACHE
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
if [ -n "$missing" ]; then
	sudo=
	[ "$(id -u)" = 0 ] || sudo='sudo -n'
	export DEBIAN_FRONTEND=noninteractive
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

python=$cache/venv/bin/python
if ! "$python" -c "import kazoo.version as v; assert v.__version__ == '$kazoo_version'" 2>/dev/null; then
	mkdir -p "$cache"
	python3 -m venv "$cache/venv"
	"$python" -m pip install -q --disable-pip-version-check "kazoo==$kazoo_version"
fi
