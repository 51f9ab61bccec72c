#include <criterion/criterion.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/counter_hash.h"
#include "engine/base/memory.h"
#include "engine/reference/reference_forward.h"
#include "kernels/linear/linear.h"
#include "kernels/rows/rms_norm.h"
#include "kernels/sampling/candidate.h"
#include "tests/harness/require.h"
#include "tests/models/reference_run.h"

/* The forward pass of several ranks on the CPU: against one rank, and against a naive reading of
   what its ranks exchange. */

enum { RANKS_MAX = 8, BLOCK = 4, TOKENS = 23, PROMPTS = 3, WIDTH = 16, VOCABULARY = 101 };

/* Prompts of 1, 9 and 13 tokens, each sampled from. */
struct step {
	struct batch batch;
	uint32_t tables[PROMPTS * TOKENS];
};

static void step_open(struct step *step)
{
	static const uint32_t lengths[PROMPTS] = {1, 9, 13};
	struct batch *batch = &step->batch;
	uint32_t block = 0;

	batch_init(batch, PROMPTS, TOKENS);
	batch_clear(batch, 0);
	for (uint32_t row = 0; row < PROMPTS; row++) {
		batch->row[row] = row;
		batch->query_start[row] = batch->token_count;
		batch->context_length[row] = lengths[row];
		batch->is_sampled[row] = true;
		batch->request[row] = 7 + row;
		batch->sample_position[row] = lengths[row];
		batch->temperature[row] = (float)row * 0.8f;
		for (uint32_t p = 0; p < lengths[row]; p++) {
			uint32_t t = batch->token_count++;
			block += p % BLOCK == 0;
			step->tables[row * TOKENS + p / BLOCK] = block;
			batch->position[t] = p;
			batch->slot[t] = (int64_t)block * BLOCK + p % BLOCK;
			batch->token_id[t] =
				(int32_t)counter_below((uint32_t)counter_hash(5, t), VOCABULARY);
		}
		batch->query_start[row + 1] = batch->token_count;
	}
	batch->row_count = PROMPTS;
	batch->counts.prefill_rows = PROMPTS;
	batch->counts.prefill_tokens = batch->token_count;
	batch->counts.sampled_rows = PROMPTS;
	require_equal(batch->token_count, TOKENS);
}

struct result {
	float *logits; /* (PROMPTS, vocabulary of the process) */
	int32_t sampled[PROMPTS];
};

static struct forward *open_forward(
	const struct weights *weights, enum rounding rounding, const struct forward_ranks *ranks)
{
	struct forward *forward = NULL;
	struct error error = {0};
	const struct forward_options options = {
		.weights = weights,
		.rounding = rounding,
		.token_capacity = TOKENS,
		.sample_capacity = PROMPTS,
		.position_count = TOKENS,
		.block_size = BLOCK,
		.block_count = TOKENS,
		.table_width = TOKENS,
		.seed = 3,
		.ranks = *ranks,
	};

	require(forward_open(&forward, &options, &error) == STATUS_OK, "%s", error.text);
	return forward;
}

/* Runs the step once; `ids` logits a row are kept. */
static enum status run_step(const struct weights *weights, enum rounding rounding,
	const struct forward_ranks *ranks, uint32_t ids, struct result *result, struct error *error)
{
	struct step *step = memory_take(1, sizeof(*step));
	struct forward *forward = open_forward(weights, rounding, ranks);

	step_open(step);
	enum status status = forward_run(
		forward, &step->batch, step->batch.token_id, step->tables, result->sampled, error);
	result->logits = memory_take((size_t)PROMPTS * ids, sizeof(*result->logits));
	memcpy(result->logits, forward_logits(forward), sizeof(float) * PROMPTS * ids);
	forward_close(forward);
	batch_deinit(&step->batch);
	free(step);
	return status;
}

static struct result run_in_turn(const struct weights *weights, enum rounding rounding,
	uint32_t count, const struct forward_exchange *observer)
{
	struct forward_ranks ranks = {.count = count};
	struct result result = {0};
	struct error error = {0};

	if (observer != NULL) {
		ranks.exchange = *observer;
	}
	require(run_step(weights, rounding, &ranks, VOCABULARY, &result, &error) == STATUS_OK, "%s",
		error.text);
	return result;
}

static struct model_config model_of(uint32_t index)
{
	struct model_config model = tiny_model_of_8_heads(VOCABULARY);

	model.tie_word_embeddings = index % 2 == 1;
	model.attention_bias = index / 2 == 0;
	return model;
}

/* ---- against one rank ---- */

Test(reference_ranks, logits_in_float32_are_those_of_one_rank)
{
	for (uint32_t i = 0; i < 4; i++) {
		struct model_config model = model_of(i);
		struct weights *weights = open_weights(&model, "dummy:5");
		struct result one = run_in_turn(weights, ROUNDING_NONE, 1, NULL);
		for (uint32_t ranks = 2; ranks <= RANKS_MAX; ranks *= 2) {
			struct result many = run_in_turn(weights, ROUNDING_NONE, ranks, NULL);
			double largest = 0, error = 0;
			for (uint32_t j = 0; j < PROMPTS * VOCABULARY; j++) {
				largest = fmax(largest, fabs((double)one.logits[j]));
				error = fmax(error,
					fabs((double)one.logits[j] - (double)many.logits[j]));
			}
			cr_log_info("model %u, %u ranks: %.2g", i, ranks, error / largest);
			require(error < 1e-5 * largest, "model %u, %u ranks: off by %g", i, ranks,
				error / largest);
			require(memcmp(one.sampled, many.sampled, sizeof(one.sampled)) == 0,
				"model %u, %u ranks: other tokens", i, ranks);
			free(many.logits);
		}
		free(one.logits);
		weights_close(weights);
	}
}

/* Rounding each partial sum and each sum costs about what the other roundings cost. */
Test(reference_ranks, bf16_is_as_near_to_float32_as_with_one_rank)
{
	struct model_config model = model_of(0);
	struct weights *weights = open_weights(&model, "dummy:5");
	struct result exact = run_in_turn(weights, ROUNDING_NONE, 1, NULL);
	double noise[RANKS_MAX + 1] = {0};

	for (uint32_t ranks = 1; ranks <= RANKS_MAX; ranks *= 2) {
		struct result rounded = run_in_turn(weights, ROUNDING_BF16, ranks, NULL);
		for (uint32_t j = 0; j < PROMPTS * VOCABULARY; j++) {
			double error = (double)rounded.logits[j] - (double)exact.logits[j];
			noise[ranks] += error * error;
		}
		cr_log_info("%u ranks: noise %.3g", ranks, noise[ranks]);
		require(noise[ranks] < 4 * noise[1], "%u ranks: noise %g, of one rank %g", ranks,
			noise[ranks], noise[1]);
		free(rounded.logits);
	}
	free(exact.logits);
	weights_close(weights);
}

/* ---- what ranks exchange ---- */

enum { LAYERS = 2, EXCHANGES = 2 * LAYERS };

struct record {
	enum rounding rounding;
	uint32_t ranks, calls;
	float *partials[EXCHANGES]; /* (ranks, TOKENS, WIDTH) */
	struct candidate candidates[RANKS_MAX * PROMPTS];
};

static enum status observe(void *state, void *all, size_t bytes, struct error *error)
{
	struct record *record = state;
	uint32_t call = record->calls++;

	(void)error;
	require(call <= EXCHANGES, "more exchanges than two a layer and one");
	if (call == EXCHANGES) {
		require_equal(bytes, PROMPTS * sizeof(*record->candidates));
		memcpy(record->candidates, all, bytes * record->ranks);
	} else {
		require_equal(bytes, sizeof(float) * TOKENS * WIDTH);
		record->partials[call] = memory_take(record->ranks, bytes);
		memcpy(record->partials[call], all, bytes * record->ranks);
	}
	return STATUS_OK;
}

/* The residual stream of a token by the header's words: the embedding, plus every sum over ranks,
   each operation rounded. */
static float naive_residual(const struct record *record, float embedded, uint32_t at)
{
	enum rounding rounding = record->rounding;
	float residual = rounded(embedded, rounding);

	for (uint32_t e = 0; e < EXCHANGES; e++) {
		float sum = 0;
		for (uint32_t rank = 0; rank < record->ranks; rank++) {
			float partial = record->partials[e][rank * TOKENS * WIDTH + at];
			require(partial == rounded(partial, rounding),
				"exchange %u: rank %u did not round", e, rank);
			sum += partial;
		}
		residual = rounded(residual + rounded(sum, rounding), rounding);
	}
	return residual;
}

static void require_naive_logits(
	const struct weights *weights, const struct record *record, const struct result *result)
{
	static float embedding[VOCABULARY * WIDTH], head[VOCABULARY * WIDTH];
	struct step *step = memory_take(1, sizeof(*step));
	float norm[WIDTH], residual[WIDTH], hidden[WIDTH], logits[VOCABULARY];

	weights_read_f32(weights, WEIGHT_EMBEDDING, 0, WEIGHT_WHOLE, 0, VOCABULARY, embedding);
	weights_read_f32(weights, WEIGHT_LM_HEAD, 0, WEIGHT_WHOLE, 0, VOCABULARY, head);
	weights_read_f32(weights, WEIGHT_FINAL_NORM, 0, WEIGHT_WHOLE, 0, 1, norm);
	step_open(step);
	for (uint32_t row = 0; row < PROMPTS; row++) {
		uint32_t token = step->batch.query_start[row + 1] - 1;
		int32_t id = step->batch.token_id[token];
		for (uint32_t i = 0; i < WIDTH; i++) {
			residual[i] = naive_residual(
				record, embedding[id * WIDTH + (int32_t)i], token * WIDTH + i);
		}
		rms_norm_cpu(hidden, residual, norm, 1, WIDTH,
			(float)weights_config(weights)->rms_norm_eps, record->rounding);
		linear_cpu(logits, hidden, (struct matrix){.f32 = head}, NULL, 1, WIDTH, VOCABULARY,
			ROUNDING_NONE);
		require(memcmp(logits, result->logits + row * VOCABULARY, sizeof(logits)) == 0,
			"%u ranks: the logits of row %u are not those of the sums", record->ranks,
			row);
	}
	batch_deinit(&step->batch);
	free(step);
}

static void require_naive_candidates(const struct record *record, const struct result *result)
{
	for (uint32_t row = 0; row < PROMPTS; row++) {
		bool is_found = false;
		float best = -INFINITY;
		for (uint32_t rank = 0; rank < record->ranks; rank++) {
			struct candidate own = record->candidates[rank * PROMPTS + row];
			uint32_t first = VOCABULARY * rank / record->ranks;
			uint32_t end = VOCABULARY * (rank + 1) / record->ranks;
			require(own.id >= (int32_t)first && own.id < (int32_t)end,
				"rank %u chose %d, which is another's", rank, own.id);
			is_found = is_found || own.id == result->sampled[row];
			best = fmaxf(best, own.score);
			/* Row 0 is greedy: the score is the logit. */
			require(row > 0 ||
					own.score ==
						result->logits[row * VOCABULARY + (uint32_t)own.id],
				"rank %u: another score than the logit of %d", rank, own.id);
		}
		require(is_found, "row %u: no rank chose the token %d", row, result->sampled[row]);
		for (uint32_t rank = 0; rank < record->ranks; rank++) {
			struct candidate own = record->candidates[rank * PROMPTS + row];
			require(own.id != result->sampled[row] || own.score == best,
				"row %u: the token has not the best score", row);
		}
	}
}

static void require_naive_sums(
	const struct weights *weights, enum rounding rounding, uint32_t ranks)
{
	struct record record = {.rounding = rounding, .ranks = ranks};
	const struct forward_exchange observer = {.state = &record, .gather = observe};
	struct result result = run_in_turn(weights, rounding, ranks, &observer);

	require_equal(record.calls, EXCHANGES + 1);
	require_naive_logits(weights, &record, &result);
	require_naive_candidates(&record, &result);
	for (uint32_t e = 0; e < EXCHANGES; e++) {
		free(record.partials[e]);
	}
	free(result.logits);
}

/* In float32 the order of a sum of more than two decides its bits. Of a few numbers in bf16 the
   float32 sum is mostly exact, and only their rounding decides. */
Test(reference_ranks, sums_are_in_the_order_of_the_ranks_and_rounded_once)
{
	struct model_config model = model_of(0);
	struct weights *weights = open_weights(&model, "dummy:5");

	for (uint32_t ranks = 2; ranks <= RANKS_MAX; ranks *= 2) {
		require_naive_sums(weights, ROUNDING_NONE, ranks);
		require_naive_sums(weights, ROUNDING_BF16, ranks);
	}
	weights_close(weights);
}

/* ---- each rank by itself ---- */

/* An exchange between threads. */
struct meeting {
	pthread_barrier_t barrier;
	unsigned char *all;
	uint32_t failing_call; /* of rank 1; UINT32_MAX: none */
};

struct rank {
	const struct weights *weights;
	struct meeting *meeting;
	uint32_t index, count, calls;
	struct result result;
	enum status status;
	struct error error;
};

static enum status meet(void *state, void *all, size_t bytes, struct error *error)
{
	struct rank *rank = state;
	struct meeting *meeting = rank->meeting;

	if (rank->calls++ == meeting->failing_call) {
		return error_set(error, STATUS_DEVICE, "rank %u is gone", rank->index);
	}
	if (pthread_barrier_wait(&meeting->barrier) == PTHREAD_BARRIER_SERIAL_THREAD) {
		meeting->all = memory_take(rank->count, bytes);
	}
	pthread_barrier_wait(&meeting->barrier);
	memcpy(meeting->all + rank->index * bytes, (unsigned char *)all + rank->index * bytes,
		bytes);
	pthread_barrier_wait(&meeting->barrier);
	memcpy(all, meeting->all, rank->count * bytes);
	if (pthread_barrier_wait(&meeting->barrier) == PTHREAD_BARRIER_SERIAL_THREAD) {
		free(meeting->all);
	}
	return STATUS_OK;
}

static struct weight_range ids_of(uint32_t rank, uint32_t count)
{
	uint32_t first = VOCABULARY * rank / count;

	return (struct weight_range){first, VOCABULARY * (rank + 1) / count - first};
}

static void *run_rank(void *argument)
{
	struct rank *rank = argument;
	const struct forward_ranks ranks = {.count = rank->count,
		.first = rank->index,
		.here = 1,
		.exchange = {.state = rank, .gather = meet}};

	rank->status = run_step(rank->weights, ROUNDING_BF16, &ranks,
		ids_of(rank->index, rank->count).count, &rank->result, &rank->error);
	return NULL;
}

static void run_ranks(
	const struct weights *weights, struct rank *ranks, uint32_t count, uint32_t failing_call)
{
	struct meeting meeting = {.failing_call = failing_call};
	pthread_t threads[RANKS_MAX];

	require(pthread_barrier_init(&meeting.barrier, NULL, count) == 0, "no barrier");
	for (uint32_t i = 0; i < count; i++) {
		ranks[i] = (struct rank){
			.weights = weights, .meeting = &meeting, .index = i, .count = count};
		require(pthread_create(&threads[i], NULL, run_rank, &ranks[i]) == 0, "no thread");
	}
	for (uint32_t i = 0; i < count; i++) {
		pthread_join(threads[i], NULL);
	}
	pthread_barrier_destroy(&meeting.barrier);
}

Test(reference_ranks, a_rank_by_itself_has_the_bits_of_all_in_turn)
{
	for (uint32_t m = 0; m < 4; m++) {
		struct model_config model = model_of(m);
		struct weights *weights = open_weights(&model, "dummy:5");
		struct rank ranks[RANKS_MAX];
		uint32_t count = m % 2 == 0 ? 4 : 8;
		struct result all = run_in_turn(weights, ROUNDING_BF16, count, NULL);
		run_ranks(weights, ranks, count, UINT32_MAX);
		for (uint32_t i = 0; i < count; i++) {
			struct weight_range ids = ids_of(i, count);
			require(ranks[i].status == STATUS_OK, "%s", ranks[i].error.text);
			require(memcmp(ranks[i].result.sampled, all.sampled, sizeof(all.sampled)) ==
					0,
				"rank %u sampled other tokens", i);
			for (uint32_t row = 0; row < PROMPTS; row++) {
				require(memcmp(ranks[i].result.logits + row * ids.count,
						all.logits + row * VOCABULARY + ids.first,
						ids.count * sizeof(float)) == 0,
					"rank %u: other logits of row %u", i, row);
			}
			free(ranks[i].result.logits);
		}
		free(all.logits);
		weights_close(weights);
	}
}

/* A failure of any exchange of a step ends the step of every rank. */
Test(reference_ranks, a_failed_exchange_ends_the_step)
{
	struct model_config model = model_of(0);
	struct weights *weights = open_weights(&model, "dummy:5");

	for (uint32_t call = 0; call <= EXCHANGES; call++) {
		struct rank ranks[2];
		run_ranks(weights, ranks, 2, call);
		for (uint32_t i = 0; i < 2; i++) {
			require_equal(ranks[i].status, STATUS_DEVICE);
			require_equal(ranks[i].calls, call + 1);
			require(strstr(ranks[i].error.text, "is gone") != NULL, "%s",
				ranks[i].error.text);
			free(ranks[i].result.logits);
		}
	}
	weights_close(weights);
}

/* ---- refusals and bits ---- */

Test(reference_ranks, ranks_that_cannot_divide_the_model_are_refused)
{
	struct model_config model = tiny_model(VOCABULARY);
	struct weights *weights = open_weights(&model, "dummy:5");
	struct forward *forward = NULL;
	struct error error = {0};
	const struct forward_options options = {.weights = weights, .ranks.count = 4};

	require_equal(forward_open(&forward, &options, &error), STATUS_USAGE);
	require(strstr(error.text, "found 4 ranks") != NULL, "%s", error.text);
	require(forward == NULL, "it is open");
	weights_close(weights);
}
