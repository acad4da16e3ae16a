#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The inference server with the Prometheus sink and a JSONL trace of the same run: the numbers are compared, and the page
# is read by clients that are not ours, prometheus_client and promtool.
#
#   file.sh SOURCE_FOLDER FOLDER_FOR_FILES INFERENCE_SERVER ARGUMENTS...
set -u
source=$1 folder=$2 server=$3
shift 3
rm -rf "$folder"
mkdir -p "$folder"
cd "$folder" || exit 1
failed=0
fail() { echo "FAILED: $1"; failed=1; }
CUTRACE_SINKS=jsonl:trace.jsonl,prometheus:m.prom "$server" --quiet "$@" >out.txt 2>err.txt ||
  fail "the server ended with status $?"
cat out.txt err.txt
grep -qv "^cutrace: wrote " err.txt && fail "something was said on stderr"
read=0
if command -v promtool >/dev/null; then
  promtool check metrics <m.prom || fail "promtool refuses the page"
  read=1
else
  echo "skipped: promtool is not here (Debian: prometheus)"
fi
python=
for one in python3 /usr/bin/python3; do # Debian's packages are for /usr/bin/python3
  [ -z "$python" ] && "$one" -c 'import prometheus_client' 2>/dev/null && python=$one
done
if [ -n "$python" ]; then
  "$python" "$source/tests/integration/prometheus/compare.py" trace.jsonl m.prom || fail "the metrics are not those of the trace"
  read=1
else
  echo "skipped: python3 has no prometheus_client (Debian: python3-prometheus-client)"
fi
[ $failed -eq 0 ] && [ $read -eq 0 ] && exit 77
exit $failed
