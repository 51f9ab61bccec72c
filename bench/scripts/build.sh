#!/usr/bin/env bash
# Configures a preset in build/PRESET and builds it, all of it or the targets that are named.
#
#     bash bench/scripts/build.sh PRESET [CMAKE BUILD OPTION...]
#
# A build folder remembers the folder of its sources. One that came along with a copied or moved
# clone is configured anew, which CMake would refuse.
set -euo pipefail

preset=$1
shift
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
cache=build/$preset/CMakeCache.txt
if [ -f "$cache" ] &&
	! grep -qxF -e "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" \
		-e "CMAKE_HOME_DIRECTORY:INTERNAL=$(pwd -P)" "$cache"; then
	echo "build/$preset was made for a clone elsewhere: it is configured anew"
	rm -rf "$cache" "build/$preset/CMakeFiles"
fi
cmake --preset "$preset"
cmake --build --preset "$preset" "$@"
