#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The report in its forms for machines and browsers: JSON, CSV and HTML have the same numbers as the events and as the
# text, whatever the names are and however little a trace holds.
#
#   report_forms.sh CUTRACE INFERENCE_SERVER DATA PYTHON
set -u
command=$1 server=$2 data=$3 python=$4
here=$(cd "$(dirname "$0")" && pwd)
. "$here/command_test.sh"

CUTRACE=1 CUTRACE_BACKEND=none CUTRACE_SINKS=jsonl:t.jsonl \
  "$server" --device sim --workers 3 --arrival-us 200 >server.txt 2>&1 || { cat server.txt; exit 1; }

check() { # <trace> <words...>: all forms of it, compared by a second implementation
  local trace=$1
  rm -rf text.txt r.json r.html tables
  expect 0 - "$command" report "$trace"
  mv out.txt text.txt
  expect 0 - "$command" report "$trace" --json=r.json --csv tables --html r.html
  [ -s out.txt ] && fail "text beside the other forms"
  "$python" "$here/report_forms.py" "$@" text.txt r.json tables r.html || fail "the forms of $trace"
}
check t.jsonl
"$command" report t.jsonl --json >piped.json || fail "--json alone"
cmp -s piped.json r.json || fail "--json prints something else than it writes"
[ "$("$command" report t.jsonl --json | jq -r .schema)" = cutrace.report ] || fail "jq reads something else"

# Names as no program should have them, in each place.
"$python" "$here/report_forms.py" --hostile t.jsonl >hostile.jsonl || fail "no hostile names"
check hostile.jsonl

# Nothing but the head and the end; and the rows of a table.
{ head -n 1 t.jsonl; tail -n 1 t.jsonl | jq -c '.produced = 0 | .delivered = 0 | .kinds = {} | .lines = 1'; } >nothing.jsonl
check nothing.jsonl
[ "$("$command" report t.jsonl --json --top 2 | jq '.gpu_operations | length')" -eq 2 ] || fail "--top 2 has other rows"
"$command" report "$data/kineto_h200_steps.json.gz" --json=torch.json
[ "$(jq .numbers.kernels torch.json)" -eq 21000 ] || fail "PyTorch's kernels"
"$python" "$here/report_forms.py" --kineto "$data/kineto_h200_steps.json.gz" torch.json || fail "PyTorch's busy time"

expect 125 'ends in .html' "$command" report --html t.jsonl t.jsonl
expect 125 'is the file that is read' "$command" report t.jsonl --json=t.jsonl
expect 125 'is a file' "$command" report t.jsonl --csv t.jsonl
expect 125 'files is required' "$command" report --csv t.jsonl
expect 125 'No such file' "$command" report t.jsonl --json=missing/r.json
expect 125 'cannot both' "$command" report t.jsonl --json --html -
head -c 100000 t.jsonl >cut.jsonl
expect 4 'no footer' "$command" report cut.jsonl --json
jq -e '.notes | length > 0' out.txt >/dev/null || fail "no note of the complaints in the JSON"
exit $failed
