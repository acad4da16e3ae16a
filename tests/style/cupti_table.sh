#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The table of traps in docs/cupti.md: numbers 1 to 52, each once and in order, each with what is done and a test or why
# there is none; the tests and files that the page names exist.
#   cupti_table.sh SOURCE BUILD
set -u
page=$1/docs/cupti.md failed=0
fail() { echo "FAILED: $1"; failed=1; }
numbers=$(sed -n 's/^| \([0-9][0-9]*\) | .*/\1/p' "$page" | tr '\n' ' ')
[ "$numbers" = "$(seq -s ' ' 52) " ] || fail "the numbers are $numbers"
while IFS='|' read -r _ number trap what tests rest; do
  [ -n "${trap// /}" ] && [ -n "${what// /}" ] && [ -n "${tests// /}" ] && [ -z "${rest// /}" ] ||
    fail "row $number has not four columns"
  [[ $tests == *\`* || $tests == *None* || $tests == *"as 4"* ]] || fail "row $number names no test and no reason"
done < <(grep '^| [0-9]' "$page")
known=$(ctest --test-dir "$2" -N 2>/dev/null | sed -n 's/^ *Test *#[0-9]*: //p')
[ -n "$known" ] || fail "ctest knows no test in $2"
for name in $(grep -o '`\(unit\|integration\|headers\)\.[a-z_0-9]*`' "$page" | tr -d '`' | sort -u); do
  grep -qE "(^|\.)${name//./\\.}(\.|$)" <<<"$known" || fail "there is no test $name"
done
for file in $(grep -o '`[a-z_/]*\.\(hpp\|sh\|md\)`' "$page" | tr -d '`' | sort -u); do
  [ -e "$1/$file" ] || [ -e "$1/backends/cupti/include/cutrace/cupti/$file" ] || fail "there is no file $file"
done
echo "52 traps, $(grep -c . <<<"$known") tests known"
exit $failed
