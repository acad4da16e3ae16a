#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# One source, all releases: for each set of CUDA and CUPTI headers that this machine has, the table of functions is
# generated from them, and the whole backend, with its proof of every offset that is read, is compiled against them.
# Skipped where there is only the set of this build.
#   cupti_versions.sh COMPILER SOURCE BUILD INCLUDE_FOLDER...
# Looks at the include folders of this build, at toolkits beside theirs, /usr, what fetch_cupti_headers.sh brought into
# BUILD/cupti-headers, and the folders named in CUTRACE_TEST_CUPTI_HEADERS, separated by colons: toolkits, or roots of
# unpacked packages.
set -u
compiler=$1 source=$2 build=$3
shift 3
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
flags=(-std=c++17 -Wall -Wextra -Wshadow -Wconversion -Wpedantic -Werror "-I$source/include")

first_with() {  # <file> <folders...>: the first folder that has the file
  local file=$1 folder
  shift
  for folder in "$@"; do [ -f "$folder/$file" ] && { echo "$folder"; return; }; done
  return 1
}

# Sets by what their version files say, so that a link and its target are one.
declare -A include_of=()
add() {  # <roots...> that make one set
  local root cupti cuda crt version folders=()
  for root; do
    folders+=("$root" "$root/include" "$root/extras/CUPTI/include" "$root/usr/include" "$root"/targets/*-linux/include)
  done
  cupti=$(first_with cupti.h "${folders[@]}") && cuda=$(first_with cuda.h "${folders[@]}") &&
    crt=$(first_with crt/host_defines.h "${folders[@]}") || return 0
  version=$(sed -n 's/^#define CUDA_VERSION *\([0-9]*\).*/\1/p' "$cuda/cuda.h").$(
    sed -n 's/^#define CUPTI_API_VERSION *\([0-9]*\).*/\1/p' "$cupti/cupti_version.h")
  [ -n "${include_of[$version]:-}" ] || include_of[$version]=$(printf '%s\n' "$cuda" "$cupti" "$crt" | awk '!seen[$0]++')
}
IFS=: read -r -a named <<<"${CUTRACE_TEST_CUPTI_HEADERS:-}"
for root in ${named[@]+"${named[@]}"}; do
  [ -d "$root" ] || { echo "FAILED: CUTRACE_TEST_CUPTI_HEADERS names $root, which does not exist"; exit 1; }
  add "$root"
done
add "$@"
for folder; do  # .../cuda/include, or one of the toolkit's deeper ones
  beside=${folder%/cuda*}
  [ "$beside" = "$folder" ] || for root in "$beside"/cuda*; do add "$root"; done
done
for root in "$build"/cupti-headers/* /opt/cuda /usr; do add "$root"; done
if [ ${#include_of[@]} -lt 2 ]; then
  echo "skipped: only ${#include_of[@]} set of CUPTI headers here (${!include_of[*]}), which the build itself checks;"
  echo "tests/headers/fetch_cupti_headers.sh brings those of 11.8 and 12.0, CUTRACE_TEST_CUPTI_HEADERS names others"
  exit 77
fi

"$compiler" -std=c++17 -O0 -I"$source/backends/cupti/codegen" -o "$work/generate" \
  "$source/backends/cupti/codegen/generate_functions.cpp" || { echo "FAILED: the generator does not build"; exit 1; }
failed=0
fail() { echo "FAILED: $1"; failed=1; }
for version in $(printf '%s\n' "${!include_of[@]}" | sort); do
  mapfile -t folders <<<"${include_of[$version]}"
  system=()
  for folder in "${folders[@]}"; do  # an implicit one, named again, would hide the compiler's own headers
    [ "$folder" = /usr/include ] || system+=(-isystem "$folder")
  done
  own=$work/$version
  mkdir -p "$own/cutrace/cupti"
  if ! "$work/generate" "$own/probe.cpp" "${folders[@]}"; then fail "$version: generating the table"; continue; fi
  if ! "$compiler" -std=c++17 -O0 -I"$source/backends/cupti/codegen" -I"$source/backends/cupti/include" \
    "-I$source/include" ${system[@]+"${system[@]}"} -o "$own/probe" "$own/probe.cpp" ||
    ! "$own/probe" "$own/cutrace/cupti/cuda_functions.hpp"; then fail "$version: the table"; continue; fi
  all=("${flags[@]}" -fsyntax-only -x c++ "-I$source/backends/cupti/include" "-I$own" ${system[@]+"${system[@]}"})
  { for header in "$source"/backends/cupti/include/cutrace/cupti/*.hpp; do
      echo "#include <cutrace/cupti/${header##*/}>"
    done
    # The headers really are those of this set.
    echo "static_assert(CUDA_VERSION == ${version%.*} && CUPTI_API_VERSION == ${version#*.}, \"other headers\");"
  } >"$own/all.cpp"
  "$compiler" "${all[@]}" "$own/all.cpp" || fail "$version: the backend"
  # The control: an offset that is off by one member must not compile, or nothing was proved here.
  sed 's/std::uint64_t start, end, completed;/std::uint64_t end, start, completed;/' \
    "$source/backends/cupti/include/cutrace/cupti/records.hpp" >"$own/records.hpp"
  mkdir -p "$own/moved/cutrace/cupti" && mv "$own/records.hpp" "$own/moved/cutrace/cupti/"
  echo '#include <cutrace/cupti/records_check.hpp>' |
    "$compiler" "-I$own/moved" "${all[@]}" - 2>/dev/null && fail "$version: a moved member was not noticed"
  echo "CUDA and CUPTI versions $version: ${folders[*]}"
done
exit $failed
