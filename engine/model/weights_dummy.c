#include "engine/model/weights_dummy.h"

#include "engine/base/check.h"

enum { BIAS_SHIFT = 12, NORM_SHIFT = 7 };

struct weight_dummy weight_dummy(
	const struct model_config *config, uint64_t seed, enum weight weight, uint32_t layer)
{
	/* A purpose that no other use of a seed has: "weights" in its upper bytes. */
	const uint64_t purpose = UINT64_C(0x7765696768747300);
	/* 3 times the variance of 2 * byte - 255 */
	const uint64_t spread = 65535;
	uint32_t shift = 0;

	check((uint32_t)weight < WEIGHT_COUNT);
	if (weight_is_tied(config, weight)) {
		weight = WEIGHT_EMBEDDING;
	}
	switch (weight_form(weight)) {
	case WEIGHT_NORM:
		shift = NORM_SHIFT;
		break;
	case WEIGHT_BIAS:
		shift = BIAS_SHIFT;
		break;
	case WEIGHT_MATRIX:
		/* the smallest for which columns * variance * 4^-shift <= 1 */
		while (spread * weight_part_shape(config, weight, 0).columns >
			UINT64_C(3) << 2 * shift) {
			shift++;
		}
		break;
	}
	return (struct weight_dummy){
		.key = counter_key(seed, purpose ^ ((uint64_t)layer << 32 | weight)),
		.shift = shift,
		.is_norm = weight_form(weight) == WEIGHT_NORM,
	};
}
