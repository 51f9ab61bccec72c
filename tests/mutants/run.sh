#!/usr/bin/env bash
# How much do the tests see? Plants small changes at random places of a copy of the tree, all in one
# build, and runs the suites that reach each one until one fails.
#
#     bash tests/mutants/run.sh SEED [PER_1000_LINES [PATH...]]
#
# PER_1000_LINES: mutants for so many lines, 10 if not given. PATH: only files whose path begins so.
# The copy is build/mutants-SEED; the same command goes on where it stopped. Prints the mutants that
# no suite has caught, each with its place, and the count. Such a mutant may do the same as the
# program in every case; or no test looks. Needs the package libclang 14 of PyPI.
set -euo pipefail

[ $# -ge 1 ] || {
	sed -n '2,/^set/s/^# \{0,1\}//p' "$0" | sed '$d' >&2
	exit 2
}
seed=$1 density=${2:-10}
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
python3 -c 'import clang.cindex' || {
	echo "tests/mutants/run.sh: no clang.cindex: pip install libclang==14.0.6" >&2
	exit 2
}
tree=$PWD/build/mutants-$seed
build=$tree/build/mutants
if [ ! -e "$build/mutants.json" ]; then
	rm -rf "$tree"
	mkdir -p "$tree" "$build"
	git archive HEAD | tar -x -C "$tree"
	cc -O2 -fPIC -I"$tree" -c "$tree/tests/mutants/mutant.c" -o "$tree/build/mutant.o"
	# -w: the lines of mutants are of GNU C.
	cmake -S "$tree" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DQUIRE_CUDA=OFF \
		-DCMAKE_C_FLAGS="-w -include $tree/tests/mutants/mutant.h" \
		-DCMAKE_C_STANDARD_LIBRARIES="$tree/build/mutant.o" >"$build.log"
	python3 tests/mutants/plant.py "$tree" "$build" "$seed" "$density" "${@:3}"
fi
cmake --build "$build" >>"$build.log" || {
	tail -n 20 "$build.log" >&2
	exit 2
}
python3 tests/mutants/judge.py "$tree" "$build"
