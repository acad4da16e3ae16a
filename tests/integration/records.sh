#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The stand-in's activity records beside those of a real GPU, field by field: record_dump printed the reference on an
# NVIDIA H200 (driver 580.159, CUPTI 13.0).
#   records.sh RECORD_DUMP REFERENCE
set -u
printed=$(mktemp)
trap 'rm -f "$printed"' EXIT
"$1" >"$printed" || exit 1
diff -u "$2" "$printed" && echo "$(wc -l <"$2") records agree"
