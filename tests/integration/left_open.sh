#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A program that exits without stopping its session keeps its exit status, and its trace is whole.
#
#   left_open.sh PROGRAM
set -u
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
CUTRACE_SINKS=jsonl:t.jsonl,chrome:t.json "$1" exit
status=$?
fail() { echo "left_open: $1"; exit 1; }
[ $status -eq 7 ] || fail "the program's status is 7, seen was $status"
kernels=$(grep -c '"type":"kernel".*"left open"' t.jsonl)
[ "$kernels" -eq 60 ] || fail "60 kernels of the stage were launched, $kernels are in the trace"
tail -n 1 t.jsonl | grep -q '"type":"footer"' || fail "the trace has no end: $(tail -n 1 t.jsonl | cut -c1-200)"
python3 -m json.tool t.json /dev/null 2>/dev/null || jq -e . t.json >/dev/null || fail "t.json is no JSON"
echo "left_open: exit status 7, 60 kernels, whole"
