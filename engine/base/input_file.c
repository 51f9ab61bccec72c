#include "engine/base/input_file.h"

#include "engine/base/check.h"
#include "engine/base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

static struct {
	struct file_identity files[INPUT_FILES_REMEMBERED]; /* of `read` */
	struct file_set read;
	struct made {
		const char *path; /* NULL: none */
		FILE *file;
	} made[INPUT_FILES_MADE];
} input_files = {.read = {input_files.files, INPUT_FILES_REMEMBERED, 0}};

static enum status cannot_open(const char *path, int reason, struct error *error)
{
	return error_set(
		error, STATUS_FILE, "%.200s: cannot be opened: %s", path, strerror(reason));
}

bool file_set_has(const struct file_set *set, const struct stat *file)
{
	for (size_t i = 0; i < set->count && i < set->capacity; i++) {
		const struct file_identity *one = &set->files[i];
		if (one->device == file->st_dev && one->inode == file->st_ino &&
			one->changed.tv_sec == file->st_mtim.tv_sec &&
			one->changed.tv_nsec == file->st_mtim.tv_nsec) {
			return true;
		}
	}
	return false;
}

void file_set_add(struct file_set *set, const struct stat *file)
{
	if (S_ISREG(file->st_mode) && !file_set_has(set, file)) {
		set->files[set->count++ % set->capacity] =
			(struct file_identity){file->st_dev, file->st_ino, file->st_mtim};
	}
}

bool input_file_was_read(const struct stat *file)
{
	return file_set_has(&input_files.read, file);
}

void input_file_note(const char *path)
{
	struct stat found;

	if (stat(path, &found) == 0) {
		file_set_add(&input_files.read, &found);
	}
}

void input_file_forget(const char *path)
{
	struct stat found;

	if (stat(path, &found) != 0) {
		return;
	}
	for (size_t i = 0; i < input_files.read.count && i < INPUT_FILES_REMEMBERED; i++) {
		if (input_files.files[i].device == found.st_dev &&
			input_files.files[i].inode == found.st_ino) {
			input_files.files[i] = (struct file_identity){.inode = 0};
		}
	}
}

/* It is as a pipe that nobody writes to. */
static bool is_null_device(const struct stat *found)
{
	struct stat null_device;

	return S_ISCHR(found->st_mode) && stat("/dev/null", &null_device) == 0 &&
	       found->st_rdev == null_device.st_rdev;
}

static enum status check_kind(
	const struct stat *found, const char *path, enum input_kind kind, struct error *error)
{
	if (S_ISDIR(found->st_mode)) {
		return cannot_open(path, EISDIR, error);
	}
	if (S_ISREG(found->st_mode) ||
		(kind == INPUT_FILE_OR_PIPE &&
			(S_ISFIFO(found->st_mode) || is_null_device(found)))) {
		return STATUS_OK;
	}
	return error_set(error, STATUS_FILE, "%.200s: found a %sdevice, expected a file%s", path,
		kind == INPUT_FILE ? "pipe or a " : "", kind == INPUT_FILE ? "" : " or a pipe");
}

/* The entry of a path; of NULL the first free one. NULL: none. */
static struct made *made_find(const char *path)
{
	for (int i = 0; i < INPUT_FILES_MADE; i++) {
		struct made *made = &input_files.made[i];
		bool is_free = made->path == NULL;
		if (path == NULL ? is_free : !is_free && strcmp(path, made->path) == 0) {
			return made;
		}
	}
	return NULL;
}

static int open_path(const char *path, enum input_kind kind)
{
	const int flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
	const struct made *made = made_find(path);
	char copy[32];

	if (made != NULL) {
		snprintf(copy, sizeof(copy), "/proc/self/fd/%d", fileno(made->file));
		return open(copy, flags);
	}
	if (kind == INPUT_FILE_OR_PIPE && strcmp(path, "-") == 0) {
		return fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
	}
	return open(path, flags);
}

int input_descriptor(const char *path, enum input_kind kind, struct error *error)
{
	struct stat found;
	int descriptor = open_path(path, kind);

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
	file_set_add(&input_files.read, &found);
	return descriptor;
}

enum { CHUNK_BYTES = 1 << 16 };

enum status input_hash(const char *path, enum input_kind kind, uint64_t *hash, struct error *error)
{
	char buffer[CHUNK_BYTES];
	int descriptor = input_descriptor(path, kind, error);
	XXH64_state_t *state = memory_take_hash();
	ssize_t count = descriptor < 0 ? -1 : 1;

	while (descriptor >= 0 && (count = read(descriptor, buffer, sizeof(buffer))) > 0) {
		XXH64_update(state, buffer, (size_t)count);
	}
	*hash = XXH64_digest(state);
	XXH64_freeState(state);
	if (descriptor >= 0) {
		close(descriptor);
	}
	return count == 0 ? STATUS_OK
	       : error->status != STATUS_OK
		       ? error->status
		       : error_set(error, STATUS_FILE, "%.300s: cannot be read", path);
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

/* ---- files that are made ---- */

enum status input_file_make(FILE **out, const char *path, struct error *error)
{
	struct made *made = made_find(NULL);

	check(made != NULL && made_find(path) == NULL);
	*out = tmpfile();
	if (*out == NULL) {
		return error_set(error, STATUS_FILE, "%.200s: a temporary file cannot be made: %s",
			path, strerror(errno));
	}
	*made = (struct made){path, *out};
	return STATUS_OK;
}

void input_file_drop(const char *path)
{
	struct made *made = made_find(path);

	if (made != NULL) {
		fclose(made->file);
		*made = (struct made){NULL, NULL};
	}
}

static bool is_to_be_spooled(const char *path)
{
	struct stat found;

	return strcmp(path, "-") == 0 || (stat(path, &found) == 0 && S_ISFIFO(found.st_mode));
}

enum { SPOOL_BYTES = 1 << 14 };

static enum status copy_all(int from, FILE *to, const char *path, struct error *error)
{
	char buffer[SPOOL_BYTES];

	for (;;) {
		ssize_t got = read(from, buffer, sizeof(buffer));
		if (got < 0 && errno == EINTR) {
			continue;
		}
		if (got < 0) {
			return error_set(error, STATUS_FILE, "%.200s: cannot be read: %s", path,
				strerror(errno));
		}
		if (got == 0) {
			break;
		}
		if (fwrite(buffer, 1, (size_t)got, to) != (size_t)got) {
			break; /* the flush reports it */
		}
	}
	if (fflush(to) != 0 || ferror(to)) {
		return error_set(error, STATUS_FILE,
			"%.200s: cannot be copied to a temporary file: %s", path, strerror(errno));
	}
	return STATUS_OK;
}

enum status input_spool(const char *path, struct error *error)
{
	FILE *copy;

	if (!is_to_be_spooled(path) || made_find(path) != NULL) {
		return STATUS_OK;
	}
	int descriptor = input_descriptor(path, INPUT_FILE_OR_PIPE, error);
	if (descriptor < 0) {
		return error->status;
	}
	enum status status = input_file_make(&copy, path, error);
	if (status == STATUS_OK) {
		status = copy_all(descriptor, copy, path, error);
	}
	close(descriptor);
	if (status != STATUS_OK) {
		input_file_drop(path);
	}
	return status;
}
