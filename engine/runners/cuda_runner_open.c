#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "engine/profiling/nvtx.h"
#include "engine/runners/cuda_nccl.h"
#include "engine/runners/cuda_runner.h"
#include "engine/runners/cuda_runner_state.h"
#include "engine/runners/cuda_status.h"
#include "kernels/sampling/sampler.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- phases of opening ---- */

/* Rank r uses the r-th GPU from first_device on, or on several hosts those of its host in turn. The
   memory that the ranks share is pinned for every one. *path: the best that may be used, then the
   one that is. */
static enum status open_device(struct cuda_runner *runner, uint32_t first_device,
	struct cuda_memory *memory, enum kernel_path *path, uint64_t *capability,
	struct error *error)
{
	struct cuda_launcher *launcher = &runner->launcher;
	struct cudaDeviceProp properties;
	int device = 0;

	if (launcher->ranks != NULL) {
		size_t bytes = 0;
		void *shared = ranks_memory(launcher->ranks, &bytes);
		int count = 0;
		TRY(cuda_status((int)cudaGetDeviceCount(&count), "cudaGetDeviceCount", error));
		device = (int)(first_device + cuda_launcher_rank(launcher)) % count;
		TRY(cuda_status((int)cudaSetDevice(device), "cudaSetDevice", error));
		TRY(cuda_status((int)cudaHostRegister(shared, bytes, cudaHostRegisterDefault),
			"cudaHostRegister", error));
		runner->has_registered = true;
	}
	TRY(cuda_status((int)cudaGetDevice(&device), "cudaGetDevice", error));
	TRY(cuda_status((int)cudaGetDeviceProperties(&properties, device),
		"cudaGetDeviceProperties", error));
	memcpy(memory->device, properties.name, sizeof(memory->device) - 1);
	memory->device[sizeof(memory->device) - 1] = '\0';
	*capability = (uint64_t)(properties.major * 0x10 + properties.minor);
	if (kernel_path_of_device() < *path) {
		*path = kernel_path_of_device();
	}
	runner->spread.multiprocessors = (uint32_t)properties.multiProcessorCount;
	launcher->data.decode_blocks =
		decode_attention_blocks(*path, (uint32_t)properties.multiProcessorCount);
	return cuda_status((int)cudaStreamCreate(&launcher->stream), "cudaStreamCreate", error);
}

static struct model_step_limits limits_of(const struct engine_config *engine)
{
	return model_step_limits(
		engine->max_num_batched_tokens, engine->max_num_seqs, engine->max_model_len);
}

/* Collective. */
static enum status open_exchange(struct cuda_runner *runner,
	const struct cuda_runner_options *options, struct cuda_memory *memory, struct error *error)
{
	struct cuda_launcher *launcher = &runner->launcher;
	const struct model_config *model = weights_config(options->weights);
	volatile struct cuda_rank_report *report =
		cuda_step_data_report(&launcher->data, cuda_launcher_rank(launcher));
	const struct cuda_exchange_options exchange = {
		.ranks = options->ranks,
		.transport = options->transport,
		.layers = model->num_hidden_layers,
		.width = model->hidden_size,
		.limits = limits_of(&runner->engine),
		.step_count = launcher->data.step_count,
		.report = (struct exchange_report *)(uintptr_t)&report->exchange,
	};

	launcher->exchange = &runner->exchange;
	TRY(cuda_exchange_open(&runner->exchange, &exchange, error));
	memory->uses_nccl = runner->exchange.transport == CUDA_TRANSPORT_NCCL;
	if (runner->exchange.reason[0] != '\0') {
		snprintf(memory->warning, sizeof(memory->warning),
			"%s's memory: ranks exchange their sums by NCCL", runner->exchange.reason);
	}
	return STATUS_OK;
}

static enum status open_forward(struct cuda_runner *runner,
	const struct cuda_runner_options *options, enum kernel_path path, struct error *error)
{
	struct cuda_launcher *launcher = &runner->launcher;
	const struct cuda_forward_options forward = {
		.weights = options->weights,
		.shard = launcher->ranks == NULL
				 ? WEIGHT_WHOLE
				 : (struct weight_shard){ranks_index(launcher->ranks),
					   ranks_count(launcher->ranks)},
		.exchange = launcher->exchange,
		.limits = limits_of(&runner->engine),
		.block_size = runner->engine.block_size,
		.table_width = launcher->data.table_width,
		.path = path,
		.ranges = launcher->ranges,
	};

	launcher->data.split_limit = forward.limits.splits;
	launcher->data.list.path = path;
	launcher->data.list.sharing = options->sharing;
	TRY(cuda_forward_open(&launcher->forward, &forward, error));
	launcher->data.list.shape = cuda_forward_shape(launcher->forward);
	runner->spread.heads = launcher->data.list.shape.head_count;
	const struct attention_shape *shape = &launcher->data.list.shape;
	runner->readers = decode_readers(shape->head_count, shape->kv_head_count);
	return STATUS_OK;
}

static enum status open_pool(struct cuda_runner *runner, uint32_t block_count, struct error *error)
{
	TRY(cuda_forward_open_pool(runner->launcher.forward, block_count, error));
	return cuda_step_data_open_tables(&runner->launcher.data, &runner->engine, error);
}

static void close_pool(struct cuda_runner *runner)
{
	if (runner->launcher.forward != NULL) {
		cuda_forward_close_pool(runner->launcher.forward);
	}
	cuda_step_data_close_tables(&runner->launcher.data);
}

/* Runs a step with the most tokens, and the most samples with which the last layer still drops
   rows. Only the first tile of it attends, once for each sample in the last layer, because the pool
   has one block at this point. */
static enum status run_largest(struct cuda_runner *runner, struct error *error)
{
	struct cuda_launcher *launcher = &runner->launcher;
	struct cuda_step_data *data = &launcher->data;
	uint32_t samples = data->sample_capacity;
	uint32_t tokens = u32_from(limits_of(&runner->engine).tokens);
	uint32_t attending = u32_min(
		u32_min(tokens, (uint32_t)PREFILL_QUERY_TILE), runner->engine.max_model_len);
	const struct cuda_step_sizes sizes = {
		.rows = samples,
		.tokens = tokens,
		.samples = samples,
		.tiles = 1,
	};
	const struct cuda_step_layout layout = cuda_step_layout(&sizes);
	struct cuda_batch batch = cuda_step_data_batch(data, &sizes, &layout);

	cuda_launcher_next_slot(launcher);
	batch.sample_count = tokens > CUDA_DROPPED_ROWS_LEAST
				     ? u32_min(samples, tokens - CUDA_DROPPED_ROWS_LEAST)
				     : samples;
	if (!cuda_launcher_fills(launcher)) {
		return cuda_launcher_run_silent(launcher, &layout, &batch, error);
	}
	const struct cuda_step_lists lists = cuda_step_data_lists(data, &layout);
	memset(lists.slots, 0xff, tokens * sizeof(int64_t));
	lists.query_start[1] = attending;
	lists.contexts[0] = attending;
	for (uint32_t i = 0; i < samples; i++) {
		lists.sample_rows[i] = SAMPLER_NO_ROW;
	}
	cuda_step_data_finish(data, &layout, 0, NULL, 0);
	enum status status = cuda_launcher_run_silent(launcher, &layout, &batch, error);
	memset(data->host, 0, data->io.data_bytes);
	return status;
}

static enum status warm_up_in_pool(struct cuda_runner *runner, struct error *error)
{
	struct cuda_launcher *launcher = &runner->launcher;

	if (open_pool(runner, 1, error) == STATUS_OK) {
		(void)cuda_forward_prepare(launcher->forward, launcher->stream, error);
	}
	TRY(cuda_launcher_meet(launcher, error));
	return run_largest(runner, error);
}

/* Runs a step with prompts, so that its kernels are loaded before free memory is measured, and
   so that no later step waits for loading. */
static enum status warm_up(struct cuda_runner *runner, struct error *error)
{
	enum status status = warm_up_in_pool(runner, error);

	close_pool(runner);
	return status;
}

/* Every rank holds the same blocks, so the rank with the least room decides. */
static enum status count_blocks(struct cuda_runner *runner,
	const struct cuda_runner_options *options, struct cuda_memory *memory, struct error *error)
{
	const struct cuda_launcher *launcher = &runner->launcher;
	char warning[RANK_WARNING_BYTES] = "";
	uint64_t count = 0;

	memory->block_bytes = cuda_forward_block_bytes(launcher->forward) +
			      (uint64_t)launcher->data.table_width * sizeof(uint32_t);
	(void)cuda_memory_count_blocks(
		memory, options->gpu_memory_utilization, options->engine->kv_block_count, error);
	if (launcher->ranks != NULL) {
		TRY(ranks_agree_blocks(
			launcher->ranks, memory->block_count, &count, warning, error));
		memory->block_count = u32_from(count);
	}
	if (warning[0] != '\0') {
		snprintf(memory->warning, sizeof(memory->warning), "%s", warning);
	}
	runner->engine.kv_block_count = memory->block_count;
	return error->status;
}

/* In phases, behind which all ranks meet: the failure of one ends all. */
static enum status open_all(struct cuda_runner *runner, const struct cuda_runner_options *options,
	struct cuda_memory *memory, struct error *error)
{
	struct cuda_launcher *launcher = &runner->launcher;
	enum kernel_path path = options->path;
	uint64_t capability = 0;

	if (open_device(runner, options->first_device, memory, &path, &capability, error) ==
		STATUS_OK) {
		(void)cuda_step_data_open(&launcher->data, &runner->engine,
			cuda_launcher_rank(launcher),
			options->ranks == NULL ? NULL : ranks_data(options->ranks), error);
	}
	TRY(cuda_launcher_meet(launcher, error));
	if (options->ranks != NULL) {
		/* GPUs of different kinds would add in different orders. */
		TRY(ranks_agree(options->ranks, capability, "compute capability", error));
		TRY(open_exchange(runner, options, memory, error));
	}
	(void)open_forward(runner, options, path, error);
	TRY(cuda_launcher_meet(launcher, error));
	TRY(warm_up(runner, error));
	TRY(count_blocks(runner, options, memory, error));
	(void)open_pool(runner, memory->block_count, error);
	TRY(cuda_launcher_meet(launcher, error));
	return cuda_graphs_open(&runner->graphs, launcher, options->is_eager, error);
}

/* ---- closing ---- */

/* Whether only the end of the process can end what waits for a rank that has failed. */
static bool leaves(const struct cuda_runner *runner)
{
	struct error failure = {0};

	return runner->launcher.ranks != NULL &&
	       ranks_check(runner->launcher.ranks, &failure) != STATUS_OK &&
	       cuda_exchange_leave(&runner->exchange);
}

/* Waits for this rank's GPU, then ends the other ranks. They wait for every part of a step that
   was posted. */
static void close_ranks(struct cuda_runner *runner)
{
	struct ranks *ranks = runner->launcher.ranks;
	struct error ignored = {0};
	size_t bytes = 0;

	(void)cuda_launcher_run_rest(&runner->launcher, &ignored);
	if (runner->launcher.stream != NULL) {
		cudaStreamSynchronize(runner->launcher.stream);
	}
	if (runner->has_registered) {
		cudaHostUnregister(ranks_memory(ranks, &bytes));
	}
	if (ranks_index(ranks) == 0) {
		ranks_close(ranks);
	}
}

void cuda_runner_close(void *state)
{
	struct cuda_runner *runner = state;
	struct cuda_launcher *launcher = &runner->launcher;

	if (leaves(runner)) {
		/* The GPU's memory and this host's that it may still write go with the process. */
		if (ranks_index(launcher->ranks) == 0) {
			ranks_close(launcher->ranks);
		}
		return;
	}
	/* A graph in flight is freed at its end. NCCL cannot end before the graphs that use it. */
	cuda_graphs_close(&runner->graphs);
	if (launcher->ranks != NULL) {
		close_ranks(runner);
	} else if (launcher->stream != NULL) {
		cudaStreamSynchronize(launcher->stream); /* a step may still be in flight */
	}
	close_pool(runner);
	cuda_forward_close(launcher->forward);
	cuda_step_data_close(&launcher->data);
	cuda_exchange_close(&runner->exchange);
	if (launcher->stream != NULL) {
		cudaStreamDestroy(launcher->stream);
	}
	nvtx_close(launcher->ranges);
	free(runner);
}

/* The most prompt tokens of a graph. Several ranks capture decode steps alone. */
static uint32_t prompt_tokens(const struct cuda_runner_options *options)
{
	const uint64_t most = graph_prompt_tokens(weights_config(options->weights));
	const uint32_t limit = options->engine->max_num_batched_tokens;

	return options->ranks != NULL ? 0 : u32_from(u64_min(most, graph_bucket(limit)));
}

enum status cuda_runner_open(struct runner *out, const struct cuda_runner_options *options,
	struct cuda_memory *memory, struct error *error)
{
	struct cuda_runner *runner = memory_take(1, sizeof(*runner));

	memset(memory, 0, sizeof(*memory));
	runner->engine = *options->engine;
	runner->launcher.ranks = options->ranks;
	runner->launcher.ranges = nvtx_open(options->stack);
	runner->launcher.data.seed = options->seed;
	cuda_graphs_init(&runner->graphs, runner->engine.max_num_seqs, prompt_tokens(options));
	if (open_all(runner, options, memory, error) != STATUS_OK) {
		cuda_launcher_fail(&runner->launcher, error);
		cuda_runner_close(runner);
		return error->status;
	}
	*out = cuda_runner_functions(runner);
	return STATUS_OK;
}

/* ---- the other ranks ---- */

/* Between steps nobody waits for this rank's GPU, so its failure would go unnoticed. */
static enum status look(void *argument, struct error *error)
{
	return cuda_launcher_look(argument, error);
}

/* Launches what rank 0 posts, until it closes. */
static enum status follow(struct cuda_runner *runner, struct error *error)
{
	struct cuda_launcher *launcher = &runner->launcher;
	struct rank_message step;

	ranks_watch(launcher->ranks, look, launcher);
	for (;;) {
		TRY(ranks_receive(launcher->ranks, &step, error));
		if (step.kind == RANK_CLOSE) {
			return STATUS_OK;
		}
		launcher->collected = launcher->launched; /* by rank 0 */
		check(cuda_launcher_next_slot(launcher) == step.turn);
		TRY(cuda_runner_launch(runner, &step, error));
		TRY(cuda_launcher_run_rest(launcher, error));
		launcher->launched++;
	}
}

static enum status serve(struct ranks *ranks, void *argument, struct error *error)
{
	struct cuda_runner_options options = *(const struct cuda_runner_options *)argument;
	struct cuda_memory memory;
	struct runner runner;

	options.ranks = ranks;
	options.stack = NULL; /* kernels are timed on rank 0 */
	TRY(cuda_runner_open(&runner, &options, &memory, error));
	enum status status = follow(runner.state, error);
	if (status != STATUS_OK) {
		ranks_fail(ranks, error);
	}
	runner.close(runner.state);
	return status;
}

enum status cuda_runner_start_ranks(
	struct cuda_runner_options *options, uint32_t rank_count, struct error *error)
{
	const struct ranks_options ranks = {
		.count = rank_count,
		.data_bytes = cuda_step_data_shared_bytes(options->engine, rank_count),
		.runs_after = options->runs_after,
		.serve = serve,
		.argument = options,
	};

	cuda_nccl_prepare();
	return ranks_open(&options->ranks, &ranks, error);
}
