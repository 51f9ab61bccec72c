#ifndef KERNELS_DEVICE_EARLY_LAUNCH_CUH
#define KERNELS_DEVICE_EARLY_LAUNCH_CUH

#include "kernels/op/launch.h"

#include <cuda_runtime.h>
#include <stdint.h>

/* Programmatic dependent launch (PDL, sm_90): a kernel starts while the one before it still runs.

   A kernel launched by launch_dependent() calls

       dependents_launch()   lets the next kernel start once all blocks of this one have called it
                             or exited. Called first of all, unless there is a reason to hold the
                             next kernel back.
       dependency_wait()     returns when the kernel before has ended and its writes are visible.

   So several kernels may be resident at once, each stopped at its own dependency_wait(). Every
   kernel waits, so none ends before the one in front of it. Therefore the wait covers all kernels
   before, not only the last.

   Before dependency_wait() a kernel

       writes   no global memory
       reads    only what no kernel of the step writes (weights, keys and values of earlier steps),
                and the lists that step_begin() copies (kernels/step_io/step_io.h)

   Since the lists are written within the step, two kernels hold the later ones back:

       step_begin()   is launched in order, after the end of the step before
       embedding      follows it. It calls dependency_wait() before dependents_launch(), and reads
                      its own lists after the wait. So no later kernel starts before the lists are
                      complete.

   A kernel of a library such as cuBLASLt does not use PDL. It is launched in order, and the next
   kernel starts at its end. On older architectures both functions do nothing. */
__device__ inline void dependency_wait()
{
#if __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.wait;\n" ::: "memory");
#endif
}

__device__ inline void dependents_launch()
{
#if __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.launch_dependents;\n" ::: "memory");
#endif
}

/* Launches a kernel that calls dependency_wait(), with clusters of these dimensions. PDL and
   clusters are used only where the device and the build have sm_90a. Returns a cudaError_t. */
template <typename... PARAMETERS, typename... ARGUMENTS>
static int launch_dependent_clusters(void (*kernel)(PARAMETERS...), dim3 grid, dim3 block,
	dim3 cluster, size_t shared, cudaStream_t stream, ARGUMENTS... arguments)
{
	const uint32_t attribute_count = cluster.x * cluster.y * cluster.z > 1 ? 2 : 1;
	cudaLaunchAttribute attributes[2] = {};
	cudaLaunchConfig_t config = {};

	attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
	attributes[0].val.programmaticStreamSerializationAllowed = 1;
	attributes[1].id = cudaLaunchAttributeClusterDimension;
	attributes[1].val.clusterDim.x = cluster.x;
	attributes[1].val.clusterDim.y = cluster.y;
	attributes[1].val.clusterDim.z = cluster.z;
	config.gridDim = grid;
	config.blockDim = block;
	config.dynamicSmemBytes = shared;
	config.stream = stream;
	config.attrs = attributes;
	config.numAttrs = kernel_path_of_device() == KERNEL_PATH_SM90 ? attribute_count : 0;
	return (int)cudaLaunchKernelEx(&config, kernel, PARAMETERS(arguments)...);
}

/* The same without clusters. */
template <typename... PARAMETERS, typename... ARGUMENTS>
static int launch_dependent(void (*kernel)(PARAMETERS...), dim3 grid, dim3 block, size_t shared,
	cudaStream_t stream, ARGUMENTS... arguments)
{
	return launch_dependent_clusters(
		kernel, grid, block, dim3(1), shared, stream, arguments...);
}

#endif
