#include "tests/harness/twin.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/memory.h"
#include "kernels/op/number.h"
#include "kernels/op_table.h"
#include "tests/harness/require.h"

float *filled(uint64_t count, uint64_t key, enum case_values values)
{
	float *out = memory_take(count, sizeof(*out));
	case_fill(out, count, key, values);
	return out;
}

float *nans(uint64_t count)
{
	float *out = memory_take(count, sizeof(*out));
	for (uint64_t i = 0; i < count; i++) {
		out[i] = NAN;
	}
	return out;
}

uint16_t *as_bf16(const float *values, uint64_t count)
{
	uint16_t *out = memory_take(count, sizeof(*out));
	for (uint64_t i = 0; i < count; i++) {
		out[i] = bf16_from_float(values[i]);
	}
	return out;
}

static const char *describe(const struct op_case *c, char *text, size_t size)
{
	snprintf(text, size, "%u rows, %u to %u, heads %u/%u of %u, blocks of %u, context %u",
		c->rows, c->width, c->outputs, c->heads, c->kv_heads, c->head_dim, c->block_size,
		c->context);
	return text;
}

void require_near(
	const struct op_case *c, const float *found, const double *expected, uint64_t count)
{
	char text[256];
	double noise = 0, signal = 0;
	for (uint64_t i = 0; i < count; i++) {
		noise += (found[i] - expected[i]) * (found[i] - expected[i]);
		signal += expected[i] * expected[i];
	}
	require(noise <= 1e-11 * signal, "%s: an error of %g in %g", describe(c, text, 256), noise,
		signal);
}

void require_same_bits(const struct op_case *c, const float *found, const float *expected,
	uint64_t count, const char *what)
{
	char text[256];
	for (uint64_t i = 0; i < count; i++) {
		require(memcmp(&found[i], &expected[i], sizeof(*found)) == 0,
			"%s: %s: element %lu is %.9g, expected %.9g", describe(c, text, 256), what,
			(unsigned long)i, (double)found[i], (double)expected[i]);
	}
}

void require_rounded(
	const struct op_case *c, const float *found, const float *exact, uint64_t count)
{
	char text[256];
	for (uint64_t i = 0; i < count; i++) {
		require(found[i] == rounded(exact[i], ROUNDING_BF16),
			"%s: element %lu is %.9g, expected %.9g rounded to bf16",
			describe(c, text, 256), (unsigned long)i, (double)found[i],
			(double)exact[i]);
	}
}

void for_tiny_cases(const char *name, void (*test)(const struct op_case *))
{
	const struct op *op = op_find(name);
	uint32_t count = 0;

	require(op != NULL, "no operation %s", name);
	for (uint32_t i = 0; i < op->case_count; i++) {
		if (op->cases[i].size == CASE_TINY) {
			test(&op->cases[i]);
			count++;
		}
	}
	require(count >= 2, "%s: %u tiny cases", name, count);
}

void norm_by_formula(double *out, const float *in, const float *weight, uint32_t rows,
	uint32_t width, double epsilon)
{
	for (uint32_t r = 0; r < rows; r++) {
		double squares = 0;
		for (uint32_t i = 0; i < width; i++) {
			squares += (double)in[i] * (double)in[i];
		}
		for (uint32_t i = 0; i < width; i++) {
			out[i] = in[i] / sqrt(squares / width + epsilon) * weight[i];
		}
		in += width;
		out += width;
	}
}
