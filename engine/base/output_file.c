#include "engine/base/output_file.h"

#include "engine/base/check.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static enum status cannot_write(const char *path, int reason, struct error *error)
{
	return error_set(error, STATUS_FILE, "%.200s: cannot be written: %s", path,
		reason == 0 ? "the disk refused it" : strerror(reason));
}

enum status output_file_open(struct output_file *output, const char *path, struct error *error)
{
	*output = (struct output_file){.path = path};
	if (strcmp(path, "-") == 0) {
		output->file = stdout;
		return STATUS_OK;
	}
	/* A device or a pipe is written directly; a rename would replace it by a file. */
	struct stat found;
	if (stat(path, &found) == 0 && !S_ISREG(found.st_mode)) {
		output->file = fopen(path, "wb");
		return output->file == NULL ? cannot_write(path, errno, error) : STATUS_OK;
	}
	int bytes = snprintf(output->part, sizeof(output->part), "%s.part", path);
	if (bytes < 0 || (size_t)bytes >= sizeof(output->part)) {
		return cannot_write(path, ENAMETOOLONG, error);
	}
	output->file = fopen(output->part, "wb");
	return output->file == NULL ? cannot_write(path, errno, error) : STATUS_OK;
}

static void remove_part(const struct output_file *output)
{
	if (output->part[0] != '\0') {
		remove(output->part);
	}
}

enum status output_file_commit(struct output_file *output, struct error *error)
{
	check(output->file != NULL);
	errno = 0;
	bool is_written = fflush(output->file) == 0 && ferror(output->file) == 0;
	int reason = errno;
	if (output->file == stdout) {
		output->file = NULL;
		return is_written ? STATUS_OK : cannot_write("the standard output", reason, error);
	}
	if (fclose(output->file) != 0 && is_written) {
		is_written = false;
		reason = errno;
	}
	output->file = NULL;
	if (is_written && output->part[0] != '\0' && rename(output->part, output->path) != 0) {
		is_written = false;
		reason = errno;
	}
	if (!is_written) {
		remove_part(output);
		return cannot_write(output->path, reason, error);
	}
	return STATUS_OK;
}

void output_file_abandon(struct output_file *output)
{
	if (output->file != NULL && output->file != stdout) {
		fclose(output->file);
		remove_part(output);
	}
	output->file = NULL;
}
