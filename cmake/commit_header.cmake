# cmake -D SOURCE=folder -D OUTPUT=header -P commit_header.cmake
#
# The commit that SOURCE is at, with -dirty when tracked files differ from it; "unknown" when SOURCE
# is not the top of a git checkout (a tarball unpacked inside another repository is not).

set(commit unknown)
find_program(git git)
if(git)
	execute_process(COMMAND ${git} -C ${SOURCE} rev-parse --show-toplevel
		OUTPUT_VARIABLE top OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
	file(REAL_PATH "${SOURCE}" source)
	if(top STREQUAL source)
		execute_process(COMMAND ${git} -C ${SOURCE} describe --always
			OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
		# Takes no lock, so that a build cannot make a concurrent commit fail.
		execute_process(COMMAND ${git} --no-optional-locks -C ${SOURCE}
				status --porcelain --untracked-files=no
			OUTPUT_VARIABLE changes ERROR_QUIET)
		if(described)
			set(commit ${described})
			if(changes)
				string(APPEND commit -dirty)
			endif()
		endif()
	endif()
endif()

set(text "#define QUIRE_COMMIT \"${commit}\"\n")
set(old "")
if(EXISTS "${OUTPUT}")
	file(READ "${OUTPUT}" old)
endif()
if(NOT text STREQUAL old)
	file(WRITE "${OUTPUT}" "${text}")
endif()
