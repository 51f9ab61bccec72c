#include "bench/plan/search.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/integer.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"

/* The search against oracles that are known: a threshold, one with stretches that fail or pass in
   the wrong place, and noise. What it answers is compared with the list of its probes and, where
   the oracle is monotone, with the threshold. */

enum { STRETCHES = 4, PROBES_MOST = 600, OUT_MOST = 8 };

#define MILLION UINT64_C(1000000)

struct oracle {
	bool is_least, fails_alone;
	uint64_t threshold; /* the hardest load that passes */
	bool passes_none;
	struct {
		uint64_t from, to;
	} flipped[STRETCHES]; /* (flipped_count) answers the opposite */
	uint32_t flipped_count;
	uint64_t void_from, void_to; /* loads without an outcome; 0: none */
	uint64_t limit;		     /* told after the first probe: harder ones change nothing */
	uint64_t noise;		     /* of 1,000 loads so many answer the opposite */
	double utilisation;
	bool has_margin;
	double bend; /* of the margin; 0: a straight line; below -1: it misleads */
};

static bool oracle_is_void(const struct oracle *oracle, const struct search_probe *probe)
{
	return probe->purpose != SEARCH_ALONE && probe->load >= oracle->void_from &&
	       probe->load <= oracle->void_to;
}

static bool oracle_passes(const struct oracle *oracle, const struct search_probe *probe)
{
	uint64_t load = probe->load;
	bool passes = oracle->is_least ? load >= oracle->threshold : load <= oracle->threshold;

	if (probe->purpose == SEARCH_ALONE) {
		return !oracle->fails_alone;
	}
	passes = passes && !oracle->passes_none;
	for (uint32_t i = 0; i < oracle->flipped_count; i++) {
		if (load >= oracle->flipped[i].from && load <= oracle->flipped[i].to) {
			passes = !passes;
		}
	}
	return (load * UINT64_C(0x9e3779b97f4a7c15) >> 20) % 1000 < oracle->noise ? !passes
										  : passes;
}

/* How far the load is from the threshold, relatively; bent, or with a wrong sign. */
static double oracle_margin(
	const struct oracle *oracle, const struct search_probe *probe, bool passes)
{
	double away = ((double)probe->load - (double)oracle->threshold) / (double)oracle->threshold;
	double size = away < 0 ? -away : away;

	size += oracle->bend * size * size;
	return passes ? -size : size;
}

struct trail {
	struct search_probe probes[PROBES_MOST];
	bool passes[PROBES_MOST], is_void[PROBES_MOST];
	uint32_t count, surprises; /* rounds when the search was thought to be at its end */
	struct search_answer answer;
};

/* Runs a search with at most `workers` probes out at once, which come back in an order by `seed`.
   */
static void run_search(const struct search_options *options, const struct oracle *oracle,
	uint32_t workers, uint64_t seed, struct trail *trail)
{
	struct search *search = search_open(options);
	struct search_probe out[OUT_MOST];
	uint32_t out_count = 0;

	memset(trail, 0, sizeof(*trail));
	for (;;) {
		uint32_t expected = search_expected(search);
		require(expected >= out_count, "%u expected, %u out", expected, out_count);
		bool is_idle = out_count == 0;
		while (out_count < workers && search_next(search, &out[out_count])) {
			require(trail->count < PROBES_MOST, "the search does not end");
			require_equal(out[out_count].number, trail->count);
			trail->probes[trail->count++] = out[out_count++];
		}
		if (out_count == 0) {
			break;
		}
		trail->surprises += is_idle && expected == 0;
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		uint32_t picked = (uint32_t)(seed >> 33) % out_count;
		struct search_probe probe = out[picked];
		out[picked] = out[--out_count];
		bool passes = oracle_passes(oracle, &probe);
		trail->passes[probe.number] = passes;
		const struct search_answer so_far = search_answer(search);
		require(!so_far.is_complete, "complete while a probe is out");
		require(so_far.is_bound == so_far.has_pass, "a bound until the end");
		trail->is_void[probe.number] = oracle_is_void(oracle, &probe);
		if (trail->is_void[probe.number]) {
			search_take_nothing(search, probe.number);
		} else if (oracle->has_margin) {
			search_take_margin(search, probe.number, passes, oracle->utilisation,
				oracle_margin(oracle, &probe, passes));
		} else {
			search_take(search, probe.number, passes, oracle->utilisation);
		}
		if (oracle->limit > 0 && probe.purpose == SEARCH_FIRST) {
			search_limit(search, oracle->limit);
		}
	}
	require(search_has_ended(search), "nothing to do, and not ended");
	require_equal(search_expected(search), 0);
	trail->answer = search_answer(search);
	search_close(search);
}

static bool is_harder(const struct search_options *options, uint64_t a, uint64_t b)
{
	return options->is_least ? a < b : a > b;
}

/* The answer that the list of probes gives. */
static void check_answer(const struct search_options *options, const struct trail *trail)
{
	const struct search_answer *answer = &trail->answer;
	uint64_t fail = 0, pass = 0;
	bool fails_alone = false;

	for (uint32_t i = 0; i < trail->count; i++) {
		uint64_t load = trail->probes[i].load;
		if (trail->probes[i].purpose == SEARCH_ALONE) {
			fails_alone = !trail->passes[i];
			continue;
		}
		require(load >= options->minimum && load <= options->maximum, "out of range");
		for (uint32_t k = 0; k < i; k++) {
			require(trail->probes[k].load != load, "probed twice");
		}
		if (!trail->is_void[i] && !trail->passes[i] &&
			(fail == 0 || is_harder(options, fail, load))) {
			fail = load;
		}
	}
	for (uint32_t i = 0; i < trail->count; i++) {
		uint64_t load = trail->probes[i].load;
		if (load > 0 && !trail->is_void[i] && trail->passes[i] &&
			(fail == 0 || is_harder(options, fail, load)) &&
			(pass == 0 || is_harder(options, load, pass))) {
			pass = load;
		}
	}
	require_equal(answer->fails_alone, fails_alone);
	require_equal(answer->has_fail, fail > 0);
	require_equal(answer->has_pass, pass > 0);
	require_equal(answer->lowest_fail, fail);
	require_equal(answer->highest_pass, pass);
	require(!answer->has_pass || trail->probes[answer->pass_probe].load == pass, "its probe");
	require(!answer->has_fail || trail->probes[answer->fail_probe].load == fail, "its probe");
	require_equal(answer->is_bound, pass > 0 && fail == 0);
}

static bool has_outcome(const struct trail *trail, uint32_t index)
{
	return trail->probes[index].purpose != SEARCH_ALONE && !trail->is_void[index];
}

/* The outcome of the next load that is easier, or harder, than that of a probe: 1 it passes, 0 it
   fails, -1 there is none. */
static int neighbour(const struct search_options *options, const struct trail *trail,
	uint32_t index, bool wants_harder)
{
	uint64_t load = trail->probes[index].load, nearest = 0;
	int outcome = -1;

	for (uint32_t i = 0; i < trail->count; i++) {
		uint64_t other = trail->probes[i].load;
		bool is_beyond = wants_harder ? is_harder(options, other, load)
					      : is_harder(options, load, other);
		bool is_nearer =
			nearest == 0 || (wants_harder ? is_harder(options, nearest, other)
						      : is_harder(options, other, nearest));
		if (has_outcome(trail, i) && is_beyond && is_nearer) {
			nearest = other;
			outcome = trail->passes[i];
		}
	}
	return outcome;
}

static bool has_harder_pass(
	const struct search_options *options, const struct trail *trail, uint64_t load)
{
	for (uint32_t i = 0; i < trail->count; i++) {
		if (has_outcome(trail, i) && trail->passes[i] &&
			is_harder(options, trail->probes[i].load, load)) {
			return true;
		}
	}
	return false;
}

/* A stretch goes from a load that fails behind one that passes, or behind none, to the last one
   that fails before one that passes. Such ends are found probe by probe: the k-th first one and the
   k-th last one are those of a stretch. */
static void check_stretches(const struct search_options *options, const struct trail *trail)
{
	const struct search_answer *answer = &trail->answer;
	uint32_t begins = 0;

	for (uint32_t i = 0; i < trail->count; i++) {
		uint64_t load = trail->probes[i].load;
		bool is_in = has_outcome(trail, i) && !trail->passes[i] &&
			     has_harder_pass(options, trail, load);
		bool is_begin = is_in && neighbour(options, trail, i, false) != 0;
		bool is_end = is_in && neighbour(options, trail, i, true) == 1;
		bool is_named[2] = {false, false};
		for (uint32_t k = 0; k < answer->stretch_count; k++) {
			const struct search_stretch *stretch = &answer->stretches[k];
			require(stretch->from <= stretch->to, "stretch %u is upside down", k);
			is_named[0] |= load == (options->is_least ? stretch->to : stretch->from);
			is_named[1] |= load == (options->is_least ? stretch->from : stretch->to);
		}
		begins += is_begin;
		if (answer->stretch_count == SEARCH_STRETCHES_MAX || !has_outcome(trail, i)) {
			continue;
		}
		require(is_named[0] == is_begin && is_named[1] == is_end,
			"load %llu begins %d and ends %d stretches, named as %d and %d",
			(unsigned long long)load, is_begin, is_end, is_named[0], is_named[1]);
	}
	require_equal(answer->stretch_count, u32_min(begins, SEARCH_STRETCHES_MAX));
	for (uint32_t k = 1; k < answer->stretch_count; k++) {
		const struct search_stretch *before = &answer->stretches[k - 1], *own = before + 1;
		require(options->is_least ? own->to < before->from : own->from > before->to,
			"stretch %u is not behind the one before it", k);
	}
}

/* What has no outcome is named, and no pass nor fail: the easiest of those that are harder than the
   answer, or else the hardest of all. */
static void check_voids(const struct search_options *options, const struct trail *trail)
{
	const struct search_answer *answer = &trail->answer;
	uint64_t above = 0, hardest = 0;

	for (uint32_t i = 0; i < trail->count; i++) {
		uint64_t load = trail->probes[i].load;
		if (!trail->is_void[i]) {
			continue;
		}
		hardest = hardest == 0 || is_harder(options, load, hardest) ? load : hardest;
		if (answer->has_pass && is_harder(options, load, answer->highest_pass) &&
			(above == 0 || is_harder(options, above, load))) {
			above = load;
		}
	}
	require_equal(answer->void_probe != SEARCH_NO_PROBE, hardest > 0);
	require(hardest == 0 || (trail->is_void[answer->void_probe] &&
					trail->probes[answer->void_probe].load ==
						(above > 0 ? above : hardest)),
		"probe %u does not say most", answer->void_probe);
}

/* A search that ended knows its answer to its precision, or why there is none. */
static void check_end(const struct search_options *options, const struct search_answer *answer)
{
	uint64_t easiest = options->is_least ? options->maximum : options->minimum;
	uint64_t hardest = options->is_least ? options->minimum : options->maximum;

	require(answer->is_complete, "not complete");
	if (answer->fails_alone) {
		return;
	}
	if (!answer->has_pass) {
		require(answer->lowest_fail == easiest, "nothing passes above the lowest load");
		return;
	}
	if (!answer->has_fail) {
		require(answer->highest_pass == hardest, "no load fails below the highest");
		return;
	}
	uint64_t low = answer->highest_pass < answer->lowest_fail ? answer->highest_pass
								  : answer->lowest_fail;
	uint64_t apart = answer->highest_pass + answer->lowest_fail - 2 * low;
	require(apart <= 1 || apart * MILLION <= low * options->precision,
		"%llu and %llu are too far apart", (unsigned long long)answer->highest_pass,
		(unsigned long long)answer->lowest_fail);
}

/* What a scan of all loads would find where the oracle is monotone. */
static void check_monotone(const struct search_options *options, const struct oracle *oracle,
	const struct search_answer *answer)
{
	bool passes_some = !oracle->passes_none && !oracle->fails_alone;
	uint64_t hardest = options->is_least ? options->minimum : options->maximum;

	require_equal(answer->stretch_count, 0);
	if (oracle->fails_alone) {
		return;
	}
	require_equal(answer->has_pass, passes_some);
	if (!passes_some) {
		return;
	}
	require_equal(answer->has_fail, oracle->threshold != hardest);
	require(!is_harder(options, answer->highest_pass, oracle->threshold), "passes too much");
	require(!answer->has_fail || is_harder(options, answer->lowest_fail, oracle->threshold),
		"fails too early");
	if (options->precision == 0) {
		require_equal(answer->highest_pass, oracle->threshold);
	}
}

static struct search_options draw_options(struct prop *prop)
{
	static const uint64_t precisions[] = {10000, 0, 1000, 100000};
	static const uint64_t tops[] = {1, 2, 40, 1000, 1000000, 1000000000000};
	uint64_t most = tops[prop_below(prop, 6)];
	struct search_options options = {
		.is_least = prop_chance(prop, 1, 2),
		.precision = precisions[prop_below(prop, 4)],
		.width = prop_range(prop, 1, 4),
		.starts_alone = prop_chance(prop, 1, 2),
		.starts_by_utilisation = prop_chance(prop, 1, 2),
		.has_shape = prop_chance(prop, 1, 2),
	};

	options.minimum = 1 + prop_below(prop, most);
	options.maximum = options.minimum + prop_below(prop, most);
	options.first = options.minimum + prop_below(prop, options.maximum - options.minimum + 1);
	return options;
}

static struct oracle draw_oracle(struct prop *prop, const struct search_options *options)
{
	static const double utilisations[] = {0, 0.5, 0.01, 1e-9, 3, 1e9};
	uint64_t count = options->maximum - options->minimum + 1;
	struct oracle oracle = {
		.is_least = options->is_least,
		.fails_alone = options->starts_alone && prop_chance(prop, 1, 8),
		.passes_none = prop_chance(prop, 1, 8),
		.threshold = options->minimum + prop_below(prop, count),
		.utilisation = utilisations[prop_below(prop, 6)],
	};

	oracle.flipped_count = prop_chance(prop, 1, 2) ? prop_range(prop, 0, STRETCHES) : 0;
	for (uint32_t i = 0; i < oracle.flipped_count; i++) {
		oracle.flipped[i].from = options->minimum + prop_below(prop, count);
		oracle.flipped[i].to = oracle.flipped[i].from + prop_below(prop, count / 4 + 1);
	}
	oracle.noise = prop_chance(prop, 1, 4) ? prop_below(prop, 1000) : 0;
	oracle.has_margin = prop_chance(prop, 1, 2);
	oracle.bend = (double)prop_range(prop, 0, 40) * (prop_chance(prop, 1, 3) ? -1 : 1);
	return oracle;
}

static void draw_voids(
	struct prop *prop, const struct search_options *options, struct oracle *oracle)
{
	uint64_t count = options->maximum - options->minimum + 1;

	if (prop_chance(prop, 1, 3)) {
		oracle->void_from = options->minimum + prop_below(prop, count);
		oracle->void_to = oracle->void_from + prop_below(prop, count);
	}
	if (!options->is_least && prop_chance(prop, 1, 4)) {
		oracle->limit = options->minimum + prop_below(prop, count);
	}
}

static void body_search(struct prop *prop, const void *context)
{
	static struct trail one, many;
	struct search_options options = draw_options(prop);
	struct oracle oracle = draw_oracle(prop, &options);

	(void)context;
	draw_voids(prop, &options, &oracle);
	prop_log(prop, "%s in %llu..%llu from %llu, precision %llu, threshold %llu, used %g",
		options.is_least ? "least" : "highest", (unsigned long long)options.minimum,
		(unsigned long long)options.maximum, (unsigned long long)options.first,
		(unsigned long long)options.precision, (unsigned long long)oracle.threshold,
		oracle.utilisation);
	run_search(&options, &oracle, 1, 1, &one);
	run_search(&options, &oracle, prop_range(prop, 1, OUT_MOST), prop_below(prop, 1000), &many);
	require_equal(many.count, one.count);
	require(memcmp(many.probes, one.probes, sizeof(one.probes)) == 0, "other probes");
	require(memcmp(&many.answer, &one.answer, sizeof(one.answer)) == 0, "another answer");
	check_answer(&options, &one);
	check_stretches(&options, &one);
	check_voids(&options, &one);
	if (oracle.limit > 0) {
		options.maximum = u64_min(options.maximum, u64_max(oracle.limit, options.first));
		require_equal(one.answer.hardest, options.maximum);
	}
	if (one.answer.void_probe != SEARCH_NO_PROBE) {
		return; /* it may end anywhere on this side */
	}
	check_end(&options, &one.answer);
	if (oracle.flipped_count == 0 && oracle.noise == 0 && oracle.limit == 0) {
		check_monotone(&options, &oracle, &one.answer);
	}
}

Test(search, finds_what_a_scan_finds_and_asks_the_same_of_any_number_of_workers)
{
	const struct prop_options options = {.name = "search", .body = body_search, .trials = 4000};

	cr_assert(prop_holds(&options));
}

static const struct search_options ordinary = {
	.minimum = 1,
	.maximum = 1000000000000,
	.first = 1000000,
	.precision = 10000,
	.width = 2,
	.starts_alone = true,
	.starts_by_utilisation = true,
	.has_shape = true,
};

/* A stretch of 6 % of the loads that fails far below the threshold, as a cache that thrashes. */
Test(search, a_cliff_below_the_capacity_is_found_and_bounds_the_answer)
{
	const struct oracle oracle = {.threshold = 3650000,
		.flipped = {{2480000, 2630000}},
		.flipped_count = 1,
		.utilisation = 0.25};
	static struct trail trail;

	run_search(&ordinary, &oracle, 1, 1, &trail);
	require(trail.answer.highest_pass < 2480000 && trail.answer.highest_pass > 2455000,
		"found %llu", (unsigned long long)trail.answer.highest_pass);
	require_equal(trail.answer.stretch_count, 1);
	require(trail.answer.stretches[0].from >= 2480000 &&
			trail.answer.stretches[0].to <= 2630000,
		"not the stretch");
}

/* The bracket starts at 0.9 of the load at which the first would be fully used, but at most 64
   times off the first, which a run of a few requests says little about. */
Test(search, the_bracket_starts_near_the_first_load)
{
	static const double utilisations[] = {1e-12, 1e-6, 0.01, 0.02, 0.5, 2, 50, 1e6, 1e12};
	static struct trail trail;

	for (uint32_t i = 0; i < sizeof(utilisations) / sizeof(utilisations[0]); i++) {
		double used = utilisations[i], first = (double)ordinary.first;
		const struct oracle oracle = {
			.threshold = used < 0.9 ? UINT64_C(1) << 40 : 1, .utilisation = used};
		double expected = fmin(fmax(first * 0.9 / used, first / 64), first * 64);
		uint32_t start = 0;
		run_search(&ordinary, &oracle, 1, 1, &trail);
		while (start < trail.count && trail.probes[start].purpose != SEARCH_BRACKET) {
			start++;
		}
		require(start < trail.count, "no bracket");
		double off = (double)trail.probes[start].load / expected - 1;
		require(fabs(off) < 0.05, "%g used: starts at %llu, expected %g", used,
			(unsigned long long)trail.probes[start].load, expected);
	}
}

/* The searches whose probes are given below: one of each way to start, to step and to divide. */
static const struct {
	struct search_options options;
	struct oracle oracle;
	const char *probes; /* the first letter of the purpose, but of shape: S; and the load */
} searches[] = {
	/* up by factors of 4; brackets that are far apart: their geometric mean, exactly */
	{{.minimum = 1,
		 .maximum = 100000,
		 .first = 36,
		 .precision = 1000,
		 .width = 1,
		 .first_step = 4000},
		{.threshold = 300},
		"f36 b144 b2304 d576 d288 d407 d347 d317 d302 d295 d298 d300 d301"},
	/* down, divided into three */
	{{.minimum = 10, .maximum = 100000, .first = 80000, .precision = 10000, .width = 2},
		{.threshold = 900},
		"f80000 b64000 b40946 b16760 b2807 b78 b10 d467 d1144 d730 d868 d1006 "
		"d914 d960 d883 d898 d903 d908"},
	/* from the utilisation, short numbers, and around the answer */
	{{.minimum = 1,
		 .maximum = 1000000000000,
		 .first = 1000000,
		 .precision = 10000,
		 .width = 2,
		 .starts_alone = true,
		 .starts_by_utilisation = true,
		 .has_shape = true},
		{.threshold = 4345678, .utilisation = 0.25},
		"f1000000 a0 b3600000 b4500000 b7033500 d3900000 d4200000 d4300000 "
		"d4400000 d4333000 d4367000 S2167000 S3033000 S3683000 S4116000 "
		"S4983000 S5633000"},
	/* where the line of the margins crosses 0 */
	{{.minimum = 1,
		 .maximum = 1000000000000,
		 .first = 1000000,
		 .precision = 10000,
		 .width = 2,
		 .starts_by_utilisation = true},
		{.threshold = 4345678, .utilisation = 0.25, .has_margin = true, .bend = 1},
		"f1000000 b3600000 b4500000 b7033500 d4333000 d4389000 d4365000"},
	{{.minimum = 1, .maximum = 1000000000000, .first = 1000000, .precision = 10000, .width = 1},
		{.threshold = 400000, .has_margin = true, .bend = -3},
		"f1000000 b800000 b511836 b209511 d327500 d419700 d388700 d400500 "
		"d400000"},
	/* the least that passes, up to a limit of what there is */
	{{.is_least = true,
		 .minimum = 1,
		 .maximum = 5000,
		 .first = 100,
		 .precision = 20000,
		 .width = 3,
		 .starts_by_utilisation = true,
		 .has_shape = true},
		{.is_least = true, .threshold = 777, .utilisation = 2},
		"f100 b222 b277 b432 b1055 d675 d770 d865 d960 d793 d817 d841 d775 d781 "
		"d787 S1562 S1115 S918 S743 S600"},
	{{.is_least = true,
		 .minimum = 1,
		 .maximum = 64,
		 .first = 16,
		 .precision = 1,
		 .width = 1,
		 .first_step = 2000},
		{.is_least = true, .threshold = 3}, "f16 b8 b2 d4 d3"},
};

Test(search, probes_are_these)
{
	static struct trail trail;

	for (size_t i = 0; i < sizeof(searches) / sizeof(searches[0]); i++) {
		char found[1024] = "";
		size_t used = 0;
		run_search(&searches[i].options, &searches[i].oracle, 1, 1, &trail);
		for (uint32_t k = 0; k < trail.count; k++) {
			const struct search_probe *probe = &trail.probes[k];
			used += (size_t)snprintf(found + used, sizeof(found) - used, "%s%c%llu",
				k == 0 ? "" : " ", "fabdS"[probe->purpose],
				(unsigned long long)probe -> load);
		}
		require(strcmp(found, searches[i].probes) == 0,
			"search %zu: found\n%s\nexpected\n%s", i, found, searches[i].probes);
	}
}

/* From a good utilisation few probes are needed, and half as many rounds. */
Test(search, takes_few_probes_from_a_good_start)
{
	struct search_options options = ordinary;
	static struct trail trail;

	options.has_shape = false;
	for (uint64_t threshold = 1500000; threshold < 60000000; threshold += 377777) {
		const struct oracle oracle = {
			.threshold = threshold, .utilisation = 1.1 * 1e6 / (double)threshold};
		run_search(&options, &oracle, 2, 1, &trail);
		require(trail.count <= 15 && trail.surprises == 0, "%u probes for %llu, %u",
			trail.count, (unsigned long long)threshold, trail.surprises);
	}
}

/* With margins that are nearly a line, two rounds behind the bracket suffice mostly. */
Test(search, margins_save_probes)
{
	struct search_options options = ordinary;
	static struct trail with, without;
	uint32_t more = 0, fewer = 0;

	options.has_shape = false;
	for (uint64_t threshold = 300000; threshold < 20000000; threshold += 377777) {
		struct oracle oracle = {
			.threshold = threshold, .utilisation = 1.1 * 1e6 / (double)threshold};
		run_search(&options, &oracle, 2, 1, &without);
		oracle.has_margin = true;
		oracle.bend = 1;
		run_search(&options, &oracle, 2, 1, &with);
		more += without.count;
		fewer += with.count;
	}
	require(fewer * 5 < more * 4, "%u probes with margins, %u without", fewer, more);
}

/* Where harder loads cannot be run, the one that passed below is a bound; as is one at a limit. */
Test(search, loads_without_an_outcome_are_no_end_of_the_search)
{
	const struct oracle above = {.threshold = 9000000,
		.void_from = 4000000,
		.void_to = UINT64_MAX,
		.utilisation = 0.25};
	const struct oracle below = {
		.threshold = 9000, .void_from = 1, .void_to = 500000, .utilisation = 2};
	const struct oracle limited = {.threshold = 9000000, .limit = 7000000, .utilisation = 0.25};
	static struct trail trail;

	run_search(&ordinary, &above, 2, 1, &trail);
	require(trail.answer.is_bound && trail.answer.highest_pass >= 3600000 &&
			trail.answer.highest_pass < 4000000,
		"found %llu", (unsigned long long)trail.answer.highest_pass);
	run_search(&ordinary, &below, 2, 1, &trail);
	require(!trail.answer.has_pass && trail.answer.has_fail && trail.count < 12, "%u probes",
		trail.count);
	run_search(&ordinary, &limited, 2, 1, &trail);
	require(trail.answer.is_bound && trail.answer.highest_pass == 7000000, "found %llu",
		(unsigned long long)trail.answer.highest_pass);
}

/* What was found before an interrupt is a bound. */
Test(search, an_answer_before_the_end_is_a_bound)
{
	struct search *search = search_open(&ordinary);
	struct search_probe probe;
	struct search_answer answer = search_answer(search);

	require(!answer.has_pass && !answer.is_complete && !answer.is_bound, "from nothing");
	require(search_next(search, &probe) && probe.purpose == SEARCH_FIRST, "first");
	search_take(search, probe.number, true, 0.5);
	answer = search_answer(search);
	require(answer.has_pass && answer.is_bound && answer.highest_pass == 1000000, "a bound");
	require(search_next(search, &probe) && probe.purpose == SEARCH_ALONE, "alone");
	require(!search_next(search, &probe), "a round is not decided before it is whole");
	search_take(search, probe.number, false, 0);
	require(!search_next(search, &probe) && search_has_ended(search), "it fails alone");
	require(search_answer(search).fails_alone, "it fails alone");
	search_close(search);
}
