#ifndef BENCH_RECORD_RESULT_FOLDER_H
#define BENCH_RECORD_RESULT_FOLDER_H

#include <stdbool.h>
#include <stdio.h>

#include "bench/record/owned_folder.h"
#include "engine/base/output_file.h"

/* A result folder while it is being written. One command at a time owns it. Its files are parts
   until result_folder_commit(), which names them, summary.json last; a folder with a summary.json
   is complete.

   Nothing is replaced that may not be: without force a folder that holds any file of a result is
   refused, and with it one whose summary.json was not written by quire. */

enum { RESULT_FILES_MAX = 16 };

struct result_file {
	struct output_file output;
	bool is_published;
};

struct result_folder {
	struct owned_folder owned;
	bool is_forced;
	struct result_file files[RESULT_FILES_MAX]; /* (file_count) begun, in order */
	unsigned file_count;
	struct result_file *beside;	   /* of `files`; NULL: none */
	bool is_retired[RESULT_FILES_MAX]; /* what has another name while it is replaced */
};

/* Whether the folder holds what may not be replaced, before anything is made or read:
   result_folder_open() looks again, and at the inputs too. For runs that take long to open. */
enum status result_folder_check(const char *path, bool is_forced, struct error *error);

/* Makes the folder, or uses an existing one. To be closed also after a failure. */
enum status result_folder_open(
	struct result_folder *folder, const char *path, bool is_forced, struct error *error);

/* Begins a file, which the folder closes. name: one of the constants of reports/results/results.h.
   Writes that fail are found by the commit. */
enum status result_folder_begin(
	struct result_folder *folder, const char *name, FILE **file, struct error *error);

/* Begins a file elsewhere that appears together with the result; one at most. */
enum status result_folder_begin_beside(
	struct result_folder *folder, const char *path, FILE **file, struct error *error);

/* Brings every file to the disk, removes those of an older result, and names the new ones;
   summary.json, which must have been begun last, is the first to go and the last to appear. After a
   failure the older result is whole again.

   kill -9 before this function leaves the older result, after it the new one. In the few
   milliseconds of its renames it leaves a folder without a summary.json, which no reader accepts,
   and older files as NAME.PID.old. */
enum status result_folder_commit(struct result_folder *folder, struct error *error);

/* Removes what was not committed, and gives the folder back. Accepts a zeroed one. */
void result_folder_close(struct result_folder *folder);

#endif
