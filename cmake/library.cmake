# quire_modules(): a static library for each row of cmake/modules.txt, from the C files of its
# folder without subfolders, linked to what the row knows. Adding a file needs no edit. A folder of
# headers only gives an interface library.

set(quire_modules_table ${PROJECT_SOURCE_DIR}/cmake/modules.txt)

function(quire_module name folder)
	file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.c)
	list(REMOVE_ITEM sources ${PROJECT_SOURCE_DIR}/bench/main.c)
	if(QUIRE_HAS_CUDA)
		file(GLOB cuda_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cu)
		list(APPEND sources ${cuda_sources})
	else()
		# C files that call CUDA are named for it.
		list(FILTER sources EXCLUDE REGEX "/cuda_[^/]*$")
	endif()

	if(sources)
		add_library(${name} STATIC ${sources})
		set(scope PUBLIC)
		target_compile_definitions(${name} PRIVATE ${quire_posix})
	else()
		add_library(${name} INTERFACE)
		set(scope INTERFACE)
	endif()
	target_include_directories(${name} ${scope} ${PROJECT_SOURCE_DIR})
	target_link_libraries(${name} ${scope} ${ARGN})
endfunction()

function(quire_modules)
	set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${quire_modules_table})
	file(STRINGS ${quire_modules_table} rows REGEX "^[^#]")
	foreach(row IN LISTS rows)
		if(NOT row MATCHES "^([^|]+) \\| ([^|]+) \\| ([^|]+) \\| ([^|]*)\\|")
			message(FATAL_ERROR "cmake/modules.txt: not a row: ${row}")
		endif()
		set(name ${CMAKE_MATCH_1})
		set(folder ${CMAKE_MATCH_2})
		string(STRIP "${CMAKE_MATCH_4}" known)
		string(REPLACE " " ";" known "${known}")
		quire_module(${name} ${folder} ${known})
	endforeach()
endfunction()
