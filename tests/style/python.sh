#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every Python file compiles with the Python at hand, names its licence and says what it is for. What PyTorch, JAX and
# CuPy make of it is shown elsewhere (examples.python, tests/gpu/run_command).
set -u
source=$1
. "$(dirname "$0")/files.sh"
cd "$source" || exit 1
command -v python3 >/dev/null || { echo "skipped: no python3 here"; exit 77; }
failed=0
mapfile -t files < <(project_files . -name '*.py')
for file in "${files[@]}"; do
  python3 -c 'import sys; compile(open(sys.argv[1], encoding="utf-8").read(), sys.argv[1], "exec")' "$file" || failed=1
  head -2 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' || { echo "FAILED: no SPDX line: $file"; failed=1; }
done
# Control: a file that is no Python is seen.
python3 -c 'compile("def f(:", "control", "exec")' 2>/dev/null && { echo "control failed"; failed=1; }
echo "${#files[@]} files"
[ "${#files[@]}" -gt 5 ] || { echo "FAILED: too few files to be the whole tree"; failed=1; }
exit $failed
