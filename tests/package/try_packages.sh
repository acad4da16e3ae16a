#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs the packages of a folder on this machine, uses them as a stranger would, removes them and looks whether
# anything is left. Changes the machine while it runs, so it is no test of scripts/test: it is for machines that are
# thrown away.
#
#   try_packages.sh [--apt] FOLDER_OF_PACKAGES FOLDER_OF_PROJECT     as root
#
# --apt: dependencies are installed, too. Without it dpkg says what is missing, and goes on without.
set -u
with_apt=0
[ "${1:-}" = --apt ] && with_apt=1 && shift
packages=$(cd "$1" && pwd) project=$(cd "$2" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
unset CUTRACE CUTRACE_SINKS CUTRACE_BACKEND CMAKE_PREFIX_PATH
table=() status=0
row() { # <what> <result>
  table+=("$(printf '%-34s %s' "$1" "$2")")
  case $2 in FAILED*) status=1 ;; esac
}
files() {
  find /usr /etc /opt /var -xdev \( -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/log -o -path /var/cache -o \
    -path /var/tmp -o -name __pycache__ \) -prune -o -print 2>/dev/null | sort
}

# The machine's files, before and after. With apt-get, dependencies come first, so that only the packages differ.
if [ $with_apt -eq 1 ]; then
  echo "== apt-get install $packages/*.deb"
  DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$packages"/*.deb || row 'apt-get install' FAILED
  dpkg --purge cutrace libcutrace-dev cutrace-runtime >/dev/null || row 'first removal' FAILED
fi
files >before.txt

echo "== dpkg -i $packages/*.deb"
missing=
if dpkg -i "$packages"/*.deb >dpkg.txt 2>&1; then
  row 'dpkg -i' passed
else
  cat dpkg.txt
  missing=$(sed -nE 's/^ *([a-z-]+) depends on ([^;]*);.*/\1 wants \2/p; s/^  Package ([^ ]+) is not installed.*/(\1 is not installed)/p' dpkg.txt |
    sort -u | paste -sd, -)
  dpkg -i --force-depends "$packages"/*.deb >dpkg.txt 2>&1 && row 'dpkg -i' "without dependencies: $missing" || row 'dpkg -i' "FAILED: $(tail -1 dpkg.txt)"
fi
dpkg -L cutrace cutrace-runtime libcutrace-dev | while read -r f; do [ -d "$f" ] || echo "$f"; done >installed.txt
strays=$(grep -vE '^/usr/(bin/cutrace$|include/cutrace/|lib/|share/)' installed.txt)
row 'files' "$(wc -l <installed.txt)$([ -z "$strays" ] || echo "; FAILED: strays $strays")"

echo '== cutrace --version --verbose'
cutrace --version --verbose || row 'cutrace --version' FAILED
row 'left out of the packages' "$(cutrace --version --verbose | sed -nE 's/^ *without *([^,:(]*).*/\1/p' | paste -sd';' - | sed 's/ *;/;/g; s/ *$//; s/^$/nothing/')"
cutrace doctor >doctor.txt 2>&1
row 'cutrace doctor' "status $?: $(head -1 doctor.txt | cut -c1-90)"

echo '== a project with find_package(cutrace)'
if cmake -S "$project" -B build >configure.txt 2>&1 && cmake --build build >build.txt 2>&1; then
  grep 'cutrace:' configure.txt
  row 'project configured and built' passed
else
  cat configure.txt build.txt
  row 'project configured and built' FAILED
fi
said=$(CUTRACE_SINKS=jsonl:$work/linked.jsonl,ascii:$work/linked.txt build/stranger 2>&1) || row 'project runs' "FAILED: $said"
echo "$said"
count() { grep -c "\"type\":\"$1\"" "$2" 2>/dev/null; }
row 'linked: stages, kernels' "$(count stage linked.jsonl), $(count kernel linked.jsonl)"
[ "$(count stage linked.jsonl)" -ge 10 ] || row 'linked trace' 'FAILED: no stages'
launched=$(sed -nE 's/^stranger: ([0-9]+) kernels$/\1/p' <<<"$said")
if [ -n "$launched" ]; then
  [ "$(count kernel linked.jsonl)" -eq "$launched" ] || row 'linked trace' "FAILED: not $launched kernels"
  head -12 linked.txt
fi

echo '== cutrace run'
cutrace run --quiet --out out --name plain --sink jsonl,ascii -- build/plain >run.txt 2>&1 || row 'cutrace run' "FAILED: $(tail -1 run.txt)"
cat run.txt
file=$(ls out/plain*.jsonl 2>/dev/null | head -1)
row 'cutrace run: calls, kernels' "$(count api "$file"), $(count kernel "$file")"
if [ -n "$launched" ] && [ "$(count kernel "$file")" != "$launched" ]; then row 'cutrace run' "FAILED: not $launched kernels"; fi
if cutrace report linked.jsonl >report.txt 2>&1; then row 'cutrace report' "$(head -1 report.txt | cut -c1-90)"; else row 'cutrace report' "status $?: $(head -1 report.txt | cut -c1-90)"; fi
if command -v man >/dev/null && [ ! -e /etc/dpkg/dpkg.cfg.d/excludes ]; then
  man --warnings cutrace-run >man.txt 2>man.err
  row 'man cutrace-run' "$([ -s man.txt ] && [ ! -s man.err ] && echo passed || echo "FAILED: $(head -1 man.err)")"
fi

echo '== removal'
dpkg --purge cutrace libcutrace-dev cutrace-runtime >purge.txt 2>&1 || row removal "FAILED: $(tail -1 purge.txt)"
files >after.txt
left=$(diff before.txt after.txt | grep '^[<>]' | head -5)
row 'left behind' "$([ -z "$left" ] && echo nothing || echo "FAILED: $left")"

echo
echo "== $(. /etc/os-release && echo "$PRETTY_NAME"), $(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -1 || true)"
printf '%s\n' "${table[@]}"
exit $status
