#!/usr/bin/env bash
# Plants bugs into kernels, one after the other, and demands that the tests named in the patch fail
# on a GPU. So the tests are known to find such bugs.
#
#     bash tests/canaries/gpu.sh build BUILD FOLDER     compiles a program for each patch and test
#     bash tests/canaries/gpu.sh run FOLDER             runs them, where there is a GPU
#
# BUILD is a build folder of Ninja with the plain test programs (tests/README.md). The patches are
# tests/canaries/gpu/*.patch: a sentence on the bug, a line "Caught by: TEST..." of the programs
# TEST_plain, and a change of one file of kernels/. FOLDER can be carried to another machine; run
# needs only this script there.
set -euo pipefail

# compile TREE BUILD FILE OUT: a CUDA file of a tree, with the flags of the build.
compile()
{
	local tree=$1 build=$2 file=$3 out=$4 command

	command=$(ninja -C "$build" -t commands | grep -F " -c $root/$file " | head -1)
	command=${command//$root/$tree}
	(cd "$build" && eval "${command% -o *} -o $out")
}

# plant BUILD FOLDER PATCH: the programs of a patch, linked with the files that it changes.
plant()
{
	local build=$1 folder=$2 patch=$3 name tree objects=() file test link
	name=$(basename "$patch" .patch)
	tree=$(mktemp -d)
	cp -r "$root/kernels" "$root/engine" "$root/tests" "$tree"
	patch -d "$tree" -p1 -s <"$patch"
	file=$(sed -n 's|^+++ b/||p' "$patch" | head -1)
	for file in $([[ $file == *.cu ]] && echo "$file" ||
		(cd "$root" && grep -l "include \"$file\"" kernels/*/*.cu)); do
		objects+=("$tree/$(basename "$file").o")
		compile "$tree" "$build" "$file" "${objects[-1]}"
	done
	for test in $(sed -n 's/^Caught by: //p' "$patch"); do
		link=$(ninja -C "$build" -t commands "tests/${test}_plain" | tail -1)
		link=${link/ -o tests\/${test}_plain/ ${objects[*]} -o $folder/$name.$test}
		(cd "$build" && eval "$link")
	done
	rm -r "$tree"
}

run_all()
{
	local folder=$1 program passed=0 failed=0
	for program in "$folder"/*.*; do
		if timeout 60 "$program" >"$folder/log" 2>&1; then
			echo "FAIL $(basename "$program"): the planted bug was not found"
			failed=$((failed + 1))
		else
			echo "ok   $(basename "$program"): $(grep -m 1 -v ' passed$' "$folder/log")"
			passed=$((passed + 1))
		fi
	done
	rm -f "$folder/log"
	echo "$passed passed, $failed failed, 0 skipped"
	[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}

case "${1:-}" in
build)
	root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
	build=$(cd "$2" && pwd)
	mkdir -p "$3"
	folder=$(cd "$3" && pwd)
	for patch in "$root"/tests/canaries/gpu/*.patch; do
		plant "$build" "$folder" "$patch"
	done
	;;
run)
	run_all "$2"
	;;
*)
	echo "expected build BUILD FOLDER or run FOLDER" >&2
	exit 2
	;;
esac
