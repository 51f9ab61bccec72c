#ifndef ENGINE_RUNNERS_CUDA_WEIGHTS_H
#define ENGINE_RUNNERS_CUDA_WEIGHTS_H

#include "engine/model/weights.h"

/* Writes a weight tensor to the GPU in bf16: copied from its file, or, for dummy weights,
   computed on the GPU by the definition in engine/model/weights.h. out: (rows, columns) of the
   shard, on the device. Returns a cudaError_t as an int. */
int cuda_weights_upload(uint16_t *out, const struct weights *weights, enum weight weight,
	uint32_t layer, struct weight_shard shard);

#endif
