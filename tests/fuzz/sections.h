#ifndef TESTS_FUZZ_SECTIONS_H
#define TESTS_FUZZ_SECTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"
#include "tests/harness/temporary.h"

/* Several files in one input: each is a line "== NAME" and what follows up to the next such line.
   What precedes the first is ignored. */

enum { SECTIONS_MAX = 32, SECTION_NAME_BYTES = 64 };

struct section {
	char name[SECTION_NAME_BYTES];
	const uint8_t *bytes; /* (byte_count), borrowed from the input */
	size_t byte_count;
};

/* sections: (SECTIONS_MAX); returns how many there are. */
uint32_t sections_find(const uint8_t *bytes, size_t byte_count, struct section *sections);

/* Writes the sections whose name is one of `names`, which ends with NULL, as files of a new folder,
   whose path is written to `folder` (TEMPORARY_PATH_BYTES). A name may have one folder in it. */
void sections_unpack(
	const uint8_t *bytes, size_t byte_count, const char *const *names, char *folder);

/* Removes the folder with all in it. */
void sections_remove(const char *folder);

/* Writes FOLDER/NAME to path (SECTIONS_PATH_BYTES). */
enum { SECTIONS_PATH_BYTES = TEMPORARY_PATH_BYTES + SECTION_NAME_BYTES };
void sections_path(char *path, const char *folder, const char *name);

/* Demands that status and error agree, and that a refusal is one line. */
void require_refused_in_one_line(enum status status, const struct error *error);

#endif
