#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Links between the pages of the project lead somewhere: the file is there, and the heading in it.
set -u
source=$1
. "$(dirname "$0")/files.sh"
cd "$source" || exit 1
failed=0 links=0
headings() { # as they are called in links: lower case, no punctuation, hyphens for spaces
  awk '/^```/ { code = !code } !code && /^#+ / { sub(/^#+ /, ""); print }' "$1" | tr '[:upper:]' '[:lower:]' |
    sed -E -e 's/[^a-z0-9 _-]//g' -e 's/ /-/g'
}
check() { # <page> <link>
  local file=${2%%#*} anchor=
  [[ $2 == *#* ]] && anchor=${2#*#}
  file=$(dirname "$1")/$file
  [ -n "${2%%#*}" ] || file=$1
  [ -e "$file" ] || { echo "FAILED: $1 links to $2, which is not there"; return 1; }
  [ -z "$anchor" ] || headings "$file" | grep -qxF -- "$anchor" || { echo "FAILED: $1 links to $2: no such heading"; return 1; }
}
while read -r page; do
  while read -r link; do
    links=$((links + 1))
    check "$page" "$link" || failed=1
  done < <(awk '/^```/ { code = !code } !code' "$page" | grep -oE '\]\([^)]+\)' | sed -E 's/^\]\((.*)\)$/\1/' | grep -vE '^[a-z]+:')
done < <(project_files . -name '*.md')
# Control: both kinds of bad links are seen.
check README.md docs/nothing.md >/dev/null && { echo "control failed"; failed=1; }
check README.md 'README.md#no-such-heading' >/dev/null && { echo "control failed"; failed=1; }
echo "$links links"
[ $links -gt 20 ] || { echo "FAILED: too few links to be all of them"; failed=1; }
exit $failed
