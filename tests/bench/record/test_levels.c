#include "bench/record/levels.h"

#include <criterion/criterion.h>

#include "tests/harness/property.h"
#include "tests/harness/require.h"

/* Levels against their definition, of the steps of several replicas: a step counts in the level in
   which it ends, and its time is divided at the edge. Work behind the last level is of none. */

enum { REPLICAS_MAX = 3, STEPS_MAX = 24, LEVELS_MAX = 5 };

struct drawn_step {
	struct timeline_step step;
	uint64_t decode_rows;
	bool is_outside;
};

struct drawn_run {
	uint32_t replicas, levels;
	uint64_t width_ns;
	uint32_t counts[REPLICAS_MAX];
	struct drawn_step steps[REPLICAS_MAX][STEPS_MAX];
};

/* Steps may end at an edge, take no time, and run over several levels. */
static void draw_run(struct prop *prop, struct drawn_run *run)
{
	run->replicas = prop_range(prop, 1, REPLICAS_MAX);
	run->levels = prop_range(prop, 1, LEVELS_MAX);
	run->width_ns = prop_range(prop, 1, 40);
	for (uint32_t r = 0; r < run->replicas; r++) {
		uint64_t now_ns = 0;
		run->counts[r] = prop_range(prop, 0, STEPS_MAX);
		for (uint32_t i = 0; i < run->counts[r]; i++) {
			struct drawn_step *own = &run->steps[r][i];
			uint64_t start_ns = now_ns + prop_below(prop, 12);
			bool is_long = prop_chance(prop, 1, 6);
			now_ns = start_ns + prop_below(prop, is_long ? 3 * run->width_ns : 12);
			*own = (struct drawn_step){.step = {.start_ns = start_ns,
							   .end_ns = now_ns,
							   .running = prop_below(prop, 9),
							   .waiting = prop_below(prop, 9),
							   .used_blocks = prop_below(prop, 9)},
				.decode_rows = prop_below(prop, 9),
				.is_outside = prop_chance(prop, 1, 3)};
		}
	}
}

static void add_step(struct run_sums *sums, const struct drawn_step *own, uint64_t span_ns)
{
	run_sums_add_time(sums, &own->step, span_ns);
	sums->steps++;
	sums->sums.decode_rows += own->decode_rows;
	sums->outside_steps += own->is_outside;
}

/* The replicas' steps in any order that keeps that of each. */
static void add_all(struct prop *prop, struct levels *levels, const struct drawn_run *run)
{
	struct level_progress progress[REPLICAS_MAX];
	struct run_sums sums[REPLICAS_MAX] = {0};
	uint32_t next[REPLICAS_MAX] = {0}, left = 0;

	for (uint32_t r = 0; r < run->replicas; r++) {
		level_progress_init(&progress[r], levels);
		left += run->counts[r];
	}
	for (; left > 0; left--) {
		uint32_t r = (uint32_t)prop_below(prop, run->replicas);
		while (next[r] == run->counts[r]) {
			r = (r + 1) % run->replicas;
		}
		const struct drawn_step *own = &run->steps[r][next[r]++];
		if (own->step.end_ns > progress[r].end_ns) {
			levels_pass(levels, &progress[r], &sums[r], &own->step);
		}
		add_step(&sums[r], own, own->step.end_ns - own->step.start_ns);
	}
	for (uint32_t r = 0; r < run->replicas; r++) {
		levels_end(levels, &progress[r], &sums[r]);
	}
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static struct run_sums naive_level(const struct drawn_run *run, uint32_t level)
{
	struct run_sums out = {0};
	uint64_t begin_ns = level * run->width_ns;
	uint64_t end_ns = begin_ns + run->width_ns;

	for (uint32_t r = 0; r < run->replicas; r++) {
		for (uint32_t i = 0; i < run->counts[r]; i++) {
			const struct drawn_step *own = &run->steps[r][i];
			const struct timeline_step *step = &own->step;
			uint64_t before_ns = least(step->end_ns, begin_ns);
			uint64_t from_ns = step->start_ns < before_ns ? before_ns : step->start_ns;
			uint64_t until_ns = least(step->end_ns, end_ns);
			uint64_t span_ns = until_ns > from_ns ? until_ns - from_ns : 0;
			bool is_behind = level > 0 && step->end_ns <= begin_ns;
			if (!is_behind && step->end_ns <= end_ns) {
				add_step(&out, own, span_ns);
			} else {
				run_sums_add_time(&out, step, span_ns);
			}
		}
	}
	return out;
}

static void compare_levels(struct prop *prop, const void *context)
{
	struct drawn_run run;
	struct levels levels;

	(void)context;
	draw_run(prop, &run);
	levels_init(&levels, run.levels, run.width_ns);
	add_all(prop, &levels, &run);
	levels_figures(&levels);
	for (uint32_t i = 0; i < run.levels; i++) {
		const struct run_sums expected = naive_level(&run, i);
		const struct run_sums *work = &levels.levels[i].work;
		require_equal(work->steps, expected.steps);
		require_equal(work->sums.decode_rows, expected.sums.decode_rows);
		require_equal(work->outside_steps, expected.outside_steps);
		require_equal(work->busy_ns, expected.busy_ns);
		require_equal((uint64_t)work->running_ns, (uint64_t)expected.running_ns);
		require_equal((uint64_t)work->waiting_ns, (uint64_t)expected.waiting_ns);
		require_equal((uint64_t)work->used_blocks_ns, (uint64_t)expected.used_blocks_ns);
		double waiting = (double)expected.waiting_ns / (double)run.width_ns;
		require(levels.figures[i].waiting - waiting < 1e-9 &&
				waiting - levels.figures[i].waiting < 1e-9,
			"level %u: %g waited, expected %g", i, levels.figures[i].waiting, waiting);
	}
	levels_deinit(&levels);
}

Test(levels, divide_the_work_of_all_replicas)
{
	const struct prop_options options = {
		.name = "work of levels", .body = compare_levels, .trials = 3000};

	cr_assert(prop_holds(&options));
}

/* ---- figures ---- */

static uint64_t naive_percentile(const struct histogram *histogram, uint32_t per_mille)
{
	return histogram->count > 0 ? histogram_percentile(histogram, per_mille) : 0;
}

/* Requests have a TTFT, a TPOT, both or none: one with one token of output has no TPOT. */
static void compare_figures(struct prop *prop, const void *context)
{
	struct histogram ttft[LEVELS_MAX], tpot[LEVELS_MAX];
	uint32_t count = prop_range(prop, 1, LEVELS_MAX);
	struct levels levels;

	(void)context;
	levels_init(&levels, count, 10);
	for (uint32_t i = 0; i < count; i++) {
		struct level *level = &levels.levels[i];
		uint32_t weights[2] = {prop_range(prop, 0, 3), prop_range(prop, 0, 3)};
		level->submitted = prop_below(prop, 50);
		level->finished = prop_below(prop, 50);
		level->attained = prop_below(prop, 50);
		histogram_init(&ttft[i]);
		histogram_init(&tpot[i]);
		for (uint32_t k = prop_range(prop, 0, 9); k > 0; k--) {
			uint64_t ns = prop_below(prop, 100000);
			if (prop_chance(prop, weights[0], 3)) {
				histogram_add(&level->ttft, ns, 1);
				histogram_add(&ttft[i], ns, 1);
			}
			if (prop_chance(prop, weights[1], 3)) {
				histogram_add(&level->tpot, ns / 2, 1);
				histogram_add(&tpot[i], ns / 2, 1);
			}
		}
	}
	levels_figures(&levels);
	for (uint32_t i = 0; i < count; i++) {
		const struct level_figures *figures = &levels.figures[i];
		require_equal(figures->submitted, levels.levels[i].submitted);
		require_equal(figures->finished, levels.levels[i].finished);
		require_equal(figures->attained, levels.levels[i].attained);
		require_equal(figures->has_ttft, ttft[i].count > 0);
		require_equal(figures->has_tpot, tpot[i].count > 0);
		require_equal(figures->ttft_p50_ns, naive_percentile(&ttft[i], 500));
		require_equal(figures->ttft_p99_ns, naive_percentile(&ttft[i], 990));
		require_equal(figures->tpot_p99_ns, naive_percentile(&tpot[i], 990));
		histogram_deinit(&ttft[i]);
		histogram_deinit(&tpot[i]);
	}
	levels_deinit(&levels);
}

Test(levels, figures_are_those_of_their_requests)
{
	const struct prop_options options = {
		.name = "figures of levels", .body = compare_figures, .trials = 1000};

	cr_assert(prop_holds(&options));
}
