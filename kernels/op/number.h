#ifndef KERNELS_OP_NUMBER_H
#define KERNELS_OP_NUMBER_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The number formats of operations.

   A GPU stores tensors in bf16 and accumulates in float32. The CPU twins store every tensor in
   float32 and accumulate in float32, each sum in an order that its header defines. With
   ROUNDING_BF16 a twin rounds what a kernel would store as bf16. Its results then differ from a
   kernel's only by the order of sums and by the elementary functions.

   The twins give the same bits with every compiler, at every optimisation level and on every
   machine with IEEE arithmetic: the project is compiled without contraction to fused
   multiply-add and without -ffast-math, the orders are fixed, and exp, log, sine and power are
   built from + - * / (kernels/op/elementary.h). */

enum rounding {
	ROUNDING_NONE,
	ROUNDING_BF16, /* results are rounded to the nearest bf16, ties to even */
};

/* bf16 is the upper half of a float32. NaN stays NaN. */
static inline uint16_t bf16_from_float(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	if ((bits & 0x7fffffff) > 0x7f800000) {
		return (uint16_t)(bits >> 16 | 0x40);
	}
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float bf16_to_float(uint16_t value)
{
	uint32_t bits = (uint32_t)value << 16;
	float result;

	memcpy(&result, &bits, sizeof(result));
	return result;
}

static inline float rounded(float value, enum rounding rounding)
{
	return rounding == ROUNDING_BF16 ? bf16_to_float(bf16_from_float(value)) : value;
}

/* The elements of a weight matrix, row-major; exactly one pointer is set. Borrowed. */
struct matrix {
	const float *f32;
	const uint16_t *bf16;
};

/* The matrix from row `first` on. */
static inline struct matrix matrix_rows(struct matrix matrix, uint64_t first, uint32_t columns)
{
	return (struct matrix){
		.f32 = matrix.f32 == NULL ? NULL : matrix.f32 + first * columns,
		.bf16 = matrix.bf16 == NULL ? NULL : matrix.bf16 + first * columns,
	};
}

static inline float matrix_at(struct matrix matrix, uint64_t index)
{
	return matrix.f32 != NULL ? matrix.f32[index] : bf16_to_float(matrix.bf16[index]);
}

#endif
