#include "reports/results/result_names.h"

#include "engine/base/path.h"
#include "reports/results/plan_file.h"
#include "reports/results/results.h"
#include "reports/results/sweep_file.h"

#include <string.h>

/* The curve of a cache has that name in a sweep, and may have it elsewhere. */
static bool is_in_sweep(const char *path)
{
	char summary[PATH_BYTES_MAX];
	struct error error = {0};
	bool is_there = false;

	return path_format(summary, &error, "%.*s" SWEEP_SUMMARY, (int)(path_name(path) - path),
		       path) == STATUS_OK &&
	       path_is_there(summary, &is_there, &error) == STATUS_OK && is_there;
}

enum status result_names_refuse(
	const char *option, const char *path, const char *instead, struct error *error)
{
	static const char *const names[] = {RESULT_FILE_NAMES, PLAN_SUMMARY, PLAN_PROBES,
		SWEEP_SUMMARY, SWEEP_RUNS, SWEEP_CACHE};

	for (size_t i = 0; path != NULL && i < sizeof(names) / sizeof(names[0]); i++) {
		bool is_cache = strcmp(names[i], SWEEP_CACHE) == 0;
		if (strcmp(path_name(path), names[i]) == 0 && (!is_cache || is_in_sweep(path))) {
			return error_set(error, STATUS_USAGE,
				"%s %.500s: found the name of a file of a result, expected "
				"another, such as %s",
				option, path, instead);
		}
	}
	return STATUS_OK;
}
