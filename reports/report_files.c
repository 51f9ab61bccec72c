#include "reports/report_files.h"

#include "engine/base/check.h"
#include "engine/base/output_file.h"
#include "engine/base/path.h"
#include "reports/results/plan_file.h"
#include "reports/results/results.h"
#include "reports/results/sweep_file.h"

#include <string.h>
#include <sys/stat.h>

extern const struct embedded_file report_files[];
extern const uint32_t report_files_count;

const struct embedded_file *report_file(const char *name)
{
	const struct embedded_file *file =
		embedded_file_find(report_files, report_files_count, name);

	check(file != NULL);
	return file;
}

enum status report_check_out(const char *out_path, struct error *error)
{
	static const char *const names[] = {RESULT_FILE_NAMES, PLAN_SUMMARY, PLAN_PROBES,
		SWEEP_SUMMARY, SWEEP_RUNS, SWEEP_CACHE};

	for (uint32_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(path_name(out_path), names[i]) == 0) {
			return error_set(error, STATUS_USAGE,
				"--out %.500s: found the name of a file of a result, expected "
				"another, such as report.html",
				out_path);
		}
	}
	return STATUS_OK;
}

enum status report_write_page(const struct text *page, const char *out_path, struct error *error)
{
	struct output_file output;

	TRY(output_file_open(&output, out_path, error));
	fwrite(page->bytes, 1, page->byte_count, output.file); /* errors are found by the commit */
	return output_file_commit(&output, error);
}

enum status report_folder_has(
	const char *directory, const char *name, bool *is_there, struct error *error)
{
	char path[PATH_BYTES_MAX];

	TRY(path_format(path, error, "%s/%s", directory, name));
	return path_is_there(path, is_there, error);
}

bool report_is_file(const char *path)
{
	struct stat found;

	return stat(path, &found) == 0 && S_ISREG(found.st_mode);
}
