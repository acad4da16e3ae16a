#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# No file refers to somebody's machine, no golden file either; a toolkit's usual place is named only where such places
# are searched.
set -u
source=$1
. "$(dirname "$0")/files.sh"
cd "$source" || exit 1
failed=0
mapfile -t files < <(project_files . ! -name LICENSE; find "$golden_files" -type f)

personal='(^|[^A-Za-z0-9_.)}])/(home|root|work|Users)/[A-Za-z0-9_.-]+|\.\./shared/'
if grep -nIE "$personal" "${files[@]}"; then
  echo "FAILED: paths of a machine"
  failed=1
fi
# The place of the toolkit may stand in what searches: find modules, set-up, the search for libcupti, and in guides.
mapfile -t others < <(printf '%s\n' "${files[@]}" |
  grep -vE '^(cmake/(Find[A-Za-z]+|CutraceDependencies)\.cmake|scripts/setup|tests/style/.*|.*library[a-z_]*\.hpp|.*\.md)$')
if grep -nI '/usr/local/cuda' "${others[@]}"; then
  echo "FAILED: a fixed place of the CUDA toolkit"
  failed=1
fi

# Control: the pattern sees what it is meant to see.
printf 'include(%shome/somebody/x.cmake)\n' / | grep -qE "$personal" || { echo "control failed"; failed=1; }
echo "${#files[@]} files"
exit $failed
