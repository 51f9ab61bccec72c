#include "kernels/linear/linear_plan.h"

#include "engine/shape/weight_shape.h"
#include "engine/shape/kernel_tiles.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { ROWS_MAX = 600, TEXT_BYTES = 320 };

#define COUNT(array) ((uint32_t)(sizeof(array) / sizeof((array)[0])))

/* The choices over rows 1 to 600, as "path tile <= last row of it": tiny, stream and small by the
   rows of the weight in a tile, wide by these and its tokens, tall by these and the number of tiles
   of tokens. All were measured on an H200. */
struct choice {
	enum model_linear linear;
	const char *text;
	uint32_t norm_rows; /* up to which the norm in front is fused */
};

struct model_choices {
	const char *model;
	struct choice choices[4];
};

#define SPLIT_1024                                                                                 \
	"tiny 8 <= 1, wide 64x8 <= 8, wide 64x16 <= 16, wide 64x24 <= 24, wide 64x32 <= 32, "      \
	"wide 64x48 <= 48, wide 64x64 <= 64, wide 64x80 <= 80, wide 64x96 <= 96, "                 \
	"wide 64x112 <= 112, wide 64x128 <= 128, wide 128x64 <= 192, wide 128x88 <= 264, split_k"
#define SPLIT_2048                                                                                 \
	"stream 16 <= 8, wide 128x16 <= 16, wide 128x24 <= 24, wide 128x32 <= 32, "                \
	"wide 128x48 <= 48, wide 128x64 <= 64, wide 128x88 <= 88, split_k"
#define STREAM(streamed, small) "stream " #streamed " <= 8, small " #small " <= 64, cublaslt"
/* several waves, with silu */
#define WAVES(streamed, small) "stream " #streamed " <= 8, small " #small " <= 32, cublaslt"

static const struct model_choices models[] = {
	{"qwen3-0.6b", {{MODEL_LINEAR_QKV,
				"tiny 32 <= 4, small 32 <= 8, tall 64x1 <= 64, tall 64x2 <= 256, "
				"tall 128x4 <= 512, cublaslt",
				4},
			       {MODEL_LINEAR_O, SPLIT_1024, 0},
			       {MODEL_LINEAR_GATE_UP,
				       "tiny 48 <= 4, small 48 <= 64, wide 96x64 <= 128, "
				       "tall 128x2 <= 224, tall 192x4",
				       4},
			       {MODEL_LINEAR_DOWN, SPLIT_1024, 0}}},
	{"qwen3-1.7b",
		{{MODEL_LINEAR_QKV, "stream 32 <= 8, tall 64x2 <= 256, cublaslt", 1},
			{MODEL_LINEAR_O, SPLIT_2048, 0},
			{MODEL_LINEAR_GATE_UP,
				"stream 96 <= 8, small 96 <= 64, tall 192x2 <= 256, cublaslt", 1},
			{MODEL_LINEAR_DOWN, SPLIT_2048, 0}}},
	{"qwen3-4b", {{MODEL_LINEAR_QKV, STREAM(48, 48), 1}, {MODEL_LINEAR_O, STREAM(32, 32), 1},
			     {MODEL_LINEAR_GATE_UP, WAVES(80, 64), 1},
			     {MODEL_LINEAR_DOWN, STREAM(32, 32), 0}}},
	{"qwen3-8b",
		{{MODEL_LINEAR_QKV,
			 "stream 48 <= 8, tall 64x1 <= 96, cublaslt <= 160, tall 128x2 <= 224, "
			 "cublaslt",
			 1},
			{MODEL_LINEAR_O,
				"stream 32 <= 8, small 32 <= 32, tall 64x2 <= 256, cublaslt", 1},
			{MODEL_LINEAR_GATE_UP, "stream 96 <= 8, tall 192x1 <= 256, cublaslt", 1},
			{MODEL_LINEAR_DOWN,
				"stream 32 <= 8, small 32 <= 64, tall 64x2 <= 224, cublaslt", 0}}},
	{"qwen3-14b", {{MODEL_LINEAR_QKV, STREAM(64, 64), 1}, {MODEL_LINEAR_O, STREAM(48, 40), 1},
			      {MODEL_LINEAR_GATE_UP, WAVES(96, 64), 1},
			      {MODEL_LINEAR_DOWN, STREAM(48, 40), 0}}},
	{"qwen3-32b", {{MODEL_LINEAR_QKV, STREAM(80, 80), 1}, {MODEL_LINEAR_O, STREAM(48, 40), 1},
			      {MODEL_LINEAR_GATE_UP, WAVES(80, 64), 1},
			      {MODEL_LINEAR_DOWN, STREAM(48, 40), 0}}},
};

/* The same for rows of prompts by weights with split-K, which are summed in one chain there. */
static const struct prompt_choice {
	uint32_t input_count, output_count;
	const char *text;
} prompt_choices[] = {
	{2048, 1024,
		"stream 16 <= 8, small 16 <= 64, tall 64x3 <= 72, tall 64x4 <= 256, "
		"tall 64x6 <= 392, tall 64x8"},
	{3072, 1024,
		"stream 16 <= 8, small 16 <= 64, tall 64x3 <= 72, tall 64x4 <= 256, "
		"tall 64x6 <= 384, cublaslt"},
	{2048, 2048,
		"stream 16 <= 8, small 16 <= 64, tall 64x2 <= 160, tall 64x4 <= 512, cublaslt"},
	{6144, 2048, "stream 16 <= 8, small 16 <= 64, cublaslt"},
};

/* Shapes of models and others: the smallest, odd ones, inputs and outputs at the limits. */
static const uint32_t shapes[][2] = {{1024, 4096}, {2048, 1024}, {1024, 6144}, {3072, 1024},
	{2048, 2048}, {2048, 12288}, {6144, 2048}, {9728, 2560}, {4096, 4096}, {4096, 24576},
	{17408, 5120}, {3072, 2048}, {6144, 1600}, {128, 64}, {1024, 384}, {4096, 64}, {2560, 448},
	{100, 100}, {128, 8}, {1024, 12672}, {2048, 14016}, {3584, 1984}, {1024, 5280}};

static struct linear_shape shape_of(uint32_t input_count, uint32_t output_count)
{
	return (struct linear_shape){
		input_count, output_count, linear_split_k(input_count, output_count), false, false};
}

static void describe(const struct linear_plan *plan, char *text)
{
	static const char *const names[] = {
		"cublaslt", "split_k", "tiny", "stream", "small", "wide", "tall", "none"};
	const char *name = names[plan->path];

	if (plan->path == LINEAR_TALL) {
		snprintf(text, 32, "%s %ux%u", name, plan->weight_rows,
			(plan->row_count + plan->tile_tokens - 1) / plan->tile_tokens);
	} else if (plan->path == LINEAR_WIDE) {
		snprintf(text, 32, "%s %ux%u", name, plan->weight_rows, plan->tile_tokens);
	} else if (plan->weight_rows > 0) {
		snprintf(text, 32, "%s %u", name, plan->weight_rows);
	} else {
		snprintf(text, 32, "%s", name);
	}
}

static void describe_all(
	const struct linear_shape *shape, const struct linear_device *device, char *text)
{
	char latest[32] = "", choice[32];
	size_t length = 0;

	for (uint32_t rows = 1; rows <= ROWS_MAX; rows++) {
		struct linear_plan plan = linear_plan(shape, rows, false, device);
		describe(&plan, choice);
		if (rows > 1 && strcmp(choice, latest) != 0) {
			length += (size_t)snprintf(
				text + length, TEXT_BYTES - length, "%s <= %u, ", latest, rows - 1);
		}
		strcpy(latest, choice);
	}
	snprintf(text + length, TEXT_BYTES - length, "%s", latest);
}

Test(linear_plan, chooses_what_was_measured_to_be_fastest)
{
	const struct linear_device device = linear_device(KERNEL_PATH_SM90);

	for (uint32_t i = 0; i < COUNT(models) * 4; i++) {
		const struct choice *choice = &models[i / 4].choices[i % 4];
		struct model_config model;
		char text[TEXT_BYTES];
		cr_assert(model_config_builtin(models[i / 4].model, &model));
		struct model_linear_shape linear = model_linear_shape(&model, choice->linear);
		struct linear_shape shape = shape_of(linear.inputs, linear.outputs);
		uint32_t norm_rows = 0;

		shape.has_silu = choice->linear == MODEL_LINEAR_GATE_UP;
		describe_all(&shape, &device, text);
		cr_expect_str_eq(text, choice->text, "%s, %s: %s", models[i / 4].model,
			model_linear_name(choice->linear), text);
		while (linear_plan(&shape, norm_rows + 1, true, &device).fuses_norm) {
			norm_rows++;
		}
		cr_expect(norm_rows == choice->norm_rows, "%s, %s: norms of %u rows",
			models[i / 4].model, model_linear_name(choice->linear), norm_rows);
	}
}

Test(linear_plan, serves_prompts_by_what_was_measured_to_be_fastest)
{
	const struct linear_device device = linear_device(KERNEL_PATH_SM90);

	for (uint32_t i = 0; i < COUNT(prompt_choices); i++) {
		const struct prompt_choice *choice = &prompt_choices[i];
		const struct linear_shape shape = {
			choice->input_count, choice->output_count, 1, false, false};
		char text[TEXT_BYTES];

		cr_expect(linear_split_k(shape.input_count, shape.output_count) > 1);
		describe_all(&shape, &device, text);
		cr_expect_str_eq(text, choice->text, "%u to %u: %s", shape.input_count,
			shape.output_count, text);
	}
}

/* Shared memory by the layouts that the kernels describe: what of the tile each stage holds. */
static uint64_t layout_bytes(const struct linear_plan *plan)
{
	const struct linear_shape *shape = &plan->shape;
	const uint64_t row = LINEAR_CHUNK * sizeof(uint16_t);
	const uint64_t weight = plan->weight_rows * row, stages = plan->token_stages;
	uint64_t bytes = LINEAR_BARRIER_BYTES, chunks = 2, tokens = plan->tile_tokens;

	switch (plan->path) {
	case LINEAR_TINY: /* all inputs; a gap for each token, and the sums of each slice */
		bytes += plan->weight_rows * (uint64_t)shape->input_count * sizeof(uint16_t);
		bytes += tokens * shape->input_count * sizeof(uint16_t);
		return bytes +
		       tokens * shape->split_k *
			       (LINEAR_TINY_TOKEN_GAP +
				       (plan->weight_rows + LINEAR_TINY_SUM_GAP) * sizeof(float));
	case LINEAR_STREAM: /* one token as a whole, several in each stage, in whole KiB; with
			       split-K the sums of all slices but one, for 8 tokens */
		bytes += (shape->split_k - 1) * plan->weight_rows * 8 * sizeof(float);
		if (tokens == 1 && !shape->is_logits) {
			bytes += shape->input_count * sizeof(uint16_t);
			return bytes + stages * LINEAR_STREAM_CHUNKS * weight;
		}
		tokens = (LINEAR_STREAM_CHUNKS * tokens * row + 1023) / 1024 * 1024;
		return bytes + stages * (tokens + LINEAR_STREAM_CHUNKS * weight);
	case LINEAR_SMALL: /* a wgmma of the last stage reads 64 rows of tokens */
		chunks = plan->weight_rows == 16 ? 4 : 2;
		return bytes + stages * chunks * (weight + tokens * row) + (64 - tokens) * row;
	case LINEAR_WIDE: /* with split-K a quarter of the sums of four slices */
		chunks = plan->stage_chunks;
		bytes += shape->split_k == 1 ? 0 : plan->weight_rows * tokens * sizeof(float);
		return bytes + chunks * (stages * tokens * row + plan->weight_stages * weight);
	case LINEAR_TALL: /* room for all columns of its wgmma */
		tokens = linear_tall_columns(plan->tile_tokens);
		chunks = LINEAR_TALL_CHUNKS(plan->weight_rows, tokens);
		return bytes + stages * chunks * (weight + tokens * row);
	default:
		return 0;
	}
}

static void check_stream(const struct linear_plan *plan, const struct linear_device *device)
{
	const struct linear_shape *shape = &plan->shape;
	uint32_t row_blocks_16 = shape->output_count / LINEAR_STREAM_ROWS;

	cr_expect(plan->row_count <= LINEAR_STREAM_TOKENS);
	cr_expect(plan->blocks <= device->multiprocessors && plan->blocks <= row_blocks_16);
	cr_expect(
		plan->weight_rows * shape->split_k <= LINEAR_STREAM_ROWS * LINEAR_STREAM_WARPS_MAX);
	/* with split-K a block has one tile, and its warps take two stages at a time */
	cr_expect(shape->split_k == 1 ||
		  (!shape->has_silu && !shape->is_logits &&
			  plan->blocks * plan->weight_rows >= shape->output_count &&
			  shape->input_count / shape->split_k % (2 * LINEAR_CHUNK) == 0));
	cr_expect(plan->token_stages >= 2 || shape->input_count <= 256);
	cr_expect(plan->token_stages <= LINEAR_STAGES_MAX);
	cr_expect(shape->input_count % (LINEAR_STREAM_CHUNKS * LINEAR_CHUNK) == 0);
	cr_expect(plan->shared_bytes + LINEAR_STREAM_ROOM <= 2 * device->half_shared_bytes);
	/* one warp a block and one token: a second block fits on the multiprocessor */
	cr_expect(row_blocks_16 > device->multiprocessors ||
		  !linear_stream_has_row(shape, plan->row_count) ||
		  plan->shared_bytes <= device->half_shared_bytes);
	cr_expect(!plan->fuses_norm ||
		  (plan->row_count == 1 && !shape->is_logits && shape->input_count <= 8192));
	cr_expect(plan->scratch_bytes == 0);
}

/* What must hold of any plan of our own kernels, for it to run and to have the promised bits. */
static void check_plan(const struct linear_plan *plan, const struct linear_device *device)
{
	const struct linear_shape *shape = &plan->shape;
	uint32_t row_blocks = plan->weight_rows == 0 ? 0 : shape->output_count / plan->weight_rows;
	uint32_t token_blocks = plan->tile_tokens == 0 ? 0
						       : (plan->row_count + plan->tile_tokens - 1) /
								 plan->tile_tokens;

	cr_expect(plan->shared_bytes == layout_bytes(plan));
	switch (plan->path) {
	case LINEAR_TINY:
		cr_expect(shape->input_count % (shape->split_k * LINEAR_TINY_K_TILE) == 0);
		cr_expect(plan->shared_bytes <= 2 * device->half_shared_bytes);
		break;
	case LINEAR_STREAM:
		check_stream(plan, device);
		return; /* the last tile of a block may have fewer rows */
	case LINEAR_SMALL:
		cr_expect(shape->split_k == 1);
		cr_expect(plan->weight_rows % (shape->has_silu ? 16 : 8) == 0);
		cr_expect(plan->tile_tokens % 8 == 0 && plan->tile_tokens <= 64);
		cr_expect(plan->tile_tokens == 64 ||
			  (plan->tile_tokens >= plan->row_count &&
				  plan->tile_tokens < plan->row_count + 8));
		cr_expect(row_blocks <= device->multiprocessors ||
			  (shape->has_silu && plan->row_count <= 32)); /* several waves */
		cr_expect(plan->shared_bytes <= 2 * device->half_shared_bytes);
		break;
	case LINEAR_WIDE:
		cr_expect(shape->split_k == 1 || row_blocks * token_blocks <= device->clusters);
		cr_expect(plan->token_stages > 0 && plan->token_stages <= LINEAR_STAGES_MAX);
		cr_expect(plan->weight_stages > 0 && plan->weight_stages <= LINEAR_STAGES_MAX);
		/* else the producer never fills the last stages of the weight, and a block waits */
		cr_expect(plan->token_stages <= plan->weight_stages);
		cr_expect(
			shape->input_count % (shape->split_k * LINEAR_CHUNK * plan->stage_chunks) ==
			0);
		cr_expect(plan->tile_tokens >= 64 || token_blocks == 1);
		cr_expect(plan->shared_bytes <= device->shared_bytes);
		break;
	case LINEAR_TALL:
		cr_expect(shape->split_k == 1 && plan->tile_tokens <= LINEAR_TALL_TOKENS);
		cr_expect(plan->tile_tokens % (LINEAR_TALL_EIGHT * plan->token_sharers) == 0);
		cr_expect(row_blocks % plan->token_sharers == 0);
		cr_expect(token_blocks % plan->sharers == 0);
		cr_expect(plan->token_stages > (shape->input_count <= 128 ? 0 : 1));
		cr_expect(plan->token_stages <= LINEAR_STAGES_MAX);
		cr_expect(plan->shared_bytes <= device->shared_bytes);
		break;
	case LINEAR_CUBLASLT:
		cr_expect(shape->split_k == 1 && plan->scratch_bytes == 0);
		return;
	case LINEAR_CUBLASLT_SPLIT_K:
		cr_expect(plan->scratch_bytes == (uint64_t)SPLIT_K * plan->row_count *
							 shape->output_count * sizeof(float));
		return;
	case LINEAR_NONE:
		cr_expect(false, "no plan");
		return;
	}
	cr_expect(shape->output_count % plan->weight_rows == 0);
	cr_expect(plan->scratch_bytes == 0);
	cr_expect(!plan->fuses_norm || (plan->path == LINEAR_TINY && shape->split_k == 1));
}

static uint32_t tall_blocks(const struct linear_plan *plan)
{
	return plan->shape.output_count / plan->weight_rows *
	       ((plan->row_count + plan->tile_tokens - 1) / plan->tile_tokens);
}

/* 132 multiprocessors, and tiles of 96 rows. */
Test(linear_plan, a_wide_tile_may_fill_every_multiprocessor_once)
{
	const struct linear_device device = linear_device(KERNEL_PATH_SM90);
	const struct linear_shape full = shape_of(1024, 132 * 96), more = shape_of(1024, 133 * 96);

	cr_expect(linear_plan(&full, 128, false, &device).path == LINEAR_WIDE);
	cr_expect(linear_plan(&full, 129, false, &device).path == LINEAR_CUBLASLT);
	cr_expect(linear_plan(&more, 128, false, &device).path == LINEAR_CUBLASLT);
}

Test(linear_plan, fits_the_device_in_the_requested_order)
{
	const struct linear_device device = linear_device(KERNEL_PATH_SM90);

	for (uint32_t i = 0; i < COUNT(shapes) * ROWS_MAX * 2; i++) {
		const uint32_t *sizes = shapes[i % COUNT(shapes)];
		uint32_t rows = 1 + i / COUNT(shapes) % ROWS_MAX;
		struct linear_shape shape = shape_of(sizes[0], sizes[1]);
		shape.has_silu = i / COUNT(shapes) / ROWS_MAX > 0;
		struct linear_plan plan =
			linear_plan(&shape, rows, rows == 1 || rows % 2 == 0, &device);

		cr_expect(plan.row_count == rows && plan.shape.split_k == shape.split_k);
		check_plan(&plan, &device);
		cr_expect(plan.path != LINEAR_TALL || tall_blocks(&plan) <= device.multiprocessors);
		/* rows of prompts: one chain each */
		shape.split_k = 1;
		plan = linear_plan(&shape, rows, false, &device);
		cr_expect(plan.shape.split_k == 1);
		cr_expect(plan.path != LINEAR_TALL || tall_blocks(&plan) <= device.multiprocessors);
		check_plan(&plan, &device);
	}
}

/* Tests and measurements ask for a path by name, where the choice would be another one. */
Test(linear_plan, gives_a_path_that_is_asked_for_or_none)
{
	const struct linear_device device = linear_device(KERNEL_PATH_SM90);
	const struct linear_device other = linear_device(KERNEL_PATH_GENERAL);
	uint32_t given[LINEAR_NONE] = {0};

	for (uint32_t i = 0; i < COUNT(shapes) * ROWS_MAX * 4; i++) {
		const uint32_t *sizes = shapes[i % COUNT(shapes)];
		uint32_t rows = 1 + i / COUNT(shapes) % ROWS_MAX;
		uint32_t variant = i / COUNT(shapes) / ROWS_MAX;
		struct linear_shape shape = shape_of(sizes[0], sizes[1]);
		shape.has_silu = variant % 2 == 1;
		shape.split_k = variant < 2 ? 1 : shape.split_k;
		for (enum linear_path path = LINEAR_TINY; path <= LINEAR_WIDE; path++) {
			if (path == LINEAR_SMALL && rows > 64) {
				continue;
			}
			struct linear_plan plan = linear_plan_path(path, &shape, rows, &device);
			cr_expect(linear_plan_path(path, &shape, rows, &other).path == LINEAR_NONE);
			cr_expect(plan.row_count == rows && !plan.fuses_norm);
			if (plan.path == LINEAR_NONE) {
				continue;
			}
			cr_expect(plan.path == path);
			check_plan(&plan, &device);
			given[path]++;
		}
	}
	for (enum linear_path path = LINEAR_TINY; path <= LINEAR_WIDE; path++) {
		cr_expect(given[path] > 100, "path %d: %u plans", (int)path, given[path]);
	}
}

/* Any tile, with which the kernel runs or there is no plan. */
Test(linear_plan, gives_every_tall_tile_that_fits)
{
	static const uint32_t sizes[][2] = {
		{128, 1536}, {64, 768}, {4096, 6144}, {100, 192}, {12288, 4096}};
	static const uint32_t tiles[] = {0, 1, 2, 3, 10};
	const struct linear_device device = linear_device(KERNEL_PATH_SM90);
	const struct linear_device other = linear_device(KERNEL_PATH_GENERAL);
	uint32_t given = 0;

	for (uint32_t i = 0; i < 3 * COUNT(tiles) * 4 * 2 * 2 * COUNT(sizes); i++) {
		const struct linear_tall_tile tile = {
			i % 3 + 1, tiles[i / 3 % COUNT(tiles)], i / 15 % 4 + 1, i / 60 % 2 + 1};
		const uint32_t *size = sizes[i / 240];
		const struct linear_shape shape = {size[0], size[1], 1, i / 120 % 2 == 1, false};
		for (uint32_t rows = 1; rows < 2400; rows += 1 + rows / 5) {
			struct linear_plan plan = linear_plan_tall(&shape, rows, &tile, &device);
			cr_expect(
				linear_plan_tall(&shape, rows, &tile, &other).path == LINEAR_NONE);
			if (plan.path == LINEAR_NONE) {
				continue;
			}
			uint32_t token_tiles = (rows + plan.tile_tokens - 1) / plan.tile_tokens;
			cr_expect(plan.path == LINEAR_TALL && plan.row_count == rows);
			check_plan(&plan, &device);
			cr_expect(plan.weight_rows == 64 * tile.groups);
			cr_expect(token_tiles <= tile.token_tiles || plan.tile_tokens == 256);
			cr_expect(shape.has_silu ? tile.groups > 1 : tile.groups < 3);
			cr_expect(token_tiles <= LINEAR_TALL_BAND || plan.sharers == 1);
			cr_expect(plan.tile_tokens <= (tile.groups == 3 ? 256 : 128));
			given++;
		}
	}
	cr_expect(given > 1000, "%u plans", given);
}

Test(linear_plan, streams_logits_of_up_to_8_rows)
{
	static const uint32_t sizes[][2] = {{1024, 151936}, {2560, 151936}, {5120, 75968},
		{256, 512}, {256, 151936}, {64, 512}};
	const struct linear_device device = linear_device(KERNEL_PATH_SM90);
	const struct linear_device other = linear_device(KERNEL_PATH_GENERAL);

	for (uint32_t i = 0; i < COUNT(sizes); i++) {
		/* one stage of inputs cannot be released while the next tile waits for it */
		bool is_streamed = sizes[i][0] > 256 || (sizes[i][0] == 256 && sizes[i][1] < 10000);
		const struct linear_shape shape = {sizes[i][0], sizes[i][1], 1, false, true};
		for (uint32_t rows = 1; rows <= ROWS_MAX; rows++) {
			struct linear_plan plan = linear_plan(&shape, rows, false, &device);
			cr_expect(plan.path == (is_streamed && rows <= LINEAR_STREAM_TOKENS
							       ? LINEAR_STREAM
							       : LINEAR_CUBLASLT));
			check_plan(&plan, &device);
			plan = linear_plan(&shape, rows, false, &other);
			cr_expect(plan.path == LINEAR_CUBLASLT && plan.shape.is_logits);
		}
	}
}

Test(linear_plan, leaves_all_to_the_library_without_sm_90)
{
	const struct linear_device device = linear_device(KERNEL_PATH_GENERAL);

	for (uint32_t i = 0; i < COUNT(shapes) * 2; i++) {
		const struct linear_shape shape = shape_of(shapes[i / 2][0], shapes[i / 2][1]);
		for (uint32_t rows = 1; rows <= ROWS_MAX; rows += 13) {
			struct linear_plan plan = linear_plan(&shape, rows, i % 2 == 0, &device);
			cr_expect(plan.path == LINEAR_CUBLASLT && plan.shape.split_k == 1);
		}
		cr_expect(!linear_has_kernel(&shape, &device));
		cr_expect(linear_plan_kernel(&shape, 1, false, &device).path == LINEAR_NONE);
	}
}

static void expect_batch(const struct linear_shape *shape, bool may_split_k, uint32_t decode_count,
	uint32_t row_count)
{
	const struct linear_device device = linear_device(KERNEL_PATH_SM90);
	bool splits = may_split_k && linear_split_k(shape->input_count, shape->output_count) > 1;
	struct linear_plan plans[LINEAR_PLANS_MAX];
	uint32_t count =
		linear_plan_batch(plans, shape, may_split_k, decode_count, row_count, &device);
	uint32_t rows = 0, split_rows = 0;

	cr_assert(count <= LINEAR_PLANS_MAX);
	for (uint32_t i = 0; i < count; i++) {
		bool is_split = plans[i].shape.split_k > 1;
		cr_expect(plans[i].row_count > 0);
		cr_expect(!is_split || i == 0, "decode rows come first");
		split_rows += is_split ? plans[i].row_count : 0;
		rows += plans[i].row_count;
	}
	cr_expect(rows == row_count);
	cr_expect(split_rows == (splits ? decode_count : 0), "%u rows", split_rows);
}

Test(linear_plan, gives_the_split_k_order_to_decode_rows_only)
{
	static const uint32_t counts[] = {0, 1, 4, 8, 9, 200, 300};

	for (uint32_t i = 0; i < COUNT(shapes) * COUNT(counts) * COUNT(counts); i++) {
		const uint32_t *sizes = shapes[i / COUNT(counts) / COUNT(counts)];
		uint32_t decodes = counts[i % COUNT(counts)];
		uint32_t prompts = counts[i / COUNT(counts) % COUNT(counts)];
		const struct linear_shape shape = shape_of(sizes[0], sizes[1]);

		expect_batch(&shape, true, decodes, decodes + prompts);
		expect_batch(&shape, false, decodes, decodes + prompts);
	}
}
