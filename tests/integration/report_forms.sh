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
# None of them steers a terminal, nor do names of files in what commands say.
plain() { # <words...>: runs them, looks for control characters on both streams
  "$@" >out.txt 2>err.txt
  LC_ALL=C grep -qP '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|^\x9b' out.txt err.txt &&
    fail "control characters of $*: $(cat -v out.txt err.txt | grep -aE '\^|M-' | head -3)"
}
slow=$(jq -r 'select(.requests) | .requests[0]' hostile.jsonl | head -n 1)
plain "$command" report hostile.jsonl
plain "$command" why hostile.jsonl --request "$slow"
plain "$command" why hostile.jsonl --request $'\e[31m'
plain "$command" diff t.jsonl hostile.jsonl
plain "$command" diff hostile.jsonl t.jsonl
plain "$command" convert hostile.jsonl -o calls:-
plain "$command" convert hostile.jsonl -o ascii
red=$'\e[31m\xc2\x9b32m.jsonl'
plain "$command" report "$red"
head -c 100000 hostile.jsonl >"$red"
plain "$command" report "$red"
[ -s out.txt ] || fail "no report on a file with such a name"
plain "$command" diff "$red" "$red" --allow-incomplete
plain "$command" merge "$red" "$red" -o "jsonl:$red/none"
plain "$command" report t.jsonl --csv "$red"
plain "$command" run -- "./$red"
plain "$command" run --method "$red" -- true
plain "$command" doctor "./$red"
plain "$command" bpf --list 'uprobe:*' --library "./$red"
cp "$server" "$red.program"
plain "$command" bpf --list 'uprobe:main' --library "./$red.program"
plain "$command" doctor "./$red.program"

# A trace of a header and a footer alone; and --top, which limits the rows of a table.
{ head -n 1 t.jsonl; tail -n 1 t.jsonl | jq -c '.produced = 0 | .delivered = 0 | .kinds = {} | .lines = 1'; } >nothing.jsonl
check nothing.jsonl
[ "$("$command" report t.jsonl --json --top 2 | jq '.gpu_operations | length')" -eq 2 ] || fail "--top 2 has other rows"
"$command" report "$data/kineto_h200_steps.json.gz" --json=torch.json
[ "$(jq .numbers.kernels torch.json)" -eq 21000 ] || fail "PyTorch's kernels"
"$python" "$here/report_forms.py" --kineto "$data/kineto_h200_steps.json.gz" torch.json || fail "PyTorch's busy time"

# Shares are of the time that was recorded and chosen: of windows, cuts, parts, files that were full, sampled traces.
times() { # <what> <trace> [from ns] [to ns]: r.json against the events
  "$python" "$here/report_forms.py" --time "${@:2:1}" r.json "${@:3}" || fail "times of $1"
}
last_ns=$(jq -s '(map(select(.dur_ns) | .ts_ns + .dur_ns) | max) - .[0].clocks.trace_ns' t.jsonl)
# On a busy machine the first event may come late: shares count from the first kernel, so that no part is empty.
first_ns=$(jq -s '(map(select(.type == "kernel") | .ts_ns) | min) - .[0].clocks.trace_ns' t.jsonl)
for share in '0 1' '2 3' '3 11' '7 8'; do
  from=$((first_ns + (last_ns - first_ns) * ${share% *} / 11)) to=$((first_ns + (last_ns - first_ns) * ${share#* } / 11))
  [ "${share% *}" != 0 ] || from=0
  "$command" report t.jsonl --from ${from}ns --to ${to}ns --json=r.json || fail "no report on $from to $to"
  times "--from $from --to $to" t.jsonl $from $to
  for name in part.jsonl part.json part.pftrace; do
    "$command" cut t.jsonl -o $name --from ${from}ns --to ${to}ns >part.txt 2>&1 || { [ $name = part.pftrace ] && continue; fail "cut: $(cat part.txt)"; }
    "$command" report $name --json=r.json || fail "no report on $name"
    times "a cut, as $name" t.jsonl $from $to
    jq -e '.trace.complete' r.json >/dev/null || fail "$name is not complete: $(jq -r .trace.missing r.json)"
  done
  "$command" cut part.jsonl -o twice.jsonl --from $(((from + to) / 2))ns >/dev/null 2>&1
  "$command" report twice.jsonl --json=r.json
  times "a cut of a cut" t.jsonl $(((from + to) / 2)) $to
  "$command" report part.jsonl --html part.html && "$command" report part.jsonl --json=r.json
  "$python" - part.html r.json <<'END' || fail "HTML of a cut"
import json, re, sys
page = json.loads(re.search(r'id="data">(.*?)</script>', open(sys.argv[1], encoding="utf-8").read(), re.S)[1])
report = json.load(open(sys.argv[2]))
assert page["gpu_busy_ns"] == report["trace"]["gpu_busy_ns"], "busy"
assert page["recorded_ns"] == report["trace"]["recorded_ns"], "recorded"
END
done
for sink in 'jsonl:full.jsonl?max=100K' 'jsonl:r.jsonl?rotate=100K'; do
  CUTRACE=1 CUTRACE_BACKEND=none CUTRACE_SINKS=$sink "$server" --device sim --requests 12 --arrival-us 200 >/dev/null 2>&1
done
"$command" report full.jsonl --json=r.json 2>/dev/null
times "a file that was full" full.jsonl
parts=(r.*.jsonl)
[ ${#parts[@]} -ge 5 ] || fail "${#parts[@]} parts only"
for missing in 1 3 '1 2 4' ${#parts[@]}; do
  chosen=("${parts[@]}")
  for n in $missing; do unset "chosen[n - 1]"; done
  cat "${chosen[@]}" >some.jsonl
  "$command" report "${chosen[@]}" --json=r.json 2>/dev/null
  times "parts without $missing" some.jsonl
  jq -e '.trace.complete == false' r.json >/dev/null || fail "parts without $missing are called complete"
done
cat "${parts[@]}" >some.jsonl
"$command" report "${parts[@]}" --json=r.json
times "all parts" some.jsonl
CUTRACE=1 CUTRACE_SAMPLE=10ms/20ms CUTRACE_SINKS=jsonl:windows.jsonl "$server" --device sim --requests 40 --arrival-us 2000 >/dev/null 2>&1
grep -q '"type":"window"' windows.jsonl || fail "no windows"
"$command" report windows.jsonl --json=r.json
times "windows" windows.jsonl

# The report that a program writes when it ends agrees with the report on its file: of a whole trace, of windows, and of
# one so long that causes of idle time are found in one piece after the other.
live() { # <what> <environment...> -- <arguments of the server...>
  local what=$1 environment=()
  shift
  while [ "$1" != -- ]; do environment+=("$1"); shift; done
  env CUTRACE=1 CUTRACE_SINKS='jsonl:live.jsonl,ascii:live.txt?width=100,html:live.html' "${environment[@]}" \
    "$server" --device sim "${@:2}" >server.txt 2>&1 || fail "the server, $what: $(tail -n 3 server.txt)"
  "$command" report live.jsonl >whole.txt && "$command" report live.jsonl --html whole.html || fail "no report of $what"
  "$python" "$here/report_forms.py" --live live.txt whole.txt live.html whole.html || fail "live and read, $what"
}
live 'a whole trace' -- --workers 3 --arrival-us 200
live 'windows' CUTRACE_SAMPLE=10ms/20ms -- --requests 40 --arrival-us 2000
live 'a long trace' -- --workers 3 --arrival-us 200 --requests 150
grep -q 'causes of idle time were found in' live.txt || fail "a long trace in one piece"
# Too little memory, unless a busy machine slows the server: so unit tests, not these, demand what losses must lead to.
live 'a trace with losses' CUTRACE_MEMORY_LIMIT=3M -- --workers 3 --arrival-us 200 --requests 150
live 'windows that come late' CUTRACE_SAMPLE=10ms/20ms CUTRACE_MEMORY_LIMIT=5M -- --workers 3 --arrival-us 200 --requests 150

if "$command" cut windows.jsonl -o cut_windows.jsonl --to 25ms >/dev/null 2>&1; then
  expect 0 - "$command" report cut_windows.jsonl --json=r.json
fi
for lines in 40 400 4000; do
  head -n $lines t.jsonl >short.jsonl
  "$command" report short.jsonl --json=r.json 2>/dev/null
  times "the first $lines lines" short.jsonl
done
# The same trace in formats that keep fewer fields has the same stages, gaps and requests.
same='[.stages[] | [.name, .count, .host_ns, .gpu_ns, .requests]], .request_times, .idle_causes, [.idle_blames[] | [.cause, .stage, .call, .ns]]'
"$command" report t.jsonl --json | jq -c "$same" >as_jsonl.txt
for other in t.json t.pftrace; do
  "$command" convert t.jsonl -o $other >/dev/null 2>&1 || continue
  "$command" report $other --json | jq -c "$same" >as_other.txt
  cmp -s as_jsonl.txt as_other.txt || fail "$other: $(diff as_jsonl.txt as_other.txt | cut -c1-1500)"
done
# Where stages were forgotten for lack of memory and events came late, too. What waited behind others began with its
# call, which Chrome files do not keep where the call itself was lost (docs/files.md).
CUTRACE=1 CUTRACE_MEMORY_LIMIT=3M CUTRACE_SINKS=jsonl:few.jsonl,chrome:few.json \
  "$server" --device sim --workers 3 --arrival-us 200 --requests 150 --graphs >server.txt 2>&1
for file in few.jsonl few.json; do
  "$command" report $file --json | jq -c '.trace.quality, [.stages[] | [.name, .count, .host_ns, .gpu_ns, .requests]],
    [.request_times[] | select(.what != "behind_others")]' >$file.txt
done
cmp -s few.jsonl.txt few.json.txt || fail "few.json: $(diff few.jsonl.txt few.json.txt | cut -c1-1500)"

expect 125 'ends in .html' "$command" report --html t.jsonl t.jsonl
expect 125 'is the file that is read' "$command" report t.jsonl --json=t.jsonl
expect 125 'is a file' "$command" report t.jsonl --csv t.jsonl
expect 125 'needs FILE...' "$command" report --csv t.jsonl
expect 125 'there is no folder missing' "$command" report t.jsonl --json=missing/r.json
expect 125 'cannot both' "$command" report t.jsonl --json --html -
head -c 100000 t.jsonl >cut.jsonl
expect 4 'no footer' "$command" report cut.jsonl --json
jq -e '.notes | length > 0' out.txt >/dev/null || fail "no note of the complaints in the JSON"
exit $failed
