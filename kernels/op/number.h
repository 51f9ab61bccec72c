#ifndef KERNELS_OP_NUMBER_H
#define KERNELS_OP_NUMBER_H

#include <stdint.h>
#include <string.h>

/* The numbers that operations compute with.

   A GPU keeps tensors in bf16 and sums in float32. The CPU twins keep every tensor in float32
   and sum in float32, each sum in an order that its header fixes, and can round to bf16 what a
   kernel would store as bf16: with ROUNDING_BF16 a twin's results are values that bf16 holds, and
   differ from a kernel's by the order of its sums and its elementary functions alone.

   What is promised: the project is compiled without contraction of products and sums and without
   -ffast-math, the orders are fixed, and exp, log, sine and power are made of + - * / by
   kernels/op/elementary.h. So the twins give the same bits with every compiler, at every
   optimisation level and on every machine of IEEE arithmetic. */

enum rounding {
	ROUNDING_NONE,
	ROUNDING_BF16, /* results are rounded to the nearest bf16, ties to even */
};

/* bf16 is the upper half of a float32. A NaN stays one. */
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

/* The elements of a matrix of weights, row-major; exactly one pointer is set. Borrowed. */
struct matrix {
	const float *f32;
	const uint16_t *bf16;
};

static inline float matrix_at(struct matrix matrix, uint64_t index)
{
	return matrix.f32 != NULL ? matrix.f32[index] : bf16_to_float(matrix.bf16[index]);
}

#endif
