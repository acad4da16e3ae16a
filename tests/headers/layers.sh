#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The direction of includes: data flows from producers through the collector to sinks, and no room may include what
# comes after it. One line for each room: files, and the cutrace includes that it may have, or must not have.
# layers.sh <source folder>
set -u
source=$1
failed=0 checked=0

light='(config|version|event|clock|stage|mark|context|stats|error|request|request_done|names|twin_choice)'
hot='detail/(record|slot|stage_macros|stage_write|table|thread)'

room() {  # <what> <allowed cutrace includes, a regular expression> <files...>
  local what=$1 allowed=$2 file bad
  shift 2
  for file in "$@"; do
    [ -f "$file" ] || continue
    checked=$((checked + 1))
    bad=$(grep -nE '^ *# *include [<"]cutrace/' "$file" | grep -vE "[<\"]cutrace/($allowed)(\.hpp|/[a-z]+\.inc)[>\"]")
    if [ -n "$bad" ]; then
      printf 'FAILED: %s (%s) may not include\n%s\n' "${file#"$source"/}" "$what" "$bad"
      failed=1
    fi
  done
}

closed_room() {  # <what> <forbidden cutrace includes, a regular expression> <files...>
  local what=$1 forbidden=$2 file bad
  shift 2
  for file in "$@"; do
    checked=$((checked + 1))
    bad=$(grep -nE "^ *# *include [<\"]($forbidden)[>\"]" "$file")
    if [ -n "$bad" ]; then
      printf 'FAILED: %s (%s) may not include\n%s\n' "${file#"$source"/}" "$what" "$bad"
      failed=1
    fi
  done
}

cd "$source/include/cutrace" || exit 1
mapfile -t analysis < <(find "$source/include/cutrace/analysis" -name '*.hpp' 2>/dev/null)
mapfile -t sinks < <(find "$source/include/cutrace/sinks" -name '*.hpp' 2>/dev/null)
mapfile -t backends < <(find "$source/backends" -path '*/include/*' -name '*.hpp' 2>/dev/null)
room "markers" "$light|$hot" {version,config,clock,request,stage,mark,context,error,event,stats,names,twin_choice,request_done}.hpp
room "hot path" "$light|$hot" detail/{record,slot,stage_macros,stage_write,table,thread}.hpp
room "umbrella" "$light|session" cutrace.hpp
room "interfaces" "$light" session.hpp sink.hpp backend.hpp
room "analysis: pure functions over events" "$light|analysis/[a-z_]+" "${analysis[@]}"
# Sinks see events and what detail/ has for writing text; nothing of the way the events came.
collector='chunk_pool|clock_map|collector|correlation_ring|delivery|function_table|ingest|order_window|sink_set|site_table|stage_table|thread_registry|wake|writer'
owner='runtime_core|runtime_owner|session_call|trace|backend_pump|backend_registry|settings'
closed_room "sinks" "cutrace/((session|runtime|backend)\.hpp|(cupti|sim)/.*|$hot\.hpp|detail/($collector|$owner)\.hpp)" "${sinks[@]}"
# Nothing flows back: the collector never names a sink, an analysis or a backend. (The runtime's owner does, once: it
# makes the sinks that CUTRACE_SINKS asks for.)
mapfile -t others < <(find detail -name '*.hpp' ! -name runtime_owner.hpp)
closed_room "collector" 'cutrace/((sinks|cupti|sim)/.*|runtime\.hpp)' "${others[@]}"
mapfile -t collector_files < <(for name in ${collector//|/ }; do find detail -name "$name.hpp"; done)
closed_room "collector" 'cutrace/analysis/.*|fmt/.*' "${collector_files[@]}"
room "backends know only the event writer" "$light|$hot|backend|detail/(backend_[a-z_]+|told_backend)|(cupti|sim)/[a-z_]+|ioctl/[a-z_]+|cupti/cutrace_cuda_functions" "${backends[@]}"

# Light headers write text nowhere: no fmt, Boost or CUDA in them.
while read -r header; do
  if grep -nE '^ *# *include <(fmt|boost|cuda|cupti|iostream|string|vector)' "$source/include/$header"; then
    echo "FAILED: $header is on the light side"
    failed=1
  fi
done <"$source/tests/headers/light_headers.txt"
echo "$checked headers checked"
[ "$checked" -gt 10 ] || failed=1
exit $failed
