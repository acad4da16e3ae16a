#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Budgets: lines and number of headers, and preprocessed lines of the two that every file of an application includes.
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

# What applications include is short; an inner header has its purpose and a natural size.
lengths() { wc -l "$@" | grep -v ' total$' | sort -n; }
at_most() { # <limit>, sizes on standard input
  awk -v limit="$1" '$1 > limit { print "FAILED: over " limit " lines: " $2; bad = 1 } END { exit bad }' || failed=1
}
public=$(lengths "$source"/include/cutrace/*.hpp)
echo "public headers: median $(awk '{ n[NR] = $1 } END { print n[int((NR + 1) / 2)] }' <<<"$public") lines, longest $(tail -1 <<<"$public")"
at_most 400 <<<"$public"
# (A release archive holds the generated header of the HTML sink, whose length is that of its assets.)
mapfile -t headers < <(find "$source/include" "$source"/backends/*/include "$source"/tools -name '*.hpp' ! -path '*/sinks/html/assets.hpp')
sizes=$(lengths "${headers[@]}")
echo "${#headers[@]} headers, longest $(tail -1 <<<"$sizes")"
at_most 700 <<<"$sizes"

# A library whose parts nobody can name has too many of them.
files=$(find "$source/include/cutrace" -type f ! -path '*/sinks/html/assets.hpp' | wc -l)
echo "$files files in include/cutrace"
[ "$files" -le 160 ] || { echo "FAILED: over 160 files"; failed=1; }
while read -r folder; do
  count=$(find "$folder" -maxdepth 1 -type f | wc -l)
  [ "$count" -le 25 ] || { echo "FAILED: $count files in ${folder#"$source"/}, over 25"; failed=1; }
done < <(find "$source/include/cutrace" -type d)
exit $failed
