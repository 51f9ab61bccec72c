#include "reports/results/result_names.h"

#include "engine/base/path.h"
#include "reports/results/plan_file.h"
#include "reports/results/results.h"
#include "reports/results/sweep_file.h"

#include <string.h>

enum status result_names_refuse(
	const char *option, const char *path, const char *instead, struct error *error)
{
	static const char *const names[] = {RESULT_FILE_NAMES, PLAN_SUMMARY, PLAN_PROBES,
		SWEEP_SUMMARY, SWEEP_RUNS, SWEEP_CACHE};

	for (size_t i = 0; path != NULL && i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(path_name(path), names[i]) == 0) {
			return error_set(error, STATUS_USAGE,
				"%s %.500s: found the name of a file of a result, expected "
				"another, such as %s",
				option, path, instead);
		}
	}
	return STATUS_OK;
}
