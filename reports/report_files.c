#include "reports/report_files.h"

#include "engine/base/check.h"
#include "engine/base/input_file.h"
#include "engine/base/output_file.h"
#include "engine/base/path.h"
#include "reports/page/page.h"
#include "reports/report.h"
#include "reports/results/result_names.h"

#include <stdio.h>
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

enum status report_write_page(const struct text *page, const char *out_path, struct error *error)
{
	struct output_file output;

	TRY(output_file_open(&output, out_path, error));
	fwrite(page->bytes, 1, page->byte_count, output.file); /* errors are found by the commit */
	return output_file_commit(&output, error);
}

static bool is_page(FILE *file)
{
	char head[1 << 16];
	size_t bytes = fread(head, 1, sizeof(head) - 1, file);

	head[bytes] = '\0';
	return strstr(head, PAGE_MARK) != NULL;
}

enum status report_refuse_old(const char *out_path, struct error *error)
{
	struct stat found;
	FILE *file;

	TRY(result_names_refuse("--out", out_path, "report.html", error));
	if (strcmp(out_path, "-") == 0 || stat(out_path, &found) != 0 || !S_ISREG(found.st_mode) ||
		found.st_size == 0) {
		return STATUS_OK;
	}
	TRY(input_file_open(&file, out_path, INPUT_FILE, error));
	bool is_replaced = is_page(file);
	fclose(file);
	input_file_forget(out_path);
	return is_replaced ? STATUS_OK
			   : error_set(error, STATUS_FILE,
				     "--out %.400s: is no page of quire report, which this would "
				     "replace; --force does",
				     out_path);
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
