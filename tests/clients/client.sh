#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the test of one client, or says what it lacks.
# client.sh duckdb|speedscope <folder of the clients> <name>:<program>... -- <arguments...>
set -u
client=$1 clients=$2
shift 2
programs=()
while [ "$1" != -- ]; do
  if ! [ -x "${1#*:}" ]; then
    echo "skipped: no ${1%%:*} on this machine; scripts/setup --clients installs it"
    exit 77
  fi
  programs+=("${1#*:}")
  shift
done
shift
if ! cmp -s "$clients/installed.json" "$(dirname "$0")/package-lock.json"; then
  echo "skipped: no clients of this version in $clients; scripts/setup --clients installs them"
  exit 77
fi
case $client in
  duckdb) exec "${programs[0]}" "$(dirname "$0")/duckdb.mjs" "$clients" "$@" ;;
  speedscope) exec "${programs[0]}" "$(dirname "$0")/speedscope.py" "$clients" "${programs[@]:1}" "$@" ;;
esac
echo "client.sh: unknown client $client" >&2
exit 2
