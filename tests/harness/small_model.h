#ifndef TESTS_HARNESS_SMALL_MODEL_H
#define TESTS_HARNESS_SMALL_MODEL_H

#include "engine/shape/model_config.h"

/* An initializer of a struct model_config for tests: what all small models have in common, then the
   fields that are given. */
#define SMALL_MODEL(...)                                                                           \
	{                                                                                          \
		.max_position_embeddings = 2048, .rms_norm_eps = 1e-6, .rope_theta = 1e6,          \
		.dtype = MODEL_DTYPE_BFLOAT16, __VA_ARGS__                                         \
	}

#endif
