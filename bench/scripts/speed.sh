#!/usr/bin/env bash
# The speed of the simulation: requests per second and peak memory of whole `quire replay` runs,
# including writing results, on one core. If valgrind is installed, also instructions per step and
# request, which do not depend on the load of the machine.
#
#     bash bench/scripts/speed.sh [--against QUIRE] [TRACE.jsonl...]
#
# Results are written to memory (/dev/shm) where there is such a file system, and once to the disk,
# to tell what waiting for it takes. --against runs another quire in turns and gives ratios. Further
# traces arrive at their own times.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
other=
if [ "${1:-}" = --against ]; then
	other=$(realpath "$2")
	shift 2
fi
traces=()
for trace in "$@"; do
	traces+=("$(realpath "$trace")")
done
cd "$root"
mkdir -p build
log=build/speed.log
bash bench/scripts/build.sh release --target quire >"$log" 2>&1 || {
	cat "$log" >&2
	exit 2
}
quire=$root/build/release/quire
disk=$(mktemp -d)
folder=$disk
[ ! -w /dev/shm ] || folder=$(mktemp -d /dev/shm/speed.XXXXXX)
trap 'rm -rf "$folder" "$disk"' EXIT

runs=5
TIMEFORMAT='%R %U %S'

# timed PROGRAM OUT ARGUMENTS...: appends "wall cpu" of a run on one core, in ms, to $folder/times.
timed()
{
	local program=$1 out=$2
	shift 2
	{ time taskset -c 0 "$program" replay "$@" --out "$out" --force \
		>"$folder/summary" 2>"$folder/errors"; } 2>&1 |
		awk '{ printf "%d %d\n", $1 * 1000, ($2 + $3) * 1000 }'
}

# median COLUMN FILE
median()
{
	cut -d' ' -f"$1" "$2" | sort -n | sed -n "$(((runs + 1) / 2))p"
}

# ratio NEW OLD
ratio()
{
	awk -v new="$1" -v old="$2" 'BEGIN {
		printf "%-48s %6d ms of CPU by the other: %.2f times\n", "", old, old / new
	}'
}

# run LABEL REQUESTS ARGUMENTS...: medians of some runs.
run()
{
	local label=$1 requests=$2 i
	shift 2
	rm -f "$folder"/times "$folder"/other
	for ((i = 0; i < runs; i++)); do
		timed "$quire" "$folder/result" "$@" >>"$folder/times"
		[ -z "$other" ] || timed "$other" "$folder/result_of_other" "$@" >>"$folder/other"
	done
	local wall cpu steps hash on_disk
	wall=$(median 1 "$folder/times")
	cpu=$(median 2 "$folder/times")
	on_disk=$(timed "$quire" "$disk/result" "$@" | cut -d' ' -f1)
	steps=$(sed -n 's/.*"steps":[^0-9]*\([0-9]*\).*/\1/p' "$folder/result/summary.json")
	hash=$(sed -n 's/.*"result_hash":[^"]*"\([0-9a-f]*\)".*/\1/p' \
		"$folder/result/summary.json")
	printf '%-48s %6d ms, %6d ms of CPU, %9d requests/s, %8d steps   %s\n' "$label" "$wall" \
		"$cpu" $((requests * 1000 / wall)) "$steps" "$hash"
	printf '%-48s %6d ms with results on a disk\n' "" "$on_disk"
	[ -z "$other" ] || ratio "$cpu" "$(median 2 "$folder/other")"
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
for size in 256 16; do
	run "131,072 requests 1024/128, 64 at once, blocks $size" 131072 "$folder/closed.jsonl" \
		"${closed[@]}" --block-size $size
done
for trace in "${traces[@]}"; do
	run "$(basename "$trace")" "$(wc -l <"$trace")" "$trace" --max-model-len 131072
done

if [ -x /usr/bin/time ]; then
	/usr/bin/time -f "%M" -o "$folder/memory" "$quire" replay "$folder/million.jsonl" \
		"${closed[@]}" --out "$folder/result" --force >/dev/null
	echo "peak memory at a million requests: $(($(cat "$folder/memory") / 1024)) MiB"
fi

# measure TRACE ARGUMENTS...: instructions of a whole replay and its steps, into `instructions` and
# `steps`.
measure()
{
	instructions=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null \
		"$quire" replay "$@" "${closed[@]}" --out "$folder/result" --force 2>&1 >/dev/null |
		sed -n 's/.*Collected *: *//p')
	steps=$(sed -n 's/.*"steps":[^0-9]*\([0-9]*\).*/\1/p' "$folder/result/summary.json")
}

# per LABEL REQUESTS FROM TO ARGUMENTS...: instructions per step, from the difference of TO and
# FROM, which excludes start and end.
per()
{
	local label=$1 requests=$2 from=$3 to=$4
	shift 4
	measure "$from" "$@"
	local first=$instructions first_steps=$steps
	measure "$to" "$@"
	local per_request=""
	[ "$requests" -eq 0 ] || per_request=", $(((instructions - first) / requests)) a request"
	local per_step=$(((instructions - first) / (steps - first_steps)))
	echo "$label: $per_step instructions a step$per_request"
}

if command -v valgrind >/dev/null; then
	make_trace 8192 1024 128 "$folder/short.jsonl"
	make_trace 16384 1024 128 "$folder/twice.jsonl"
	make_trace 64 16 8192 "$folder/decode.jsonl"
	make_trace 64 16 16384 "$folder/decode_twice.jsonl"
	for size in 256 16; do
		per "1024/128, blocks of $size, everything (reading, keys, rows)" 8192 \
			"$folder/short.jsonl" "$folder/twice.jsonl" --block-size $size
	done
	per "64 sequences that only decode" 0 "$folder/decode.jsonl" "$folder/decode_twice.jsonl"
fi
