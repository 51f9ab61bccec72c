#include "bench/fleet/parcel.h"

#include "engine/base/memory.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* Copies `bytes` bytes to *at, which moves behind them; NULL stays NULL. Sizes are multiples of 8
   but for the last copy. */
static void *copy(char **at, const void *from, size_t bytes)
{
	char *to = *at;

	if (from == NULL) {
		return NULL;
	}
	memcpy(to, from, bytes);
	*at += bytes;
	return to;
}

struct parcel *parcel_of_row(const struct trace_row *row, const struct block_key *keys,
	uint32_t key_count, bool needs_ids)
{
	size_t key_bytes = keys == NULL ? 0 : key_count * sizeof(*keys);
	size_t hash_bytes = needs_ids ? row->hash_id_count * sizeof(*row->hash_ids) : 0;
	size_t prompt_bytes =
		row->prompt_ids != NULL && needs_ids ? row->input_length * sizeof(uint64_t) : 0;
	size_t output_bytes =
		row->output_ids != NULL && needs_ids ? row->output_length * sizeof(uint64_t) : 0;
	size_t span_bytes = needs_ids ? row->span_count * sizeof(*row->spans) : 0;
	size_t session_bytes = row->session == NULL ? 0 : strlen(row->session) + 1;
	char *memory =
		memory_take_uncleared(sizeof(struct parcel) + key_bytes + hash_bytes +
				      prompt_bytes + output_bytes + span_bytes + session_bytes);
	struct parcel *parcel = (struct parcel *)(void *)memory;

	*parcel = (struct parcel){.row = *row, .key_count = key_count, .since_ns = row->arrival_ns};
	memory += sizeof(*parcel);
	parcel->keys = copy(&memory, keys, key_bytes);
	parcel->row.hash_ids = copy(&memory, needs_ids ? row->hash_ids : NULL, hash_bytes);
	parcel->row.prompt_ids = copy(&memory, needs_ids ? row->prompt_ids : NULL, prompt_bytes);
	parcel->row.output_ids = copy(&memory, needs_ids ? row->output_ids : NULL, output_bytes);
	parcel->row.spans = copy(&memory, needs_ids ? row->spans : NULL, span_bytes);
	parcel->row.session = copy(&memory, row->session, session_bytes);
	/* Rows are followed by their turn_index from here on. */
	parcel->row.turn = NULL;
	parcel->row.parent = NULL;
	if (row->session != NULL) {
		parcel->session = XXH64(row->session, session_bytes - 1, 0);
	}
	return parcel;
}

void parcel_list_push(struct parcel_list *list, struct parcel *parcel)
{
	parcel->next = NULL;
	if (list->tail == NULL) {
		list->head = parcel;
	} else {
		list->tail->next = parcel;
	}
	list->tail = parcel;
	list->count++;
}

struct parcel *parcel_list_take(struct parcel_list *list)
{
	struct parcel *parcel = list->head;

	if (parcel != NULL) {
		list->head = parcel->next;
		list->tail = list->head == NULL ? NULL : list->tail;
		list->count--;
	}
	return parcel;
}

void parcel_list_join(struct parcel_list *list, const struct parcel_list *behind)
{
	if (behind->count == 0) {
		return;
	}
	*(list->tail == NULL ? &list->head : &list->tail->next) = behind->head;
	list->tail = behind->tail;
	list->count += behind->count;
}

void parcel_list_clear(struct parcel_list *list)
{
	struct parcel *parcel;

	while ((parcel = parcel_list_take(list)) != NULL) {
		free(parcel);
	}
}
