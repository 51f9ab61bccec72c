#include "bench/commands/trace/trace_request.h"
#include "workloads/generate/arrivals.h"
#include "workloads/conversations.h"
#include "workloads/generate/fixed.h"
#include "workloads/generate/generator.h"
#include "engine/base/integer.h"
#include "engine/base/map.h"
#include "workloads/generate/random.h"
#include "workloads/trace/trace_writer.h"
#include "workloads/generate/zipf.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "tests/harness/files.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* ---- fixed point ---- */

static void require_near(int64_t found, double expected, double tolerance, const char *what)
{
	double value = (double)found / (double)FIXED_ONE;
	double off = value > expected ? value - expected : expected - value;

	require(off <= tolerance, "%s is %.10f, expected %.10f", what, value, expected);
}

Test(fixed, knows_its_functions)
{
	require_near(u64_log2(1), 0, 0, "log2 1");
	require_near(u64_log2(UINT64_C(1) << 40), 40, 0, "log2 2^40");
	require_near(u64_log2(10), 3.3219280948873623, 3e-9, "log2 10");
	require_near(u64_log2(UINT64_MAX), 64, 3e-9, "log2 (2^64 - 1)");
	require_near(fixed_ln(10 * FIXED_ONE), 2.302585092994046, 3e-9, "ln 10");
	require_near(fixed_ln(FIXED_ONE / 1024), -6.931471805599453, 3e-9, "ln 2^-10");
	require_near(fixed_exp(FIXED_ONE), 2.718281828459045, 3e-8, "e");
	require_near(fixed_exp(-3 * FIXED_ONE), 0.049787068367863944, 3e-9, "e^-3");
	require_near(fixed_exp(-100 * FIXED_ONE), 0, 0, "e^-100");
	require_near(fixed_exp2(FIXED_ONE / 2), 1.4142135623730951, 2e-8, "2^0.5");
	require_near(fixed_exp2(-40 * FIXED_ONE), 0, 0, "2^-40");
	require_near(fixed_root(2 * FIXED_ONE), 1.4142135623730951, 1e-8, "sqrt 2");
	require_near(fixed_multiply(-3 * FIXED_ONE / 2, 5 * FIXED_ONE / 2), -3.75, 0, "product");
	require_near(fixed_divide(-FIXED_ONE, 3 * FIXED_ONE), -0.3333333333, 3e-10, "quotient");
	require_equal(u64_root(UINT64_MAX), UINT32_MAX);
	require_equal(u64_root(99), 9);
	require_equal(u64_root(100), 10);
}

static void powers_and_logarithms_undo_each_other(struct prop *prop, const void *context)
{
	uint64_t value = 1 + prop_below(prop, UINT64_C(1) << prop_range(prop, 1, 30));
	int64_t again = fixed_exp2(u64_log2(value));
	int64_t off = again - (int64_t)value * FIXED_ONE;

	(void)context;
	prop_log(prop, "%" PRIu64, value);
	require((off < 0 ? -off : off) / (int64_t)value <= 64, "off by %" PRId64, off);
}

Test(fixed, powers_and_logarithms_undo_each_other)
{
	const struct prop_options options = {
		.name = "2^log2", .body = powers_and_logarithms_undo_each_other, .trials = 500};

	cr_assert(prop_holds(&options));
}

/* ---- draws ---- */

struct moments {
	double mean, variance;
};

static struct moments moments_of(int64_t (*draw)(struct random *, int64_t), int64_t parameter)
{
	enum { COUNT = 200000 };
	struct random random = random_stream(3, 1);
	double sum = 0;
	double squares = 0;

	for (uint32_t i = 0; i < COUNT; i++) {
		double value = (double)draw(&random, parameter) / (double)FIXED_ONE;
		sum += value;
		squares += value * value;
	}
	double mean = sum / COUNT;
	return (struct moments){mean, squares / COUNT - mean * mean};
}

static int64_t draw_exponential(struct random *random, int64_t parameter)
{
	(void)parameter;
	return random_exponential(random);
}

static int64_t draw_normal(struct random *random, int64_t parameter)
{
	(void)parameter;
	return random_normal(random);
}

static void require_moments(
	struct moments found, double mean, double variance, double tolerance, const char *what)
{
	double mean_off = found.mean - mean;
	double variance_off = found.variance - variance;

	require(mean_off < tolerance && -mean_off < tolerance &&
			variance_off < 4 * tolerance * variance + tolerance &&
			-variance_off < 4 * tolerance * variance + tolerance,
		"%s: mean %.4f, variance %.4f, expected %.4f, %.4f", what, found.mean,
		found.variance, mean, variance);
}

Test(random, draws_have_their_moments)
{
	require_moments(moments_of(draw_exponential, 0), 1, 1, 0.01, "exponential");
	require_moments(moments_of(draw_normal, 0), 0, 1, 0.01, "normal");
	require_moments(moments_of(random_gamma, FIXED_ONE / 4), 1, 4, 0.02, "gamma of 1/4");
	require_moments(moments_of(random_gamma, FIXED_ONE), 1, 1, 0.01, "gamma of 1");
	require_moments(moments_of(random_gamma, 25 * FIXED_ONE), 1, 0.04, 0.01, "gamma of 25");
}

Test(random, ranges_are_reached_and_kept)
{
	struct random random = random_stream(0, 0);
	uint32_t seen = 0;

	for (uint32_t i = 0; i < 1000; i++) {
		uint32_t value = random_range(&random, 5, 12);
		require(value >= 5 && value <= 12, "%u", value);
		seen |= UINT32_C(1) << value;
	}
	require_equal(seen, 0x1fe0);
	require_equal(random_range(&random, UINT32_MAX, UINT32_MAX), UINT32_MAX);
}

/* A draw is its 64 bits as a fraction, times the bound: all of them count. */
Test(random, whole_numbers_are_the_fraction_of_their_bound)
{
	static const uint64_t bounds[] = {
		1, 2, 3, 10, 1000, 65536, 999999937, UINT32_MAX - 1, UINT32_MAX, UINT64_C(1) << 32};
	struct random bits = random_stream(3, 1), below = bits, range = bits;

	for (uint32_t i = 0; i < 200000; i++) {
		uint64_t bound = bounds[i % (sizeof(bounds) / sizeof(bounds[0]))];
		uint64_t expected = (uint64_t)((u128)random_bits(&bits) * bound >> 64);
		require(random_below(&below, bound) == expected, "below %" PRIu64, bound);
		uint32_t low = (uint32_t)((UINT64_C(1) << 32) - bound);
		require(random_range(&range, low, UINT32_MAX) == low + expected, "from %" PRIu32,
			low);
	}
}

Test(random, popular_things_are_drawn_more_often)
{
	enum { COUNT = 110000, ITEMS_MAX = 4 };
	/* the sum of the weights 1, 1/2, 1/3, ... */
	static const double sums[ITEMS_MAX + 1] = {0, 1, 1.5, 11.0 / 6, 25.0 / 12};

	for (uint32_t items = 1; items <= ITEMS_MAX; items++) {
		struct random random = random_stream(0, 0);
		uint32_t drawn[ITEMS_MAX] = {0};
		struct zipf zipf;
		zipf_init(&zipf, items, 1000000);
		for (uint32_t i = 0; i < COUNT; i++) {
			drawn[zipf_draw(&zipf, &random)]++;
		}
		for (uint32_t i = 0; i < items; i++) {
			double expected = COUNT / sums[items] / (i + 1);
			require(drawn[i] > expected - 700 && drawn[i] < expected + 700,
				"item %u of %u: %u times", i, items, drawn[i]);
		}
		zipf_deinit(&zipf);
	}
}

/* However rare, and however many there are. */
Test(random, everything_can_be_drawn)
{
	static const uint64_t skews[] = {1, 1000000, 5000000, 10000000};
	static const uint32_t counts[] = {1, 2, 100, 100000};

	for (uint32_t i = 0; i < 16; i++) {
		struct zipf zipf;
		zipf_init(&zipf, counts[i / 4], skews[i % 4]);
		for (uint32_t item = 0; zipf.sums != NULL && item < zipf.count; item++) {
			require(zipf.sums[item] > (item == 0 ? 0 : zipf.sums[item - 1]),
				"item %u of %u has no weight", item, counts[i / 4]);
		}
		zipf_deinit(&zipf);
	}
}

Test(random, lengths_keep_their_median_and_limits)
{
	const struct length_draw draw = {.kind = LENGTH_LOG_NORMAL,
		.low = 100,
		.high = 3000,
		.median = 700,
		.sigma_millionths = 1000000};
	struct random random = random_stream(0, 0);
	uint32_t below = 0, at_low = 0, at_high = 0;

	for (uint32_t i = 0; i < 20000; i++) {
		uint32_t length = length_draw(&draw, &random);
		require(length >= 100 && length <= 3000, "%u", length);
		below += length < 700;
		at_low += length == 100;
		at_high += length == 3000;
	}
	require(below > 9700 && below < 10300, "%u of 20000 below the median", below);
	require(at_low > 300 && at_low < 700, "%u at the lower limit", at_low);
	require(at_high > 1200 && at_high < 1750, "%u at the upper limit", at_high);
}

/* ---- arrivals ---- */

Test(arrivals, at_a_constant_rate_are_exact)
{
	const struct arrival_profile profile = {.kind = ARRIVALS_CONSTANT,
		.rate_from = 4000000,
		.rate_to = 4000000,
		.step_count = 1,
		.resolution_ns = 1};
	struct arrivals *arrivals = arrivals_open(&profile, 0);

	for (uint64_t i = 1; i < 1000; i++) {
		require_equal(arrivals_next(arrivals), i * 250000000);
	}
	arrivals_close(arrivals);
}

/* Arrivals in each of `seconds` seconds. */
static void count_by_second(
	const struct arrival_profile *profile, uint32_t *counts, uint32_t seconds)
{
	struct arrivals *arrivals = arrivals_open(profile, 1);
	uint64_t last = 0;

	memset(counts, 0, seconds * sizeof(*counts));
	for (;;) {
		uint64_t at_ns = arrivals_next(arrivals);
		require(at_ns >= last, "time goes back");
		last = at_ns;
		if (at_ns / 1000000000 >= seconds) {
			break;
		}
		counts[at_ns / 1000000000]++;
	}
	arrivals_close(arrivals);
}

Test(arrivals, follow_a_ramp_and_stay_at_its_end)
{
	const struct arrival_profile ramp = {.kind = ARRIVALS_CONSTANT,
		.rate_from = 10000000,
		.rate_to = 30000000,
		.step_count = 3,
		.step_ns = 2000000000,
		.resolution_ns = 1};
	uint32_t counts[8];

	count_by_second(&ramp, counts, 8);
	for (uint32_t i = 0; i < 8; i++) {
		uint32_t expected = i < 2 ? 10 : i < 4 ? 20 : 30;
		require(counts[i] >= expected - 1 && counts[i] <= expected + 1, "%u in second %u",
			counts[i], i);
	}
}

Test(arrivals, swing_back_and_forth)
{
	const struct arrival_profile wave = {.kind = ARRIVALS_POISSON,
		.rate_from = 100000000,
		.rate_to = 2000000000,
		.step_count = 2,
		.step_ns = 1000000000,
		.swings = true,
		.resolution_ns = 1};
	uint32_t counts[6];

	count_by_second(&wave, counts, 6);
	for (uint32_t i = 0; i < 6; i++) {
		bool is_good = i % 2 == 0 ? counts[i] > 60 && counts[i] < 140
					  : counts[i] > 1850 && counts[i] < 2150;
		require(is_good, "%u in second %u", counts[i], i);
	}
}

Test(arrivals, end_at_the_largest_time)
{
	const struct arrival_profile slow = {.kind = ARRIVALS_CONSTANT,
		.rate_from = 1,
		.rate_to = 1,
		.step_count = 1,
		.resolution_ns = 1};
	struct arrivals *arrivals = arrivals_open(&slow, 0);
	uint64_t count = 0;

	while (arrivals_next(arrivals) != UINT64_MAX) {
		count++;
		require(count < 10000, "no end");
	}
	require_equal(count, (UINT64_C(1) << 62) / UINT64_C(1000000000000000));
	arrivals_close(arrivals);
}

/* ---- whole traces ---- */

/* A row at the end of the duration is not in the trace, and one a nanosecond before it is: first
   turns, and turns that follow. */
Test(generator, a_row_at_the_end_is_not_in_the_trace)
{
	static const struct arrival_profile every_second = {.kind = ARRIVALS_CONSTANT,
		.rate_from = 1000000,
		.rate_to = 1000000,
		.step_count = 1,
		.resolution_ns = 1000};
	struct generator_options options = {.request_count = 12,
		.input = {.low = 1, .high = 1},
		.follow_up = {.low = 1, .high = 1},
		.output = {.low = 1, .high = 1},
		.turns = {.low = 3, .high = 3},
		.token_ns = 500000000,
		.trace_block_size = 512,
		.context_max = 1000,
		.profile = &every_second};
	uint64_t arrival_ns[12];
	struct trace_row row;
	struct generator *generator = generator_open(&options);

	for (uint32_t i = 0; i < 12; i++) {
		require(generator_next(generator, &row), "%u rows", i);
		arrival_ns[i] = row.arrival_ns;
	}
	generator_close(generator);
	for (uint32_t i = 1; i < 12 * 3; i++) {
		uint32_t before = 0, count = 0;
		options.duration_ns = arrival_ns[i / 3] + i % 3 - 1;
		while (before < 12 && arrival_ns[before] < options.duration_ns) {
			before++;
		}
		generator = generator_open(&options);
		while (generator_next(generator, &row)) {
			require_equal(row.arrival_ns, arrival_ns[count]);
			count++;
		}
		generator_close(generator);
		require(options.duration_ns == 0 || count == before, "%u rows of %u before %llu",
			count, before, (unsigned long long)options.duration_ns);
	}
}

static char *make(const struct trace_request *request, size_t *size)
{
	struct trace_plan plan;
	struct trace_row row;
	struct error error = {0};
	char *text = NULL;
	FILE *file = open_memstream(&text, size);

	require(trace_plan_open(&plan, request, &error) == STATUS_OK, "%s", error.text);
	struct generator *generator = generator_open(&plan.options);
	while (generator_next(generator, &row)) {
		trace_write_row(file, &row);
	}
	generator_close(generator);
	trace_plan_close(&plan);
	fclose(file);
	return text;
}

Test(generator, makes_the_same_bytes_on_every_machine)
{
	static const uint64_t expected[] = {UINT64_C(0xd469f5891e3d313b),
		UINT64_C(0xafa36a88409a3321), UINT64_C(0xf1f1a8e99ae373f8),
		UINT64_C(0x2efedbc3e34a89f2), UINT64_C(0x4943fe53e5b012e5)};

	for (uint32_t i = 0; trace_preset_at(i) != NULL; i++) {
		require(i < sizeof(expected) / sizeof(expected[0]), "no hash of preset %u", i);
		struct trace_request request;
		size_t size = 0;
		trace_request_init(&request, i);
		request.config.seed = 12345;
		request.requests = 400;
		request.input = i == 0 ? "lognormal:300:1" : request.input;
		request.output = i == 0 ? "7:77" : request.output;
		request.config.ramp = i == 0 ? "1:20:5" : request.config.ramp;
		request.config.duration_s = i == 0 ? 60000000 : 0;
		request.config.burstiness = i == 0 ? 300000 : 0;
		char *text = make(&request, &size);
		uint64_t hash = XXH64(text, size, 0);
		require(hash == expected[i], "%s: 0x%016" PRIx64, trace_preset_at(i)->name, hash);
		free(text);
	}
}

Test(generator, changes_only_what_an_option_means)
{
	struct trace_request request;
	size_t size = 0;
	char first[200], second[200];

	trace_request_init(&request, 0);
	request.requests = 1;
	request.config.rate = 1000000;
	request.input = "1:100000";
	request.output = "5";
	char *text = make(&request, &size);
	snprintf(first, sizeof(first), "%s", text);
	free(text);
	request.output = "1:9";
	text = make(&request, &size);
	snprintf(second, sizeof(second), "%s", text);
	free(text);
	/* Arrival and input stay when the output is drawn in another way. */
	*strstr(first, ",\"output_length\"") = '\0';
	*strstr(second, ",\"output_length\"") = '\0';
	cr_assert_str_eq(first, second);
}

Test(generator, draws_lengths_from_another_trace)
{
	char folder[TEMPORARY_PATH_BYTES];
	char path[TEMPORARY_PATH_BYTES];
	struct trace_request request;
	size_t size = 0;

	temporary_folder(folder);
	temporary_write(folder, "lengths.csv",
		"TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00,11,22\n"
		"2024-05-10 00:00:00,33,44\n",
		path);
	trace_request_init(&request, 0);
	request.requests = 50;
	request.lengths_from = path;
	char *text = make(&request, &size);
	require(strstr(text, "\"input_length\":11,\"output_length\":22") != NULL, "%s", text);
	require(strstr(text, "\"input_length\":33,\"output_length\":44") != NULL, "%s", text);
	require(strstr(text, "\"input_length\":11,\"output_length\":44") == NULL, "%s", text);
	free(text);
	temporary_remove(folder);
}

/* ---- what holds for all options ---- */

enum { TURNS_KEPT = 400 };

struct kept_row {
	uint64_t ids[64];
	uint32_t id_count, input, output;
	uint64_t arrival_ns;
};

static void draw_length(struct prop *prop, struct length_draw *draw)
{
	*draw = (struct length_draw){
		.kind = (enum length_kind)prop_below(prop, 2), .low = prop_range(prop, 1, 20)};
	draw->high = draw->low + prop_range(prop, 0, 200);
	draw->median = draw->low + prop_range(prop, 0, 100);
	draw->sigma_millionths = prop_below(prop, 3000000);
}

static void draw_generator(
	struct prop *prop, struct generator_options *options, struct arrival_profile *profile)
{
	*options = (struct generator_options){.request_count = prop_range(prop, 1, 60),
		.seed = prop_below(prop, 1000),
		.pause_ns = prop_below(prop, 20) * 1000000000,
		.token_ns = 10000000,
		.context_max = prop_range(prop, 50, 600),
		.skew_millionths = prop_below(prop, 2000000),
		.trace_block_size = prop_range(prop, 10, 40),
		.level_count = prop_range(prop, 0, 3)};
	draw_length(prop, &options->input);
	draw_length(prop, &options->follow_up);
	draw_length(prop, &options->output);
	options->turns = (struct length_draw){.low = 1, .high = prop_range(prop, 1, 5)};
	for (uint32_t i = 0; i < options->level_count; i++) {
		options->levels[i] =
			(struct prefix_level){prop_range(prop, 1, 60), prop_range(prop, 1, 4)};
	}
	*profile = (struct arrival_profile){.kind = (enum arrival_kind)prop_below(prop, 3),
		.burstiness_millionths = 500000,
		.rate_from = 100000 + prop_below(prop, 10000000),
		.step_count = 1,
		.resolution_ns = 1000};
	if (prop_chance(prop, 1, 4)) { /* whole seconds: turns of many sessions are due at once */
		options->pause_ns = 0;
		options->token_ns = 1000000000;
		profile->kind = ARRIVALS_CONSTANT;
		profile->rate_from = 1000000;
	}
	profile->rate_to = profile->rate_from;
	options->profile = options->turns.high > 1 || prop_chance(prop, 1, 2) ? profile : NULL;
	options->duration_ns = prop_chance(prop, 1, 4) ? prop_below(prop, 1000000000) + 1 : 0;
}

/* Equal ids stand at the same positions behind equal ids: a block names all that was said up to its
   end. */
static void require_chained(struct map *before, const struct trace_row *row)
{
	uint64_t chain = 1;

	for (uint32_t i = 0; i < row->hash_id_count; i++) {
		require_equal(*map_add(before, row->hash_ids[i], chain), chain);
		chain = row->hash_ids[i] + 2;
	}
}

static void require_continues(const struct kept_row *before, const struct trace_row *row,
	const struct generator_options *options)
{
	uint32_t whole = before->input / options->trace_block_size;

	require(row->input_length > before->input + before->output, "a turn adds nothing");
	require(row->arrival_ns >= before->arrival_ns + row->delay_ns, "a turn comes too early");
	require((uint64_t)row->input_length + row->output_length <= options->context_max,
		"a turn is too long");
	require(row->has_delay, "no delay");
	for (uint32_t i = 0; i < whole; i++) {
		require_equal(row->hash_ids[i], before->ids[i]);
	}
	require(before->id_count == whole || row->hash_ids[whole] != before->ids[whole],
		"the rest of a prompt has the id of a block that is whole by now");
}

static void keep(struct kept_row *kept, const struct trace_row *row)
{
	kept->input = row->input_length;
	kept->output = row->output_length;
	kept->id_count = row->hash_id_count;
	kept->arrival_ns = row->arrival_ns;
	require(row->hash_id_count <= 64, "%u ids", row->hash_id_count);
	memcpy(kept->ids, row->hash_ids, row->hash_id_count * sizeof(*row->hash_ids));
}

static void rows_keep_their_promises(struct prop *prop, const void *context)
{
	static struct kept_row turns[TURNS_KEPT];
	struct generator_options options;
	struct arrival_profile profile;
	struct trace_row row;
	struct map before = {0};
	uint64_t last_ns = 0, last_session = 0;
	uint64_t count = 0;
	uint64_t prefix = 0;

	(void)context;
	draw_generator(prop, &options, &profile);
	for (uint32_t i = 0; i < options.level_count; i++) {
		prefix += options.levels[i].tokens;
	}
	struct generator *generator = generator_open(&options);
	struct conversations *conversations = conversations_open(options.trace_block_size);
	while (generator_next(generator, &row)) {
		uint32_t blocks = row.input_length / options.trace_block_size +
				  (row.input_length % options.trace_block_size != 0);
		bool has_ids = options.level_count > 0 || options.turns.high > 1;
		require_equal(row.index, count);
		uint64_t session = row.session == NULL ? count : strtoull(row.session, NULL, 10);
		require(count == 0 || row.arrival_ns > last_ns ||
				(row.arrival_ns == last_ns && session > last_session),
			"out of order");
		require(options.duration_ns == 0 || row.arrival_ns < options.duration_ns,
			"too late");
		require_equal(row.hash_id_count, has_ids ? blocks : 0);
		require_chained(&before, &row);
		conversations_add(conversations, &row);
		if (row.turn_index != NO_TURN) {
			uint64_t parent = conversations_turn(conversations, row.turn_index)->parent;
			if (parent != NO_TURN) {
				require_continues(&turns[parent], &row, &options);
				require(row.span_count > 0, "not taken for a continuation");
			}
			require(parent != NO_TURN || row.input_length > prefix,
				"a first turn of nothing but its prefix");
			keep(&turns[row.turn_index], &row);
		}
		last_ns = row.arrival_ns;
		last_session = session;
		count++;
	}
	require(count <= options.request_count, "too many rows");
	require(count == options.request_count || options.duration_ns > 0, "too few rows");
	map_deinit(&before);
	conversations_close(conversations);
	generator_close(generator);
}

Test(generator, rows_keep_their_promises_for_any_options)
{
	const struct prop_options options = {
		.name = "generator", .body = rows_keep_their_promises, .trials = 1000};

	cr_assert(prop_holds(&options));
}

/* Turns of equal lengths: a session has as many as fit, the one that fills the context too. */
Test(generator, a_session_ends_at_the_first_turn_that_does_not_fit)
{
	enum { INPUT = 10, FOLLOW_UP = 7, OUTPUT = 3, TURNS = 6 };

	for (uint32_t most = INPUT + OUTPUT; most < 80; most++) {
		struct arrival_profile profile = {.kind = ARRIVALS_CONSTANT,
			.rate_from = 1000,
			.rate_to = 1000,
			.step_count = 1,
			.resolution_ns = 1000};
		const struct generator_options options = {.request_count = TURNS,
			.token_ns = 1,
			.context_max = most,
			.trace_block_size = 16,
			.input = {.low = INPUT, .high = INPUT},
			.follow_up = {.low = FOLLOW_UP, .high = FOLLOW_UP},
			.output = {.low = OUTPUT, .high = OUTPUT},
			.turns = {.low = TURNS, .high = TURNS},
			.profile = &profile};
		uint32_t fit = 1 + (most - INPUT - OUTPUT) / (FOLLOW_UP + OUTPUT);
		uint32_t turns = 0;
		struct generator *generator = generator_open(&options);
		struct trace_row row;
		while (generator_next(generator, &row)) {
			turns += strcmp(row.session, "0") == 0;
		}
		cr_expect_eq(
			turns, fit < TURNS ? fit : TURNS, "%u turns within %u tokens", turns, most);
		generator_close(generator);
	}
}

/* ---- the demo trace ---- */

/* The command as workloads/traces/README.md has it, with another --out. */
static void read_command(char *command, size_t room, const char *out)
{
	size_t size;
	char *text = file_read("workloads/traces/README.md", &size);
	char *from = strstr(text, "    quire trace make");
	char *to = from == NULL ? NULL : strstr(from, "--out ");

	require(to != NULL, "no command in workloads/traces/README.md");
	*to = '\0';
	snprintf(command, room, "%s%s --out %s", QUIRE_EXECUTABLE, from + strlen("    quire"), out);
	free(text);
}

Test(generator, the_demo_trace_is_what_its_command_makes)
{
	char folder[TEMPORARY_PATH_BYTES];
	char path[2 * TEMPORARY_PATH_BYTES];
	char command[4096];
	size_t made_size, shipped_size;

	temporary_folder(folder);
	snprintf(path, sizeof(path), "%s/demo.jsonl", folder);
	read_command(command, sizeof(command), path);
	require(system(command) == 0, "%s", command);
	char *made = file_read(path, &made_size);
	char *shipped = file_read("workloads/traces/demo.jsonl", &shipped_size);
	require_equal(made_size, shipped_size);
	require(memcmp(made, shipped, made_size) == 0, "the demo trace differs");
	free(made);
	free(shipped);
	temporary_remove(folder);
}
