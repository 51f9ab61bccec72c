#include "engine/runners/cuda_step_data.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "engine/policy.h"
#include "engine/runners/cuda_memory.h"
#include "kernels/sampling/sampler.h"

#include <assert.h>
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

/* ---- layout ---- */

static size_t section(size_t *end, size_t count, size_t size)
{
	size_t begin = *end;

	*end += u64_divide_up(count * size, (uint64_t)STEP_CHUNK) * STEP_CHUNK;
	return begin;
}

struct cuda_step_layout cuda_step_layout(
	uint32_t rows, uint32_t samples, uint32_t tokens, uint32_t tiles)
{
	struct cuda_step_layout layout;
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
	layout.launches = section(&end, rows, sizeof(struct decode_launch));
	layout.claims = end;
	return layout;
}

uint32_t cuda_step_tiles(uint32_t rows, uint32_t tokens)
{
	return tokens / PREFILL_QUERY_TILE + 2 * rows;
}

/* Sections begin at multiples of STEP_CHUNK, which is enough alignment for every element type. */
static struct cuda_step_lists lists_at(unsigned char *base, const struct cuda_step_layout *layout)
{
	return (struct cuda_step_lists){
		.split_start = (void *)(base + layout->split_start),
		.rows = (void *)(base + layout->rows),
		.contexts = (void *)(base + layout->contexts),
		.query_start = (void *)(base + layout->query_start),
		.sample_index = (void *)(base + layout->sample_index),
		.sample_rows = (void *)(base + layout->sample_rows),
		.row_keys = (void *)(base + layout->row_keys),
		.temperatures = (void *)(base + layout->temperatures),
		.token_ids = (void *)(base + layout->token_ids),
		.positions = (void *)(base + layout->positions),
		.slots = (void *)(base + layout->slots),
		.tiles = (void *)(base + layout->tiles),
		.launches = (void *)(base + layout->launches),
		.claims = (void *)(base + layout->claims),
	};
}

struct cuda_step_lists cuda_step_data_lists(
	const struct cuda_step_data *data, const struct cuda_step_layout *layout)
{
	return lists_at(data->host, layout);
}

struct cuda_batch cuda_step_data_batch(
	const struct cuda_step_data *data, const struct cuda_step_layout *layout)
{
	const struct cuda_step_lists lists = lists_at(data->device, layout);

	return (struct cuda_batch){
		.token_ids = lists.token_ids,
		.positions = lists.positions,
		.slots = lists.slots,
		.decode =
			{
				.tables = data->tables,
				.rows = lists.rows,
				.contexts = lists.contexts,
				.split_start = lists.split_start,
				.launch = lists.launches,
				.claims = lists.claims,
				.block_count = data->decode_blocks,
			},
		.prefill =
			{
				.tables = data->tables,
				.rows = lists.rows,
				.query_start = lists.query_start,
				.contexts = lists.contexts,
				.tiles = lists.tiles,
			},
		.sample_index = lists.sample_index,
		.sample_rows = lists.sample_rows,
		.row_keys = lists.row_keys,
		.temperatures = lists.temperatures,
		.last_tokens = data->last_tokens,
		.sampled = data->sampled,
	};
}

/* ---- filling ---- */

void cuda_step_data_select(struct cuda_step_data *data, uint32_t slot)
{
	check(slot < CUDA_STEP_SLOTS);
	data->headers = (void *)(data->pinned + slot * data->io.host_stride);
	data->host = (unsigned char *)(data->headers + STEP_BLOCKS);
}

static void add_to_tables(struct cuda_step_data *data, const struct batch *batch)
{
	for (uint32_t i = 0; i < batch->addition_count; i++) {
		const struct block_addition *addition = &batch->additions[i];
		check(addition->row < data->running_capacity &&
			addition->index < data->table_width);
		data->host_tables[(size_t)addition->row * data->table_width + addition->index] =
			addition->block;
	}
}

/* The end of the group of rows that begins at `first`: its splits fit into one launch. */
static uint32_t group_end(
	const struct cuda_step_data *data, const uint32_t *start, uint32_t first, uint32_t count)
{
	uint32_t end = first + 1;

	while (end < count && start[end + 1] - start[first] <= data->split_limit) {
		end++;
	}
	return end;
}

/* Fills the claims of the decode rows, launch by launch. */
static void fill_claims(struct cuda_step_data *data, const struct cuda_step_lists *lists,
	const struct step_counts *counts)
{
	uint32_t row_count = (uint32_t)counts->decode_rows, longest = 0;

	for (uint32_t r = 0; r < row_count; r++) {
		longest = u32_max(longest, lists->split_start[r + 1] - lists->split_start[r]);
	}
	struct decode_rows rows = {.tables = data->host_tables,
		.rows = lists->rows,
		.contexts = lists->contexts,
		.split_start = lists->split_start,
		.may_share = decode_list_may_share(&data->list, counts->shared_tokens, longest)};

	data->claim_count = 0;
	for (uint32_t launch = 0; rows.first_row < row_count; launch++) {
		uint32_t end = group_end(data, lists->split_start, rows.first_row, row_count);
		rows.row_count = end - rows.first_row;
		data->claim_count = decode_list_fill(&data->list, &rows, lists->claims,
			data->claim_count, &lists->launches[launch]);
		rows.first_row = end;
	}
}

/* Counts the splits of the decode rows, and fills their claims; returns the number of splits. */
static uint32_t fill_splits(
	struct cuda_step_data *data, const struct cuda_step_lists *lists, const struct batch *batch)
{
	uint32_t count = 0, rows = (uint32_t)batch->counts.decode_rows;

	for (uint32_t r = 0; r < rows; r++) {
		uint32_t needed =
			(batch->context_length[r] + DECODE_SPLIT - 1) / (uint32_t)DECODE_SPLIT;
		check(needed <= data->split_capacity - count);
		lists->split_start[r] = count;
		count += needed;
	}
	lists->split_start[rows] = count;
	fill_claims(data, lists, &batch->counts);
	return count;
}

static void fill_samples(const struct cuda_step_data *data, const struct cuda_step_lists *lists,
	const struct batch *batch)
{
	uint32_t count = 0;

	for (uint32_t r = 0; r < batch->row_count; r++) {
		if (batch->is_sampled[r]) {
			lists->sample_index[count] = batch->query_start[r + 1] - 1;
			lists->sample_rows[count] = batch->row[r];
			lists->row_keys[count] = sampler_row_key(
				data->seed, batch->request[r], batch->sample_position[r]);
			lists->temperatures[count] = batch->temperature[r];
			count++;
		}
	}
	check(count == batch->counts.sampled_rows && count <= data->sample_capacity);
}

/* The tiles that attention computes in a last layer that drops rows: of each prompt that is
   sampled, the one with its last token. */
static void fill_last_tiles(
	struct prefill_tile *tiles, const struct batch *batch, uint32_t first, uint32_t row_count)
{
	for (uint32_t r = first; r < row_count; r++) {
		if (batch->is_sampled[r]) {
			uint32_t tokens = batch->query_start[r + 1] - batch->query_start[r];
			*tiles++ = (struct prefill_tile){
				.row = r, .index = (tokens - 1) / PREFILL_QUERY_TILE};
		}
	}
}

uint32_t cuda_step_data_fill(struct cuda_step_data *data, const struct cuda_step_layout *layout,
	const struct batch *batch, struct cuda_batch *out)
{
	const struct cuda_step_lists lists = lists_at(data->host, layout);
	size_t rows = batch->row_count;
	size_t tokens = batch->token_count;

	*out = cuda_step_data_batch(data, layout);
	add_to_tables(data, batch);
	memcpy(lists.rows, batch->row, rows * sizeof(uint32_t));
	memcpy(lists.contexts, batch->context_length, rows * sizeof(uint32_t));
	memcpy(lists.query_start, batch->query_start, (rows + 1) * sizeof(uint32_t));
	memcpy(lists.token_ids, batch->token_id, tokens * sizeof(int32_t));
	memcpy(lists.positions, batch->position, tokens * sizeof(uint32_t));
	memcpy(lists.slots, batch->slot, tokens * sizeof(int64_t));
	fill_samples(data, &lists, batch);
	out->token_count = batch->token_count;
	out->decode_count = (uint32_t)batch->counts.decode_rows;
	out->sample_count = (uint32_t)batch->counts.sampled_rows;
	out->prefill.tile_count = prefill_tiles_fill(lists.tiles, batch->query_start,
		batch->context_length, out->decode_count, batch->row_count);
	fill_last_tiles(
		lists.tiles + out->prefill.tile_count, batch, out->decode_count, batch->row_count);
	return fill_splits(data, &lists, batch);
}

void cuda_step_data_pad(struct cuda_step_data *data, const struct cuda_step_layout *layout,
	uint32_t first, uint32_t row_count)
{
	const struct cuda_step_lists lists = lists_at(data->host, layout);
	uint32_t split_count = first == 0 ? 0 : lists.split_start[first];

	lists.split_start[0] = 0;
	if (first == 0) {
		lists.launches[0] = (struct decode_launch){0};
	}
	for (uint32_t r = first; r < row_count; r++) {
		lists.split_start[r + 1] = split_count;
		lists.rows[r] = 0;
		lists.contexts[r] = 0;
		lists.sample_index[r] = r;
		lists.sample_rows[r] = SAMPLER_NO_ROW;
		lists.row_keys[r] = 0;
		lists.temperatures[r] = 0;
		lists.token_ids[r] = 0;
		lists.positions[r] = 0;
		lists.slots[r] = -1;
	}
}

void cuda_step_data_group(
	struct cuda_step_data *data, const struct cuda_step_layout *layout, struct cuda_batch *out)
{
	const uint32_t *start = lists_at(data->host, layout).split_start;
	uint32_t count = 0;

	for (uint32_t first = 0; first < out->decode_count; first = data->group_ends[count++]) {
		data->group_ends[count] = group_end(data, start, first, out->decode_count);
	}
	out->decode_group_ends = data->group_ends;
	out->decode.is_long = cuda_step_data_is_long(data, layout, count);
}

bool cuda_step_data_is_long(const struct cuda_step_data *data,
	const struct cuda_step_layout *layout, uint32_t launch_count)
{
	const struct decode_launch *launches = lists_at(data->host, layout).launches;
	bool is_long = false;

	for (uint32_t i = 0; i < launch_count; i++) {
		is_long |= launches[i].is_long != 0;
	}
	return is_long;
}

void cuda_step_data_finish(struct cuda_step_data *data, const struct cuda_step_layout *layout,
	uint32_t claim_count, const struct block_addition *additions, uint32_t addition_count)
{
	size_t bytes = layout->claims + claim_count * sizeof(struct decode_claim);
	struct table_addition *to = (void *)(data->host + data->io.data_bytes);

	check(addition_count <= data->addition_capacity);
	for (uint32_t i = 0; i < addition_count; i++) {
		to[i] = (struct table_addition){
			.row = additions[i].row,
			.index = additions[i].index,
			.block = additions[i].block,
		};
	}
	for (uint32_t i = 0; i < STEP_BLOCKS; i++) {
		data->headers[i] = (struct step_header){
			.chunk_count = u32_from(u64_divide_up(bytes, (uint64_t)STEP_CHUNK)),
			.addition_count = addition_count,
		};
	}
}

/* ---- opening ---- */

/* The sizes that follow from the engine's configuration. */
static void set_sizes(struct cuda_step_data *data, const struct engine_config *engine)
{
	uint64_t rows = engine->max_num_seqs;
	uint32_t tokens = u32_max(engine->max_num_batched_tokens, engine->max_num_seqs);
	const struct cuda_step_layout most = cuda_step_layout(engine->max_num_seqs,
		engine->max_num_seqs, tokens, cuda_step_tiles(engine->max_num_seqs, tokens));
	uint64_t line = sizeof(struct step_header), chunk = STEP_CHUNK;

	data->table_width = u32_from(u64_divide_up(engine->max_model_len, engine->block_size));
	data->sample_capacity = engine->max_num_seqs;
	data->split_capacity =
		u32_from(rows * u64_divide_up(engine->max_model_len, (uint64_t)DECODE_SPLIT));
	/* Each entry of the block tables is added at most once in a step. */
	data->running_capacity = u32_from((uint64_t)engine->policy->max_running(engine));
	data->addition_capacity = u32_from((uint64_t)data->running_capacity * data->table_width);
	uint64_t claims = decode_list_capacity(data->split_capacity);
	uint64_t bytes = most.claims + claims * sizeof(struct decode_claim);
	bytes = u64_divide_up(bytes, chunk) * chunk;
	uint64_t additions = u32_max(data->addition_capacity, STEP_SPECULATIVE_ADDITIONS);
	uint64_t stride = STEP_BLOCKS * line + bytes + additions * sizeof(struct table_addition);
	uint64_t report =
		sizeof(struct cuda_rank_report) + CUDA_STEP_SLOTS * rows * sizeof(int32_t);
	data->report_bytes = u64_divide_up(report, line) * line;
	data->io = (struct step_io){
		.data_bytes = bytes,
		.host_stride = u64_divide_up(stride, line) * line,
		.table_width = data->table_width,
		.token_stride = data->sample_capacity,
	};
}

uint64_t cuda_step_data_shared_bytes(const struct engine_config *engine, uint32_t ranks)
{
	struct cuda_step_data data;

	set_sizes(&data, engine);
	return CUDA_STEP_SLOTS * data.io.host_stride + ranks * data.report_bytes;
}

volatile struct cuda_rank_report *cuda_step_data_report(
	const struct cuda_step_data *data, uint32_t rank)
{
	uint64_t first = CUDA_STEP_SLOTS * data->io.host_stride;

	return (void *)(data->pinned + first + rank * data->report_bytes);
}

const int32_t *cuda_step_data_tokens(
	const struct cuda_step_data *data, uint32_t rank, uint32_t slot)
{
	volatile struct cuda_rank_report *report = cuda_step_data_report(data, rank);
	const int32_t *tokens = (const int32_t *)((uintptr_t)report + sizeof(*report));

	return tokens + (size_t)slot * data->sample_capacity;
}

enum status cuda_step_data_open(struct cuda_step_data *data, const struct engine_config *engine,
	uint32_t rank, void *shared, struct error *error)
{
	static_assert(sizeof(struct cuda_rank_report) % 128 == 0, "whole lines");
	uint64_t rows = engine->max_num_seqs;

	set_sizes(data, engine);
	data->group_ends = memory_take(engine->max_num_seqs, sizeof(*data->group_ends));
	TRY(cuda_alloc_device(&data->device, data->io.data_bytes, error));
	TRY(cuda_alloc_device(&data->sampled, rows * sizeof(int32_t), error));
	TRY(cuda_alloc_device(&data->step_count, sizeof(uint64_t), error));
	data->pinned = shared;
	data->owns_pinned = shared == NULL;
	if (data->owns_pinned) {
		TRY(cuda_alloc_pinned(
			&data->pinned, cuda_step_data_shared_bytes(engine, 1), error));
	}
	struct cuda_rank_report *report = (void *)(uintptr_t)cuda_step_data_report(data, rank);
	data->io.step_count = data->step_count;
	data->io.data = data->device;
	data->io.host_data = data->pinned;
	data->io.completions = report->completions;
	data->io.host_tokens = (void *)(report + 1);
	data->io.sampled = data->sampled;
	return STATUS_OK;
}

void cuda_step_data_close(struct cuda_step_data *data)
{
	cuda_step_data_close_tables(data);
	cudaFree(data->sampled);
	cudaFree(data->device);
	cudaFree(data->step_count);
	if (data->owns_pinned) {
		cudaFreeHost(data->pinned);
	}
	free(data->group_ends);
}

enum status cuda_step_data_open_tables(
	struct cuda_step_data *data, const struct engine_config *engine, struct error *error)
{
	uint64_t rows = data->running_capacity;
	uint64_t table_bytes = rows * data->table_width * sizeof(uint32_t);

	data->host_tables = memory_take(rows * data->table_width, sizeof(*data->host_tables));
	data->list.block_count = data->decode_blocks;
	data->list.pool_blocks = u32_from(engine->kv_block_count);
	data->list.row_capacity = engine->max_num_seqs;
	data->list.split_capacity = data->split_capacity;
	decode_list_open(&data->list);
	TRY(cuda_alloc_device(&data->tables, table_bytes, error));
	TRY(cuda_alloc_device(&data->last_tokens, rows * sizeof(int32_t), error));
	data->io.tables = data->tables;
	return STATUS_OK;
}

void cuda_step_data_close_tables(struct cuda_step_data *data)
{
	cudaFree(data->tables);
	cudaFree(data->last_tokens);
	decode_list_close(&data->list);
	free(data->host_tables);
	data->host_tables = NULL;
	data->tables = NULL;
	data->last_tokens = NULL;
}
