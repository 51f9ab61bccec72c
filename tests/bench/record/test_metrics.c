#include "bench/record/metrics.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine_internal.h"
#include "engine/policy.h"
#include "tests/harness/files.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/models/simulation.h"
#include "tests/harness/temporary.h"

/* The metrics beside a witness who writes everything down. Two engines serve the same requests in
   step: one only counts, as a replay's does, and the metrics follow it; the other one fills rows
   and queues for the witness, who looks at every row and every queue after every step, notes when
   each token came, and computes all figures at the end from these notes alone. The two engines
   decide the same, which the tests of the scheduler demand. */

enum { REQUESTS_MAX = 40, POSITIONS_MAX = 256, TEXT_BYTES = 1 << 16, EVENTS_MAX = 1 << 15 };

enum whereabouts { NOT_ARRIVED, WAITING, RUNNING, LEFT };

struct request_notes {
	enum whereabouts whereabouts;
	uint32_t prompt_count;
	uint64_t arrival_ns;
	const char *session;
	bool is_measured;
	bool was_scheduled;
	uint64_t first_scheduled_ns;
	uint32_t cached_tokens; /* at the first admission */
	uint32_t preemptions;
	uint64_t recomputed;
	uint32_t sampled_since_admission;
	bool was_in_pool[POSITIONS_MAX];    /* its K/V was there before */
	uint64_t token_ends[POSITIONS_MAX]; /* (token_count) */
	uint32_t token_count;
};

struct witness {
	struct prop *prop;
	struct engine_config config;
	struct metrics_options options;
	struct drawn_requests drawn;
	struct runner counting, computing;
	struct engine *counted, *computed;
	uint64_t elapsed_ns; /* of the step to come */
	struct metrics *metrics;
	struct request_notes notes[REQUESTS_MAX];
	uint32_t next;
	uint64_t now_ns, steps;
	uint64_t stop_at_step; /* an interrupt or a failure before it */
	bool is_coarse;

	/* what must come out */
	char rows[TEXT_BYTES];
	size_t row_bytes;
	struct histogram latency[LATENCY_COUNT];
	struct timeline timeline;
	struct step_grid grid;
	struct timeline_step step;
	uint64_t events[EVENTS_MAX];
	uint32_t event_words;
	struct metrics sums; /* only its counters are used */
	uint64_t measured_last_finish_ns;
};

/* ---- runners ---- */

static enum status take_time(void *state, const struct batch *batch, int32_t *token_ids,
	struct step_time *time, struct error *error)
{
	const struct witness *witness = state;
	(void)batch;
	(void)token_ids; /* every token is forced */
	(void)error;

	*time = (struct step_time){.elapsed_ns = witness->elapsed_ns};
	return STATUS_OK;
}

static void open_engines(struct witness *witness)
{
	struct error error = {0};

	witness->counting =
		(struct runner){.name = "counting", .state = witness, .execute = take_time};
	witness->computing = witness->counting;
	witness->computing.is_computing = true;
	require(engine_open(&witness->counted, &witness->config, &witness->counting, &error) ==
			STATUS_OK,
		"%s", error.text);
	require(engine_open(&witness->computed, &witness->config, &witness->computing, &error) ==
			STATUS_OK,
		"%s", error.text);
}

/* ---- rows of requests.tsv ---- */

__attribute__((format(printf, 2, 3))) static void write_text(
	struct witness *witness, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	size_t room = sizeof(witness->rows) - witness->row_bytes;
	int bytes = vsnprintf(witness->rows + witness->row_bytes, room, format, arguments);
	va_end(arguments);
	require(bytes >= 0 && (size_t)bytes < room, "too many rows");
	witness->row_bytes += (size_t)bytes;
}

static void write_cell(struct witness *witness, bool has_value, uint64_t value)
{
	if (has_value) {
		write_text(witness, "\t%llu", (unsigned long long)value);
	} else {
		write_text(witness, "\t-");
	}
}

static bool has_slo(const struct witness *witness)
{
	return witness->options.slo_ttft_ns > 0 || witness->options.slo_tpot_ns > 0;
}

struct times {
	uint64_t queue_ns, ttft_ns, tpot_ns, e2e_ns;
	bool is_slo_met;
};

/* Of a request that has a token at least; tpot_ns is 0 where there is none. */
static struct times times_of(const struct witness *witness, const struct request_notes *note)
{
	uint64_t limit_ttft = witness->options.slo_ttft_ns;
	uint64_t limit_tpot = witness->options.slo_tpot_ns;
	uint64_t first = note->token_ends[0];
	uint64_t last = note->token_ends[note->token_count - 1];
	struct times times = {
		.queue_ns = note->first_scheduled_ns - note->arrival_ns,
		.ttft_ns = first - note->arrival_ns,
		.tpot_ns = note->token_count > 1 ? (last - first) / (note->token_count - 1) : 0,
		.e2e_ns = last - note->arrival_ns,
	};

	times.is_slo_met = (limit_ttft == 0 || times.ttft_ns <= limit_ttft) &&
			   (limit_tpot == 0 || times.tpot_ns <= limit_tpot);
	return times;
}

static void write_row(struct witness *witness, uint32_t id, const char *status)
{
	const struct request_notes *note = &witness->notes[id];
	bool is_finished = strcmp(status, "finished") == 0;
	bool has_token = note->token_count > 0;
	struct times times = has_token ? times_of(witness, note) : (struct times){0};

	write_text(witness, "%u\t%s\t%s\t%llu", id, note->session == NULL ? "-" : note->session,
		status, (unsigned long long)note->arrival_ns);
	write_cell(witness, note->was_scheduled, note->first_scheduled_ns);
	write_cell(witness, has_token, note->token_ends[0]);
	write_cell(witness, is_finished, is_finished ? note->token_ends[note->token_count - 1] : 0);
	write_cell(witness, true, note->prompt_count);
	write_cell(witness, note->was_scheduled, note->cached_tokens);
	write_cell(witness, true, note->token_count);
	write_cell(witness, true, note->preemptions);
	write_cell(witness, true, note->recomputed);
	write_cell(witness, note->was_scheduled, note->first_scheduled_ns - note->arrival_ns);
	write_cell(witness, has_token, times.ttft_ns);
	write_cell(witness, is_finished && note->token_count > 1, times.tpot_ns);
	write_cell(witness, is_finished, times.e2e_ns);
	write_cell(witness, is_finished && has_slo(witness), times.is_slo_met);
	write_text(witness, "\n");
}

/* ---- arrivals ---- */

static struct request as_request(const struct witness *witness, uint32_t id)
{
	const struct simulation_request *own = &witness->drawn.requests[id];

	return (struct request){
		.id = id,
		.prompt = own->tokens,
		.prompt_count = own->prompt_count,
		.forced = own->tokens + own->prompt_count,
		.max_tokens = own->max_tokens,
		.ignore_eos = own->ignore_eos,
	};
}

static void note_arrival(struct witness *witness, uint32_t id, enum fit fit)
{
	static const char *const statuses[] = {
		[FIT_TOO_LONG] = "rejected_too_long", [FIT_NEVER] = "rejected_never_fits"};
	struct request_notes *note = &witness->notes[id];
	struct metrics *sums = &witness->sums;

	sums->submitted++;
	sums->first_arrival_ns = id == 0 ? note->arrival_ns : sums->first_arrival_ns;
	witness->timeline.origin_ns = sums->first_arrival_ns;
	sums->last_arrival_ns = note->arrival_ns;
	if (note->is_measured && id == witness->options.warmup) {
		sums->measured_first_arrival_ns = note->arrival_ns;
	}
	note->whereabouts = WAITING;
	if (fit != FIT_OK) {
		note->whereabouts = LEFT;
		sums->rejected++;
		write_row(witness, id, statuses[fit]);
	}
}

static void deliver(struct witness *witness)
{
	static const char *const sessions[] = {NULL, "chat", "two words", "-"};

	while (witness->next < witness->drawn.request_count &&
		witness->drawn.requests[witness->next].arrival_ns <= witness->now_ns &&
		engine_has_room(witness->counted)) {
		uint32_t id = witness->next++;
		struct request_notes *note = &witness->notes[id];
		struct request request = as_request(witness, id);
		note->prompt_count = request.prompt_count;
		note->arrival_ns = witness->drawn.requests[id].arrival_ns;
		note->session = sessions[prop_below(witness->prop, 4)];
		note->is_measured = id >= witness->options.warmup;
		const struct metrics_arrival arrival = {
			.id = id,
			.session = note->session,
			.arrival_ns = note->arrival_ns,
			.prompt_tokens = request.prompt_count,
			.max_tokens = request.max_tokens,
		};
		uint32_t slot;
		enum fit fit = engine_add(witness->counted, &request, &slot);
		require_equal(engine_add(witness->computed, &request, NULL), fit);
		if (fit == FIT_OK) {
			metrics_arrive(witness->metrics, slot, &arrival);
		} else {
			metrics_reject(witness->metrics, fit, &arrival);
		}
		note_arrival(witness, id, fit);
	}
}

/* ---- a step ---- */

/* Who has been admitted and who has lost its place: the queues say it. */
static void note_queues(struct witness *witness)
{
	const struct scheduler *scheduler = &witness->computed->scheduler;
	struct metrics *sums = &witness->sums;

	for (const struct sequence *s = scheduler->running.head; s != NULL; s = s->next) {
		struct request_notes *note = &witness->notes[s->request];
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
		note->first_scheduled_ns = witness->now_ns;
		note->cached_tokens = s->cached_count;
		witness->step.hit_tokens += s->cached_count;
		witness->step.query_tokens += note->prompt_count;
		sums->hit_tokens += note->is_measured ? s->cached_count : 0;
		sums->query_tokens += note->is_measured ? note->prompt_count : 0;
	}
	for (const struct sequence *s = scheduler->waiting.head; s != NULL; s = s->next) {
		struct request_notes *note = &witness->notes[s->request];
		if (note->whereabouts == RUNNING) {
			note->whereabouts = WAITING;
			note->preemptions++;
			witness->step.preemptions++;
			sums->preemptions += note->is_measured;
		}
	}
}

/* A request gains a token at the step's end. */
static void note_token(struct witness *witness, struct request_notes *note, uint64_t end_ns)
{
	require(note->token_count < POSITIONS_MAX, "too many tokens");
	note->token_ends[note->token_count++] = end_ns;
	note->sampled_since_admission++;
	witness->step.output_tokens++;
	if (note->token_count > 1 && note->is_measured) {
		uint64_t gap_ns = end_ns - note->token_ends[note->token_count - 2];
		histogram_add(&witness->latency[LATENCY_ITL], gap_ns, 1);
	}
}

/* A row with no token since its admission computes its prompt. */
static void note_row(struct witness *witness, uint32_t row, uint64_t end_ns, uint64_t *decode_rows)
{
	const struct batch *batch = &witness->computed->scheduler.batch;
	struct request_notes *note = &witness->notes[batch->request[row]];
	uint32_t start = batch->query_start[row];
	uint32_t count = batch->query_start[row + 1] - start;
	uint64_t again = 0;

	for (uint32_t i = 0; i < count; i++) {
		bool *was_in_pool = &note->was_in_pool[batch->position[start + i]];
		again += *was_in_pool;
		*was_in_pool = true;
	}
	if (note->sampled_since_admission == 0) {
		witness->step.prefill_tokens += count;
		note->recomputed += again;
		witness->sums.recomputed_tokens += note->is_measured ? again : 0;
		witness->sums.prefill_computed_tokens += note->is_measured ? count : 0;
	} else {
		require_equal(again, 0);
		*decode_rows += 1;
	}
	if (batch->is_sampled[row]) {
		note_token(witness, note, end_ns);
	}
}

static void note_finish(struct witness *witness, uint32_t id)
{
	struct request_notes *note = &witness->notes[id];
	struct times times = times_of(witness, note);
	struct metrics *sums = &witness->sums;

	note->whereabouts = LEFT;
	sums->finished++;
	sums->last_finish_ns = note->token_ends[note->token_count - 1];
	write_row(witness, id, "finished");
	if (!note->is_measured) {
		return;
	}
	witness->measured_last_finish_ns = sums->last_finish_ns;
	sums->measured_finished++;
	sums->prompt_tokens += note->prompt_count;
	sums->slo_attained += times.is_slo_met;
	sums->service_ns += sums->last_finish_ns - note->first_scheduled_ns;
	histogram_add(&witness->latency[LATENCY_QUEUE], times.queue_ns, 1);
	histogram_add(&witness->latency[LATENCY_TTFT], times.ttft_ns, 1);
	histogram_add(&witness->latency[LATENCY_E2E], times.e2e_ns, 1);
	if (note->token_count > 1) {
		histogram_add(&witness->latency[LATENCY_TPOT], times.tpot_ns, 1);
	}
}

static uint64_t count_used_blocks(const struct witness *witness)
{
	uint64_t count = 0;

	for (uint32_t id = 0; id < witness->config.kv_block_count; id++) {
		count += witness->computed->scheduler.blocks.blocks[id].reference_count > 0;
	}
	return count;
}

static bool has_finished(const struct witness *witness, uint64_t id)
{
	const struct sequence *s = witness->computed->scheduler.finished.head;

	while (s != NULL && s->request != id) {
		s = s->next;
	}
	return s != NULL;
}

static void note_step(struct witness *witness, uint64_t waiting)
{
	struct engine *engine = witness->computed;
	uint64_t end_ns = witness->now_ns + witness->elapsed_ns;
	struct step_time time;
	struct error error;
	uint64_t decode_rows = 0;

	witness->step = (struct timeline_step){
		.start_ns = witness->now_ns, .end_ns = end_ns, .waiting = waiting};
	const struct batch *batch = engine_schedule(engine);
	note_queues(witness);
	witness->step.running = engine->scheduler.running.count;
	witness->step.used_blocks = count_used_blocks(witness);
	for (uint32_t row = 0; row < batch->row_count; row++) {
		note_row(witness, row, end_ns, &decode_rows);
	}
	require_equal(engine_execute(engine, &time, &error), STATUS_OK);
	engine_postprocess(engine);
	for (uint32_t row = 0; row < batch->row_count; row++) {
		if (has_finished(witness, batch->request[row])) {
			note_finish(witness, (uint32_t)batch->request[row]);
		}
	}
	while (engine_take_finished(engine) != NULL) {
	}
	timeline_add(&witness->timeline, &witness->step);
	step_grid_add(
		&witness->grid, decode_rows, witness->step.prefill_tokens, witness->elapsed_ns);
	witness->sums.busy_ns += witness->elapsed_ns;
	witness->sums.steps++;
}

/* The events of the counting engine as the definition of the result hash lists them. */
static void note_events(struct witness *witness, uint64_t step)
{
	const struct event_list *events = engine_decisions(witness->counted).events;

	for (size_t i = 0; i < events->count; i++) {
		const struct event *event = &events->events[i];
		const uint64_t words[] = {
			step, (uint64_t)event->kind, event->request, event->a, event->b};
		require(witness->event_words + 5 <= EVENTS_MAX, "too many events");
		memcpy(&witness->events[witness->event_words], words, sizeof(words));
		witness->event_words += 5;
	}
}

/* Coarse times make latencies equal to each other and to the limits. */
static uint64_t draw_elapsed(struct witness *witness)
{
	struct prop *prop = witness->prop;

	if (witness->is_coarse) {
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
static bool take_step(struct witness *witness, bool is_failing)
{
	struct engine *engine = witness->counted;
	struct step_time time;
	struct error error;

	witness->elapsed_ns = draw_elapsed(witness);
	uint64_t backlog = prop_below(witness->prop, 5);
	const struct batch *batch = engine_schedule(engine);
	require_equal(batch->step, witness->steps);
	if (is_failing) {
		return false;
	}
	uint64_t waiting = engine_waiting_count(engine) + backlog;
	require_equal(engine_execute(engine, &time, &error), STATUS_OK);
	engine_postprocess(engine);
	note_events(witness, witness->steps++);
	const struct step_decisions decisions = engine_decisions(engine);
	metrics_step(witness->metrics, engine, &decisions, witness->now_ns,
		witness->now_ns + witness->elapsed_ns, waiting);
	while (engine_take_finished(engine) != NULL) {
	}
	note_step(witness, waiting);
	witness->now_ns += witness->elapsed_ns;
	return true;
}

/* ---- the end ---- */

static void note_end(struct witness *witness, const char *status)
{
	struct metrics *sums = &witness->sums;

	for (uint32_t id = 0; id < witness->next; id++) {
		struct request_notes *note = &witness->notes[id];
		if (note->whereabouts != LEFT) {
			write_row(witness, id, status);
			sums->unfinished += status[0] == 'u';
			sums->failed += status[0] == 'f';
			/* of those that were begun */
			sums->prompt_tokens +=
				note->is_measured && note->was_scheduled ? note->prompt_count : 0;
		}
		sums->output_tokens += note->is_measured ? note->token_count : 0;
	}
}

static void run(struct witness *witness)
{
	bool is_failure = prop_chance(witness->prop, 1, 2); /* if it stops early */
	bool is_whole = true;

	for (;;) {
		deliver(witness);
		if (witness->steps == witness->stop_at_step) {
			/* An interrupt comes behind a step, a failure within one. */
			is_whole = false;
			if (is_failure && engine_has_work(witness->counted)) {
				take_step(witness, true);
			} else {
				is_failure = false;
			}
			break;
		}
		if (engine_has_work(witness->counted)) {
			take_step(witness, false);
		} else if (witness->next < witness->drawn.request_count) {
			witness->now_ns = witness->drawn.requests[witness->next].arrival_ns;
		} else {
			break;
		}
	}
	bool has_failed = !is_whole && is_failure;
	if (!has_failed) {
		if (!witness->counted->scheduler.events_are_past) {
			note_events(witness, witness->steps);
		}
		metrics_flush_events(witness->metrics, witness->counted);
	}
	metrics_end(witness->metrics, has_failed ? REQUEST_FAILED : REQUEST_UNFINISHED);
	note_end(witness, has_failed ? "failed" : "unfinished");
	require(!is_whole || witness->sums.unfinished + witness->sums.failed == 0,
		"a whole run leaves someone behind");
}

/* ---- what must be equal ---- */

static void require_same_histogram(
	const struct histogram *found, const struct histogram *expected, enum latency_metric metric)
{
	const char *name = latency_metric_name(metric);

	require(found->count == expected->count, "%s: %llu values, expected %llu", name,
		(unsigned long long)found->count, (unsigned long long)expected->count);
	require(found->sum == expected->sum, "%s: the sum is %llu, expected %llu", name,
		(unsigned long long)found->sum, (unsigned long long)expected->sum);
	require(found->max == expected->max, "%s: the maximum differs", name);
	require(memcmp(found->counts, expected->counts, HISTOGRAM_BUCKETS * sizeof(uint64_t)) == 0,
		"%s: the buckets differ", name);
}

static void require_same_sums(const struct witness *witness)
{
	const struct metrics *found = witness->metrics;
	const struct metrics *expected = &witness->sums;

	require_equal(found->submitted, expected->submitted);
	require_equal(found->finished, expected->finished);
	require_equal(found->rejected, expected->rejected);
	require_equal(found->failed, expected->failed);
	require_equal(found->unfinished, expected->unfinished);
	require_equal(found->submitted,
		found->finished + found->rejected + found->failed + found->unfinished);
	require_equal(found->steps, expected->steps);
	require_equal(found->busy_ns, expected->busy_ns);
	if (expected->submitted > 0) {
		require_equal(found->first_arrival_ns, expected->first_arrival_ns);
		require_equal(found->last_arrival_ns, expected->last_arrival_ns);
	}
	if (expected->finished > 0) {
		require_equal(found->last_finish_ns, expected->last_finish_ns);
	}
	require_equal(found->measured_finished, expected->measured_finished);
	require_equal(found->prompt_tokens, expected->prompt_tokens);
	require_equal(found->output_tokens, expected->output_tokens);
	require_equal(found->prefill_computed_tokens, expected->prefill_computed_tokens);
	require_equal(found->recomputed_tokens, expected->recomputed_tokens);
	require_equal(found->query_tokens, expected->query_tokens);
	require_equal(found->hit_tokens, expected->hit_tokens);
	require_equal(found->preemptions, expected->preemptions);
	require_equal(found->slo_attained, expected->slo_attained);
	require(found->service_ns == expected->service_ns, "the service time differs");
	require_equal(metrics_makespan_ns(found),
		expected->measured_finished == 0
			? 0
			: witness->measured_last_finish_ns - expected->measured_first_arrival_ns);
}

static void require_same_rows(const struct witness *witness, const char *path)
{
	char *found = file_read(path, NULL);
	const char *rest = strchr(found, '\n') + 1;

	require(strcmp(rest, witness->rows) == 0, "rows are\n%sexpected\n%s", rest, witness->rows);
	free(found);
}

static void require_same(const struct witness *witness, const char *path)
{
	require_same_rows(witness, path);
	for (uint32_t i = 0; i < LATENCY_COUNT; i++) {
		require_same_histogram(&witness->metrics->latency[i], &witness->latency[i], i);
	}
	require_same_sums(witness);
	require(memcmp(&witness->metrics->timeline, &witness->timeline,
			sizeof(witness->timeline)) == 0,
		"the timelines differ");
	require(memcmp(&witness->metrics->grid, &witness->grid, sizeof(witness->grid)) == 0,
		"the step grids differ");
	require(metrics_result_hash(witness->metrics) ==
			XXH64(witness->events, witness->event_words * sizeof(uint64_t), 0),
		"the result hash is not that of the events");
}

/* ---- the property ---- */

static void draw_options(struct prop *prop, struct witness *witness)
{
	struct metrics_options *options = &witness->options;
	uint64_t unit_ns = 1;

	witness->is_coarse = prop_chance(prop, 1, 3);
	if (witness->is_coarse) {
		unit_ns = 1000;
		for (uint32_t i = 0; i < witness->drawn.request_count; i++) {
			witness->drawn.requests[i].arrival_ns -=
				witness->drawn.requests[i].arrival_ns % 1000;
		}
	}
	if (prop_chance(prop, 1, 2)) {
		options->warmup = prop_range(prop, 1, witness->drawn.request_count + 1);
	}
	if (prop_chance(prop, 1, 2)) {
		options->slo_ttft_ns =
			unit_ns * (1 + prop_below(prop, witness->is_coarse ? 40 : 200000));
	}
	if (prop_chance(prop, 1, 2)) {
		options->slo_tpot_ns =
			unit_ns * (1 + prop_below(prop, witness->is_coarse ? 4 : 40000));
	}
	witness->stop_at_step = prop_chance(prop, 1, 3) ? prop_below(prop, 60) : UINT64_MAX;
	prop_log(prop, "the first %llu are warm-up, limits of %llu and %llu ns, stop at step %lld",
		(unsigned long long)options->warmup, (unsigned long long)options->slo_ttft_ns,
		(unsigned long long)options->slo_tpot_ns, (long long)witness->stop_at_step);
}

static void body_metrics(struct prop *prop, const void *context)
{
	static struct table_writer table;
	struct error error;
	const char *path = context;
	struct witness *witness = calloc(1, sizeof(*witness));
	struct metrics *metrics = calloc(1, sizeof(*metrics));

	require(witness != NULL && metrics != NULL, "out of memory");
	witness->prop = prop;
	witness->metrics = metrics;
	witness->config = simulation_draw_config(prop);
	requests_draw(prop, &witness->drawn, &witness->config);
	require(witness->drawn.request_count <= REQUESTS_MAX, "too many requests");
	draw_options(prop, witness);
	for (uint32_t i = 0; i < LATENCY_COUNT; i++) {
		histogram_init(&witness->latency[i]);
	}
	timeline_init(&witness->timeline);
	require(table_open(&table, path, REQUEST_COLUMNS, &error) == STATUS_OK, "%s", error.text);
	open_engines(witness);
	metrics_init(metrics, &witness->options, engine_slot_count(witness->counted), &table);
	run(witness);
	require(table_close(&table, &error) == STATUS_OK, "%s", error.text);
	require_same(witness, path);
	metrics_deinit(metrics);
	engine_close(witness->counted);
	engine_close(witness->computed);
	for (uint32_t i = 0; i < LATENCY_COUNT; i++) {
		histogram_deinit(&witness->latency[i]);
	}
	requests_deinit(&witness->drawn);
	free(metrics);
	free(witness);
}

Test(metrics, figures_equal_those_of_a_witness_who_writes_everything_down, .timeout = 600)
{
	char folder[TEMPORARY_PATH_BYTES];
	char path[TEMPORARY_PATH_BYTES + 16];
	struct prop_options options = {
		.name = "metrics", .body = body_metrics, .context = path, .trials = 1000};

	temporary_folder(folder);
	snprintf(path, sizeof(path), "%s/requests.tsv", folder);
	cr_assert(prop_holds(&options));
	temporary_remove(folder);
}

/* ---- memory ---- */

struct flow {
	struct engine_config config;
	uint32_t first_max_tokens; /* of the first request; all others want one token */
	uint64_t count;
};

static enum status take_a_nanosecond(void *state, const struct batch *batch, int32_t *token_ids,
	struct step_time *time, struct error *error)
{
	(void)state;
	(void)batch;
	(void)token_ids;
	(void)error;
	*time = (struct step_time){.elapsed_ns = 1};
	return STATUS_OK;
}

/* Prompts of one token, as many as a step takes, for as long as the flow says. Returns the largest
   number of entries that the ring of fresh sequences had room for. */
static uint32_t run_flow(const struct flow *flow, const char *path)
{
	static struct table_writer table;
	static struct metrics metrics;
	const struct runner runner = {.name = "nanosecond", .execute = take_a_nanosecond};
	const struct metrics_options options = {0};
	const int32_t tokens[64] = {0};
	struct engine *engine;
	struct error error;
	uint64_t now_ns = 0;

	require(engine_open(&engine, &flow->config, &runner, &error) == STATUS_OK, "%s",
		error.text);
	require(table_open(&table, path, REQUEST_COLUMNS, &error) == STATUS_OK, "%s", error.text);
	metrics_init(&metrics, &options, engine_slot_count(engine), &table);
	for (uint64_t id = 0; id < flow->count || engine_has_work(engine); now_ns++) {
		for (; id < flow->count && engine_has_room(engine); id++) {
			const struct request request = {.id = id,
				.prompt = tokens,
				.prompt_count = 1,
				.forced = tokens,
				.max_tokens = id == 0 ? flow->first_max_tokens : 1,
				.ignore_eos = true};
			const struct metrics_arrival arrival = {.id = id,
				.arrival_ns = now_ns,
				.prompt_tokens = 1,
				.max_tokens = request.max_tokens};
			uint32_t slot;
			require_equal(engine_add(engine, &request, &slot), FIT_OK);
			metrics_arrive(&metrics, slot, &arrival);
		}
		struct step_time time;
		require_equal(engine_step(engine, &time, &error), STATUS_OK);
		const struct step_decisions decisions = engine_decisions(engine);
		metrics_step(&metrics, engine, &decisions, now_ns, now_ns + 1, 0);
		while (engine_take_finished(engine) != NULL) {
		}
	}
	require_equal(metrics.finished, flow->count);
	require_equal(metrics.latency[LATENCY_ITL].count, flow->first_max_tokens - 1);
	uint32_t capacity = metrics.fresh_capacity;
	metrics_deinit(&metrics);
	engine_close(engine);
	require(table_close(&table, &error) == STATUS_OK, "%s", error.text);
	return capacity;
}

/* Memory depends on the engine's limits and not on the length of the run, also where no step, or
   hardly any, decodes: sequences that end with their first token never leave the ring of fresh ones
   by decoding. */
Test(metrics, memory_does_not_grow_with_the_run)
{
	char folder[TEMPORARY_PATH_BYTES];
	char path[TEMPORARY_PATH_BYTES + 16];
	struct flow flow = {
		.config = {.policy = &policy_mixed,
			.block_size = 1,
			.kv_block_count = 64,
			.max_num_seqs = 8,
			.max_num_batched_tokens = 64,
			.max_model_len = 64,
			.eos_token_id = -1},
		.first_max_tokens = 1,
		.count = 20000,
	};

	temporary_folder(folder);
	snprintf(path, sizeof(path), "%s/requests.tsv", folder);
	cr_expect_leq(run_flow(&flow, path), 256);
	/* prefill-first: the first one does not decode as long as prompts come. */
	flow.config.policy = &policy_prefill_first;
	flow.first_max_tokens = 3;
	cr_expect_leq(run_flow(&flow, path), 256);
	temporary_remove(folder);
}
