#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Opens HTML reports in a headless Chromium; the pictures are of a run of the inference server, where it is built.
# html_report.sh <python3> <chromedriver> <chromium> <make_reports> <folder> [inference_server]
set -u
python=$1 chromedriver=$2 chromium=$3 make_reports=$4 folder=$5 server=${6:-}
for program in "python3:$python" "chromedriver:$chromedriver" "Chromium:$chromium"; do
  [ -x "${program#*:}" ] && continue
  echo "skipped: no ${program%%:*} on this machine; scripts/setup --browser installs Chromium with its driver"
  exit 77
done
rm -rf "$folder"
mkdir -p "$folder"
page=()
if [ -n "$server" ]; then
  page=("$folder/inference_server.html")
  CUTRACE=1 CUTRACE_BACKEND=none CUTRACE_SINKS=html:${page[0]} "$server" --device sim --quiet --requests 40 --workers 2 ||
    { echo "FAILED: the server ended with status $?"; exit 1; }
fi
"$python" "$(dirname "$0")/html_report.py" "$chromedriver" "$chromium" "$make_reports" "$folder" "${page[@]}"
