#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench/gpu/run on the stand-in driver: every part that can run there comes to its end with a figure in each row, and what
# fails is named, with what it said. Figures mean nothing here and are not looked at.
#
#   standin_test.sh BUILD_FOLDER       with the stand-in libraries on LD_LIBRARY_PATH
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
complain() { echo "FAILED: $*"; failed=1; }
has() { grep -q -E -- "$2" "$work/$1" || complain "$1 has no line like: $2"; }
lacks() { grep -E -- "$2" "$work/$1" && complain "$1 has a line like: $2"; }
expect() { # <exit status> <output> <command...>
  local wanted=$1 to=$2 status
  shift 2
  "$@" >"$work/$to" 2>&1
  status=$?
  [ $status -eq "$wanted" ] || { complain "exit status $status, not $wanted, of: $*"; tail -n 30 "$work/$to"; }
}
number='[0-9]+(\.[0-9]+)?'
interval="\\[[-+0-9.]+, [-+0-9.]+\\]"

# A profiler that passes on what it is given, and ends badly afterwards, as one that cannot write its report.
cat >"$work/nsys" <<'SCRIPT'
#!/bin/bash
while [ "$1" != -o ]; do shift; done
shift 2
"$@"
echo cannot make a report
exit 3
SCRIPT
chmod +x "$work/nsys"

# A substitute for CUDA's runtime: the real libcudart does not run on the stand-in driver.
export CUDART=$build/bench/gpu/libfake_cudart.so
export ROUNDS=2 LIMIT=0 SHORTEN=50 REQUESTS=24 NSYS=$work/nsys PYTHONDONTWRITEBYTECODE=1
expect 0 parts "$here/run" --no-build "$build" launch runtime graphs instances engine sampling tokens
for row in kernels callbacks twin cutrace twin-graph cutrace-graph twin-memory cutrace-memory nsys; do
  has parts "^$row +($number [-+]$number $interval +){4}$"
done
for row in kernels-graph nsys-graph; do has parts "^$row +($number [-+]$number $interval *){4}$"; done
has parts '^(cutrace-runtime is left out: the backend of this build does not know CUTRACE_KINDS=\+runtime|cutrace-runtime .*\])'
has parts "^twin +$number x$number $interval +$number x$number $interval"
for row in whole mixed; do has parts "^$row +($number [-+]$number $interval *){2}$"; done
has parts '^launch, cutrace / kernels \+ callbacks .* of 2 pairs  budget 1.15  (pass|fail|unresolved)'
has parts '^1000 nodes: cutrace by node / raw records .* budget 1.03 '
has parts '^graph, cutrace whole / untraced .* budget >= 0.98 '
has parts '^records of kernels and graphs, seen of expected: kernels [0-9]+ of [0-9]+;.* cutrace-graph [0-9]+ of [0-9]+;'
has parts '^traced once more with a report, cutrace eager: *[0-9,]+ delivered, nothing lost'
# A whole replay is one record, not one a node.
seen_by() { grep -o " $1 [0-9]* of" "$build/results/graphs.txt" | grep -o '[0-9]\+'; }
for row in kernels-graph twin-graph cutrace-graph; do
  [ "$(seen_by $row)" -lt $(($(seen_by kernels) / 2)) ] || complain "$row saw $(seen_by $row) records, not whole graphs"
done
has parts "^waited for: speed, one in 100 by node, of none's .* of 2 pairs  budget >= 0.97 "
for row in raw cutrace cutrace-sync nsys; do has parts "^$row +$number [-+]$number $interval"; done
has parts '^token, cutrace / Nsight Systems .* of 2 pairs  budget 0.95 '
has parts "^ 5  250 13, $number +([-+][0-9.]+ \[[-+0-9., ]+\] *){4,5}$"
PAIRS=2 expect 0 engine "$here/run" --no-build "$build" engine-turns
has engine "^an engine's token: 252 launches, 13 copies, 13 waits; traced by raw CUPTI .* [0-9]+ waits a second"
has engine '^token, cutrace / raw CUPTI, callbacks .* of 2 pairs  budget 1.03 '
has engine '^launch, event: \+sync / without .* of 2 pairs$'
# Each state of sampling mode has its row and its verdicts.
for row in 'raw off' 'sampled between' 'both off' 'both between' 'sampled cycle' 'raw on' 'sampled inside' 'both on' \
           'both inside' always; do
  has parts "^$row +($number [-+]$number $interval *){3}$"
done
for what in 'launch' 'launch, four threads' 'replay'; do
  has parts "^$what: between / raw off  .* of 2 pairs  budget 1.01 "
  [ "$what" = replay ] || has parts "^$what: between / raw off, neighbours  .* of 2 pairs  budget 1.01 "
  has parts "^$what: inside / raw on  .* of 2 pairs  budget 1\.[01]"
  has parts "^$what: cycle / untraced  .* of 2 pairs$"
done
# Exactly what ran in windows is recorded, and nothing of what ran between them.
has parts ': both ([0-9]+) of \1; raw ([0-9]+) of \2; sampled ([0-9]+) of \3; always ([0-9]+) of \4;$'
# Nsight Systems may end badly once it has measured; that is said, with its last words.
has parts '^nsys was measured, and then ended badly, in round 1$'
has parts '^    \| cannot make a report$'
lacks parts 'FAILED|MISSING|MORE|LOST|NO |NOT |did not end well| says: '

# The script decode.py runs on a stand-in for PyTorch, too. That calls no CUDA, so that no tracer is loaded: this must
# be reported as well.
if command -v python3 >/dev/null; then
  PYTHONPATH=$here/../../tests/support/fake_torch expect 1 decode "$here/run" --no-build "$build" decode decode-others python
  has decode "^cutrace +$number x$number $interval +$number x$number $interval"
  has decode "^kineto +$number +$number"
  for row in twin-graph cutrace-graph nsys-graph kineto; do has decode "^$row +$number x$number $interval +$number x"; done
  for client in twin cutrace; do has decode "^turns $client +$number x$number $interval +$number x"; done
  has decode '^eager, cutrace / twin, in one process .* of 2 pairs  budget >= 0.98 '
  has decode ' twin 0 \(IT DID NOT TRACE\)'
  has decode ' turns 0 \(IT DID NOT TRACE\)'
  has decode '^traced once more with a report, cutrace: NO REPORT, it did not trace'
  lacks decode 'FAILED'
  PAIRS=2 PYTHONPATH=$here/../../tests/support/fake_torch expect 0 flushing "$here/run" --no-build "$build" flushing
  for what in 'step of an engine' 'replay of a graph'; do
    for period in 5 100; do has flushing "^$what, each $period ms .* of 2 pairs  budget 1.0[01]  (pass|fail|unresolved)"; done
  done
  has flushing "^eager decoder, each 50 ms: $number us a token, of each 1000 ms $number $interval of 2 rounds"
  PYTHONPATH=$here/../../tests/support/fake_torch expect 1 kineto "$here/run" --no-build "$build" kineto
  has kineto "^kineto +($number [-+]$number $interval +){4}$"
  has kineto ' kineto 2 of [0-9]+ \(MISSING\)'  # the profiler of the stand-in sees one kernel a run
  expect 1 no_torch env PYTHONPATH="$work" "$here/run" --no-build "$build" decode
  has no_torch '^== decode: not measured, PyTorch with CUDA is not installed'
fi

# No CUPTI: the untraced program is measured, the raw client fails and says why, cutrace goes on and says so.
expect 1 no_cupti env CUTRACE_CUPTI_LIBRARY=/nonexistent/libcupti.so "$build/bench/gpu/launch_cost" \
  --rounds 2 --shorten 50 --only none,twin,cutrace
has no_cupti '^twin FAILED in round 1'
has no_cupti 'exit status 2: .*launch_cost --child twin'
has no_cupti '    \| raw CUPTI: CUTRACE_CUPTI_LIBRARY cannot be opened: /nonexistent'
has no_cupti '^twin +- .*FAILED in 1 of 2$'
has no_cupti "^none +$number +$number +$number +$number"
has no_cupti '^cutrace says: .*no GPU time'
has no_cupti 'cutrace 0 \(IT DID NOT TRACE\) of [0-9]+ \(MISSING\)'

# The raw client as an injection library: all of a program, and one window at its begin.
records() { # <RAW_CUPTI_WINDOW>: of kernels, that the client saw
  env CUDA_INJECTION64_PATH="$build/bench/gpu/libraw_twin.so" RAW_CUPTI_WINDOW="$1" \
    "$build/bench/gpu/launch_cost" --child none --shorten 5 2>&1 >/dev/null | sed -n 's/^records \([0-9]*\) 0 0$/\1/p'
}
all=$(records '') window=$(records 1/0)
[ "${all:-0}" -gt 1000 ] && [ "${window:-$all}" -lt $((all / 2)) ] ||
  complain "the raw client saw ${all:-no} kernels, and ${window:-no} in a window of 1 ms"

# Clients in processes that take turns: each has its variables, and only its own; one that ends badly is named.
turns() { python3 "$here/process_turns.py" --seconds 0 --slice 5 --skip 1 --ready ready "$@"; }
program='import os, time
print("ready", end="", flush=True)
for _ in range(1000):
    time.sleep(0.001), print("x", end="", flush=True)
raise SystemExit(int(os.environ.get("STATUS", "0")))'
expect 0 turns turns --client raw --client 'other:STATUS=0' -- python3 -c "$program"
has turns '^1 rounds$'
has turns '^raw +[0-9.]+ ms a step, of raw 1\.0000 \[1\.0000, 1\.0000\]$'
has turns '^other +[0-9.]+ ms a step, of raw [0-9.]+ \[[0-9.]+, [0-9.]+\]$'
expect 1 bad_turns turns --client raw --client 'bad:STATUS=3' -- python3 -c "$program"
has bad_turns '^bad: exit status 3'
lacks bad_turns '^raw'

# A wrapper that measures nothing, a row that does not exist, a library that does not.
expect 1 false "$build/bench/gpu/graph_cost" --rounds 1 --shorten 50 --only none,nsys --nsys "$(command -v false)"
has false '^nsys FAILED in round 1$'
has false '^    exit status 1: false profile'
has false '^nsys +- .*FAILED in 1 of 1$'
# One that measures and then hangs costs a round its time, once.
# shellcheck disable=SC2016  # that is for the script
printf '#!/bin/bash\nwhile [ "$1" != -o ]; do shift; done; shift 2; "$@"; sleep 1000\n' >"$work/hanging"
chmod +x "$work/hanging"
expect 0 hangs "$build/bench/gpu/graph_cost" --rounds 2 --child-limit 2 --shorten 50 --only none,nsys --nsys "$work/hanging"
has hangs '^    took longer than it may: .*/hanging'
has hangs '^nsys +([0-9.]+ [-+][0-9.]+ .*){4}$'
expect 1 signal "$build/bench/gpu/launch_cost" --rounds 2 --shorten 50 --only none --kineto "bash -c 'echo tried; kill -SEGV \$\$'"
has signal '^kineto FAILED in round 1'
has signal '^    killed by signal 11: bash'
has signal '^    \| tried'
expect 1 runtime "$build/bench/gpu/launch_cost" --rounds 1 --shorten 50 --only none --runtime /nonexistent/libcudart.so
has runtime '^none FAILED in round 1$'
has runtime '^    \| /nonexistent/libcudart.so: cannot open'
expect 2 row "$build/bench/gpu/graph_cost" --only none,nothing
has row 'there is no configuration nothing'
expect 2 library "$build/bench/gpu/token_rate" --server true --twin /nonexistent/libraw_twin.so
has library "names no library: '/nonexistent"

[ $failed -eq 0 ] && echo "every part ended, every failure was named"
exit $failed
