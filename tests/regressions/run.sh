#!/usr/bin/env bash
# Plants regressions in the program, one after the other, and demands that `quire gate` names each:
# the case, its verdict, and what was found. Without one planted every case must pass, again and
# again. Then the same for what is given to the program: another profile, a trace that was cut
# short, a case that is missing.
#
#     bash tests/regressions/run.sh BUILD [PATCH...]      without PATCH: all of this folder
#
# BUILD is a finished build by Ninja. A patch changes C files, no headers. Its first line says what
# it does, its second
#
#     Gate: CASE VERDICT WORDS
#
# what the gate must say, with the words in one of the findings.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
cd "$root" || exit 2
build=${1:-}
[ -f "$build/build.ninja" ] || {
	echo "usage: run.sh BUILD [PATCH...]; found no build by Ninja in '$build'" >&2
	exit 2
}
shift
build=$(cd "$build" && pwd)
slot=$build/regressions
tree=$slot/tree
objects=()
# shellcheck source=tests/canaries/planting.sh
. "$root/tests/canaries/planting.sh"
is_all=no
if [ $# -gt 0 ]; then
	patches=("$@")
else
	is_all=yes
	mapfile -t patches < <(find tests/regressions -maxdepth 1 -name '*.patch' | LC_ALL=C sort)
fi
passed=0 failed=0 skipped=0

tell() # ok|FAIL|skipped WORDS
{
	case $1 in
	ok) passed=$((passed + 1)) ;;
	skipped) skipped=$((skipped + 1)) ;;
	*) failed=$((failed + 1)) ;;
	esac
	echo "$@"
}

gate() # PROGRAM ARGUMENT...
{
	local program=$1
	shift
	"$program" gate "$slot/suite.json" --baseline "$slot/baseline" --out "$slot/results" "$@"
}

# Without valgrind no instructions are counted.
has_valgrind=no
valgrind --version >/dev/null 2>&1 && has_valgrind=yes

rm -rf "${slot:?}"
mkdir -p "$slot"
cp tests/regressions/suite.json workloads/traces/demo.jsonl "$slot/"
gate "$build/quire" --update >"$slot/log" 2>&1 || {
	cat "$slot/log"
	exit 2
}
for again in 1 2 3; do
	if gate "$build/quire" >"$slot/log" 2>&1; then
		tell ok "run $again without a regression passes"
	else
		tell FAIL "run $again without a regression: $(cat "$slot/log")"
	fi
done

# judged PATCH: whether the gate says what the patch's second line demands.
judged()
{
	local patch=$1 case verdict words
	read -r case verdict words <<<"$(sed -n 's/^Gate: //p' "$patch" | head -1)"
	[ -n "$words" ] || {
		tell FAIL "$patch names no case, verdict and words"
		return
	}
	if [[ $words == *instructions* && $has_valgrind = no ]]; then
		tell skipped "$patch: valgrind, which counts instructions, is not installed"
		return
	fi
	plant "$patch" >"$slot/reason" || {
		tell FAIL "$patch $(cat "$slot/reason")"
		return
	}
	link quire "$slot/quire" "${objects[@]}" >"$slot/log" 2>&1 || {
		tell FAIL "$patch cannot be linked: $(grep -m1 -iE 'error|undefined' "$slot/log")"
		return
	}
	gate "$slot/quire" --only "$case" >"$slot/log" 2>&1
	compare "$patch" "$case" "$verdict" "$words"
}

# compare NAME CASE VERDICT WORDS: whether the gate said so.
compare()
{
	if grep -qE "^$2 +$3\$" "$slot/log" && grep -qF -- "$4" "$slot/log"; then
		tell ok "$1: $(grep -m1 -F -- "$4" "$slot/log")"
	else
		tell FAIL "$1: expected $2 $3, '$4'; found $(cat "$slot/log")"
	fi
}

# given NAME CASE VERDICT WORDS: with what the slot's suite and traces are
given()
{
	gate "$build/quire" >"$slot/log" 2>&1
	compare "$@"
	cp tests/regressions/suite.json workloads/traces/demo.jsonl "$slot/"
}

for patch in "${patches[@]}"; do
	judged "$patch"
done
if [ $is_all = yes ]; then
	sed -i 's/"--max-requests 300/"--gpu h100 --max-requests 300/' "$slot/suite.json"
	given "a profile swapped" demo INVALID 'gpu is "h100-datasheet"'
	sed -i 250q "$slot/demo.jsonl"
	given "a trace cut short" demo INVALID "another trace"
	sed -i '/"name": "demo"/d' "$slot/suite.json"
	given "a case missing" demo MISSING "the suite has not"
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
