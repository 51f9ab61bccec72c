#ifndef ENGINE_RUNNERS_CUDA_PASS_H
#define ENGINE_RUNNERS_CUDA_PASS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/runners/cuda_forward.h"
#include "engine/runners/cuda_tensors.h"
#include "kernels/linear/linear_plan.h"

struct cublaslt;

/* The state of one forward pass over one batch. */
struct cuda_pass {
	const struct cuda_forward *forward;
	const struct cuda_tensors *tensors;
	struct cuda_batch batch;
	struct CUstream_st *stream;
	uint32_t parts_run; /* halves of layers */
	uint32_t layer;	    /* or RANGE_NO_LAYER */

	/* The buffers of the residual stream. When the linear layers fuse the norms in front of
	   them, the stream ping-pongs between its own buffer and gate_up's, which such a step
	   does not use. */
	uint16_t *residual, *spare;
	bool fuses_norms;

	/* The output of attention and the input of lm_head: tensors of their own, until the pass
	   drops the rows that are not sampled. */
	uint16_t *attended, *sampled_hidden;

	uint32_t exchanges; /* of this step so far; 0 with one rank */

	/* Split-K rows of the latest linear layer, counted from the first row: their output is
	   in split_k_sums, as slices that the next norm adds. */
	uint32_t pending_split_k_rows;

	/* the first launch that failed */
	int code;
	const char *call;
};

/* Of what lives as long as the engine, a pass changes only the contents of the tensors. */
struct cuda_forward {
	struct model_config model;	/* of the rank's shard, see weight_shard_config() */
	struct weight_range vocabulary; /* rows of lm_head on this rank */
	struct cuda_forward_options options;
	struct attention_shape shape;
	struct linear_device device;
	struct cublaslt *library;
	struct cuda_tensors tensors;
	struct cuda_pass pass; /* the latest */
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
