#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# One word for one thing: data are recorded, reported, notified of or delivered, never "told". Readers of trace files
# (tools/trace) still have the word, and entries of the changelog stay as they were written.
set -u
source=$1
. "$(dirname "$0")/files.sh"
cd "$source" || exit 1
failed=0
mapfile -t files < <(project_files . ! -name LICENSE ! -name CHANGELOG.md ! -name words.sh | grep -v '^\(\./\)\?tools/trace/')

word='\b(tell|tells|telling|told)\b'
if grep -nIiE "$word" "${files[@]}"; then
  echo "FAILED: say record, report, notify or deliver"
  failed=1
fi

# Control: the pattern sees the word, and no part of another one.
echo 'The sink is Told of it' | grep -qiE "$word" || { echo "control failed"; failed=1; }
echo 'a satellite intelligent' | grep -qiE "$word" && { echo "control failed"; failed=1; }
echo "${#files[@]} files"
exit $failed
