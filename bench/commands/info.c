#include "bench/commands/commands.h"

#include "bench/replay/cuda_open.h"
#include "bench/replay/replay_config.h"
#include "bench/replay/runners.h"
#include "engine/base/number.h"
#include "engine/model/config_json.h"
#include "sim/kv_memory.h"
#include "sim/profile_choice.h"

#include <stdio.h>

static const char summary[] =
	"Shows how the memory of a GPU is used and how many KV blocks fit: as the cost model\n"
	"estimates for a profile and, on a machine with a GPU, as the CUDA runner finds it.\n"
	"Of several GPUs that share the model, each holds its part of every block.\n";

static const char examples[] = "  quire info --model qwen3-8b --gpu h200\n"
			       "  quire info --model qwen3-0.6b --max-model-len 131072\n"
			       "  quire info --model qwen3-32b -tp 4\n";

/* The cost model's estimate. */
static enum status print_estimate(const struct replay_config *config,
	const struct model_config *model, uint32_t *block_count, struct error *error)
{
	struct gpu_profile_choice choice;
	const struct gpu_profile *profile = &choice.profile;
	uint32_t ranks = (uint32_t)config->tensor_parallel_size;
	struct kv_memory memory;
	struct engine_config engine;

	TRY(gpu_profile_choose(
		config->gpu, replay_config_policy(config), model->name, ranks, &choice, error));
	replay_config_engine(config, &engine);
	TRY(kv_memory_estimate(
		model, profile, &engine, config->gpu_memory_utilization, ranks, &memory, error));
	*block_count = memory.block_count;
	printf("profile %s, estimated for %s", profile->name, model->name);
	if (ranks > 1) {
		printf(" on each of %u GPUs", ranks);
	}
	printf("\n  %s\n", profile->description);
	if (choice.note[0] != '\0') {
		printf("  uncalibrated: %s\n", choice.note);
	}
	printf("  memory             %10.3f GB\n", (double)memory.total_bytes / 1e9);
	printf("  of that usable     %10.3f GB\n", (double)memory.usable_bytes / 1e9);
	printf("  context            %10.3f GB\n", (double)memory.context_bytes / 1e9);
	printf("  weights            %10.3f GB\n", (double)memory.weight_bytes / 1e9);
	printf("  activations        %10.3f GB\n", (double)memory.activation_bytes / 1e9);
	if (memory.exchange_bytes > 0) {
		printf("  exchange           %10.3f GB\n", (double)memory.exchange_bytes / 1e9);
	}
	printf("  a KV block         %10.3f MB\n", (double)memory.block_bytes / 1e6);
	printf("  KV blocks          %10u of %llu %s\n", memory.block_count,
		(unsigned long long)config->block_size,
		word_of_count(config->block_size, "token", "tokens"));
	return STATUS_OK;
}

static enum status run(struct command_line *line, struct error *error)
{
	struct replay_config *config = line->values;
	struct model_config model;
	uint32_t estimate, found = 0;

	TRY(model_config_find(config->model, &model, error));
	TRY(replay_config_ranks_check(config, &model, error));
	replay_config_take_policy(config);
	replay_config_complete(config, &model);
	TRY(print_estimate(config, &model, &estimate, error));
#ifdef QUIRE_HAS_CUDA
	const struct runner_request request = {.model = &model, .model_path = config->model};
	TRY(cuda_print_info(config, &request, &found, error));
#endif
	if (found > 0) {
		printf("\nthe estimate is off by %+.2f %%\n",
			100.0 * ((double)estimate - found) / found);
	} else {
		printf("\nno GPU found on this machine to compare with\n");
	}
	return STATUS_OK;
}

static const struct option options[] = {
	{FROM_TABLE("model")},
	{FROM_TABLE("gpu"), .help = "profile of the estimate"},
	{FROM_TABLE("tensor-parallel-size")},
	{FROM_TABLE("policy"),
		.help = "whose defaults and, where there are any, measured memory count"},
	{FROM_TABLE("block-size")},
	{FROM_TABLE("gpu-memory-utilization")},
	{FROM_TABLE("max-num-seqs")},
	{FROM_TABLE("max-num-batched-tokens")},
	{FROM_TABLE("max-model-len")},
};

const struct command command_info = {
	.name = "info",
	.title = "show how many KV blocks fit on a GPU",
	.arguments = "[options]",
	.summary = summary,
	.examples = examples,
	OPTIONS(options),
	.table = &replay_options,
	.value_bytes = sizeof(struct replay_config),
	.run = run,
};
