#!/usr/bin/env bash
# Ranks of the CUDA runner: whatever starts them and whatever happens to one of them.
#
#     tests/scripts/cuda_ranks.sh BUILD [PART...]    BUILD: a folder with quire and
#                                                    tests/cuda_faulty, or both in it
#
# PART: same (results equal those of one GPU), commands (info, calibrate), faults (a rank is killed,
# hangs or traps), mpirun; all of them if none is given. A run that fails must end within 15 s with
# exit code 2 and one line, keep the results of the steps before, and leave no process, no shared
# memory and no memory of a GPU behind. The GPUs must be otherwise idle. Prints a line a case, then
# the count. Exit code 1 if one failed. Of the environment: RANKS, 2 if not set; TRANSPORTS, "peer
# nccl"; MOMENTS of opening, in percent of its time, at which a kernel traps; QUIRE_MODEL;
# QUIRE_TOKENIZER, a tokenizer.json of at most 640 tokens, where the script is not in its tree.
set -uo pipefail
export LC_ALL=C

# shellcheck source=tests/scripts/cuda_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/cuda_common.sh"
shift
transports=${TRANSPORTS:-peer nccl}
parts=${*:-same commands faults mpirun}
ranks=${RANKS:-2}
limit_ms=15000
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
tokenizer=${QUIRE_TOKENIZER:-$(dirname "${BASH_SOURCE[0]}")/../fixtures/tokenizer/small.json}
# A run that is to fail must be longer than the 600 steps that await_steps() waits for. Few seats
# have few graphs, whose capture is most of the time to open.
run=(replay "$work/t.jsonl" --runner cuda --model "$model" --weights dummy:0 --kv-blocks 900
	--max-num-seqs 64)

if [ ! -x "$faulty" ] || ! before=$("$faulty" free 2>/dev/null) ||
	[ "$("$faulty" count)" -lt "$ranks" ]; then
	echo "skipped: less than $ranks GPUs"
	skipped=1
	finish
fi

# split PROGRAM... -- OPTION...: into the arrays program and options of its caller.
split()
{
	program=()
	while [ "$1" != -- ]; do
		program+=("$1")
		shift
	done
	options=("${@:2}")
}

# replay NAME PROGRAM... -- OPTION...
replay()
{
	local name=$1 program options
	split "${@:2}"
	timeout 120 "${program[@]}" "${run[@]}" --force --out "$work/$name" \
		"${options[@]}" >"$work/$name.out" 2>"$work/$name.err"
}

# succeeds NAME PROGRAM... -- OPTION...: what is wrong with a run that must decide as `one` does.
succeeds()
{
	replay "$@" || {
		echo "exit code $?: $(last_line "$1")"
		return
	}
	[ "$(field "$1" result_hash)" = "$(field one result_hash)" ] ||
		echo "result_hash $(field "$1" result_hash), expected $(field one result_hash)"
}

# refused NAME WORDS PROGRAM... -- OPTION...: it must end with exit code 2 and one line of quire.
refused()
{
	local name=$1 words=$2 code=0
	shift 2
	replay "$name" "$@" || code=$?
	[ $code = 2 ] && [ "$(grep -c '^quire' "$work/$name.err")" = 1 ] &&
		grep -qF -- "$words" "$work/$name.err" ||
		echo "exit code $code: $(head -c 400 "$work/$name.err")"
	[ ! -e "$work/$name" ] || echo "left $name"
}

# texts NAME PROGRAM... -- OPTION...: sampled answers to prompts, with the ids of their tokens. The
# events of a replay, and so its result_hash, do not depend on sampled tokens.
texts()
{
	local name=$1 program options
	split "${@:2}"
	timeout 60 "${program[@]}" generate --model "$work/words" --weights dummy:3 --runner cuda \
		--prompts "$work/words/prompts.jsonl" --max-tokens 100 --ignore-eos --json \
		--kv-blocks 100 "${options[@]}" >"$work/$name.texts" 2>"$work/$name.err"
}

# same_texts NAME: what is wrong with answers that must be those of forked ranks by peers, or by
# NCCL where peers cannot be mapped.
same_texts()
{
	[ -s "$work/forked.texts" ] || texts forked "$quire" -- -tp "$ranks"
	[ "$(wc -l <"$work/forked.texts")" = "$prompts" ] ||
		echo "not $prompts answers: $(last_line forked)"
	cmp "$work/forked.texts" "$work/$1.texts" 2>&1 || last_line "$1"
}

make_words()
{
	local i
	mkdir "$work/words"
	cp "$tokenizer" "$work/words/tokenizer.json"
	printf '%s' '{"model_type": "qwen3", "hidden_size": 1024, "intermediate_size": 1536,' \
		' "num_hidden_layers": 4, "num_attention_heads": 16, "num_key_value_heads": 8,' \
		' "head_dim": 128, "vocab_size": 640, "max_position_embeddings": 4096,' \
		' "rms_norm_eps": 1e-6, "rope_theta": 1e6, "tie_word_embeddings": true,' \
		' "torch_dtype": "bfloat16"}' >"$work/words/config.json"
	for ((i = 1; i <= prompts; i++)); do
		echo "{\"prompt\": \"quire number $i says\"}"
	done >"$work/words/prompts.jsonl"
}

# children PID: its processes, by rank.
children()
{
	sed -nE 's/^([0-9]+) \(.*\) [A-Z] ([0-9]+) .*/\2 \1/p' /proc/[0-9]*/stat 2>/dev/null |
		sed -n "s/^$1 //p" | sort -n
}

"$quire" trace make --requests 64 --input 100:600 --output 900:1300 --seed 1 \
	--out "$work/t.jsonl" >/dev/null || exit 2
prompts=24
make_words || exit 2

# ---- the same decisions and tokens ----

part_same()
{
	report "general kernels" "$(succeeds general "$quire" -- -tp "$ranks" --kernels general)"
	report "general kernels by NCCL" "$(succeeds general_nccl "$quire" -- -tp "$ranks" \
		--kernels general --tp-transport nccl)"
	report "by NCCL" "$(succeeds nccl "$quire" -- -tp "$ranks" --tp-transport nccl)"
	report "kernel times" "$(succeeds times "$quire" -- -tp "$ranks" --kernel-times)$(
		grep -q exchange "$work/times/kernels.tsv" ||
			echo "kernels.tsv lacks the exchange")"
	texts nccl "$quire" -- -tp "$ranks" --tp-transport nccl
	report "tokens are sampled by NCCL as by peers" "$(same_texts nccl)"
}

# ---- commands ----

part_commands()
{
	local estimate found
	timeout 120 "$quire" info --model "$model" -tp "$ranks" >"$work/info.out" 2>&1
	found=$(sed -nE 's/^ *KV blocks +([0-9]+) of.*/\1/p' "$work/info.out" | tail -n 1)
	estimate=$(sed -nE 's/^ *KV blocks +([0-9]+) .*/\1/p' "$work/info.out" | head -n 1)
	report "info finds the GPUs' KV blocks (${found:-none}, estimated ${estimate:-none})" "$(
		[ "$(grep -c 'KV blocks' "$work/info.out")" -ge 2 ] || tail -n 3 "$work/info.out")"
	timeout 200 "$quire" calibrate --runner cuda --model "$model" --weights dummy:0 \
		-tp "$ranks" --budget 8 --name tried --out "$work/calibrated" \
		>"$work/calibrate.out" 2>&1
	report "calibrate" "$([ $? = 0 ] || tail -n 1 "$work/calibrate.out")"
	report "a simulation by that profile" "$(
		"$quire" replay "$work/t.jsonl" --model "$model" -tp "$ranks" --kv-blocks 900 \
			--gpu "$work/calibrated/tried.json" --out "$work/sim" \
			>"$work/sim.out" 2>"$work/sim.err" || last_line sim)"
	grep -hE 'output_tokens_per_s' "$work/sim/summary.json" "$work/one/summary.json" |
		sed 's/^/    /' 2>/dev/null
}

# ---- a rank fails ----

# What is wrong after a run NAME whose exit code had to be WANTED, with WORDS in its one line and
# STATUS in its summary.json (none: there must be no result), MS after the fault.
wrong()
{
	local name=$1 code=$2 wanted=$3 words=$4 status=$5 ms=$6 lines steps
	lines=$(wc -l <"$work/$name.err")
	[ "$code" -eq "$wanted" ] || echo "exit code $code, expected $wanted: $(last_line "$name")"
	[ "$ms" -le $limit_ms ] || echo "it took $ms ms"
	[ "$wanted" -ne 137 ] || return # what kill -9 leaves is no result
	[ -z "$(find "$work/$name" -name '*.part')" ] ||
		echo "left $(find "$work/$name" -name '*.part')"
	[ "$lines" -eq 1 ] || echo "$lines lines: $(head -c 400 "$work/$name.err")"
	grep -q -- "$words" "$work/$name.err" ||
		echo "the line lacks '$words': $(last_line "$name")"
	grep -q "\"status\":[[:space:]]*\"$status\"" "$work/$name/summary.json" ||
		echo "summary.json does not say $status"
	steps=$(field "$name" steps)
	[ "${steps:-0}" -gt 0 ] && [ "$steps" -lt "$all_steps" ] ||
		echo "${steps:-no} steps, expected some of $all_steps"
}

# Those of PIDS that have not ended; who has ended may still wait for its parent.
running()
{
	local pid
	for pid in $1; do
		grep -qE '^[0-9]+ \(.*\) [^ZX] ' "/proc/$pid/stat" 2>/dev/null && echo "$pid"
	done
}

# What a run has left: processes, shared memory, memory of a GPU.
left()
{
	local i now
	for ((i = 0; i < 20; i++)); do
		now=$("$faulty" free) && [ "$now" -ge "$before" ] && [ -z "$(running "$1")" ] &&
			break
		sleep 0.5
	done
	[ "$now" -ge "$before" ] || echo "$((before - now)) bytes of the GPUs are held"
	[ -z "$(running "$1")" ] || echo "processes are left: $(running "$1")"
	[ "$(ls /dev/shm)" = "$shared_before" ] || echo "left in /dev/shm: $(ls /dev/shm)"
}

# measure NAME OPTION...: a run that must succeed; how long it takes, and until its first step.
measure()
{
	local name=$1 start
	shift
	start=$(now_ms)
	problem=$(succeeds "$name" "$quire" -- -tp "$ranks" "$@")
	all_ms=$(($(now_ms) - start))
	opening_ms=$((all_ms - $(busy_of "$name")))
}

# fault NAME TRANSPORT CODE WORDS STATUS ACTION: a run whose rank 0 or rank 1 is dealt with in its
# middle. ACTION is a shell command in which $job is rank 0 and $one rank 1.
fault()
{
	local name=$1 transport=$2 wanted=$3 words=$4 status=$5 action=$6 job one all struck ms code
	"$quire" "${run[@]}" -tp "$ranks" --tp-transport "$transport" --steps --force \
		--out "$work/$name" >"$work/$name.out" 2>"$work/$name.err" &
	job=$!
	await_steps "$name" $job
	all=$(children $job)
	one=$(echo "$all" | head -n 1)
	struck=$(now_ms)
	eval "$action"
	(sleep 40 && kill -KILL $job) 2>/dev/null &
	wait $job 2>/dev/null
	code=$?
	ms=$(($(now_ms) - struck))
	kill $! 2>/dev/null
	report "$name ($ms ms): $(last_line "$name" | head -c 120)" "$([ -n "$all" ] ||
		echo "it had no ranks; ")$(wrong "$name" $code "$wanted" "$words" "$status" $ms)$(
		left "$job $all")"
}

# trapped NAME TRANSPORT FAULT WORDS: a kernel reads an invalid address in mid-run.
trapped()
{
	local name=$1 ms code start job
	timeout 60 "$faulty" "$3" "$work/$name.now" quire "${run[@]}" -tp "$ranks" \
		--tp-transport "$2" --steps --force --out "$work/$name" \
		>"$work/$name.out" 2>"$work/$name.err" &
	job=$!
	await_steps "$name" $job
	start=$(now_ms)
	touch "$work/$name.now"
	wait $job
	code=$?
	ms=$(($(now_ms) - start))
	report "$name ($ms ms): $(last_line "$name" | head -c 120)" \
		"$(wrong "$name" $code 2 "$4" failed $ms)$(left "")"
}

# A kernel of rank 1 reads an invalid address while the ranks open.
trapped_while_opening()
{
	local transport=$1 at name code start ms job problems=
	for at in ${MOMENTS:-30 50 70 90}; do
		name=opening_$transport$at
		timeout 40 "$faulty" trap1 "$work/$name.now" quire "${run[@]}" -tp "$ranks" \
			--tp-transport "$transport" --out "$work/$name" \
			>"$work/$name.out" 2>"$work/$name.err" &
		job=$!
		sleep "$(seconds $((opening_ms * at / 100)))"
		start=$(now_ms)
		touch "$work/$name.now"
		wait $job
		code=$?
		ms=$(($(now_ms) - start))
		[ $code -eq 2 ] && [ $ms -le $limit_ms ] &&
			[ "$(wc -l <"$work/$name.err")" -eq 1 ] ||
			problems+="at $at %: exit code $code after $ms ms: $(
				head -c 300 "$work/$name.err")"
	done
	report "trap_while_opening_$transport: $(last_line "$name" | head -c 120)" \
		"$problems$(left "")"
}

part_faults()
{
	local transport hung
	shared_before=$(ls /dev/shm)
	for transport in $transports; do
		# NCCL does not say which rank it waits for.
		hung='rank 1'
		[ "$transport" = peer ] || hung='did not end within'
		measure "by_$transport" --tp-transport "$transport"
		report "$transport ($all_ms ms)" "$problem"
		fault "killed_$transport" $transport 2 'rank 1: killed by signal 9' failed \
			'kill -KILL $one'
		fault "hung_$transport" $transport 2 "$hung" failed 'kill -STOP $one'
		trapped "trap_in_rank_1_$transport" $transport trap1 'rank 1: '
		trapped "trap_in_rank_0_$transport" $transport trap 'llegal\|CUDA'
		fault "interrupted_$transport" $transport 1 interrupted interrupted \
			'kill -INT $job $all'
		fault "rank_0_killed_$transport" $transport 137 '' none 'kill -KILL $job'
		trapped_while_opening "$transport"
	done
}

# ---- processes of mpirun ----

part_mpirun()
{
	local one code start ms
	by_mpirun=(mpirun --oversubscribe -np "$ranks" "$quire")
	if ! { mpirun --version 2>/dev/null || true; } | grep -q 'Open MPI'; then
		echo "skipped: no mpirun of Open MPI here"
		skipped=$((skipped + 1))
		return
	fi
	report "processes of mpirun" "$(succeeds by_mpirun "${by_mpirun[@]}" --)"
	report "processes of mpirun, general kernels" \
		"$(succeeds by_mpirun_general "${by_mpirun[@]}" -- --kernels general)"
	report "peers cannot be asked for" "$(refused none 'mpirun cannot map' \
		"${by_mpirun[@]}" -- --tp-transport peer)"
	texts by_mpirun "${by_mpirun[@]}" --
	report "processes of mpirun sample what forked ones do" "$(same_texts by_mpirun)"
	timeout 60 "${by_mpirun[@]}" "${run[@]}" --steps --out "$work/none" \
		>"$work/killed.out" 2>&1 &
	await_steps none $!
	one=$(grep -l OMPI_COMM_WORLD_RANK=1 /proc/[0-9]*/environ 2>/dev/null | head -n 1 |
		tr -dc 0-9)
	start=$(now_ms)
	kill -KILL "$one"
	wait $!
	code=$?
	ms=$(($(now_ms) - start))
	report "a killed process of mpirun ends all ($ms ms)" "$(
		[ $code -ne 0 ] || echo "exit code 0"
		[ $ms -le $limit_ms ] || echo "it took $ms ms"
		! grep -lqs OMPI_COMM_WORLD_RANK= /proc/[0-9]*/environ ||
			echo "processes are left")"
	timeout 100 "${by_mpirun[@]}" calibrate --runner cuda --model "$model" --weights dummy:0 \
		--budget 8 --name tried --out "$work/calibrated_mpi" >"$work/calibrate.out" 2>&1
	report "processes of mpirun calibrate" \
		"$([ $? = 0 ] || grep '^quire' "$work/calibrate.out")"
	timeout 100 "${by_mpirun[@]}" kernels --repeats 1 --out "$work/exchange.tsv" \
		>"$work/exchange.out" 2>&1
	report "processes of mpirun time the exchange" "$(
		[ "$(grep -c '^exchange_nccl' "$work/exchange.tsv")" -gt 1 ] ||
			grep '^quire' "$work/exchange.out")"
}

# ---- a run without faults ----

replay one "$quire" -- || report "one GPU" "exit code $?: $(last_line one)"
all_steps=$(field one steps)
measure forked
report "$ranks ranks decide as one ($all_ms ms, $all_steps steps)" "$problem"
[ -z "$problem" ] || finish
for part in $parts; do
	"part_$part"
done
finish
