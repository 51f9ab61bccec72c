#include "kernels/linear/linear.h"

uint32_t linear_split_k(uint32_t input_count, uint32_t output_count)
{
	const uint32_t parts = 4, chunk = 128;
	bool is_long = input_count >= 2048 && input_count <= 4096;
	bool is_small = output_count > 0 && output_count <= 2048;

	return is_long && is_small && input_count % (parts * chunk) == 0 && output_count % 64 == 0
		       ? parts
		       : 1;
}
