#include "engine/base/output_file.h"

#include "engine/base/check.h"
#include "engine/base/clock.h"
#include "engine/base/input_file.h"
#include "engine/base/unfinished.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	NAMES_TRIED = 100,
	READER_WAITS = 40, /* for the reader of a pipe, which may be about to open it */
	READER_WAIT_NS = 50000000,
};

enum { COMMITTED_REMEMBERED = 256 };

static struct {
	struct file_identity files[COMMITTED_REMEMBERED]; /* of `committed` */
	struct file_set committed;
} output_files = {.committed = {output_files.files, COMMITTED_REMEMBERED, 0}};

static enum status cannot_write(const char *path, int reason, struct error *error)
{
	return error_set(
		error, STATUS_FILE, "%.200s: cannot be written: %s", path, strerror(reason));
}

static enum status refuse_second(const char *path, struct error *error)
{
	return error_set(error, STATUS_FILE,
		"%.200s: is written to twice by this command, expected two files", path);
}

/* ---- what was written ---- */

/* A link is replaced, not what it leads to, so it is a file of its own. */
static bool was_committed(const char *path)
{
	struct stat found;

	return lstat(path, &found) == 0 && file_set_has(&output_files.committed, &found);
}

static void remember(const char *path)
{
	struct stat found;

	if (lstat(path, &found) == 0) {
		file_set_add(&output_files.committed, &found);
	}
}

/* ---- opening ---- */

/* Writes the name of part number `index`, which is 0 but where a killed process of the same id has
   left its part. */
static enum status part_name(
	const struct output_file *output, int index, char *part, struct error *error)
{
	long id = (long)getpid();
	int bytes = index == 0 ? snprintf(part, PATH_BYTES_MAX, "%s.%ld.part", output->path, id)
			       : snprintf(part, PATH_BYTES_MAX, "%s.%ld-%d.part", output->path, id,
					 index);

	return bytes > 0 && bytes < PATH_BYTES_MAX
		       ? STATUS_OK
		       : cannot_write(output->path, ENAMETOOLONG, error);
}

static enum status create_part(struct output_file *output, int *descriptor, struct error *error)
{
	char part[PATH_BYTES_MAX];

	errno = EEXIST;
	for (int i = 0; i < NAMES_TRIED && *descriptor < 0 && errno == EEXIST; i++) {
		TRY(part_name(output, i, part, error));
		if (unfinished_holds(part)) {
			return refuse_second(output->path, error);
		}
		*descriptor = unfinished_create(&output->part, part);
	}
	return *descriptor >= 0 ? STATUS_OK : cannot_write(output->path, errno, error);
}

/* To open a pipe without a reader would wait without end. */
static enum status open_itself(const char *path, int *descriptor, struct error *error)
{
	const int flags = O_WRONLY | O_TRUNC | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;

	*descriptor = open(path, flags);
	for (uint32_t i = 0; *descriptor < 0 && errno == ENXIO && i < READER_WAITS; i++) {
		pause_ns(READER_WAIT_NS);
		*descriptor = open(path, flags);
	}
	if (*descriptor < 0 && errno == ENXIO) {
		return error_set(error, STATUS_FILE, "%.200s: is a pipe without a reader", path);
	}
	if (*descriptor < 0 || fcntl(*descriptor, F_SETFL, O_WRONLY) != 0) {
		return cannot_write(path, errno, error);
	}
	return STATUS_OK;
}

/* A rename would replace a device or a pipe by a file. The links of descriptors, such as
   /dev/stdout, may lead to a file, but stay links. */
static bool is_written_itself(const char *path)
{
	static const char *const links[] = {"/dev/std", "/dev/fd/", "/proc/"};
	struct stat found;

	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
		if (strncmp(path, links[i], strlen(links[i])) == 0) {
			return true;
		}
	}
	return stat(path, &found) == 0 && !S_ISREG(found.st_mode);
}

/* Of a file that this command reads the rest would be lost. */
static enum status refuse_input(const char *path, struct error *error)
{
	struct stat found;

	if (stat(path, &found) == 0 && input_file_was_read(&found)) {
		return error_set(error, STATUS_FILE,
			"%.200s: is read by this command, expected another file to write", path);
	}
	return STATUS_OK;
}

static enum status check_path(const char *path, struct error *error)
{
	TRY(refuse_input(path, error));
	return was_committed(path) ? refuse_second(path, error) : STATUS_OK;
}

/* Whether two paths lead to one file, or, where one of them leads to none, have one name in one
   folder. */
static bool is_one_file(const char *a, const char *b)
{
	const char *paths[] = {a, b};
	struct stat found[2];
	char folder[PATH_BYTES_MAX];
	bool is_there = stat(a, &found[0]) == 0 && stat(b, &found[1]) == 0;

	if (!is_there && strcmp(path_name(a), path_name(b)) != 0) {
		return false;
	}
	for (uint32_t i = 0; i < 2 && !is_there; i++) {
		struct error too_long = {0};
		int bytes = (int)(path_name(paths[i]) - paths[i]);
		if (path_format(folder, &too_long, "%.*s", bytes, paths[i]) != STATUS_OK ||
			stat(bytes == 0 ? "." : folder, &found[i]) != 0) {
			return false;
		}
	}
	return found[0].st_dev == found[1].st_dev && found[0].st_ino == found[1].st_ino;
}

static bool is_a_file(const char *path)
{
	return path != NULL && strcmp(path, "-") != 0 && !is_written_itself(path);
}

/* A file is made in its folder and renamed; what is no file must be open to writing. */
static enum status check_writable(const char *path, struct error *error)
{
	struct stat found;
	char folder[PATH_BYTES_MAX] = ".";

	if (stat(path, &found) == 0 && S_ISDIR(found.st_mode)) {
		return cannot_write(path, EISDIR, error);
	}
	if (is_written_itself(path)) {
		return access(path, W_OK) == 0 ? STATUS_OK : cannot_write(path, errno, error);
	}
	int bytes = (int)(path_name(path) - path);
	if (bytes > 0) {
		TRY(path_format(folder, error, "%.*s", bytes, path));
	}
	return access(folder, W_OK | X_OK) == 0 ? STATUS_OK : cannot_write(path, errno, error);
}

enum status output_files_check(const char *const *paths, uint32_t count, struct error *error)
{
	for (uint32_t i = 0; i < count; i++) {
		if (paths[i] == NULL || strcmp(paths[i], "-") == 0) {
			continue;
		}
		TRY(check_writable(paths[i], error));
		if (!is_a_file(paths[i])) {
			continue;
		}
		TRY(check_path(paths[i], error));
		for (uint32_t j = 0; j < i; j++) {
			if (is_a_file(paths[j]) && is_one_file(paths[j], paths[i])) {
				return refuse_second(paths[i], error);
			}
		}
	}
	return STATUS_OK;
}

enum status output_file_refuse_old(const char *path, bool is_forced, struct error *error)
{
	struct stat found;

	TRY(output_files_check(&path, 1, error));
	if (!is_forced && is_a_file(path) && stat(path, &found) == 0 && found.st_size > 0) {
		return error_set(
			error, STATUS_FILE, "%.200s: exists already; --force replaces it", path);
	}
	return STATUS_OK;
}

enum status output_file_open(struct output_file *output, const char *path, struct error *error)
{
	*output = (struct output_file){.file = NULL};
	if (strlen(path) >= sizeof(output->path)) {
		return cannot_write(path, ENAMETOOLONG, error);
	}
	strcpy(output->path, path);
	if (strcmp(path, "-") == 0) {
		output->file = stdout;
		return STATUS_OK;
	}
	TRY(check_path(path, error));
	int descriptor = -1;
	enum status status = is_written_itself(path) ? open_itself(path, &descriptor, error)
						     : create_part(output, &descriptor, error);
	if (status == STATUS_OK) {
		output->file = fdopen(descriptor, "wb");
		if (output->file != NULL) {
			return STATUS_OK;
		}
		status = cannot_write(path, errno, error);
	}
	if (descriptor >= 0) {
		close(descriptor);
	}
	output_file_abandon(output);
	return status;
}

/* ---- writing ---- */

/* Why a write failed. The reason of one in mid-file is lost in stdio, so another write, which fails
   for the same reason, is made. */
static int find_reason(FILE *file)
{
	char more[1 << 16] = {0};

	clearerr(file);
	errno = 0;
	if (fwrite(more, 1, sizeof(more), file) == sizeof(more)) {
		fflush(file);
	}
	return errno == 0 ? EIO : errno;
}

/* Returns the reason of a failure, or 0. */
static int flush(struct output_file *output)
{
	errno = 0;
	if (ferror(output->file)) {
		return find_reason(output->file);
	}
	if (fflush(output->file) != 0) {
		return errno == 0 ? EIO : errno;
	}
	if (output->part != NULL && fsync(fileno(output->file)) != 0) {
		return errno;
	}
	return 0;
}

enum status output_file_finish(struct output_file *output, struct error *error)
{
	check(output->file != NULL);
	bool is_stdout = output->file == stdout;
	int reason = flush(output);
	if (!is_stdout && fclose(output->file) != 0 && reason == 0) {
		reason = errno;
	}
	output->file = NULL;
	if (reason == 0) {
		return STATUS_OK;
	}
	output_file_abandon(output);
	return cannot_write(is_stdout ? "the standard output" : output->path, reason, error);
}

enum status output_file_publish(struct output_file *output, struct error *error)
{
	check(output->file == NULL);
	if (output->part == NULL) {
		return STATUS_OK;
	}
	TRY(refuse_input(output->path, error));
	if (rename(unfinished_path(output->part), output->path) != 0) {
		int reason = errno;
		output_file_abandon(output);
		return cannot_write(output->path, reason, error);
	}
	unfinished_keep(output->part);
	output->part = NULL;
	return STATUS_OK;
}

enum status output_file_sync_folder(const char *path, struct error *error)
{
	char folder[PATH_BYTES_MAX] = ".";
	const char *slash = strrchr(path, '/');

	if (slash != NULL) {
		TRY(path_format(folder, error, "%.*s", (int)(slash - path + 1), path));
	}
	/* A folder that may be written but not read cannot be opened; some network file systems
	   know no fsync of a folder. There the name reaches the disk when the system sees fit. */
	int descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (descriptor < 0) {
		return STATUS_OK;
	}
	int reason = fsync(descriptor) == 0 || errno == EINVAL || errno == ENOTSUP ? 0 : errno;
	close(descriptor);
	return reason == 0 ? STATUS_OK : cannot_write(path, reason, error);
}

enum status output_file_commit(struct output_file *output, struct error *error)
{
	bool has_part = output->part != NULL;

	TRY(output_file_finish(output, error));
	TRY(output_file_publish(output, error));
	if (!has_part) {
		return STATUS_OK;
	}
	remember(output->path);
	return output_file_sync_folder(output->path, error);
}

void output_file_abandon(struct output_file *output)
{
	if (output->file != NULL && output->file != stdout) {
		fclose(output->file);
	}
	output->file = NULL;
	if (output->part != NULL) {
		unfinished_remove(output->part);
	}
	output->part = NULL;
}
