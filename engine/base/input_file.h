#ifndef ENGINE_BASE_INPUT_FILE_H
#define ENGINE_BASE_INPUT_FILE_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>

#include "engine/base/status.h"

/* The home of every file that quire reads. Opening never waits: a pipe would, for somebody to write
   to it. Where a pipe may be read, `-` is the standard input. The latest INPUT_FILES_REMEMBERED
   files are remembered for the whole program, so that no output replaces them
   (engine/base/output_file.h); a command reads far fewer. */

enum { INPUT_FILES_REMEMBERED = 1024 };

enum input_kind {
	INPUT_FILE,	    /* a file */
	INPUT_FILE_OR_PIPE, /* or a pipe, which is empty if nobody writes to it */
};

/* Lets a pipe, or `-`, be opened more than once, each time from its start: it is copied to its end
   into a temporary file without a name, which lasts as long as the process. Does nothing for other
   paths. A process spools one input at most. */
enum status input_spool(const char *path, struct error *error);

/* Returns a descriptor to be closed by the caller, -1 after a failure. */
int input_descriptor(const char *path, enum input_kind kind, struct error *error);

enum status input_file_open(
	FILE **out, const char *path, enum input_kind kind, struct error *error);

/* Lets a file be replaced that was read, to see whether it may stay. */
void input_file_forget(const char *path);

/* Whether this is a file that was opened here, and that has the same content still. */
bool input_file_was_read(const struct stat *file);

#endif
