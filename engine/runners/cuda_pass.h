#ifndef ENGINE_RUNNERS_CUDA_PASS_H
#define ENGINE_RUNNERS_CUDA_PASS_H

#include "engine/runners/cuda_forward.h"
#include "engine/runners/cuda_tensors.h"
#include "kernels/linear/linear_plan.h"

struct cublaslt;

/* The state that lives as long as the engine. A pass changes only the contents of its tensors. */
struct cuda_forward {
	struct model_config model;	/* of the rank's shard, see weight_shard_config() */
	struct weight_range vocabulary; /* rows of lm_head on this rank */
	struct cuda_forward_options options;
	struct attention_shape shape;
	struct linear_device device;
	struct cublaslt *library;
	struct cuda_tensors tensors;
};

/* The shape of the linear layer with this weight, with split_k 1. */
struct linear_shape cuda_forward_linear(const struct cuda_forward *forward, enum weight weight);

/* The rows of lm_head on this rank; of the embedding where that is tied. */
const uint16_t *cuda_forward_head(const struct cuda_forward *forward);

/* The bias of o, or WEIGHT_COUNT: of all ranks, the first adds it. */
enum weight cuda_forward_o_bias(const struct cuda_forward *forward);

/* Whether an add_rms_norm() follows the layer and adds its output to the residual stream. If the
   layer has no bias either, it may leave split-K slices for that norm to add. */
bool cuda_forward_may_split_k(const struct cuda_forward *forward, enum weight weight);

#endif
