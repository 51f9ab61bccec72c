#include "kernels/exchange/exchange.h"

void exchange_sum_cpu(
	float *out, const float *const *parts, uint32_t ranks, size_t count, enum rounding rounding)
{
	for (size_t i = 0; i < count; i++) {
		float sum = 0;
		for (uint32_t r = 0; r < ranks; r++) {
			sum += parts[r][i];
		}
		out[i] = rounded(sum, rounding);
	}
}
