#!/usr/bin/env bash
# Runs the reference runner with ranks that mpirun starts, and compares with one process: the same
# result, written by rank 0 alone; what differs between the processes is refused.
#
#     tests/scripts/mpirun.sh BUILD
#
# Where there is no mpirun of Open MPI, or the program was built without MPI, they are skipped.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
quire=$(cd "$1" && pwd)/quire
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
passed=0 failed=0
# Open MPI does not free all that it takes, and refuses root and few cores unless told to.
export ASAN_OPTIONS=detect_leaks=0 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
options=(--model "$root/tests/fixtures/models/group2" --trace-block-size 16 --block-size 8
	--kv-blocks 40 --max-num-seqs 8 --max-num-batched-tokens 64 --runner reference)

skip()
{
	echo "skipped: $1"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
}

# ranks COUNT COMMAND...: as mpirun starts it; output and errors in the file output.
ranks()
{
	local count=$1
	shift
	timeout 120 mpirun --oversubscribe -np "$count" "$@" >output 2>&1
}

# verdict WHAT COMMAND...: a check by the exit code of a command.
verdict()
{
	local what=$1
	shift
	if "$@"; then
		passed=$((passed + 1))
	else
		echo "failed: $what"
		[ ! -f output ] || head -20 output
		failed=$((failed + 1))
	fi
}

# refused COUNT WORDS COMMAND...: it ends with exit code 2 and one line of quire with these words.
refused()
{
	local count=$1 words=$2 code=0
	shift 2
	ranks "$count" "$@" || code=$?
	[ "$code" = 2 ] && [ "$(grep -c '^quire' output)" = 1 ] && grep -qF -- "$words" output
}

same_hash()
{
	[ "$(grep result_hash "$1/summary.json")" = "$(grep result_hash "$2/summary.json")" ]
}

# by_rank COMMAND: a shell command in which $rank is the number of the process.
by_rank()
{
	echo "rank=\$OMPI_COMM_WORLD_RANK; $1"
}

{ mpirun --version 2>/dev/null || true; } | grep -q 'Open MPI' || skip "no mpirun of Open MPI here"
ranks 2 true || skip "mpirun cannot start processes here"
"$quire" trace make --requests 40 --input 60 --output 12 --seed 1 --out trace.jsonl >/dev/null
if ! ranks 2 "$quire" replay trace.jsonl "${options[@]}" --out two &&
	grep -q 'built without MPI' output; then
	skip "the program was built without MPI"
fi

"$quire" replay trace.jsonl "${options[@]}" --out one >/dev/null
verdict "two processes decide as one" same_hash one two
verdict "only rank 0 prints" test "$(grep -c result_hash output)" = 1
verdict "the program is not linked to MPI" test -z "$(ldd "$quire" | grep -i mpi)"


# Four prompts in words of a small tokenizer.
mkdir words
cp "$root/tests/fixtures/tokenizer/small.json" words/tokenizer.json
sed 's/"vocab_size": *[0-9]*/"vocab_size": 612/' "$root/tests/fixtures/models/group2/config.json" \
	>words/config.json
printf '{"prompt": "%s"}\n' one 'two words' 'three' 'and four' >words/prompts.jsonl
generate=(generate --model words --weights dummy:3 --runner reference --max-tokens 10 --ignore-eos
	--json --prompts words/prompts.jsonl)
"$quire" "${generate[@]}" -tp 2 >words/forked
timeout 60 mpirun --oversubscribe -np 2 "$quire" "${generate[@]}" >words/by_mpirun || true
verdict "processes of mpirun sample what forked ones do" cmp words/forked words/by_mpirun

# A calibration is two runs of the same ranks; in the second all requests are there at once. Whether
# prices can be fitted to the times of so small a model on a busy machine is not the question.
calibrate=(calibrate --model "$root/tests/fixtures/models/group2" --runner reference --name tiny
	--weights "$root/tests/fixtures/models/group2" --budget 1 --kv-blocks 60
	--max-model-len 2048 --max-num-seqs 2 --max-num-batched-tokens 16)
ranks 2 "$quire" "${calibrate[@]}" --out calibrated || true
verdict "two processes calibrate" grep -q 'tensor_parallel_size 2' calibrated/points.tsv
"$quire" "${calibrate[@]}" -tp 2 --out calibrated_forked >/dev/null || true
verdict "both runs are those of forked ranks" same_hash calibrated/run_ahead \
	calibrated_forked/run_ahead
verdict "a calibration replaces none" refused 2 "--force replaces it" \
	"$quire" "${calibrate[@]}" --out calibrated
rm -rf calibrated/points.tsv calibrated/plan.jsonl calibrated/run
verdict "nor its second run, behind the first" refused 2 "--force replaces it" \
	"$quire" "${calibrate[@]}" --out calibrated

verdict "no file is left unfinished" test -z "$(find . -name '*.part')"

verdict "an option that is wrong is refused once" refused 3 "--seed is given twice" \
	"$quire" replay trace.jsonl "${options[@]}" --seed 1 --seed 2 --out none
verdict "another number of ranks is refused" refused 3 "size 2: mpirun started 3 processes" \
	"$quire" replay trace.jsonl "${options[@]}" -tp 2 --out none
verdict "more processes than ranks are refused" refused 9 "found 9, expected 1, 2, 4 or 8" \
	"$quire" replay trace.jsonl "${options[@]}" --out none
verdict "of more processes one says what is wrong" refused 9 "--seed is given twice" \
	"$quire" sweep trace.jsonl "${options[@]}" --seed 1 --seed 2 --out none
verdict "a number that cannot divide the model is refused" refused 4 "found 4 ranks" \
	"$quire" replay trace.jsonl "${options[@]}" --out none
verdict "a runner that computes nothing is refused" refused 2 "--runner sim needs one" \
	"$quire" replay trace.jsonl --out none
verdict "a calibration of nothing measured is refused" refused 2 "measures nothing" \
	"$quire" calibrate --points trace.jsonl --name none --out none
verdict "a calibration without a computing runner is refused" refused 2 "--runner sim needs one" \
	"$quire" calibrate --runner sim --name none --out none
verdict "kernels of another number of ranks are refused" refused 3 "mpirun started 3 processes" \
	"$quire" kernels -tp 2 --out none
verdict "kernels of three ranks are refused" refused 3 "found 3, expected 1, 2, 4 or 8" \
	"$quire" kernels --out none
verdict "kernels of a table are refused" refused 2 "measures nothing" \
	"$quire" kernels --from trace.jsonl --plot none
verdict "kernels by peers are refused" refused 2 "cannot map another" \
	"$quire" kernels --tp-transport peer --out none
verdict "another configuration is refused" refused 2 "has another build or configuration" \
	bash -c "$(by_rank 'exec "$0" replay trace.jsonl --seed $rank "$@" --out none')" \
	"$quire" "${options[@]}"
mkdir 0 1
ln -s "$root/tests/fixtures/models/group2" 0/weights
verdict "weights that one rank lacks are named" refused 2 "rank 1: " \
	bash -c "$(by_rank 'cd $rank && exec "$0" replay ../trace.jsonl "$@" --out none')" \
	"$quire" "${options[@]}" --weights weights
verdict "nothing refused leaves a result" test ! -e none -a ! -e 0/none -a ! -e 1/none

# A command that processes do not share is done by the first.
ranks 2 "$quire" trace make --requests 3 --input 4 --output 5 --out made.jsonl || true
verdict "one process makes a trace" test "$(grep -c '3 requests' output)" = 1
ranks 2 "$quire" info --model qwen3-8b || true
verdict "one process tells how many blocks fit" test "$(grep -c "^profile" output)" = 1

# ---- many runs: the processes but the first do them ----

runs=("$root/tests/fixtures/models/group2" --trace-block-size 16 --kv-blocks 40
	--grid 'seed=1:20:+1;max-num-seqs=2,8')

# sweep PROCESSES DIR: a sweep by that many processes, or with one and no mpirun.
sweep()
{
	local start=()
	[ "$1" = 1 ] || start=(timeout 120 mpirun --oversubscribe -np "$1")
	"${start[@]}" "$quire" sweep trace.jsonl --model "${runs[@]}" --out "$2" >output 2>&1
}

same_sweep()
{
	diff -r -x provenance.json "$1" "$2" >output
}

sweep 1 many1 || true
sweep 64 many64 || true
verdict "64 processes write the bytes of one" same_sweep many1 many64
verdict "all runs of 64 processes are complete" grep -q '"status":.*"complete"' many64/sweep.json
plan=(plan trace.jsonl --model "$root/tests/fixtures/models/group2" --trace-block-size 16
	--kv-blocks 40 --slo-ttft-ms 50 --vary rate)
code=0
"$quire" "${plan[@]}" --out plan1 >output 2>&1 || code=$?
verdict "one process plans" test "$code" = 0
ranks 5 "$quire" "${plan[@]}" --out plan5 || true
verdict "a plan by five processes has the bytes of one" same_sweep plan1 plan5

# Of a load that is described every process makes a trace, and removes it. The seed marks them.
seed=$((RANDOM * 32768 + RANDOM))
ranks 3 "$quire" plan --input 20 --output 2 --requests 50 --seed $seed --replicates 8 \
	--precision 0.5 --slo-ttft-ms 50 || true
verdict "a described load leaves nothing" test -z "$(ls -d /tmp/quire-*-$seed* 2>/dev/null)"
verdict "a grid that is wrong is refused once" refused 3 "sweep: --grid: seed has 1 twice" \
	"$quire" sweep trace.jsonl --grid seed=1,1 --out none
verdict "what the first process alone refuses ends all" refused 3 "sweep: --grid: seed has 1" \
	bash -c "$(by_rank 'exec "$0" sweep trace.jsonl --grid seed=1,$((rank + 1)) --out none')" \
	"$quire"
verdict "what another process refuses ends all" refused 3 "sweep: process 1: --grid: seed has 1" \
	bash -c "$(by_rank 'exec "$0" sweep trace.jsonl --grid seed=1,$rank --out none')" "$quire"
verdict "--jobs under mpirun is refused" refused 3 "--jobs belongs to one machine" \
	"$quire" sweep trace.jsonl --grid seed=1,2 --out none --jobs 2
verdict "--jobs of a plan under mpirun is refused" refused 3 "--jobs belongs to one machine" \
	"$quire" "${plan[@]}" --jobs 2
verdict "a plan under mpirun reads no pipe" refused 3 "has the standard input: name a file" \
	"$quire" plan - --slo-ttft-ms 50
verdict "measured runs under mpirun are refused" refused 2 "are measured, so one at a time" \
	"$quire" sweep trace.jsonl "${options[@]}" --grid seed=1,2 --out none
cp trace.jsonl 1/trace.jsonl
head -20 trace.jsonl >0/trace.jsonl
verdict "another trace on another host is refused" refused 2 "has another build, trace" \
	bash -c "$(by_rank 'cd $rank && exec "$0" sweep trace.jsonl --model "$@" --out ../none')" \
	"$quire" "${runs[@]}"
verdict "none of these leaves a folder" test ! -e none

# A worker that is killed ends the sweep; the next start goes on.
ranks 5 bash -c "$(by_rank 'if [ $rank = 4 ]; then
	"$0" sweep trace.jsonl --model "$@" --out many5 &
	while [ "$(ls many5 2>/dev/null | wc -l)" -lt 6 ]; do sleep 0.01; done
	kill -9 $!
	exit 9
fi
exec "$0" sweep trace.jsonl --model "$@" --out many5')" "$quire" "${runs[@]}" || true
verdict "what is whole after a killed worker stays" test -d many5
sweep 5 many5 || true
verdict "the next start has the bytes of one process" same_sweep many1 many5

echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
