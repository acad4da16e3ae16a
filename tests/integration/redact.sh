#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `cutrace convert --redact`: nothing that identifies somebody is in the bytes of any format, and reports are the same
# but for these names. And traces that have no command line from the beginning.
#
#   redact.sh CUTRACE INFERENCE_SERVER PYTHON
set -u
command=$1 server=$2 python=$3
here=$(cd "$(dirname "$0")" && pwd)
. "$here/command_test.sh"

run() { # <sinks> <environment...>
  env CUTRACE=1 CUTRACE_BACKEND=none CUTRACE_SINKS="$1" "${@:2}" "$server" --device sim --workers 3 --arrival-us 200 \
    >server.txt 2>&1 || { cat server.txt; exit 1; }
}
run jsonl:t.jsonl
# Even the file's name is a secret: complaints quote it.
input=s3cr3t-input.jsonl
"$python" "$here/redact.py" --plant t.jsonl >$input || fail "no secrets"

formats='jsonl json pftrace html calls.txt txt prom jsonl.gz json.gz pftrace.gz calls.txt.gz'
"$command" convert t.jsonl -o try.pftrace >/dev/null 2>&1 || formats=${formats//pftrace*( |.gz)/}
all=()
for format in $formats; do
  expect 4 - "$command" convert $input -o "plain.$format"
  expect 4 - "$command" convert $input --redact -o "less.$format"
  all+=("less.$format")
  # The search must find secrets in each format that is not redacted; only the report and metrics may hold none.
  case $format in
    prom | txt) ;;
    *) "$python" "$here/redact.py" --search $input "plain.$format" >/dev/null && fail "nothing is found in plain.$format" ;;
  esac
done
for sink in 'jsonl:paired.jsonl?form=paired' 'perfetto:arguments.pftrace?arguments=yes'; do
  file=${sink#*:} file=${file%%\?*}
  [[ $file == *.pftrace && $formats != *pftrace* ]] && continue
  expect 4 - "$command" convert $input --redact -o "$sink"
  all+=("$file")
done
# Nor does a file hold the folder that it is written into, which may be a user's or a customer's.
mkdir s3cr3t-folder
for format in $formats; do
  expect 4 - "$command" convert $input --redact -o "$PWD/s3cr3t-folder/less.$format"
  all+=("s3cr3t-folder/less.$format")
done
"$python" "$here/redact.py" --search $input "${all[@]}" || fail "secrets are left"

# Of a merged trace: the names and hosts of all of its processes, in their notes, too.
for n in 1 2; do
  printf '{"v":1,"type":"header","schema":"cutrace","pid":%s,"process":"s3cr3t-%s","host":"s3cr3t-host-%s","rank":%s,%s}\n' \
    $n $n $n $n '"clocks":{"trace_ns":0,"realtime_ns":1790000000000000000,"monotonic_ns":1000}'
  printf '{"v":1,"type":"footer","notes":["s3cr3t-%s was started on s3cr3t-host-%s"]}\n' $n $n
done | split -l 2 --additional-suffix=.jsonl - merge-
expect 0 - "$command" merge merge-a?.jsonl -o merged.jsonl
expect 0 - "$command" convert merged.jsonl --redact -o less-merged.jsonl
grep -q 's3cr3t-2 was started on s3cr3t-host-2' merged.jsonl || fail "nothing to be found: $(cat merged.jsonl)"
grep -q s3cr3t less-merged.jsonl && fail "secrets of a merged trace: $(grep s3cr3t less-merged.jsonl)"

# What is redacted is a whole trace, and says the same.
"$command" report $input --json=plain.json >/dev/null 2>&1
"$command" report less.jsonl --json=less.json >/dev/null 2>&1
"$python" "$here/redact.py" --compare plain.json less.json || fail "another report"
for other in less.json.gz less.pftrace; do
  [ -e $other ] || continue
  "$command" report $other --json=other.json >/dev/null 2>&1
  [ "$(jq -c '[.trace.events, .numbers]' other.json)" = "$(jq -c '[.trace.events, .numbers]' less.json)" ] ||
    fail "$other has other numbers: $(jq -c .numbers other.json) $(jq -c .numbers less.json)"
done
[ "$("$command" why less.jsonl --slowest 1 | wc -w)" -eq "$("$command" why $input --slowest 1 2>/dev/null | wc -w)" ] ||
  fail "why says something else"

# From the beginning.
for off in 0 off; do
  run 'jsonl:off.jsonl,chrome:off.json' CUTRACE_COMMAND_LINE=$off
  grep -q -e --arrival-us off.jsonl off.json && fail "the command line is in the trace with CUTRACE_COMMAND_LINE=$off"
  [ "$(head -n 1 off.jsonl | jq -r .command_line)" = "" ] || fail "no empty command line"
done
grep -q -e --arrival-us t.jsonl || fail "it is in no trace"
run jsonl:none.jsonl CUTRACE_COMMAND_LINE=perhaps
grep -q 'CUTRACE_COMMAND_LINE="perhaps" cannot be used' server.txt || fail "a value that means nothing: $(cat server.txt)"
exit $failed
