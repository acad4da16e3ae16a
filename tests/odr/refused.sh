#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Each misuse of refused.cpp must fail to compile, for the reason that is expected here; the control must compile.
# refused.sh <compiler> <standard> <source folder>
set -u
compiler=$1 standard=$2 source=$3
failed=0

try() { "$compiler" -std=c++"$standard" -fsyntax-only -I"$source/include" -DCASE="$1" "$source/tests/odr/refused.cpp" 2>&1; }

refused() { # <case> <pattern of the message> <what>
  local messages
  if messages=$(try "$1"); then
    echo "FAILED: accepted: $3"
    failed=1
  elif ! grep -qE "$2" <<<"$messages"; then
    printf 'FAILED: refused for another reason: %s\n%s\n' "$3" "$messages"
    failed=1
  fi
}

if ! messages=$(try 0); then
  printf 'FAILED: the control does not compile\n%s\n' "$messages"
  failed=1
fi
literal="expected|string"
deleted="deleted"
refused 1 "$literal" "a stage whose name is not a literal"
refused 2 "$literal" "a mark whose name is not a literal"
refused 3 "$literal" "a batch stage whose name is not a literal"
refused 4 "$deleted" "copying a stage"
refused 5 "$deleted" "moving a stage"
refused 6 "$deleted" "a stage on the heap"
refused 7 "$deleted" "copying a span"
refused 8 "$deleted" "an adopted stage on the heap"
refused 9 "64-bit integer ids" "a batch of 32-bit ids"
refused 10 "$deleted" "copying a session"
exit $failed
