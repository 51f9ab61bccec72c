#ifndef KERNELS_ROWS_SILU_MUL_H
#define KERNELS_ROWS_SILU_MUL_H

#include "kernels/op/launch.h"
#include "kernels/op/number.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The gated activation (SwiGLU) of a gate and an up that one linear layer computed:

       out[r][i] = round(silu(gate_up[r][i]) * gate_up[r][width + i])
       silu(x)   = x / (1 + exp(-x)), rounded to float32

   A gate of -infinity gives 0 * up, which is the limit. */

/* out: (row_count, width); gate_up: (row_count, 2 * width), the gate first. */
void silu_mul_cpu(float *out, const float *gate_up, uint32_t row_count, uint32_t width,
	enum rounding rounding);

/* On the GPU, in bf16. */
int silu_mul(uint16_t *out, const uint16_t *gate_up, uint32_t row_count, uint32_t width,
	struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
