#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What people in a hurry type wrong, a line each: the message names what is wrong, its remedy says what to do, and the
# exit status is the one that is documented. Mistakes in the environment of a traced program never change what it prints
# and how it ends.
#
#   mistakes.sh CUTRACE TRACED_PROGRAM
set -u
command=$1 program=$2
. "$(dirname "$0")/../command_test.sh"
unset CUTRACE CUTRACE_SINKS CUTRACE_BACKEND RANK

CUTRACE_BACKEND=none CUTRACE_SINKS='jsonl:t.jsonl,chrome:c.json,jsonl:z.jsonl.gz' "$program" >plain.txt 2>err.txt ||
  { cat err.txt; exit 1; }
: >empty.jsonl
: >text.txt
echo '[]' >nothing.json
echo 'this is no trace' >notes.md
head -c 400 t.jsonl >torn.jsonl
head -c 300 z.jsonl.gz >torn.jsonl.gz
mkdir folder
printf 'echo hello\n' >script.sh
printf '#!/nowhere/python9\nprint(1)\n' >python9.py
chmod +x python9.py
printf '#!/bin/sh\nexit 0\n' >here
chmod +x here

count=0
# mistake STATUS MESSAGE REMEDY WORDS...: what is said on stderr has both, in few lines, and speaks as cutrace.
mistake() {
  local status=$1 message=$2 remedy=$3 got
  shift 3
  count=$((count + 1))
  timeout 20 "$@" >"${stdout:-out.txt}" 2>err.txt
  got=$?
  [ "$got" = "$status" ] || fail "$*: status $got, not $status: $(head -c 600 err.txt)"
  grep -qF -- "$message" err.txt || fail "$*: no \"$message\" in: $(head -c 600 err.txt)"
  grep -qF -- "$remedy" err.txt || fail "$*: no \"$remedy\" in: $(head -c 600 err.txt)"
  head -n 1 err.txt | grep -q '^cutrace: ' || fail "$*: begins with $(head -n 1 err.txt)"
}
# traced MESSAGE REMEDY VARIABLE=VALUE...: of the program, whose output and status stay.
traced() {
  local message=$1 remedy=$2
  shift 2
  mistake 0 "$message" "$remedy" env CUTRACE_BACKEND=none "$@" "$program"
  cmp -s out.txt plain.txt || fail "$*: the program prints something else: $(diff out.txt plain.txt | head -n 3)"
}
# Commands and options.
mistake 125 'no command is given' 'cutrace --help' "$command"
mistake 125 'no command "reprot"' 'did you mean report?' "$command" reprot t.jsonl
mistake 125 'no command "trace"' 'there are run, attach' "$command" trace ./program
mistake 125 'no option --tops' 'did you mean --top?' "$command" report t.jsonl --tops 3
mistake 125 'cutrace run has no option --sinks' 'did you mean --sink?' "$command" run --sinks ascii "$program"
mistake 125 'no option --verbos' 'cutrace report --help' "$command" report --verbos t.jsonl
mistake 125 '--top: ' 'cutrace report --help' "$command" report t.jsonl --top many
mistake 125 '--percentile: nan' 'cutrace why --help' "$command" why t.jsonl --percentile nan
mistake 125 '--timeout: -nan' 'cutrace explain --help' "$command" explain $$ --timeout -nan
# "$UNSET" is neither a zero nor an option that was not given.
for option in '--from' '--to' '--device'; do
  mistake 125 "$option: " 'is empty' "$command" report t.jsonl $option ''
done
mistake 125 '--fail-over: ' 'is empty' "$command" diff t.jsonl t.jsonl --fail-over ''
for option in '--start-after' '--duration'; do
  mistake 125 "$option: " 'is empty' "$command" run $option '' "$program"
done
mistake 125 '--duration: ' 'is empty' "$command" attach $$ --duration ''
mistake 125 'cupty not in' 'cupti' "$command" run --method cupty "$program"
mistake 125 'tcsh not in' 'bash' "$command" completion tcsh
# What is missing is called what the help calls it.
for words in report convert cut merge why; do
  mistake 125 "cutrace $words needs FILE..." "cutrace $words --help says" "$command" $words
done
mistake 125 'cutrace explain needs PID' 'cutrace explain --help' "$command" explain
mistake 125 'cutrace completion needs bash|zsh|fish' 'cutrace completion --help' "$command" completion
mistake 125 'needs --output OUTPUT' 'cutrace convert --help' "$command" convert t.jsonl
mistake 125 '--timeout needs a value' 'cutrace explain --help' "$command" explain $$ --timeout
mistake 125 '--top is given more than once' 'cutrace report --help' "$command" report t.jsonl --top 3 --top 4
mistake 125 '--output is given more than once' 'cutrace convert --help' "$command" convert t.jsonl -o a.json -o b.json
for word in trainer 0 12x; do
  mistake 125 "\"$word\" is no number of a process" 'cutrace explain --help' "$command" explain $word
done

# Files that are read.
mistake 125 'cannot read "t.json"' 'No such file' "$command" report t.json
for words in 'diff torn.jsonl' 'report torn.jsonl' 'merge -o m.jsonl torn.jsonl' 'convert -o x.jsonl torn.jsonl'; do
  # shellcheck disable=SC2086
  mistake 125 'cannot read "typo.jsonl"' 'No such file' "$command" $words typo.jsonl
  ! grep -q torn.jsonl err.txt || fail "$words: read in vain: $(head -c 600 err.txt)"
done
mistake 125 'cannot read "folder"' 'name the files in it' "$command" report folder
mistake 125 '"empty.jsonl" is empty' 'may have ended before its trace began' "$command" report empty.jsonl
mistake 125 '"notes.md" is no trace' 'cutrace reads its JSONL' "$command" report notes.md
mistake 4 'the last line is cut' 'the trace was cut short' "$command" report torn.jsonl
mistake 4 'torn.jsonl.gz' 'cut' "$command" report torn.jsonl.gz
mistake 125 'are of the same process' 'a file given twice' "$command" merge t.jsonl t.jsonl -o m.jsonl
mistake 125 '"./t.jsonl" is given twice' 'each of its events would count twice' "$command" report t.jsonl ./t.jsonl
mistake 125 '"c.json" is given twice' 'each of its events would count twice' "$command" convert c.json c.json -o x.jsonl
mistake 125 'two traces or more' 'each of a process' "$command" merge t.jsonl -o m.jsonl
mistake 125 'compares two files' '--before and --after' "$command" diff t.jsonl

# Files that are written.
mistake 125 'No such file or directory' 'the directory must exist' "$command" convert t.jsonl -o missing/t.json
mistake 125 "no sink's name before a colon" '.pftrace' "$command" convert t.jsonl -o t.csv
mistake 125 'jsnl:x' 'did you mean jsonl:x?' "$command" convert t.jsonl -o jsnl:x
mistake 125 'is a directory' 'name a file in it' "$command" convert t.jsonl -o chrome:folder
mistake 125 'is the file that is read' 'choose another name' "$command" convert t.jsonl -o t.jsonl
mistake 125 '"html" compresses nothing' 'leave .gz out' "$command" convert t.jsonl -o t.html.gz
mistake 125 'not compressed' 'leave .gz out' "$command" report t.jsonl --json=t.json.gz
mistake 125 'the page'"'"'s name' 'ends in .html' "$command" report t.jsonl --html t.jsonl
mistake 125 'the page'"'"'s name' 'ends in .html' "$command" report t.jsonl --html t.htm
mistake 125 'text.txt is a file' 'give a folder' "$command" report t.jsonl --csv text.txt
mistake 125 '--csv -' 'give a folder' "$command" report t.jsonl --csv -
for option in '--csv' '--html'; do
  mistake 125 "$option: " 'is empty' "$command" report t.jsonl $option ''
done
mistake 125 '--html: ' 'is empty' "$command" why t.jsonl --html ''
# Before the trace is read: it has a complaint, which is not what is said.
for words in 'report torn.jsonl --json=' 'report torn.jsonl --html ' 'why torn.jsonl --json=' 'diff torn.jsonl t.jsonl --json='; do
  # shellcheck disable=SC2086
  mistake 125 'there is no folder missing' 'mkdir -p' "$command" ${words}missing/t.html
  ! grep -q torn.jsonl err.txt || fail "$words: $(head -c 600 err.txt)"
done
mistake 125 'text.txt is a file and no folder' '--json=text.txt' "$command" report t.jsonl --json=text.txt/r.json
if [ "$(id -u)" != 0 ]; then
  mkdir -m 0 locked
  mistake 125 'locked/in cannot be entered' 'Permission denied' "$command" report t.jsonl --json=locked/in/r.json
  chmod 700 locked
fi
mistake 125 '--json=folder is a directory' 'name a file in it' "$command" report t.jsonl --json=folder
for words in 'report t.jsonl' 'report --json t.jsonl' 'why t.jsonl' 'diff t.jsonl t.jsonl' 'convert t.jsonl -o jsonl:-' \
  'doctor' 'completion bash' '--help' 'run --help' '--version'; do
  # shellcheck disable=SC2086
  stdout=/dev/full mistake 125 'standard output' 'No space left' "$command" $words
done

# What is asked for.
mistake 125 'none of the' 'the trace has stages decode, prefill' "$command" report t.jsonl --stage prefil
mistake 125 'none of the' 'the trace has stages decode, prefill' "$command" report t.jsonl --stage prefil --json=none.json --html none.html --csv none
[ -z "$(find . -name 'none*')" ] && [ ! -s out.txt ] || fail "a report of nothing left $(find . -name 'none*') $(head -c 300 out.txt)"
mistake 125 'none of the' 'the trace has stages decode, prefill' "$command" report t.jsonl --stage prefil --json
[ ! -s out.txt ] || fail "a report of nothing on standard output: $(head -c 300 out.txt)"
mistake 125 'none of the' 'the trace has requests 42, 43' "$command" report t.jsonl --request 44
mistake 125 'none of the' 'the trace has no devices' "$command" cut t.jsonl -o x.jsonl --device 7
mistake 125 'none of the' 'the trace has no events' "$command" report nothing.json --from 1s
mistake 125 'none of the' 'the trace has times from 0' "$command" report t.jsonl --from 90s
mistake 125 '--from 10 is no time' 'write it as 1.5s' "$command" cut t.jsonl -o x.jsonl --from 10
mistake 125 '--from 2s is not before --to 1s' '--from' "$command" cut t.jsonl -o x.jsonl --from 2s --to 1s
mistake 125 'nothing says what to cut out' 'give --from' "$command" cut t.jsonl -o x.jsonl
mistake 125 'no request 44' 'among its 2' "$command" why t.jsonl --request 44
mistake 125 '--fail-over much is no share' '5%' "$command" diff t.jsonl t.jsonl --fail-over much

# Programs that are started.
mistake 125 'no program' 'cutrace run [options] PROGRAM' "$command" run
mistake 127 'ghost: No such file' 'not found along PATH' "$command" run ghost
mistake 127 'here: No such file' 'is started as ./here' "$command" run here
mistake 126 './script.sh: Permission denied' 'chmod +x' "$command" run ./script.sh
mistake 127 './python9.py is a script for ' '/nowhere/python9: No such file' "$command" run ./python9.py
mistake 126 './folder: Permission denied' 'name a program in it' "$command" run ./folder
mistake 125 'cannot create the output folder text.txt' 'Not a directory' "$command" run --out text.txt "$program"
mistake 125 '--name="a/b"' '--out names the folder' "$command" run --name a/b "$program"
mistake 125 '--duration="5"' '"10s"' "$command" run --duration 5 "$program"
mistake 125 '--start-after="soon"' '"10s"' "$command" run --start-after soon "$program"
mistake 125 'unknown sink "prefetto"' 'did you mean "perfetto"?' "$command" run --sink prefetto "$program"
mistake 125 'unknown sink "t.jsonl"' 'as in jsonl:FILE' "$command" run --sink t.jsonl "$program"
mistake 125 '"ascii;jsonl"' 'separated by commas' "$command" run --sink 'ascii;jsonl' "$program"
mistake 125 'standard output is another sink' 'give this one a file' "$command" run --sink calls:- --sink jsonl:- "$program"
mistake 125 'there is no folder' 'mkdir -p' "$command" run --sink jsonl:missing/t.jsonl "$program"
mistake 125 'is a directory' 'name a file in it' "$command" run --sink jsonl:folder "$program"
mistake 125 '--kernel' 'give --method ebpf' "$command" run --kernel "$program"
mistake 0 'nothing was traced' 'used CUDA' "$command" run true
mistake 0 'CUTRACE_KIND' 'did you mean CUTRACE_KINDS?' env CUTRACE_KIND=kernel "$command" run true
if "$command" attach 4194304 2>&1 | grep -q 'this build of cutrace lacks it'; then
  mistake 125 '--method ebpf' 'build it again' "$command" attach 4194304
else
  mistake 125 'there is no process 4194304' '4194304' "$command" attach 4194304
fi

# The environment of a program.
traced 'CUTRACE_SINK' 'did you mean CUTRACE_SINKS?' CUTRACE_SINK=ascii
traced 'unknown sink "prefetto"' 'the other sinks work without it' CUTRACE_SINKS='jsonl:a.jsonl,prefetto:x'
[ -s a.jsonl ] || fail 'the other sink did not work'
traced '"ascii;jsonl"' 'separated by commas' CUTRACE_SINKS='ascii;jsonl'
traced 'missing/t.jsonl' 'the directory must exist' CUTRACE_SINKS='jsonl:missing/t.jsonl'
traced 'is being written by another sink' '%p (process id)' CUTRACE_SINKS='jsonl:b.jsonl,calls:b.jsonl'
traced 'CUTRACE_MEMORY_LIMIT="lots"' 'from 1M to 64G' CUTRACE_SINKS=jsonl:b.jsonl CUTRACE_MEMORY_LIMIT=lots
traced 'CUTRACE_DURATION="5"' '"10s"' CUTRACE_SINKS=jsonl:b.jsonl CUTRACE_DURATION=5
traced 'CUTRACE_BACKEND="cuda"' 'accepted: auto' CUTRACE_SINKS=jsonl:b.jsonl CUTRACE_BACKEND=cuda
traced '"html:t.html.gz"' 'leave .gz out' CUTRACE_SINKS=html:t.html.gz

if "$command" run --quiet --method preload true >/dev/null 2>&1; then  # where this build has that method
  expect 0 - env CUTRACE_GPU_EVENTS=maybe "$command" run --method preload --sink ascii "$program"
  tr -s ' \n' ' ' <err.txt | grep -qF 'CUTRACE_GPU_EVENTS="maybe" cannot be used' || fail "no word of CUTRACE_GPU_EVENTS: $(cat err.txt)"
fi

# None of these is a mistake.
expect 0 - "$command" run --quiet sh -c 'test "$*" = "-la -- x"' sh -la -- x
expect 0 - "$command" run --quiet -- sh -c 'exit 0'
for file in t.jsonl c.json; do
  { printf '\xef\xbb\xbf' && cat "$file"; } >"marked.$file"
  expect 0 - "$command" report "marked.$file"
  [ -s err.txt ] && fail "marked.$file: $(cat err.txt)"
done

# Names in brackets, as TensorRT has them, are names and no lists.
sed 's/"decode"/"[decode, 1]"/g' t.jsonl >brackets.jsonl
expect 0 - "$command" report brackets.jsonl --stage '[decode, 1]'
expect 0 - "$command" report brackets.jsonl --decode-stage '[decode, 1]'
expect 125 'no request [a, b]' "$command" why t.jsonl --request '[a, b]'

# Behind -- stands what begins with - and is no option.
cp t.jsonl ./-odd.jsonl
expect 0 - "$command" report -- -odd.jsonl
grep -q 'GPU' out.txt || fail "no report of -odd.jsonl: $(head -c 300 out.txt)"
expect 125 'cannot read "missing.jsonl"' "$command" convert -o null t.jsonl -- missing.jsonl
"$command" doctor -- ls -l >out.txt 2>err.txt
grep -q 'program .*/ls$' out.txt || fail "doctor does not look at ls: $(cat err.txt)"

expect 0 - "$command" --version --verbose
grep -q 'reading of trace files' out.txt || fail "no word of what this build has: $(cat out.txt)"

[ "$count" -ge 50 ] || fail "only $count mistakes"
[ -z "$(find . -name '*.tmp' -o -name '.cutrace-run-*')" ] || fail "left behind: $(find . -name '*.tmp' -o -name '.cutrace-run-*')"
echo "$count mistakes"
exit $failed
