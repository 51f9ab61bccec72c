#ifndef BENCH_RECORD_OWNED_FOLDER_H
#define BENCH_RECORD_OWNED_FOLDER_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/path.h"
#include "engine/base/status.h"

/* A folder that one command at a time writes to. Two that are started at once: one has it, the
   other gets a line.

   The owner holds flock() on the file .quire-lock in the folder, and removes that file at the end.
   A lock ends with its process, kill -9 included, so that nothing stale is left; a folder itself
   cannot be locked on NFS, whose clients pass flock() on as a lock of the server, and only of files
   that are open for writing. Where a file system has no locks, having created the file counts: then
   kill -9 leaves a file that the next command asks to be removed. */

enum { OWNED_FOLDERS_MAX = 16 }; /* that are made at once, one inside the other */

struct unfinished;

struct owned_folder {
	char path[PATH_BYTES_MAX];
	/* (made_count) the folder and those above it, if they did not exist before */
	struct unfinished *made[OWNED_FOLDERS_MAX];
	uint32_t made_count;
	struct unfinished *lock; /* NULL: not owned */
	int lock_descriptor;
};

/* Makes the folder and those above it, unless they exist, and owns it. To be closed only after a
   success. */
enum status owned_folder_open(struct owned_folder *folder, const char *path, struct error *error);

/* Refuses if the folder at `path` holds a file of one of these names (count), with what --force
   does about it. For files that a command would replace. */
enum status owned_folder_refuse_old(
	const char *path, const char *const *names, uint32_t count, struct error *error);

/* Whether a file is JSON whose schema begins with the prefix. Nothing is remembered of it, so that
   it may be replaced (engine/base/input_file.h). */
bool owned_folder_is_of_quire(const char *path, const char *schema_prefix);

/* Gives the folder back. Those that were made for the command are removed if they are empty. */
void owned_folder_close(struct owned_folder *folder);

#endif
