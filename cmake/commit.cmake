# quire_commit_header(LIBRARY)
#
# Lets a library include "bench/record/commit.h", a generated header that defines QUIRE_COMMIT.
# Every build runs git again, but writes the header only when the commit has changed; then one file
# is recompiled.
function(quire_commit_header library)
	set(script ${PROJECT_SOURCE_DIR}/cmake/commit_header.cmake)
	set(header ${PROJECT_BINARY_DIR}/generated/bench/record/commit.h)
	set(command ${CMAKE_COMMAND} -D SOURCE=${PROJECT_SOURCE_DIR} -D OUTPUT=${header}
		-P ${script})
	execute_process(COMMAND ${command})
	add_custom_target(commit_header COMMAND ${command} BYPRODUCTS ${header}
		COMMENT "Asking git for the commit" VERBATIM)

	target_include_directories(${library} PRIVATE ${PROJECT_BINARY_DIR}/generated)
	add_dependencies(${library} commit_header)
endfunction()
