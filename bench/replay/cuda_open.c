#include "bench/replay/cuda_open.h"

#include "engine/profiling/cuda_kernel_trace.h"
#include "engine/runners/cuda_runner.h"
#include "kernels/op/launch.h"

#include <cuda_runtime_api.h>
#include <stdio.h>

enum status cuda_check_device(struct error *error)
{
	int count = 0, driver = 0;
	cudaError_t code = cudaGetDeviceCount(&count);

	if (code == cudaSuccess && count > 0) {
		return STATUS_OK;
	}
	if (code == cudaErrorInsufficientDriver && cudaDriverGetVersion(&driver) == cudaSuccess &&
		driver > 0) {
		return error_set(error, STATUS_DEVICE,
			"found an NVIDIA driver for CUDA %d.%d, expected one for %d.%d or later; "
			"replay --runner sim needs neither driver nor GPU",
			driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000,
			CUDART_VERSION % 1000 / 10);
	}
	if (code == cudaErrorInsufficientDriver) {
		return error_set(error, STATUS_DEVICE,
			"found no NVIDIA driver (libcuda.so.1), expected one for CUDA %d.%d or "
			"later; replay --runner sim needs neither driver nor GPU",
			CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
	}
	return error_set(error, STATUS_DEVICE,
		"found no NVIDIA GPU (%s); replay --runner sim needs neither driver nor GPU",
		code == cudaSuccess ? "the driver counts none" : cudaGetErrorString(code));
}

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
	TRY(engine_config_validate(&complete, error));
	TRY(cuda_check_device(error));
	if (request->kernels != NULL) {
		TRY(cuda_kernel_trace_open(request->kernels, &stack, error));
	}
	TRY(runner_open_weights(&weights, config, request, error));
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
	enum status status = cuda_runner_open(out, &options, memory, error);
	weights_close(weights);
	return status;
}

static enum status open_cuda(struct runner *out, struct replay_config *config,
	const struct runner_request *request, struct runner_facts *facts, struct error *error)
{
	struct cuda_memory memory;

	TRY(open_runner(out, config, request, &memory, error));
	facts->found_kv_blocks = config->kv_blocks == 0 ? memory.block_count : 0;
	config->kv_blocks = memory.block_count;
	facts->is_calibrated = true;
	facts->records_steps = true;
	snprintf(facts->device, sizeof(facts->device), "%s", memory.device);
	return STATUS_OK;
}

const struct runner_entry runner_cuda = {
	.name = "cuda",
	.summary = "computes tokens on the GPU",
	.kind = RUNNER_COMPUTED,
	.own_gpu = "device",
	.measures_kernels = true,
	.open = open_cuda,
};

enum status cuda_print_info(const struct replay_config *config,
	const struct runner_request *request, uint32_t *block_count, struct error *error)
{
	struct replay_config own = *config;
	struct runner runner;
	struct cuda_memory memory;
	struct error none = {0};

	*block_count = 0;
	if (cuda_check_device(&none) != STATUS_OK) {
		return STATUS_OK;
	}
	own.enforce_eager = true;
	own.weights = "dummy:0";
	TRY(open_runner(&runner, &own, request, &memory, error));
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
