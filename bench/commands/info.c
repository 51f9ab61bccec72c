#include "bench/commands/commands.h"

#include "bench/replay/cuda_open.h"
#include "bench/options/options.h"
#include "bench/replay/replay_config.h"
#include "bench/replay/runners.h"
#include "engine/model/config_json.h"
#include "sim/cost_model.h"
#include "sim/profile.h"

#include <stdio.h>

static const char summary[] =
	"Shows where the memory of a GPU goes and how many KV blocks are left: as the cost model\n"
	"reckons for a profile and, on a machine with a GPU, as the CUDA runner finds it.\n";

static const char examples[] = "  quire info --model qwen3-8b --gpu h200\n"
			       "  quire info --model qwen3-0.6b --max-model-len 131072\n";

/* The cost model's estimate. */
static enum status print_estimate(const struct replay_config *config,
	const struct model_config *model, uint32_t *block_count, struct error *error)
{
	struct gpu_profile profile;
	struct kv_memory memory;
	const struct kv_memory_limits limits = {
		.gpu_memory_utilization = config->gpu_memory_utilization,
		.block_size = (uint32_t)config->block_size,
		.max_num_seqs = (uint32_t)config->max_num_seqs,
		.max_num_batched_tokens = (uint32_t)config->max_num_batched_tokens,
		.max_model_len = (uint32_t)config->max_model_len,
	};

	enum status status = gpu_profile_find(config->gpu, &profile, error);
	if (status == STATUS_OK) {
		status = cost_model_kv_memory(model, &profile, &limits, &memory, error);
	}
	if (status != STATUS_OK) {
		return status;
	}
	*block_count = memory.block_count;
	printf("profile %s, estimated for %s\n", profile.name, model->name);
	if (profile.is_calibrated) {
		printf("  %s\n", profile.description);
	}
	printf("  memory             %10.3f GB\n", (double)memory.total_bytes / 1e9);
	printf("  of that usable     %10.3f GB\n", (double)memory.usable_bytes / 1e9);
	printf("  context            %10.3f GB\n", (double)memory.context_bytes / 1e9);
	printf("  weights            %10.3f GB\n", (double)memory.weight_bytes / 1e9);
	printf("  activations        %10.3f GB\n", (double)memory.activation_bytes / 1e9);
	printf("  a KV block         %10.3f MB\n", (double)memory.block_bytes / 1e6);
	printf("  KV blocks          %10u of %llu tokens\n", memory.block_count,
		(unsigned long long)config->block_size);
	return STATUS_OK;
}

static enum status run(struct replay_config *config, struct error *error)
{
	struct model_config model;
	uint32_t estimate, found = 0;

	enum status status = model_config_find(config->model, &model, error);
	if (status != STATUS_OK) {
		return status;
	}
	if (config->max_model_len == 0) {
		config->max_model_len = model.max_position_embeddings;
	}
	status = print_estimate(config, &model, &estimate, error);
#ifdef QUIRE_HAS_CUDA
	if (status == STATUS_OK) {
		const struct runner_request request = {
			.model = &model, .model_path = config->model};
		status = cuda_print_info(config, &request, &found, error);
	}
#endif
	if (status == STATUS_OK && found > 0) {
		printf("\nthe estimate is off by %+.2f %%\n",
			100.0 * ((double)estimate - found) / found);
	} else if (status == STATUS_OK) {
		printf("\nno GPU here to hold it against\n");
	}
	return status;
}

int command_info(int argc, char **argv)
{
	struct replay_config config;
	struct error error = {0};
	bool wants_help;
	uint32_t positional_count;
	const struct option options[] = {
		{"model", OPTION_TEXT, &config.model, "NAME|DIR",
			"qwen3-0.6b (default), or another shape", 0, 0, NULL, NULL},
		{"gpu", OPTION_TEXT, &config.gpu, "NAME|FILE.json",
			"profile of the estimate, default h200", 0, 0, NULL, NULL},
		{"block-size", OPTION_COUNT, &config.block_size, "TOKENS",
			"tokens a KV block holds, default 256", 1, 65536, NULL, NULL},
		{"gpu-memory-utilization", OPTION_MILLIONTHS, &config.gpu_memory_utilization,
			"SHARE", "share of the memory that may be used, default 0.9", 1, 1000000,
			NULL, NULL},
		{"max-num-seqs", OPTION_COUNT, &config.max_num_seqs, "N",
			"sequences in a step, default 512", 1, 65536, NULL, NULL},
		{"max-num-batched-tokens", OPTION_COUNT, &config.max_num_batched_tokens, "N",
			"tokens in a step, default 16384", 1, 1 << 28, NULL, NULL},
		{"max-model-len", OPTION_COUNT, &config.max_model_len, "N",
			"tokens of a request at most, default the model's own limit", 1, 1 << 28,
			NULL, NULL},
	};
	const struct command command = {
		.name = "info",
		.arguments = "[options]",
		.summary = summary,
		.examples = examples,
		.options = options,
		.option_count = sizeof(options) / sizeof(options[0]),
	};

	replay_config_default(&config);
	enum status status =
		options_parse(&command, argc, argv, NULL, &positional_count, &wants_help, &error);
	if (wants_help) {
		command_help(&command);
		return 0;
	}
	if (status == STATUS_OK) {
		status = run(&config, &error);
	}
	return status == STATUS_OK ? 0 : command_fail(&command, &error);
}
