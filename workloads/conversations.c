#include "workloads/conversations.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/map.h"
#include "engine/base/memory.h"

#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

struct record {
	struct turn turn;
	uint32_t inherited_count; /* leading tokens taken over from the preceding turn */
	uint32_t input_length, output_length;
	uint32_t whole_blocks; /* of the prompt */
	uint32_t own_first;    /* first token of its own that no hash id of a follow-up covers */
	uint64_t ids_hash;     /* hash of the ids of the whole blocks; 0 without ids */
	uint64_t rest_id;      /* id of the partial block that ends the prompt, if has_rest_id */
	bool has_ids, has_rest_id;
};

/* The latest turn of a name. */
struct named_turn {
	size_t name; /* offset in names */
	uint64_t turn_index;
};

struct conversations {
	uint32_t trace_block_size;
	struct record *records; /* (record_count) */
	size_t record_count, record_capacity;
	size_t *session_names; /* (session_count): offsets in names */
	size_t session_count, session_capacity;
	char *names; /* each closed by a zero byte */
	size_t names_bytes, names_capacity;

	struct named_turn *named; /* (named_count) */
	size_t named_count, named_capacity;
	struct map by_name; /* from a name's hash to its index in named */

	struct token_span *spans;
	size_t span_capacity;
};

struct conversations *conversations_open(uint32_t trace_block_size)
{
	struct conversations *all = memory_take(1, sizeof(*all));

	all->trace_block_size = trace_block_size;
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
	free(all->named);
	map_deinit(&all->by_name);
	free(all->spans);
	free(all);
}

/* NULL: the name is new. *key: its key in by_name, or the one that it would get. */
static struct named_turn *find_name(
	const struct conversations *all, const char *name, uint64_t *key)
{
	*key = XXH64(name, strlen(name), 0);
	for (;; (*key)++) {
		const uint64_t *index = map_find(&all->by_name, *key);
		if (index == NULL) {
			return NULL;
		}
		if (strcmp(all->names + all->named[*index].name, name) == 0) {
			return &all->named[*index];
		}
	}
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

/* Maps a name to a turn, in place of an older one; returns the name's offset in names. */
static size_t name_turn(struct conversations *all, const char *name, uint64_t turn_index)
{
	uint64_t key;
	struct named_turn *named = find_name(all, name, &key);

	if (named == NULL) {
		map_add(&all->by_name, key, all->named_count);
		all->named = memory_grow(all->named, &all->named_capacity, all->named_count + 1,
			sizeof(*all->named));
		named = &all->named[all->named_count++];
		named->name = keep_name(all, name);
	}
	named->turn_index = turn_index;
	return named->name;
}

static uint64_t turn_of_name(const struct conversations *all, const char *name)
{
	uint64_t key;
	const struct named_turn *named = name == NULL ? NULL : find_name(all, name, &key);

	return named == NULL ? NO_TURN : named->turn_index;
}

static uint64_t hash_ids(const struct trace_row *row, uint32_t count)
{
	return XXH64(row->hash_ids, count * sizeof(*row->hash_ids), 0);
}

/* How many leading tokens a row takes over from the preceding turn: its whole prompt and
   completion, or the part of its prompt that has the same ids. */
static uint32_t count_inherited(
	const struct conversations *all, const struct record *before, const struct trace_row *row)
{
	uint32_t whole = before->whole_blocks;
	uint32_t words = before->input_length + before->output_length;

	if (row->prompt_ids != NULL || before->has_ids != (row->hash_ids != NULL)) {
		return 0;
	}
	if (row->hash_ids == NULL) {
		return row->input_length >= words ? words : 0;
	}
	check(all->trace_block_size > 0);
	if (row->hash_id_count < whole || hash_ids(row, whole) != before->ids_hash) {
		return 0;
	}
	if (row->input_length >= words) {
		return words;
	}
	bool is_same_rest = before->has_rest_id && row->hash_id_count > whole &&
			    row->hash_ids[whole] == before->rest_id;
	return u32_min(row->input_length,
		is_same_rest ? before->input_length : whole * all->trace_block_size);
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
		record.inherited_count = count_inherited(all, before, row);
		record.turn.depth = before->turn.depth + 1;
	}
	if (record.has_ids) {
		record.whole_blocks = row->input_length / all->trace_block_size;
		record.ids_hash = hash_ids(row, record.whole_blocks);
		record.has_rest_id = row->hash_id_count > record.whole_blocks;
		record.rest_id = record.has_rest_id ? row->hash_ids[record.whole_blocks] : 0;
	}
	all->records = memory_grow(
		all->records, &all->record_capacity, all->record_count + 1, sizeof(*all->records));
	all->records[all->record_count++] = record;
}

static void add_span(
	struct conversations *all, uint32_t *count, struct token_span span, uint64_t limit)
{
	if (span.first >= limit || span.count == 0) {
		return;
	}
	span.count = (uint32_t)u64_min(span.count, limit - span.first);
	all->spans = memory_grow(all->spans, &all->span_capacity, *count + 1, sizeof(*all->spans));
	all->spans[(*count)++] = span;
}

/* The tokens of a turn that no hash id of its follow-ups covers: from the end of its whole blocks,
   or of what it inherited, to the end of its completion. The last span is added first. */
static void add_own_words(
	struct conversations *all, uint32_t *count, const struct record *record, uint64_t limit)
{
	uint32_t end = record->input_length + record->output_length;
	uint32_t first = record->own_first;

	uint32_t words_first = record->has_rest_id ? record->input_length : first;
	struct token_span words = {
		.source = record->turn.row, .first = words_first, .count = end - words_first};
	add_span(all, count, words, limit);
	if (record->has_rest_id) {
		struct token_span rest = {
			.source = record->rest_id,
			.first = first,
			.count = record->input_length - first,
			.origin = record->whole_blocks * all->trace_block_size,
			.is_block = true,
		};
		add_span(all, count, rest, limit);
	}
}

/* Walks from the latest turn back to the first. Adds a span for each turn's own tokens in it, and
   turns the list round. */
static void set_spans(struct conversations *all, struct trace_row *row)
{
	const struct record *record = &all->records[all->record_count - 1];
	uint64_t limit = row->input_length;
	uint32_t count = 0;

	while (record->inherited_count > 0) {
		limit = u64_min(limit, record->inherited_count);
		record = &all->records[record->turn.parent];
		add_own_words(all, &count, record, limit);
	}
	for (uint32_t i = 0; i < count / 2; i++) {
		struct token_span moved = all->spans[i];
		all->spans[i] = all->spans[count - 1 - i];
		all->spans[count - 1 - i] = moved;
	}
	row->spans = all->spans;
	row->span_count = count;
}

/* Behind the whole blocks and the spans. A prompt may end inside the last whole block of the one
   before: then the id of its last block says what no span does. */
static void set_own_first(struct conversations *all, const struct trace_row *row)
{
	struct record *record = &all->records[all->record_count - 1];
	uint32_t blocks_end = record->whole_blocks * all->trace_block_size, spans_end = 0;

	if (row->span_count > 0) {
		const struct token_span *last = &row->spans[row->span_count - 1];
		spans_end = last->first + last->count;
	}
	record->own_first = u32_max(blocks_end, spans_end);
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
	set_own_first(all, row);
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
