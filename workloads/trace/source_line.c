#include "workloads/trace/source_line.h"

#include "engine/base/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { FOUND_BYTES_MAX = 60, EXPECTED_BYTES_MAX = 240 };

static void printable(char *out, const char *found, size_t bytes)
{
	size_t length = bytes < FOUND_BYTES_MAX ? bytes : FOUND_BYTES_MAX;

	for (size_t i = 0; i < length; i++) {
		out[i] = found[i] >= ' ' && found[i] <= '~' ? found[i] : '?';
	}
	strcpy(out + length, bytes > FOUND_BYTES_MAX ? "..." : "");
}

enum status source_line_error(struct error *error, const struct source_line *at, const char *field,
	const char *found, size_t found_bytes, const char *expected_format, ...)
{
	char shown[FOUND_BYTES_MAX + 4];
	char expected[EXPECTED_BYTES_MAX];
	char line[24] = "";
	va_list arguments;

	printable(shown, found, found_bytes);
	va_start(arguments, expected_format);
	vsnprintf(expected, sizeof(expected), expected_format, arguments);
	va_end(arguments);
	if (at->line > 0) {
		snprintf(line, sizeof(line), ":%" PRIu64, at->line);
	}
	return error_set(error, STATUS_INPUT, "%.200s%s: %s%sfound %s, expected %s", at->path, line,
		field == NULL ? "" : field, field == NULL ? "" : ": ",
		found_bytes > 0 ? shown : "nothing", expected);
}

/* ---- names that nothing reads ---- */

/* Two edits turn many a short word into another. */
enum { EDITS_MAX = 2, SHORT_EDITS_MAX = 1, SHORT_BYTES_MAX = 7 };

bool unread_is_meant(const char *found, size_t bytes, const char *known)
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

void unread_note(char note[UNREAD_NOTE_BYTES], const struct source_line *at, const char *what,
	const char *found, size_t bytes, const char *known)
{
	snprintf(note, UNREAD_NOTE_BYTES,
		"%.200s:%" PRIu64 ": found %s %.*s, which is not read; is %s meant?", at->path,
		at->line, what, (int)bytes, found, known);
}
