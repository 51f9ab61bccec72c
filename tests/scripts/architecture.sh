#!/usr/bin/env bash
# Checks that each module uses only what cmake/modules.txt allows, by the includes of its sources
# and by the symbols of its library.
#
#     tests/scripts/architecture.sh ROOT [BUILD]    BUILD: the folder with the lib*.a, else includes
#                                                   only
#
# Prints one line per breach, then the count of checks. Exit code 1 if there was a breach.
set -euo pipefail
export LC_ALL=C

root=$(cd "$1" && pwd)
build=${2:+$(cd "$2" && pwd)}
cd "$root"
breaches=$(mktemp)
trap 'rm -f "$breaches"' EXIT
passed=0 failed=0 skipped=0

# ---- the table ----

modules=()
declare -A folder_of may knows job module_in
while IFS='|' read -r name folder asks known work; do
	name=${name// /} folder=${folder// /} asks=${asks// /}
	modules+=("$name")
	folder_of[$name]=$folder
	module_in[$folder]=$name
	may[$name]=$asks
	read -ra list <<<"$known"
	knows[$name]=" ${list[*]} "
	job[$name]=${work# }
done < <(grep -v '^#' cmake/modules.txt)

# A row names only modules above it, so there are no cycles.
check_order()
{
	local seen=" " name known
	for name in "${modules[@]}"; do
		for known in ${knows[$name]}; do
			[[ $seen == *" $known "* ]] ||
				echo "cmake/modules.txt: $name knows $known, which is not above it"
		done
		seen+="$name "
	done
}

readme_row()
{
	echo "| \`${folder_of[$1]}/\` | ${job[$1]} |"
}

# Every folder with C files has a row, and every row a folder; README.md has the same rows.
check_rows()
{
	local name folder
	for name in "${modules[@]}"; do
		[ -d "${folder_of[$name]}" ] ||
			echo "cmake/modules.txt: no folder ${folder_of[$name]}"
		[ ! -f README.md ] ||
			grep -qF "$(readme_row "$name")" README.md ||
			echo "README.md: no row '$(readme_row "$name")'"
	done
	for folder in bench engine kernels reports sim workloads; do
		[ ! -d "$folder" ] || find "$folder" -type f
	done | grep -E '\.(c|h|cu|cuh)$' | sed 's|/[^/]*$||' | sort -u | while read -r folder; do
		[ -n "${module_in[$folder]:-}" ] || [ "$folder" = bench ] ||
			echo "cmake/modules.txt: no row for $folder"
	done
}

# A folder with more than 16 C files should be divided.
check_sizes()
{
	local name count
	for name in "${modules[@]}"; do
		count=$(find "${folder_of[$name]}" -maxdepth 1 -name '*.c' | wc -l)
		[ "$count" -le 16 ] || echo "${folder_of[$name]}: $count C files, at most 16"
	done
}

# ---- includes ----

# Headers of engine/base that modules restricted to memory and strings may not include.
impure='engine/base/(clock|input_file|interrupt|json|output_file|path|table|unfinished)\.h'

# Allowed system headers of restricted modules, by the module's permission.
standard='assert|float|inttypes|limits|math|stdalign|stdarg|stdbool|stddef|stdint|stdlib|string'
packed='zlib|zstd(_errors)?'
declare -A may_use=(
	[policy]="($standard|xxhash)\\.h"
	[files]="($standard|stdio|errno|fcntl|unistd|sys/stat|$packed|cJSON|yajl/.*|xxhash)\\.h"
)

# Exceptions for includes, as "file path".
is_allowed_include()
{
	case $1 in
	'engine/base/clock.c time.h') ;;
	'engine/base/unfinished.c signal.h' | 'engine/base/unfinished.c stdatomic.h') ;;
	'engine/base/interrupt.c signal.h' | 'engine/base/interrupt.c stdatomic.h') ;;
	*) return 1 ;;
	esac
}

# Lines "file:line path" of the own includes of a folder, and "file:line <path>" of the system's.
includes_of()
{
	find "$1" -maxdepth 1 -type f | { grep -E '\.(c|h|cu|cuh)$' || true; } | sort |
		xargs -r grep -HnE '^[[:space:]]*#[[:space:]]*include' |
		sed -E 's/^([^:]*:[0-9]+):[^"<]*"([^"]*)".*/\1 \2/
			s/^([^:]*:[0-9]+):[^<]*(<[^>]*>).*/\1 \2/'
}

check_includes()
{
	local name line path module
	for name in "${modules[@]}"; do
		includes_of "${folder_of[$name]}" | while read -r line path; do
			if [[ $path == "<"* ]]; then
				path=${path:1:-1}
				[ -z "${may_use[${may[$name]}]:-}" ] ||
					[[ $path =~ ^(${may_use[${may[$name]}]})$ ]] ||
					is_allowed_include "${line%:*} $path" ||
					echo "$line: ${folder_of[$name]} may not use <$path>"
				continue
			fi
			# bench/record/commit.h is generated.
			if [ ! -f "$path" ] && [ "$path" != bench/record/commit.h ]; then
				echo "$line: \"$path\" is not a path from the root of the project"
				continue
			fi
			module=${module_in[${path%/*}]:-}
			if [ "$module" != "$name" ] &&
				[[ ${knows[$name]} != *" ${module:-none} "* ]]; then
				echo "$line: ${folder_of[$name]} may not know $path"
			elif [ "${may[$name]}" = policy ] && [[ $path =~ ^$impure$ ]]; then
				echo "$line: ${folder_of[$name]} may not know $path"
			fi
		done
	done
}

# Whether the library of a module holds all C files of its folder; the build leaves out those that
# need a GPU where there is no CUDA. True of a folder of headers.
is_whole()
{
	local file objects=
	[ -z "$build" ] || objects=" $(ar t "$build/lib$1.a" 2>/dev/null | tr '\n' ' ')"
	for file in "${folder_of[$1]}"/*.{c,cu}; do
		[ ! -f "$file" ] || [[ $objects == *" ${file##*/}.o "* ]] || return 1
	done
}

# A row knows no module that it does not use, by an include or by a function.
check_unused()
{
	local name line path known used
	for name in "${modules[@]}"; do
		used=" "
		while read -r line path; do
			[[ $path == "<"* ]] || used+="${module_in[${path%/*}]:-} "
		done < <(includes_of "${folder_of[$name]}")
		for known in ${knows[$name]}; do
			[[ $used == *" $known "* ]] || calls "$name" "$known" ||
				! is_whole "$name" ||
				echo "cmake/modules.txt: $name knows $known, but uses nothing of it"
		done
	done
}

# Modules that must not be reached, even indirectly: a run without a GPU is priced, not computed,
# and reports read only files.
check_reach()
{
	local -A reach
	local name known far
	for name in "${modules[@]}"; do
		reach[$name]=" "
		for known in ${knows[$name]}; do
			reach[$name]+="$known${reach[$known]}"
		done
	done
	for far in sim:{op,linear,attention,rows,sampling,runners,reference,model,tokenizer} \
		reports:{runners,reference,sim,op} engine:shape study:engine; do
		[[ ${reach[${far%:*}]:-} != *" ${far#*:} "* ]] ||
			echo "cmake/modules.txt: ${far%:*} reaches ${far#*:}"
	done
}

# ---- symbols ----

# Functions by the permission they need. printf and the like count as files; snprintf does not.
environment='(secure_)?getenv|setenv|putenv|setlocale'
ending='exit|_exit|_Exit|quick_exit|atexit|on_exit'
random='s?rand|rand_r|s?random|[delmnj]rand48|srand48|getrandom|getentropy|arc4random.*'
clock='time|times|clock|clock_(gettime|getres|nanosleep)|gettimeofday|timespec_get'
clock="$clock|nanosleep|u?sleep|monotonic_ns|pause_ns"
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
	[policy]="$pure|$opening|$writing"
	[files]="$pure"
	[math]="$always|$clock|$calendar|$opening"
	[pages]="$always|$clock|$calendar|$transcendental"
	[host]="$always"
)

# Exceptions for calls, as "library object function".
is_allowed()
{
	case "$1 $2 $3" in
	'base memory.c.o exit') ;; # memory_exhausted(), which nothing could survive
	# a forked process leaves its parent's exit functions alone
	'ranks forked_ranks.c.o _exit' | 'ranks apart.c.o _exit') ;;
	'jobs forked_jobs.c.o _exit') ;; # a worker, likewise
	'gate child.c.o _exit') ;; # a child that could not become the other program
	# nor does one of mpirun go back to its command
	'ranks mpi_ranks.c.o _exit' | 'ranks mpi_messages.c.o _exit') ;;
	# NCCL's threads outlive a run whose ranks have failed
	'runners cuda_nccl.c.o _exit' | 'runners cuda_nccl.c.o on_exit') ;;
	'ranks launch.c.o getenv') ;; # mpirun tells its processes who they are by nothing else
	'gate github.c.o getenv') ;; # GitHub tells where verdicts are shown by nothing else
	'base clock.c.o clock_gettime' | 'base clock.c.o nanosleep') ;; # the project's one clock
	'base interrupt.c.o sigaction' | 'base interrupt.c.o _exit') ;; # and its one signal handler
	'base output_file.c.o pause_ns') ;; # for a reader of the pipe that is written to
	'runners cuda_nccl.c.o setenv') ;; # NCCL has no other way to be told
	*) return 1 ;;
	esac
}

# Exceptions for mutable data, as "library symbol": for signal handlers and ways out of the program,
# which have no caller, for the inputs that no output may replace, whoever opened them, or that are
# kept because they can be read only once, for the outputs that no other may replace, and for
# CUPTI's callbacks, which have no user pointer.
is_allowed_data()
{
	case "$1 $2" in
	'base unfinished_list' | 'base input_files' | 'base output_files') ;;
	'base interrupt_holds' | 'base interrupt_is_deferred' | 'base interrupt_was_noted') ;;
	'profiling cupti_buffers') ;;
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
			[[ $symbol =~ ^(${may_not_call[${may[$library]}]})$ ]] || continue
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

# Whether the library of the first module needs a symbol that the second's defines.
calls()
{
	[ -n "$build" ] && [ -f "$build/lib$1.a" ] && [ -f "$build/lib$2.a" ] &&
		[ -n "$(comm -12 <(nm --undefined-only "$build/lib$1.a" 2>/dev/null |
			sed -nE 's/^ +U (.*)$/\1/p' | sort -u) \
			<(nm --defined-only --extern-only "$build/lib$2.a" 2>/dev/null |
				sed -nE 's/^[0-9a-f]+ [TRDBVW] (.*)$/\1/p' | sort -u))" ]
}

# A function of another module may be called only if the table lists that module, however its
# declaration was included.
check_links()
{
	local name symbol owner
	declare -A defined_in
	while read -r name symbol; do
		defined_in[$symbol]=$name
	done < <(for name in "${modules[@]}"; do
		nm --defined-only --extern-only "$build/lib$name.a" 2>/dev/null |
			sed -nE "s/^[0-9a-f]+ [TRDBVW] (.*)$/$name \1/p" || true
	done)
	for name in "${modules[@]}"; do
		nm --undefined-only "$build/lib$name.a" 2>/dev/null |
			sed -nE 's/^ +U (.*)$/\1/p' | sort -u |
			while read -r symbol; do
			owner=${defined_in[$symbol]:-$name}
			[ "$owner" = "$name" ] || [[ ${knows[$name]} == *" $owner "* ]] ||
				echo "lib$name.a: ${folder_of[$name]} may not call" \
					"$symbol of $owner"
		done
	done
}

each_library()
{
	local name
	for name in "${modules[@]}"; do
		[ ! -f "$build/lib$name.a" ] || "$1" "$name"
	done
}

# check COMMAND...: a check by whether it prints anything.
check()
{
	"$@" >"$breaches" || true # the verdict is what it prints
	if [ -s "$breaches" ]; then
		sort "$breaches"
		failed=$((failed + 1))
	else
		passed=$((passed + 1))
	fi
}

check check_order
check check_rows
check check_sizes
check check_includes
check check_reach
check check_unused
if [ -z "$build" ]; then
	skipped=3
elif ! command -v nm >/dev/null || ! command -v objdump >/dev/null; then
	echo "skipped: symbols, since nm and objdump are not here"
	skipped=3
else
	check each_library check_calls
	check each_library check_data
	check check_links
fi

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
