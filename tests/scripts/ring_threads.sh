#!/usr/bin/env bash
# Runs the ring of engine/ranks between threads under ThreadSanitizer, and demands that it finds the
# race that a relaxed load would make.
#
#     tests/scripts/ring_threads.sh ROOT
#
# CC is the compiler (cc). Where it has no ThreadSanitizer the checks are skipped.
set -euo pipefail

cd "$1"
cc=${CC:-cc}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
passed=0 failed=0
flags=(-std=c17 -g -O1 -fsanitize=thread -D_POSIX_C_SOURCE=200809L -D_DEFAULT_SOURCE= -I.)
sources=(engine/base/{check,clock,unfinished}.c engine/ranks/ring.c tests/harness/ring_stress.c)

cat >"$folder/main.c" <<'MAIN'
#include "tests/harness/ring_stress.h"

int main(void)
{
	struct ring_stress plain = {.readers = 3, .messages = 3000, .first = UINT32_MAX - 1000};
	struct ring_stress naps = {.readers = 2, .messages = 200, .naps = 20, .spin_ns = 2000000};

	return ring_stress_run(&plain) + ring_stress_run(&naps) == 0 ? 0 : 1;
}
MAIN

echo 'int main(void) { return 0; }' >"$folder/empty.c"
if ! "$cc" -fsanitize=thread "$folder/empty.c" -o "$folder/empty" 2>/dev/null ||
	! "$folder/empty" 2>/dev/null; then
	echo "skipped: $cc has no ThreadSanitizer here"
	echo "0 passed, 0 failed, 2 skipped"
	exit 0
fi

# races NAME SHARED_WORD: whether a run with this shared_word.c reports a race; other failures end
# the script.
races()
{
	local code=0
	"$cc" "${flags[@]}" "${sources[@]}" "$2" "$folder/main.c" -o "$folder/$1" -pthread
	TSAN_OPTIONS=exitcode=66 timeout 300 "$folder/$1" >"$folder/$1.log" 2>&1 || code=$?
	if [ "$code" != 0 ] && [ "$code" != 66 ]; then
		cat "$folder/$1.log"
		echo "$1 ended with code $code"
		exit 1
	fi
	[ "$code" = 66 ]
}

if races ring engine/ranks/shared_word.c; then
	head -40 "$folder/ring.log"
	echo "the ring has a race"
	failed=$((failed + 1))
else
	passed=$((passed + 1))
fi

word=engine/ranks/shared_word.c
sed 's/memory_order_acquire/memory_order_relaxed/' "$word" >"$folder/relaxed.c"
if cmp -s "$word" "$folder/relaxed.c" || ! races relaxed "$folder/relaxed.c"; then
	echo "a relaxed load was not found"
	failed=$((failed + 1))
else
	passed=$((passed + 1))
fi

echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
