#include "tests/harness/require.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void require_failed(const char *file, int line, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	fprintf(stderr, "%s:%d: ", file, line);
	(void)vfprintf(stderr, format, arguments);
	fprintf(stderr, "\n");
	va_end(arguments);
	abort();
}

void require_equal_u64(uint64_t found, uint64_t expected, const char *found_text,
	const char *expected_text, const char *file, int line)
{
	if (found != expected) {
		require_failed(file, line, "%s is %" PRIu64 ", but %s is %" PRIu64, found_text,
			found, expected_text, expected);
	}
}
