#!/usr/bin/env bash
# Plants one breach after the other into a small tree and demands that architecture.sh and tidy.sh
# catch it. Plants every kind of failure into the output of a test run and demands that
# count_tests.awk counts it. So these checks are known to be able to fail.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
passed=0 failed=0

fresh_tree()
{
	rm -rf "${tree:?}"/*
	mkdir -p "$tree"/{cmake,bench/replay,engine/base,engine/shape,kernels/rows,reports,sim} \
		"$tree"/{tests,workloads,build}
	cat >"$tree/cmake/modules.txt" <<-'END'
		# NAME | FOLDER | MAY | KNOWS | JOB
		base | engine/base | files | | what all use
		engine | engine | policy | base | policy
		rows | kernels/rows | math | base | rows
		shape | engine/shape | files | base | shapes
		workloads | workloads | files | base | requests
		sim | sim | files | base engine shape | time
		reports | reports | pages | base | pages
		replay | bench/replay | host | base engine workloads sim | the loop
	END
	echo '#include <stddef.h>' >"$tree/engine/base/check.h"
	echo '#include "engine/base/check.h"' >"$tree/engine/shape/shape.h"
	echo '#include <stdio.h>' >"$tree/engine/base/json.h"
	echo '#include "engine/base/check.h"' |
		tee "$tree"/{bench/replay,engine,kernels/rows,reports,sim,workloads}/own.h \
			>/dev/null
	printf '#include "%s"\n' engine/{own,shape/shape}.h >>"$tree/sim/own.h"
	printf '#include "%s"\n' {engine,workloads,sim}/own.h >>"$tree/bench/replay/own.h"
	cp "$here/../../.clang-format" "$tree"
	printf 'int main(void)\n{\n\treturn 0;\n}\n' >"$tree/bench/main.c"
}

# Compiles every folder's C files into the library that the build would make of them.
build_tree()
{
	local library folder file
	for library in base:engine/base engine:engine sim:sim workloads:workloads \
		replay:bench/replay; do
		folder=${library#*:}
		for file in "$tree/$folder"/*.c; do
			[ -f "$file" ] || continue
			cc -std=c17 -D_DEFAULT_SOURCE -w -I"$tree" -c "$file" -o "$file.o"
			ar rc "$tree/build/lib${library%:*}.a" "$file.o"
			rm "$file.o"
		done
	done
}

# caught SCRIPT EXPECTED NAME [ARGUMENT...]: the script fails and prints EXPECTED.
caught()
{
	local script=$1 expected=$2 name=$3
	shift 3
	local output
	if output=$(bash "$here/$script" "$tree" "$@" 2>&1); then
		echo "missed by $script: $name"
		failed=$((failed + 1))
	elif [[ $output != *"$expected"* ]]; then
		echo "$script failed on $name with other words: $output"
		failed=$((failed + 1))
	else
		passed=$((passed + 1))
	fi
}

# clean SCRIPT NAME [ARGUMENT...]: the script finds nothing.
clean()
{
	local script=$1 name=$2
	shift 2
	local output
	if output=$(bash "$here/$script" "$tree" "$@" 2>&1); then
		passed=$((passed + 1))
	else
		echo "$script does not accept $name: $output"
		failed=$((failed + 1))
	fi
}

# include FILE LINE EXPECTED
include()
{
	fresh_tree
	echo "$2" >"$tree/$1"
	caught architecture.sh "$3" "$1 with $2"
}

# call FOLDER/FILE RETURN-TYPE CALL HEADER EXPECTED
call()
{
	fresh_tree
	printf '#include <%s>\n\n%s own(void);\n%s own(void)\n{\n\treturn %s;\n}\n' \
		"$4" "$2" "$2" "$3" >"$tree/$1"
	build_tree
	caught architecture.sh "$5" "$1 with $3" "$tree/build"
}

# untidy FILE TEXT EXPECTED
untidy()
{
	fresh_tree
	printf '%b' "$2" >"$tree/$1"
	caught tidy.sh "$3" "$1"
}

fresh_tree
build_tree
clean architecture.sh "a clean tree" "$tree/build"
clean tidy.sh "a clean tree"
fresh_tree
echo '#include "engine/shape/shape.h"' >"$tree/sim/cost.h"
clean architecture.sh "sim knowing the model's shapes"

include engine/base/a.h '#include "engine/own.h"' 'engine/base may not know engine/own.h'
include engine/a.h '#include "workloads/own.h"' 'engine may not know workloads/own.h'
include engine/a.h '#include "engine/shape/shape.h"' 'engine may not know engine/shape/shape.h'
include engine/a.h '#include "engine/base/json.h"' 'engine may not know engine/base/json.h'
include engine/a.h '#include <time.h>' 'engine may not use <time.h>'
include engine/a.h '# include <stdio.h>' 'engine may not use <stdio.h>'
include workloads/a.h '#include "engine/own.h"' 'workloads may not know engine/own.h'
include kernels/rows/a.cuh '#include "engine/own.h"' 'kernels/rows may not know engine/own.h'
include sim/a.h '#include "bench/replay/own.h"' 'sim may not know bench/replay/own.h'
include sim/a.h '#include "kernels/rows/own.h"' 'sim may not know kernels/rows/own.h'
include reports/a.h '#include "bench/replay/own.h"' 'reports may not know bench/replay/own.h'
include bench/replay/a.h '#include "own.h"' '"own.h" is not a path from the root'

fresh_tree
mkdir "$tree/sim/more"
echo '#include <stddef.h>' >"$tree/sim/more/a.h"
caught architecture.sh 'no row for sim/more' 'a folder without a row'
fresh_tree
sed -i 's/^rows |/runners |/; s/^shape \(.*\) | base |/shape \1 | base runners |/' \
	"$tree/cmake/modules.txt"
caught architecture.sh 'sim reaches runners' 'kernels behind the shapes'
fresh_tree
sed -i 's/^engine \(.*\) | base |/engine \1 | base sim |/' "$tree/cmake/modules.txt"
caught architecture.sh 'engine knows sim, which is not above it' 'a circle'
fresh_tree
sed -i 's/^workloads \(.*\) | base |/workloads \1 | base engine |/' "$tree/cmake/modules.txt"
caught architecture.sh 'workloads knows engine, but uses nothing of it' 'a module that is not used'
fresh_tree
echo '| `engine/` | policies |' >"$tree/README.md"
caught architecture.sh "no row '| \`engine/\` | policy |'" 'another job in README.md'
fresh_tree
touch "$tree"/sim/{a..r}.c
caught architecture.sh 'sim: 18 C files' 'a crowded folder'
fresh_tree
printf 'int far(void);\nint far(void)\n{\n\treturn 0;\n}\n' >"$tree/sim/a.c"
printf 'int far(void);\nint own(void);\nint own(void)\n{\n\treturn far();\n}\n' \
	>"$tree/workloads/a.c"
build_tree
caught architecture.sh 'workloads may not call far of sim' 'a call without include' "$tree/build"

call engine/a.c int 'time(NULL) == 0' time.h 'a.c.o may not call time'
call engine/a.c int 'rand()' stdlib.h 'a.c.o may not call rand'
call engine/a.c void '(void)puts("x")' stdio.h 'a.c.o may not call puts'
call engine/a.c void '(void)fopen("x", "r")' stdio.h 'a.c.o may not call fopen'
call engine/a.c char* 'getenv("X")' stdlib.h 'a.c.o may not call getenv'
call engine/a.c unsigned\ long 'pthread_self()' pthread.h 'a.c.o may not call pthread_self'
call engine/base/a.c void 'exit(1)' stdlib.h 'a.c.o may not call exit'
call sim/a.c int 'clock_gettime(0, NULL)' time.h 'a.c.o may not call clock_gettime'
call sim/a.c 'int monotonic_ns(void); int' 'monotonic_ns()' stddef.h 'may not call monotonic_ns'
call workloads/a.c double 'log((double)(unsigned long)own)' math.h 'a.c.o may not call log'
call bench/replay/a.c int '(int)random()' stdlib.h 'a.c.o may not call random'

fresh_tree
printf 'int *own(void);\nint *own(void)\n{\n\tstatic int count;\n\treturn &count;\n}\n' \
	>"$tree/sim/a.c"
build_tree
caught architecture.sh 'count.0 is mutable data' "a static variable" "$tree/build"

lines=$(printf '\\tx++;\\n%.0s' {1..69})
untidy engine/a.c "void own(void)\n{\n$lines}\n" 'a function of 71 lines'
untidy engine/a.c "/* $(printf 'x%.0s' {1..95}) */\n" '101 columns'
untidy tests/a.sh "\t\t\t\t\t\t\t\t\t\t\t\techo abcd\n" '105 columns'
untidy engine/a.c 'int x; \n' 'a trailing blank'
untidy engine/a.c 'int x;' 'no line break'
untidy engine/a.c 'void own(void)\n{\n\texit(1);\n}\n' 'exit() does not belong here'
untidy sim/a.c 'char *own(void)\n{\n\treturn getenv ("X");\n}\n' 'getenv() does not belong here'
if [[ $(clang-format --version 2>/dev/null) == *"version 14."* ]]; then
	untidy engine/a.c 'int  x;\n' 'should be clang-formatted'
	skipped=0
else
	echo "skipped: layout, since clang-format 14 is not here"
	skipped=1
fi

# counted EXPECTED NAME TEXT: the last line of the count of a test run that wrote TEXT.
counted()
{
	local line
	line=$(printf '%b' "$3" | awk -f "$here/count_tests.awk" | tail -n 1) || true
	if [ "$line" = "$1" ]; then
		passed=$((passed + 1))
	else
		echo "count_tests.awk: $2: '$line' instead of '$1'"
		failed=$((failed + 1))
	fi
}

good='1: [====] Synthesis: Tested: 3 | Passing: 3 | Failing: 0 | Crashing: 0 \n'
pass='1/1 Test  #1: a ....   Passed    0.01 sec\n'
counted '3 passed, 0 failed, 0 skipped' 'passing cases' "$good$pass"
counted '3 passed, 0 failed, 1 skipped' 'a skipped case' "1: [SKIP] a::b: why\n$good$pass"
counted '1 passed, 2 failed, 0 skipped' 'failing cases' "1: [====] Synthesis: Tested: 3 | \
Passing: 1 | Failing: 2 | Crashing: 1 \n1/1 Test #1: a ....***Failed    0.01 sec\n"
counted '3 passed, 1 failed, 0 skipped' 'a leak behind passing cases' "$good \
1/1 Test #1: a ....***Failed  Error regular expression found in output.  0.01 sec\n"
counted '0 passed, 1 failed, 0 skipped' 'a test that hangs' \
	'1/1 Test #1: a ...***Timeout 9.01 sec\n'
counted '0 passed, 1 failed, 0 skipped' 'a crash' \
	'1/1 Test #1: a ...***Exception: SegFault  0.1 sec\n'
counted '0 passed, 1 failed, 0 skipped' 'a missing program' \
	'1/1 Test #1: a ...***Not Run   0.00 sec\n'
counted '0 passed, 0 failed, 1 skipped' 'a skipped script' \
	'1/1 Test #1: a ...***Skipped   0.00 sec\n'
counted '2 passed, 1 failed, 4 skipped' 'a script' "1: 2 passed, 1 failed, 4 skipped\n\
1/1 Test #1: a ....***Failed    0.01 sec\n"
counted '0 passed, 1 failed, 0 skipped' 'no test at all' ''

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
