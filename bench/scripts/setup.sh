#!/usr/bin/env bash
# Installs what quire needs to build, test and plot, unless it is installed.
# bench/demo.sh and tests/run.sh call it; it can also be run directly. With QUIRE_MPI=ON it also
# installs Open MPI, by which mpirun can start the ranks of tensor parallelism. With
# QUIRE_BROWSER=ON it tries to install Chromium, in which a test loads the pages of quire report;
# without it that test is skipped.
set -euo pipefail

packages=(build-essential cmake ninja-build pkg-config libcriterion-dev libcjson-dev libxxhash-dev
	libyajl-dev zlib1g-dev libzstd-dev libpcre2-dev libutf8proc-dev gnuplot-nox valgrind)
programs=(cc cmake ninja pkg-config gnuplot)
if [ "${QUIRE_MPI:-AUTO}" = ON ]; then
	packages+=(libopenmpi-dev openmpi-bin)
	programs+=(mpicc mpirun)
fi

# The browser is only worth a word: everything else works without it.
offer_browser()
{
	[ "${QUIRE_BROWSER:-OFF}" = ON ] && ! command -v chromium >/dev/null || return 0
	command -v apt-get >/dev/null && { [ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null; } &&
		"${as_root[@]}" apt-get install --yes --no-install-recommends chromium \
			</dev/null >/dev/null 2>&1 ||
		echo "Chromium cannot be installed: the test of pages in a browser will be skipped"
}

as_root=(env DEBIAN_FRONTEND=noninteractive)
[ "$(id -u)" -eq 0 ] || as_root=(sudo "${as_root[@]}")

fail()
{
	echo "bench/scripts/setup.sh: $*" >&2
	exit 2
}

# On a system without Debian's packages: lists the missing programs and libraries.
missing_elsewhere()
{
	local name
	for name in "${programs[@]}"; do
		command -v "$name" >/dev/null || echo "$name"
	done
	command -v pkg-config >/dev/null || return 0
	for name in criterion libcjson libxxhash yajl zlib libzstd libpcre2-8 libutf8proc; do
		pkg-config --exists "$name" || echo "$name"
	done
}

missing_packages()
{
	local name
	for name in "${packages[@]}"; do
		dpkg-query --show --showformat '${db:Status-Status}\n' "$name" 2>/dev/null |
			grep -qx installed || echo "$name"
	done
}

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
	missing=$(missing_elsewhere)
	[ -z "$missing" ] || fail "please install, by your system's means:" $missing
	offer_browser
	exit 0
fi

# A tool or library that was not installed from a package is accepted too.
missing=$(missing_packages)
if [ -z "$missing" ] || [ -z "$(missing_elsewhere)" ]; then
	offer_browser
	exit 0
fi

[ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null ||
	fail "as root, please run: apt-get install" $missing

echo "quire needs these packages and installs them:" $missing
install=("${as_root[@]}" apt-get install --yes --no-install-recommends $missing)
# The existing package lists are tried first, and updated only if that fails.
"${install[@]}" </dev/null >/dev/null 2>&1 || {
	"${as_root[@]}" apt-get update </dev/null >/dev/null
	"${install[@]}" </dev/null >/dev/null
} || fail "apt-get could not install:" $missing
offer_browser
