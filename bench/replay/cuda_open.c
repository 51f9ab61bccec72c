#include "bench/replay/cuda_open.h"

#include "engine/profiling/cuda_kernel_trace.h"
#include "engine/base/memory.h"
#include "engine/ranks/launch.h"
#include "engine/runners/cuda_forward.h"
#include "engine/runners/cuda_runner.h"
#include "engine/runners/cuda_status.h"
#include "kernels/op/launch.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

enum { KV_BLOCKS_MOST = 1 << 28 }; /* that engine_config_validate() takes */

enum status cuda_check_device(uint32_t needed, struct error *error)
{
	int count = 0, driver = 0;
	cudaError_t code = cudaGetDeviceCount(&count);

	if (code == cudaSuccess && count >= (int)needed) {
		return STATUS_OK;
	}
	if (code == cudaSuccess && count > 0) {
		return error_set(error, STATUS_DEVICE,
			"found %d GPU%s, --tensor-parallel-size %u needs %u", count,
			count == 1 ? "" : "s", needed, needed);
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

/* Opens the runner on the GPUs that the configuration asks for. Other ranks are started before
   anything of CUDA is called, and end with the runner. *has_devices: it got as far as to use
   them. */
static enum status open_on_devices(struct runner *out, struct cuda_runner_options *options,
	uint32_t ranks, struct kernel_source *kernels, struct cuda_memory *memory,
	bool *has_devices, struct error *error)
{
	if (ranks > 1) {
		TRY(cuda_runner_start_ranks(options, ranks, error));
	}
	/* Processes of mpirun may be on other hosts. */
	enum status status = cuda_check_device(rank_launch_find().count > 1 ? 1 : ranks, error);
	*has_devices = status == STATUS_OK;
	if (status == STATUS_OK && kernels != NULL) {
		status = cuda_kernel_trace_open(kernels, &options->stack, error);
	}
	if (status != STATUS_OK && options->ranks != NULL) {
		ranks_fail(options->ranks, error);
		ranks_close(options->ranks);
	}
	TRY(status);
	return cuda_runner_open(out, options, memory, error);
}

/* Opens weights and runner; memory is filled. */
static enum status open_runner(struct runner *out, struct replay_config *config,
	const struct runner_request *request, struct cuda_memory *memory, bool *has_devices,
	struct error *error)
{
	static const enum cuda_transport transports[] = {
		[TP_TRANSPORT_AUTO] = CUDA_TRANSPORT_AUTO,
		[TP_TRANSPORT_PEER] = CUDA_TRANSPORT_PEER,
		[TP_TRANSPORT_NCCL] = CUDA_TRANSPORT_NCCL,
	};
	struct weights *weights = NULL;
	struct engine_config engine, complete;
	uint32_t ranks = (uint32_t)config->tensor_parallel_size;

	*has_devices = false;
	replay_config_engine(config, &engine);
	complete = engine;
	/* Where the GPU's memory decides, as many as there can be: they are counted later. */
	complete.kv_block_count =
		engine.kv_block_count == 0 ? KV_BLOCKS_MOST : engine.kv_block_count;
	TRY(engine_config_validate(&complete, error));
	TRY(cuda_forward_check(request->model, ranks, engine.block_size, error));
	if (ranks == 1) {
		TRY(cuda_check_device(ranks, error));
	}
	TRY(runner_open_weights(&weights, config, request, error));
	struct cuda_runner_options options = {
		.weights = weights,
		.engine = &engine,
		.gpu_memory_utilization = config->gpu_memory_utilization,
		.seed = config->seed,
		.is_eager = config->enforce_eager,
		.reads_prefixes_apart =
			config->shared_prefix_attention == SHARED_PREFIX_ATTENTION_OFF,
		.path = config->kernels == KERNELS_GENERAL ? KERNEL_PATH_GENERAL : KERNEL_PATH_SM90,
		.transport = transports[config->tp_transport],
	};
	enum status status =
		open_on_devices(out, &options, ranks, request->kernels, memory, has_devices, error);
	weights_close(weights);
	if (status == STATUS_OK && memory->warning[0] != '\0') {
		fprintf(stderr, "quire: %s\n", memory->warning);
	}
	return status;
}

/* ---- a GPU for each replica ---- */

/* A runner of a process that uses several GPUs: its calls are made with its GPU as the current one.
   Steps are executed one by one, so it launches none ahead. */
struct on_device {
	struct runner inner;
	int device;
};

static enum status use_device(const struct on_device *own, struct error *error)
{
	return cuda_status((int)cudaSetDevice(own->device), "cudaSetDevice", error);
}

static enum status on_device_execute(void *state, const struct batch *batch, int32_t *token_ids,
	struct step_time *time, struct error *error)
{
	const struct on_device *own = state;

	TRY(use_device(own, error));
	return own->inner.execute(own->inner.state, batch, token_ids, time, error);
}

static enum status on_device_start(
	void *state, uint64_t earliest_ns, uint64_t *start_ns, struct error *error)
{
	const struct on_device *own = state;

	TRY(use_device(own, error));
	return own->inner.start(own->inner.state, earliest_ns, start_ns, error);
}

static void on_device_close(void *state)
{
	struct on_device *own = state;
	struct error ignored = {0};

	use_device(own, &ignored);
	own->inner.close(own->inner.state);
	free(own);
}

/* Refuses what replicas on GPUs cannot do, and makes the replica's GPU the current one. */
static enum status choose_device(const struct replay_config *config,
	const struct runner_request *request, struct error *error)
{
	int count = 0;

	if (config->tensor_parallel_size > 1) {
		return error_set(error, STATUS_USAGE,
			"--runner cuda takes --replicas or --tensor-parallel-size above 1, found "
			"%llu and %llu",
			(unsigned long long)config->replicas,
			(unsigned long long)config->tensor_parallel_size);
	}
	TRY(cuda_check_device(1, error));
	TRY(cuda_status((int)cudaGetDeviceCount(&count), "cudaGetDeviceCount", error));
	if (config->replicas > (uint64_t)count) {
		return error_set(error, STATUS_DEVICE, "found %d GPU%s, --replicas %llu needs %llu",
			count, count == 1 ? "" : "s", (unsigned long long)config->replicas,
			(unsigned long long)config->replicas);
	}
	return cuda_status((int)cudaSetDevice((int)request->replica), "cudaSetDevice", error);
}

static void put_on_device(struct runner *runner, uint32_t replica)
{
	struct on_device *own = memory_take(1, sizeof(*own));

	*own = (struct on_device){.inner = *runner, .device = (int)replica};
	*runner = (struct runner){.name = own->inner.name,
		.state = own,
		.is_computing = true,
		.execute = on_device_execute,
		.start = own->inner.start == NULL ? NULL : on_device_start,
		.close = on_device_close};
}

static enum status open_cuda(struct runner *out, struct replay_config *config,
	const struct runner_request *request, struct runner_facts *facts, struct error *error)
{
	struct cuda_memory memory;
	bool has_devices;

	if (config->replicas > 1) {
		TRY(choose_device(config, request, error));
	}
	TRY(open_runner(out, config, request, &memory, &has_devices, error));
	if (config->replicas > 1) {
		put_on_device(out, request->replica);
	}
	facts->found_kv_blocks = config->kv_blocks == 0 ? memory.block_count : 0;
	config->kv_blocks = memory.block_count;
	if (config->tensor_parallel_size > 1) {
		config->tp_transport = memory.uses_nccl ? TP_TRANSPORT_NCCL : TP_TRANSPORT_PEER;
	}
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
	uint32_t ranks = (uint32_t)config->tensor_parallel_size;
	bool has_devices;

	*block_count = 0;
	own.enforce_eager = true;
	own.weights = "dummy:0";
	/* Ranks must not touch CUDA before they are forked. */
	if (ranks == 1 && cuda_check_device(ranks, error) != STATUS_OK) {
		*error = (struct error){0};
		return STATUS_OK;
	}
	if (cuda_forward_check(request->model, ranks, (uint32_t)own.block_size, error) !=
		STATUS_OK) {
		printf("\nnot for a GPU: %s\n", error->text);
		*error = (struct error){0};
		return STATUS_OK;
	}
	enum status status = open_runner(&runner, &own, request, &memory, &has_devices, error);
	if (!has_devices && status == STATUS_DEVICE) {
		*error = (struct error){0};
		return STATUS_OK;
	}
	TRY(status);
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
