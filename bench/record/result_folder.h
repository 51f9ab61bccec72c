#ifndef BENCH_RECORD_RESULT_FOLDER_H
#define BENCH_RECORD_RESULT_FOLDER_H

#include <stdbool.h>

#include "engine/base/path.h"
#include "engine/base/status.h"

/* A result folder while it is being written: files are NAME.part until result_folder_commit(),
   which renames them with summary.json last, so that a folder with a summary is complete. Closing
   without a commit removes the files begun and leaves an older result unchanged. */

enum { RESULT_FILES_MAX = 16 };

struct result_folder {
	char path[PATH_BYTES_MAX];
	bool was_made;			     /* the folder did not exist before */
	const char *files[RESULT_FILES_MAX]; /* names begun, in order */
	unsigned file_count;
};

/* Makes the folder, or uses an existing one. A folder that holds a summary.json is refused unless
   is_forced. */
enum status result_folder_open(
	struct result_folder *folder, const char *path, bool is_forced, struct error *error);

/* Begins a file: writes the path of NAME.part to `path`, (PATH_BYTES_MAX). name: one of the
   constants of reports/results/results.h. */
enum status result_folder_begin(
	struct result_folder *folder, const char *name, char *path, struct error *error);

/* Renames every file begun, summary.json last, and removes files of an older result that were not
   begun. */
enum status result_folder_commit(struct result_folder *folder, struct error *error);

void result_folder_abandon(struct result_folder *folder);

#endif
