#ifndef KERNELS_GATHER_ROWS_H
#define KERNELS_GATHER_ROWS_H

#include <stdint.h>

/* Picks the rows that are sampled, so that lm_head computes no others:

       out[i] = in[indices[i]] */

/* out: (row_count, width); in: (whatever, width), apart from out; indices: (row_count). */
void gather_rows_cpu(
	float *out, const float *in, const uint32_t *indices, uint32_t row_count, uint32_t width);

/* Here stands the launcher of the GPU: gather_rows(). */

#endif
