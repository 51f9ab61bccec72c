#include "engine/runners/cuda_pass.h"

#include "engine/base/check.h"
#include "engine/profiling/nvtx.h"
#include "engine/runners/cuda_exchange.h"
#include "engine/runners/cuda_status.h"
#include "kernels/attention/qk_norm_rope_store.h"
#include "kernels/linear/linear.h"
#include "kernels/rows/add_rms_norm.h"
#include "kernels/rows/embedding.h"
#include "kernels/rows/gather_rows.h"
#include "kernels/rows/rms_norm.h"
#include "kernels/rows/silu_mul.h"
#include "kernels/sampling/sampler.h"

#include <stddef.h>

static void note(struct cuda_pass *pass, int code, const char *call)
{
	if (code != 0 && pass->code == 0) {
		pass->code = code;
		pass->call = call;
	}
}

static void open_range(const struct cuda_pass *pass, const char *name, uint32_t row_count)
{
	nvtx_push_layer(pass->forward->options.ranges, name, pass->layer, row_count);
}

static void close_range(const struct cuda_pass *pass)
{
	nvtx_pop(pass->forward->options.ranges);
}

/* One launch within a range of its name. A macro, because the range must be open when the
   launcher is called. */
#define RUN(pass, name, row_count, launch)                                                         \
	do {                                                                                       \
		open_range(pass, name, row_count);                                                 \
		note(pass, launch, name);                                                          \
		close_range(pass);                                                                 \
	} while (0)

static const uint16_t *weight_of(const struct cuda_pass *pass, enum weight weight)
{
	return cuda_tensors_weight(
		pass->tensors, weight, weight_is_layered(weight) ? pass->layer : 0);
}

/* ---- linear layers ---- */

/* out = in * weight^T + bias, by one plan or two. bias: WEIGHT_COUNT for none. */
static void run_linear(struct cuda_pass *pass, uint16_t *out, const uint16_t *in,
	enum weight weight, enum weight bias)
{
	const struct cuda_forward *forward = pass->forward;
	const struct linear_shape shape = cuda_forward_linear(forward, weight);
	struct linear_plan plans[LINEAR_PLANS_MAX];
	uint32_t plan_count =
		linear_plan_batch(plans, &shape, cuda_forward_may_split_k(forward, weight),
			pass->batch.decode_count, pass->batch.token_count, &forward->device);
	size_t first = 0;

	pass->pending_split_k_rows = 0;
	for (uint32_t i = 0; i < plan_count; i++) {
		struct linear_operands operands = {
			.out = out + first * shape.output_count,
			.in = in + first * shape.input_count,
			.weight = weight_of(pass, weight),
			.bias = bias == WEIGHT_COUNT ? NULL : weight_of(pass, bias),
		};
		if (plans[i].path == LINEAR_CUBLASLT_SPLIT_K) {
			check(plans[i].scratch_bytes <= pass->tensors->split_k_bytes);
			operands.out = pass->tensors->split_k_sums;
			pass->pending_split_k_rows = plans[i].row_count;
		}
		RUN(pass, weight_name(weight), plans[i].row_count,
			linear_run(&plans[i], &operands, forward->library, pass->stream));
		first += plans[i].row_count;
	}
}

/* residual += hidden; out = norm(residual) * weight^T, with or without silu, in one launch. */
static void run_norm_linear(struct cuda_pass *pass, uint16_t *out, enum weight norm_weight,
	enum weight weight, enum weight bias)
{
	const struct cuda_forward *forward = pass->forward;
	const uint32_t tokens = pass->batch.token_count;
	struct linear_shape shape = cuda_forward_linear(forward, weight);
	const struct linear_norm norm = {
		.residual = pass->residual,
		.sum = pass->spare,
		.weight = weight_of(pass, norm_weight),
		.epsilon = (float)forward->model.rms_norm_eps,
	};
	const struct linear_operands operands = {
		.out = out,
		.in = pass->tensors->hidden,
		.weight = weight_of(pass, weight),
		.bias = bias == WEIGHT_COUNT ? NULL : weight_of(pass, bias),
		.norm = &norm,
	};

	check(pass->pending_split_k_rows == 0);
	shape.has_silu = weight == WEIGHT_GATE_UP;
	const struct linear_plan plan = linear_plan(&shape, tokens, true, &forward->device);
	RUN(pass, weight_name(weight), tokens,
		linear_run(&plan, &operands, forward->library, pass->stream));
	pass->spare = pass->residual;
	pass->residual = norm.sum;
}

/* Whether the norms in front of qkv and gate_up are fused into these layers. With several ranks the
   sums of all must be there first. */
static bool can_fuse_norms(const struct cuda_forward *forward, const struct cuda_batch *batch)
{
	const enum weight weights[] = {WEIGHT_QKV, WEIGHT_GATE_UP};
	bool has_spare = 2 * forward->model.intermediate_size >= forward->model.hidden_size;

	for (uint32_t i = 0; i < sizeof(weights) / sizeof(weights[0]); i++) {
		struct linear_shape shape = cuda_forward_linear(forward, weights[i]);
		if (!linear_plan(&shape, batch->token_count, true, &forward->device).fuses_norm) {
			return false;
		}
	}
	return has_spare && forward->options.exchange == NULL;
}

/* ---- norms ---- */

/* Where o and down write: the output, or with several ranks partial sums of it. */
static uint16_t *sums_of(const struct cuda_pass *pass)
{
	const struct cuda_exchange *exchange = pass->forward->options.exchange;

	return exchange == NULL ? pass->tensors->hidden
				: cuda_exchange_partial(exchange, pass->exchanges);
}

/* add_and_norm() with several ranks: the output is the sum of what all ranks computed. */
static void exchange_and_norm(struct cuda_pass *pass, uint16_t *out, enum weight weight,
	const uint32_t *index, uint32_t row_count)
{
	const struct exchange_norm norm = {
		.out = out,
		.residual = pass->residual,
		.weight = weight_of(pass, weight),
		.index = index,
		.row_count = row_count,
		.epsilon = (float)pass->forward->model.rms_norm_eps,
		.slices = pass->pending_split_k_rows == 0 ? NULL : pass->tensors->split_k_sums,
		.slice_rows = pass->pending_split_k_rows,
	};

	RUN(pass, "exchange", row_count,
		cuda_exchange_add_rms_norm(pass->forward->options.exchange, &norm, pass->exchanges,
			pass->batch.token_count, pass->stream));
	pass->exchanges++;
	pass->pending_split_k_rows = 0;
}

/* residual += the latest linear layer's output; out = the norm of the sum. index: NULL, or
   row_count rows to gather; the rows that are pending as slices come first, in order. */
static void add_and_norm(struct cuda_pass *pass, uint16_t *out, enum weight weight,
	const uint32_t *index, uint32_t row_count)
{
	const struct cuda_tensors *tensors = pass->tensors;
	const uint32_t width = pass->forward->model.hidden_size;
	const float epsilon = (float)pass->forward->model.rms_norm_eps;
	const uint32_t pending = pass->pending_split_k_rows;
	const size_t rest = (size_t)pending * width, first = index == NULL ? rest : 0;

	if (pending > 0) {
		note(pass,
			add_rms_norm_split_k(out, pass->residual, tensors->split_k_sums,
				weight_of(pass, weight), index, pending, pending, width, epsilon,
				pass->stream),
			"add_rms_norm_split_k");
	}
	if (row_count > pending) {
		note(pass,
			add_rms_norm(out + rest, pass->residual + first, tensors->hidden + first,
				weight_of(pass, weight), index == NULL ? NULL : index + pending,
				row_count - pending, width, epsilon, pass->stream),
			"add_rms_norm");
	}
	pass->pending_split_k_rows = 0;
}

/* The norm in front of a layer's linear layers, for all rows. */
static void run_norm(struct cuda_pass *pass, enum weight weight)
{
	const uint32_t tokens = pass->batch.token_count;

	if (pass->forward->options.exchange != NULL) {
		exchange_and_norm(pass, pass->tensors->hidden, weight, NULL, tokens);
		return;
	}
	open_range(pass, weight_name(weight), tokens);
	add_and_norm(pass, pass->tensors->hidden, weight, NULL, tokens);
	close_range(pass);
}

/* ---- rows that are not sampled ---- */

/* Of the last layer, the rows that are not sampled need only their keys and values, which later
   steps read. So the pass goes on without them behind that layer's attention. */
static bool drops_rows(const struct cuda_pass *pass)
{
	const struct cuda_batch *batch = &pass->batch;

	return pass->layer + 1 == pass->forward->model.num_hidden_layers &&
	       batch->token_count - batch->sample_count >= CUDA_DROPPED_ROWS_LEAST;
}

/* Gathers the sampled rows of attended and of the residual stream. From here on they are all rows
   of the batch. attended goes to query, which attention has read, and the residual stream to the
   buffer of the head, which gets the stream's in return. */
static void drop_rows(struct cuda_pass *pass)
{
	const struct cuda_tensors *tensors = pass->tensors;
	const struct model_config *model = &pass->forward->model;
	struct cuda_batch *batch = &pass->batch;
	uint16_t *residual = pass->residual;

	check(!pass->fuses_norms);
	pass->attended = tensors->query;
	pass->residual = pass->sampled_hidden;
	pass->sampled_hidden = residual;
	open_range(pass, "gather_rows", batch->sample_count);
	note(pass,
		gather_rows(pass->attended, tensors->attended, batch->sample_index,
			batch->sample_count, model_config_query_size(model), pass->stream),
		"gather_rows");
	note(pass,
		gather_rows(pass->residual, residual, batch->sample_index, batch->sample_count,
			model->hidden_size, pass->stream),
		"gather_rows");
	close_range(pass);
	batch->token_count = batch->sample_count;
	batch->sample_index = NULL;
}

/* ---- attention ---- */

/* Decode rows run in groups whose partial results fit into scratch memory; nearly always one
   group. */
static void run_decode_attention(
	struct cuda_pass *pass, const uint16_t *keys, const uint16_t *values)
{
	const struct cuda_tensors *tensors = pass->tensors;
	const struct cuda_batch *batch = &pass->batch;
	const uint32_t *ends = batch->decode_group_ends;
	struct decode_work work = batch->decode;

	work.path = pass->forward->options.path;
	work.partial_out = tensors->partial_out;
	work.partial_state = tensors->partial_state;
	work.arrivals = tensors->arrivals;
	open_range(pass, "decode_attention", batch->decode_count);
	for (uint32_t i = 0; work.first_row < batch->decode_count; i++) {
		uint32_t end = ends == NULL ? batch->decode_count : ends[i];
		note(pass,
			decode_attention(tensors->attended, tensors->query, keys, values, &work,
				end - work.first_row, &pass->forward->shape, pass->stream),
			"decode_attention");
		work.first_row = end;
		work.launch++;
	}
	close_range(pass);
}

/* Attention of prompts. In a layer that drops rows, only of the tiles that hold a sampled row: a
   range of its own name, since a step's counts do not say how much work that is. */
static void run_prefill_attention(
	struct cuda_pass *pass, const uint16_t *keys, const uint16_t *values)
{
	const struct cuda_forward *forward = pass->forward;
	const struct cuda_tensors *tensors = pass->tensors;
	const struct cuda_batch *batch = &pass->batch;
	struct prefill_work work = batch->prefill;
	bool is_last = drops_rows(pass);

	work.path = forward->options.path;
	if (is_last) {
		work.tiles += work.tile_count;
		work.tile_count = batch->sample_count - batch->decode_count;
	}
	RUN(pass, is_last ? "last_prefill_attention" : "prefill_attention",
		batch->token_count - batch->decode_count,
		prefill_attention(tensors->attended, tensors->query, keys, values, &work,
			&forward->shape, pass->stream));
}

/* attended = attention of qkv. Keys and values are stored to the pool first. */
static void run_attention(struct cuda_pass *pass)
{
	const struct cuda_forward *forward = pass->forward;
	const struct cuda_tensors *tensors = pass->tensors;
	const struct cuda_batch *batch = &pass->batch;
	const struct qk_norm_rope_device norm = {
		.q_weight = weight_of(pass, WEIGHT_Q_NORM),
		.k_weight = weight_of(pass, WEIGHT_K_NORM),
		.rope = tensors->rope,
		.epsilon = (float)forward->model.rms_norm_eps,
	};
	uint16_t *keys = tensors->pool + 2 * pass->layer * tensors->pool_elements;
	uint16_t *values = keys + tensors->pool_elements;

	RUN(pass, "qk_norm_rope_store", batch->token_count,
		qk_norm_rope_store(tensors->query, keys, values, tensors->qkv, batch->positions,
			batch->slots, batch->token_count, &norm, &forward->shape, pass->stream));
	run_decode_attention(pass, keys, values);
	run_prefill_attention(pass, keys, values);
}

/* ---- a layer, in two halves ---- */

/* activated = silu(gate) * up, with gate and up computed from hidden. */
static void run_gate_up(struct cuda_pass *pass)
{
	const struct cuda_forward *forward = pass->forward;
	const struct cuda_tensors *tensors = pass->tensors;
	const uint32_t tokens = pass->batch.token_count;
	const struct linear_operands operands = {
		.out = tensors->activated,
		.in = tensors->hidden,
		.weight = weight_of(pass, WEIGHT_GATE_UP),
	};
	struct linear_shape shape = cuda_forward_linear(forward, WEIGHT_GATE_UP);

	shape.has_silu = true;
	const struct linear_plan plan = linear_plan(&shape, tokens, false, &forward->device);
	if (plan.path != LINEAR_CUBLASLT) {
		RUN(pass, weight_name(WEIGHT_GATE_UP), tokens,
			linear_run(&plan, &operands, NULL, pass->stream));
		return;
	}
	run_linear(pass, tensors->gate_up, tensors->hidden, WEIGHT_GATE_UP, WEIGHT_COUNT);
	RUN(pass, "silu_mul", tokens,
		silu_mul(tensors->activated, tensors->gate_up, tokens,
			forward->model.intermediate_size, pass->stream));
}

/* The first half of a layer, to the output of o. */
static void run_attention_half(struct cuda_pass *pass)
{
	const struct cuda_tensors *tensors = pass->tensors;

	if (pass->fuses_norms && pass->layer > 0) {
		run_norm_linear(pass, tensors->qkv, WEIGHT_INPUT_NORM, WEIGHT_QKV, WEIGHT_QKV_BIAS);
	} else {
		if (pass->layer > 0) { /* the range of the embedding includes the first norm */
			run_norm(pass, WEIGHT_INPUT_NORM);
		}
		run_linear(pass, tensors->qkv, tensors->hidden, WEIGHT_QKV, WEIGHT_QKV_BIAS);
	}
	run_attention(pass);
	if (drops_rows(pass)) {
		drop_rows(pass);
	}
	run_linear(
		pass, sums_of(pass), pass->attended, WEIGHT_O, cuda_forward_o_bias(pass->forward));
}

/* The second half, to the output of down. */
static void run_mlp_half(struct cuda_pass *pass)
{
	const struct cuda_tensors *tensors = pass->tensors;

	if (pass->batch.token_count == 0) {
		/* of a chunk in the middle of a prompt all rows are dropped; exchanges without rows
		   keep the ranks in step */
		if (pass->forward->options.exchange != NULL) {
			run_norm(pass, WEIGHT_POST_NORM);
		}
		return;
	}
	if (pass->fuses_norms) {
		run_norm_linear(
			pass, tensors->activated, WEIGHT_POST_NORM, WEIGHT_GATE_UP, WEIGHT_COUNT);
	} else {
		run_norm(pass, WEIGHT_POST_NORM);
		run_gate_up(pass);
	}
	run_linear(pass, sums_of(pass), tensors->activated, WEIGHT_DOWN, WEIGHT_COUNT);
}

/* ---- embedding, head and sampler ---- */

static void run_embedding(struct cuda_pass *pass)
{
	const struct model_config *model = &pass->forward->model;
	const struct cuda_batch *batch = &pass->batch;
	const uint32_t tokens = batch->token_count;

	open_range(pass, "embedding", tokens);
	note(pass,
		embedding(pass->residual, weight_of(pass, WEIGHT_EMBEDDING), batch->token_ids,
			batch->last_tokens, batch->decode.rows, tokens, model->hidden_size,
			pass->stream),
		"embedding");
	note(pass,
		rms_norm(pass->tensors->hidden, pass->residual,
			cuda_tensors_weight(pass->tensors, WEIGHT_INPUT_NORM, 0), tokens,
			model->hidden_size, (float)model->rms_norm_eps, pass->stream),
		"rms_norm");
	close_range(pass);
}

/* The tokens: the best of the tiles of the vocabulary, with several ranks of those of all. */
static int launch_sampler(const struct cuda_pass *pass)
{
	const struct cuda_batch *batch = &pass->batch;
	const struct cuda_exchange *exchange = pass->forward->options.exchange;
	const struct weight_range ids = pass->forward->vocabulary;
	const float *logits = pass->tensors->logits;
	void *tiles = pass->tensors->sampler_tiles;
	const uint32_t count = batch->sample_count;

	if (exchange == NULL) {
		return sampler(batch->sampled, batch->last_tokens, tiles, logits, batch->row_keys,
			batch->temperatures, batch->sample_rows, count, ids.count, pass->stream);
	}
	int code = sampler_tiles(tiles, logits, batch->row_keys, batch->temperatures, count,
		ids.first, ids.count, pass->stream);
	return code != 0 ? code
			 : cuda_exchange_candidates(exchange, batch->sampled, batch->last_tokens,
				   tiles, sampler_tile_count(count, ids.count), batch->sample_rows,
				   count, pass->stream);
}

/* All decode rows are sampled, so they are also the first of the sampled rows. */
static void run_head(struct cuda_pass *pass)
{
	const struct model_config *model = &pass->forward->model;
	const struct cuda_tensors *tensors = pass->tensors;
	const struct cuda_batch *batch = &pass->batch;
	const uint32_t count = batch->sample_count;
	const struct linear_shape shape = {.input_count = model->hidden_size,
		.output_count = model->vocab_size,
		.split_k = 1,
		.is_logits = true};
	const struct linear_operands operands = {.out = tensors->logits,
		.in = pass->sampled_hidden,
		.weight = cuda_forward_head(pass->forward)};

	check(pass->pending_split_k_rows <= count);
	if (pass->forward->options.exchange != NULL) {
		exchange_and_norm(
			pass, pass->sampled_hidden, WEIGHT_FINAL_NORM, batch->sample_index, count);
	}
	open_range(pass, "lm_head", count);
	if (pass->forward->options.exchange == NULL) {
		add_and_norm(
			pass, pass->sampled_hidden, WEIGHT_FINAL_NORM, batch->sample_index, count);
	}
	const struct linear_plan plan = linear_plan(&shape, count, false, &pass->forward->device);
	note(pass, linear_run(&plan, &operands, pass->forward->library, pass->stream), "lm_head");
	close_range(pass);
	RUN(pass, "sampler", count, launch_sampler(pass));
}

/* ---- parts ---- */

void cuda_forward_begin(
	struct cuda_forward *forward, const struct cuda_batch *batch, struct CUstream_st *stream)
{
	check(batch->token_count <= forward->options.limits.tokens);
	check(batch->sample_count <= forward->options.limits.samples);
	check(batch->sample_count <= batch->token_count);
	forward->pass = (struct cuda_pass){
		.forward = forward,
		.tensors = &forward->tensors,
		.batch = *batch,
		.stream = stream,
		.layer = RANGE_NO_LAYER,
		.residual = forward->tensors.residual,
		.spare = forward->tensors.gate_up,
		.attended = forward->tensors.attended,
		.sampled_hidden = forward->tensors.sampled_hidden,
		.fuses_norms = can_fuse_norms(forward, batch),
	};
}

enum status cuda_forward_run_part(struct cuda_forward *forward, bool *is_over, struct error *error)
{
	struct cuda_pass *pass = &forward->pass;
	const uint32_t part = pass->parts_run++;
	const uint32_t count = 2 * forward->model.num_hidden_layers;

	check(part < count);
	if (part == 0) {
		run_embedding(pass);
	}
	pass->layer = part / 2;
	if (part % 2 == 0) {
		run_attention_half(pass);
	} else {
		run_mlp_half(pass);
	}
	pass->layer = RANGE_NO_LAYER;
	*is_over = part + 1 == count;
	if (*is_over) {
		run_head(pass);
	}
	return cuda_status(pass->code, pass->call, error);
}
