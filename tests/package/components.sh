#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A component that cannot be had is refused by name, with the reason.
# components.sh <cmake> <project> <build folder> <prefix> <configure arguments...>
set -u
cmake=$1 project=$2 build=$3 prefix=$4
shift 4
failed=0

configure() { # <configure arguments...>: output and status of a fresh configure
  rm -rf "$build"
  "$cmake" -S "$project" -B "$build" -DCMAKE_PREFIX_PATH="$prefix" "${common[@]}" "$@" 2>&1
}
common=("$@")

refused() { # <pattern> <configure arguments...>
  local text
  if text=$(configure "${@:2}"); then
    echo "FAILED: accepted: ${*:2}"
    failed=1
  elif ! grep -qE "$1" <<<"$(tr '\n' ' ' <<<"$text" | tr -s ' ')"; then
    printf 'FAILED: the message does not say /%s/:\n%s\n' "$1" "$text"
    failed=1
  fi
}

# Controls: what is there is accepted.
text=$(configure -DWANTED=marker) || { printf 'control failed: marker\n%s\n' "$text"; failed=1; }
text=$(configure -DWANTED="marker;header_only;cutrace;sim") || { printf 'control failed: cutrace\n%s\n' "$text"; failed=1; }

refused "component 'metal' does not exist" -DWANTED=metal
refused "component 'cupti' needs: .*(CUDA with CUPTI headers|not part of this build)" -DWANTED=cupti \
  -DCMAKE_DISABLE_FIND_PACKAGE_CUPTI=ON
refused "component 'header_only' needs: .*fmt >= 8" -DWANTED=header_only -DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON
refused "component 'header_only' needs: .*Boost headers" -DWANTED=header_only -DCMAKE_DISABLE_FIND_PACKAGE_Boost=ON
# fmt 8.0 names its own inline namespace, so that it cannot be compiled into another one, as the archives do.
old=$build.old_fmt
mkdir -p "$old"
echo 'add_library(fmt::fmt INTERFACE IMPORTED)' >"$old/fmtConfig.cmake"
echo 'set(PACKAGE_VERSION 8.0.1)
if(NOT PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()' >"$old/fmtConfigVersion.cmake"
printf 'set(CMAKE_FIND_USE_%s OFF)\n' CMAKE_SYSTEM_PATH SYSTEM_ENVIRONMENT_PATH >"$old/no_other.cmake"
refused "component 'header_only' needs: .*fmt >= 8.1" -DWANTED=header_only -Dfmt_DIR="$old" \
  -DCMAKE_PROJECT_INCLUDE="$old/no_other.cmake"
# The compiled library needs both only where it cannot be linked (here: a sanitizer) and headers take its place.
refused "component 'cutrace' needs: .*fmt >= 8" -DWANTED=cutrace -DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON \
  -DCMAKE_CXX_FLAGS=-fsanitize=address
text=$(configure -DWANTED="cutrace;sim" -DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON -DCMAKE_DISABLE_FIND_PACKAGE_Boost=ON) ||
  { printf 'FAILED: the compiled library alone\n%s\n' "$text"; failed=1; }
# Markers need nothing of all that.
text=$(configure -DWANTED=marker -DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON -DCMAKE_DISABLE_FIND_PACKAGE_Boost=ON \
  -DCMAKE_DISABLE_FIND_PACKAGE_Threads=ON) || { printf 'FAILED: marker alone\n%s\n' "$text"; failed=1; }
refused "requested version|compatible with" -DWANTED=marker -DVERSION=99.0
exit $failed
