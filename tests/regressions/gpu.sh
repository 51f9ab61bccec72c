#!/usr/bin/env bash
# Whether the gate tells a slower GPU program from noise: ten pairs of the program against itself
# must pass, and a regression of tests/regressions/gpu must be named within six pairs.
#
#     bash tests/regressions/gpu.sh build BUILD FOLDER     makes the programs
#     bash tests/regressions/gpu.sh run FOLDER             runs them, where there is a GPU
#
# BUILD is a finished build by Ninja with CUDA. FOLDER can be carried to another machine; run needs
# only this script there. A patch has the form of run.sh and may change CUDA files.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

build_all() # BUILD FOLDER
{
	local root=$here/../.. folder patch name
	mkdir -p "$2"
	folder=$(cd "$2" && pwd)
	build=$(cd "$1" && pwd)
	tree=$(mktemp -d)
	objects=()
	cd "$root" || exit 2
	# shellcheck source=tests/canaries/planting.sh
	. tests/canaries/planting.sh
	cp "$build/quire" tests/regressions/gpu/* "$folder/"
	for patch in tests/regressions/gpu/*.patch; do
		name=$(basename "$patch" .patch)
		plant "$patch" && link quire "$folder/$name" "${objects[@]}" || exit 2
	done
	rm -r "$tree"
}

failed=0
tell() # ok|FAIL WORDS
{
	[ "$1" = ok ] || failed=$((failed + 1))
	echo "$@"
}

gate() # PROGRAM ARGUMENT...
{
	local program=$1
	shift
	"./$program" gate suite.json --out results "$@" >log 2>&1
}

run_all() # FOLDER
{
	local patch name case verdict words code
	cd "$1" || exit 2
	code=0
	gate quire --only ten-pairs --null-runs 1 || code=$?
	cat log
	if [ $code = 0 ]; then
		tell ok "ten pairs of the program against itself"
	else
		tell FAIL "ten pairs of the program against itself: exit code $code"
	fi
	for patch in *.patch; do
		name=$(basename "$patch" .patch)
		read -r case verdict words <<<"$(sed -n 's/^Gate: //p' "$patch" | head -1)"
		gate "$name" --only "$case" --against ./quire
		cat log
		if grep -qE "^$case +$verdict\$" log && grep -qF -- "$words" log; then
			tell ok "$name"
		else
			tell FAIL "$name: expected $case $verdict, '$words'"
		fi
	done
	[ "$failed" = 0 ]
}

case ${1:-}-$# in
build-3) build_all "$2" "$3" ;;
run-2) run_all "$2" ;;
*)
	echo "usage: gpu.sh build BUILD FOLDER | gpu.sh run FOLDER" >&2
	exit 2
	;;
esac
