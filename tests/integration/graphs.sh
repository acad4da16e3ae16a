#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gpu_graphs under each choice of CUTRACE_GRAPHS and CUTRACE_KINDS: what comes, what is said, what is refused.
#
#   graphs.sh PROGRAM
set -u
program=$1 failed=0
export CUTRACE_SINKS=null
want() { # <pattern of the output> <pattern of stderr, empty: silence> <arguments...>
  local said errors output=$1 expected=$2; shift 2
  said=$("$program" "$@" 2>/tmp/graphs.$$) || { echo "FAILED: $*: status $?"; failed=1; }
  errors=$(cat /tmp/graphs.$$); rm -f /tmp/graphs.$$
  echo "CUTRACE_GRAPHS=${CUTRACE_GRAPHS:-} CUTRACE_KINDS=${CUTRACE_KINDS:-} $said"
  [[ $said =~ $output ]] || { echo "FAILED: expected $output"; failed=1; }
  if [ -z "$expected" ]; then [ -z "$errors" ] || { echo "FAILED: said $errors"; failed=1; }
  else [[ $errors =~ $expected ]] || { echo "FAILED: said '$errors', expected $expected"; failed=1; }; fi
}
want '53 kernels, 0 replays, 1 memsets, 0 memory' '' early 53 0
want '53 kernels, 0 replays' '' late 53 0
export CUTRACE_GRAPHS=graph
want '3 kernels, 10 replays, 1 memsets' '' early 3 10
# Too late: node by node, with one line, and no crash in a replay.
want '53 kernels, 0 replays' 'came too late' late 53 0
unset CUTRACE_GRAPHS
CUTRACE_KINDS=kernel want '53 kernels, 0 replays, 0 memsets, 0 memory' '' early 53 0
CUTRACE_KINDS=-memset want ' 0 memsets, 0 memory' '' early 53 0
CUTRACE_KINDS=+memory want ' 1 memsets, [1-9][0-9]* memory' '' early 53 0
refuse() { # <variable=value> <what the message names>
  local said
  said=$(env "$1" "$program" early 0 0 2>&1)
  [[ $said == *"$2"*"runs untraced"* ]] || { echo "FAILED: $1: said '$said'"; failed=1; }
}
refuse CUTRACE_GRAPHS=whole 'CUTRACE_GRAPHS="whole" cannot be used; accepted: node'
# Neither "these alone" nor "what is usual, with changes".
for kinds in kernel,+sync +sync,kernel -memcpy,sync; do
  refuse CUTRACE_KINDS=$kinds "CUTRACE_KINDS=\"$kinds\" cannot be used; accepted: "
done
refuse CUTRACE_KINDS=kernels 'CUTRACE_KINDS="kernels" cannot be used; accepted: a list of kernel'
exit $failed
