#ifndef ENGINE_BASE_PATH_H
#define ENGINE_BASE_PATH_H

#include <stdbool.h>

#include "engine/base/status.h"

/* Paths of files, in buffers of one size. */

enum { PATH_BYTES_MAX = 4096 }; /* with the NUL */

/* Composes a path, such as "%s/config.json", in `path` (PATH_BYTES_MAX). A path that is too long is
   STATUS_USAGE. */
enum status path_format(char *path, struct error *error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Whether there is a file or folder of that name. What cannot be told, since a folder above it may
   not be entered or the disk fails, is an error and not a file that is missing. */
enum status path_is_there(const char *path, bool *is_there, struct error *error);

/* What follows the last slash. */
const char *path_name(const char *path);

#endif
