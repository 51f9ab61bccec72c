#include "kernels/rows/rms_norm.h"

#include "kernels/op/dot.h"

#include <math.h>
#include <stddef.h>

float rms_norm_scale(const float *x, uint32_t width, float epsilon)
{
	/* sqrtf is correctly rounded, unlike the rest of math.h. */
	return 1 / sqrtf(dot_f32(x, x, width) / (float)width + epsilon);
}

void rms_norm_cpu(float *out, const float *in, const float *weight, uint32_t row_count,
	uint32_t width, float epsilon, enum rounding rounding)
{
	for (uint32_t r = 0; r < row_count; r++) {
		const float *x = in + (size_t)r * width;
		float *y = out + (size_t)r * width;
		float scale = rms_norm_scale(x, width, epsilon);
		for (uint32_t i = 0; i < width; i++) {
			y[i] = rounded(x[i] * scale * weight[i], rounding);
		}
	}
}
