#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The injected and the preloaded library live in programs that they know nothing of: what they export, what they need, and
# that functions of the program with the same names as their own (another fmt) are neither called nor replaced.
#   symbols.sh <library> <CUDA program> <compiler> <variable that brings it in> <what counts a launch in JSONL> <exported...>
set -u
library=$1 program=$2 compiler=$3 variable=$4 launch=$5 failed=0
shift 5
fail() { echo "FAILED: $1"; failed=1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

exported=$(nm -D --defined-only "$library" | awk '{print $3}' | sort | tr '\n' ' ')
[ "$exported" = "$* " ] || fail "it exports: $exported"
# STB_GNU_UNIQUE symbols would be shared with the program whatever their visibility.
readelf --dyn-syms -W "$library" | grep -q UNIQUE && fail "it has unique symbols"
needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
for name in $needed; do
  case $name in
    libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | librt.so.* | ld-linux*.so.*) ;;
    *) fail "it needs $name, of which the program may have another version" ;;
  esac
done
# An ELF note leads markers of other objects to the library's slot, a gate and a pointer (cutrace/marker/slot.hpp).
readelf -n "$library" 2>/dev/null | grep -qi cutrace || fail "it has no note of its slot"

# A library loaded before it defines all names of fmt that it uses, as functions that abort.
nm "$library" | awk '$3 ~ /^_ZN(K)?3fmt/ {print $3}' | sort -u >"$work/names"
[ "$(wc -l <"$work/names")" -ge 20 ] || fail "only $(wc -l <"$work/names") names of fmt were found in it"
{
  echo '#include <stdlib.h>'
  awk '{printf "extern \"C\" void trap_%d() __asm__(\"%s\"); extern \"C\" void trap_%d() { abort(); }\n", NR, $1, NR}' "$work/names"
} >"$work/traps.cpp"
"$compiler" -shared -fPIC -o "$work/libtraps.so" "$work/traps.cpp" || fail "the traps cannot be compiled"
cd "$work" || exit 1
if [ "$variable" = LD_PRELOAD ]; then brings=(LD_PRELOAD="$work/libtraps.so:$library"); else brings=(LD_PRELOAD="$work/libtraps.so" "$variable=$library"); fi
env "${brings[@]}" CUTRACE_SINKS=ascii:report.txt,chrome:t.json,jsonl:t.jsonl,calls:c.txt \
  "$program" work 20 >out 2>err || fail "the program ended with $? beside another fmt: $(cat err)"
[ "$(grep -c "$launch" t.jsonl)" -eq 20 ] || fail "not all launches were traced beside another fmt"
grep -q "nothing lost" report.txt || fail "no report beside another fmt"
exit $failed
