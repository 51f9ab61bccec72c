#include "kernels/op/launch.h"

#include <cuda_runtime_api.h>

enum kernel_path kernel_path_of_device(void)
{
#ifdef QUIRE_HAS_SM90
	int device = 0, major = 0;

	if (cudaGetDevice(&device) == cudaSuccess &&
		cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) ==
			cudaSuccess &&
		major == 9) {
		return KERNEL_PATH_SM90;
	}
#endif
	return KERNEL_PATH_GENERAL;
}
