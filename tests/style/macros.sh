#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Macros and variables that README.md and the pages in docs/ name (CUTRACE_...) exist: the sources, the build or a script
# know each of them.
set -u
source=$1
. "$(dirname "$0")/files.sh"
cd "$source" || exit 1
failed=0 words=0
names() { grep -ohaE 'CUTRACE_[A-Z0-9_]+'; }
sources() { project_files . -path './include/*' -o -path './backends/*' -o -path './tools/*' -o -path './cmake/*' \
  -o -path './scripts/*' -o -name 'CMake*'; }
# Pages do not count, or each would know its own names; nor do tests, but for the variables that only tests read.
known=$({
  sources | grep -v '\.md$' | tr '\n' '\0' | xargs -0 cat | names
  grep -rohE 'CUTRACE_TEST_[A-Z0-9_]+' tests
} | sort -u)
is_known() { grep -qxF -- "$1" <<<"$known"; }
while IFS=: read -r page word; do
  words=$((words + 1))
  is_known "$word" || { echo "FAILED: $page names $word, which nothing knows"; failed=1; }
done < <(grep -oHE 'CUTRACE_[A-Z0-9_]+' README.md docs/*.md | sort -u)
# Control: a name that nothing knows is seen.
is_known CUTRACE_"NO_SUCH_MACRO" && { echo "control failed"; failed=1; }
echo "$words names"
[ $words -gt 40 ] || { echo "FAILED: too few names to be all of them"; failed=1; }
exit $failed
