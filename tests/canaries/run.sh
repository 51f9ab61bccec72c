#!/usr/bin/env bash
# Plants one bug after the other. Demands that the test cases named in the patch fail with it, and
# that they pass without it. So the tests are known to find such bugs.
#
#     bash tests/canaries/run.sh BUILD [PATCH...]      without PATCH: all of this folder
#
#     bash tests/canaries/run.sh --applies             only whether the patches apply
#     bash tests/canaries/run.sh --list                the table of README.md
#
# BUILD is a finished build by Ninja, e.g. build/release. It is read, not changed.
#
# A patch changes C files, no headers. Its first line says what is wrong with the bug, its second
#
#     Caught by: TEST[/CASE] ...
#
# which tests fail: programs tests/PATH/test_TEST.c, or one case of them, which takes less time.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
passed=0 failed=0 skipped=0

# Counts and shows the lines "ok ...", "FAIL ..." and "skipped: ...".
count()
{
	local line
	while IFS= read -r line; do
		case $line in
		ok*) passed=$((passed + 1)) ;;
		skipped*) skipped=$((skipped + 1)) ;;
		*) failed=$((failed + 1)) ;;
		esac
		echo "$line"
	done
}

finish()
{
	echo "$passed passed, $failed failed, $skipped skipped"
	[ "$failed" = 0 ]
	exit
}

cd "$root" || exit 2
build=${1:-}
[ $# = 0 ] || shift
if [ $# -gt 0 ]; then
	patches=("$@")
else
	mapfile -t patches < <(find tests/canaries -name '*.patch' | LC_ALL=C sort)
fi

# A row of the table: the bug, what it does, what catches it.
row_of()
{
	local name=${1#tests/canaries/} what tests
	{
		read -r what
		read -r tests
	} <"$1"
	echo "| \`${name%.patch}\` | $what | ${tests#Caught by: } |"
}

applies()
{
	local patch text
	for patch in "${patches[@]}"; do
		if ! text=$(patch --dry-run -p1 -r - <"$patch" 2>&1); then
			text=$(grep -m1 -iE 'fail|find' <<<"$text")
			echo "FAIL $patch does not apply any more: $text"
		elif ! grep -qxF "$(row_of "$patch")" tests/canaries/README.md; then
			echo "FAIL $patch: README.md lacks the row $(row_of "$patch")"
		else
			echo "ok   $patch applies"
		fi
	done
}

case $build in
--applies)
	count < <(applies)
	finish
	;;
--list)
	for patch in "${patches[@]}"; do
		row_of "$patch"
	done
	exit
	;;
esac

# Those of kernels on a GPU are planted by gpu.sh.
mapfile -t patches < <(printf '%s\n' "${patches[@]}" | grep -v '^tests/canaries/gpu/')

[ -f "$build/build.ninja" ] || {
	echo "usage: run.sh BUILD [PATCH...]; found no build by Ninja in '$build'" >&2
	exit 2
}
build=$(cd "$build" && pwd)
slots=$build/canaries # where bugs are planted: one folder for each process
rm -rf "${slots:?}"
mkdir -p "$slots"

# The cases pass in the build as it is. Those that skip themselves there are left out.
mapfile -t cases < <(sed -n 's/^Caught by: //p' "${patches[@]}" | tr ' ' '\n' | LC_ALL=C sort -u)
export CANARIES_SKIPPED=" "
for case in "${cases[@]}"; do
	result=$(bash "$here/outcome.sh" "$build/tests/test_${case%%/*}" "$case" "$slots/log")
	case $result in
	passes) count <<<"ok   $case passes without a planted bug" ;;
	skips)
		CANARIES_SKIPPED+="$case "
		count <<<"skipped: $case, which $(grep -m1 '^\[SKIP\]' "$slots/log")"
		;;
	*) count <<<"FAIL $case $result without a planted bug" ;;
	esac
done

jobs=$(nproc 2>/dev/null || echo 2)
count < <(printf '%s\n' "${patches[@]}" |
	xargs -P "$jobs" -n 1 --process-slot-var=CANARY_SLOT \
		bash "$here/plant.sh" "$build" "$slots")
[ "$failed" -gt 0 ] || rm -rf "${slots:?}"
finish
