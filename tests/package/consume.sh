#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Configures, builds and runs a consumer in a fresh folder, and installs it: it has no install rules, and must not get
# ours.
# consume.sh <cmake> <project> <build folder> <configure arguments...>
set -u
cmake=$1 project=$2 build=$3
shift 3
rm -rf "$build"
# What the project finds must come from the arguments alone.
unset CMAKE_PREFIX_PATH cutrace_DIR cutrace_ROOT
"$cmake" -S "$project" -B "$build" "$@" && "$cmake" --build "$build" &&
  CUTRACE_SINKS=null CUTRACE_BACKEND=none "$build/consumer" || exit 1
"$cmake" --install "$build" --prefix "$build/installed" || exit 1
if [ -d "$build/installed" ] && find "$build/installed" -type f | grep .; then
  echo "FAILED: the consumer installs what is not its own"
  exit 1
fi
