#!/usr/bin/env bash
# How far the simulation is from a real GPU: five traces are run on the GPU twice and by the cost
# model once, and a table gives the relative error of every figure.
#
#     bash bench/scripts/reality.sh run DIR      on the machine with the GPU: a DIR/NAME.tar.gz for
#                                                each trace
#     bash bench/scripts/reality.sh table DIR    anywhere: tapes, simulations, pages,
#                                                DIR/reality.md, .tsv
#
#     --quire PROGRAM      default: build/release/quire of this project
#     --traces DIR         with mooncake_conversation.jsonl, azure2023_conv.csv, nano_bench.jsonl;
#                          default ../shared/traces; a trace that is missing is skipped
#     --model NAME         default qwen3-0.6b
#     --only "NAME..."     of nano, pressure, chat, azure and mooncake
#     --runner NAME        run: default cuda; others are for trying this script without a GPU
#     --gpu NAME|FILE      table: the profile of the simulation, default h200-MODEL, calibrated
#     --limit SECONDS      run: start no run that is expected to end later; default 480
#     --runs 1|2           run: how often a trace is run, default 2
#     --again DIR          table: take the second runs from DIR, made on another machine
#     --musts              table: exit code 1 when an error exceeds its limit (column must)
#
# Finished runs are kept: call the script again to continue after an interruption, and remove a
# NAME.tar.gz to run that trace again.
#
# Why these loads: a comparison is most informative when the engine is busy and its queue does not
# grow, because then both arrival times and step times matter. Load is the time that the engine
# takes when all requests arrive at once, divided by the time it takes when they arrive as in the
# trace. The fraction of busy time is less informative, since an engine that decodes small batches
# is hardly ever idle.
#   azure     2,000 requests ten times as fast, 47 a second: load 62 % (26 s of 43)
#   mooncake  500 requests. At their own speed load is 86 %, with bursts from which latencies do not
#             recover; at three quarters of it 68 % (153 s of 224)
#   chat      sessions of the preset, 45 new ones a second with 2 s of think time: 63 % (11 s of 18)
#   nano      all at once: only step times matter
#   pressure  the same in a pool of 200 KV blocks: over 100 preemptions
# The loads are those of the calibrated cost model of an H200 with qwen3-0.6b. Replays skip
# idle time.
set -euo pipefail
export LC_ALL=C

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
names="nano pressure chat azure mooncake"
quire=$root/build/release/quire
traces=$root/../shared/traces
model=qwen3-0.6b
runner=cuda
gpu=
limit=480
runs=2
other=
musts=no

fail()
{
	echo "bench/scripts/reality.sh: $*" >&2
	exit 2
}

# settings NAME: the trace's file, the expected seconds of a run, and its options.
settings()
{
	case $1 in
	nano) file=$traces/nano_bench.jsonl seconds=8 options=() ;;
	pressure) file=$traces/nano_bench.jsonl seconds=11 options=(--kv-blocks 200) ;;
	chat) file=$work/chat.jsonl seconds=25 options=(--trace-block-size 16) ;;
	azure)
		file=$traces/azure2023_conv.csv seconds=50
		options=(--max-requests 2000 --speedup 10)
		;;
	mooncake)
		file=$traces/mooncake_conversation.jsonl seconds=190
		options=(--max-requests 500 --max-model-len 131072 --speedup 0.75)
		;;
	*) fail "--only: found '$1', expected some of: nano pressure chat azure mooncake" ;;
	esac
}

make_chat()
{
	"$quire" trace make --preset chat --requests 1500 --session-rate 45 --think 2 --seed 7 \
		--out "$work/chat.jsonl" >/dev/null
}

# has_run PACK NAME RUN
has_run()
{
	[ -e "$1" ] && tar -tzf "$1" | grep -x "$2/$3/summary.json" >/dev/null
}

# replay ARGUMENTS...: runs a trace; only its errors are shown.
replay()
{
	"$quire" replay "$file" --model "$model" "${options[@]}" "$@" >/dev/null
}

# run_once NAME RUN
run_once()
{
	local pack=$out/$1.tar.gz start before
	settings "$1"
	if [ ! -e "$file" ]; then
		echo "$1: skipped, there is no ${file##*/}"
		return 0
	fi
	if has_run "$pack" "$1" "$2"; then
		echo "$1 $2: is there"
		return 0
	fi
	before=$(sed -n "s/^$1 [ab] //p" "$out/seconds.txt" | tail -1)
	if [ $((SECONDS + ${before:-$seconds})) -gt "$limit" ]; then
		echo "$1 $2: left out: it takes ${before:-$seconds} s," \
			"$((limit - SECONDS)) are left"
		is_whole=no
		return 0
	fi
	local extra=()
	[ "$runner" != cuda ] || extra=(--weights dummy:0)
	[ "$runner" != sim ] || extra=(--gpu "$gpu")
	start=$SECONDS
	mkdir -p "$work/$1"
	rm -rf "${work:?}/$1/$2"
	if ! replay --runner "$runner" "${extra[@]}" --steps --out "$work/$1/$2"; then
		echo "$1 $2: FAILED"
		is_whole=no
		return 0
	fi
	echo "$1 $2 $((SECONDS - start))" >>"$out/seconds.txt"
	echo "$1 $2: $((SECONDS - start)) s, $(result_number "$1/$2" output_tokens_per_s)" \
		"output tokens/s, $(result_number "$1/$2" steps) steps," \
		"hash $(result_hash "$1/$2")"
	[ ! -e "$pack" ] || tar -xzf "$pack" -C "$work" --skip-old-files
	tar -czf "$pack.part" -C "$work" "$1"
	mv "$pack.part" "$pack"
}

# Print the first number of that name in a summary, and the hash of all decisions.
result_number()
{
	sed -n "s/^[[:space:]]*\"$2\":[[:space:]]*\([0-9.]*\).*/\1/p" \
		"$work/$1/summary.json" | head -1
}

result_hash()
{
	sed -n 's/.*"result_hash":[^"]*"\([0-9a-f]*\)".*/\1/p' "$work/$1/summary.json"
}

# Runs each trace once, the longest last, before any trace is run again.
run_all()
{
	local name again
	is_whole=yes
	touch "$out/seconds.txt"
	for again in a b; do
		[ "$again" = a ] || [ "$runs" = 2 ] || break
		for name in $names; do
			run_once "$name" "$again"
		done
	done
	echo "in all $SECONDS s; packs in $out"
	[ "$is_whole" = yes ]
}

# second_run NAME: the folder of the run to compare the first one with; it may be missing.
second_run()
{
	if [ -z "$other" ]; then
		echo "$work/$1/b"
		return
	fi
	mkdir -p "$work/other"
	[ ! -e "$other/$1.tar.gz" ] || tar -xzf "$other/$1.tar.gz" -C "$work/other"
	echo "$work/other/$1/a"
}

# simulate NAME: replays a run's tape, simulates its trace, and computes the simulation's errors.
simulate()
{
	local real=$work/$1/a again blocks pool
	settings "$1"
	tar -xzf "$out/$1.tar.gz" -C "$work"
	if [ ! -e "$real/summary.json" ] || [ ! -e "$file" ]; then
		echo "$1: skipped, either its run or ${file##*/} is not there"
		return 1
	fi
	blocks=$(result_number "$1/a" kv_blocks)
	pool=(--kv-blocks "$blocks")
	rm -rf "${work:?}/$1/sim" "${work:?}/$1/tape"
	options_without_pool
	replay --runner sim --gpu "$gpu" "${pool[@]}" --steps --out "$work/$1/sim" ||
		fail "$1: the simulation failed"
	"$quire" compare "$real" "$work/$1/sim" --errors >"$work/$1/errors.tsv" ||
		fail "$1: the runs cannot be compared"
	again=$(second_run "$1")
	rm -f "$work/$1/again.tsv"
	if [ -e "$again/summary.json" ]; then
		"$quire" compare "$real" "$again" --errors >"$work/$1/again.tsv" ||
			fail "$1: the real runs cannot be compared"
	fi
	tape=identical
	"$quire" replay "$file" --runner tape --tape "$real" --steps \
		--out "$work/$1/tape" >/dev/null || tape=DIFFERS
	"$quire" compare "$real" "$work/$1/tape" --same-decisions >"$work/$1/tape.txt" ||
		tape=DIFFERS
	printf '%s\t%s\t%s\n' "$1" "$tape" "$(result_hash "$1/a")" >>"$work/tapes.tsv"
	if command -v gnuplot >/dev/null; then
		"$quire" report "$real" "$work/$1/sim" --out "$out/$1.html" ||
			fail "$1: the page failed"
	fi
}

# Drops a trace's own --kv-blocks: the simulation gets the pool that the real run had.
options_without_pool()
{
	local kept=() i
	for ((i = 0; i < ${#options[@]}; i++)); do
		if [ "${options[i]}" = --kv-blocks ]; then
			i=$((i + 1))
		else
			kept+=("${options[i]}")
		fi
	done
	options=("${kept[@]}")
}

# One row a trace and metric: real, again, sim, their relative differences, must and aim. No limit
# is tighter than twice the spread of two runs on one machine.
merge_errors()
{
	local name again
	printf 'trace\tmetric\treal\tagain\tsim\tspread\terror\tmust\taim\tverdict\n'
	for name in "$@"; do
		again=()
		[ ! -e "$work/$name/again.tsv" ] || again=("$work/$name/again.tsv")
		awk -F '\t' -v trace="$name" -v other="$other" '
		BEGIN { OFS = "\t" }
		function limits(metric)
		{
			must = aim = "-"
			if (metric ~ /output_tokens_per_s$|makespan_s$/) { must = 0.02; aim = 0.01 }
			if (metric ~ /latency_ms\.(ttft|tpot|e2e)\.(mean|p50|p90|p99)$/) {
				must = 0.05; aim = 0.02
			}
			if (metric == "prefix_cache.hit_rate") { must = 0.01; aim = 0 }
			if (metric == "preemptions") { must = 0.1; aim = 0 }
		}
		function size(x) { return x < 0 ? -x : x }
		function is_number(x) { return x ~ /^-?[0-9]/ }
		FNR == 1 { file++; next }
		file == 1 && FILENAME ~ /again/ { again[$1] = $3; spread[$1] = $4; next }
		{
			limits($1)
			verdict = "-"
			# There is no relative error to a real figure of 0. That is a
			# miss, unless both runs lack the figure.
			if (must != "-" && !is_number($4) && ($2 != "-" || $3 != "-")) {
				verdict = "MISSED"
			}
			if (must != "-" && is_number($4)) {
				has_spread = other == "" && is_number(spread[$1])
				floor = has_spread ? 2 * size(spread[$1]) : 0
				bound = must > floor ? must : floor
				goal = aim > floor ? aim : floor
				verdict = size($4) <= goal ? "aim" : "must"
				if (size($4) > bound) { verdict = "MISSED" }
			}
			if (!($1 in again)) { again[$1] = spread[$1] = "-" }
			print trace, $1, $2, again[$1], $3, spread[$1], $4, must, aim, verdict
		}' "${again[@]}" "$work/$name/errors.tsv"
	done
}

# The most important rows: a line for each figure, a column for each trace. A cell is "error (error
# of a second real run)", in bold when it exceeds its limit; preceded by the counts of both runs.
write_markdown()
{
	awk -F '\t' -v other="$other" '
	BEGIN {
		again_text = other == "" ? "a second real run" : "the run on the other machine"
		rows = split("output tokens/s=throughput.output_tokens_per_s;" \
			"makespan=time.makespan_s;" \
			"TTFT mean, p50, p90, p99=latency_ms.ttft.;" \
			"TPOT mean, p50, p90, p99=latency_ms.tpot.;" \
			"E2E mean, p50, p90, p99=latency_ms.e2e.;" \
			"hit rate=prefix_cache.hit_rate;" \
			"preemptions, real / simulated=preemptions;" \
			"steps, real / simulated=time.steps;" \
			"KV blocks, found / estimated=found_kv_blocks", row, ";")
	}
	FILENAME ~ /tapes/ { tape[$1] = $2; hash[$1] = $3; traces[++trace_count] = $1; next }
	FNR > 1 {
		real[$1, $2] = $3; sim[$1, $2] = $5; spread[$1, $2] = $6; error[$1, $2] = $7
		must[$2] = $8; aim[$2] = $9; verdict[$1, $2] = $10
	}
	function limit(x)
	{
		return x == "-" || x == "" ? "" : x == 0 ? "equal" : sprintf("%g %%", 100 * x)
	}
	function percent(x) { return x == "-" || x == "" ? "-" : sprintf("%+.2f", 100 * x) }
	# A row is one figure, or four that end in mean, p50, p90 and p99.
	function cell(trace, name, ends, count, i, key, text, again, errors)
	{
		count = name ~ /\.$/ ? split("mean p50 p90 p99", ends, " ") : 1
		if (count == 1) { ends[1] = "" }
		for (i = 1; i <= count; i++) {
			key = trace SUBSEP name ends[i]
			text = percent(error[key])
			if (verdict[key] == "MISSED") { text = "**" text "**" }
			errors = errors (i > 1 ? ", " : "") text
			again = again (i > 1 ? ", " : "") percent(spread[key])
		}
		text = errors " %" (again ~ /[0-9]/ ? " (" again ")" : "")
		if (name ~ /steps$|preemptions$|kv_blocks$/) {
			if (real[key] == "-") { return "given" }
			text = real[key] " / " sim[key] ", " text
		}
		return text
	}
	END {
		line = "| error of the simulation (of " again_text ") | must | aim |"
		rule = "|---|---|---|"
		tapes = "| tape against the run | identical | |"
		for (i = 1; i <= trace_count; i++) {
			line = line " " traces[i] " |"
			rule = rule "---|"
			tapes = tapes " " tape[traces[i]] ", `" hash[traces[i]] "` |"
		}
		print line; print rule; print tapes
		for (m = 1; m <= rows; m++) {
			split(row[m], part, "=")
			first = part[2] (part[2] ~ /\.$/ ? "mean" : "")
			line = "| " part[1] " | " limit(must[first]) " | " limit(aim[first]) " |"
			for (i = 1; i <= trace_count; i++) {
				line = line " " cell(traces[i], part[2]) " |"
			}
			print line
		}
	}' "$work/tapes.tsv" "$out/reality.tsv"
}

table_all()
{
	local name done=()
	: >"$work/tapes.tsv"
	for name in $names; do
		if [ ! -e "$out/$name.tar.gz" ]; then
			echo "$name: skipped, no run is there"
		elif simulate "$name"; then
			done+=("$name")
		fi
	done
	[ ${#done[@]} -gt 0 ] ||
		fail "$out holds no run: bash bench/scripts/reality.sh run $out makes them"
	merge_errors "${done[@]}" >"$out/reality.tsv"
	write_markdown >"$out/reality.md"
	cat "$out/reality.md"
	local missed
	missed=$(awk -F '\t' '$10 == "MISSED"' "$out/reality.tsv" | wc -l)
	echo
	echo "$missed figures exceed their limit," \
		"$(grep -c DIFFERS "$work/tapes.tsv" || true) tapes differ; see $out"
	! grep -q DIFFERS "$work/tapes.tsv" || return 1
	[ "$musts" = no ] || [ "$missed" -eq 0 ]
}

[ $# -ge 2 ] || fail "expected: bash bench/scripts/reality.sh run|table DIR [options]"
phase=$1
mkdir -p "$2"
out=$(cd "$2" && pwd)
shift 2
while [ $# -gt 0 ]; do
	[ "$1" = --musts ] || [ $# -ge 2 ] || fail "$1: expected a value"
	case $1 in
	--quire) quire=$(realpath "$2") ;;
	--traces) traces=$2 ;;
	--model) model=$2 ;;
	--only) names=$2 ;;
	--runner) runner=$2 ;;
	--gpu) gpu=$2 ;;
	--limit) limit=$2 ;;
	--runs) runs=$2 ;;
	--again) other=$2 ;;
	--musts) musts=yes ;;
	*) fail "found '$1', which is none of the options at the head of this script" ;;
	esac
	[ "$1" = --musts ] || shift
	shift
done
case $runs in 1 | 2) ;; *) fail "--runs: found '$runs', expected 1 or 2" ;; esac
[ -z "$other" ] || [ -d "$other" ] || fail "--again: there is no folder $other"
gpu=${gpu:-h200-$model}
[ -x "$quire" ] || fail "there is no program $quire: cmake --build --preset release makes it"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for name in $names; do
	settings "$name"
done
make_chat
case $phase in
run) run_all ;;
table) table_all ;;
*) fail "found '$phase', expected run or table" ;;
esac
