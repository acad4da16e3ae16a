#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What including cutrace costs a compiler: preprocessed lines, and CPU seconds beside <fmt/format.h>, which is compiled
# right before each header of ours with the same flags. Ratios are medians of the pairs with a bootstrap 95 % interval.
#
#   bench/compile_cost.sh [--pairs N] [--build FOLDER] [--flags "-O2"] [--only PATTERN]
#
# FOLDER is a build, for its generated headers. Without the CUPTI backend's table of functions that backend is left out.
set -u
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
pairs=11 build=$root/build/bench flags=-O2 only=. cxx=${CXX:-g++}
while [ $# -gt 1 ]; do
  case $1 in
    --pairs) pairs=$2 ;;
    --build) build=$2 ;;
    --flags) flags=$2 ;;
    --only) only=$2 ;;
    *) echo "compile_cost: unknown argument $1" >&2; exit 2 ;;
  esac
  shift 2
done
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
options=(-std=c++17 $flags -I"$build/include" -I"$root/include")

# subject <name> <mode> <budget of the ratio, 0: none> <headers or sources...>; mode: whole (to machine code) or reading
names=() modes=() budgets=()
subject() {
  local name=$1 header
  [[ $name =~ $only ]] || return
  names+=("$name") modes+=("$2") budgets+=("$3")
  shift 3
  for header in "$@"; do
    case $header in /*) echo "#include \"$header\"" ;; *) echo "#include <$header>" ;; esac
  done >"$work/$((${#names[@]} - 1)).cpp"
}
subject "atomic" whole 0 atomic
subject "cutrace/stage.hpp" whole 0 cutrace/stage.hpp
subject "cutrace/cutrace.hpp" whole 0 cutrace/cutrace.hpp
subject "cutrace/runtime.hpp, reading alone" reading 0 cutrace/runtime.hpp
subject "cutrace/runtime.hpp" whole 3 cutrace/runtime.hpp
for source in runtime text_sinks file_sinks; do  # what cutrace::header_only compiles instead, in parallel
  subject "cutrace_$source.cpp of cutrace::header_only" whole 3 "$root/cmake/cutrace_$source.cpp"
done
cuda=$(sed -n 's/^CUPTI_INCLUDE_DIR:[A-Z]*=//p' "$build/CMakeCache.txt" 2>/dev/null)
if [ -f "$build/backends/cupti/include/cutrace/cupti/cuda_functions.hpp" ]; then
  cuda_headers=$(sed -n 's/^CUPTI_CUDA_INCLUDE_DIR:[A-Z]*=//p' "$build/CMakeCache.txt")
  options+=(-I"$root/backends/cupti/include" -I"$build/backends/cupti/include" -isystem "$cuda")
  [ -z "$cuda_headers" ] || options+=(-isystem "$cuda_headers")
  subject "cutrace/runtime.hpp with CUPTI" whole 3 cutrace/runtime.hpp cutrace/cupti/register.hpp
else
  echo "without CUPTI: $build has no generated table of its functions"
fi
echo '#include <fmt/format.h>' >"$work/fmt.cpp"

compile() { # <source> <mode>: CPU seconds of the compiler, user and system
  local mode=(-c -o /dev/null) TIMEFORMAT='%U %S'
  [ "$2" = reading ] && mode=(-fsyntax-only)
  { time "$cxx" "${options[@]}" "${mode[@]}" "$1" 2>"$work/errors"; } 2>&1 | awk '{ print $1 + $2 }'
  [ ! -s "$work/errors" ] || { cat "$work/errors" >&2; return 1; }
}
lines() { "$cxx" "${options[@]}" -O0 -E "$1" | wc -l; }  # as tests/headers/size.sh counts them

for ((i = 0; i < ${#names[@]}; ++i)); do
  compile "$work/$i.cpp" "${modes[i]}" >/dev/null && compile "$work/fmt.cpp" "${modes[i]}" >/dev/null || exit 1  # warms files
done
for ((pair = 0; pair < pairs; ++pair)); do
  for ((i = 0; i < ${#names[@]}; ++i)); do
    echo "$(compile "$work/fmt.cpp" "${modes[i]}") $(compile "$work/$i.cpp" "${modes[i]}")" >>"$work/$i.times"
  done
done

# Percentile bootstrap of the median ratio, 2,000 resamples; a fixed seed, so that the same times give the same line.
judge() { # <file of "reference ours"> <budget>
  awk -v budget="$2" '
    function median(v, n,   i, j, t) {
      for (i = 2; i <= n; ++i) { t = v[i]; for (j = i - 1; j > 0 && v[j] > t; --j) v[j + 1] = v[j]; v[j + 1] = t }
      return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
    }
    { reference[NR] = $1; ours[NR] = $2; ratio[NR] = $2 / ($1 > 0 ? $1 : 0.001) }
    END {
      srand(42)
      for (b = 1; b <= 2000; ++b) {
        for (i = 1; i <= NR; ++i) sample[i] = ratio[1 + int(rand() * NR)]
        ++seen[sprintf("%.4f", median(sample, NR))]
      }
      n = 0
      for (m in seen) sorted[++n] = m + 0
      for (i = 2; i <= n; ++i) { t = sorted[i]; for (j = i - 1; j > 0 && sorted[j] > t; --j) sorted[j + 1] = sorted[j]; sorted[j + 1] = t }
      for (i = 1; i <= n; ++i) {
        below += seen[sprintf("%.4f", sorted[i])]
        if (low == "" && below >= 50) low = sorted[i]
        if (high == "" && below >= 1950) high = sorted[i]
      }
      verdict = budget == 0 ? "" : high <= budget ? "pass" : low > budget ? "fail" : "unresolved"
      printf "%8.3f %8.3f %8.2f [%.2f, %.2f]", median(ours, NR), median(reference, NR), median(ratio, NR), low, high
      if (budget) printf "  budget %s  %s", budget, verdict
      printf "\n"
    }' "$1"
}

echo "$("$cxx" --version | head -n 1), -std=c++17 $flags, CPU seconds, $pairs pairs"
printf '%-36s %8s %8s %8s %8s\n' "header" "lines" "seconds" "fmt" "ratio"
printf '%-36s %8d\n' "fmt/format.h" "$(lines "$work/fmt.cpp")"
for ((i = 0; i < ${#names[@]}; ++i)); do
  printf '%-36s %8d %s\n' "${names[i]}" "$(lines "$work/$i.cpp")" "$(judge "$work/$i.times" "${budgets[i]}")"
done
