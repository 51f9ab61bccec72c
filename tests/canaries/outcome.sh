#!/usr/bin/env bash
# outcome.sh PROGRAM TEST[/CASE] LOG: runs the program of a test, or one case of it. Prints passes,
# skips, fails (one of its cases did), or else what went wrong.
set -uo pipefail

program=$1 test=$2 log=$3 code=0
filter=()
[[ $test != */* ]] || filter=(--filter "*/${test#*/}")

# Failures are not shrunk, since any failure is enough, and seeds are fixed.
export PROP_SHRINK=0
unset PROP_SEED PROP_TRIALS

timeout 120 "$program" --verbose --jobs=1 --fail-fast "${filter[@]}" >"$log" 2>&1 </dev/null ||
	code=$?
sed -i 's/\x1b\[[0-9;]*m//g; /Test is disabled$/d' "$log" # disabled: not chosen by the filter
if [ "$code" = 0 ] && grep -q '^\[SKIP\]' "$log"; then
	echo skips
elif [ "$code" = 0 ] && ! grep -q 'Synthesis: Tested: [1-9]' "$log"; then
	echo "is no test case"
elif [ "$code" = 0 ]; then
	echo passes
elif [ "$code" = 1 ] && grep -q 'Synthesis: Tested:' "$log"; then
	echo fails
else
	echo "ends with code $code"
fi
