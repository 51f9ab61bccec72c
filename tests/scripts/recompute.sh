#!/usr/bin/env bash
# Recomputes the figures of runs from their tables, by a program that shares no code with quire
# (recompute.py): whole runs, warm-up, cooldown, both, a ramp, a repeated trace, closed sessions, a
# closed loop, rejected requests, preemptions, replicas with limits and failures, a tape, and
# a run that was interrupted. Windows of one run must add up: their steps are those of the whole,
# and so are the decisions.
#
#     tests/scripts/recompute.sh BUILD
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
quire=$(cd "$1" && pwd)/quire
demo=$root/workloads/traces/demo.jsonl
passed=0 failed=0

command -v python3 >/dev/null || {
	echo "skipped: there is no python3"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail()
{
	echo "failed: $*"
	failed=$((failed + 1))
}

# recompute NAME [FIGURE=VALUE]...: checks a result that is there.
recompute()
{
	local name=$1
	shift
	if python3 "$root/tests/scripts/recompute.py" "$work/$name" "$@" >"$work/told"; then
		passed=$((passed + 1))
	else
		fail "$name: $(head -20 "$work/told")"
	fi
}

# replay NAME TRACE OPTION...: leaves what was said in NAME.err.
replay()
{
	local name=$1
	shift
	"$quire" replay "$@" --steps --out "$work/$name" >"$work/$name.out" 2>"$work/$name.err" ||
		fail "$name: $(head -3 "$work/$name.err")"
}

# says NAME TEXT: standard error has it.
says()
{
	if grep -qF -- "$2" "$work/$1.err"; then
		passed=$((passed + 1))
	else
		fail "$1 does not say: $2"
	fi
}

figure()
{
	python3 -c 'import json, sys
node = json.load(open(sys.argv[1] + "/summary.json"))
for name in sys.argv[2].split("."): node = node[name]
print(node)' "$work/$1" "$2"
}

limits=(--slo-ttft-ms 400 --slo-tpot-ms 45 --slo-e2e-ms 9000)
small=(--block-size 16 --kv-blocks 2000 --max-num-seqs 64)

"$quire" trace make --preset chat --requests 400 --session-rate 20 --seed 3 \
	--out "$work/chat.jsonl" >"$work/made" 2>&1 || fail "the trace: $(cat "$work/made")"

replay whole "$demo" "${limits[@]}"
recompute whole requests.rejected=0 window.steps_before=0 window.steps_after=0
replay warmup "$demo" "${limits[@]}" --warmup 700
recompute warmup window.warmup_requests=700 window.measured_requests=1500
replay cooldown "$demo" "${limits[@]}" --cooldown 600
recompute cooldown window.cooldown_requests=600
replay both "$demo" "${limits[@]}" --warmup 500 --cooldown 600
recompute both window.measured_requests=1100
replay pressure "$demo" "${small[@]}" --warmup 300 --cooldown 300
recompute pressure
[ "$(figure pressure preemptions)" -gt 0 ] || fail "pressure: nothing was preempted"

# The windows divide one run: warm-up and window, window and cooldown.
for name in warmup cooldown both; do
	sum=0
	for part in window.steps_before time.steps window.steps_after; do
		sum=$((sum + $(figure $name $part)))
	done
	[ "$sum" = "$(figure whole time.steps)" ] || fail "$name: $sum steps in its parts"
	[ "$(figure $name result_hash)" = "$(figure whole result_hash)" ] ||
		fail "$name: a window changes decisions"
	passed=$((passed + 1))
done

replay ramp "$demo" "${limits[@]}" --ramp 2:12:6 --duration 400
recompute ramp levels.0.rate_per_s=2 levels.5.rate_per_s=12
[ "$(wc -l <"$work/ramp/levels.tsv")" = 7 ] || fail "levels.tsv: $(cat "$work/ramp/levels.tsv")"
says ramp "the trace ran out after"
replay loop "$demo" "${limits[@]}" --loop shared --duration 700
recompute loop trace.ran_out_s=null
replay fresh "$demo" --loop fresh --duration 700 --warmup 2200
recompute fresh trace.ran_out_s=null
replay short "$demo" --max-requests 2201
recompute short
says short "the trace ran out after 2200 requests"
replay closed "$work/chat.jsonl" --sessions closed --warmup 40
recompute closed
replay concurrency "$demo" --concurrency 24 --warmup 100 --cooldown 100
recompute concurrency
replay rejected "$demo" "${limits[@]}" --max-model-len 4096 --warmup 100
recompute rejected
says rejected "and were rejected; --max-model-len"
[ "$(figure rejected requests.rejected)" -gt 0 ] || fail "rejected: nothing was rejected"

replay fleet "$demo" "${limits[@]}" --replicas 3 --warmup 500 --cooldown 200
recompute fleet

# Where requests wait at the router, in windows too, and where replicas fail.
busy=(--replicas 3 --speedup 3)
come_and_go=(--outages fail:1@40,join:1@60,drain:0@50,join:0@80)
replay limited "$demo" "${busy[@]}" --replica-limit 20 --warmup 300 --cooldown 200
recompute limited waiting.lost_s=0 tokens.lost=0
replay queued "$demo" "${busy[@]}" --replica-limit 25 --router-queue 5 --warmup 300
recompute queued
says queued "found the router's queue full"
replay failing "$demo" "${busy[@]}" "${come_and_go[@]}"
recompute failing
replay failing_window "$demo" "${busy[@]}" "${come_and_go[@]}" --replica-limit 30 --warmup 300 \
	--cooldown 100
recompute failing_window
replay gone "$demo" "${busy[@]}" --outages fail:1@20,fail:0@70,fail:2@75 --warmup 10
recompute gone
[ "$(figure gone load.verdict)" = unserved ] || fail "gone: $(figure gone load.verdict)"
# Every replica fails, and most requests are left.
replay lost "$demo" "${busy[@]}" --max-requests 200 --outages fail:0@2,fail:1@2,drain:2@1,fail:2@2
recompute lost
[ "$(figure lost load.verdict)" = unserved ] || fail "lost: $(figure lost load.verdict)"
says lost "no replica was left"
replay held "$demo" --max-concurrency 20 --speedup 2
recompute held
# So many arrive that some come in a step in which another replica ends the window.
"$quire" trace make --requests 600 --input 100:3000 --output 1:5 --rate 300 --seed 5 \
	--out "$work/dense.jsonl" >"$work/made" 2>&1 || fail "the trace: $(cat "$work/made")"
replay dense "$work/dense.jsonl" --replicas 3 --warmup 200 --cooldown 200
recompute dense
for name in limited queued failing_window; do
	[ "$(figure $name waiting.router_s)" != 0.0 ] || fail "$name: nobody waited at the router"
done
for name in failing failing_window gone; do
	[ "$(figure $name tokens.lost)" -gt 0 ] || fail "$name: nothing was lost"
done

# What a tape says does not depend on the files of this machine.
cp "$root/sim/profiles/h200-datasheet.json" "$work/gpu.json"
replay priced "$demo" --gpu "$work/gpu.json"
replay with "$demo" --runner tape --tape "$work/priced"
rm "$work/gpu.json"
replay without "$demo" --runner tape --tape "$work/priced"
recompute without load.utilisation=null
cmp -s "$work/with/summary.json" "$work/without/summary.json" ||
	fail "a tape depends on a file: $(diff "$work"/with*/summary.json)"

# Endless, until a thousand steps or more are written.
"$quire" replay "$demo" --loop shared --max-requests 100000000 --warmup 50 --concurrency 20 \
	--steps --out "$work/interrupted" >"$work/told" 2>&1 &
pid=$!
for _ in $(seq 600); do
	[ "$(cat "$work"/interrupted/steps.tsv.*.part 2>/dev/null | wc -c)" -lt 200000 ] || break
	sleep 0.1
done
kill -INT $pid
wait $pid
[ "$(figure interrupted status)" = interrupted ] || fail "it was not interrupted"
recompute interrupted window.warmup_requests=50

echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
