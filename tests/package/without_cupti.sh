#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A build without headers of CUDA, used where there are some, from where it is installed and from its own folder: the
# backend, with its table of CUDA functions, is compiled in the user's project.
# without_cupti.sh <cmake> <source folder> <project> <build folder> <configure arguments...>
set -u
cmake=$1 source=$2 project=$3 build=$4
shift 4
rm -rf "$build"
unset CMAKE_PREFIX_PATH cutrace_DIR cutrace_ROOT CUTRACE CUTRACE_SINKS CUTRACE_BACKEND
"$cmake" -S "$source" -B "$build/cutrace" -DCUTRACE_CUPTI=OFF -DCUTRACE_BUILD_TESTS=OFF -DCUTRACE_BUILD_EXAMPLES=OFF \
  -DCUTRACE_BUILD_TOOLS=OFF -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0 "$@" &&
  "$cmake" --build "$build/cutrace" && "$cmake" --install "$build/cutrace" --prefix "$build/prefix" >/dev/null || exit 1
if find "$build/prefix" -name 'libcutrace_cupti.a' -o -name cuda_functions.hpp | grep .; then
  echo "FAILED: the control: this installation has the backend"
  exit 1
fi
for where in -DCMAKE_PREFIX_PATH="$build/prefix" -Dcutrace_DIR="$build/cutrace"; do
  rm -rf "$build/user"
  "$cmake" -S "$project" -B "$build/user" "$where" -DCMAKE_CXX_FLAGS=-O0 "$@" &&
    "$cmake" --build "$build/user" || { echo "FAILED: with $where"; exit 1; }
  said=$("$build/user/consumer" 2>/dev/null) || { echo "FAILED: with $where: status $?: $said"; exit 1; }
  echo "$said"
  grep -q 'accepted: .*cupti' <<<"$said" || { echo "FAILED: with $where: no backend cupti"; exit 1; }
done
