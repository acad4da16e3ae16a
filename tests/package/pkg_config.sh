#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The markers through pkg-config alone.
# pkg_config.sh <pkg-config> <compiler> <prefix> <source> <version>
set -u
pkg_config=$1 compiler=$2 prefix=$3 source=$4 version=$5
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
folder=$(dirname "$(find "$prefix" -name cutrace-marker.pc)")
export PKG_CONFIG_PATH=$folder
[ "$("$pkg_config" --modversion cutrace-marker)" = "$version" ] || { echo "FAILED: version"; exit 1; }
read -ra flags < <("$pkg_config" --cflags cutrace-marker)
"$compiler" -std=c++17 "${flags[@]}" "$source" -o "$out/consumer" && "$out/consumer"
