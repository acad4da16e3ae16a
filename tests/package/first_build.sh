#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The time of a processor that cutrace adds to the first build of a program: 3 s at most. A busy machine may double it,
# where the time that passes has no bound. (Headers alone take half a minute.)
# first_build.sh <cmake> <project> <build folder> <prefix> <configure arguments...>
set -u
cmake=$1 project=$2 build=$3 prefix=$4
shift 4
export LC_ALL=C TIMEFORMAT='%U %S'
used() { # <folder> <configure arguments...>: by building alone, in ms
  rm -rf "$build/$1"
  "$cmake" -S "$project" -B "$build/$1" -DCMAKE_BUILD_TYPE=Release "${@:2}" >"$build/$1.log" 2>&1 || { cat "$build/$1.log" >&2; return 1; }
  local seconds
  seconds=$({ time "$cmake" --build "$build/$1" >>"$build/$1.log" 2>&1; } 2>&1) ||
    { cat "$build/$1.log" >&2; return 1; }
  awk '{ print int(($1 + $2) * 1000) }' <<<"$seconds"
}
mkdir -p "$build"
unset CMAKE_PREFIX_PATH cutrace_DIR cutrace_ROOT
without=$(used without -DWITH_CUTRACE=OFF "$@") && with=$(used with -DCMAKE_PREFIX_PATH="$prefix" "$@") || exit 1
echo "first build: $without ms without cutrace, $with ms with it"
CUTRACE_SINKS=null CUTRACE_BACKEND=none "$build/with/consumer" || exit 1
[ $((with - without)) -le 3000 ] || { echo "FAILED: more than 3 s for cutrace"; exit 1; }
