#include "workloads/row_copy.h"

#include "engine/base/integer.h"

#include <string.h>

/* Each thing begins at a multiple of 8 bytes. */
static size_t padded(size_t bytes)
{
	return u64_divide_up(bytes, 8) * 8;
}

static size_t name_bytes(const char *name)
{
	return name == NULL ? 0 : padded(strlen(name) + 1);
}

static size_t ids_bytes(const uint64_t *ids, size_t count)
{
	return ids == NULL ? 0 : count * sizeof(*ids);
}

size_t row_copy_bytes(const struct trace_row *row)
{
	return ids_bytes(row->hash_ids, row->hash_id_count) +
	       ids_bytes(row->prompt_ids, row->input_length) +
	       ids_bytes(row->output_ids, row->output_length) +
	       padded(row->span_count * sizeof(*row->spans)) + name_bytes(row->session) +
	       name_bytes(row->turn) + name_bytes(row->parent);
}

static void *copy_behind(char **at, const void *from, size_t bytes)
{
	char *to = *at;

	if (from == NULL) {
		return NULL;
	}
	memcpy(to, from, bytes);
	*at += padded(bytes);
	return to;
}

static const char *copy_name(char **at, const char *name)
{
	return name == NULL ? NULL : copy_behind(at, name, strlen(name) + 1);
}

void row_copy(struct trace_row *to, const struct trace_row *row, void *memory)
{
	char *at = memory;

	*to = *row;
	to->hash_ids =
		copy_behind(&at, row->hash_ids, ids_bytes(row->hash_ids, row->hash_id_count));
	to->prompt_ids =
		copy_behind(&at, row->prompt_ids, ids_bytes(row->prompt_ids, row->input_length));
	to->output_ids =
		copy_behind(&at, row->output_ids, ids_bytes(row->output_ids, row->output_length));
	to->spans = copy_behind(&at, row->spans, row->span_count * sizeof(*row->spans));
	to->session = copy_name(&at, row->session);
	to->turn = copy_name(&at, row->turn);
	to->parent = copy_name(&at, row->parent);
}
