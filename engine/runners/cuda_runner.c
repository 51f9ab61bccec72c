#include "engine/runners/cuda_runner.h"

#include "engine/base/check.h"
#include "engine/base/clock.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "engine/runners/cuda_forward.h"
#include "engine/profiling/nvtx.h"
#include "engine/policy.h"
#include "kernels/sampling/sampler.h"
#include "kernels/step_io/step_io.h"

#include <assert.h>
#include <cuda_runtime_api.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
	BUCKET_STEP = 16, /* decode steps have 1, 2, 4, 8, 16, 32, 48, ... rows */
	BUCKETS_MAX = 5 + 65536 / BUCKET_STEP,
	STEPS_IN_FLIGHT = 2,
	POLLS_A_QUERY = 1 << 16, /* polls of the completion flag per query of the driver */
	SURE_SPLITS = 8,	 /* of each decode row are copied unasked, if there or not */
};

/* Where a step's data lies, by byte. Only the last section, the splits, has no fixed size. */
struct layout {
	size_t split_start, rows, contexts, query_start, sample_index, sample_rows;
	size_t row_keys, temperatures, token_ids, positions, slots, tiles, splits;
};

/* A number of rows to which decode steps are padded, so that they are the same work with a graph
   and without. */
struct bucket {
	uint32_t row_count;
	struct layout layout;
	cudaGraphExec_t graph; /* NULL: eager */
};

/* A step that was launched and not yet collected. */
struct flight {
	uint64_t start_ns;
	uint32_t sampled_count;
	enum step_mode mode;
};

struct cuda_runner {
	struct cuda_forward *forward;
	struct engine_config engine;
	uint64_t seed;
	cudaStream_t stream;
	struct nvtx_ranges *domain;

	uint32_t table_width;
	uint32_t *tables;     /* device: (max running, table_width) */
	int32_t *last_tokens; /* device: (max running) */
	int32_t *sampled;     /* device: (sample_capacity) */
	uint32_t sample_capacity;
	uint32_t block_count; /* of decode attention's kernels */

	/* a step's data, on the device and, for either of two steps, in pinned memory */
	struct step_io io;
	unsigned char *data;
	unsigned char *host_data;
	struct step_header *headers; /* of the slot of host_data that is being filled */
	unsigned char *host;	     /* the lists in that slot */
	int32_t *host_tokens;	     /* pinned: (2, sample_capacity) */
	struct step_completion *completions;
	uint64_t *step_count; /* device */
	uint32_t addition_capacity;
	uint32_t split_room;  /* splits that the data has room for */
	uint64_t split_limit; /* of these, in one launch of decode attention */
	uint32_t *group_ends; /* (max_num_seqs) see struct cuda_batch */

	struct bucket buckets[BUCKETS_MAX]; /* by rising row_count, the last max_num_seqs */
	uint32_t bucket_count;

	struct flight flights[STEPS_IN_FLIGHT];
	uint64_t launched, collected; /* steps; their difference is in flight */
	uint64_t start_ns;	      /* when scheduling of the step began, 0: nobody said */
	uint64_t host_end_ns;	      /* when the latest step's tokens were there */
	uint64_t gpu_end_ns;	      /* when it ended, by the GPU's clock */
};

/* ---- a step's data ---- */

static size_t section(size_t *end, size_t count, size_t size)
{
	size_t begin = *end;

	*end += u64_divide_up(count * size, (uint64_t)STEP_CHUNK) * STEP_CHUNK;
	return begin;
}

static struct layout layout_of(uint32_t rows, uint32_t samples, uint32_t tokens, uint32_t tiles)
{
	struct layout layout;
	size_t end = 0;

	layout.split_start = section(&end, (size_t)rows + 1, sizeof(uint32_t));
	layout.rows = section(&end, rows, sizeof(uint32_t));
	layout.contexts = section(&end, rows, sizeof(uint32_t));
	layout.query_start = section(&end, (size_t)rows + 1, sizeof(uint32_t));
	layout.sample_index = section(&end, samples, sizeof(uint32_t));
	layout.sample_rows = section(&end, samples, sizeof(uint32_t));
	layout.row_keys = section(&end, samples, sizeof(uint64_t));
	layout.temperatures = section(&end, samples, sizeof(float));
	layout.token_ids = section(&end, tokens, sizeof(int32_t));
	layout.positions = section(&end, tokens, sizeof(uint32_t));
	layout.slots = section(&end, tokens, sizeof(int64_t));
	layout.tiles = section(&end, tiles, sizeof(struct prefill_tile));
	layout.splits = end;
	return layout;
}

#define HOST(type, name) ((type *)(void *)(runner->host + layout->name))
#define DEVICE(type, name) ((const type *)(const void *)(runner->data + layout->name))

/* What the device will find: pointers into its copy of the data. */
static struct cuda_batch device_batch(const struct cuda_runner *runner, const struct layout *layout)
{
	return (struct cuda_batch){
		.token_ids = DEVICE(int32_t, token_ids),
		.positions = DEVICE(uint32_t, positions),
		.slots = DEVICE(int64_t, slots),
		.decode =
			{
				.tables = runner->tables,
				.rows = DEVICE(uint32_t, rows),
				.contexts = DEVICE(uint32_t, contexts),
				.splits = DEVICE(struct decode_split, splits),
				.split_start = DEVICE(uint32_t, split_start),
				.block_count = runner->block_count,
			},
		.prefill =
			{
				.tables = runner->tables,
				.rows = DEVICE(uint32_t, rows),
				.query_start = DEVICE(uint32_t, query_start),
				.contexts = DEVICE(uint32_t, contexts),
				.tiles = DEVICE(struct prefill_tile, tiles),
			},
		.sample_index = DEVICE(uint32_t, sample_index),
		.sample_rows = DEVICE(uint32_t, sample_rows),
		.row_keys = DEVICE(uint64_t, row_keys),
		.temperatures = DEVICE(float, temperatures),
		.last_tokens = runner->last_tokens,
		.sampled = runner->sampled,
	};
}

/* Splits of the decode rows; returns how many. */
static uint32_t fill_splits(
	struct cuda_runner *runner, const struct layout *layout, const struct batch *batch)
{
	uint32_t *start = HOST(uint32_t, split_start);
	struct decode_split *splits = HOST(struct decode_split, splits);
	uint32_t count = 0;

	for (uint32_t r = 0; r < batch->counts.decode_rows; r++) {
		uint32_t needed =
			(batch->context_length[r] + DECODE_SPLIT - 1) / (uint32_t)DECODE_SPLIT;
		check(needed <= runner->split_room - count);
		start[r] = count;
		for (uint32_t i = 0; i < needed; i++) {
			splits[count++] = (struct decode_split){.row = r, .index = i};
		}
	}
	start[batch->counts.decode_rows] = count;
	return count;
}

/* Cuts the decode rows into groups whose splits one launch of attention has room for. */
static void fill_groups(
	struct cuda_runner *runner, const struct layout *layout, struct cuda_batch *out)
{
	const uint32_t *start = HOST(uint32_t, split_start);
	uint32_t first = 0, count = 0;

	for (uint32_t r = 1; r <= out->decode_count; r++) {
		if (r == out->decode_count || start[r + 1] - start[first] > runner->split_limit) {
			runner->group_ends[count++] = r;
			first = r;
		}
	}
	out->decode_group_ends = runner->group_ends;
}

/* Tiles of the prefill rows; returns how many. */
static uint32_t fill_tiles(
	struct cuda_runner *runner, const struct layout *layout, const struct batch *batch)
{
	return prefill_tiles_fill(HOST(struct prefill_tile, tiles), batch->query_start,
		batch->context_length, (uint32_t)batch->counts.decode_rows, batch->row_count);
}

static void fill_samples(
	struct cuda_runner *runner, const struct layout *layout, const struct batch *batch)
{
	uint32_t count = 0;

	for (uint32_t r = 0; r < batch->row_count; r++) {
		if (batch->is_sampled[r]) {
			HOST(uint32_t, sample_index)[count] = batch->query_start[r + 1] - 1;
			HOST(uint32_t, sample_rows)[count] = batch->row[r];
			HOST(uint64_t, row_keys)
			[count] = sampler_row_key(
				runner->seed, batch->request[r], batch->sample_position[r]);
			HOST(float, temperatures)[count] = batch->temperature[r];
			count++;
		}
	}
	check(count == batch->counts.sampled_rows && count <= runner->sample_capacity);
}

/* Writes a batch into the pinned buffer; returns the number of splits. */
static uint32_t fill_batch(struct cuda_runner *runner, const struct layout *layout,
	const struct batch *batch, struct cuda_batch *out)
{
	size_t rows = batch->row_count;
	size_t tokens = batch->token_count;

	*out = device_batch(runner, layout);
	memcpy(HOST(uint32_t, rows), batch->row, rows * sizeof(uint32_t));
	memcpy(HOST(uint32_t, contexts), batch->context_length, rows * sizeof(uint32_t));
	memcpy(HOST(uint32_t, query_start), batch->query_start, (rows + 1) * sizeof(uint32_t));
	memcpy(HOST(int32_t, token_ids), batch->token_id, tokens * sizeof(int32_t));
	memcpy(HOST(uint32_t, positions), batch->position, tokens * sizeof(uint32_t));
	memcpy(HOST(int64_t, slots), batch->slot, tokens * sizeof(int64_t));
	fill_samples(runner, layout, batch);
	out->token_count = batch->token_count;
	out->decode_count = (uint32_t)batch->counts.decode_rows;
	out->sample_count = (uint32_t)batch->counts.sampled_rows;
	out->prefill.tile_count = fill_tiles(runner, layout, batch);
	return fill_splits(runner, layout, batch);
}

/* Rows from `first` on up to a bucket's size: they store nothing and attend to nothing. */
static void fill_padding(
	struct cuda_runner *runner, const struct layout *layout, uint32_t first, uint32_t row_count)
{
	uint32_t split_count = first == 0 ? 0 : HOST(uint32_t, split_start)[first];

	HOST(uint32_t, split_start)[0] = 0;
	for (uint32_t r = first; r < row_count; r++) {
		HOST(uint32_t, split_start)[r + 1] = split_count;
		HOST(uint32_t, rows)[r] = 0;
		HOST(uint32_t, contexts)[r] = 0;
		HOST(uint32_t, sample_index)[r] = r;
		HOST(uint32_t, sample_rows)[r] = SAMPLER_NO_ROW;
		HOST(uint64_t, row_keys)[r] = 0;
		HOST(float, temperatures)[r] = 0;
		HOST(int32_t, token_ids)[r] = 0;
		HOST(uint32_t, positions)[r] = 0;
		HOST(int64_t, slots)[r] = -1;
	}
}

/* Additions to the block tables, and the headers with the lengths. */
static void fill_headers(struct cuda_runner *runner, const struct layout *layout,
	uint32_t split_count, const struct block_addition *additions, uint32_t addition_count)
{
	size_t bytes = layout->splits + split_count * sizeof(struct decode_split);
	struct table_addition *to = (void *)(runner->host + runner->io.data_bytes);

	check(addition_count <= runner->addition_capacity);
	for (uint32_t i = 0; i < addition_count; i++) {
		to[i] = (struct table_addition){
			.row = additions[i].row,
			.index = additions[i].index,
			.block = additions[i].block,
		};
	}
	for (uint32_t i = 0; i < STEP_BLOCKS; i++) {
		runner->headers[i] = (struct step_header){
			.chunk_count = u32_from(u64_divide_up(bytes, (uint64_t)STEP_CHUNK)),
			.addition_count = addition_count,
		};
	}
}

/* A step from the host's data to the host's tokens, on the stream. */
static enum status run_step(struct cuda_runner *runner, const struct layout *layout,
	const struct cuda_batch *batch, struct error *error)
{
	size_t splits = (size_t)batch->decode_count * SURE_SPLITS;
	size_t sure_bytes = u64_min(
		layout->splits + splits * sizeof(struct decode_split), runner->io.data_bytes);

	nvtx_push(runner->domain, "upload");
	enum status status = cuda_status(
		step_begin(&runner->io, sure_bytes, runner->stream), "step_begin", error);
	nvtx_pop(runner->domain);
	if (status == STATUS_OK) {
		status = cuda_forward_run(runner->forward, batch, runner->stream, error);
	}
	if (status != STATUS_OK) {
		return status;
	}
	nvtx_push(runner->domain, "collect");
	status = cuda_status(
		step_end(&runner->io, batch->sample_count, runner->stream), "step_end", error);
	nvtx_pop(runner->domain);
	return status;
}

/* Points headers and host at the slot of the double buffer that the next step uses. */
static uint32_t next_slot(struct cuda_runner *runner)
{
	uint32_t slot = (uint32_t)(runner->launched % STEPS_IN_FLIGHT);

	check(runner->launched - runner->collected < STEPS_IN_FLIGHT);
	runner->headers = (void *)(runner->host_data + slot * runner->io.host_stride);
	runner->host = (unsigned char *)(runner->headers + STEP_BLOCKS);
	return slot;
}

/* Runs a step that has no tokens to give, to its end. */
static enum status run_silent(struct cuda_runner *runner, const struct layout *layout,
	const struct cuda_batch *batch, struct error *error)
{
	enum status status = run_step(runner, layout, batch, error);

	runner->launched++;
	runner->collected++;
	return status == STATUS_OK
		       ? cuda_status((int)cudaStreamSynchronize(runner->stream), "warm-up", error)
		       : status;
}

/* ---- graphs ---- */

static enum status capture(struct cuda_runner *runner, struct bucket *bucket,
	const struct cuda_batch *batch, struct error *error)
{
	cudaGraph_t captured = NULL;

	enum status status = cuda_status(
		(int)cudaStreamBeginCapture(runner->stream, cudaStreamCaptureModeThreadLocal),
		"cudaStreamBeginCapture", error);
	if (status != STATUS_OK) {
		return status;
	}
	status = run_step(runner, &bucket->layout, batch, error);
	int code = (int)cudaStreamEndCapture(runner->stream, &captured);
	if (status == STATUS_OK) {
		status = cuda_status(code, "cudaStreamEndCapture", error);
	}
	if (status == STATUS_OK) {
		status = cuda_status((int)cudaGraphInstantiate(&bucket->graph, captured, 0),
			"cudaGraphInstantiate", error);
	}
	if (status == STATUS_OK) {
		status = cuda_status((int)cudaGraphUpload(bucket->graph, runner->stream),
			"cudaGraphUpload", error);
	}
	if (captured != NULL) {
		cudaGraphDestroy(captured);
	}
	return status;
}

/* Launches a graph while another runs: the driver prepares for that when it happens for the first
   time, which takes it 2 ms. */
static enum status rehearse(struct cuda_runner *runner, struct error *error)
{
	const struct bucket *bucket = &runner->buckets[0];
	enum status status = STATUS_OK;

	for (uint32_t i = 0; i < STEPS_IN_FLIGHT && status == STATUS_OK; i++) {
		next_slot(runner);
		fill_padding(runner, &bucket->layout, 0, bucket->row_count);
		fill_headers(runner, &bucket->layout, 0, NULL, 0);
		status = cuda_status((int)cudaGraphLaunch(bucket->graph, runner->stream),
			"cudaGraphLaunch", error);
		runner->launched++;
	}
	runner->collected = runner->launched;
	return status == STATUS_OK
		       ? cuda_status((int)cudaStreamSynchronize(runner->stream), "warm-up", error)
		       : status;
}

/* Decode steps of every size, once as they are: what they need is loaded when it is first launched.
   Then as graphs. */
static enum status open_buckets(struct cuda_runner *runner, bool is_eager, struct error *error)
{
	enum status status = STATUS_OK;

	for (uint32_t i = 0; i < runner->bucket_count && status == STATUS_OK; i++) {
		struct bucket *bucket = &runner->buckets[i];
		struct cuda_batch batch = device_batch(runner, &bucket->layout);
		batch.token_count = batch.decode_count = batch.sample_count = bucket->row_count;
		next_slot(runner);
		fill_padding(runner, &bucket->layout, 0, bucket->row_count);
		fill_headers(runner, &bucket->layout, 0, NULL, 0);
		status = run_silent(runner, &bucket->layout, &batch, error);
		if (status == STATUS_OK && !is_eager) {
			status = capture(runner, bucket, &batch, error);
		}
	}
	return status == STATUS_OK && !is_eager ? rehearse(runner, error) : status;
}

static void add_bucket(struct cuda_runner *runner, uint32_t rows)
{
	runner->buckets[runner->bucket_count++] =
		(struct bucket){.row_count = rows, .layout = layout_of(rows, rows, rows, 0)};
}

static void add_buckets(struct cuda_runner *runner)
{
	uint32_t most = runner->engine.max_num_seqs;

	for (uint32_t rows = 1; rows < most;) {
		add_bucket(runner, rows);
		rows += rows < BUCKET_STEP ? rows : BUCKET_STEP;
	}
	add_bucket(runner, most);
}

static const struct bucket *bucket_for(const struct cuda_runner *runner, uint32_t row_count)
{
	uint32_t i = 0;

	while (runner->buckets[i].row_count < row_count) {
		check(i + 1 < runner->bucket_count);
		i++;
	}
	return &runner->buckets[i];
}

/* ---- steps ---- */

static enum status cuda_start(
	void *state, uint64_t earliest_ns, uint64_t *start_ns, struct error *error)
{
	struct cuda_runner *runner = state;

	(void)error; /* the clock is always there */
	*start_ns = earliest_ns;
	runner->start_ns = monotonic_ns();
	nvtx_push(runner->domain, "schedule"); /* until execute */
	return STATUS_OK;
}

/* A decode step: a graph where it has room for the splits, else the same launches one by one. */
static enum status launch_decode(struct cuda_runner *runner, const struct batch *batch,
	enum step_mode *mode, struct error *error)
{
	const struct bucket *bucket = bucket_for(runner, batch->row_count);
	const struct layout *layout = &bucket->layout;
	struct cuda_batch device;

	nvtx_push(runner->domain, "fill");
	uint32_t splits = fill_batch(runner, layout, batch, &device);
	fill_padding(runner, layout, batch->row_count, bucket->row_count);
	fill_headers(runner, layout, splits, batch->additions, batch->addition_count);
	nvtx_pop(runner->domain);
	if (bucket->graph != NULL && splits <= runner->split_limit) {
		*mode = STEP_MODE_GRAPH;
		return cuda_status((int)cudaGraphLaunch(bucket->graph, runner->stream),
			"cudaGraphLaunch", error);
	}
	device.token_count = bucket->row_count;
	device.decode_count = bucket->row_count;
	device.sample_count = bucket->row_count;
	fill_groups(runner, layout, &device);
	*mode = STEP_MODE_EAGER;
	return run_step(runner, layout, &device, error);
}

static enum status launch_general(
	struct cuda_runner *runner, const struct batch *batch, struct error *error)
{
	uint32_t rows = batch->row_count;
	/* Every row has at most one tile that is not full. */
	const struct layout layout = layout_of(rows, (uint32_t)batch->counts.sampled_rows,
		batch->token_count, batch->token_count / PREFILL_QUERY_TILE + rows);
	struct cuda_batch device;

	nvtx_push(runner->domain, "fill");
	uint32_t splits = fill_batch(runner, &layout, batch, &device);
	fill_headers(runner, &layout, splits, batch->additions, batch->addition_count);
	fill_groups(runner, &layout, &device);
	nvtx_pop(runner->domain);
	return run_step(runner, &layout, &device, error);
}

static enum status cuda_launch(void *state, const struct batch *batch, struct error *error)
{
	struct cuda_runner *runner = state;
	bool is_decode = batch->counts.prefill_rows == 0;
	struct flight *flight = &runner->flights[next_slot(runner)];

	if (runner->start_ns != 0) {
		nvtx_pop(runner->domain);
	}
	*flight = (struct flight){
		.start_ns = runner->start_ns == 0 ? monotonic_ns() : runner->start_ns,
		.sampled_count = (uint32_t)batch->counts.sampled_rows,
		.mode = STEP_MODE_EAGER,
	};
	runner->start_ns = 0;
	nvtx_step(runner->domain, batch->step);
	nvtx_push(runner->domain, is_decode ? "decode" : "prefill");
	enum status status = is_decode ? launch_decode(runner, batch, &flight->mode, error)
				       : launch_general(runner, batch, error);
	nvtx_pop(runner->domain);
	runner->launched++;
	return status;
}

/* Polls the completion flag until the GPU sets it; queries the driver for errors now and then. */
static enum status await(struct cuda_runner *runner,
	const volatile struct step_completion *completion, struct error *error)
{
	for (uint64_t polls = 1; completion->done != runner->collected + 1; polls++) {
		if (polls % POLLS_A_QUERY == 0) {
			int code = (int)cudaStreamQuery(runner->stream);
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
	uint32_t slot = (uint32_t)(runner->collected % STEPS_IN_FLIGHT);
	const struct flight *flight = &runner->flights[slot];
	const struct step_completion *completion = &runner->completions[slot];

	check(runner->collected < runner->launched);
	enum status status = await(runner, completion, error);
	if (status != STATUS_OK) {
		return status;
	}
	uint64_t end_ns = monotonic_ns();
	memcpy(token_ids, runner->host_tokens + slot * runner->io.token_stride,
		flight->sampled_count * sizeof(int32_t));
	time->mode = flight->mode;
	time->elapsed_ns = end_ns - u64_max(flight->start_ns, runner->host_end_ns);
	time->gpu_ns = u64_min(completion->end_ns - completion->begin_ns, time->elapsed_ns);
	time->host_ns = time->elapsed_ns - time->gpu_ns;
	time->idle_ns = runner->gpu_end_ns == 0 ? 0 : completion->begin_ns - runner->gpu_end_ns;
	runner->host_end_ns = end_ns;
	runner->gpu_end_ns = completion->end_ns;
	runner->collected++;
	return STATUS_OK;
}

static enum status cuda_execute(void *state, const struct batch *batch, int32_t *token_ids,
	struct step_time *time, struct error *error)
{
	enum status status = cuda_launch(state, batch, error);

	return status == STATUS_OK ? cuda_collect(state, token_ids, time, error) : status;
}

static void close_pool(struct cuda_runner *runner)
{
	if (runner->forward != NULL) {
		cuda_forward_give_pool(runner->forward);
	}
	cudaFree(runner->tables);
	cudaFree(runner->last_tokens);
	runner->tables = NULL;
	runner->last_tokens = NULL;
}

static void cuda_close(void *state)
{
	struct cuda_runner *runner = state;

	if (runner->stream != NULL) {
		cudaStreamSynchronize(runner->stream); /* a step may be in flight */
	}
	for (uint32_t i = 0; i < runner->bucket_count; i++) {
		if (runner->buckets[i].graph != NULL) {
			cudaGraphExecDestroy(runner->buckets[i].graph);
		}
	}
	close_pool(runner);
	cuda_forward_close(runner->forward);
	cudaFree(runner->sampled);
	cudaFree(runner->data);
	cudaFree(runner->step_count);
	cudaFreeHost(runner->host_data);
	cudaFreeHost(runner->host_tokens);
	cudaFreeHost(runner->completions);
	if (runner->stream != NULL) {
		cudaStreamDestroy(runner->stream);
	}
	nvtx_close(runner->domain);
	free(runner->group_ends);
	free(runner);
}

/* ---- opening ---- */

static enum status open_forward(
	struct cuda_runner *runner, const struct cuda_runner_options *options, struct error *error)
{
	const struct engine_config *engine = &runner->engine;
	uint64_t splits = (uint64_t)engine->max_num_seqs *
			  u64_divide_up(engine->max_model_len, (uint64_t)DECODE_SPLIT);
	const struct cuda_forward_options forward = {
		.weights = options->weights,
		.shard = WEIGHT_WHOLE,
		.limits = model_step_limits(engine->max_num_batched_tokens, engine->max_num_seqs,
			engine->max_model_len),
		.block_size = engine->block_size,
		.table_width = runner->table_width,
		.path = options->path,
		.ranges = runner->domain,
	};

	runner->split_room = u32_from(splits);
	runner->split_limit = forward.limits.splits;
	return cuda_forward_open(&runner->forward, &forward, error);
}

static enum status take_device(void *out, uint64_t bytes, struct error *error)
{
	enum status status = cuda_status((int)cudaMalloc((void **)out, bytes), "cudaMalloc", error);

	return status == STATUS_OK
		       ? cuda_status((int)cudaMemset(*(void **)out, 0, bytes), "cudaMemset", error)
		       : status;
}

static enum status take_pinned(void *out, uint64_t bytes, struct error *error)
{
	enum status status =
		cuda_status((int)cudaMallocHost((void **)out, bytes), "cudaMallocHost", error);

	if (status == STATUS_OK) {
		memset(*(void **)out, 0, bytes);
	}
	return status;
}

static enum status open_step_io(struct cuda_runner *runner, struct error *error)
{
	const struct engine_config *engine = &runner->engine;
	uint64_t rows = runner->sample_capacity;
	uint32_t tokens = u32_max(engine->max_num_batched_tokens, engine->max_num_seqs);
	const struct layout most = layout_of(runner->sample_capacity, runner->sample_capacity,
		tokens, tokens / PREFILL_QUERY_TILE + runner->sample_capacity);
	uint64_t bytes = most.splits + runner->split_room * sizeof(struct decode_split);

	bytes = u64_divide_up(bytes, (uint64_t)STEP_CHUNK) * STEP_CHUNK;
	/* No entry of the block tables is added twice in a step. */
	runner->addition_capacity =
		u32_from((uint64_t)engine->policy->max_running(engine) * runner->table_width);
	uint64_t additions = u32_max(runner->addition_capacity, STEP_SPECULATIVE_ADDITIONS);
	uint64_t line = sizeof(struct step_header);
	uint64_t stride = STEP_BLOCKS * line + bytes + additions * sizeof(struct table_addition);
	stride = u64_divide_up(stride, line) * line;
	enum status status = take_device(&runner->data, bytes, error);
	if (status == STATUS_OK) {
		status = take_device(&runner->sampled, rows * sizeof(int32_t), error);
	}
	if (status == STATUS_OK) {
		status = take_device(&runner->step_count, sizeof(uint64_t), error);
	}
	if (status == STATUS_OK) {
		status = take_pinned(&runner->host_data, STEPS_IN_FLIGHT * stride, error);
	}
	if (status == STATUS_OK) {
		status = take_pinned(
			&runner->host_tokens, STEPS_IN_FLIGHT * rows * sizeof(int32_t), error);
	}
	if (status == STATUS_OK) {
		status = take_pinned(&runner->completions,
			STEPS_IN_FLIGHT * sizeof(struct step_completion), error);
	}
	runner->io = (struct step_io){
		.step_count = runner->step_count,
		.data = runner->data,
		.data_bytes = bytes,
		.host_data = runner->host_data,
		.host_stride = stride,
		.table_width = runner->table_width,
		.completions = runner->completions,
		.host_tokens = runner->host_tokens,
		.token_stride = runner->sample_capacity,
		.sampled = runner->sampled,
	};
	return status;
}

static enum status open_pool(struct cuda_runner *runner, uint32_t block_count, struct error *error)
{
	uint64_t rows = runner->engine.policy->max_running(&runner->engine);
	uint64_t table_bytes = rows * runner->table_width * sizeof(uint32_t);

	enum status status = cuda_forward_take_pool(runner->forward, block_count, error);
	if (status == STATUS_OK) {
		status = take_device(&runner->tables, table_bytes, error);
	}
	if (status == STATUS_OK) {
		status = take_device(&runner->last_tokens, rows * sizeof(int32_t), error);
	}
	runner->io.tables = runner->tables;
	return status;
}

/* The largest step, of which one tile attends, to a pool of one block. */
static enum status run_largest(struct cuda_runner *runner, struct error *error)
{
	uint32_t samples = runner->sample_capacity;
	uint32_t tokens =
		u32_max(runner->engine.max_num_batched_tokens, runner->engine.max_num_seqs);
	uint32_t attending = u32_min(
		u32_min(tokens, (uint32_t)PREFILL_QUERY_TILE), runner->engine.max_model_len);
	const struct layout most = layout_of(samples, samples, tokens, 1);
	const struct layout *layout = &most;
	struct cuda_batch batch = device_batch(runner, layout);

	next_slot(runner);
	memset(HOST(int64_t, slots), 0xff, tokens * sizeof(int64_t));
	HOST(uint32_t, query_start)[1] = attending;
	HOST(uint32_t, contexts)[0] = attending;
	batch.token_count = tokens;
	batch.sample_count = samples;
	batch.prefill.tile_count = 1;
	for (uint32_t i = 0; i < samples; i++) {
		HOST(uint32_t, sample_rows)[i] = SAMPLER_NO_ROW;
	}
	fill_headers(runner, layout, 0, NULL, 0);
	enum status status = run_silent(runner, layout, &batch, error);
	memset(runner->host, 0, runner->io.data_bytes);
	return status;
}

/* Everything that a step with prompts loads has been loaded before free memory is measured, and
   before a step would wait for it. */
static enum status warm_up(struct cuda_runner *runner, struct error *error)
{
	enum status status = open_pool(runner, 1, error);

	if (status == STATUS_OK) {
		status = cuda_forward_prepare(runner->forward, runner->stream, error);
	}
	if (status == STATUS_OK) {
		status = run_largest(runner, error);
	}
	close_pool(runner);
	return status;
}

/* As nano-vllm reckons: what is left of the wanted share of all memory. */
static enum status count_blocks(struct cuda_runner *runner,
	const struct cuda_runner_options *options, struct cuda_memory *memory, struct error *error)
{
	size_t free_bytes, total_bytes;
	enum status status = cuda_status(
		(int)cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo", error);

	if (status != STATUS_OK) {
		return status;
	}
	memory->total_bytes = total_bytes;
	memory->used_bytes = total_bytes - free_bytes;
	memory->block_bytes = cuda_forward_block_bytes(runner->forward) +
			      (uint64_t)runner->table_width * sizeof(uint32_t);
	uint64_t usable = (uint64_t)((u128)total_bytes * options->gpu_memory_utilization / 1000000);
	uint64_t left = usable > memory->used_bytes ? usable - memory->used_bytes : 0;
	memory->block_count = options->engine->kv_block_count;
	if (memory->block_count == 0) {
		memory->block_count =
			(uint32_t)u64_min(left / memory->block_bytes, UINT64_C(1) << 28);
	}
	if (memory->block_count == 0) {
		return error_set(error, STATUS_MEMORY,
			"GPU memory: no KV block fits: of %.3f GB %.3f may be used and %.3f are, "
			"a block takes %.3f",
			(double)total_bytes / 1e9, (double)usable / 1e9,
			(double)memory->used_bytes / 1e9, (double)memory->block_bytes / 1e9);
	}
	runner->engine.kv_block_count = memory->block_count;
	return STATUS_OK;
}

static enum status open_device(struct cuda_runner *runner,
	const struct cuda_runner_options *options, struct cuda_memory *memory, struct error *error)
{
	struct cudaDeviceProp properties;
	int device = 0;

	enum status status = cuda_status((int)cudaGetDevice(&device), "cudaGetDevice", error);
	if (status == STATUS_OK) {
		status = cuda_status((int)cudaGetDeviceProperties(&properties, device),
			"cudaGetDeviceProperties", error);
	}
	if (status != STATUS_OK) {
		return status;
	}
	memcpy(memory->device, properties.name, sizeof(memory->device) - 1);
	memory->device[sizeof(memory->device) - 1] = '\0';
	runner->block_count =
		decode_attention_blocks(options->path, (uint32_t)properties.multiProcessorCount);
	return cuda_status((int)cudaStreamCreate(&runner->stream), "cudaStreamCreate", error);
}

enum status cuda_runner_open(struct runner *out, const struct cuda_runner_options *options,
	struct cuda_memory *memory, struct error *error)
{
	struct cuda_runner *runner = memory_take(1, sizeof(*runner));

	memset(memory, 0, sizeof(*memory));
	runner->engine = *options->engine;
	runner->seed = options->seed;
	runner->domain = nvtx_open(options->watch);
	runner->group_ends = memory_take(runner->engine.max_num_seqs, sizeof(*runner->group_ends));
	runner->table_width =
		u32_from(u64_divide_up(runner->engine.max_model_len, runner->engine.block_size));
	runner->sample_capacity = runner->engine.max_num_seqs;
	add_buckets(runner);
	enum status status = open_device(runner, options, memory, error);
	if (status == STATUS_OK) {
		status = open_forward(runner, options, error);
	}
	if (status == STATUS_OK) {
		status = open_step_io(runner, error);
	}
	if (status == STATUS_OK) {
		status = warm_up(runner, error);
	}
	if (status == STATUS_OK) {
		status = count_blocks(runner, options, memory, error);
	}
	if (status == STATUS_OK) {
		status = open_pool(runner, memory->block_count, error);
	}
	if (status == STATUS_OK) {
		status = open_buckets(runner, options->is_eager, error);
	}
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

uint64_t cuda_runner_block_bytes(const struct runner *runner)
{
	const struct cuda_runner *state = runner->state;

	return cuda_forward_block_bytes(state->forward);
}

enum status cuda_runner_read_block(
	const struct runner *runner, uint32_t block, uint16_t *out, struct error *error)
{
	const struct cuda_runner *state = runner->state;

	return cuda_forward_read_block(state->forward, block, out, error);
}

enum status cuda_runner_logits(
	const struct runner *runner, uint32_t row_count, float *logits, struct error *error)
{
	const struct cuda_runner *state = runner->state;

	return cuda_status(
		(int)cudaMemcpy(logits, cuda_forward_logits(state->forward),
			(size_t)row_count * cuda_forward_vocabulary(state->forward) * sizeof(float),
			cudaMemcpyDeviceToHost),
		"cudaMemcpy", error);
}
