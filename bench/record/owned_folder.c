#include "bench/record/owned_folder.h"

#include "engine/base/interrupt.h"
#include "engine/base/unfinished.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCK_NAME ".quire-lock"

enum { TRIES = 100 };

static enum status cannot_own(const char *path, int reason, struct error *error)
{
	return error_set(error, STATUS_FILE, "--out %.200s: the folder cannot be written to: %s",
		path, strerror(reason));
}

/* ---- the lock ---- */

/* Opens the lock's file. *is_new: it was created. */
static int open_lock(const char *path, bool *is_new)
{
	const int flags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
	int descriptor = open(path, flags | O_CREAT | O_EXCL, 0666);

	*is_new = descriptor >= 0;
	return *is_new || errno != EEXIST ? descriptor : open(path, flags);
}

/* Whether the locked file is still the one of that name: an owner that ended may have removed it
   after it was opened here. */
static bool is_current(int descriptor, const char *path)
{
	struct stat locked, named;

	return fstat(descriptor, &locked) == 0 && lstat(path, &named) == 0 &&
	       locked.st_dev == named.st_dev && locked.st_ino == named.st_ino;
}

static enum status refuse(
	const struct owned_folder *folder, const char *path, int reason, struct error *error)
{
	if (reason == EWOULDBLOCK) {
		return error_set(error, STATUS_FILE,
			"--out %.200s: another quire is writing to this folder", folder->path);
	}
	return error_set(error, STATUS_FILE,
		"--out %.100s: another quire is writing to this folder, or was killed: remove "
		"%.200s if it was (%s)",
		folder->path, path, strerror(reason));
}

/* One attempt. STATUS_OK without an owner: the file was removed meanwhile. */
static enum status try_lock(struct owned_folder *folder, const char *path, struct error *error)
{
	bool is_new;
	int descriptor = open_lock(path, &is_new);

	if (descriptor < 0) {
		return errno == ENOENT ? STATUS_OK : cannot_own(folder->path, errno, error);
	}
	bool is_locked = flock(descriptor, LOCK_EX | LOCK_NB) == 0;
	if (!is_locked && (errno == EWOULDBLOCK || !is_new)) {
		int reason = errno;
		close(descriptor);
		return refuse(folder, path, reason, error);
	}
	if (!is_current(descriptor, path)) {
		close(descriptor);
		return STATUS_OK;
	}
	folder->lock = unfinished_add(path);
	folder->lock_descriptor = descriptor;
	return STATUS_OK;
}

static enum status lock(struct owned_folder *folder, struct error *error)
{
	char path[PATH_BYTES_MAX];

	TRY(path_format(path, error, "%s/" LOCK_NAME, folder->path));
	for (int i = 0; i < TRIES && folder->lock == NULL; i++) {
		interrupt_defer(); /* until what was created is in the list of the unfinished */
		enum status status = try_lock(folder, path, error);
		interrupt_resume();
		TRY(status);
	}
	return folder->lock == NULL ? refuse(folder, path, EWOULDBLOCK, error) : STATUS_OK;
}

/* ---- the folder ---- */

static void remove_made(struct owned_folder *folder)
{
	while (folder->made_count > 0) {
		/* fails, as intended, if it is not empty */
		unfinished_remove(folder->made[--folder->made_count]);
	}
}

/* Returns 0; -1: errno says why. */
static int make_one(struct owned_folder *folder, const char *path)
{
	if (folder->made_count == OWNED_FOLDERS_MAX) {
		errno = ENAMETOOLONG;
		return -1;
	}
	int result = unfinished_make_folder(&folder->made[folder->made_count], path);
	folder->made_count += result == 0;
	return result;
}

/* Makes the folder and those above it. Returns 0; -1: errno says why. */
static int make_with_parents(struct owned_folder *folder)
{
	char path[PATH_BYTES_MAX];

	for (size_t i = 1; folder->path[i] != '\0'; i++) {
		if (folder->path[i] != '/' || folder->path[i - 1] == '/') {
			continue;
		}
		memcpy(path, folder->path, i);
		path[i] = '\0';
		if (make_one(folder, path) != 0 && errno != EEXIST) {
			return -1;
		}
	}
	return make_one(folder, folder->path);
}

static enum status make(struct owned_folder *folder, struct error *error)
{
	struct stat found;
	int result = make_one(folder, folder->path);

	if (result != 0 && errno == ENOENT && folder->path[0] != '\0') {
		result = make_with_parents(folder);
	}
	if (result == 0) {
		return STATUS_OK;
	}
	if (errno != EEXIST) {
		int reason = errno;
		remove_made(folder);
		return error_set(error, STATUS_FILE, "--out %.200s: the folder cannot be made: %s",
			folder->path, strerror(reason));
	}
	if (stat(folder->path, &found) != 0 || !S_ISDIR(found.st_mode)) {
		remove_made(folder);
		return error_set(
			error, STATUS_FILE, "--out %.200s: exists and is no folder", folder->path);
	}
	return STATUS_OK;
}

enum status owned_folder_open(struct owned_folder *folder, const char *path, struct error *error)
{
	*folder = (struct owned_folder){.lock_descriptor = -1};
	TRY(path_format(folder->path, error, "%s", path));
	TRY(make(folder, error));
	enum status status = lock(folder, error);
	if (status != STATUS_OK) {
		owned_folder_close(folder);
	}
	return status;
}

void owned_folder_close(struct owned_folder *folder)
{
	if (folder->lock != NULL) {
		unfinished_remove(folder->lock);
		close(folder->lock_descriptor);
	}
	folder->lock = NULL;
	remove_made(folder);
}

enum status owned_folder_refuse_old(
	const char *path, const char *const *names, uint32_t count, struct error *error)
{
	for (uint32_t i = 0; i < count; i++) {
		char name[PATH_BYTES_MAX];
		bool is_there;
		TRY(path_format(name, error, "%s/%s", path, names[i]));
		TRY(path_is_there(name, &is_there, error));
		if (is_there) {
			return error_set(error, STATUS_FILE,
				"--out %.200s: holds %s, which this would replace; --force does",
				path, names[i]);
		}
	}
	return STATUS_OK;
}

bool owned_folder_is_of_quire(const char *path, const char *schema_prefix)
{
	enum { HEAD_BYTES = 4096 }; /* the schema is the first field */
	char head[HEAD_BYTES + 1] = {0}, quoted[64];
	struct stat found;
	int descriptor = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (descriptor < 0) {
		return false;
	}
	snprintf(quoted, sizeof(quoted), "\"%s", schema_prefix);
	bool is_good = fstat(descriptor, &found) == 0 && S_ISREG(found.st_mode) &&
		       read(descriptor, head, HEAD_BYTES) > 0 &&
		       strstr(head, "\"schema\"") != NULL && strstr(head, quoted) != NULL;
	close(descriptor);
	return is_good;
}
