#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The packages on a machine with a GPU that is thrown away afterwards (Ubuntu 24.04 with CUDA 13, without a network):
# makes the source archive, unpacks it, builds the packages with the libraries that the machine has, twice, in different
# folders, and compares them; installs them by dpkg, builds a stranger's project, runs it on the GPU, and removes them.
# A short table comes last. As root; some five minutes on 16 cores.
#
#   tests/package/on_gpu_machine.sh [FOLDER FOR THE LOGS]
set -u
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
logs=${1:-$(mktemp -d)}
mkdir -p "$logs"
logs=$(cd "$logs" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
started=$SECONDS
step() { echo "on_gpu_machine: $((SECONDS - started)) s: $*"; }

step "$(g++ --version | head -1); $(cmake --version | head -1)"
mkdir "$work"/{one,two,elsewhere,debs,again}
archive=$("$root/scripts/source-archive" "$work" | tail -1) || exit 1
step "source archive $(basename "$archive"), $(stat -c %s "$archive") bytes"
tar -x -C "$work/one" -f "$archive"
source=$(echo "$work"/one/*)
"$source/scripts/packages" "$work/debs" -DCUTRACE_CUPTI=ON >"$logs/packages.log" 2>&1 || { tail -30 "$logs/packages.log"; exit 1; }
step "packages built: $(cd "$work/debs" && echo *.deb)"
grep -E 'packages: |^ *without' "$logs/packages.log"
for deb in "$work"/debs/*.deb; do dpkg-deb -f "$deb" Package Version Depends; done
cp "$work"/debs/*.deb "$logs"

same='not tried'
if [ $((SECONDS - started)) -lt 200 ]; then
  tar -x -C "$work/elsewhere" -f "$archive"
  again=$(echo "$work"/elsewhere/*)
  if "$again/scripts/packages" "$work/again" -DCUTRACE_CUPTI=ON >"$logs/packages.again.log" 2>&1; then
    same=yes
    for deb in "$work"/debs/*.deb; do cmp -s "$deb" "$work/again/$(basename "$deb")" || same="NO: $(basename "$deb")"; done
  else
    same='NO: the second build failed'
  fi
  step "built again in another folder: the same bytes: $same"
fi

bash "$source/tests/package/try_packages.sh" "$work/debs" "$source/tests/package/stranger" 2>&1 | tee "$logs/try.log"
status=${PIPESTATUS[0]}
printf '%-34s %s\n' 'two builds give the same bytes' "$same" 'seconds' "$((SECONDS - started))"
case $same in NO*) status=1 ;; esac
exit "$status"
