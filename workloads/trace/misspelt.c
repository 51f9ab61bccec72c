#include "workloads/trace/misspelt.h"

#include "engine/base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Two edits turn many a short word into another. */
enum { EDITS_MAX = 2, SHORT_EDITS_MAX = 1, SHORT_BYTES_MAX = 7 };

bool misspelt_is_meant(const char *found, size_t bytes, const char *known)
{
	char name[TEXT_NAME_BYTES_MAX + 1];
	uint32_t edits =
		(strlen(known) > SHORT_BYTES_MAX ? EDITS_MAX : SHORT_EDITS_MAX) + UINT32_C(1);

	if (bytes > TEXT_NAME_BYTES_MAX) {
		return false;
	}
	for (size_t i = 0; i < bytes; i++) {
		if (found[i] < ' ' || found[i] > '~') {
			return false;
		}
	}
	memcpy(name, found, bytes);
	name[bytes] = '\0';
	return text_is_meant(name, known, &edits);
}

void misspelt_note(char note[MISSPELT_NOTE_BYTES], const struct source_line *at, const char *what,
	const char *found, size_t bytes, const char *known)
{
	snprintf(note, MISSPELT_NOTE_BYTES,
		"%.200s:%" PRIu64 ": found %s %.*s, which is not read; is %s meant?", at->path,
		at->line, what, (int)bytes, found, known);
}
