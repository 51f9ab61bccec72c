#ifndef ENGINE_RUNNERS_CUDA_PASS_H
#define ENGINE_RUNNERS_CUDA_PASS_H

#include "engine/runners/cuda_forward.h"
#include "engine/runners/cuda_tensors.h"
#include "kernels/linear/linear_plan.h"

struct cublaslt;

/* What lives as long as the engine; a pass changes none of it but the memory of its tensors. */
struct cuda_forward {
	struct model_config model;
	struct cuda_forward_options options;
	struct attention_shape shape;
	struct linear_device device;
	struct cublaslt *library;
	struct cuda_tensors tensors;
};

/* The layer that `weight` multiplies by, with its sums in one chain. */
struct linear_shape cuda_forward_linear(const struct cuda_forward *forward, enum weight weight);

/* Whether the add_rms_norm() behind it adds the layer's output to the residual stream. If it has no
   bias either, it may leave the slices of split-K for that norm to add. */
bool cuda_forward_may_split_k(const struct cuda_forward *forward, enum weight weight);

#endif
