#!/usr/bin/env bash
# The speed of the simulation: requests per second and peak memory of whole `quire replay` runs,
# including writing results, on one core. If valgrind is installed, also instructions per step,
# which do not depend on the load of the machine.
#
#     bash bench/scripts/speed.sh [TRACE.jsonl...]     further traces, at their own times
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
traces=()
for trace in "$@"; do
	traces+=("$(realpath "$trace")")
done
cd "$root"
mkdir -p build
log=build/speed.log
{ cmake --preset release && cmake --build --preset release --target quire; } >"$log" 2>&1 || {
	cat "$log" >&2
	exit 2
}
quire=$root/build/release/quire
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

runs=5

# run LABEL REQUESTS ARGUMENTS...: the median of some runs, pinned to one core.
run()
{
	local label=$1 requests=$2 times=() i
	shift 2
	for ((i = 0; i < runs; i++)); do
		local start end
		start=$(date +%s%N)
		taskset -c 0 "$quire" replay "$@" --out "$folder/result" --force >"$folder/summary"
		end=$(date +%s%N)
		times+=($(((end - start) / 1000)))
	done
	local median_us
	median_us=$(printf '%s\n' "${times[@]}" | sort -n | sed -n "$(((runs + 1) / 2))p")
	local steps hash
	steps=$(sed -n 's/.*"steps":[^0-9]*\([0-9]*\).*/\1/p' "$folder/result/summary.json")
	hash=$(sed -n 's/.*"result_hash":[^"]*"\([0-9a-f]*\)".*/\1/p' "$folder/result/summary.json")
	printf '%-44s %8.3f s %12d requests/s %9d steps %7d ns/step   %s\n' "$label" \
		"$(printf '%d.%06d' $((median_us / 1000000)) $((median_us % 1000000)))" \
		$((requests * 1000000 / median_us)) "$steps" $((median_us * 1000 / steps)) "$hash"
}

make_trace() # REQUESTS INPUT OUTPUT FILE
{
	"$quire" trace make --requests "$1" --input "$2" --output "$3" --seed 1 \
		--out "$4" >/dev/null
}

closed=(--concurrency 64 --max-num-seqs 64)
make_trace 131072 1024 128 "$folder/closed.jsonl"
make_trace 1000000 1024 128 "$folder/million.jsonl"

processor=$(sed -n 's/model name[^:]*: //p' /proc/cpuinfo | head -1)
echo "medians of $runs runs on one core of: $processor"
run "131,072 requests 1024/128, concurrency 64" 131072 "$folder/closed.jsonl" "${closed[@]}"
for trace in "${traces[@]}"; do
	run "$(basename "$trace")" "$(wc -l <"$trace")" "$trace" --max-model-len 131072
done

if [ -x /usr/bin/time ]; then
	/usr/bin/time -f "%M" -o "$folder/memory" "$quire" replay "$folder/million.jsonl" \
		"${closed[@]}" --out "$folder/result" --force >/dev/null
	echo "peak memory at a million requests: $(($(cat "$folder/memory") / 1024)) MiB"
fi

# measure TRACE: instructions of a whole replay and its steps, into `instructions` and `steps`.
measure()
{
	instructions=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null \
		"$quire" replay "$1" "${closed[@]}" --out "$folder/result" --force 2>&1 >/dev/null |
		sed -n 's/.*Collected *: *//p')
	steps=$(sed -n 's/.*"steps":[^0-9]*\([0-9]*\).*/\1/p' "$folder/result/summary.json")
}

# per LABEL REQUESTS FROM TO: instructions per step, from the difference of TO and FROM, which
# excludes start and end.
per()
{
	measure "$3"
	local first=$instructions first_steps=$steps
	measure "$4"
	local per_request=""
	[ "$2" -eq 0 ] || per_request=", $(((instructions - first) / $2)) a request"
	local per_step=$(((instructions - first) / (steps - first_steps)))
	echo "$1: $per_step instructions a step$per_request"
}

if command -v valgrind >/dev/null; then
	make_trace 8192 1024 128 "$folder/short.jsonl"
	make_trace 16384 1024 128 "$folder/twice.jsonl"
	make_trace 64 16 8192 "$folder/decode.jsonl"
	make_trace 64 16 16384 "$folder/decode_twice.jsonl"
	per "1024/128, everything (reading, tokens, rows)" 8192 "$folder/short.jsonl" \
		"$folder/twice.jsonl"
	per "64 sequences that only decode" 0 "$folder/decode.jsonl" "$folder/decode_twice.jsonl"
fi
