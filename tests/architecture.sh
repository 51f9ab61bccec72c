#!/usr/bin/env bash
# What each folder may know, read from the includes of the sources and from the symbols of the
# libraries that the build made of them.
#
#     tests/architecture.sh ROOT [BUILD]    BUILD: the folder with the lib*.a, else includes only
#
# Prints one line a breach and the count of checks at last. Exit code 1 if there was a breach.
set -euo pipefail
export LC_ALL=C

root=$(cd "$1" && pwd)
build=${2:+$(cd "$2" && pwd)}
cd "$root"
breaches=$(mktemp)
trap 'rm -f "$breaches"' EXIT

# ---- includes ----

# A folder and the include paths that it may name, as one pattern. bench/commit.h is generated.
base='engine/base/[^/]+'
engine='engine/[^/]+'
model='engine/model/[^/]+'
kernels='kernels/[^/]+'
declare -A may_include=(
	[engine/base]="$base"
	[workloads]="$base|workloads/[^/]+"
	[engine]="$base|$engine"
	[engine/model]="$base|$engine|$model|$kernels"
	[kernels]="$base|$kernels"
	[sim]="$base|$engine|engine/model/config\\.h|sim/[^/]+"
	[reports]="$base|reports/[^/]+"
	[bench]="$base|$engine|$model|$kernels|workloads/[^/]+|sim/[^/]+|bench/[^/]+|reports/[^/]+"
	[tests]='.*'
)

# System headers where a folder may not have any that it likes.
standard='assert|float|inttypes|limits|stdalign|stdarg|stdbool|stddef|stdint|stdlib|string'
declare -A may_use=(
	[engine/base]="($standard|stdio|errno|cJSON|sys/stat)\\.h"
	[engine]="($standard|xxhash)\\.h"
	[sim]="($standard|stdio|errno|math|cJSON)\\.h"
)

sources()
{
	find "$1" -type f | { grep -E '\.(c|h|cu|cuh)$' || true; } | sort
}

folder_of()
{
	case $1 in
	engine/base/* | engine/model/*) echo "${1%"/${1#engine/*/}"}" ;;
	*) echo "${1%%/*}" ;;
	esac
}

check_includes()
{
	local file folder line number text
	for folder in bench engine kernels reports sim tests workloads; do
		[ ! -d "$folder" ] || sources "$folder"
	done | while read -r file; do
		folder=$(folder_of "$file")
		while IFS=: read -r number text; do
			[[ $text =~ include[[:space:]]*([\"<])([^\">]+) ]] || continue
			line="$file:$number"
			if [ "${BASH_REMATCH[1]}" = '"' ]; then
				check_own_include "$line" "$folder" "${BASH_REMATCH[2]}"
			else
				check_system_include "$line" "$folder" "${BASH_REMATCH[2]}"
			fi
		done < <(grep -nE '^[[:space:]]*#[[:space:]]*include' "$file" || true)
	done
}

check_own_include()
{
	local line=$1 folder=$2 path=$3
	if [ ! -f "$path" ] && [ "$path" != bench/commit.h ]; then
		echo "$line: \"$path\" is not a path from the root of the project"
	elif ! [[ $path =~ ^(${may_include[$folder]})$ ]] ||
		[[ "$folder $path" =~ ^engine\ engine/base/(json|output_file)\.h$ ]]; then
		echo "$line: $folder may not know $path"
	fi
}

check_system_include()
{
	local line=$1 folder=$2 path=$3
	[ -n "${may_use[$folder]:-}" ] || return 0
	[[ $path =~ ^(${may_use[$folder]})$ ]] || echo "$line: $folder may not use <$path>"
}

# ---- symbols ----

# Functions by what they bring in. printf and its kind count as files; snprintf does not.
environment='(secure_)?getenv|setenv|putenv|setlocale'
ending='exit|_exit|_Exit|quick_exit|atexit'
random='s?rand|rand_r|s?random|[delmnj]rand48|srand48|getrandom|getentropy|arc4random.*'
clock='time|times|clock|clock_(gettime|getres|nanosleep)|gettimeofday|timespec_get'
clock="$clock|nanosleep|u?sleep"
calendar='(gm|local)time(_r)?|mktime|strftime|ctime(_r)?|asctime'
threads='pthread_.*|thrd_.*|mtx_.*|cnd_.*|call_once|fork|vfork|system|popen|signal|sigaction'
opening='f?open(64|at|at64)?|freopen|fdopen|creat(64)?|tmpfile|mmap(64)?'
opening="$opening|mkdir|rename|remove|unlink|socket"
writing='v?f?printf|v?dprintf|__v?f?printf_chk|puts|putchar|f?putc|fputs|fwrite|perror|syslog'
writing="$writing|f?getc|fgets|fread|getline|read|write|pread|pwrite|std(in|out|err)"
# Results of these differ between libraries in their last bits; sqrt, floor and such are exact.
transcendental='(exp|exp2|exp10|expm1|log|log2|log10|log1p|pow|cbrt|hypot|erfc?|[lt]gamma'
transcendental="$transcendental|a?sinh?|a?cosh?|a?tanh?|atan2|sincos)[fl]?"

always="$environment|$ending|$random"
pure="$always|$clock|$calendar|$threads|$transcendental"
declare -A may_not_call=(
	[base]="$pure|$opening"
	[engine]="$pure|$opening|$writing"
	[sim]="$pure"
	[workloads]="$pure"
	[kernels]="$always|$clock|$calendar|$opening"
	[model]="$always"
	[reports]="$always|$clock|$calendar|$transcendental"
	[bench]="$always"
)

# Calls that the rules allow all the same, as "library object function".
is_allowed()
{
	case "$1 $2 $3" in
	'base memory.c.o exit') ;; # memory_exhausted(), which nothing could survive
	'base json.c.o fopen') ;;  # for the readers of configurations, which engine/ is none of
	'base output_file.c.o '*) ;; # for bench/ and reports/, of which engine/ is none either
	*) return 1 ;;
	esac
}

# Mutable data that the rules allow, as "library symbol": what a signal handler has to reach, and
# what the callbacks have to that CUPTI hands no pointer of ours.
is_allowed_data()
{
	case "$1 $2" in
	'bench '*interrupt*) ;;
	'model cupti_buffers') ;;
	*) return 1 ;;
	esac
}

# What the CUDA toolkit puts into an object beside our code: the stubs of nvcc, NVTX's globals.
toolkit='(\.cu|/?cuda_nvtx\.c)\.o'

check_calls()
{
	local library=$1 object symbol
	nm --undefined-only --print-file-name "$build/lib$library.a" 2>/dev/null |
		sed -nE 's/^[^:]*:([^:]*): +[Uwv] ([^@]*).*$/\1 \2/p' | sort -u |
		while read -r object symbol; do
			[[ $symbol =~ ^(${may_not_call[$library]})$ ]] || continue
			[[ ! $object =~ $toolkit$ ]] || continue
			is_allowed "$library" "$object" "$symbol" ||
				echo "lib$library.a: $object may not call $symbol"
		done
}

check_data()
{
	local library=$1 symbol
	objdump --syms "$build/lib$library.a" 2>/dev/null |
		awk -v toolkit="$toolkit:$" '
			/file format/ { is_ours = $1 !~ toolkit }
			is_ours && $3 == "O" && $4 ~ /^(\*COM\*|\.t?(data|bss).*)$/ &&
				$4 !~ /rel\.ro/ { print $NF }' |
		while read -r symbol; do
			is_allowed_data "$library" "$symbol" ||
				echo "lib$library.a: $symbol is mutable data of the whole program"
		done
}

check_includes >"$breaches"
checks=1
skips=0
if [ -z "$build" ]; then
	skips=2
elif ! command -v nm >/dev/null || ! command -v objdump >/dev/null; then
	echo "skipped: symbols, since nm and objdump are not here"
	skips=2
else
	checks=3
	for library in "${!may_not_call[@]}"; do
		[ -f "$build/lib$library.a" ] || continue
		check_calls "$library"
		check_data "$library"
	done | sort >>"$breaches"
fi

cat "$breaches"
if [ -s "$breaches" ]; then
	echo "0 passed, 1 failed, $skips skipped"
	exit 1
fi
echo "$checks passed, 0 failed, $skips skipped"
