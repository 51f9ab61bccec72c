#!/usr/bin/env bash
# The CUDA runner when the GPU fails it, when it is interrupted and when it is killed.
#
#     tests/scripts/cuda_faults.sh BUILD [TRACE]    BUILD: a folder with quire and
#                                                   tests/cuda_faulty, or both in it
#
# Each case must end with exit code 2 (1 when interrupted) and one line on stderr, with the results
# of the steps before it, and with no memory of the GPU held afterwards. The GPU must be otherwise
# idle. Prints a line a case, then the count. Exit code 1 if one failed.
set -uo pipefail
export LC_ALL=C

# shellcheck source=tests/scripts/cuda_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/cuda_common.sh"

if [ ! -x "$faulty" ] || ! before=$("$faulty" free 2>/dev/null); then
	echo "skipped: no GPU"
	skipped=9
	finish
fi

# Memory of a process that has ended is free again within a moment.
held()
{
	local i now
	for ((i = 0; i < 10; i++)); do
		now=$("$faulty" free) && [ "$now" -ge "$before" ] && return
		sleep 0.5
	done
	echo "$((before - now)) bytes of the GPU are held"
}

# What is wrong with a run that had to end with CODE, saying WORDS in one line, its result having
# STATUS (none: there must be no result).
wrong()
{
	local code=$1 wanted=$2 words=$3 status=$4 name=$5
	local lines parts steps
	lines=$(wc -l <"$work/$name.err")
	parts=$(find "$work/$name"* -name '*.part')
	if [ "$code" -ne "$wanted" ]; then
		echo "exit code $code, expected $wanted: $(tail -n 1 "$work/$name.err")"
	elif [ "$lines" -ne 1 ]; then
		echo "$lines lines on stderr, expected one: $(head -c 300 "$work/$name.err")"
	elif ! grep -q "$words" "$work/$name.err"; then
		echo "the line lacks '$words': $(cat "$work/$name.err")"
	elif [ "$status" = none ]; then
		[ ! -e "$work/$name" ] || echo "left $name"
	elif ! grep -q "\"status\":[[:space:]]*\"$status\"" "$work/$name/summary.json"; then
		echo "summary.json is not there or does not say $status"
	elif [ -n "$parts" ]; then
		echo "left $parts"
	else
		steps=$(field "$name" steps)
		[ "$steps" -gt 0 ] && [ "$steps" -lt "$all_steps" ] ||
			echo "$steps steps, expected some of $all_steps"
	fi
}

# begin NAME COMMAND...: starts a replay; $job is its process.
begin()
{
	local name=$1
	shift
	"$@" replay "$work/t.jsonl" --runner cuda --model "$model" --weights dummy:0 --steps \
		--out "$work/$name" >"$work/$name.out" 2>"$work/$name.err" &
	job=$!
}

# The end of a replay, which is killed if it hangs.
await()
{
	local i
	for ((i = 0; i < 1200; i++)); do
		kill -0 "$1" 2>/dev/null || break
		sleep 0.1
	done
	kill -KILL "$1" 2>/dev/null
	wait "$1" 2>/dev/null
}

run()
{
	begin "$@"
	await $job
}

# ---- a run without faults: how long it takes, and where steps are computed ----

"$quire" trace make --requests 256 --input 100:1000 --output 100:900 --seed 1 \
	--out "$work/t.jsonl" >/dev/null || exit 2
[ -z "${2:-}" ] || cp "$2" "$work/t.jsonl"
# The first run of a program takes longer to start.
for _ in 1 2; do
	rm -rf "$work/good"
	start=$(now_ms)
	run good "$quire"
	code=$?
	all_ms=$(($(now_ms) - start))
done
if [ "$code" -ne 0 ]; then
	report "a run without faults" "exit code $code: $(cat "$work/good.err")"
	finish
fi
all_steps=$(field good steps)
busy_ms=$(busy_of good)
middle_ms=$((all_ms - busy_ms / 2))
echo "a run takes $all_ms ms, $busy_ms of them in $all_steps steps"
report "a run without faults" "$(held)"

# ---- the GPU fails ----

begin trap "$faulty" trap "$work/trap.now" quire
await_steps trap $job
touch "$work/trap.now"
await $job
report "an invalid address in mid-run" "$(wrong $? 2 'llegal\|device' failed trap)$(held)"

run exhaust "$faulty" exhaust "$middle_ms" quire
code=$?
# Nothing is allocated after the engine is open, so the run ends as if nothing had happened.
if [ $code -ne 0 ]; then
	report "all memory taken in mid-run" "exit code $code: $(cat "$work/exhaust.err")"
elif [ "$(sed -n 's/.*"result_hash":/ /p' "$work/exhaust/summary.json")" != \
	"$(sed -n 's/.*"result_hash":/ /p' "$work/good/summary.json")" ]; then
	report "all memory taken in mid-run" "another result_hash"
else
	report "all memory taken in mid-run" "$(held)"
fi

# While the engine opens, at some moments.
bad=
for ((at = 20; at < all_ms - busy_ms; at += (all_ms - busy_ms) / 12 + 1)); do
	rm -rf "$work/opening"
	run opening "$faulty" exhaust $at quire
	code=$?
	[ $code -eq 0 ] || bad+=$(wrong $code 2 memory none opening)
done
report "all memory taken while the engine opens" "$bad$(held)"

for mib in 200 900 1800; do
	name=ballast$mib
	run $name "$faulty" ballast $mib quire
	report "only $mib MiB of memory" "$(wrong $? 2 memory none $name)$(held)"
done

# ---- signals ----

for signal in INT HUP TERM; do
	name=signal$signal
	begin $name "$quire"
	await_steps $name $job
	kill -$signal $job
	await $job
	report "SIG$signal in mid-run" "$(wrong $? 1 interrupted interrupted $name)$(held)"
done

for moment in "in mid-run" "while the engine opens"; do
	rm -rf "$work/killed"
	begin killed "$quire"
	if [ "$moment" = "in mid-run" ]; then
		await_steps killed $job
	else
		sleep "$(seconds $(((all_ms - busy_ms) / 2)))"
	fi
	kill -KILL $job
	await $job
	problem=
	[ ! -e "$work/killed/summary.json" ] || problem="left a summary.json"
	report "kill -9 $moment" "$problem$(held)"
done

finish
