#include "bench/record/result_folder.h"

#include "reports/results/results.h"
#include "engine/base/check.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* All files that a result folder may hold. summary.json is removed first and renamed last, so that
   a folder with a summary is complete. */
static const char *const result_files[] = {RESULT_SUMMARY, RESULT_REQUESTS, RESULT_TIMELINE,
	RESULT_STEP_GRID, RESULT_LATENCY, RESULT_STEPS, RESULT_KERNELS, RESULT_KERNEL_PHASES,
	RESULT_KERNEL_TIMELINE, RESULT_PROVENANCE};

enum { RESULT_FILE_COUNT = sizeof(result_files) / sizeof(result_files[0]) };

static enum status file_path(const struct result_folder *folder, const char *name,
	const char *suffix, char *path, struct error *error)
{
	return path_format(path, error, "%s/%s%s", folder->path, name, suffix);
}

enum status result_folder_open(
	struct result_folder *folder, const char *path, bool is_forced, struct error *error)
{
	struct stat info;
	char summary[PATH_BYTES_MAX];

	memset(folder, 0, sizeof(*folder));
	if (strlen(path) >= PATH_BYTES_MAX) {
		return error_set(
			error, STATUS_USAGE, "--out: a path of over %d bytes", PATH_BYTES_MAX);
	}
	strcpy(folder->path, path);
	if (mkdir(path, 0777) == 0) {
		folder->was_made = true;
		return STATUS_OK;
	}
	if (errno != EEXIST) {
		return error_set(error, STATUS_FILE, "--out %s: the folder cannot be made: %s",
			path, strerror(errno));
	}
	if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) {
		return error_set(error, STATUS_FILE, "--out %s: exists and is no folder", path);
	}
	TRY(file_path(folder, RESULT_SUMMARY, "", summary, error));
	if (!is_forced && access(summary, F_OK) == 0) {
		return error_set(error, STATUS_FILE,
			"--out %s: holds a result already; --force replaces it", path);
	}
	return STATUS_OK;
}

enum status result_folder_begin(
	struct result_folder *folder, const char *name, char *path, struct error *error)
{
	check(folder->file_count < RESULT_FILES_MAX);
	TRY(file_path(folder, name, ".part", path, error));
	folder->files[folder->file_count++] = name;
	return STATUS_OK;
}

/* Whether the file was begun. */
static bool is_begun(const struct result_folder *folder, const char *name)
{
	for (unsigned i = 0; i < folder->file_count; i++) {
		if (strcmp(folder->files[i], name) == 0) {
			return true;
		}
	}
	return false;
}

static enum status remove_file(
	const struct result_folder *folder, const char *name, struct error *error)
{
	char whole[PATH_BYTES_MAX];

	TRY(file_path(folder, name, "", whole, error));
	if (unlink(whole) != 0 && errno != ENOENT) {
		return error_set(
			error, STATUS_FILE, "%s: cannot be replaced: %s", whole, strerror(errno));
	}
	return STATUS_OK;
}

static enum status rename_part(
	const struct result_folder *folder, const char *name, struct error *error)
{
	char part[PATH_BYTES_MAX], whole[PATH_BYTES_MAX];

	TRY(file_path(folder, name, ".part", part, error));
	TRY(file_path(folder, name, "", whole, error));
	if (rename(part, whole) != 0) {
		return error_set(
			error, STATUS_FILE, "%s: cannot be renamed: %s", part, strerror(errno));
	}
	return STATUS_OK;
}

enum status result_folder_commit(struct result_folder *folder, struct error *error)
{
	check(folder->file_count > 0);
	check(strcmp(folder->files[folder->file_count - 1], RESULT_SUMMARY) == 0);
	/* Once its summary is removed, the folder does not count as a result, even if a later step
	   fails. */
	TRY(remove_file(folder, RESULT_SUMMARY, error));
	for (uint32_t i = 0; i < RESULT_FILE_COUNT; i++) {
		if (!is_begun(folder, result_files[i])) {
			TRY(remove_file(folder, result_files[i], error));
		}
	}
	for (unsigned i = 0; i < folder->file_count; i++) {
		TRY(rename_part(folder, folder->files[i], error));
	}
	return STATUS_OK;
}

void result_folder_abandon(struct result_folder *folder)
{
	struct error ignored = {0};
	char part[PATH_BYTES_MAX];

	for (unsigned i = 0; i < folder->file_count; i++) {
		if (file_path(folder, folder->files[i], ".part", part, &ignored) == STATUS_OK) {
			unlink(part);
		}
	}
	folder->file_count = 0;
	if (folder->was_made) {
		rmdir(folder->path); /* fails, as intended, if the folder is not empty */
	}
}
