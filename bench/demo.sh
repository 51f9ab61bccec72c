#!/usr/bin/env bash
# From a fresh clone to a plotted report: installs what is missing, builds, replays quire's
# demo trace on the cost model of an H200, and prints where the report is.
#
#     bash bench/demo.sh [OUT]      OUT: the folder to write to, by default out/demo in the project
set -euo pipefail

case ${1:-} in
-h | --help)
	sed -n 's/^# \{0,1\}//p' "$0" | tail -n +2
	exit
	;;
-*)
	echo "bench/demo.sh: unknown option $1 (see bench/demo.sh --help)" >&2
	exit 2
	;;
esac
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
out=$(realpath -m "${1:-$root/out/demo}")
cd "$root"

bash bench/scripts/setup.sh
echo "building quire in build/release"
mkdir -p build
log=build/demo.log
bash bench/scripts/build.sh release --target quire >"$log" 2>&1 || {
	cat "$log" >&2
	echo "bench/demo.sh: the build failed, see above" >&2
	exit 2
}

quire=build/release/quire
mkdir -p "$out"
"$quire" replay workloads/traces/demo.jsonl --runner sim --model qwen3-0.6b --gpu h200 \
	--out "$out/run" --force
"$quire" report "$out/run" --out "$out/report.html"
echo
echo "the report: $out/report.html"
