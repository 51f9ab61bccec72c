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

struct cuda_step_layout cuda_step_layout(const struct cuda_step_sizes *sizes)
{
	const size_t rows = sizes->rows, samples = sizes->samples, tokens = sizes->tokens;
	const size_t last_tiles = samples - sizes->decode_rows;
	struct cuda_step_layout layout;
	size_t end = 0;

	layout.split_start = section(&end, rows + 1, sizeof(uint32_t));
	layout.rows = section(&end, rows, sizeof(uint32_t));
	layout.contexts = section(&end, rows, sizeof(uint32_t));
	layout.query_start = section(&end, rows + 1, sizeof(uint32_t));
	layout.sample_index = section(&end, samples, sizeof(uint32_t));
	layout.sample_rows = section(&end, samples, sizeof(uint32_t));
	layout.row_keys = section(&end, samples, sizeof(uint64_t));
	layout.temperatures = section(&end, samples, sizeof(float));
	layout.token_ids = section(&end, tokens, sizeof(int32_t));
	layout.positions = section(&end, tokens, sizeof(uint32_t));
	layout.slots = section(&end, tokens, sizeof(int64_t));
	layout.tiles = section(&end, sizes->tiles + last_tiles, sizeof(struct prefill_tile));
	layout.launches = section(&end, rows, sizeof(struct decode_launch));
	layout.claims = end;
	return layout;
}

struct cuda_step_sizes cuda_step_sizes(const struct batch *batch)
{
	struct cuda_step_sizes sizes = {
		.rows = batch->row_count,
		.decode_rows = (uint32_t)batch->counts.decode_rows,
		.tokens = batch->token_count,
		.samples = (uint32_t)batch->counts.sampled_rows,
	};

	for (uint32_t r = sizes.decode_rows; r < sizes.rows; r++) {
		uint32_t tokens = batch->query_start[r + 1] - batch->query_start[r];
		sizes.tiles += (tokens - 1) / PREFILL_QUERY_TILE + 1;
	}
	return sizes;
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

struct cuda_batch cuda_step_data_batch(const struct cuda_step_data *data,
	const struct cuda_step_sizes *sizes, const struct cuda_step_layout *layout)
{
	const struct cuda_step_lists lists = lists_at(data->device, layout);

	return (struct cuda_batch){
		.token_count = sizes->tokens,
		.decode_count = sizes->decode_rows,
		.sample_count = sizes->samples,
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
				.tile_count = sizes->tiles,
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

/* Counts the splits of the decode rows, of which padding has none, and fills their claims; returns
   the number of splits. */
static uint32_t fill_splits(struct cuda_step_data *data, const struct cuda_step_lists *lists,
	const struct batch *batch, uint32_t decode_rows)
{
	uint32_t count = 0, rows = batch == NULL ? 0 : (uint32_t)batch->counts.decode_rows;

	for (uint32_t r = 0; r < decode_rows; r++) {
		uint32_t context = r < rows ? batch->context_length[r] : 0;
		uint32_t needed = (context + DECODE_SPLIT - 1) / (uint32_t)DECODE_SPLIT;
		check(needed <= data->split_capacity - count);
		lists->split_start[r] = count;
		count += needed;
	}
	lists->split_start[decode_rows] = count;
	data->claim_count = 0;
	lists->launches[0] = (struct decode_launch){0};
	if (rows > 0) {
		fill_claims(data, lists, &batch->counts);
	}
	return count;
}

static void pad_rows(const struct cuda_step_lists *lists, uint32_t first, uint32_t end)
{
	for (uint32_t r = first; r < end; r++) {
		lists->rows[r] = 0;
		lists->contexts[r] = 0;
	}
}

static void pad_tokens(const struct cuda_step_lists *lists, uint32_t first, uint32_t end)
{
	for (uint32_t t = first; t < end; t++) {
		lists->token_ids[t] = 0;
		lists->positions[t] = 0;
		lists->slots[t] = -1;
	}
}

/* Samples of padding: of a decode row its own token, of a prompt the first prompt's first. */
static void pad_samples(
	const struct cuda_step_lists *lists, uint32_t first, uint32_t end, uint32_t decode_rows)
{
	for (uint32_t i = first; i < end; i++) {
		lists->sample_index[i] = u32_min(i, decode_rows);
		lists->sample_rows[i] = SAMPLER_NO_ROW;
		lists->row_keys[i] = 0;
		lists->temperatures[i] = 0;
	}
}

/* Copies the batch's rows from `first` to `end` and their tokens and samples, to places so much
   further on. Returns the number of their samples. */
static uint32_t fill_rows(const struct cuda_step_data *data, const struct cuda_step_lists *lists,
	const struct batch *batch, uint32_t first, uint32_t end, uint32_t shift)
{
	const uint32_t token = batch->query_start[first], tokens = batch->query_start[end] - token;
	uint32_t sample = first + shift; /* every decode row is sampled */
	const uint32_t first_sample = sample;

	memcpy(lists->rows + first + shift, batch->row + first, (end - first) * sizeof(uint32_t));
	memcpy(lists->contexts + first + shift, batch->context_length + first,
		(end - first) * sizeof(uint32_t));
	memcpy(lists->token_ids + token + shift, batch->token_id + token, tokens * sizeof(int32_t));
	memcpy(lists->positions + token + shift, batch->position + token,
		tokens * sizeof(uint32_t));
	memcpy(lists->slots + token + shift, batch->slot + token, tokens * sizeof(int64_t));
	for (uint32_t r = first; r < end; r++) {
		lists->query_start[r + shift] = batch->query_start[r] + shift;
		if (batch->is_sampled[r]) {
			lists->sample_index[sample] = batch->query_start[r + 1] - 1 + shift;
			lists->sample_rows[sample] = batch->row[r];
			lists->row_keys[sample] = sampler_row_key(
				data->seed, batch->request[r], batch->sample_position[r]);
			lists->temperatures[sample] = batch->temperature[r];
			sample++;
		}
	}
	lists->query_start[end + shift] = batch->query_start[end] + shift;
	return sample - first_sample;
}

/* Fills the tiles of so many prompts. Padding comes first, since the kernel begins at the end:
   tiles behind the last query of the first prompt, or of none. Then those that attention computes
   in a last layer that drops rows: of each prompt that is sampled, the one with its last token. */
static void fill_tiles(const struct cuda_step_lists *lists, const struct cuda_step_sizes *sizes,
	const bool *is_sampled, uint32_t prompts, uint32_t tile_count)
{
	const uint32_t first = sizes->decode_rows, end = first + prompts;
	const uint32_t *start = lists->query_start;
	struct prefill_tile *tile = lists->tiles, *const last = tile + sizes->tiles;
	const struct prefill_tile none = {
		.row = first,
		.index = (start[first + 1] - start[first] + PREFILL_QUERY_TILE - 1) /
			 PREFILL_QUERY_TILE,
	};

	for (uint32_t i = tile_count; i < sizes->tiles; i++) {
		*tile++ = none;
	}
	tile += prefill_tiles_fill(tile, start, lists->contexts, first, end);
	check(tile == last);
	for (uint32_t r = first; r < end; r++) {
		if (is_sampled[r - first]) {
			*tile++ = (struct prefill_tile){.row = r,
				.index = (start[r + 1] - start[r] - 1) / PREFILL_QUERY_TILE};
		}
	}
	while (tile < last + (sizes->samples - first)) {
		*tile++ = none;
	}
}

uint32_t cuda_step_data_fill(struct cuda_step_data *data, const struct cuda_step_sizes *sizes,
	const struct cuda_step_layout *layout, const struct batch *batch)
{
	const struct cuda_step_lists lists = lists_at(data->host, layout);
	const struct cuda_step_sizes own =
		batch == NULL ? (struct cuda_step_sizes){0} : cuda_step_sizes(batch);
	const uint32_t shift = sizes->decode_rows - own.decode_rows;
	const bool *is_sampled = NULL; /* of the prompts */
	uint32_t samples = 0;

	if (batch != NULL) {
		is_sampled = batch->is_sampled + own.decode_rows;
		add_to_tables(data, batch);
		fill_rows(data, &lists, batch, 0, own.decode_rows, 0);
		samples = fill_rows(data, &lists, batch, own.decode_rows, own.rows, shift);
		check(own.decode_rows + samples == own.samples);
	} else if (sizes->tiles > 0) {
		lists.query_start[shift] = lists.query_start[shift + 1] = shift;
	}
	pad_rows(&lists, own.decode_rows, sizes->decode_rows);
	pad_rows(&lists, own.rows + shift, sizes->rows);
	pad_tokens(&lists, own.decode_rows, sizes->decode_rows);
	pad_tokens(&lists, own.tokens + shift, sizes->tokens);
	pad_samples(&lists, own.decode_rows, sizes->decode_rows, sizes->decode_rows);
	pad_samples(&lists, sizes->decode_rows + samples, sizes->samples, sizes->decode_rows);
	if (sizes->tiles > 0) {
		fill_tiles(&lists, sizes, is_sampled, own.rows - own.decode_rows, own.tiles);
	}
	return fill_splits(data, &lists, batch, sizes->decode_rows);
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
	const struct model_step_limits limits = model_step_limits(
		engine->max_num_batched_tokens, engine->max_num_seqs, engine->max_model_len);
	const uint64_t rows = engine->max_num_seqs;
	const uint32_t samples = u32_from(limits.samples), tokens = u32_from(limits.tokens);
	/* each prompt has at most one tile that is not full */
	const struct cuda_step_sizes sizes = {
		.rows = samples,
		.tokens = tokens,
		.samples = samples,
		.tiles = tokens / PREFILL_QUERY_TILE + samples,
	};
	const struct cuda_step_layout most = cuda_step_layout(&sizes);
	uint64_t line = sizeof(struct step_header), chunk = STEP_CHUNK;

	data->table_width = u32_from(u64_divide_up(engine->max_model_len, engine->block_size));
	data->sample_capacity = samples;
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
		sizeof(struct cuda_rank_report) + CUDA_STEP_SLOTS * samples * sizeof(int32_t);
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

	set_sizes(data, engine);
	data->group_ends = memory_take(engine->max_num_seqs, sizeof(*data->group_ends));
	TRY(cuda_alloc_device(&data->device, data->io.data_bytes, error));
	TRY(cuda_alloc_device(&data->sampled, data->sample_capacity * sizeof(int32_t), error));
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
