#ifndef TESTS_HARNESS_TWIN_H
#define TESTS_HARNESS_TWIN_H

#include <stdint.h>

#include "kernels/op/op.h"

/* Tests of CPU twins: against their formulas, computed in double by the plainest loops, and against
   themselves, since a row gets the same bits in any batch. Memory that an operation must not touch
   holds NaN, so that a read shows in the result and a write in the memory. */

/* Allocated, for the caller to free. */
float *filled(uint64_t count, uint64_t key, enum case_values values);
float *nans(uint64_t count);
uint16_t *as_bf16(const float *values, uint64_t count);

/* Demands an error of at most 3 * 10^-6 of the values, both in the Euclidean norm. */
void require_near(
	const struct op_case *c, const float *found, const double *expected, uint64_t count);

void require_same_bits(const struct op_case *c, const float *found, const float *expected,
	uint64_t count, const char *what);

/* Demands that results with rounding to bf16 are the exact ones, rounded. */
void require_rounded(
	const struct op_case *c, const float *found, const float *exact, uint64_t count);

/* Calls a test with every tiny case of an operation. */
void for_tiny_cases(const char *name, void (*test)(const struct op_case *));

/* RMSNorm of (rows, width). */
void norm_by_formula(double *out, const float *in, const float *weight, uint32_t rows,
	uint32_t width, double epsilon);

#endif
