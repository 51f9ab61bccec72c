#include "workloads/trace/format.h"

#include <string.h>

const struct format *const formats[TRACE_FORMAT_COUNT - 1] = {
	&format_mooncake,
	&format_bailian,
	&format_azure,
	&format_burstgpt,
	&format_token_ids,
};

const struct format *format_of_line(const char *line, size_t line_bytes)
{
	/* From the last to the first: Mooncake's fields are found in Bailian's rows too. */
	for (uint32_t i = TRACE_FORMAT_COUNT - 1; i-- > 0;) {
		if (formats[i]->recognises(line, line_bytes)) {
			return formats[i];
		}
	}
	return NULL;
}

bool line_contains(const char *line, size_t line_bytes, const char *text)
{
	size_t text_bytes = strlen(text);

	for (size_t i = 0; i + text_bytes <= line_bytes; i++) {
		const char *found = memchr(line + i, text[0], line_bytes - i - text_bytes + 1);
		if (found == NULL) {
			return false;
		}
		i = (size_t)(found - line);
		if (memcmp(found, text, text_bytes) == 0) {
			return true;
		}
	}
	return false;
}
