#ifndef ENGINE_MODEL_WEIGHTS_H
#define ENGINE_MODEL_WEIGHTS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/status.h"
#include "engine/shape/weight_shape.h"

/* The values of a model's weights (engine/shape/weight_shape.h), read row by row as float32 or as
   bf16, from memory-mapped safetensors or generated from a seed. */

struct weights;

/* Opens what `source` names: "dummy:SEED" (a decimal seed below 2^64), or a folder with
   model.safetensors, or with model.safetensors.index.json and the files it names. Everything is
   checked before the first read: each tensor's dtype (BF16, F16 or F32), shape and position in its
   file. An error lists missing and unexpected tensors. With tied embeddings lm_head.weight may be
   present, with the same bytes. The configuration is copied. */
enum status weights_open(struct weights **out, const struct model_config *config,
	const char *source, struct error *error);

/* Accepts NULL. */
void weights_close(struct weights *weights);

const struct model_config *weights_config(const struct weights *weights);

/* Whether these are dummy weights; if so, sets *seed. */
bool weights_are_dummy(const struct weights *weights, uint64_t *seed);

/* Reads `row_count` rows from `first_row` on of a shard of a tensor into out (row_count, columns of
   the shard). layer is 0 for a tensor that is not layered. The weight must exist and the shard be
   checked. float32 holds every stored value exactly; bf16 is rounded to nearest, ties to even.
   Reads from several threads may overlap. */
void weights_read_f32(const struct weights *weights, enum weight weight, uint32_t layer,
	struct weight_shard shard, uint32_t first_row, uint32_t row_count, float *out);
void weights_read_bf16(const struct weights *weights, enum weight weight, uint32_t layer,
	struct weight_shard shard, uint32_t first_row, uint32_t row_count, uint16_t *out);

#endif
