#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Code in README.md and docs/quick-start.md is code that the tests build: each block names the file it is taken from, in
# a comment before it,
#   <!-- from examples/hello_stage/hello_stage.cpp -->
# and its lines stand in that file, one after the other. Blocks of shell commands name scripts that exist.
set -u
source=$1
cd "$source" || exit 1
failed=0 blocks=0

contains() { # <file> <block>: are the block's lines consecutive lines of the file, whatever its indentation?
  BLOCK=$2 awk '
    BEGIN { n = split(ENVIRON["BLOCK"], want, "\n"); while (n > 0 && want[n] == "") --n; for (i = 1; i <= n; ++i) { sub(/^[ \t]+/, "", want[i]) } }
    { sub(/^[ \t]+/, ""); line[NR] = $0 }
    END {
      for (start = 1; start + n - 1 <= NR; ++start) {
        for (i = 1; i <= n && line[start + i - 1] == want[i]; ++i) ;
        if (i > n) exit 0
      }
      exit 1
    }' "$1"
}

check_block() { # <language> <source> <block>
  case $1 in
    cpp | cmake | cuda)
      blocks=$((blocks + 1))
      if [ -z "$2" ]; then
        echo "FAILED: a $1 block without <!-- from FILE -->: $(head -1 <<<"$3")"
        failed=1
      elif [ ! -f "$2" ]; then
        echo "FAILED: the block names $2, which does not exist"
        failed=1
      elif ! contains "$2" "$3"; then
        printf 'FAILED: not in %s:\n%s\n' "$2" "$3"
        failed=1
      fi
      ;;
    sh)
      while read -r script; do
        [ -x "$script" ] || { echo "FAILED: $script is not an executable file"; failed=1; }
      done < <(grep -oE '(^|[ ./])scripts/[a-z_]+' <<<"$3" | sed -E 's,^[ ./]+,,')
      ;;
  esac
}

language='' from='' block='' inside=0
while IFS= read -r line; do
  if [ $inside -eq 0 ]; then
    case $line in
      '<!-- from '*) from=${line#<!-- from } from=${from% -->} ;;
      '```'*) inside=1 language=${line#'```'} block='' ;;
      '') ;;
      *) from='' ;;
    esac
  elif [ "$line" = '```' ]; then
    check_block "$language" "$from" "$block"
    inside=0 from=''
  else
    block+=$line$'\n'
  fi
done < <(cat README.md docs/quick-start.md)

# Control: a block that is not in the file is seen.
if contains README.md $'this line stands nowhere\n'; then
  echo "control failed"
  failed=1
fi
echo "$blocks blocks of code"
[ "$blocks" -gt 0 ] || { echo "FAILED: README.md shows no code"; failed=1; }
exit $failed
