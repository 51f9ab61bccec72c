#include "bench/calibrate/fit.h"
#include "engine/model/config_json.h"
#include "engine/shape/graph_bucket.h"

#include <criterion/criterion.h>
#include <string.h>

#include "tests/harness/require.h"

/* Prices fitted without a region of steps, tried on that region: what a profile is off where nobody
   measured. The limits are what the points of the built-in profiles give, rounded up. */

enum region {
	MIXED_ABOVE_160_ROWS,
	MIXED_ABOVE_32_ROWS,
	MEAN_CONTEXT_ABOVE_8192,
	A_ROW_ABOVE_8192,
	CONTEXT_ABOVE_100000,
	ROWS_ABOVE_256,
	SHARED,
	PROMPT_TOKENS_ABOVE_4096,
	KEYS_ABOVE_16384
};

static bool is_in(enum region region, const struct step_counts *counts)
{
	uint64_t rows = counts->decode_rows, tokens = counts->prefill_tokens;
	uint64_t context = counts->decode_context_tokens;

	switch (region) {
	case MIXED_ABOVE_160_ROWS:
		return rows > 160 && tokens > 0;
	case MIXED_ABOVE_32_ROWS:
		return rows > 32 && tokens > 0;
	case MEAN_CONTEXT_ABOVE_8192:
		return rows > 0 && context > 8192 * rows;
	case A_ROW_ABOVE_8192:
		return counts->decode_longest_context > 8192;
	case CONTEXT_ABOVE_100000:
		return context > 100000;
	case ROWS_ABOVE_256:
		return rows > 256;
	case SHARED:
		return counts->shared_tokens > 0;
	case PROMPT_TOKENS_ABOVE_4096:
		return tokens > 4096;
	case KEYS_ABOVE_16384:
		return tokens > 0 && counts->prefill_attention_pairs > 16384 * tokens;
	}
	return false;
}

struct split {
	const char *what;
	enum region region;
	uint32_t points;	 /* of the region */
	double mean, p99, worst; /* at most, in percent */
};

static const struct split splits_of_0_6b[] = {
	{"mixed, above 160 rows", MIXED_ABOVE_160_ROWS, 31, 1.4, 3.2, 3.2},
	{"mixed, above 32 rows", MIXED_ABOVE_32_ROWS, 68, 4.9, 14.1, 14.1},
	{"mean context above 8,192", MEAN_CONTEXT_ABOVE_8192, 186, 2.2, 8.1, 8.7},
	{"a row above 8,192", A_ROW_ABOVE_8192, 240, 4.9, 17.8, 18.5},
	{"context above 100,000", CONTEXT_ABOVE_100000, 339, 2.2, 11.2, 12.1},
	{"above 256 rows", ROWS_ABOVE_256, 147, 5.9, 11.2, 11.4},
	{"anything shared", SHARED, 250, 5.5, 33.6, 44.0},
	{"prompts above 4,096 tokens", PROMPT_TOKENS_ABOVE_4096, 74, 2.0, 6.9, 6.9},
	{"keys of prompts above 16,384", KEYS_ABOVE_16384, 91, 3.5, 9.8, 9.8},
};

static const struct split splits_of_8b[] = {
	{"mixed, above 160 rows", MIXED_ABOVE_160_ROWS, 32, 2.7, 9.7, 9.7},
	{"mixed, above 32 rows", MIXED_ABOVE_32_ROWS, 59, 3.9, 10.3, 10.3},
	{"mean context above 8,192", MEAN_CONTEXT_ABOVE_8192, 183, 2.0, 11.2, 13.3},
	{"a row above 8,192", A_ROW_ABOVE_8192, 235, 1.8, 16.0, 18.3},
	{"context above 100,000", CONTEXT_ABOVE_100000, 325, 2.2, 11.0, 14.4},
	{"above 256 rows", ROWS_ABOVE_256, 130, 3.0, 15.0, 17.2},
	{"anything shared", SHARED, 249, 5.5, 40.1, 41.9},
	{"prompts above 4,096 tokens", PROMPT_TOKENS_ABOVE_4096, 50, 3.1, 10.5, 10.5},
	{"keys of prompts above 16,384", KEYS_ABOVE_16384, 85, 3.7, 15.9, 15.9},
};

static void open_points(
	struct calibrate_points *points, struct calibrate_setup *setup, const char *model)
{
	char path[512];
	struct error error = {0};
	struct gpu_profile gpu;

	snprintf(path, sizeof(path), QUIRE_SOURCE_DIR "/sim/profiles/points/h200-%s.tsv", model);
	require(calibrate_points_read(points, path, 0, &error) == STATUS_OK, "%s", error.text);
	require(gpu_profile_find("h200-datasheet", &gpu, &error) == STATUS_OK, "%s", error.text);
	setup->limits = gpu.prices.limits;
	require(model_config_find(model, &setup->shape, &error) == STATUS_OK, "%s", error.text);
	setup->graph_tokens = (uint32_t)graph_prompt_tokens(&setup->shape);
}

static void require_errors(const char *model, const char *what, const struct profile_errors *errors,
	const struct split *most)
{
	cr_log_info("| %s, without %s | %u | %.1f / %.1f / %.1f |", model, what, errors->points,
		errors->mean * 100, errors->p99 * 100, errors->max * 100);
	require(errors->mean * 100 <= most->mean && errors->p99 * 100 <= most->p99 &&
			errors->max * 100 <= most->worst,
		"%s without %s: mean %.2f, p99 %.2f, worst %.2f %%", model, what,
		errors->mean * 100, errors->p99 * 100, errors->max * 100);
}

static void try_splits(const char *model, const struct split *splits, size_t count)
{
	struct calibrate_points points;
	struct calibrate_setup setup = {0};

	open_points(&points, &setup, model);
	for (size_t i = 0; i < count; i++) {
		struct operation_prices prices;
		for (size_t j = 0; j < points.count; j++) {
			struct calibrate_point *point = &points.points[j];
			point->is_held_out = is_in(splits[i].region, &point->counts);
		}
		calibrate_prices(&prices, &points, &setup);
		const struct profile_errors errors = calibrate_predict(&prices, &points, true);
		require_equal(errors.points, splits[i].points);
		require_errors(model, splits[i].what, &errors, &splits[i]);
	}
	calibrate_points_free(&points);
}

Test(fit_splits, of_qwen3_0_6b)
{
	try_splits("qwen3-0.6b", splits_of_0_6b, sizeof(splits_of_0_6b) / sizeof(*splits_of_0_6b));
}

Test(fit_splits, of_qwen3_8b)
{
	try_splits("qwen3-8b", splits_of_8b, sizeof(splits_of_8b) / sizeof(*splits_of_8b));
}

/* A third held out, by six seeds. */
static void try_thirds(const char *model, const struct split *most)
{
	struct calibrate_points points;
	struct calibrate_setup setup = {0};
	struct calibrate_fit fit;
	struct profile_errors all = {0};

	open_points(&points, &setup, model);
	for (uint64_t seed = 0; seed < 6; seed++) {
		struct error error = {0};
		enum status status = calibrate_fit(&fit, &points, &setup, seed, &error);
		require(status == STATUS_OK, "%s", error.text);
		all.points += fit.held_out.points;
		all.mean += fit.held_out.mean / 6;
		all.p99 = fit.held_out.p99 > all.p99 ? fit.held_out.p99 : all.p99;
		all.max = fit.held_out.max > all.max ? fit.held_out.max : all.max;
	}
	require_errors(model, "a third", &all, most);
	calibrate_points_free(&points);
}

Test(fit_splits, a_third_of_qwen3_0_6b)
{
	const struct split most = {.mean = 1.8, .p99 = 7.3, .worst = 14.7};

	try_thirds("qwen3-0.6b", &most);
}

Test(fit_splits, a_third_of_qwen3_8b)
{
	const struct split most = {.mean = 1.4, .p99 = 7.3, .worst = 12.5};

	try_thirds("qwen3-8b", &most);
}
