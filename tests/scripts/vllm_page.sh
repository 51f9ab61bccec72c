#!/usr/bin/env bash
# Checks bench/vllm: every option of quire that the page names exists, every option of vLLM that it
# calls refused is explained by name, a model of the sizes that it names is known, and
# record_steps.py records what a stand-in of vLLM's scheduler does.
#
#     tests/scripts/vllm_page.sh BUILD
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
quire=$(cd "$1" && pwd)/quire
page=$root/bench/vllm/README.md
passed=0 failed=0 skipped=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

tell()
{
	if [ "$1" = 0 ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "failed: $2"
	fi
}

for command in replay calibrate report info "trace convert" "trace make" "trace stat"; do
	# shellcheck disable=SC2086
	"$quire" $command --help all 2>/dev/null || "$quire" $command --help
done >"$work/help"

# Options of quire: in the right column of the first table, and in commands of quire.
{
	awk -F'|' '/^\| of vLLM \| of/ { on = 1 } on && /^\|/ { print $3 } /^$/ { on = 0 }' "$page"
	grep -E 'quire [a-z]' "$page" | sed 's/.*quire \(replay\|calibrate\|report\|trace\)/\1/' |
		grep -v 'vllm serve'
} | grep -oE -- '(^|[ `])--[a-z][a-z0-9-]*' | tr -d ' `' | sort -u >"$work/options"
while read -r option; do
	grep -qE -- "(^| )${option}([ ,;=]|\$)" "$work/help"
	tell $? "$option of the page is no option of quire"
done <"$work/options"
[ "$(wc -l <"$work/options")" -ge 25 ]
tell $? "only $(wc -l <"$work/options") options of quire were found on the page"

# Options of vLLM that are refused: the error says more than that there is no such option.
awk -F'|' '/^\| of vLLM \| why/ { on = 1 } on && /^\|/ { print $2 } /^$/ { on = 0 }' "$page" |
	grep -oE -- '--[a-z][a-z0-9-]*' | sort -u >"$work/refused"
while read -r option; do
	"$quire" replay trace.jsonl --policy vllm "$option" 1 >"$work/said" 2>&1
	[ $? = 2 ] && grep -qE -- "unknown option $option; .{10}" "$work/said"
	tell $? "$option is not explained: $(cat "$work/said")"
done <"$work/refused"
[ "$(wc -l <"$work/refused")" -ge 15 ]
tell $? "only $(wc -l <"$work/refused") refused options were found on the page"

# A model of the sizes that the page names can be priced.
# shellcheck disable=SC2016 # backquotes of Markdown
grep '^Another dense model' "$page" | grep -oE '`[a-z_]+`' | tr -d '`' | awk '
	BEGIN { printf "{"; size["model_type"] = "\"qwen3\""; size["num_hidden_layers"] = 32
		size["num_attention_heads"] = 32; size["num_key_value_heads"] = 8
		size["head_dim"] = 128 }
	{ printf("%s\"%s\": %s", NR > 1 ? ", " : "", $0, $0 in size ? size[$0] : 4096) }
	END { print "}" }' >"$work/sizes.json"
"$quire" info --model "$work/sizes.json" >"$work/said" 2>&1
tell $? "the sizes that the page names are no model: $(cat "$work/said")"

if command -v python3 >/dev/null; then
	python3 "$root/tests/scripts/record_steps.py" "$root" >"$work/recorded"
	tell $? "record_steps.py: $(cat "$work/recorded")"
else
	echo "skipped: there is no python3"
	skipped=1
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
