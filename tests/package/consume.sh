#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Configures, builds and runs a consumer in a fresh folder.
# consume.sh <cmake> <project> <build folder> <configure arguments...>
set -u
cmake=$1 project=$2 build=$3
shift 3
rm -rf "$build"
# What the project finds must come from the arguments alone.
unset CMAKE_PREFIX_PATH cutrace_DIR cutrace_ROOT
"$cmake" -S "$project" -B "$build" "$@" && "$cmake" --build "$build" && CUTRACE_SINKS=null CUTRACE_BACKEND=none "$build/consumer"
