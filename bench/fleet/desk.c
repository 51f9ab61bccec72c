#include "bench/fleet/desk.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- picking ---- */

/* The most that any open replica has cached of the request that was looked up. */
static uint32_t most_cached(const struct desk *desk)
{
	uint32_t most = 0;

	for (uint32_t i = 0; i < desk->options.replica_count; i++) {
		const struct replica_view *view = &desk->views[i];
		most = view->is_open ? u32_max(most, view->cached_blocks) : most;
	}
	return most;
}

/* What one cache with all the memory would have found of a request that is taken. */
static void note_whole(struct desk *desk, const struct parcel *parcel, uint64_t now_ns)
{
	uint32_t count = parcel->prompt_block_count;
	uint32_t hits = block_set_match(&desk->whole, parcel->keys, count, now_ns);

	desk->whole_hit_tokens += (uint64_t)hits * desk->options.block_size;
	desk->whole_query_tokens += parcel->row.input_length;
	block_set_add(&desk->whole, parcel->keys, parcel->key_count, now_ns);
}

static uint32_t pick(struct desk *desk, const struct parcel *parcel, uint64_t now_ns)
{
	const struct router_request request = {
		.now_ns = now_ns,
		.session = parcel->session,
		.has_session = parcel->row.session != NULL,
		.prompt_tokens = parcel->row.input_length,
		.block_size = desk->options.block_size,
		.blocks = parcel->keys,
		.block_count = parcel->prompt_block_count,
	};

	sight_look(&desk->sight, desk->finds_cached ? parcel : NULL, now_ns);
	uint32_t replica = router_pick(&desk->router, &request, desk->sight.seen);
	const uint64_t words[] = {parcel->row.index, replica};

	if (desk->finds_cached) {
		desk->regret_blocks += most_cached(desk) - desk->views[replica].cached_blocks;
	}
	XXH64_update(desk->decisions, words, sizeof(words));
	desk->picks++;
	return replica;
}

/* Whether it takes requests, and what the router may see of that. */
static void update(struct desk *desk, uint32_t replica, uint64_t now_ns)
{
	struct replica_view *view = &desk->views[replica];
	uint32_t limit = desk->options.replica_limit;
	bool was_open = view->is_open;

	view->is_open = desk->berths[replica].is_up && (limit == 0 || view->requests < limit);
	desk->open_count += view->is_open;
	desk->open_count -= was_open;
	sight_note(&desk->sight, replica, view, now_ns);
}

static void send(struct desk *desk, struct parcel *parcel, uint64_t now_ns, uint64_t *woken)
{
	uint32_t replica = pick(desk, parcel, now_ns);
	uint32_t block_size = desk->options.block_size;
	struct berth *berth = &desk->berths[replica];
	struct replica_view *view = &desk->views[replica];

	parcel->replica = replica;
	parcel->sent_ns = now_ns;
	parcel->fits = engine_config_fit(engine_limits(berth->engine), parcel->row.input_length,
			       parcel->row.output_length) == FIT_OK;
	berth->fit_count += parcel->fits;
	if (desk->finds_cached && parcel->fits && parcel->retry_count == 0) {
		note_whole(desk, parcel, now_ns);
	}
	parcel->prefill_tokens = parcel->row.input_length -
				 (uint64_t)desk->sight.seen[replica].cached_blocks * block_size;
	view->requests++;
	view->waiting++;
	view->prefill_tokens += parcel->prefill_tokens;
	view->tokens += (uint64_t)parcel->row.input_length + parcel->row.output_length;
	sight_sent(&desk->sight, parcel, block_size, now_ns);
	update(desk, replica, now_ns);
	parcel_list_push(&berth->inbox, parcel);
	if (berth->unseen == NULL) {
		berth->unseen = parcel;
	}
	woken[replica / 64] |= UINT64_C(1) << (replica % 64);
}

/* ---- arrivals ---- */

/* Keys of the prompt's full blocks as the engines make them from its tokens. */
static uint32_t keys_of_tokens(struct desk *desk, const struct trace_row *row)
{
	uint32_t block_size = desk->options.block_size;
	uint32_t count = row->input_length / block_size;
	struct block_key key = {0, 0};

	desk->prompt = memory_grow(
		desk->prompt, &desk->prompt_capacity, row->input_length, sizeof(*desk->prompt));
	desk->prompt_keys = memory_grow(
		desk->prompt_keys, &desk->prompt_key_capacity, count, sizeof(*desk->prompt_keys));
	tokens_prompt(&desk->tokens, row, desk->prompt);
	for (uint32_t i = 0; i < count; i++) {
		key = block_key_of_tokens(key, desk->prompt + (size_t)i * block_size, block_size);
		desk->prompt_keys[i] = key;
	}
	return count;
}

static struct parcel *parcel_of(struct desk *desk, const struct trace_row *row)
{
	bool needs_tokens = desk->options.needs_tokens;
	uint32_t block_size = desk->options.block_size;
	uint64_t tokens = (uint64_t)row->input_length + row->output_length;
	const struct block_key *keys = NULL;
	uint32_t key_count = 0;

	if (!needs_tokens) {
		keys = block_keys_of(&desk->keys, row);
		key_count = (uint32_t)(tokens / block_size);
	} else if (desk->finds_cached) {
		key_count = keys_of_tokens(desk, row);
		keys = desk->prompt_keys;
	}
	struct parcel *parcel = parcel_of_row(row, keys, key_count, needs_tokens);
	/* The last token of a prompt is always computed. */
	parcel->prompt_block_count = u32_min((row->input_length - 1) / block_size, key_count);
	desk->has_prompt_ids = desk->has_prompt_ids || row->hash_ids != NULL ||
			       row->prompt_ids != NULL || row->span_count > 0;
	return parcel;
}

static bool can_be_taken(const struct desk *desk, const struct trace_row *row)
{
	for (uint32_t i = 0; i < desk->options.replica_count; i++) {
		if (engine_config_fit(engine_limits(desk->berths[i].engine), row->input_length,
			    row->output_length) == FIT_OK) {
			return true;
		}
	}
	return false;
}

/* Notes the first measured request that will not be rejected. Of one that waits at the router it
   is not known which replica will get it, so any that can take it will do. */
static void note_measured(struct desk *desk, const struct parcel *parcel, bool is_sent)
{
	const struct trace_row *row = &parcel->row;

	if (row->index >= desk->warmup &&
		(desk->measured_end == 0 || row->index < desk->measured_end) &&
		(is_sent ? parcel->fits : can_be_taken(desk, row))) {
		desk->has_measured = true;
		desk->first_measured_ns = row->arrival_ns;
	}
}

/* A request that has just arrived: sent, put behind those that wait, or refused. */
static void receive(struct desk *desk, struct parcel *parcel, uint64_t now_ns, uint64_t *woken)
{
	if (!desk->has_arrival) {
		desk->has_arrival = true;
		desk->first_arrival_ns = parcel->row.arrival_ns;
	}
	bool is_sent = desk->open_count > 0 && desk->queue.count == 0;
	bool is_refused = !is_sent && desk->options.has_queue_limit &&
			  desk->queue.count >= desk->options.queue_limit;
	if (is_sent) {
		send(desk, parcel, now_ns, woken);
	} else if (is_refused) {
		parcel_list_push(&desk->refused, parcel);
		if (workload_is_closed(desk->workload)) {
			workload_finish(desk->workload, parcel->row.turn_index, now_ns);
			desk->has_finish = true;
		}
	} else {
		parcel_list_push(&desk->queue, parcel);
	}
	if (!desk->has_measured && !is_refused) {
		note_measured(desk, parcel, is_sent);
	}
}

enum status desk_send_arrived(
	struct desk *desk, uint64_t now_ns, uint64_t *woken, struct error *error)
{
	struct trace_row row;

	for (;;) {
		while (desk->open_count > 0 && desk->queue.count > 0) {
			send(desk, parcel_list_take(&desk->queue), now_ns, woken);
		}
		if (desk->state == WORKLOAD_LATER && now_ns < desk->next_ns && !desk->has_finish) {
			return STATUS_OK; /* nothing can have arrived */
		}
		desk->has_finish = false;
		TRY(workload_next(
			desk->workload, now_ns, &row, &desk->state, &desk->next_ns, error));
		if (desk->state != WORKLOAD_ROW) {
			return STATUS_OK;
		}
		receive(desk, parcel_of(desk, &row), now_ns, woken);
	}
}

/* ---- on their way ---- */

struct parcel *desk_take(struct desk *desk, uint32_t replica)
{
	struct berth *berth = &desk->berths[replica];
	struct parcel *parcel = parcel_list_take(&berth->inbox);

	if (parcel != NULL) {
		berth->unseen = parcel == berth->unseen ? parcel->next : berth->unseen;
		berth->fit_count -= parcel->fits;
	}
	return parcel;
}

uint32_t desk_newly_waiting(struct desk *desk, uint32_t replica, struct parcel **first)
{
	struct berth *berth = &desk->berths[replica];
	uint32_t count = 0;

	*first = berth->unseen;
	for (struct parcel *parcel = berth->unseen; parcel != NULL; parcel = parcel->next) {
		parcel->is_awaited = true;
		count++;
	}
	berth->unseen = NULL;
	return count;
}

uint64_t desk_waiting_at_replica(const struct desk *desk, uint32_t replica)
{
	const struct berth *berth = &desk->berths[replica];

	return (uint64_t)engine_waiting_count(berth->engine) + berth->fit_count;
}

uint64_t desk_waiting_at_router(const struct desk *desk)
{
	uint64_t count = 0;

	for (const struct parcel *at = desk->queue.head; at != NULL; at = at->next) {
		count += can_be_taken(desk, &at->row);
	}
	return count;
}

void desk_look(struct desk *desk, uint32_t replica, uint64_t now_ns)
{
	const struct berth *berth = &desk->berths[replica];
	struct replica_view *view = &desk->views[replica];

	view->waiting = engine_waiting_count(berth->engine) + berth->inbox.count;
	view->used_blocks = engine_used_block_count(berth->engine);
	update(desk, replica, now_ns);
}

static void leave_prefill(struct desk *desk, struct parcel *parcel)
{
	if (!parcel->has_first_token) {
		parcel->has_first_token = true;
		desk->views[parcel->replica].prefill_tokens -= parcel->prefill_tokens;
		sight_first_token(&desk->sight, parcel);
	}
}

void desk_first_token(struct desk *desk, struct parcel *parcel, uint64_t now_ns)
{
	leave_prefill(desk, parcel);
	update(desk, parcel->replica, now_ns);
}

/* A replica can work while it takes requests or has any. */
static void note_presence(struct desk *desk, uint32_t replica, uint64_t now_ns)
{
	if (desk->berths[replica].is_up || desk->views[replica].requests > 0) {
		presence_begin(&desk->presence, replica, now_ns);
	} else {
		presence_end(&desk->presence, replica, now_ns);
	}
}

/* A parcel is no longer its replica's. */
static void leave(struct desk *desk, struct parcel *parcel)
{
	struct replica_view *view = &desk->views[parcel->replica];

	leave_prefill(desk, parcel);
	sight_finished(&desk->sight, parcel, desk->options.block_size);
	view->requests--;
	view->tokens -= (uint64_t)parcel->row.input_length + parcel->row.output_length;
}

void desk_finish(struct desk *desk, struct parcel *parcel, uint64_t now_ns)
{
	leave(desk, parcel);
	update(desk, parcel->replica, now_ns);
	if (!desk->berths[parcel->replica].is_up) {
		note_presence(desk, parcel->replica, now_ns);
	}
	if (workload_is_closed(desk->workload)) {
		workload_finish(desk->workload, parcel->row.turn_index, now_ns);
		desk->has_finish = true;
	}
	free(parcel);
}

/* ---- replicas that come and go ---- */

void desk_set_up(struct desk *desk, uint32_t replica, bool is_up, uint64_t now_ns)
{
	desk->berths[replica].is_up = is_up;
	note_presence(desk, replica, now_ns);
	update(desk, replica, now_ns);
}

static int compare_rows(const void *a, const void *b)
{
	const struct parcel *first = *(struct parcel *const *)a;
	const struct parcel *second = *(struct parcel *const *)b;

	return (first->row.index > second->row.index) - (first->row.index < second->row.index);
}

void desk_fail(struct desk *desk, uint32_t replica, struct parcel **lost, uint32_t lost_count,
	uint64_t now_ns)
{
	struct berth *berth = &desk->berths[replica];
	const struct parcel_list behind = desk->queue;
	uint32_t count = lost_count + berth->inbox.count;
	struct parcel **all = memory_take(count, sizeof(struct parcel *));

	memcpy(all, lost, lost_count * sizeof(struct parcel *));
	for (uint32_t i = lost_count; i < count; i++) {
		all[i] = parcel_list_take(&berth->inbox);
	}
	berth->unseen = NULL;
	berth->fit_count = 0;
	qsort(all, count, sizeof(struct parcel *), compare_rows);
	desk->queue = (struct parcel_list){0};
	for (uint32_t i = 0; i < count; i++) {
		leave(desk, all[i]);
		all[i]->since_ns = all[i]->fits ? now_ns : all[i]->since_ns;
		all[i]->has_first_token = false;
		all[i]->is_awaited = false;
		all[i]->retry_count++;
		parcel_list_push(&desk->queue, all[i]);
	}
	desk->retries += count;
	free(all);
	parcel_list_join(&desk->queue, &behind);
	sight_set_engine(&desk->sight, replica, berth->engine);
	router_forget(&desk->router, replica);
	desk_set_up(desk, replica, false, now_ns);
}

uint64_t desk_decisions_hash(const struct desk *desk)
{
	return XXH64_digest(desk->decisions);
}

/* ---- opening and closing ---- */

/* Whether a replica's first event is a join. */
static bool joins_later(const struct desk *desk, uint32_t replica)
{
	for (uint32_t i = 0; i < desk->outages.count; i++) {
		if (desk->outages.list[i].replica == replica) {
			return desk->outages.list[i].kind == OUTAGE_JOIN;
		}
	}
	return false;
}

void desk_set_engine(struct desk *desk, uint32_t replica, struct engine *engine)
{
	desk->berths[replica].engine = engine;
	desk->berths[replica].is_up = !joins_later(desk, replica);
	desk->whole.capacity += engine_limits(engine)->kv_block_count;
	desk->views[replica].kv_blocks = engine_limits(engine)->kv_block_count;
	sight_set_engine(&desk->sight, replica, engine);
	note_presence(desk, replica, 0);
	desk_look(desk, replica, 0);
}

enum status desk_open(struct desk *desk, const struct desk_options *options, struct error *error)
{
	*desk = (struct desk){.options = *options, .state = WORKLOAD_ROW};
	desk->berths = memory_take(options->replica_count, sizeof(*desk->berths));
	desk->views = memory_take(options->replica_count, sizeof(*desk->views));
	presence_open(&desk->presence, options->replica_count);
	desk->decisions = memory_take_hash();
	block_set_init(&desk->whole, 0, 0);
	enum sight_kind kind;
	uint64_t delay_ns;
	TRY(sight_parse(options->view, &kind, &delay_ns, error));
	sight_init(
		&desk->sight, kind, delay_ns, options->router, desk->views, options->replica_count);
	TRY(outages_parse(&desk->outages, options->outages, options->replica_count, error));
	TRY(router_open(&desk->router, options->router, options->router_options,
		options->replica_count, options->seed, error));
	desk->finds_cached =
		options->router->wants_blocks || options->replica_count <= DESK_REGRET_REPLICAS;
	TRY(workload_open(&desk->workload, options->trace_path, options->workload, error));
	desk->tokens = (struct token_source){
		.seed = options->seed,
		.vocab_size = u32_min(options->vocab_size, TOKEN_VOCABULARY_LIMIT),
		.trace_block_size = trace_block_size(workload_trace(desk->workload)),
	};
	block_keys_init(&desk->keys, &desk->tokens, options->block_size);
	return STATUS_OK;
}

void desk_close(struct desk *desk)
{
	for (uint32_t i = 0; desk->berths != NULL && i < desk->options.replica_count; i++) {
		parcel_list_clear(&desk->berths[i].inbox);
	}
	parcel_list_clear(&desk->queue);
	parcel_list_clear(&desk->refused);
	sight_deinit(&desk->sight);
	outages_close(&desk->outages);
	presence_close(&desk->presence);
	free(desk->berths);
	free(desk->views);
	free(desk->prompt);
	free(desk->prompt_keys);
	block_set_deinit(&desk->whole);
	XXH64_freeState(desk->decisions);
	router_close(&desk->router);
	workload_close(desk->workload);
	block_keys_deinit(&desk->keys);
	memset(desk, 0, sizeof(*desk));
}
