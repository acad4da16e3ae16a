#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# apt-get and apt-cache of setup.sh's machines: each package has a component, and installing it puts the one file there
# that scripts/setup looks for. Files in $CUTRACE_SETUP_MACHINE say what goes wrong: offline, no-<package>,
# unreachable-<package>; offline-npm is for npm, which is a fake as well once it is installed.
set -u
machine=$CUTRACE_SETUP_MACHINE
sources=$machine/etc/apt/sources.list.d

component_of() { # <package>: the part of the distribution that has it
  local ubuntu
  ubuntu=$(grep -c ubuntu "$machine/etc/os-release")
  case $ubuntu-$1 in
    1-nvidia-* | 1-libcupti-dev) echo multiverse ;;
    0-nvidia-* | 0-libcupti-dev) echo non-free ;;
    1-ninja-build | 1-prometheus | 1-python3-prometheus-client | 1-libfmt-dev | 1-libcli11-dev | 1-doctest-dev) echo universe ;;
    *) echo main ;;
  esac
}
listed() { cat "$sources"/* | grep -qE "^(Components:|deb ).* $1( |\$)"; }
offered() { [ ! -e "$machine/no-$1" ] && [ ! -e "$machine/offline" ] && listed "$(component_of "$1")"; }

put() { # <path> <text>
  mkdir -p "$machine/${1%/*}"
  printf '%s\n' "${2:-}" >"$machine/$1"
  chmod +x "$machine/$1"
}
install() {
  put "installed/$1"
  case $1 in
    g++) put bin/g++ $'#!/bin/sh\nread -r line\nfile=${line#*<}\n[ -e "$CUTRACE_SETUP_MACHINE/usr/include/${file%>}" ]' ;;
    cmake | jq | ccache | pkg-config | sqlite3 | clang-format-14) put "bin/$1" ;;
    ninja-build) put bin/ninja ;;
    prometheus) put bin/promtool ;;
    python3-prometheus-client) put usr/lib/python3/dist-packages/prometheus_client/parser.py ;;
    make) put bin/make ;;
    clang) put bin/clang++ ;;
    chromium) put bin/chromium ;;
    chromium-driver) put bin/chromedriver ;;
    nodejs) put bin/node ;;
    npm) put bin/npm '#!/bin/sh
echo "npm $1" >>"$CUTRACE_SETUP_MACHINE/log"
[ ! -e "$CUTRACE_SETUP_MACHINE/offline-npm" ] && [ -s package-lock.json ] && mkdir -p node_modules' ;;
    libclang-rt-dev) put usr/lib/llvm-14/lib/clang/14/lib/linux/libclang_rt.some ;;
    libfmt-dev) put usr/include/fmt/format.h ;;
    libboost-dev) put usr/include/boost/lockfree/queue.hpp ;;
    libcli11-dev) put usr/include/CLI/CLI.hpp ;;
    doctest-dev) put usr/include/doctest/doctest.h ;;
    nlohmann-json3-dev) put usr/include/nlohmann/json.hpp ;;
    libbenchmark-dev) put usr/include/benchmark/benchmark.h ;;
    libbpf-dev) put usr/include/bpf/libbpf.h ;;
    libelf-dev) put usr/include/gelf.h ;;
    zlib1g-dev) put usr/include/zlib.h ;;
    libsimdjson-dev) put usr/include/simdjson.h ;;
    libprotozero-dev) put usr/include/protozero/pbf_writer.hpp ;;
    protobuf-compiler) put bin/protoc ;;
    nvidia-cuda-dev) put usr/include/cuda.h ;;
    libcupti-dev) put usr/include/cupti.h ;;
    nvidia-cuda-toolkit) put usr/bin/nvcc "#!/bin/sh
[ -e $machine/installed/nvidia-cuda-toolkit-gcc ]" ;;
  esac
}

case "${0##*/} $*" in
  "apt-cache show "*) ;; # succeeds, as the real one, for a name that others only depend on
  "apt-cache policy "*)
    echo "$2:"
    if offered "$2"; then echo "  Candidate: 1.0"; else echo "  Candidate: (none)"; fi
    ;;
  "apt-get indextargets "*"Component: main"*)
    for file in "$sources"/*; do
      grep -qE '^(Components:|deb ).* main( |$)' "$file" && printf 'Component: main\nSourcesentry: %s:1\n' "$file"
    done
    ;;
  "apt-get indextargets "*) listed "${*##*: }" && echo "Component: ${*##*: }" ;;
  "apt-get "*" update") [ ! -e "$machine/offline" ] ;;
  "apt-get "*" install "*)
    packages=()
    for word in "${@#*install}"; do
      case $word in -* | Dpkg::* | install | '') ;; *) packages+=("$word") ;; esac
    done
    echo "install ${packages[*]}" >>"$machine/log"
    for package in "${packages[@]}"; do
      offered "$package" && [ ! -e "$machine/unreachable-$package" ] || exit 100
    done
    for package in "${packages[@]}"; do install "$package"; done
    ;;
  *) echo "fake apt: not expected: ${0##*/} $*" >&2; exit 99 ;;
esac
