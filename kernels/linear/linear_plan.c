#include "kernels/linear/linear_plan.h"

#include "kernels/device/sm90.h"

#include <stddef.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum {
	CHUNK_BYTES = LINEAR_CHUNK * 2,
	WGMMA_ROWS = 64,		   /* M of a wgmma */
	TINY_SPLIT_K_ROWS = 8,		   /* in blocks of 8 rows of the weight */
	TINY_WEIGHT_BYTES_MAX = 128 << 10, /* the share of a block */
	WIDE_INPUTS_MAX = 1024,		   /* without split-K; more inputs were not measured */
	WIDE_WEIGHT_ROWS = 96,
	TINY_INPUTS = 2048,   /* from so many on LINEAR_STREAM is faster without split-K */
	STREAM_WARPS_MAX = 6, /* of a tile, but for logits */
	STREAM_ONE_GROUP_BYTES = 118
				 << 10, /* shared memory of LINEAR_STREAM with one group a block */
	WAVES_ROWS_MAX = 32,		/* for LINEAR_SMALL in several waves */
	TALL_PROMPT_ROWS = 12288,	/* the fewest rows of prompts that were measured */
};

static uint32_t divide_up(uint32_t a, uint32_t b)
{
	return (a + b - 1) / b;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

struct linear_device linear_device(enum kernel_path path)
{
	return (struct linear_device){
		.has_sm90 = path == KERNEL_PATH_SM90,
		.multiprocessors = H200_PROCESSORS,
		.clusters = H200_CLUSTERS_OF_4,
		.shared_bytes = SM90_SHARED_BYTES,
		.half_shared_bytes = SM90_SHARED_BYTES_TWO / 2,
	};
}

static struct linear_plan plan_of(
	enum linear_path path, const struct linear_shape *shape, uint32_t row_count)
{
	return (struct linear_plan){.path = path, .shape = *shape, .row_count = row_count};
}

/* ---- LINEAR_TINY ---- */

/* Rows of the weight in a block's tile: the fewest with which all blocks run in one wave, or
   else the most that fit. 0: none fit. With silu half of the rows are gates and half are ups, in
   groups of 8, so there are at least 16. With more than 8 tokens a block of 8 rows would copy
   too many tokens for its few outputs. */
static uint32_t tiny_weight_rows(
	const struct linear_shape *shape, uint32_t row_count, const struct linear_device *device)
{
	static const uint32_t choices[] = {8, 16, 32, 48};
	bool may_be_8 = shape->split_k > 1 && !shape->has_silu && row_count <= TINY_SPLIT_K_ROWS;
	uint32_t chosen = 0;

	for (size_t i = may_be_8 ? 0 : 1; i < COUNT(choices); i++) {
		uint32_t rows = choices[i];
		if (shape->output_count % rows == 0 &&
			rows * shape->input_count * 2 <= TINY_WEIGHT_BYTES_MAX) {
			chosen = rows;
		}
		if (chosen == rows && shape->output_count / rows <= device->multiprocessors) {
			break;
		}
	}
	return chosen;
}

static uint32_t tiny_shared_bytes(
	const struct linear_shape *shape, uint32_t weight_rows, uint32_t tokens)
{
	uint32_t slice_gaps =
		LINEAR_TINY_TOKEN_GAP + 4 * (weight_rows + (uint32_t)LINEAR_TINY_SUM_GAP);
	uint32_t token_bytes = shape->input_count * 2 + shape->split_k * slice_gaps;

	return LINEAR_BARRIER_BYTES + weight_rows * shape->input_count * 2 + tokens * token_bytes;
}

static bool tiny_fits(const struct linear_shape *shape, const struct linear_device *device)
{
	return shape->input_count > 0 && shape->input_count % LINEAR_TINY_K_TILE == 0 &&
	       tiny_weight_rows(shape, UINT32_MAX, device) > 0;
}

/* The norm is fused where the norm warps of a block can hold a whole row in registers. Each
   block normalises all rows, so with split-K or more rows a separate launch is faster. */
static bool tiny_fuses_norm(
	const struct linear_shape *shape, uint32_t row_count, const struct linear_device *device)
{
	const uint32_t warp_inputs = LINEAR_NORM_WARP_INPUTS;

	return device->has_sm90 && row_count > 0 && row_count <= LINEAR_TINY_ROWS &&
	       shape->input_count < TINY_INPUTS &&
	       linear_split_k(shape->input_count, shape->output_count) == 1 &&
	       tiny_fits(shape, device) && shape->input_count % (2 * warp_inputs) == 0 &&
	       shape->input_count <= warp_inputs * LINEAR_NORM_WARPS_MAX;
}

static struct linear_plan plan_tiny(const struct linear_shape *shape, uint32_t row_count,
	bool fuses_norm, const struct linear_device *device)
{
	struct linear_plan plan = plan_of(LINEAR_TINY, shape, row_count);
	/* without split-K the other paths serve more than 8 rows */
	uint32_t tokens = row_count <= 8 || shape->split_k == 1 ? 8 : 16;

	plan.fuses_norm = fuses_norm;
	plan.weight_rows = tiny_weight_rows(shape, row_count, device);
	if (plan.weight_rows == 0) {
		plan.path = LINEAR_NONE;
		return plan;
	}
	while (tiny_shared_bytes(shape, plan.weight_rows, tokens) > 2 * device->half_shared_bytes) {
		tokens /= 2;
	}
	plan.tile_tokens = smaller(row_count, tokens);
	plan.shared_bytes = tiny_shared_bytes(shape, plan.weight_rows, plan.tile_tokens);
	return plan;
}

/* ---- LINEAR_SMALL ---- */

/* Chunks of inputs in a stage; linear_small.cu has the same. */
static uint32_t small_stage_chunks(uint32_t weight_rows)
{
	return weight_rows == 16 ? 4 : 2;
}

/* With silu half of the rows are gates and half are ups, in groups of 8. */
static bool small_tile_fits(const struct linear_shape *shape, uint32_t weight_rows)
{
	return shape->output_count % weight_rows == 0 &&
	       shape->input_count % (LINEAR_CHUNK * small_stage_chunks(weight_rows)) == 0 &&
	       weight_rows % (shape->has_silu ? 16 : 8) == 0;
}

/* Whether the blocks keep at least three quarters of the multiprocessors busy in all waves. */
static bool fills_waves(
	const struct linear_shape *shape, uint32_t weight_rows, const struct linear_device *device)
{
	uint32_t blocks = shape->output_count / weight_rows;
	uint32_t places = divide_up(blocks, device->multiprocessors) * device->multiprocessors;

	return 4 * blocks >= 3 * places;
}

/* Rows of the weight in a block's tile: the fewest with which all blocks run in one wave. Where
   none do, a tile whose waves are nearly full; with silu and few rows this is faster than cuBLASLt
   and silu_mul(). 0: none fit. */
static uint32_t small_weight_rows(
	const struct linear_shape *shape, uint32_t row_count, const struct linear_device *device)
{
	static const uint32_t choices[] = {16, 32, 40, 48, 64, 80, 96}, wide_choices[] = {96, 64};

	for (size_t i = 0; i < COUNT(choices); i++) {
		if (small_tile_fits(shape, choices[i]) &&
			shape->output_count / choices[i] <= device->multiprocessors) {
			return choices[i];
		}
	}
	for (size_t i = 0; i < COUNT(wide_choices); i++) {
		if (shape->has_silu && row_count <= WAVES_ROWS_MAX &&
			small_tile_fits(shape, wide_choices[i]) &&
			fills_waves(shape, wide_choices[i], device)) {
			return wide_choices[i];
		}
	}
	return 0;
}

/* A block uses half of a multiprocessor's shared memory, so that blocks of the next kernel fit
   beside it (PDL), unless half is too little to keep enough copies in flight. wgmma always reads
   64 rows of tokens, so there is memory for the missing ones. */
static struct linear_plan plan_small(
	const struct linear_shape *shape, uint32_t row_count, const struct linear_device *device)
{
	struct linear_plan plan = plan_of(LINEAR_SMALL, shape, row_count);
	const uint32_t half = device->half_shared_bytes;
	/* As few missing rows as there can be: they make copies slower. */
	const uint32_t tokens = divide_up(smaller(row_count, WGMMA_ROWS), 8) * 8;

	plan.weight_rows = small_weight_rows(shape, row_count, device);
	if (plan.weight_rows == 0) {
		plan.path = LINEAR_NONE;
		return plan;
	}
	uint32_t chunks = small_stage_chunks(plan.weight_rows);
	uint32_t fills = shape->input_count / LINEAR_CHUNK / chunks;
	uint32_t stage = chunks * (tokens + plan.weight_rows) * CHUNK_BYTES;
	uint32_t other_bytes = LINEAR_BARRIER_BYTES + (WGMMA_ROWS - tokens) * CHUNK_BYTES;
	uint32_t stages_max = (half - other_bytes) / stage;
	if (stages_max < 4 || fills * stage > 3 * half) {
		stages_max = (2 * half - other_bytes) / stage;
	}
	plan.tile_tokens = tokens;
	plan.token_stages = smaller(fills, smaller(stages_max, LINEAR_STAGES_MAX));
	plan.weight_stages = plan.token_stages;
	plan.shared_bytes = other_bytes + plan.token_stages * stage;
	return plan;
}

/* ---- LINEAR_STREAM ---- */

static bool stream_fits(
	const struct linear_shape *shape, uint32_t row_count, const struct linear_device *device)
{
	const uint32_t multiple = shape->split_k > 1 ? SPLIT_K * SPLIT_K_MULTIPLE
						     : LINEAR_STREAM_CHUNKS * LINEAR_CHUNK;

	return device->has_sm90 && row_count <= LINEAR_STREAM_TOKENS && shape->input_count > 0 &&
	       shape->input_count % multiple == 0 && shape->output_count > 0 &&
	       shape->output_count % LINEAR_STREAM_ROWS == 0 &&
	       (shape->split_k == 1 || (!shape->has_silu && !shape->is_logits));
}

/* One block a multiprocessor. Its groups of rows are cut into tiles of equally many; a group has a
   warp, with split-K one for each slice. The ring has all shared memory but what a norm needs
   beside it (PDL). Half of it, so that a block of the next layer fits as well, is slower, unless a
   block has one group (kernels/linear/TUNING.md). */
static struct linear_plan plan_stream(
	const struct linear_shape *shape, uint32_t row_count, const struct linear_device *device)
{
	struct linear_plan plan = plan_of(LINEAR_STREAM, shape, row_count);
	const uint32_t groups = shape->output_count / LINEAR_STREAM_ROWS;

	if (!stream_fits(shape, row_count, device)) {
		plan.path = LINEAR_NONE;
		return plan;
	}
	plan.blocks = smaller(groups, device->multiprocessors);
	const uint32_t share = divide_up(groups, plan.blocks);
	const uint32_t warps_max =
		(shape->is_logits || shape->split_k > 1 ? (uint32_t)LINEAR_STREAM_WARPS_MAX
							: STREAM_WARPS_MAX) /
		shape->split_k;
	const uint32_t tile_groups = divide_up(share, divide_up(share, warps_max));
	plan.weight_rows = tile_groups * LINEAR_STREAM_ROWS;
	plan.tile_tokens = row_count;
	const bool has_row = linear_stream_has_row(shape, row_count);
	const uint32_t row = has_row ? shape->input_count * 2 : 0;
	const uint32_t stage = (has_row ? 0 : linear_stream_token_bytes(row_count)) +
			       LINEAR_STREAM_CHUNKS * plan.weight_rows * CHUNK_BYTES;
	const uint32_t whole = 2 * device->half_shared_bytes - LINEAR_STREAM_ROOM;
	const uint32_t one_group = has_row ? device->half_shared_bytes : STREAM_ONE_GROUP_BYTES;
	const uint32_t most = share == 1 ? smaller(whole, one_group) : whole;
	const uint32_t sums = shape->split_k > 1 ? tile_groups * LINEAR_STREAM_SUM_BYTES : 0;
	const uint32_t others = LINEAR_BARRIER_BYTES + row + sums;
	const uint32_t ring = most > others ? most - others : 0;
	const uint32_t fills = shape->input_count / LINEAR_CHUNK / LINEAR_STREAM_CHUNKS;
	plan.token_stages = smaller(fills, smaller(ring / stage, LINEAR_STAGES_MAX));
	plan.weight_stages = plan.token_stages;
	plan.shared_bytes = others + plan.token_stages * stage;
	const bool has_tiles = tile_groups < share;
	if ((plan.token_stages < 2 && /* a stage is released in the next one */
		    (plan.token_stages == 0 || fills > 1 || has_tiles)) ||
		(shape->split_k > 1 && has_tiles)) {
		plan.path = LINEAR_NONE;
	}
	return plan;
}

/* Each block normalises the token, instead of a launch in front. */
static bool stream_fuses_norm(const struct linear_shape *shape, uint32_t row_count)
{
	return linear_stream_has_row(shape, row_count) &&
	       shape->input_count <= LINEAR_STREAM_NORM_INPUTS &&
	       linear_split_k(shape->input_count, shape->output_count) == 1;
}

/* ---- LINEAR_WIDE ---- */

struct wide_tile {
	uint32_t weight_rows, tokens, chunks; /* chunks: of inputs in a stage */
	uint32_t token_stages;		      /* at most; the weight uses the remaining memory */
	uint32_t sharers;
};

/* Without split-K a tile is 96 rows of the weight by 64 tokens (one warpgroup's wgmma) or 128. */
static const struct wide_tile whole_tiles[] = {
	{WIDE_WEIGHT_ROWS, WGMMA_ROWS, 2, 4, 2},
	{WIDE_WEIGHT_ROWS, 2 * WGMMA_ROWS, 2, 4, 2},
};

static const struct wide_tile split_tiles[] = {
#define WIDE_SPLIT_TILE(weight_rows, tokens, chunks, token_stages)                                 \
	{weight_rows, tokens, chunks, token_stages, 1},
	LINEAR_WIDE_SPLIT_TILES(WIDE_SPLIT_TILE)
#undef WIDE_SPLIT_TILE
};

static bool runs_in_one_wave(const struct linear_shape *shape, uint32_t row_count,
	const struct wide_tile *tile, const struct linear_device *device)
{
	return shape->output_count % tile->weight_rows == 0 &&
	       shape->output_count / tile->weight_rows * divide_up(row_count, tile->tokens) <=
		       device->clusters;
}

/* The first tile with which all clusters run in one wave is the fastest. Tiles of few tokens must
   hold all of them, since each tile of tokens reads the weight once more. */
static const struct wide_tile *split_tile_of(
	const struct linear_shape *shape, uint32_t row_count, const struct linear_device *device)
{
	for (size_t i = 0; i < COUNT(split_tiles); i++) {
		const struct wide_tile *tile = &split_tiles[i];
		if ((row_count <= tile->tokens || tile->tokens >= WGMMA_ROWS) &&
			shape->input_count % (shape->split_k * LINEAR_CHUNK * tile->chunks) == 0 &&
			runs_in_one_wave(shape, row_count, tile, device)) {
			return tile;
		}
	}
	return NULL;
}

/* The tile of LINEAR_WIDE; NULL where none fits or cuBLASLt is faster. */
static const struct wide_tile *wide_tile_of(
	const struct linear_shape *shape, uint32_t row_count, const struct linear_device *device)
{
	uint32_t inputs = shape->input_count, outputs = shape->output_count;

	if (shape->split_k > 1) {
		return shape->has_silu ? NULL : split_tile_of(shape, row_count, device);
	}
	bool fits = inputs > 0 && inputs <= WIDE_INPUTS_MAX && inputs % 128 == 0 && outputs > 0 &&
		    outputs % WIDE_WEIGHT_ROWS == 0;
	bool is_one_wave = outputs / WIDE_WEIGHT_ROWS * divide_up(row_count, 2 * WGMMA_ROWS) <=
			   device->multiprocessors;
	return fits && is_one_wave ? &whole_tiles[row_count > 2 * WGMMA_ROWS] : NULL;
}

static struct linear_plan plan_wide(const struct linear_shape *shape, uint32_t row_count,
	const struct wide_tile *tile, const struct linear_device *device)
{
	struct linear_plan plan = plan_of(LINEAR_WIDE, shape, row_count);
	const uint32_t token_stage = tile->chunks * tile->tokens * CHUNK_BYTES;
	const uint32_t weight_stage = tile->chunks * tile->weight_rows * CHUNK_BYTES;
	const uint32_t fills = shape->input_count / shape->split_k / (LINEAR_CHUNK * tile->chunks);
	const uint32_t stages_max = smaller(fills, LINEAR_STAGES_MAX);
	/* float32 partial sums of all slices for a quarter of the tile */
	const uint32_t gathered = shape->split_k > 1 ? 4 * tile->weight_rows * tile->tokens : 0;
	const uint32_t other_bytes = LINEAR_BARRIER_BYTES + gathered;

	plan.weight_rows = tile->weight_rows;
	plan.tile_tokens = tile->tokens;
	plan.sharers = tile->sharers;
	plan.stage_chunks = tile->chunks;
	plan.token_stages = smaller(tile->token_stages, stages_max);
	uint32_t room = device->shared_bytes - other_bytes - plan.token_stages * token_stage;
	plan.weight_stages = smaller(room / weight_stage, stages_max);
	/* The producer fills a stage of the weight again with one of the tokens. Were there fewer,
	   the last ones of a long slice would never be filled, and the block would wait. */
	plan.token_stages = smaller(plan.token_stages, plan.weight_stages);
	plan.shared_bytes =
		other_bytes + plan.token_stages * token_stage + plan.weight_stages * weight_stage;
	return plan;
}

/* ---- LINEAR_TALL ---- */

/* The weights and rows for which LINEAR_TALL was measured to be the fastest, from qwen3-0.6b,
   qwen3-1.7b and qwen3-8b. Other weights were not measured. */
static const struct tall_choice {
	uint32_t inputs, outputs;
	bool has_silu;
	uint32_t first_row, last_row;
	struct linear_tall_tile tile;
} tall_choices[] = {
	{1024, 4096, false, 9, 64, {1, 1, 2, 1}},
	{1024, 4096, false, 65, 256, {1, 2, 1, 2}},
	{1024, 4096, false, 257, 512, {2, 4, 1, 2}},
	{1024, 6144, true, 129, 224, {2, 2, 2, 2}},
	{1024, 6144, true, 225, 1024, {3, 4, 1, 2}},
	{2048, 1024, false, 65, 72, {1, 4, 1, 1}},
	{2048, 1024, false, 73, 256, {1, 4, 1, 2}},
	{2048, 1024, false, 257, 392, {1, 6, 1, 2}},
	{2048, 1024, false, 393, 1024, {1, 8, 1, 2}},
	{3072, 1024, false, 65, 72, {1, 4, 1, 1}},
	{3072, 1024, false, 73, 256, {1, 4, 1, 2}},
	{3072, 1024, false, 257, 384, {1, 6, 1, 2}},
	{2048, 4096, false, 9, 256, {1, 2, 1, 2}},
	{2048, 2048, false, 65, 160, {1, 2, 1, 2}},
	{2048, 2048, false, 161, 512, {1, 4, 1, 2}},
	{2048, 12288, true, 65, 256, {3, 2, 1, 2}},
	{4096, 6144, false, 9, 64, {1, 1, 1, 1}},
	{4096, 6144, false, 65, 96, {1, 1, 4, 1}},
	{4096, 6144, false, 161, 224, {2, 2, 1, 2}},
	{4096, 4096, false, 33, 256, {1, 2, 1, 2}},
	{4096, 24576, true, 9, 256, {3, 1, 1, 1}},
	{4096, 24576, true, TALL_PROMPT_ROWS, UINT32_MAX, {3, 0, 2, 1}},
	{12288, 4096, false, 65, 224, {1, 2, 1, 2}},
};

static const struct linear_tall_tile *tall_tile_of(
	const struct linear_shape *shape, uint32_t row_count, const struct linear_device *device)
{
	for (size_t i = 0; i < COUNT(tall_choices) && device->has_sm90; i++) {
		const struct tall_choice *choice = &tall_choices[i];
		if (choice->inputs == shape->input_count &&
			choice->outputs == shape->output_count &&
			choice->has_silu == shape->has_silu && shape->split_k == 1 &&
			!shape->is_logits && choice->first_row <= row_count &&
			row_count <= choice->last_row) {
			return &choice->tile;
		}
	}
	return NULL;
}

/* One block a multiprocessor, with all its shared memory. */
struct linear_plan linear_plan_tall(const struct linear_shape *shape, uint32_t row_count,
	const struct linear_tall_tile *tile, const struct linear_device *device)
{
	struct linear_plan plan = plan_of(LINEAR_TALL, shape, row_count);
	const uint32_t multiple = LINEAR_TALL_EIGHT * tile->token_sharers;

	plan.weight_rows = tile->groups * WGMMA_ROWS;
	plan.sharers = tile->weight_sharers;
	plan.token_sharers = tile->token_sharers;
	plan.tile_tokens = LINEAR_TALL_TOKENS;
	if (tile->token_tiles > 0) {
		uint32_t tokens = divide_up(row_count, tile->token_tiles);
		plan.tile_tokens = divide_up(tokens, multiple) * multiple;
	}
	const uint32_t token_tiles = divide_up(row_count, plan.tile_tokens);
	const uint32_t columns = linear_tall_columns(plan.tile_tokens);
	const uint32_t chunks = LINEAR_TALL_CHUNKS(plan.weight_rows, columns);
	const bool is_large = tile->groups == LINEAR_TALL_GROUPS;
	const uint32_t columns_max = is_large ? LINEAR_TALL_TOKENS : LINEAR_TALL_TOKENS / 2;
	if (!device->has_sm90 || shape->split_k > 1 || shape->is_logits || columns > columns_max ||
		(shape->has_silu ? tile->groups == 1 : is_large) ||
		shape->output_count % (plan.weight_rows * tile->token_sharers) != 0 ||
		token_tiles % tile->weight_sharers != 0 ||
		(tile->weight_sharers > 1 && token_tiles > LINEAR_TALL_BAND) ||
		shape->input_count % (LINEAR_CHUNK * chunks) != 0) {
		plan.path = LINEAR_NONE;
		return plan;
	}
	const uint32_t stage = chunks * (plan.weight_rows + columns) * CHUNK_BYTES;
	const uint32_t fills = shape->input_count / LINEAR_CHUNK / chunks;
	plan.token_stages = smaller(fills, (device->shared_bytes - LINEAR_BARRIER_BYTES) / stage);
	plan.token_stages = smaller(plan.token_stages, LINEAR_STAGES_MAX);
	plan.weight_stages = plan.token_stages;
	plan.shared_bytes = LINEAR_BARRIER_BYTES + plan.token_stages * stage;
	return plan;
}

/* ---- choice of a path ---- */

/* The most rows for which LINEAR_TINY and LINEAR_SMALL are faster than cuBLASLt. */
static uint32_t small_rows_max(const struct linear_shape *shape)
{
	return shape->split_k > 1 ? (uint32_t)TINY_SPLIT_K_ROWS : (uint32_t)WGMMA_ROWS;
}

/* With split-K only weights whose rows keep at least three quarters of the multiprocessors busy, 16
   each; LINEAR_TINY has tiles of 8 for the others. */
static bool is_streamed(
	const struct linear_shape *shape, uint32_t row_count, const struct linear_device *device)
{
	const uint32_t groups = shape->output_count / LINEAR_STREAM_ROWS;

	return shape->input_count >= TINY_INPUTS && stream_fits(shape, row_count, device) &&
	       (shape->split_k == 1 || 4 * groups >= 3 * device->multiprocessors);
}

static bool has_kernel(
	const struct linear_shape *shape, uint32_t row_count, const struct linear_device *device)
{
	const bool is_split = shape->split_k > 1;

	return device->has_sm90 &&
	       (is_streamed(shape, row_count, device) ||
		       (is_split ? tiny_weight_rows(shape, row_count, device) > 0 ||
					       wide_tile_of(shape, row_count, device) != NULL
				 : small_weight_rows(shape, row_count, device) > 0));
}

bool linear_has_kernel(const struct linear_shape *shape, const struct linear_device *device)
{
	return has_kernel(shape, UINT32_MAX, device);
}

struct linear_plan linear_plan_path(enum linear_path path, const struct linear_shape *shape,
	uint32_t row_count, const struct linear_device *device)
{
	const struct wide_tile *tile = wide_tile_of(shape, row_count, device);

	if (device->has_sm90 && path == LINEAR_TINY) {
		return plan_tiny(shape, row_count, false, device);
	}
	if (path == LINEAR_STREAM) {
		return plan_stream(shape, row_count, device);
	}
	if (device->has_sm90 && path == LINEAR_SMALL && shape->split_k == 1) {
		return plan_small(shape, row_count, device);
	}
	if (device->has_sm90 && path == LINEAR_WIDE && tile != NULL) {
		return plan_wide(shape, row_count, tile, device);
	}
	return plan_of(LINEAR_NONE, shape, row_count);
}

struct linear_plan linear_plan_kernel(const struct linear_shape *shape, uint32_t row_count,
	bool has_norm, const struct linear_device *device)
{
	const struct linear_tall_tile *tall = tall_tile_of(shape, row_count, device);
	/* with split-K LINEAR_WIDE is the fastest from two rows on */
	bool is_small = row_count <= (shape->split_k > 1 ? 1 : small_rows_max(shape));
	bool is_tiny = row_count <= LINEAR_TINY_ROWS && shape->input_count < TINY_INPUTS &&
		       tiny_fits(shape, device);

	if (shape->is_logits) {
		return plan_stream(shape, row_count, device);
	}
	if (has_norm && tiny_fuses_norm(shape, row_count, device)) {
		return plan_tiny(shape, row_count, true, device);
	}
	if (is_streamed(shape, row_count, device)) {
		struct linear_plan plan = plan_stream(shape, row_count, device);
		plan.fuses_norm = has_norm && plan.path == LINEAR_STREAM &&
				  stream_fuses_norm(shape, row_count);
		return plan;
	}
	if (tall != NULL) {
		return linear_plan_tall(shape, row_count, tall, device);
	}
	if (!is_small && wide_tile_of(shape, row_count, device) != NULL) {
		return linear_plan_path(LINEAR_WIDE, shape, row_count, device);
	}
	return linear_plan_path(shape->split_k > 1 || is_tiny ? LINEAR_TINY : LINEAR_SMALL, shape,
		row_count, device);
}

struct linear_plan linear_plan(const struct linear_shape *shape, uint32_t row_count, bool has_norm,
	const struct linear_device *device)
{
	struct linear_plan plan = linear_plan_kernel(shape, row_count, has_norm, device);
	const bool is_streamed_logits = shape->is_logits && plan.path == LINEAR_STREAM;
	bool pays = row_count <= small_rows_max(shape) || plan.path == LINEAR_WIDE;

	if (is_streamed_logits || plan.fuses_norm || plan.path == LINEAR_TALL ||
		(!shape->is_logits && pays && has_kernel(shape, row_count, device))) {
		return plan;
	}
	if (shape->is_logits || shape->split_k == 1 || !device->has_sm90) {
		plan = plan_of(LINEAR_CUBLASLT, shape, row_count);
		plan.shape.split_k = 1;
		return plan;
	}
	plan = plan_of(LINEAR_CUBLASLT_SPLIT_K, shape, row_count);
	plan.scratch_bytes = (uint64_t)shape->split_k * row_count * shape->output_count * 4;
	return plan;
}

uint32_t linear_plan_batch(struct linear_plan *out, const struct linear_shape *shape,
	bool may_split_k, uint32_t decode_count, uint32_t row_count,
	const struct linear_device *device)
{
	struct linear_shape whole = *shape, split = *shape;
	uint32_t plan_count = 0;

	whole.split_k = 1;
	split.split_k = linear_split_k(shape->input_count, shape->output_count);
	if (!may_split_k || split.split_k == 1 || !device->has_sm90) {
		decode_count = 0;
	}
	if (decode_count > 0) {
		out[plan_count++] = linear_plan(&split, decode_count, false, device);
	}
	if (row_count > decode_count) {
		out[plan_count++] = linear_plan(&whole, row_count - decode_count, false, device);
	}
	return plan_count;
}
