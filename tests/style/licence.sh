#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every source file names its licence in its first three lines.
set -u
source=$1
. "$(dirname "$0")/files.sh"
cd "$source" || exit 1
failed=0 count=0
while read -r file; do
  count=$((count + 1))
  if ! head -3 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0'; then
    echo "FAILED: no SPDX line: $file"
    failed=1
  fi
done < <(project_files . -name '*.hpp' -o -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.c' -o -name '*.S' \
  -o -name '*.cmake' -o -name '*.in' -o -name CMakeLists.txt -o -name '*.sh' -o -name '*.mjs' -o -name '*.sql' -o -path './assets/*' -o -path './scripts/*' -o -path './.ci/*')
echo "$count files"
[ "$count" -gt 50 ] || { echo "FAILED: too few files to be the whole tree"; failed=1; }
grep -q 'Apache License' LICENSE || failed=1
exit $failed
