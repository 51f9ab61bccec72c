#ifndef BENCH_RECORD_OWNED_FOLDER_H
#define BENCH_RECORD_OWNED_FOLDER_H

#include <stdbool.h>

#include "engine/base/path.h"
#include "engine/base/status.h"

/* A folder that one command at a time writes to. Two that are started at once: one has it, the
   other gets a line.

   The owner holds flock() on the file .quire-lock in the folder, and removes that file at the end.
   A lock ends with its process, kill -9 included, so that nothing stale is left; a folder itself
   cannot be locked on NFS, whose clients pass flock() on as a lock of the server, and only of files
   that are open for writing. Where a file system has no locks, having created the file counts: then
   kill -9 leaves a file that the next command asks to be removed. */

struct unfinished;

struct owned_folder {
	char path[PATH_BYTES_MAX];
	struct unfinished *made; /* the folder, if it did not exist before */
	struct unfinished *lock; /* NULL: not owned */
	int lock_descriptor;
};

/* Makes the folder, unless it exists, and owns it. To be closed only after a success. */
enum status owned_folder_open(struct owned_folder *folder, const char *path, struct error *error);

/* Gives the folder back. One that was made for the command is removed if it is empty. */
void owned_folder_close(struct owned_folder *folder);

#endif
