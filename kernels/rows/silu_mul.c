#include "kernels/rows/silu_mul.h"

#include "kernels/op/elementary.h"

#include <stddef.h>

static float silu(float x)
{
	/* Below -110 the result underflows to -0. This also keeps -infinity from being divided
	   by infinity. */
	return x < -110 ? -0.0f : (float)((double)x / (1 + elementary_exp(-(double)x)));
}

void silu_mul_cpu(float *out, const float *gate_up, uint32_t row_count, uint32_t width,
	enum rounding rounding)
{
	for (uint32_t r = 0; r < row_count; r++) {
		const float *gate = gate_up + (size_t)r * 2 * width;
		const float *up = gate + width;
		for (uint32_t i = 0; i < width; i++) {
			out[(size_t)r * width + i] = rounded(silu(gate[i]) * up[i], rounding);
		}
	}
}
