/* fts is not POSIX. */
#define _DEFAULT_SOURCE

#include "tests/faults/folder_state.h"

#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/memory.h"
#include "tests/harness/files.h"
#include "tests/harness/require.h"

enum { PATH_BYTES = 1024, TRIES_MOST = 1000 };

static int by_name(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* false: it is no longer there. */
static bool add_entry(struct folder_state *state, const FTSENT *found, const char *name)
{
	char target[PATH_BYTES];

	state->entries = memory_grow(
		state->entries, &state->capacity, state->count + 1, sizeof(*state->entries));
	struct folder_entry *entry = &state->entries[state->count++];
	*entry = (struct folder_entry){
		.name = strdup(name), .kind = found->fts_statp->st_mode & S_IFMT};
	if (entry->kind == S_IFREG) {
		entry->bytes = file_read_if_there(found->fts_accpath, &entry->byte_count);
		return entry->bytes != NULL;
	}
	if (entry->kind == S_IFLNK) {
		ssize_t bytes = readlink(found->fts_accpath, target, sizeof(target) - 1);
		require(bytes >= 0, "no link");
		target[bytes] = '\0';
		entry->bytes = strdup(target);
		entry->byte_count = (size_t)bytes;
	}
	return true;
}

static bool take(struct folder_state *state, const char *folder)
{
	char *const roots[] = {(char *)folder, NULL};
	FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, by_name);
	bool is_whole = true;

	*state = (struct folder_state){0};
	require(walk != NULL, "%s cannot be read", folder);
	for (FTSENT *found = fts_read(walk); is_whole && found != NULL; found = fts_read(walk)) {
		if (found->fts_level > 0 && found->fts_info != FTS_DP) {
			is_whole = found->fts_info != FTS_NS &&
				   add_entry(state, found, found->fts_path + strlen(folder) + 1);
		}
	}
	fts_close(walk);
	return is_whole;
}

void folder_state_free(struct folder_state *state)
{
	for (uint32_t i = 0; i < state->count; i++) {
		free(state->entries[i].name);
		free(state->entries[i].bytes);
	}
	free(state->entries);
	*state = (struct folder_state){0};
}

/* The folder of a program that runs may change while it is read. Then it is read again. */
void folder_state_take(struct folder_state *state, const char *folder)
{
	bool is_whole = take(state, folder);

	for (uint32_t tries = 0; !is_whole; tries++) {
		require(tries < TRIES_MOST, "%s changes all the time", folder);
		folder_state_free(state);
		is_whole = take(state, folder);
	}
}

const struct folder_entry *folder_state_find(const struct folder_state *state, const char *name)
{
	for (uint32_t i = 0; i < state->count; i++) {
		if (strcmp(state->entries[i].name, name) == 0) {
			return &state->entries[i];
		}
	}
	return NULL;
}

bool folder_entry_is_equal(const struct folder_entry *a, const struct folder_entry *b)
{
	if (a == NULL || b == NULL) {
		return a == b;
	}
	return a->kind == b->kind && a->byte_count == b->byte_count &&
	       (a->byte_count == 0 || memcmp(a->bytes, b->bytes, a->byte_count) == 0);
}

bool folder_state_is_equal(const struct folder_state *found, const struct folder_state *wanted,
	struct text *difference)
{
	for (uint32_t i = 0; i < found->count; i++) {
		const char *name = found->entries[i].name;
		const struct folder_entry *other = folder_state_find(wanted, name);
		if (!folder_entry_is_equal(&found->entries[i], other)) {
			text_format(
				difference, "%s %.200s", other == NULL ? "a new" : "another", name);
			return false;
		}
	}
	for (uint32_t i = 0; i < wanted->count; i++) {
		if (folder_state_find(found, wanted->entries[i].name) == NULL) {
			text_format(difference, "no %.200s", wanted->entries[i].name);
			return false;
		}
	}
	return true;
}

static void make(const struct folder_entry *entry, const char *path)
{
	if (entry->kind == S_IFDIR) {
		require(mkdir(path, 0777) == 0, "%s cannot be made", path);
	} else if (entry->kind == S_IFLNK) {
		require(symlink(entry->bytes, path) == 0, "%s cannot be made", path);
	} else if (entry->kind == S_IFIFO) {
		require(mkfifo(path, 0666) == 0, "%s cannot be made", path);
	} else {
		file_write(path, entry->bytes, entry->byte_count);
	}
}

void folder_state_restore(
	const struct folder_state *found, const struct folder_state *wanted, const char *folder)
{
	char path[PATH_BYTES];

	/* What lies in a folder comes behind it. */
	for (uint32_t i = found->count; i-- > 0;) {
		const struct folder_entry *entry = &found->entries[i];
		if (!folder_entry_is_equal(entry, folder_state_find(wanted, entry->name))) {
			snprintf(path, sizeof(path), "%s/%s", folder, entry->name);
			require(remove(path) == 0, "%s cannot be removed", path);
		}
	}
	for (uint32_t i = 0; i < wanted->count; i++) {
		const struct folder_entry *entry = &wanted->entries[i];
		if (!folder_entry_is_equal(entry, folder_state_find(found, entry->name))) {
			snprintf(path, sizeof(path), "%s/%s", folder, entry->name);
			make(entry, path);
		}
	}
}
