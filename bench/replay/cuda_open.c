#include "bench/replay/cuda_open.h"

#include "engine/runners/cuda_kernel_trace.h"
#include "engine/runners/cuda_runner.h"
#include "kernels/op/launch.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

/* Opens weights and runner; memory is filled. */
static enum status open_runner(struct runner *out, struct replay_config *config,
	const struct runner_request *request, struct cuda_memory *memory, struct error *error)
{
	struct weights *weights = NULL;
	struct engine_config engine, complete;
	struct range_stack *stack = NULL;

	replay_config_engine(config, &engine);
	complete = engine;
	complete.kv_block_count = engine.kv_block_count == 0 ? 1 : engine.kv_block_count;
	enum status status = engine_config_validate(&complete, error);
	if (status == STATUS_OK && request->kernels != NULL) {
		status = cuda_kernel_trace_open(request->kernels, &stack, error);
	}
	if (status == STATUS_OK) {
		status = runner_open_weights(&weights, config, request, error);
	}
	if (status == STATUS_OK) {
		const struct cuda_runner_options options = {
			.weights = weights,
			.engine = &engine,
			.gpu_memory_utilization = config->gpu_memory_utilization,
			.seed = config->seed,
			.is_eager = config->enforce_eager,
			.stack = stack,
			.path = config->kernels == KERNELS_GENERAL ? KERNEL_PATH_GENERAL
								   : kernel_path_of_device(),
		};
		status = cuda_runner_open(out, &options, memory, error);
	}
	weights_close(weights);
	return status;
}

enum status cuda_open(struct runner *out, struct replay_config *config,
	const struct runner_request *request, struct runner_facts *facts, struct error *error)
{
	struct cuda_memory memory;
	enum status status = open_runner(out, config, request, &memory, error);

	if (status == STATUS_OK) {
		facts->found_kv_blocks = config->kv_blocks == 0 ? memory.block_count : 0;
		config->kv_blocks = memory.block_count;
		facts->is_calibrated = true;
		facts->records_steps = true;
		snprintf(facts->device, sizeof(facts->device), "%s", memory.device);
	}
	return status;
}

enum status cuda_print_info(const struct replay_config *config,
	const struct runner_request *request, uint32_t *block_count, struct error *error)
{
	struct replay_config own = *config;
	struct runner runner;
	struct cuda_memory memory;
	int count = 0;

	*block_count = 0;
	if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
		return STATUS_OK;
	}
	own.enforce_eager = true;
	own.weights = "dummy:0";
	enum status status = open_runner(&runner, &own, request, &memory, error);
	if (status != STATUS_OK) {
		return status;
	}
	runner.close(runner.state);
	*block_count = memory.block_count;
	printf("\n%s\n", memory.device);
	printf("  memory             %10.3f GB\n", (double)memory.total_bytes / 1e9);
	printf("  used but the pool  %10.3f GB\n", (double)memory.used_bytes / 1e9);
	printf("  a KV block         %10.3f MB\n", (double)memory.block_bytes / 1e6);
	printf("  KV blocks          %10u of %llu tokens\n", memory.block_count,
		(unsigned long long)config->block_size);
	return STATUS_OK;
}
