#include "bench/calibrate/fit.h"
#include "bench/calibrate/heat.h"
#include "bench/calibrate/plan.h"
#include "bench/calibrate/points.h"
#include "bench/calibrate/profile.h"
#include "bench/calibrate/least_squares.h"
#include "engine/base/counter_hash.h"
#include "engine/base/integer.h"
#include "engine/model/config_json.h"
#include "sim/cost_model.h"
#include "sim/price_by_operations.h"

#include <cJSON.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "engine/shape/graph_bucket.h"
#include "tests/harness/files.h"
#include "tests/harness/process.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

static char folder[TEMPORARY_PATH_BYTES];

static void set_up(void)
{
	temporary_folder(folder);
}

static void tear_down(void)
{
	temporary_remove(folder);
}

static bool is_near(double found, double expected, double off)
{
	double difference = found - expected;

	return (difference < 0 ? -difference : difference) <= off;
}

/* ---- least squares ---- */

Test(least_squares, finds_the_solution_where_none_is_negative)
{
	static const double rows[4][3] = {{1, 2, 0}, {0, 1, 3}, {2, 0, 1}, {1, 1, 1}};
	const double expected[3] = {3, 0.5, 2};
	struct least_squares system;

	least_squares_init(&system, 3);
	for (uint32_t i = 0; i < 4; i++) {
		double value = 0;
		for (uint32_t j = 0; j < 3; j++) {
			value += rows[i][j] * expected[j];
		}
		least_squares_add(&system, rows[i], value, 1 + i);
	}
	const double *x = least_squares_solve(&system);
	for (uint32_t j = 0; j < 3; j++) {
		require(is_near(x[j], expected[j], 1e-6), "x[%u] = %g", j, x[j]);
	}
	least_squares_free(&system);
}

Test(least_squares, holds_at_zero_what_would_be_negative)
{
	/* Without the condition: x = (3, -1). With it: x0 = (1 * 2 + 1 * 1 + 0) / 2. */
	static const double rows[3][2] = {{1, 1}, {1, 2}, {0, 1}};
	static const double values[3] = {2, 1, -1};
	struct least_squares system;

	least_squares_init(&system, 2);
	for (uint32_t i = 0; i < 3; i++) {
		least_squares_add(&system, rows[i], values[i], 1);
	}
	const double *x = least_squares_solve(&system);
	require(is_near(x[0], 1.5, 1e-6) && x[1] == 0, "x = (%g, %g)", x[0], x[1]);
	least_squares_free(&system);
}

Test(least_squares, drops_what_was_taken_first_and_turns_out_negative)
{
	/* The third column explains most alone; with the others it would be -0.2. */
	static const double rows[3][3] = {{1, 0, 1}, {0, 1, 1}, {0, 0, 0.5}};
	static const double values[3] = {1, 1, -0.1};
	struct least_squares system;

	least_squares_init(&system, 3);
	for (uint32_t i = 0; i < 3; i++) {
		least_squares_add(&system, rows[i], values[i], 1);
	}
	const double *x = least_squares_solve(&system);
	require(is_near(x[0], 1, 1e-5) && is_near(x[1], 1, 1e-5) && x[2] == 0, "x = (%g, %g, %g)",
		x[0], x[1], x[2]);
	least_squares_free(&system);
}

Test(least_squares, weights_decide_between_rows_that_disagree)
{
	const double row[2] = {1, 0};
	struct least_squares system;

	least_squares_init(&system, 2);
	least_squares_add(&system, row, 10, 3);
	least_squares_add(&system, row, 20, 1);
	const double *x = least_squares_solve(&system);
	require(is_near(x[0], 11, 1e-5), "x = %g", x[0]);
	require(x[1] == 0, "a column of zeros got %g", x[1]);
	least_squares_free(&system);
}

/* ---- points ---- */

TestSuite(points, .init = set_up, .fini = tear_down);

#define POINT_HEADER                                                                               \
	"samples\telapsed_ns\tgpu_ns\thost_ns\tdecode_rows\tprefill_rows\tprefill_tokens\t"        \
	"decode_context_tokens\tprefill_attention_pairs\tsampled_rows\n"

static void read_text(struct calibrate_points *points, const char *text, uint64_t from_ns)
{
	char path[TEMPORARY_PATH_BYTES];
	struct error error = {STATUS_OK, ""};

	temporary_write(folder, "points.tsv", text, path);
	enum status status = calibrate_points_read(points, path, from_ns, &error);
	require(status == STATUS_OK, "%s", error.text);
}

/* Steps are of one kind where each count is the same, or nearly so: another value of any of them is
   another step. */
Test(points, each_count_tells_steps_apart)
{
	static const struct step_counts usual = {.decode_rows = 40,
		.prefill_rows = 2,
		.prefill_tokens = 300,
		.decode_context_tokens = 90000,
		.prefill_attention_pairs = 70000,
		.sampled_rows = 41,
		.shared_tokens = 20000,
		.reread_tokens = 9000,
		.repeat_tokens = 3000,
		.decode_longest_context = 5000,
		.prefill_longest_context = 900,
		.prefill_tiles = 4,
		.prefill_tile_keys = 2000,
		.prefill_chain_keys = 1500,
		.prefill_half_chain_keys = 800,
		.prefill_context_tokens = 1700,
		.prefill_shared_tokens = 600};
	static const size_t counts[] = {
#define AT(name) offsetof(struct step_counts, name),
		CALIBRATE_POINT_LIST(AT)
#undef AT
	};

	for (uint32_t i = 0; i <= sizeof(counts) / sizeof(counts[0]); i++) {
		struct calibrate_points points = {0};
		points.points = calloc(2, sizeof(*points.points));
		points.count = points.capacity = 2;
		for (uint32_t k = 0; k < 2; k++) {
			points.points[k] = (struct calibrate_point){.counts = usual,
				.samples = 1,
				.elapsed_ns = 500,
				.gpu_ns = 400,
				.host_ns = 100};
		}
		bool is_none = i == sizeof(counts) / sizeof(counts[0]);
		uint64_t *count =
			(uint64_t *)((char *)&points.points[1].counts + (is_none ? 0 : counts[i]));
		*count += is_none ? 0 : (*count + 1) / 2;
		calibrate_points_join(&points);
		require(points.count == (is_none ? 1 : 2), "count %u: %zu points", i, points.count);
		calibrate_points_free(&points);
	}
}

Test(points, nearly_equal_steps_become_their_median)
{
	struct calibrate_points points;

	read_text(&points,
		"# model some-model\n# something else\n" POINT_HEADER
		"1\t500\t400\t100\t2\t0\t0\t1000\t0\t2\n"
		"1\t900\t700\t200\t2\t0\t0\t1001\t0\t2\n"
		"1\t600\t550\t50\t2\t0\t0\t1005\t0\t2\n"
		"1\t600\t550\t50\t3\t0\t0\t1005\t0\t3\n"
		"1\t600\t550\t50\t2\t0\t0\t1100\t0\t2\n",
		0);
	cr_assert_str_eq(points.origin.model, "some-model");
	require_equal(points.count, 5);
	calibrate_points_join(&points);
	require_equal(points.count, 3);
	require_equal(points.points[0].samples, 3);
	require_equal(points.points[0].elapsed_ns, 600);
	require_equal(points.points[0].gpu_ns, 550);
	require_equal(points.points[0].host_ns, 50);
	require_equal(points.points[0].counts.decode_context_tokens, 1002);
	require_equal(points.points[1].counts.decode_context_tokens, 1100);
	require_equal(points.points[2].counts.decode_rows, 3);
	calibrate_points_drop_lone(&points);
	require_equal(points.count, 1);
	require_equal(points.points[0].samples, 3);
	calibrate_points_free(&points);
}

/* Steps of one and two rows take one of two times. 900 is disturbed. */
Test(points, few_rows_become_the_mean_of_their_samples)
{
	struct calibrate_points points;

	read_text(&points,
		POINT_HEADER "1\t500\t400\t100\t2\t0\t0\t1000\t0\t2\n"
			     "1\t540\t450\t90\t2\t0\t0\t1000\t0\t2\n"
			     "1\t500\t420\t80\t2\t0\t0\t1000\t0\t2\n"
			     "1\t900\t850\t50\t2\t0\t0\t1000\t0\t2\n"
			     "1\t500\t400\t100\t3\t0\t0\t1000\t0\t3\n"
			     "1\t500\t400\t100\t3\t0\t0\t1000\t0\t3\n"
			     "1\t500\t400\t100\t3\t0\t0\t1000\t0\t3\n"
			     "1\t540\t400\t140\t3\t0\t0\t1000\t0\t3\n",
		0);
	calibrate_points_join(&points);
	require_equal(points.count, 2);
	require_equal(points.points[0].elapsed_ns, 513);
	require_equal(points.points[0].gpu_ns, 423);
	require_equal(points.points[0].host_ns, 90);
	require_equal(points.points[1].elapsed_ns, 500);
	calibrate_points_free(&points);
}

/* Whether their prompts read a prefix or not. */
Test(points, steps_with_prompts_become_medians)
{
	struct calibrate_points points;

	read_text(&points,
		"start_ns\tprefill_longest_context\t" POINT_HEADER
		"30\t5000\t1\t540\t500\t40\t0\t1\t1000\t0\t4500000\t1\n"
		"20\t5000\t1\t520\t500\t20\t0\t1\t1000\t0\t4500000\t1\n"
		"10\t5000\t1\t440\t400\t40\t0\t1\t1000\t0\t4500000\t1\n"
		"30\t900\t1\t540\t500\t40\t0\t1\t900\t0\t405450\t1\n"
		"20\t900\t1\t520\t500\t20\t0\t1\t900\t0\t405450\t1\n"
		"10\t900\t1\t440\t400\t40\t0\t1\t900\t0\t405450\t1\n",
		0);
	calibrate_points_join(&points);
	require_equal(points.count, 2);
	require_equal(points.points[0].elapsed_ns, 520);
	require_equal(points.points[1].elapsed_ns, 520);
	require_equal(points.points[1].gpu_ns, 500);
	require_equal(points.points[1].host_ns, 20);
	calibrate_points_free(&points);
}

Test(points, steps_that_share_more_are_other_steps)
{
	struct calibrate_points points;

	read_text(&points,
		"pair_tokens\tshared_tokens\t" POINT_HEADER
		"512\t512\t1\t500\t400\t100\t2\t0\t0\t2000\t0\t2\n"
		"520\t520\t1\t500\t400\t100\t2\t0\t0\t2000\t0\t2\n"
		"1024\t1024\t1\t400\t300\t100\t2\t0\t0\t2000\t0\t2\n"
		"2048\t1024\t1\t400\t300\t100\t2\t0\t0\t2000\t0\t2\n",
		0);
	calibrate_points_join(&points);
	require_equal(points.count, 3);
	require_equal(points.points[0].samples, 2);
	require_equal(points.points[0].counts.shared_tokens, 516);
	/* Shared squared, over twice the pairs; never more than is shared. */
	require_equal(points.points[0].counts.reread_tokens, 258);
	require_equal(points.points[1].counts.reread_tokens, 256);
	require_equal(points.points[2].counts.reread_tokens, 512);
	calibrate_points_free(&points);
}

/* In tables without prefill_shared_tokens all running sequences share. */
Test(points, shares_of_older_tables_are_given_to_the_rows)
{
	struct calibrate_points points;

	read_text(&points,
		"prefill_context_tokens\tshared_tokens\trepeat_tokens\t" POINT_HEADER
		"600\t512\t256\t1\t500\t400\t100\t0\t2\t88\t0\t4000\t2\n"
		"600\t512\t256\t1\t500\t400\t100\t0\t1\t88\t0\t4000\t1\n"
		"600\t512\t256\t1\t500\t400\t100\t2\t2\t88\t300\t4000\t4\n",
		0);
	static const uint64_t by_prompts[] = {512, 0, 0}, by_rows[] = {0, 0, 300},
			      again[] = {0, 0, 256};
	for (uint32_t i = 0; i < 3; i++) {
		const struct step_counts *counts = &points.points[i].counts;
		require_equal(counts->prefill_shared_tokens, by_prompts[i]);
		require_equal(counts->shared_tokens, by_rows[i]);
		require_equal(counts->repeat_tokens, again[i]);
		require(counts->reread_tokens <= by_rows[i], "line %u", i);
	}
	calibrate_points_free(&points);
}

Test(points, steps_whose_longest_rows_differ_are_other_steps)
{
	struct calibrate_points points;

	read_text(&points,
		"decode_longest_context\t" POINT_HEADER
		"1510\t1\t500\t400\t100\t2\t0\t0\t2000\t0\t2\n"
		"1514\t1\t500\t400\t100\t2\t0\t0\t2000\t0\t2\n"
		"1000\t1\t400\t300\t100\t2\t0\t0\t2000\t0\t2\n",
		0);
	calibrate_points_join(&points);
	require_equal(points.count, 2);
	require_equal(points.points[0].counts.decode_longest_context, 1000);
	require_equal(points.points[1].samples, 2);
	require_equal(points.points[1].counts.decode_longest_context, 1512);
	calibrate_points_free(&points);
}

/* Each count of steps that are nearly equal becomes its mean, and no other's. */
static void body_join(struct prop *prop, const void *context)
{
	enum { MEANS = 12, SAMPLES = 6 };
	static const size_t means[MEANS] = {
#define AT(name) offsetof(struct calibrate_point, counts.name)
		AT(decode_context_tokens),
		AT(prefill_attention_pairs),
		AT(shared_tokens),
		AT(reread_tokens),
		AT(repeat_tokens),
		AT(decode_longest_context),
		AT(prefill_longest_context),
		AT(prefill_tile_keys),
		AT(prefill_chain_keys),
		AT(prefill_half_chain_keys),
		AT(prefill_context_tokens),
		AT(prefill_shared_tokens),
#undef AT
	};
	struct calibrate_points points = {0};
	uint64_t sums[MEANS] = {0};
	uint32_t count = prop_range(prop, 1, SAMPLES), samples = 0;

	(void)context;
	for (uint32_t i = 0; i < count; i++) {
		struct calibrate_point point = {.samples = prop_range(prop, 1, 4),
			.elapsed_ns = 500,
			.gpu_ns = 400,
			.counts = {.decode_rows = 5,
				.prefill_rows = 2,
				.prefill_tokens = 70,
				.sampled_rows = 6,
				.prefill_tiles = 3}};
		const struct calibrate_points one = {.points = &point, .count = 1};
		for (uint32_t k = 0; k < MEANS; k++) {
			/* equal but for their last bits, and unlike the other counts */
			uint64_t value = (UINT64_C(1024) << k) + prop_below(prop, 16);
			memcpy((char *)&point + means[k], &value, sizeof(value));
			sums[k] += value;
		}
		samples += (uint32_t)point.samples;
		calibrate_points_append(&points, &one);
	}
	calibrate_points_join(&points);
	require_equal(points.count, 1);
	const struct calibrate_point *joined = points.points;
	for (uint32_t k = 0; k < MEANS; k++) {
		uint64_t found;
		memcpy(&found, (const char *)joined + means[k], sizeof(found));
		require(found == sums[k] / count, "count %u: %llu, expected %llu", k,
			(unsigned long long)found, (unsigned long long)(sums[k] / count));
	}
	require_equal(joined->samples, samples);
	require_equal(joined->counts.decode_rows, 5);
	require_equal(joined->counts.prefill_rows, 2);
	require_equal(joined->counts.prefill_tokens, 70);
	require_equal(joined->counts.sampled_rows, 6);
	require_equal(joined->counts.prefill_tiles, 3);
	calibrate_points_free(&points);
}

Test(points, counts_of_joined_steps_are_their_means)
{
	const struct prop_options options = {.name = "join", .body = body_join, .trials = 500};

	cr_assert(prop_holds(&options));
}

Test(points, are_read_as_they_were_written)
{
	struct calibrate_points points, again;
	struct error error = {STATUS_OK, ""};
	char path[TEMPORARY_PATH_BYTES + 16];

	read_text(&points,
		"# model m\n# device a GPU of 1 W\n# command quire calibrate --name "
		"x\n" POINT_HEADER "4\t500\t400\t100\t2\t3\t70\t1000\t7000\t4\n",
		0);
	snprintf(path, sizeof(path), "%s/again.tsv", folder);
	require(calibrate_points_write(&points, path, &error) == STATUS_OK, "%s", error.text);
	require(calibrate_points_read(&again, path, 0, &error) == STATUS_OK, "%s", error.text);
	require_equal(again.count, 1);
#define SAME_LINE(key, bytes) cr_assert_str_eq(again.origin.key, points.origin.key);
	CALIBRATE_LINE_LIST(SAME_LINE)
#undef SAME_LINE
	cr_assert(memcmp(again.points, points.points, sizeof(*points.points)) == 0);
	calibrate_points_free(&points);
	calibrate_points_free(&again);
}

Test(points, steps_of_a_replay_are_read_from_a_time_on)
{
	struct calibrate_points points;

	read_text(&points,
		"step\tstart_ns\telapsed_ns\tgpu_ns\thost_ns\tmode\tdecode_rows\tprefill_rows\t"
		"prefill_tokens\tdecode_context_tokens\tprefill_attention_pairs\tsampled_rows\n"
		"0\t10\t500\t400\t100\tgraph\t2\t0\t0\t1000\t0\t2\n"
		"1\t700\t501\t400\t101\teager\t2\t0\t0\t1000\t0\t2\n",
		700);
	require_equal(points.count, 1);
	require_equal(points.points[0].elapsed_ns, 501);
	require_equal(points.points[0].samples, 1);
	calibrate_points_free(&points);
}

Test(points, malformed_files_are_refused_with_line_and_column)
{
	static const struct {
		const char *text, *part;
	} cases[] = {
		{"", "found an empty file"},
		{"# model m\n", "found an empty file"},
		{"# model m\nsamples\telapsed_ns\n", "points.tsv:2: column decode_rows is missing"},
		{POINT_HEADER "1\t5\n", "points.tsv:2: found 2 columns, expected the header's 10"},
		{POINT_HEADER "1\t-5\t4\t1\t2\t0\t0\t9\t0\t2\n",
			"points.tsv:2: column elapsed_ns: found '-5', expected an integer"},
		{POINT_HEADER "1\t0\t0\t0\t2\t0\t0\t9\t0\t2\n",
			"points.tsv:2: column elapsed_ns: found '0', expected 1 to 10^15"},
		{POINT_HEADER "1\t1000000000000001\t5\t0\t2\t0\t0\t9\t0\t2\n",
			"points.tsv:2: column elapsed_ns: found '1000000000000001', expected 1 to"},
		{POINT_HEADER "0\t5\t5\t0\t2\t0\t0\t9\t0\t2\n",
			"points.tsv:2: column samples: found '0', expected 1 or more"},
		{POINT_HEADER "1\t5\t6\t0\t2\t0\t0\t9\t0\t2\n",
			"points.tsv:2: column gpu_ns: found '6', expected at most elapsed_ns"},
		{POINT_HEADER "1\t5\t3\t1\t2\t0\t0\t9\t0\t2\n",
			"points.tsv:2: column host_ns: found '1', expected elapsed_ns less gpu_ns"},
		{POINT_HEADER "1\t5\t5\t0\t2\t0\t7\t9\t9\t2\n",
			"points.tsv:2: column prefill_rows: found '0', expected 1 to 7"},
		{POINT_HEADER "1\t5\t5\t0\t9\t0\t0\t8\t0\t9\n",
			"points.tsv:2: column decode_context_tokens: found '8', expected 9 to"},
		{POINT_HEADER "1\t5\t5\t0\t0\t0\t0\t0\t0\t0\n",
			"points.tsv:2: column decode_rows: found '0', expected a decode row or"},
		{"ahead\t" POINT_HEADER "2\t1\t5\t5\t0\t2\t0\t0\t9\t0\t2\n",
			"points.tsv:2: column ahead: found '2', expected 0 or 1"},
		{"elapsed_ns\thost_ns\tdecode_rows\tprefill_rows\tprefill_tokens\t"
		 "decode_context_tokens\tprefill_attention_pairs\tsampled_rows\n"
		 "5\t6\t2\t0\t0\t9\t0\t2\n",
			"points.tsv:2: column host_ns: found '6', expected elapsed_ns less gpu_ns"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char path[TEMPORARY_PATH_BYTES];
		struct calibrate_points points;
		struct error error = {STATUS_OK, ""};
		temporary_write(folder, "points.tsv", cases[i].text, path);
		enum status status = calibrate_points_read(&points, path, 0, &error);
		require(status == STATUS_INPUT, "accepted: %s", cases[i].text);
		require(strstr(error.text, cases[i].part) != NULL, "'%s' does not say '%s'",
			error.text, cases[i].part);
		calibrate_points_free(&points);
	}
}

/* ---- fitting ---- */

TestSuite(fit, .init = set_up, .fini = tear_down);

/* An H200 that computes qwen3-0.6b. */
static struct calibrate_setup setup_of_h200(void)
{
	struct calibrate_setup setup = {0};
	struct gpu_profile gpu;
	struct error error = {0};

	require(gpu_profile_find("h200-datasheet", &gpu, &error) == STATUS_OK, "%s", error.text);
	setup.limits = gpu.prices.limits;
	require(model_config_builtin("qwen3-0.6b", &setup.shape), "no such model");
	setup.graph_tokens = (uint32_t)graph_prompt_tokens(&setup.shape);
	return setup;
}

/* A GPU whose prices are known. */
static struct operation_prices true_prices(void)
{
	const struct calibrate_setup setup = setup_of_h200();
	struct operation_prices prices = {
		.limits = setup.limits, .graph_tokens = setup.graph_tokens, .shape = setup.shape};

#define PRICE(term, ...) prices.terms[OPERATION_TERM_##term] = (struct operation_parts){__VA_ARGS__}
	PRICE(graph, 1, .ns = {350000});
	PRICE(graph_rows, 2, .at = {0, 64}, .ns = {900, 2000});
	PRICE(eager, 1, .ns = {500000});
	PRICE(eager_launched, 1, .ns = {90000});
	PRICE(eager_mixed, 1, .ns = {100000});
	PRICE(eager_tokens, 2, .at = {0, 512}, .ns = {100, 400});
	PRICE(eager_decode, 1, .ns = {600});
	PRICE(samples, 1, .ns = {300});
	PRICE(kv_reread, 1, .at = {4096}, .ns = {5});
	PRICE(kv_shared, 1, .at = {0.0625}, .ns = {15});
	PRICE(kv_again, 1, .at = {24576}, .ns = {6});
	PRICE(kv_merge, 1, .at = {1024}, .ns = {4});
	PRICE(kv_all, 1, .ns = {10});
	PRICE(kv_longest, 1, .ns = {40});
	PRICE(eager_mixed_tokens, 2, .at = {0, 256}, .ns = {300, 20});
	PRICE(prefill_chain, 1, .ns = {200});
	PRICE(prefill_walk, 1, .ns = {5});
	PRICE(host_graph, 1, .ns = {20000});
	PRICE(host_eager, 1, .ns = {20000});
	PRICE(host_ahead, 1, .ns = {4000});
	PRICE(host_rows, 1, .ns = {150});
#undef PRICE
	return prices;
}

/* Steps of all kinds with times that are off by up to `noise`. */
static void make_points(struct calibrate_points *points, uint32_t count, double noise)
{
	static struct operation_pricer pricer;
	const struct operation_prices prices = true_prices();

	operation_pricer_init(&pricer, &prices);
	memset(points, 0, sizeof(*points));
	points->points = calloc(count, sizeof(*points->points));
	points->count = points->capacity = count;
	snprintf(points->origin.model, sizeof(points->origin.model), "qwen3-0.6b");
	for (uint32_t i = 0; i < count; i++) {
		struct calibrate_point *point = &points->points[i];
		struct step_counts *counts = &point->counts;
		uint64_t a = counter_hash(1, 5 * i), b = counter_hash(1, 5 * i + 1);
		uint64_t kind = i % 3;
		if (kind != 1) {
			counts->decode_rows = 1 + a % (UINT64_C(1) << (1 + b % 9));
			counts->decode_context_tokens = counts->decode_rows * (20 + b % 2000);
			uint64_t mean = counts->decode_context_tokens / counts->decode_rows;
			counts->decode_longest_context = u64_min(mean * (1 + a / 65536 % 16),
				counts->decode_context_tokens - counts->decode_rows + 1);
			counts->shared_tokens = counts->decode_context_tokens / 8 * (a / 512 % 8);
			/* Of k holders: T (k - 1) and T (k - 1) / k. */
			counts->reread_tokens = counts->shared_tokens / (2 + a / 4096 % 50);
		}
		if (kind != 0) {
			uint64_t c = counter_hash(1, 5 * i + 2);
			counts->prefill_rows = 1 + c % 4;
			counts->prefill_tokens =
				counts->prefill_rows * (1 + b % (UINT64_C(16) << (c % 8)));
			counts->prefill_attention_pairs =
				counts->prefill_tokens *
				(counts->prefill_tokens / 2 + 1 + c % 9000);
		}
		counts->sampled_rows = counts->decode_rows + counts->prefill_rows;
		double error = (double)(counter_hash(1, 5 * i + 3) % 2001) / 1000 - 1;
		point->ahead = kind == 0 && i % 2 == 0;
		const struct operation_price price =
			price_by_operations(&pricer, counts, point->ahead != 0);
		point->samples = 1;
		point->gpu_ns = (uint64_t)(price.gpu_ns * (1 + noise * error));
		point->host_ns = (uint64_t)price.host_ns;
		point->elapsed_ns = point->gpu_ns + point->host_ns;
	}
}

Test(fit, finds_the_prices_that_the_steps_were_made_of)
{
	const struct calibrate_setup setup = setup_of_h200();
	const struct operation_prices prices = true_prices();
	static struct operation_pricer pricer;
	struct calibrate_points points;
	struct calibrate_fit fit;
	struct error error = {STATUS_OK, ""};

	operation_pricer_init(&pricer, &prices);
	make_points(&points, 1500, 0.02);
	require(calibrate_fit(&fit, &points, &setup, 0, &error) == STATUS_OK, "%s", error.text);
	/* Noise is uniform, so that its mean size is half of its largest. */
	require(fit.held_out.mean < 0.013, "held out: %.4f", fit.held_out.mean);
	require(fit.held_out.points > 400 && fit.held_out.points < 600, "%u held out",
		fit.held_out.points);
	require_equal(fit.held_out.points + fit.fitted.points, points.count);
	double off = 0;
	for (size_t i = 0; i < points.count; i++) {
		const struct calibrate_point *point = &points.points[i];
		const struct operation_price price =
			price_by_operations(&pricer, &point->counts, point->ahead != 0);
		double truth = price.gpu_ns + price.host_ns;
		off += fabs((double)point->predicted_ns / truth - 1);
	}
	off /= (double)points.count;
	require(off < 0.006, "off the truth by %.4f", off);
	calibrate_points_free(&points);
}

Test(fit, without_noise_is_right_to_two_thousandths)
{
	const struct calibrate_setup setup = setup_of_h200();
	struct calibrate_points points;
	struct calibrate_fit fit;
	struct error error = {STATUS_OK, ""};

	make_points(&points, 900, 0);
	require(calibrate_fit(&fit, &points, &setup, 7, &error) == STATUS_OK, "%s", error.text);
	require(fit.held_out.mean < 0.002, "held out: %.5f", fit.held_out.mean);
	calibrate_points_free(&points);
}

static double ns_of(const struct calibrate_fit *fit, const struct step_counts *counts)
{
	static struct operation_pricer pricer;

	operation_pricer_init(&pricer, &fit->prices);
	const struct operation_price price = price_by_operations(&pricer, counts, false);
	return price.gpu_ns + price.host_ns;
}

Test(fit, distinguishes_uneven_rows_from_even_ones)
{
	const struct calibrate_setup setup = setup_of_h200();
	struct calibrate_points points;
	struct calibrate_fit fit;
	struct error error = {STATUS_OK, ""};
	struct step_counts even = {.decode_rows = 8,
		.sampled_rows = 8,
		.decode_context_tokens = 16000,
		.decode_longest_context = 2000};
	struct step_counts uneven = even;

	uneven.decode_longest_context = 12000;
	make_points(&points, 900, 0);
	require(calibrate_fit(&fit, &points, &setup, 0, &error) == STATUS_OK, "%s", error.text);
	double more = ns_of(&fit, &uneven) - ns_of(&fit, &even);
	require(is_near(more, 400000, 20000), "%.0f ns more", more);
	calibrate_points_free(&points);
}

Test(fit, has_no_price_for_an_unmeasured_longest_row)
{
	const struct calibrate_setup setup = setup_of_h200();
	struct calibrate_points points;
	struct calibrate_fit fit;
	struct error error = {STATUS_OK, ""};
	struct step_counts step = {.decode_rows = 8, .decode_context_tokens = 16000};

	make_points(&points, 900, 0);
	for (size_t i = 0; i < points.count; i++) {
		points.points[i].counts.decode_longest_context = 0;
	}
	require(calibrate_fit(&fit, &points, &setup, 0, &error) == STATUS_OK, "%s", error.text);
	double even_ns = ns_of(&fit, &step);
	step.decode_longest_context = 15000;
	require(ns_of(&fit, &step) == even_ns, "a price for the longest row");
	calibrate_points_free(&points);
}

/* Where no step shared, a shared token costs no more than another, and no less than nothing. */
Test(fit, prices_sharing_no_higher_than_memory_where_it_was_not_measured)
{
	const struct calibrate_setup setup = setup_of_h200();
	struct calibrate_points points;
	struct calibrate_fit fit;
	struct error error = {STATUS_OK, ""};
	struct step_counts counts = {.decode_rows = 100, .decode_context_tokens = 150000};
	struct step_counts shared = counts, without = counts;

	shared.shared_tokens = 50000;
	shared.reread_tokens = 20000;
	without.decode_context_tokens -= shared.shared_tokens;
	make_points(&points, 600, 0);
	for (size_t i = 0; i < points.count; i++) {
		points.points[i].counts.shared_tokens = points.points[i].counts.reread_tokens = 0;
	}
	require(calibrate_fit(&fit, &points, &setup, 0, &error) == STATUS_OK, "%s", error.text);
	calibrate_points_free(&points);
	require(ns_of(&fit, &shared) <= ns_of(&fit, &counts), "shared tokens cost more");
	require(ns_of(&fit, &shared) >= ns_of(&fit, &without), "shared tokens cost less than none");
}

/* Whatever the measured steps took. */
Test(fit, prices_k_and_v_no_faster_than_memory)
{
	const struct calibrate_setup setup = setup_of_h200();
	struct calibrate_points points;
	struct calibrate_fit fit;
	struct error error = {STATUS_OK, ""};
	struct operation_floors floors;

	operation_floors_of(&floors, &setup.limits, &setup.shape);
	make_points(&points, 900, 0);
	for (size_t i = 0; i < points.count; i++) {
		struct calibrate_point *point = &points.points[i];
		/* 30 ns a token become 10. */
		uint64_t less =
			20 * (point->counts.decode_context_tokens - point->counts.shared_tokens);
		less = less < point->gpu_ns / 2 ? less : point->gpu_ns / 2;
		point->gpu_ns -= less;
		point->elapsed_ns -= less;
	}
	require(calibrate_fit(&fit, &points, &setup, 0, &error) == STATUS_OK, "%s", error.text);
	double ns = fit.prices.terms[OPERATION_TERM_kv_all].ns[0];
	for (uint32_t i = 0; i < fit.prices.terms[OPERATION_TERM_kv_reread].count; i++) {
		ns += fit.prices.terms[OPERATION_TERM_kv_reread].ns[i];
	}
	for (uint32_t i = 0; i < fit.prices.terms[OPERATION_TERM_kv_shared].count; i++) {
		ns += fit.prices.terms[OPERATION_TERM_kv_shared].ns[i];
	}
	require(ns >= floors.kv_token * (1 - 1e-8), "%.3f ns, memory takes %.3f", ns,
		floors.kv_token);
	calibrate_points_free(&points);
}

Test(fit, holds_out_by_counts_and_not_by_position)
{
	const struct calibrate_setup setup = setup_of_h200();
	struct calibrate_points points, reversed;
	struct calibrate_fit fit;
	struct error error = {STATUS_OK, ""};

	make_points(&points, 300, 0.02);
	make_points(&reversed, 300, 0.02);
	for (size_t i = 0; i < 300; i++) {
		reversed.points[299 - i] = points.points[i];
	}
	require(calibrate_fit(&fit, &points, &setup, 3, &error) == STATUS_OK, "%s", error.text);
	require(calibrate_fit(&fit, &reversed, &setup, 3, &error) == STATUS_OK, "%s", error.text);
	for (size_t i = 0; i < 300; i++) {
		require_equal(points.points[i].is_held_out, reversed.points[299 - i].is_held_out);
	}
	calibrate_points_free(&points);
	calibrate_points_free(&reversed);
}

Test(fit, too_few_steps_are_refused)
{
	const struct calibrate_setup setup = setup_of_h200();
	struct calibrate_points points;
	struct calibrate_fit fit;
	struct error error = {STATUS_OK, ""};

	make_points(&points, 30, 0);
	require_equal(calibrate_fit(&fit, &points, &setup, 0, &error), STATUS_INPUT);
	cr_assert_not_null(strstr(error.text, "found 30 different steps"));
	calibrate_points_free(&points);
}

/* ---- profiles ---- */

TestSuite(calibrated, .init = set_up, .fini = tear_down);

/* Fits points, writes the profile; its path is in `path` (TEMPORARY_PATH_BYTES + 16). */
static void write_profile_of(struct calibrate_points *points, char *path)
{
	const struct calibrate_setup setup = setup_of_h200();
	struct calibrate_fit fit;
	struct gpu_profile memory;
	struct error error = {STATUS_OK, ""};

	snprintf(path, TEMPORARY_PATH_BYTES + 16, "%s/mine.json", folder);
	enum status status = calibrate_fit(&fit, points, &setup, 0, &error);
	if (status == STATUS_OK) {
		status = gpu_profile_find("h200-datasheet", &memory, &error);
	}
	if (status == STATUS_OK) {
		status = calibrate_profile_write(path, &fit, points, &memory, &error);
	}
	require(status == STATUS_OK, "%s", error.text);
}

/* The same of made-up points. */
static void write_profile(struct calibrate_points *points, char *path)
{
	make_points(points, 600, 0.01);
	write_profile_of(points, path);
}

Test(calibrated, the_heat_of_points_is_in_the_profile)
{
	const struct heat_prices heat = {0.2, 0.1, 5e7};
	char path[TEMPORARY_PATH_BYTES + 16];
	struct calibrate_points points;
	static struct gpu_profile profile;
	struct error error = {STATUS_OK, ""};

	make_points(&points, 600, 0.01);
	calibrate_heat_remove(&points, &heat);
	write_profile_of(&points, path);
	require(gpu_profile_find(path, &profile, &error) == STATUS_OK, "%s", error.text);
	require(profile.heat.prompt == heat.prompt && profile.heat.decode == heat.decode &&
			profile.heat.decay_ns == heat.decay_ns,
		"%g, %g, %g", profile.heat.prompt, profile.heat.decode, profile.heat.decay_ns);
	calibrate_points_free(&points);
}

Test(calibrated, a_profile_prices_as_the_fit_predicts)
{
	char path[TEMPORARY_PATH_BYTES + 16];
	struct calibrate_points points;
	static struct gpu_profile profile;
	struct model_config model;
	struct runner runner;
	struct error error = {STATUS_OK, ""};

	write_profile(&points, path);
	enum status status = gpu_profile_find(path, &profile, &error);
	require(status == STATUS_OK, "%s", error.text);
	require_equal(profile.is_calibrated, true);
	cr_assert_str_eq(profile.model, "qwen3-0.6b");
	require(model_config_find("qwen3-0.6b", &model, &error) == STATUS_OK, "%s", error.text);
	require(cost_model_open(&runner, &model, &profile, 1, &error) == STATUS_OK, "%s",
		error.text);
	for (size_t i = 0; i < points.count; i++) {
		const struct batch batch = {.counts = points.points[i].counts};
		struct step_time time;
		if (points.points[i].ahead != 0 || points.points[i].is_held_out) {
			continue;
		}
		status = runner.execute(runner.state, &batch, NULL, &time, &error);
		require(status == STATUS_OK, "%s", error.text);
		require(is_near((double)time.elapsed_ns, (double)points.points[i].predicted_ns, 1),
			"%llu ns, the fit said %llu", (unsigned long long)time.elapsed_ns,
			(unsigned long long)points.points[i].predicted_ns);
		require_equal(time.elapsed_ns, time.gpu_ns + time.host_ns);
	}
	runner.close(runner.state);
	calibrate_points_free(&points);
}

Test(calibrated, a_step_launched_ahead_pays_for_the_host_as_such)
{
	char path[TEMPORARY_PATH_BYTES + 16];
	struct calibrate_points points;
	static struct gpu_profile profile;
	struct model_config model;
	struct runner runner;
	struct error error = {STATUS_OK, ""};
	const struct batch batch = {
		.counts = {
			.decode_rows = 100, .decode_context_tokens = 50000, .sampled_rows = 100}};
	struct step_time alone, first, second, third;

	write_profile(&points, path);
	calibrate_points_free(&points);
	enum status status = gpu_profile_find(path, &profile, &error);
	require(status == STATUS_OK, "%s", error.text);
	require(model_config_find("qwen3-0.6b", &model, &error) == STATUS_OK, "%s", error.text);
	require(cost_model_open(&runner, &model, &profile, 1, &error) == STATUS_OK, "%s",
		error.text);
	runner.execute(runner.state, &batch, NULL, &alone, &error);
	runner.launch(runner.state, &batch, &error);
	runner.launch(runner.state, &batch, &error);
	runner.collect(runner.state, NULL, &first, &error);
	runner.launch(runner.state, &batch, &error);
	runner.collect(runner.state, NULL, &second, &error);
	runner.collect(runner.state, NULL, &third, &error);
	require_equal(first.elapsed_ns, alone.elapsed_ns);
	require_equal(second.elapsed_ns, third.elapsed_ns);
	require(is_near((double)alone.host_ns, 35000, 2000), "%llu ns",
		(unsigned long long)alone.host_ns);
	require(is_near((double)third.host_ns, 4000, 200), "%llu ns",
		(unsigned long long)third.host_ns);
	runner.close(runner.state);
}

Test(calibrated, another_model_is_refused)
{
	char path[TEMPORARY_PATH_BYTES + 16];
	struct calibrate_points points;
	static struct gpu_profile profile;
	struct model_config model;
	struct runner runner;
	struct error error = {STATUS_OK, ""};

	write_profile(&points, path);
	require(gpu_profile_find(path, &profile, &error) == STATUS_OK, "%s", error.text);
	require(model_config_find("qwen3-8b", &model, &error) == STATUS_OK, "%s", error.text);
	require_equal(cost_model_open(&runner, &model, &profile, 1, &error), STATUS_USAGE);
	cr_assert_not_null(strstr(error.text, "calibrated with qwen3-0.6b"));
	calibrate_points_free(&points);
}

/* The points of every calibrated profile of the project lie beside it. */
static void require_fit_of(const char *profile_name)
{
	char path[TEMPORARY_PATH_BYTES];
	struct calibrate_points points;
	struct calibrate_setup setup;
	struct calibrate_fit fit;
	struct gpu_profile profile;
	struct error error = {STATUS_OK, ""};

	snprintf(path, sizeof(path), QUIRE_SOURCE_DIR "/sim/profiles/points/%s.tsv", profile_name);
	enum status status = calibrate_points_read(&points, path, 0, &error);
	require(status == STATUS_OK, "%s", error.text);
	status = gpu_profile_find(profile_name, &profile, &error);
	require(status == STATUS_OK, "%s", error.text);
	setup = (struct calibrate_setup){profile.prices.limits, profile.prices.shape,
		points.origin.source[0] != '\0', profile.prices.graph_tokens};
	status = calibrate_fit(&fit, &points, &setup, 0, &error);
	require(status == STATUS_OK, "%s", error.text);
	cr_assert_str_eq(points.origin.model, profile.model);
	require_equal(fit.edges, profile.edges);
	require_equal(fit.held_out.points, profile.held_out.points);
	require(is_near(fit.held_out.p99, profile.held_out.p99, 1e-5), "p99 %.6f, written %.6f",
		fit.held_out.p99, profile.held_out.p99);
	for (uint32_t t = 0; t < OPERATION_TERM_COUNT; t++) {
		const struct operation_parts *found = &fit.prices.terms[t];
		const struct operation_parts *written = &profile.prices.terms[t];
		require_equal(found->count, written->count);
		for (uint32_t i = 0; i < found->count; i++) {
			require(is_near(found->ns[i], written->ns[i], 1e-6 * found->ns[i] + 1e-6),
				"%s.%u: %.9g, written %.9g",
				operation_term_name((enum operation_term)t), i, found->ns[i],
				written->ns[i]);
		}
	}
	calibrate_points_free(&points);
}

Test(calibrated, those_of_the_project_are_the_fit_of_their_points)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < gpu_profile_count(); i++) {
		char name[GPU_PROFILE_NAME_BYTES];
		static struct gpu_profile profile;
		struct error error = {STATUS_OK, ""};
		const char *file = gpu_profile_file(i);
		snprintf(name, sizeof(name), "%.*s", (int)(strlen(file) - 5), file);
		require(gpu_profile_find(name, &profile, &error) == STATUS_OK, "%s", error.text);
		if (profile.is_calibrated) {
			require_fit_of(name);
			count++;
		}
	}
	if (count == 0) {
		cr_skip_test("no calibrated profile is in the tree");
	}
}

/* ---- the command ---- */

TestSuite(calibrate_command, .init = set_up, .fini = tear_down, .timeout = 120);

/* Which steps the plan made the engine compute, read from points.tsv. */
struct coverage {
	bool has_rows[513];
	uint64_t longest_prompt_context, mixed, prefill_batches, most_context, sharing, uneven;
	uint64_t most_mixed_rows, most_mixed_tokens, most_prompts, most_shared_prefix;
	uint64_t chats; /* ragged rows that share one block */
	uint64_t mixed_sharing, mixed_ragged, most_crowd_tokens;
};

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void cover_decode(struct coverage *coverage, const struct step_counts *counts)
{
	uint64_t context = counts->decode_context_tokens;

	coverage->has_rows[counts->decode_rows] = true;
	coverage->uneven += counts->decode_rows <= 32 && counts->decode_longest_context >= 8000 &&
			    counts->decode_longest_context * counts->decode_rows >= 4 * context;
	coverage->sharing += counts->shared_tokens > 0;
	if (counts->decode_rows >= 16 && counts->shared_tokens > 0) {
		coverage->most_shared_prefix = most(coverage->most_shared_prefix,
			counts->shared_tokens / (counts->decode_rows - 1));
	}
	coverage->chats += counts->decode_rows > 8 &&
			   counts->shared_tokens == 256 * (counts->decode_rows - 1) &&
			   counts->decode_longest_context * counts->decode_rows * 3 > context * 4;
	if (counts->shared_tokens == 0) {
		coverage->most_context = most(coverage->most_context, context);
	}
}

static void cover(struct coverage *coverage, const struct calibrate_points *points)
{
	memset(coverage, 0, sizeof(*coverage));
	for (size_t i = 0; i < points->count; i++) {
		const struct step_counts *counts = &points->points[i].counts;
		if (counts->prefill_rows == 0) {
			cover_decode(coverage, counts);
			continue;
		}
		require(points->points[i].samples >= 3,
			"%llu prompts of %llu tokens beside %llu rows measured %llu times",
			(unsigned long long)counts->prefill_rows,
			(unsigned long long)counts->prefill_tokens,
			(unsigned long long)counts->decode_rows,
			(unsigned long long)points->points[i].samples);
		coverage->longest_prompt_context =
			most(coverage->longest_prompt_context, counts->prefill_longest_context);
		coverage->prefill_batches += counts->prefill_rows > 1;
		coverage->most_prompts = most(coverage->most_prompts, counts->prefill_rows);
		if (counts->decode_rows > 0) {
			coverage->mixed++;
			coverage->mixed_sharing += counts->shared_tokens > 0;
			coverage->mixed_ragged +=
				counts->decode_longest_context * counts->decode_rows * 3 >
				counts->decode_context_tokens * 4;
			if (counts->prefill_rows >= 4) {
				coverage->most_crowd_tokens =
					most(coverage->most_crowd_tokens, counts->prefill_tokens);
			}
			coverage->most_mixed_rows =
				most(coverage->most_mixed_rows, counts->decode_rows);
			coverage->most_mixed_tokens = most(coverage->most_mixed_tokens,
				counts->prefill_tokens + counts->decode_rows);
		}
	}
}

static void require_corners(const struct coverage *coverage)
{
	for (uint32_t rows = 1; rows < 512; rows++) {
		bool is_last_of_bucket = graph_bucket(rows) != graph_bucket(rows + 1);
		if (is_last_of_bucket && (rows <= 64 || rows == 256)) {
			require(coverage->has_rows[rows] && coverage->has_rows[rows + 1],
				"no step decodes %u or %u rows", rows, rows + 1);
		}
	}
	require(coverage->has_rows[512], "no step decodes the widest batch");
	require(coverage->longest_prompt_context > 114688, "no long prefix");
	require(coverage->mixed > 120 && coverage->prefill_batches > 15,
		"%llu mixed, %llu prefill batches", (unsigned long long)coverage->mixed,
		(unsigned long long)coverage->prefill_batches);
	require_equal(coverage->most_mixed_rows, 511);
	require_equal(coverage->most_mixed_tokens, 16384);
	require_equal(coverage->most_prompts, 512);
	require(coverage->most_context > 700000, "%llu tokens at most",
		(unsigned long long)coverage->most_context);
	require(coverage->most_shared_prefix > 120000, "%llu tokens shared at most",
		(unsigned long long)coverage->most_shared_prefix);
	require(coverage->chats > 15, "%llu chats", (unsigned long long)coverage->chats);
	require(coverage->mixed_sharing > 20 && coverage->mixed_ragged > 60,
		"%llu mixed steps share, %llu are ragged",
		(unsigned long long)coverage->mixed_sharing,
		(unsigned long long)coverage->mixed_ragged);
	require(coverage->most_crowd_tokens > 12000, "%llu tokens of a crowd at most",
		(unsigned long long)coverage->most_crowd_tokens);
	require(coverage->uneven > 15, "%llu uneven", (unsigned long long)coverage->uneven);
	require(coverage->sharing > 60, "%llu share", (unsigned long long)coverage->sharing);
}

/* Steps to 131,072 tokens a row that no plan has. */
static struct step_counts random_step(uint32_t i)
{
	uint64_t a = counter_hash(9, 4 * i), b = counter_hash(9, 4 * i + 1);
	uint64_t c = counter_hash(9, 4 * i + 2);
	struct step_counts counts = {0};

	if (i % 3 != 1) {
		counts.decode_rows = 1 + a % (UINT64_C(1) << (1 + b % 9));
		uint64_t each = 1 + c % (UINT64_C(1) << (8 + a / 1024 % 10));
		each = each * counts.decode_rows > 900000 ? 900000 / counts.decode_rows : each;
		counts.decode_context_tokens = each * counts.decode_rows;
		counts.decode_longest_context = each;
	}
	if (i % 3 != 0) {
		uint64_t prefix = b / 16 % 2 == 0 ? 0 : c / 64 % 114688;
		counts.prefill_rows = 1;
		counts.prefill_tokens = 1 + b / 4096 % (UINT64_C(1) << (1 + c % 13));
		counts.prefill_attention_pairs =
			batch_attention_pairs(prefix, counts.prefill_tokens);
		counts.prefill_longest_context = prefix + counts.prefill_tokens;
	}
	counts.sampled_rows = counts.decode_rows + counts.prefill_rows;
	return counts;
}

static int compare_doubles(const void *a, const void *b)
{
	const double *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

/* The plan's steps, priced by a profile with noise of 1.5 % and 3 % of them 10 % slow, tell its
   prices: random steps cost the same by what is fitted to them. */
static void require_own_prices(struct calibrate_points *points)
{
	enum { STEPS = 3000 };
	const struct calibrate_setup setup = setup_of_h200();
	static struct gpu_profile truth;
	static struct operation_pricer pricer, fitted;
	static double errors[STEPS];
	struct calibrate_fit fit;
	struct error error = {0};

	require(gpu_profile_find("h200-qwen3-0.6b", &truth, &error) == STATUS_OK, "%s", error.text);
	operation_pricer_init(&pricer, &truth.prices);
	for (size_t i = 0; i < points->count; i++) {
		struct calibrate_point *point = &points->points[i];
		const struct operation_price price =
			price_by_operations(&pricer, &point->counts, point->ahead != 0);
		double noise = (double)(counter_hash(5, i) % 3001) / 1e5 - 0.015;
		noise += counter_hash(6, i) % 100 < 3 ? 0.1 : 0;
		point->gpu_ns = (uint64_t)(price.gpu_ns * (1 + noise));
		point->host_ns = (uint64_t)price.host_ns;
		point->elapsed_ns = point->gpu_ns + point->host_ns;
	}
	require(calibrate_fit(&fit, points, &setup, 0, &error) == STATUS_OK, "%s", error.text);
	operation_pricer_init(&fitted, &fit.prices);
	for (uint32_t i = 0; i < STEPS; i++) {
		const struct step_counts counts = random_step(i);
		const struct operation_price found = price_by_operations(&fitted, &counts, false);
		const struct operation_price true_one =
			price_by_operations(&pricer, &counts, false);
		errors[i] = fabs(
			(found.gpu_ns + found.host_ns) / (true_one.gpu_ns + true_one.host_ns) - 1);
	}
	qsort(errors, STEPS, sizeof(*errors), compare_doubles);
	require(errors[STEPS / 2] < 0.005 && errors[STEPS * 99 / 100] < 0.023, "p50 %.4f, p99 %.4f",
		errors[STEPS / 2], errors[STEPS * 99 / 100]);
}

/* Leaves two thirds of the measured steps, as an interrupt does. */
static void cut_steps(void)
{
	char path[TEMPORARY_PATH_BYTES + 32];
	size_t bytes;

	snprintf(path, sizeof(path), "%s/c/run/steps.tsv", folder);
	char *text = file_read(path, &bytes);
	text[bytes * 2 / 3] = '\0';
	*(strrchr(text, '\n') + 1) = '\0';
	file_write(path, text, strlen(text));
	free(text);
}

Test(calibrate_command, its_plan_reaches_every_corner_and_tells_the_prices)
{
	char path[TEMPORARY_PATH_BYTES + 32];
	struct calibrate_points points;
	struct coverage coverage;
	struct error error = {STATUS_OK, ""};

	char *text =
		quire_output(folder, 0, "calibrate --runner sim --gpu h200 --name fit --out @/c");
	free(text);
	snprintf(path, sizeof(path), "%s/c/points.tsv", folder);
	require(calibrate_points_read(&points, path, 0, &error) == STATUS_OK, "%s", error.text);
	cover(&coverage, &points);
	require_corners(&coverage);
	require_own_prices(&points);
	size_t count = points.count;
	calibrate_points_free(&points);
	text = quire_output(folder, 0, "calibrate --measured --name fit --out @/c");
	free(text);
	require(calibrate_points_read(&points, path, 0, &error) == STATUS_OK, "%s", error.text);
	require_equal(points.count, count);
	calibrate_points_free(&points);
	cut_steps();
	text = quire_output(folder, 0, "calibrate --measured --name fit --out @/c");
	free(text);
	require(calibrate_points_read(&points, path, 0, &error) == STATUS_OK, "%s", error.text);
	require(points.count > count / 2 && points.count < count, "%zu of %zu points of a cut run",
		points.count, count);
	calibrate_points_free(&points);
}

static double busy_s(const char *run)
{
	char path[TEMPORARY_PATH_BYTES + 64];

	snprintf(path, sizeof(path), "%s/c/%s/summary.json", folder, run);
	char *text = file_read(path, NULL);
	const char *busy = strstr(text, "\"busy_s\"");
	require(busy != NULL, "no busy_s in %s", path);
	double seconds = strtod(strchr(busy, ':') + 1, NULL);
	free(text);
	return seconds;
}

/* The steps of the plan by the prices of a profile that was measured. */
static double seconds_by_profile(const char *run, const char *profile_name)
{
	static struct gpu_profile profile;
	static struct operation_pricer pricer;
	struct calibrate_points steps;
	struct error error = {0};
	char path[TEMPORARY_PATH_BYTES + 64];
	double seconds = 0;

	require(gpu_profile_find(profile_name, &profile, &error) == STATUS_OK, "%s", error.text);
	operation_pricer_init(&pricer, &profile.prices);
	snprintf(path, sizeof(path), "%s/c/%s/steps.tsv", folder, run);
	require(calibrate_points_read(&steps, path, 0, &error) == STATUS_OK, "%s", error.text);
	for (size_t i = 0; i < steps.count; i++) {
		const struct operation_price price =
			price_by_operations(&pricer, &steps.points[i].counts, false);
		seconds += (price.gpu_ns + price.host_ns) * 1e-9;
	}
	calibrate_points_free(&steps);
	return seconds;
}

/* As the rates of the data sheet price it, which know every model; measured profiles too, where
   there is one. */
Test(calibrate_command, takes_three_minutes_of_gpu_at_most)
{
	static const char *const setups[] = {"qwen3-0.6b", "qwen3-1.7b", "qwen3-4b", "qwen3-8b",
		"qwen3-14b", "qwen3-32b", "qwen3-8b -tp 2", "qwen3-32b -tp 2"};
	char path[TEMPORARY_PATH_BYTES + 32], arguments[256];
	struct error error = {0};

	snprintf(path, sizeof(path), "%s/c/points.tsv", folder);
	for (size_t i = 0; i < sizeof(setups) / sizeof(setups[0]); i++) {
		struct calibrate_points points;
		snprintf(arguments, sizeof(arguments),
			"calibrate --runner sim --gpu h200 --name fit --out @/c --force --model %s",
			setups[i]);
		free(quire_output(folder, 0, arguments));
		double seconds = busy_s("run") + busy_s("run_ahead");
		require(seconds > 30 && seconds < 170, "%s: %.1f s", setups[i], seconds);
		if (strcmp(setups[i], "qwen3-0.6b") == 0 || strcmp(setups[i], "qwen3-8b") == 0) {
			char name[64];
			snprintf(name, sizeof(name), "h200-%s", setups[i]);
			double own_s = seconds_by_profile("run", name) +
				       seconds_by_profile("run_ahead", name);
			require(own_s > 30 && own_s < 170, "%s: %.1f s", name, own_s);
		}
		require(calibrate_points_read(&points, path, 0, &error) == STATUS_OK, "%s",
			error.text);
		for (size_t j = 0; j < points.count; j++) {
			const struct calibrate_point *point = &points.points[j];
			bool is_alone =
				point->counts.prefill_rows == 1 && point->counts.decode_rows == 0;
			/* Ragged prompts are up to a third more than the equal ones of the plan. */
			require(is_alone || point->elapsed_ns < 330000000,
				"%s: %llu ns: %llu rows, %llu prompts of %llu tokens", setups[i],
				(unsigned long long)point->elapsed_ns,
				(unsigned long long)point->counts.decode_rows,
				(unsigned long long)point->counts.prefill_rows,
				(unsigned long long)point->counts.prefill_tokens);
		}
		calibrate_points_free(&points);
	}
}

/* The number of GPUs goes from the runs to the points, and from there into the profile. */
static cJSON *json_of(const char *name)
{
	char path[TEMPORARY_PATH_BYTES + 32];
	size_t bytes;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	char *text = file_read(path, &bytes);
	cJSON *root = cJSON_Parse(text);
	require(root != NULL, "no %s", name);
	free(text);
	return root;
}

static void require_line(const char *points, const cJSON *object, const char *key)
{
	const cJSON *node = cJSON_GetObjectItemCaseSensitive(object, key);
	char line[512];

	require(node != NULL, "no %s", key);
	if (cJSON_IsString(node)) {
		snprintf(line, sizeof(line), "# %s %s\n", key, node->valuestring);
	} else {
		snprintf(line, sizeof(line), "# %s %.0f\n", key, node->valuedouble);
	}
	require(strstr(points, line) != NULL, "no line '%s'", line);
}

/* Points name the run that they are from, in its own words. */
static void require_origin(void)
{
	static const char *const of_run[] = {"date", "commit", "command"};
	static const char *const of_config[] = {"model", "kv_blocks", "tensor_parallel_size"};
	char path[TEMPORARY_PATH_BYTES + 32];
	size_t bytes;

	snprintf(path, sizeof(path), "%s/c/points.tsv", folder);
	char *points = file_read(path, &bytes);
	cJSON *provenance = json_of("c/run/provenance.json");
	cJSON *summary = json_of("c/run/summary.json");
	const cJSON *config = cJSON_GetObjectItemCaseSensitive(summary, "config");

	for (uint32_t i = 0; i < 3; i++) {
		require_line(points, provenance, of_run[i]);
		require_line(points, config, of_config[i]);
	}
	cJSON_Delete(provenance);
	cJSON_Delete(summary);
	free(points);
}

/* Steps of few prompt tokens are graphs of one GPU, and of small models. */
Test(calibrate_command, a_profile_knows_which_steps_are_graphs)
{
	static const struct {
		const char *options;
		bool has_prompts;
	} cases[] = {{"--model qwen3-1.7b", true}, {"--model qwen3-1.7b -tp 2", false},
		{"--model qwen3-4b", false}};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char arguments[256], path[TEMPORARY_PATH_BYTES + 32];
		size_t bytes;
		snprintf(arguments, sizeof(arguments),
			"calibrate --runner sim --gpu h200 %s --name x --out @/c --budget 10 "
			"--force",
			cases[i].options);
		free(quire_output(folder, 0, arguments));
		snprintf(path, sizeof(path), "%s/c/x.json", folder);
		char *text = file_read(path, &bytes);
		bool is_there = strstr(text, "\"graph_prompt_tokens\":\t256") != NULL;
		bool has_price = strstr(text, "\"eager_launched\"") != NULL;
		require(is_there == cases[i].has_prompts && has_price == is_there, "%s: %s",
			cases[i].options, text);
		free(text);
	}
}

Test(calibrate_command, a_profile_is_for_the_ranks_that_it_measured)
{
	static const char replay[] = "replay @/t.jsonl --gpu @/c/two.json --out @/r --force";
	char arguments[256];

	temporary_write(folder, "t.jsonl",
		"{\"timestamp\":0,\"input_length\":50,\"output_length\":20}\n", NULL);
	char *text = quire_output(folder, 0,
		"calibrate --runner sim --gpu h200 -tp 2 --kv-blocks 1234567 --name two "
		"--out @/c --budget 10");
	require(strstr(text, "held out") != NULL, "%s", text);
	free(text);
	require_origin();
	for (uint32_t ranks = 1; ranks <= 4; ranks *= 2) {
		snprintf(arguments, sizeof(arguments), "%s -tp %u", replay, ranks);
		text = quire_output(folder, ranks == 2 ? 0 : 2, arguments);
		require(strstr(text, ranks == 2
					     ? "2 x runner sim with qwen3-0.6b"
					     : "calibrated with --tensor-parallel-size 2") != NULL,
			"%s", text);
		free(text);
	}
	/* Fitted again from points alone. */
	text = quire_output(folder, 0, "calibrate --points @/c/points.tsv --name two --out @/c");
	free(text);
	snprintf(arguments, sizeof(arguments), "%s -tp 2", replay);
	text = quire_output(folder, 0, arguments);
	free(text);
}

/* What a plan says that it takes is what its steps take, by the same prices: in a pool that cuts
   scenes short, and in one that holds them all. */
Test(calibrated, a_plan_takes_as_long_as_it_says)
{
	static const uint32_t pools[] = {100, 600, 4496};

	for (uint32_t i = 0; i < sizeof(pools) / sizeof(pools[0]); i++) {
		double said, taken;
		struct process_result result = shell_run(folder,
			"'%s' calibrate --runner sim --model qwen3-0.6b --kv-blocks %u --name x "
			"--out c --force >said 2>&1 && sed -n 's/.* about \\([0-9]*\\) s on a "
			"GPU.*/\\1/p' said && awk -F '\\t' 'FNR == 1 { for (i = 1; i <= NF; i++) "
			"if ($i == \"elapsed_ns\") c = i; next } { t += $c } END "
			"{ print t / 1e9 }' c/run/steps.tsv c/run_ahead/steps.tsv",
			QUIRE_EXECUTABLE, pools[i]);
		require(result.code == 0 && sscanf(result.out, "%lf %lf", &said, &taken) == 2,
			"%s%s", result.out, result.err);
		require(fabs(said - taken) < 0.5 + 0.06 * taken, "%u blocks: %g s, of %g", pools[i],
			said, taken);
		process_result_free(&result);
	}
}

static char *plan_of(const char *options)
{
	char arguments[256], path[TEMPORARY_PATH_BYTES + 32];

	snprintf(arguments, sizeof(arguments),
		"calibrate --runner sim --gpu h200 --name two --out @/c --force %s", options);
	free(quire_output(folder, 0, arguments));
	snprintf(path, sizeof(path), "%s/c/plan.jsonl", folder);
	return file_read(path, NULL);
}

/* Less a sixteenth for what the estimate does not know. */
Test(calibrate_command, its_plan_is_for_the_blocks_of_all_ranks)
{
	static const char *const setups[] = {"--model qwen3-8b", "--model qwen3-32b -tp 2"};

	for (size_t i = 0; i < sizeof(setups) / sizeof(setups[0]); i++) {
		char options[128];
		char *found = plan_of(setups[i]);
		cJSON *summary = json_of("c/run/summary.json");
		const cJSON *config = cJSON_GetObjectItemCaseSensitive(summary, "config");
		double blocks = cJSON_GetObjectItemCaseSensitive(config, "kv_blocks")->valuedouble;
		cJSON_Delete(summary);
		snprintf(options, sizeof(options), "%s --kv-blocks %.0f", setups[i],
			blocks - floor(blocks / 16));
		char *given = plan_of(options);
		require(strcmp(found, given) == 0, "%s: another plan than with %.0f blocks",
			setups[i], blocks - floor(blocks / 16));
		free(given);
		free(found);
	}
}

Test(calibrate_command, fits_again_from_points_only)
{
	char path[TEMPORARY_PATH_BYTES + 32];
	struct calibrate_points points;
	struct error error = {STATUS_OK, ""};

	make_points(&points, 900, 0.01);
	snprintf(path, sizeof(path), "%s/points.tsv", folder);
	require(calibrate_points_write(&points, path, &error) == STATUS_OK, "%s", error.text);
	calibrate_points_free(&points);
	char *text =
		quire_output(folder, 0, "calibrate --points @/points.tsv --name again --out @/c");
	cr_assert_not_null(strstr(text, "held out"));
	free(text);
	temporary_write(folder, "t.jsonl",
		"{\"timestamp\":0,\"input_length\":50,\"output_length\":20}\n", NULL);
	text = quire_output(folder, 0, "replay @/t.jsonl --gpu @/c/again.json --out @/r");
	require(strstr(text, "uncalibrated") == NULL, "%s", text);
	require(strstr(text, "priced by profile") != NULL, "%s", text);
	free(text);
}

Test(calibrate_command, draws_predicted_against_measured)
{
	char path[TEMPORARY_PATH_BYTES + 32];
	struct calibrate_points points;
	struct error error = {STATUS_OK, ""};

	if (system("command -v gnuplot >/dev/null") != 0) {
		cr_skip_test("gnuplot is not here");
	}
	make_points(&points, 300, 0.01);
	snprintf(path, sizeof(path), "%s/points.tsv", folder);
	require(calibrate_points_write(&points, path, &error) == STATUS_OK, "%s", error.text);
	calibrate_points_free(&points);
	char *text = quire_output(
		folder, 0, "calibrate --points @/points.tsv --name x --out @/c --plot @/fit.svg");
	free(text);
	snprintf(path, sizeof(path), "%s/fit.svg", folder);
	require(file_exists(path), "no figure");
}

Test(calibrate_command, wrong_options_are_refused_in_one_line)
{
	static const struct {
		const char *arguments, *part;
	} cases[] = {
		{"calibrate --name x", "expected --out DIR"},
		{"calibrate --out @/c", "expected --name NAME"},
		{"calibrate --out @/c --name a/b", "expected a name without '/'"},
		{"calibrate --out @/c --name a --points @/none.tsv", "cannot be opened"},
		{"calibrate --out @/c --name a --gpu h300", "gpu 'h300'"},
		{"calibrate --out @/c --name a --points @/bare.tsv", "no line '# model NAME'"},
		{"calibrate --out @/c --name a --points @/ranks.tsv",
			"ranks.tsv:2: the line '# tensor_parallel_size' of the points: found "
			"'0x2', "
			"expected 1 to 8"},
		{"calibrate --out @/c --name a --points @/good.tsv --plot @/none/fit.svg",
			"/none, expected one that is there"},
		{"calibrate --out @/c --name a --points @/good.tsv --gpu l40s",
			"good.tsv:3: column elapsed_ns: found "},
		{"calibrate --out @/c --name a --points @/good.tsv --gpu l40s",
			" or more at the limits of l40s-datasheet (--gpu); "},
		{"calibrate --out @/c --name a --points @/ranks.tsv --measured",
			"--points and --measured both name steps"},
		{"calibrate --out @/c --name a --points @/good.tsv --model qwen3-8b",
			"--model: found qwen3-8b, expected qwen3-0.6b"},
		{"calibrate --out @/c --name a --points @/good.tsv --model nonsense", "nonsense"},
		{"calibrate --out @ --name mine --points @/good.tsv",
			"mine.json is there and no profile of quire calibrate; --force replaces"},
		{"calibrate --out @/c --name a --points @/ranks.tsv --runner sim",
			"--points measures nothing: --runner has no effect there"},
		{"calibrate --out @/c --name a --measured --budget 160",
			"--measured measures nothing: --budget has no effect there"},
		{"calibrate --out @/c --name a --measured --kv-blocks 100",
			"--measured measures nothing: --kv-blocks has no effect there"},
		{"calibrate --out @/c --name a --from-steps @/log.tsv --weights dummy:0",
			"--from-steps measures nothing: --weights has no effect there"},
		{"calibrate --out @/c --name a --from-steps @/log.tsv --kernels general",
			"--from-steps measures nothing: --kernels has no effect there"},
		{"calibrate --out @/c --name a --from-steps @/log.tsv --runner cuda",
			"--from-steps measures nothing: --runner has no effect there"},
		{"calibrate --out @/c --name a --measured --left-out-phase warmup",
			"--host-row-us belong to --from-steps"},
		{"calibrate --out @/c --name a --runner sim --held-out-phase nano",
			"--host-row-us belong to --from-steps"},
		{"calibrate --out @/c --name a -tp 3", "found 3, expected 1, 2, 4 or 8"},
	};
	struct calibrate_points points;
	struct error error = {0};
	char path[TEMPORARY_PATH_BYTES + 32];

	make_points(&points, 300, 0.01);
	snprintf(path, sizeof(path), "%s/good.tsv", folder);
	require(calibrate_points_write(&points, path, &error) == STATUS_OK, "%s", error.text);
	temporary_write(folder, "mine.json", "mine\n", NULL);
	strcpy(points.origin.tensor_parallel_size, "0x2");
	snprintf(path, sizeof(path), "%s/ranks.tsv", folder);
	require(calibrate_points_write(&points, path, &error) == STATUS_OK, "%s", error.text);
	calibrate_points_free(&points);
	temporary_write(folder, "bare.tsv", POINT_HEADER "1\t5\t4\t1\t2\t0\t0\t9\t0\t2\n", NULL);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *text = quire_output(folder, 2, cases[i].arguments);
		char *end = strchr(text, '\n');
		require(end != NULL && end[1] == '\0', "not one line: %s", text);
		require(strstr(text, cases[i].part) != NULL, "'%s' does not say '%s'", text,
			cases[i].part);
		free(text);
	}
}

/* Every option of a measurement, for everything that is none; but a log of steps needs the limits
   of its engine. */
Test(calibrate_command, options_of_a_measurement_are_refused_where_none_is_made)
{
	static const char *const sources[] = {"--points", "--measured", "--from-steps"};
	static const struct {
		const char *name, *value;
		bool is_limit;
	} options[] = {
		{"runner", "sim", false},
		{"weights", "dummy:0", false},
		{"budget", "160", false},
		{"kernels", "general", false},
		{"tp-transport", "nccl", false},
		{"tensor-parallel-size", "2", true},
		{"kv-blocks", "100", true},
		{"block-size", "32", true},
		{"gpu-memory-utilization", "0.5", true},
		{"max-num-seqs", "7", true},
		{"max-num-batched-tokens", "7000", true},
		{"max-model-len", "7777", true},
	};
	char arguments[256], expected[256];

	for (uint32_t i = 0; i < 3; i++) {
		for (size_t j = 0; j < sizeof(options) / sizeof(options[0]); j++) {
			snprintf(arguments, sizeof(arguments),
				"calibrate --out @/c --name a %s%s --%s %s", sources[i],
				i == 1 ? "" : " @/none", options[j].name, options[j].value);
			snprintf(expected, sizeof(expected),
				"%s measures nothing: --%s has no effect there", sources[i],
				options[j].name);
			char *text = quire_output(folder, 2, arguments);
			bool is_refused = strstr(text, expected) != NULL;
			require(is_refused != (i == 2 && options[j].is_limit), "%s: '%s'",
				arguments, text);
			free(text);
		}
	}
}
