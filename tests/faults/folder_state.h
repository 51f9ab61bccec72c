#ifndef TESTS_FAULTS_FOLDER_STATE_H
#define TESTS_FAULTS_FOLDER_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/base/text.h"

/* Everything below a folder: names, kinds and bytes, in the order of the names. */

struct folder_entry {
	char *name; /* path below the folder */
	mode_t kind;
	char *bytes; /* of a file, or a link's target; else NULL */
	size_t byte_count;
};

struct folder_state {
	struct folder_entry *entries; /* (count) */
	uint32_t count;
	size_t capacity;
};

void folder_state_take(struct folder_state *state, const char *folder);
void folder_state_free(struct folder_state *state);

/* NULL: it is not there. */
const struct folder_entry *folder_state_find(const struct folder_state *state, const char *name);

/* Two entries, either NULL, of one name. */
bool folder_entry_is_equal(const struct folder_entry *a, const struct folder_entry *b);

/* Whether all is equal; else the first difference is written to `difference`. */
bool folder_state_is_equal(const struct folder_state *found, const struct folder_state *wanted,
	struct text *difference);

/* Makes the folder, whose state is `found`, what `wanted` says. */
void folder_state_restore(
	const struct folder_state *found, const struct folder_state *wanted, const char *folder);

#endif
