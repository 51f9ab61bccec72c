#!/usr/bin/env bash
# Installs what is missing, builds and runs every test. The last line counts test cases:
# "N passed, N failed, N skipped". Exit code 0 when none failed, 1 when one did, 2 when there is no
# build to test.
#
#     bash tests/run.sh [PRESET]    PRESET: release (default), debug, o0, sanitize or clang
set -euo pipefail

preset=${1:-release}
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export CTEST_OUTPUT_ON_FAILURE=

QUIRE_BROWSER=ON bash bench/scripts/setup.sh
jobs=$(nproc 2>/dev/null || echo 2)
mkdir -p build
log=build/$preset.log
echo "building in build/$preset"
bash bench/scripts/build.sh "$preset" -j "$jobs" >"$log" 2>&1 || {
	cat "$log" >&2
	echo "tests/run.sh: the build failed, see above" >&2
	exit 2
}

# The exit code follows the counts, which are more precise than ctest's exit code: see the awk file.
ctest --preset "$preset" --verbose -j "$jobs" </dev/null 2>&1 | awk -f tests/scripts/count_tests.awk
