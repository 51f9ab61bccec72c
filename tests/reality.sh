#!/usr/bin/env bash
# bench/reality.sh without a GPU: the simulation stands in for it. Packs and table come about, the
# same profile has no error and another one has, a tape that was tampered with is told, and a run
# that was cut short goes on.
#
#     tests/reality.sh BUILD
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
quire=$(cd "$1" && pwd)/quire
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

# expect TEXT COMMAND...: the output has the text.
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
	bash "$root/bench/reality.sh" "$phase" "$work/out" --quire "$quire" --only chat "$@"
}

# The first run ends with a step of another time, the second keeps its own.
spoil()
{
	mkdir "$work/spoilt"
	tar -xzf "$work/out/chat.tar.gz" -C "$work/spoilt"
	awk -F '\t' 'BEGIN { OFS = FS } NR == 100 { $7 = $7 + 1 } { print }' \
		"$work/spoilt/chat/a/steps.tsv" >"$work/spoilt/steps.tsv"
	mv "$work/spoilt/steps.tsv" "$work/spoilt/chat/a/steps.tsv"
	tar -czf "$work/out/chat.tar.gz" -C "$work/spoilt" chat
}

expect "left out" reality run --runner sim --gpu h200 --limit 1
expect "holds no run" reality table --gpu h200
expect_code 0 reality run --runner sim --gpu h200
expect "chat b: is there" reality run --runner sim --gpu h200
expect_code 0 reality table --gpu h200 --musts
expect "0 figures miss what they must reach, 0 tapes differ" reality table --gpu h200
expect "| identical, " reality table --gpu h200
expect_code 1 reality table --gpu l40s --musts
expect "found 'other'" bash "$root/bench/reality.sh" table "$work/out" --quire "$quire" --only other
spoil
expect "1 tapes differ" reality table --gpu h200
expect_code 1 reality table --gpu h200

echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
