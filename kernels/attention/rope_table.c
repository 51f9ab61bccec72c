#include "kernels/attention/rope_table.h"

#include "engine/base/check.h"
#include "kernels/op/elementary.h"

#include <stddef.h>

void rope_table_fill(float *table, uint32_t position_count, uint32_t head_dim, double theta)
{
	uint32_t half = head_dim / 2;

	check(head_dim % 2 == 0);
	for (uint32_t i = 0; i < half; i++) {
		float exponent = (float)(2 * i) / (float)head_dim;
		float power = (float)elementary_pow((double)(float)theta, (double)exponent);
		float frequency = 1 / power;
		for (uint32_t p = 0; p < position_count; p++) {
			float angle = (float)p * frequency;
			double sine, cosine;
			elementary_sine_cosine((double)angle, &sine, &cosine);
			float *entry = table + ((size_t)p * half + i) * 2;
			entry[0] = (float)cosine;
			entry[1] = (float)sine;
		}
	}
}
