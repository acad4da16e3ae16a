#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The direction of includes: data flows from producers through the collector to sinks, and no room may include what
# comes after it. One line for each room: its folder, and what its headers may include of cutrace.
# layers.sh <source folder>
set -u
source=$1
failed=0 checked=0

# Headers of applications and of those who write sinks or backends. runtime.hpp is the door to the runtime, not one of
# them.
light='(config|compiled|version|event|event_fields|clock|stage|mark|context|stats|error|request|request_done|names|twin_choice)'

room() { # <folder> <what it is> <allowed cutrace includes, a regular expression> [files, if not all of the folder]
  local folder=$1 what=$2 allowed=$3 file bad files=("${@:4}")
  if [ ${#files[@]} -eq 0 ]; then mapfile -t files < <(find "$source/$folder" -maxdepth 1 -name '*.hpp' 2>/dev/null); fi
  [ ${#files[@]} -gt 0 ] || { echo "FAILED: no header in $folder"; failed=1; }
  for file in "${files[@]}"; do
    checked=$((checked + 1))
    bad=$(grep -nE '^ *# *include [<"](cutrace|report|trace)/' "$file" | grep -vE "[<\"]($allowed)(\.hpp|/[a-z]+\.inc)[>\"]")
    if [ -n "$bad" ]; then
      printf 'FAILED: %s (%s) may not include\n%s\n' "${file#"$source"/}" "$what" "$bad"
      failed=1
    fi
  done
}

here=include/cutrace
top() { printf "$source/$here/%s.hpp\n" "$@"; }
mapfile -t markers < <(top version config compiled clock request stage mark context error event event_fields stats names twin_choice request_done)
mapfile -t interfaces < <(top session sink backend window)
room $here "markers" "cutrace/($light|marker/[a-z0-9_]+)" "${markers[@]}"
room $here "umbrella" "cutrace/($light|session)" "$source/$here/cutrace.hpp"
room $here "interfaces" "cutrace/($light|session)" "${interfaces[@]}"
room $here "graphs of an application" "cutrace/($light|marker/slot)" "$source/$here/graph_exec.hpp"
room $here "door to the runtime" "cutrace/($light|session|run/[a-z0-9_]+|sinks/make_[a-z]+_sinks)" "$source/$here/runtime.hpp"
room $here/marker "hot path" "cutrace/($light|marker/[a-z0-9_]+)"
room $here/base "what any inner room may use" "cutrace/($light|sink|base/[a-z0-9_]+)"
room $here/output "files and text" "cutrace/($light|(base|output)/[a-z0-9_]+)"
room $here/nvtx "NVTX" "cutrace/($light|(marker|nvtx)/[a-z0-9_]+)"
# Nothing flows back: the collector never names a sink, an analysis or a backend.
collector="cutrace/($light|session|sink|backend|(marker|base|collect|collect/watch)/[a-z0-9_]+)"
room $here/collect "collector" "$collector"
room $here/collect/watch "what faulted and what hangs, a part of the collector" "$collector"
# The runtime reaches sinks by name alone, through their registry: it makes those that CUTRACE_SINKS asks for.
room $here/run "runtime" "cutrace/($light|session|sink|backend|(marker|base|collect|collect/watch|nvtx|run)/[a-z0-9_]+|sinks/sink_registry)"
room $here/analysis "analysis: pure functions over events" "cutrace/($light|analysis/[a-z0-9_]+)"
# Sinks see events and what writes text and files; nothing of the way the events came.
behind='(base|output|analysis)/[a-z0-9_]+'
room $here/sinks "sinks" "cutrace/($light|sink|$behind|sinks/[a-z0-9_]+(/[a-z0-9_]+)?)"
while read -r folder; do
  name=${folder##*/} more=''
  [ "$name" = html ] && more='|ascii' # its page has the lines that the terminal has
  [ "$name" = common ] && more='|ascii'
  room "$here/sinks/$name" "inside of one sink" "cutrace/($light|sink|$behind|sinks/($name|common$more)/[a-z0-9_]+)"
done < <(find "$source/$here/sinks" -mindepth 1 -maxdepth 1 -type d)
mapfile -t backends < <(find "$source/backends" -path '*/include/*' -name '*.hpp')
room backends "backends know only the event writer" \
  "cutrace/($light|marker/[a-z0-9_]+|backend|base/process_info|run/(backend_[a-z0-9_]+|remote_backend)|(cupti|sim|ioctl)/[a-z0-9_]+)" \
  "${backends[@]}"
report="report/[a-z_/]+|cutrace/($light|sink|(output|analysis)/[a-z0-9_]+|sinks/(ascii|common)/[a-z0-9_]+)"
room tools/report "whole traces" "$report"
room tools/report/pages "the report's pages" "$report"
# Each folder of the library is a room.
while read -r folder; do
  case ${folder#"$source/$here"} in
    '' | /marker | /base | /output | /nvtx | /collect | /collect/watch | /run | /analysis | /sinks | /sinks/*) ;;
    *) echo "FAILED: ${folder#"$source"/} is no room of this list"; failed=1 ;;
  esac
done < <(find "$source/$here" -type d)

# What only some rooms may use.
without() { # <what> <pattern> <files>
  local what=$1 pattern=$2
  shift 2
  if grep -nE "^ *# *include <($pattern)" "$@"; then
    echo "FAILED: $what may not include the above"
    failed=1
  fi
}
mapfile -t pure < <(find "$source/$here"/{collect,run,marker,base,analysis} -name '*.hpp')
without "collector, runtime and analyses write no text for people" 'fmt/' "${pure[@]}"
mapfile -t all < <(find "$source/$here" -name '*.hpp' ! -path '*/collect/*')
without "Boost is the collector's" 'boost/' "${all[@]}"
while read -r header; do
  without "the light side" '(fmt|boost|cuda|cupti|iostream|string|vector)' "$source/include/$header"
done <"$source/tests/headers/light_headers.txt"
# The environment comes from the caller, who may have fewer rights than the program (setuid): only environment(), which
# checks that, reads it. The stand-ins for the driver are exempt: they play foreign libraries.
if grep -rnE '\bgetenv\(' "$source/$here" "$source/backends" --include='*.[ch]pp' --include='*.h' |
  grep -vE "^$source/($here/base/process_info.hpp|backends/sim/(cu|nvml))"; then
  echo "FAILED: the above read the environment; detail::environment() does, in base/process_info.hpp"
  failed=1
fi
echo "$checked headers checked"
[ "$checked" -gt 100 ] || failed=1
exit $failed
