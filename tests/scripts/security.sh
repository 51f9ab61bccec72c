#!/usr/bin/env bash
# SECURITY.md names a test for each promise: the files and the cases exist.
#
#     tests/scripts/security.sh ROOT
set -euo pipefail
export LC_ALL=C

cd "$1"
passed=0 failed=0

# Lines "FILE CASE", or "FILE" where the whole file is meant.
named_tests()
{
	tr '\n' ' ' <SECURITY.md | grep -oE '`tests/[^`]*`(: *[a-z0-9_]+(, +[a-z0-9_]+)*)?' |
		sed -E 's/`//g; s/: */ /; s/,//g' |
		awk 'NF == 1 { print $1 } { for (i = 2; i <= NF; i++) print $1, $i }'
}

while read -r file name; do
	if [ -f "$file" ] && { [ -z "$name" ] || grep -q "^Test([a-z_]*, $name[,)]" "$file"; }; then
		passed=$((passed + 1))
	else
		echo "SECURITY.md: no test $name in $file"
		failed=$((failed + 1))
	fi
done < <(named_tests)

# A promise is a list item; what is not held by a test belongs below "Not promised".
while read -r promise; do
	if [[ $promise != *'`tests/'* ]]; then
		echo "SECURITY.md: no test of: $promise"
		failed=$((failed + 1))
	fi
done < <(awk '/^- / { if (item) print item; item = $0; next }
	/^$/ { if (item) print item; item = ""; next } item { item = item " " $0 }' SECURITY.md)

echo "$passed passed, $failed failed, 0 skipped"
[ "$passed" -gt 20 ] && [ "$failed" -eq 0 ]
