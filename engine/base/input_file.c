#include "engine/base/input_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* A file, whatever its names. The time of its last change tells it from a later file, which may get
   the number of one that was removed. */
struct identity {
	dev_t device;
	ino_t inode;
	struct timespec changed;
};

/* The latest ones; entry i is that of the files i, i + INPUT_FILES_REMEMBERED, ... */
static struct {
	struct identity files[INPUT_FILES_REMEMBERED];
	size_t count; /* that were opened */
} input_files;

static enum status cannot_open(const char *path, int reason, struct error *error)
{
	return error_set(
		error, STATUS_FILE, "%.200s: cannot be opened: %s", path, strerror(reason));
}

bool input_file_was_read(const struct stat *file)
{
	for (size_t i = 0; i < input_files.count && i < INPUT_FILES_REMEMBERED; i++) {
		const struct identity *read = &input_files.files[i];
		if (read->device == file->st_dev && read->inode == file->st_ino &&
			read->changed.tv_sec == file->st_mtim.tv_sec &&
			read->changed.tv_nsec == file->st_mtim.tv_nsec) {
			return true;
		}
	}
	return false;
}

static void remember(const struct stat *file)
{
	if (!S_ISREG(file->st_mode) || input_file_was_read(file)) {
		return;
	}
	input_files.files[input_files.count++ % INPUT_FILES_REMEMBERED] =
		(struct identity){file->st_dev, file->st_ino, file->st_mtim};
}

static enum status check_kind(
	const struct stat *found, const char *path, enum input_kind kind, struct error *error)
{
	if (S_ISDIR(found->st_mode)) {
		return cannot_open(path, EISDIR, error);
	}
	if (S_ISREG(found->st_mode) || (kind == INPUT_FILE_OR_PIPE && S_ISFIFO(found->st_mode))) {
		return STATUS_OK;
	}
	return error_set(
		error, STATUS_FILE, "%.200s: found a pipe or a device, expected a file", path);
}

int input_descriptor(const char *path, enum input_kind kind, struct error *error)
{
	struct stat found;
	int descriptor = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (descriptor < 0) {
		cannot_open(path, errno, error);
		return -1;
	}
	/* Reads of a pipe shall wait for its writer. */
	if (fstat(descriptor, &found) != 0 || fcntl(descriptor, F_SETFL, O_RDONLY) != 0) {
		cannot_open(path, errno, error);
		close(descriptor);
		return -1;
	}
	if (check_kind(&found, path, kind, error) != STATUS_OK) {
		close(descriptor);
		return -1;
	}
	remember(&found);
	return descriptor;
}

enum status input_file_open(FILE **out, const char *path, enum input_kind kind, struct error *error)
{
	int descriptor = input_descriptor(path, kind, error);

	*out = NULL;
	if (descriptor < 0) {
		return error->status;
	}
	*out = fdopen(descriptor, "rb");
	if (*out == NULL) {
		int reason = errno;
		close(descriptor);
		return cannot_open(path, reason, error);
	}
	return STATUS_OK;
}
