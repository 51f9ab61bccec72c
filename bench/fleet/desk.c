#include "bench/fleet/desk.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- picking ---- */

/* Fills in what each replica has cached of the request; returns the most. */
static uint32_t find_cached(struct desk *desk, const struct parcel *parcel)
{
	uint32_t most = 0;

	for (uint32_t i = 0; i < desk->options.replica_count; i++) {
		struct replica_view *view = &desk->views[i];
		view->cached_blocks = engine_cached_prefix(
			desk->berths[i].engine, parcel->keys, parcel->prompt_block_count);
		most = view->is_open ? u32_max(most, view->cached_blocks) : most;
	}
	return most;
}

/* What one cache with all the memory would have found. */
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
	uint32_t most = desk->finds_cached ? find_cached(desk, parcel) : 0;
	uint32_t replica = router_pick(&desk->router, &request, desk->views);
	const uint64_t words[] = {parcel->row.index, replica};

	desk->regret_blocks += most - desk->views[replica].cached_blocks;
	if (desk->finds_cached) {
		note_whole(desk, parcel, now_ns);
	}
	XXH64_update(desk->decisions, words, sizeof(words));
	desk->picks++;
	return replica;
}

static void send(struct desk *desk, struct parcel *parcel, uint64_t now_ns, uint64_t *woken)
{
	uint32_t replica = pick(desk, parcel, now_ns);
	struct berth *berth = &desk->berths[replica];
	struct replica_view *view = &desk->views[replica];

	parcel->replica = replica;
	parcel->prefill_tokens =
		parcel->row.input_length - (uint64_t)view->cached_blocks * desk->options.block_size;
	view->requests++;
	view->waiting++;
	view->prefill_tokens += parcel->prefill_tokens;
	view->tokens += (uint64_t)parcel->row.input_length + parcel->row.output_length;
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

enum status desk_send_arrived(
	struct desk *desk, uint64_t now_ns, uint64_t *woken, struct error *error)
{
	struct trace_row row;

	for (;;) {
		TRY(workload_next(
			desk->workload, now_ns, &row, &desk->state, &desk->next_ns, error));
		if (desk->state != WORKLOAD_ROW) {
			return STATUS_OK;
		}
		send(desk, parcel_of(desk, &row), now_ns, woken);
	}
}

/* ---- on their way ---- */

struct parcel *desk_take(struct desk *desk, uint32_t replica)
{
	struct berth *berth = &desk->berths[replica];
	struct parcel *parcel = parcel_list_take(&berth->inbox);

	if (parcel != NULL && parcel == berth->unseen) {
		berth->unseen = parcel->next;
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

void desk_look(struct desk *desk, uint32_t replica)
{
	const struct berth *berth = &desk->berths[replica];
	struct replica_view *view = &desk->views[replica];

	view->waiting = engine_waiting_count(berth->engine) + berth->inbox.count;
	view->used_blocks = engine_used_block_count(berth->engine);
}

static void leave_prefill(struct desk *desk, struct parcel *parcel)
{
	if (!parcel->has_first_token) {
		parcel->has_first_token = true;
		desk->views[parcel->replica].prefill_tokens -= parcel->prefill_tokens;
	}
}

void desk_first_token(struct desk *desk, struct parcel *parcel)
{
	leave_prefill(desk, parcel);
}

void desk_finish(struct desk *desk, struct parcel *parcel, uint64_t now_ns)
{
	struct replica_view *view = &desk->views[parcel->replica];

	leave_prefill(desk, parcel);
	view->requests--;
	view->tokens -= (uint64_t)parcel->row.input_length + parcel->row.output_length;
	if (workload_is_closed(desk->workload)) {
		workload_finish(desk->workload, parcel->row.turn_index, now_ns);
	}
	free(parcel);
}

uint64_t desk_decisions_hash(const struct desk *desk)
{
	return XXH64_digest(desk->decisions);
}

/* ---- opening and closing ---- */

void desk_set_engine(struct desk *desk, uint32_t replica, const struct engine *engine)
{
	desk->berths[replica].engine = engine;
	desk->whole.capacity += engine_limits(engine)->kv_block_count;
	desk->views[replica].is_open = true;
	desk->views[replica].kv_blocks = engine_limits(engine)->kv_block_count;
	desk_look(desk, replica);
}

enum status desk_open(struct desk *desk, const struct desk_options *options, struct error *error)
{
	*desk = (struct desk){.options = *options, .state = WORKLOAD_ROW};
	desk->berths = memory_take(options->replica_count, sizeof(*desk->berths));
	desk->views = memory_take(options->replica_count, sizeof(*desk->views));
	desk->decisions = XXH64_createState();
	if (desk->decisions == NULL) {
		memory_exhausted(128); /* about the size of the state */
	}
	XXH64_reset(desk->decisions, 0);
	block_set_init(&desk->whole, 0, 0);
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
