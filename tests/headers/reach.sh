#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Proves from the compiler's own dependency list that the light headers reach nothing heavy.
# reach.sh <compiler> <source folder>
set -u
compiler=$1 source=$2
failed=0

reached() { echo "#include <cutrace/$1>" | "$compiler" -std=c++17 -I"$source/include" -M -x c++ - | grep -oE '[^ ]*/[^ ]+'; }

heavy='cutrace/(sink|backend|runtime)\.hpp|cutrace/(base|collect|run|output|sinks|analysis|cupti|sim)/|/boost/|/fmt/|/cuda|/cupti|<?iostream|/x86intrin|/(string|vector|map|functional|thread|mutex)$'
must_not_reach() {  # <header> <pattern>
  local list
  list=$(reached "$1")
  if ! grep -q "cutrace/$1$" <<<"$list"; then
    echo "$1: the dependency list does not even name the header itself"
    failed=1
  fi
  if grep -E "$2" <<<"$list"; then
    echo "FAILED: $1 reaches the files above"
    failed=1
  fi
}

must_not_reach stage.hpp "$heavy|cutrace/session\.hpp|cutrace/event\.hpp|cutrace/stats\.hpp"
must_not_reach mark.hpp "$heavy|cutrace/session\.hpp"
must_not_reach context.hpp "$heavy|cutrace/session\.hpp"
must_not_reach cutrace.hpp "$heavy"

# Controls: the patterns do find what they are meant to find.
reached cutrace.hpp | grep -qE 'cutrace/session\.hpp' || { echo "control failed: cutrace.hpp without session.hpp"; failed=1; }
reached sink.hpp | grep -qE "$heavy" || { echo "control failed: sink.hpp is not seen as heavy"; failed=1; }

# With CUTRACE_DISABLE a translation unit gets nothing from stage.hpp but the macros and the request type.
if echo '#include <cutrace/stage.hpp>' | "$compiler" -std=c++17 -DCUTRACE_DISABLE -I"$source/include" -M -x c++ - |
  grep -oE '[^ ]*/[^ ]+' | grep -E 'marker/(slot|table|thread|record|stage_write)\.hpp|/atomic$'; then
  echo "FAILED: with CUTRACE_DISABLE stage.hpp still includes headers that record"
  failed=1
fi
exit $failed
