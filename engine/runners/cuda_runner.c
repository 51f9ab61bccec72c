#include "engine/runners/cuda_runner.h"

#include "engine/base/check.h"
#include "engine/base/clock.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "engine/policy.h"
#include "engine/profiling/nvtx.h"
#include "engine/runners/cuda_forward.h"
#include "engine/runners/cuda_graphs.h"
#include "engine/runners/cuda_launcher.h"
#include "engine/runners/cuda_status.h"
#include "kernels/sampling/sampler.h"

#include <cuda_runtime_api.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { POLLS_A_QUERY = 1 << 16 }; /* polls of the completion flag per query of the driver */

/* A step in flight: launched, and its tokens not yet collected. */
struct flight {
	uint64_t start_ns;
	uint32_t sampled_count;
	enum step_mode mode;
};

struct cuda_runner {
	struct cuda_launcher launcher;
	struct cuda_graphs graphs;
	struct engine_config engine;

	struct flight flights[CUDA_STEP_SLOTS];
	uint64_t start_ns;    /* when scheduling of the step began; 0: unknown */
	uint64_t host_end_ns; /* when the latest step's tokens arrived on the host */
	uint64_t gpu_end_ns;  /* when that step ended on the GPU's timer; 0: no step yet */
};

/* ---- steps ---- */

static enum status cuda_start(
	void *state, uint64_t earliest_ns, uint64_t *start_ns, struct error *error)
{
	struct cuda_runner *runner = state;

	(void)error; /* reading a clock cannot fail */
	*start_ns = earliest_ns;
	runner->start_ns = monotonic_ns();
	nvtx_push(runner->launcher.ranges, "schedule"); /* until launch */
	return STATUS_OK;
}

/* A decode step: a graph if the graph has room for its splits, else the same launches one by
   one. */
static enum status launch_decode(struct cuda_runner *runner, const struct batch *batch,
	enum step_mode *mode, struct error *error)
{
	struct cuda_launcher *launcher = &runner->launcher;
	struct cuda_step_data *data = &launcher->data;
	const struct cuda_bucket *bucket = cuda_graphs_bucket(&runner->graphs, batch->row_count);
	const struct cuda_step_layout *layout = &bucket->layout;
	struct cuda_batch device;

	nvtx_push(launcher->ranges, "fill");
	uint32_t splits = cuda_step_data_fill(data, layout, batch, &device);
	cuda_step_data_pad(data, layout, batch->row_count, bucket->row_count);
	cuda_step_data_finish(data, layout, splits, batch->additions, batch->addition_count);
	nvtx_pop(launcher->ranges);
	if (bucket->graph != NULL && splits <= data->split_limit) {
		*mode = STEP_MODE_GRAPH;
		return cuda_status((int)cudaGraphLaunch(bucket->graph, launcher->stream),
			"cudaGraphLaunch", error);
	}
	device.token_count = bucket->row_count;
	device.decode_count = bucket->row_count;
	device.sample_count = bucket->row_count;
	cuda_step_data_group(data, layout, &device);
	*mode = STEP_MODE_EAGER;
	return cuda_launcher_run(launcher, layout, &device, error);
}

static enum status launch_general(
	struct cuda_runner *runner, const struct batch *batch, struct error *error)
{
	struct cuda_launcher *launcher = &runner->launcher;
	struct cuda_step_data *data = &launcher->data;
	uint32_t rows = batch->row_count;
	/* Upper bound: each row has at most one tile that is not full. */
	const struct cuda_step_layout layout =
		cuda_step_layout(rows, (uint32_t)batch->counts.sampled_rows, batch->token_count,
			batch->token_count / PREFILL_QUERY_TILE + rows);
	struct cuda_batch device;

	nvtx_push(launcher->ranges, "fill");
	uint32_t splits = cuda_step_data_fill(data, &layout, batch, &device);
	cuda_step_data_finish(data, &layout, splits, batch->additions, batch->addition_count);
	cuda_step_data_group(data, &layout, &device);
	nvtx_pop(launcher->ranges);
	return cuda_launcher_run(launcher, &layout, &device, error);
}

static enum status cuda_launch(void *state, const struct batch *batch, struct error *error)
{
	struct cuda_runner *runner = state;
	struct cuda_launcher *launcher = &runner->launcher;
	bool is_decode = batch->counts.prefill_rows == 0;
	struct flight *flight = &runner->flights[cuda_launcher_next_slot(launcher)];

	if (runner->start_ns != 0) {
		nvtx_pop(launcher->ranges);
	}
	*flight = (struct flight){
		.start_ns = runner->start_ns == 0 ? monotonic_ns() : runner->start_ns,
		.sampled_count = (uint32_t)batch->counts.sampled_rows,
		.mode = STEP_MODE_EAGER,
	};
	runner->start_ns = 0;
	nvtx_step(launcher->ranges, batch->step);
	nvtx_push(launcher->ranges, is_decode ? "decode" : "prefill");
	enum status status = is_decode ? launch_decode(runner, batch, &flight->mode, error)
				       : launch_general(runner, batch, error);
	nvtx_pop(launcher->ranges);
	launcher->launched++;
	return status;
}

/* Polls the completion flag until the GPU sets it. Queries the driver for errors from time to
   time. */
static enum status await(const struct cuda_launcher *launcher,
	const volatile struct step_completion *completion, struct error *error)
{
	for (uint64_t polls = 1; completion->done != launcher->collected + 1; polls++) {
		if (polls % POLLS_A_QUERY == 0) {
			int code = (int)cudaStreamQuery(launcher->stream);
			if (code != (int)cudaSuccess && code != (int)cudaErrorNotReady) {
				return cuda_status(code, "a step on the GPU", error);
			}
		}
	}
	atomic_thread_fence(memory_order_acquire);
	return STATUS_OK;
}

static enum status cuda_collect(
	void *state, int32_t *token_ids, struct step_time *time, struct error *error)
{
	struct cuda_runner *runner = state;
	struct cuda_launcher *launcher = &runner->launcher;
	const struct cuda_step_data *data = &launcher->data;
	uint32_t slot = (uint32_t)(launcher->collected % CUDA_STEP_SLOTS);
	const struct flight *flight = &runner->flights[slot];
	const struct step_completion *completion = &data->completions[slot];

	check(launcher->collected < launcher->launched);
	TRY(await(launcher, completion, error));
	uint64_t end_ns = monotonic_ns();
	memcpy(token_ids, data->host_tokens + slot * data->io.token_stride,
		flight->sampled_count * sizeof(int32_t));
	time->mode = flight->mode;
	time->elapsed_ns = end_ns - u64_max(flight->start_ns, runner->host_end_ns);
	time->gpu_ns = u64_min(completion->end_ns - completion->begin_ns, time->elapsed_ns);
	time->host_ns = time->elapsed_ns - time->gpu_ns;
	time->idle_ns = runner->gpu_end_ns == 0 ? 0 : completion->begin_ns - runner->gpu_end_ns;
	runner->host_end_ns = end_ns;
	runner->gpu_end_ns = completion->end_ns;
	launcher->collected++;
	return STATUS_OK;
}

static enum status cuda_execute(void *state, const struct batch *batch, int32_t *token_ids,
	struct step_time *time, struct error *error)
{
	TRY(cuda_launch(state, batch, error));
	return cuda_collect(state, token_ids, time, error);
}

/* ---- opening ---- */

static enum status open_device(struct cuda_runner *runner,
	const struct cuda_runner_options *options, struct cuda_memory *memory, struct error *error)
{
	struct cuda_launcher *launcher = &runner->launcher;
	struct cudaDeviceProp properties;
	int device = 0;

	TRY(cuda_status((int)cudaGetDevice(&device), "cudaGetDevice", error));
	TRY(cuda_status((int)cudaGetDeviceProperties(&properties, device),
		"cudaGetDeviceProperties", error));
	memcpy(memory->device, properties.name, sizeof(memory->device) - 1);
	memory->device[sizeof(memory->device) - 1] = '\0';
	launcher->data.decode_blocks =
		decode_attention_blocks(options->path, (uint32_t)properties.multiProcessorCount);
	return cuda_status((int)cudaStreamCreate(&launcher->stream), "cudaStreamCreate", error);
}

static enum status open_forward(
	struct cuda_runner *runner, const struct cuda_runner_options *options, struct error *error)
{
	const struct engine_config *engine = &runner->engine;
	struct cuda_step_data *data = &runner->launcher.data;
	uint64_t splits = (uint64_t)engine->max_num_seqs *
			  u64_divide_up(engine->max_model_len, (uint64_t)DECODE_SPLIT);
	const struct cuda_forward_options forward = {
		.weights = options->weights,
		.shard = WEIGHT_WHOLE,
		.limits = model_step_limits(engine->max_num_batched_tokens, engine->max_num_seqs,
			engine->max_model_len),
		.block_size = engine->block_size,
		.table_width = data->table_width,
		.path = options->path,
		.ranges = runner->launcher.ranges,
	};

	data->split_capacity = u32_from(splits);
	data->split_limit = forward.limits.splits;
	return cuda_forward_open(&runner->launcher.forward, &forward, error);
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

/* Runs a step with the most tokens and samples. Only one tile of it attends, because the pool
   has one block at this point. */
static enum status run_largest(struct cuda_runner *runner, struct error *error)
{
	struct cuda_launcher *launcher = &runner->launcher;
	struct cuda_step_data *data = &launcher->data;
	uint32_t samples = data->sample_capacity;
	uint32_t tokens =
		u32_max(runner->engine.max_num_batched_tokens, runner->engine.max_num_seqs);
	uint32_t attending = u32_min(
		u32_min(tokens, (uint32_t)PREFILL_QUERY_TILE), runner->engine.max_model_len);
	const struct cuda_step_layout layout = cuda_step_layout(samples, samples, tokens, 1);
	struct cuda_batch batch = cuda_step_data_batch(data, &layout);

	cuda_launcher_next_slot(launcher);
	const struct cuda_step_lists lists = cuda_step_data_lists(data, &layout);
	memset(lists.slots, 0xff, tokens * sizeof(int64_t));
	lists.query_start[1] = attending;
	lists.contexts[0] = attending;
	batch.token_count = tokens;
	batch.sample_count = samples;
	batch.prefill.tile_count = 1;
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

	TRY(open_pool(runner, 1, error));
	TRY(cuda_forward_prepare(launcher->forward, launcher->stream, error));
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

static enum status count_blocks(struct cuda_runner *runner,
	const struct cuda_runner_options *options, struct cuda_memory *memory, struct error *error)
{
	const struct cuda_launcher *launcher = &runner->launcher;

	memory->block_bytes = cuda_forward_block_bytes(launcher->forward) +
			      (uint64_t)launcher->data.table_width * sizeof(uint32_t);
	TRY(cuda_memory_count_blocks(
		memory, options->gpu_memory_utilization, options->engine->kv_block_count, error));
	runner->engine.kv_block_count = memory->block_count;
	return STATUS_OK;
}

static enum status open_all(struct cuda_runner *runner, const struct cuda_runner_options *options,
	struct cuda_memory *memory, struct error *error)
{
	TRY(open_device(runner, options, memory, error));
	TRY(open_forward(runner, options, error));
	TRY(cuda_step_data_open(&runner->launcher.data, &runner->engine, error));
	TRY(warm_up(runner, error));
	TRY(count_blocks(runner, options, memory, error));
	TRY(open_pool(runner, memory->block_count, error));
	return cuda_graphs_open(&runner->graphs, &runner->launcher, options->is_eager, error);
}

static void cuda_close(void *state)
{
	struct cuda_runner *runner = state;
	struct cuda_launcher *launcher = &runner->launcher;

	if (launcher->stream != NULL) {
		cudaStreamSynchronize(launcher->stream); /* a step may still be in flight */
	}
	cuda_graphs_close(&runner->graphs);
	close_pool(runner);
	cuda_forward_close(launcher->forward);
	cuda_step_data_close(&launcher->data);
	if (launcher->stream != NULL) {
		cudaStreamDestroy(launcher->stream);
	}
	nvtx_close(launcher->ranges);
	free(runner);
}

enum status cuda_runner_open(struct runner *out, const struct cuda_runner_options *options,
	struct cuda_memory *memory, struct error *error)
{
	struct cuda_runner *runner = memory_take(1, sizeof(*runner));
	struct cuda_step_data *data = &runner->launcher.data;

	memset(memory, 0, sizeof(*memory));
	runner->engine = *options->engine;
	runner->launcher.ranges = nvtx_open(options->stack);
	data->seed = options->seed;
	data->table_width =
		u32_from(u64_divide_up(runner->engine.max_model_len, runner->engine.block_size));
	data->sample_capacity = runner->engine.max_num_seqs;
	cuda_graphs_init(&runner->graphs, runner->engine.max_num_seqs);
	enum status status = open_all(runner, options, memory, error);
	if (status != STATUS_OK) {
		cuda_close(runner);
		return status;
	}
	*out = (struct runner){
		.name = "cuda",
		.state = runner,
		.is_computing = true,
		.execute = cuda_execute,
		.launch = cuda_launch,
		.collect = cuda_collect,
		.start = cuda_start,
		.close = cuda_close,
	};
	return STATUS_OK;
}

/* ---- for tests ---- */

uint64_t cuda_runner_block_bytes(const struct runner *runner)
{
	const struct cuda_runner *state = runner->state;

	return cuda_forward_block_bytes(state->launcher.forward);
}

enum status cuda_runner_read_block(
	const struct runner *runner, uint32_t block, uint16_t *out, struct error *error)
{
	const struct cuda_runner *state = runner->state;

	return cuda_forward_read_block(state->launcher.forward, block, out, error);
}

enum status cuda_runner_logits(
	const struct runner *runner, uint32_t row_count, float *logits, struct error *error)
{
	const struct cuda_runner *state = runner->state;

	return cuda_status(
		(int)cudaMemcpy(logits, cuda_forward_logits(state->launcher.forward),
			(size_t)row_count * cuda_forward_vocabulary(state->launcher.forward) *
				sizeof(float),
			cudaMemcpyDeviceToHost),
		"cudaMemcpy", error);
}
