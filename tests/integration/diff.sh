#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `cutrace diff` on runs of the inference server, some of them with a kernel that was made 20 % slower in the file: what
# it says, its JSON and how it ends.
#
#   diff.sh CUTRACE INFERENCE_SERVER
set -u
command=$1 server=$2
. "$(dirname "$0")/command_test.sh"

for run in 1 2 3 4 5 6; do
  CUTRACE=1 CUTRACE_BACKEND=none CUTRACE_SINKS=jsonl:$run.jsonl \
    "$server" --device sim --requests 12 --arrival-us 200 >server.txt 2>&1 || { cat server.txt; exit 1; }
done
for run in 4 5 6; do  # marked `late` (out of the order of ends), since other durations move the ends
  jq -c 'if .type == "kernel" and .name == "matmul" then .dur_ns = (.dur_ns * 1.2 | floor) else . end
         | if .type | IN("header", "footer") then . else .late = true end' $run.jsonl >slow$run.jsonl
done

expect 0 - "$command" diff 1.jsonl 2.jsonl
tr -s ' \n' ' ' <out.txt | grep -q 'Two runs of the same program may differ' || fail "nothing of what one run each is worth"
[ "$(awk '{ print length }' out.txt | sort -n | tail -n 1)" -le 100 ] || fail "a line beyond 100 columns"
expect 0 - "$command" diff 1.jsonl 1.jsonl --fail-over 0%
grep -q 'verdict  passed' out.txt || fail "a trace differs from itself"

tr -s ' \n' ' ' <out.txt | grep -qE 'noise The two halves of the run before differ from each other by [0-9.]+ % in the median of [0-9]+ rows, at most by' ||
  fail "nothing of what noise alone does"

# Few durations of each name: nothing can be tested, and what changed is not called unchanged.
for factor in 1 2; do
  jq -c --argjson factor $factor 'if .type == "kernel" and (.name == "matmul" | not) then empty else . end
    | if .type == "kernel" then .dur_ns = .dur_ns * $factor else . end
    | if .type | IN("header", "footer") then . else .late = true end' 1.jsonl |
    awk '/"type":"kernel"/ && ++n > 5 { next } { print }' >few$factor.jsonl
done
"$command" diff few1.jsonl few2.jsonl --allow-incomplete >out.txt 2>/dev/null
tr -s ' \n' ' ' <out.txt | grep -q 'GPU operation "matmul" +100 % each (not tested: one run each)' || fail "an untested change is not in the answer"
grep -qE '^  matmul +5 +5 .* \+100 % .* -' out.txt || fail "an untested change has no row"

expect 5 - "$command" diff --before 1.jsonl 2.jsonl 3.jsonl --after slow4.jsonl slow5.jsonl slow6.jsonl --fail-over 5%
tr -s ' \n' ' ' <out.txt | grep -q 'verdict FAILED.*"matmul" +' || fail "the slow kernel is not named"
expect 0 - "$command" diff --before 1.jsonl 2.jsonl 3.jsonl --after slow4.jsonl slow5.jsonl slow6.jsonl --fail-over 4000%
expect 0 - "$command" diff --before 1.jsonl 2.jsonl 3.jsonl --after slow4.jsonl slow5.jsonl slow6.jsonl
expect 5 - "$command" diff 4.jsonl slow4.jsonl --fail-over 0.1 --json
jq -e '.failed and .fail_over_share == 0.1 and (.slower | map(.name) | index("matmul") != null) and
       (.gpu_operations | map(select(.name == "matmul"))[0] | .change_share > 0.19 and .change_share < 0.21 and
        .significant and .p < 0.001)' out.txt >/dev/null || fail "JSON: $(head -c 1000 out.txt)"
# Counted by jq: the mean of a kernel before and after.
for side in before after; do
  file=4.jsonl
  [ $side = before ] || file=slow4.jsonl
  mean=$(jq -n 'reduce (inputs | select(.type == "kernel" and .name == "matmul")) as $k ([0, 0]; [.[0] + $k.dur_ns, .[1] + 1]) | .[0] / .[1]' $file)
  jq -e --arg side $side --argjson mean "$mean" '.gpu_operations[] | select(.name == "matmul") | .[$side].mean_ns - $mean | . > -0.01 and . < 0.01' \
    out.txt >/dev/null || fail "the mean $side is not $mean"
done

head -c 100000 1.jsonl >cut.jsonl
expect 125 'cut.jsonl is incomplete (no end' "$command" diff cut.jsonl slow4.jsonl --fail-over 0%
expect 4 'no footer' "$command" diff cut.jsonl slow4.jsonl --fail-over 0% --allow-incomplete
"$command" cut 2.jsonl -o part.jsonl --stage decode >/dev/null 2>&1
expect 125 'part.jsonl is incomplete (all but stage decode was cut off): a comparison' "$command" diff 1.jsonl part.jsonl
expect 125 'slow4.jsonl: none of the ' "$command" diff slow4.jsonl 4.jsonl --stage decod --fail-over 0%
expect 125 'the trace has stages decode' "$command" diff 4.jsonl slow4.jsonl --stage decod --fail-over 0%
expect 125 'the trace has times from 0' "$command" diff 4.jsonl slow4.jsonl --from 1000s --fail-over 0%
expect 5 - "$command" diff 4.jsonl slow4.jsonl --stage decode --fail-over 5%
expect 125 'nothing to compare' "$command" diff
expect 125 'is the file that is read' "$command" diff 1.jsonl 2.jsonl --json=1.jsonl
expect 125 'compares two files' "$command" diff 1.jsonl
expect 125 'compares two files' "$command" diff 1.jsonl 2.jsonl 3.jsonl
expect 125 'not both' "$command" diff 1.jsonl 2.jsonl --before 3.jsonl
expect 125 'nothing to compare' "$command" diff --before 1.jsonl
ln -sf 1.jsonl same.jsonl
expect 125 'is given twice' "$command" diff --before 1.jsonl 2.jsonl same.jsonl --after slow4.jsonl
expect 125 'is no share' "$command" diff 1.jsonl 2.jsonl --fail-over much
expect 125 '5 is 500 %; write 5% or 0.05' "$command" diff 1.jsonl 2.jsonl --fail-over 5
expect 125 '1 is 100 %; write 1% or 0.01' "$command" diff 1.jsonl 2.jsonl --fail-over 1
expect 0 - "$command" diff 1.jsonl 1.jsonl --fail-over 100%
expect 125 'No such file' "$command" diff 1.jsonl missing.jsonl
exit $failed
