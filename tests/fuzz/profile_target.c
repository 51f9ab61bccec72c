#include "tests/fuzz/targets.h"

#include "engine/model/config_json.h"
#include "sim/cost_model.h"
#include "sim/kv_memory.h"
#include "sim/profile.h"
#include "tests/fuzz/sections.h"
#include "tests/harness/require.h"

/* Steps from none to as many tokens as options allow, alone and mixed. */
static const struct step_counts steps[] = {
	{.decode_rows = 1, .decode_context_tokens = 1, .sampled_rows = 1},
	{.decode_rows = 256,
		.decode_context_tokens = 256 * 1024,
		.decode_longest_context = 4096,
		.shared_tokens = 1000,
		.reread_tokens = 500,
		.repeat_tokens = 500,
		.sampled_rows = 256},
	{.decode_rows = 65536,
		.decode_context_tokens = UINT64_C(65536) << 28,
		.decode_longest_context = 1 << 28,
		.sampled_rows = 65536},
	{.prefill_rows = 1, .prefill_tokens = 1, .prefill_attention_pairs = 1, .sampled_rows = 1},
	{.prefill_rows = 7,
		.prefill_tokens = 16384,
		.cached_tokens = 1 << 20,
		.prefill_attention_pairs = UINT64_C(16384) << 20,
		.sampled_rows = 3},
	{.decode_rows = 100,
		.decode_context_tokens = 100000,
		.prefill_rows = 1,
		.prefill_tokens = 1 << 28,
		.prefill_attention_pairs = UINT64_C(1) << 55,
		.sampled_rows = 101},
};

static void check_time(enum status status, const struct step_time *time, const struct error *error)
{
	require_refused_in_one_line(status, error);
	if (status == STATUS_OK) {
		require_equal(time->gpu_ns + time->host_ns, time->elapsed_ns);
		require(time->elapsed_ns <= UINT64_C(1000000000000000), "a step of 10^15 ns");
	}
}

static void price_steps(struct runner *runner)
{
	for (uint32_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		const struct batch batch = {.step = i, .counts = steps[i]};
		struct step_time time = {0};
		struct error error = {0};
		enum status status = runner->execute(runner->state, &batch, NULL, &time, &error);
		check_time(status, &time, &error);
		if (runner->launch != NULL) {
			struct error second = {0}, third = {0};
			runner->launch(runner->state, &batch, &second);
			runner->launch(runner->state, &batch, &second);
			status = runner->collect(runner->state, NULL, &time, &second);
			check_time(status, &time, &second);
			status = runner->collect(runner->state, NULL, &time, &third);
			check_time(status, &time, &third);
		}
	}
}

static void use_profile(const struct gpu_profile *profile, uint32_t ranks)
{
	const struct engine_config engine = {.block_size = 16,
		.max_num_seqs = 64,
		.max_num_batched_tokens = 4096,
		.max_model_len = 4096};
	struct model_config model;
	struct kv_memory memory;
	struct runner runner = {0};
	struct error error = {0};

	if (!model_config_builtin(profile->model, &model)) {
		require(model_config_builtin("qwen3-0.6b", &model), "no such model");
	}
	enum status status =
		kv_memory_estimate(&model, profile, &engine, 900000, ranks, &memory, &error);
	require_refused_in_one_line(status, &error);
	error = (struct error){0};
	status = cost_model_open(&runner, &model, profile, ranks, &error);
	require_refused_in_one_line(status, &error);
	if (status == STATUS_OK) {
		price_steps(&runner);
		runner.close(runner.state);
	}
}

bool fuzz_profile(const uint8_t *bytes, size_t byte_count)
{
	static const char *const names[] = {"profile.json", NULL};
	char folder[TEMPORARY_PATH_BYTES], path[SECTIONS_PATH_BYTES];
	struct gpu_profile profile;
	struct error error = {0};

	sections_unpack(bytes, byte_count, names, folder);
	sections_path(path, folder, "profile.json");
	enum status status = gpu_profile_find(path, &profile, &error);
	require_refused_in_one_line(status, &error);
	if (status == STATUS_OK) {
		use_profile(&profile, 1);
		use_profile(&profile, 2);
	}
	sections_remove(folder);
	return status == STATUS_OK;
}
