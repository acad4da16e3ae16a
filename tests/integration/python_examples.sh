#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The Python examples as far as they go without PyTorch and without a GPU: on tests/support/fake_torch, whose tensors have
# shapes and no values. What they print, the phases that they mark, and what they say where something is missing.
#
#   python_examples.sh SOURCE_FOLDER
set -u
examples=$1/examples/python fake=$1/tests/support/fake_torch
command -v python3 >/dev/null || { echo "skipped: no python3 here"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PYTHONDONTWRITEBYTECODE=1
unset PYTHONPATH
failed=0
complain() { echo "FAILED: $*"; failed=1; }
run() { # <exit status> <example> <arguments...>: output and errors to $work/out and $work/err
  local wanted=$1 example=$2
  shift 2
  PYTHONPATH=${path-$fake} FAKE_TORCH_SHOW=1 python3 "$examples/$example.py" "$@" >"$work/out" 2>"$work/err"
  local status=$?
  [ $status -eq "$wanted" ] || { complain "$example $*: exit status $status, not $wanted"; cat "$work/out" "$work/err"; }
}
has() { grep -qE -- "$2" "$work/$1" || { complain "no line like: $2"; cat "$work/$1"; }; }
times() { # <count> <what the fake shows>
  local seen
  seen=$(grep -c "^fake torch: $2\$" "$work/err")
  [ "$seen" -eq "$1" ] || complain "$2: $seen times, not $1"
}
number='[0-9]+\.[0-9]+' digest='^digest     [0-9a-f]{64}$'

run 0 simple_inference --batches 20 --batch-size 8 --warm-up 3
has out '^model      4 hidden layers of 1024, 3,962,890 parameters, on '
has out "^latency    mean $number ms, p50 $number ms, p99 $number ms; 20 batches of 8$"
has out '^throughput [0-9]+ samples/s$'
has out "$digest"
times 1 'range load' && times 1 'range warm-up' && times 20 'range batch'
cp "$work/out" "$work/first"
run 0 simple_inference --batches 20 --batch-size 8 --warm-up 1
cmp -s <(grep ^digest "$work/first") <(grep ^digest "$work/out") || complain "another digest of the same batches"
run 0 simple_inference --batches 21 --batch-size 8
cmp -s <(grep ^digest "$work/first") <(grep ^digest "$work/out") && complain "the digest does not depend on the number of batches"

run 0 transformer_inference --tokens 5 --repeat 2
has out '^model      124,439,808 parameters, 12 layers, float16, on '  # the number that GPT-2 has
has out "^prefill    $number ms for 128 tokens$"
has out "^decode     $number tokens/s eager; mean $number ms, p50 $number ms, p99 $number ms a token; 8 tokens$"
has out "$digest"
times 1 'range load' && times 1 'range warm-up' && times 2 'range prefill' && times 8 'range decode' && times 0 replay
run 0 transformer_inference --tokens 5 --repeat 2 --graphs
has out 'tokens/s by CUDA graph;'
times 1 capture && times 11 replay  # 3 while warming up
run 0 transformer_inference --device cpu --layers 2 --vocabulary 1000 --tokens 3
has out ' parameters, 2 layers, float32, on CPU$'
times 0 'range .*'

# Helpers of tests/gpu/run_command: profiled.py counts kernels, check_command.py compares the counts with a trace.
gpu=$1/tests/gpu
(cd "$work" && PYTHONPATH=$fake python3 "$gpu/profiled.py" counted.json "$examples/simple_inference.py" --batches 2) >"$work/out" 2>&1 ||
  { complain "profiled.py failed"; cat "$work/out"; }
has out "$digest"
[ "$(cat "$work/counted.json")" = '{"kernels": 1, "names": {"empty": 1}}' ] || complain "counted $(cat "$work/counted.json")"
PYTHONPATH=$fake python3 "$gpu/prefill_agrees.py" >"$work/out" 2>&1 || { complain "prefill_agrees.py failed"; cat "$work/out"; }
has out '^5 of 5 prompts'  # the fake's tokens are all 0: this checks only that the script runs
mkdir "$work/trace"
cat >"$work/trace/t.jsonl" <<'JSON'
{"type":"kernel","name":"empty","dur_ns":5,"stage":"batch","attribution":"by_call"}
{"type":"stage","name":"batch","dur_ns":9}
{"type":"stage","name":"idle","dur_ns":9}
{"type":"footer","lost_total":0}
JSON
compare() { # <exit status> <last line> <options...>
  local wanted=$1 last=$2 status
  shift 2
  python3 "$gpu/check_command.py" "$@" "$work/trace" >"$work/out" 2>&1
  status=$?
  [ $status -eq "$wanted" ] && [ "$(tail -n 1 "$work/out")" = "$last" ] ||
    { complain "check_command.py $*: exit status $status"; cat "$work/out"; }
}
compare 0 '1 kernels, 0 whole graphs, 2 stages, as they must be' --kernels "$work/counted.json" --stage batch=1 --stage idle=1:0
compare 1 'stages batch: 1, not 2' --stage batch=2
compare 1 'no GPU time in stages idle' --stage idle=1
compare 1 'replays of graphs: 0, not 1' --graphs 1
echo '{"kernels": 2, "names": {"other": 2}}' >"$work/counted.json"
compare 1 'kernels: 1, not 2' --kernels "$work/counted.json"
has out '^  0 here, 2 there: other$'
sed -i -e 's/"lost_total":0/"lost_total":3/' -e 's/by_call/expired/' "$work/trace/t.jsonl"
compare 1 'lost events: 3, not 0; GPU work without a known call'
sed -i '$d' "$work/trace/t.jsonl"
compare 1 'files without a footer: 1, not 0; GPU work without a known call'

# What cannot run says so in one line, and exits as a skipped test (77) or with the status of a wrong argument (2).
run 2 transformer_inference --device cpu --graphs
run 2 transformer_inference --prompt 1000 --tokens 25
has err 'prompt and tokens are 1025, the KV cache has --context 1024$'
run 2 transformer_inference --width 100
run 2 transformer_inference --tokens 1
run 2 simple_inference --batches 0
export FAKE_TORCH_NO_GPU=1
for example in simple_inference transformer_inference; do
  run 77 $example
  has err 'PyTorch sees no GPU here: --device cpu runs without one$'
  run 0 $example --device cpu
done
unset FAKE_TORCH_NO_GPU
missing() { python3 -c "import $1" 2>/dev/null && { echo "$1 is installed here: its absence was not tried"; return 1; }; }
mkdir "$work/nothing"
path=$work/nothing
missing torch && for example in simple_inference transformer_inference; do
  run 77 $example
  has err 'PyTorch is not installed for this Python'
  run 0 $example --help
done
missing jax && run 77 jax_inference && has err 'JAX is not installed'
missing cupy && run 77 cupy_inference && has err 'CuPy is not installed'

[ $failed -eq 0 ] && echo "the examples run, and say what they lack"
exit $failed
