/* The CUDA runner's steps in flight, the memory that it takes and gives back, and what it
   refuses. */

#include "engine/engine_internal.h"
#include "tests/harness/cuda_account.h"
#include "tests/harness/cuda_run.h"

#include <criterion/criterion.h>
#include <cuda_runtime_api.h>
#include <string.h>

TestSuite(cuda_runner_steps, .init = skip_without_device, .timeout = 300);

/* A model whose steps take much longer to launch one kernel after the other than as a graph. */
static void open_deep(struct subject *subject)
{
	struct error error = {0};

	subject->model = run_small_model;
	subject->model.num_hidden_layers = 48;
	cr_assert(weights_open(&subject->weights, &subject->model, "dummy:7", &error) == STATUS_OK,
		"%s", error.text);
}

/* The ids sampled in every step of a run whose tokens are forced. is_ahead: every step is launched
   before the previous one is collected. *left_count: steps that were collected in mid-launch of the
   next, for which all are eager; NULL: not counted. */
static uint32_t collect_all(
	const struct subject *subject, bool is_ahead, int32_t *ids, uint32_t *left_count)
{
	struct error error = {0};
	struct step_time time;
	struct engine_config config = run_config("mixed", 60);
	struct run run;
	uint32_t count = 0, ahead = 0;
	bool is_in_flight = false;

	open_cuda(&run, subject->weights, &config, left_count != NULL);
	struct engine *engine = run.engine;
	for (uint64_t id = 0; id < 20; id++) {
		add_request(engine, id, subject->model.vocab_size, true);
	}
	while (engine_has_work(engine) || is_in_flight) {
		if (!is_in_flight) {
			engine_schedule(engine);
			cr_assert(engine_launch(engine, &error) == STATUS_OK, "%s", error.text);
		}
		uint32_t sampled = (uint32_t)engine->scheduler.batch.counts.sampled_rows;
		is_in_flight = false;
		if (is_ahead) {
			engine_postprocess(engine);
			is_in_flight = engine_schedule(engine) != NULL;
		}
		if (is_in_flight) {
			cr_assert(engine_launch(engine, &error) == STATUS_OK, "%s", error.text);
			ahead++;
		}
		cr_assert(engine_collect(engine, &time, &error) == STATUS_OK, "%s", error.text);
		if (left_count != NULL) {
			*left_count += engine->is_launching;
		}
		memcpy(ids + count, engine->token_ids[engine->scheduler.batch.step % 2],
			sampled * sizeof(int32_t));
		count += sampled;
		if (!is_ahead) {
			engine_postprocess(engine);
		}
		while (engine_take_finished(engine) != NULL) {
		}
	}
	cr_expect((ahead > 0) == is_ahead);
	close_run(&run);
	return count;
}

Test(cuda_runner_steps, steps_launched_ahead_sample_the_same)
{
	static int32_t one_by_one[REQUESTS * OUTPUT_MAX], ahead[REQUESTS * OUTPUT_MAX];
	struct subject subject;

	subject_open_small(&subject);
	uint32_t count = collect_all(&subject, false, one_by_one, NULL);
	cr_expect(count > 20);
	cr_expect(count == collect_all(&subject, true, ahead, NULL));
	cr_expect(memcmp(one_by_one, ahead, count * sizeof(int32_t)) == 0);
	subject_close(&subject);
}

/* A step ends while the next is launched: its tokens are there before that launch is over. */
Test(cuda_runner_steps, steps_are_collected_in_mid_launch)
{
	static int32_t one_by_one[REQUESTS * OUTPUT_MAX], ahead[REQUESTS * OUTPUT_MAX];
	struct subject subject;
	uint32_t left = 0;

	open_deep(&subject);
	uint32_t count = collect_all(&subject, false, one_by_one, &left);
	cr_expect(left == 0);
	cr_expect(count == collect_all(&subject, true, ahead, &left));
	cr_expect(memcmp(one_by_one, ahead, count * sizeof(int32_t)) == 0);
	cr_expect(left > 0);
	subject_close(&subject);
}

static size_t free_device_bytes(void)
{
	size_t free_bytes = 0, total_bytes = 0;

	cr_assert(cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess);
	return free_bytes;
}

static void expect_all_given_back(void)
{
	const struct cuda_account held = cuda_account();

	cr_expect(held.device == 0, "%d pieces of device memory are held", (int)held.device);
	cr_expect(held.pinned == 0, "%d pieces of pinned memory are held", (int)held.pinned);
	cr_expect(held.streams == 0, "%d streams are held", (int)held.streams);
	cr_expect(held.events == 0, "%d events are held", (int)held.events);
	cr_expect(held.graphs == 0, "%d graphs are held", (int)held.graphs);
}

/* Every object that a run takes, and what the driver keeps for it. The first cycles load modules
   and fill pools of the driver, which it keeps. Programs that are no tests may take memory
   meanwhile; a leak shows in every round. */
Test(cuda_runner_steps, gives_all_memory_back)
{
	enum { CYCLES = 20, SETTLED = 3, ROUNDS = 4 };
	int32_t tokens[REQUESTS * OUTPUT_MAX];
	struct subject subject;
	size_t lost = 1;

	have_device_alone();
	subject_open_small(&subject);
	for (uint32_t i = 0; i < SETTLED; i++) {
		sample_all(&subject, i % 2 == 1, tokens);
		expect_all_given_back();
	}
	for (uint32_t round = 0; round < ROUNDS && lost > 0; round++) {
		size_t settled = free_device_bytes();
		for (uint32_t i = 0; i < CYCLES; i++) {
			sample_all(&subject, i % 2 == 1, tokens);
		}
		size_t left = free_device_bytes();
		lost = left < settled ? settled - left : 0;
	}
	cr_expect(lost == 0, "%zu bytes less are free after %d runs", lost, CYCLES);
	expect_all_given_back();
	subject_close(&subject);
}

/* Engine and runner may be closed while requests are unfinished. */
Test(cuda_runner_steps, closes_in_the_middle_of_a_run)
{
	struct error error = {0};
	struct subject subject;
	struct run run;
	struct step_time time;
	struct engine_config config = run_config("mixed", 200);

	subject_open_small(&subject);
	open_cuda(&run, subject.weights, &config, false);
	for (uint64_t id = 0; id < 4; id++) {
		add_request(run.engine, id, subject.model.vocab_size, false);
	}
	cr_assert(engine_step(run.engine, &time, &error) == STATUS_OK, "%s", error.text);
	cr_assert(engine_has_work(run.engine));
	engine_close(run.engine);
	run.runner.close(run.runner.state);
	subject_close(&subject);
}

/* The same where a step behind the one in flight is launched in part. */
Test(cuda_runner_steps, closes_in_mid_launch)
{
	struct error error = {0};
	struct subject subject;
	struct run run;
	struct step_time time;
	struct engine_config config = run_config("mixed", 200);
	uint32_t rounds = 0;

	open_deep(&subject);
	open_cuda(&run, subject.weights, &config, true);
	for (uint64_t id = 0; id < 4; id++) {
		add_request(run.engine, id, subject.model.vocab_size, true);
	}
	engine_schedule(run.engine);
	cr_assert(engine_launch(run.engine, &error) == STATUS_OK, "%s", error.text);
	do {
		engine_postprocess(run.engine);
		cr_assert(engine_schedule(run.engine) != NULL);
		cr_assert(engine_launch(run.engine, &error) == STATUS_OK, "%s", error.text);
		cr_assert(engine_collect(run.engine, &time, &error) == STATUS_OK, "%s", error.text);
	} while (!run.engine->is_launching && ++rounds < 4);
	cr_expect(run.engine->is_launching);
	engine_close(run.engine);
	run.runner.close(run.runner.state);
	expect_all_given_back();
	subject_close(&subject);
}

Test(cuda_runner_steps, refuses_what_it_cannot_compute)
{
	struct runner runner;
	struct cuda_memory memory;
	struct weights *weights;
	struct engine_config config = run_config("mixed", 12);
	const struct {
		uint32_t block_size, head_dim;
		const char *word;
	} cases[] = {{24, 32, "--block-size 24"}, {64, 48, "head_dim 48"}};

	for (uint32_t i = 0; i < 2; i++) {
		struct model_config model = run_small_model;
		struct error error = {0};
		model.head_dim = cases[i].head_dim;
		config.block_size = cases[i].block_size;
		cr_assert(weights_open(&weights, &model, "dummy:7", &error) == STATUS_OK);
		const struct cuda_runner_options options = {
			.weights = weights, .engine = &config, .gpu_memory_utilization = 900000};
		cr_expect(cuda_runner_open(&runner, &options, &memory, &error) != STATUS_OK);
		cr_expect(strstr(error.text, cases[i].word) != NULL, "%s", error.text);
		weights_close(weights);
	}
}
