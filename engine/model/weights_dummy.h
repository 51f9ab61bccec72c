#ifndef ENGINE_MODEL_WEIGHTS_DUMMY_H
#define ENGINE_MODEL_WEIGHTS_DUMMY_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/counter_hash.h"
#include "engine/shape/weight_shape.h"

/* Dummy weights, generated from a seed.

   Element i (row * columns + column of the whole tensor, packed as above) of a dummy tensor is a
   small integer times a power of two, computed from one byte of a counter-based hash:

       byte   = byte i % 8, least significant first, of counter_hash(key, i / 8)
       matrix   (2 * byte - 255) * 2^-shift     uniform; deviation in (1/2, 1] of 1 / sqrt(columns)
       bias     (2 * byte - 255) * 2^-12        within 1/16
       norm     (112 + byte % 32) * 2^-7        within [7/8, 9/8)

   Each has at most 8 significant bits, so it is exact in bf16. Only integers are used, so a GPU
   computes the same bits. A tied lm_head is the embedding. */

struct weight_dummy {
	uint64_t key;
	uint32_t shift;
	bool is_norm;
};

struct weight_dummy weight_dummy(
	const struct model_config *config, uint64_t seed, enum weight weight, uint32_t layer);

/* The bf16 bits of element `index`. */
BOTH_SIDES static inline uint16_t weight_dummy_bf16(struct weight_dummy dummy, uint64_t index)
{
	uint32_t byte = (uint32_t)(counter_hash(dummy.key, index >> 3) >> (8 * (index & 7))) & 255;
	uint32_t sign = !dummy.is_norm && byte < 128 ? 0x8000 : 0;
	uint32_t value = dummy.is_norm ? 112 + (byte & 31) : sign ? 255 - 2 * byte : 2 * byte - 255;
	uint32_t exponent = 127 + 7 - dummy.shift;

	/* value is in [1, 255]: moves its leading bit to bit 7, where bf16 leaves it out */
	while (value < 128) {
		value <<= 1;
		exponent--;
	}
	return (uint16_t)(sign | exponent << 7 | (value & 127));
}

#endif
