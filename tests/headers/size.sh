#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Budgets: lines of a header, and preprocessed lines of the two that every file of an application includes.
# size.sh <compiler> <source folder>
set -u
compiler=$1 source=$2
failed=0

preprocessed() { # <header> <budget>: C++17 (in C++20 <atomic> alone brings 30,000 lines of libstdc++)
  local lines
  lines=$(echo "#include <cutrace/$1>" | "$compiler" -std=c++17 -I"$source/include" -E -x c++ - | wc -l)
  echo "$1: $lines preprocessed lines, budget $2"
  if [ "$lines" -lt 1000 ] || [ "$lines" -gt "$2" ]; then
    echo "FAILED: $1"
    failed=1
  fi
}
preprocessed stage.hpp 10000
preprocessed cutrace.hpp 15000

mapfile -t headers < <(find "$source/include" "$source"/backends/*/include -name '*.hpp')
sizes=$(wc -l "${headers[@]}" | grep -v ' total$' | sort -n)
echo "${#headers[@]} headers, median $(awk '{ n[NR] = $1 } END { print n[int((NR + 1) / 2)] }' <<<"$sizes") lines, longest $(tail -1 <<<"$sizes")"
if awk '$1 > 400 { print "FAILED: over 400 lines: " $2; bad = 1 } END { exit bad }' <<<"$sizes"; then :; else failed=1; fi
exit $failed
