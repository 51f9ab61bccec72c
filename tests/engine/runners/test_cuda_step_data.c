/* Which graph holds a step, and the lists of a padded step beside the batch that they are of. The
   lists are filled by the host, so no GPU is needed. */

#include "engine/base/integer.h"
#include "workloads/generate/random.h"
#include "engine/runners/cuda_graphs.h"
#include "kernels/sampling/sampler.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { SEQS = 40, ROWS = SEQS + GRAPH_PROMPTS, TOKENS = SEQS + GRAPH_PROMPT_TOKENS, WIDTH = 4 };
enum { BLOCK = 256, TRIALS = 3000, BYTES = 1 << 16 };

static struct cuda_graphs graphs;
static struct cuda_step_data data;

/* A batch with room for its arrays. */
static struct {
	uint32_t row[ROWS], query_start[ROWS + 1], context_length[ROWS], sample_position[ROWS];
	bool is_sampled[ROWS];
	uint64_t request[ROWS];
	float temperature[ROWS];
	int32_t token_id[TOKENS];
	uint32_t position[TOKENS];
	int64_t slot[TOKENS];
} room;

static struct batch batch;

static struct random drawn;

static uint32_t below(uint32_t bound)
{
	return (uint32_t)random_range(&drawn, 0, bound - 1);
}

static void add_row(uint32_t tokens, bool is_sampled)
{
	uint32_t r = batch.row_count++;

	room.row[r] = r;
	room.context_length[r] = tokens + below(WIDTH * BLOCK - tokens + 1);
	room.is_sampled[r] = is_sampled;
	room.request[r] = 100 + r;
	room.sample_position[r] = below(1000);
	room.temperature[r] = (float)r;
	for (uint32_t i = 0; i < tokens; i++) {
		uint32_t t = batch.token_count++;
		room.token_id[t] = (int32_t)(1 + t);
		room.position[t] = below(1000);
		room.slot[t] = below(100000);
	}
	room.query_start[r + 1] = batch.token_count;
	batch.counts.sampled_rows += is_sampled;
}

/* Decode rows and up to GRAPH_PROMPTS prompts of up to GRAPH_PROMPT_TOKENS tokens in all. */
static void draw_batch(void)
{
	uint32_t decodes = below(SEQS + 1), prompts = below(GRAPH_PROMPTS + 1);
	uint32_t left = 1 + below(GRAPH_PROMPT_TOKENS);

	batch = (struct batch){.row = room.row,
		.query_start = room.query_start,
		.context_length = room.context_length,
		.is_sampled = room.is_sampled,
		.request = room.request,
		.sample_position = room.sample_position,
		.temperature = room.temperature,
		.token_id = room.token_id,
		.position = room.position,
		.slot = room.slot};
	prompts = decodes == 0 && prompts == 0 ? 1 : prompts;
	for (uint32_t i = 0; i < decodes; i++) {
		add_row(1, true);
	}
	batch.counts.decode_rows = decodes;
	for (uint32_t i = 0; i < prompts && left > 0; i++) {
		uint32_t tokens = 1 + below(left);
		add_row(tokens, below(3) > 0);
		left -= tokens;
		batch.counts.prefill_rows++;
		batch.counts.prefill_tokens += tokens;
	}
}

static void open_data(void)
{
	drawn = random_stream(5, 0);
	data.seed = 5;
	data.table_width = WIDTH;
	data.running_capacity = ROWS;
	data.split_capacity = ROWS * WIDTH;
	data.split_limit = ROWS * WIDTH;
	data.host = calloc(1, BYTES);
	data.host_tables = calloc(ROWS * WIDTH, sizeof(*data.host_tables));
	data.list = (struct decode_list){.shape = {.head_count = 2,
						 .kv_head_count = 1,
						 .head_dim = 128,
						 .block_size = BLOCK,
						 .table_width = WIDTH},
		.path = KERNEL_PATH_SM90,
		.sharing = DECODE_SHARING_OFF,
		.block_count = 132,
		.pool_blocks = ROWS * WIDTH,
		.row_capacity = ROWS,
		.split_capacity = ROWS * WIDTH};
	decode_list_open(&data.list);
	graphs = (struct cuda_graphs){.bucket_count = 0};
	cuda_graphs_init(&graphs, SEQS, GRAPH_PROMPT_TOKENS);
}

static void close_data(void)
{
	decode_list_close(&data.list);
	free(data.host_tables);
	free(data.host);
}

/* ---- what a list should say ---- */

static void expect_padding_row(const struct cuda_step_lists *lists, uint32_t r)
{
	cr_assert(lists->rows[r] == 0 && lists->contexts[r] == 0);
}

static void expect_rows(const struct cuda_step_lists *lists, const struct cuda_step_sizes *sizes)
{
	const uint32_t decodes = (uint32_t)batch.counts.decode_rows;
	const uint32_t shift = sizes->decode_rows - decodes;
	uint32_t splits = 0, samples = 0;

	for (uint32_t r = 0; r < sizes->rows; r++) {
		bool is_padding =
			(r >= decodes && r < sizes->decode_rows) || r >= batch.row_count + shift;
		uint32_t own = r < decodes ? r : r - shift;
		if (r <= sizes->decode_rows) {
			cr_assert(lists->split_start[r] == splits);
		}
		if (is_padding) {
			expect_padding_row(lists, r);
			continue;
		}
		cr_assert(lists->rows[r] == room.row[own]);
		cr_assert(lists->contexts[r] == room.context_length[own]);
		cr_assert(lists->query_start[r + 1] - lists->query_start[r] ==
			  room.query_start[own + 1] - room.query_start[own]);
		splits += r < decodes ? (room.context_length[own] + DECODE_SPLIT - 1) / DECODE_SPLIT
				      : 0;
		if (!room.is_sampled[own]) {
			continue;
		}
		uint32_t s = r < decodes ? r : sizes->decode_rows + samples++;
		cr_assert(lists->sample_rows[s] == room.row[own]);
		cr_assert(lists->sample_index[s] == lists->query_start[r + 1] - 1);
		cr_assert(lists->temperatures[s] == room.temperature[own]);
		cr_assert(lists->row_keys[s] ==
			  sampler_row_key(data.seed, room.request[own], room.sample_position[own]));
	}
	for (uint32_t s = 0; s < sizes->samples; s++) {
		bool is_padding = (s >= decodes && s < sizes->decode_rows) ||
				  s >= sizes->decode_rows + samples;
		cr_assert(lists->sample_index[s] < sizes->tokens);
		cr_assert((lists->sample_rows[s] == SAMPLER_NO_ROW) == is_padding);
		cr_assert(s >= sizes->decode_rows || lists->sample_index[s] == s);
	}
}

static void expect_tokens(const struct cuda_step_lists *lists, const struct cuda_step_sizes *sizes)
{
	const uint32_t decodes = (uint32_t)batch.counts.decode_rows;
	const uint32_t shift = sizes->decode_rows - decodes;

	for (uint32_t t = 0; t < sizes->tokens; t++) {
		uint32_t own = t < decodes ? t : t - shift;
		if ((t >= decodes && t < sizes->decode_rows) || own >= batch.token_count) {
			cr_assert(lists->slots[t] == -1);
			cr_assert(lists->token_ids[t] == 0 && lists->positions[t] == 0);
			continue;
		}
		cr_assert(lists->token_ids[t] == room.token_id[own]);
		cr_assert(lists->positions[t] == room.position[own]);
		cr_assert(lists->slots[t] == room.slot[own]);
	}
}

/* Every tile of every prompt once, and the last one of each that is sampled once more. */
static void expect_tiles(const struct cuda_step_lists *lists, const struct cuda_step_sizes *sizes)
{
	const uint32_t first = sizes->decode_rows, all = sizes->tiles + sizes->samples - first;
	const uint32_t decodes = (uint32_t)batch.counts.decode_rows;
	uint32_t seen[2][GRAPH_PROMPTS][GRAPH_PROMPT_TOKENS / PREFILL_QUERY_TILE + 1] = {0};

	for (uint32_t i = 0; i < all; i++) {
		struct prefill_tile tile = lists->tiles[i];
		cr_assert(tile.row >= first && tile.row - first < batch.counts.prefill_rows);
		uint32_t own = tile.row - first + decodes;
		uint32_t tokens = room.query_start[own + 1] - room.query_start[own];
		if (tile.index * PREFILL_QUERY_TILE < tokens) {
			seen[i >= sizes->tiles][tile.row - first][tile.index]++;
		}
	}
	for (uint32_t p = 0; p < batch.counts.prefill_rows; p++) {
		uint32_t own = decodes + p;
		uint32_t tokens = room.query_start[own + 1] - room.query_start[own];
		uint32_t last = (tokens - 1) / PREFILL_QUERY_TILE;
		for (uint32_t i = 0; i <= last; i++) {
			cr_assert(seen[0][p][i] == 1);
			cr_assert(seen[1][p][i] == (i == last && room.is_sampled[own]));
		}
	}
}

static void expect_filled(const struct cuda_step_sizes *sizes)
{
	const struct cuda_step_layout layout = cuda_step_layout(sizes);
	const struct cuda_step_lists lists = cuda_step_data_lists(&data, &layout);

	cr_assert(layout.claims + 2 * ROWS * WIDTH * sizeof(struct decode_claim) <= BYTES);
	memset(data.host, 0xab, BYTES);
	cuda_step_data_fill(&data, sizes, &layout, &batch);
	expect_rows(&lists, sizes);
	expect_tokens(&lists, sizes);
	expect_tiles(&lists, sizes);
}

/* ---- tests ---- */

Test(cuda_step_data, padding_changes_no_row)
{
	open_data();
	for (uint32_t trial = 0; trial < TRIALS; trial++) {
		draw_batch();
		const struct cuda_bucket *bucket = cuda_graphs_bucket(&graphs, &batch.counts);
		const struct cuda_step_sizes own = cuda_step_sizes(&batch);
		cr_assert(bucket != NULL);
		expect_filled(&bucket->sizes);
		expect_filled(&own);
	}
	close_data();
}

Test(cuda_step_data, a_step_has_the_smallest_graph_that_holds_it)
{
	open_data();
	for (uint32_t trial = 0; trial < TRIALS; trial++) {
		draw_batch();
		const struct step_counts *counts = &batch.counts;
		const struct cuda_step_sizes *sizes = &cuda_graphs_bucket(&graphs, counts)->sizes;
		cr_assert(sizes->decode_rows == u64_min(graph_bucket(counts->decode_rows), SEQS));
		cr_assert(
			sizes->tokens - sizes->decode_rows == graph_bucket(counts->prefill_tokens));
		cr_assert((sizes->samples == 0) == (counts->sampled_rows == 0));
		cr_assert(sizes->rows >= sizes->decode_rows + counts->prefill_rows);
	}
	draw_batch();
	batch.counts.prefill_rows = GRAPH_PROMPTS + 1;
	batch.counts.prefill_tokens = 20;
	cr_assert(cuda_graphs_bucket(&graphs, &batch.counts) == NULL);
	batch.counts.prefill_rows = 1;
	batch.counts.prefill_tokens = GRAPH_PROMPT_TOKENS + 1;
	cr_assert(cuda_graphs_bucket(&graphs, &batch.counts) == NULL);
	close_data();
}

/* What graphs are captured with. */
Test(cuda_step_data, padding_alone_stores_and_attends_to_nothing)
{
	open_data();
	for (uint32_t i = 0; i < graphs.bucket_count; i++) {
		const struct cuda_bucket *bucket = &graphs.buckets[i];
		const struct cuda_step_sizes *sizes = &bucket->sizes;
		const struct cuda_step_lists lists = cuda_step_data_lists(&data, &bucket->layout);
		const uint32_t first = sizes->decode_rows;
		memset(data.host, 0xab, BYTES);
		cr_assert(cuda_step_data_fill(&data, sizes, &bucket->layout, NULL) == 0);
		for (uint32_t t = 0; t < sizes->tokens; t++) {
			cr_assert(lists.slots[t] == -1);
		}
		for (uint32_t s = 0; s < sizes->samples; s++) {
			cr_assert(lists.sample_rows[s] == SAMPLER_NO_ROW);
		}
		for (uint32_t r = 0; r < sizes->rows; r++) {
			expect_padding_row(&lists, r);
		}
		for (uint32_t t = 0; sizes->tiles > 0 && t < sizes->tiles + sizes->samples - first;
			t++) {
			cr_assert(lists.tiles[t].row == first);
			cr_assert(lists.query_start[first + 1] == lists.query_start[first]);
		}
	}
	close_data();
}
