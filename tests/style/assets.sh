#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The scripts of the HTML report parse, each alone and all of them joined, as the page has them: there a name that two
# of them declare is an error.
set -u
source=$1
command -v node >/dev/null || { echo "skipped: no node here"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
scripts=("$source"/assets/html/*.js)
for script in "${scripts[@]}"; do
  node --check "$script" || { echo "FAILED: $script"; failed=1; }
done
{ echo '"use strict";'; cat "${scripts[@]}"; } >"$work/page.js"
node --check "$work/page.js" || { echo "FAILED: the scripts as one"; failed=1; }
# Control: a name that is declared twice is seen.
cat "${scripts[0]}" >>"$work/page.js"
node --check "$work/page.js" 2>/dev/null && { echo "control failed"; failed=1; }
echo "${#scripts[@]} scripts"
[ "${#scripts[@]}" -gt 3 ] || { echo "FAILED: too few scripts to be all of them"; failed=1; }
exit $failed
