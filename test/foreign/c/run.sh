#!/bin/sh
# c/run.sh HOST:PORT[,HOST:PORT...]: builds the C suite in a temporary folder and runs it.
set -eu
cd "$(dirname "$0")"
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
gcc -std=gnu11 -O1 -g -Wall -Wextra -Werror -DTHREADED -o "$build/tour" ./*.c -lzookeeper_mt -lpthread
"$build/tour" "$@"
