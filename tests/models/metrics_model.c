#include "tests/models/metrics_model.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine_internal.h"
#include "tests/harness/files.h"
#include "tests/harness/require.h"
#include "tests/harness/table_file.h"

/* ---- runners ---- */

static enum status take_time(void *state, const struct batch *batch, int32_t *token_ids,
	struct step_time *time, struct error *error)
{
	const struct metrics_model *model = state;
	(void)batch;
	(void)token_ids; /* every token is forced */
	(void)error;

	*time = (struct step_time){.elapsed_ns = model->elapsed_ns};
	return STATUS_OK;
}

static void open_engines(struct metrics_model *model)
{
	struct error error = {0};

	model->counting = (struct runner){.name = "counting", .state = model, .execute = take_time};
	model->computing = model->counting;
	model->computing.is_computing = true;
	require(engine_open(&model->counted, &model->config, &model->counting, &error) == STATUS_OK,
		"%s", error.text);
	require(engine_open(&model->computed, &model->config, &model->computing, &error) ==
			STATUS_OK,
		"%s", error.text);
}

/* ---- rows of requests.tsv ---- */

__attribute__((format(printf, 2, 3))) static void write_text(
	struct metrics_model *model, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	size_t room = sizeof(model->rows) - model->row_bytes;
	int bytes = vsnprintf(model->rows + model->row_bytes, room, format, arguments);
	va_end(arguments);
	require(bytes >= 0 && (size_t)bytes < room, "too many rows");
	model->row_bytes += (size_t)bytes;
}

static void write_cell(struct metrics_model *model, bool has_value, uint64_t value)
{
	if (has_value) {
		write_text(model, "\t%llu", (unsigned long long)value);
	} else {
		write_text(model, "\t-");
	}
}

static bool has_slo(const struct metrics_model *model)
{
	return model->options.slo.ttft_ns > 0 || model->options.slo.tpot_ns > 0 ||
	       model->options.slo.e2e_ns > 0;
}

struct times {
	uint64_t queue_ns, ttft_ns, tpot_ns, e2e_ns;
	bool is_slo_met;
};

/* Of a request that has a token at least; tpot_ns is 0 where there is none. */
static struct times times_of(const struct metrics_model *model, const struct request_notes *note)
{
	uint64_t limit_ttft = model->options.slo.ttft_ns;
	uint64_t limit_tpot = model->options.slo.tpot_ns;
	uint64_t limit_e2e = model->options.slo.e2e_ns;
	uint64_t first = note->token_ends[0];
	uint64_t last = note->token_ends[note->token_count - 1];
	struct times times = {
		.queue_ns = note->first_scheduled_ns - note->arrival_ns,
		.ttft_ns = first - note->arrival_ns,
		.tpot_ns = note->token_count > 1 ? (last - first) / (note->token_count - 1) : 0,
		.e2e_ns = last - note->arrival_ns,
	};

	times.is_slo_met = (limit_ttft == 0 || times.ttft_ns <= limit_ttft) &&
			   (limit_tpot == 0 || times.tpot_ns <= limit_tpot) &&
			   (limit_e2e == 0 || times.e2e_ns <= limit_e2e);
	return times;
}

static void write_row(struct metrics_model *model, uint32_t id, const char *status)
{
	const struct request_notes *note = &model->notes[id];
	bool is_finished = strcmp(status, "finished") == 0;
	bool has_token = note->token_count > 0;
	struct times times = has_token ? times_of(model, note) : (struct times){0};

	write_text(model, "%u\t%s\t%s\t%llu", id, note->session == NULL ? "-" : note->session,
		status, (unsigned long long)note->arrival_ns);
	write_cell(model, note->was_scheduled, note->first_scheduled_ns);
	write_cell(model, has_token, note->token_ends[0]);
	write_cell(model, is_finished, is_finished ? note->token_ends[note->token_count - 1] : 0);
	write_cell(model, true, note->prompt_count);
	write_cell(model, note->was_scheduled, note->cached_tokens);
	write_cell(model, true, note->token_count);
	write_cell(model, true, note->preemptions);
	write_cell(model, true, note->recomputed);
	bool is_left = status[0] == 'u' || strcmp(status, "failed") == 0;
	write_cell(model, note->was_scheduled || is_left,
		(note->was_scheduled ? note->first_scheduled_ns : model->now_ns) -
			note->arrival_ns);
	write_cell(model, has_token, times.ttft_ns);
	write_cell(model, is_finished && note->token_count > 1, times.tpot_ns);
	write_cell(model, is_finished, times.e2e_ns);
	write_cell(model, is_finished && has_slo(model), times.is_slo_met);
	write_text(model, "\n");
}

/* ---- arrivals ---- */

static struct request as_request(const struct metrics_model *model, uint32_t id)
{
	const struct simulation_request *own = &model->drawn.requests[id];

	return (struct request){
		.id = id,
		.prompt = own->tokens,
		.prompt_count = own->prompt_count,
		.forced = own->tokens + own->prompt_count,
		.max_tokens = own->max_tokens,
		.ignore_eos = own->ignore_eos,
	};
}

static void note_arrival(struct metrics_model *model, uint32_t id, enum fit fit)
{
	static const char *const statuses[] = {
		[FIT_TOO_LONG] = "rejected_too_long", [FIT_NEVER] = "rejected_never_fits"};
	struct request_notes *note = &model->notes[id];
	struct metrics *sums = &model->sums;

	sums->submitted++;
	sums->first_arrival_ns = id == 0 ? note->arrival_ns : sums->first_arrival_ns;
	model->timeline.origin_ns = sums->first_arrival_ns;
	sums->last_arrival_ns = note->arrival_ns;
	if (note->is_measured) {
		uint64_t first = sums->measured_submitted++ == 0 ? note->arrival_ns
								 : sums->measured_first_arrival_ns;
		sums->measured_first_arrival_ns = first;
		sums->measured_last_arrival_ns = note->arrival_ns;
	}
	sums->warmup_submitted += id < model->options.warmup;
	if (fit != FIT_OK) {
		note->whereabouts = LEFT;
		sums->rejected++;
		write_row(model, id, statuses[fit]);
	}
}

static void note_wait(
	struct metrics_model *model, enum wait_cause cause, uint64_t start_ns, uint64_t end_ns)
{
	timeline_wait(&model->timeline, cause, 1, start_ns, end_ns);
	require(model->wait_count < METRICS_MODEL_WAITS, "too many waits");
	model->waits[model->wait_count++] = (struct wait_note){cause, start_ns, end_ns};
}

/* A request that the engine takes, or will take when it has room, is seen to have arrived. */
static void note_seen(struct metrics_model *model, uint32_t id)
{
	struct request_notes *note = &model->notes[id];

	if (note->is_awaited) {
		return;
	}
	note->is_awaited = true;
	note->whereabouts = WAITING;
	note->steps_before = model->steps;
	model->sums.measured_taken += note->is_measured;
	note_wait(model, WAIT_STEP, note->arrival_ns, model->now_ns);
}

/* Tells the metrics of the requests that have arrived and that the engine has no room for. */
static void await_others(struct metrics_model *model)
{
	for (uint32_t id = model->next; id < model->drawn.request_count; id++) {
		const struct request_notes *note = &model->notes[id];
		const struct simulation_request *own = &model->drawn.requests[id];
		bool fits = engine_config_fit(engine_limits(model->counted), own->prompt_count,
				    own->max_tokens) == FIT_OK;
		if (fits && !note->is_awaited && note->arrival_ns <= model->now_ns) {
			const struct metrics_arrival arrival = {
				.id = id, .arrival_ns = note->arrival_ns};
			metrics_await(&model->metrics, &arrival, model->now_ns);
			note_seen(model, id);
		}
	}
}

static void deliver(struct metrics_model *model)
{
	static const char *const sessions[] = {NULL, "chat", "two words", "-"};

	while (model->next < model->drawn.request_count &&
		model->drawn.requests[model->next].arrival_ns <= model->now_ns &&
		engine_has_room(model->counted)) {
		uint32_t id = model->next++;
		struct request_notes *note = &model->notes[id];
		struct request request = as_request(model, id);
		note->session = sessions[prop_below(model->prop, 4)];
		const struct metrics_arrival arrival = {
			.id = id,
			.session = note->session,
			.arrival_ns = note->arrival_ns,
			.prompt_tokens = request.prompt_count,
			.max_tokens = request.max_tokens,
			.is_awaited = note->is_awaited,
		};
		uint32_t slot;
		enum fit fit = engine_add(model->counted, &request, &slot);
		require_equal(engine_add(model->computed, &request, NULL), fit);
		if (fit == FIT_OK) {
			metrics_arrive(&model->metrics, slot, &arrival, model->now_ns);
			note_seen(model, id);
		} else {
			metrics_reject(&model->metrics, fit, &arrival);
		}
		note_arrival(model, id, fit);
	}
	await_others(model);
}

/* ---- a step ---- */

/* Finds the requests that were admitted or preempted, from the queues. */
static void note_queues(struct metrics_model *model)
{
	const struct scheduler *scheduler = &model->computed->scheduler;

	for (const struct sequence *s = scheduler->running.head; s != NULL; s = s->next) {
		struct request_notes *note = &model->notes[s->request];
		if (note->whereabouts != WAITING) {
			continue;
		}
		note->whereabouts = RUNNING;
		note->sampled_since_admission = 0;
		for (uint32_t i = 0; i < s->cached_count; i++) {
			note->was_in_pool[i] = true;
		}
		if (note->was_scheduled) {
			continue;
		}
		note->was_scheduled = true;
		note->first_scheduled_ns = model->now_ns;
		note->cached_tokens = s->cached_count;
		model->step.step.hit_tokens += s->cached_count;
		model->step.step.query_tokens += note->prompt_count;
	}
	for (const struct sequence *s = scheduler->waiting.head; s != NULL; s = s->next) {
		struct request_notes *note = &model->notes[s->request];
		if (note->whereabouts == RUNNING) {
			note->whereabouts = WAITING;
			note->preemptions++;
			model->step.step.preemptions++;
		}
	}
}

/* A request gains a token at the step's end. */
static void note_token(struct metrics_model *model, struct request_notes *note, uint64_t end_ns)
{
	require(note->token_count < METRICS_MODEL_POSITIONS, "too many tokens");
	note->token_ends[note->token_count++] = end_ns;
	note->sampled_since_admission++;
	model->step.step.output_tokens++;
	note->last_step = model->steps - 1;
	if (note->token_count > 1 && note->is_measured) {
		uint64_t gap_ns = end_ns - note->token_ends[note->token_count - 2];
		histogram_add(&model->latency[LATENCY_ITL], gap_ns, 1);
	}
}

/* A row with no token since its admission computes its prompt. */
static void note_row(struct metrics_model *model, uint32_t row, uint64_t end_ns)
{
	const struct batch *batch = &model->computed->scheduler.batch;
	struct request_notes *note = &model->notes[batch->request[row]];
	uint32_t start = batch->query_start[row];
	uint32_t count = batch->query_start[row + 1] - start;
	uint64_t again = 0;

	for (uint32_t i = 0; i < count; i++) {
		bool *was_in_pool = &note->was_in_pool[batch->position[start + i]];
		again += *was_in_pool;
		*was_in_pool = true;
	}
	if (note->sampled_since_admission == 0) {
		model->step.step.prefill_tokens += count;
		model->step.recomputed += again;
		note->recomputed += again;
	} else {
		require_equal(again, 0);
		model->step.decode_rows++;
	}
	if (batch->is_sampled[row]) {
		note_token(model, note, end_ns);
	}
}

static void note_missed(
	struct metrics_model *model, const struct request_notes *note, const struct times *times)
{
	const struct slo *slo = &model->options.slo;
	uint64_t tokens = note->prompt_count + note->token_count;
	struct metrics *sums = &model->sums;

	sums->slo_missed_ttft += slo->ttft_ns != 0 && times->ttft_ns > slo->ttft_ns;
	sums->slo_missed_tpot += slo->tpot_ns != 0 && times->tpot_ns > slo->tpot_ns;
	sums->slo_missed_e2e += slo->e2e_ns != 0 && times->e2e_ns > slo->e2e_ns;
	if (!times->is_slo_met && tokens > sums->longest_missed) {
		sums->longest_missed = tokens;
	}
}

static void note_finish(struct metrics_model *model, uint32_t id)
{
	struct request_notes *note = &model->notes[id];
	struct times times = times_of(model, note);
	struct metrics *sums = &model->sums;

	note->whereabouts = LEFT;
	sums->finished++;
	model->step.finished++;
	sums->last_finish_ns = note->token_ends[note->token_count - 1];
	write_row(model, id, "finished");
	if (!note->is_measured) {
		return;
	}
	sums->measured_finished++;
	sums->slo_attained += times.is_slo_met;
	note_missed(model, note, &times);
	sums->service_ns += sums->last_finish_ns - note->first_scheduled_ns;
	histogram_add(&model->latency[LATENCY_QUEUE], times.queue_ns, 1);
	histogram_add(&model->latency[LATENCY_TTFT], times.ttft_ns, 1);
	histogram_add(&model->latency[LATENCY_E2E], times.e2e_ns, 1);
	if (note->token_count > 1) {
		histogram_add(&model->latency[LATENCY_TPOT], times.tpot_ns, 1);
	}
}

static uint64_t count_used_blocks(const struct metrics_model *model)
{
	uint64_t count = 0;

	for (uint32_t id = model->config.strategies.has_null_block;
		id < model->config.kv_block_count; id++) {
		count += model->computed->scheduler.blocks.blocks[id].reference_count > 0;
	}
	return count;
}

static bool has_finished(const struct metrics_model *model, uint64_t id)
{
	const struct sequence *s = model->computed->scheduler.finished.head;

	while (s != NULL && s->request != id) {
		s = s->next;
	}
	return s != NULL;
}

static void note_step(struct metrics_model *model, uint64_t waiting)
{
	struct engine *engine = model->computed;
	uint64_t end_ns = model->now_ns + model->elapsed_ns;
	struct step_time time;
	struct error error = {0};

	model->step = (struct step_note){
		.step = {.start_ns = model->now_ns, .end_ns = end_ns, .waiting = waiting},
		.is_outside = model->metrics.is_outside};
	const struct batch *batch = engine_schedule(engine);
	note_queues(model);
	for (uint32_t id = 0; id < model->drawn.request_count; id++) {
		const struct request_notes *note = &model->notes[id];
		if (note->whereabouts == WAITING && !note->was_scheduled) {
			note_wait(model, engine->scheduler.wait_cause, model->now_ns, end_ns);
		}
	}
	model->step.step.running = engine->scheduler.running.count;
	model->step.step.used_blocks = count_used_blocks(model);
	for (uint32_t row = 0; row < batch->row_count; row++) {
		note_row(model, row, end_ns);
	}
	require_equal(engine_execute(engine, &time, &error), STATUS_OK);
	engine_postprocess(engine);
	for (uint32_t row = 0; row < batch->row_count; row++) {
		if (has_finished(model, batch->request[row])) {
			note_finish(model, (uint32_t)batch->request[row]);
		}
	}
	while (engine_take_finished(engine) != NULL) {
	}
	timeline_add(&model->timeline, &model->step.step);
	step_grid_add(&model->grid, model->step.decode_rows, model->step.step.prefill_tokens,
		model->elapsed_ns);
	require(model->steps <= METRICS_MODEL_STEPS, "too many steps");
	model->steps_noted[model->steps - 1] = model->step;
}

/* The events of the counting engine as the definition of the result hash lists them. */
static void note_events(struct metrics_model *model, uint64_t step)
{
	const struct event_list *events = engine_decisions(model->counted).events;

	for (size_t i = 0; i < events->count; i++) {
		const struct event *event = &events->events[i];
		const uint64_t words[] = {
			step, (uint64_t)event->kind, event->request, event->a, event->b};
		require(model->event_words + 5 <= METRICS_MODEL_EVENTS, "too many events");
		memcpy(&model->events[model->event_words], words, sizeof(words));
		model->event_words += 5;
	}
}

/* Coarse times make latencies equal to each other and to the limits. */
static uint64_t draw_elapsed(struct metrics_model *model)
{
	struct prop *prop = model->prop;

	if (model->is_coarse) {
		return 1000 * prop_below(prop, 4);
	}
	switch (prop_below(prop, 8)) {
	case 0:
		return 0;
	case 1:
		return prop_below(prop, UINT64_C(1) << 40);
	case 2:
		return prop_below(prop, 10);
	default:
		return prop_below(prop, 20000);
	}
}

/* False: the step failed. */
static bool take_step(struct metrics_model *model, bool is_failing)
{
	struct engine *engine = model->counted;
	struct step_time time;
	struct error error = {0};

	model->elapsed_ns = draw_elapsed(model);
	uint64_t backlog = prop_below(model->prop, 5);
	const struct batch *batch = engine_schedule(engine);
	require_equal(batch->step, model->steps);
	if (is_failing) {
		return false;
	}
	uint64_t waiting = engine_waiting_count(engine) + backlog;
	require_equal(engine_execute(engine, &time, &error), STATUS_OK);
	engine_postprocess(engine);
	note_events(model, model->steps++);
	const struct step_decisions decisions = engine_decisions(engine);
	model->metrics.is_outside = prop_chance(model->prop, 1, 3);
	metrics_step(&model->metrics, engine, &decisions, model->now_ns,
		model->now_ns + model->elapsed_ns, waiting);
	while (engine_take_finished(engine) != NULL) {
	}
	note_step(model, waiting);
	model->now_ns += model->elapsed_ns;
	return true;
}

/* ---- the end ---- */

static void note_end(struct metrics_model *model, const char *status)
{
	struct metrics *sums = &model->sums;

	for (uint32_t id = 0; id < model->next; id++) {
		struct request_notes *note = &model->notes[id];
		if (note->whereabouts != LEFT) {
			write_row(model, id, status);
			sums->unfinished += status[0] == 'u';
			sums->failed += status[0] == 'f';
		}
	}
}

void metrics_model_run(struct metrics_model *model)
{
	bool is_failure = prop_chance(model->prop, 1, 2); /* if it stops early */
	bool is_whole = true;

	for (;;) {
		deliver(model);
		if (model->steps == model->stop_at_step) {
			/* An interrupt comes behind a step, a failure within one. */
			is_whole = false;
			if (is_failure && engine_has_work(model->counted)) {
				take_step(model, true);
			} else {
				is_failure = false;
			}
			break;
		}
		if (engine_has_work(model->counted)) {
			take_step(model, false);
		} else if (model->next < model->drawn.request_count) {
			model->now_ns = model->drawn.requests[model->next].arrival_ns;
		} else {
			break;
		}
	}
	bool has_failed = !is_whole && is_failure;
	if (!has_failed) {
		if (!model->counted->scheduler.events_are_past) {
			note_events(model, model->steps);
		}
		metrics_flush_events(&model->metrics, model->counted);
	}
	metrics_end(
		&model->metrics, has_failed ? REQUEST_FAILED : REQUEST_UNFINISHED, model->now_ns);
	note_end(model, has_failed ? "failed" : "unfinished");
	require(!is_whole || model->sums.unfinished + model->sums.failed == 0,
		"a whole run leaves someone behind");
}

/* ---- what must be equal ---- */

static void require_same_histogram(
	const struct histogram *found, const struct histogram *expected, enum latency_metric metric)
{
	const char *name = latency_names[metric];

	require(found->count == expected->count, "%s: %llu values, expected %llu", name,
		(unsigned long long)found->count, (unsigned long long)expected->count);
	require(found->sum == expected->sum, "%s: the sum is %llu, expected %llu", name,
		(unsigned long long)found->sum, (unsigned long long)expected->sum);
	require(found->max == expected->max, "%s: the maximum differs", name);
	require(memcmp(found->counts, expected->counts, HISTOGRAM_BUCKETS * sizeof(uint64_t)) == 0,
		"%s: the buckets differ", name);
}

static void require_same_sums(const struct metrics_model *model)
{
	const struct metrics *found = &model->metrics;
	const struct metrics *expected = &model->sums;

	require_equal(found->submitted, expected->submitted);
	require_equal(found->finished, expected->finished);
	require_equal(found->rejected, expected->rejected);
	require_equal(found->failed, expected->failed);
	require_equal(found->unfinished, expected->unfinished);
	require_equal(found->submitted,
		found->finished + found->rejected + found->failed + found->unfinished);
	if (expected->submitted > 0) {
		require_equal(found->first_arrival_ns, expected->first_arrival_ns);
		require_equal(found->last_arrival_ns, expected->last_arrival_ns);
	}
	if (expected->finished > 0) {
		require_equal(found->last_finish_ns, expected->last_finish_ns);
	}
	require_equal(found->measured_submitted, expected->measured_submitted);
	require_equal(found->warmup_submitted, expected->warmup_submitted);
	require_equal(found->measured_finished, expected->measured_finished);
	require_equal(found->measured_taken, expected->measured_taken);
	if (expected->measured_submitted > 0) {
		require_equal(
			found->measured_first_arrival_ns, expected->measured_first_arrival_ns);
		require_equal(found->measured_last_arrival_ns, expected->measured_last_arrival_ns);
	}
	require_equal(found->slo_attained, expected->slo_attained);
	require_equal(found->slo_missed_ttft, expected->slo_missed_ttft);
	require_equal(found->slo_missed_tpot, expected->slo_missed_tpot);
	require_equal(found->slo_missed_e2e, expected->slo_missed_e2e);
	require_equal(found->longest_missed, expected->longest_missed);
	require(found->service_ns == expected->service_ns, "the service time differs");
}

/* ---- the window ---- */

/* A window, found from the notes: its times, and the steps that count in it. */
struct window_notes {
	bool is_open;
	uint64_t start_ns, end_ns;
	uint64_t seen_after; /* steps that were over when its start was seen */
	uint64_t last_step;
};

static struct window_notes find_window(const struct metrics_model *model)
{
	struct window_notes window = {0};
	bool is_cut_short = true;

	for (uint32_t id = 0; id < model->drawn.request_count; id++) {
		const struct request_notes *note = &model->notes[id];
		if (!note->is_measured || !note->is_awaited) {
			continue;
		}
		if (!window.is_open) {
			window.is_open = true;
			window.start_ns = note->arrival_ns;
			window.seen_after = note->steps_before;
			is_cut_short = false;
		}
		is_cut_short = is_cut_short || note->whereabouts != LEFT;
		if (note->whereabouts == LEFT && note->last_step >= window.last_step) {
			window.last_step = note->last_step;
			window.end_ns = note->token_ends[note->token_count - 1];
		}
	}
	if (window.is_open && is_cut_short) {
		window.last_step = UINT64_MAX;
		window.end_ns = model->now_ns;
	}
	return window;
}

static uint64_t overlap_ns(const struct window_notes *window, uint64_t start_ns, uint64_t end_ns)
{
	uint64_t from = start_ns > window->start_ns ? start_ns : window->start_ns;
	uint64_t to = end_ns < window->end_ns ? end_ns : window->end_ns;

	return window->is_open && to > from ? to - from : 0;
}

/* A step counts in the window if it ends in it. One of no length at its start counts if it was
   taken after the arrival was seen. */
static bool counts_in(
	const struct metrics_model *model, const struct window_notes *window, uint64_t index)
{
	return window->is_open && index <= window->last_step &&
	       (index >= window->seen_after ||
		       model->steps_noted[index].step.end_ns > window->start_ns);
}

static struct run_sums sum_window(
	const struct metrics_model *model, const struct window_notes *window)
{
	struct run_sums sums = {0};

	for (uint64_t i = 0; i < model->steps; i++) {
		const struct step_note *note = &model->steps_noted[i];
		uint64_t span_ns = overlap_ns(window, note->step.start_ns, note->step.end_ns);
		sums.busy_ns += span_ns;
		sums.running_ns += (u128)note->step.running * span_ns;
		sums.waiting_ns += (u128)note->step.waiting * span_ns;
		sums.used_blocks_ns += (u128)note->step.used_blocks * span_ns;
		if (!counts_in(model, window, i)) {
			continue;
		}
		sums.steps++;
		sums.finished += note->finished;
		sums.prompt_tokens += note->step.query_tokens;
		sums.hit_tokens += note->step.hit_tokens;
		sums.output_tokens += note->step.output_tokens;
		sums.recomputed_tokens += note->recomputed;
		sums.preemptions += note->step.preemptions;
		sums.sums.prefill_tokens += note->step.prefill_tokens;
		sums.sums.decode_rows += note->decode_rows;
		sums.sums.tokens_peak = u64_max(
			sums.sums.tokens_peak, note->decode_rows + note->step.prefill_tokens);
		/* Such a step is not divided: its share is of steps, or of their whole times. */
		sums.outside_steps += note->is_outside;
		sums.outside_ns += note->is_outside ? note->step.end_ns - note->step.start_ns : 0;
		if (note->step.running > sums.sums.running_peak) {
			sums.sums.running_peak = note->step.running;
		}
		if (note->step.used_blocks > sums.sums.used_blocks_peak) {
			sums.sums.used_blocks_peak = note->step.used_blocks;
		}
	}
	for (uint32_t i = 0; i < model->wait_count; i++) {
		const struct wait_note *wait = &model->waits[i];
		sums.waits.ns[wait->cause] += overlap_ns(window, wait->start_ns, wait->end_ns);
	}
	return sums;
}

static void require_same_window(const struct metrics_model *model)
{
	const struct window_notes window = find_window(model);
	const struct run_sums expected = sum_window(model, &window);
	struct run_sums found;
	uint64_t start_ns, end_ns;

	bool is_open = metrics_window(&model->metrics, model->now_ns, &found, &start_ns, &end_ns);
	require_equal(is_open, window.is_open);
	require_equal(start_ns, window.start_ns);
	require_equal(end_ns, window.end_ns);
	require_equal(found.steps, expected.steps);
	require_equal(found.finished, expected.finished);
	require_equal(found.prompt_tokens, expected.prompt_tokens);
	require_equal(found.hit_tokens, expected.hit_tokens);
	require_equal(found.output_tokens, expected.output_tokens);
	require_equal(found.recomputed_tokens, expected.recomputed_tokens);
	require_equal(found.preemptions, expected.preemptions);
	require_equal(found.busy_ns, expected.busy_ns);
	require(found.running_ns == expected.running_ns, "the running time differs");
	require(found.waiting_ns == expected.waiting_ns, "the waiting time differs");
	require(found.used_blocks_ns == expected.used_blocks_ns, "the time of blocks differs");
	require_equal(found.sums.prefill_tokens, expected.sums.prefill_tokens);
	require_equal(found.sums.decode_rows, expected.sums.decode_rows);
	require_equal(found.sums.running_peak, expected.sums.running_peak);
	require_equal(found.sums.used_blocks_peak, expected.sums.used_blocks_peak);
	require_equal(found.sums.tokens_peak, expected.sums.tokens_peak);
	require_equal(found.outside_steps, expected.outside_steps);
	require_equal(found.outside_ns, expected.outside_ns);
	for (uint32_t cause = 0; cause < WAIT_CAUSE_COUNT; cause++) {
		require(found.waits.ns[cause] == expected.waits.ns[cause],
			"%llu ns of waiting by cause %u in the window, expected %llu",
			(unsigned long long)found.waits.ns[cause], cause,
			(unsigned long long)expected.waits.ns[cause]);
	}
}

/* ---- levels ---- */

/* A request is of the level in which it arrives, behind the last one of that. */
static bool is_in_level(const struct metrics_model *model, uint32_t id, uint32_t level)
{
	uint64_t from_ns = level * model->options.level_ns;
	uint64_t until_ns = from_ns + model->options.level_ns;
	uint64_t arrival_ns = model->notes[id].arrival_ns;
	bool is_last = level + 1 == model->options.level_count;

	return id < model->next && model->notes[id].is_measured && arrival_ns >= from_ns &&
	       (is_last || arrival_ns < until_ns);
}

static void require_same_levels(const struct metrics_model *model)
{
	const struct levels *levels = &model->metrics.distributions->levels;

	require_equal(levels->count, model->options.level_count);
	for (uint32_t i = 0; i < levels->count; i++) {
		const struct level *level = &levels->levels[i];
		uint64_t submitted = 0, finished = 0, attained = 0, several = 0;
		uint64_t ttft_ns = 0, tpot_ns = 0;
		for (uint32_t id = 0; id < model->drawn.request_count; id++) {
			const struct request_notes *note = &model->notes[id];
			if (!is_in_level(model, id, i)) {
				continue;
			}
			submitted++;
			if (note->whereabouts == LEFT && note->token_count > 0) {
				const struct times times = times_of(model, note);
				finished++;
				attained += times.is_slo_met;
				ttft_ns += times.ttft_ns;
				tpot_ns += times.tpot_ns;
				several += note->token_count > 1;
			}
		}
		require_equal(level->submitted, submitted);
		require_equal(level->finished, finished);
		require_equal(level->attained, attained);
		require_equal(level->ttft.count, finished);
		require_equal((uint64_t)level->ttft.sum, ttft_ns);
		require_equal(level->tpot.count, several);
		require_equal((uint64_t)level->tpot.sum, tpot_ns);
	}
}

/* The causes add up to the time from each arrival to the first admission, or to the end. */
static void require_waits_add_up(const struct metrics_model *model)
{
	u128 charged = 0, waited = 0;

	for (uint32_t cause = 0; cause < WAIT_CAUSE_COUNT; cause++) {
		charged += model->metrics.work.waits.ns[cause];
	}
	for (uint32_t id = 0; id < model->drawn.request_count; id++) {
		const struct request_notes *note = &model->notes[id];
		bool has_waited = note->was_scheduled || note->whereabouts == WAITING;
		uint64_t end_ns = note->was_scheduled ? note->first_scheduled_ns : model->now_ns;
		waited += has_waited ? end_ns - note->arrival_ns : 0;
	}
	require(charged == waited, "the causes do not add up to the waits");
}

static void require_same_rows(const struct metrics_model *model, const char *path)
{
	char *found = file_read(path, NULL);
	const char *rest = strchr(found, '\n') + 1;

	require(strcmp(rest, model->rows) == 0, "rows are\n%sexpected\n%s", rest, model->rows);
	free(found);
}

void metrics_model_require_same(struct metrics_model *model, const char *path)
{
	table_file_close(&model->table);
	require_same_rows(model, path);
	for (uint32_t i = 0; i < LATENCY_COUNT; i++) {
		require_same_histogram(
			&model->metrics.distributions->latency[i], &model->latency[i], i);
	}
	require_same_sums(model);
	require_same_window(model);
	require_same_levels(model);
	require_waits_add_up(model);
	require(memcmp(&model->metrics.distributions->timeline, &model->timeline,
			sizeof(model->timeline)) == 0,
		"the timelines differ");
	require(memcmp(&model->metrics.distributions->grid, &model->grid, sizeof(model->grid)) == 0,
		"the step grids differ");
	require(metrics_result_hash(&model->metrics) ==
			XXH64(model->events, model->event_words * sizeof(uint64_t), 0),
		"the result hash is not that of the events");
}

/* ---- opening and closing ---- */

static void draw_options(struct prop *prop, struct metrics_model *model)
{
	struct metrics_options *options = &model->options;
	uint64_t unit_ns = 1;

	model->is_coarse = prop_chance(prop, 1, 3);
	if (model->is_coarse) {
		unit_ns = 1000;
		for (uint32_t i = 0; i < model->drawn.request_count; i++) {
			model->drawn.requests[i].arrival_ns -=
				model->drawn.requests[i].arrival_ns % 1000;
		}
	}
	if (prop_chance(prop, 1, 2)) {
		options->warmup = prop_range(prop, 1, model->drawn.request_count + 1);
	}
	if (prop_chance(prop, 1, 2)) {
		options->measured_end = prop_range(prop, options->warmup + 1,
			options->warmup + 1 + model->drawn.request_count);
	}
	if (prop_chance(prop, 1, 2)) {
		options->slo.ttft_ns =
			unit_ns * (1 + prop_below(prop, model->is_coarse ? 40 : 200000));
	}
	if (prop_chance(prop, 1, 2)) {
		options->slo.tpot_ns =
			unit_ns * (1 + prop_below(prop, model->is_coarse ? 4 : 40000));
	}
	if (prop_chance(prop, 1, 3)) {
		options->slo.e2e_ns =
			unit_ns * (1 + prop_below(prop, model->is_coarse ? 90 : 900000));
	}
	if (model->drawn.request_count > 0 && prop_chance(prop, 1, 3)) {
		uint32_t last = model->drawn.request_count - 1;
		options->level_count = prop_range(prop, 1, 4);
		options->level_ns =
			1 + prop_below(prop, model->drawn.requests[last].arrival_ns + unit_ns);
		/* Some arrive at an edge. */
		if (prop_chance(prop, 1, 2) && model->drawn.requests[last / 2].arrival_ns > 0) {
			options->level_ns = model->drawn.requests[last / 2].arrival_ns;
		}
	}
	model->stop_at_step = prop_chance(prop, 1, 3) ? prop_below(prop, 60) : UINT64_MAX;
	prop_log(prop, "measured are %llu to %llu, limits of %llu and %llu ns, stop at step %lld",
		(unsigned long long)options->warmup, (unsigned long long)options->measured_end,
		(unsigned long long)options->slo.ttft_ns, (unsigned long long)options->slo.tpot_ns,
		(long long)model->stop_at_step);
}

void metrics_model_open(struct metrics_model *model, struct prop *prop, const char *requests_path)
{
	memset(model, 0, sizeof(*model));
	model->prop = prop;
	model->config = simulation_draw_config(prop);
	requests_draw(prop, &model->drawn, &model->config);
	require(model->drawn.request_count <= METRICS_MODEL_REQUESTS, "too many requests");
	draw_options(prop, model);
	for (uint32_t id = 0; id < model->drawn.request_count; id++) {
		struct request_notes *note = &model->notes[id];
		note->prompt_count = model->drawn.requests[id].prompt_count;
		note->arrival_ns = model->drawn.requests[id].arrival_ns;
		note->is_measured =
			id >= model->options.warmup &&
			(model->options.measured_end == 0 || id < model->options.measured_end);
	}
	for (uint32_t i = 0; i < LATENCY_COUNT; i++) {
		histogram_init(&model->latency[i]);
	}
	timeline_init(&model->timeline);
	table_file_open(&model->table, requests_path, REQUEST_COLUMNS);
	open_engines(model);
	metrics_init(
		&model->metrics, &model->options, engine_slot_count(model->counted), &model->table);
}

void metrics_model_close(struct metrics_model *model)
{
	metrics_deinit(&model->metrics);
	engine_close(model->counted);
	engine_close(model->computed);
	for (uint32_t i = 0; i < LATENCY_COUNT; i++) {
		histogram_deinit(&model->latency[i]);
	}
	requests_deinit(&model->drawn);
}
