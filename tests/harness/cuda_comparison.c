#include "tests/harness/cuda_comparison.h"

#include "engine/base/memory.h"
#include "engine/engine_internal.h"
#include "engine/runners/cuda_runner.h"
#include "engine/reference/reference_runner.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double squared_distance(const float *out, const float *ref, size_t count)
{
	double sum = 0;

	for (size_t i = 0; i < count; i++) {
		sum += ((double)out[i] - ref[i]) * ((double)out[i] - ref[i]);
	}
	return sum;
}

double squared_size(const float *ref, size_t count)
{
	double sum = 0;

	for (size_t i = 0; i < count; i++) {
		sum += (double)ref[i] * ref[i];
	}
	return sum;
}

enum { ROW_ERROR_PERCENT = 6 };

static void open_gpus(struct comparison *own, const struct subject *subject,
	const struct engine_config *config, bool is_eager, uint32_t ranks)
{
	struct error error = {0};
	struct cuda_memory memory;
	struct cuda_runner_options options = {
		.weights = subject->weights,
		.engine = config,
		.gpu_memory_utilization = 900000,
		.seed = 3,
		.is_eager = is_eager,
		.sharing = DECODE_SHARING_ON,
		.path = KERNEL_PATH_SM90,
	};

	if (ranks > 1) {
		cr_assert(cuda_runner_start_ranks(&options, ranks, &error) == STATUS_OK, "%s",
			error.text);
	}
	cr_assert(cuda_runner_open(&own->gpu.runner, &options, &memory, &error) == STATUS_OK, "%s",
		error.text);
	cr_assert(engine_open(&own->gpu.engine, config, &own->gpu.runner, &error) == STATUS_OK);
}

static void comparison_open(struct comparison *own, const struct subject *subject,
	const struct engine_config *config, bool is_eager, uint32_t ranks)
{
	memset(own, 0, sizeof(*own));
	own->vocab_size = subject->model.vocab_size;
	own->compared = weight_shard_rows(
		&subject->model, WEIGHT_LM_HEAD, 0, (struct weight_shard){0, ranks})
				.count;
	open_gpus(own, subject, config, is_eager, ranks);
	open_reference_ranks(&own->rounded, subject->weights, config, ROUNDING_BF16, ranks);
	open_reference(&own->exact, subject->weights, config, ROUNDING_NONE);
	/* steps count chains of tiles, and readings, as the GPU has them */
	own->rounded.engine->scheduler.spread = own->gpu.runner.spread;
	own->exact.engine->scheduler.spread = own->gpu.runner.spread;
	own->rounded.engine->scheduler.window.sharing.readers = own->gpu.runner.readers;
	own->exact.engine->scheduler.window.sharing.readers = own->gpu.runner.readers;
}

static void comparison_close(struct comparison *own)
{
	close_run(&own->gpu);
	close_run(&own->rounded);
	close_run(&own->exact);
}

static void compare_logits(struct comparison *own)
{
	struct error error = {0};
	uint32_t rows = (uint32_t)own->gpu.engine->scheduler.batch.counts.sampled_rows;
	const float *rounded = reference_runner_logits(&own->rounded.runner);
	const float *exact = reference_runner_logits(&own->exact.runner);
	uint32_t count = own->compared;
	float *logits = memory_take((size_t)rows * count + 1, sizeof(float));

	cr_assert(cuda_runner_logits(&own->gpu.runner, rows, logits, &error) == STATUS_OK);
	for (uint32_t r = 0; r < rows; r++) {
		const float *gpu = logits + (size_t)r * count;
		size_t at = (size_t)r * own->vocab_size;
		double size = squared_size(exact + at, count);
		double row_error = sqrt(squared_distance(gpu, rounded + at, count) / size);
		cr_assert(row_error < ROW_ERROR_PERCENT / 100.0,
			"step %lu row %u: relative error %g",
			(unsigned long)own->gpu.engine->scheduler.batch.step, r, row_error);
		own->row_error_max = fmax(own->row_error_max, row_error);
		own->gpu_error += squared_distance(gpu, exact + at, count);
		own->rounded_error += squared_distance(rounded + at, exact + at, count);
		own->size += size;
		own->rows++;
	}
	free(logits);
}

static void step_alike(struct run *run, const struct step_counts *counts)
{
	struct error error = {0};
	struct step_time time;

	cr_assert(engine_step(run->engine, &time, &error) == STATUS_OK, "%s", error.text);
	cr_assert(memcmp(counts, &run->engine->scheduler.batch.counts, sizeof(*counts)) == 0);
}

static void compare_step(struct comparison *own)
{
	struct error error = {0};
	struct step_time time;
	const struct step_counts *counts = &own->gpu.engine->scheduler.batch.counts;

	cr_assert(engine_step(own->gpu.engine, &time, &error) == STATUS_OK, "%s", error.text);
	step_alike(&own->rounded, counts);
	step_alike(&own->exact, counts);
	own->preemptions += counts->preemptions;
	own->graph_steps += time.mode == STEP_MODE_GRAPH;
	own->eager_steps += time.mode == STEP_MODE_EAGER;
	compare_logits(own);
	while (engine_take_finished(own->gpu.engine) != NULL) {
	}
	while (engine_take_finished(own->rounded.engine) != NULL) {
	}
	while (engine_take_finished(own->exact.engine) != NULL) {
	}
}

/* What compare_runs() is asked, and its answer. */
struct compared_run {
	const struct subject *subject;
	const char *policy;
	uint32_t blocks, ranks;
	bool is_eager;
	struct comparison result;
};

static void run_all(void *argument)
{
	struct compared_run *asked = argument;
	struct engine_config config = run_config(asked->policy, asked->blocks);
	struct comparison own;

	comparison_open(&own, asked->subject, &config, asked->is_eager, asked->ranks);
	for (uint64_t id = 0; id < REQUESTS || engine_has_work(own.gpu.engine);) {
		uint32_t count = own.vocab_size;
		for (uint32_t i = 0; i < 3 && id < REQUESTS; i++) {
			if (engine_has_room(own.gpu.engine)) {
				add_request(own.gpu.engine, id, count, true);
				add_request(own.rounded.engine, id, count, true);
				add_request(own.exact.engine, id, count, true);
				id++;
			}
		}
		compare_step(&own);
	}
	comparison_close(&own);
	asked->result = own;
}

struct comparison compare_runs(const struct subject *subject, const char *policy, uint32_t blocks,
	bool is_eager, uint32_t ranks)
{
	struct compared_run *asked = shared_take(sizeof(*asked));

	*asked = (struct compared_run){.subject = subject,
		.policy = policy,
		.blocks = blocks,
		.ranks = ranks,
		.is_eager = is_eager};
	if (ranks > 1) {
		run_apart(run_all, asked);
	} else {
		run_all(asked);
	}
	struct comparison own = asked->result;
	shared_free(asked, sizeof(*asked));
	printf("%s, %s, %s, %u ranks: %lu rows of logits, the worst off by %.2g of the rounded; "
	       "all by %.3g of the exact, where rounding costs %.3g\n",
		subject->model.name, policy, is_eager ? "eager" : "graphs", ranks,
		(unsigned long)own.rows, own.row_error_max, sqrt(own.gpu_error / own.size),
		sqrt(own.rounded_error / own.size));
	cr_expect(sqrt(own.gpu_error) < RUN_ERROR_RATIO * sqrt(own.rounded_error));
	cr_expect(own.rows > REQUESTS);
	return own;
}
