#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The traces that clients read, each in a folder of its own: trace.jsonl, trace.json, report.txt; of runs also what the
# program itself counted, out.txt.
# traces.sh <folder> <make_traces> [<inference_server> <devices it may run on: sim, cuda>...]
set -u
folder=$1 make_traces=$2 server=${3:-} devices=" ${*:4} "
rm -rf "$folder"
mkdir -p "$folder" && cd "$folder" || exit 1
failed=0
"$make_traces" . || { echo "FAILED: make_traces"; failed=1; }

run() { # <name> <variables...> -- <arguments of the server...>
  local name=$1 variables=()
  shift
  while [ "$1" != -- ]; do variables+=("$1"); shift; done
  shift
  mkdir "$name"
  (cd "$name" && env CUTRACE=1 CUTRACE_SINKS=jsonl:trace.jsonl,chrome:trace.json,ascii:report.txt "${variables[@]}" \
    "$server" --quiet "$@" >out.txt 2>&1) || { cat "$name/out.txt"; echo "FAILED: the run $name"; failed=1; }
}
[[ $devices != *" sim "* ]] || run simulated CUTRACE_BACKEND=none -- --device sim --requests 12
if [[ $devices == *" cuda "* ]]; then
  run plain CUTRACE_KINDS=+memory -- --device cuda --requests 24 --workers 2
  run graphs CUTRACE_GRAPHS=graph -- --device cuda --requests 24 --workers 2 --graphs
  run losses CUTRACE_MEMORY_LIMIT=1M -- --device cuda --requests 40 --workers 3
fi
ls ./*/trace.json || failed=1
exit $failed
