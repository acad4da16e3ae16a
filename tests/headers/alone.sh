#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Each public header as the only include of a translation unit, twice in it, with all warnings as errors; those of
# light_headers.txt also without exceptions and RTTI, and with CUTRACE_DISABLE.
# alone.sh every|outer <compiler> <standard> <folder of public_headers.txt> <include flags...>
#   outer: those that applications, sinks and backends of other people include
set -u
case $1 in every) chosen='' ;; outer) chosen='^cutrace/(sinks/)?[a-z_]+\.hpp$|^cutrace/marker/' ;; *) exit 2 ;; esac
compiler=$2 standard=$3 lists=$4
shift 4
here=$(dirname "$0")
flags=(-std=c++"$standard" -fsyntax-only -x c++ -Wall -Wextra -Wshadow -Wconversion -Wpedantic -Werror)
failed=0 count=0

check() {  # <header> <flags...>
  local header=$1
  shift
  count=$((count + 1))
  if ! printf '#include <%s>\n#include <%s>\n' "$header" "$header" | "$compiler" "${flags[@]}" "$@" -; then
    echo "FAILED: $header with ${*: -2}"
    failed=1
  fi
}

# A compiler that accepts everything would make this check worthless.
if echo '#include <cutrace/no_such_header.hpp>' | "$compiler" "${flags[@]}" "$@" - 2>/dev/null; then
  echo "the control, a header that does not exist, compiled"
  exit 1
fi
while read -r header; do
  check "$header" "$@"
  if grep -qx "$header" "$here/light_headers.txt"; then
    check "$header" "$@" -fno-exceptions -fno-rtti
    check "$header" "$@" -DCUTRACE_DISABLE
  fi
done < <(grep -E "$chosen" "$lists/public_headers.txt")
while read -r header; do
  grep -qx "$header" "$lists/public_headers.txt" || { echo "light_headers.txt names $header, which does not exist"; failed=1; }
done <"$here/light_headers.txt"
echo "$count compilations with $compiler, C++$standard"
[ "$count" -gt 60 ] || { echo "FAILED: too few to be all"; failed=1; }
exit $failed
