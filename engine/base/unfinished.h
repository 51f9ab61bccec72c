#ifndef ENGINE_BASE_UNFINISHED_H
#define ENGINE_BASE_UNFINISHED_H

#include <stdbool.h>

#include "engine/base/path.h"

/* Files and folders that this process has made and not completed. They are removed on every way out
   of the program: an error, exhausted memory, a failed check, a signal. These ways out have no
   caller that could pass them what is open, so the list belongs to the whole program.

   Only the main thread adds to the list; any thread and any signal handler may remove everything.
   kill -9 leaves the files behind: their names say so (engine/base/output_file.h). */

enum { UNFINISHED_MAX = 64 }; /* at once; more is a failed check */

struct unfinished;

/* Paths have fewer than PATH_BYTES_MAX bytes. */

/* Creates a file for writing, which must not exist yet, not even as a symbolic link. Returns its
   descriptor; -1: errno says why. */
int unfinished_create(struct unfinished **out, const char *path);

/* Makes a folder. Returns 0; -1: errno says why. */
int unfinished_make_folder(struct unfinished **out, const char *path);

/* A file that exists and became this process's own. */
struct unfinished *unfinished_add(const char *path);

/* Whether a path names a file that is in the list. */
bool unfinished_holds(const char *path);

const char *unfinished_path(const struct unfinished *unfinished);

/* It is complete, or has another name: it stays. */
void unfinished_keep(struct unfinished *unfinished);

/* Removes it; a folder only if it is empty. */
void unfinished_remove(struct unfinished *unfinished);

/* Removes all, the latest first. May be called by a signal handler. */
void unfinished_remove_all(void);

#endif
