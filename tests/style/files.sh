# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# What belongs to the project: all files of the tree but build folders, traces and what version control keeps for
# itself. (Not `git ls-files`: the tests also run from an unpacked archive.) Golden files are the one kind of generated
# file that is kept: they have no header and no format but that of what they hold.
golden_files=tests/golden/data
project_files() { # <source folder> <find conditions...>
  local source=$1
  shift
  (cd "$source" && find . \( -path './build*' -o -path './install*' -o -path './_*' -o -type d -path './.[a-z]*' ! -path './.ci*' \
    -o -path "./$golden_files" \) \
    -prune -o -type f ! -path './trace.json*' ! -name .git \( "$@" \) -print | sed 's,^\./,,' | sort)
}
