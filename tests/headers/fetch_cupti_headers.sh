#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Fetches the CUDA and CUPTI headers of a distribution without installing anything, for headers.cupti_versions: Debian 12
# has those of CUDA 11.8, Ubuntu 24.04 those of 12.0. Nothing of the machine's apt is changed. The package with cuda.h is
# large (Debian's: 740 MiB); it is removed once its headers are out.
#
#   fetch_cupti_headers.sh BUILD_FOLDER debian|ubuntu      into BUILD_FOLDER/cupti-headers/debian|ubuntu
#
# Needs apt-get and dpkg-deb, and the archive's keyring (packages debian-archive-keyring, ubuntu-keyring).
set -eu
[ $# -eq 2 ] || { sed -n '3,9s/^# \{0,1\}//p' "$0"; exit 2; }
case $2 in
  debian) archive="http://deb.debian.org/debian bookworm non-free" key=/usr/share/keyrings/debian-archive-keyring.gpg ;;
  ubuntu) archive="http://archive.ubuntu.com/ubuntu noble multiverse" key=/usr/share/keyrings/ubuntu-archive-keyring.gpg ;;
  *) echo "$2: debian or ubuntu"; exit 2 ;;
esac
[ -r "$key" ] || { echo "$key is missing: install debian-archive-keyring or ubuntu-keyring"; exit 1; }
target=$(mkdir -p "$1/cupti-headers/$2" && cd "$1/cupti-headers/$2" && pwd)
work=$(mktemp -d "$target/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/lists/partial "$work"/cache/archives/partial
: >"$work/status"
echo "deb [arch=amd64 signed-by=$key] $archive" >"$work/sources.list"
own_apt=(-o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$work/lists"
         -o "Dir::Cache=$work/cache" -o "Dir::State::status=$work/status" -o APT::Architecture=amd64
         -o "APT::Sandbox::User=$(id -un)")
apt-get "${own_apt[@]}" -q update
cd "$work"
apt-get "${own_apt[@]}" -q download libcupti-dev nvidia-cuda-dev
for package in *.deb; do
  dpkg-deb --fsys-tarfile "$package" | tar -x -C "$target" --wildcards './usr/include/*'
done
grep -H "define CUDA_VERSION" "$target/usr/include/cuda.h"
