#include "engine/base/path.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum status path_format(char *path, struct error *error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	int length = vsnprintf(path, PATH_BYTES_MAX, format, arguments);
	va_end(arguments);
	if (length < 0 || length >= PATH_BYTES_MAX) {
		return error_set(error, STATUS_USAGE, "'%.32s...': the path is too long", path);
	}
	return STATUS_OK;
}

enum status path_is_there(const char *path, bool *is_there, struct error *error)
{
	struct stat found;

	*is_there = stat(path, &found) == 0;
	if (!*is_there && errno != ENOENT && errno != ENOTDIR) {
		return error_set(error, STATUS_FILE, "cannot open %s: %s", path, strerror(errno));
	}
	return STATUS_OK;
}

const char *path_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash == NULL ? path : slash + 1;
}
