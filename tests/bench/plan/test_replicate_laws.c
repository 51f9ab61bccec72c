#include "bench/plan/replicates.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/jobs/jobs.h"
#include "bench/plan/bands.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "engine/base/number.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* Error bars beside a naive model of them, without a run: loads of the searches pass up to a
   border that is drawn. Bands and searches have tests of their own and are taken for granted. */

enum { CONFIGURATIONS = 3, REPLICATES = 45, LOADS = 4000, SPAN_MS = 50000 };

/* ---- plans that are drawn ---- */

/* How a track's searches come out. Loads up to the border pass, or from it on where more is
   easier; from `lost` on there is no outcome. */
struct outcome {
	uint64_t border, lost;
	bool has_margin, fails_alone, is_left; /* is_left: no probe of it is taken */
};

struct scene {
	struct plan plan;
	struct plan_request request;
	struct trace_maker maker;
	struct outcome outcomes[CONFIGURATIONS * (REPLICATES + 3)]; /* by track */
};

static enum status do_nothing(
	void *context, const struct text *job, struct text *result, struct error *error)
{
	(void)context, (void)job, (void)result, (void)error;
	return STATUS_OK;
}

static void draw_outcome(struct prop *prop, struct outcome *outcome, uint64_t middle)
{
	static const uint64_t ends[] = {0, 3 * LOADS};

	outcome->border = middle - middle / 8 + prop_below(prop, middle / 4 + 1);
	if (prop_chance(prop, 1, 20)) {
		outcome->border = ends[prop_below(prop, 2)];
	}
	outcome->lost = prop_chance(prop, 1, 12) ? prop_range(prop, 1, LOADS) : UINT64_MAX;
	outcome->has_margin = prop_chance(prop, 3, 4);
	outcome->fails_alone = prop_chance(prop, 1, 10);
	outcome->is_left = prop_chance(prop, 1, 10);
}

/* Takes the probes of a track until its search has ended. */
static void play(struct track *track, const struct outcome *outcome)
{
	bool is_least = track->options.search.is_least;
	struct search_probe next;

	for (size_t i = 0; i < track->count && !outcome->is_left; i++) {
		struct track_probe *own = &track->probes[i];
		struct probe_figures *figures = &own->figures;
		double load = (double)own->probe.load, border = (double)outcome->border + 0.5;
		bool is_alone = own->probe.purpose == SEARCH_ALONE;
		bool passes = is_alone	 ? !outcome->fails_alone
			      : is_least ? load >= border
					 : load <= border;
		own->is_taken = true;
		figures->judged.has_margin = outcome->has_margin;
		figures->judged.margin = (is_least ? border - load : load - border) / border;
		figures->has_offered = own->probe.load % 3 > 0;
		figures->offered_per_s = load / 7000;
		figures->finished_per_s = load / 9000;
		figures->latency_ms[LATENCY_E2E][STATISTIC_P99] = load / (1 + load / 900);
		if (!is_alone && own->probe.load >= outcome->lost) {
			search_take_nothing(track->search, own->probe.number);
		} else if (outcome->has_margin) {
			search_take_margin(track->search, own->probe.number, passes, 0,
				figures->judged.margin);
		} else {
			search_take(track->search, own->probe.number, passes, 0);
		}
		while (search_next(track->search, &next)) {
			track->probes = memory_grow(track->probes, &track->capacity,
				track->count + 1, sizeof(*track->probes));
			track->probes[track->count++] = (struct track_probe){.probe = next};
		}
	}
}

static void draw_configuration(struct prop *prop, struct scene *scene, uint32_t index)
{
	struct plan *plan = &scene->plan;
	struct replay_config *config = &plan->configurations[index].run.config;
	struct plan_configuration_state *state = &plan->states[index];

	config->loop = prop_chance(prop, 1, 6) ? LOOP_FRESH : LOOP_OFF;
	config->given.rate = prop_chance(prop, 1, 3);
	config->step_time_scale = 1000000 + prop_below(prop, 3) * 250000;
	config->given.resample_window_s = prop_chance(prop, 1, 5);
	config->resample_window_s = prop_range(prop, 1, 9) * 300000;
	state->index = index;
	state->model_error = prop_range(prop, 1, 300000);
	state->is_guess = prop_chance(prop, 1, 2);
	state->knows_cards = prop_chance(prop, 1, 2);
}

static void open_scene(struct prop *prop, struct scene *scene)
{
	const struct jobs_options jobs = {.workers = 1, .run = do_nothing};
	struct plan *plan = &scene->plan;
	struct error error = {0};

	memset(scene, 0, sizeof(*scene));
	plan->request = &scene->request;
	plan->knob = (enum knob_index)prop_below(prop, KNOB_COUNT);
	scene->request.replicates =
		prop_chance(prop, 1, 2) ? prop_below(prop, 12) : 36 + prop_below(prop, 10);
	scene->request.maker = prop_chance(prop, 1, 6) ? &scene->maker : NULL;
	plan->trace_rows = prop_range(prop, 1, 60);
	plan->trace_span_ns =
		prop_chance(prop, 1, 12)
			? 0
			: prop_range(prop, 1, prop_chance(prop, 1, 3) ? 40 : SPAN_MS) *
					  UINT64_C(1000000) +
				  prop_below(prop, 1000);
	plan->configuration_count = prop_range(prop, 1, CONFIGURATIONS);
	plan->states = memory_take(CONFIGURATIONS, sizeof(*plan->states));
	plan->configurations = memory_take(CONFIGURATIONS, sizeof(*plan->configurations));
	require_equal(jobs_open(&plan->jobs, &jobs, &error), STATUS_OK);
	for (uint32_t i = 0; i < plan->configuration_count; i++) {
		uint32_t least = prop_chance(prop, 1, 2) ? 1 : prop_range(prop, 2, LOADS / 2);
		const struct track_options options = {.configuration = i,
			.search = {.is_least = knobs[plan->knob].is_least,
				.minimum = least,
				.maximum = LOADS,
				.first = prop_range(prop, least, LOADS),
				.precision = 20000,
				.width = 1,
				.starts_alone = prop_chance(prop, 1, 2)}};
		draw_configuration(prop, scene, i);
		plan->states[i].main = plan_add_track(plan, &options);
		draw_outcome(prop, &scene->outcomes[i], prop_range(prop, 40, LOADS));
		scene->outcomes[i].is_left = false;
		play(plan->tracks[i], &scene->outcomes[i]);
	}
}

static struct search_answer main_answer(const struct plan *plan, uint32_t index)
{
	return search_answer(plan->tracks[plan->states[index].main]->search);
}

/* ---- tracks ---- */

/* BAND_LATENCIES of the longest latency at an answer, in the time of the trace; nanoseconds. */
static double needed_ns(const struct plan *plan)
{
	double longest_ns = 0;

	for (uint32_t i = 0; i < plan->configuration_count; i++) {
		const struct search_answer found = main_answer(plan, i);
		if (found.has_pass) {
			const struct probe_figures *own = &plan->tracks[plan->states[i].main]
								   ->probes[found.pass_probe]
								   .figures;
			double rate = own->has_offered ? own->offered_per_s : own->finished_per_s;
			double gaps = fmax((double)plan->trace_rows - 1, 1);
			longest_ns = fmax(longest_ns, own->latency_ms[LATENCY_E2E][STATISTIC_P99] /
							      1000 * rate *
							      (double)plan->trace_span_ns / gaps);
		}
	}
	return BAND_LATENCIES * longest_ns;
}

static void require_window(const struct plan *plan, uint32_t index)
{
	const struct replay_config *config = &plan->configurations[index].run.config;
	const struct band_window *window = &plan->states[index].window;
	double span_ns = (double)plan->trace_span_ns, needed = needed_ns(plan);
	double longest_ns = span_ns / BAND_WINDOWS_MIN;
	double expected_ns = fmin(fmax(needed, span_ns / BAND_WINDOWS_MOST), longest_ns);

	if (config->given.resample_window_s) {
		require_equal(window->window_ns, config->resample_window_s * 1000);
		require(!window->is_too_short, "a given window is too short");
	} else {
		require(fabs((double)window->window_ns - expected_ns) < 1e6 + 1 &&
				(expected_ns < 1e6 + 1 || window->window_ns % 1000000 == 0),
			"a window of %llu ns, expected %g", (unsigned long long)window->window_ns,
			expected_ns);
		require(fabs(needed / longest_ns - 1) < 1e-3 ||
				window->is_too_short == (needed > longest_ns),
			"%g ns of %g", needed, longest_ns);
	}
	require_equal(window->windows, u64_divide_up(plan->trace_span_ns, window->window_ns));
}

static void require_search(const struct search_options *found, const struct search_options *plan,
	uint64_t answer, uint64_t coarseness)
{
	const struct search_options expected = band_search(plan, answer, coarseness);

	require_equal(found->is_least, expected.is_least);
	require_equal(found->minimum, expected.minimum);
	require_equal(found->maximum, expected.maximum);
	require_equal(found->first, answer);
	require_equal(found->precision, expected.precision);
}

/* The least that a configuration's plan looks at, where less is harder. */
static uint64_t least_of(const struct plan *plan, uint32_t index)
{
	return plan->tracks[plan->states[index].main]->options.search.minimum;
}

/* Where the least of all passes there can be no less, though nothing fails. */
static bool has_answer(const struct plan *plan, uint32_t index, const struct search_answer *found)
{
	bool is_least = knobs[plan->knob].is_least;

	return found->has_pass &&
	       (found->has_fail || (is_least && found->highest_pass == least_of(plan, index)));
}

/* The tracks of a configuration, from number `at` on; returns the number behind them. */

static uint32_t require_tracks(const struct plan *plan, uint32_t index, uint32_t at)
{
	const struct plan_configuration_state *state = &plan->states[index];
	const struct replay_config *config = &plan->configurations[index].run.config;
	const struct search_answer found = main_answer(plan, index);
	const struct search_options *search = &plan->tracks[state->main]->options.search;
	bool has_maker = plan->request->maker != NULL;
	bool is_drawn = config->loop == LOOP_OFF && !has_maker;
	bool draws_arrivals = plan->knob == KNOB_RATE || config->given.rate || has_maker;
	uint64_t samples = is_drawn || draws_arrivals ? plan->request->replicates : 0;

	if (!has_answer(plan, index, &found) || found.fails_alone ||
		plan->request->replicates == 0) {
		require_equal(state->replicate_first, 0);
		return at;
	}
	require_equal(state->replicate_first, at);
	require_equal(state->samples, samples);
	if (is_drawn && plan->trace_span_ns > 0) {
		require_window(plan, index);
	} else {
		require_equal(state->window.window_ns, 0);
	}
	for (uint64_t i = 0; i < samples + 2; i++, at++) {
		const struct track_options *own = &plan->tracks[at]->options;
		bool is_model = i >= samples;
		uint64_t error = state->model_error;
		uint64_t factor = i == samples ? 1000000 - error : 1000000 + error;
		require_equal(own->configuration, index);
		require_equal(own->kind, is_model ? TRACK_MODEL : TRACK_SAMPLING);
		require_equal(own->replicate, is_model ? 0 : i + 1);
		require_equal(own->is_drawn, !is_model && is_drawn);
		require_equal(own->draws_arrivals, !is_model && draws_arrivals);
		require_equal(own->window_millionths,
			!is_model && is_drawn ? state->window.window_ns / 1000 : 0);
		require_equal(own->step_time_scale,
			is_model ? config->step_time_scale * factor / 1000000 : 0);
		require_search(&own->search, search, found.highest_pass, is_model ? 1 : 5);
	}
	return at;
}

/* ---- answers ---- */

/* What a replicate says; false: nothing. */
static bool value_of(const struct plan *plan, uint32_t index, uint64_t replicate, uint64_t *value)
{
	const struct track *track = plan->tracks[plan->states[index].replicate_first + replicate];
	const struct search_answer found = search_answer(track->search);
	bool has_both = found.has_pass && found.has_fail;
	double margins[2] = {0, 0};

	if (has_both && track->probes[found.pass_probe].figures.judged.has_margin) {
		margins[0] = track->probes[found.pass_probe].figures.judged.margin;
		margins[1] = track->probes[found.fail_probe].figures.judged.margin;
	}
	*value = band_value(&found, track->options.search.is_least, margins[0], margins[1]);
	if (*value == BAND_LESS && found.has_pass && has_answer(plan, index, &found)) {
		*value = least_of(plan, index);
	}
	return found.is_complete && (has_both || found.void_probe == SEARCH_NO_PROBE);
}

static void require_end(
	struct result_value found, enum knob_index knob, bool has_value, double value)
{
	require_equal(found.has_value, has_value);
	require(!has_value || fabs(found.value - knob_value(knob, 1) * value) <= 1e-9 * value,
		"an end of %.17g, expected %.17g", found.value, knob_value(knob, 1) * value);
}

static void add_end(struct text *text, enum knob_index knob, struct result_value end)
{
	if (knobs[knob].is_fraction) {
		text_format(text, "%.4g", end.value);
	} else {
		text_add_number(text, NUMBER_COUNT, true, end.value);
	}
}

/* "1 to 3 replicas", "2 replicas", "at most 1 replica", "--rate 2 to 3". */
static void require_interval_text(const struct plan_answer *answer, enum knob_index knob,
	const struct plan_interval *interval, const struct text *text)
{
	const bool has_low = interval->low.has_value, has_high = interval->high.has_value;
	struct text low = {0}, high = {0}, expected = {0};

	if (has_low) {
		add_end(&low, knob, interval->low);
	}
	if (has_high) {
		add_end(&high, knob, interval->high);
	}
	const char *one = has_high ? high.bytes : low.bytes;
	double value = has_high ? interval->high.value : interval->low.value;
	if (!has_low && !has_high) {
		text_add(&expected, "beyond what was searched ");
	} else {
		bool is_range = has_low && has_high && strcmp(low.bytes, high.bytes) != 0;
		bool is_option = knobs[knob].is_fraction;
		if (is_option) {
			text_format(&expected, "--%s ", knobs[knob].name);
		}
		text_format(&expected, "%s%s%s%s%s%s ",
			has_low && has_high ? ""
			: has_high	    ? "at most "
					    : "at least ",
			is_range ? low.bytes : "", is_range ? " to " : "", one,
			is_option || answer->unit[0] == '\0' ? "" : " ",
			is_option ? "" : plan_answer_unit(answer, value));
	}
	require(strncmp(text->bytes, expected.bytes, expected.byte_count) == 0,
		"'%s' does not begin with '%s'", text->bytes, expected.bytes);
	text_deinit(&low);
	text_deinit(&high);
	text_deinit(&expected);
}

static bool has(const struct text *text, const char *words)
{
	return strstr(text->bytes, words) != NULL;
}

static void require_sampling_text(const struct plan_configuration_state *state,
	const struct text *text, uint32_t count, bool is_drawn, bool draws_arrivals)
{
	bool is_short = is_drawn && state->window.is_too_short;
	double needed_s = (double)state->window.needed_ns / 1e9;
	char by[64], searched[64], needed[64];

	snprintf(by, sizeof(by), " at 95 %%, by %u %s", count,
		is_drawn ? "traces drawn from the trace" : "traces of other seeds");
	snprintf(searched, sizeof(searched), "; %llu were to be searched",
		(unsigned long long)state->samples);
	snprintf(needed, sizeof(needed), " times the p99 latency take %.*f s",
		needed_s < 10 ? 2 : 0, needed_s);
	require(has(text, by), "%s", text->bytes);
	require(!is_short || has(text, needed), "%s, not %s", text->bytes, needed);
	require_equal(has(text, " with other arrivals"), is_drawn && draws_arrivals);
	require_equal(has(text, " in windows of "), is_drawn && state->window.window_ns > 0);
	require_equal(
		has(text, "; the trace is too short for it: 8 windows of 20 times"), is_short);
	require_equal(has(text, "; 95 % takes --replicates 39"), count < 39);
	require_equal(has(text, ", so it may be too narrow"), is_short || count < 39);
	require_equal(has(text, searched), count < state->samples);
}

/* count: out, how many replicates have a value. Returns the band of these. */
static struct band naive_band(const struct plan *plan, uint32_t index, uint32_t *count)
{
	const struct plan_configuration_state *state = &plan->states[index];
	uint64_t values[REPLICATES + 1];

	*count = 0;
	for (uint64_t i = 0; i < state->samples; i++) {
		*count += value_of(plan, index, i, &values[*count]);
	}
	const uint64_t answer = main_answer(plan, index).highest_pass;
	const uint64_t least = least_of(plan, index);
	if (plan->knob == KNOB_REPLICAS) {
		return band_of_counts(values, *count, least, u64_max(least, answer / BAND_RANGE));
	}
	struct band band = band_of_sampling((double)answer, values, *count, state->window.windows);
	if (plan->knob == KNOB_KV_BLOCKS && band.has_high) {
		band.low = fmax(band.low, (double)least); /* an open one is 0 */
		band.has_low = true;
	}
	return band;
}

static void require_sampling(const struct plan *plan, uint32_t index,
	const struct plan_answer *answer, const struct text *text)
{
	const struct plan_configuration_state *state = &plan->states[index];
	uint32_t count;
	const struct band band = naive_band(plan, index, &count);
	const struct track_options *first = &plan->tracks[state->replicate_first]->options;

	require_equal(answer->sampling.replicates.value, count);
	cr_assert_str_eq(answer->sampling.method, state->samples == 0 ? "none"
						  : first->is_drawn   ? "block bootstrap"
								      : "seeds");
	require_end(answer->sampling.interval.low, plan->knob, band.has_low, band.low);
	require_end(answer->sampling.interval.high, plan->knob, band.has_high, band.high);
	require(answer->sampling.text == text->bytes, "another text");
	require(!band.has_low || !band.has_high || band.low <= band.high, "%g to %g", band.low,
		band.high);
	if (state->samples == 0) {
		cr_assert_str_eq(
			text->bytes, "not told: with --loop nothing is drawn from the trace");
		return;
	}
	require_equal(answer->sampling.window_s.has_value, first->window_millionths > 0);
	require(fabs(answer->sampling.window_s.value * 1e6 - (double)first->window_millionths) <
			1e-3,
		"another window");
	if (band.has_low || band.has_high) {
		require_equal(has(text, "; no lower end: "), !band.has_low);
		require_equal(has(text, "; no upper end: "), !band.has_high);
		require_interval_text(answer, plan->knob, &answer->sampling.interval, text);
		require_sampling_text(state, text, count, first->is_drawn, first->draws_arrivals);
	} else {
		require_equal(has(text, "fewer than 8 replicates"), count < 8);
		require_equal(has(text, "too many replicates have no answer"), count >= 8);
	}
}

/* Shorter steps carry more, so they make the upper end; the lower one where less is better. The
   answer lies between the ends. */
static void require_model(const struct plan *plan, uint32_t index, const struct plan_answer *answer,
	const struct text *text)
{
	const struct plan_configuration_state *state = &plan->states[index];
	const struct plan_interval *interval = &answer->model.interval;
	uint64_t first = state->replicate_first + state->samples;
	bool is_least = knobs[plan->knob].is_least;
	const double main = (double)main_answer(plan, index).highest_pass;
	double ends[2] = {main, main};
	bool is_known[2] = {false, false}, has_ended = true;

	require(fabs(answer->model.error.value * 1e6 - (double)state->model_error) < 1e-6,
		"an error of %g", answer->model.error.value);
	require_equal(answer->model.is_guess, state->is_guess);
	for (uint32_t i = 0; i < 2 && has_ended; i++) {
		const struct search_answer found = search_answer(plan->tracks[first + i]->search);
		uint32_t end = (i == 0) != is_least;
		has_ended = found.is_complete;
		is_known[end] = has_ended && has_answer(plan, index, &found);
		ends[end] = is_known[end] ? (double)found.highest_pass : main;
	}
	is_known[0] = has_ended && is_known[0];
	is_known[1] = has_ended && is_known[1];
	require_end(interval->low, plan->knob, is_known[0], fmin(main, fmin(ends[0], ends[1])));
	require_end(interval->high, plan->knob, is_known[1], fmax(main, fmax(ends[0], ends[1])));
	require_equal(answer->model.text != NULL, has_ended);
	if (has_ended) {
		char by[192];
		snprintf(by, sizeof(by), " if all steps take %.3g %% longer or shorter, %s",
			(double)state->model_error / 1e4,
			state->is_guess	     ? "a guess: "
			: state->knows_cards ? "the mean error of the profile's held-out steps and "
					       "how far a card "
					     : "the mean error of the profile's held-out steps; "
					       "how far other cards "
					       "are off is not known");
		require(has(text, by), "%s, not %s", text->bytes, by);
		require_interval_text(answer, plan->knob, interval, text);
	}
}

static void require_answer(const struct plan *plan, uint32_t index)
{
	struct plan_answer *answer = memory_take(1, sizeof(*answer));
	struct text sampling = {0}, model = {0};

	answer->unit = knobs[plan->knob].unit;
	replicates_answer(plan, index, answer, &sampling, &model);
	if (plan->states[index].replicate_first == 0) {
		cr_assert_str_eq(answer->sampling.method, "none");
		const struct search_answer found = main_answer(plan, index);
		bool is_bound = found.is_complete && found.has_pass && !found.fails_alone &&
				plan->request->replicates > 0;
		require(!answer->model.error.has_value, "an answer");
		require(is_bound ? strcmp(answer->sampling.text,
					   "not told: the answer is a bound") == 0
				 : answer->sampling.text == NULL,
			"%s", answer->sampling.text);
	} else {
		require_sampling(plan, index, answer, &sampling);
		require_model(plan, index, answer, &model);
	}
	text_deinit(&sampling);
	text_deinit(&model);
	free(answer);
}

/* ---- ratios ---- */

/* What a configuration would have had on a draw. */
static double figure_on(const struct plan *plan, uint32_t index, double figure, uint64_t value)
{
	double answer = (double)main_answer(plan, index).highest_pass;
	bool is_least = knobs[plan->knob].is_least;

	if (value == BAND_LESS) {
		return is_least ? INFINITY : 0;
	}
	if (value == BAND_MORE) {
		return is_least ? 0 : INFINITY;
	}
	return figure * (is_least ? answer / (double)value : (double)value / answer);
}

static void require_ratio(const struct plan *plan, uint32_t a, uint32_t b)
{
	const struct plan_configuration_state *states[] = {&plan->states[a], &plan->states[b]};
	double figures[2][REPLICATES + 1];
	uint64_t values[2], samples = u64_min(states[0]->samples, states[1]->samples);
	uint32_t count = 0;

	for (uint64_t i = 0; i < samples && plan->knob != KNOB_KV_BLOCKS; i++) {
		if (value_of(plan, a, i, &values[0]) && value_of(plan, b, i, &values[1])) {
			figures[0][count] = figure_on(plan, a, 3, values[0]);
			figures[1][count] = figure_on(plan, b, 2, values[1]);
			count++;
		}
	}
	const struct band expected =
		band_of_ratio(3, 2, figures[0], figures[1], count, states[0]->window.windows);
	const struct band found = replicates_ratio(plan, a, b, 3, 2);
	require_equal(found.has_low, expected.has_low);
	require_equal(found.has_high, expected.has_high);
	require(fabs(found.low - expected.low) <= 1e-9 * expected.low, "%g, expected %g", found.low,
		expected.low);
	require(fabs(found.high - expected.high) <= 1e-9 * expected.high, "%g, expected %g",
		found.high, expected.high);
}

static void body_answers(struct prop *prop, const void *context)
{
	static struct scene scene;
	struct plan *plan = &scene.plan;

	(void)context;
	open_scene(prop, &scene);
	uint32_t at = u32_from(plan->track_count);
	prop_log(prop, "--vary %s, %llu replicates, %u configurations", knobs[plan->knob].name,
		(unsigned long long)scene.request.replicates, plan->configuration_count);
	replicates_add(plan);
	for (uint32_t i = 0; i < plan->configuration_count; i++) {
		at = require_tracks(plan, i, at);
	}
	require_equal(plan->track_count, at);
	for (uint32_t i = plan->configuration_count; i < at; i++) {
		uint64_t answer = plan->tracks[i]->options.search.first;
		draw_outcome(prop, &scene.outcomes[i], answer);
		play(plan->tracks[i], &scene.outcomes[i]);
	}
	for (uint32_t a = 0; a < plan->configuration_count; a++) {
		require_answer(plan, a);
		for (uint32_t b = 0; b < plan->configuration_count; b++) {
			require_ratio(plan, a, b);
		}
	}
	plan_close(plan);
}

Test(replicate_laws, tracks_answers_and_ratios_are_those_of_the_model, .timeout = 120)
{
	const struct prop_options options = {
		.name = "replicates", .body = body_answers, .trials = 1500};

	cr_assert(prop_holds(&options));
}

/* ---- the trace ---- */

/* Rows up to --max-requests, and the time from the first to the last of them. */
Test(replicate_laws, a_trace_is_measured_up_to_its_last_request)
{
	static const unsigned times_ms[] = {250, 600, 900, 4000, 4000, 10000};
	enum { ROWS = sizeof(times_ms) / sizeof(times_ms[0]) };
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES + 32];
	struct text text = {0};

	temporary_folder(folder);
	for (uint32_t i = 0; i < ROWS; i++) {
		text_format(&text,
			"{\"timestamp\": %u, \"input_length\": 9, \"output_length\": 2}\n",
			times_ms[i]);
	}
	temporary_write(folder, "t.jsonl", text.bytes, path);
	for (uint64_t most = 0; most <= ROWS + 2; most++) {
		struct plan_request request = {.run = {.trace_path = path}};
		struct plan plan = {.request = &request};
		struct error error = {0};
		uint64_t rows = most == 0 || most > ROWS ? ROWS : most;
		replay_config_default(&request.run.config);
		request.run.config.max_requests = most;
		require(replicates_measure(&plan, &error) == STATUS_OK, "%s", error.text);
		require_equal(plan.trace_rows, rows);
		require_equal(
			plan.trace_span_ns, (uint64_t)(times_ms[rows - 1] - times_ms[0]) * 1000000);
	}
	text_deinit(&text);
	temporary_remove(folder);
}
