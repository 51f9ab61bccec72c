#include "engine/base/replaced_file.h"

#include "engine/base/input_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A name of this process, since PATH.new may be somebody's file. */
static enum status made_name(char *made, const char *path, struct error *error)
{
	return path_format(made, error, "%s.%ld.new", path, (long)getpid());
}

enum status replaced_file_open(struct replaced_file *file, const char *path, struct error *error)
{
	char made[PATH_BYTES_MAX];

	*file = (struct replaced_file){.output = {.file = NULL}};
	TRY(path_format(file->path, error, "%s", path));
	TRY(made_name(made, path, error));
	return output_file_open(&file->output, made, error);
}

enum status replaced_file_old(
	const struct replaced_file *file, const char *option, bool *is_there, struct error *error)
{
	struct stat old;

	TRY(path_is_there(file->path, is_there, error));
	if (*is_there && stat(file->path, &old) == 0 && input_file_was_read(&old)) {
		return error_set(error, STATUS_USAGE,
			"%s %s: is read by this command, expected another file", option,
			file->path);
	}
	return STATUS_OK;
}

enum status replaced_file_copy(struct replaced_file *file, const char *from, struct error *error)
{
	char buffer[65536], last = '\n';
	size_t size;
	FILE *input;

	TRY(input_file_open(&input, from, INPUT_FILE, error));
	while ((size = fread(buffer, 1, sizeof(buffer), input)) > 0) {
		(void)fwrite(buffer, 1, size, file->output.file); /* found by the commit */
		last = buffer[size - 1];
	}
	if (last != '\n') {
		fputc('\n', file->output.file);
	}
	bool is_bad = ferror(input) != 0;
	fclose(input);
	return is_bad ? error_set(error, STATUS_FILE, "%s: cannot be read", from) : STATUS_OK;
}

enum status replaced_file_commit(struct replaced_file *file, struct error *error)
{
	char made[PATH_BYTES_MAX];

	TRY(made_name(made, file->path, error));
	enum status status = output_file_commit(&file->output, error);
	if (status == STATUS_OK && rename(made, file->path) != 0) {
		status = error_set(error, STATUS_FILE, "%s: cannot be named %s: %s", made,
			file->path, strerror(errno));
	}
	if (status != STATUS_OK) {
		(void)unlink(made);
		return status;
	}
	return output_file_sync_folder(file->path, error);
}

void replaced_file_abandon(struct replaced_file *file)
{
	output_file_abandon(&file->output);
}
