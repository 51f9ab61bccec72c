#include "engine/runners/cuda_status.h"

#include "engine/runners/cuda_nccl.h"
#include "kernels/linear/cublaslt.h"

#include <assert.h>

static_assert((int)CUDA_NCCL_ERROR < (int)CUBLASLT_ERROR, "codes tell their libraries apart");

enum status cuda_status(int code, const char *call, struct error *error)
{
	bool is_nccl = code >= CUDA_NCCL_ERROR && code < CUBLASLT_ERROR;

	if (code == 0) {
		return STATUS_OK;
	}
	return error_set(error, STATUS_DEVICE, "%s: %s", call,
		is_nccl ? cuda_nccl_error_text(code) : cublaslt_error_text(code));
}
