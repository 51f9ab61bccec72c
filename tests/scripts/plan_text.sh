#!/usr/bin/env bash
# Compares what `quire plan` prints with the files that it writes (plan_text.py): one configuration
# and several, an answer in loads and in replicas, with a cost, with steps unlike the measured ones,
# with requests that miss alone, and no answer.
#
#     tests/scripts/plan_text.sh BUILD
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
quire=$(cd "$1" && pwd)/quire
passed=0 failed=0

command -v python3 >/dev/null || {
	echo "skipped: there is no python3"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# plan NAME CODE OPTION...: CODE is the exit code.
plan()
{
	local name=$1 expected=$2 code=0
	shift 2
	"$quire" plan "$root/workloads/traces/demo.jsonl" --max-requests 300 --replicates 8 \
		--slo-ttft-ms 2000 "$@" --out "$work/$name" \
		>"$work/$name.out" 2>"$work/$name.err" || code=$?
	if [ "$code" != "$expected" ]; then
		echo "failed: $name: exit code $code: $(head -3 "$work/$name.err")"
		failed=$((failed + 1))
	elif python3 "$root/tests/scripts/plan_text.py" "$work/$name.out" "$work/$name" \
		>"$work/told"; then
		passed=$((passed + 1))
	else
		echo "failed: $name: $(cat "$work/told")"
		failed=$((failed + 1))
	fi
}

plan loads 0 --slo-tpot-ms 30 --cost-per-gpu-hour 3
plan several 0 --slo-tpot-ms 30 --grid policy=mixed,prefill-first,vllm
plan described 0 --slo-tpot-ms 40 --gpu h100-datasheet --try '--kv-blocks 600' \
	--try '--kv-blocks 4000'
plan replicas 0 --slo-tpot-ms 20 --target-speedup 40 --router prefix --cost-per-gpu-hour 2.5
plan outside 0 --slo-tpot-ms 40 --model qwen3-4b
plan alone 0 --slo-tpot-ms 30 --max-model-len 8192 --attain 0.7
plan none 1 --slo-tpot-ms 30 --max-model-len 8192 --grid policy=mixed,prefill-first

echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
