#include "engine/base/unfinished.h"

#include "engine/base/check.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KIND_NONE, KIND_FILE, KIND_FOLDER };

struct unfinished {
	atomic_int kind; /* KIND_NONE: the rest is not valid */
	pid_t owner; /* a process that was forked has a copy of the list, which is not its own */
	char path[PATH_BYTES_MAX];
};

/* In the order in which they were made: a folder comes before its files. */
static struct unfinished unfinished_list[UNFINISHED_MAX];

/* The entry behind the last one in use. */
static struct unfinished *next_entry(void)
{
	uint32_t count = UNFINISHED_MAX;

	while (count > 0 && atomic_load(&unfinished_list[count - 1].kind) == KIND_NONE) {
		count--;
	}
	check(count < UNFINISHED_MAX);
	return &unfinished_list[count];
}

static int make(const char *path, int kind)
{
	return kind == KIND_FOLDER
		       ? mkdir(path, 0777)
		       : open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
}

/* Signals wait until what was made is in the list. */
static int add(struct unfinished **out, const char *path, int kind)
{
	struct unfinished *entry = next_entry();
	sigset_t all, before;

	check(strlen(path) < sizeof(entry->path));
	*out = NULL;
	strcpy(entry->path, path);
	entry->owner = getpid();
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	int result = make(path, kind);
	int reason = errno;
	if (result >= 0) {
		atomic_store(&entry->kind, kind);
		*out = entry;
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	errno = reason;
	return result;
}

struct unfinished *unfinished_add(const char *path)
{
	struct unfinished *entry = next_entry();

	check(strlen(path) < sizeof(entry->path));
	strcpy(entry->path, path);
	entry->owner = getpid();
	atomic_store(&entry->kind, KIND_FILE);
	return entry;
}

int unfinished_create(struct unfinished **out, const char *path)
{
	return add(out, path, KIND_FILE);
}

int unfinished_make_folder(struct unfinished **out, const char *path)
{
	return add(out, path, KIND_FOLDER);
}

bool unfinished_holds(const char *path)
{
	struct stat wanted, found;

	if (lstat(path, &wanted) != 0) {
		return false;
	}
	for (uint32_t i = 0; i < UNFINISHED_MAX; i++) {
		if (atomic_load(&unfinished_list[i].kind) == KIND_FILE &&
			lstat(unfinished_list[i].path, &found) == 0 &&
			found.st_dev == wanted.st_dev && found.st_ino == wanted.st_ino) {
			return true;
		}
	}
	return false;
}

const char *unfinished_path(const struct unfinished *unfinished)
{
	return unfinished->path;
}

void unfinished_keep(struct unfinished *unfinished)
{
	atomic_store(&unfinished->kind, KIND_NONE);
}

void unfinished_remove(struct unfinished *unfinished)
{
	int kind = atomic_exchange(&unfinished->kind, KIND_NONE);

	if (kind == KIND_FILE) {
		unlink(unfinished->path);
	} else if (kind == KIND_FOLDER) {
		rmdir(unfinished->path);
	}
}

void unfinished_remove_all(void)
{
	for (uint32_t i = UNFINISHED_MAX; i > 0; i--) {
		struct unfinished *entry = &unfinished_list[i - 1];
		if (atomic_load(&entry->kind) != KIND_NONE && entry->owner == getpid()) {
			unfinished_remove(entry);
		}
	}
}
