#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs whose cause of idle time, or of a slow request, is known: the finding, and `cutrace why`, name the right cause,
# stage and line, in text, JSON and HTML alike.
#
#   planted_truths.sh CUTRACE PLANTED_TRUTHS PYTHON [RECORDINGS]
#
# RECORDINGS: a folder for new copies of the two traces of tests/data that this script makes: preempted needs the right
# to load BPF programs, other_process needs a GPU.
set -u
command=$1 programs=$2 python=$3 recordings=${4:-}
root=$(cd "$(dirname "$0")/../../.." && pwd)
. "$(dirname "$0")/../command_test.sh"

trace() { # <name>: leaves t.jsonl and lines.txt
  CUTRACE=1 CUTRACE_BACKEND=cupti CUTRACE_SINKS=jsonl:t.jsonl "$programs" "$1" >lines.txt 2>errors.txt ||
    { fail "$1 ended with $?: $(cat errors.txt)"; return 1; }
}
line_of() { sed -n "s/^line $1 //p" lines.txt | tail -n 1; }
flat() { tr -s ' \n' ' ' <"$1"; }

keep() { # <trace> <name>: as a recording without a machine's paths
  [ -z "$recordings" ] || sed "s|$root/|/src/|g" "$1" | gzip -9n >"$recordings/$2.jsonl.gz"
}
truths=0
# Another program may take the processor for longer than the planted cause lasts, and is then rightly named as cause: a
# check that fails is repeated on up to two more recordings.
steadily() { # <command...>
  local before=$failed attempt
  truths=$((truths + 1))
  for attempt in 1 2 3; do
    failed=0
    "$@" >"said.$attempt.txt" 2>&1
    [ $failed -eq 0 ] && break
  done
  if [ $failed -eq 0 ]; then failed=$before; else cat said.?.txt; fi
}

idle() { steadily idle_once "$@"; }
idle_once() { # <program> <kind of the first finding> <stage, or -> [words of its sentence...]
  local name=$1 kind=$2 stage=$3 site what
  shift 3
  trace "$name" || return
  "$command" report t.jsonl --json=r.json --html r.html 2>report.err || fail "$name: $(cat report.err)"
  "$command" report t.jsonl --width 160 >r.txt 2>&1
  [ "$stage" = - ] && stage= site= || site=planted_truths.cpp:$(line_of "$stage")
  jq -e --arg kind "^($kind)\$" --arg stage "$stage" --arg site "$site" \
    '.findings[0] | (.kind | test($kind)) and .stage == $stage and (.site | endswith($site)) and ($site != "" or .site == "")' r.json >/dev/null ||
    fail "$name: not $kind in \"$stage\" at $site: $(jq -c '[.findings[] | [.kind, .stage, .site]]' r.json) $(sed -n '/^answer/,/^STAGES/p' r.txt)"
  # The table of causes (idle_blames) blames the same stage as the first finding.
  [ "$kind" != host_bound ] || jq -e --arg stage "$stage" \
    '([.idle_blames[] | select(.cause == "host_wait")][0].stage == $stage)' r.json >/dev/null ||
    fail "$name: the table of causes blames $(jq -c '.idle_blames[0]' r.json)"
  what=$(jq -r '.findings[0].what' r.json)
  grep -qF "$(printf %s "$what" | cut -c1-60)" <(flat r.txt) || fail "$name: the text lacks \"$what\""
  "$python" - r.html "$what" <<'END' || fail "$name: the page lacks \"$what\""
import json, re, sys
page = json.loads(re.search(r'id="data">(.*?)</script>', open(sys.argv[1], encoding="utf-8").read(), re.S)[1])
sys.exit(page["findings"][0][1] != sys.argv[2])
END
  for word in "$@"; do
    case $what in *"$word"*) ;; *) fail "$name: \"$what\" lacks \"$word\"" ;; esac
  done
}
idle other_stage host_bound prepare_batch 'before it launches in "decode"'
idle same_stage host_bound decode
idle nested_stage host_bound tokenize 'before it launches in "decode"'
idle outer_stage host_bound step 'before it launches in "decode"'
idle many_short host_bound pack
idle adopted_stage host_bound serve
idle other_thread host_bound - 'outside of any stage' 'Meanwhile, in the longest: "detokenize" on thread'
idle lock host_bound acquire 'Meanwhile, in the longest: "checkpoint" on thread'
idle span host_bound - 'outside of any stage' '"queue_wait" (a span)'
idle synchronising synchronisation decode cuStreamSynchronize
idle blocking_copies blocking_copies decode cuMemcpyDtoH
# The driver fills its staging buffer within the call; how much of that overlaps with the device's copy differs.
idle pageable_copies 'pageable_copies|host_bound' load

why() { steadily why_once "$@"; }
why_once() { # <program> <part> [words of its sentence...]
  trace "$1" && why_of t.jsonl "$@"
}
why_of() { # <trace> <program> <part> [words of its sentence...]
  local file=$1 name=$2 part=$3 what
  shift 3
  "$command" why "$file" --request 13 --request 12 --json=r.json --html r.html 2>report.err || fail "$name: $(cat report.err)"
  "$command" why "$file" --request 13 --width 160 >r.txt 2>&1 || fail "$name: $(cat r.txt)"
  jq -e --arg part "^($part)\$" '.requests[0] | .request == "13" and (.causes[0].part | test($part)) and .causes[0].unusual' r.json >/dev/null ||
    fail "$name: not $part of request 13: $(cat r.txt)"
  what=$(jq -r '.requests[0].causes[0].what' r.json)
  jq -e '.requests[] | ([.causes[].ns] | add) == .latency_ns' r.json >/dev/null || fail "$name: parts do not add up"
  grep -qF "$(printf %s "$what" | cut -c1-60)" <(flat r.txt) || fail "$name: the text lacks \"$what\""
  "$python" -c 'import html, sys; sys.exit(sys.argv[2] not in html.unescape(open(sys.argv[1], encoding="utf-8").read()))' r.html "$what" ||
    fail "$name: the page lacks \"$what\""
  for word in "$@"; do
    case $what in *"$word"*) ;; *) fail "$name: \"$what\" lacks \"$word\"" ;; esac
  done
  true
}
why slow_queue span 'It waited in "queue_wait"'
why slow_code own_code '"prefill" ' "planted_truths.cpp:$(line_of prefill)"
why slow_kernel gpu_alone '"spin of stage prefill"'
why slow_hole between '"checkpoint" for' 'on thread'
why slow_prefill behind_others '"prefill_long"' 'of request 7777'
why slow_allocation allocation '"cuMem' 'of stage prefill"'
why slow_preempted own_code '"prefill" ' "planted_truths.cpp:$(line_of prefill)"
preempted=(own_code '"prefill" ' planted_truths.cpp: 'Its threads were switched out for')
steadily why_of "$root/tests/data/preempted.jsonl.gz" 'preempted, recorded' "${preempted[@]}"
if [ "$("$command" doctor --json 2>/dev/null | jq -r '[.methods[] | select(.name == "ebpf" or .name == "cupti").works] == [true, true]' 2>/dev/null)" = true ]; then
  probed() {
    "$command" run --method all --quiet --sink jsonl:all.jsonl -- "$programs" slow_preempted >lines.txt 2>errors.txt ||
      fail "slow_preempted: $(cat errors.txt)"
    why_of all.jsonl slow_preempted "${preempted[@]}"
  }
  steadily probed
  keep all.jsonl preempted
fi
other=(behind_others '"training of process' 'planted_truths.cpp:')
steadily why_of "$root/tests/data/other_process.jsonl.gz" 'another process, recorded' "${other[@]}"
if trace slow_other_process && ! grep -q '^stand-in' lines.txt; then
  shared() {
    trace slow_other_process || return
    "$command" merge t.jsonl other.jsonl -o all.jsonl 2>errors.txt || fail "merge: $(cat errors.txt)"
    why_of all.jsonl slow_other_process "${other[@]}"
  }
  steadily shared
  keep all.jsonl other_process
fi
why slow_copy 'copy|launching' pageable 'of stage prefill'  # the driver copies through a buffer within the call

# Options of `cutrace why`, and mistakes in using them.
"$command" why t.jsonl >r.txt || fail "without an option: $(cat r.txt)"
slowest=$("$command" why t.jsonl --slowest 80 --json | jq -r '.requests | max_by(.latency_ns).request')
grep -q "^request $slowest took" r.txt || fail "without an option it is not the slowest, $slowest: $(head -n 2 r.txt)"
"$command" why t.jsonl --percentile 50 --json | jq -e '.requests[0].rank > 1' >/dev/null || fail "--percentile"
{
  echo '{"v":1,"type":"header","ts_ns":0,"dur_ns":0,"schema":"cutrace"}'
  for i in $(seq 1000); do  # request i takes i us
    echo '{"v":1,"type":"stage","ts_ns":0,"dur_ns":'$i'000,"name":"s","pid":1,"tid":1,"stage":"s","stage_id":'$i',"requests":['$i']}'
  done
  echo '{"v":1,"type":"footer","ts_ns":1000000,"dur_ns":0,"lines":1001}'
} >thousand.jsonl
for percentile in 7 55 99.9 100; do
  found=$("$command" why thousand.jsonl --percentile $percentile --json | jq -r '.requests[0].request')
  [ "$(jq -n "$found == ($percentile * 10 | round)")" = true ] || fail "--percentile $percentile of 1000 is request $found"
done
expect 125 'has no request 99999' "$command" why t.jsonl --request 99999
expect 125 'has no request 99999' "$command" why t.jsonl --request 99999 --request 13
grep -q '^request 13 took' out.txt || fail "the request that exists is left out"
grep -v '"requests"' t.jsonl >none.jsonl
expect 125 'names no request' "$command" why none.jsonl
head -n -1 t.jsonl >cut.jsonl
expect 4 'the trace is INCOMPLETE (no end' "$command" why cut.jsonl
expect 125 'ends in .html' "$command" why t.jsonl --html page
expect 125 '' "$command" why t.jsonl --percentile 101
"$command" convert t.jsonl -o t.pftrace 2>/dev/null && {
  "$command" why t.pftrace --request 13 --json | jq -e '.requests[0] | .request == "13" and (.causes[0].part | test("^(copy|launching)$"))' >/dev/null ||
    fail "of a Perfetto file: $("$command" why t.pftrace)"
}
echo "$truths planted truths, and what else a user asks: $([ $failed -eq 0 ] && echo all as they are || echo "see FAILED above")"
exit $failed
