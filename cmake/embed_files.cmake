# cmake -D SYMBOL=name -D OUTPUT=file.c -P embed_files.cmake -- FILE...
#
# Writes the C source of a table of embedded files. Bytes are written as numbers, since a string
# literal of more than 4,095 characters is not portable C.

set(arrays "")
set(rows "")
set(count 0)
set(is_file FALSE)
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(argument RANGE ${last})
	set(file "${CMAKE_ARGV${argument}}")
	if(NOT is_file)
		if(file STREQUAL "--")
			set(is_file TRUE)
		endif()
		continue()
	endif()
	get_filename_component(name "${file}" NAME)
	file(READ "${file}" bytes HEX)
	string(REGEX REPLACE "(................................)" "\\1\n\t" bytes "${bytes}")
	string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
	string(APPEND arrays
		"static const unsigned char bytes_${count}[] = {\n\t${bytes}0,\n};\n\n")
	string(APPEND rows
		"\t{\"${name}\", (const char *)bytes_${count}, sizeof(bytes_${count}) - 1},\n")
	math(EXPR count "${count} + 1")
endforeach()
if(count EQUAL 0)
	set(rows "\t{\"\", \"\", 0},\n") # C has no empty array; the count is 0
endif()

file(WRITE "${OUTPUT}.part" "#include \"engine/base/embedded_file.h\"

extern const struct embedded_file ${SYMBOL}[];
extern const uint32_t ${SYMBOL}_count;

${arrays}const struct embedded_file ${SYMBOL}[] = {
${rows}};
const uint32_t ${SYMBOL}_count = ${count};
")
file(RENAME "${OUTPUT}.part" "${OUTPUT}")
