#ifndef REPORTS_REPORT_FILES_H
#define REPORTS_REPORT_FILES_H

#include <stdbool.h>

#include "engine/base/embedded_file.h"
#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/base/text.h"

/* The files of a report: those that are part of the program, the page, and what a folder holds. */

/* A script of reports/figures/, page.css or page.js. */
const struct embedded_file *report_file(const char *name);

enum status report_write_page(const struct text *page, const char *out_path, struct error *error);

/* Whether a folder has a file. */
enum status report_folder_has(
	const char *directory, const char *name, bool *is_there, struct error *error);

/* report_plan.c, report_sweep.c: the page of a folder of `quire plan` or `quire sweep`. */
enum status report_plan(const char *directory, const struct json_object *defaults,
	struct text *page, struct error *error);
enum status report_sweep(const char *directory, const struct json_object *defaults,
	struct text *page, struct error *error);

/* Whether a path is a file, as the history of `quire gate` is. */
bool report_is_file(const char *path);

/* report_history.c: the page of a gate's history. */
enum status report_history(const char *path, struct text *page, struct error *error);

#endif
