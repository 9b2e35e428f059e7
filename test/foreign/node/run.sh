#!/bin/sh
# run.sh HOST:PORT,HOST:PORT,...
#
# A tour with the Node client, which install.sh has put into the cache.
set -eu

connect=${1:?usage: run.sh HOST:PORT,...}
cache=${ZKD_FOREIGN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/zkd-foreign}
here=$(cd "$(dirname "$0")" && pwd)
NODE_PATH=$cache/node/node_modules exec node "$here/tour.js" "$connect"
