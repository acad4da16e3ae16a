#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# All public headers behind macros that other people's headers define. Foreign headers come first, so that the traps
# meet our code only.
# traps.sh <compiler> <standard> <folder of public_headers.txt> <include flags...>
set -u
compiler=$1 standard=$2 lists=$3
shift 3
here=$(dirname "$0")
flags=(-std=c++"$standard" -fsyntax-only -x c++ -I"$here")
includes=()
for flag in "$@"; do
  case $flag in -I*) includes+=("${flag#-I}") ;; esac
done

# Every foreign header that one of our headers includes, in whatever #if; each only where this machine has it.
prelude() {
  while read -r header; do
    for folder in "${includes[@]}"; do
      [ -f "$folder/$header" ] && grep -hoE '^ *# *include <[^>]+>' "$folder/$header"
    done
  done <"$lists/public_headers.txt" | grep -oE '<[^>]+>' | grep -v '^<cutrace/' | sort -u |
    while read -r name; do
      printf '#if __has_include(%s)\n#include %s\n#endif\n' "$name" "$name"
    done
}
unit() {  # <extra define> <list of headers>
  prelude
  echo "$1"
  echo '#include "traps.hpp"'
  sed 's/.*/#include <&>/' "$2"
}
# min and max are trapped for the light headers only: those stand in every file of an application, the others in one.
light_unit() { unit '#define CUTRACE_TRAP_MIN_MAX' "$here/light_headers.txt"; }
whole_unit() { unit '' "$lists/public_headers.txt"; }

# Controls: code that uses a trapped name must be caught.
if { whole_unit; echo 'int minor(int small) { return small; }'; } | "$compiler" "${flags[@]}" "$@" - 2>/dev/null; then
  echo "the control, a function that uses trapped names, compiled"
  exit 1
fi
if { light_unit; echo 'int least(int a, int b) { return min(a, b); }'; } | "$compiler" "${flags[@]}" "$@" - 2>/dev/null; then
  echo "the control, a call of min, compiled"
  exit 1
fi
light_unit | "$compiler" "${flags[@]}" "$@" - || exit 1
whole_unit | "$compiler" "${flags[@]}" "$@" - || exit 1
