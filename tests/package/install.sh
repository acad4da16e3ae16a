#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs (without debug information, which names source files by right), moves what was installed, and looks for traces of
# this machine in it.
# install.sh <cmake> <build folder> <source folder> <final prefix>
set -u
cmake=$1 build=$2 source=$3 prefix=$4
rm -rf "$prefix" "$prefix.first"
"$cmake" --install "$build" --strip --prefix "$prefix.first" >/dev/null || exit 1
mv "$prefix.first" "$prefix" || exit 1
failed=0
if grep -rnF -e "$build" -e "$source" -e "$prefix" "$prefix"; then
  echo "FAILED: the installed files hold paths of the machine they were built on"
  failed=1
fi
for file in include/cutrace/{cutrace,runtime,sinks/html/assets}.hpp; do
  [ -f "$prefix/$file" ] || { echo "FAILED: $file is not installed"; failed=1; }
done
echo "$(find "$prefix" -type f | wc -l) files"
# The command finds what lies in its installation; a program without CUDA shows that it got so far.
if [ -x "$prefix/bin/cutrace" ] && compgen -G "$prefix/lib*/libcutrace_inject.so" "$prefix/lib/*/libcutrace_inject.so" >/dev/null; then
  "$prefix/bin/cutrace" run --out "$prefix.out" -- true || { echo "FAILED: the installed command does not run"; failed=1; }
  if compgen -G "$prefix/lib*/libcutrace_preload.so" "$prefix/lib/*/libcutrace_preload.so" >/dev/null; then
    "$prefix/bin/cutrace" run --method preload --out "$prefix.out" -- true ||
      { echo "FAILED: the installed command does not run with the preloaded library"; failed=1; }
  fi
  rm -rf "$prefix.out"
else
  echo "skipped: no command or no injected library was installed"
fi
# Every public header is there, and below one folder: a name beside it could be anybody's.
while read -r header; do
  [ -f "$prefix/include/$header" ] || { echo "FAILED: $header is not installed"; failed=1; }
done < <(cd "$source/include" && find . -name '*.hpp' | sed 's,^\./,,')
outside=$(find "$prefix/include" -mindepth 1 -maxdepth 1 ! -name cutrace)
[ -z "$outside" ] || { echo "FAILED: installed outside of include/cutrace: $outside"; failed=1; }
exit $failed
