#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The markers, the compiled library and the headers alone, through pkg-config.
# pkg_config.sh <pkg-config> <compiler> <prefix> <folder of projects> <version>
set -u
pkg_config=$1 compiler=$2 prefix=$3 projects=$4 version=$5
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
folder=$(dirname "$(find "$prefix" -name cutrace-marker.pc)")
export PKG_CONFIG_PATH=$folder CUTRACE_SINKS=null CUTRACE_BACKEND=none
failed=0

for package in cutrace-marker cutrace cutrace-header-only; do
  [ "$("$pkg_config" --modversion $package)" = "$version" ] || { echo "FAILED: version of $package"; failed=1; }
done
build() { # <package> <sources...>
  local compile link
  read -ra compile < <("$pkg_config" --cflags "$1")
  read -ra link < <("$pkg_config" --libs "$1")
  "$compiler" -std=c++17 -O0 "${compile[@]}" "${@:2}" ${link[@]+"${link[@]}"} -o "$out/consumer" && "$out/consumer" ||
    { echo "FAILED: $1"; failed=1; }
}
build cutrace-marker "$projects/marker_only/main.cpp"
build cutrace "$projects"/full/{main,part}.cpp
# The CUPTI backend registers itself: nothing refers to it, and still it is linked.
if [ -n "$(find "$prefix" -name libcutrace_cupti.a)" ]; then
  build cutrace "$projects/archive/main.cpp" >"$out/said" 2>&1
  grep -q 'accepted: .*cupti' "$out/said" || { echo "FAILED: no backend cupti"; cat "$out/said"; failed=1; }
fi
if "$pkg_config" --exists fmt; then
  echo '#include <cutrace/runtime.hpp>' >"$out/runtime.cpp"
  build cutrace-header-only "$projects"/full/{main,part}.cpp "$out/runtime.cpp"
else
  echo "skipped: cutrace-header-only, since this fmt has no file for pkg-config"
fi
exit $failed
