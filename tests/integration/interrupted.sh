#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Commands that are interrupted, or fail, while they write leave nothing of theirs behind, and what was there before
# stays.
#
#   interrupted.sh CUTRACE INFERENCE_SERVER
set -um
command=$1 server=$2
. "$(dirname "$0")/command_test.sh"

CUTRACE=1 CUTRACE_BACKEND=none CUTRACE_SINKS=jsonl:t.jsonl "$server" --device sim --requests 60 >server.txt 2>&1 ||
  { cat server.txt; exit 1; }
mkfifo input

# Whoever runs this may ignore some of the signals (nohup does, and shells for what runs in the background), and a
# command leaves those alone that are ignored when it begins. The process stays the same.
by_default() { exec env --default-signal=INT,TERM,HUP "$@"; }

# One that reads as much of its input as there is, and waits for more; interrupted once it has opened its file.
interrupt() { # <signal> <file that it opens> <arguments of convert...>
  local signal=$1 file=$2 pid status
  by_default "$command" convert - "${@:3}" <input >out.txt 2>err.txt &
  pid=$!
  exec 9>input
  head -n -1 t.jsonl >&9
  for _ in $(seq 100); do [ -e "$file" ] && break; sleep 0.05; done
  [ -e "$file" ] || fail "convert ${*:3} has not opened $file: $(cat err.txt)"
  kill "-$signal" $pid
  wait $pid
  status=$?
  exec 9>&-
  [ $status -eq $((128 + $(kill -l "$signal"))) ] || fail "convert ${*:3} ends with $status after SIG$signal"
}

mkdir made
for signal in INT TERM HUP; do
  interrupt $signal made/a.jsonl -o made/a.jsonl
  interrupt $signal made/a.json.tmp -o made/a.json
  interrupt $signal made/a.jsonl.gz -o made/a.jsonl.gz
  [ -z "$(ls -A made)" ] || { fail "SIG$signal leaves $(ls -A made)"; rm -rf made/*; }
done

# What would have been replaced is as it was, and so is what others opened.
echo mine >made/a.json
interrupt INT made/a.json.tmp -o made/a.json
[ "$(ls -A made) $(cat made/a.json)" = 'a.json mine' ] || fail "the former file: $(ls -A made) $(cat made/a.json)"
by_default "$command" convert - -o jsonl:- <input >made/redirected.jsonl 2>err.txt &
pid=$!
exec 9>input
head -n -1 t.jsonl >&9
sleep 1
kill -INT $pid
wait $pid
exec 9>&-
[ -e made/redirected.jsonl ] || fail 'the file that standard output was redirected to is gone'

# Nor does one that fails: the second file turns out to be of another trace when the first has been written.
rm -f made/*
sed '1s/"pid":[0-9]*/"pid":4194000/' t.jsonl >other.jsonl
echo mine >made/c.json
for output in a.jsonl a.jsonl.gz c.json; do
  expect 125 'different traces' "$command" convert t.jsonl other.jsonl -o made/$output
  expect 125 'different traces' "$command" cut t.jsonl other.jsonl --from 1ms -o made/$output
  [ "$(ls -A made) $(cat made/c.json)" = 'c.json mine' ] || { fail "a failure leaves $(ls -A made)"; rm -f made/a.*; }
done
"$command" convert t.jsonl other.jsonl -o jsonl:- >made/redirected.jsonl 2>err.txt
[ -e made/redirected.jsonl ] || fail 'the file that standard output was redirected to is gone behind a failure'

# Where nothing interrupts it, it ends as usual.
expect 0 - "$command" convert t.jsonl -o made/b.jsonl
cmp t.jsonl made/b.jsonl || fail 'convert differs'
exit $failed
