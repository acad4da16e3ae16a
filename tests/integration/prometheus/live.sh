#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A scrape of a running server, by python's HTTP client and by Prometheus itself, which then answers a query for a
# quantile; and what is said where the port is in use.
#
#   live.sh SOURCE_FOLDER FOLDER_FOR_FILES INFERENCE_SERVER ARGUMENTS...
set -u
source=$1 folder=$2 server=$3
shift 3
command -v python3 >/dev/null || { echo "skipped: no python3 here"; exit 77; }
rm -rf "$folder"
mkdir -p "$folder"
cd "$folder" || exit 1
exec python3 "$source/tests/integration/prometheus/live.py" "$server" "$@"
