#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The injected library lives in programs that it knows nothing of: what it exports, what it needs, and that functions of
# the program with the same names as its own (another fmt) are neither called nor replaced.
#   symbols.sh <libcutrace_inject.so> <CUDA program> <compiler>
set -u
library=$1 program=$2 compiler=$3 failed=0
fail() { echo "FAILED: $1"; failed=1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

exported=$(nm -D --defined-only "$library" | awk '{print $3}' | sort | tr '\n' ' ')
[ "$exported" = "InitializeInjection InitializeInjectionNvtx2 cutrace_injected_library " ] || fail "it exports: $exported"
# STB_GNU_UNIQUE symbols would be shared with the program whatever their visibility.
readelf --dyn-syms -W "$library" | grep -q UNIQUE && fail "it has unique symbols"
needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
for name in $needed; do
  case $name in
    libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | librt.so.* | ld-linux*.so.*) ;;
    *) fail "it needs $name, of which the program may have another version" ;;
  esac
done
# The slot by which markers find it.
readelf -n "$library" 2>/dev/null | grep -qi cutrace || fail "it has no note of its slot"

# All names of fmt that the library uses itself, defined by the program as a way to die.
nm "$library" | awk '$3 ~ /^_ZN(K)?3fmt/ {print $3}' | sort -u >"$work/names"
[ "$(wc -l <"$work/names")" -ge 20 ] || fail "only $(wc -l <"$work/names") names of fmt were found in it"
{
  echo '#include <stdlib.h>'
  awk '{printf "extern \"C\" void trap_%d() __asm__(\"%s\"); extern \"C\" void trap_%d() { abort(); }\n", NR, $1, NR}' "$work/names"
} >"$work/traps.cpp"
"$compiler" -shared -fPIC -o "$work/libtraps.so" "$work/traps.cpp" || fail "the traps cannot be compiled"
cd "$work" || exit 1
LD_PRELOAD=$work/libtraps.so CUDA_INJECTION64_PATH=$library CUTRACE_SINKS=ascii:report.txt,chrome:t.json,jsonl:t.jsonl,calls:c.txt \
  "$program" work 20 >out 2>err || fail "the program ended with $? beside another fmt: $(cat err)"
[ "$(grep -c '"type":"kernel"' t.jsonl)" -eq 20 ] || fail "not all kernels were traced beside another fmt"
grep -q "nothing lost" report.txt || fail "no report beside another fmt"
exit $failed
