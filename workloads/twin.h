#ifndef WORKLOADS_TWIN_H
#define WORKLOADS_TWIN_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/text.h"
#include "workloads/trace/trace.h"

/* Twins of a row: the same request again, that hits nothing which the row itself left. They have
   numbers from 1 on; number 1 is the second of its kind, so its names end in "#2". */

struct twin_ids {
	uint64_t *ids;
	size_t capacity;
};

/* What the latest twin's row points to. A zeroed one is empty. */
struct twin {
	struct text session, turn, parent;
	struct twin_ids hash_ids, prompt_ids, output_ids;
};

void twin_deinit(struct twin *twin);

/* Gives the row the names of its twin, valid until the next call. Names that are NULL stay. */
void twin_rename(struct twin *twin, uint64_t number, struct trace_row *row);

/* Gives the row the ids of its twin, valid until the next call: XXH64(id, number) >> 1, so hash ids
   are below 2^63 as all of them; token ids are taken modulo the size of the vocabulary, and would
   be those of other rows if they were only raised. The first hash ids and token ids of the prompt,
   as many as are kept, stay. */
void twin_change_ids(struct twin *twin, uint64_t number, size_t hash_ids_kept,
	size_t prompt_ids_kept, struct trace_row *row);

#endif
