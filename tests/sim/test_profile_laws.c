#include "engine/base/integer.h"
#include "engine/shape/graph_bucket.h"
#include "engine/shape/weight_shape.h"
#include "sim/cost_model.h"
#include "sim/price_by_operations.h"
#include "sim/profile_laws.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/files.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* The laws of sim/profile_laws.h, for every built-in profile: on random steps, which are made of
   rows and prompts with their blocks, and on a dense grid. */

enum {
	ROWS_MAX = 512,
	PROMPTS_MAX = 32,
	GROUPS_MAX = 4,
	BLOCK = 256,
	BLOCKS_MAX = 512,
	TILES_MAX = 200
};

struct drawn_row {
	uint64_t context, shared; /* shared: tokens of its group's prefix, whole blocks */
	uint32_t group;
};

struct drawn_prompt {
	uint64_t prefix, tokens, shared; /* shared: of the prefix, with its group, whole blocks */
	uint32_t group;
};

struct drawn_step {
	uint32_t row_count, prompt_count;
	bool has_tiles; /* in its counts; those of another engine have none */
	struct prefill_spread spread;
	uint32_t readers;
	struct drawn_row rows[ROWS_MAX + 1];
	struct drawn_prompt prompts[PROMPTS_MAX];
};

/* Sharing, block by block: of k holders k - 1 are saved, and (k - 1) / k read again where each
   reads; where one reading serves several, it is repeated until all are served. */
static void count_shared(const struct drawn_step *step, struct step_counts *counts)
{
	static uint32_t holders[GROUPS_MAX][BLOCKS_MAX + 1];
	double reread = 0;

	memset(holders, 0, sizeof(holders));
	for (uint32_t i = 0; i < step->row_count; i++) {
		for (uint64_t j = 0; j < step->rows[i].shared / BLOCK; j++) {
			holders[step->rows[i].group][j]++;
		}
	}
	for (uint32_t i = 0; i < GROUPS_MAX * (BLOCKS_MAX + 1); i++) {
		uint32_t k = holders[i / (BLOCKS_MAX + 1)][i % (BLOCKS_MAX + 1)];
		counts->shared_tokens += k > 1 ? (uint64_t)(k - 1) * BLOCK : 0;
		reread += k > 1 ? (double)BLOCK * (k - 1) / k : 0;
		for (uint32_t served = step->readers; served > 0 && served < k;) {
			counts->repeat_tokens += BLOCK;
			served += step->readers;
		}
	}
	counts->reread_tokens = (uint64_t)reread;
}

static void count_shared_by_prompts(const struct drawn_step *step, struct step_counts *counts)
{
	static uint32_t holders[GROUPS_MAX][BLOCKS_MAX + 1];

	memset(holders, 0, sizeof(holders));
	for (uint32_t i = 0; i < step->prompt_count; i++) {
		const struct drawn_prompt *prompt = &step->prompts[i];
		for (uint64_t j = 0; j < prompt->shared / BLOCK; j++) {
			counts->prefill_shared_tokens +=
				holders[prompt->group][j]++ > 0 ? BLOCK : 0;
		}
	}
}

static void count_tiles(const struct drawn_step *step, struct step_counts *counts)
{
	static uint32_t tiles[TILES_MAX];
	uint32_t count = 0;
	uint64_t longest = 0, alone = 0;

	for (uint32_t i = 0; i < step->prompt_count; i++) {
		const struct drawn_prompt *prompt = &step->prompts[i];
		counts->prefill_tile_keys += prefill_tile_keys(prompt->prefix, prompt->tokens);
		counts->prefill_context_tokens += prompt->prefix + prompt->tokens;
		longest = u64_max(longest, prompt->prefix + prompt->tokens);
		alone = u64_max(alone, prefill_half_chain_of_prompt(
					       prompt->prefix, prompt->tokens, &step->spread));
		count += prefill_tiles_list(
			tiles + count, (uint32_t)prompt->prefix, (uint32_t)prompt->tokens);
	}
	counts->prefill_tiles = count;
	prefill_tiles_sort(tiles, count);
	counts->prefill_chain_keys = prefill_chain_keys(tiles, count, &step->spread);
	counts->prefill_half_chain_keys =
		prefill_half_chain_keys(tiles, count, longest, alone, &step->spread);
}

static struct step_counts counts_of(const struct drawn_step *step)
{
	struct step_counts counts = {
		.decode_rows = step->row_count,
		.prefill_rows = step->prompt_count,
		.sampled_rows = step->row_count + step->prompt_count,
	};

	for (uint32_t i = 0; i < step->row_count; i++) {
		uint64_t context = step->rows[i].context;
		counts.decode_context_tokens += context;
		counts.decode_longest_context = u64_max(counts.decode_longest_context, context);
	}
	for (uint32_t i = 0; i < step->prompt_count; i++) {
		const struct drawn_prompt *prompt = &step->prompts[i];
		counts.prefill_tokens += prompt->tokens;
		counts.prefill_attention_pairs +=
			batch_attention_pairs(prompt->prefix, prompt->tokens);
		counts.prefill_longest_context =
			u64_max(counts.prefill_longest_context, prompt->prefix + prompt->tokens);
	}
	if (step->has_tiles) {
		count_tiles(step, &counts);
		count_shared_by_prompts(step, &counts);
	}
	count_shared(step, &counts);
	return counts;
}

/* About log-uniform. */
static uint64_t draw_size(struct prop *prop, uint64_t most)
{
	uint32_t octaves = 63 - (uint32_t)__builtin_clzll(most);
	uint64_t top = UINT64_C(1) << prop_below(prop, octaves + 1);

	return u64_min(most, top + prop_below(prop, (uint32_t)top));
}

static void draw_step(struct prop *prop, struct drawn_step *step)
{
	uint32_t kind = prop_below(prop, 3), groups = 1 + prop_below(prop, GROUPS_MAX);
	bool is_shared = prop_chance(prop, 1, 2);

	memset(step, 0, sizeof(*step));
	if (kind != 1) {
		step->row_count = (uint32_t)draw_size(prop, ROWS_MAX);
		uint64_t most = u64_min(131072, 2000000 / step->row_count);
		uint64_t prefix = draw_size(prop, most);
		for (uint32_t i = 0; i < step->row_count; i++) {
			struct drawn_row *row = &step->rows[i];
			row->context = draw_size(prop, most);
			row->group = prop_below(prop, groups);
			row->shared = is_shared ? u64_min(prefix, row->context) / BLOCK * BLOCK : 0;
		}
	}
	if (kind != 0) {
		step->has_tiles = prop_chance(prop, 3, 4);
		step->prompt_count = (uint32_t)draw_size(prop, PROMPTS_MAX);
		uint64_t most = 8192 / step->prompt_count, prefix = draw_size(prop, 100000);
		for (uint32_t i = 0; i < step->prompt_count; i++) {
			bool has_prefix = prop_chance(prop, 1, 3);
			step->prompts[i].tokens = draw_size(prop, most);
			step->prompts[i].prefix =
				has_prefix ? draw_size(prop, 100000) / BLOCK * BLOCK : 0;
			step->prompts[i].group = prop_below(prop, groups);
			step->prompts[i].shared =
				is_shared ? u64_min(prefix, step->prompts[i].prefix) / BLOCK * BLOCK
					  : 0;
		}
	}
}

/* Takes something off a step; false: it would be empty. */
static bool take_off(struct prop *prop, struct drawn_step *step)
{
	uint32_t move = prop_below(prop, 5);

	if (move < 2 && step->row_count > 0) {
		struct drawn_row *row = &step->rows[prop_below(prop, step->row_count)];
		if (move == 0) {
			*row = step->rows[--step->row_count];
		} else {
			row->context = draw_size(prop, row->context);
			/* A block that is cut would be the row's own, no longer shared. */
			if (row->context < row->shared) {
				row->context = u64_max(BLOCK, row->context / BLOCK * BLOCK);
			}
			row->shared = u64_min(row->shared, row->context / BLOCK * BLOCK);
		}
	} else if (step->prompt_count > 0) {
		struct drawn_prompt *prompt = &step->prompts[prop_below(prop, step->prompt_count)];
		if (move < 3) {
			*prompt = step->prompts[--step->prompt_count];
		} else if (move == 3) {
			prompt->tokens = draw_size(prop, prompt->tokens);
		} else {
			/* As above, a shared block is not cut. */
			prompt->prefix = prompt->shared > 0 ? prompt->prefix / 2 / BLOCK * BLOCK
							    : prompt->prefix / 2;
			prompt->shared = u64_min(prompt->shared, prompt->prefix);
		}
	}
	return step->row_count + step->prompt_count > 0;
}

/* ---- profiles ---- */

struct subject {
	struct gpu_profile profile;
	struct model_config model;
	struct operation_floors floors;
	struct heat_prices heat;
	struct runner runner;
};

static void open_subject(struct subject *subject, uint32_t index)
{
	char name[GPU_PROFILE_NAME_BYTES];
	const char *file = gpu_profile_file(index);
	struct error error = {0};

	snprintf(name, sizeof(name), "%.*s", (int)(strlen(file) - 5), file);
	require(gpu_profile_find(name, &subject->profile, &error) == STATUS_OK, "%s", error.text);
	const char *model = subject->profile.is_calibrated ? subject->profile.model : "qwen3-8b";
	uint32_t ranks = subject->profile.is_calibrated ? subject->profile.ranks : 1;
	struct weight_shard shard = {0, ranks};
	require(model_config_builtin(model, &subject->model), "no model %s", model);
	const struct model_config share = weight_shard_config(&subject->model, shard);
	require(subject->profile.has_limits, "%s has no limits", name);
	operation_floors_of(&subject->floors, &subject->profile.prices.limits, &share);
	subject->heat = subject->profile.heat;
	if (subject->heat.decay_ns == 0) {
		subject->heat = (struct heat_prices){0.4, 0.1, 5e7};
	}
	subject->profile.heat = (struct heat_prices){0}; /* prices of a rested GPU */
	enum status status = cost_model_open(
		&subject->runner, &subject->model, &subject->profile, ranks, &error);
	require(status == STATUS_OK, "%s", error.text);
}

/* ns of a step, launched ahead or not. */
static double ns_of(const struct subject *subject, const struct step_counts *counts, bool is_ahead)
{
	const struct batch batch = {.counts = *counts};
	struct step_time time = {0};
	struct error error = {0};
	enum status status = is_ahead ? subject->runner.price(subject->runner.state, counts,
						&time.elapsed_ns, &error)
				      : subject->runner.execute(
						subject->runner.state, &batch, NULL, &time, &error);

	require(status == STATUS_OK, "%s", error.text);
	return (double)time.elapsed_ns;
}

/* The query heads of a rank, over the multiprocessors that the profile names; a profile that knows
   no tiles has none. Where shared tokens are read once, four warps have eight query heads each. */
Test(profile_laws, tiles_are_spread_over_heads_and_multiprocessors)
{
	for (uint32_t i = 0; i < gpu_profile_count(); i++) {
		static struct subject subject;
		open_subject(&subject, i);
		const struct gpu_profile *profile = &subject.profile;
		bool is_known = profile->is_calibrated; /* else it has no ranks */
		uint32_t heads = is_known ? subject.model.num_attention_heads / profile->ranks : 0;
		require_equal(subject.runner.spread.heads, heads);
		require_equal(subject.runner.spread.multiprocessors,
			is_known ? (uint32_t)profile->prices.limits.multiprocessors : 0);
		uint32_t group = is_known ? subject.model.num_attention_heads /
						    subject.model.num_key_value_heads
					  : 0;
		bool reads_once = profile->prices.sharing.tokens > 0;
		require_equal(subject.runner.readers, reads_once ? 8 / group * 4 : 0);
		subject.runner.close(subject.runner.state);
	}
}

/* The shortest time of a step is a sum: what one more of each count adds is its own floor. */
Test(profile_laws, the_roofline_is_a_sum_of_floors)
{
	static struct subject subject;
	const struct step_counts step = {.decode_rows = 8,
		.decode_context_tokens = 80000,
		.decode_longest_context = 10000,
		.shared_tokens = 30000,
		.sampled_rows = 8};

	open_subject(&subject, 0);
	subject.runner.close(subject.runner.state);
	const struct operation_floors *floors = &subject.floors;
	struct step_counts longer = step, alone = step, asking = step;
	longer.decode_context_tokens += 5000;
	alone.shared_tokens -= 5000;
	asking.prefill_attention_pairs = 5000;
	double ns = operation_roofline(floors, &step);
	double context = operation_roofline(floors, &longer) - ns;
	double shared = operation_roofline(floors, &alone) - ns;
	double pairs = operation_roofline(floors, &asking) - ns;
	cr_assert(fabs(context - 5000 * floors->kv_token) < 1e-6 * ns, "%g", context);
	cr_assert(fabs(shared - 5000 * floors->kv_token) < 1e-6 * ns, "%g", shared);
	cr_assert(fabs(pairs - 5000 * floors->pair) < 1e-6 * ns, "%g", pairs);
	cr_assert(context > 1e-4 * ns && pairs > 1e-5 * ns, "%g and %g of %g", context, pairs, ns);
}

static void require_between(double ns, double least, double most, const char *law,
	const struct subject *subject, const struct step_counts *counts)
{
	/* Prices are rounded to whole nanoseconds. */
	require(ns >= least - 2 && ns <= most + 2,
		"%s: %s: %.0f ns, expected %.0f to %.0f, of %llu rows of %llu (longest %llu, %llu "
		"shared), %llu prompts of %llu",
		subject->profile.name, law, ns, least, most,
		(unsigned long long)counts->decode_rows,
		(unsigned long long)counts->decode_context_tokens,
		(unsigned long long)counts->decode_longest_context,
		(unsigned long long)counts->shared_tokens, (unsigned long long)counts->prefill_rows,
		(unsigned long long)counts->prefill_tokens);
}

static void require_mixed(
	const struct subject *subject, const struct step_counts *counts, bool is_ahead, double ns)
{
	struct step_counts decodes = *counts, prompts = *counts;

	decodes.prefill_rows = decodes.prefill_tokens = decodes.prefill_attention_pairs = 0;
	decodes.prefill_longest_context = 0;
	decodes.sampled_rows = counts->decode_rows;
	prompts.decode_rows = prompts.decode_context_tokens = prompts.decode_longest_context = 0;
	prompts.shared_tokens = prompts.reread_tokens = prompts.repeat_tokens = 0;
	prompts.sampled_rows = counts->prefill_rows;
	double a = ns_of(subject, &decodes, is_ahead), b = ns_of(subject, &prompts, is_ahead);
	require_between(
		ns, fmax(a, b), 1.25 * (a + b), "a mixed step and its parts", subject, counts);
}

static double hot_ns(
	const struct subject *subject, double heat, const struct step_counts *counts, bool is_ahead)
{
	double ns = ns_of(subject, counts, is_ahead);

	return ns + heat_extra_ns(&subject->heat, heat, heat_flops_ns(&subject->floors, counts),
			    counts, ns);
}

/* Over the edge of sharing a step may cost less than a smaller one. */
static bool is_over_sharing(const struct subject *subject, const struct step_counts *counts,
	const struct step_counts *less)
{
	const struct operation_sharing *rule = &subject->profile.prices.sharing;

	return (subject->profile.edges >> PRICE_EDGE_sharing & 1) != 0 &&
	       operation_shares(rule, counts) && !operation_shares(rule, less) &&
	       less->shared_tokens > 0;
}

/* The same on a GPU that is hot, but that a mixed step may cost a little more than 1.25 times its
   parts, of which the decode rows alone pay the lower rise. */
static void body_laws_at_any_heat(struct prop *prop, const void *context)
{
	const struct subject *subject = context;
	static struct drawn_step step;
	double heat = prop_below(prop, 1001) / 1000.0;
	bool is_ahead = prop_chance(prop, 1, 2);

	draw_step(prop, &step);
	step.spread = subject->runner.spread;
	step.readers = subject->runner.readers;
	const struct step_counts counts = counts_of(&step);
	double rested = ns_of(subject, &counts, is_ahead);
	double ns = hot_ns(subject, heat, &counts, is_ahead);
	double share = fmin(1, heat_flops_ns(&subject->floors, &counts) / rested);
	require_between(ns, fmax(rested, operation_roofline(&subject->floors, &counts)),
		rested * (1 + subject->heat.prompt * fmax(heat, share)), "hot", subject, &counts);
	require_between(ns, hot_ns(subject, heat / 2, &counts, is_ahead), INFINITY, "less hot",
		subject, &counts);
	if (take_off(prop, &step)) {
		const struct step_counts less = counts_of(&step);
		double most = is_over_sharing(subject, &counts, &less) ? INFINITY : ns;
		require_between(hot_ns(subject, heat, &less, is_ahead), 0, most,
			"a smaller hot step", subject, &counts);
	}
}

Test(profile_laws, hold_on_a_hot_gpu, .timeout = 300)
{
	for (uint32_t i = 0; i < gpu_profile_count(); i++) {
		static struct subject subject;
		open_subject(&subject, i);
		const struct prop_options options = {.name = subject.profile.name,
			.body = body_laws_at_any_heat,
			.context = &subject,
			.trials = subject.profile.is_calibrated ? 1000 : 0};
		cr_assert(options.trials == 0 || prop_holds(&options));
		subject.runner.close(subject.runner.state);
	}
}

static void body_laws(struct prop *prop, const void *context)
{
	const struct subject *subject = context;
	static struct drawn_step step;
	bool is_ahead = prop_chance(prop, 1, 2);

	draw_step(prop, &step);
	step.spread = subject->runner.spread;
	step.readers = subject->runner.readers;
	const struct step_counts counts = counts_of(&step);
	double ns = ns_of(subject, &counts, is_ahead);
	require_between(ns, operation_roofline(&subject->floors, &counts), INFINITY, "roofline",
		subject, &counts);
	if (step.row_count > 0 && step.prompt_count > 0) {
		require_mixed(subject, &counts, is_ahead, ns);
	}
	if (take_off(prop, &step)) {
		const struct step_counts less = counts_of(&step);
		double most = is_over_sharing(subject, &counts, &less) ? INFINITY : ns;
		require_between(ns_of(subject, &less, is_ahead), 0, most, "a smaller step", subject,
			&counts);
	}
}

Test(profile_laws, hold_for_random_steps_by_every_profile, .timeout = 300)
{
	for (uint32_t i = 0; i < gpu_profile_count(); i++) {
		static struct subject subject;
		open_subject(&subject, i);
		const struct prop_options options = {.name = subject.profile.name,
			.body = body_laws,
			.context = &subject,
			.trials = subject.profile.is_calibrated ? 4000 : 1000};
		cr_assert(prop_holds(&options));
		subject.runner.close(subject.runner.state);
	}
}

/* ---- shared tokens that every row reads ---- */

/* Rows too short and prefixes too small for the engine to read them once, or just enough. */
static void draw_short_rows(struct prop *prop, struct drawn_step *step)
{
	uint32_t groups = 1 + prop_below(prop, GROUPS_MAX);
	uint64_t prefix = BLOCK * (1 + prop_below(prop, 8));

	memset(step, 0, sizeof(*step));
	step->row_count = 2 + prop_below(prop, 63);
	for (uint32_t i = 0; i < step->row_count; i++) {
		struct drawn_row *row = &step->rows[i];
		row->group = prop_below(prop, groups);
		row->shared = prop_chance(prop, 3, 4) ? prefix : 0;
		row->context = prefix + 1 + prop_below(prop, 2000);
	}
}

static void body_shared(struct prop *prop, const void *context)
{
	const struct subject *subject = context;
	static struct drawn_step step;

	draw_short_rows(prop, &step);
	step.readers = subject->runner.readers;
	const struct step_counts counts = counts_of(&step);
	struct step_counts apart = counts;
	apart.shared_tokens = apart.reread_tokens = apart.repeat_tokens = 0;
	if (!operation_shares(&subject->profile.prices.sharing, &counts)) {
		require_between(ns_of(subject, &counts, false), 0, ns_of(subject, &apart, false),
			"blocks held by several rows", subject, &counts);
	}
}

/* Reading a block that another row reads too costs no more than reading one of its own. */
Test(profile_laws, shared_tokens_cost_no_more_than_others)
{
	for (uint32_t i = 0; i < gpu_profile_count(); i++) {
		static struct subject subject;
		open_subject(&subject, i);
		const struct prop_options options = {.name = subject.profile.name,
			.body = body_shared,
			.context = &subject,
			.trials = 1000};
		cr_assert(prop_holds(&options));
		subject.runner.close(subject.runner.state);
	}
}

/* ---- the grid ---- */

static struct step_counts grid_counts(const struct subject *subject, uint64_t rows,
	uint64_t context, uint64_t tokens, uint64_t prefix)
{
	const struct prefill_spread spread = subject->runner.spread;

	return (struct step_counts){
		.decode_rows = rows,
		.decode_context_tokens = rows * context,
		.decode_longest_context = rows > 0 ? context : 0,
		.prefill_rows = tokens > 0,
		.prefill_tokens = tokens,
		.prefill_attention_pairs = batch_attention_pairs(prefix, tokens),
		.prefill_longest_context = tokens > 0 ? prefix + tokens : 0,
		.prefill_tiles = prefill_tile_count(tokens),
		.prefill_tile_keys = prefill_tile_keys(prefix, tokens),
		.prefill_context_tokens = tokens > 0 ? prefix + tokens : 0,
		.prefill_chain_keys = prefill_chain_of_prompt(prefix, tokens, &spread),
		.prefill_half_chain_keys = prefill_half_chain_of_prompt(prefix, tokens, &spread),
		.sampled_rows = rows + (tokens > 0),
	};
}

static bool may_jump(const struct subject *subject, enum price_edge edge)
{
	return subject->profile.is_calibrated && (subject->profile.edges >> edge & 1) != 0;
}

/* A step beside one with a row, a prompt token or a token of context more. */
static void require_neighbours(const struct subject *subject, const struct step_counts *counts,
	uint64_t context, uint64_t prefix)
{
	uint64_t rows = counts->decode_rows, tokens = counts->prefill_tokens;
	double ns = ns_of(subject, counts, false);
	struct step_counts more = *counts;

	require_between(ns, operation_roofline(&subject->floors, counts), INFINITY, "roofline",
		subject, counts);
	more.decode_rows++;
	more.decode_context_tokens++;
	more.decode_longest_context = u64_max(more.decode_longest_context, 1);
	more.sampled_rows++;
	uint64_t all = rows + tokens;
	bool is_full = tokens > 0 && (all == 32 || all == 64 || all % 128 == 0) &&
		       may_jump(subject, PRICE_EDGE_product_tile);
	bool is_edge = is_full || (rows == 1 && may_jump(subject, PRICE_EDGE_second_row)) ||
		       (graph_bucket(rows) != graph_bucket(rows + 1) &&
			       may_jump(subject, PRICE_EDGE_graph_bucket)) ||
		       (rows == 0 && (!subject->profile.is_calibrated ||
					     may_jump(subject, PRICE_EDGE_captured)));
	require_between(ns_of(subject, &more, false), ns, is_edge ? INFINITY : 1.05 * ns,
		"one row more", subject, counts);
	if (rows > 0) {
		more = *counts;
		more.decode_context_tokens++;
		more.decode_longest_context = context + 1;
		require_between(ns_of(subject, &more, false), ns, 1.05 * ns,
			"a token of context more", subject, counts);
	}
	more = grid_counts(subject, rows, context, tokens + 1, prefix);
	is_edge = tokens == 0 || is_full ||
		  (tokens % 64 == 0 && may_jump(subject, PRICE_EDGE_prompt_tile));
	require_between(ns_of(subject, &more, false), ns, is_edge ? INFINITY : 1.05 * ns,
		"a prompt token more", subject, counts);
	if (rows > 0 && tokens > 0) {
		require_mixed(subject, counts, false, ns);
	}
}

Test(profile_laws, hold_on_a_dense_grid_by_every_profile, .timeout = 300)
{
	static const uint64_t rows[] = {0, 1, 2, 3, 4, 5, 7, 9, 12, 15, 17, 20, 31, 33, 40, 50, 64,
		65, 90, 100, 127, 129, 150, 170, 200, 224, 255, 257, 300, 320, 352, 385, 400, 450,
		480, 510, 512};
	static const uint64_t contexts[] = {64, 300, 600, 2048, 8192, 40000, 130000};
	static const uint64_t tokens[] = {
		0, 1, 7, 16, 64, 127, 128, 255, 300, 512, 640, 1000, 1088, 2048, 4095, 8192, 15000};
	static const uint64_t prefixes[] = {0, 8192, 65536};
	enum { ROWS = 37, CONTEXTS = 7, TOKENS = 17, PREFIXES = 3 };

	for (uint32_t p = 0; p < gpu_profile_count(); p++) {
		static struct subject subject;
		open_subject(&subject, p);
		for (uint32_t i = 0; i < ROWS * CONTEXTS * TOKENS * PREFIXES; i++) {
			uint64_t row_count = rows[i / PREFIXES / TOKENS / CONTEXTS];
			uint64_t context = contexts[i / PREFIXES / TOKENS % CONTEXTS];
			uint64_t token_count = tokens[i / PREFIXES % TOKENS];
			uint64_t prefix = prefixes[i % PREFIXES];
			if (row_count + token_count == 0 || row_count * context > 3000000) {
				continue;
			}
			const struct step_counts counts =
				grid_counts(&subject, row_count, context, token_count, prefix);
			require_neighbours(&subject, &counts, context, prefix);
		}
		subject.runner.close(subject.runner.state);
	}
}

/* ---- planted faults ---- */

/* Of two steps the smaller one is first, and costs less. */
static void require_jump(const char *text)
{
	const char *at = strstr(text, " take ");
	const double rounding = 0.0005; /* of each number in the text */
	double ms = 0, more_ms = 0;

	require(at != NULL && sscanf(at, " take %lf ms, and %lf ms", &ms, &more_ms) == 2 &&
			more_ms + rounding > 1.05 * (ms - rounding),
		"%s", text);
}

/* Edges that a profile names are those at which its prices jump. Without one it is refused, but
   where the same steps are at another named edge too. */
Test(profile_laws, named_edges_are_those_where_prices_jump)
{
	uint32_t refused = 0;

	for (uint32_t i = 0; i < gpu_profile_count(); i++) {
		static struct subject subject;
		open_subject(&subject, i);
		subject.runner.close(subject.runner.state);
		const struct operation_prices *prices = &subject.profile.prices;
		uint32_t edges = subject.profile.edges;
		if (!subject.profile.is_calibrated) {
			continue;
		}
		require(operation_prices_edges(prices) == edges, "%s: edges 0x%x and 0x%x",
			subject.profile.name, operation_prices_edges(prices), edges);
		for (uint32_t edge = 0; edge < PRICE_EDGE_COUNT; edge++) {
			struct error error = {0};
			uint32_t others = edges & ~(1U << edge);
			if (operation_prices_check(prices, others, &error) == STATUS_OK) {
				continue;
			}
			require(others != edges, "%s: %s", subject.profile.name, error.text);
			refused |= 1U << edge;
			if (edge != PRICE_EDGE_sharing) {
				require_jump(error.text);
			}
		}
	}
	require(refused >> PRICE_EDGE_graph_bucket & 1 && refused >> PRICE_EDGE_captured & 1,
		"refused without 0x%x", refused);
}

/* Reads a profile with the first `from` behind `after` replaced by `to`. */
static enum status read_changed(
	const char *after, const char *from, const char *to, struct error *error)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];
	static char changed[65536];
	static struct gpu_profile profile;

	char *text = file_read(QUIRE_SOURCE_DIR "/tests/fixtures/calibrated_profile.json", NULL);
	char *at = strstr(text, after);
	require(at != NULL, "'%s' is not in the profile", after);
	at = strstr(at, from);
	require(at != NULL, "'%s' is not in the profile", from);
	*at = '\0';
	snprintf(changed, sizeof(changed), "%s%s%s", text, to, at + strlen(from));
	free(text);
	temporary_folder(folder);
	temporary_write(folder, "mine.json", changed, path);
	enum status status = gpu_profile_find(path, &profile, error);
	temporary_remove(folder);
	return status;
}

/* The start of an array `ns`, in whose place stands a larger or smaller first price. */
static void require_refused(const char *after, const char *from, const char *to, const char *part)
{
	struct error error = {0};
	enum status status = read_changed(after, from, to, &error);

	require(status == STATUS_INPUT, "accepted: %s %s", after, to);
	require(strstr(error.text, part) != NULL, "'%s' does not say '%s'", error.text, part);
	require(strchr(error.text, '\n') == NULL, "not one line: %s", error.text);
}

/* Decode rows that heat slows more than prompts: a mixed step may cost less. Without a form the
   rises are those of another formula. */
Test(profile_laws, heat_that_breaks_one_is_refused)
{
	static const struct {
		const char *heat, *part;
	} cases[] = {
		{"\"form\": \"mean-square\", \"prompt\": 0.1, \"decode\": 0.2, \"decay_ns\": 5e7",
			"heat.decode: found 0.2, expected"},
		{"\"form\": \"mean-square\", \"prompt\": 1.1, \"decode\": 0, \"decay_ns\": 5e7",
			"heat.prompt: found 1.1, expected"},
		{"\"form\": \"mean-square\", \"prompt\": 0.1, \"decode\": 0, \"decay_ns\": 0",
			"heat.decay_ns: found 0, expected"},
		{"\"prompt\": 0.1, \"decode\": 0, \"decay_ns\": 5e7",
			"heat.form: found nothing, expected mean-square"},
		{"\"form\": 2, \"prompt\": 0.1, \"decode\": 0, \"decay_ns\": 5e7",
			"heat.form: found 2, expected"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char to[256];
		snprintf(to, sizeof(to), "\"heat\": {%s},\n\"edges\"", cases[i].heat);
		require_refused("\"edges\"", "\"edges\"", to, cases[i].part);
	}
}

Test(profile_laws, a_profile_that_breaks_one_is_refused)
{
	static const struct {
		const char *after, *from, *to, *part;
	} cases[] = {
		/* Less for more: a negative price, parts that fall, and no part at all. */
		{"\"graph_rows\"", "\"ns\":\t[", "\"ns\":\t[-",
			"prices.graph_rows.ns: found an array, expected prices from 0 to 10^15"},
		{"\"graph_rows\"", "\"at\":\t[0, 1,", "\"at\":\t[0, -1,", "that rise, from 0"},
		{"\"graph_rows\"", "\"at\":\t[0, 1,", "\"at\":\t[0, 5,", "that rise, from 0"},
		{"\"graph_rows\"", "\"at\":\t[0,", "\"at\":\t[0.5,", "expected 0 as the first"},
		{"\"graph_rows\"", "\"at\":\t[0,", "\"at\":\t[null,", "at most 32 numbers"},
		{"\"kv_reread\"", "\"at\":\t[1024,", "\"at\":\t[0,",
			"expected numbers 'at' above 0"},
		{"\"kv_all\"", "\"ns\":\t[", "\"ns\":\t[1e16, ", "as many numbers as in 'at'"},
		{"\"graph\"", "\"ns\":\t[", "\"ns\":\t[999999999999999", "prices from 0 to 10^15"},
		/* Faster than the GPU: no limits, and K and V faster than memory. */
		{"\"limits\"", "\"limits\"", "\"limit\"", "field limits: found nothing"},
		{"\"limits\"", "\"flop_rate\"", "\"flop_rat\"", "limits.flop_rate: found nothing"},
		{"\"limits\"", "\"value\":\t4620", "\"value\":\t2000",
			"no less than their bytes take"},
		{"\"shape\"", "\"head_dim\"", "\"head_dims\"", "shape.head_dim: found nothing"},
		/* Shared tokens dearer than others. */
		{"\"kv_again\"", "\"kv_again\"",
			"\"kv_each\": {\"at\": [0], \"ns\": [1000]},\n\"kv_again\"",
			"prices.kv_each.ns: found an array, expected prices of shared tokens that "
			"are no more than those of others"},
		{"\"kv_again\"", "\"kv_again\"",
			"\"kv_repeat\": {\"at\": [0], \"ns\": [1000]},\n\"kv_again\"",
			"prices.kv_repeat.ns: found an array, expected a price of reading shared "
			"tokens again that is no more than that of others"},
		{"\"kv_again\"", "\"kv_again\"",
			"\"kv_each_far\": {\"at\": [1e-9], \"ns\": [1000]},\n\"kv_again\"",
			"prices.kv_each_far.ns: found an array, expected prices of shared"},
		/* Less than its dearer part. */
		{"\"eager_mixed\"", "\"ns\":\t[", "\"ns\":\t[-",
			"prices.eager_mixed.ns: found an array, expected prices from 0"},
		/* Jumps: a sample that takes a millisecond, and edges that are not named. */
		{"\"samples\"", "\"ns\":\t[0,", "\"ns\":\t[1000000,",
			"a row more is a jump over 5 % at no named edge"},
		{"\"edges\"", "\"graph_bucket\", ", "",
			"a row more is a jump over 5 % at no named"},
		{"\"edges\"", "\"captured\", ", "",
			"a row more is a jump over 5 % at no named edge: 0 decode rows of 64 "
			"tokens "
			"beside a prompt of 1"},
		{"\"kv_again\"", "\"kv_again\"",
			"\"eager_mixed_tokens\": {\"at\": [0], \"ns\": [1000000]},\n\"kv_again\"",
			"a prompt token more is a jump over 5 % at no named edge: 1 decode rows"},
		{"\"edges\"", "\"captured\"", "\"capture\"", "field edges: found an array"},
		{"\"edges\"", "\"edges\"",
			"\"sharing\": {\"tokens\": 40000, \"longest\": 4096},\n\"edges\"",
			"reading shared tokens once is a jump at no named edge: 31 decode rows of "
			"1500 tokens beside a prompt of 0 behind 0 take 1.072 ms, and 1.419 ms"},
		/* What else a reader relies on. */
		{"\"edges\"", "\"edges\"", "\"graph_prompt_tokens\": 257,\n\"edges\"",
			"graph_prompt_tokens: found 257, expected"},
		{"\"hull\"", "\"cells\":\t[[", "\"cells\":\t[[32, ", "hull.cells: found an array"},
		{"\"hull\"", "\"largest\"", "\"larges\"", "hull.largest: found nothing"},
		{"\"residuals\"", "\"held_out\"", "\"held\"", "residuals.held_out: found nothing"},
		{"\"schema\"", "quire-calibrated-4", "quire-calibrated-3",
			"make the profile again from its points"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		require_refused(cases[i].after, cases[i].from, cases[i].to, cases[i].part);
	}
	struct error error = {0};
	require(read_changed("\"schema\"", "\"schema\"", "\"schema\"", &error) == STATUS_OK, "%s",
		error.text);
}

/* Of each price and at each place: the number of a part may be just above the one before, and
   neither equal to it nor below. */
Test(profile_laws, parts_rise_from_one_to_the_next)
{
	struct gpu_profile profile;
	struct error error = {0};
	uint32_t places = 0;

	require(gpu_profile_find("h200-qwen3-0.6b", &profile, &error) == STATUS_OK, "%s",
		error.text);
	for (uint32_t t = 0; t < OPERATION_TERM_COUNT; t++) {
		struct operation_parts *parts = &profile.prices.terms[t];
		for (uint32_t i = 1; i < parts->count; i++) {
			const double before = parts->at[i - 1], at = parts->at[i];
			const double tried[] = {
				before, nextafter(before, 0), nextafter(before, HUGE_VAL), at};
			for (uint32_t k = 0; k < 4; k++) {
				enum operation_term term;
				const char *expected;
				parts->at[i] = tried[k];
				bool is_sound = operation_prices_are_sound(
					&profile.prices, &term, &expected);
				require(is_sound || (term == t &&
							    strstr(expected, "that rise") != NULL),
					"%s of price %u", expected, term);
				bool rises = k >= 2 &&
					     (i + 1 == parts->count || tried[k] < parts->at[i + 1]);
				require_equal(is_sound, rises);
			}
			parts->at[i] = at;
			places++;
		}
	}
	require(places > 50, "%u places", places);
}

/* Where sharing begins is a number from 0 on. */
Test(profile_laws, limits_of_sharing_are_not_negative)
{
	static const char *const names[] = {"tokens", "longest"};
	char sharing[128], expected[128];

	for (uint32_t i = 0; i < 2; i++) {
		struct error error = {0};
		snprintf(sharing, sizeof(sharing),
			"\"sharing\": {\"%s\": -1, \"%s\": 4096},\n\"edges\"", names[i],
			names[1 - i]);
		snprintf(expected, sizeof(expected),
			"sharing.%s: found -1, expected a number in [0, ", names[i]);
		require_equal(
			read_changed("\"edges\"", "\"edges\"", sharing, &error), STATUS_INPUT);
		require(strstr(error.text, expected) != NULL, "%s", error.text);
	}
}

/* A reading serves one row or more. */
Test(profile_laws, readers_are_a_number_in_range)
{
	static const struct {
		const char *readers, *part; /* NULL: taken */
	} cases[] = {
		{"0", "sharing.readers: found 0, expected an integer in [1, 1024]"},
		{"1025", "sharing.readers: found 1025, expected an integer in [1, 1024]"},
		{"1.5", "sharing.readers: found 1.5, expected an integer"},
		{"1", NULL},
		{"1024", NULL},
	};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct error error = {0};
		char sharing[160];
		snprintf(sharing, sizeof(sharing),
			"\"sharing\": {\"tokens\": 1e9, \"longest\": 1e9, \"readers\": "
			"%s},\n\"edges\"",
			cases[i].readers);
		enum status status = read_changed("\"edges\"", "\"edges\"", sharing, &error);
		require_equal(status, cases[i].part == NULL ? STATUS_OK : STATUS_INPUT);
		require(cases[i].part == NULL || strstr(error.text, cases[i].part) != NULL, "%s",
			error.text);
	}
}

/* The row that needs a second reading may make a step jump, where the profile names that edge, and
   no other row may. */
Test(profile_laws, a_second_reading_jumps_at_a_named_edge)
{
	struct gpu_profile profile;
	struct error error = {0};

	require(gpu_profile_find("h200-qwen3-0.6b", &profile, &error) == STATUS_OK, "%s",
		error.text);
	struct operation_prices *prices = &profile.prices;
	uint32_t others = profile.edges & ~(1U << PRICE_EDGE_readers);
	require(others != profile.edges, "the edge has no name");
	require_equal(operation_prices_check(prices, others, &error), STATUS_INPUT);
	require(strstr(error.text, "a reading more is a jump over 5 % at no named edge: 17 decode "
				   "rows of 30000 tokens") != NULL,
		"%s", error.text);
	prices->terms[OPERATION_TERM_kv_repeat].ns[0] = 0;
	require_equal(operation_prices_check(prices, others, &error), STATUS_OK);
	require_equal(operation_prices_edges(prices), others);
}

static struct gpu_profile builtin(const char *name)
{
	struct gpu_profile profile;
	struct error error = {0};

	require(gpu_profile_find(name, &profile, &error) == STATUS_OK, "%s", error.text);
	return profile;
}

/* A price that begins at a number between the steps of a grid jumps there. */
Test(profile_laws, a_price_that_begins_between_is_tried_where_it_begins)
{
	static const struct {
		enum operation_term term;
		struct operation_parts parts;
		const char *part;
	} cases[] = {
		{OPERATION_TERM_kv_longest, {3, {0, 512, 40000}, {0, 0, 1e6}},
			"a token of context more is a jump over 5 % at no named edge: 1 decode "
			"rows of 40000 tokens"},
		{OPERATION_TERM_kv_first, {1, {40}, {1e6}},
			"a token of context more is a jump over 5 % at no named edge: 1 decode"},
		{OPERATION_TERM_eager_decodes, {2, {0, 520}, {0, 1e7}},
			"a row more is a jump over 5 % at no named edge: 520 decode rows"},
		{OPERATION_TERM_host_tokens, {2, {0, 12000}, {0, 1e8}},
			"a prompt token more is a jump over 5 % at no named edge: 0 decode rows "
			"of 0 tokens beside a prompt of 12000 behind 0"},
		{OPERATION_TERM_prefill_walk, {2, {0, 50000}, {0, 1e7}},
			"a prompt token more is a jump over 5 % at no named edge: 0 decode rows "
			"of 0 tokens beside a prompt of 1 behind 49999"},
	};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct gpu_profile profile = builtin("h200-qwen3-0.6b");
		struct error error = {0};
		profile.prices.terms[cases[i].term] = cases[i].parts;
		require_equal(operation_prices_check(&profile.prices, profile.edges, &error),
			STATUS_INPUT);
		require(strstr(error.text, cases[i].part) != NULL, "%u: %s", i, error.text);
	}
}

/* Rows that fill a graph's bucket between those of a grid: one more needs the next graph, and
   with it all of its padding. */
Test(profile_laws, a_price_that_begins_at_the_edge_of_a_graph_jumps_at_a_named_edge)
{
	struct gpu_profile profile = builtin("h200-qwen3-0.6b");
	struct operation_prices *prices = &profile.prices;
	struct error error = {0};
	uint32_t others = profile.edges & ~(1U << PRICE_EDGE_graph_bucket);

	prices->terms[OPERATION_TERM_graph] = (struct operation_parts){1, {0}, {1e6}};
	prices->terms[OPERATION_TERM_graph_rows] =
		(struct operation_parts){2, {0, 512}, {1000, 1e6}};
	require_equal(operation_prices_check(prices, others, &error), STATUS_INPUT);
	require(strstr(error.text, "a row more is a jump over 5 % at no named edge: 512 decode") !=
			NULL,
		"%s", error.text);
	require(operation_prices_edges(prices) >> PRICE_EDGE_graph_bucket & 1,
		"the edge has no name");
}

/* Where a step with prompts becomes too large for a graph it is launched kernel by kernel: of these
   prices nothing else jumps. */
Test(profile_laws, the_last_step_of_a_graph_jumps_at_a_named_edge)
{
	const struct gpu_profile profile = builtin("h200-qwen3-0.6b");
	struct operation_prices prices = {.limits = profile.prices.limits,
		.graph_tokens = 200,
		.shape = profile.prices.shape};
	struct error error = {0};

	prices.terms[OPERATION_TERM_graph] = (struct operation_parts){1, {0}, {300000}};
	prices.terms[OPERATION_TERM_eager] = (struct operation_parts){1, {0}, {300000}};
	prices.terms[OPERATION_TERM_kv_all] = (struct operation_parts){1, {0}, {30}};
	require_equal(operation_prices_edges(&prices), 0);
	prices.terms[OPERATION_TERM_eager_launched] = (struct operation_parts){1, {0}, {1e6}};
	require_equal(operation_prices_edges(&prices) & ~(1U << PRICE_EDGE_graph_bucket),
		1U << PRICE_EDGE_captured);
	require_equal(
		operation_prices_check(&prices, 1U << PRICE_EDGE_captured, &error), STATUS_OK);
	require_equal(operation_prices_check(&prices, 0, &error), STATUS_INPUT);
	require(strstr(error.text,
			"a prompt token more is a jump over 5 % at no named edge: 160") != NULL,
		"%s", error.text);
}

/* Half a tile of queries, and one more: the other half of the tile computes too. Only beside other
   prompts is there no multiprocessor for each half. */
Test(profile_laws, half_a_tile_jumps_at_a_named_edge)
{
	static const enum operation_term none[] = {OPERATION_TERM_prefill_walk,
		OPERATION_TERM_prefill_even, OPERATION_TERM_prefill_chain,
		OPERATION_TERM_prefill_beside, OPERATION_TERM_prefill_pairs,
		OPERATION_TERM_prefill_half, OPERATION_TERM_prefill_tiles};
	struct gpu_profile profile = builtin("h200-qwen3-0.6b");
	struct operation_prices *prices = &profile.prices;
	struct error error = {0};
	uint32_t others = profile.edges & ~(1U << PRICE_EDGE_prompt_tile);

	for (uint32_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		prices->terms[none[i]].count = 0;
	}
	prices->terms[OPERATION_TERM_prefill_half_chain] = (struct operation_parts){1, {0}, {100}};
	require_equal(operation_prices_check(prices, others, &error), STATUS_INPUT);
	require(strstr(error.text, "a prompt token more is a jump over 5 % at no named edge: 0 "
				   "decode rows of 0 tokens beside a prompt of 64 behind 65536 and "
				   "4 of 1 take") != NULL,
		"%s", error.text);
	require(operation_prices_edges(prices) >> PRICE_EDGE_prompt_tile & 1,
		"the edge has no name");
}

/* Five rows that read 18,431 shared tokens each for themselves, and 18,432 once, at a price that
   grows with the rows: 16 rows and more would not tell. */
Test(profile_laws, few_rows_that_begin_to_share_jump_at_a_named_edge)
{
	static const enum operation_term none[] = {OPERATION_TERM_kv_reread,
		OPERATION_TERM_kv_each_far, OPERATION_TERM_kv_again, OPERATION_TERM_kv_repeat,
		OPERATION_TERM_kv_long, OPERATION_TERM_kv_long_rows, OPERATION_TERM_kv_shared};
	struct gpu_profile profile = builtin("h200-qwen3-0.6b");
	struct operation_prices *prices = &profile.prices;
	struct error error = {0};
	uint32_t others =
		(profile.edges | 1U << PRICE_EDGE_row_round) & ~(1U << PRICE_EDGE_sharing);

	for (uint32_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		prices->terms[none[i]].count = 0;
	}
	prices->sharing.readers = 0;
	prices->terms[OPERATION_TERM_kv_rounds] = (struct operation_parts){1, {1}, {26}};
	prices->terms[OPERATION_TERM_kv_each] = (struct operation_parts){1, {0}, {25}};
	prices->terms[OPERATION_TERM_kv_merge] = (struct operation_parts){1, {1152}, {25}};
	require_equal(operation_prices_check(prices, others, &error), STATUS_INPUT);
	require(strstr(error.text, "reading shared tokens once is a jump at no named edge") != NULL,
		"%s", error.text);
	require(operation_prices_edges(prices) >> PRICE_EDGE_sharing & 1, "the edge has no name");
}

/* A row alone that changed its kernel before other rows do could become cheaper beside a second. */
Test(profile_laws, a_row_alone_changes_its_kernel_no_earlier_than_others)
{
	static const struct {
		const char *longest, *alone, *part; /* NULL: not of these numbers */
	} cases[] = {
		{"4096", "4095", "sharing.alone: found 4095, expected a number in [4096, "},
		{"4096", "4096", NULL},
		{"0", "0", NULL},
		{"0", "35000", "sharing.alone: found 35000, expected a number in [0, 0]"},
	};
	char sharing[128];

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct error error = {0};
		snprintf(sharing, sizeof(sharing),
			"\"sharing\": {\"tokens\": 9, \"longest\": %s, \"alone\": "
			"%s},\n\"edges\"",
			cases[i].longest, cases[i].alone);
		read_changed("\"edges\"", "\"edges\"", sharing, &error);
		const char *part = cases[i].part != NULL ? cases[i].part : "sharing.alone";
		require((strstr(error.text, part) != NULL) == (cases[i].part != NULL), "%s: '%s'",
			cases[i].alone, error.text);
	}
}

/* A row alone that changes its kernel may jump there, and a row of a token less may not. */
Test(profile_laws, a_long_row_alone_jumps_at_a_named_edge)
{
	struct gpu_profile profile;
	struct error error = {0};

	require(gpu_profile_find("h200-qwen3-0.6b", &profile, &error) == STATUS_OK, "%s",
		error.text);
	struct operation_prices *prices = &profile.prices;
	struct operation_parts *once = &prices->terms[OPERATION_TERM_kv_long];
	uint32_t others = profile.edges & ~(1U << PRICE_EDGE_long_row);
	*once = (struct operation_parts){.count = 1, .ns = {1e6}};
	require_equal(operation_prices_check(prices, others | 1U << PRICE_EDGE_long_row, &error),
		STATUS_OK);
	require_equal(operation_prices_check(prices, others, &error), STATUS_INPUT);
	require(strstr(error.text, "a token of context more is a jump over 5 % at no named edge: "
				   "1 decode rows of 24576 tokens") != NULL,
		"%s", error.text);
	require(operation_prices_edges(prices) >> PRICE_EDGE_long_row & 1, "the edge has no name");
}

/* So does a row alone that fills its kernel's rounds. Beyond the first one a token more of a full
   round costs nothing, and longer rows of another kernel have no rounds. */
Test(profile_laws, a_round_of_a_row_alone_jumps_at_a_named_edge)
{
	struct gpu_profile profile;
	struct operation_pricer pricer;
	struct error error = {0};

	require(gpu_profile_find("h200-qwen3-0.6b", &profile, &error) == STATUS_OK, "%s",
		error.text);
	struct operation_prices *prices = &profile.prices;
	prices->sharing.round = 2048;
	double before[4], after[4];
	static const uint64_t contexts[4] = {2047, 2048, 4095, 24576};
	uint32_t others = profile.edges & ~(1U << PRICE_EDGE_row_round);
	for (uint32_t i = 0; i < 4; i++) {
		struct step_counts row = {.decode_rows = 1, .sampled_rows = 1};
		row.decode_context_tokens = row.decode_longest_context = contexts[i];
		struct step_counts longer = row;
		longer.decode_context_tokens = ++longer.decode_longest_context;
		for (uint32_t has = 0; has < 2; has++) {
			prices->terms[OPERATION_TERM_kv_rounds] = (struct operation_parts){
				.count = 1, .at = {1}, .ns = {has * 100.0}};
			operation_pricer_init(&pricer, prices);
			struct operation_price a = price_by_operations(&pricer, &row, false);
			struct operation_price b = price_by_operations(&pricer, &longer, false);
			*(has ? &after[i] : &before[i]) =
				b.gpu_ns + b.host_ns - a.gpu_ns - a.host_ns;
		}
		double rounds = after[i] - before[i];
		double expected = contexts[i] == 2048 ? 204800 : contexts[i] == 24576 ? 100 : 0;
		require(fabs(rounds - expected) < 1e-3, "%llu tokens and one more: %.3f ns",
			(unsigned long long)contexts[i], rounds);
	}
	require_equal(operation_prices_check(prices, others | 1U << PRICE_EDGE_row_round, &error),
		STATUS_OK);
	require_equal(operation_prices_check(prices, others, &error), STATUS_INPUT);
	require(strstr(error.text, "a token of context more is a jump over 5 % at no named edge: "
				   "1 decode rows of 2048 tokens") != NULL,
		"%s", error.text);
	require(operation_prices_edges(prices) >> PRICE_EDGE_row_round & 1, "the edge has no name");
}

/* Rounds of no token, and a price of more than the rounds that rows need. */
Test(profile_laws, rounds_that_are_none_are_refused)
{
	static const char *const rounds[] = {"0.5", "0", "-2048", "1"};
	struct gpu_profile profile;
	struct error error = {0};
	enum operation_term term = OPERATION_TERM_graph;
	const char *expected = NULL;

	for (uint32_t i = 0; i < 4; i++) {
		char sharing[128];
		error = (struct error){0};
		snprintf(sharing, sizeof(sharing),
			"\"sharing\": {\"tokens\": 9, \"longest\": 4096, \"round\": "
			"%s},\n\"edges\"",
			rounds[i]);
		read_changed("\"edges\"", "\"edges\"", sharing, &error);
		bool is_refused = strstr(error.text, "sharing.round: found") != NULL;
		require(is_refused == (i < 3), "%s: '%s'", rounds[i], error.text);
	}
	error = (struct error){0};
	require(gpu_profile_find("h200-qwen3-0.6b", &profile, &error) == STATUS_OK, "%s",
		error.text);
	struct operation_parts *parts = &profile.prices.terms[OPERATION_TERM_kv_rounds];
	for (uint32_t i = 0; i < 2; i++) {
		parts->at[0] = 1 + 0.001 * i;
		require(operation_prices_are_sound(&profile.prices, &term, &expected) == (i == 0),
			"%.3f", parts->at[0]);
	}
	require_equal(term, OPERATION_TERM_kv_rounds);
	cr_assert_str_eq(expected, "numbers 'at' of at most 1");
}

/* Cells of the measured steps, and the edges, each at most once. */
Test(profile_laws, cells_and_edges_are_well_formed_or_refused)
{
	static const char *const cells[] = {"[0, 1]", "[0, 1, 0, 0]", "[32, 1, 0]", "[0, 32, 0]",
		"[0, 1, 32]", "[-1, 1, 0]", "[0.5, 1, 0]", "[\"0\", 1, 0]", "[null, 1, 0]", "[]",
		"0", "{}"};
	static const char *const edges[] = {
		"\"captured\", \"captured\"", "\"captured\", 1", "null", "\"captured \"", "\"\""};
	struct error error = {0};

	for (size_t i = 0; i < sizeof(cells) / sizeof(cells[0]); i++) {
		char to[64];
		error = (struct error){0};
		snprintf(to, sizeof(to), "\"cells\":\t[%s, ", cells[i]);
		require(read_changed("\"hull\"", "\"cells\":\t[", to, &error) == STATUS_INPUT,
			"accepted: %s", cells[i]);
		require(strstr(error.text, "hull.cells: found an array") != NULL, "%s", error.text);
	}
	for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++) {
		error = (struct error){0};
		require(read_changed("\"edges\"", "\"captured\"", edges[i], &error) == STATUS_INPUT,
			"accepted: %s", edges[i]);
		require(strstr(error.text, "field edges: found an array") != NULL, "%s",
			error.text);
	}
	error = (struct error){0};
	require(read_changed("\"hull\"", "\"cells\":\t[", "\"cells\":\t[[31, 31, 31], ", &error) ==
			STATUS_OK,
		"%s", error.text);
}
