#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every source file names its licence in its first three lines.
set -u
source=$1
. "$(dirname "$0")/files.sh"
cd "$source" || exit 1
failed=0
mapfile -t files < <(project_files . -name '*.hpp' -o -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.c' -o -name '*.S' \
  -o -name '*.cmake' -o -name '*.in' -o -name CMakeLists.txt -o -name '*.sh' -o -name '*.mjs' -o -name '*.sql' -o -path './assets/*' -o -path './scripts/*' -o -path './.ci/*')
awk 'FNR <= 3 && /SPDX-License-Identifier: Apache-2.0/ { named[FILENAME] }
     END { for (i = 1; i < ARGC; ++i) if (!(ARGV[i] in named)) { print "FAILED: no SPDX line: " ARGV[i]; bad = 1 }; exit bad }' \
  "${files[@]}" || failed=1
echo "${#files[@]} files"
[ "${#files[@]}" -gt 50 ] || { echo "FAILED: too few files to be the whole tree"; failed=1; }
grep -q 'Apache License' LICENSE || failed=1
exit $failed
