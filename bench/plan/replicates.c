#include "bench/plan/replicates.h"

#include "bench/plan/asked_load.h"
#include "bench/plan/bands.h"
#include "bench/replay/trace_reading.h"
#include "engine/base/integer.h"
#include "engine/base/map.h"
#include "engine/base/memory.h"
#include "engine/base/number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { MILLION = 1000 * 1000, COARSENESS = 5, NS_PER_MS = 1000 * 1000 };

/* ---- the trace ---- */

/* The times of the rows of a session, which are its turns. A session is known by the hash of its
   name: two of one hash would give a gap that is too short, which no count of a share shows. */
static void note_turn(struct plan *plan, struct map *last_ns, const struct trace_row *row)
{
	if (row->session == NULL) {
		return;
	}
	uint64_t key = XXH3_64bits(row->session, strlen(row->session));
	uint64_t *last = map_find(last_ns, key);
	if (last == NULL) {
		(void)map_add(last_ns, key, row->arrival_ns);
		return;
	}
	plan->gaps = memory_grow(
		plan->gaps, &plan->gap_capacity, plan->gap_count + 1, sizeof(*plan->gaps));
	plan->gaps[plan->gap_count++] = row->arrival_ns - u64_min(*last, row->arrival_ns);
	*last = row->arrival_ns;
}

static enum status read_rows(struct trace *trace, uint64_t most, struct plan *plan,
	struct map *last_ns, struct error *error)
{
	struct trace_row row;
	bool has_row = true;
	uint64_t first_ns = 0, end_ns = 0;

	while (most == 0 || plan->trace_rows < most) {
		TRY(trace_next(trace, &row, &has_row, error));
		if (!has_row) {
			break;
		}
		first_ns = plan->trace_rows == 0 ? row.arrival_ns : first_ns;
		end_ns = row.arrival_ns;
		plan->trace_rows++;
		note_turn(plan, last_ns, &row);
	}
	plan->trace_span_ns = end_ns - first_ns;
	return STATUS_OK;
}

static int compare_gaps(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

static enum status read_span(
	struct trace *trace, uint64_t most, struct plan *plan, struct error *error)
{
	struct map last_ns = {0};
	enum status status = read_rows(trace, most, plan, &last_ns, error);

	map_deinit(&last_ns);
	if (plan->gap_count > 0) {
		qsort(plan->gaps, plan->gap_count, sizeof(*plan->gaps), compare_gaps);
	}
	return status;
}

enum status replicates_measure(struct plan *plan, struct error *error)
{
	const struct run_request *run = &plan->request->run;
	struct trace *trace;

	TRY(trace_reading_open(&trace, run->trace_path, &run->config, error));
	enum status status = read_span(trace, run->config.max_requests, plan, error);
	if (status == STATUS_OK && plan->request->maker == NULL) {
		trace_reading_report(trace);
	}
	trace_close(trace);
	return status;
}

double plan_trace_rate(const struct plan *plan)
{
	return plan->trace_span_ns == 0
		       ? 0
		       : (double)(plan->trace_rows - 1) * 1e9 / (double)plan->trace_span_ns;
}

/* ---- what a replicate is ---- */

static bool draws_arrivals(const struct plan *plan, const struct replay_config *config)
{
	return plan->knob == KNOB_RATE || config->given.rate || plan->request->maker != NULL;
}

/* Whether a replicate is drawn from the rows of the trace. */
static bool is_drawn(const struct plan *plan, const struct replay_config *config)
{
	return config->loop == LOOP_OFF && plan->request->maker == NULL;
}

/* Latencies at the answer last so long in the trace's own time: what lies between two of its rows
   is between two arrivals of the run. */
static uint64_t latency_of_trace(const struct plan *plan, const struct probe_figures *figures)
{
	double per_s = figures->has_offered ? figures->offered_per_s : figures->finished_per_s;
	double rows = (double)(plan->trace_rows > 1 ? plan->trace_rows - 1 : 1);
	double gap_ns = (double)plan->trace_span_ns / rows;
	double latency_s = figures->latency_ms[LATENCY_E2E][STATISTIC_P99] / 1000;
	double ns = latency_s * per_s * gap_ns;

	return ns < 1e18 ? (uint64_t)ns : UINT64_C(1000000000000000000);
}

/* The window of all configurations, of the one whose latency is longest: draws of one window are
   the same for all. Whole milliseconds are short to write. */
static struct band_window window_of(const struct plan *plan)
{
	uint64_t latency_ns = 0;

	for (uint32_t i = 0; i < plan->configuration_count; i++) {
		const struct track *main = plan->tracks[plan->states[i].main];
		const struct search_answer found = search_answer(main->search);
		if (found.has_pass) {
			const struct probe_figures *pass = &main->probes[found.pass_probe].figures;
			latency_ns = u64_max(latency_ns, latency_of_trace(plan, pass));
		}
	}
	struct band_window window = band_window_of(plan->trace_span_ns, latency_ns);
	uint64_t whole_ms = window.window_ns / NS_PER_MS;
	if (whole_ms > 0) {
		window.window_ns = whole_ms * NS_PER_MS;
	}
	return window;
}

static void choose_window(const struct plan *plan, struct plan_configuration_state *state)
{
	const struct replay_config *config = &plan->configurations[state->index].run.config;

	if (!is_drawn(plan, config) || plan->trace_span_ns == 0) {
		return;
	}
	struct band_window window = window_of(plan);
	if (config->given.resample_window_s) {
		window.window_ns = config->resample_window_s * 1000;
		window.is_too_short = false;
	}
	window.windows = u64_divide_up(plan->trace_span_ns, window.window_ns);
	state->window = window;
}

static void add_track(struct plan *plan, const struct track_options *options)
{
	if (plan->states[options->configuration].replicate_first == 0) {
		plan->states[options->configuration].replicate_first = u32_from(plan->track_count);
	}
	plan_add_track(plan, options);
}

static void add_model(struct plan *plan, uint32_t configuration,
	const struct search_options *search, uint64_t answer)
{
	const struct replay_config *config = &plan->configurations[configuration].run.config;
	uint64_t error = plan->states[configuration].model_error;
	struct track_options options = {
		.configuration = configuration,
		.kind = TRACK_MODEL,
		.search = band_search(search, answer, 1),
	};

	for (uint32_t is_longer = 0; is_longer < 2; is_longer++) {
		uint64_t factor = is_longer ? MILLION + error : MILLION - error;
		options.step_time_scale =
			(uint64_t)((u128)config->step_time_scale * factor / MILLION);
		add_track(plan, &options);
	}
}

/* The end of the range that a configuration's plan searches, where less is looked for: there can be
   no fewer replicas than those that may be lost and one. */
static uint64_t least_of(const struct plan *plan, const struct plan_configuration_state *state)
{
	return plan->tracks[state->main]->options.search.minimum;
}

/* Whether the least that there can be passes. */
static bool is_least_of_all(const struct plan *plan, const struct plan_configuration_state *state,
	const struct search_answer *found)
{
	return knobs[plan->knob].is_least && found->has_pass &&
	       found->highest_pass == least_of(plan, state);
}

/* Whether the answer is known: some load fails, or there can be no less. */
static bool has_answer(const struct plan *plan, const struct plan_configuration_state *state,
	const struct search_answer *found)
{
	return found->has_pass && (found->has_fail || is_least_of_all(plan, state, found));
}

/* Whether the answer, which passes, is one of the load that was asked for. */
static bool is_asked_for(const struct plan *plan, uint32_t configuration, const struct track *main,
	const struct search_answer *found)
{
	const struct asked_load asked = asked_load_of(
		plan, configuration, found->highest_pass, &main->probes[found->pass_probe].figures);

	return !asked_load_is_missed(&asked);
}

static void add_configuration(struct plan *plan, uint32_t configuration)
{
	struct plan_configuration_state *state = &plan->states[configuration];
	const struct track *main = plan->tracks[state->main];
	const struct search_answer found = search_answer(main->search);
	const struct replay_config *config = &plan->configurations[configuration].run.config;
	uint64_t count = plan->request->replicates;

	if (!has_answer(plan, state, &found) || found.fails_alone || count == 0 ||
		!is_asked_for(plan, configuration, main, &found)) {
		return;
	}
	struct track_options options = {
		.configuration = configuration,
		.kind = TRACK_SAMPLING,
		.search = band_search(&main->options.search, found.highest_pass, COARSENESS),
	};
	choose_window(plan, state);
	bool draws_rows = is_drawn(plan, config);
	state->samples = draws_rows || draws_arrivals(plan, config) ? count : 0;
	for (uint64_t i = 1; i <= state->samples; i++) {
		options.replicate = i;
		options.window_millionths = draws_rows ? state->window.window_ns / 1000 : 0;
		options.is_drawn = draws_rows;
		options.draws_arrivals = draws_arrivals(plan, config);
		add_track(plan, &options);
	}
	add_model(plan, configuration, &main->options.search, found.highest_pass);
}

void replicates_add(struct plan *plan)
{
	for (uint32_t i = 0; i < plan->configuration_count; i++) {
		add_configuration(plan, i);
	}
}

/* ---- answers ---- */

static void set_end(struct result_value *end, enum knob_index knob, bool has_value, double value)
{
	double scale = knobs[knob].is_fraction ? 1e6 : 1;

	*end = (struct result_value){has_value, has_value ? value / scale : 0};
}

static void add_end(struct text *text, struct result_value end, enum knob_index knob)
{
	if (knobs[knob].is_fraction) {
		text_format(text, "%.4g", end.value);
	} else {
		text_add_number(text, NUMBER_COUNT, true, end.value);
	}
}

/* "1 to 3 replicas", "--rate 24.1 to 32.3"; "2 replicas" where both ends read the same; "at most 3
   replicas" and "at least 2 replicas" where the other end lies beyond what was searched. */
static void add_interval(struct text *text, const struct plan_interval *interval,
	const struct plan_answer *answer, enum knob_index knob)
{
	const struct result_value low = interval->low, high = interval->high;
	const struct result_value last = high.has_value ? high : low;
	struct text first = {0};

	if (!last.has_value) {
		text_add(text, "beyond what was searched");
		return;
	}
	struct text end = {0};
	bool is_option = knobs[knob].is_fraction; /* the load that comes of it is another number */
	if (is_option) {
		text_format(text, "--%s ", knobs[knob].name);
	}
	add_end(&first, low, knob);
	add_end(&end, last, knob);
	if (!low.has_value || !high.has_value) {
		text_add(text, high.has_value ? "at most " : "at least ");
	} else if (strcmp(first.bytes, end.bytes) != 0) {
		text_format(text, "%s to ", first.bytes);
	}
	text_add(text, end.bytes);
	if (!is_option && answer->unit[0] != '\0') {
		text_format(text, " %s", plan_answer_unit(answer, last.value));
	}
	text_deinit(&first);
	text_deinit(&end);
}

static void say_sampling(struct text *text, const struct plan *plan,
	const struct plan_configuration_state *state, const struct plan_answer *answer,
	bool is_drawn, bool draws)
{
	const struct band_window *window = &state->window;
	bool is_short = is_drawn && window->is_too_short;
	bool has_few = answer->sampling.replicates.value < BAND_VALUES_95;
	double needed_s = (double)window->needed_ns / 1e9;
	char length[NUMBER_TEXT_BYTES];

	add_interval(text, &answer->sampling.interval, answer, plan->knob);
	text_format(text, " at 95 %%, by %.0f", answer->sampling.replicates.value);
	text_add(text, is_drawn ? " traces drawn from the trace" : " traces of other seeds");
	text_add(text, is_drawn && draws ? " with other arrivals" : "");
	if (is_drawn && window->window_ns > 0) {
		short_decimal_text(length, window->window_ns, 9);
		text_format(text, " in windows of %s s", length);
	}
	if (!answer->sampling.interval.low.has_value) {
		text_add(text, "; no lower end: they vary by more than the answer");
	}
	if (!answer->sampling.interval.high.has_value) {
		text_add(text, "; no upper end: for too many of them nothing that was searched ");
		if (plan->knob == KNOB_REPLICAS) {
			const struct replay_config *config =
				&plan->configurations[state->index].run.config;
			char router[REPLAY_VALUE_BYTES];
			text_format(text, "behind --router %s ",
				replay_config_value(config,
					option_table_find(&replay_options, "router"), router));
		}
		text_add(text, "is enough");
	}
	if (is_short) {
		text_format(text,
			"; the trace is too short for it: %d windows of %d times the p99 latency "
			"take %.*f s of its time",
			BAND_WINDOWS_MIN, BAND_LATENCIES, needed_s < 10 ? 2 : 0, needed_s);
	}
	if (has_few) {
		text_format(text, "; 95 %% takes --replicates %d", BAND_VALUES_95);
	}
	text_add(text, is_short || has_few ? ", so it may be too narrow" : "");
	if (answer->sampling.replicates.value < (double)state->samples) {
		text_format(text, "; %llu were to be searched", (unsigned long long)state->samples);
	}
}

/* Why there is no interval of `count` replicates' answers. */
static void say_none(
	struct text *text, const struct plan_configuration_state *state, uint32_t count)
{
	if (state->samples == 0) {
		text_add(text, "not told: with --loop nothing is drawn from the trace");
	} else if (count < BAND_VALUES_MIN) {
		text_format(text, "not told: fewer than %d replicates", BAND_VALUES_MIN);
	} else {
		text_add(text, "not told: too many replicates have no answer in what was searched");
	}
}

/* Whole replicas: an interval that begins and ends at some. Neither of them nor of KV blocks there
   are fewer than the plan may search. */
static struct band band_of(const struct plan *plan, const struct plan_configuration_state *state,
	double answer, const uint64_t *values, uint32_t count)
{
	const struct track *replicate = plan->tracks[state->replicate_first];
	uint64_t least = least_of(plan, state);

	if (plan->knob == KNOB_REPLICAS) {
		return band_of_counts(values, count, least, replicate->options.search.minimum);
	}
	struct band band = band_of_sampling(answer, values, count, state->window.windows);
	if (knobs[plan->knob].is_least && band.has_high) {
		band.low = band.has_low ? fmax(band.low, (double)least) : (double)least;
		band.has_low = true;
	}
	return band;
}

static double margin_of(const struct track *track, uint32_t number)
{
	const struct objective_verdict *judged = &track->probes[number].figures.judged;

	return judged->has_margin ? judged->margin : 0;
}

static uint64_t value_of(const struct plan *plan, const struct plan_configuration_state *state,
	const struct track *track)
{
	const struct search_answer found = search_answer(track->search);
	bool has_both = found.has_pass && found.has_fail;

	if (!found.has_fail && is_least_of_all(plan, state, &found)) {
		return found.highest_pass;
	}
	return band_value(&found, track->options.search.is_least,
		has_both ? margin_of(track, found.pass_probe) : 0,
		has_both ? margin_of(track, found.fail_probe) : 0);
}

/* The answer of replicate `index`, from 0. False: it has not ended, or ended without one. */
static bool find_value(const struct plan *plan, const struct plan_configuration_state *state,
	uint64_t index, uint64_t *value)
{
	const struct track *track = plan->tracks[state->replicate_first + index];
	const struct search_answer found = search_answer(track->search);
	bool is_cut = found.void_probe != SEARCH_NO_PROBE && !(found.has_pass && found.has_fail);

	*value = value_of(plan, state, track);
	return search_has_ended(track->search) && !is_cut;
}

/* A figure in proportion to the answer, at the answer of a replicate. */
static double scaled(const struct plan *plan, double figure, uint64_t answer, uint64_t value)
{
	if (value == BAND_LESS || value == BAND_MORE) {
		return (value == BAND_MORE) != knobs[plan->knob].is_least ? INFINITY : 0;
	}
	double ratio = (double)value / (double)answer;
	return knobs[plan->knob].is_least ? figure / ratio : figure * ratio;
}

struct band replicates_ratio(
	const struct plan *plan, uint32_t a, uint32_t b, double first, double second)
{
	const struct plan_configuration_state *states[] = {&plan->states[a], &plan->states[b]};
	const struct search_answer found[] = {search_answer(plan->tracks[states[0]->main]->search),
		search_answer(plan->tracks[states[1]->main]->search)};
	uint64_t count = u64_min(states[0]->samples, states[1]->samples);
	double *figures[2] = {
		memory_take(count + 1, sizeof(double)), memory_take(count + 1, sizeof(double))};
	uint32_t both = 0;

	if (plan->knob == KNOB_KV_BLOCKS) {
		count = 0; /* blocks are no measure of what is served */
	}
	for (uint64_t i = 0; i < count; i++) {
		uint64_t values[2];
		if (find_value(plan, states[0], i, &values[0]) &&
			find_value(plan, states[1], i, &values[1])) {
			figures[0][both] = scaled(plan, first, found[0].highest_pass, values[0]);
			figures[1][both] = scaled(plan, second, found[1].highest_pass, values[1]);
			both++;
		}
	}
	struct band band = band_of_ratio(
		first, second, figures[0], figures[1], both, states[0]->window.windows);
	free(figures[0]);
	free(figures[1]);
	return band;
}

static void answer_sampling(const struct plan *plan, const struct plan_configuration_state *state,
	double answer_load, struct plan_answer *answer, struct text *text)
{
	uint64_t *values = memory_take(state->samples + 1, sizeof(*values));
	const struct track_options *options = NULL;
	uint32_t count = 0;

	for (uint64_t i = 0; i < state->samples; i++) {
		uint64_t value;
		options = &plan->tracks[state->replicate_first + i]->options;
		if (find_value(plan, state, i, &value)) {
			values[count++] = value;
		}
	}
	struct band band = band_of(plan, state, answer_load, values, count);
	free(values);
	answer->sampling.replicates = (struct result_value){true, count};
	if (options != NULL) {
		answer->sampling.method = options->is_drawn ? "block bootstrap" : "seeds";
		answer->sampling.window_s = (struct result_value){
			options->window_millionths > 0, (double)options->window_millionths / 1e6};
	}
	if (band.has_low || band.has_high) {
		set_end(&answer->sampling.interval.low, plan->knob, band.has_low, band.low);
		set_end(&answer->sampling.interval.high, plan->knob, band.has_high, band.high);
		say_sampling(text, plan, state, answer, options->is_drawn, options->draws_arrivals);
	} else {
		say_none(text, state, count);
	}
	answer->sampling.text = text->bytes;
}

/* What passes need not fall as steps take longer: other requests meet then. So the ends are put in
   order, and the answer itself, at steps as they are, lies between them. */
static void answer_model(const struct plan *plan, const struct plan_configuration_state *state,
	double answer_load, struct plan_answer *answer, struct text *text)
{
	uint32_t first = state->replicate_first + u32_from(state->samples);
	struct plan_interval *interval = &answer->model.interval;
	double low = answer_load, high = answer_load;
	bool has_end[2];

	answer->model.error = (struct result_value){true, (double)state->model_error / 1e6};
	answer->model.is_guess = state->is_guess;
	for (uint32_t is_longer = 0; is_longer < 2; is_longer++) {
		const struct track *track = plan->tracks[first + is_longer];
		const struct search_answer found = search_answer(track->search);
		bool is_low = (is_longer == 1) != track->options.search.is_least;
		if (!search_has_ended(track->search)) {
			return;
		}
		has_end[!is_low] = has_answer(plan, state, &found);
		if (has_end[!is_low]) {
			low = fmin(low, (double)found.highest_pass);
			high = fmax(high, (double)found.highest_pass);
		}
	}
	set_end(&interval->low, plan->knob, has_end[0], low);
	set_end(&interval->high, plan->knob, has_end[1], high);
	add_interval(text, interval, answer, plan->knob);
	text_format(text, " if all steps take %.3g %% longer or shorter, ",
		(double)state->model_error / 1e4);
	text_add(text, state->is_guess ? "a guess: the profile's error was not measured"
				       : "the mean error of the profile's held-out steps");
	if (!state->is_guess) {
		text_add(text, state->knows_cards
				       ? " and how far a card is from the mean of those measured"
				       : "; how far other cards are off is not known");
	}
	if (answer->outside_share.has_value && answer->outside_share.value > OUTSIDE_MOST) {
		text_format(text,
			"; %.1f %% of the step time is of steps unlike those that the profile was "
			"fitted to, whose error is not known, so the interval may be too narrow",
			100 * answer->outside_share.value);
	}
	answer->model.text = text->bytes;
}

void replicates_answer(const struct plan *plan, uint32_t configuration, struct plan_answer *answer,
	struct text *sampling, struct text *model)
{
	const struct plan_configuration_state *state = &plan->states[configuration];
	const struct track *main = plan->tracks[state->main];
	const struct search_answer found = search_answer(main->search);

	answer->sampling.method = "none";
	if (state->replicate_first == 0) {
		if (found.is_complete && found.has_pass && !found.fails_alone &&
			plan->request->replicates > 0 &&
			is_asked_for(plan, configuration, main, &found)) {
			text_add(sampling, "not told: the answer is a bound");
			answer->sampling.text = sampling->bytes;
		}
		return;
	}
	answer_sampling(plan, state, (double)found.highest_pass, answer, sampling);
	answer_model(plan, state, (double)found.highest_pass, answer, model);
}
