# quire_embed(LIBRARY SYMBOL PATTERN...)
#
# Compiles the files that match into a library, as the table that engine/base/embedded_file.h
# describes: `const struct embedded_file SYMBOL[]` and `const uint32_t SYMBOL_count`, by name.
# The next build notices changed, added and removed files.
function(quire_embed library symbol)
	list(TRANSFORM ARGN PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE patterns)
	file(GLOB files CONFIGURE_DEPENDS ${patterns})
	list(SORT files COMPARE FILE_BASENAME)

	set(output ${PROJECT_BINARY_DIR}/generated/${symbol}.c)
	set(script ${PROJECT_SOURCE_DIR}/cmake/embed_files.cmake)
	add_custom_command(OUTPUT ${output}
		COMMAND ${CMAKE_COMMAND} -D SYMBOL=${symbol} -D OUTPUT=${output}
			-P ${script} -- ${files}
		DEPENDS ${files} ${script}
		COMMENT "Embedding ${symbol}"
		VERBATIM)
	target_sources(${library} PRIVATE ${output})
endfunction()
