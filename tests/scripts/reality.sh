#!/usr/bin/env bash
# Tests bench/scripts/reality.sh without a GPU: simulated runs replace the real ones. Checks that
# packs and table are written; that the same profile has no error and another one has; that a figure
# is a miss if only one run has it or only the real one is 0; that a modified tape is reported; and
# that an interrupted run continues.
#
#     tests/scripts/reality.sh BUILD
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
quire=$(cd "$1" && pwd)/quire
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

# expect TEXT COMMAND...: the output contains the text.
expect()
{
	local text=$1
	shift
	"$@" >"$work/output" 2>&1 || true
	if grep -qF -- "$text" "$work/output"; then
		passed=$((passed + 1))
	else
		echo "failed: $* does not say: $text"
		tail -3 "$work/output"
		failed=$((failed + 1))
	fi
}

# expect_code CODE COMMAND...
expect_code()
{
	local wanted=$1 found=0
	shift
	"$@" >"$work/output" 2>&1 || found=$?
	if [ "$found" -eq "$wanted" ]; then
		passed=$((passed + 1))
	else
		echo "failed: $* ends with $found, expected $wanted"
		failed=$((failed + 1))
	fi
}

reality()
{
	local phase=$1
	shift
	bash "$root/bench/scripts/reality.sh" "$phase" "$work/out" --quire "$quire" --only chat "$@"
}

# spoil FILE COMMAND...: filters a file of the first run through the command, in a copy of the
# packs; the second run is unchanged.
spoil()
{
	local file=chat/a/$1
	shift
	rm -rf "$work/spoilt" "$work/other"
	mkdir "$work/spoilt" "$work/other"
	tar -xzf "$work/out/chat.tar.gz" -C "$work/spoilt"
	"$@" <"$work/spoilt/$file" >"$work/spoilt/file"
	mv "$work/spoilt/file" "$work/spoilt/$file"
	tar -czf "$work/other/chat.tar.gz" -C "$work/spoilt" chat
}

spoilt_table()
{
	bash "$root/bench/scripts/reality.sh" table "$work/other" --quire "$quire" --only chat \
		--gpu h200 "$@"
}

expect "left out" reality run --runner sim --gpu h200 --limit 1
expect "holds no run" reality table --gpu h200
expect_code 0 reality run --runner sim --gpu h200
expect "chat b: is there" reality run --runner sim --gpu h200
expect_code 0 reality table --gpu h200 --musts
expect "0 figures exceed their limit, 0 tapes differ" reality table --gpu h200
expect "| identical, " reality table --gpu h200
expect_code 1 reality table --gpu l40s --musts
expect "found 'other'" bash "$root/bench/scripts/reality.sh" table "$work/out" \
	--quire "$quire" --only other

# One step has another time.
spoil steps.tsv awk -F '\t' 'BEGIN { OFS = FS } NR == 100 { $7 = $7 + 1 } { print }'
expect "1 tapes differ" spoilt_table
expect_code 1 spoilt_table

# A second real run, on another machine.
expect "simulation (of the run on the other machine)" spoilt_table --again "$work/out"
expect "hit rate | 1 % | equal | +0.00 % (+0.00) |" spoilt_table --again "$work/out"
expect "no folder" spoilt_table --again "$work/nowhere"

# No relative error exists if the real run has no hits and the simulated one has some, or if a
# figure is missing. A miss is excused if a second real run on the same machine is as far off.
spoil summary.json sed 's/"hit_rate":.*/"hit_rate": 0/'
expect "hit rate | 1 % | equal | **-** % |" spoilt_table --again "$work"
expect "1 figures exceed" spoilt_table
spoil summary.json sed '/"ttft"/,/}/ s/"p90":[^,]*/"p90": null/'
expect "1 figures exceed" spoilt_table
spoil summary.json sed 's/"makespan_s":.*/"makespan_s": 17,/'
expect "makespan | 2 % | 1 % | +" spoilt_table
expect "0 figures exceed" spoilt_table
expect "1 figures exceed" spoilt_table --again "$work/out"

expect "found '3', expected 1 or 2" reality run --runner sim --gpu h200 --runs 3
rm "$work/out/chat.tar.gz"
expect "chat a: " reality run --runner sim --gpu h200 --runs 1
expect_code 1 grep -q "chat b" "$work/output"
expect "| +0.00 % |" reality table --gpu h200

echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
