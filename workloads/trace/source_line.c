#include "workloads/trace/source_line.h"

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
