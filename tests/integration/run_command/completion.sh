#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The scripts that `cutrace completion` prints: the shells read them, and bash completes with them.
#   completion.sh <cutrace>
set -u
command=$1 failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
mkdir folder && touch file.txt

"$command" completion bash >bash.sh || { echo "FAILED: no script for bash"; exit 1; }
bash -n bash.sh || { echo "FAILED: bash does not read its script"; exit 1; }
# shellcheck disable=SC1091
source ./bash.sh
complete -p cutrace >/dev/null || { echo "FAILED: nothing is registered"; failed=1; }

expect() { # <expected words> <words of the line...>: the last word is completed
  local expected=$1 got
  shift
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
  _cutrace
  got=$(printf '%s\n' "${COMPREPLY[@]}" | sort | tr '\n' ' ')
  if [ "${got% }" = "$expected" ]; then echo "ok: $*"; else echo "FAILED: $*: got '${got% }', not '$expected'"; failed=1; fi
}
expect "report run" cutrace r
expect "--help --verbose --version" cutrace --
expect "--sink --start-after --strict" cutrace run --s
expect "graph node" cutrace run --graphs ""
expect "off on" cutrace run --quiet --nvtx o
expect "folder" cutrace run --out fo
expect "" cutrace run --name x
expect "file.txt" cutrace run -- true fil
expect "file.txt" cutrace run --quiet -- cat --sink fil
expect "bash" cutrace completion b
expect "file.txt" cutrace convert fil
expect "file.txt" cutrace convert file.txt -o fil
expect "--stage" cutrace cut file.txt --st
expect "" cutrace cut --stage x
expect "--json" cutrace report file.txt --js
expect "--before" cutrace diff --bef
expect "file.txt" cutrace bpf --library fil
expect "file.txt" cutrace merge file.txt -o fil
expect "file.txt" cutrace diff fil
expect "file.txt" cutrace report --json fil
expect "file.txt" cutrace report --html fil
expect "file.txt" cutrace diff --before fil
touch 'two words.jsonl' && mkdir 'two folders'
expect "two folders two words.jsonl" cutrace report two
expect "two words.jsonl" cutrace convert file.txt -o "two w"
expect "two words.jsonl" cutrace run -- true "two w"
expect "two folders" cutrace run --out two
COMP_WORDS=(cutrace run -- tru) COMP_CWORD=3 COMPREPLY=()
_cutrace
printf '%s\n' "${COMPREPLY[@]}" | grep -qx true || { echo "FAILED: programs behind --"; failed=1; }

# Every option of the help, in each shell's script.
for shell in bash zsh fish; do
  "$command" completion $shell >script || { echo "FAILED: no script for $shell"; failed=1; }
  for option in $("$command" run --help | grep -oE '^  (-h,)?--[a-z-]+' | grep -oE -- '--[a-z-]+'); do
    grep -qE -- "$option\b|-l ${option#--}\b" script || { echo "FAILED: $option is missing for $shell"; failed=1; }
  done
  if [ $shell != bash ]; then
    if command -v $shell >/dev/null; then
      $shell -n script || { echo "FAILED: $shell does not read its script"; failed=1; }
    else
      echo "skipped: there is no $shell here to read its script"
    fi
  fi
done
exit $failed
