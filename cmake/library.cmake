# quire_library(NAME FOLDER [POSIX] [EXCEPT FILE...] [LINKS LIBRARY...])
#
# The C files of a folder, without its subfolders, as a static library. Adding a file needs no edit
# here. A folder with headers only gives an interface library, so others can name it all the same.
function(quire_library name folder)
	cmake_parse_arguments(PARSE_ARGV 2 ARG "POSIX" "" "EXCEPT;LINKS")

	file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.c)
	if(NOT QUIRE_HAS_CUDA)
		# C files that call CUDA are named for it.
		list(FILTER sources EXCLUDE REGEX "/cuda_[^/]*$")
	else()
		file(GLOB cuda_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cu)
		list(APPEND sources ${cuda_sources})
	endif()
	foreach(file IN LISTS ARG_EXCEPT)
		list(REMOVE_ITEM sources ${PROJECT_SOURCE_DIR}/${file})
	endforeach()

	if(sources)
		add_library(${name} STATIC ${sources})
		set(scope PUBLIC)
		if(ARG_POSIX)
			target_compile_definitions(${name} PRIVATE ${quire_posix})
		endif()
	else()
		add_library(${name} INTERFACE)
		set(scope INTERFACE)
	endif()
	target_include_directories(${name} ${scope} ${PROJECT_SOURCE_DIR})
	target_link_libraries(${name} ${scope} ${ARG_LINKS})
endfunction()
