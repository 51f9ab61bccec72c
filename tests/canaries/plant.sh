#!/usr/bin/env bash
# plant.sh BUILD SLOTS PATCH: plants one bug and prints, for each test that should find it, whether
# it does. Called by run.sh. Only the patched files are compiled. Their objects are linked in front
# of the libraries of the build, which give all the rest.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$1 slot=$2/${CANARY_SLOT:-0} patch=$3
objects=()

fail()
{
	echo "FAIL $patch $1"
	exit
}

# The build's command for a target.
command_of()
{
	ninja -C "$build" -t commands -s "$1" | sed '/^ninja:/d'
}

# compile SOURCE OBJECT [FLAG...]: compiles $tree/SOURCE as the build compiles SOURCE.
compile()
{
	local source=$1 object=$2 module command
	shift 2
	case $source in
	bench/main.c) module=CMakeFiles/quire.dir/$source.o ;;
	tests/harness/*) module=tests/CMakeFiles/test_support.dir/${source#tests/}.o ;;
	tests/*) module=tests/CMakeFiles/$(basename "$source" .c).dir/${source#tests/}.o ;;
	*)
		module=$(awk -F ' [|] ' -v f="${source%/*}" '$2 == f {print $1}' cmake/modules.txt)
		module=CMakeFiles/$module.dir/$source.o
		;;
	esac
	command=$(command_of "$module" |
		sed -E 's/ -MD -MT [^ ]+ -MF [^ ]+//; s/ -o [^ ]+ -c [^ ]+$//')
	(cd "$build" && eval "$command -O1 -g0 -w ${*@Q} -o '$object' -c '$tree/$source'")
}

# link TARGET PROGRAM OBJECT...: a target of the build with these objects before its libraries.
link()
{
	local target=$1 program=$2 command object
	shift 2
	command=$(command_of "$target")
	for object in "$@"; do # an object of the build that is compiled anew
		command=${command/ tests\/CMakeFiles\/*\/$(basename "$object" .o).c.o / }
	done
	(cd "$build" && eval "${command/ -o $target / -Wl,-s -o ${program@Q} ${*@Q} }")
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
tree=$slot/tree
rm -rf "$tree"
mapfile -t files < <(sed -n 's|^+++ b/\([^[:space:]]*\).*|\1|p' "$patch")
for file in "${files[@]}"; do
	mkdir -p "$tree/${file%/*}"
	cp "$file" "$tree/$file" || fail "patches $file, which is not there"
done
patch -s -p1 -d "$tree" <"$patch" >"$slot/log" 2>&1 ||
	fail "does not apply any more: $(grep -m1 -iE 'fail|find' "$slot/log")"
for file in "${files[@]}"; do
	objects+=("$tree/${file%.c}.o")
	compile "$file" "${objects[-1]}" >"$slot/log" 2>&1 ||
		fail "does not compile: $(grep -m1 error "$slot/log")"
done

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
