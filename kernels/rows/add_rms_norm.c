#include "kernels/rows/add_rms_norm.h"

#include "kernels/rows/rms_norm.h"

#include <stddef.h>

void add_rms_norm_cpu(float *out, float *residual, const float *in, const float *weight,
	uint32_t row_count, uint32_t width, float epsilon, enum rounding rounding)
{
	size_t count = (size_t)row_count * width;

	for (size_t i = 0; i < count; i++) {
		residual[i] = rounded(residual[i] + in[i], rounding);
	}
	rms_norm_cpu(out, residual, weight, row_count, width, epsilon, rounding);
}
