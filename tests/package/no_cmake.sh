#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A program without CMake: one source file includes the runtime with all sinks, a second one that does so, too, harms
# nothing. Without any, or without the sinks, the linker says what is missing.
# no_cmake.sh <compiler> <prefix> <folder of the program> <libraries...>
set -u
compiler=$1 prefix=$2 program=$3
shift 3
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
failed=0
compile() { "$compiler" -std=c++17 -O0 -I"$prefix/include" -c "$1" -o "$2" || exit 1; }

echo '#include <cutrace/runtime.hpp>' >"$out/runtime.cpp"
{ echo '#define CUTRACE_RUNTIME_WITHOUT_SINKS'; cat "$out/runtime.cpp"; } >"$out/bare.cpp"
for name in runtime bare; do compile "$out/$name.cpp" "$out/$name.o"; done
for name in main part; do compile "$program/$name.cpp" "$out/$name.o"; done
cp "$out/runtime.o" "$out/again.o"

"$compiler" "$out"/{main,part,runtime,again}.o "$@" -ldl -pthread -o "$out/program" && "$out/program" || failed=1
refused() { # <pattern> <objects...>
  local text
  if text=$("$compiler" "${@:2}" "${libraries[@]}" -ldl -pthread -o "$out/refused" 2>&1); then
    echo "FAILED: linked without what /$1/ names"
    failed=1
  elif ! grep -q "$1" <<<"$text"; then
    printf 'FAILED: the linker does not say /%s/:\n%s\n' "$1" "$text"
    failed=1
  fi
}
libraries=("$@")
refused 'session::session' "$out"/{main,part}.o
refused 'make_ascii_sink' "$out"/{main,part,bare}.o
exit $failed
