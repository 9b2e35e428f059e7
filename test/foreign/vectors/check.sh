#!/bin/bash
# check.sh HOST:PORT default|extended [ALLOWED]
#
# Replays the recorded scenarios against a server and compares the names of the
# differing vectors with the list of expected differences (ALLOWED, default
# expected-differences.txt). A difference that is not on the list fails; one on
# the list that did not occur is only mentioned. README.md says how the server
# has to be set up for each profile.
set -eu

usage='usage: check.sh HOST:PORT default|extended [ALLOWED]'
server=${1:?$usage}
profile=${2:?$usage}
cd "$(dirname "$0")"
allowed=${3:-expected-differences.txt}
case $profile in
default) recorded=vectors.jsonl ;;
extended) recorded=vectors-extended.jsonl ;;
*)
	echo "$usage" >&2
	exit 2
	;;
esac

output=$(mktemp)
trap 'rm -f "$output"' EXIT
code=0
timeout 120 python3 record.py "$server" --profile "$profile" --check "$recorded" >"$output" 2>&1 || code=$?
exec python3 compare.py "$profile" "$recorded" "$allowed" "$code" "$output"
