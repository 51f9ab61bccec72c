#include "engine/runners/reference_forward.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "kernels/rows/add_rms_norm.h"
#include "kernels/attention/decode.h"
#include "kernels/rows/embedding.h"
#include "kernels/rows/gather_rows.h"
#include "kernels/linear/linear.h"
#include "kernels/attention/prefill.h"
#include "kernels/attention/qk_norm_rope_store.h"
#include "kernels/rows/rms_norm.h"
#include "kernels/attention/rope_table.h"
#include "kernels/sampling/sampler.h"
#include "kernels/rows/silu_mul.h"

#include <stdlib.h>

/* A weight in memory: a matrix in bf16 where that is exact or requested, else in float32; a
   vector in float32 always, rounded alike. */
struct tensor {
	float *f32;
	uint16_t *bf16;
};

struct forward {
	struct model_config model;
	struct forward_options options;
	struct attention_shape shape;
	struct tensor *tensors; /* (num_hidden_layers, WEIGHT_COUNT); not layered: of layer 0 */

	float *pool;		/* [layer][k|v][block][kv_head][token][head_dim] */
	uint64_t pool_elements; /* of the keys, or the values, of one layer */
	float *rope;		/* (position_count, head_dim / 2, 2) */

	/* tensors of a step, T = token_capacity, S = sample_capacity */
	float *residual;	 /* (T, hidden_size) */
	float *hidden;		 /* (T, hidden_size) */
	float *qkv;		 /* (T, (heads + 2 * kv_heads) * head_dim) */
	float *query;		 /* (T, heads, head_dim) */
	float *attended;	 /* (T, heads, head_dim) */
	float *gate_up;		 /* (T, 2 * intermediate_size) */
	float *activated;	 /* (T, intermediate_size) */
	float *sampled_residual; /* (S, hidden_size) */
	float *sampled_hidden;	 /* (S, hidden_size) */
	float *logits;		 /* (S, vocab_size) */

	/* of the sampled rows, (S) each */
	uint32_t *sampled_token; /* index of the row's last token */
	uint64_t *row_key;
	float *temperature;
};

/* ---- opening ---- */

uint64_t forward_block_bytes(const struct model_config *model, uint32_t block_size)
{
	return (uint64_t)block_size * 2 * model->num_hidden_layers * model->num_key_value_heads *
	       model->head_dim * sizeof(float);
}

static struct tensor load_tensor(
	const struct weights *weights, enum weight weight, uint32_t layer, enum rounding rounding)
{
	const struct model_config *model = weights_config(weights);
	struct weight_shape shape = weight_shape(model, weight, WEIGHT_WHOLE);
	size_t count = (size_t)shape.rows * shape.columns;
	bool is_bf16 = rounding == ROUNDING_BF16 || model->dtype == MODEL_DTYPE_BFLOAT16;
	struct tensor tensor = {0};

	if (is_bf16) {
		tensor.bf16 = memory_take(count, sizeof(*tensor.bf16));
		weights_read_bf16(weights, weight, layer, WEIGHT_WHOLE, 0, shape.rows, tensor.bf16);
	}
	if (!is_bf16 || shape.rows == 1) {
		tensor.f32 = memory_take(count, sizeof(*tensor.f32));
	}
	if (!is_bf16) {
		weights_read_f32(weights, weight, layer, WEIGHT_WHOLE, 0, shape.rows, tensor.f32);
	} else if (shape.rows == 1) {
		for (size_t i = 0; i < count; i++) {
			tensor.f32[i] = bf16_to_float(tensor.bf16[i]);
		}
		free(tensor.bf16);
		tensor.bf16 = NULL;
	}
	return tensor;
}

static void load_weights(struct forward *forward)
{
	const struct model_config *model = &forward->model;

	forward->tensors = memory_take(
		(size_t)model->num_hidden_layers * WEIGHT_COUNT, sizeof(*forward->tensors));
	for (uint32_t layer = 0; layer < model->num_hidden_layers; layer++) {
		for (enum weight weight = 0; weight < WEIGHT_COUNT; weight++) {
			bool is_tied = weight == WEIGHT_LM_HEAD && model->tie_word_embeddings;
			if (weight_exists(model, weight) && !is_tied &&
				(layer == 0 || weight_is_layered(weight))) {
				forward->tensors[layer * WEIGHT_COUNT + weight] =
					load_tensor(forward->options.weights, weight, layer,
						forward->options.rounding);
			}
		}
	}
	forward->options.weights = NULL;
}

static void take_step_tensors(struct forward *forward)
{
	const struct model_config *model = &forward->model;
	size_t tokens = forward->options.token_capacity;
	size_t samples = forward->options.sample_capacity;
	size_t query_width = (size_t)model->num_attention_heads * model->head_dim;
	size_t kv_width = (size_t)model->num_key_value_heads * model->head_dim;

	forward->residual = memory_take(tokens * model->hidden_size, sizeof(float));
	forward->hidden = memory_take(tokens * model->hidden_size, sizeof(float));
	forward->qkv = memory_take(tokens * (query_width + 2 * kv_width), sizeof(float));
	forward->query = memory_take(tokens * query_width, sizeof(float));
	forward->attended = memory_take(tokens * query_width, sizeof(float));
	forward->gate_up = memory_take(tokens * 2 * model->intermediate_size, sizeof(float));
	forward->activated = memory_take(tokens * model->intermediate_size, sizeof(float));
	forward->sampled_residual = memory_take(samples * model->hidden_size, sizeof(float));
	forward->sampled_hidden = memory_take(samples * model->hidden_size, sizeof(float));
	forward->logits = memory_take(samples * model->vocab_size, sizeof(float));
	forward->sampled_token = memory_take(samples, sizeof(*forward->sampled_token));
	forward->row_key = memory_take(samples, sizeof(*forward->row_key));
	forward->temperature = memory_take(samples, sizeof(*forward->temperature));
}

enum status forward_open(
	struct forward **out, const struct forward_options *options, struct error *error)
{
	const struct model_config *model = weights_config(options->weights);
	u128 pool_bytes =
		(u128)options->block_count * forward_block_bytes(model, options->block_size);

	*out = NULL;
	if (pool_bytes > UINT64_C(1) << 46) {
		return error_set(error, STATUS_MEMORY,
			"a KV pool of %u blocks of %u tokens takes %llu GiB of host memory",
			options->block_count, options->block_size,
			(unsigned long long)(pool_bytes >> 30));
	}
	if ((uint64_t)options->position_count * model->head_dim > UINT64_C(1) << 31) {
		return error_set(error, STATUS_MEMORY,
			"sines and cosines of %u positions of %u numbers take %llu GiB of host "
			"memory: lower --max-model-len",
			options->position_count, model->head_dim,
			(unsigned long long)options->position_count * model->head_dim >> 28);
	}
	if (model->head_dim > ATTENTION_HEAD_DIM_MAX || model->head_dim % 2 != 0) {
		return error_set(error, STATUS_INPUT,
			"head_dim: found %u, expected an even number of at most %d",
			model->head_dim, ATTENTION_HEAD_DIM_MAX);
	}
	struct forward *forward = memory_take(1, sizeof(*forward));
	forward->model = *model;
	forward->options = *options;
	forward->shape = (struct attention_shape){
		.head_count = model->num_attention_heads,
		.kv_head_count = model->num_key_value_heads,
		.head_dim = model->head_dim,
		.block_size = options->block_size,
		.table_width = options->table_width,
	};
	load_weights(forward);
	forward->pool_elements =
		(uint64_t)(pool_bytes / sizeof(float) / 2) / model->num_hidden_layers;
	forward->pool = memory_take((size_t)(pool_bytes / sizeof(float)), sizeof(float));
	forward->rope = memory_take(
		(size_t)options->position_count * model->head_dim, sizeof(*forward->rope));
	rope_table_fill(forward->rope, options->position_count, model->head_dim, model->rope_theta);
	take_step_tensors(forward);
	*out = forward;
	return STATUS_OK;
}

void forward_close(struct forward *forward)
{
	if (forward == NULL) {
		return;
	}
	for (size_t i = 0; i < (size_t)forward->model.num_hidden_layers * WEIGHT_COUNT; i++) {
		free(forward->tensors[i].f32);
		free(forward->tensors[i].bf16);
	}
	free(forward->tensors);
	free(forward->pool);
	free(forward->rope);
	free(forward->residual);
	free(forward->hidden);
	free(forward->qkv);
	free(forward->query);
	free(forward->attended);
	free(forward->gate_up);
	free(forward->activated);
	free(forward->sampled_residual);
	free(forward->sampled_hidden);
	free(forward->logits);
	free(forward->sampled_token);
	free(forward->row_key);
	free(forward->temperature);
	free(forward);
}

/* ---- running ---- */

static struct matrix matrix_of(const struct forward *forward, enum weight weight, uint32_t layer)
{
	const struct tensor *tensor = &forward->tensors[layer * WEIGHT_COUNT + weight];

	return (struct matrix){.f32 = tensor->f32, .bf16 = tensor->bf16};
}

/* NULL for a bias that the model does not have. */
static const float *vector_of(const struct forward *forward, enum weight weight, uint32_t layer)
{
	return forward->tensors[layer * WEIGHT_COUNT + weight].f32;
}

/* out (row_count, rows of the weight) = in times the weight, plus its bias. */
static void multiply(const struct forward *forward, float *out, const float *in, enum weight weight,
	const float *bias, uint32_t layer, uint32_t row_count)
{
	struct weight_shape shape = weight_shape(&forward->model, weight, WEIGHT_WHOLE);

	linear_cpu(out, in, matrix_of(forward, weight, layer), bias, row_count, shape.columns,
		shape.rows, forward->options.rounding);
}

/* hidden = attention of hidden, with the layer's keys and values stored first. */
static void run_attention(
	struct forward *forward, const struct batch *batch, const uint32_t *tables, uint32_t layer)
{
	const struct qk_norm_rope norm = {
		.q_weight = vector_of(forward, WEIGHT_Q_NORM, layer),
		.k_weight = vector_of(forward, WEIGHT_K_NORM, layer),
		.rope = forward->rope,
		.epsilon = (float)forward->model.rms_norm_eps,
	};
	enum rounding rounding = forward->options.rounding;
	float *keys = forward->pool + 2 * layer * forward->pool_elements;
	float *values = keys + forward->pool_elements;
	uint32_t decodes = (uint32_t)batch->counts.decode_rows;

	multiply(forward, forward->qkv, forward->hidden, WEIGHT_QKV,
		vector_of(forward, WEIGHT_QKV_BIAS, layer), layer, batch->token_count);
	qk_norm_rope_store_cpu(forward->query, keys, values, forward->qkv, batch->position,
		batch->slot, batch->token_count, &norm, &forward->shape, rounding);
	decode_attention_cpu(forward->attended, forward->query, keys, values, tables, batch->row,
		batch->context_length, decodes, &forward->shape, rounding);
	prefill_attention_cpu(forward->attended, forward->query, keys, values, tables,
		batch->row + decodes, batch->query_start + decodes, batch->context_length + decodes,
		batch->row_count - decodes, &forward->shape, rounding);
	multiply(forward, forward->hidden, forward->attended, WEIGHT_O,
		vector_of(forward, WEIGHT_O_BIAS, layer), layer, batch->token_count);
}

/* hidden = the gated MLP of hidden. */
static void run_mlp(struct forward *forward, uint32_t layer, uint32_t token_count)
{
	multiply(forward, forward->gate_up, forward->hidden, WEIGHT_GATE_UP, NULL, layer,
		token_count);
	silu_mul_cpu(forward->activated, forward->gate_up, token_count,
		forward->model.intermediate_size, forward->options.rounding);
	multiply(forward, forward->hidden, forward->activated, WEIGHT_DOWN, NULL, layer,
		token_count);
}

static void run_layers(struct forward *forward, const struct batch *batch, const uint32_t *tables)
{
	const struct model_config *model = &forward->model;
	uint32_t tokens = batch->token_count;
	float epsilon = (float)model->rms_norm_eps;
	enum rounding rounding = forward->options.rounding;

	rms_norm_cpu(forward->hidden, forward->residual, vector_of(forward, WEIGHT_INPUT_NORM, 0),
		tokens, model->hidden_size, epsilon, rounding);
	for (uint32_t layer = 0; layer < model->num_hidden_layers; layer++) {
		run_attention(forward, batch, tables, layer);
		add_rms_norm_cpu(forward->hidden, forward->residual, forward->hidden,
			vector_of(forward, WEIGHT_POST_NORM, layer), tokens, model->hidden_size,
			epsilon, rounding);
		run_mlp(forward, layer, tokens);
		if (layer + 1 < model->num_hidden_layers) {
			add_rms_norm_cpu(forward->hidden, forward->residual, forward->hidden,
				vector_of(forward, WEIGHT_INPUT_NORM, layer + 1), tokens,
				model->hidden_size, epsilon, rounding);
		}
	}
}

/* Lists the sampled rows; returns how many. */
static uint32_t list_sampled(struct forward *forward, const struct batch *batch)
{
	uint32_t count = 0;

	for (uint32_t r = 0; r < batch->row_count; r++) {
		if (batch->is_sampled[r]) {
			check(count < forward->options.sample_capacity);
			forward->sampled_token[count] = batch->query_start[r + 1] - 1;
			forward->row_key[count] = sampler_row_key(forward->options.seed,
				batch->request[r], batch->sample_position[r]);
			forward->temperature[count] = batch->temperature[r];
			count++;
		}
	}
	check(count == batch->counts.sampled_rows);
	return count;
}

static void run_head(struct forward *forward, const struct batch *batch, int32_t *sampled)
{
	const struct model_config *model = &forward->model;
	uint32_t count = list_sampled(forward, batch);
	enum weight head = model->tie_word_embeddings ? WEIGHT_EMBEDDING : WEIGHT_LM_HEAD;

	gather_rows_cpu(forward->sampled_residual, forward->residual, forward->sampled_token, count,
		model->hidden_size);
	gather_rows_cpu(forward->sampled_hidden, forward->hidden, forward->sampled_token, count,
		model->hidden_size);
	add_rms_norm_cpu(forward->sampled_hidden, forward->sampled_residual,
		forward->sampled_hidden, vector_of(forward, WEIGHT_FINAL_NORM, 0), count,
		model->hidden_size, (float)model->rms_norm_eps, forward->options.rounding);
	linear_cpu(forward->logits, forward->sampled_hidden, matrix_of(forward, head, 0), NULL,
		count, model->hidden_size, model->vocab_size, ROUNDING_NONE);
	sampler_cpu(sampled, forward->logits, forward->row_key, forward->temperature, count,
		model->vocab_size);
}

static void batch_check(const struct forward *forward, const struct batch *batch)
{
	uint32_t decodes = (uint32_t)batch->counts.decode_rows;

	check(batch->row_count >= 1);
	check(batch->token_count <= forward->options.token_capacity);
	check(batch->counts.decode_rows + batch->counts.prefill_rows == batch->row_count);
	check(batch->query_start[decodes] == decodes); /* decode rows come first, with one token
							  each */
	check(batch->query_start[batch->row_count] == batch->token_count);
	for (uint32_t t = 0; t < batch->token_count; t++) {
		check(batch->position[t] < forward->options.position_count);
		check(batch->slot[t] <
			(int64_t)forward->options.block_count * forward->options.block_size);
	}
}

void forward_run(struct forward *forward, const struct batch *batch, const int32_t *token_ids,
	const uint32_t *tables, int32_t *sampled)
{
	batch_check(forward, batch);
	embedding_cpu(forward->residual, matrix_of(forward, WEIGHT_EMBEDDING, 0), token_ids,
		batch->token_count, forward->model.vocab_size, forward->model.hidden_size,
		forward->options.rounding);
	run_layers(forward, batch, tables);
	run_head(forward, batch, sampled);
}

const float *forward_logits(const struct forward *forward)
{
	return forward->logits;
}
