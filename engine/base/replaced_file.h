#ifndef ENGINE_BASE_REPLACED_FILE_H
#define ENGINE_BASE_REPLACED_FILE_H

#include "engine/base/output_file.h"
#include "engine/base/path.h"
#include "engine/base/status.h"

/* A file that a command reads and, because the user asks for it, replaces: a baseline, a history.
   No output replaces an input of its command (engine/base/output_file.h), so the new one is written
   as PATH.PID.new and renamed when it is on the disk. */

struct replaced_file {
	struct output_file output; /* write to output.file */
	char path[PATH_BYTES_MAX];
};

enum status replaced_file_open(struct replaced_file *file, const char *path, struct error *error);

/* Whether there is an old one. A file that the command has read for another purpose, such as its
   suite, is refused. option: names the file in the error. */
enum status replaced_file_old(
	const struct replaced_file *file, const char *option, bool *is_there, struct error *error);

/* Adds the bytes of a file of lines, the last of which may lack its line feed. */
enum status replaced_file_copy(struct replaced_file *file, const char *from, struct error *error);

/* Gives the file its name. */
enum status replaced_file_commit(struct replaced_file *file, struct error *error);

/* Removes what was not committed. */
void replaced_file_abandon(struct replaced_file *file);

#endif
