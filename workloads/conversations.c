#include "workloads/conversations.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"

#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

/* What a turn takes over from the one before. */
enum inherits {
	INHERITS_NOTHING,
	INHERITS_SPANS, /* the earlier completions in the whole blocks of the prompt before */
	INHERITS_ALL,	/* these and the completion of the turn before */
};

struct record {
	struct turn turn;
	enum inherits inherits;
	uint32_t input_length, output_length;
	uint32_t whole_blocks; /* of the prompt */
	uint32_t own_first;    /* the first position whose token is this row's own */
	uint64_t ids_hash;     /* of the ids of the whole blocks; 0 without ids */
	bool has_ids;
};

struct conversations {
	uint32_t trace_block_size;
	struct record *records; /* (record_count) */
	size_t record_count, record_capacity;
	size_t *session_names; /* (session_count): where in names */
	size_t session_count, session_capacity;
	char *names; /* each closed by a zero byte */
	size_t names_bytes, names_capacity;

	/* Name to latest turn: open addressing, a power of two of places, at most half full. */
	struct place_of_name {
		uint64_t hash;
		size_t name;	     /* where in names */
		uint64_t turn_index; /* NO_TURN: free */
	} * places;
	size_t place_count, used_count;

	struct token_span *spans;
	size_t span_capacity;
};

enum { PLACES_AT_START = 64 };

static struct place_of_name *places_take(size_t count)
{
	struct place_of_name *places = memory_take(count, sizeof(*places));

	for (size_t i = 0; i < count; i++) {
		places[i].turn_index = NO_TURN;
	}
	return places;
}

struct conversations *conversations_open(uint32_t trace_block_size)
{
	struct conversations *all = memory_take(1, sizeof(*all));

	all->trace_block_size = trace_block_size;
	all->place_count = PLACES_AT_START;
	all->places = places_take(all->place_count);
	return all;
}

void conversations_close(struct conversations *all)
{
	if (all == NULL) {
		return;
	}
	free(all->records);
	free(all->session_names);
	free(all->names);
	free(all->places);
	free(all->spans);
	free(all);
}

/* The place of a name, or the free one where it belongs. */
static struct place_of_name *find(const struct conversations *all, const char *name, uint64_t hash)
{
	size_t mask = all->place_count - 1;

	for (size_t i = (size_t)hash & mask;; i = (i + 1) & mask) {
		struct place_of_name *place = &all->places[i];
		if (place->turn_index == NO_TURN ||
			(place->hash == hash && strcmp(all->names + place->name, name) == 0)) {
			return place;
		}
	}
}

static void grow_places(struct conversations *all)
{
	struct place_of_name *old = all->places;
	size_t old_count = all->place_count;

	all->place_count *= 2;
	all->places = places_take(all->place_count);
	for (size_t i = 0; i < old_count; i++) {
		if (old[i].turn_index != NO_TURN) {
			*find(all, all->names + old[i].name, old[i].hash) = old[i];
		}
	}
	free(old);
}

static size_t keep_name(struct conversations *all, const char *name)
{
	size_t bytes = strlen(name) + 1;
	size_t at = all->names_bytes;

	all->names = memory_grow(all->names, &all->names_capacity, at + bytes, 1);
	memcpy(all->names + at, name, bytes);
	all->names_bytes += bytes;
	return at;
}

/* Lets a name mean a turn from now on; returns where the name is kept. */
static size_t name_turn(struct conversations *all, const char *name, uint64_t turn_index)
{
	uint64_t hash = XXH64(name, strlen(name), 0);
	struct place_of_name *place = find(all, name, hash);

	if (place->turn_index == NO_TURN) {
		if (2 * (all->used_count + 1) > all->place_count) {
			grow_places(all);
			place = find(all, name, hash);
		}
		place->hash = hash;
		place->name = keep_name(all, name);
		all->used_count++;
	}
	place->turn_index = turn_index;
	return place->name;
}

static uint64_t turn_of_name(const struct conversations *all, const char *name)
{
	return name == NULL ? NO_TURN : find(all, name, XXH64(name, strlen(name), 0))->turn_index;
}

static uint64_t hash_ids(const struct trace_row *row, uint32_t count)
{
	return XXH64(row->hash_ids, count * sizeof(*row->hash_ids), 0);
}

static enum inherits what_it_inherits(
	const struct conversations *all, const struct record *before, const struct trace_row *row)
{
	bool is_long_enough =
		row->input_length >= (uint64_t)before->input_length + before->output_length;

	if (row->prompt_ids != NULL || before->has_ids != (row->hash_ids != NULL)) {
		return INHERITS_NOTHING;
	}
	if (row->hash_ids == NULL) {
		return is_long_enough ? INHERITS_ALL : INHERITS_NOTHING;
	}
	check(all->trace_block_size > 0);
	if (row->hash_id_count < before->whole_blocks ||
		hash_ids(row, before->whole_blocks) != before->ids_hash) {
		return INHERITS_NOTHING;
	}
	return is_long_enough ? INHERITS_ALL : INHERITS_SPANS;
}

static void add_record(
	struct conversations *all, const struct trace_row *row, uint64_t parent, uint64_t session)
{
	struct record record = {
		.turn = {.row = row->index,
			.parent = parent,
			.session = session,
			.trace_arrival_ns = row->arrival_ns},
		.input_length = row->input_length,
		.output_length = row->output_length,
		.has_ids = row->hash_ids != NULL,
	};

	if (parent != NO_TURN) {
		const struct record *before = &all->records[parent];
		record.inherits = what_it_inherits(all, before, row);
		record.turn.depth = before->turn.depth + 1;
		if (record.inherits == INHERITS_ALL && !record.has_ids) {
			record.own_first = before->input_length + before->output_length;
		}
	}
	if (record.has_ids) {
		record.own_first = row->input_length;
		record.whole_blocks = row->input_length / all->trace_block_size;
		record.ids_hash = hash_ids(row, record.whole_blocks);
	}
	all->records = memory_grow(
		all->records, &all->record_capacity, all->record_count + 1, sizeof(*all->records));
	all->records[all->record_count++] = record;
}

/* Walks from the latest turn back to its first and notes what of each one's own words it holds. */
static void set_spans(struct conversations *all, struct trace_row *row)
{
	const struct record *record = &all->records[all->record_count - 1];
	uint64_t limit = row->input_length;
	uint32_t count = 0;

	while (record->inherits != INHERITS_NOTHING) {
		const struct record *before = &all->records[record->turn.parent];
		if (record->inherits == INHERITS_SPANS) {
			limit = u64_min(
				limit, (uint64_t)before->whole_blocks * all->trace_block_size);
		}
		uint64_t end =
			u64_min(limit, (uint64_t)before->input_length + before->output_length);
		if (record->inherits == INHERITS_ALL && before->own_first < end) {
			all->spans = memory_grow(
				all->spans, &all->span_capacity, count + 1, sizeof(*all->spans));
			all->spans[count++] = (struct token_span){before->turn.row,
				before->own_first, (uint32_t)(end - before->own_first)};
		}
		record = before;
	}
	row->spans = all->spans;
	row->span_count = count;
}

void conversations_add(struct conversations *all, struct trace_row *row)
{
	row->turn_index = NO_TURN;
	row->spans = NULL;
	row->span_count = 0;
	if (row->session == NULL) {
		return;
	}
	const char *name = row->turn != NULL ? row->turn : row->session;
	uint64_t parent = turn_of_name(all, row->turn != NULL ? row->parent : row->session);
	size_t name_at = name_turn(all, name, all->record_count);
	uint64_t session;
	if (parent != NO_TURN) {
		session = all->records[parent].turn.session;
	} else {
		all->session_names = memory_grow(all->session_names, &all->session_capacity,
			all->session_count + 1, sizeof(*all->session_names));
		session = all->session_count;
		all->session_names[all->session_count++] = name_at;
	}
	add_record(all, row, parent, session);
	row->turn_index = all->record_count - 1;
	row->session = all->names + all->session_names[session];
	set_spans(all, row);
}

uint64_t conversations_turn_count(const struct conversations *all)
{
	return all->record_count;
}

uint64_t conversations_session_count(const struct conversations *all)
{
	return all->session_count;
}

const struct turn *conversations_turn(const struct conversations *all, uint64_t turn_index)
{
	check(turn_index < all->record_count);
	return &all->records[turn_index].turn;
}
