# Sourced by what plants bugs: compiles single files of a finished build by Ninja, C or CUDA, and
# links them in front of its libraries. Needs $build, the build's folder, and $tree, where the
# changed files are.

# The build's command for a target.
command_of()
{
	ninja -C "$build" -t commands -s "$1" | sed '/^ninja:/d'
}

# compile SOURCE OBJECT [FLAG...]: compiles $tree/SOURCE as the build compiles SOURCE.
compile()
{
	local source=$1 object=$2 module command
	shift 2
	case $source in
	bench/main.c) module=CMakeFiles/quire.dir/$source.o ;;
	tests/harness/*) module=tests/CMakeFiles/test_support.dir/${source#tests/}.o ;;
	tests/*) module=tests/CMakeFiles/$(basename "$source" .c).dir/${source#tests/}.o ;;
	*)
		module=$(awk -F ' [|] ' -v f="${source%/*}" '$2 == f {print $1}' cmake/modules.txt)
		module=CMakeFiles/$module.dir/$source.o
		;;
	esac
	command=$(command_of "$module" | sed -E 's/ -MD -MT [^ ]+ -MF [^ ]+//
		s/ -o [^ ]+ -c [^ ]+$/ -O1 -g0/; s/ -c [^ ]+ -o [^ ]+$//')
	(cd "$build" && eval "$command -w ${*@Q} -o '$object' -c '$tree/$source'")
}

# link TARGET PROGRAM OBJECT...: a target of the build with these objects before its libraries.
link()
{
	local target=$1 program=$2 command object
	shift 2
	command=$(command_of "$target")
	for object in "$@"; do # an object of the build that is compiled anew
		command=${command/ tests\/CMakeFiles\/*\/$(basename "$object" .o).c.o / }
	done
	(cd "$build" && eval "${command/ -o $target / -Wl,-s -o ${program@Q} ${*@Q} }")
}

# plant PATCH: applies it to copies of its files in $tree and compiles them into $objects. Prints
# why not, and fails.
plant()
{
	local patch=$1 file files
	objects=()
	rm -rf "${tree:?}"
	mapfile -t files < <(sed -n 's|^+++ b/\([^[:space:]]*\).*|\1|p' "$patch")
	for file in "${files[@]}"; do
		mkdir -p "$tree/${file%/*}"
		cp "$file" "$tree/$file" || {
			echo "patches $file, which is not there"
			return 1
		}
	done
	patch -s -p1 -d "$tree" <"$patch" >"$tree.log" 2>&1 || {
		echo "does not apply any more: $(grep -m1 -iE 'fail|find' "$tree.log")"
		return 1
	}
	for file in "${files[@]}"; do
		objects+=("$tree/${file%.*}.o")
		compile "$file" "${objects[-1]}" >"$tree.log" 2>&1 || {
			echo "does not compile: $(grep -m1 error "$tree.log")"
			return 1
		}
	done
}
