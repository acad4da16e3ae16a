#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Flags of a project with which the compiled library cannot be linked: configuring says so in one line, and the program
# compiles the runtime from the headers. The program is built and run with the last of these flags.
# fallback.sh <cmake> <project> <build folder> <prefix> <configure arguments...>
set -u
cmake=$1 project=$2 build=$3 prefix=$4
shift 4
rm -rf "$build"
unset CMAKE_PREFIX_PATH cutrace_DIR cutrace_ROOT CUTRACE CUTRACE_SINKS CUTRACE_BACKEND
common=(-DCMAKE_PREFIX_PATH="$prefix" "$@")
failed=0

form() { # <form> <reason or nothing> <configure arguments...>: configures twice, since CMake caches answers
  local text lines
  for _ in first again; do
    text=$("$cmake" -S "$project" -B "$build" "${common[@]}" "${@:3}" 2>&1) ||
      { printf 'FAILED: %s\n%s\n' "${*:3}" "$text"; failed=1; return; }
    grep -q "form: $1" <<<"$text" || { printf 'FAILED: not %s with %s:\n%s\n' "$1" "${*:3}" "$text"; failed=1; }
    lines=$(grep -c 'cutrace::cutrace is compiled with this project' <<<"$text")
    if [ -n "$2" ]; then
      [ "$lines" -eq 1 ] && grep -qE -- "-- cutrace: libcutrace.a $2" <<<"$text" ||
        { printf 'FAILED: no line that says "%s" with %s:\n%s\n' "$2" "${*:3}" "$text"; failed=1; }
    elif [ "$lines" -ne 0 ]; then
      printf 'FAILED: falls back with %s:\n%s\n' "${*:3}" "$text"
      failed=1
    fi
  done
}
form STATIC_LIBRARY "" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS=-O0
form INTERFACE_LIBRARY "is compiled for libstdcxx and no sanitizer" -DCMAKE_CXX_FLAGS=-D_GLIBCXX_USE_CXX11_ABI=0
form INTERFACE_LIBRARY "is compiled for" -DCMAKE_CXX_FLAGS= -DFOLDER_OPTIONS=-D_GLIBCXX_DEBUG
form INTERFACE_LIBRARY "has no -fsanitize=thread" -DFOLDER_OPTIONS= -DCMAKE_CXX_FLAGS_DEBUG=-fsanitize=thread
# The flags of Debug, set above, do not count in Release.
form STATIC_LIBRARY "" -DCMAKE_BUILD_TYPE=Release
form INTERFACE_LIBRARY "has no -fsanitize=address" -DCMAKE_CXX_FLAGS="-O0 -fsanitize=address"
"$cmake" --build "$build" || exit 1
said=$("$build/consumer" 2>/dev/null) || { echo "FAILED: with AddressSanitizer: status $?: $said"; failed=1; }
grep -q 'accepted: .*sim' <<<"$said" || { echo "FAILED: no backend sim: $said"; failed=1; }
exit $failed
