#!/usr/bin/env bash
# Fleets whose replicas compute: each on its own GPU, under both clocks, while replicas come and go.
#
#     tests/scripts/cuda_fleet.sh BUILD [PART...]    BUILD: a folder with quire and
#                                                    tests/cuda_faulty, or both in it
#
# PART: bursts (decisions equal those of the simulated fleet), outages (replicas fail, drain and
# join in mid-run), wall (the same in real time), ends (a GPU fails, Ctrl-C), refused; all of them
# if none is given. What a tape can repeat must have the run's result_hash and requests. Every
# request has one end, every token is counted, and no step runs on a replica that is away. The GPUs
# must be otherwise idle. Prints a line a case, then the count. Exit code 1 if one failed. Of the
# environment: RUNNER, cuda if not set; with reference the CPU computes, a model of tests/fixtures
# unless QUIRE_MODEL names another.
set -uo pipefail
export LC_ALL=C

# shellcheck source=tests/scripts/cuda_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/cuda_common.sh"
shift
parts=${*:-bursts outages wall ends refused}
runner=${RUNNER:-cuda}
# Lengths are multiples of scale, so that steps take some milliseconds. Few seats have few graphs.
scale=24 blocks=900
if [ "$runner" != cuda ]; then
	root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
	model=${QUIRE_MODEL:-$root/tests/fixtures/models/group1}
	scale=4 blocks=400
elif [ ! -x "$faulty" ] || ! before=$("$faulty" free 2>/dev/null) ||
	[ "$("$faulty" count)" -lt 2 ]; then
	echo "skipped: less than 2 GPUs"
	skipped=1
	finish
fi
gpus=$([ "$runner" != cuda ] || "$faulty" count)
engine=(--model "$model" --block-size 16 --trace-block-size 16 --kv-blocks "$((blocks * scale))"
	--max-num-batched-tokens "$((scale * 64))" --max-model-len "$((scale * 50))" --steps)
seats=64 replicas=2

# ---- traces ----

# rows COUNT FIRST_ID MS: requests that arrive at once. Three in four begin with one of three
# prefixes.
rows()
{
	local i input hashes k
	for ((i = $2; i < $2 + $1; i++)); do
		input=$((scale * (8 + i * 7 % 29)))
		hashes=
		for ((k = 0; k * 16 < input; k++)); do
			if [ $((k * 16)) -lt $((scale * 6)) ] && [ $((i % 4)) -lt 3 ]; then
				hashes+=", $((1000 * (i % 4) + k))"
			else
				hashes+=", $((10000 * (i + 1) + k))"
			fi
		done
		printf '{"timestamp": %d, "input_length": %d, "output_length": %d, ' \
			"$3" "$input" $((scale * (1 + i * 5 % 11)))
		echo "\"hash_ids\": [${hashes#, }]}"
	done
}

# Bursts, each of which ends long before the next one arrives.
make_bursts()
{
	local i
	for ((i = 0; i < 5; i++)); do
		rows 16 $((16 * i)) $((i * 200000))
	done >"$work/bursts.jsonl"
}

# make_stream MS: 60 requests at once, and 60 over so many milliseconds.
make_stream()
{
	local i
	for ((i = -60; i < 60; i++)); do
		rows 1 $((i + 60)) $((i < 0 ? 0 : $1 * i / 60))
	done >"$work/stream.jsonl"
}

# ---- runs ----

# begin NAME TRACE PROGRAM... -- OPTION...: starts a run of the runner; $job is its process.
begin()
{
	local name=$1 trace=$2 program=()
	shift 2
	while [ "$1" != -- ]; do
		program+=("$1")
		shift
	done
	shift
	"${program[@]}" replay "$work/$trace.jsonl" "${engine[@]}" --max-num-seqs "$seats" \
		--replicas "$replicas" --runner "$runner" --weights dummy:0 --force \
		--out "$work/$name" "$@" \
		>"$work/$name.out" 2>"$work/$name.err" &
	job=$!
}

# good NAME TRACE OPTION...: says what is wrong with a run that must succeed.
good()
{
	local name=$1 trace=$2 job
	shift 2
	begin "$name" "$trace" timeout 100 "$quire" -- "$@"
	wait "$job" || {
		echo "exit code $?: $(last_line "$name")"
		return
	}
	[ "$(field "$name" overlap)" = off ] || echo "replicas launched steps ahead"
}

# simulated NAME TRACE OPTION...: what is wrong with a simulation, which must decide as NAME did.
simulated()
{
	local name=$1 trace=$2
	shift 2
	"$quire" replay "$work/$trace.jsonl" "${engine[@]}" --max-num-seqs "$seats" \
		--replicas "$replicas" --gpu h200-datasheet --overlap off --force \
		--out "$work/$name.sim" "$@" \
		>"$work/$name.out" 2>"$work/$name.sim.err" || {
		echo "simulated: $(last_line "$name.sim")"
		return
	}
	same_hash "$name" "$name.sim"
}

same_hash()
{
	[ -n "$(field "$1" result_hash)" ] &&
		[ "$(field "$1" result_hash)" = "$(field "$2" result_hash)" ] ||
		echo "result_hash $(field "$1" result_hash), of $2 $(field "$2" result_hash)"
}

# taped NAME TRACE: what is wrong with the recorded steps of NAME, played again.
taped()
{
	local name=$1
	"$quire" replay "$work/$2.jsonl" --runner tape --tape "$work/$name" --model "$model" \
		--steps --force --out "$work/$name.tape" \
		>"$work/$name.out" 2>"$work/$name.tape.err" || {
		echo "tape: $(last_line "$name.tape")"
		return
	}
	same_hash "$name" "$name.tape"
	cmp "$work/$name/requests.tsv" "$work/$name.tape/requests.tsv" 2>&1
	cmp "$work/$name/steps.tsv" "$work/$name.tape/steps.tsv" 2>&1
}

# conserved NAME TRACE: every row of the trace has one end and, if finished, all of its tokens. The
# summary counts what the table of requests holds.
conserved()
{
	sed -E 's/.*"output_length": ([0-9]+).*/\1/' "$work/$2.jsonl" >"$work/outputs"
	awk -F '\t' -v counted="$(field "$1" submitted) $(field "$1" finished) $(
		field "$1" rejected)" '
		FILENAME != ARGV[2] { wanted[all++] = $1; next }
		FNR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
		{ id = $column["id"]; tokens = $column["output_tokens"] }
		{ status = $column["status"] }
		id in seen { print "request " id " twice" }
		{ seen[id]; rows++ }
		{ finished += status == "finished"; rejected += status ~ /^rejected/ }
		status == "finished" && tokens != wanted[id] {
			print "request " id " has " tokens " tokens, expected " wanted[id]
		}
		END {
			if (rows != all || finished + rejected != all)
				print rows " requests, " finished + rejected " ends, expected " all
			if (counted != all " " finished + 0 " " rejected + 0)
				print "the summary counts " counted
		}' "$work/outputs" "$work/$1/requests.tsv"
}

# sound NAME [REPLICA FROM_MS TO_MS]: the steps of a replica follow each other, and none of REPLICA
# runs in these milliseconds.
sound()
{
	awk -F '\t' -v away="${2:-none}" -v from="${3:-0}" -v to="${4:-0}" '
		FNR == 1 { next }
		{ replica = $NF; count[replica]++ }
		$2 < end[replica] { print "step " $1 " of replica " replica " overlaps" }
		$1 != steps[replica]++ { print "step " $1 " of replica " replica " is not next" }
		{ end[replica] = $2 + $3 }
		replica == away && end[replica] > from * 1e6 && $2 < to * 1e6 {
			print "step " $1 " of replica " replica ", which is away"; exit
		}
		END { if (!count[0] || !count[1]) print "a replica has no step" }
	' "$work/$1/steps.tsv"
}

# retried NAME: some request was sent again.
retried()
{
	[ "$(field "$1" retries)" -gt 0 ] || echo "no request was sent again"
}

# free_again: the memory of the GPUs is free.
free_again()
{
	local i now
	[ "$runner" = cuda ] || return
	for ((i = 0; i < 20; i++)); do
		now=$("$faulty" free) && [ "$now" -ge "$before" ] && return
		sleep 0.5
	done
	echo "$((before - now)) bytes of the GPUs are held"
}

# ---- decisions that no step's time can change ----

# Under round-robin a burst is divided by its order. Between bursts replicas come and go: `away`
# gives the second burst to replica 0 and the fourth to replica 1.
part_bursts()
{
	local away='fail:1@100,join:1@300,drain:0@500,join:0@700' name more
	make_bursts
	for name in present away drained; do
		more=(--router round-robin)
		[ "$name" != away ] || more+=(--outages "$away")
		[ "$name" != drained ] || more+=(--outages 'drain:0@0,join:0@500,drain:1@500')
		report "bursts, $name: the decisions of the simulated fleet and of the tape" "$(
			good $name bursts "${more[@]}"
			simulated $name bursts "${more[@]}"
			taped $name bursts
			conserved $name bursts
			sound $name)"
	done
	printf 'group\treplicas\tgpu\none\t1\t-\ntwo\t1\th200-datasheet\n' >"$work/equal.tsv"
	report "bursts: a simulated fleet of two equal groups decides so too" "$(
		simulated present bursts --router round-robin --fleet "$work/equal.tsv")"
	printf 'group\treplicas\tmax_num_seqs\none\t1\t2\ntwo\t1\t-\n' >"$work/differ.tsv"
	problem=$(simulated present bursts --router round-robin --fleet "$work/differ.tsv")
	report "bursts: a group of two seats does not" "$(
		grep -q '^result_hash' <<<"$problem" || echo "${problem:-the same result_hash}")"
}

# ---- replicas that come and go in mid-run ----

# Every row arrives within 40 % of the time that the fleet needs, half of them at once, so both
# replicas are busy at the outages.
measure()
{
	[ -z "${all_ms:-}" ] || return
	make_stream 0
	problem=$(good whole stream --router least-requests)
	all_ms=$(field whole makespan_s | sed -nE 's/([0-9]+)\.([0-9]{3}).*/\1\2/p')
	all_ms=$((10#${all_ms:-0}))
	report "120 requests at once ($all_ms ms)" "$problem$(taped whole stream)$(
		conserved whole stream)$(sound whole)"
	make_stream $((all_ms * 2 / 5))
}

part_outages()
{
	local fail join fails
	measure
	fail=$((all_ms / 4)) join=$((all_ms / 2))
	fails=fail:1@$(seconds $fail),join:1@$(seconds $join)
	report "replica 1 fails and comes back" "$(
		good failed stream --router prefix --outages "$fails"
		taped failed stream
		conserved failed stream
		sound failed 1 $fail $join
		retried failed)"
	report "the same seen late, with a queue of 5 and 20 requests a replica" "$(
		good late stream --router dynamo-kv --router-view delayed:20 --router-queue 5 \
			--replica-limit 20 --outages "$fails,drain:0@$(seconds $join)"
		taped late stream
		conserved late stream
		sound late 1 $fail $join)"
	report "the same by vLLM's rules" "$(
		good vllm stream --router least-kv --policy vllm --async-scheduling off \
			--outages "$fails"
		taped vllm stream
		conserved vllm stream
		sound vllm 1 $fail $join
		retried vllm)"
	report "both fail, and one comes back" "$(
		good alone stream --router llm-d \
			--outages "fail:0@$(seconds $fail),fail:1@$(seconds $fail),join:1@$(
				seconds $join)"
		taped alone stream
		conserved alone stream
		sound alone 0 $fail 100000000
		sound alone 1 $fail $join
		retried alone)"
}

# ---- in real time ----

# Every row arrives within half of the time that the steps of a replica take.
part_wall()
{
	local fail join
	measure
	make_stream $((all_ms / 2))
	fail=$((all_ms / 6)) join=$((all_ms / 3))
	report "in real time" "$(
		good wall stream --router two-choices --clock wall
		taped wall stream
		conserved wall stream
		sound wall)"
	report "in real time replica 1 drains and comes back" "$(
		good wall_drained stream --router prefix --clock wall \
			--outages "drain:1@$(seconds $fail),join:1@$(seconds $join)"
		taped wall_drained stream
		conserved wall_drained stream
		sound wall_drained)"
	report "in real time replica 1 fails in mid-step and comes back" "$(
		good wall_failed stream --router least-requests --clock wall \
			--outages "fail:1@$(seconds $fail),join:1@$(seconds $join)"
		conserved wall_failed stream
		sound wall_failed 1 $fail $join
		retried wall_failed)"
	report "its tape is refused" "$(refused none 'a replica failed in the recorded run' \
		"$quire" replay "$work/stream.jsonl" --runner tape --tape "$work/wall_failed" \
		--model "$model" --out "$work/none")"
}

# ---- runs that end early ----

# ended NAME CODE STATUS WORDS: what is wrong with a run that had to end so.
ended()
{
	[ "$code" -eq "$2" ] || echo "exit code $code, expected $2: $(last_line "$1")"
	[ "$(wc -l <"$work/$1.err")" = 1 ] && grep -q -- "$4" "$work/$1.err" ||
		echo "$(wc -l <"$work/$1.err") lines: $(head -c 400 "$work/$1.err")"
	grep -q "\"status\":[[:space:]]*\"$3\"" "$work/$1/summary.json" ||
		echo "summary.json does not say $3"
	[ "$(field "$1" steps)" -gt 0 ] || echo "no step"
	free_again
}

part_ends()
{
	local job code seats=16
	rows 800 0 0 >"$work/many.jsonl"
	begin interrupted many "$quire" --
	await_steps interrupted $job
	kill -INT $job
	wait $job
	code=$?
	report "Ctrl-C" "$(ended interrupted 1 interrupted interrupted)"
	[ "$runner" = cuda ] || return
	begin trapped many timeout 60 "$faulty" trap "$work/trap.now" quire --
	await_steps trapped $job
	touch "$work/trap.now"
	wait $job
	code=$?
	report "an invalid address on the GPU of replica 0" "$(
		ended trapped 2 failed 'llegal\|CUDA\|device')"
}

# ---- what is refused ----

# refused NAME WORDS COMMAND...: it must end with exit code 2 and one line, and leave no result.
refused()
{
	local name=$1 words=$2 code=0
	shift 2
	timeout 60 "$@" >"$work/$name.out" 2>"$work/$name.err" || code=$?
	[ $code = 2 ] && [ "$(wc -l <"$work/$name.err")" = 1 ] &&
		grep -qF -- "$words" "$work/$name.err" ||
		echo "exit code $code: $(head -c 400 "$work/$name.err")"
	[ ! -e "$work/$name" ] || echo "left $name"
}

# refuses WHAT WORDS OPTION...: a case.
refuses()
{
	local what=$1 words=$2
	shift 2
	report "$what" "$(refused none "$words" "$quire" replay "$work/bursts.jsonl" \
		"${engine[@]}" --max-num-seqs "$seats" --replicas "$replicas" \
		--runner "$runner" --weights dummy:0 --out "$work/none" "$@")"
}

part_refused()
{
	local replicas=2
	make_bursts
	printf 'group\treplicas\tmax_num_seqs\none\t1\t2\ntwo\t1\t-\n' >"$work/differ.tsv"
	refuses "groups that differ" '--fleet has replicas that differ' --fleet "$work/differ.tsv"
	refuses "a failure under asynchronous scheduling" '--async-scheduling off' \
		--policy vllm --async-scheduling on --outages fail:1@1
	refuses "an outage of a replica that is not there" 'below 2' --outages fail:2@1
	if [ "$runner" = cuda ]; then
		refuses "kernel times of two replicas" '--kernel-times measures one replica' \
			--kernel-times
		replicas=$((gpus + 1))
		refuses "more replicas than GPUs" "--replicas $replicas needs $replicas"
		replicas=$gpus
		refuses "more ranks than GPUs" \
			"--replicas $gpus of --tensor-parallel-size 2 needs $((2 * gpus))" -tp 2
		replicas=2
	fi
	if [ "$runner" = cuda ] && [ "$gpus" -lt 4 ]; then
		echo "skipped: two replicas of two ranks need 4 GPUs"
		skipped=$((skipped + 1))
		return
	fi
	report "two replicas of two ranks decide as simulated" "$(
		good ranks bursts --router round-robin -tp 2 --outages fail:1@100,join:1@300
		simulated ranks bursts --router round-robin -tp 2 --outages fail:1@100,join:1@300
		taped ranks bursts)"
}

for part in $parts; do
	"part_$part"
done
finish
