#include "engine/shape/kernel_tiles.h"

#include <stdbool.h>

uint32_t linear_split_k(uint32_t input_count, uint32_t output_count)
{
	bool is_long = input_count >= 2048 && input_count <= 6144;
	bool is_narrow = output_count > 0 && output_count <= 2048;
	bool is_whole = input_count % (SPLIT_K * SPLIT_K_MULTIPLE) == 0 && output_count % 64 == 0;

	return is_long && is_narrow && is_whole ? SPLIT_K : 1;
}

uint32_t decode_long_alone(uint64_t kv_heads)
{
	return kv_heads >= 8 ? DECODE_ALONE : DECODE_ALONE / 2;
}

uint32_t decode_readers(uint64_t heads, uint64_t kv_heads)
{
	uint64_t group = kv_heads == 0 ? 0 : heads / kv_heads;

	return group == 0 ? 0 : DECODE_COLUMN_BLOCKS * (uint32_t)(DECODE_COLUMN_BLOCK / group);
}

uint64_t decode_counters(uint64_t rows, uint64_t kv_heads)
{
	return 1 + rows * kv_heads * DECODE_MERGERS;
}
