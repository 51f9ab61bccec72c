#include "engine/reference/reference_share.h"

#include "engine/base/memory.h"
#include "kernels/attention/decode.h"
#include "kernels/attention/prefill.h"
#include "kernels/attention/qk_norm_rope_store.h"
#include "kernels/linear/linear.h"
#include "kernels/rows/silu_mul.h"

#include <stdlib.h>
#include <string.h>

/* ---- weights ---- */

struct reference_tensor reference_tensor_load(const struct weights *weights, enum weight weight,
	uint32_t layer, struct weight_shard shard, enum rounding rounding)
{
	const struct model_config *model = weights_config(weights);
	struct weight_shape shape = weight_shape(model, weight, shard);
	size_t count = (size_t)shape.rows * shape.columns;
	bool is_bf16 = rounding == ROUNDING_BF16 || model->dtype == MODEL_DTYPE_BFLOAT16;
	struct reference_tensor tensor = {0};

	if (is_bf16) {
		tensor.bf16 = memory_take(count, sizeof(*tensor.bf16));
		weights_read_bf16(weights, weight, layer, shard, 0, shape.rows, tensor.bf16);
	}
	if (!is_bf16 || shape.rows == 1) {
		tensor.f32 = memory_take(count, sizeof(*tensor.f32));
	}
	if (!is_bf16) {
		weights_read_f32(weights, weight, layer, shard, 0, shape.rows, tensor.f32);
	} else if (shape.rows == 1) {
		for (size_t i = 0; i < count; i++) {
			tensor.f32[i] = bf16_to_float(tensor.bf16[i]);
		}
		free(tensor.bf16);
		tensor.bf16 = NULL;
	}
	return tensor;
}

void reference_tensor_free(struct reference_tensor *tensor)
{
	free(tensor->f32);
	free(tensor->bf16);
}

static struct reference_tensor *tensor_of(
	const struct reference_share *share, enum weight weight, uint32_t layer)
{
	return &share->tensors[(size_t)layer * WEIGHT_COUNT + weight];
}

const float *reference_share_vector(
	const struct reference_share *share, enum weight weight, uint32_t layer)
{
	return tensor_of(share, weight, layer)->f32;
}

static void load_weights(
	struct reference_share *share, const struct reference_share_options *options)
{
	const struct model_config *whole = weights_config(options->weights);

	share->tensors = memory_take(
		(size_t)whole->num_hidden_layers * WEIGHT_COUNT, sizeof(*share->tensors));
	for (uint32_t layer = 0; layer < whole->num_hidden_layers; layer++) {
		for (enum weight weight = 0; weight < WEIGHT_COUNT; weight++) {
			if (weight != WEIGHT_EMBEDDING &&
				layer < weight_stored_count(whole, weight)) {
				*tensor_of(share, weight, layer) =
					reference_tensor_load(options->weights, weight, layer,
						options->shard, options->rounding);
			}
		}
	}
	share->vocabulary = weight_shard_rows(whole, WEIGHT_LM_HEAD, 0, options->shard);
	share->head = reference_matrix(tensor_of(share, WEIGHT_LM_HEAD, 0));
	if (weight_is_tied(whole, WEIGHT_LM_HEAD)) {
		share->head = matrix_rows(reference_matrix(options->embedding),
			share->vocabulary.first, whole->hidden_size);
	}
}

/* ---- opening ---- */

void reference_share_open(
	struct reference_share *share, const struct reference_share_options *options)
{
	const struct model_config *whole = weights_config(options->weights);
	size_t tokens = options->token_capacity;

	memset(share, 0, sizeof(*share));
	share->shard = options->shard;
	share->rounding = options->rounding;
	share->model = weight_shard_config(whole, options->shard);
	share->rope = options->rope;
	share->shape = (struct attention_shape){
		.head_count = share->model.num_attention_heads,
		.kv_head_count = share->model.num_key_value_heads,
		.head_dim = share->model.head_dim,
		.block_size = options->block_size,
		.table_width = options->table_width,
	};
	load_weights(share, options);
	size_t query_width = model_config_query_size(&share->model);
	size_t kv_width = model_config_kv_size(&share->model);
	share->pool_elements = (uint64_t)options->block_count * options->block_size * kv_width;
	share->pool = memory_take(
		(size_t)share->pool_elements * 2 * whole->num_hidden_layers, sizeof(float));
	share->qkv = memory_take(tokens * (query_width + 2 * kv_width), sizeof(float));
	share->query = memory_take(tokens * query_width, sizeof(float));
	share->attended = memory_take(tokens * query_width, sizeof(float));
	share->gate_up = memory_take(tokens * 2 * share->model.intermediate_size, sizeof(float));
	share->activated = memory_take(tokens * share->model.intermediate_size, sizeof(float));
}

void reference_share_close(struct reference_share *share)
{
	for (size_t i = 0; i < (size_t)share->model.num_hidden_layers * WEIGHT_COUNT; i++) {
		reference_tensor_free(&share->tensors[i]);
	}
	free(share->tensors);
	free(share->pool);
	free(share->qkv);
	free(share->query);
	free(share->attended);
	free(share->gate_up);
	free(share->activated);
}

/* ---- running ---- */

/* out (row_count, rows of the weight) = in times the weight, plus the bias. */
static void multiply(const struct reference_share *share, float *out, const float *in,
	enum weight weight, const float *bias, uint32_t layer, uint32_t row_count)
{
	struct weight_shape shape = weight_shape(&share->model, weight, WEIGHT_WHOLE);

	linear_cpu(out, in, reference_matrix(tensor_of(share, weight, layer)), bias, row_count,
		shape.columns, shape.rows, share->rounding);
}

void reference_share_attention(struct reference_share *share, float *partial, const float *hidden,
	const struct batch *batch, const uint32_t *tables, uint32_t layer)
{
	const struct qk_norm_rope norm = {
		.q_weight = reference_share_vector(share, WEIGHT_Q_NORM, layer),
		.k_weight = reference_share_vector(share, WEIGHT_K_NORM, layer),
		.rope = share->rope,
		.epsilon = (float)share->model.rms_norm_eps,
	};
	/* The sum over ranks has the bias once. */
	const float *o_bias =
		share->shard.rank == 0 ? reference_share_vector(share, WEIGHT_O_BIAS, layer) : NULL;
	float *keys = share->pool + 2 * layer * share->pool_elements;
	float *values = keys + share->pool_elements;
	uint32_t decodes = (uint32_t)batch->counts.decode_rows;

	multiply(share, share->qkv, hidden, WEIGHT_QKV,
		reference_share_vector(share, WEIGHT_QKV_BIAS, layer), layer, batch->token_count);
	qk_norm_rope_store_cpu(share->query, keys, values, share->qkv, batch->position, batch->slot,
		batch->token_count, &norm, &share->shape, share->rounding);
	decode_attention_cpu(share->attended, share->query, keys, values, tables, batch->row,
		batch->context_length, decodes, &share->shape, share->rounding);
	prefill_attention_cpu(share->attended, share->query, keys, values, tables,
		batch->row + decodes, batch->query_start + decodes, batch->context_length + decodes,
		batch->row_count - decodes, &share->shape, share->rounding);
	multiply(share, partial, share->attended, WEIGHT_O, o_bias, layer, batch->token_count);
}

void reference_share_mlp(struct reference_share *share, float *partial, const float *hidden,
	uint32_t layer, uint32_t token_count)
{
	multiply(share, share->gate_up, hidden, WEIGHT_GATE_UP, NULL, layer, token_count);
	silu_mul_cpu(share->activated, share->gate_up, token_count, share->model.intermediate_size,
		share->rounding);
	multiply(share, partial, share->activated, WEIGHT_DOWN, NULL, layer, token_count);
}

void reference_share_logits(
	const struct reference_share *share, float *logits, const float *hidden, uint32_t row_count)
{
	linear_cpu(logits, hidden, share->head, NULL, row_count, share->model.hidden_size,
		share->vocabulary.count, ROUNDING_NONE);
}
