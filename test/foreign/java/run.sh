#!/bin/sh
# run.sh java|curator HOST:PORT,HOST:PORT,...
#
# A tour with the Java client of 3.9.5 or with Curator's recipes. install.sh has put
# the jars and the compiled tours into the cache.
set -eu

usage='usage: run.sh java|curator HOST:PORT,...'
tour=${1:?$usage}
connect=${2:?$usage}
cache=${ZKD_FOREIGN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/zkd-foreign}
exec java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$cache/java/*:$cache/java/classes" tour.Main "$tour" "$connect"
