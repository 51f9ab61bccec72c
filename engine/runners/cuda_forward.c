#include "engine/runners/cuda_forward.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "engine/runners/cuda_pass.h"
#include "engine/runners/cuda_status.h"
#include "kernels/linear/cublaslt.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>

enum status cuda_forward_check(
	const struct model_config *whole, uint32_t ranks, uint32_t block_size, struct error *error)
{
	const struct model_config model =
		weight_shard_config(whole, (struct weight_shard){.ranks = ranks});
	uint32_t dim = model.head_dim;
	uint32_t group = model.num_attention_heads / model.num_key_value_heads;

	if (dim != 32 && dim != 64 && dim != 128) {
		return error_set(error, STATUS_INPUT,
			"head_dim %u: the CUDA runner computes 32, 64 and 128", dim);
	}
	if (group > 8) {
		return error_set(error, STATUS_INPUT,
			"%u query heads share a key/value head: the CUDA runner computes up to 8",
			group);
	}
	if (model.hidden_size % 8 != 0 || model.intermediate_size % 8 != 0) {
		return error_set(error, STATUS_INPUT,
			"hidden_size %u, intermediate_size %u%s: the CUDA runner needs multiples "
			"of 8",
			model.hidden_size, model.intermediate_size, ranks > 1 ? " of a rank" : "");
	}
	if (block_size % PAGED_KV_STEP != 0) {
		return error_set(error, STATUS_USAGE,
			"--block-size %u: the CUDA runner takes multiples of %d", block_size,
			PAGED_KV_STEP);
	}
	return STATUS_OK;
}

enum status cuda_forward_open(
	struct cuda_forward **out, const struct cuda_forward_options *options, struct error *error)
{
	struct cuda_forward *forward = memory_take(1, sizeof(*forward));
	const struct model_config *whole = weights_config(options->weights);

	*out = forward;
	forward->model = weight_shard_config(whole, options->shard);
	forward->vocabulary = weight_shard_rows(whole, WEIGHT_LM_HEAD, 0, options->shard);
	forward->options = *options;
	forward->options.weights = NULL;
	forward->shape = (struct attention_shape){
		.head_count = forward->model.num_attention_heads,
		.kv_head_count = forward->model.num_key_value_heads,
		.head_dim = forward->model.head_dim,
		.block_size = options->block_size,
		.table_width = options->table_width,
	};
	forward->device = linear_device(kernel_path_of_device());
	check((options->shard.ranks == 1) == (options->exchange == NULL));
	TRY(cuda_forward_check(whole, options->shard.ranks, options->block_size, error));
	TRY(cuda_status(cublaslt_open(&forward->library), "opening cuBLASLt", error));
	return cuda_tensors_open(
		&forward->tensors, options->weights, options->shard, &options->limits, error);
}

void cuda_forward_close(struct cuda_forward *forward)
{
	if (forward == NULL) {
		return;
	}
	cuda_tensors_close(&forward->tensors);
	cublaslt_close(forward->library);
	free(forward);
}

uint64_t cuda_forward_block_bytes(const struct cuda_forward *forward)
{
	return model_config_kv_bytes_per_token(&forward->model) * forward->options.block_size;
}

enum status cuda_forward_open_pool(
	struct cuda_forward *forward, uint32_t block_count, struct error *error)
{
	return cuda_tensors_open_pool(&forward->tensors, &forward->model,
		cuda_forward_block_bytes(forward) * block_count, error);
}

void cuda_forward_close_pool(struct cuda_forward *forward)
{
	cuda_tensors_close_pool(&forward->tensors);
}

/* ---- preparing ---- */

struct linear_shape cuda_forward_linear(const struct cuda_forward *forward, enum weight weight)
{
	struct weight_shape shape = weight_shape(&forward->model, weight, WEIGHT_WHOLE);

	return (struct linear_shape){
		.input_count = shape.columns, .output_count = shape.rows, .split_k = 1};
}

const uint16_t *cuda_forward_head(const struct cuda_forward *forward)
{
	size_t first = (size_t)forward->vocabulary.first * forward->model.hidden_size;

	return forward->model.tie_word_embeddings
		       ? cuda_tensors_weight(&forward->tensors, WEIGHT_EMBEDDING, 0) + first
		       : cuda_tensors_weight(&forward->tensors, WEIGHT_LM_HEAD, 0);
}

enum weight cuda_forward_o_bias(const struct cuda_forward *forward)
{
	return forward->options.shard.rank == 0 ? WEIGHT_O_BIAS : WEIGHT_COUNT;
}

bool cuda_forward_may_split_k(const struct cuda_forward *forward, enum weight weight)
{
	bool has_bias = weight == WEIGHT_O && weight_exists(&forward->model, WEIGHT_O_BIAS);

	return (weight == WEIGHT_O || weight == WEIGHT_DOWN) && !has_bias;
}

/* Weights of so many layers are larger than any L2 cache, where a launch is timed. */
enum { PREPARED_LAYERS = 8 };

/* Prepares both plans that rows of the layer may have: one chain for all rows, and split-K for
   decode rows. */
static enum status prepare_linear(struct cuda_forward *forward, uint16_t *out, const uint16_t *in,
	enum weight weight, enum weight bias, struct CUstream_st *stream, struct error *error)
{
	const struct linear_shape shape = cuda_forward_linear(forward, weight);
	const struct model_step_limits *limits = &forward->options.limits;
	const uint16_t *layers[PREPARED_LAYERS];
	const struct cublaslt_weights weights = {
		.layers = layers,
		.count = u32_from(u64_min(PREPARED_LAYERS, forward->model.num_hidden_layers)),
	};
	const uint32_t split_k = linear_split_k(shape.input_count, shape.output_count);

	for (uint32_t i = 0; i < weights.count; i++) {
		layers[i] = cuda_tensors_weight(&forward->tensors, weight, i);
	}
	TRY(cuda_status(
		cublaslt_prepare(forward->library, out, in, &weights,
			bias == WEIGHT_COUNT ? NULL
					     : cuda_tensors_weight(&forward->tensors, bias, 0),
			u32_from(limits->tokens), shape.input_count, shape.output_count, stream),
		weight_name(weight), error));
	if (split_k == 1 || (weight != WEIGHT_O && weight != WEIGHT_DOWN)) {
		return STATUS_OK;
	}
	return cuda_status(cublaslt_prepare_split_k(forward->library, forward->tensors.split_k_sums,
				   in, &weights, u32_from(limits->samples), shape.input_count,
				   shape.output_count, split_k, stream),
		weight_name(weight), error);
}

enum status cuda_forward_prepare(
	struct cuda_forward *forward, struct CUstream_st *stream, struct error *error)
{
	const struct model_config *model = &forward->model;
	const struct cuda_tensors *t = &forward->tensors;
	const uint16_t *const head[] = {cuda_forward_head(forward)};
	const struct cublaslt_weights heads = {.layers = head, .count = 1};

	TRY(prepare_linear(forward, t->qkv, t->hidden, WEIGHT_QKV, WEIGHT_QKV_BIAS, stream, error));
	TRY(prepare_linear(forward, t->hidden, t->attended, WEIGHT_O, cuda_forward_o_bias(forward),
		stream, error));
	TRY(prepare_linear(
		forward, t->gate_up, t->hidden, WEIGHT_GATE_UP, WEIGHT_COUNT, stream, error));
	TRY(prepare_linear(
		forward, t->hidden, t->activated, WEIGHT_DOWN, WEIGHT_COUNT, stream, error));
	return cuda_status(cublaslt_prepare_logits(forward->library, t->logits, t->sampled_hidden,
				   &heads, u32_from(forward->options.limits.samples),
				   model->hidden_size, model->vocab_size, stream),
		"lm_head", error);
}

enum status cuda_forward_read_block(
	const struct cuda_forward *forward, uint32_t block, uint16_t *out, struct error *error)
{
	uint32_t pieces = 2 * forward->model.num_hidden_layers;
	size_t elements = cuda_forward_block_bytes(forward) / pieces / sizeof(uint16_t);

	int code = 0;

	for (uint32_t i = 0; i < pieces && code == 0; i++) {
		code = (int)cudaMemcpy(out + i * elements,
			forward->tensors.pool + i * forward->tensors.pool_elements +
				block * elements,
			elements * sizeof(uint16_t), cudaMemcpyDeviceToHost);
	}
	return cuda_status(code, "cudaMemcpy", error);
}

const float *cuda_forward_logits(const struct cuda_forward *forward)
{
	return forward->tensors.logits;
}

struct attention_shape cuda_forward_shape(const struct cuda_forward *forward)
{
	return forward->shape;
}

uint32_t cuda_forward_vocabulary(const struct cuda_forward *forward)
{
	return forward->model.vocab_size;
}
