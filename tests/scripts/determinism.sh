#!/usr/bin/env bash
# The same trace, configuration and seed give the same bytes in every result file but
# provenance.json, however quire was compiled. Traces are made and replayed by the program of BUILD,
# by the same program from another folder with another environment, and by builds at -O0, with
# sanitizers and by clang. BUILD keeps those builds, so only the first run is slow.
#
#     tests/scripts/determinism.sh BUILD
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$(cd "$1" && pwd)
work=$build/determinism
results=$work/results
rm -rf "$results"
mkdir -p "$results"
passed=0 failed=0 skipped=0

verdict()
{
	if [ "$1" -eq 0 ]; then
		passed=$((passed + 1))
	else
		echo "failed: $2"
		failed=$((failed + 1))
	fi
}

# compile PRESET: builds only the program, in its own folder.
compile()
{
	cmake --preset "$1" -S "$root" -B "$work/$1" -D QUIRE_TESTS=OFF \
		-D QUIRE_DETERMINISM=OFF &&
		cmake --build "$work/$1" --target quire -j 2
}

# make_traces QUIRE OUT: every program makes traces, but replays those of the first.
make_traces()
{
	local quire=$1 out=$2
	mkdir -p "$out"
	"$quire" trace make --requests 300 --input 20:900 --output 1:200 --seed 1 \
		--out "$out/burst.jsonl"
	"$quire" trace make --requests 400 --input 100:3000 --output 2:60 --seed 2 --rate 40 \
		--prefix 1024 --out "$out/poisson.jsonl"
}

# replay TRACE OUT OPTION...: printed output is compared too.
replay()
{
	local trace=$1 out=$2
	shift 2
	"$quire" replay "$trace" --runner sim --model qwen3-0.6b --gpu h200 --steps --out "$out" \
		"$@" >"$out.txt"
}

# Ordinary load, a pool so small that sequences are preempted, the original's policy, closed loop.
replays()
{
	local quire=$1 traces=$2 out=$3
	replay "$traces/poisson.jsonl" "$out/mixed"
	replay "$traces/burst.jsonl" "$out/tight" --block-size 16 --kv-blocks 160 \
		--max-model-len 2048 --max-num-batched-tokens 512 --max-num-seqs 64
	replay "$traces/poisson.jsonl" "$out/prefill-first" --policy prefill-first \
		--admission seed --max-model-len 8192 --kv-blocks 100
	replay "$traces/burst.jsonl" "$out/closed" --concurrency 8 --seed 7
}

# same A B NAME: two folders hold the same files with the same bytes, provenance aside.
same()
{
	local code=0
	diff --brief --recursive --exclude provenance.json "$1" "$2" || code=1
	verdict "$code" "$3 differs from the first run"
}

# trial NAME QUIRE: compares traces and replays of one program with those of the first.
trial()
{
	local name=$1 quire=$2 code=0
	make_traces "$quire" "$results/$name/traces" >"$results/$name.log" 2>&1 &&
		replays "$quire" "$results/first/traces" "$results/$name" \
			>>"$results/$name.log" 2>&1 || code=1
	if [ "$code" -ne 0 ] || grep -qE 'Sanitizer: |runtime error: ' "$results/$name.log"; then
		cat "$results/$name.log"
		verdict 1 "$name did not run"
		return
	fi
	[ "$name" = first ] || same "$results/first" "$results/$name" "$name"
}

mkdir -p "$results/first"
trial first "$build/quire"
if [ "$failed" -gt 0 ]; then
	echo "$passed passed, $failed failed, $skipped skipped"
	exit 1
fi

# The runs must contain the events they are meant to test, or equal bytes prove little.
for run in tight:preemptions tight:recomputed mixed:hit_tokens prefill-first:hit_tokens; do
	value=$(sed -nE "s/.*\"${run#*:}\":[[:space:]]*([0-9]+).*/\1/p" \
		"$results/first/${run%:*}/summary.json" | head -n 1)
	code=0
	[ "${value:-0}" -gt 0 ] || code=1
	verdict "$code" "${run%:*} has no ${run#*:}"
done

(
	cd /
	export TZ=Asia/Tokyo LC_ALL=C.UTF-8 HOME=/nowhere COLUMNS=40
	make_traces "$build/quire" "$results/elsewhere/traces"
	replays "$build/quire" "$results/first/traces" "$results/elsewhere"
) >"$results/elsewhere.log" 2>&1 || cat "$results/elsewhere.log"
same "$results/first" "$results/elsewhere" "a run from another folder and environment"

for preset in o0 sanitize clang; do
	if [ "$preset" = clang ] && ! command -v clang >/dev/null; then
		echo "skipped: a build by clang, since it is not here"
		skipped=$((skipped + 1))
	elif compile "$preset" >"$work/$preset.log" 2>&1; then
		trial "$preset" "$work/$preset/quire"
	else
		cat "$work/$preset.log"
		verdict 1 "the build $preset"
	fi
done

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
