#include "engine/reference/reference_runner.h"

#include "engine/base/check.h"
#include "engine/base/clock.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "engine/reference/reference_forward.h"
#include "engine/policy.h"

#include <stdlib.h>

struct reference_runner {
	struct forward *forward;
	uint32_t table_width;
	uint32_t row_limit;    /* rows that the engine may use */
	uint32_t *tables;      /* (rows seen, table_width) */
	int32_t *last_tokens;  /* (rows seen) sampled last */
	size_t table_capacity; /* elements of tables */
	size_t last_capacity;  /* elements of last_tokens */
	int32_t *token_ids;    /* (token_capacity) of the batch, resolved */
	uint32_t token_capacity;
	uint64_t start_ns; /* when scheduling of the step began, 0: unknown */
};

uint32_t reference_runner_blocks(
	const struct model_config *model, uint32_t block_size, uint64_t bytes)
{
	uint64_t count = bytes / forward_block_bytes(model, block_size);

	return (uint32_t)u64_min(u64_max(count, 1), UINT64_C(1) << 28);
}

static enum status reference_start(
	void *state, uint64_t earliest_ns, uint64_t *start_ns, struct error *error)
{
	struct reference_runner *runner = state;

	(void)error; /* reading the clock cannot fail */
	*start_ns = earliest_ns;
	runner->start_ns = monotonic_ns();
	return STATUS_OK;
}

/* The lowest free rows are used first, so the tables grow to the largest number of running rows. */
static void make_additions(struct reference_runner *runner, const struct batch *batch)
{
	for (uint32_t i = 0; i < batch->addition_count; i++) {
		const struct block_addition *addition = &batch->additions[i];
		check(addition->row < runner->row_limit);
		check(addition->index < runner->table_width);
		size_t rows = (size_t)addition->row + 1;
		runner->tables = memory_grow(runner->tables, &runner->table_capacity,
			rows * runner->table_width, sizeof(*runner->tables));
		runner->last_tokens = memory_grow(runner->last_tokens, &runner->last_capacity, rows,
			sizeof(*runner->last_tokens));
		runner->tables[(size_t)addition->row * runner->table_width + addition->index] =
			addition->block;
	}
}

static void resolve_tokens(struct reference_runner *runner, const struct batch *batch)
{
	check(batch->token_count <= runner->token_capacity);
	for (uint32_t r = 0; r < batch->row_count; r++) {
		for (uint32_t t = batch->query_start[r]; t < batch->query_start[r + 1]; t++) {
			int32_t id = batch->token_id[t];
			runner->token_ids[t] = id < 0 ? runner->last_tokens[batch->row[r]] : id;
		}
	}
}

static enum status reference_execute(void *state, const struct batch *batch, int32_t *token_ids,
	struct step_time *time, struct error *error)
{
	struct reference_runner *runner = state;
	uint64_t begin_ns = monotonic_ns();
	uint64_t start_ns = runner->start_ns == 0 ? begin_ns : runner->start_ns;
	uint32_t sampled = 0;

	make_additions(runner, batch);
	resolve_tokens(runner, batch);
	uint64_t forward_ns = monotonic_ns();
	TRY(forward_run(
		runner->forward, batch, runner->token_ids, runner->tables, token_ids, error));
	uint64_t end_ns = monotonic_ns();
	for (uint32_t r = 0; r < batch->row_count; r++) {
		if (batch->is_sampled[r]) {
			runner->last_tokens[batch->row[r]] = token_ids[sampled++];
		}
	}
	time->elapsed_ns = end_ns - start_ns;
	time->gpu_ns = end_ns - forward_ns;
	time->host_ns = forward_ns - start_ns;
	time->mode = STEP_MODE_EAGER;
	runner->start_ns = 0;
	return STATUS_OK;
}

static void reference_close(void *state)
{
	struct reference_runner *runner = state;

	forward_close(runner->forward);
	free(runner->tables);
	free(runner->last_tokens);
	free(runner->token_ids);
	free(runner);
}

enum status reference_runner_open(
	struct runner *out, const struct reference_options *options, struct error *error)
{
	const struct engine_config *engine = options->engine;
	uint32_t tokens = u32_max(engine->max_num_batched_tokens, engine->max_num_seqs);
	uint32_t width = u32_from(u64_divide_up(engine->max_model_len, engine->block_size));
	struct forward *forward;
	const struct forward_options forward_options = {
		.weights = options->weights,
		.rounding = options->rounding,
		.token_capacity = tokens,
		.sample_capacity = engine->max_num_seqs,
		.position_count = engine->max_model_len,
		.block_size = engine->block_size,
		.block_count = engine->kv_block_count,
		.table_width = width,
		.seed = options->seed,
		.ranks = options->ranks,
	};

	enum status status = forward_open(&forward, &forward_options, error);
	if (status != STATUS_OK) {
		return status;
	}
	struct reference_runner *runner = memory_take(1, sizeof(*runner));
	runner->forward = forward;
	runner->table_width = width;
	runner->row_limit = engine->policy->max_running(engine);
	runner->token_ids = memory_take(tokens, sizeof(*runner->token_ids));
	runner->token_capacity = tokens;
	*out = (struct runner){
		.name = "reference",
		.state = runner,
		.is_computing = true,
		.execute = reference_execute,
		.start = reference_start,
		.close = reference_close,
	};
	return STATUS_OK;
}

const float *reference_runner_logits(const struct runner *runner)
{
	const struct reference_runner *state = runner->state;

	return forward_logits(state->forward);
}
