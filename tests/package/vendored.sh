#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The folder include/ alone, copied into another project. That of a release archive, which scripts/source-archive makes,
# compiles with every sink; that of a clone lacks the generated header of the HTML sink and says so once, and compiles
# with CUTRACE_WITHOUT_HTML. The clone is made of the files at hand, committed or not.
# vendored.sh <cmake> <compiler> <source folder> <include folder of generated headers> <git> <libraries...>
set -u
cmake=$1 compiler=$2 source=$3 generated=$4 git=$5
shift 5
[ -x "$git" ] || { echo "skipped: no git"; exit 77; }
. "$source/tests/style/files.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
fail() { echo "FAILED: $1"; failed=1; }
assets=cutrace/sinks/html/assets.hpp

clone=$work/clone
mkdir "$clone"
project_files "$source" -true | tar -c -C "$source" -T - | tar -x -C "$clone" || exit 1
rm -f "$clone/include/$assets" # an unpacked archive has it
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
git() { "$git" -C "$clone" -c user.name=test -c user.email=test@localhost "$@"; }
{ git init -q && git add -A && git commit -q -m test; } || exit 1

# The clone. check <header...>: what the compiler says of a source file that includes them.
check() { printf '#include <%s>\n' "$@" | "$compiler" -std=c++17 -fsyntax-only -x c++ "${flags[@]}" - 2>&1; }
flags=(-I"$clone/include")
for header in cutrace/sinks/html.hpp cutrace/runtime.hpp; do
  said=$(check $header)
  [ "$(grep -c 'error:' <<<"$said")" = 1 ] || fail "a clone: $header gives not one error but: $said"
  grep 'error:' <<<"$said" | grep -F "$assets" | grep -q CUTRACE_WITHOUT_HTML ||
    fail "a clone: $header does not say what helps: $said"
done
said=$(check cutrace/sinks/{ascii,calls,chrome,jsonl,memory,null,prometheus,tee}.hpp) ||
  fail "a clone: the other sinks: $said"
flags+=(-DCUTRACE_WITHOUT_HTML)
said=$(check cutrace/runtime.hpp) || fail "a clone with CUTRACE_WITHOUT_HTML: $said"

# The archive, twice the same.
mkdir "$work/first" "$work/second"
for folder in first second; do
  (cd / && PATH=$(dirname "$cmake"):$PATH "$clone/scripts/source-archive" "$work/$folder") >/dev/null ||
    fail "scripts/source-archive"
done
archive=$(echo "$work"/first/cutrace-*.tar.gz)
cmp "$archive" "$work/second/${archive##*/}" || fail "two archives of one commit differ"
tar -xzf "$archive" -C "$work" || exit 1
name=${archive##*/} unpacked=$work/$(basename "$archive" .tar.gz)
cmp "$unpacked/include/$assets" "$generated/$assets" || fail "the archive's header is not that of the build"
missing=$(git ls-files | while read -r file; do [ -e "$unpacked/$file" ] || echo "$file"; done)
[ -z "$missing" ] || fail "$name lacks $missing"
echo '#include <cutrace/runtime.hpp>' >"$work/runtime.cpp"
"$compiler" -std=c++17 -O0 -I"$unpacked/include" "$work/runtime.cpp" \
  "$source"/tests/package/every_sink/{main,part}.cpp "$@" -ldl -pthread -o "$work/program" &&
  (cd "$work" && ./program) || fail "a program with the include/ of $name"

# An asset that would spoil the generated header is refused.
refused() { # <pattern> <new text of an asset>
  printf '%s\n' "$2" >"$clone/assets/html/page.js"
  said=$("$cmake" -DOUTPUT="$work/assets.hpp" -P "$clone/cmake/CutraceAssets.cmake" 2>&1) && fail "not refused: $2"
  grep -q "$1" <<<"$said" || fail "the message does not say /$1/: $said"
}
refused 'page.js does not begin with' 'let first = 1;'
refused 'page.js holds )html_asset"' "$(printf '// SPDX-License-Identifier: Apache-2.0\nf(x)html_asset"";')"
exit $failed
