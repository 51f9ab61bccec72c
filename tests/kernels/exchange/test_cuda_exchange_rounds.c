/* Many exchanges in a row between ranks that are delayed at random, with rows that change from step
   to step; tokens from shares of the vocabulary; and waits that must end although a peer never
   comes. Skipped without a device. */

#include "engine/base/clock.h"
#include "engine/base/counter_hash.h"
#include "engine/base/memory.h"
#include "kernels/exchange/exchange.h"
#include "kernels/sampling/sampler.h"
#include "tests/harness/cuda_exchange.h"

#include <criterion/criterion.h>
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

TestSuite(cuda_exchange_rounds, .init = skip_without_device_for_group);

static const float EPSILON = 1e-6f;

enum { LIMIT_MS = 3000 };

/* ---- rounds ---- */

enum {
	ROWS_MAX = 8,
	PUSH_ROWS = 4,	      /* more are pulled */
	STEPS = 16,	      /* of a graph */
	PER_STEP = 4,	      /* exchanges of a step, the last of picked rows */
	DELAY_CYCLES = 4000,  /* 2 us */
	CYCLES_OF_LOOK = 500, /* graphs between two looks at the digests */
};

/* A rank, or the reference, which has the parts of all ranks. */
struct runner {
	uint16_t *residual, *out, *weight;
	uint64_t *digest; /* (ROWS_MAX, width) of all that was written to both */
	uint32_t *index;
	cudaGraphExec_t graph;
};

struct rounds {
	struct group group;
	uint32_t width;
	struct runner ranks[EXCHANGE_RANKS_MAX], reference;
	uint64_t *step_count; /* of the reference */
	uint16_t *parts;      /* (ranks, ROWS_MAX, width) of the reference */
	cudaStream_t stream;  /* of the reference */
};

static uint32_t rows_of(uint32_t step)
{
	return 1 + (uint32_t)(counter_hash(5, step) % ROWS_MAX);
}

static struct runner open_runner(uint32_t width)
{
	const size_t size = (size_t)ROWS_MAX * width, bytes = size * sizeof(uint16_t);
	uint16_t *weight = memory_take(width, sizeof(*weight));
	uint32_t index[ROWS_MAX];
	struct runner runner = {.residual = device_take(bytes),
		.out = device_take(bytes),
		.digest = device_take(size * sizeof(uint64_t))};

	for (uint32_t i = 0; i < width; i++) {
		weight[i] = bf16_from_float((float)(i % 100 + 1) / 64);
	}
	for (uint32_t i = 0; i < ROWS_MAX; i++) {
		index[i] = 2 * i + 1;
	}
	runner.weight = device_copy(weight, width * sizeof(*weight));
	runner.index = device_copy(index, sizeof(index));
	free(weight);
	return runner;
}

static void close_runner(struct runner *runner)
{
	if (runner->graph != NULL) {
		cudaGraphExecDestroy(runner->graph);
	}
	cudaFree(runner->residual);
	cudaFree(runner->out);
	cudaFree(runner->weight);
	cudaFree(runner->digest);
	cudaFree(runner->index);
}

/* One round of a rank (x is its exchange), or of the reference (x is NULL). */
static void launch_round(struct rounds *own, struct runner *runner, const struct exchange *x,
	uint32_t step, uint32_t i, cudaStream_t stream)
{
	const uint32_t rows = rows_of(step);
	const bool is_last = i == PER_STEP - 1;
	const struct exchange_round round = {
		.key = 17,
		.step_count = x == NULL ? own->step_count : x->step_count,
		.per_step = PER_STEP,
		.index = i,
		.first_rank = x == NULL ? 0 : x->rank,
		.ranks = x == NULL ? own->group.ranks : 1,
		.rows = rows,
		.rows_max = ROWS_MAX,
		.width = own->width,
		.delay_cycles = x == NULL ? 0 : DELAY_CYCLES,
		.parts = x == NULL ? own->parts : exchange_partial(x, i),
		.residual = runner->residual,
		.out = runner->out,
		.digest = runner->digest,
	};
	const struct exchange_norm norm = {
		.out = runner->out,
		.residual = runner->residual,
		.weight = runner->weight,
		.index = is_last ? runner->index : NULL,
		.row_count = is_last ? rows / 2 : rows,
		.epsilon = EPSILON,
	};

	must(round_begin(&round, stream), "round_begin");
	must(x == NULL ? exchange_gathered_add_rms_norm(
				 &norm, own->parts, own->group.ranks, rows, own->width, stream)
		       : exchange_add_rms_norm(&norm, x, i, stream),
		"an exchange");
}

static cudaGraphExec_t capture(struct rounds *own, struct runner *runner, const struct exchange *x,
	uint64_t *step_count, cudaStream_t stream)
{
	cudaGraph_t graph;
	cudaGraphExec_t result;

	must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
	for (uint32_t step = 0; step < STEPS; step++) {
		for (uint32_t i = 0; i < PER_STEP; i++) {
			launch_round(own, runner, x, step, i, stream);
		}
		must(exchange_end_step(step_count, stream), "exchange_end_step");
	}
	must(cudaStreamEndCapture(stream, &graph), "capture");
	must(cudaGraphInstantiate(&result, graph, 0), "cudaGraphInstantiate");
	cudaGraphDestroy(graph);
	must(cudaGraphUpload(result, stream), "cudaGraphUpload");
	must(cudaStreamSynchronize(stream), "cudaGraphUpload");
	return result;
}

static void open_rounds(struct rounds *own, uint32_t ranks, uint32_t devices, uint32_t width)
{
	*own = (struct rounds){.width = width};
	group_open(&own->group, ranks, devices, width, ROWS_MAX, PER_STEP, LIMIT_MS);
	for (uint32_t r = 0; r < ranks; r++) {
		struct exchange *x = &own->group.x[r];
		group_use(&own->group, r);
		x->layout.push_rows = PUSH_ROWS;
		own->ranks[r] = open_runner(width);
		own->ranks[r].graph = capture(own, &own->ranks[r], x,
			&own->group.words[r]->step_count, own->group.streams[r]);
	}
	group_use(&own->group, 0);
	own->parts = device_take((size_t)ranks * ROWS_MAX * width * sizeof(uint16_t));
	own->step_count = device_take(sizeof(uint64_t));
	must(cudaMemset(own->step_count, 0, sizeof(uint64_t)), "cudaMemset");
	must(cudaStreamCreateWithFlags(&own->stream, cudaStreamNonBlocking), "cudaStreamCreate");
	own->reference = open_runner(width);
	own->reference.graph = capture(own, &own->reference, NULL, own->step_count, own->stream);
}

static void close_rounds(struct rounds *own)
{
	for (uint32_t r = 0; r < own->group.ranks; r++) {
		group_use(&own->group, r);
		close_runner(&own->ranks[r]);
	}
	group_use(&own->group, 0);
	close_runner(&own->reference);
	cudaStreamDestroy(own->stream);
	cudaFree(own->parts);
	cudaFree(own->step_count);
	group_close(&own->group);
}

static uint64_t *fetch_digest(const struct rounds *own, const struct runner *runner)
{
	const size_t bytes = (size_t)ROWS_MAX * own->width * sizeof(uint64_t);
	uint64_t *digest = memory_take(bytes, 1);

	must(cudaMemcpy(digest, runner->digest, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
	return digest;
}

static void compare_digests(const struct rounds *own, uint32_t graphs)
{
	const size_t size = (size_t)ROWS_MAX * own->width;

	group_use(&own->group, 0);
	uint64_t *expected = fetch_digest(own, &own->reference);
	for (uint32_t r = 0; r < own->group.ranks; r++) {
		group_use(&own->group, r);
		uint64_t *found = fetch_digest(own, &own->ranks[r]);
		size_t differ = 0;
		for (size_t i = 0; i < size; i++) {
			differ += found[i] != expected[i];
		}
		cr_assert(differ == 0,
			"%u ranks on %u GPUs, after %u graphs: %zu elements of rank %u differ",
			own->group.ranks, own->group.devices, graphs, differ, r);
		free(found);
	}
	free(expected);
}

static void run_rounds(uint32_t ranks, uint32_t devices, uint32_t width, uint32_t graphs)
{
	struct rounds own;

	graphs = takes_few() ? 1 + graphs / 500 : graphs;
	open_rounds(&own, ranks, devices, width);
	for (uint32_t i = 1; i <= graphs; i++) {
		for (uint32_t r = 0; r < ranks; r++) {
			/* Another rank comes first each time. */
			uint32_t rank = (r + i) % ranks;
			group_use(&own.group, rank);
			must(cudaGraphLaunch(own.ranks[rank].graph, own.group.streams[rank]),
				"cudaGraphLaunch");
		}
		group_use(&own.group, 0);
		group_wait(&own.group, "rounds");
		group_use(&own.group, 0);
		must(cudaGraphLaunch(own.reference.graph, own.stream), "cudaGraphLaunch");
		if (i % CYCLES_OF_LOOK == 0 || i == graphs) {
			must(cudaStreamSynchronize(own.stream), "the reference");
			compare_digests(&own, i);
		}
	}
	close_rounds(&own);
}

Test(cuda_exchange_rounds, delayed_ranks_on_one_gpu)
{
	run_rounds(2, 1, 1024, 3000);
	run_rounds(4, 1, 1024, 1500);
	run_rounds(8, 1, 1024, 1500);
	run_rounds(8, 1, 5120, 200);
	run_rounds(3, 1, 64, 500);
}

/* 10^6 rounds. */
Test(cuda_exchange_rounds, delayed_ranks_on_several_gpus)
{
	const uint32_t devices = group_devices(EXCHANGE_RANKS_MAX);

	if (devices == 1) {
		cr_skip_test("one GPU");
	}
	run_rounds(devices, devices, 1024, 1000000 / (STEPS * PER_STEP));
	run_rounds(2 * devices, devices, 2560, 1000);
}

/* ---- tokens ---- */

enum { VOCABULARY = 5003, TOKEN_ROWS = 37, TOKEN_STEPS = 9 };

struct tokens {
	float *logits; /* (TOKEN_ROWS, VOCABULARY) */
	uint64_t keys[TOKEN_ROWS];
	float temperatures[TOKEN_ROWS];
	uint32_t rows[TOKEN_ROWS];
	int32_t expected[TOKEN_ROWS];
};

static void make_tokens(struct tokens *own, uint32_t step)
{
	own->logits = memory_take((size_t)TOKEN_ROWS * VOCABULARY, sizeof(float));
	for (uint32_t r = 0; r < TOKEN_ROWS; r++) {
		own->keys[r] = sampler_row_key(step, r, 5);
		own->temperatures[r] = (float)(r % 3);
		own->rows[r] = r % 5 == 2 ? SAMPLER_NO_ROW : TOKEN_ROWS - 1 - r;
		for (uint32_t id = 0; id < VOCABULARY; id++) {
			uint64_t hash = counter_hash(counter_key(step, r), id);
			float logit = (float)(hash % 1000) / 100;
			logit = r % 7 == 3 ? (float)(hash % 4) : logit; /* ties */
			logit = r % 7 == 4 && id % 2 == 0 ? NAN : logit;
			logit = r % 7 == 5 ? -INFINITY : logit;
			own->logits[(size_t)r * VOCABULARY + id] = logit;
		}
	}
	sampler_cpu(
		own->expected, own->logits, own->keys, own->temperatures, TOKEN_ROWS, VOCABULARY);
}

static void expect_tokens(const struct tokens *own, const int32_t *token_ids,
	const int32_t *last_tokens, uint32_t count, const char *what, uint32_t rank)
{
	int32_t found[TOKEN_ROWS], last[TOKEN_ROWS];

	must(cudaMemcpy(found, token_ids, sizeof(found), cudaMemcpyDeviceToHost), "cudaMemcpy");
	must(cudaMemcpy(last, last_tokens, sizeof(last), cudaMemcpyDeviceToHost), "cudaMemcpy");
	for (uint32_t r = 0; r < TOKEN_ROWS; r++) {
		int32_t expected = r < count ? own->expected[r] : -1;
		cr_assert(found[r] == expected, "%s: rank %u, row %u: %d, expected %d", what, rank,
			r, found[r], expected);
		if (own->rows[r] != SAMPLER_NO_ROW) {
			cr_assert(last[own->rows[r]] == expected,
				"%s: last token of rank %u, row %u", what, rank, r);
		}
	}
}

/* A rank's share of the vocabulary on its device. */
struct share {
	uint32_t first, count;
	float *logits;
	void *tiles;
	uint64_t *keys;
	float *temperatures;
	uint32_t *rows;
	int32_t *token_ids, *last_tokens;
};

static struct share open_share(const struct tokens *own, uint32_t rank, uint32_t ranks)
{
	struct share share = {.first = VOCABULARY * rank / ranks,
		.count = VOCABULARY * (rank + 1) / ranks - VOCABULARY * rank / ranks,
		.tiles = device_take(TOKEN_ROWS * VOCABULARY * sizeof(uint64_t) / SAMPLER_TILE +
				     TOKEN_ROWS * sizeof(uint64_t)),
		.keys = device_copy(own->keys, sizeof(own->keys)),
		.temperatures = device_copy(own->temperatures, sizeof(own->temperatures)),
		.rows = device_copy(own->rows, sizeof(own->rows)),
		.token_ids = device_take(sizeof(own->expected)),
		.last_tokens = device_take(sizeof(own->expected))};
	float *logits = memory_take((size_t)TOKEN_ROWS * share.count, sizeof(*logits));

	for (uint32_t r = 0; r < TOKEN_ROWS; r++) {
		memcpy(logits + (size_t)r * share.count,
			own->logits + (size_t)r * VOCABULARY + share.first,
			share.count * sizeof(*logits));
	}
	share.logits = device_copy(logits, (size_t)TOKEN_ROWS * share.count * sizeof(*logits));
	free(logits);
	return share;
}

static void close_share(struct share *share)
{
	cudaFree(share->logits);
	cudaFree(share->tiles);
	cudaFree(share->keys);
	cudaFree(share->temperatures);
	cudaFree(share->rows);
	cudaFree(share->token_ids);
	cudaFree(share->last_tokens);
}

static void check_peers(
	struct group *group, const struct tokens *own, struct share *shares, uint32_t count)
{
	for (uint32_t r = 0; r < group->ranks; r++) {
		const struct share *s = &shares[r];
		group_use(group, r);
		must(sampler_tiles(s->tiles, s->logits, s->keys, s->temperatures, count, s->first,
			     s->count, group->streams[r]),
			"sampler_tiles");
		must(exchange_candidates(s->token_ids, s->last_tokens, s->tiles,
			     sampler_tile_count(count, s->count), s->rows, count, &group->x[r],
			     group->streams[r]),
			"exchange_candidates");
	}
	group_wait(group, "exchange_candidates");
	for (uint32_t r = 0; r < group->ranks; r++) {
		group_use(group, r);
		expect_tokens(own, shares[r].token_ids, shares[r].last_tokens, count, "peers", r);
	}
}

/* The tiles of check_peers(), gathered. */
static void check_library(const struct group *group, const struct tokens *own,
	const struct share *shares, uint32_t count)
{
	uint64_t *words = device_take(group->ranks * count * sizeof(*words));
	struct share out = open_share(own, 0, 1);

	for (uint32_t r = 0; r < group->ranks; r++) {
		must(exchange_pack_candidates(words + r * count, shares[r].tiles,
			     sampler_tile_count(count, shares[r].count), count, NULL),
			"exchange_pack_candidates");
	}
	must(exchange_pick_candidates(
		     out.token_ids, out.last_tokens, words, out.rows, count, group->ranks, NULL),
		"exchange_pick_candidates");
	must(cudaDeviceSynchronize(), "exchange_pick_candidates");
	expect_tokens(own, out.token_ids, out.last_tokens, count, "gathered", 0);
	close_share(&out);
	cudaFree(words);
}

static void check_tokens(uint32_t ranks, uint32_t devices)
{
	struct group group;

	group_open(&group, ranks, devices, 8, TOKEN_ROWS, 2, LIMIT_MS);
	for (uint32_t step = 0; step < (takes_few() ? 2 : TOKEN_STEPS); step++) {
		const uint32_t count = step % 3 == 1 ? 1 : TOKEN_ROWS;
		struct tokens own;
		struct share shares[EXCHANGE_RANKS_MAX];
		make_tokens(&own, step);
		for (uint32_t r = 0; r < ranks; r++) {
			group_use(&group, r);
			shares[r] = open_share(&own, r, ranks);
			must(cudaDeviceSynchronize(), "shares");
		}
		check_peers(&group, &own, shares, count);
		if (devices == 1) {
			check_library(&group, &own, shares, count);
		}
		for (uint32_t r = 0; r < ranks; r++) {
			group_use(&group, r);
			close_share(&shares[r]);
		}
		free(own.logits);
		group_end_step(&group);
		group_wait(&group, "exchange_end_step");
	}
	group_close(&group);
}

Test(cuda_exchange_rounds, shares_of_the_vocabulary_give_the_token_of_the_whole)
{
	const uint32_t devices = group_devices(EXCHANGE_RANKS_MAX);

	for (uint32_t ranks = 1; ranks <= EXCHANGE_RANKS_MAX; ranks += takes_few() ? 3 : 1) {
		check_tokens(ranks, 1);
	}
	if (devices > 1) {
		check_tokens(devices, devices);
	}
}

/* ---- waits that must end ---- */

enum way_out { PUSHES, PULLS, CANDIDATES, WAY_OUT_COUNT };
enum { LATER = 200, STEPS_BEFORE = 3 };

/* Rank 0 waits for rank 2 of 3, which never comes; rank 1 came. Its later exchanges do not wait. */
static void check_way_out(enum way_out way, bool is_aborted)
{
	struct group group;
	struct runner runner = open_runner(1024);
	struct tokens tokens;
	const struct exchange_norm norm = {.out = runner.out,
		.residual = runner.residual,
		.weight = runner.weight,
		.row_count = way == PULLS ? ROWS_MAX : PUSH_ROWS,
		.epsilon = EPSILON};

	make_tokens(&tokens, 1);
	struct share share = open_share(&tokens, 0, 1);
	group_open(&group, 3, 1, 1024, TOKEN_ROWS, 1 + LATER, is_aborted ? 10000 : 50);
	for (uint32_t i = 0; i < STEPS_BEFORE; i++) {
		group_end_step(&group);
	}
	group_wait(&group, "exchange_end_step");
	uint64_t begin = monotonic_ns();
	for (uint32_t r = 0; r < 2; r++) {
		group.x[r].layout.push_rows = PUSH_ROWS;
		must(way == CANDIDATES
				? exchange_candidates(share.token_ids, share.last_tokens,
					  share.tiles, 1, share.rows, TOKEN_ROWS, &group.x[r],
					  group.streams[r])
				: exchange_add_rms_norm(&norm, &group.x[r], 0, group.streams[r]),
			"an exchange");
	}
	for (uint32_t i = 1; i <= LATER; i++) {
		must(exchange_add_rms_norm(&norm, &group.x[0], i, group.streams[0]), "later");
	}
	if (is_aborted) {
		while (monotonic_ns() - begin < 20000000) {
		}
		*(volatile uint32_t *)group.abort = 1;
	}
	must(cudaStreamSynchronize(group.streams[0]), "a wait that ends");
	must(cudaStreamSynchronize(group.streams[1]), "a wait that ends");
	uint64_t took_ms = (monotonic_ns() - begin) / 1000000;
	cr_expect(took_ms < 150, "way %d, aborted %d: %d ms", (int)way, is_aborted, (int)took_ms);
	cr_expect(took_ms >= (is_aborted ? 20 : 50), "way %d: %d ms", (int)way, (int)took_ms);
	for (uint32_t r = 0; r < 2; r++) {
		const struct exchange_report *report = &group.reports[r];
		cr_expect(report->end == (is_aborted ? EXCHANGE_ABORTED : EXCHANGE_TIMED_OUT),
			"way %d: end %u", (int)way, report->end);
		cr_expect(report->index == (way == CANDIDATES ? 1 + LATER : 0),
			"way %d: exchange %u", (int)way, report->index);
		cr_expect(report->peer == 2, "way %d: rank %u", (int)way, report->peer);
		cr_expect(report->step == STEPS_BEFORE, "way %d: step %d", (int)way,
			(int)report->step);
	}
	close_share(&share);
	free(tokens.logits);
	close_runner(&runner);
	group_close(&group);
}

Test(cuda_exchange_rounds, waits_end_without_a_peer)
{
	for (uint32_t i = 0; i < 2 * WAY_OUT_COUNT; i++) {
		check_way_out((enum way_out)(i / 2), i % 2 == 1);
	}
}
