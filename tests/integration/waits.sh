#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# No number of the report needs CUPTI's synchronisation records: a trace that has them and the same without them give
# the same page, but for the count of events.
#
#   waits.sh CUTRACE INFERENCE_SERVER
set -u
command=$1 server=$2
. "$(dirname "$0")/command_test.sh"

CUTRACE=1 CUTRACE_BACKEND=cupti CUTRACE_KINDS=+sync CUTRACE_SINKS=jsonl:t.jsonl \
  "$server" --device cuda --workers 3 --arrival-us 200 >server.txt 2>&1 || { cat server.txt; exit 1; }
waits=$(grep -c '"type":"sync"' t.jsonl)
[ "$waits" -gt 50 ] || fail "only $waits synchronisation records"
mkdir with without
mv t.jsonl with/
# Only these lines change: jq would round the numbers of others.
grep -v '"type":"\(sync\|footer\)"' with/t.jsonl >without/t.jsonl
grep '"type":"footer"' with/t.jsonl | jq -c --argjson n "$waits" \
  '.lines -= $n | .produced -= $n | .delivered -= $n | .kinds.sync = 0 | .sinks[].written -= $n' >>without/t.jsonl
for trace in with without; do
  cd "$trace" || exit 1
  expect 0 - "$command" report t.jsonl
  [ -s err.txt ] && fail "reporting the trace $trace says $(cat err.txt)"
  grep -v '^events \| produced, ' out.txt >page.txt
  expect 0 - "$command" report --json=report.json t.jsonl
  jq 'del(.totals) | walk(if type == "object" then del(.produced, .delivered) else . end)' report.json >numbers.json
  cd ..
done
# What the report says of streams is what the records say.
jq -s -c 'map(select(.name == "stream synchronize")) | group_by([.stage, .stream]) | map([.[0].stage, .[0].stream, length])' \
  <(grep '"type":"sync"' with/t.jsonl) >recorded.txt
jq -c '.waits | map(select(.waits_for == "stream") | [.stage, .stream, .count]) | sort' without/report.json >reported.txt
cmp recorded.txt reported.txt || fail "waits for streams: $(cat reported.txt), not $(cat recorded.txt)"
grep -q 'cuStreamSynchronize\|host_wait' with/numbers.json || fail "no wait in the report: $(head -c 2000 with/numbers.json)"
cmp with/page.txt without/page.txt || fail "the pages differ: $(diff with/page.txt without/page.txt | head -20)"
cmp with/numbers.json without/numbers.json || fail "the numbers differ: $(diff with/numbers.json without/numbers.json | head -20)"
exit $failed
