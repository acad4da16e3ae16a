#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# An installation whose folders are absolute and lie apart, as distributions set them that divide a package (Nix, Guix):
# each form finds its headers, its archive and its sources, from CMake and from pkg-config.
# absolute.sh <cmake> <folder that cutrace is built in> <folder of projects> <build folder> <compiler>
#             <configure arguments...>
set -u
cmake=$1 built=$2 projects=$3 build=$4 compiler=$5
shift 5
rm -rf "$build"
installed=$(mktemp -d) # CMake refuses include folders of an installation that lie in the source folder
trap 'rm -rf "$installed"' EXIT
unset CMAKE_PREFIX_PATH cutrace_DIR cutrace_ROOT CUTRACE CUTRACE_SINKS CUTRACE_BACKEND DESTDIR
"$cmake" "$built" -DCMAKE_INSTALL_PREFIX="$installed/out" -DCMAKE_INSTALL_LIBDIR="$installed/out/lib" \
  -DCMAKE_INSTALL_INCLUDEDIR="$installed/dev/include" >"$build.log" &&
  "$cmake" --build "$built" >>"$build.log" && "$cmake" --install "$built" --strip >>"$build.log" ||
  { cat "$build.log"; exit 1; }
failed=0
consume() { # <target>
  "$cmake" -S "$projects/full" -B "$build/$1" -DCMAKE_PREFIX_PATH="$installed/out" -DCMAKE_CXX_FLAGS=-O0 \
    -DCUTRACE_TARGET=cutrace::"$1" "${common[@]}"
}
common=("$@")
consume cutrace && "$cmake" --build "$build/cutrace" && CUTRACE_SINKS=null "$build/cutrace/consumer" ||
  { echo "FAILED: cutrace::cutrace"; failed=1; }
consume header_only || { echo "FAILED: cutrace::header_only"; failed=1; } # CMake refuses sources that do not exist
if command -v pkg-config >/dev/null; then
  export PKG_CONFIG_PATH=$installed/out/lib/pkgconfig
  for package in cutrace-marker cutrace; do
    read -ra flags < <(pkg-config --cflags --libs $package)
    "$compiler" -std=c++17 -O0 "$projects/marker_only/main.cpp" "${flags[@]}" -o "$build/marked" && "$build/marked" ||
      { echo "FAILED: pkg-config $package"; failed=1; }
  done
else
  echo "skipped: no pkg-config"
fi
exit $failed
