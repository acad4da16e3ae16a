#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# scripts/demo in a folder whose name has characters that mean something in CUTRACE_SINKS: the traces lie in that folder.
# Nothing is installed or built: the server is that of this build.
# demo.sh <source folder> <server>
set -u
source=$1 server=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{scripts,bin,build/demo/examples/inference_server} "$work/a,b?c"
cp "$source/scripts/demo" "$work/scripts"
ln -s "$server" "$work/build/demo/examples/inference_server/inference_server"
printf '#!/bin/sh\nexit 0\n' | tee "$work/scripts/setup" >"$work/bin/cmake"
chmod +x "$work/scripts/setup" "$work/bin/cmake"
unset CUTRACE CUTRACE_SINKS CUTRACE_BACKEND
cd "$work/a,b?c" || exit 1
PATH=$work/bin:$PATH "$work/scripts/demo" --requests 4 --quiet >../said 2>&1 || { cat ../said; exit 1; }
failed=0
for file in trace.jsonl trace.json; do
  [ -s "$file" ] || { echo "FAILED: $file is not in the working folder"; failed=1; }
done
[ ! -e ../a ] || { echo "FAILED: a file outside of the working folder was written"; failed=1; }
[ $failed -eq 0 ] || head -5 ../said
exit $failed
