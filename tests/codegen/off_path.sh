#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Follows the machine code of a function with one marker past a closed gate (the variable that says whether markers
# record), and counts what lies on the way: one load of the gate from memory, two branches (on the gate; at the end of
# the scope on a local variable, "was it off?"), no call into cutrace, no thread-local storage, no locked instruction.
# off_path.sh <compiler> <source folder> <objdump>
set -u
compiler=$1 source=$2 objdump=$3
case $(uname -m) in
  x86_64) ;;
  *) echo "skipped: reads x86-64 machine code"; exit 77 ;;
esac
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
# Some distributions harden by default; what that adds around every call is not the marker's.
"$compiler" -std=c++17 -O2 -fno-stack-protector -fcf-protection=none -I"$source/include" -c "$source/tests/codegen/off_path.cpp" -o "$out/off_path.o" || exit 1

walk() { # <function>: prints "instructions loads branches calls forbidden", then the path
  "$objdump" -dr --no-show-raw-insn "$out/off_path.o" | awk -v wanted="<$1>:" '
    /^[0-9a-f]+ </ { inside = ($2 == wanted); next }
    !inside { next }
    /R_X86_64/ { relocation[last] = $3; next }
    /^ +[0-9a-f]+:/ {
      address = $1; sub(":", "", address); last = ++count
      at[address] = count; $1 = ""; sub(/^ +/, ""); code[count] = $0
    }
    END {
      zero = 1
      for (i = 1; i <= count && steps < 500; ) {
        ++steps; line = code[i]; split(line, word, " "); operation = word[1]; path = path "\n  " line "  " relocation[i]
        if (relocation[i] ~ /cutrace_slot/ && operation !~ /^(call|j)/) ++loads
        else if (line ~ /\(%rip\)/ && operation !~ /^nop/) ++others
        if (line ~ /%fs:|^lock|^xchg +%.*\(|rdtsc|cpuid|mfence/) ++forbidden
        if (operation ~ /^call/ && relocation[i] !~ /body/) ++calls
        if (operation ~ /^cmp/) zero = (line ~ /\$0x0,/)
        if (operation ~ /^test/) zero = 1
        if (operation == "jmp" && relocation[i] ~ /body/) break
        if (operation ~ /^ret/) break
        if (operation ~ /^j/) {
          if (operation != "jmp") ++branches
          if (operation !~ /^(jmp|je|jne)$/) { ++forbidden }
          if (operation == "jmp" || (operation == "je" && zero) || (operation == "jne" && !zero)) {
            if (!(word[2] in at)) { ++forbidden; break }
            i = at[word[2]]; continue
          }
        }
        ++i
      }
      print steps + 0, loads + 0, branches + 0, calls + 0, forbidden + others + 0
      print path
    }'
}

failed=0
read -r bare_steps bare_loads _ < <(walk bare)
if [ "$bare_steps" -lt 1 ] || [ "$bare_loads" -ne 0 ]; then
  echo "control failed: the function without a marker has $bare_steps instructions and $bare_loads loads of the gate"
  failed=1
fi
for name in marked marked_request; do
  path=$(walk $name)
  read -r steps loads branches calls forbidden <<<"$path"
  echo "$name, off: $steps instructions ($bare_steps without the marker), $loads loads of the gate, $branches branches"
  if [ "$loads" -ne 1 ] || [ "$branches" -gt 2 ] || [ "$branches" -lt 1 ] || [ "$calls" -ne 0 ] || [ "$forbidden" -ne 0 ] ||
    [ $((steps - bare_steps)) -gt 30 ]; then
    echo "FAILED: more than one load and its branch on the path of a closed gate ($calls calls, $forbidden forbidden)$path"
    failed=1
  fi
done
exit $failed
