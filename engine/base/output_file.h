#ifndef ENGINE_BASE_OUTPUT_FILE_H
#define ENGINE_BASE_OUTPUT_FILE_H

#include <stdbool.h>
#include <stdio.h>

#include "engine/base/path.h"
#include "engine/base/status.h"

/* A file that appears whole or not at all: written as PATH.part, renamed at the end. The path "-"
   is the standard output. */

struct output_file {
	FILE *file; /* to write to; NULL: not open */
	const char *path;
	char part[PATH_BYTES_MAX]; /* empty: path itself is written to */
};

/* path is borrowed until the end. */
enum status output_file_open(struct output_file *output, const char *path, struct error *error);

/* Ends the file: keeps it if all of it could be written, which is an error otherwise. */
enum status output_file_commit(struct output_file *output, struct error *error);

/* Removes what was written, if it is still open. */
void output_file_abandon(struct output_file *output);

#endif
