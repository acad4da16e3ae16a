#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What tests of the command have in common; they source it: a folder of their own to work in, which is removed at the
# end, `fail` to go on after a failure, `expect` for what a command says and how it ends, `failed` as the exit status.
# shellcheck disable=SC2034  # `failed` is for whoever sources this
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
failed=0
fail() { echo "FAILED: $*"; failed=1; }
expect() { # <exit status> <words of stderr, or -> <command...>
  local wanted=$1 words=$2
  shift 2
  "$@" >out.txt 2>err.txt
  local status=$?
  [ $status -eq "$wanted" ] || fail "$* ended with $status, not $wanted: $(head -c 500 err.txt)"
  [ "$words" = - ] || grep -qF -- "$words" err.txt || fail "$* does not say \"$words\": $(head -c 500 err.txt)"
}
