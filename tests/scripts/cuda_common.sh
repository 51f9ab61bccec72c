# Sourced by cuda_faults.sh, cuda_ranks.sh and cuda_fleet.sh, with the folder of the programs as $1:
# what they do to programs that use GPUs, and how they count cases.

build=$(cd "$1" && pwd)
quire=$build/quire
faulty=$build/tests/cuda_faulty
[ -x "$faulty" ] || faulty=$build/cuda_faulty
model=${QUIRE_MODEL:-qwen3-0.6b}
work=$(mktemp -d)
passed=0 failed=0 skipped=0

finish()
{
	rm -rf "$work"
	echo "$passed passed, $failed failed, $skipped skipped"
	[ "$failed" -eq 0 ]
	exit
}

# report WHAT PROBLEM: a case passed if there is no problem.
report()
{
	if [ -z "$2" ]; then
		passed=$((passed + 1))
		echo "ok: $1"
	else
		failed=$((failed + 1))
		echo "FAILED: $1: $2"
	fi
}

now_ms()
{
	echo $(($(date +%s%N) / 1000000))
}

seconds()
{
	printf '%d.%03d' $(($1 / 1000)) $(($1 % 1000))
}

# field NAME FIELD: of the summary of the run NAME.
field()
{
	sed -nE "s/.*\"$2\":[[:space:]]*\"?([0-9a-z.-]+).*/\1/p" "$work/$1/summary.json" | head -n 1
}

# Milliseconds in which the run NAME computed steps.
busy_of()
{
	local ms
	ms=$(field "$1" busy_s | sed -nE 's/([0-9]+)\.([0-9]{3}).*/\1\2/p')
	echo $((10#${ms:-0}))
}

last_line()
{
	tail -n 1 "$work/$1.err"
}

# Waits until the run NAME of process PID has written the first part of its steps, or has ended. The
# table has a buffer of 64 KiB, some 600 steps.
await_steps()
{
	while kill -0 "$2" 2>/dev/null &&
		[ -z "$(find "$work/$1" -name 'steps.tsv*.part' -size +0 2>/dev/null)" ]; do
		sleep 0.02
	done
}
