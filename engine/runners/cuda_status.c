#include "engine/runners/cuda_status.h"

#include "kernels/linear/cublaslt.h"

enum status cuda_status(int code, const char *call, struct error *error)
{
	if (code == 0) {
		return STATUS_OK;
	}
	return error_set(error, STATUS_DEVICE, "%s: %s", call, cublaslt_error_text(code));
}
