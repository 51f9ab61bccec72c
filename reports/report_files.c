#include "reports/report_files.h"

#include "engine/base/check.h"
#include "engine/base/output_file.h"
#include "engine/base/path.h"

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
