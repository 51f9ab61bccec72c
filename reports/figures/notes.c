#include "reports/figures/notes.h"

#include <stdio.h>
#include <string.h>

bool notes_find(const struct text *notes, const char *kind, uint32_t index, struct text *out)
{
	char start[32];
	const char *line = notes->bytes;

	int length = snprintf(start, sizeof(start), "note %s ", kind);
	while (line != NULL && *line != '\0') {
		size_t bytes = strcspn(line, "\n");
		bool is_kind = strncmp(line, start, (size_t)length) == 0;
		if (is_kind && index-- == 0) {
			text_add_bytes(out, line + length, bytes - (size_t)length);
			return true;
		}
		line += bytes + (line[bytes] == '\n');
	}
	return false;
}
