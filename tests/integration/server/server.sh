#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the server with all sinks and checks each file that it leaves.
# server.sh <folder for the files> <inference_server> <check_trace> <check_pairs> <arguments of the server...>
set -u
folder=$1 server=$2 check_trace=$3 check_pairs=$4
shift 4
rm -rf "$folder"
mkdir -p "$folder"
cd "$folder" || exit 1
failed=0
fail() { echo "FAILED: $1"; failed=1; }

sinks=ascii:report.txt,jsonl:trace.jsonl,jsonl:pairs.jsonl?form=paired,chrome:trace.json,calls:calls.txt,html:report.html,null
CUTRACE_SINKS=$sinks "$server" --quiet --costs "$@" >out.txt 2>err.txt || fail "the server ended with status $?"
cat out.txt err.txt
grep -qv "^cutrace: wrote " err.txt && fail "something was said on stderr"
ls ./*.tmp >/dev/null 2>&1 && fail "an unfinished file is left"
for file in report.txt calls.txt report.html; do [ -s "$file" ] || fail "$file is empty"; done
grep -q "(name lost)\|(unknown function)" trace.jsonl calls.txt && fail "a name was lost"

# The program was notified of each request once; its costs hold time on the GPU and are complete. But where the machine
# stalled: a request of which nothing is heard for a second is done, and what comes later is another one
# (docs/analyses.md).
longest_silence() { # ns between the ends of two events of a request
  jq -n '[inputs | (.ts_ns + .dur_ns) as $ended | (.requests // [])[] | [., $ended]] | group_by(.[0]) |
    map(map(.[1]) | sort | [.[1:], .[:-1]] | transpose | map(.[0] - .[1]) | max // 0) | max // 0' trace.jsonl
}
requests=$(sed -n 's/^counted .*"requests": *\([0-9]*\).*/\1/p' out.txt)
reported=$(grep -c '^costs of request' out.txt)
different=$(grep '^costs of request' out.txt | sed 's/:.*//' | sort -u | wc -l)
[ "$reported" -gt 0 ] && [ "$different" -eq "$requests" ] || fail "$different of $requests requests were reported"
if ! command -v jq >/dev/null || [ "$(longest_silence)" -lt 1000000000 ]; then
  [ "$reported" -eq "$requests" ] || fail "a request was reported twice: $reported reports of $requests"
  # Where records came late, a request's costs may have been reported without them.
  if tail -n 1 trace.jsonl | grep -q '"late":0[,}]'; then
    grep '^costs of request' out.txt | grep 'GPU: 0.000 ms alone\|(incomplete)' && fail "the costs of a request are incomplete"
  fi
fi

"$check_trace" trace.jsonl out.txt || fail "trace.jsonl"
"$check_pairs" pairs.jsonl || fail "pairs.jsonl"
# Both forms of the trace hold the same number of calls, stages and pieces of GPU work.
for type in api kernel memcpy memset stage; do
  events=$(grep -c "^{\"v\":1,\"type\":\"$type\"" trace.jsonl)
  pairs=$(grep -c "\"phase\":\"B\".*\"details\":{\"v\":1,\"type\":\"$type\"" pairs.jsonl)
  [ "$events" -gt 0 ] && [ "$events" -eq "$pairs" ] || fail "$type: $events events, $pairs pairs"
done
if command -v jq >/dev/null; then
  jq -e . trace.json >/dev/null || fail "trace.json is no JSON for jq"
  kernels=$(grep -c '^{"v":1,"type":"kernel"' trace.jsonl)
  shown=$(jq '[(.traceEvents? // .)[] | select(.ph == "X" and .cat == "kernel")] | length' trace.json)
  [ "$kernels" -eq "$shown" ] || fail "kernels: $kernels in trace.jsonl, $shown in trace.json"
  reported=$(sed -n '/id="data">$/{n;p;}' report.html | jq '.kernels')
  graphs=$(grep -c '^{"v":1,"type":"graph_launch"' trace.jsonl)
  [ "$((kernels + graphs))" -eq "$reported" ] || fail "kernels: $kernels and $graphs graphs in trace.jsonl, $reported in report.html"
  [ "$(jq -r .v trace.jsonl | wc -l)" -eq "$(wc -l <trace.jsonl)" ] || fail "jq reads another number of lines"
else
  echo "skipped: trace.json is not read, there is no jq"
fi
[ $failed -eq 0 ] && rm -f pairs.jsonl trace.json
exit $failed
