#!/usr/bin/env bash
# plant.sh BUILD SLOTS PATCH: plants one bug and prints, for each test that should find it, whether
# it does. Called by run.sh. Only the patched files are compiled. Their objects are linked in front
# of the libraries of the build, which give all the rest.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$1 slot=$2/${CANARY_SLOT:-0} patch=$3
tree=$slot/tree
objects=()
# shellcheck source=tests/canaries/planting.sh
. "$here/planting.sh"

fail()
{
	echo "FAIL $patch $1"
	exit
}

# Whether the test runs the program quire: then what calls it must find it in the slot.
runs_quire()
{
	grep -qaF "$build/quire" "$build/tests/test_$1"
}

# The objects that name quire, with its path in the slot: of the harness, once, and of the test. The
# test's takes the place of the build's.
compile_callers()
{
	local source tree=$root
	for source in $(grep -lw QUIRE_EXECUTABLE tests/harness/*.c "$1"); do
		callers+=("$slot/$(basename "$source" .c).o")
		[[ $source = tests/harness/* && -f ${callers[-1]} ]] ||
			compile "$source" "${callers[-1]}" -UQUIRE_EXECUTABLE \
				"-DQUIRE_EXECUTABLE=\"$slot/quire\"" || return 1
	done
}

# The test's program with the bug, and quire where the test runs it.
make_program()
{
	local name=$1 source
	source=$(find tests -name "test_$name.c")
	callers=()
	if runs_quire "$name"; then
		compile_callers "$source" || return 1
		link quire "$slot/quire" "${objects[@]}" || return 1
	fi
	link "tests/test_$name" "$slot/test_$name" "${callers[@]}" "${objects[@]}"
}

cd "$root" || exit 2
mkdir -p "$slot"
plant "$patch" >"$slot/reason" || fail "$(cat "$slot/reason")"
read -ra tests <<<"$(sed -n 's/^Caught by: //p' "$patch")"
[ ${#tests[@]} -gt 0 ] || fail "names no test"
for test in "${tests[@]}"; do
	[[ $CANARIES_SKIPPED != *" $test "* ]] || continue
	name=${test%%/*}
	make_program "$name" >"$slot/log" 2>&1 ||
		fail "cannot be linked: $(grep -m1 -iE 'error|undefined|multiple' "$slot/log")"
	result=$(bash "$here/outcome.sh" "$slot/test_$name" "$test" "$slot/log")
	if [ "$result" = fails ]; then
		echo "ok   $patch: $test fails"
	else
		echo "FAIL $patch: $test $result, but it should fail"
	fi
done
