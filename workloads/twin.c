#include "workloads/twin.h"

#include "engine/base/memory.h"

#include <inttypes.h>
#include <stdlib.h>

#include <xxhash.h>

void twin_deinit(struct twin *twin)
{
	text_deinit(&twin->session);
	text_deinit(&twin->turn);
	text_deinit(&twin->parent);
	free(twin->hash_ids.ids);
	free(twin->prompt_ids.ids);
	free(twin->output_ids.ids);
}

static const char *rename(struct text *text, const char *name, uint64_t number)
{
	if (name == NULL) {
		return NULL;
	}
	text->byte_count = 0;
	text_add(text, name);
	text_format(text, "#%" PRIu64, number + 1);
	return text->bytes;
}

void twin_rename(struct twin *twin, uint64_t number, struct trace_row *row)
{
	row->session = rename(&twin->session, row->session, number);
	row->turn = rename(&twin->turn, row->turn, number);
	row->parent = rename(&twin->parent, row->parent, number);
}

static const uint64_t *other_ids(
	struct twin_ids *out, const uint64_t *ids, size_t count, size_t kept, uint64_t number)
{
	if (ids == NULL) {
		return NULL;
	}
	out->ids = memory_grow(out->ids, &out->capacity, count, sizeof(*out->ids));
	for (size_t i = 0; i < count; i++) {
		out->ids[i] = i < kept ? ids[i] : XXH64(&ids[i], sizeof(ids[i]), number) >> 1;
	}
	return out->ids;
}

void twin_change_ids(struct twin *twin, uint64_t number, size_t hash_ids_kept,
	size_t prompt_ids_kept, struct trace_row *row)
{
	row->hash_ids = other_ids(
		&twin->hash_ids, row->hash_ids, row->hash_id_count, hash_ids_kept, number);
	row->prompt_ids = other_ids(
		&twin->prompt_ids, row->prompt_ids, row->input_length, prompt_ids_kept, number);
	row->output_ids =
		other_ids(&twin->output_ids, row->output_ids, row->output_length, 0, number);
}
