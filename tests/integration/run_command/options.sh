#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# docs/options.md against the programs: each option that the help knows stands there and none else, and so does each
# variable that is read anywhere.
#   options.sh <cutrace> <source folder>
set -u
command=$1 source=$2 failed=0
page=$source/docs/options.md
options_of() { grep -oE '^  (-[a-z],)?--[a-z-]+' | grep -oE -- '--[a-z-]+' | grep -v -- '--help' | sort; }

for name in $("$command" --help | sed -n '/^Subcommands:/,$p' | awk 'NR > 1 && NF > 1 && /^  [a-z]/ {print $1}'); do
  helped=$("$command" "$name" --help | options_of)
  [ -n "$helped" ] || continue
  written=$(sed -n "/^## cutrace $name\$/,/^## /p" "$page" | grep -oE '^\| `--[a-z-]+' | grep -oE -- '--[a-z-]+' | sort)
  [ -n "$written" ] || { echo "FAILED: docs/options.md has no section \"## cutrace $name\" with a table"; failed=1; }
  difference=$(diff <(echo "$helped") <(echo "$written")) || {
    echo "FAILED: cutrace $name: < only in --help, > only in docs/options.md"
    echo "$difference"
    failed=1
  }
  # What each takes: the word behind the option, as the help has it.
  while read -r option value; do
    [ -n "$value" ] || continue
    grep -qF "| \`$option ${value//|/\\|}\`" "$page" ||
      { echo "FAILED: docs/options.md does not say \`$option $value\`"; failed=1; }
  done < <("$command" "$name" --help | grep -oE '^  --[a-z-]+ [^ ]+' | sed -e 's/^  //' -e 's/:[A-Z]*$//')
done

read_somewhere=$(grep -rhoE '(getenv|environment|value_of|parse_switch|find|choose)\("CUTRACE[A-Z_0-9]*"' \
  "$source"/include "$source"/backends/cupti/{include,inject} "$source"/tools | grep -oE 'CUTRACE[A-Z_0-9]*' | sort -u)
[ "$(wc -w <<<"$read_somewhere")" -ge 12 ] || { echo "FAILED: too few variables were found"; failed=1; }
for variable in $read_somewhere; do
  grep -q "^| \`$variable\`" "$page" || { echo "FAILED: docs/options.md says nothing of $variable"; failed=1; }
done
exit $failed
