#include "tests/fuzz/targets.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/counter_hash.h"
#include "tests/fuzz/mutate.h"
#include "tests/harness/files.h"
#include "tests/harness/require.h"

/* The corpus of every target, and changes of it from a fixed seed: what a fuzzer would try first.
 */

enum { FILES_MAX = 256, ROOM = 1 << 17, EDITS_MAX = 4, PATH_BYTES = 512 };

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Paths of the corpus in order; to be freed. */
static size_t list_corpus(const char *target, char **paths)
{
	char path[PATH_BYTES];
	size_t count = 0;

	snprintf(path, sizeof(path), "tests/fuzz/corpus/%s", target);
	DIR *folder = opendir(path);
	require(folder != NULL, "%s is not here", path);
	for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
		if (entry->d_name[0] != '.') {
			require(count < FILES_MAX, "more than %d files", FILES_MAX);
			snprintf(path, sizeof(path), "tests/fuzz/corpus/%s/%.200s", target,
				entry->d_name);
			paths[count++] = strdup(path);
		}
	}
	closedir(folder);
	qsort(paths, count, sizeof(*paths), by_name);
	require(count > 0, "no input for %s", target);
	return count;
}

/* Hands the target exactly its bytes, so that a sanitizer sees what is read behind them. */
static bool feed(const struct fuzz_target *target, const uint8_t *bytes, size_t byte_count)
{
	uint8_t *copy = malloc(byte_count + (byte_count == 0));

	require(copy != NULL, "out of memory");
	memcpy(copy, bytes, byte_count);
	bool is_accepted = target->run(copy, byte_count);
	free(copy);
	return is_accepted;
}

/* `changes` inputs from each of the corpus, by the target's own mutator and by that of bytes. */
static void run_target(const char *name, uint32_t changes)
{
	static uint8_t buffer[ROOM];
	const struct fuzz_target *target = fuzz_target_find(name);
	char *paths[FILES_MAX];
	size_t count = list_corpus(name, paths);
	uint32_t accepted = 0;

	for (size_t i = 0; i < count; i++) {
		size_t byte_count;
		char *bytes = file_read(paths[i], &byte_count);
		require(byte_count < ROOM, "%s is too large", paths[i]);
		accepted += feed(target, (const uint8_t *)bytes, byte_count);
		for (uint32_t trial = 0; trial < changes; trial++) {
			uint64_t key = counter_key(i, trial);
			size_t changed = byte_count;
			memcpy(buffer, bytes, byte_count);
			for (uint64_t edit = 0; edit <= key % EDITS_MAX; edit++) {
				uint64_t seed = counter_hash(key, edit);
				changed = seed % 4 == 0
						  ? fuzz_mutate_bytes(buffer, changed, ROOM, seed)
						  : target->mutate(buffer, changed, ROOM, seed);
			}
			feed(target, buffer, changed);
		}
		free(bytes);
		free(paths[i]);
	}
	require(accepted > 0, "%s refuses its whole corpus: a format has changed", name);
}

#define FUZZ_CASE(name, mutator, changes, what)                                                    \
	Test(fuzz, name, .timeout = 300)                                                           \
	{                                                                                          \
		run_target(#name, changes);                                                        \
	}
FUZZ_TARGETS(FUZZ_CASE)
#undef FUZZ_CASE
