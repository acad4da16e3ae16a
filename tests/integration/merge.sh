#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `cutrace merge`: inference servers that ran at the same time, and one of "another host", on one clock, in each format.
#
#   merge.sh CUTRACE INFERENCE_SERVER
set -u
command=$1 server=$2
. "$(dirname "$0")/command_test.sh"

for rank in 0 1 2; do
  RANK=$rank WORLD_SIZE=3 CUTRACE=1 CUTRACE_BACKEND=none CUTRACE_SINKS=jsonl:$rank.jsonl \
    "$server" --device sim --requests 8 --arrival-us 200 >server$rank.txt 2>&1 &
done
wait
[ -s 0.jsonl ] && [ -s 1.jsonl ] && [ -s 2.jsonl ] || { cat server*.txt; exit 1; }
# The third as if it came from another host, 10 s later and with the first's pid, so that it gets another pid.
pid=$(head -n 1 0.jsonl | jq .pid)
jq -c --argjson pid "$pid" '. as $e | (if .pid then .pid = $pid else . end)
  | if .type == "header" then .host = "elsewhere" | .boot_id = "another" | .clocks.monotonic_ns += 12345 | .clocks.realtime_ns += 10000000000 else . end
  | if .type == "footer" then .clocks.monotonic_ns += 12345 | .clocks.realtime_ns += 10000000000 else . end' 2.jsonl >other.jsonl

expect 0 - "$command" merge 0.jsonl 1.jsonl other.jsonl -o all.jsonl
[ -s err.txt ] && fail "merging says $(cat err.txt)"
count() { jq -c 'select(.type | IN("kernel","api","stage","memcpy","memset","sync","mark")) | .type' "$@" | sort | uniq -c; }
diff <(count 0.jsonl 1.jsonl other.jsonl) <(count all.jsonl) || fail "not all events are there"
# Each kernel stands where the clocks of its file put it: MONOTONIC of the same boot, REALTIME of the other.
places() { # <clock> <files...>
  local clock=$1
  shift
  for file in "$@"; do
    # jq rounds beyond 2^53: the last 15 digits will do.
    sed -E 's/"(realtime_ns)":[0-9]+([0-9]{15})/"\1":1\2/' "$file" |
      jq -c --arg clock "$clock" -n 'input.clocks as $c | inputs | select(.type == "kernel")
        | [.name, .dur_ns, .ts_ns - $c.trace_ns + $c[$clock]]'
  done | sort
}
merged_pids=$(jq -c 'select(.type == "process") | [.pid, .name]' all.jsonl)
[ "$(wc -l <<<"$merged_pids")" -eq 3 ] || fail "processes: $merged_pids"
grep -q 'rank 1' <<<"$merged_pids" && [ "$(grep -c ", pid $pid" <<<"$merged_pids")" -eq 1 ] || fail "identities: $merged_pids"
other=$(jq 'select(.type == "process" and (.name | contains("elsewhere"))) | .pid' all.jsonl)
grep -E '"type":"header"|"pid":[0-9]+[,}]' all.jsonl | grep -vE "\"pid\":$other[,}]" >near.jsonl  # jq would round the clocks
grep -E "\"type\":\"header\"|\"pid\":$other[,}]" all.jsonl >far.jsonl
cmp <(places monotonic_ns 0.jsonl 1.jsonl) <(places monotonic_ns near.jsonl) || fail "times by MONOTONIC"
cmp <(places realtime_ns other.jsonl) <(places realtime_ns far.jsonl) || fail "times by REALTIME"
jq -e -s '[.[] | select(.type == "stage" and (.adopted | not)) | .stage_id] | length == (unique | length)' all.jsonl >out.txt || fail "stages share ids"
jq -e -s '[.[] | select(.type == "kernel") | .device] | unique | length > 0' all.jsonl >out.txt || fail "no devices"
jq -e 'select(.type == "footer") | .notes | map(select(contains("CLOCK_MONOTONIC") or contains("CLOCK_REALTIME"))) | length == 2' \
  all.jsonl >out.txt || fail "notes of clocks: $(tail -n 1 all.jsonl | jq .notes)"

# In other formats, and read again.
expect 0 - "$command" report all.jsonl --json
jq -e --argjson n "$(cat 0.jsonl 1.jsonl other.jsonl | grep -c '"type":"kernel"')" '.numbers.kernels == $n' out.txt >/dev/null || fail "the report"
expect 0 - "$command" merge 0.jsonl 1.jsonl other.jsonl -o all.json
jq -e '[.traceEvents[] | select(.name == "process_name") | .args.name] | map(select(contains("rank"))) | length == 3' \
  all.json >/dev/null || fail "processes in Chrome JSON"
expect 0 - "$command" merge 0.jsonl 1.jsonl other.jsonl -o all.html
expect 0 - "$command" convert all.jsonl -o again.jsonl
cmp all.jsonl again.jsonl || fail "the merged file changes when it is converted"
if "$command" merge 0.jsonl 1.jsonl other.jsonl -o all.pftrace 2>err.txt; then
  expect 0 - "$command" convert all.pftrace -o jsonl:back.jsonl
  [ "$(grep -c '"type":"kernel"' back.jsonl)" -eq "$(grep -c '"type":"kernel"' all.jsonl)" ] || fail "kernels in Perfetto's file"
  [ "$(jq 'select(.type == "stage") | .pid' back.jsonl | sort -u | wc -l)" -eq 3 ] || fail "processes in Perfetto's file"
else
  grep -q protozero err.txt || fail "no Perfetto: $(cat err.txt)"
fi
# Twice gives the same file.
expect 0 - "$command" merge 0.jsonl 1.jsonl other.jsonl -o all2.jsonl
cmp all.jsonl all2.jsonl || fail "merging again gives another file"

expect 125 'two traces or more' "$command" merge 0.jsonl -o x.jsonl
expect 125 'same process' "$command" merge 0.jsonl 0.jsonl -o x.jsonl
expect 125 'has no place for the process' "$command" merge 0.jsonl 1.jsonl -o x.calls.txt
expect 125 'is the file that is read' "$command" merge 0.jsonl 1.jsonl -o 1.jsonl
expect 125 'standard input' "$command" merge 0.jsonl - -o x.jsonl
expect 125 'No such file' "$command" merge 0.jsonl none.jsonl -o x.jsonl
expect 125 'has no place among traces' "$command" merge 0.jsonl <(head -n 1 1.jsonl | jq -c '.boot_id = "" | .clocks.realtime_ns = 0'; tail -n +2 1.jsonl) -o x.jsonl
[ -e x.jsonl ] && fail "a file was written although nothing was merged"
head -c 100000 1.jsonl >cut.jsonl
expect 4 'no footer' "$command" merge 0.jsonl cut.jsonl -o x.jsonl
exit $failed
