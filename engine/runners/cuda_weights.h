#ifndef ENGINE_RUNNERS_CUDA_WEIGHTS_H
#define ENGINE_RUNNERS_CUDA_WEIGHTS_H

#include "engine/model/weights.h"

/* Brings a tensor of a model to the GPU in bf16: copied from its file, or, for dummy weights,
   generated on the GPU as engine/model/weights_dummy.h defines. out: (rows, columns) of the shard,
   on the device. Returns a cudaError_t as an int. */
int cuda_weights_upload(uint16_t *out, const struct weights *weights, enum weight weight,
	uint32_t layer, struct weight_shard shard);

#endif
