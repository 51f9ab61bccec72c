#include "bench/calibrate/plan.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "engine/batch.h"
#include "workloads/generate/random.h"
#include "workloads/trace/trace_writer.h"

#include <stdlib.h>
#include <string.h>

#define SECOND_NS UINT64_C(1000000000)
#define SCENE_NS (10 * CALIBRATE_WARM_NS) /* from a scene to the next, which the engine skips */
#define COOL_DOWN_S 0.06
/* How long one sequence decodes before a prompt that is measured on a rested GPU, which is also the
   longest such prompt, and the shortest. */
#define REST_S 0.15
#define REST_LEAST_S 0.003
#define HEAT_UP_S 0.12
#define BURST_S 3
#define PROMPT_STEP_S 0.25 /* the longest step with a prompt behind or beside something */
/* The most that computing the last tokens of a scene's contexts may take. */
#define SWEEP_ENDS_S 0.4
#define MIXED_ENDS_S 0.04

enum {
	SWEEP_STEPS = 4,      /* at each size of a decode sweep */
	SWEEP_LEAD_MOST = 64, /* steps before the first size */
	PURPOSE_SCENES = 0x63616c69,
	PURPOSE_ORDER = 0x6f726472,
	PARTS = 3,    /* of the plan; a scene with prompts is played once in each */
	HOT_PART = 1, /* in which its GPU is hot */
};

enum scene_kind {
	SCENE_DECODE_SWEEP,
	SCENE_PROMPTS,
	SCENE_PREFILL_BATCH,
	SCENE_MIXED,
	SCENE_BURST
};

/* tokens: of a sequence's context, or of a prompt without its prefix; of single prompts, the
   longest. spread: lengths are uniform in tokens * (1 -+ spread / 100). groups: of rows, or of the
   prompts of a batch, each of which shares a prefix; 0: none does. longest: tokens of a sweep's
   first row, which decodes to the end; 0: no such row. common: what all decode rows share, in a
   sweep before the prefixes of their groups. Of mixed steps, prefix is that of the prompts,
   longest, where it is not 0, the only length of a prompt, about that of each in a ragged scene,
   and groups the prompts that arrive at once, 0: one. */
struct scene {
	enum scene_kind kind;
	uint32_t rows, tokens, spread, prefix, common, groups, longest;
	bool has_every_size; /* of a sweep, and of lengths of single prompts */
	bool is_between;     /* of mixed steps: prompts of the lengths between the usual ones */
};

/* In order of falling importance: what much traffic consists of, then the corners. A scene's place
   is the stream of its random numbers, so a new one goes to the end: calibrations of older plans
   have the steps of the others then. */
static const struct scene scenes[] = {
	{SCENE_DECODE_SWEEP, .rows = 512, .tokens = 600, .spread = 60, .has_every_size = true},
	{SCENE_PROMPTS, .rows = 1, .tokens = 16384, .has_every_size = true},
	{SCENE_MIXED, .rows = 32, .tokens = 900, .spread = 80},
	{SCENE_DECODE_SWEEP, .rows = 192, .tokens = 1200, .spread = 60},
	{SCENE_DECODE_SWEEP, .rows = 16, .tokens = 500, .spread = 90},
	{SCENE_MIXED, .rows = 128, .tokens = 700, .spread = 60, .is_between = true},
	{SCENE_DECODE_SWEEP, .rows = 24, .tokens = 1000, .spread = 80},
	{SCENE_DECODE_SWEEP, .rows = 96, .tokens = 500, .spread = 90, .prefix = 256, .groups = 1},
	{SCENE_DECODE_SWEEP, .rows = 48, .tokens = 1200, .spread = 90, .longest = 6000},
	{SCENE_DECODE_SWEEP, .rows = 256, .tokens = 400, .spread = 60, .prefix = 1024,
		.groups = 16},
	{SCENE_MIXED, .rows = 16, .tokens = 1500, .spread = 80, .is_between = true},
	{SCENE_DECODE_SWEEP, .rows = 96, .tokens = 1000, .spread = 50},
	{SCENE_DECODE_SWEEP, .rows = 16, .tokens = 120, .spread = 80},
	{SCENE_MIXED, .rows = 4, .tokens = 16000, .spread = 70},
	{SCENE_DECODE_SWEEP, .rows = 96, .tokens = 200, .spread = 50, .prefix = 7680, .groups = 1},
	{SCENE_DECODE_SWEEP, .rows = 8, .tokens = 125000},
	{SCENE_DECODE_SWEEP, .rows = 12, .tokens = 2500, .spread = 70},
	{SCENE_DECODE_SWEEP, .rows = 4, .tokens = 9000, .spread = 50, .longest = 14000},
	{SCENE_MIXED, .rows = 256, .tokens = 2500, .spread = 60},
	{SCENE_DECODE_SWEEP, .rows = 16, .tokens = 800, .spread = 60, .longest = 16000},
	{SCENE_DECODE_SWEEP, .rows = 48, .tokens = 1200, .spread = 80, .prefix = 1024,
		.groups = 12},
	{SCENE_DECODE_SWEEP, .rows = 24, .tokens = 1800, .spread = 60, .prefix = 1024, .groups = 4},
	{SCENE_DECODE_SWEEP, .rows = 64, .tokens = 1600, .spread = 60},
	{SCENE_DECODE_SWEEP, .rows = 6, .tokens = 50000, .spread = 60},
	{SCENE_MIXED, .rows = 5, .tokens = 40, .spread = 60, .is_between = true},
	{SCENE_PROMPTS, .rows = 1, .tokens = 16384, .prefix = 4096},
	{SCENE_BURST, .rows = 1, .tokens = 8192},
	{SCENE_MIXED, .rows = 64, .tokens = 500, .spread = 80, .groups = 16, .longest = 500},
	{SCENE_DECODE_SWEEP, .rows = 512, .tokens = 2000, .spread = 50, .has_every_size = true},
	{SCENE_MIXED, .rows = 4, .tokens = 30000, .spread = 60, .prefix = 32768, .common = 16384,
		.is_between = true},
	{SCENE_DECODE_SWEEP, .rows = 32, .tokens = 400, .spread = 60, .prefix = 122880,
		.groups = 1},
	{SCENE_MIXED, .rows = 48, .tokens = 600, .spread = 60, .prefix = 512, .common = 256,
		.is_between = true},
	{SCENE_DECODE_SWEEP, .rows = 96, .tokens = 8000, .spread = 50},
	{SCENE_DECODE_SWEEP, .rows = 256, .tokens = 900, .spread = 90},
	{SCENE_DECODE_SWEEP, .rows = 256, .tokens = 700, .spread = 80},
	{SCENE_DECODE_SWEEP, .rows = 3, .tokens = 5000, .spread = 60, .longest = 11500},
	{SCENE_MIXED, .rows = 6, .tokens = 40, .spread = 60, .groups = 2, .longest = 32},
	{SCENE_DECODE_SWEEP, .rows = 32, .tokens = 60, .spread = 80},
	{SCENE_PROMPTS, .rows = 1, .tokens = 16384, .prefix = 32768},
	{SCENE_PREFILL_BATCH, .rows = 16, .tokens = 900, .spread = 80},
	{SCENE_PREFILL_BATCH, .rows = 512, .tokens = 20, .spread = 50},
	{SCENE_PREFILL_BATCH, .rows = 64, .tokens = 128, .spread = 50, .prefix = 7680, .groups = 1},
	{SCENE_MIXED, .rows = 511, .tokens = 300},
	{SCENE_MIXED, .rows = 8, .tokens = 4000, .spread = 60, .groups = 4, .longest = 3500},
	{SCENE_DECODE_SWEEP, .rows = 24, .tokens = 3000, .spread = 60, .prefix = 2048, .groups = 6},
	{SCENE_DECODE_SWEEP, .rows = 16, .tokens = 1200, .spread = 60, .prefix = 1536, .groups = 6},
	{SCENE_DECODE_SWEEP, .rows = 32, .tokens = 1500, .spread = 80, .prefix = 32768,
		.groups = 4},
	{SCENE_DECODE_SWEEP, .rows = 4, .tokens = 3000, .spread = 80, .prefix = 28672, .groups = 1},
	{SCENE_DECODE_SWEEP, .rows = 64, .tokens = 600, .spread = 60, .longest = 64000},
	{SCENE_MIXED, .rows = 1, .tokens = 12000},
	{SCENE_MIXED, .rows = 24, .tokens = 1500, .spread = 60, .prefix = 1536, .common = 1024},
	{SCENE_DECODE_SWEEP, .rows = 256, .tokens = 400, .spread = 60, .prefix = 8192, .groups = 4},
	{SCENE_PROMPTS, .rows = 1, .tokens = 4096, .prefix = 114688},
	{SCENE_DECODE_SWEEP, .rows = 32, .tokens = 32000},
	{SCENE_MIXED, .rows = 8, .tokens = 12000, .spread = 80, .prefix = 16384,
		.is_between = true},
	{SCENE_DECODE_SWEEP, .rows = 512, .tokens = 150, .spread = 50, .has_every_size = true},
	{SCENE_MIXED, .rows = 384, .tokens = 2000, .spread = 60, .is_between = true},
	{SCENE_DECODE_SWEEP, .rows = 384, .tokens = 500, .spread = 60, .prefix = 256, .groups = 1},
	{SCENE_PREFILL_BATCH, .rows = 4, .tokens = 1000, .spread = 60, .prefix = 8192},
	{SCENE_PREFILL_BATCH, .rows = 6, .tokens = 400, .spread = 80, .prefix = 16384},
	{SCENE_PREFILL_BATCH, .rows = 64, .tokens = 100, .spread = 90, .prefix = 2048},
	{SCENE_DECODE_SWEEP, .rows = 64, .tokens = 1000, .spread = 80, .prefix = 16384,
		.groups = 16},
	{SCENE_MIXED, .rows = 192, .tokens = 500, .spread = 60, .common = 256, .groups = 24,
		.longest = 500},
	{SCENE_MIXED, .rows = 224, .tokens = 700, .spread = 60, .prefix = 512, .common = 256,
		.groups = 2, .longest = 400},
	{SCENE_PREFILL_BATCH, .rows = 64, .tokens = 100, .spread = 90},
	{SCENE_PREFILL_BATCH, .rows = 16, .tokens = 500, .spread = 60, .prefix = 1024, .groups = 4},
	{SCENE_PREFILL_BATCH, .rows = 2, .tokens = 60, .spread = 50},
	{SCENE_PREFILL_BATCH, .rows = 4, .tokens = 3500, .spread = 50},
	{SCENE_DECODE_SWEEP, .rows = 12, .tokens = 2500, .spread = 70, .prefix = 1024, .groups = 3},
	{SCENE_DECODE_SWEEP, .rows = 3, .tokens = 6000, .spread = 60, .prefix = 16384, .groups = 1},
	{SCENE_PREFILL_BATCH, .rows = 8, .tokens = 250, .spread = 60, .prefix = 32768},
	{SCENE_PREFILL_BATCH, .rows = 3, .tokens = 700, .spread = 60, .prefix = 40960},
	{SCENE_DECODE_SWEEP, .rows = 6, .tokens = 1000, .spread = 60, .longest = 128000},
	{SCENE_DECODE_SWEEP, .rows = 32, .tokens = 1000, .spread = 80, .longest = 8000},
	{SCENE_DECODE_SWEEP, .rows = 24, .tokens = 3000, .spread = 80, .longest = 36000},
	{SCENE_MIXED, .rows = 4, .tokens = 300},
	{SCENE_MIXED, .rows = 64, .tokens = 3000, .spread = 60},
	{SCENE_MIXED, .rows = 400, .tokens = 300, .groups = 16, .longest = 50},
	{SCENE_MIXED, .rows = 64, .tokens = 300, .prefix = 32768, .longest = 512},
	{SCENE_DECODE_SWEEP, .rows = 256, .tokens = 600},
	{SCENE_DECODE_SWEEP, .rows = 16, .tokens = 600, .spread = 80, .prefix = 122880,
		.groups = 4},
	{SCENE_DECODE_SWEEP, .rows = 64, .tokens = 5000, .spread = 90},
	{SCENE_DECODE_SWEEP, .rows = 24, .tokens = 10000, .spread = 70},
	{SCENE_MIXED, .rows = 2, .tokens = 50000, .spread = 30, .prefix = 49152, .common = 24576},
	{SCENE_MIXED, .rows = 160, .tokens = 300},
	{SCENE_MIXED, .rows = 32, .tokens = 3000},
	{SCENE_MIXED, .rows = 1, .tokens = 300, .is_between = true},
	{SCENE_DECODE_SWEEP, .rows = 128, .tokens = 400, .spread = 60, .prefix = 512, .groups = 1},
	{SCENE_DECODE_SWEEP, .rows = 256, .tokens = 200, .spread = 60, .prefix = 2048, .groups = 1},
	{SCENE_PREFILL_BATCH, .rows = 8, .tokens = 250, .spread = 60},
	{SCENE_PREFILL_BATCH, .rows = 256, .tokens = 50, .spread = 50},
	{SCENE_MIXED, .rows = 480, .tokens = 300},
	{SCENE_MIXED, .rows = 16, .tokens = 12000, .spread = 60},
	{SCENE_DECODE_SWEEP, .rows = 512, .tokens = 20, .spread = 20},
	{SCENE_DECODE_SWEEP, .rows = 128, .tokens = 500, .spread = 80, .common = 4096,
		.prefix = 1024, .groups = 4},
	{SCENE_DECODE_SWEEP, .rows = 48, .tokens = 1500, .spread = 80, .common = 2048,
		.prefix = 1536, .groups = 6},
	{SCENE_DECODE_SWEEP, .rows = 192, .tokens = 300, .spread = 60, .common = 1024,
		.prefix = 1024, .groups = 16},
	{SCENE_DECODE_SWEEP, .rows = 16, .tokens = 9000, .spread = 80, .common = 24576,
		.prefix = 8192, .groups = 4},
	{SCENE_MIXED, .rows = 12, .tokens = 400, .spread = 60, .longest = 96},
	{SCENE_MIXED, .rows = 40, .tokens = 300, .spread = 60, .longest = 192},
	{SCENE_MIXED, .rows = 96, .tokens = 200, .spread = 60, .longest = 40},
	{SCENE_MIXED, .rows = 112, .tokens = 300, .spread = 60, .longest = 240},
	{SCENE_MIXED, .rows = 144, .tokens = 200, .spread = 60, .longest = 112},
	{SCENE_MIXED, .rows = 3, .tokens = 200, .spread = 60, .longest = 28},
};

enum { SCENE_COUNT = sizeof(scenes) / sizeof(scenes[0]) };

/* Batch sizes of a decode sweep, descending: both sides of many graph buckets
   (engine/shape/graph_bucket.h), and some between them. */
static const uint32_t sweep_sizes[] = {512, 497, 496, 480, 465, 449, 448, 420, 400, 385, 384, 352,
	333, 321, 320, 289, 288, 272, 257, 256, 255, 241, 240, 224, 209, 193, 192, 177, 176, 161,
	160, 145, 144, 129, 128, 113, 112, 97, 96, 81, 80, 65, 64, 56, 49, 48, 40, 33, 32, 28, 24,
	20, 17, 16, 14, 12, 10, 9, 8, 6, 5, 4, 3, 2, 1};

enum { SWEEP_SIZE_COUNT = sizeof(sweep_sizes) / sizeof(sweep_sizes[0]) };

/* On both sides of the kernels' tile sizes, and between them: libraries pick other kernels at other
   lengths, so that a step may take as long for 288 tokens as for 257, or a sixth longer. */
static const uint32_t prompt_lengths[] = {1, 8, 16, 17, 24, 32, 33, 40, 48, 56, 63, 64, 65, 80, 96,
	112, 127, 128, 129, 144, 160, 176, 192, 208, 224, 240, 255, 256, 257, 272, 288, 304, 320,
	352, 384, 385, 416, 448, 480, 511, 512, 513, 544, 576, 608, 640, 641, 704, 768, 769, 832,
	896, 897, 960, 1023, 1024, 1025, 1088, 1152, 1280, 1408, 1536, 1664, 1792, 2048, 3072, 4096,
	6144, 8192, 12288, 16384};

/* Of the prompts that join a batch; the last of the usual ones is the whole budget of a step. */
static const uint32_t mixed_lengths[] = {1, 64, 256, 1024, 4096, UINT32_MAX};
static const uint32_t between_lengths[] = {16, 128, 512, 2048, 8192};

enum {
	PROMPT_LENGTH_COUNT = sizeof(prompt_lengths) / sizeof(prompt_lengths[0]),
	MIXED_LENGTH_COUNT = sizeof(mixed_lengths) / sizeof(mixed_lengths[0]),
	BETWEEN_LENGTH_COUNT = sizeof(between_lengths) / sizeof(between_lengths[0]),
};

struct planner {
	const struct calibrate_plan *plan;
	struct random random;
	FILE *file;		    /* NULL: only estimate the duration */
	uint64_t now_ns, latest_ns; /* of the next row, and of the latest */
	uint64_t next_id;	    /* first unused hash id */
	uint64_t next_session;
	double seconds;	   /* estimated so far */
	uint32_t part;	   /* of the plan */
	uint64_t *ids;	   /* (max_model_len / CALIBRATE_ID_TOKENS + 1) */
	uint32_t *lengths; /* (max_num_seqs) */
};

/* ---- estimates ---- */

static double step_seconds(const struct planner *planner, const struct step_counts *counts)
{
	const struct runner *pricer = planner->plan->pricer;
	struct error error = {0};
	uint64_t ns = 0;

	check(pricer->price(pricer->state, counts, &ns, &error) == STATUS_OK);
	return (double)ns * 1e-9;
}

/* A step of `rows` prompts of `own` tokens behind `prefix` beside `decodes` rows of `context`
   tokens each. */
static double prompt_seconds(const struct planner *planner, uint64_t rows, uint64_t prefix,
	uint64_t own, uint64_t decodes, uint64_t context)
{
	const struct step_counts counts = {
		.decode_rows = decodes,
		.decode_context_tokens = decodes * context,
		.decode_longest_context = decodes > 0 ? context : 0,
		.prefill_rows = rows,
		.prefill_tokens = rows * own,
		.prefill_attention_pairs = rows * batch_attention_pairs(prefix, own),
		.prefill_longest_context = prefix + own,
		.prefill_tiles = rows * prefill_tile_count(own),
		.prefill_tile_keys = rows * prefill_tile_keys(prefix, own),
		.sampled_rows = rows + decodes,
	};
	return step_seconds(planner, &counts);
}

static double decode_seconds(
	const struct planner *planner, uint64_t rows, uint64_t context, uint64_t longest)
{
	const struct step_counts counts = {
		.decode_rows = rows,
		.decode_context_tokens = context,
		.decode_longest_context = longest,
		.sampled_rows = rows,
	};
	return step_seconds(planner, &counts);
}

/* ---- the pool ---- */

enum {
	OUTPUT_ROOM = SWEEP_LEAD_MOST + SWEEP_STEPS * SWEEP_SIZE_COUNT + 8, /* tokens of a row */
};

static uint64_t pool_tokens(const struct calibrate_plan *plan)
{
	return (uint64_t)plan->kv_blocks * plan->block_size * 9 / 10;
}

static bool has_groups(const struct scene *scene)
{
	return scene->groups > 0 && scene->kind != SCENE_MIXED;
}

/* Tokens of the pool that a scene takes beside its rows: prefixes that they share, its long row,
   and prompts. */
static uint64_t tokens_beside_rows(const struct calibrate_plan *plan, const struct scene *scene)
{
	const uint64_t fixed = scene->longest + plan->block_size;
	const uint64_t prompt = plan->max_num_batched_tokens + plan->block_size + scene->prefix;

	if (scene->kind == SCENE_MIXED) {
		return fixed + u32_max(1, scene->groups) * prompt + scene->common;
	}
	return fixed + scene->common +
	       (has_groups(scene) ? (uint64_t)scene->groups * scene->prefix : 0);
}

/* Tokens of the pool that a row takes, with its output. */
static uint64_t tokens_of_row(
	const struct calibrate_plan *plan, const struct scene *scene, uint32_t tokens)
{
	bool has_own_prefix = scene->kind != SCENE_MIXED && !has_groups(scene);

	return tokens + OUTPUT_ROOM + plan->block_size + (has_own_prefix ? scene->prefix : 0);
}

/* ---- rows ---- */

static uint32_t draw_around(struct random *random, uint32_t tokens, uint32_t spread)
{
	uint32_t reach = (uint32_t)((uint64_t)tokens * spread / 100);

	return u32_max(1, tokens - reach + random_range(random, 0, 2 * reach));
}

/* Draws the lengths of a scene's rows. Returns how many rows have room in the pool: what is not
   stored there would be computed, which takes long. */
static uint32_t draw_rows(struct planner *planner, const struct scene *scene, uint32_t *tokens)
{
	uint64_t room = pool_tokens(planner->plan) - tokens_beside_rows(planner->plan, scene);
	bool has_longest = scene->kind == SCENE_DECODE_SWEEP && scene->longest > 0;

	for (uint32_t i = 0; i < scene->rows; i++) {
		tokens[i] = draw_around(&planner->random, scene->tokens, scene->spread);
		tokens[i] = i == 0 && has_longest ? scene->longest : tokens[i];
		uint64_t taken = tokens_of_row(planner->plan, scene, tokens[i]);
		if (i > 0 && taken > room) {
			return i;
		}
		room -= i == 0 && has_longest ? 0 : u64_min(room, taken);
	}
	return scene->rows;
}

/* A prompt of length tokens. The first `root` of them have ids from root_id on, the next `prefix`
   from first_id on, the others no other prompt has. The first `stored` are in the cache and cost no
   time. session: of the turns that follow each other at once, or NULL. */
struct prompt {
	uint64_t root_id, first_id;
	uint32_t root, prefix, stored, length, output;
	const char *session;
	bool is_follower, has_no_ids;
};

static void add_row(struct planner *planner, const struct prompt *prompt)
{
	uint32_t root = prompt->root / CALIBRATE_ID_TOKENS;
	uint32_t shared = root + prompt->prefix / CALIBRATE_ID_TOKENS;
	uint32_t count = (prompt->length + CALIBRATE_ID_TOKENS - 1) / CALIBRATE_ID_TOKENS;

	check(prompt->root % CALIBRATE_ID_TOKENS == 0 && prompt->prefix % CALIBRATE_ID_TOKENS == 0);
	check(prompt->stored < prompt->length);
	check(prompt->length + prompt->output <= planner->plan->max_model_len);
	if (planner->file == NULL) {
		return;
	}
	check(planner->now_ns >= planner->latest_ns);
	for (uint32_t i = 0; i < count; i++) {
		planner->ids[i] = i < root     ? prompt->root_id + i
				  : i < shared ? prompt->first_id + (i - root)
					       : planner->next_id++;
	}
	const struct trace_row row = {
		.arrival_ns = planner->now_ns,
		.input_length = prompt->length,
		.output_length = prompt->output,
		.stored_length = prompt->stored,
		.session = prompt->session,
		.has_delay = prompt->is_follower,
		.hash_ids = prompt->has_no_ids ? NULL : planner->ids,
		.hash_id_count = prompt->has_no_ids ? 0 : count,
	};
	trace_write_row(planner->file, &row);
	planner->latest_ns = planner->now_ns;
}

/* Ids of a prefix that several prompts share. */
static uint64_t take_ids(struct planner *planner, uint32_t prefix)
{
	uint64_t first_id = planner->next_id;

	planner->next_id += prefix / CALIBRATE_ID_TOKENS;
	return first_id;
}

/* The most tokens of each of `rows` contexts that are computed within `seconds`, up to a block. */
static uint32_t ends_within(
	const struct planner *planner, uint32_t rows, uint32_t context, double seconds)
{
	enum { LEAST = 4 };
	uint32_t most = planner->plan->block_size;

	while (most > LEAST && prompt_seconds(planner, 1, context, (uint64_t)rows * most / 2 + 1, 0,
				       0) > seconds) {
		most = most * 7 / 8;
	}
	return most;
}

/* How a context of about `tokens` tokens is made: whole blocks are stored, and its last tokens, at
   most `most`, computed. So contexts end anywhere in a block and in a split of attention, as in
   traffic, or near its begin where `most` is small. Returns its length. */
static uint32_t context_length(
	const struct planner *planner, uint32_t tokens, uint32_t most, uint32_t *stored)
{
	uint32_t block = planner->plan->block_size;

	*stored = (tokens - 1) / block * block;
	return *stored == 0 ? tokens : *stored + 1 + (tokens - 1) % block % most;
}

/* shared: what of a prompt its context shares, and with whom; tokens: behind that. */
static void add_context(struct planner *planner, const struct prompt *shared, uint32_t tokens,
	uint32_t most, uint32_t output)
{
	struct prompt prompt = *shared;

	prompt.output = output;
	prompt.length =
		context_length(planner, prompt.root + prompt.prefix + tokens, most, &prompt.stored);
	add_row(planner, &prompt);
}

/* A single prompt behind a cached prefix. */
static void add_prompt(struct planner *planner, uint64_t first_id, uint32_t prefix, uint32_t own)
{
	const struct prompt prompt = {.first_id = first_id,
		.prefix = prefix,
		.stored = prefix,
		.length = prefix + own,
		.output = 1};

	add_row(planner, &prompt);
}

/* After long prompts a GPU is slower by up to a quarter, for about 0.1 s. Most traces compute short
   prompts and small batches without that slowdown, so one sequence decodes for a while before these
   are measured. */
static void cool_down(struct planner *planner, double seconds)
{
	enum { CONTEXT = 2048, MOST = 400 };
	double each_s = decode_seconds(planner, 1, CONTEXT, CONTEXT);
	uint32_t output = 1 + u32_min(MOST, (uint32_t)(seconds / each_s));

	if (CONTEXT + output + 4 <= planner->plan->max_model_len) {
		planner->now_ns += SECOND_NS * 50;
		add_context(planner, &(struct prompt){0}, CONTEXT + 1, 1, output);
		planner->seconds += each_s * output;
		planner->now_ns += SECOND_NS * 50;
	}
}

/* Prompts one after the other for longer than the clock takes to fall. */
static void heat_up(struct planner *planner)
{
	enum { TOKENS = 2048, MOST = 200 };
	uint32_t own = u32_min(TOKENS, planner->plan->max_num_batched_tokens);
	double each_s = prompt_seconds(planner, 1, 0, own, 0, 0);
	uint32_t count = 1 + u32_min(MOST, (uint32_t)(HEAT_UP_S / each_s));

	for (uint32_t i = 0; i < count && own < planner->plan->max_model_len; i++) {
		planner->now_ns += SECOND_NS / 10;
		add_prompt(planner, planner->next_id, 0, own);
		planner->seconds += each_s;
	}
	planner->now_ns += SECOND_NS * 50;
}

/* Before a scene with prompts, which traffic has on a cool GPU and on a hot one. */
static void set_heat(struct planner *planner)
{
	if (planner->part == HOT_PART) {
		heat_up(planner);
	} else {
		cool_down(planner, COOL_DOWN_S);
	}
}

/* ---- scenes ---- */

/* Prompts are computed in the order of arrival, as many in a step as the budget allows. Meanwhile
   finished prompts already decode. So the early ones get some more tokens, to be still decoding
   when the sweep begins. */
static uint32_t step_of_prompt(
	const struct planner *planner, const uint32_t *lengths, uint32_t count, uint32_t *steps)
{
	uint32_t step = 0, decoding = 0;
	uint64_t budget = planner->plan->max_num_batched_tokens;

	for (uint32_t i = 0; i < count; i++) {
		uint64_t left = lengths[i];
		while (left >= budget) {
			left -= budget;
			step++;
			decoding = i;
			budget = planner->plan->max_num_batched_tokens - decoding;
		}
		budget -= left;
		steps[i] = step;
	}
	return step;
}

/* The largest odd factor. */
static uint32_t odd_part(uint32_t number)
{
	return number >> __builtin_ctz(number);
}

/* The stairs of distinct contexts have every size; other sweeps only 2^k and 3 * 2^k, since what
   they add to a step does not depend on the graph's bucket. */
static bool has_size(const struct scene *scene, uint32_t size)
{
	return size <= scene->rows && (scene->has_every_size || odd_part(size) <= 3);
}

/* Lengths that every scene of single prompts has: 2^k, its neighbours and 3 * 2^k. */
static bool is_usual_length(uint32_t tokens)
{
	bool is_behind = tokens > 1 && odd_part(tokens - 1) == 1;

	return odd_part(tokens) <= 3 || odd_part(tokens + 1) == 1 || is_behind;
}

static uint32_t sizes_above(const struct scene *scene, uint32_t index)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < SWEEP_SIZE_COUNT; i++) {
		count += has_size(scene, sweep_sizes[i]) && sweep_sizes[i] > index;
	}
	return count;
}

static double sweep_seconds(
	const struct planner *planner, const struct scene *scene, uint64_t context)
{
	uint32_t rows = scene->rows, longest = scene->longest;
	double seconds = 0;

	for (uint32_t i = 0; i < SWEEP_SIZE_COUNT; i++) {
		uint64_t size = sweep_sizes[i];
		if (has_size(scene, sweep_sizes[i])) {
			uint64_t share = (context - longest) * size / rows + longest;
			uint64_t most = u64_max(longest, context / rows);
			seconds += SWEEP_STEPS * decode_seconds(planner, size, share, most);
		}
	}
	return seconds;
}

/* Steps of all rows before they are counted, while the GPU cools down from computing contexts. */
static uint32_t sweep_lead(const struct planner *planner, uint64_t rows, uint64_t context)
{
	double each_s = decode_seconds(planner, rows, context, context / rows);

	return u32_min(SWEEP_LEAD_MOST, 1 + (uint32_t)(COOL_DOWN_S / each_s));
}

static void play_decode_sweep(struct planner *planner, const struct scene *whole)
{
	uint32_t *lengths = planner->lengths; /* tokens to compute */
	uint32_t *tokens = memory_take(whole->rows, sizeof(*tokens));
	uint32_t *steps = memory_take(whole->rows, sizeof(*steps));
	uint64_t *first_ids = memory_take(whole->groups + 1, sizeof(*first_ids));
	uint64_t context = 0, computed = 0;
	struct scene scene = *whole;

	scene.rows = draw_rows(planner, whole, tokens);
	uint32_t before = scene.common + scene.prefix;
	uint32_t most = ends_within(planner, scene.rows, before + scene.tokens, SWEEP_ENDS_S);
	uint64_t root_id = take_ids(planner, scene.common);
	for (uint32_t i = 0; i < scene.groups; i++) {
		first_ids[i] = take_ids(planner, scene.prefix);
	}
	for (uint32_t i = 0; i < scene.rows; i++) {
		uint32_t stored;
		uint32_t length = context_length(planner, before + tokens[i], most, &stored);
		lengths[i] = length - stored;
		context += length;
		computed += lengths[i];
	}
	uint32_t last = step_of_prompt(planner, lengths, scene.rows, steps);
	uint32_t lead = sweep_lead(planner, scene.rows, context);
	for (uint32_t i = 0; i < scene.rows; i++) {
		uint32_t output = 1 + last - steps[i] + lead + SWEEP_STEPS * sizes_above(&scene, i);
		const struct prompt shared = {.root_id = root_id,
			.root = scene.common,
			.first_id =
				scene.groups > 0 ? first_ids[i % scene.groups] : planner->next_id,
			.prefix = scene.prefix};
		add_context(planner, &shared, tokens[i], most, output);
	}
	planner->seconds += sweep_seconds(planner, &scene, context);
	planner->seconds += lead * decode_seconds(planner, scene.rows, context,
					   u64_max(scene.longest, context / scene.rows));
	planner->seconds +=
		(last + 1) * prompt_seconds(planner, scene.rows / (last + 1) + 1,
				     context / scene.rows, computed / scene.rows + 1, 0, 0);
	free(first_ids);
	free(steps);
	free(tokens);
}

/* The most tokens, at most `own`, that each of `rows` prompts computes within PROMPT_STEP_S. */
static uint32_t own_within(const struct planner *planner, uint32_t rows, uint32_t prefix,
	uint32_t own, uint32_t decodes, uint32_t context)
{
	while (own > 4 &&
		prompt_seconds(planner, rows, prefix, own, decodes, context) > PROMPT_STEP_S) {
		own = own * 7 / 8;
	}
	return own;
}

/* Whether the GPU rests before a prompt of a usual length. Shorter prompts do not make it hot, and
   longer ones make it hot themselves. */
static bool is_rested(const struct planner *planner, const struct scene *scene, double each_s)
{
	return planner->part != HOT_PART && scene->has_every_size && each_s > REST_LEAST_S &&
	       each_s < REST_S;
}

/* Shortest prompts first, because long ones slow the GPU down. Those behind nothing reach the
   whole budget of a step, however long it takes: a run has such steps. */
static void play_prompts(struct planner *planner, const struct scene *scene)
{
	uint64_t first_id = take_ids(planner, scene->prefix);
	uint32_t most = scene->prefix == 0
				? scene->tokens
				: own_within(planner, 1, scene->prefix, scene->tokens, 0, 0);

	set_heat(planner);
	for (uint32_t i = 0; i < PROMPT_LENGTH_COUNT && prompt_lengths[i] <= most; i++) {
		uint32_t own = prompt_lengths[i];
		double each_s = prompt_seconds(planner, 1, scene->prefix, own, 0, 0);
		bool is_long = each_s > PROMPT_STEP_S, is_usual = is_usual_length(own);
		/* Of those that take long, the powers of two suffice. */
		if (is_long ? odd_part(own) > 1 : !scene->has_every_size && !is_usual) {
			continue;
		}
		if (is_usual && is_rested(planner, scene, each_s)) {
			cool_down(planner, REST_S);
		}
		planner->now_ns += SECOND_NS * 10;
		add_prompt(planner, first_id, scene->prefix, own);
		planner->seconds += each_s;
	}
}

static void play_prefill_batch(struct planner *planner, const struct scene *scene)
{
	uint32_t tokens = own_within(planner, scene->rows, scene->prefix, scene->tokens, 0, 0);
	uint32_t share = (scene->rows - 1) / u32_max(1, scene->groups) + 1; /* of a prefix */

	set_heat(planner);
	for (uint32_t time = 0; time < 2; time++) { /* equal lengths first, then ragged ones */
		planner->now_ns += SECOND_NS * 100;
		uint64_t first_id = 0;
		for (uint32_t i = 0; i < scene->rows; i++) {
			bool is_first = scene->groups == 0 || i % share == 0;
			first_id = is_first ? take_ids(planner, scene->prefix) : first_id;
			uint32_t own = draw_around(
				&planner->random, tokens, time == 0 ? 0 : scene->spread);
			add_prompt(planner, first_id, scene->prefix, own);
		}
		planner->seconds +=
			prompt_seconds(planner, scene->rows, scene->prefix, tokens, 0, 0);
	}
}

/* The lengths of the prompts of a session, of which a crowd's are ragged where the rows are. */
static uint32_t turn_lengths(struct planner *planner, const struct scene *scene, uint32_t *lengths)
{
	enum { RAGGED = 50 };
	const uint32_t *usual = scene->is_between ? between_lengths : mixed_lengths;
	uint32_t count = scene->is_between ? BETWEEN_LENGTH_COUNT : MIXED_LENGTH_COUNT;
	uint32_t most = planner->plan->max_num_batched_tokens - scene->rows, kept = 0;
	uint32_t spread = scene->groups > 0 && scene->spread > 0 ? RAGGED : 0;

	for (uint32_t i = 0; i < (scene->longest > 0 ? PARTS : count); i++) {
		uint32_t own = scene->longest > 0 ? scene->longest : usual[i];
		own = own_within(planner, u32_max(1, scene->groups), scene->prefix,
			u32_min(own, most), scene->rows, scene->common + scene->tokens);
		if (scene->longest > 0 || kept == 0 || own != lengths[kept - 1]) {
			lengths[kept++] = draw_around(&planner->random, own, spread);
		}
	}
	return kept;
}

/* The turns of one session: a short prompt that decodes until the batch does, then prompts that
   each follow the end of the preceding one at once. So which rows a prompt joins does not depend on
   how fast the GPU is. Returns the steps that this takes. */
static uint32_t play_turns(struct planner *planner, const struct scene *scene, bool is_first)
{
	enum { WAIT = 8, OUTPUT = 3 };
	char session[32];
	uint32_t lengths[MIXED_LENGTH_COUNT];
	uint32_t count = turn_lengths(planner, scene, lengths);
	uint32_t crowd = u32_max(1, scene->groups);

	snprintf(session, sizeof(session), "s%llu", (unsigned long long)planner->next_session++);
	add_row(planner, &(struct prompt){.length = 1, .output = WAIT, .session = session});
	for (uint32_t i = 0; i < count; i++) {
		/* Turns with and without ids in turn, so that none continues another's text. */
		const struct prompt prompt = {.first_id = planner->next_id,
			.stored = scene->prefix,
			.length = scene->prefix + lengths[i],
			.output = OUTPUT,
			.session = session,
			.is_follower = true,
			.has_no_ids = i % 2 == 0};
		add_row(planner, &prompt);
		if (is_first) {
			planner->seconds += prompt_seconds(planner, crowd, scene->prefix,
				lengths[i], scene->rows, scene->common + scene->tokens);
		}
	}
	return WAIT + OUTPUT * count;
}

static void play_mixed(struct planner *planner, const struct scene *whole)
{
	enum { STEPS_MOST = 32 };
	uint32_t each = whole->common + whole->tokens, steps = 0;
	uint64_t root_id = take_ids(planner, whole->common);
	struct scene scene = *whole;

	scene.rows = draw_rows(planner, whole, planner->lengths);
	uint32_t most = u32_min(ends_within(planner, scene.rows, each, MIXED_ENDS_S),
		u32_max(4, planner->plan->max_num_batched_tokens / scene.rows));
	set_heat(planner);
	for (uint32_t i = 0; i < scene.rows; i++) {
		add_context(planner, &(struct prompt){.root_id = root_id, .root = scene.common},
			planner->lengths[i], most, STEPS_MOST);
	}
	for (uint32_t i = 0; i < u32_max(1, scene.groups); i++) {
		steps = play_turns(planner, &scene, i == 0);
	}
	check(steps <= STEPS_MOST - 2);
	planner->seconds +=
		decode_seconds(planner, scene.rows, (uint64_t)scene.rows * each, each) * steps;
}

/* Prompts one after the other for some seconds, then a decoding sequence: how the clock falls, and
   how it rises again. */
static void play_burst(struct planner *planner, const struct scene *scene)
{
	double each_s = prompt_seconds(planner, 1, 0, scene->tokens, 0, 0);
	uint32_t count = 3 + u32_min(200, (uint32_t)(BURST_S / each_s));

	cool_down(planner, COOL_DOWN_S);
	for (uint32_t i = 0; i < count; i++) {
		planner->now_ns += SECOND_NS;
		add_prompt(planner, planner->next_id, 0, scene->tokens);
	}
	planner->seconds += count * each_s;
	cool_down(planner, COOL_DOWN_S);
}

static void play(struct planner *planner, const struct scene *scene, uint32_t index)
{
	planner->random = random_stream(planner->plan->seed + index, PURPOSE_SCENES);
	switch (scene->kind) {
	case SCENE_DECODE_SWEEP:
		play_decode_sweep(planner, scene);
		break;
	case SCENE_PROMPTS:
		play_prompts(planner, scene);
		break;
	case SCENE_PREFILL_BATCH:
		play_prefill_batch(planner, scene);
		break;
	case SCENE_MIXED:
		play_mixed(planner, scene);
		break;
	case SCENE_BURST:
		play_burst(planner, scene);
		break;
	}
}

/* ---- the plan ---- */

/* Reduces a scene to what this engine can run: no more sequences than it holds at once, no more
   tokens than the pool has room for and than a sequence may have. */
static bool fit_scene(const struct calibrate_plan *plan, struct scene *scene)
{
	uint64_t pool = pool_tokens(plan);
	uint64_t tokens = (uint64_t)scene->tokens * (100 + scene->spread) / 100;
	uint32_t seats = plan->max_num_seqs;

	if (scene->kind == SCENE_PROMPTS || scene->kind == SCENE_BURST) {
		scene->tokens = u32_min(scene->tokens, plan->max_num_batched_tokens);
		tokens = scene->tokens;
	}
	if (scene->kind == SCENE_MIXED) {
		seats -= u32_min(seats, u32_max(1, scene->groups));
		tokens = u64_max(
			tokens + scene->common, plan->max_num_batched_tokens + scene->prefix);
	} else {
		tokens += scene->common + scene->prefix;
	}
	uint64_t fixed = tokens_beside_rows(plan, scene);
	uint64_t own = tokens_of_row(plan, scene, scene->tokens);
	uint64_t longest = u64_max(tokens, scene->longest) + OUTPUT_ROOM + plan->block_size;
	if (longest > plan->max_model_len || fixed + own > pool || seats == 0) {
		return false;
	}
	scene->rows = u32_min(u32_min(scene->rows, seats), u32_from((pool - fixed) / own));
	return true;
}

/* Seeded order, so that the neighbours of a scene differ between seeds and parts. */
static void shuffle(struct random *random, uint32_t *order, uint32_t count)
{
	for (uint32_t i = count; i > 1; i--) {
		uint32_t j = random_below(random, i);
		uint32_t held = order[i - 1];
		order[i - 1] = order[j];
		order[j] = held;
	}
}

static bool is_same(const struct scene *a, const struct scene *b)
{
	return a->kind == b->kind && a->rows == b->rows && a->tokens == b->tokens &&
	       a->spread == b->spread && a->prefix == b->prefix && a->groups == b->groups &&
	       a->longest == b->longest && a->common == b->common &&
	       a->has_every_size == b->has_every_size && a->is_between == b->is_between;
}

/* Whether a scene, reduced to what the pool holds, is one that is chosen already. */
static bool is_chosen(const struct calibrate_plan *plan, const struct scene *scene,
	const uint32_t *chosen, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct scene other = scenes[chosen[i]];
		if (fit_scene(plan, &other) && is_same(scene, &other)) {
			return true;
		}
	}
	return false;
}

static bool is_once(const struct scene *scene)
{
	return scene->kind == SCENE_DECODE_SWEEP || scene->kind == SCENE_BURST;
}

/* Chooses the scenes that fit into pool and budget, in order of importance; returns their number.
   A sweep and a burst are played once, since they take several steps of each size; others once in
   each part. */
static uint32_t choose(struct planner *planner, uint32_t *chosen, struct calibrate_plan_size *size)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < SCENE_COUNT; i++) {
		struct scene scene = scenes[i];
		double before = planner->seconds;
		if (fit_scene(planner->plan, &scene) &&
			!is_chosen(planner->plan, &scene, chosen, count)) {
			for (uint32_t part = 0; part < (is_once(&scene) ? 1 : PARTS); part++) {
				planner->part = part;
				play(planner, &scene, i);
			}
			if (planner->seconds <= planner->plan->budget_s) {
				chosen[count++] = i;
				continue;
			}
		}
		planner->seconds = before;
		size->scenes_left_out++;
	}
	size->scenes = count;
	size->estimate_s = planner->seconds;
	return count;
}

static void open_planner(struct planner *planner, const struct calibrate_plan *plan)
{
	*planner = (struct planner){
		.plan = plan,
		.ids = memory_take(
			plan->max_model_len / CALIBRATE_ID_TOKENS + 1, sizeof(*planner->ids)),
		.lengths = memory_take(plan->max_num_seqs, sizeof(*planner->lengths)),
	};
}

static void close_planner(struct planner *planner)
{
	free(planner->ids);
	free(planner->lengths);
}

/* The smaller run of steps launched ahead; fewer rows where the pool has no room for more. */
static const struct scene ahead_scene = {
	SCENE_DECODE_SWEEP, .rows = 512, .tokens = 100, .spread = 50, .has_every_size = true};

static void play_if_fit(struct planner *planner, const struct scene *scene)
{
	struct scene fitted = *scene;

	if (fit_scene(planner->plan, &fitted)) {
		play(planner, &fitted, SCENE_COUNT);
	}
}

void calibrate_plan_write(
	const struct calibrate_plan *plan, FILE *file, struct calibrate_plan_size *size)
{
	const struct scene warm = {SCENE_DECODE_SWEEP, .rows = 64, .tokens = 500, .spread = 50};
	struct random random = random_stream(plan->seed, PURPOSE_ORDER);
	uint32_t chosen[SCENE_COUNT], order[SCENE_COUNT];
	struct planner planner;
	uint64_t played = 0;

	memset(size, 0, sizeof(*size));
	open_planner(&planner, plan);
	play_if_fit(&planner, &warm);
	play_if_fit(&planner, &ahead_scene);
	uint32_t count = choose(&planner, chosen, size);
	planner.file = file;
	planner.now_ns = 0;
	planner.part = 0;
	/* A replay of closed sessions refuses a trace without any. Two times that are less than
	   TICK_MIN_NS (workloads/ties.h) apart are not a coarse clock's. */
	for (uint32_t i = 0; i < 2; i++) {
		planner.now_ns = i * SECOND_NS / 1000;
		add_row(&planner, &(struct prompt){.length = 1, .output = 1, .session = "warm"});
	}
	play_if_fit(&planner, &warm);
	for (uint32_t part = 0; part < PARTS; part++) {
		uint32_t played_here = 0;
		planner.part = part;
		for (uint32_t i = 0; i < count; i++) {
			if (!is_once(&scenes[chosen[i]]) || i % PARTS == part) {
				order[played_here++] = chosen[i];
			}
		}
		shuffle(&random, order, played_here);
		for (uint32_t i = 0; i < played_here; i++) {
			struct scene scene = scenes[order[i]];
			planner.now_ns = SCENE_NS * ++played;
			check(fit_scene(plan, &scene));
			play(&planner, &scene, order[i]);
		}
	}
	close_planner(&planner);
}

void calibrate_plan_write_ahead(const struct calibrate_plan *plan, FILE *file)
{
	struct planner planner;

	open_planner(&planner, plan);
	planner.file = file;
	play_if_fit(&planner, &ahead_scene);
	close_planner(&planner);
}
