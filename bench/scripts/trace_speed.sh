#!/usr/bin/env bash
# The speed of reading traces, on one core: `quire trace stat` over large files. It reads and checks
# every row, updates some sums, and sorts all lengths at the end. Real traces are read from
# ../shared/traces if they exist (repeated with continuing times), generated ones otherwise.
#
#     bash bench/scripts/trace_speed.sh [QUIRE]     by default build/release/quire
#
# Prints MB/s of the file as stored on disk, the best of five runs.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
quire=$(realpath "${1:-$root/build/release/quire}")
traces=$root/../shared/traces
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# measure LABEL FILE OPTION...
measure()
{
	local label=$1 file=$2 best=0 i
	shift 2
	for ((i = 0; i < 5; i++)); do
		local start end
		start=$(date +%s%N)
		taskset -c 0 "$quire" trace stat "$file" --json "$@" >/dev/null
		end=$(date +%s%N)
		((best == 0 || end - start < best)) && best=$((end - start))
	done
	local bytes
	bytes=$(stat -c %s "$file")
	printf '%-34s %7d MB %8d ms %6d MB/s\n' "$label" $((bytes / 1000000)) \
		$((best / 1000000)) $((bytes * 1000 / best))
}

if [ -f "$traces/azure2023_conv.csv" ]; then
	# The same hour on every day of the years 2000 to 2010.
	awk -F, 'NR == 1 { print; next } { row[NR] = substr($0, 11) }
		END { for (y = 2000; y < 2010; y++)
			for (m = 1; m <= 12; m++)
				for (i = 2; i <= NR; i++)
					printf "%d-%02d-01%s\n", y, m, row[i] }' \
		<(tr -d '\r' <"$traces/azure2023_conv.csv") >"$folder/azure.csv"
else
	{
		echo TIMESTAMP,ContextTokens,GeneratedTokens
		awk 'BEGIN { for (i = 0; i < 2400000; i++)
			printf "2024-05-%02d %02d:%02d:%02d.%03d000+00:00,%d,%d\n",
				1 + i / 86400, i / 3600 % 24, i / 60 % 60, i % 60, i % 1000,
				1 + i % 4000, 1 + i % 900
		}'
	} >"$folder/azure.csv"
fi
measure 'Azure CSV' "$folder/azure.csv"

conversation=$traces/mooncake_conversation.jsonl
if [ ! -f "$conversation" ]; then
	conversation=$folder/conversation.jsonl
	"$quire" trace make --requests 12000 --input lognormal:7000:1 --output 350 --rate 3 \
		--prefix 512:1 --out "$conversation"
fi
# The hour repeated; hash ids repeat too.
awk '{ split($0, part, /[:,]/); row[NR] = substr($0, index($0, ",")); at[NR] = part[2] + 0 }
	END { for (k = 0; k < 30; k++)
		for (i = 1; i <= NR; i++)
			printf "{\"timestamp\": %d%s\n", k * 3600000 + at[i], row[i] }' \
	"$conversation" >"$folder/mooncake.jsonl"
measure 'Mooncake JSON lines' "$folder/mooncake.jsonl"

"$quire" trace make --requests 2000000 --input 1:4000 --output 1:900 --rate 100 \
	--out "$folder/lengths.jsonl"
measure 'JSON lines without hash ids' "$folder/lengths.jsonl"

gzip -1 -c "$folder/mooncake.jsonl" >"$folder/mooncake.jsonl.gz"
measure 'Mooncake JSON lines, gzip' "$folder/mooncake.jsonl.gz"
if command -v zstd >/dev/null; then
	zstd -q "$folder/mooncake.jsonl"
	measure 'Mooncake JSON lines, zstd' "$folder/mooncake.jsonl.zst"
fi
