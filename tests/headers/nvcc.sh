#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A .cu file with markers on both sides: host code records, device code compiles them to nothing.
# nvcc.sh <nvcc> <standard> <source folder>
set -u
if ! "$1" --help | grep -q "c++$2"; then
  echo "skipped: $("$1" --version | tail -1) does not know C++$2"
  exit 77
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
echo '__global__ void nothing() {}' >"$out/nothing.cu"
if ! said=$("$1" -std=c++"$2" -c "$out/nothing.cu" -o "$out/nothing.o" 2>&1); then
  echo "skipped: $1 compiles nothing on this machine: $said"
  exit 77
fi
compile() { "$1" -std=c++"$2" -I"$3/include" -Werror all-warnings -Xcompiler=-Wall,-Wextra,-Wshadow -c "$3/tests/headers/$4" -o "$out/markers.o" "${@:5}"; }
compile "$1" "$2" "$3" markers.cu || exit 1
symbols=$(nm -C "$out/markers.o")
if ! grep -q 'cutrace' <<<"$symbols"; then
  echo "FAILED: the host side of the .cu file holds no marker"
  exit 1
fi
compile "$1" "$2" "$3" markers.cu -DCUTRACE_DISABLE || exit 1
if nm -C "$out/markers.o" | grep cutrace; then
  echo "FAILED: a disabled .cu file holds cutrace symbols"
  exit 1
fi
