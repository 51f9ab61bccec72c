#ifndef BENCH_PLAN_PLAN_FOLDER_H
#define BENCH_PLAN_PLAN_FOLDER_H

#include "bench/plan/answer.h"
#include "bench/record/owned_folder.h"

/* The files of a plan (reports/results/plan_file.h). */

struct plan_folder {
	struct owned_folder owned;
	bool is_owned;
};

/* Makes the folder, or uses an existing one. Without force one that holds a plan is refused, and
   one that holds another result always is. To be closed after a failure too. */
enum status plan_folder_open(
	struct plan_folder *folder, const char *path, bool is_forced, struct error *error);

/* Writes all files, plan.json last. */
enum status plan_folder_write(
	struct plan_folder *folder, const struct answers *answers, struct error *error);

void plan_folder_close(struct plan_folder *folder);

/* plan.json alone. A failed write is reported when the file is closed. */
void plan_json_write(const struct answers *answers, FILE *file);

#endif
