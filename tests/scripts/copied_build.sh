#!/usr/bin/env bash
# bench/scripts/build.sh builds in a clone that was copied with its build folder.
#
#     tests/scripts/copied_build.sh ROOT
set -euo pipefail

root=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

verdict()
{
	local name=$1
	shift
	if "$@"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "failed: $name"
	fi
}

mkdir -p "$work/one/bench/scripts"
cd "$work/one"
cp "$root/bench/scripts/build.sh" bench/scripts
cat >CMakeLists.txt <<-'END'
	cmake_minimum_required(VERSION 3.21)
	project(copied NONE)
	add_custom_target(place ALL COMMAND ${CMAKE_COMMAND} -E echo ${PROJECT_SOURCE_DIR} >place)
END
cat >CMakePresets.json <<-'END'
	{"version": 3,
	 "configurePresets": [{"name": "release", "binaryDir": "${sourceDir}/build/release"}],
	 "buildPresets": [{"name": "release", "configurePreset": "release"}]}
END
bash bench/scripts/build.sh release >log 2>&1 || cat log
verdict "a clone is built" grep -qx "$work/one" build/release/place
cp -r "$work/one" "$work/two"
cd "$work/two"
bash bench/scripts/build.sh release >log 2>&1 || cat log
verdict "a copy of it is built" grep -qx "$work/two" build/release/place
verdict "that is said" grep -qx "build/release was made for a clone elsewhere.*" log
bash bench/scripts/build.sh release >log 2>&1 || cat log
verdict "the next build keeps the configuration" test "$(grep -c elsewhere log)" = 0

echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
