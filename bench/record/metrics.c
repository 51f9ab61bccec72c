#include "bench/record/metrics.h"

#include "engine/base/check.h"
#include "engine/base/memory.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* ---- the hash of events ---- */

/* Events are collected, since a call for each would cost more than the hash. */
enum { EVENT_WORDS = 5, EVENT_HASH_WORDS = EVENT_WORDS * 128 };

struct event_hash {
	XXH64_state_t *state;
	uint32_t count;
	uint64_t words[EVENT_HASH_WORDS]; /* (count) not in the state yet */
};

static struct event_hash *event_hash_open(void)
{
	struct event_hash *hash = memory_take(1, sizeof(*hash));

	hash->state = memory_take_hash();
	return hash;
}

static void event_hash_close(struct event_hash *hash)
{
	XXH64_freeState(hash->state);
	free(hash);
}

static void event_hash_flush(struct event_hash *hash)
{
	XXH64_update(hash->state, hash->words, hash->count * sizeof(*hash->words));
	hash->count = 0;
}

/* ---- opening and closing ---- */

static void init(struct metrics *metrics, uint32_t record_count)
{
	metrics->record_count = record_count;
	metrics->records = memory_take(record_count, sizeof(struct request_record));
	metrics->fresh_capacity = 16;
	metrics->fresh = memory_take(metrics->fresh_capacity, sizeof(struct fresh_entry));
	metrics->hash = event_hash_open();
	level_progress_init(&metrics->level_progress, &metrics->distributions->levels);
	metrics->first_arrival_ns = UINT64_MAX;
	metrics->measured_first_arrival_ns = UINT64_MAX;
}

void metrics_init(struct metrics *metrics, const struct metrics_options *options,
	uint32_t record_count, struct table_writer *requests)
{
	memset(metrics, 0, sizeof(*metrics));
	metrics->options = *options;
	metrics->requests = requests;
	metrics->distributions = memory_take(1, sizeof(*metrics->distributions));
	metrics->distributions->window.is_partial =
		options->warmup > 0 || options->measured_end > 0;
	metrics->owns_distributions = true;
	for (uint32_t i = 0; i < LATENCY_COUNT; i++) {
		histogram_init(&metrics->distributions->latency[i]);
	}
	timeline_init(&metrics->distributions->timeline);
	levels_init(&metrics->distributions->levels, options->level_count, options->level_ns);
	init(metrics, record_count);
}

void metrics_init_part(struct metrics *metrics, const struct metrics *whole, uint32_t record_count)
{
	memset(metrics, 0, sizeof(*metrics));
	metrics->options = whole->options;
	metrics->requests = whole->requests;
	metrics->distributions = whole->distributions;
	init(metrics, record_count);
}

void metrics_deinit(struct metrics *metrics)
{
	for (uint32_t slot = 0; slot < metrics->record_count; slot++) {
		free(metrics->records[slot].session);
	}
	free(metrics->records);
	free(metrics->fresh);
	event_hash_close(metrics->hash);
	for (uint32_t i = 0; metrics->owns_distributions && i < LATENCY_COUNT; i++) {
		histogram_deinit(&metrics->distributions->latency[i]);
	}
	if (metrics->owns_distributions) {
		levels_deinit(&metrics->distributions->levels);
		free(metrics->distributions);
	}
	memset(metrics, 0, sizeof(*metrics));
}

/* ---- rows of requests.tsv ---- */

static const char *request_status_name(enum request_status status)
{
	static const char *const names[] = {
#define REQUEST_STATUS_NAME(name, text) text,
		REQUEST_STATUS_LIST(REQUEST_STATUS_NAME)
#undef REQUEST_STATUS_NAME
	};
	return names[status];
}

static void table_if(struct table_writer *table, bool has_value, uint64_t value)
{
	if (has_value) {
		table_u64(table, value);
	} else {
		table_none(table);
	}
}

/* Latencies of a finished request, counted from its intended arrival. */
struct request_times {
	uint64_t queue_ns, ttft_ns, tpot_ns, e2e_ns;
	bool has_tpot;
	uint32_t missed; /* SLO_MISSED_* */
};

static struct request_times request_times(const struct metrics *metrics,
	const struct request_record *record, uint64_t finish_ns, uint64_t output_tokens)
{
	struct request_times times = {
		.queue_ns = record->first_scheduled_ns - record->arrival_ns,
		.ttft_ns = record->first_token_ns - record->arrival_ns,
		.e2e_ns = finish_ns - record->arrival_ns,
		.has_tpot = output_tokens > 1,
	};

	if (times.has_tpot) {
		times.tpot_ns = (finish_ns - record->first_token_ns) / (output_tokens - 1);
	}
	times.missed =
		slo_missed(&metrics->options.slo, times.ttft_ns, times.tpot_ns, times.e2e_ns);
	return times;
}

/* Writes one row. end_ns: when the request finished, or the run ended that left it. times: of
   finished requests only. */
static void write_row(struct metrics *metrics, const struct request_record *record,
	enum request_status status, uint64_t output_tokens, uint64_t end_ns,
	const struct request_times *times)
{
	struct table_writer *table = metrics->requests;
	bool is_finished = status == REQUEST_FINISHED;
	bool is_left = status == REQUEST_FAILED || status == REQUEST_UNFINISHED;
	uint64_t queue_end_ns = record->is_scheduled ? record->first_scheduled_ns
						     : u64_max(end_ns, record->arrival_ns);

	if (table == NULL) {
		return;
	}
	table_u64(table, record->id);
	table_text(table, record->session);
	table_text(table, request_status_name(status));
	table_u64(table, record->arrival_ns);
	table_if(table, record->is_scheduled, record->first_scheduled_ns);
	table_if(table, record->has_token, record->first_token_ns);
	table_if(table, is_finished, end_ns);
	table_u64(table, record->prompt_tokens);
	table_if(table, record->is_scheduled, record->cached_tokens);
	table_u64(table, output_tokens);
	table_u64(table, record->preemptions);
	table_u64(table, record->recomputed_tokens);
	table_if(table, record->is_scheduled || is_left, queue_end_ns - record->arrival_ns);
	table_if(table, record->has_token, record->first_token_ns - record->arrival_ns);
	table_if(table, is_finished && times->has_tpot, is_finished ? times->tpot_ns : 0);
	table_if(table, is_finished, is_finished ? times->e2e_ns : 0);
	table_if(table, is_finished && slo_is_given(&metrics->options.slo),
		is_finished && times->missed == 0);
	if (metrics->has_replica) {
		table_if(table, !record->is_nowhere, metrics->replica);
	}
	table_end_row(table);
}

/* ---- arrivals ---- */

static bool is_measured(const struct metrics *metrics, uint64_t id)
{
	const struct metrics_options *options = &metrics->options;

	return id >= options->warmup && (options->measured_end == 0 || id < options->measured_end);
}

void metrics_begin(struct metrics *metrics, uint64_t arrival_ns)
{
	struct distributions *distributions = metrics->distributions;

	if (!distributions->has_origin) {
		/* Timestamps may be far from 0, so the timeline begins at the first row. */
		distributions->has_origin = true;
		distributions->timeline.origin_ns = arrival_ns;
	}
}

static void count_arrival(struct metrics *metrics, const struct metrics_arrival *arrival)
{
	metrics_begin(metrics, arrival->arrival_ns);
	metrics->submitted++;
	metrics->capped += arrival->is_capped;
	metrics->first_arrival_ns = u64_min(metrics->first_arrival_ns, arrival->arrival_ns);
	metrics->last_arrival_ns = u64_max(metrics->last_arrival_ns, arrival->arrival_ns);
	if (is_measured(metrics, arrival->id)) {
		struct level *level =
			levels_find(&metrics->distributions->levels, arrival->arrival_ns);
		metrics->measured_submitted++;
		slo_batches_submit(&metrics->distributions->slo_batches,
			arrival->id - metrics->options.warmup);
		if (level != NULL) {
			level->submitted++;
		}
		metrics->measured_first_arrival_ns =
			u64_min(metrics->measured_first_arrival_ns, arrival->arrival_ns);
		metrics->measured_last_arrival_ns =
			u64_max(metrics->measured_last_arrival_ns, arrival->arrival_ns);
	} else {
		metrics->warmup_submitted += arrival->id < metrics->options.warmup;
	}
}

static struct request_record record_of(
	const struct metrics *metrics, const struct metrics_arrival *arrival)
{
	return (struct request_record){
		.id = arrival->id,
		.arrival_ns = arrival->arrival_ns,
		.prompt_tokens = arrival->prompt_tokens,
		.token_count = arrival->prompt_tokens,
		.is_live = true,
		.is_measured = is_measured(metrics, arrival->id),
		.is_capped = arrival->is_capped,
	};
}

/* Notes time that `count` requests waited, which is in the sums: where a step did not. */
static void note_wait(struct metrics *metrics, enum wait_cause cause, uint64_t count,
	uint64_t from_ns, uint64_t until_ns)
{
	struct distributions *distributions = metrics->distributions;

	timeline_wait(&distributions->timeline, cause, count, from_ns, until_ns);
	window_wait(&metrics->window, &distributions->window, cause, count, from_ns, until_ns);
}

/* Charges one request. */
static void charge_one(
	struct metrics *metrics, enum wait_cause cause, uint64_t from_ns, uint64_t until_ns)
{
	check(from_ns <= until_ns);
	metrics->work.waits.ns[cause] += until_ns - from_ns;
	note_wait(metrics, cause, 1, from_ns, until_ns);
}

/* Charges the waiting requests for the time up to now_ns, in which no step ran. */
static void pass_waits(struct metrics *metrics, uint64_t now_ns)
{
	struct waits *waits = &metrics->work.waits;

	note_wait(metrics, WAIT_STEP, waits->count, waits->charged_ns, now_ns);
	waits_charge(waits, WAIT_STEP, now_ns);
}

void metrics_open_window(struct metrics *metrics, uint64_t arrival_ns)
{
	struct window_edges *edges = &metrics->distributions->window;

	if (!edges->is_open) {
		window_open(&metrics->window, edges, &metrics->work, arrival_ns);
	}
}

void metrics_await(struct metrics *metrics, const struct metrics_arrival *arrival, uint64_t now_ns)
{
	uint64_t from_ns = arrival->arrival_ns + arrival->attempts_ns;
	uint64_t sent_ns = from_ns + arrival->router_ns;

	window_meet(&metrics->window, &metrics->distributions->window, &metrics->work);
	pass_waits(metrics, now_ns);
	metrics->work.waits.count++;
	if (arrival->router_ns > 0) {
		charge_one(metrics, WAIT_ROUTER, from_ns, sent_ns);
	}
	charge_one(metrics, WAIT_STEP, sent_ns, now_ns);
	if (is_measured(metrics, arrival->id)) {
		metrics->measured_taken++;
		metrics_open_window(metrics, arrival->arrival_ns);
	}
}

void metrics_arrive(struct metrics *metrics, uint32_t slot, const struct metrics_arrival *arrival,
	uint64_t now_ns)
{
	check(slot < metrics->record_count);
	struct request_record *record = &metrics->records[slot];
	check(!record->is_live);
	uint32_t generation = record->generation;
	*record = record_of(metrics, arrival);
	record->generation = generation;
	if (arrival->session != NULL) {
		size_t bytes = strlen(arrival->session) + 1;
		record->session = memory_take(bytes, 1);
		memcpy(record->session, arrival->session, bytes);
	}
	count_arrival(metrics, arrival);
	if (!arrival->is_awaited) {
		metrics_await(metrics, arrival, now_ns);
	}
}

void metrics_reject(struct metrics *metrics, enum fit fit, const struct metrics_arrival *arrival)
{
	struct request_record record = record_of(metrics, arrival);
	char *session = NULL;

	check(fit != FIT_OK);
	if (arrival->session != NULL) {
		session = memory_take(strlen(arrival->session) + 1, 1);
		strcpy(session, arrival->session);
	}
	record.session = session;
	count_arrival(metrics, arrival);
	metrics->rejected++;
	uint64_t tokens = (uint64_t)arrival->prompt_tokens + arrival->max_tokens;
	if (fit == FIT_TOO_LONG) {
		metrics->rejected_too_long++;
		metrics->longest_too_long = u64_max(metrics->longest_too_long, tokens);
	} else {
		metrics->longest_never_fitting = u64_max(metrics->longest_never_fitting, tokens);
	}
	write_row(metrics, &record,
		fit == FIT_TOO_LONG ? REQUEST_REJECTED_TOO_LONG : REQUEST_REJECTED_NEVER_FITS, 0, 0,
		NULL);
	free(session);
}

void metrics_refuse(struct metrics *metrics, enum request_status status,
	const struct metrics_arrival *arrival, uint64_t end_ns)
{
	struct request_record record = record_of(metrics, arrival);
	char *session = NULL;

	if (arrival->session != NULL) {
		session = memory_take(strlen(arrival->session) + 1, 1);
		strcpy(session, arrival->session);
	}
	record.session = session;
	record.is_nowhere = true;
	count_arrival(metrics, arrival);
	metrics->nowhere++;
	metrics->rejected += status == REQUEST_REJECTED_QUEUE_FULL;
	metrics->rejected_queue_full += status == REQUEST_REJECTED_QUEUE_FULL;
	metrics->failed += status == REQUEST_FAILED;
	metrics->unfinished += status == REQUEST_UNFINISHED;
	metrics->measured_taken += record.is_measured && status != REQUEST_REJECTED_QUEUE_FULL;
	write_row(metrics, &record, status, 0, end_ns, NULL);
	free(session);
}

void metrics_wait(
	struct metrics *metrics, enum wait_cause cause, uint64_t from_ns, uint64_t until_ns)
{
	window_meet(&metrics->window, &metrics->distributions->window, &metrics->work);
	charge_one(metrics, cause, from_ns, u64_max(from_ns, until_ns));
}

/* The opposite of count_arrival() and of what metrics_await() counts. */
static void forget_arrival(struct metrics *metrics, const struct request_record *record)
{
	struct level *level = levels_find(&metrics->distributions->levels, record->arrival_ns);

	metrics->submitted--;
	metrics->capped -= record->is_capped;
	metrics->warmup_submitted -= record->id < metrics->options.warmup;
	metrics->measured_submitted -= record->is_measured;
	metrics->measured_taken -= record->is_measured;
	if (record->is_measured) {
		slo_batches_forget(
			&metrics->distributions->slo_batches, record->id - metrics->options.warmup);
	}
	if (level != NULL) {
		level->submitted -= record->is_measured;
	}
}

/* Tokens of the sequence after the latest step that was added. */
static uint32_t token_count(const struct metrics *metrics, const struct request_record *record)
{
	uint64_t passes = record->is_steady ? metrics->pass_count - record->first_pass : 0;

	return record->token_count + u32_from(passes);
}

/* The attempt of an admitted request is lost, and what was computed in it. */
static void lose_attempt(
	struct metrics *metrics, const struct request_record *record, uint64_t now_ns)
{
	struct run_sums *work = &metrics->work;

	charge_one(metrics, WAIT_LOST, record->first_scheduled_ns, now_ns);
	work->lost_prompt_tokens += record->prompt_tokens;
	work->lost_hit_tokens += record->cached_tokens;
	work->lost_output_tokens += token_count(metrics, record) - record->prompt_tokens;
	work->lost_recomputed_tokens += record->recomputed_tokens;
	window_lose(&metrics->window, &metrics->distributions->window, record->first_step,
		record->prompt_tokens, record->cached_tokens);
}

void metrics_forget_awaited(struct metrics *metrics, uint64_t id)
{
	metrics->measured_taken -= is_measured(metrics, id);
}

void metrics_forget(struct metrics *metrics, uint64_t now_ns)
{
	window_meet(&metrics->window, &metrics->distributions->window, &metrics->work);
	pass_waits(metrics, now_ns);
	metrics->work.waits.count = 0;
	for (uint32_t slot = 0; slot < metrics->record_count; slot++) {
		struct request_record *record = &metrics->records[slot];
		if (!record->is_live) {
			continue;
		}
		if (record->is_scheduled) {
			lose_attempt(metrics, record, now_ns);
		}
		forget_arrival(metrics, record);
		free(record->session);
		*record = (struct request_record){.generation = record->generation + 1};
	}
	metrics->fresh_head = metrics->fresh_tail;
	metrics->steady_excluded_rows = 0;
}

/* ---- events ---- */

static_assert(offsetof(struct event, b) == (EVENT_WORDS - 2) * sizeof(uint64_t),
	"the words of an event lie one behind the other");

/* The words are little-endian, which engine/sequence.c asserts of every machine we run on. */
static void hash_events(
	struct event_hash *hash, uint64_t step, const struct event *events, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t *words = hash->words + hash->count;
		words[0] = step;
		memcpy(words + 1, &events[i], (EVENT_WORDS - 1) * sizeof(*words));
		hash->count += EVENT_WORDS;
		if (hash->count == EVENT_HASH_WORDS) {
			event_hash_flush(hash);
		}
	}
}

/* Drops the outdated entries, and grows the ring if it is still over half full. Entries of
   sequences that end with their first token are dropped only here, so this bounds the ring by the
   number of sequences in the engine. */
static void fresh_make_room(struct metrics *metrics)
{
	uint64_t mask = metrics->fresh_capacity - 1;
	uint64_t kept = metrics->fresh_head;

	for (uint64_t i = metrics->fresh_head; i < metrics->fresh_tail; i++) {
		struct fresh_entry entry = metrics->fresh[i & mask];
		if (metrics->records[entry.slot].generation == entry.generation) {
			metrics->fresh[kept++ & mask] = entry;
		}
	}
	metrics->fresh_tail = kept;
	if (kept - metrics->fresh_head <= metrics->fresh_capacity / 2) {
		return;
	}
	uint32_t capacity = metrics->fresh_capacity * 2;
	struct fresh_entry *grown = memory_take(capacity, sizeof(struct fresh_entry));
	for (uint64_t i = metrics->fresh_head; i < metrics->fresh_tail; i++) {
		grown[i & (capacity - 1)] = metrics->fresh[i & mask];
	}
	free(metrics->fresh);
	metrics->fresh = grown;
	metrics->fresh_capacity = capacity;
}

static void fresh_push(struct metrics *metrics, const struct sequence *sequence)
{
	struct request_record *record = &metrics->records[sequence->slot];

	if (metrics->fresh_tail - metrics->fresh_head == metrics->fresh_capacity) {
		fresh_make_room(metrics);
	}
	metrics->fresh[metrics->fresh_tail++ & (metrics->fresh_capacity - 1)] =
		(struct fresh_entry){.sequence = sequence,
			.slot = sequence->slot,
			.generation = record->generation,
			.step = metrics->work.steps};
}

/* The sequence stops decoding, by preemption or finish. Its entries in the ring become outdated. */
static void leave_decoding(struct metrics *metrics, struct request_record *record)
{
	record->generation++;
	if (record->is_steady) {
		record->token_count = token_count(metrics, record);
		record->is_steady = false;
		record->last_token_ns = metrics->last_pass_end_ns;
		metrics->steady_excluded_rows -= !record->is_measured;
	}
}

static void on_admit(struct metrics *metrics, const struct event *event, uint64_t start_ns)
{
	struct request_record *record = &metrics->records[event->sequence->slot];

	if (record->is_scheduled) {
		return; /* admitted again after a preemption */
	}
	record->is_scheduled = true;
	waits_admit(&metrics->work.waits);
	record->first_scheduled_ns = start_ns;
	record->first_step = metrics->work.steps;
	record->cached_tokens = (uint32_t)event->a;
	metrics->step.query_tokens += record->prompt_tokens;
	metrics->step.hit_tokens += record->cached_tokens;
	metrics->work.prompt_tokens += record->prompt_tokens;
	metrics->work.hit_tokens += record->cached_tokens;
}

static void on_chunk(struct metrics *metrics, const struct event *event, uint64_t end_ns)
{
	struct request_record *record = &metrics->records[event->sequence->slot];

	record->recomputed_tokens += event->recomputed;
	metrics->work.recomputed_tokens += event->recomputed;
	if (!event->is_sampled) {
		return;
	}
	if (!record->has_token) {
		record->has_token = true;
		record->first_token_ns = end_ns;
	} else if (record->is_measured) {
		histogram_add(&metrics->distributions->latency[LATENCY_ITL],
			end_ns - record->last_token_ns, 1);
	}
	record->last_token_ns = end_ns;
	record->token_count = u32_from(event->a + event->b + 1);
	fresh_push(metrics, event->sequence);
}

static void on_preempt(struct metrics *metrics, const struct event *event)
{
	struct request_record *record = &metrics->records[event->sequence->slot];

	leave_decoding(metrics, record);
	record->preemptions++;
}

/* A decode that got no token in this pass: its next gap is one of its own. */
static void on_stall(struct metrics *metrics, const struct event *event)
{
	struct request_record *record = &metrics->records[event->sequence->slot];

	leave_decoding(metrics, record);
	if (record->is_live) { /* not ended by the step before, which was applied later */
		fresh_push(metrics, event->sequence);
	}
}

static void add_to_level(struct metrics *metrics, const struct request_record *record,
	const struct request_times *times)
{
	struct level *level = levels_find(&metrics->distributions->levels, record->arrival_ns);

	if (level == NULL) {
		return;
	}
	level->finished++;
	level->attained += times->missed == 0;
	histogram_add(&level->ttft, times->ttft_ns, 1);
	histogram_add(&level->tpot, times->tpot_ns, times->has_tpot);
}

static void add_to_slo(struct metrics *metrics, const struct request_record *record,
	uint32_t missed, uint64_t output_tokens)
{
	metrics->slo_missed_ttft += (missed & SLO_MISSED_TTFT) != 0;
	metrics->slo_missed_tpot += (missed & SLO_MISSED_TPOT) != 0;
	metrics->slo_missed_e2e += (missed & SLO_MISSED_E2E) != 0;
	if (missed == 0) {
		metrics->slo_attained++;
		slo_batches_attain(
			&metrics->distributions->slo_batches, record->id - metrics->options.warmup);
	} else {
		metrics->longest_missed =
			u64_max(metrics->longest_missed, record->prompt_tokens + output_tokens);
	}
}

static void on_finish(struct metrics *metrics, const struct event *event, uint64_t end_ns)
{
	struct request_record *record = &metrics->records[event->sequence->slot];
	struct request_times times = request_times(metrics, record, end_ns, event->a);

	leave_decoding(metrics, record);
	/* Asynchronous, a step that is not recorded yet may have preempted it. */
	record->preemptions = event->sequence->preemption_count;
	write_row(metrics, record, REQUEST_FINISHED, event->a, end_ns, &times);
	metrics->finished++;
	metrics->work.finished++;
	metrics->work.attained += times.missed == 0;
	metrics->last_finish_ns = end_ns;
	if (record->is_measured) {
		histogram_add(&metrics->distributions->latency[LATENCY_QUEUE], times.queue_ns, 1);
		histogram_add(&metrics->distributions->latency[LATENCY_TTFT], times.ttft_ns, 1);
		histogram_add(&metrics->distributions->latency[LATENCY_TPOT], times.tpot_ns,
			times.has_tpot);
		histogram_add(&metrics->distributions->latency[LATENCY_E2E], times.e2e_ns, 1);
		metrics->measured_finished++;
		add_to_slo(metrics, record, times.missed, event->a);
		metrics->service_ns += end_ns - record->first_scheduled_ns;
		add_to_level(metrics, record, &times);
	}
	free(record->session);
	record->session = NULL;
	record->is_live = false;
}

/* The gaps that a decode pass ends: one each for fresh sequences, the same for all steady ones. */
static void add_pass_gaps(
	struct metrics *metrics, const struct engine *engine, uint64_t rows, uint64_t end_ns)
{
	struct histogram *itl = &metrics->distributions->latency[LATENCY_ITL];
	uint64_t steady_excluded_rows = metrics->steady_excluded_rows;

	for (; metrics->fresh_head < metrics->fresh_tail; metrics->fresh_head++) {
		const struct fresh_entry *entry =
			&metrics->fresh[metrics->fresh_head & (metrics->fresh_capacity - 1)];
		struct request_record *record = &metrics->records[entry->slot];
		if (record->generation != entry->generation) {
			continue; /* preempted or finished since */
		}
		if (entry->step == metrics->work.steps ||
			engine_token_count(engine, entry->sequence) == record->token_count) {
			break; /* has not decoded yet, and neither have those admitted later */
		}
		check(rows > 0);
		rows--;
		if (record->is_measured) {
			histogram_add(itl, end_ns - record->last_token_ns, 1);
		}
		record->is_steady = true;
		record->first_pass = metrics->pass_count;
		metrics->steady_excluded_rows += !record->is_measured;
	}
	check(rows >= steady_excluded_rows);
	histogram_add(itl, end_ns - metrics->last_pass_end_ns, rows - steady_excluded_rows);
	metrics->last_pass_end_ns = end_ns;
	metrics->pass_count++;
}

/* Adds the step's counts and time to the sums. */
static void add_step(struct metrics *metrics, const struct step_decisions *decisions)
{
	const struct step_counts *counts = decisions->counts;
	struct run_sums *work = &metrics->work;

	work->steps++;
	work->output_tokens += counts->sampled_rows;
	work->preemptions += counts->preemptions;
	run_sums_add_time(work, &metrics->step, metrics->step.end_ns - metrics->step.start_ns);
	if (metrics->is_outside) {
		work->outside_steps++;
		work->outside_ns += metrics->step.end_ns - metrics->step.start_ns;
	}
	step_sums_add(&work->sums, counts);
}

/* Divides the step, which was added to the sums, at the edges of the window. */
static void divide_step(struct metrics *metrics, const struct step_decisions *decisions)
{
	const struct step_counts *counts = decisions->counts;
	const struct summed_step step = {.step = metrics->step,
		.tokens = counts->decode_rows + counts->prefill_tokens,
		.wait_cause = decisions->wait_cause,
		.wait_count = metrics->work.waits.count};

	window_end_step(&metrics->window, &metrics->distributions->window, &step);
}

/* What the step did to each request. */
static void add_events(struct metrics *metrics, const struct engine *engine,
	const struct step_decisions *decisions, uint64_t start_ns, uint64_t end_ns)
{
	const struct event_list *events = decisions->events;
	uint64_t pass_rows = decisions->counts->decode_rows; /* whose gaps are not added yet */
	bool has_pass = pass_rows > 0;

	hash_events(metrics->hash, decisions->step, events->events, events->count);
	for (size_t i = 0; i < events->count; i++) {
		const struct event *event = &events->events[i];
		switch ((enum event_kind)event->kind) {
		case EVENT_ADMIT:
			on_admit(metrics, event, start_ns);
			break;
		case EVENT_CHUNK:
			on_chunk(metrics, event, end_ns);
			break;
		case EVENT_PREEMPT:
			on_preempt(metrics, event);
			break;
		case EVENT_STALL:
			on_stall(metrics, event);
			break;
		case EVENT_FINISH:
			/* Finish events come last, and need the gaps of the pass. */
			if (has_pass) {
				add_pass_gaps(metrics, engine, pass_rows, end_ns);
				has_pass = false;
			}
			on_finish(metrics, event, end_ns);
			break;
		case EVENT_DROP:
			pass_rows--;		       /* its token is no one's */
			metrics->work.output_tokens--; /* which add_step() counts */
			break;
		case EVENT_REJECT:
		case EVENT_BLOCK_GIVEN:
			break;
		}
	}
	if (has_pass) {
		add_pass_gaps(metrics, engine, pass_rows, end_ns);
	}
}

void metrics_step(struct metrics *metrics, const struct engine *engine,
	const struct step_decisions *decisions, uint64_t start_ns, uint64_t end_ns,
	uint64_t waiting)
{
	const struct step_counts *counts = decisions->counts;

	metrics->step = (struct timeline_step){
		.start_ns = start_ns,
		.end_ns = end_ns,
		.running = counts->running,
		.waiting = waiting,
		.used_blocks = counts->used_blocks,
		.output_tokens = counts->sampled_rows,
		.prefill_tokens = counts->prefill_tokens,
		.preemptions = counts->preemptions,
	};
	struct run_sums *work = &metrics->work;
	uint64_t measured_finished = metrics->measured_finished;
	bool has_waits = work->waits.count > 0;
	bool is_divided = metrics->distributions->window.is_partial;
	if (is_divided) {
		window_meet(&metrics->window, &metrics->distributions->window, work);
		window_begin_step(&metrics->window, work);
	}
	if (metrics->level_progress.end_ns < end_ns) {
		levels_pass(&metrics->distributions->levels, &metrics->level_progress, work,
			&metrics->step);
	}
	if (has_waits) {
		pass_waits(metrics, start_ns);
	}
	add_events(metrics, engine, decisions, start_ns, end_ns);
	if (has_waits) {
		timeline_wait(&metrics->distributions->timeline, decisions->wait_cause,
			work->waits.count, start_ns, end_ns);
		waits_charge(&work->waits, decisions->wait_cause, end_ns);
	}
	add_step(metrics, decisions);
	if (is_divided) {
		divide_step(metrics, decisions);
	}
	if (metrics->measured_finished > measured_finished) {
		window_finish(&metrics->window, &metrics->distributions->window, work, end_ns);
	}
	timeline_add(&metrics->distributions->timeline, &metrics->step);
	step_grid_add(&metrics->distributions->grid, counts->decode_rows, counts->prefill_tokens,
		end_ns - start_ns);
}

void metrics_flush_events(struct metrics *metrics, const struct engine *engine)
{
	const struct step_decisions pending = engine_pending_rejections(engine);

	for (size_t i = 0; i < pending.events->count; i++) {
		check(pending.events->events[i].kind == EVENT_REJECT);
	}
	hash_events(metrics->hash, pending.step, pending.events->events, pending.events->count);
}

static int compare_record_id(const void *a, const void *b)
{
	const struct request_record *first = *(struct request_record *const *)a;
	const struct request_record *second = *(struct request_record *const *)b;

	return (first->id > second->id) - (first->id < second->id);
}

void metrics_end(struct metrics *metrics, enum request_status status, uint64_t end_ns)
{
	struct request_record **live = memory_take(metrics->record_count, sizeof(*live));
	uint32_t count = 0;

	window_meet(&metrics->window, &metrics->distributions->window, &metrics->work);
	if (metrics->work.waits.count > 0) {
		pass_waits(metrics, u64_max(end_ns, metrics->work.waits.charged_ns));
	}
	for (uint32_t slot = 0; slot < metrics->record_count; slot++) {
		if (metrics->records[slot].is_live) {
			live[count++] = &metrics->records[slot];
		}
	}
	qsort(live, count, sizeof(*live), compare_record_id);
	for (uint32_t i = 0; i < count; i++) {
		struct request_record *record = live[i];
		uint64_t output = token_count(metrics, record) - record->prompt_tokens;
		write_row(metrics, record, status, output, end_ns, NULL);
	}
	levels_end(&metrics->distributions->levels, &metrics->level_progress, &metrics->work);
	*(status == REQUEST_FAILED ? &metrics->failed : &metrics->unfinished) += count;
	free(live);
}

/* ---- sums ---- */

static void add_counters(struct metrics *sum, const struct metrics *part)
{
#define ADD_COUNTER(counter) sum->counter += part->counter;
	METRICS_COUNTER_LIST(ADD_COUNTER)
#undef ADD_COUNTER
	sum->service_ns += part->service_ns;
}

/* Adds what a part did in the run and up to the edges of its window. */
static void add_work(struct metrics *sum, const struct metrics *part)
{
	struct window window = part->window;
	struct run_sums work = part->work;

	window_meet(&window, &sum->distributions->window, &work);
	run_sums_join(&sum->work, &work);
	run_sums_join(&sum->window.before, &window.before);
	run_sums_join(&sum->window.last, &window.last);
}

void metrics_sum(struct metrics *sum, const struct metrics *const *parts, uint32_t count)
{
	*sum = *parts[0];
	sum->owns_distributions = false;
	sum->records = NULL;
	sum->fresh = NULL;
	sum->record_count = 0;
	if (count > 1) {
		sum->hash = NULL;
	}
	window_meet(&sum->window, &sum->distributions->window, &sum->work);
	for (uint32_t i = 1; i < count; i++) {
		const struct metrics *part = parts[i];
		add_counters(sum, part);
		add_work(sum, part);
#define KEEP_MOST(time) sum->time = u64_max(sum->time, part->time);
#define KEEP_LEAST(time) sum->time = u64_min(sum->time, part->time);
		KEEP_MOST(longest_too_long)
		KEEP_MOST(longest_never_fitting)
		KEEP_MOST(longest_missed)
		KEEP_MOST(last_arrival_ns)
		KEEP_MOST(last_finish_ns)
		KEEP_MOST(measured_last_arrival_ns)
		KEEP_LEAST(first_arrival_ns)
		KEEP_LEAST(measured_first_arrival_ns)
#undef KEEP_MOST
#undef KEEP_LEAST
	}
}

/* ---- results ---- */

uint64_t metrics_result_hash(const struct metrics *metrics)
{
	if (metrics->hash == NULL) {
		return 0;
	}
	event_hash_flush(metrics->hash);
	return XXH64_digest(metrics->hash->state);
}

bool metrics_window(const struct metrics *metrics, uint64_t run_end_ns, struct run_sums *work,
	uint64_t *start_ns, uint64_t *end_ns)
{
	const struct window *window = &metrics->window;
	const struct window_edges *edges = &metrics->distributions->window;
	bool is_cut_short = metrics->measured_finished < metrics->measured_taken;
	bool ends_before = edges->is_partial && !is_cut_short;

	*work = (struct run_sums){0};
	*start_ns = *end_ns = 0;
	if (!edges->is_open) {
		return false;
	}
	*start_ns = edges->start_ns;
	*end_ns = is_cut_short ? u64_max(run_end_ns, edges->start_ns) : edges->end_ns;
	*work = run_sums_between(&window->before, ends_before ? &window->last : &metrics->work);
	run_sums_settle(work);
	return true;
}

void metrics_write_latency(const struct metrics *metrics, struct table_writer *table)
{
	for (uint32_t metric = 0; metric < LATENCY_COUNT; metric++) {
		const struct histogram *histogram = &metrics->distributions->latency[metric];
		for (uint32_t bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
			if (histogram->counts[bucket] == 0) {
				continue;
			}
			table_text(table, latency_names[metric]);
			table_u64(table, histogram_upper(bucket));
			table_u64(table, histogram->counts[bucket]);
			table_end_row(table);
		}
	}
}
