#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# With CUTRACE_DISABLE a function full of markers compiles to the assembly of the same function without any, and the
# object holds no cutrace symbol and no note.
# disabled.sh <compiler> <standard> <source folder> <nm>
set -u
compiler=$1 standard=$2 source=$3 nm=$4
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

build() { "$compiler" -std=c++"$standard" -I"$source/include" "$source/tests/codegen/work.cpp" "$@"; }
# Without the file's and the compiler's names, and without comments.
text() { grep -vE '^[[:space:]]*(\.file|\.ident|#)' "$1" | sed -E 's/\.L(FB|FE)[0-9]+/.L\1/g'; }

for level in -O1 -O2 -Os; do
  build "$level" -S -o "$out/bare.s" || exit 1
  build "$level" -S -DMARKERS -DCUTRACE_DISABLE -o "$out/disabled.s" || exit 1
  build "$level" -S -DMARKERS -o "$out/enabled.s" || exit 1
  if cmp -s <(text "$out/bare.s") <(text "$out/enabled.s"); then
    echo "control failed: enabled markers make no difference at $level"
    exit 1
  fi
  if ! diff <(text "$out/bare.s") <(text "$out/disabled.s"); then
    echo "FAILED: disabled markers leave code behind at $level"
    exit 1
  fi
done

for level in -O0 -O2; do
  build "$level" -c -DMARKERS -DCUTRACE_DISABLE -o "$out/disabled.o" || exit 1
  build "$level" -c -DMARKERS -o "$out/enabled.o" || exit 1
  if ! "$nm" "$out/enabled.o" | grep -q cutrace; then
    echo "control failed: an enabled object without cutrace symbols"
    exit 1
  fi
  if "$nm" "$out/disabled.o" | grep cutrace || grep -a 'note.cutrace' "$out/disabled.o"; then
    echo "FAILED: the disabled object still holds the above at $level"
    exit 1
  fi
done
