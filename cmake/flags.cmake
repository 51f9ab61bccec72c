# How everything is compiled. No NDEBUG in any build (checks are part of the program), and no
# contraction, -march or -ffast-math: the same source gives the same numbers everywhere.

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_FLAGS_RELEASE "-O2 -g")
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g")
set(CMAKE_C_FLAGS_DEBUG "-Og -g" CACHE STRING "Flags of Debug builds")
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

set(quire_warnings -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror)
add_compile_options("$<$<COMPILE_LANGUAGE:C>:-ffp-contract=off;${quire_warnings}>")
# A failed check names its file from the project's folder on.
add_compile_options("$<$<COMPILE_LANGUAGE:C>:-fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=>")

# For files, signals and memory maps, which -std=c17 hides by itself.
set(quire_posix _POSIX_C_SOURCE=200809L _DEFAULT_SOURCE=)

# A fuzzer learns from the branches that an input takes.
if(QUIRE_FUZZ)
	set(QUIRE_SANITIZE ON)
	add_compile_options("$<$<COMPILE_LANGUAGE:C>:-fsanitize=fuzzer-no-link>")
endif()

if(QUIRE_SANITIZE)
	set(quire_sanitizers -fsanitize=address,undefined -fno-sanitize-recover=all
		-fno-omit-frame-pointer)
	add_compile_options("$<$<COMPILE_LANGUAGE:C>:${quire_sanitizers}>")
	add_link_options(-fsanitize=address,undefined)
endif()

# A replay of these builds verifies every invariant after every step.
if(QUIRE_SANITIZE OR CMAKE_BUILD_TYPE STREQUAL "Debug")
	add_compile_definitions(QUIRE_CHECK_STEPS=1)
endif()
