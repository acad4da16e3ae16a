#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# One run of the inference server in all formats, each read back: the same events and the same time of the GPU; what
# convert and cut say and how they end.
#
#   read_files.sh CUTRACE INFERENCE_SERVER DATA
set -u
command=$1 server=$2 data=$3
. "$(dirname "$0")/command_test.sh"

CUTRACE=1 CUTRACE_BACKEND=none \
  CUTRACE_SINKS='jsonl:t.jsonl,jsonl:paired.jsonl?form=paired,jsonl:z.jsonl.gz,chrome:t.json,chrome:z.json.gz,perfetto:t.pftrace,perfetto:a.pftrace.gz?arguments=yes' \
  "$server" --device sim --workers 3 --arrival-us 200 >server.txt 2>&1 || { cat server.txt; exit 1; }
files='t.jsonl paired.jsonl z.jsonl.gz t.json z.json.gz'
[ -s t.pftrace ] && files+=' t.pftrace a.pftrace.gz'

# Counts by kind, and the sum of durations, of what every format keeps.
summary() {
  # No threads: Chrome files name those alone that have events.
  jq -c 'select(.type | IN("stage","api","kernel","memcpy","memset","sync","mark","counter","process","device"))
         | [.type, .dur_ns * (if .type | IN("process","device") then 0 else 1 end), .bytes // 0 | if . then . else 0 end]
         | if .[0] == "api" then .[2] = 0 else . end' "$1" |
    jq -c -s 'group_by(.[0]) | map([.[0][0], length, (map(.[1]) | add), (map(.[2]) | add)])'
}
summary t.jsonl >wanted.txt
[ "$(jq 'map(select(.[0] == "kernel")) | .[0][1]' wanted.txt)" -gt 1000 ] || fail "the run had hardly a kernel: $(cat wanted.txt)"
for file in $files; do
  expect 0 - "$command" convert "$file" -o "jsonl:back.$file.jsonl"
  [ -s err.txt ] && fail "converting $file says $(cat err.txt)"
  summary "back.$file.jsonl" >found.txt
  cmp -s wanted.txt found.txt || fail "$file says $(cat found.txt), not $(cat wanted.txt)"
done
cmp t.jsonl back.t.jsonl.jsonl || fail "JSONL is not what it was"
cmp t.jsonl back.z.jsonl.gz.jsonl || fail "compressed JSONL is not what it was"

# There and back: once a format has left out what it does not keep, nothing changes any more, but for the order of events
# that end in the same nanosecond.
expect 0 - "$command" convert t.jsonl -o once.json
expect 0 - "$command" convert once.json -o middle.jsonl
expect 0 - "$command" convert middle.jsonl -o twice.json
expect 0 - "$command" convert twice.json -o end.jsonl
cmp <(sort middle.jsonl) <(sort end.jsonl) || fail "Chrome JSON changes when it is converted again"
if [ -s t.pftrace ]; then
  expect 0 - "$command" convert t.pftrace -o p1.jsonl
  expect 0 - "$command" convert p1.jsonl -o p2.pftrace
  expect 0 - "$command" convert p2.pftrace -o p2.jsonl
  # Without descriptions, which the reader places anew. Events of kind nvtx, which it makes stages, do not occur here.
  cmp <(grep -v '"type":"\(process\|thread\|device\|header\|footer\)"' p1.jsonl | sort) \
    <(grep -v '"type":"\(process\|thread\|device\|header\|footer\)"' p2.jsonl | sort) || fail "Perfetto changes when it is converted again"
fi
expect 0 - "$command" convert t.jsonl -o report.txt
grep -q 'WHERE THE TIME WENT' report.txt || fail "no report"
expect 0 - "$command" convert t.jsonl -o report.html
expect 0 - "$command" convert t.jsonl -o calls.calls.txt
"$command" convert - -o jsonl:- <t.jsonl >piped.jsonl 2>err.txt || fail "from standard input: $(cat err.txt)"
cmp t.jsonl piped.jsonl || fail "from standard input to standard output it is another trace"

# "-" is standard input, also where a file has that name: the rows of Chrome JSON are not looked for in it.
"$command" convert - -o jsonl:piped.jsonl <once.json >out.txt 2>&1  # may miss threads, as docs/files.md says
touch ./-
"$command" convert - -o jsonl:beside.jsonl <once.json >out.txt 2>&1
[ "$(grep -c '"type":"kernel"' piped.jsonl)" -eq "$(grep -c '"type":"kernel"' t.jsonl)" ] && cmp piped.jsonl beside.jsonl ||
  fail "a file called - changes what is read from standard input: $(cat out.txt)"
rm ./-

# PyTorch's.
expect 0 - "$command" convert "$data/kineto_h200_steps.json.gz" -o jsonl:torch.jsonl
[ "$(grep -c '"type":"kernel"' torch.jsonl)" -eq 21000 ] || fail "not all kernels of PyTorch's file"

# A part.
expect 0 - "$command" cut t.jsonl -o decode.jsonl --stage decode
jq -e -s '[.[] | select(.type | IN("kernel","stage","api")) | .stage] | length > 0 and all(. == "decode")' decode.jsonl >out.txt ||
  fail "cutting a stage leaves others"
# One millisecond, from the begin of the thousandth kernel in the file.
from=$(jq -r 'select(.type == "kernel") | .ts_ns' t.jsonl | sed -n 1000p)
to=$((from + 1000000))
begin=$(head -n 1 t.jsonl | jq .clocks.trace_ns)
expect 0 - "$command" cut t.jsonl -o later.jsonl --from "$((from - begin))ns" --to "$((to - begin))ns"
jq -e -s --argjson from "$from" --argjson to "$to" \
  '[.[] | select(.type == "kernel")] | length > 0 and all(.ts_ns < $to and .ts_ns + .dur_ns > $from)' later.jsonl >out.txt ||
  fail "cutting a time leaves others, or nothing"
request=$(jq -r 'select(.requests) | .requests[0]' t.jsonl | head -n 1)
expect 0 - "$command" cut t.jsonl -o one.jsonl --request "$request"
jq -e -s --argjson r "$request" '[.[] | select(.type == "kernel") | .requests | index($r)] | length > 0 and all(. != null)' \
  one.jsonl >out.txt || fail "cutting request $request leaves others"
expect 0 - "$command" cut t.jsonl -o gpu.jsonl --device 0
jq -e -s '[.[] | select(.type == "kernel")] | length > 0' gpu.jsonl >out.txt || fail "cutting a device leaves nothing"
jq -e -s 'all(.type != "api")' gpu.jsonl >out.txt || fail "cutting a device leaves calls"
jq -c 'if .type == "footer" then {v: 1, type: "alarm", ts_ns: 0, dur_ns: 0, name: "k", late: true, alarm: "stuck",
  work: "kernel", device: (0, 1), context: 1, stream: 7}, (.lines += 2) else . end' t.jsonl >alarmed.jsonl
expect 0 - "$command" cut alarmed.jsonl -o gpu.jsonl --device 0
jq -e -s '[.[] | select(.type == "alarm" and .name == "k") | .device] == [0]' gpu.jsonl >out.txt || fail "cutting a device loses its alarms"
expect 125 'events matches; the trace has device' "$command" cut t.jsonl -o none.jsonl --device 9
grep -q 'cut out of a trace' none.jsonl || fail "no note of the cut"
# A recorded window or a loss, which are chosen by time alone, is no match of anything else.
expect 125 'events matches; the trace has stage' "$command" cut later.jsonl -o none.jsonl --stage none
grep -q '"type":"window"' none.jsonl || fail "the window was not kept"
expect 125 'nothing says what to cut out' "$command" cut t.jsonl -o none.jsonl
expect 125 'is no time' "$command" cut t.jsonl -o none.jsonl --from soon
expect 125 'is not before' "$command" cut t.jsonl -o none.jsonl --from 2s --to 1s

# A time outside of all recorded windows: the cut has an empty window, not none, which would mean that all was recorded.
{ head -n 1 t.jsonl | jq -c '.clocks.trace_ns = 0'
  echo '{"v":1,"type":"window","ts_ns":0,"dur_ns":100,"name":"recorded"}'
  echo '{"v":1,"type":"stage","ts_ns":50,"dur_ns":500,"name":"long","stage":"long","stage_id":1,"depth":0}'
  echo '{"v":1,"type":"mark","ts_ns":900,"dur_ns":-50,"name":"back","late":true}'
  echo '{"v":1,"type":"window","ts_ns":800,"dur_ns":200,"name":"recorded"}'
  echo '{"v":1,"type":"footer","ts_ns":1000,"dur_ns":0,"lines":5}'; } >windows.jsonl
expect 0 - "$command" cut windows.jsonl -o between.jsonl --from 200ns --to 700ns
[ "$(jq -c 'select(.type == "window") | [.ts_ns, .dur_ns]' between.jsonl)" = '[200,0]' ] ||
  fail "between windows: $(cat between.jsonl)"
expect 0 - "$command" report between.jsonl --json
jq -e '.trace.recorded_ns == 0' out.txt >/dev/null || fail "between windows: $(jq -c .trace out.txt)"
# What ends before it begins is in the cut that has its begin.
for times in '800ns 900ns 0' '900ns 1000ns 1'; do
  read -r from to count <<<"$times"
  "$command" cut windows.jsonl -o back.jsonl --from "$from" --to "$to" >out.txt 2>&1
  [ "$(grep -c '"name":"back"' back.jsonl)" -eq "$count" ] || fail "an end before the begin: $(cat out.txt back.jsonl)"
done

# What this version does not know stays as it is: types and fields, through convert, cut and merge.
unknown='{"v":1,"type":"teleport","ts_ns":0,"dur_ns":5,"name":"beam","stage":"decode","to":{"x":[1,2.50]}}'
{ head -n 1 t.jsonl; echo "$unknown"; tail -n +2 t.jsonl | sed '0,/"type":"kernel"/s/"type":"kernel"/&,"warps":{"live":48}/'; } >fresh.jsonl
kept() { # <file>: both are in it
  [ "$(jq -c 'select(.type == "teleport") | [.dur_ns, .name, .stage, .to]' "$1")" = '[5,"beam","decode",{"x":[1,2.5]}]' ] || fail "$1 has lost the event"
  [ "$(jq -c 'select(.warps) | [.type, .warps]' "$1")" = '["kernel",{"live":48}]' ] || fail "$1 has lost the field"
  grep -q '"x":\[1,2.50\]' "$1" || fail "$1 has written a number anew"
}
expect 4 'unknown type of event "teleport"' "$command" convert fresh.jsonl -o kept.jsonl
kept kept.jsonl
expect 4 'unknown field "warps"' "$command" convert fresh.jsonl -o 'jsonl:pairs.jsonl?form=paired'
expect 4 'unknown' "$command" convert pairs.jsonl -o unpaired.jsonl
kept unpaired.jsonl
expect 4 'unknown' "$command" cut fresh.jsonl -o kept.jsonl --to 1m
kept kept.jsonl
sed '1s/"pid":[0-9]*/"pid":4194000/' t.jsonl >other.jsonl
expect 4 'unknown' "$command" merge fresh.jsonl other.jsonl -o kept.jsonl
kept kept.jsonl
expect 4 'unknown' "$command" report fresh.jsonl
expect 4 'unknown' "$command" convert fresh.jsonl -o known.json

# What cannot be done.
: >empty.jsonl
echo hello >text.jsonl
head -c 100000 t.jsonl >cut.jsonl
expect 125 'is empty' "$command" convert empty.jsonl -o x.json
expect 125 'is no trace' "$command" convert text.jsonl -o x.json
expect 125 'No such file' "$command" convert missing.jsonl -o x.json
expect 125 'it is a folder' "$command" convert . -o x.json
[ -e x.json ] && fail "a file was written although nothing was read"
expect 125 'is the file that is read' "$command" convert t.jsonl -o t.jsonl
# Nor under the names that a sink makes of its file's: of a part, and until the file is complete.
cp t.jsonl part.0002.jsonl
cp t.jsonl part.json.tmp
expect 125 'is the file that is read' "$command" convert part.0002.jsonl -o 'jsonl:part.jsonl?rotate=1M'
expect 125 'is the file that is read' "$command" convert part.json.tmp -o part.json
cmp t.jsonl part.0002.jsonl && cmp t.jsonl part.json.tmp || fail "an input was overwritten"
expect 0 - "$command" convert part.0002.jsonl -o 'jsonl:other.jsonl?rotate=1M'
expect 0 - "$command" convert part.0002.jsonl -o part.jsonl
expect 125 'accepted:' "$command" convert t.jsonl -o t.xyz
expect 125 'accepted:' "$command" convert t.jsonl -o chrome:x.json?form=paired
expect 125 'different traces' "$command" convert t.jsonl torch.jsonl -o x.jsonl
expect 4 'no footer' "$command" convert cut.jsonl -o x.jsonl
grep -q 'read from a file with' x.jsonl || fail "no note of complaints in what was written"
expect 4 'line ' "$command" convert <(head -n 20 t.jsonl; echo '{garbage'; tail -n +21 t.jsonl) -o x.jsonl
cmp -s t.jsonl x.jsonl && fail "the broken line left no trace"
[ "$(grep -c '"type":"kernel"' x.jsonl)" -eq "$(grep -c '"type":"kernel"' t.jsonl)" ] || fail "a broken line took others along"

# A file that lacks events: neither its report nor one on a file made from it says that nothing is lost.
for sink in 'jsonl:full.jsonl?max=100K' 'jsonl:r.jsonl?rotate=100K'; do
  CUTRACE=1 CUTRACE_BACKEND=none CUTRACE_SINKS=$sink "$server" --device sim --requests 12 --arrival-us 200 >/dev/null 2>&1
done
rm -f r.0001.jsonl
"$command" cut t.jsonl -o chosen.jsonl --stage decode >/dev/null 2>&1
incomplete() { # <what> <words> <file...>
  local what=$1 words=$2
  shift 2
  "$command" report "$@" >page.txt 2>/dev/null
  grep -q "$words" <(tr -s ' \n' ' ' <page.txt) && [ "$(grep -c INCOMPLETE page.txt)" -ge 3 ] || fail "$what: $(head -n 8 page.txt)"
  ! grep -q 'nothing lost' page.txt || fail "$what: a page says that nothing is lost"
  "$command" report "$@" --json 2>/dev/null | jq -e --arg words "$words" '.trace.complete == false and
    (.trace.missing | test($words)) and (.answer | test("INCOMPLETE"))' >/dev/null || fail "$what: JSON says nothing of it"
}
events='[0-9]* of [0-9]* events are not in what was read'
sed '1s/"pid":[0-9]*/"pid":4194000/' t.jsonl >other.jsonl
for words in 'convert t.jsonl' 'cut t.jsonl --stage decode' 'merge t.jsonl other.jsonl'; do
  # shellcheck disable=SC2086
  expect 0 'events out: the file has reached its limit (max=)' "$command" $words -o 'jsonl:limited.jsonl?max=100K'
done
incomplete 'no end' 'no end: the trace was cut short' cut.jsonl
incomplete 'max' "$events" full.jsonl
incomplete 'parts' "$events" r.*.jsonl
parts=(r.*.jsonl)
expect 4 "between parts 3 and 6 was not given" "$command" convert "${parts[@]:0:2}" "${parts[@]:4}" -o x.jsonl
incomplete 'the last part alone' "$events" "$(printf '%s\n' r.*.jsonl | tail -n 1)"
incomplete 'a choice' 'all but stage decode was cut off' chosen.jsonl
# A choice of anything but time leaves all of the time recorded: its report is that of the same choice in the whole trace.
numbers() { jq -c '[.trace.recorded_ns, .trace.recorded_pieces, .numbers, .request_times, .requests, .devices]' "$1"; }
"$command" report t.jsonl --stage decode --json=of-whole.json >/dev/null 2>&1
"$command" report chosen.jsonl --json=of-chosen.json >/dev/null 2>&1
cmp <(numbers of-whole.json) <(numbers of-chosen.json) || fail "a choice: $(diff <(numbers of-whole.json) <(numbers of-chosen.json))"
for output in again.jsonl again.json again.html; do
  "$command" convert full.jsonl -o $output >/dev/null 2>&1
  [ $output = again.html ] || incomplete "converted to $output" "$events" $output
done
grep -q "\"missing\":\"$events" again.html || fail "HTML says nothing of it"
"$command" convert full.jsonl -o again.calls.txt >/dev/null 2>&1
grep -q "^# INCOMPLETE: $events" again.calls.txt || fail "calls say nothing of it"
if "$command" convert full.jsonl -o again.pftrace >/dev/null 2>&1; then
  incomplete 'converted to Perfetto' "$events" again.pftrace
fi
"$command" merge full.jsonl other.jsonl -o both.jsonl >/dev/null 2>&1
incomplete 'merged' "$events" both.jsonl
for format in jsonl json; do
  "$command" convert t.jsonl -o whole.$format >/dev/null 2>&1
  "$command" report whole.$format | grep -q 'delivered, nothing lost' || fail "a whole $format file is called incomplete"
done

# Where a control group above the command's own one allows less memory than the machine has, the command limits itself to
# half of that. A user who may make no control group sees nothing of this, nor does a machine that has no more itself.
outer=/sys/fs/cgroup/memory$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)/cutrace-$$
if [ "$(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo)" -gt $((3 << 20)) ] && mkdir "$outer" 2>/dev/null; then
  echo $((3 << 30)) >"$outer/memory.limit_in_bytes" || fail "no limit in $outer"
  mkdir "$outer/inner"
  mkfifo held
  exec 8<>held  # waits for nobody
  ( echo "$BASHPID" >"$outer/inner/cgroup.procs" && exec "$command" report - <held >held.txt 2>&1 8>&- ) &
  reader=$!
  for ((turn = 0; turn < 200; turn++)); do
    limit=$(sed -n 's/^Max data size  *\([0-9]*\) .*/\1/p' /proc/$reader/limits)
    [ -n "$limit" ] && break
    sleep 0.05
  done
  [ "$limit" = $((3 << 29)) ] || fail "in a group of 3 GiB the limit is ${limit:-none}"
  exec 8>&-
  wait $reader
  rmdir "$outer/inner" "$outer"
fi
exit $failed
