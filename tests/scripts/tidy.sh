#!/usr/bin/env bash
# Checks the style of the sources: functions of at most 70 lines, lines of at most 100 columns (a
# tab is 8), no trailing blanks, a line break at every file's end, getenv and exit only where they
# are allowed, and the layout that .clang-format describes.
#
#     tests/scripts/tidy.sh ROOT
#
# Prints one line per breach, then the count of checks. Exit code 1 if there was a breach.
set -euo pipefail
export LC_ALL=C

root=$(cd "$1" && pwd)
cd "$root"
breaches=$(mktemp)
trap 'rm -f "$breaches"' EXIT
passed=0 failed=0 skipped=0

# All files that are or could be committed; outside git, all but the output of builds and runs.
files()
{
	if [ "$(git rev-parse --show-toplevel 2>/dev/null)" = "$root" ]; then
		git ls-files --cached --others --exclude-standard
	else
		find . -type f | sed 's|^\./||' | grep -vE '^(build|out|\.git)/'
	fi | sort | while read -r file; do
		[ ! -f "$file" ] || echo "$file"
	done
}

mapfile -t all < <(files)
mapfile -t c_files < <(printf '%s\n' "${all[@]}" | grep -E '\.(c|h|cu|cuh)$' || true)
mapfile -t code_files < <(printf '%s\n' "${all[@]}" |
	grep -E '\.(c|h|cu|cuh|sh|cmake|gp|awk)$|(^|/)CMakeLists\.txt$|^\.ci/run$' || true)
mapfile -t text_files < <(printf '%s\n' "${all[@]}" |
	grep -E '\.(c|h|cu|cuh|sh|cmake|gp|awk|txt|md|html|css|json)$|^\.' || true)

# verdict NAME: counts a check by whether its breaches were written to the file.
verdict()
{
	if [ -s "$breaches" ]; then
		cat "$breaches"
		failed=$((failed + 1))
	else
		passed=$((passed + 1))
	fi
}

# xargs keeps many files from overflowing a command line, and runs nothing for none.
over()
{
	local -n list=$1
	shift
	[ ${#list[@]} -eq 0 ] || printf '%s\0' "${list[@]}" | xargs -0 "$@"
}

# Linux braces: only a function's stand in the first column.
long_functions()
{
	over c_files awk '
		/^\{/ { first = FNR }
		/^\}/ && first { if (FNR - first + 1 > 70) {
				printf "%s:%d: a function of %d lines, at most 70\n",
					FILENAME, first, FNR - first + 1 }
			first = 0 }
		FNR == 1 { first = 0 }'
}

long_lines()
{
	over code_files awk '
		length($0) > 12 {
			columns = 0
			count = split($0, part, "\t")
			for (i = 1; i <= count; i++) {
				# A character of several bytes takes one column.
				gsub(/[\200-\277]/, "", part[i])
				columns += length(part[i])
				if (i < count) {
					columns += 8 - columns % 8
				}
			}
			if (columns > 100) {
				printf "%s:%d: %d columns, at most 100\n", FILENAME, FNR, columns
			}
		}'
}

trailing_blanks()
{
	over text_files grep -HnE '[[:blank:]]$' |
		sed -E 's/^([^:]*:[0-9]+):.*/\1: a trailing blank/'
	local file
	for file in "${text_files[@]}"; do
		[ ! -s "$file" ] || [ -z "$(tail -c 1 "$file")" ] ||
			echo "$file: no line break at its end"
	done
}

# Tests may read their environment and exit from forked trials; the rest are exceptions.
forbidden_calls()
{
	over c_files awk '
		function is_allowed(name)
		{
			return FILENAME ~ /^tests\// || (name == "exit" &&
				(FILENAME == "bench/main.c" ||
					FILENAME == "engine/base/memory.c")) ||
				(name == "_exit" &&
					(FILENAME == "engine/base/interrupt.c" ||
					FILENAME ~ /^bench\/(gate\/child|jobs\/forked_jobs)\.c$/ ||
					FILENAME == "engine/ranks/mpi_messages.c" ||
					FILENAME == "engine/runners/cuda_nccl.c" ||
					FILENAME ~ /^engine\/ranks\/(apart|.*_ranks)\.c$/)) ||
				(name == "getenv" && (FILENAME == "engine/ranks/launch.c" ||
					FILENAME == "bench/gate/github.c"))
		}
		{
			text = $0
			gsub(/"([^"\\]|\\.)*"/, "", text)
			sub(/\/\/.*/, "", text)
			if (text ~ /^[ \t]*\/?\*/) {
				next
			}
			while (match(text, /[A-Za-z_][A-Za-z_0-9]*[ \t]*\(/)) {
				name = substr(text, RSTART, RLENGTH - 1)
				sub(/[ \t]+$/, "", name)
				text = substr(text, RSTART + RLENGTH)
				if (name ~ /^((secure_)?getenv|_?exit|_Exit|quick_exit)$/ &&
						!is_allowed(name)) {
					printf "%s:%d: %s() does not belong here\n",
						FILENAME, FNR, name
				}
			}
		}'
}

layout()
{
	over c_files clang-format --dry-run -Werror 2>&1 |
		grep -E ': error:' | sed -E 's/ \[-W.*//' | sort -u
}

for name in long_functions long_lines trailing_blanks forbidden_calls; do
	"$name" >"$breaches" || true
	verdict
done

# Other versions format some lines differently.
if [[ $(clang-format --version 2>/dev/null) == *"version 14."* ]]; then
	layout >"$breaches" || true
	verdict
else
	echo "skipped: layout, since clang-format 14 is not here"
	skipped=1
fi

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
