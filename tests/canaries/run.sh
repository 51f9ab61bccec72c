#!/usr/bin/env bash
# Plants one bug after the other into a copy of the engine. Demands that the tests named in the
# patch fail, and that they pass on the unchanged copy. So the tests are known to find such bugs.
#
#     bash tests/canaries/run.sh [NAME...]      NAME: a patch of this folder without its ending
#
# CANARY_FOLDER is where the copies go (build/canaries), CC the compiler (cc). A patch begins with a
# sentence on the bug and a line "Caught by: TEST..." of tests/engine/test_TEST.c.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
folder=${CANARY_FOLDER:-$root/build/canaries}
cc=${CC:-cc}
tests=(block_manager scheduler scheduler_golden simulation)
passed=0 failed=0 skipped=0

flags=(-std=c17 -O1 -w -D_POSIX_C_SOURCE=200809L -D_DEFAULT_SOURCE= "-DQUIRE_SOURCE_DIR=\"$root\"")
read -ra packages <<<"$(pkg-config --cflags criterion libxxhash libcjson)"
read -ra libraries <<<"$(pkg-config --libs criterion libxxhash libcjson)"
# The files of engine/base that the core needs, and of tests/ that its tests need.
base=(check memory status unfinished)
support=(tests/harness/{property,require}.c
	tests/models/{block_model,scheduler_model,kv_oracle,simulation}.c)

# Failures are not shrunk, since any failure is enough, and seeds are fixed.
export PROP_SHRINK=0
unset PROP_SEED PROP_TRIALS

verdict()
{
	if [ "$1" = good ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
	fi
	printf '%-4s %s\n' "$([ "$1" = good ] && echo ok || echo FAIL)" "$2"
}

# compile TREE FILE...: objects of C files of a tree, beside them.
compile()
{
	local tree=$1 file
	shift
	for file in "$@"; do
		"$cc" "${flags[@]}" "${packages[@]}" -I"$tree" -c "$tree/$file" \
			-o "$tree/${file%.c}.o"
	done
}

# link TREE TEST: links the test with the engine of a tree. Objects that the tree lacks come from
# the clean tree.
link()
{
	local tree=$1 name=$2 objects=() object file
	for file in "${engine[@]}"; do
		object=$tree/${file%.c}.o
		[ -f "$object" ] || object=$folder/clean/${file%.c}.o
		objects+=("$object")
	done
	for file in "${support[@]}" "tests/engine/test_$name.c"; do
		objects+=("$folder/clean/${file%.c}.o")
	done
	"$cc" "${objects[@]}" -o "$tree/$name" "${libraries[@]}"
}

# outcome TREE TEST: passes, skips, fails (one of its cases did), or else what went wrong.
outcome()
{
	local code=0
	timeout 120 "$1/$2" --verbose --jobs=1 --fail-fast >"$1/$2.log" 2>&1 </dev/null || code=$?
	if [ "$code" = 0 ] && grep -q '^\[SKIP\]' "$1/$2.log"; then
		echo skips
	elif [ "$code" = 0 ]; then
		echo passes
	elif [ "$code" = 1 ] && grep -q 'Synthesis: Tested:' "$1/$2.log"; then
		echo fails
	else
		echo "ends with code $code"
	fi
}

cd "$root"
rm -rf "${folder:?}"
mkdir -p "$folder"/clean/{engine/base,tests/engine,tests/harness,tests/models}
cp engine/*.[ch] "$folder/clean/engine"
cp engine/base/*.h "$folder/clean/engine/base"
engine=(engine/*.c)
for name in "${support[@]}"; do
	cp "${name%.c}".[ch] "$folder/clean/${name%/*}"
done
for name in "${base[@]}"; do
	cp "engine/base/$name.c" "$folder/clean/engine/base"
	engine+=("engine/base/$name.c")
done
for name in "${tests[@]}"; do
	cp "tests/engine/test_$name.c" "$folder/clean/tests/engine"
	support_of_test+=("tests/engine/test_$name.c")
done
compile "$folder/clean" "${engine[@]}" "${support[@]}" "${support_of_test[@]}"

# Without the golden recordings, patches that only they catch are skipped.
declare -A is_skipping
for name in "${tests[@]}"; do
	link "$folder/clean" "$name"
	result=$(outcome "$folder/clean" "$name")
	if [ "$result" = skips ]; then
		is_skipping[$name]=1
		skipped=$((skipped + 1))
		echo "skipped: $name, which $(grep -m1 '^\[SKIP\]' "$folder/clean/$name.log")"
	elif [ "$result" = passes ]; then
		verdict good "the engine as it is: $name passes"
	else
		verdict bad "the engine as it is: $name $result, see $folder/clean/$name.log"
	fi
done

# plant PATCH: applies the patch to a copy of the engine; false if it does not apply.
plant()
{
	local tree=$folder/$1
	mkdir -p "$tree"
	cp -r engine "$tree"
	find "$tree" -name '*.o' -delete
	patch -s -p1 -d "$tree" <"$here/$1.patch" >"$tree/patch.log" 2>&1 || return 1
	local files
	mapfile -t files < <(sed -n 's|^+++ b/\([^[:space:]]*\).*|\1|p' "$here/$1.patch")
	if [[ " ${files[*]}" == *.h* ]]; then
		files=(engine/*.c)
	fi
	compile "$tree" "${files[@]}"
}

if [ $# -gt 0 ]; then
	names=("$@")
else
	names=("$here"/*.patch)
	names=("${names[@]##*/}")
	names=("${names[@]%.patch}")
fi
for name in "${names[@]}"; do
	read -ra catchers <<<"$(sed -n 's/^Caught by: //p' "$here/$name.patch")"
	if [ ${#catchers[@]} = 0 ] || ! plant "$name"; then
		verdict bad "$name: the patch names no test or does not apply any more"
		continue
	fi
	for catcher in "${catchers[@]}"; do
		[ -z "${is_skipping[$catcher]:-}" ] || continue
		link "$folder/$name" "$catcher"
		result=$(outcome "$folder/$name" "$catcher")
		if [ "$result" = fails ]; then
			verdict good "$name: $catcher fails"
		else
			verdict bad "$name: $catcher $result, but it should fail"
		fi
	done
	[ "$failed" -gt 0 ] || rm -rf "${folder:?}/$name"
done

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
