# CUDA is optional, and not searched for if the tree has no CUDA source. QUIRE_HAS_CUDA says whether
# libraries compile their .cu files.

set(QUIRE_HAS_CUDA OFF)
file(GLOB quire_cuda_sources CONFIGURE_DEPENDS
	${PROJECT_SOURCE_DIR}/kernels/*/*.cu)

if(quire_cuda_sources AND NOT QUIRE_CUDA STREQUAL "OFF")
	include(CheckLanguage)
	check_language(CUDA)
	if(CMAKE_CUDA_COMPILER)
		# CUDAARCHS, CMake's own variable of the environment, may list fewer.
		if(DEFINED ENV{CUDAARCHS})
			set(architectures $ENV{CUDAARCHS})
		else()
			set(architectures 80 90a) # 80 with PTX, for newer GPUs
		endif()
		set(CMAKE_CUDA_ARCHITECTURES ${architectures} CACHE STRING "GPU architectures")
		set(CMAKE_CUDA_STANDARD 17)
		set(CMAKE_CUDA_FLAGS_RELEASE "-O2 -g")
		# The program links the CUDA runtime statically, so that it starts on a machine
		# without CUDA; the runtime loads the driver's libcuda when it is first called.
		set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
		enable_language(CUDA)
		find_package(CUDAToolkit REQUIRED)
		find_package(Threads REQUIRED)
		set(QUIRE_HAS_CUDA ON)
		set(quire_cuda_kernel_libraries CUDA::cudart_static ${CMAKE_DL_LIBS})
		# kernels/linear/cublaslt.cu loads cuBLASLt at run time from there.
		set(CMAKE_BUILD_RPATH ${CUDAToolkit_LIBRARY_DIR})
		set(quire_cuda_profiling_libraries CUDA::cudart_static CUDA::nvtx3)
		# engine/profiling/cupti_api.c loads CUPTI likewise, which some toolkits have in a
		# separate folder.
		set(cupti_root ${CUDAToolkit_TARGET_DIR}/extras/CUPTI)
		list(APPEND CMAKE_BUILD_RPATH ${cupti_root}/lib64)
		set(CMAKE_INSTALL_RPATH ${CMAKE_BUILD_RPATH})
		find_path(QUIRE_CUPTI_INCLUDE cupti.h
			HINTS ${CUDAToolkit_INCLUDE_DIRS} ${cupti_root}/include)
		mark_as_advanced(QUIRE_CUPTI_INCLUDE)
		if(QUIRE_CUPTI_INCLUDE)
			add_compile_definitions(QUIRE_HAS_CUPTI=1)
			add_library(cupti_headers INTERFACE)
			target_include_directories(cupti_headers SYSTEM
				INTERFACE ${QUIRE_CUPTI_INCLUDE})
			list(APPEND quire_cuda_profiling_libraries
				cupti_headers Threads::Threads)
		endif()
		# engine/runners/cuda_nccl.c loads NCCL likewise, and only needs its header here.
		find_path(QUIRE_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
		mark_as_advanced(QUIRE_NCCL_INCLUDE)
		if(QUIRE_NCCL_INCLUDE)
			add_compile_definitions(QUIRE_HAS_NCCL=1)
			include_directories(SYSTEM ${QUIRE_NCCL_INCLUDE})
		endif()
		add_compile_definitions(QUIRE_HAS_CUDA=1)
		if(CMAKE_CUDA_ARCHITECTURES MATCHES "90a")
			add_compile_definitions(QUIRE_HAS_SM90=1)
		endif()
		# The CPU version must give its sums bit for bit.
		set_source_files_properties(${PROJECT_SOURCE_DIR}/kernels/sampling/sampler.cu
			PROPERTIES COMPILE_OPTIONS "-fmad=false")
	elseif(QUIRE_CUDA STREQUAL "ON")
		message(FATAL_ERROR "QUIRE_CUDA=ON, but nvcc was not found")
	endif()
endif()
