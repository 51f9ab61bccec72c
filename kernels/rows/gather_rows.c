#include "kernels/rows/gather_rows.h"

#include <stddef.h>
#include <string.h>

void gather_rows_cpu(
	float *out, const float *in, const uint32_t *indices, uint32_t row_count, uint32_t width)
{
	for (uint32_t i = 0; i < row_count; i++) {
		memcpy(out + (size_t)i * width, in + (size_t)indices[i] * width,
			width * sizeof(*out));
	}
}
