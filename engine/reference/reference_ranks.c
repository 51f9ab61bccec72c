#include "engine/reference/reference_ranks.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "engine/policy.h"
#include "engine/ranks/ranks.h"
#include "engine/reference/packed_batch.h"

#include <stdlib.h>

/* What a rank has, rank 0 included. */
struct reference_rank {
	struct ranks *ranks;
	struct runner runner; /* of this rank's share */
	uint64_t limit;	      /* bytes of a packed batch */
};

/* ---- steps ---- */

static enum status exchange(void *state, void *all, size_t bytes, struct error *error)
{
	return ranks_exchange(state, all, bytes, error);
}

static enum status compute(struct reference_rank *rank, const struct batch *batch,
	int32_t *token_ids, struct step_time *time, struct error *error)
{
	TRY(rank->runner.execute(rank->runner.state, batch, token_ids, time, error));
	return ranks_agree_tokens(
		rank->ranks, token_ids, (uint32_t)batch->counts.sampled_rows, error);
}

/* The data may be written again for the next step: all ranks have compared their tokens. */
static enum status execute(void *state, const struct batch *batch, int32_t *token_ids,
	struct step_time *time, struct error *error)
{
	struct reference_rank *rank = state;
	const struct rank_message message = {
		.step = batch->step,
		.data_bytes = packed_batch_write(ranks_data(rank->ranks), batch),
		.kind = RANK_STEP_EAGER,
	};

	check(message.data_bytes <= rank->limit);
	TRY(ranks_post(rank->ranks, &message, error));
	return compute(rank, batch, token_ids, time, error);
}

static enum status start(void *state, uint64_t earliest_ns, uint64_t *start_ns, struct error *error)
{
	struct reference_rank *rank = state;

	return rank->runner.start(rank->runner.state, earliest_ns, start_ns, error);
}

static void close_rank(void *state)
{
	struct reference_rank *rank = state;

	ranks_close(rank->ranks);
	if (rank->runner.close != NULL) {
		rank->runner.close(rank->runner.state);
	}
	free(rank);
}

/* ---- opening ---- */

/* Opens this rank's share; every rank returns the error of any. */
static enum status open_share(
	struct reference_rank *rank, const struct reference_options *options, struct error *error)
{
	struct reference_options own = *options;

	own.ranks = (struct forward_ranks){
		.count = ranks_count(rank->ranks),
		.first = ranks_index(rank->ranks),
		.here = 1,
		.exchange = {.state = rank->ranks, .gather = exchange},
	};
	reference_runner_open(&rank->runner, &own, error);
	return ranks_barrier(rank->ranks, error);
}

static enum status run_steps(struct reference_rank *rank, int32_t *token_ids, struct error *error)
{
	struct rank_message message;
	struct step_time time;
	struct batch batch;

	for (;;) {
		TRY(ranks_receive(rank->ranks, &message, error));
		if (message.kind == RANK_CLOSE) {
			return STATUS_OK;
		}
		packed_batch_read(&batch, ranks_data(rank->ranks));
		TRY(compute(rank, &batch, token_ids, &time, error));
	}
}

/* A run of a rank but 0. */
static enum status serve(struct ranks *ranks, void *argument, struct error *error)
{
	const struct reference_options *options = argument;
	struct reference_rank rank = {.ranks = ranks};
	int32_t *token_ids = memory_take(options->engine->max_num_seqs, sizeof(*token_ids));

	enum status status = open_share(&rank, options, error);
	if (status == STATUS_OK) {
		status = run_steps(&rank, token_ids, error);
	}
	if (rank.runner.close != NULL) {
		rank.runner.close(rank.runner.state);
	}
	free(token_ids);
	return status;
}

enum status reference_ranks_open(
	struct runner *out, const struct reference_options *options, struct error *error)
{
	const struct engine_config *engine = options->engine;
	uint64_t width = u64_divide_up(engine->max_model_len, engine->block_size);
	uint32_t tokens = u32_max(engine->max_num_batched_tokens, engine->max_num_seqs);
	uint64_t hidden = weights_config(options->weights)->hidden_size;
	struct reference_options copy = *options;
	struct reference_rank *rank = memory_take(1, sizeof(*rank));

	/* Each entry of the block tables is added at most once in a step. */
	rank->limit = packed_batch_bytes(
		engine->max_num_seqs, tokens, engine->policy->max_running(engine) * width);
	const struct ranks_options ranks_options = {
		.count = options->ranks.count,
		.data_bytes = rank->limit,
		/* partial sums, or a candidate for each sampled row */
		.exchange_bytes = u64_max(
			tokens * hidden * sizeof(float), engine->max_num_seqs * sizeof(uint64_t)),
		.runs_after = options->runs_after,
		.serve = serve,
		.argument = &copy,
	};
	enum status status = ranks_open(&rank->ranks, &ranks_options, error);
	if (status == STATUS_OK) {
		status = open_share(rank, options, error);
	}
	if (status != STATUS_OK) {
		close_rank(rank);
		return status;
	}
	*out = (struct runner){
		.name = "reference",
		.state = rank,
		.is_computing = true,
		.execute = execute,
		.start = start,
		.close = close_rank,
	};
	return STATUS_OK;
}
