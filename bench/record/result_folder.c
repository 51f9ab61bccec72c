#include "bench/record/result_folder.h"

#include "reports/results/results.h"
#include "engine/base/check.h"
#include "engine/base/input_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const result_files[] = {RESULT_FILE_NAMES};

enum { RESULT_FILE_COUNT = sizeof(result_files) / sizeof(result_files[0]) };

_Static_assert((int)RESULT_FILE_COUNT < (int)RESULT_FILES_MAX, "a flag for each, one beside");

static enum status file_path(
	const struct result_folder *folder, const char *name, char *path, struct error *error)
{
	return path_format(path, error, "%s/%s", folder->owned.path, name);
}

/* ---- what may be replaced ---- */

/* Refuses a file that is there and may not be replaced. */
static enum status check_old(
	const struct result_folder *folder, const char *name, struct error *error)
{
	char path[PATH_BYTES_MAX];
	struct stat found;
	const char *out = folder->owned.path;

	TRY(file_path(folder, name, path, error));
	if (lstat(path, &found) != 0) { /* opening says that the folder is none */
		return errno == ENOENT || errno == ENOTDIR
			       ? STATUS_OK
			       : error_set(error, STATUS_FILE, "%.200s: %s", path, strerror(errno));
	}
	if (!S_ISREG(found.st_mode) && !S_ISLNK(found.st_mode)) {
		return error_set(error, STATUS_FILE,
			"--out %.200s: holds %s, which is no file of a result", out, name);
	}
	if (input_file_was_read(&found)) {
		return error_set(error, STATUS_FILE,
			"--out %.200s: holds %s, which this run reads and would replace", out,
			name);
	}
	if (!folder->is_forced) {
		return error_set(error, STATUS_FILE,
			"--out %.200s: holds %s, which this would replace or remove; --force does",
			out, name);
	}
	if (strcmp(name, RESULT_SUMMARY) == 0 &&
		!owned_folder_is_of_quire(path, RESULT_SCHEMA_PREFIX)) {
		return error_set(error, STATUS_FILE,
			"--out %.200s: its " RESULT_SUMMARY
			" was not written by quire, so --force does not replace it",
			out);
	}
	return STATUS_OK;
}

static enum status check_all_old(const struct result_folder *folder, struct error *error)
{
	for (uint32_t i = 0; i < RESULT_FILE_COUNT; i++) {
		TRY(check_old(folder, result_files[i], error));
	}
	return STATUS_OK;
}

/* ---- opening ---- */

enum status result_folder_check(const char *path, bool is_forced, struct error *error)
{
	struct result_folder folder = {.is_forced = is_forced};

	TRY(path_format(folder.owned.path, error, "%s", path));
	return check_all_old(&folder, error);
}

enum status result_folder_open(
	struct result_folder *folder, const char *path, bool is_forced, struct error *error)
{
	memset(folder, 0, sizeof(*folder));
	folder->is_forced = is_forced;
	TRY(owned_folder_open(&folder->owned, path, error));
	return check_all_old(folder, error);
}

static enum status begin(
	struct result_folder *folder, const char *path, FILE **file, struct error *error)
{
	check(folder->file_count < RESULT_FILES_MAX);
	struct result_file *begun = &folder->files[folder->file_count];
	*begun = (struct result_file){.is_published = false};
	TRY(output_file_open(&begun->output, path, error));
	folder->file_count++;
	*file = begun->output.file;
	return STATUS_OK;
}

enum status result_folder_begin(
	struct result_folder *folder, const char *name, FILE **file, struct error *error)
{
	char path[PATH_BYTES_MAX];

	TRY(file_path(folder, name, path, error));
	return begin(folder, path, file, error);
}

/* Whether a path names a file that the result may have, whatever the path looks like. */
static bool is_inside(const struct result_folder *folder, const char *path)
{
	char other[PATH_BYTES_MAX];
	struct stat own, its;
	size_t length = (size_t)(path_name(path) - path);

	memcpy(other, path, length);
	strcpy(other + length, ".");
	if (stat(folder->owned.path, &own) != 0 || stat(other, &its) != 0 ||
		own.st_dev != its.st_dev || own.st_ino != its.st_ino) {
		return false;
	}
	for (uint32_t i = 0; i < RESULT_FILE_COUNT; i++) {
		if (strcmp(path_name(path), result_files[i]) == 0) {
			return true;
		}
	}
	return false;
}

enum status result_folder_begin_beside(
	struct result_folder *folder, const char *path, FILE **file, struct error *error)
{
	check(folder->beside == NULL);
	TRY(begin(folder, path, file, error));
	if (is_inside(folder, path)) {
		return error_set(error, STATUS_USAGE,
			"%.200s: is a file of the result itself, expected another name", path);
	}
	folder->beside = &folder->files[folder->file_count - 1];
	return STATUS_OK;
}

/* ---- the commit ---- */

/* What the commit may replace: the files of a result by their index, then the file beside it. */
enum { REPLACED_COUNT = RESULT_FILE_COUNT + 1 };

/* Where a file is and the name that it has while it is being replaced. False: there is none. */
static bool replaced_paths(
	const struct result_folder *folder, uint32_t index, char *path, char *old)
{
	struct error too_long = {0};

	if (index < RESULT_FILE_COUNT) {
		file_path(folder, result_files[index], path, &too_long);
	} else if (folder->beside != NULL) {
		strcpy(path, folder->beside->output.path);
	} else {
		return false;
	}
	path_format(old, &too_long, "%s.%ld.old", path, (long)getpid());
	return too_long.status == STATUS_OK;
}

static enum status retire(struct result_folder *folder, uint32_t index, struct error *error)
{
	char path[PATH_BYTES_MAX], old[PATH_BYTES_MAX];

	bool is_device = index == RESULT_FILE_COUNT && folder->beside != NULL &&
			 folder->beside->output.part == NULL;
	if (is_device || !replaced_paths(folder, index, path, old)) {
		return STATUS_OK;
	}
	if (rename(path, old) != 0) {
		return errno == ENOENT
			       ? STATUS_OK
			       : error_set(error, STATUS_FILE, "%.200s: cannot be replaced: %s",
					 path, strerror(errno));
	}
	folder->is_retired[index] = true;
	return STATUS_OK;
}

static enum status retire_all(struct result_folder *folder, struct error *error)
{
	for (uint32_t i = 0; i < REPLACED_COUNT; i++) {
		TRY(retire(folder, i, error));
		if (i == 0 && folder->is_retired[i]) {
			/* The folder holds no result from here on, after a power loss too. */
			TRY(output_file_sync_folder(folder->files[0].output.path, error));
		}
	}
	return STATUS_OK;
}

static enum status publish(struct result_file *file, struct error *error)
{
	bool has_part = file->output.part != NULL;

	TRY(output_file_publish(&file->output, error));
	file->is_published = has_part;
	return STATUS_OK;
}

static enum status publish_all(struct result_folder *folder, struct error *error)
{
	struct result_file *summary = &folder->files[folder->file_count - 1];

	for (unsigned i = 0; i + 1 < folder->file_count; i++) {
		TRY(publish(&folder->files[i], error));
	}
	TRY(output_file_sync_folder(summary->output.path, error));
	TRY(publish(summary, error));
	return output_file_sync_folder(summary->output.path, error);
}

/* Brings the older result back, its summary last. */
static void undo(struct result_folder *folder)
{
	char path[PATH_BYTES_MAX], old[PATH_BYTES_MAX];

	for (unsigned i = folder->file_count; i > 0; i--) {
		if (folder->files[i - 1].is_published) {
			unlink(folder->files[i - 1].output.path);
		}
	}
	for (uint32_t i = REPLACED_COUNT; i > 0; i--) {
		if (folder->is_retired[i - 1] && replaced_paths(folder, i - 1, path, old)) {
			rename(old, path);
		}
	}
}

static void remove_retired(const struct result_folder *folder)
{
	char path[PATH_BYTES_MAX], old[PATH_BYTES_MAX];

	for (uint32_t i = 0; i < REPLACED_COUNT; i++) {
		if (folder->is_retired[i] && replaced_paths(folder, i, path, old)) {
			unlink(old);
		}
	}
}

enum status result_folder_commit(struct result_folder *folder, struct error *error)
{
	check(folder->file_count > 0);
	check(strcmp(path_name(folder->files[folder->file_count - 1].output.path),
		      RESULT_SUMMARY) == 0);
	for (unsigned i = 0; i < folder->file_count; i++) {
		TRY(output_file_finish(&folder->files[i].output, error));
	}
	/* Again: files may have been put here during the run. */
	TRY(check_all_old(folder, error));
	enum status status = retire_all(folder, error);
	if (status == STATUS_OK) {
		status = publish_all(folder, error);
	}
	if (status != STATUS_OK) {
		undo(folder);
		return status;
	}
	remove_retired(folder);
	folder->file_count = 0;
	return STATUS_OK;
}

void result_folder_close(struct result_folder *folder)
{
	for (unsigned i = 0; i < folder->file_count; i++) {
		output_file_abandon(&folder->files[i].output);
	}
	folder->file_count = 0;
	owned_folder_close(&folder->owned);
}
