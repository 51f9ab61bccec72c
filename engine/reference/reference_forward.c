#include "engine/reference/reference_forward.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "engine/base/number.h"
#include "engine/reference/reference_share.h"
#include "kernels/attention/rope_table.h"
#include "kernels/exchange/exchange.h"
#include "kernels/rows/add_rms_norm.h"
#include "kernels/rows/embedding.h"
#include "kernels/rows/gather_rows.h"
#include "kernels/rows/rms_norm.h"
#include "kernels/sampling/sampler.h"

#include <stdlib.h>
#include <string.h>

struct forward {
	struct model_config model;
	struct forward_options options;
	struct reference_tensor embedding;
	float *rope;			/* (position_count, head_dim / 2, 2) */
	struct reference_share *shares; /* (ranks.here) */
	uint32_t vocabulary_count;	/* ids of these shares */

	/* tensors of a step, T = token_capacity, S = sample_capacity, R = ranks.count */
	float *residual;	      /* (T, hidden_size) */
	float *hidden;		      /* (T, hidden_size) */
	float *partials;	      /* (R, tokens of the step, hidden_size) of R > 1 */
	float *sampled_residual;      /* (S, hidden_size) */
	float *sampled_hidden;	      /* (S, hidden_size) */
	float *logits;		      /* (S, vocabulary_count) */
	float *share_logits;	      /* (S, ids of a share) where there are several here */
	struct candidate *candidates; /* (R, sampled rows of the step) */

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

static enum status check_sizes(const struct model_config *model,
	const struct forward_options *options, struct error *error)
{
	u128 pool_bytes =
		(u128)options->block_count * forward_block_bytes(model, options->block_size);

	if (pool_bytes > UINT64_C(1) << 46) {
		return error_set(error, STATUS_MEMORY,
			"a KV pool of %u %s of %u %s takes %llu GiB of host memory",
			options->block_count,
			word_of_count(options->block_count, "block", "blocks"), options->block_size,
			word_of_count(options->block_size, "token", "tokens"),
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
	return STATUS_OK;
}

static void open_shares(struct forward *forward)
{
	const struct forward_options *options = &forward->options;
	const struct forward_ranks *ranks = &options->ranks;

	forward->shares = memory_take(ranks->here, sizeof(*forward->shares));
	for (uint32_t i = 0; i < ranks->here; i++) {
		const struct reference_share_options share = {
			.weights = options->weights,
			.shard = {ranks->first + i, ranks->count},
			.rounding = options->rounding,
			.token_capacity = options->token_capacity,
			.block_size = options->block_size,
			.block_count = options->block_count,
			.table_width = options->table_width,
			.rope = forward->rope,
			.embedding = &forward->embedding,
		};
		reference_share_open(&forward->shares[i], &share);
		forward->vocabulary_count += forward->shares[i].vocabulary.count;
	}
	forward->options.weights = NULL;
}

static void take_step_tensors(struct forward *forward)
{
	const struct forward_ranks *ranks = &forward->options.ranks;
	size_t hidden = forward->model.hidden_size;
	size_t tokens = forward->options.token_capacity;
	size_t samples = forward->options.sample_capacity;
	size_t share_ids = u64_divide_up(forward->model.vocab_size, ranks->count);

	forward->residual = memory_take(tokens * hidden, sizeof(float));
	forward->hidden = memory_take(tokens * hidden, sizeof(float));
	forward->sampled_residual = memory_take(samples * hidden, sizeof(float));
	forward->sampled_hidden = memory_take(samples * hidden, sizeof(float));
	forward->logits = memory_take(samples * forward->vocabulary_count, sizeof(float));
	if (ranks->count > 1) {
		forward->partials = memory_take(ranks->count * tokens * hidden, sizeof(float));
	}
	if (ranks->here > 1) {
		forward->share_logits = memory_take(samples * share_ids, sizeof(float));
	}
	forward->candidates = memory_take(ranks->count * samples, sizeof(*forward->candidates));
	forward->sampled_token = memory_take(samples, sizeof(*forward->sampled_token));
	forward->row_key = memory_take(samples, sizeof(*forward->row_key));
	forward->temperature = memory_take(samples, sizeof(*forward->temperature));
}

enum status forward_open(
	struct forward **out, const struct forward_options *options, struct error *error)
{
	const struct model_config *model = weights_config(options->weights);
	struct forward_ranks ranks = options->ranks;

	*out = NULL;
	ranks.count = u32_max(ranks.count, 1);
	ranks.here = ranks.here == 0 ? ranks.count : ranks.here;
	check(ranks.first + ranks.here <= ranks.count);
	check(ranks.here == ranks.count || ranks.exchange.gather != NULL);
	TRY(weight_shard_check(model, (struct weight_shard){ranks.first, ranks.count}, error));
	TRY(check_sizes(model, options, error));
	struct forward *forward = memory_take(1, sizeof(*forward));
	forward->model = *model;
	forward->options = *options;
	forward->options.ranks = ranks;
	forward->embedding = reference_tensor_load(
		options->weights, WEIGHT_EMBEDDING, 0, WEIGHT_WHOLE, options->rounding);
	forward->rope = memory_take(
		(size_t)options->position_count * model->head_dim, sizeof(*forward->rope));
	rope_table_fill(forward->rope, options->position_count, model->head_dim, model->rope_theta);
	open_shares(forward);
	take_step_tensors(forward);
	*out = forward;
	return STATUS_OK;
}

void forward_close(struct forward *forward)
{
	if (forward == NULL) {
		return;
	}
	for (uint32_t i = 0; i < forward->options.ranks.here; i++) {
		reference_share_close(&forward->shares[i]);
	}
	free(forward->shares);
	reference_tensor_free(&forward->embedding);
	free(forward->rope);
	free(forward->residual);
	free(forward->hidden);
	free(forward->partials);
	free(forward->sampled_residual);
	free(forward->sampled_hidden);
	free(forward->logits);
	free(forward->share_logits);
	free(forward->candidates);
	free(forward->sampled_token);
	free(forward->row_key);
	free(forward->temperature);
	free(forward);
}

/* ---- ranks ---- */

/* Where a share's partial sum goes; the sum of one rank needs no addition. */
static float *partial_of(const struct forward *forward, uint32_t rank, uint32_t token_count)
{
	size_t count = (size_t)token_count * forward->model.hidden_size;

	return forward->options.ranks.count == 1 ? forward->hidden
						 : forward->partials + rank * count;
}

static enum status gather(
	const struct forward *forward, void *all, size_t bytes, struct error *error)
{
	const struct forward_exchange *exchange = &forward->options.ranks.exchange;

	return exchange->gather == NULL ? STATUS_OK
					: exchange->gather(exchange->state, all, bytes, error);
}

/* hidden = the sum of all ranks' partial sums. */
static enum status add_partials(struct forward *forward, uint32_t token_count, struct error *error)
{
	uint32_t ranks = forward->options.ranks.count;
	size_t count = (size_t)token_count * forward->model.hidden_size;
	const float *parts[EXCHANGE_RANKS_MAX];

	if (ranks == 1) {
		return STATUS_OK;
	}
	TRY(gather(forward, forward->partials, count * sizeof(*forward->partials), error));
	for (uint32_t rank = 0; rank < ranks; rank++) {
		parts[rank] = partial_of(forward, rank, token_count);
	}
	exchange_sum_cpu(forward->hidden, parts, ranks, count, forward->options.rounding);
	return STATUS_OK;
}

/* ---- running ---- */

/* hidden = attention of hidden, with the layer's keys and values stored first. */
static enum status run_attention(struct forward *forward, const struct batch *batch,
	const uint32_t *tables, uint32_t layer, struct error *error)
{
	const struct forward_ranks *ranks = &forward->options.ranks;
	uint32_t tokens = batch->token_count;

	for (uint32_t i = 0; i < ranks->here; i++) {
		reference_share_attention(&forward->shares[i],
			partial_of(forward, ranks->first + i, tokens), forward->hidden, batch,
			tables, layer);
	}
	return add_partials(forward, tokens, error);
}

/* hidden = the gated MLP of hidden. */
static enum status run_mlp(
	struct forward *forward, uint32_t layer, uint32_t token_count, struct error *error)
{
	const struct forward_ranks *ranks = &forward->options.ranks;

	for (uint32_t i = 0; i < ranks->here; i++) {
		reference_share_mlp(&forward->shares[i],
			partial_of(forward, ranks->first + i, token_count), forward->hidden, layer,
			token_count);
	}
	return add_partials(forward, token_count, error);
}

/* hidden is added to the residual stream, and becomes its norm. */
static void add_and_norm(
	struct forward *forward, enum weight weight, uint32_t layer, uint32_t token_count)
{
	const struct model_config *model = &forward->model;

	add_rms_norm_cpu(forward->hidden, forward->residual, forward->hidden,
		reference_share_vector(&forward->shares[0], weight, layer), token_count,
		model->hidden_size, (float)model->rms_norm_eps, forward->options.rounding);
}

static enum status run_layers(struct forward *forward, const struct batch *batch,
	const uint32_t *tables, struct error *error)
{
	const struct model_config *model = &forward->model;
	uint32_t tokens = batch->token_count;

	rms_norm_cpu(forward->hidden, forward->residual,
		reference_share_vector(&forward->shares[0], WEIGHT_INPUT_NORM, 0), tokens,
		model->hidden_size, (float)model->rms_norm_eps, forward->options.rounding);
	for (uint32_t layer = 0; layer < model->num_hidden_layers; layer++) {
		TRY(run_attention(forward, batch, tables, layer, error));
		add_and_norm(forward, WEIGHT_POST_NORM, layer, tokens);
		TRY(run_mlp(forward, layer, tokens, error));
		if (layer + 1 < model->num_hidden_layers) {
			add_and_norm(forward, WEIGHT_INPUT_NORM, layer + 1, tokens);
		}
	}
	return STATUS_OK;
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

/* Copies the logits of share i into their columns of all logits. */
static void place_logits(struct forward *forward, uint32_t i, uint32_t row_count)
{
	const struct weight_range ids = forward->shares[i].vocabulary;
	uint32_t first = ids.first - forward->shares[0].vocabulary.first;

	for (uint32_t r = 0; r < row_count; r++) {
		memcpy(forward->logits + (size_t)r * forward->vocabulary_count + first,
			forward->share_logits + (size_t)r * ids.count,
			ids.count * sizeof(*forward->logits));
	}
}

/* The best token of share i for each row. */
static void find_candidates(
	struct forward *forward, uint32_t i, const float *logits, uint32_t row_count)
{
	const struct weight_range ids = forward->shares[i].vocabulary;
	uint32_t rank = forward->options.ranks.first + i;

	for (uint32_t r = 0; r < row_count; r++) {
		forward->candidates[(size_t)rank * row_count + r] =
			sampler_candidate_cpu(logits + (size_t)r * ids.count, forward->row_key[r],
				forward->temperature[r], ids.first, ids.count);
	}
}

static enum status sample(
	struct forward *forward, uint32_t row_count, int32_t *sampled, struct error *error)
{
	uint32_t ranks = forward->options.ranks.count;

	for (uint32_t i = 0; i < forward->options.ranks.here; i++) {
		bool is_alone = forward->options.ranks.here == 1;
		float *logits = is_alone ? forward->logits : forward->share_logits;
		reference_share_logits(
			&forward->shares[i], logits, forward->sampled_hidden, row_count);
		find_candidates(forward, i, logits, row_count);
		if (!is_alone) {
			place_logits(forward, i, row_count);
		}
	}
	TRY(gather(forward, forward->candidates, row_count * sizeof(*forward->candidates), error));
	for (uint32_t r = 0; r < row_count; r++) {
		struct candidate best = candidate_none();
		for (uint32_t rank = 0; rank < ranks; rank++) {
			best = candidate_better(
				best, forward->candidates[(size_t)rank * row_count + r]);
		}
		sampled[r] = candidate_token(best);
	}
	return STATUS_OK;
}

static enum status run_head(
	struct forward *forward, const struct batch *batch, int32_t *sampled, struct error *error)
{
	const struct model_config *model = &forward->model;
	uint32_t count = list_sampled(forward, batch);

	if (count == 0) {
		return STATUS_OK;
	}
	gather_rows_cpu(forward->sampled_residual, forward->residual, forward->sampled_token, count,
		model->hidden_size);
	gather_rows_cpu(forward->sampled_hidden, forward->hidden, forward->sampled_token, count,
		model->hidden_size);
	add_rms_norm_cpu(forward->sampled_hidden, forward->sampled_residual,
		forward->sampled_hidden,
		reference_share_vector(&forward->shares[0], WEIGHT_FINAL_NORM, 0), count,
		model->hidden_size, (float)model->rms_norm_eps, forward->options.rounding);
	return sample(forward, count, sampled, error);
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

enum status forward_run(struct forward *forward, const struct batch *batch,
	const int32_t *token_ids, const uint32_t *tables, int32_t *sampled, struct error *error)
{
	batch_check(forward, batch);
	embedding_cpu(forward->residual, reference_matrix(&forward->embedding), token_ids,
		batch->token_count, forward->model.vocab_size, forward->model.hidden_size,
		forward->options.rounding);
	TRY(run_layers(forward, batch, tables, error));
	return run_head(forward, batch, sampled, error);
}

const float *forward_logits(const struct forward *forward)
{
	return forward->logits;
}
