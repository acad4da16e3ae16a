#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# All C++ sources are formatted as .clang-format says. Versions of clang-format differ in details: only the one that
# the tree is formatted with can judge.
set -u
source=$1 clang_format=${2:-}
if [ ! -x "$clang_format" ]; then
  echo "skipped: no clang-format"
  exit 77
fi
if ! "$clang_format" --version | grep -q 'version 14\.'; then
  echo "skipped: the tree is formatted with clang-format 14, this is $("$clang_format" --version)"
  exit 77
fi
. "$(dirname "$0")/files.sh"
cd "$source" || exit 1
mapfile -t files < <(project_files . -name '*.hpp' -o -name '*.h' -o -name '*.cpp' -o -name '*.cu')
failed=0
"$clang_format" --style=file --dry-run -Werror "${files[@]}" || failed=1
echo "${#files[@]} files; clang-format -i repairs"
exit $failed
