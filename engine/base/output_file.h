#ifndef ENGINE_BASE_OUTPUT_FILE_H
#define ENGINE_BASE_OUTPUT_FILE_H

#include <stdbool.h>
#include <stdio.h>

#include "engine/base/path.h"
#include "engine/base/status.h"

/* A file that appears complete or not at all: it is written as PATH.part and renamed at the end.
   The path "-" is the standard output. */

struct output_file {
	FILE *file; /* to write to; NULL: not open */
	const char *path;
	char part[PATH_BYTES_MAX]; /* empty: path itself is written to */
};

/* path is borrowed until the end. */
enum status output_file_open(struct output_file *output, const char *path, struct error *error);

/* Closes and renames the file. A write that failed is an error, and the file is removed. */
enum status output_file_commit(struct output_file *output, struct error *error);

/* Removes an uncommitted file. Does nothing if it is not open. */
void output_file_abandon(struct output_file *output);

#endif
