#ifndef ENGINE_BASE_OUTPUT_FILE_H
#define ENGINE_BASE_OUTPUT_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "engine/base/path.h"
#include "engine/base/status.h"

/* The home of every file that quire writes. A file appears complete or not at all: it is written as
   PATH.PID.part, a new file of that name, and renamed at the end. Whatever way the program ends,
   the part is removed (engine/base/unfinished.h), except by kill -9 or a power loss.

   After a commit the file is on the disk: its bytes are before the rename, and the name is after
   it.

   A failed write is reported when the file is closed. So what writes to a FILE returns nothing.

   A file that the command reads (engine/base/input_file.h) is refused, whatever its name, and so is
   one that it has committed: two outputs of a command are two files.

   The path "-" is the standard output. A device or a pipe is written to directly, as are
   /dev/stdout, /dev/fd/N and what lies below /proc. A symbolic link to a file is replaced.
 */

struct unfinished;

struct output_file {
	FILE *file; /* to write to; NULL: not open, or finished */
	char path[PATH_BYTES_MAX];
	struct unfinished *part; /* NULL: the path itself is written to */
};

/* Refuses what would be refused when all of a command's outputs are written, before anything is
   made: for commands that write after a long time. What a full disk refuses is not known before.
   paths: (count) NULL where nothing is written. */
enum status output_files_check(const char *const *paths, uint32_t count, struct error *error);

/* Refuses a file that is there and has content, unless --force says that it may be replaced, and
   what output_file_open() refuses: for files that may have taken long to make. */
enum status output_file_refuse_old(const char *path, bool is_forced, struct error *error);

/* A pipe that has no reader within some seconds is refused. */
enum status output_file_open(struct output_file *output, const char *path, struct error *error);

/* Brings all bytes to the disk and closes the file. A write that failed is an error with the file's
   name and the reason, and the part is removed. */
enum status output_file_finish(struct output_file *output, struct error *error);

/* Gives a finished file its name. For several files that appear together:
   output_file_sync_folder() follows. */
enum status output_file_publish(struct output_file *output, struct error *error);

/* Brings the names in the folder of `path` to the disk. */
enum status output_file_sync_folder(const char *path, struct error *error);

/* All of these. */
enum status output_file_commit(struct output_file *output, struct error *error);

/* Removes a file that was not published. Accepts a zeroed one. */
void output_file_abandon(struct output_file *output);

#endif
