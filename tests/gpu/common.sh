# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# What the scripts of this folder share, to be sourced: arguments, the build, the programs of tests/integration, a table.
#
#   SCRIPT [BUILD_FOLDER] [RESULT_FOLDER]
#
# A driver and CUPTI that CUTRACE_CUPTI_LIBRARY names (the stand-in's, with its folder in LD_LIBRARY_PATH) will do, too.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=${1:-/tmp/cutrace-gpu-build}
out=${2:-/tmp/cutrace-gpu-results}
mkdir -p "$build" "$out" && build=$(cd "$build" && pwd) && out=$(cd "$out" && pwd) || exit 1
# A node in /dev may be there without a driver behind it.
if [ -z "${CUTRACE_CUPTI_LIBRARY:-}" ] && ! [ -e /proc/driver/nvidia/version ] && ! ldconfig -p | grep -q 'libcuda\.so\.1'; then
  echo "no NVIDIA driver here: nothing to test"
  exit 77
fi

table=() failed=0
note() { # <what> <how it went>; what begins with FAILED makes the script fail
  table+=("$(printf '%-58s %s' "$1" "$2")")
  echo "== $1: $2"
  [[ $2 != FAILED* ]] || failed=1
}
print_table() {
  echo
  printf '%s\n' "${table[@]}"
}

build_targets() { # <option or target...>: all targets where none is named
  local options=() targets=() word started=$SECONDS
  for word in "$@"; do if [[ $word == -D* ]]; then options+=("$word"); else targets+=("$word"); fi; done
  if cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DCUTRACE_WERROR=OFF -DCUTRACE_BUILD_TESTS=OFF "${options[@]}" \
       >"$out/build.log" 2>&1 &&
     timeout 450 cmake --build "$build" -j "$(nproc)" ${targets[0]:+--target "${targets[@]}"} >>"$out/build.log" 2>&1; then
    note build "ok, $((SECONDS - started)) s"
  else
    tail -n 60 "$out/build.log"
    note build "FAILED after $((SECONDS - started)) s"
    print_table
    exit 1
  fi
  cuda_include=$(grep -m1 CUPTI_INCLUDE_DIR: "$build/CMakeCache.txt" | cut -d= -f2)
}

# The program that compares a JSONL trace of the inference server with what the server counted itself.
build_check_trace() {
  g++ -std=c++17 -O1 "$root/tests/support/check_trace.cpp" -o "$build/check_trace" || note check_trace "FAILED: does not build"
}

compile() { # <output> <source or option...>
  g++ -std=c++17 -O2 -DFMT_HEADER_ONLY -I"$build/include" -I"$root/include" -I"$root/backends/cupti/include" \
    -I"$build/backends/cupti/include" -I"$cuda_include" -o "$@" -pthread -ldl
}
# <name...>: programs of tests/integration, or of a folder of their name, in parallel, with the runtime compiled once.
build_programs() {
  local name waiting=() started=$SECONDS
  printf '#include <cutrace/runtime.hpp>\n#include <cutrace/cupti/register.hpp>\n' >"$build/runtime.cpp"
  compile "$build/runtime.o" -c "$build/runtime.cpp" >"$out/runtime.log" 2>&1 &
  waiting+=($!)
  for name in "$@"; do
    local source=$root/tests/integration/$name.cpp
    [ -e "$source" ] || source=$root/tests/$name/$name.cpp
    compile "$build/$name.o" -c "$source" >"$out/$name.log" 2>&1 &
    waiting+=($!)
  done
  wait "${waiting[@]}"
  for name in "$@"; do
    rm -f "$build/$name"
    compile "$build/$name" "$build/$name.o" "$build/runtime.o" >>"$out/$name.log" 2>&1 ||
      { cat "$out/runtime.log" "$out/$name.log"; note "$name" "FAILED: does not build"; }
  done
  echo "== programs built in $((SECONDS - started)) s"
}

# <program> <limit in s> <argument...>: one that prints a line for each scenario, "ok" or "FAIL".
scenarios() {
  local program=$1 limit=$2 what="$1${3:+ ${*:3}}" said
  shift 2
  [ -x "$build/$program" ] || return
  said=$out/${what// /.}.txt
  timeout -k 5 "$limit" stdbuf -oL "$build/$program" "$@" 2>&1 | tee "$said"
  local status=${PIPESTATUS[0]}
  case $status in
    0) note "$what" "$(grep -c '^ok' "$said") of $(grep -cE '^(ok|FAIL)' "$said") scenarios" ;;
    77) note "$what" "$(grep -m1 '^skipped' "$said")" ;;
    *) note "$what" "FAILED: exit $status, $(grep -c '^ok' "$said") of $(grep -cE '^(ok|FAIL)' "$said") scenarios" ;;
  esac
}

# <what> <limit in s> <output> <command...>: one that says how it went in its last line.
verdict() {
  local what=$1 limit=$2 said=$3 status
  shift 3
  timeout -k 5 "$limit" "$@" >"$said" 2>&1
  status=$?
  cat "$said"
  note "$what" "$([ "$status" -eq 0 ] || echo "FAILED: exit $status, ")$(tail -n 1 "$said")"
}
