#ifndef ENGINE_MODEL_CHECKPOINT_NAMES_H
#define ENGINE_MODEL_CHECKPOINT_NAMES_H

#include "engine/shape/weight_shape.h"

/* The names of a Qwen3's tensors in Hugging Face checkpoints. */

enum { CHECKPOINT_NAME_BYTES = 96 };

/* out: (CHECKPOINT_NAME_BYTES); layer is 0 for a weight that is not layered. */
void checkpoint_name(enum weight weight, uint32_t layer, uint32_t part, char *out);

#endif
