#include "bench/replay/cuda_open.h"

#include "engine/base/number.h"
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
			"found %d %s, --tensor-parallel-size %u needs %u", count,
			word_of_count((uint64_t)count, "GPU", "GPUs"), needed, needed);
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

/* ---- a GPU, or several, for each replica ---- */

/* The ranks of the replicas, which are started before anything of CUDA is called, and so before the
   first replica is opened. */
struct rank_groups {
	uint32_t transport; /* that --tp-transport asked for */
	uint32_t count;
	struct ranks *of_replica[]; /* (count); NULL: its runner has them */
};

/* A runner of a process that uses several GPUs: its calls are made with its GPU as the current one.
   Steps are executed one by one, so it launches none ahead. */
struct on_device {
	struct runner inner;
	int device;
	struct rank_groups *groups; /* of replica 0, where replicas have several GPUs */
};

static void close_groups(struct rank_groups *groups)
{
	for (uint32_t i = 0; groups != NULL && i < groups->count; i++) {
		ranks_close(groups->of_replica[i]);
	}
	free(groups);
}

/* Starts the other ranks of all replicas. */
static enum status start_groups(struct rank_groups **out, const struct replay_config *config,
	const struct cuda_runner_options *options, struct error *error)
{
	struct rank_groups *groups = NULL;
	uint32_t ranks = (uint32_t)config->tensor_parallel_size;
	size_t bytes = sizeof(*groups) + config->replicas * sizeof(groups->of_replica[0]);

	*out = groups = memory_take(1, bytes);
	groups->transport = (uint32_t)config->tp_transport;
	for (; groups->count < config->replicas; groups->count++) {
		struct cuda_runner_options own = *options;
		own.first_device = groups->count * ranks;
		TRY(cuda_runner_start_ranks(&own, ranks, error));
		groups->of_replica[groups->count] = own.ranks;
	}
	return STATUS_OK;
}

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
	close_groups(own->groups);
	free(own);
}

static void put_on_device(struct runner *runner, uint32_t device, struct rank_groups *groups)
{
	struct on_device *own = memory_take(1, sizeof(*own));

	*own = (struct on_device){.inner = *runner, .device = (int)device, .groups = groups};
	*runner = (struct runner){.name = own->inner.name,
		.state = own,
		.is_computing = true,
		.spread = own->inner.spread,
		.readers = own->inner.readers,
		.execute = on_device_execute,
		.start = own->inner.start == NULL ? NULL : on_device_start,
		.close = on_device_close};
}

/* Refuses a fleet with fewer GPUs than it needs. */
static enum status check_devices(const struct replay_config *config, struct error *error)
{
	uint64_t ranks = config->tensor_parallel_size, needed = config->replicas * ranks;
	char each[64] = "";
	int count = 0;

	if (config->replicas == 1) {
		/* Processes of mpirun may be on other hosts. */
		return cuda_check_device(rank_launch_find().count > 1 ? 1 : (uint32_t)ranks, error);
	}
	TRY(cuda_check_device(1, error));
	TRY(cuda_status((int)cudaGetDeviceCount(&count), "cudaGetDeviceCount", error));
	if (needed <= (uint64_t)count) {
		return STATUS_OK;
	}
	if (ranks > 1) {
		snprintf(each, sizeof(each), " of --tensor-parallel-size %llu",
			(unsigned long long)ranks);
	}
	return error_set(error, STATUS_DEVICE, "found %d %s, --replicas %llu%s needs %llu", count,
		word_of_count((uint64_t)count, "GPU", "GPUs"), (unsigned long long)config->replicas,
		each, (unsigned long long)needed);
}

/* ---- opening ---- */

/* What is known when a runner has been opened, or not. */
struct opening {
	struct cuda_memory memory;
	bool has_devices;	    /* it got as far as to use them */
	struct rank_groups *groups; /* of a fleet, by its first replica; the caller's */
};

/* The other ranks of the runner, which end with it. */
static enum status find_ranks(struct cuda_runner_options *options,
	const struct replay_config *config, const struct runner_request *request,
	struct opening *opening, struct error *error)
{
	struct rank_groups *groups = NULL;

	if (config->tensor_parallel_size == 1) {
		return STATUS_OK;
	}
	if (config->replicas == 1) {
		return cuda_runner_start_ranks(
			options, (uint32_t)config->tensor_parallel_size, error);
	}
	if (request->first == NULL) {
		TRY(start_groups(&opening->groups, config, options, error));
		groups = opening->groups;
	} else {
		groups = ((struct on_device *)request->first->state)->groups;
	}
	options->ranks = groups->of_replica[request->replica];
	groups->of_replica[request->replica] = NULL;
	return STATUS_OK;
}

/* Opens the runner on the GPUs that the configuration asks for. Other ranks are started before
   anything of CUDA is called. */
static enum status open_on_devices(struct runner *out, struct cuda_runner_options *options,
	const struct replay_config *config, const struct runner_request *request,
	struct opening *opening, struct error *error)
{
	TRY(find_ranks(options, config, request, opening, error));
	enum status status = check_devices(config, error);
	opening->has_devices = status == STATUS_OK;
	if (status == STATUS_OK && config->replicas > 1) {
		status = cuda_status(
			(int)cudaSetDevice((int)options->first_device), "cudaSetDevice", error);
	}
	if (status == STATUS_OK && request->kernels != NULL) {
		status = cuda_kernel_trace_open(request->kernels, &options->stack, error);
	}
	if (status != STATUS_OK && options->ranks != NULL) {
		ranks_fail(options->ranks, error);
		ranks_close(options->ranks);
	}
	TRY(status);
	return cuda_runner_open(out, options, &opening->memory, error);
}

/* Opens weights and runner. *opening is zeroed. */
static enum status open_runner(struct runner *out, struct replay_config *config,
	const struct runner_request *request, struct opening *opening, struct error *error)
{
	static const enum cuda_transport transports[] = {
		[TP_TRANSPORT_AUTO] = CUDA_TRANSPORT_AUTO,
		[TP_TRANSPORT_PEER] = CUDA_TRANSPORT_PEER,
		[TP_TRANSPORT_NCCL] = CUDA_TRANSPORT_NCCL,
	};
	static const enum decode_sharing sharings[] = {
		[SHARED_PREFIX_ATTENTION_AUTO] = DECODE_SHARING_AUTO,
		[SHARED_PREFIX_ATTENTION_ON] = DECODE_SHARING_ON,
		[SHARED_PREFIX_ATTENTION_OFF] = DECODE_SHARING_OFF,
	};
	struct weights *weights = NULL;
	struct engine_config engine, complete;
	uint32_t ranks = (uint32_t)config->tensor_parallel_size;

	replay_config_engine(config, &engine);
	complete = engine;
	/* Where the GPU's memory decides, as many as there can be: they are counted later. */
	complete.kv_block_count =
		engine.kv_block_count == 0 ? KV_BLOCKS_MOST : engine.kv_block_count;
	TRY(engine_config_validate(&complete, error));
	TRY(cuda_forward_check(request->model, ranks, engine.block_size, error));
	if (ranks == 1) {
		TRY(check_devices(config, error)); /* before weights are read */
	}
	TRY(runner_open_weights(&weights, config, request, error));
	if (ranks > 1 && request->first != NULL) {
		/* The first replica has noted what it has got. */
		config->tp_transport =
			((const struct on_device *)request->first->state)->groups->transport;
	}
	struct cuda_runner_options options = {
		.weights = weights,
		.engine = &engine,
		.gpu_memory_utilization = config->gpu_memory_utilization,
		.seed = config->seed,
		.is_eager = config->enforce_eager,
		.sharing = sharings[config->shared_prefix_attention],
		.path = config->kernels == KERNELS_GENERAL ? KERNEL_PATH_GENERAL : KERNEL_PATH_SM90,
		.transport = transports[config->tp_transport],
		.runs_after = request->runs_after,
		.first_device = request->replica * ranks,
	};
	enum status status = open_on_devices(out, &options, config, request, opening, error);
	weights_close(weights);
	if (status == STATUS_OK && opening->memory.warning[0] != '\0') {
		fprintf(stderr, "quire: %s\n", opening->memory.warning);
	}
	return status;
}

static enum status open_cuda(struct runner *out, struct replay_config *config,
	const struct runner_request *request, struct runner_facts *facts, struct error *error)
{
	struct opening opening = {0};
	const struct cuda_memory *memory = &opening.memory;
	uint32_t ranks = (uint32_t)config->tensor_parallel_size;

	if (open_runner(out, config, request, &opening, error) != STATUS_OK) {
		close_groups(opening.groups);
		return error->status;
	}
	if (config->replicas > 1) {
		put_on_device(out, request->replica * ranks, opening.groups);
	}
	facts->found_kv_blocks = config->kv_blocks == 0 ? memory->block_count : 0;
	config->kv_blocks = memory->block_count;
	if (ranks > 1) {
		config->tp_transport = memory->uses_nccl ? TP_TRANSPORT_NCCL : TP_TRANSPORT_PEER;
	}
	facts->is_calibrated = true;
	facts->records_steps = true;
	snprintf(facts->device, sizeof(facts->device), "%s", memory->device);
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
	struct opening opening = {0};
	const struct cuda_memory *memory = &opening.memory;
	uint32_t ranks = (uint32_t)config->tensor_parallel_size;

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
	enum status status = open_runner(&runner, &own, request, &opening, error);
	if (!opening.has_devices && status == STATUS_DEVICE) {
		*error = (struct error){0};
		return STATUS_OK;
	}
	TRY(status);
	runner.close(runner.state);
	*block_count = memory->block_count;
	printf("\n%s\n", memory->device);
	printf("  memory             %10.3f GB\n", (double)memory->total_bytes / 1e9);
	printf("  used but the pool  %10.3f GB\n", (double)memory->used_bytes / 1e9);
	printf("  a KV block         %10.3f MB\n", (double)memory->block_bytes / 1e6);
	printf("  KV blocks          %10u of %llu %s\n", memory->block_count,
		(unsigned long long)config->block_size,
		word_of_count(config->block_size, "token", "tokens"));
	return STATUS_OK;
}
