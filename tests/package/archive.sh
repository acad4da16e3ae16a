#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs on the compiled library of an installation: what each of them has in it, and which of them the linker refuses.
# archive.sh <cmake> <project> <build folder> <prefix> <nm> <configure arguments...>
set -u
cmake=$1 project=$2 build=$3 prefix=$4 nm=$5
shift 5
rm -rf "$build"
unset CMAKE_PREFIX_PATH cutrace_DIR cutrace_ROOT CUTRACE CUTRACE_SINKS CUTRACE_BACKEND
"$cmake" -S "$project" -B "$build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_FLAGS=-O0 "$@" &&
  "$cmake" --build "$build" || exit 1
failed=0
fail() { echo "FAILED: $1"; failed=1; }

for program in cxx20 with_sim own_fmt few_sections one_file_disabled through_library; do
  said=$("$build/$program" 2>"$build/report") || fail "$program: status $?: $said"
  grep -q "^events *[1-9]" "$build/report" || fail "$program: no report on stderr"
  case $program in
    with_sim | few_sections | through_library) names='auto, none, (cupti, sim|sim, cupti)' ;;
    *) names='auto, none, cupti$' ;;
  esac
  [[ $said =~ $names ]] || grep -qE "$names" <<<"$said" || fail "$program has not the backends $names: $said"
done

# A program with markers alone has the runtime in it; where they are compiled to nothing, it has nothing of cutrace.
"$build/markers_alone" || fail "markers_alone"
"$nm" "$build/markers_alone" | grep -q ' cutrace_runtime_v' || fail "markers_alone: the runtime is not in the program"
"$build/all_disabled" || fail "all_disabled"
"$nm" "$build/all_disabled" | grep cutrace && fail "all_disabled: something of cutrace is in the program"
# An archive has no symbol in fmt's own inline namespace (fmt::vN) and no global one of Boost's, since a program may
# define them, too; and a program needs no shared library of fmt.
for archive in $(find "$prefix" -name 'libcutrace*.a'); do
  "$nm" "$archive" | grep -E '_ZN[A-Z]*3fmt[0-9]+v[0-9]+' | head -3 | grep . && fail "$archive has fmt's own names"
  "$nm" -C "$archive" | grep ' [A-Zu] .*boost::' | grep -v cutrace | head -3 | grep . && fail "$archive has Boost's own names"
done
"$nm" "$(find "$prefix" -name libcutrace.a)" | grep -q '_ZN3fmt15cutrace_archive' || fail "control: no fmt in libcutrace.a"
ldd "$build/cxx20" | grep libfmt && fail "cxx20 needs a library of fmt"

for kind in EXECUTABLE SHARED; do
  for flags in abi:libstdcxx_old_abi_and_no_sanitizer address:libstdcxx_and_address_sanitizer; do
    target=refused_${kind}_${flags%%:*}
    if text=$("$cmake" --build "$build" --target "$target" 2>&1); then
      fail "$target was linked"
    elif ! grep -q "compiled_for_${flags#*:}__otherwise_link_cutrace_header_only" <<<"$text"; then
      fail "$target: the linker does not say why: $text"
    fi
  done
done
exit $failed
