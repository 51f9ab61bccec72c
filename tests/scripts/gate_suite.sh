#!/usr/bin/env bash
# Judges a build as a pull request is judged: by the committed baseline, and its costs by the commit
# before it.
#
#     bash tests/scripts/gate_suite.sh BUILD
#
# Where the build has no CUDA its own program is measured, else both are built without CUDA, since
# the toolkit's start-up has instructions of its own. QUIRE_BASE names another commit than HEAD^.
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$(cd "$1" && pwd)
cd "$root" || exit 2
passed=0 failed=0 skipped=0
work=$build/gate
mkdir -p "$work"

# tell NAME LOG CODE: a line, and what the gate said where it failed
tell()
{
	if [ "$3" = 0 ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		cat "$2"
	fi
	echo "$1: $(tail -n 1 "$2")"
}

code=0
"$build/quire" gate bench/suites/quire.json --out "$work/results" >"$work/log" 2>&1 || code=$?
tell "the committed baseline" "$work/log" $code

# build_of COMMIT FOLDER: the program of a commit without CUDA
build_of()
{
	local source=$2/source
	rm -rf "$source"
	mkdir -p "$source"
	git archive "$1" | tar x -C "$source" &&
		cmake -S "$source" -B "$2/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
			-DQUIRE_CUDA=OFF -DQUIRE_TESTS=OFF &&
		cmake --build "$2/build" --target quire
}

skip()
{
	skipped=$((skipped + 1))
	echo "skipped: costs beside the base commit: $1"
}

base=$(git rev-parse --verify --quiet "${QUIRE_BASE:-HEAD^}^{commit}")
if [ -z "$base" ]; then
	skip "there is no commit before this one here"
elif ! git cat-file -e "$base:bench/gate/gate.c" 2>/dev/null; then
	skip "the base commit has no gate"
elif ! valgrind --version >/dev/null 2>&1; then
	skip "valgrind, which counts instructions, is not installed"
elif ! { build_of "$base" "$work/base" && build_of HEAD "$work/head"; } >"$work/log" 2>&1; then
	failed=$((failed + 1))
	tail -n 20 "$work/log"
else
	code=0
	"$work/head/build/quire" gate bench/suites/costs.json --out "$work/costs" \
		--against "$work/base/build/quire" >"$work/log" 2>&1 || code=$?
	tell "costs beside $(git rev-parse --short "$base")" "$work/log" $code
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
