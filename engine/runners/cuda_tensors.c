#include "engine/runners/cuda_tensors.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "engine/runners/cuda_status.h"
#include "engine/runners/cuda_weights.h"
#include "kernels/attention/decode.h"
#include "kernels/attention/rope_table.h"
#include "kernels/linear/linear_plan.h"
#include "kernels/sampling/sampler.h"

#include <assert.h>
#include <cuda_runtime_api.h>
#include <stdlib.h>

/* Allocates device memory for count elements. The error says how much was requested and how much
   was free. */
static enum status allocate(
	void *out, uint64_t count, size_t size, const char *what, struct error *error)
{
	size_t free_bytes = 0, total_bytes = 0;

	if (cudaMalloc((void **)out, count * size) == cudaSuccess) {
		return STATUS_OK;
	}
	(void)cudaGetLastError();
	cudaMemGetInfo(&free_bytes, &total_bytes);
	return error_set(error, STATUS_MEMORY,
		"GPU memory: %.3f GB requested for %s, %.3f of %.3f GB are free",
		(double)count * (double)size / 1e9, what, (double)free_bytes / 1e9,
		(double)total_bytes / 1e9);
}

static enum status load_weights(struct cuda_tensors *tensors, struct cuda_upload *upload,
	const struct weights *weights, struct weight_shard shard, struct error *error)
{
	const struct model_config *model = weights_config(weights);

	tensors->weight_count = model->num_hidden_layers * WEIGHT_COUNT;
	tensors->weights = memory_take(tensors->weight_count, sizeof(*tensors->weights));
	for (uint32_t i = 0; i < tensors->weight_count; i++) {
		uint32_t layer = i / WEIGHT_COUNT;
		enum weight weight = (enum weight)(i % WEIGHT_COUNT);
		if (layer >= weight_stored_count(model, weight)) {
			continue;
		}
		struct weight_shape shape = weight_shape(model, weight, shard);
		TRY(allocate(&tensors->weights[i], (uint64_t)shape.rows * shape.columns,
			sizeof(uint16_t), weight_name(weight), error));
		TRY(cuda_status(cuda_upload_weight(
					upload, tensors->weights[i], weights, weight, layer, shard),
			"uploading weights", error));
	}
	return STATUS_OK;
}

static enum status load_rope(struct cuda_tensors *tensors, const struct model_config *model,
	uint64_t positions, struct error *error)
{
	size_t count = (size_t)positions * model->head_dim;

	TRY(allocate(&tensors->rope, count, sizeof(float), "the rope table", error));
	float *table = memory_take(count, sizeof(*table));
	rope_table_fill(table, u32_from(positions), model->head_dim, model->rope_theta);
	int code = (int)cudaMemcpy(
		tensors->rope, table, count * sizeof(float), cudaMemcpyHostToDevice);
	free(table);
	return cuda_status(code, "cudaMemcpy", error);
}

static enum status allocate_step_tensors(struct cuda_tensors *tensors,
	const struct model_config *model, const struct model_step_limits *limits,
	struct error *error)
{
	void *const pointers[] = {
		[STEP_TENSOR_SAMPLED_HIDDEN] = &tensors->sampled_hidden,
		[STEP_TENSOR_LOGITS] = &tensors->logits,
		[STEP_TENSOR_SAMPLER_TILES] = &tensors->sampler_tiles,
		[STEP_TENSOR_ARRIVALS] = &tensors->arrivals,
		[STEP_TENSOR_SPLIT_K_SUMS] = &tensors->split_k_sums,
		[STEP_TENSOR_RESIDUAL] = &tensors->residual,
		[STEP_TENSOR_HIDDEN] = &tensors->hidden,
		[STEP_TENSOR_QKV] = &tensors->qkv,
		[STEP_TENSOR_QUERY] = &tensors->query,
		[STEP_TENSOR_ATTENDED] = &tensors->attended,
		[STEP_TENSOR_GATE_UP] = &tensors->gate_up,
		[STEP_TENSOR_ACTIVATED] = &tensors->activated,
		[STEP_TENSOR_PARTIAL_OUT] = &tensors->partial_out,
		[STEP_TENSOR_PARTIAL_STATE] = &tensors->partial_state,
	};

	static_assert(sizeof(pointers) / sizeof(pointers[0]) == STEP_TENSOR_COUNT, "one each");
	for (uint32_t i = 0; i < STEP_TENSOR_COUNT; i++) {
		struct step_tensor_size size = step_tensor_size((enum step_tensor)i, model, limits);
		TRY(allocate(pointers[i], size.count, size.element_bytes, "the tensors of a step",
			error));
	}
	struct step_tensor_size sums = step_tensor_size(STEP_TENSOR_SPLIT_K_SUMS, model, limits);
	struct step_tensor_size arrivals = step_tensor_size(STEP_TENSOR_ARRIVALS, model, limits);
	tensors->split_k_bytes = sums.count * sums.element_bytes;
	return cuda_status(
		(int)cudaMemset(tensors->arrivals, 0, arrivals.count * arrivals.element_bytes),
		"cudaMemset", error);
}

enum status cuda_tensors_open(struct cuda_tensors *tensors, const struct weights *weights,
	struct weight_shard shard, const struct model_step_limits *limits, struct error *error)
{
	const struct model_config own = weight_shard_config(weights_config(weights), shard);
	struct cuda_upload upload = {0};

	enum status status = load_weights(tensors, &upload, weights, shard, error);
	int code = cuda_upload_close(&upload);
	TRY(status);
	TRY(cuda_status(code, "uploading weights", error));
	TRY(allocate_step_tensors(tensors, &own, limits, error));
	return load_rope(tensors, &own, limits->positions, error); /* it grows with max_model_len */
}

void cuda_tensors_close(struct cuda_tensors *tensors)
{
	void *const memory[] = {tensors->rope, tensors->pool, tensors->residual, tensors->hidden,
		tensors->qkv, tensors->query, tensors->attended, tensors->gate_up,
		tensors->activated, tensors->sampled_hidden, tensors->logits,
		tensors->sampler_tiles, tensors->partial_out, tensors->partial_state,
		tensors->arrivals, tensors->split_k_sums};

	for (uint32_t i = 0; tensors->weights != NULL && i < tensors->weight_count; i++) {
		cudaFree(tensors->weights[i]);
	}
	for (size_t i = 0; i < sizeof(memory) / sizeof(memory[0]); i++) {
		cudaFree(memory[i]);
	}
	free(tensors->weights);
}

enum status cuda_tensors_open_pool(struct cuda_tensors *tensors, const struct model_config *model,
	uint64_t pool_bytes, struct error *error)
{
	tensors->pool_elements = pool_bytes / 2 / model->num_hidden_layers / sizeof(uint16_t);
	TRY(allocate(&tensors->pool, pool_bytes, 1, "the KV pool", error));
	return cuda_status(cuda_fill_dummy(tensors->pool, pool_bytes / sizeof(uint16_t)),
		"filling the KV pool", error);
}

void cuda_tensors_close_pool(struct cuda_tensors *tensors)
{
	cudaFree(tensors->pool);
	tensors->pool = NULL;
}

const uint16_t *cuda_tensors_weight(
	const struct cuda_tensors *tensors, enum weight weight, uint32_t layer)
{
	return tensors->weights[layer * WEIGHT_COUNT + weight];
}
