#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every Python file compiles with the Python at hand and names its licence. Whether the examples run in PyTorch, JAX and
# CuPy is tested elsewhere (examples.python, tests/gpu/run_command).
set -u
source=$1
. "$(dirname "$0")/files.sh"
cd "$source" || exit 1
command -v python3 >/dev/null || { echo "skipped: no python3 here"; exit 77; }
failed=0
mapfile -t files < <(project_files . -name '*.py')
python3 - "${files[@]}" <<'SCRIPT' || failed=1
import sys
failed = False
for name in sys.argv[1:]:
    text = open(name, encoding="utf-8").read()
    if not any("SPDX-License-Identifier: Apache-2.0" in line for line in text.splitlines()[:2]):
        print(f"FAILED: no SPDX line: {name}")
        failed = True
    try:
        compile(text, name, "exec")
    except SyntaxError as problem:
        print(f"FAILED: {name}: {problem}")
        failed = True
sys.exit(failed)
SCRIPT
# Control: a file that is no Python is seen.
python3 -c 'compile("def f(:", "control", "exec")' 2>/dev/null && { echo "control failed"; failed=1; }
echo "${#files[@]} files"
[ "${#files[@]}" -gt 5 ] || { echo "FAILED: too few files to be the whole tree"; failed=1; }
exit $failed
