#include "bench/fleet/sight.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "engine/base/number.h"

#include <stdlib.h>
#include <string.h>

/* ---- rings ---- */

/* Room for one element more: a buffer of twice the size with the elements from its beginning. */
static void *ring_grow(void *ring, size_t size, size_t *first, size_t count, size_t *capacity)
{
	size_t grown = *capacity == 0 ? 16 : 2 * *capacity;
	char *to = memory_take(grown, size);

	for (size_t i = 0; i < count; i++) {
		memcpy(to + i * size, (char *)ring + (*first + i) % *capacity * size, size);
	}
	free(ring);
	*first = 0;
	*capacity = grown;
	return to;
}

static void add_past(struct sight_one *one, const struct replica_view *view, uint64_t now_ns)
{
	if (one->past_count > 0) {
		size_t last = (one->past_first + one->past_count - 1) % one->past_capacity;
		if (one->past[last].time_ns == now_ns) {
			one->past[last].view = *view;
			return;
		}
	}
	if (one->past_count == one->past_capacity) {
		one->past = ring_grow(one->past, sizeof(*one->past), &one->past_first,
			one->past_count, &one->past_capacity);
	}
	size_t at = (one->past_first + one->past_count++) % one->past_capacity;
	one->past[at] = (struct sight_past){.time_ns = now_ns, .view = *view};
}

static void add_change(struct sight_one *one, const struct block_change *change, uint64_t now_ns)
{
	if (one->change_count == one->change_capacity) {
		one->changes = ring_grow(one->changes, sizeof(*one->changes), &one->change_first,
			one->change_count, &one->change_capacity);
	}
	size_t at = (one->change_first + one->change_count++) % one->change_capacity;
	one->changes[at] = (struct sight_change){.time_ns = now_ns, .change = *change};
}

/* ---- what happens ---- */

void sight_note(
	struct sight *sight, uint32_t replica, const struct replica_view *view, uint64_t now_ns)
{
	struct sight_one *one = &sight->each[replica];

	if (sight->kind != SIGHT_DELAYED) {
		return;
	}
	add_past(one, view, now_ns);
	for (size_t i = 0; i < one->log.count; i++) {
		add_change(one, &one->log.changes[i], now_ns);
	}
	one->log.count = 0;
}

static uint64_t prompt_blocks(const struct parcel *parcel, uint32_t block_size)
{
	return u64_divide_up(parcel->row.input_length, block_size);
}

void sight_sent(
	struct sight *sight, const struct parcel *parcel, uint32_t block_size, uint64_t now_ns)
{
	struct sight_one *one = &sight->each[parcel->replica];

	if (sight->kind != SIGHT_OWN) {
		return;
	}
	if (sight->has_blocks) {
		block_set_add(&one->blocks, parcel->keys, parcel->prompt_block_count, now_ns);
	}
	one->own_blocks += prompt_blocks(parcel, block_size);
	one->own_waiting++;
}

void sight_first_token(struct sight *sight, const struct parcel *parcel)
{
	sight->each[parcel->replica].own_waiting -= sight->kind == SIGHT_OWN;
}

void sight_finished(struct sight *sight, const struct parcel *parcel, uint32_t block_size)
{
	if (sight->kind == SIGHT_OWN) {
		sight->each[parcel->replica].own_blocks -= prompt_blocks(parcel, block_size);
	}
}

/* ---- looking ---- */

/* Moves on to what was at then_ns. */
static void catch_up(struct sight_one *one, uint64_t then_ns)
{
	while (one->past_count > 1) {
		size_t next = (one->past_first + 1) % one->past_capacity;
		if (one->past[next].time_ns > then_ns) {
			break;
		}
		one->past_first = next;
		one->past_count--;
	}
	while (one->change_count > 0 && one->changes[one->change_first].time_ns <= then_ns) {
		const struct block_change *change = &one->changes[one->change_first].change;
		if (change->is_added) {
			block_set_add(&one->blocks, &change->key, 1, 0);
		} else {
			block_set_remove(&one->blocks, change->key);
		}
		one->change_first = (one->change_first + 1) % one->change_capacity;
		one->change_count--;
	}
}

static void look_at_one(struct sight *sight, uint32_t replica, uint64_t now_ns)
{
	struct sight_one *one = &sight->each[replica];
	const struct replica_view *view = &sight->views[replica];
	struct replica_view *seen = &sight->seen[replica];

	*seen = *view;
	if (sight->kind == SIGHT_DELAYED) {
		/* Before the delay has passed for the first time, it is seen as it began. */
		catch_up(one, now_ns < sight->delay_ns ? 0 : now_ns - sight->delay_ns);
		if (one->past_count > 0) {
			*seen = one->past[one->past_first].view;
		}
	} else if (sight->kind == SIGHT_OWN) {
		seen->waiting = one->own_waiting;
		seen->used_blocks = (uint32_t)u64_min(one->own_blocks, view->kv_blocks);
	}
	seen->is_open = view->is_open;
}

/* What a replica has cached of a parcel, and what the router takes for cached. */
static void look_for_blocks(
	struct sight *sight, uint32_t replica, const struct parcel *parcel, uint64_t now_ns)
{
	const struct sight_one *one = &sight->each[replica];
	struct replica_view *view = &sight->views[replica], *seen = &sight->seen[replica];
	uint32_t count = parcel->prompt_block_count, known = 0, held;

	if (sight->kind == SIGHT_EXACT) {
		known = count;
	} else if (sight->has_blocks) {
		known = block_set_match(&one->blocks, parcel->keys, count, now_ns);
	}
	view->cached_blocks = engine_cached_prefix(
		one->engine, parcel->keys, count, sight->has_held ? known : 0, &held);
	seen->cached_blocks = sight->kind == SIGHT_EXACT ? view->cached_blocks : known;
	seen->held_blocks = held;
}

void sight_look(struct sight *sight, const struct parcel *parcel, uint64_t now_ns)
{
	for (uint32_t i = 0; i < sight->replica_count && sight->kind != SIGHT_EXACT; i++) {
		look_at_one(sight, i, now_ns);
	}
	for (uint32_t i = 0; i < sight->replica_count && parcel != NULL; i++) {
		look_for_blocks(sight, i, parcel, now_ns);
	}
}

/* ---- opening and closing ---- */

enum status sight_parse(
	const char *text, enum sight_kind *kind, uint64_t *delay_ns, struct error *error)
{
	static const char prefix[] = "delayed:";
	size_t bytes = sizeof(prefix) - 1;

	*delay_ns = 0;
	if (strcmp(text, "exact") == 0) {
		*kind = SIGHT_EXACT;
		return STATUS_OK;
	}
	if (strcmp(text, "own") == 0) {
		*kind = SIGHT_OWN;
		return STATUS_OK;
	}
	*kind = SIGHT_DELAYED;
	/* Millionths of a millisecond are nanoseconds. */
	if (strncmp(text, prefix, bytes) == 0 && text_to_millionths(text + bytes, delay_ns) &&
		*delay_ns <= UINT64_C(1000000) * 1000000000) {
		return STATUS_OK;
	}
	return error_set(error, STATUS_USAGE,
		"--router-view: found '%.64s', expected exact, own or delayed:MS with at most "
		"1000000000 ms",
		text);
}

void sight_init(struct sight *sight, enum sight_kind kind, uint64_t delay_ns,
	const struct router_kind *router, struct replica_view *views, uint32_t replica_count)
{
	*sight = (struct sight){.kind = kind,
		.delay_ns = delay_ns,
		.has_blocks = router->wants_blocks,
		.has_held = router->wants_held,
		.replica_count = replica_count,
		.views = views,
		.seen = views};
	sight->each = memory_take(replica_count, sizeof(*sight->each));
	if (kind != SIGHT_EXACT) {
		sight->seen = memory_take(replica_count, sizeof(*sight->seen));
	}
}

void sight_deinit(struct sight *sight)
{
	for (uint32_t i = 0; i < sight->replica_count; i++) {
		struct sight_one *one = &sight->each[i];
		block_set_deinit(&one->blocks);
		free(one->log.changes);
		free(one->past);
		free(one->changes);
	}
	free(sight->each);
	if (sight->kind != SIGHT_EXACT) {
		free(sight->seen);
	}
	memset(sight, 0, sizeof(*sight));
}

void sight_set_engine(struct sight *sight, uint32_t replica, struct engine *engine)
{
	struct sight_one *one = &sight->each[replica];

	one->engine = engine;
	block_set_deinit(&one->blocks);
	block_set_init(&one->blocks,
		sight->kind == SIGHT_OWN ? engine_limits(engine)->kv_block_count : 0, 0);
	one->log.count = 0;
	one->change_count = 0;
	if (sight->kind == SIGHT_DELAYED && sight->has_blocks) {
		engine_set_block_log(engine, &one->log);
	}
}
