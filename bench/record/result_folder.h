#ifndef BENCH_RECORD_RESULT_FOLDER_H
#define BENCH_RECORD_RESULT_FOLDER_H

#include <stdbool.h>

#include "engine/base/path.h"
#include "engine/base/status.h"

/* A result folder while it is being written: files are NAME.part until result_folder_commit(),
   which renames them with summary.json last, so that a folder with a summary is a whole one.
   Abandoning removes what was begun and leaves an older result as it was. */

enum { RESULT_FILES_MAX = 16 };

struct result_folder {
	char path[PATH_BYTES_MAX];
	bool was_made;			     /* the folder did not exist before */
	const char *files[RESULT_FILES_MAX]; /* names begun, in order */
	unsigned file_count;
};

/* Makes the folder, or uses an existing one. One that holds a summary.json is refused unless
   is_forced. */
enum status result_folder_open(
	struct result_folder *folder, const char *path, bool is_forced, struct error *error);

/* The path of NAME.part, to be written now. name: one of the constants of
   reports/results/results.h. The text lies in `path`, (PATH_BYTES_MAX). */
enum status result_folder_begin(
	struct result_folder *folder, const char *name, char *path, struct error *error);

/* Renames every file begun, summary.json last; files of an older result that were not begun go. */
enum status result_folder_commit(struct result_folder *folder, struct error *error);

void result_folder_abandon(struct result_folder *folder);

#endif
