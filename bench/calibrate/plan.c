#include "bench/calibrate/plan.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "engine/batch.h"
#include "engine/shape/weight_shape.h"
#include "workloads/generate/random.h"
#include "workloads/trace/trace_writer.h"

#include <stdlib.h>
#include <string.h>

#define SECOND_NS UINT64_C(1000000000)
#define COOL_DOWN_S 0.06

enum {
	ID_TOKENS = 512, /* tokens per hash id of the trace */
	SWEEP_STEPS = 4, /* at each size of a decode sweep */
	PURPOSE_SCENES = 0x63616c69,
	ROUNDS = 2, /* every scene is run twice, with different random draws */
};

enum scene_kind { SCENE_DECODE_SWEEP, SCENE_PROMPTS, SCENE_PREFILL_BATCH, SCENE_MIXED };

/* tokens: of a sequence's context (mixed), or of a prompt without its prefix. spread: lengths are
   uniform in tokens * (1 -+ spread / 100). groups: of a sweep's rows; each group shares a prefix.
   longest: tokens of a sweep's first row, which decodes to the end; 0: no such row. */
struct scene {
	enum scene_kind kind;
	uint32_t rows, tokens, spread, prefix, groups, longest;
};

/* In order of falling importance. */
static const struct scene scenes[] = {
	{SCENE_DECODE_SWEEP, 512, 200, 60, 0, 0, 0},
	{SCENE_PROMPTS, 1, 16384, 0, 0, 0, 0},
	{SCENE_MIXED, 32, 600, 50, 0, 0, 0},
	{SCENE_DECODE_SWEEP, 512, 700, 40, 0, 0, 0},
	{SCENE_MIXED, 160, 500, 50, 0, 0, 0},
	{SCENE_DECODE_SWEEP, 64, 400, 60, 512, 4, 0},
	{SCENE_PROMPTS, 1, 8192, 0, 2048, 0, 0},
	{SCENE_DECODE_SWEEP, 256, 1500, 90, 0, 0, 0},
	{SCENE_DECODE_SWEEP, 16, 800, 60, 0, 0, 16000},
	{SCENE_PROMPTS, 1, 8192, 0, 8192, 0, 0},
	{SCENE_DECODE_SWEEP, 256, 400, 60, 1024, 16, 0},
	{SCENE_MIXED, 20, 700, 60, 0, 0, 0},
	{SCENE_MIXED, 4, 1000, 20, 0, 0, 0},
	{SCENE_MIXED, 12, 1500, 80, 0, 0, 0},
	{SCENE_MIXED, 64, 800, 60, 0, 0, 0},
	{SCENE_DECODE_SWEEP, 512, 20, 20, 0, 0, 0},
	{SCENE_DECODE_SWEEP, 512, 200, 60, 512, 2, 0},
	{SCENE_PREFILL_BATCH, 16, 900, 80, 0, 0, 0},
	{SCENE_DECODE_SWEEP, 24, 10000, 70, 0, 0, 0},
	{SCENE_PREFILL_BATCH, 4, 3500, 50, 0, 0, 0},
	{SCENE_DECODE_SWEEP, 5, 4000, 80, 0, 0, 0},
	{SCENE_DECODE_SWEEP, 24, 3000, 80, 0, 0, 36000},
	{SCENE_PREFILL_BATCH, 64, 200, 90, 0, 0, 0},
	{SCENE_PREFILL_BATCH, 8, 250, 60, 0, 0, 0},
	{SCENE_DECODE_SWEEP, 8, 30000, 70, 0, 0, 0},
	{SCENE_PREFILL_BATCH, 3, 1200, 60, 0, 0, 0},
	{SCENE_PREFILL_BATCH, 256, 50, 50, 0, 0, 0},
	{SCENE_DECODE_SWEEP, 32, 1500, 80, 4096, 3, 0},
	{SCENE_PREFILL_BATCH, 2, 60, 50, 0, 0, 0},
	{SCENE_MIXED, 400, 400, 50, 0, 0, 0},
	{SCENE_PROMPTS, 1, 8192, 0, 32768, 0, 0},
	{SCENE_DECODE_SWEEP, 64, 5000, 90, 0, 0, 0},
	{SCENE_DECODE_SWEEP, 128, 100, 60, 4096, 8, 0},
	{SCENE_DECODE_SWEEP, 3, 600, 0, 0, 0, 0},
	{SCENE_DECODE_SWEEP, 12, 300, 60, 16384, 1, 0},
	{SCENE_PREFILL_BATCH, 8, 300, 60, 2048, 0, 0},
	{SCENE_PREFILL_BATCH, 4, 1000, 60, 8192, 0, 0},
	{SCENE_DECODE_SWEEP, 16, 16000, 60, 0, 0, 0},
	{SCENE_PROMPTS, 1, 512, 0, 512, 0, 0},
	{SCENE_PROMPTS, 1, 4096, 0, 98304, 0, 0},
	{SCENE_DECODE_SWEEP, 12, 2000, 90, 0, 0, 64000},
	{SCENE_DECODE_SWEEP, 32, 1000, 80, 0, 0, 8000},
	{SCENE_MIXED, 16, 12000, 50, 0, 0, 0},
	{SCENE_DECODE_SWEEP, 4, 80000, 30, 0, 0, 0},
};

enum { SCENE_COUNT = sizeof(scenes) / sizeof(scenes[0]) };

/* Batch sizes of a decode sweep, descending: both sides of many graph buckets
   (engine/shape/graph_bucket.h), and some between them. */
static const uint32_t sweep_sizes[] = {512, 497, 496, 480, 465, 449, 448, 420, 400, 385, 384, 352,
	333, 321, 320, 289, 288, 272, 257, 256, 255, 241, 240, 224, 209, 193, 192, 177, 176, 161,
	160, 145, 144, 129, 128, 113, 112, 97, 96, 81, 80, 65, 64, 56, 49, 48, 40, 33, 32, 28, 24,
	20, 17, 16, 14, 12, 10, 9, 8, 6, 5, 4, 3, 2, 1};

enum { SWEEP_SIZE_COUNT = sizeof(sweep_sizes) / sizeof(sweep_sizes[0]) };

/* On both sides of the kernels' tile sizes; further lengths are drawn. */
static const uint32_t prompt_lengths[] = {16, 17, 32, 48, 63, 64, 65, 96, 127, 128, 129, 192, 255,
	256, 257, 384, 512, 513, 1024, 2048, 4096, 8192, 16384};

enum { PROMPT_LENGTH_COUNT = sizeof(prompt_lengths) / sizeof(prompt_lengths[0]), DRAWN = 16 };

struct planner {
	const struct calibrate_plan *plan;
	struct random random;
	FILE *file; /* NULL: only estimate the duration */
	uint64_t now_ns;
	uint64_t next_id;  /* first unused hash id */
	double seconds;	   /* estimated so far */
	uint64_t *ids;	   /* (max_model_len / ID_TOKENS + 1) */
	uint32_t *lengths; /* (max_num_seqs) */
};

/* ---- estimates ---- */

static double prefill_seconds(const struct planner *planner, uint64_t first, uint64_t count)
{
	const struct model_config *model = planner->plan->model;
	const struct gpu_profile *gpu = planner->plan->gpu;
	double parameters = 0;

	for (uint32_t i = 0; i < MODEL_LINEAR_LM_HEAD; i++) {
		struct model_linear_shape shape = model_linear_shape(model, (enum model_linear)i);
		parameters += (double)shape.inputs * shape.outputs * model->num_hidden_layers;
	}
	double pairs = (double)batch_attention_pairs(first, count);
	double pair_flops =
		4.0 * model->head_dim * model->num_attention_heads * model->num_hidden_layers;
	double rate = gpu->linear[MODEL_LINEAR_QKV].flop_rate * gpu->product_sustained;
	return (double)count * 2 * parameters / rate / 1e12 +
	       pairs * pair_flops / (gpu->prefill_attention_rate * 0.6) / 1e12;
}

/* A lower bound of a decode step's time, by its bytes. */
static double decode_seconds(const struct planner *planner, uint64_t context)
{
	const struct model_config *model = planner->plan->model;
	double bytes = (double)weight_total_bytes(model) +
		       (double)context * (double)model_config_kv_bytes_per_token(model);

	return bytes / planner->plan->gpu->decode_attention_rate / 1e9;
}

/* ---- rows ---- */

/* About log-uniform: draws an octave, then a length in it. */
static uint32_t draw_length(struct random *random, uint32_t low, uint32_t high)
{
	uint32_t octaves = 0;

	while (low << (octaves + 1) <= high) {
		octaves++;
	}
	uint32_t begin = low << random_range(random, 0, octaves);
	return u32_min(begin + random_below(random, begin), high);
}

static uint32_t draw_around(struct random *random, uint32_t tokens, uint32_t spread)
{
	uint32_t reach = (uint32_t)((uint64_t)tokens * spread / 100);

	return u32_max(1, tokens - reach + random_range(random, 0, 2 * reach));
}

/* A prompt of `prefix` tokens whose ids begin at first_id, and of `own` tokens that no other prompt
   has. */
static void add_row(
	struct planner *planner, uint64_t first_id, uint32_t prefix, uint32_t own, uint32_t output)
{
	uint32_t length = prefix + own;
	uint32_t shared = prefix / ID_TOKENS;
	uint32_t count = (length + ID_TOKENS - 1) / ID_TOKENS;

	check(prefix % ID_TOKENS == 0);
	check(length + output <= planner->plan->max_model_len);
	planner->seconds += prefill_seconds(planner, prefix, own);
	if (planner->file == NULL) {
		return;
	}
	for (uint32_t i = 0; i < count; i++) {
		planner->ids[i] = i < shared ? first_id + i : planner->next_id++;
	}
	const struct trace_row row = {
		.arrival_ns = planner->now_ns,
		.input_length = length,
		.output_length = output,
		.hash_ids = planner->ids,
		.hash_id_count = count,
	};
	trace_write_row(planner->file, &row);
}

/* A prompt whose K/V is cached for later prompts; returns its first id. */
static uint64_t add_prefix(struct planner *planner, uint32_t prefix)
{
	uint64_t first_id = planner->next_id;

	planner->next_id += prefix / ID_TOKENS;
	/* One token more, since the last block of a prompt is never a hit. */
	add_row(planner, first_id, prefix, 1, 1);
	planner->seconds += prefill_seconds(planner, 0, prefix);
	return first_id;
}

/* After long prompts a GPU is slower by up to a tenth, for about 0.1 s. Most traces compute short
   prompts and small batches without that slowdown, so one sequence decodes for a while before these
   are measured. */
static void cool_down(struct planner *planner)
{
	enum { CONTEXT = 2048 };
	uint32_t output = 1 + (uint32_t)(COOL_DOWN_S / 2 / decode_seconds(planner, CONTEXT));

	if (CONTEXT + output <= planner->plan->max_model_len) {
		planner->now_ns += SECOND_NS * 50;
		add_row(planner, planner->next_id, 0, CONTEXT, output);
		planner->seconds += COOL_DOWN_S;
		planner->now_ns += SECOND_NS * 50;
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

static uint32_t sizes_above(uint32_t index, uint32_t most)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < SWEEP_SIZE_COUNT; i++) {
		count += sweep_sizes[i] <= most && sweep_sizes[i] > index;
	}
	return count;
}

static void play_decode_sweep(struct planner *planner, const struct scene *scene, uint32_t round)
{
	enum { COOLED_ROWS_MAX = 64 };
	uint32_t *lengths = planner->lengths;
	uint32_t *steps = memory_take(scene->rows, sizeof(*steps));
	uint64_t *first_ids = memory_take(scene->groups + 1, sizeof(*first_ids));
	uint64_t context = 0;

	for (uint32_t i = 0; i < scene->groups; i++) {
		first_ids[i] = add_prefix(planner, scene->prefix);
	}
	planner->now_ns += scene->groups > 0 ? SECOND_NS * 100 : 0;
	if (scene->rows <= COOLED_ROWS_MAX) { /* steps of more rows heat the GPU anyway */
		cool_down(planner);
	}
	for (uint32_t i = 0; i < scene->rows; i++) {
		/* The second round uses contexts between those of the first. */
		uint32_t tokens = round == 0 ? scene->tokens : scene->tokens * 3 / 4;
		lengths[i] = draw_around(&planner->random, tokens, scene->spread);
		if (i == 0 && scene->longest > 0) {
			lengths[i] = round == 0 ? scene->longest : scene->longest * 3 / 4;
		}
		context += scene->prefix + lengths[i];
	}
	uint32_t last = step_of_prompt(planner, lengths, scene->rows, steps);
	for (uint32_t i = 0; i < scene->rows; i++) {
		uint32_t output = 1 + last - steps[i] + SWEEP_STEPS * sizes_above(i, scene->rows);
		uint64_t first_id =
			scene->groups > 0 ? first_ids[i % scene->groups] : planner->next_id;
		add_row(planner, first_id, scene->prefix, lengths[i], output);
	}
	planner->seconds +=
		decode_seconds(planner, context / 2) * SWEEP_STEPS * sizes_above(0, scene->rows);
	free(first_ids);
	free(steps);
}

static int compare_lengths(const void *a, const void *b)
{
	const uint32_t *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

/* Shortest prompts first, because long ones slow the GPU down. */
static void play_prompts(struct planner *planner, const struct scene *scene)
{
	uint64_t first_id = scene->prefix > 0 ? add_prefix(planner, scene->prefix) : 0;
	enum { SHORT = 1024 };
	bool is_long = scene->prefix > 4096;
	uint32_t lengths[PROMPT_LENGTH_COUNT + DRAWN];

	for (uint32_t i = 0; i < PROMPT_LENGTH_COUNT + DRAWN; i++) {
		lengths[i] = i < PROMPT_LENGTH_COUNT
				     ? prompt_lengths[i]
				     : draw_length(&planner->random, 64, scene->tokens);
	}
	qsort(lengths, PROMPT_LENGTH_COUNT + DRAWN, sizeof(lengths[0]), compare_lengths);
	cool_down(planner);
	for (uint32_t i = 0; i < PROMPT_LENGTH_COUNT + DRAWN; i++) {
		/* Behind long prefixes only every other length; long prompts once, since they take
		   long. */
		if (lengths[i] > scene->tokens || (is_long && i % 2 == 0)) {
			continue;
		}
		for (uint32_t time = 0; time < (is_long || lengths[i] > SHORT ? 1 : 2); time++) {
			planner->now_ns += SECOND_NS * 10;
			add_row(planner, first_id, scene->prefix, lengths[i], 1);
		}
	}
}

static void play_prefill_batch(struct planner *planner, const struct scene *scene)
{
	uint64_t *first_ids = memory_take(scene->rows, sizeof(*first_ids));

	for (uint32_t i = 0; i < scene->rows && scene->prefix > 0; i++) {
		first_ids[i] = add_prefix(planner, scene->prefix);
	}
	cool_down(planner);
	for (uint32_t time = 0; time < 4; time++) {
		planner->now_ns += SECOND_NS * 100;
		for (uint32_t i = 0; i < scene->rows; i++) {
			if (time % 2 == 0) { /* equal lengths first, then ragged ones */
				planner->lengths[i] = draw_around(&planner->random, scene->tokens,
					time == 0 ? 0 : scene->spread);
			}
			add_row(planner, first_ids[i], scene->prefix, planner->lengths[i], 1);
		}
	}
	free(first_ids);
}

/* The batch must still decode when the last prompt arrives, however fast the GPU is. */
static void play_mixed(struct planner *planner, const struct scene *scene)
{
	enum { PROMPTS = 32, PLANNED = 10, LONGEST = 4096 };
	uint32_t own[PROMPTS];
	double gap_s[PROMPTS], prefill_s = 0, wait_s = COOL_DOWN_S;
	uint64_t context = (uint64_t)scene->rows * scene->tokens;
	double fastest_s = decode_seconds(planner, context);

	for (uint32_t i = 0; i < PROMPTS; i++) {
		own[i] = i < PLANNED ? prompt_lengths[2 * i]
				     : draw_length(&planner->random, 32, LONGEST);
	}
	qsort(own, PROMPTS, sizeof(own[0]), compare_lengths);
	for (uint32_t i = 0; i < PROMPTS; i++) {
		gap_s[i] = 4 * fastest_s + 1.3 * prefill_seconds(planner, 0, own[i]);
		wait_s += gap_s[i];
	}
	for (uint32_t i = 0; i < scene->rows; i++) {
		planner->lengths[i] = draw_around(&planner->random, scene->tokens, scene->spread);
		prefill_s += prefill_seconds(planner, 0, planner->lengths[i]);
	}
	uint32_t output = 10 + (uint32_t)((wait_s + prefill_s * 0.3) / fastest_s);
	for (uint32_t i = 0; i < scene->rows; i++) {
		/* A small model decodes so fast that its sequences would outgrow their limit. */
		uint32_t room = planner->plan->max_model_len - planner->lengths[i];
		add_row(planner, planner->next_id, 0, planner->lengths[i], u32_min(output, room));
	}
	planner->now_ns += (uint64_t)(prefill_s * 1.3e9 + COOL_DOWN_S * 1e9);
	for (uint32_t i = 0; i < PROMPTS; i++) {
		planner->now_ns += (uint64_t)(gap_s[i] * 1e9);
		add_row(planner, planner->next_id, 0, own[i], 1);
	}
	planner->seconds += fastest_s * 1.5 * output;
}

static void play(struct planner *planner, const struct scene *scene, uint32_t round)
{
	switch (scene->kind) {
	case SCENE_DECODE_SWEEP:
		play_decode_sweep(planner, scene, round);
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
	}
}

/* ---- the plan ---- */

/* Reduces a scene to what this engine can run: no more sequences than it holds at once, no more
   tokens than the pool has room for. */
static bool fit_scene(const struct calibrate_plan *plan, struct scene *scene)
{
	enum { OUTPUT_ROOM = 400 }; /* estimate of the tokens a sequence decodes */
	uint64_t pool = (uint64_t)plan->kv_blocks * plan->block_size * 9 / 10;
	uint64_t tokens = (uint64_t)scene->tokens * (100 + scene->spread) / 100;
	uint64_t longest = u64_max(tokens, scene->longest) + scene->prefix +
			   SWEEP_STEPS * SWEEP_SIZE_COUNT + plan->block_size;

	if (scene->kind == SCENE_PROMPTS) {
		scene->tokens = u32_min(scene->tokens, plan->max_num_batched_tokens);
	}
	if (scene->kind == SCENE_MIXED) {
		longest += 4096;
	}
	scene->rows = u32_min(scene->rows, plan->max_num_seqs);
	uint64_t needed = scene->longest +
			  (uint64_t)scene->rows * (scene->tokens + scene->prefix + OUTPUT_ROOM +
							  plan->block_size / 2);
	return longest <= plan->max_model_len && needed <= pool;
}

/* Seeded order, so that the neighbours of a scene differ between seeds. */
static void shuffle(struct random *random, uint32_t *order, uint32_t count)
{
	for (uint32_t i = count; i > 1; i--) {
		uint32_t j = random_below(random, i);
		uint32_t held = order[i - 1];
		order[i - 1] = order[j];
		order[j] = held;
	}
}

/* Chooses the scenes that fit into pool and budget, in order of importance, round after round;
   returns their number. An entry is round * SCENE_COUNT + scene. */
static uint32_t choose(struct planner *planner, uint32_t *order, struct calibrate_plan_size *size)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < ROUNDS * SCENE_COUNT; i++) {
		struct scene scene = scenes[i % SCENE_COUNT];
		double before = planner->seconds;
		if (fit_scene(planner->plan, &scene)) {
			play(planner, &scene, i / SCENE_COUNT);
			if (planner->seconds <= planner->plan->budget_s) {
				order[count++] = i;
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
		.random = random_stream(plan->seed, PURPOSE_SCENES),
		.ids = memory_take(plan->max_model_len / ID_TOKENS + 1, sizeof(*planner->ids)),
		.lengths = memory_take(plan->max_num_seqs, sizeof(*planner->lengths)),
	};
}

static void close_planner(struct planner *planner)
{
	free(planner->ids);
	free(planner->lengths);
}

void calibrate_plan_write(
	const struct calibrate_plan *plan, FILE *file, struct calibrate_plan_size *size)
{
	const struct scene warm = {
		SCENE_DECODE_SWEEP, u32_min(64, plan->max_num_seqs), 500, 50, 0, 0, 0};
	uint32_t order[ROUNDS * SCENE_COUNT];
	struct planner planner;

	memset(size, 0, sizeof(*size));
	open_planner(&planner, plan);
	play(&planner, &warm, 0);
	uint32_t count = choose(&planner, order, size);
	planner.file = file;
	planner.now_ns = 0;
	shuffle(&planner.random, order, count);
	play(&planner, &warm, 0);
	for (uint32_t i = 0; i < count; i++) {
		struct scene scene = scenes[order[i] % SCENE_COUNT];
		planner.now_ns = CALIBRATE_WARM_NS * (i + 1);
		check(fit_scene(plan, &scene));
		play(&planner, &scene, order[i] / SCENE_COUNT);
	}
	close_planner(&planner);
}

void calibrate_plan_write_ahead(const struct calibrate_plan *plan, FILE *file)
{
	struct scene sweep = {SCENE_DECODE_SWEEP, 512, 100, 50, 0, 0, 0};
	struct planner planner;

	open_planner(&planner, plan);
	planner.file = file;
	while (!fit_scene(plan, &sweep) && sweep.rows > 1) {
		sweep.rows /= 2;
	}
	play(&planner, &sweep, 0);
	close_planner(&planner);
}
