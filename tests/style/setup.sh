#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# scripts/setup on machines that are folders, with an apt that only pretends: which sources it adds, what it installs,
# what a second run does, and what a failure leaves behind.
#   setup.sh <source folder>
set -u
source=$1 here=$(cd "$(dirname "$0")" && pwd) failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A fresh machine: <name> <distribution> <file of its sources> <their text>. All commands come from its own folder.
fresh_machine() {
  machine=$work/$1
  mkdir -p "$machine"/{bin,etc/apt/sources.list.d,usr/include,usr/bin} "$machine/tree"/{scripts,tests/clients}
  cp "$source/scripts/setup" "$machine/tree/scripts"
  cp "$source"/tests/clients/package*.json "$machine/tree/tests/clients"
  for tool in awk bash cat chmod cmp cp dirname env grep id mkdir mktemp rm sed sh sort tee; do
    ln -s "$(command -v "$tool")" "$machine/bin/$tool"
  done
  for tool in apt-get apt-cache; do ln -s "$here/fake_apt.sh" "$machine/bin/$tool"; done
  printf '#!/bin/sh\nshift\nexec "$@"\n' >"$machine/bin/sudo" # sudo -n COMMAND
  chmod +x "$machine/bin/sudo"
  printf 'ID=%s\nVERSION_CODENAME=some\n' "$2" >"$machine/etc/os-release"
  printf '%s\n' "$4" >"$machine/etc/apt/sources.list.d/$3"
}
setup() { # <arguments...>: what it installs is in $machine/log, what it says in $said
  : >"$machine/log"
  said=$(env -i PATH="$machine/bin" HOME="$machine" CUTRACE_SETUP_MACHINE="$machine" \
    bash "$machine/tree/scripts/setup" "$@" 2>&1)
  status=$?
}
expect() { # <what> <condition...>
  if "${@:2}"; then echo "ok: $1"; else echo "FAILED: $1"; echo "  said: $(head -n 5 <<<"$said")"; failed=1; fi
}
says() { grep -qE -- "$1" <<<"$said"; }
silent() { [ ! -s "$machine/log" ]; }
installed() { [ -e "$machine/installed/$1" ]; }
not() { ! "$@"; }

debian=$'Types: deb\nURIs: http://mirror/debian\nSuites: some some-updates\nComponents: main\nSigned-By: /key.gpg'
fresh_machine cuda debian debian.sources "$debian"
setup --with-cuda
added=$machine/etc/apt/sources.list.d/cutrace-cuda.sources
expect "CUDA on Debian: succeeds" [ $status -eq 0 ]
expect "CUDA on Debian: the mirror's own contrib and non-free are added" \
  [ "$(grep . "$added" 2>&1)" = "${debian/: main/: contrib non-free}" ]
expect "CUDA on Debian: the compiler comes with a host compiler" "$machine/usr/bin/nvcc" a.cu
expect "the optional packages come too" installed clang-format-14
setup --with-cuda
expect "a second run installs nothing" silent
rm "$machine/installed/nvidia-cuda-toolkit-gcc"
setup
expect "without --with-cuda nobody cares for nvcc" silent
expect "Prometheus, which starts a service, is not installed unasked" not installed prometheus
setup --with-prometheus
expect "--with-prometheus installs it" installed prometheus
setup --with-cuda
expect "an nvcc without a host compiler gets one" installed nvidia-cuda-toolkit-gcc

fresh_machine universe ubuntu ubuntu.list $'# some\ndeb [signed-by=/k.gpg] http://mirror/ubuntu some main restricted'
setup --minimal --with-cuda
list=$machine/etc/apt/sources.list.d
expect "Ubuntu without universe: succeeds" [ $status -eq 0 ]
expect "Ubuntu without universe: universe is added" \
  grep -qx 'deb \[signed-by=/k.gpg\] http://mirror/ubuntu some universe' "$list/cutrace-universe.list"
expect "CUDA on Ubuntu: multiverse is added" \
  grep -qx 'deb \[signed-by=/k.gpg\] http://mirror/ubuntu some multiverse' "$list/cutrace-cuda.list"

fresh_machine minimal debian debian.sources "$debian"
setup --demo
expect "the demo: succeeds" [ $status -eq 0 ]
for package in libcli11-dev libsimdjson-dev libprotozero-dev zlib1g-dev; do
  expect "the demo does without $package" not installed $package
done
setup --minimal
for package in libfmt-dev libcli11-dev libsimdjson-dev libprotozero-dev zlib1g-dev; do
  expect "--minimal installs $package" installed $package
done
expect "--minimal installs nothing of the tests" not installed doctest-dev

fresh_machine nothing ubuntu odd.list 'no source at all'
setup --minimal
expect "no source to copy: fails" [ $status -eq 1 ]
expect "no source to copy: universe is named" says universe

fresh_machine optional debian debian.sources "$debian"
touch "$machine/no-clang-format-14" "$machine/unreachable-ccache"
setup
expect "optional packages that cannot be had are no failure" [ $status -eq 0 ]
expect "which package no source has, is said" says 'no source has clang-format-14 .*delete .*setup.unavailable'
expect "a download that failed is said" says 'could not install ccache \(optional\); the next run tries again'
rm "$machine/unreachable-ccache"
setup
expect "the next run tries what had failed" installed ccache
expect "the next run passes over what there is not" not grep -q clang-format-14 "$machine/log"
expect "the next run says what it passes over" says 'passed over clang-format-14 .*delete .*setup.unavailable'
rm "$machine/no-clang-format-14" "$machine/tree/build/setup.unavailable"
setup
expect "without that file it looks again" installed clang-format-14

fresh_machine browser debian debian.sources "$debian"
setup
expect "no browser unless it is asked for" not installed chromium
setup --browser
expect "--browser: succeeds" [ $status -eq 0 ]
expect "--browser brings Chromium" installed chromium
expect "--browser brings its driver" installed chromium-driver

fresh_machine clients debian debian.sources "$debian"
clients=$machine/tree/build/clients
setup --browser
expect "no npm packages unless they are asked for" [ ! -e "$clients" ]
touch "$machine/offline-npm"
setup --clients
expect "npm that reaches nothing is no failure" [ $status -eq 0 ]
expect "npm that reaches nothing: it is said" says 'could not install the clients \(optional\), see .*npm.log; the next run'
expect "npm that reaches nothing: nothing counts as installed" [ ! -e "$clients/installed.json" ]
rm "$machine/offline-npm"
setup --clients
expect "the next run installs the clients" [ -d "$clients/node_modules" ]
setup --clients
expect "a second run asks npm for nothing" silent
echo >>"$machine/tree/tests/clients/package-lock.json"
setup --clients
expect "other versions are installed anew" grep -qx 'npm ci' "$machine/log"
fresh_machine no-npm debian debian.sources "$debian"
touch "$machine/no-npm"
setup --clients
expect "without npm: succeeds" [ $status -eq 0 ]
expect "without npm: what is missing is said" says 'no Node.js with npm, so without the clients'

fresh_machine offline debian debian.sources "$debian"
touch "$machine/offline"
setup
expect "without a network: fails" [ $status -eq 1 ]
expect "without a network: nothing is remembered" [ ! -e "$machine/tree/build/setup.unavailable" ]

# Each package that npm fetches is recognised by its content, on every machine.
lock=$source/tests/clients/package-lock.json
expect "all pinned clients have their hash" \
  [ "$(grep -c '"resolved": ' "$lock")" -eq "$(grep -A 1 '"resolved": ' "$lock" | grep -c '"integrity": "sha512-')" ]
exit $failed
