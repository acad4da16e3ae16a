#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The time that cutrace adds to the first build of a program: the target is 3 s; the test fails above 8 s, since a busy
# machine takes longer. (Headers alone take half a minute.)
# first_build.sh <cmake> <project> <build folder> <prefix> <configure arguments...>
set -u
cmake=$1 project=$2 build=$3 prefix=$4
shift 4
seconds() { # <folder> <configure arguments...>: of building alone, in ms
  rm -rf "$build/$1"
  "$cmake" -S "$project" -B "$build/$1" -DCMAKE_BUILD_TYPE=Release "${@:2}" >"$build/$1.log" 2>&1 || { cat "$build/$1.log" >&2; return 1; }
  local begin end
  begin=$(date +%s%N)
  "$cmake" --build "$build/$1" >>"$build/$1.log" 2>&1 || { cat "$build/$1.log" >&2; return 1; }
  end=$(date +%s%N)
  echo $(((end - begin) / 1000000))
}
mkdir -p "$build"
unset CMAKE_PREFIX_PATH cutrace_DIR cutrace_ROOT
without=$(seconds without -DWITH_CUTRACE=OFF "$@") && with=$(seconds with -DCMAKE_PREFIX_PATH="$prefix" "$@") || exit 1
echo "first build: $without ms without cutrace, $with ms with it"
CUTRACE_SINKS=null CUTRACE_BACKEND=none "$build/with/consumer" || exit 1
[ $((with - without)) -le 8000 ] || { echo "FAILED: more than 8 s for cutrace"; exit 1; }
