# CUDA is optional, and not even looked for while the tree has no CUDA source. QUIRE_HAS_CUDA says
# whether libraries take their .cu files.

set(QUIRE_HAS_CUDA OFF)
file(GLOB quire_cuda_sources CONFIGURE_DEPENDS
	${PROJECT_SOURCE_DIR}/kernels/*.cu ${PROJECT_SOURCE_DIR}/engine/model/*.cu)

if(quire_cuda_sources AND NOT QUIRE_CUDA STREQUAL "OFF")
	include(CheckLanguage)
	check_language(CUDA)
	if(CMAKE_CUDA_COMPILER)
		set(CMAKE_CUDA_ARCHITECTURES 90 CACHE STRING "GPU architectures")
		set(CMAKE_CUDA_STANDARD 17)
		set(CMAKE_CUDA_FLAGS_RELEASE "-O2 -g")
		set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
		enable_language(CUDA)
		set(QUIRE_HAS_CUDA ON)
	elseif(QUIRE_CUDA STREQUAL "ON")
		message(FATAL_ERROR "QUIRE_CUDA=ON, but nvcc was not found")
	endif()
endif()
