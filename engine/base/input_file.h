#ifndef ENGINE_BASE_INPUT_FILE_H
#define ENGINE_BASE_INPUT_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>

#include "engine/base/status.h"

/* The home of every file that quire reads. Opening never waits: a pipe would, for somebody to write
   to it. Where a pipe may be read, `-` is the standard input. The latest INPUT_FILES_REMEMBERED
   files are remembered for the whole program, so that no output replaces them
   (engine/base/output_file.h); a command reads far fewer. */

enum { INPUT_FILES_REMEMBERED = 4096, INPUT_FILES_MADE = 4 };

/* A file, whatever its names. The time of its last change tells it from a later file, which may get
   the number of one that was removed. */
struct file_identity {
	dev_t device;
	ino_t inode;
	struct timespec changed;
};

/* The latest `capacity` files that were added; entry i is that of the files i, i + capacity, ... */
struct file_set {
	struct file_identity *files; /* (capacity) of the owner */
	size_t capacity, count;	     /* count: that were added */
};

bool file_set_has(const struct file_set *set, const struct stat *file);

/* What is no file is not added. */
void file_set_add(struct file_set *set, const struct stat *file);

enum input_kind {
	INPUT_FILE,	    /* a file */
	INPUT_FILE_OR_PIPE, /* or a pipe, which is empty if nobody writes to it, or /dev/null */
};

/* Makes an empty file that is in no folder, so that it is gone with the process and those it forks,
   whatever way they end. They open it by `path`, which is borrowed and need not exist. At most
   INPUT_FILES_MADE at a time. What is written to it can be read once it is flushed. */
enum status input_file_make(FILE **out, const char *path, struct error *error);

/* Closes it; does nothing for other paths. */
void input_file_drop(const char *path);

/* Lets a pipe, or `-`, be opened more than once, each time from its start: it is copied to its end
   into a file that is made, which lasts as long as the process. Does nothing for other paths. */
enum status input_spool(const char *path, struct error *error);

/* Returns a descriptor to be closed by the caller, -1 after a failure. */
int input_descriptor(const char *path, enum input_kind kind, struct error *error);

enum status input_file_open(
	FILE **out, const char *path, enum input_kind kind, struct error *error);

/* XXH64 with seed 0 of what it holds. */
enum status input_hash(const char *path, enum input_kind kind, uint64_t *hash, struct error *error);

/* Remembers a file as read without opening it: for those that other processes of the command read.
   A path that is no file is ignored. */
void input_file_note(const char *path);

/* Lets a file be replaced that was read, to see whether it may stay. */
void input_file_forget(const char *path);

/* Whether this is a file that was opened here, and that has the same content still. */
bool input_file_was_read(const struct stat *file);

#endif
