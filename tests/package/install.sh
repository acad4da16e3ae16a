#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs (without debug information, which may name source files), moves what was installed, and looks in it for paths
# of this machine.
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
# The command finds the libraries of its installation; a program without CUDA is enough to show it.
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
# Every public header is there, and below one folder: a file beside it could clash with another project's.
while read -r header; do
  [ -f "$prefix/include/$header" ] || { echo "FAILED: $header is not installed"; failed=1; }
done < <(cd "$source/include" && find . -name '*.hpp' | sed 's,^\./,,')
outside=$(find "$prefix/include" -mindepth 1 -maxdepth 1 ! -name cutrace)
[ -z "$outside" ] || { echo "FAILED: installed outside of include/cutrace: $outside"; failed=1; }

# Each command of the help has a manual page that mandoc and man read without warnings; completions and documents exist.
if [ -x "$prefix/bin/cutrace" ]; then
  for page in cutrace $("$prefix/bin/cutrace" --help | sed -nE '/^Subcommands:/,/^$/s/^  ([a-z]+) .*/cutrace-\1/p'); do
    file=$prefix/share/man/man1/$page.1
    [ -s "$file" ] || { echo "FAILED: no page $page.1"; failed=1; continue; }
    ! command -v mandoc >/dev/null || mandoc -T lint "$file" || { echo "FAILED: mandoc complains of $page.1"; failed=1; }
    ! command -v man >/dev/null || [ -z "$(man --warnings -l "$file" 2>&1 >/dev/null)" ] ||
      { echo "FAILED: man complains of $page.1"; failed=1; }
  done
  [ -s "$prefix/share/man/man1/cutrace-run.1" ] || { echo 'FAILED: no page of cutrace run'; failed=1; }
  for file in bash-completion/completions/cutrace zsh/site-functions/_cutrace fish/vendor_completions.d/cutrace.fish; do
    [ -s "$prefix/share/$file" ] || { echo "FAILED: share/$file is not installed"; failed=1; }
  done
fi
[ -s "$prefix/share/doc/cutrace/docs/options.md" ] || { echo 'FAILED: no documents'; failed=1; }

# DESTDIR, and nothing outside of the folders that are cutrace's.
stage=$prefix.stage
rm -rf "$stage"
DESTDIR=$stage "$cmake" --install "$build" --prefix /opt/cutrace >/dev/null || failed=1
strays=$(find "$stage" -type f | grep -vE '^.*\.stage/opt/cutrace/(bin/cutrace$|include/cutrace/|lib/|share/)')
[ -z "$strays" ] || { echo "FAILED: installed outside: $strays"; failed=1; }
[ -f "$stage/opt/cutrace/include/cutrace/cutrace.hpp" ] || { echo 'FAILED: DESTDIR is not respected'; failed=1; }
rm -rf "$stage"
exit $failed
