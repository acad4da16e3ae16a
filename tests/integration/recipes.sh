#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every recipe of docs/recipes.md on a fresh trace of the inference server: it must end well and print something. Fences
# say what a block is: `jq` is a shell command with jq in it, `load` fills trace.db, `sql` asks it.
#
#   recipes.sh SOURCE_FOLDER INFERENCE_SERVER       with the stand-in libraries on LD_LIBRARY_PATH
set -u
page=$1/docs/recipes.md server=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
CUTRACE=1 CUTRACE_KINDS=+memory CUTRACE_SINKS=jsonl:trace.jsonl "$server" --device cuda --requests 24 --workers 1 \
  --quiet >server.out 2>&1 || { cat server.out; echo "FAILED: no trace"; exit 1; }

failed=0 jq_count=0 sql_count=0
command -v jq >/dev/null && has_jq=1 || has_jq=0
command -v sqlite3 >/dev/null && has_sqlite=1 || has_sqlite=0
complain() { echo "FAILED: $*"; failed=1; }
try() { # <title> <command...>
  local title=$1
  shift
  if ! "$@" >out 2>err || [ -s err ]; then
    complain "$title: $(head -n 5 err)"
  elif ! [ -s out ]; then
    complain "$title: it prints nothing"
  else
    echo "$(wc -l <out) lines: $title"
  fi
}
# Each part must end well; one behind which `head` closes the pipe is ended by SIGPIPE, whether or not our caller ignores it.
pipeline() {
  env --default-signal=PIPE bash -c "$1"'printf "%s\n" "${PIPESTATUS[@]}" >status'
  ! grep -qvxE '0|141' status
}
ask() { sqlite3 -bail trace.db "$1"; }
block() { # <fence> <title> <text>
  case $1 in
    jq)
      jq_count=$((jq_count + 1))
      [ $has_jq -eq 0 ] || try "jq: $2" pipeline "$3" ;;
    load)
      [ $has_sqlite -eq 1 ] || return
      bash -c "$3" >out 2>err && ! [ -s err ] || complain "the trace does not load: $(head -n 5 err)"
      [ "$(ask 'select count(*) + 2 from events')" = "$(wc -l <trace.jsonl)" ] || complain "not all events are loaded" ;;
    sql)
      sql_count=$((sql_count + 1))
      [ $has_sqlite -eq 0 ] || try "SQL: $2" ask "$3" ;;
  esac
}

title='' fence='' text='' inside=0
while IFS= read -r line; do
  if [ $inside -eq 0 ]; then
    case $line in
      '### '*) title=${line#'### '} ;;
      '```'*) inside=1 fence=${line#'```'} text='' ;;
    esac
  elif [ "$line" = '```' ]; then
    block "$fence" "$title" "$text"
    inside=0
  else
    text+=$line$'\n'
  fi
done <"$page"
# A page that is not understood would have no recipe that fails.
[ $jq_count -ge 15 ] && [ $sql_count -ge 8 ] || complain "$jq_count recipes with jq and $sql_count with SQL were found"
[ $has_jq -eq 1 ] || echo "skipped $jq_count recipes: jq is not installed"
[ $has_sqlite -eq 1 ] || echo "skipped $sql_count recipes: sqlite3 is not installed"
[ $failed -eq 0 ] && [ $((has_jq + has_sqlite)) -eq 0 ] && exit 77
exit $failed
