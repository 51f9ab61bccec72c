#!/usr/bin/env bash
# Plants bugs into kernels and the CUDA runner, one after the other, and demands that the tests
# named in the patch fail on a GPU. So the tests are known to find such bugs.
#
#     bash tests/canaries/gpu.sh build BUILD FOLDER [PATCH...]     compiles a program for each patch
#                                                                  and test; without PATCH: all
#     bash tests/canaries/gpu.sh run FOLDER                        runs them, where there is a GPU
#
# BUILD is a build folder of Ninja with the plain test programs (tests/README.md). The patches are
# tests/canaries/gpu/*.patch: a sentence on the bug, a line "Caught by: TEST[/CASE]..." of the
# programs TEST_plain, the line "The test never ends." where that is so (run ends it after 100 s),
# and a change of one file. FOLDER can be carried to another machine; run needs only this script
# there, and two GPUs for tests of tensor parallelism.
set -euo pipefail

# compile TREE BUILD FILE OUT: a file of a tree, with the flags of the build.
compile()
{
	local tree=$1 build=$2 file=$3 out=$4 command

	command=$(grep -m 1 -F " -c $root/$file" <<<"$commands")
	command=${command//$root/$tree}
	command=$(sed -E "s|( -o) [^ ]+|\\1 $out|; s|( -MF) [^ ]+|\\1 /dev/null|" <<<"$command")
	(cd "$build" && eval "$command")
}

# users FILE: the kernels that include a header, or a header that includes it, and so on.
users()
{
	local files=$1 before=""
	while [ "$files" != "$before" ]; do
		before=$files
		files=$(cd "$root" && { echo "$files"; for file in $files; do
			grep -lF "include \"$file\"" kernels/*/*.cu kernels/*/*.cuh || true
		done; } | sort -u)
	done
	grep '\.cu$' <<<"$files"
}

# plant BUILD FOLDER PATCH: the programs of a patch, linked with the files that it changes.
plant()
{
	local build=$1 folder=$2 patch=$3 name tree objects=() file test link case ends
	name=$(basename "$patch" .patch)
	tree=$(mktemp -d)
	cp -r "$root/kernels" "$root/engine" "$root/tests" "$tree"
	patch -d "$tree" -p1 -s <"$patch"
	file=$(sed -n 's|^+++ b/||p' "$patch" | head -1)
	for file in $([[ $file != *.cuh ]] && echo "$file" || users "$file"); do
		objects+=("$tree/$(basename "$file").o")
		compile "$tree" "$build" "$file" "${objects[-1]}"
	done
	for case in $(sed -n 's/^Caught by: //p' "$patch"); do
		test=${case%%/*}
		ends=$(grep -q '^The test never ends\.$' "$patch" && echo never || echo fails)
		echo "$name.$test $case $ends" >>"$folder/cases"
		link=$(ninja -C "$build" -t commands "tests/${test}_plain" | tail -1)
		link=${link/ -o tests\/${test}_plain/ ${objects[*]} -o $folder/$name.$test}
		(cd "$build" && eval "$link")
	done
	rm -r "$tree"
}

run_all()
{
	local folder=$1 program case ends code passed=0 failed=0
	while read -r program case ends; do
		code=0
		timeout 100 "$folder/$program" "$case" >"$folder/log" 2>&1 || code=$?
		if [ "$ends" = never ] && [ $code = 124 ]; then
			echo "ok   $program: never ends"
			passed=$((passed + 1))
		elif ! grep -q ' FAILED$' "$folder/log" && [ $code -lt 128 ]; then
			echo "FAIL $program: exit code $code: $(tail -n 1 "$folder/log")"
			failed=$((failed + 1))
		else
			echo "ok   $program: $(
				grep -m 1 -vE ' (passed|skipped)$' "$folder/log")"
			passed=$((passed + 1))
		fi
	done <"$folder/cases"
	rm -f "$folder/log"
	echo "$passed passed, $failed failed, 0 skipped"
	[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}

case "${1:-}" in
build)
	root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
	build=$(cd "$2" && pwd)
	commands=$(ninja -C "$build" -t commands)
	mkdir -p "$3"
	folder=$(cd "$3" && pwd)
	rm -f "$folder/cases"
	shift 3
	[ $# -gt 0 ] || set -- "$root"/tests/canaries/gpu/*.patch
	for patch; do
		plant "$build" "$folder" "$patch"
	done
	;;
run)
	run_all "$2"
	;;
*)
	echo "expected build BUILD FOLDER [PATCH...] or run FOLDER" >&2
	exit 2
	;;
esac
