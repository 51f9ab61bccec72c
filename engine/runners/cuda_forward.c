#include "engine/runners/cuda_forward.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "engine/runners/cuda_weights.h"
#include "engine/profiling/nvtx.h"
#include "kernels/rows/add_rms_norm.h"
#include "kernels/linear/linear.h"
#include "kernels/rows/embedding.h"
#include "kernels/linear/cublaslt.h"
#include "kernels/attention/qk_norm_rope_store.h"
#include "kernels/rows/rms_norm.h"
#include "kernels/attention/rope_table.h"
#include "kernels/sampling/sampler.h"
#include "kernels/rows/silu_mul.h"

#include <assert.h>
#include <cuda_runtime_api.h>
#include <stdlib.h>

enum { PARTS = 4 }; /* of linear_split_k(), where it is not 1 */

struct cuda_forward {
	struct model_config model;
	struct cuda_forward_options options;
	struct attention_shape shape;
	struct cublaslt *products;
	uint16_t **tensors; /* (num_hidden_layers, WEIGHT_COUNT); not layered: of layer 0 */
	float *rope;	    /* (limits.positions, head_dim / 2, 2) */

	uint16_t *pool;		/* [layer][k|v][block][kv_head][token][head_dim] */
	uint64_t pool_elements; /* of the keys, or the values, of one layer */

	/* tensors of a step, T = limits.tokens, S = limits.samples */
	uint16_t *residual;	  /* (T, hidden_size) */
	uint16_t *stream, *next;  /* of this step: the residual stream, and where it grows if */
	bool is_normed;		  /* products make their input out of it */
	uint16_t *hidden;	  /* (T, hidden_size) */
	uint16_t *qkv;		  /* (T, (heads + 2 * kv_heads) * head_dim) */
	uint16_t *query;	  /* (T, heads, head_dim) */
	uint16_t *attended;	  /* (T, heads, head_dim) */
	uint16_t *gate_up;	  /* (T, 2 * intermediate_size) */
	uint16_t *activated;	  /* (T, intermediate_size) */
	uint16_t *sampled_hidden; /* (S, hidden_size) */
	float *logits;		  /* (S, vocab_size) */
	void *sampler_tiles;
	float *partial_out;   /* (limits.splits, heads, head_dim) */
	float *partial_state; /* (limits.splits, heads, 2) */
	uint32_t *arrivals;   /* (1 + S * kv_heads) see struct decode_work */
	float *parts;	      /* (PARTS, S, hidden_size) see multiply() */

	struct nvtx_ranges *domain;

	/* the first failure of a pass */
	int code;
	const char *call;
};

enum status cuda_status(int code, const char *call, struct error *error)
{
	if (code == 0) {
		return STATUS_OK;
	}
	return error_set(error, STATUS_DEVICE, "%s: %s", call, cublaslt_error_text(code));
}

/* ---- opening ---- */

/* Device memory for count elements; a refusal says what was asked and what was free. */
static enum status take(
	void *out, uint64_t count, size_t size, const char *what, struct error *error)
{
	size_t free_bytes = 0, total_bytes = 0;

	if (cudaMalloc((void **)out, count * size) == cudaSuccess) {
		return STATUS_OK;
	}
	(void)cudaGetLastError();
	cudaMemGetInfo(&free_bytes, &total_bytes);
	return error_set(error, STATUS_MEMORY,
		"GPU memory: %.3f GB were asked for %s, %.3f of %.3f GB are free",
		(double)count * (double)size / 1e9, what, (double)free_bytes / 1e9,
		(double)total_bytes / 1e9);
}

static enum status load_weights(struct cuda_forward *forward, struct error *error)
{
	const struct model_config *model = &forward->model;
	const struct cuda_forward_options *options = &forward->options;
	enum status status = STATUS_OK;

	forward->tensors = memory_take(
		(size_t)model->num_hidden_layers * WEIGHT_COUNT, sizeof(*forward->tensors));
	for (uint32_t i = 0; i < model->num_hidden_layers * WEIGHT_COUNT; i++) {
		uint32_t layer = i / WEIGHT_COUNT;
		enum weight weight = (enum weight)(i % WEIGHT_COUNT);
		bool is_tied = weight == WEIGHT_LM_HEAD && model->tie_word_embeddings;
		if (status != STATUS_OK || !weight_exists(model, weight) || is_tied ||
			(layer > 0 && !weight_is_layered(weight))) {
			continue;
		}
		struct weight_shape shape = weight_shape(model, weight, options->shard);
		uint64_t count = (uint64_t)shape.rows * shape.columns;
		status = take(
			&forward->tensors[i], count, sizeof(uint16_t), weight_name(weight), error);
		if (status == STATUS_OK) {
			status = cuda_status(
				cuda_weights_upload(forward->tensors[i], options->weights, weight,
					layer, options->shard),
				"uploading weights", error);
		}
	}
	return status;
}

static enum status load_rope(struct cuda_forward *forward, struct error *error)
{
	size_t count = (size_t)forward->options.limits.positions * forward->model.head_dim;
	float *table = memory_take(count, sizeof(*table));

	rope_table_fill(table, u32_from(forward->options.limits.positions), forward->model.head_dim,
		forward->model.rope_theta);
	enum status status = take(&forward->rope, count, sizeof(float), "the rope table", error);
	if (status == STATUS_OK) {
		status = cuda_status((int)cudaMemcpy(forward->rope, table, count * sizeof(float),
					     cudaMemcpyHostToDevice),
			"cudaMemcpy", error);
	}
	free(table);
	return status;
}

/* What engine/shape/step_tensors.h says of the kernels' scratch is what they need. */
static_assert((int)STEP_DECODE_SPLIT == (int)DECODE_SPLIT, "splits of decode attention");
static_assert((int)STEP_SAMPLER_TILE == (int)SAMPLER_TILE, "tiles of the sampler");
static_assert((int)STEP_SAMPLER_TILE_BYTES == (int)SAMPLER_TILE_BYTES, "tiles of the sampler");

static void check_split_k(const struct model_config *model)
{
	const enum model_linear linears[] = {MODEL_LINEAR_O, MODEL_LINEAR_DOWN};

	for (uint32_t i = 0; i < sizeof(linears) / sizeof(linears[0]); i++) {
		struct model_linear_shape shape = model_linear_shape(model, linears[i]);
		check(step_split_k(shape.inputs, shape.outputs) ==
			linear_split_k(shape.inputs, shape.outputs));
	}
}

static enum status take_step_tensors(struct cuda_forward *forward, struct error *error)
{
	const struct model_config *model = &forward->model;
	void *const tensors[] = {
		[STEP_TENSOR_RESIDUAL] = &forward->residual,
		[STEP_TENSOR_HIDDEN] = &forward->hidden,
		[STEP_TENSOR_QKV] = &forward->qkv,
		[STEP_TENSOR_QUERY] = &forward->query,
		[STEP_TENSOR_ATTENDED] = &forward->attended,
		[STEP_TENSOR_GATE_UP] = &forward->gate_up,
		[STEP_TENSOR_ACTIVATED] = &forward->activated,
		[STEP_TENSOR_SAMPLED_HIDDEN] = &forward->sampled_hidden,
		[STEP_TENSOR_LOGITS] = &forward->logits,
		[STEP_TENSOR_SAMPLER_TILES] = &forward->sampler_tiles,
		[STEP_TENSOR_PARTIAL_OUT] = &forward->partial_out,
		[STEP_TENSOR_PARTIAL_STATE] = &forward->partial_state,
		[STEP_TENSOR_ARRIVALS] = &forward->arrivals,
		[STEP_TENSOR_SPLIT_K_SUMS] = &forward->parts,
	};

	static_assert(sizeof(tensors) / sizeof(tensors[0]) == STEP_TENSOR_COUNT, "one each");
	check_split_k(model);
	for (uint32_t i = 0; i < STEP_TENSOR_COUNT; i++) {
		struct step_tensor_size size =
			step_tensor_size((enum step_tensor)i, model, &forward->options.limits);
		TRY(take(tensors[i], size.count, size.element_bytes, "the tensors of a step",
			error));
	}
	struct step_tensor_size arrivals =
		step_tensor_size(STEP_TENSOR_ARRIVALS, model, &forward->options.limits);
	return cuda_status(
		(int)cudaMemset(forward->arrivals, 0, arrivals.count * arrivals.element_bytes),
		"cudaMemset", error);
}

static enum status check_shape(const struct cuda_forward *forward, struct error *error)
{
	const struct model_config *model = &forward->model;
	uint32_t dim = model->head_dim;

	if (dim != 32 && dim != 64 && dim != 128) {
		return error_set(error, STATUS_INPUT,
			"head_dim %u: the CUDA runner computes 32, 64 and 128", dim);
	}
	if (model->num_attention_heads / model->num_key_value_heads > 8) {
		return error_set(error, STATUS_INPUT,
			"%u query heads share a key/value head: the CUDA runner computes up to 8",
			model->num_attention_heads / model->num_key_value_heads);
	}
	if (model->hidden_size % 8 != 0 || model->intermediate_size % 8 != 0) {
		return error_set(error, STATUS_INPUT,
			"hidden_size %u, intermediate_size %u: the CUDA runner needs multiples of "
			"8",
			model->hidden_size, model->intermediate_size);
	}
	if (forward->options.block_size % 64 != 0) {
		return error_set(error, STATUS_USAGE,
			"--block-size %u: the CUDA runner takes multiples of 64",
			forward->options.block_size);
	}
	return STATUS_OK;
}

enum status cuda_forward_open(
	struct cuda_forward **out, const struct cuda_forward_options *options, struct error *error)
{
	struct cuda_forward *forward = memory_take(1, sizeof(*forward));

	*out = forward;
	forward->model = *weights_config(options->weights);
	forward->options = *options;
	forward->shape = (struct attention_shape){
		.head_count = forward->model.num_attention_heads,
		.kv_head_count = forward->model.num_key_value_heads,
		.head_dim = forward->model.head_dim,
		.block_size = options->block_size,
		.table_width = options->table_width,
	};
	forward->domain = options->ranges;
	check(options->shard.ranks == 1);
	enum status status = check_shape(forward, error);
	if (status == STATUS_OK) {
		status = cuda_status(cublaslt_open(&forward->products), "opening cuBLASLt", error);
	}
	if (status == STATUS_OK) {
		status = load_weights(forward, error);
	}
	if (status == STATUS_OK) {
		status = load_rope(forward, error);
	}
	if (status == STATUS_OK) {
		status = take_step_tensors(forward, error);
	}
	forward->options.weights = NULL;
	return status;
}

uint64_t cuda_forward_block_bytes(const struct cuda_forward *forward)
{
	return model_config_kv_bytes_per_token(&forward->model) * forward->options.block_size;
}

enum status cuda_forward_take_pool(
	struct cuda_forward *forward, uint32_t block_count, struct error *error)
{
	uint64_t bytes = cuda_forward_block_bytes(forward) * block_count;

	forward->pool_elements = bytes / 2 / forward->model.num_hidden_layers / sizeof(uint16_t);
	enum status status = take(&forward->pool, bytes, 1, "the KV pool", error);
	return status == STATUS_OK
		       ? cuda_status((int)cudaMemset(forward->pool, 0, bytes), "cudaMemset", error)
		       : status;
}

void cuda_forward_give_pool(struct cuda_forward *forward)
{
	cudaFree(forward->pool);
	forward->pool = NULL;
}

void cuda_forward_close(struct cuda_forward *forward)
{
	if (forward == NULL) {
		return;
	}
	for (uint32_t i = 0;
		forward->tensors != NULL && i < forward->model.num_hidden_layers * WEIGHT_COUNT;
		i++) {
		cudaFree(forward->tensors[i]);
	}
	void *const memory[] = {forward->rope, forward->pool, forward->residual, forward->hidden,
		forward->qkv, forward->query, forward->attended, forward->gate_up,
		forward->activated, forward->sampled_hidden, forward->logits,
		forward->sampler_tiles, forward->partial_out, forward->partial_state,
		forward->arrivals, forward->parts};
	for (size_t i = 0; i < sizeof(memory) / sizeof(memory[0]); i++) {
		cudaFree(memory[i]);
	}
	cublaslt_close(forward->products);
	free(forward->tensors);
	free(forward);
}

/* ---- running ---- */

static const uint16_t *tensor(
	const struct cuda_forward *forward, enum weight weight, uint32_t layer)
{
	return forward->tensors[layer * WEIGHT_COUNT + weight];
}

/* Remembers the first call that failed; later ones are not told apart from it. */
static void note(struct cuda_forward *forward, int code, const char *call)
{
	if (code != 0 && forward->code == 0) {
		forward->code = code;
		forward->call = call;
	}
}

/* Which of a batch's rows, from the first on, a weight multiplies through
   kernels/linear/linear.h or in parts; the others go through cublaslt_linear(). */
struct apart {
	uint32_t row_count;
	bool is_in_parts; /* their sums are left for run_norm() to add */
};

/* Whether run_norm() adds the product to the residual stream. */
static bool is_added(enum weight weight)
{
	return weight == WEIGHT_O || weight == WEIGHT_DOWN;
}

/* Where a weight's inputs are summed in one part there is one order for all rows, and all go the
   same way, whichever is faster. Where they are summed in more, those are the order of decode rows,
   whatever their number; prompts keep that of cublaslt_linear(). */
static struct apart find_apart(const struct cuda_forward *forward, enum weight weight,
	const uint16_t *bias, const struct cuda_batch *batch)
{
	struct weight_shape shape = weight_shape(&forward->model, weight, forward->options.shard);
	uint32_t tokens = batch->token_count, decodes = batch->decode_count;
	uint32_t parts = linear_split_k(shape.columns, shape.rows);

	if (parts == 1) {
		bool pays = linear_pays(tokens, shape.columns, shape.rows);
		return (struct apart){.row_count = pays ? tokens : 0};
	}
	if (!is_added(weight) || bias != NULL || !linear_fits(shape.columns, shape.rows)) {
		return (struct apart){0};
	}
	check(parts == PARTS);
	return (struct apart){
		.row_count = decodes,
		.is_in_parts = !linear_pays(decodes, shape.columns, shape.rows),
	};
}

/* Returns how many rows, from the first on, run_norm() will find in parts. bias: WEIGHT_COUNT for
   none. */
static uint32_t multiply(struct cuda_forward *forward, uint16_t *out, const uint16_t *in,
	enum weight weight, enum weight bias, uint32_t layer, const struct cuda_batch *batch,
	struct CUstream_st *stream)
{
	struct weight_shape shape = weight_shape(&forward->model, weight, forward->options.shard);
	const uint16_t *matrix = tensor(forward, weight, layer);
	const uint16_t *vector = bias == WEIGHT_COUNT ? NULL : tensor(forward, bias, layer);
	struct apart apart = find_apart(forward, weight, vector, batch);
	uint32_t count = apart.row_count, rest = batch->token_count - count;

	if (count > 0) {
		nvtx_push_layer(forward->domain, weight_name(weight), layer, count);
		note(forward,
			apart.is_in_parts
				? cublaslt_linear_split_k(forward->products, forward->parts, in,
					  matrix, count, shape.columns, shape.rows, PARTS, stream)
				: linear(out, in, matrix, vector, count, shape.columns, shape.rows,
					  stream),
			weight_name(weight));
		nvtx_pop(forward->domain);
	}
	if (rest > 0) {
		nvtx_push_layer(forward->domain, weight_name(weight), layer, rest);
		note(forward,
			cublaslt_linear(forward->products, out + (size_t)count * shape.rows,
				in + (size_t)count * shape.columns, matrix, vector, rest,
				shape.columns, shape.rows, stream),
			weight_name(weight));
		nvtx_pop(forward->domain);
	}
	return apart.is_in_parts ? count : 0;
}

/* Whether products make their input out of the residual stream and what is added to it. The stream
   then goes to and fro between two tensors: its own, and that of gates and ups, which nobody else
   needs in such a step. */
static bool has_normed_products(const struct cuda_forward *forward, const struct cuda_batch *batch)
{
	const enum weight weights[] = {WEIGHT_QKV, WEIGHT_GATE_UP};
	bool has = 2 * forward->model.intermediate_size >= forward->model.hidden_size;

	for (uint32_t i = 0; i < sizeof(weights) / sizeof(weights[0]); i++) {
		struct weight_shape shape =
			weight_shape(&forward->model, weights[i], forward->options.shard);
		has = has && linear_fuses_norm(batch->token_count, shape.columns, shape.rows);
	}
	return has;
}

static struct linear_norm norm_of(
	const struct cuda_forward *forward, enum weight weight, uint32_t layer)
{
	return (struct linear_norm){
		.residual = forward->stream,
		.sum = forward->next,
		.weight = tensor(forward, weight, layer),
		.epsilon = (float)forward->model.rms_norm_eps,
	};
}

static void swap_streams(struct cuda_forward *forward)
{
	uint16_t *next = forward->stream;

	forward->stream = forward->next;
	forward->next = next;
}

static void run_normed_qkv(
	struct cuda_forward *forward, uint32_t layer, uint32_t count, struct CUstream_st *stream)
{
	struct weight_shape shape =
		weight_shape(&forward->model, WEIGHT_QKV, forward->options.shard);
	const struct linear_norm norm = norm_of(forward, WEIGHT_INPUT_NORM, layer);

	nvtx_push_layer(forward->domain, weight_name(WEIGHT_QKV), layer, count);
	note(forward,
		add_rms_norm_linear(forward->qkv, forward->hidden, &norm,
			tensor(forward, WEIGHT_QKV, layer), tensor(forward, WEIGHT_QKV_BIAS, layer),
			count, shape.columns, shape.rows, stream),
		weight_name(WEIGHT_QKV));
	nvtx_pop(forward->domain);
	swap_streams(forward);
}

static void run_normed_gate_up(
	struct cuda_forward *forward, uint32_t layer, uint32_t count, struct CUstream_st *stream)
{
	const struct linear_norm norm = norm_of(forward, WEIGHT_POST_NORM, layer);

	nvtx_push_layer(forward->domain, weight_name(WEIGHT_GATE_UP), layer, count);
	note(forward,
		add_rms_norm_linear_silu(forward->activated, forward->hidden, &norm,
			tensor(forward, WEIGHT_GATE_UP, layer), count, forward->model.hidden_size,
			forward->model.intermediate_size, stream),
		weight_name(WEIGHT_GATE_UP));
	nvtx_pop(forward->domain);
	swap_streams(forward);
}

/* activated = silu(gate) * up, of hidden. */
static void run_gate_up(struct cuda_forward *forward, uint32_t layer,
	const struct cuda_batch *batch, struct CUstream_st *stream)
{
	uint32_t intermediate = forward->model.intermediate_size;

	if (find_apart(forward, WEIGHT_GATE_UP, NULL, batch).row_count > 0) {
		nvtx_push_layer(
			forward->domain, weight_name(WEIGHT_GATE_UP), layer, batch->token_count);
		note(forward,
			linear_silu(forward->activated, forward->hidden,
				tensor(forward, WEIGHT_GATE_UP, layer), batch->token_count,
				forward->model.hidden_size, intermediate, stream),
			weight_name(WEIGHT_GATE_UP));
		nvtx_pop(forward->domain);
		return;
	}
	multiply(forward, forward->gate_up, forward->hidden, WEIGHT_GATE_UP, WEIGHT_COUNT, layer,
		batch, stream);
	nvtx_push_layer(forward->domain, "silu_mul", layer, batch->token_count);
	note(forward,
		silu_mul(forward->activated, forward->gate_up, batch->token_count, intermediate,
			stream),
		"silu_mul");
	nvtx_pop(forward->domain);
}

/* Rows are taken in groups whose splits have room for their results; mostly that is one group. */
static void run_decode_attention(struct cuda_forward *forward, const struct cuda_batch *batch,
	const uint16_t *keys, const uint16_t *values, struct CUstream_st *stream)
{
	struct decode_work work = batch->decode;
	const uint32_t *ends = batch->decode_group_ends;
	uint32_t whole = batch->decode_count;

	work.path = forward->options.path;
	work.partial_out = forward->partial_out;
	work.partial_state = forward->partial_state;
	work.arrivals = forward->arrivals;
	for (uint32_t i = 0; work.first_row < batch->decode_count; i++) {
		uint32_t end = ends == NULL ? whole : ends[i];
		note(forward,
			decode_attention(forward->attended, forward->query, keys, values, &work,
				end - work.first_row, &forward->shape, stream),
			"decode_attention");
		work.first_row = end;
	}
}

/* Returns what multiply() does. */
static uint32_t run_attention(struct cuda_forward *forward, const struct cuda_batch *batch,
	uint32_t layer, struct CUstream_st *stream)
{
	const struct qk_norm_rope_device norm = {
		.q_weight = tensor(forward, WEIGHT_Q_NORM, layer),
		.k_weight = tensor(forward, WEIGHT_K_NORM, layer),
		.rope = forward->rope,
		.epsilon = (float)forward->model.rms_norm_eps,
	};
	uint16_t *keys = forward->pool + 2 * layer * forward->pool_elements;
	uint16_t *values = keys + forward->pool_elements;
	struct prefill_work prefill = batch->prefill;

	prefill.path = forward->options.path;
	if (forward->is_normed && layer > 0) {
		run_normed_qkv(forward, layer, batch->token_count, stream);
	} else {
		multiply(forward, forward->qkv, forward->hidden, WEIGHT_QKV, WEIGHT_QKV_BIAS, layer,
			batch, stream);
	}
	nvtx_push_layer(forward->domain, "qk_norm_rope_store", layer, batch->token_count);
	note(forward,
		qk_norm_rope_store(forward->query, keys, values, forward->qkv, batch->positions,
			batch->slots, batch->token_count, &norm, &forward->shape, stream),
		"qk_norm_rope_store");
	nvtx_pop(forward->domain);
	nvtx_push_layer(forward->domain, "decode_attention", layer, batch->decode_count);
	run_decode_attention(forward, batch, keys, values, stream);
	nvtx_pop(forward->domain);
	nvtx_push_layer(forward->domain, "prefill_attention", layer,
		batch->token_count - batch->decode_count);
	note(forward,
		prefill_attention(forward->attended, forward->query, keys, values, &prefill,
			&forward->shape, stream),
		"prefill_attention");
	nvtx_pop(forward->domain);
	return multiply(forward, forward->hidden, forward->attended, WEIGHT_O, WEIGHT_O_BIAS, layer,
		batch, stream);
}

/* Adds what a product has made to the residual stream: of the first part_rows rows from parts, of
   the others up to row_count from hidden. out = the norms of the sums. index: NULL, or the rows
   that are wanted, of which those in parts are the first and in order. */
static void add_and_norm(struct cuda_forward *forward, uint16_t *out, const uint16_t *weight,
	const uint32_t *index, uint32_t part_rows, uint32_t row_count, struct CUstream_st *stream)
{
	uint32_t width = forward->model.hidden_size;
	float epsilon = (float)forward->model.rms_norm_eps;
	size_t rest = (size_t)part_rows * width;
	size_t first = index == NULL ? rest : 0;

	if (part_rows > 0) {
		note(forward,
			add_rms_norm_parts(out, forward->stream, forward->parts, weight, index,
				PARTS, part_rows, part_rows, width, epsilon, stream),
			"add_rms_norm_parts");
	}
	if (row_count > part_rows) {
		note(forward,
			add_rms_norm(out + rest, forward->stream + first, forward->hidden + first,
				weight, index == NULL ? NULL : index + part_rows,
				row_count - part_rows, width, epsilon, stream),
			"add_rms_norm");
	}
}

/* residual += hidden, or what lies in parts; hidden = its norm. */
static void run_norm(struct cuda_forward *forward, enum weight weight, uint32_t layer,
	uint32_t part_rows, uint32_t token_count, struct CUstream_st *stream)
{
	nvtx_push_layer(forward->domain, weight_name(weight), layer, token_count);
	add_and_norm(forward, forward->hidden, tensor(forward, weight, layer), NULL, part_rows,
		token_count, stream);
	nvtx_pop(forward->domain);
}

/* Returns what multiply() does, of what the layer adds to the residual stream. */
static uint32_t run_layer(struct cuda_forward *forward, const struct cuda_batch *batch,
	uint32_t layer, struct CUstream_st *stream)
{
	uint32_t part_rows = run_attention(forward, batch, layer, stream);

	if (forward->is_normed) {
		check(part_rows == 0);
		run_normed_gate_up(forward, layer, batch->token_count, stream);
	} else {
		run_norm(forward, WEIGHT_POST_NORM, layer, part_rows, batch->token_count, stream);
		run_gate_up(forward, layer, batch, stream);
	}
	return multiply(forward, forward->hidden, forward->activated, WEIGHT_DOWN, WEIGHT_COUNT,
		layer, batch, stream);
}

/* Decode rows are sampled, all of them, so that they are the first of the sampled rows, too. */
static void run_head(struct cuda_forward *forward, const struct cuda_batch *batch,
	uint32_t part_rows, struct CUstream_st *stream)
{
	const struct model_config *model = &forward->model;
	enum weight head = model->tie_word_embeddings ? WEIGHT_EMBEDDING : WEIGHT_LM_HEAD;
	uint32_t count = batch->sample_count;

	check(part_rows <= count);
	nvtx_push_layer(forward->domain, "lm_head", RANGE_NO_LAYER, count);
	add_and_norm(forward, forward->sampled_hidden, tensor(forward, WEIGHT_FINAL_NORM, 0),
		batch->sample_index, part_rows, count, stream);
	note(forward,
		cublaslt_linear_logits(forward->products, forward->logits, forward->sampled_hidden,
			tensor(forward, head, 0), count, model->hidden_size, model->vocab_size,
			stream),
		"lm_head");
	nvtx_pop(forward->domain);
	nvtx_push_layer(forward->domain, "sampler", RANGE_NO_LAYER, count);
	note(forward,
		sampler(batch->sampled, batch->last_tokens, forward->sampler_tiles, forward->logits,
			batch->row_keys, batch->temperatures, batch->sample_rows, count,
			model->vocab_size, stream),
		"sampler");
	nvtx_pop(forward->domain);
}

static void prepare_product(struct cuda_forward *forward, uint16_t *out, const uint16_t *in,
	enum weight weight, enum weight bias, struct CUstream_st *stream)
{
	struct weight_shape shape = weight_shape(&forward->model, weight, forward->options.shard);
	const struct model_step_limits *limits = &forward->options.limits;
	const uint16_t *matrix = tensor(forward, weight, 0);

	note(forward,
		cublaslt_prepare(forward->products, out, in, matrix,
			bias == WEIGHT_COUNT ? NULL : tensor(forward, bias, 0),
			u32_from(limits->tokens), shape.columns, shape.rows, stream),
		weight_name(weight));
	if (is_added(weight) && linear_split_k(shape.columns, shape.rows) > 1) {
		note(forward,
			cublaslt_prepare_split_k(forward->products, forward->parts, in, matrix,
				u32_from(limits->samples), shape.columns, shape.rows, PARTS,
				stream),
			weight_name(weight));
	}
}

enum status cuda_forward_prepare(
	struct cuda_forward *forward, struct CUstream_st *stream, struct error *error)
{
	const struct model_config *model = &forward->model;
	enum weight head = model->tie_word_embeddings ? WEIGHT_EMBEDDING : WEIGHT_LM_HEAD;

	forward->code = 0;
	prepare_product(
		forward, forward->qkv, forward->hidden, WEIGHT_QKV, WEIGHT_QKV_BIAS, stream);
	prepare_product(
		forward, forward->hidden, forward->attended, WEIGHT_O, WEIGHT_O_BIAS, stream);
	prepare_product(
		forward, forward->gate_up, forward->hidden, WEIGHT_GATE_UP, WEIGHT_COUNT, stream);
	prepare_product(
		forward, forward->hidden, forward->activated, WEIGHT_DOWN, WEIGHT_COUNT, stream);
	note(forward,
		cublaslt_prepare_logits(forward->products, forward->logits, forward->sampled_hidden,
			tensor(forward, head, 0), u32_from(forward->options.limits.samples),
			model->hidden_size, model->vocab_size, stream),
		"lm_head");
	return cuda_status(forward->code, forward->call, error);
}

enum status cuda_forward_run(struct cuda_forward *forward, const struct cuda_batch *batch,
	struct CUstream_st *stream, struct error *error)
{
	const struct model_config *model = &forward->model;
	uint32_t tokens = batch->token_count;

	check(tokens <= forward->options.limits.tokens);
	check(batch->sample_count <= forward->options.limits.samples);
	forward->code = 0;
	forward->stream = forward->residual;
	forward->next = forward->gate_up;
	forward->is_normed = has_normed_products(forward, batch);
	nvtx_push_layer(forward->domain, "embedding", RANGE_NO_LAYER, tokens);
	note(forward,
		embedding(forward->residual, tensor(forward, WEIGHT_EMBEDDING, 0), batch->token_ids,
			batch->last_tokens, batch->decode.rows, tokens, model->hidden_size, stream),
		"embedding");
	note(forward,
		rms_norm(forward->hidden, forward->residual, tensor(forward, WEIGHT_INPUT_NORM, 0),
			tokens, model->hidden_size, (float)model->rms_norm_eps, stream),
		"rms_norm");
	nvtx_pop(forward->domain);
	uint32_t part_rows = 0;
	for (uint32_t layer = 0; layer < model->num_hidden_layers; layer++) {
		if (layer > 0 && !forward->is_normed) {
			run_norm(forward, WEIGHT_INPUT_NORM, layer, part_rows, tokens, stream);
		}
		part_rows = run_layer(forward, batch, layer, stream);
	}
	run_head(forward, batch, part_rows, stream);
	return cuda_status(forward->code, forward->call, error);
}

enum status cuda_forward_read_block(
	const struct cuda_forward *forward, uint32_t block, uint16_t *out, struct error *error)
{
	uint32_t parts = 2 * forward->model.num_hidden_layers;
	size_t elements = cuda_forward_block_bytes(forward) / parts / sizeof(uint16_t);

	int code = 0;

	for (uint32_t i = 0; i < parts && code == 0; i++) {
		code = (int)cudaMemcpy(out + i * elements,
			forward->pool + i * forward->pool_elements + block * elements,
			elements * sizeof(uint16_t), cudaMemcpyDeviceToHost);
	}
	return cuda_status(code, "cudaMemcpy", error);
}

const float *cuda_forward_logits(const struct cuda_forward *forward)
{
	return forward->logits;
}

uint32_t cuda_forward_vocabulary(const struct cuda_forward *forward)
{
	return forward->model.vocab_size;
}
