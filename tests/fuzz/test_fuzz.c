#include "tests/fuzz/targets.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/counter_hash.h"
#include "tests/fuzz/mutate.h"
#include "tests/harness/files.h"
#include "tests/harness/require.h"

/* The corpus of every target, and changes of it from a fixed seed: what a fuzzer would try first.
 */

enum { ROOM = 1 << 17, EDITS_MAX = 4, PATH_BYTES = 512 };

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
	char folder[PATH_BYTES];
	size_t count;
	uint32_t accepted = 0;

	snprintf(folder, sizeof(folder), "tests/fuzz/corpus/%s", name);
	char **paths = files_list(folder, "", &count);
	require(count > 0, "%s is not here, or empty", folder);
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
	}
	files_forget(paths, count);
	require(accepted > 0, "%s refuses its whole corpus: a format has changed", name);
}

#define FUZZ_CASE(name, mutator, changes, what)                                                    \
	Test(fuzz, name, .timeout = 300)                                                           \
	{                                                                                          \
		run_target(#name, changes);                                                        \
	}
FUZZ_TARGETS(FUZZ_CASE)
#undef FUZZ_CASE
