#include "engine/base/counter_hash.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/trace_target.h"
#include "tests/harness/require.h"

/* The corpus of tests/fuzz, and mutations of it from a fixed seed: what a fuzzer would try first.
 */

enum { FILES_MAX = 256, FILE_BYTES_MAX = 1 << 16, MUTATIONS = 60, EDITS_MAX = 4 };

static const char *const corpus = "tests/fuzz/corpus/trace";

struct input {
	char name[64];
	uint8_t bytes[FILE_BYTES_MAX];
	size_t size;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names of the corpus in order. */
static size_t list_corpus(char **names)
{
	DIR *folder = opendir(corpus);
	size_t count = 0;

	require(folder != NULL, "%s is not here", corpus);
	for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
		if (entry->d_name[0] != '.') {
			require(count < FILES_MAX, "more than %d files", FILES_MAX);
			names[count++] = strdup(entry->d_name);
		}
	}
	closedir(folder);
	qsort(names, count, sizeof(*names), by_name);
	require(count > 50, "%zu files are too few", count);
	return count;
}

static void read_input(struct input *input, const char *name)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", corpus, name);
	snprintf(input->name, sizeof(input->name), "%s", name);
	FILE *file = fopen(path, "rb");
	require(file != NULL, "%s cannot be read", path);
	input->size = fread(input->bytes, 1, sizeof(input->bytes) - EDITS_MAX * 32, file);
	fclose(file);
}

static uint64_t draw(uint64_t *counter, uint64_t bound)
{
	return (counter_mix((*counter)++ * 977) >> 11) % bound;
}

/* One edit: a bit, a byte, a cut, a piece that comes again, or a word that means something. */
static void edit(struct input *input, uint64_t *counter)
{
	static const char *const words[] = {"-", "0", "\n", "\"", ",", "[", "]", "{", "}", "null",
		"1e9", "999999999999999999999", ".5", "\\u0000", "\xff", "hash_ids", "\r\n"};
	size_t at = draw(counter, input->size + 1);
	size_t left = input->size - at;
	const char *word = words[draw(counter, sizeof(words) / sizeof(words[0]))];
	size_t word_size = strlen(word);

	switch (draw(counter, 5)) {
	case 0:
		input->bytes[at] ^= (uint8_t)(1u << draw(counter, 8));
		input->size += left == 0;
		break;
	case 1:
		input->bytes[at] = (uint8_t)draw(counter, 256);
		input->size += left == 0;
		break;
	case 2:
		input->size = at;
		break;
	case 3: {
		size_t count = draw(counter, left + 1);
		memmove(input->bytes + at, input->bytes + at + count, left - count);
		input->size -= count;
		break;
	}
	default:
		memmove(input->bytes + at + word_size, input->bytes + at, left);
		memcpy(input->bytes + at, word, word_size);
		input->size += word_size;
	}
}

Test(trace_fuzz, the_corpus_breaks_nothing)
{
	char *names[FILES_MAX];
	size_t count = list_corpus(names);
	static struct input input;

	for (size_t i = 0; i < count; i++) {
		read_input(&input, names[i]);
		fuzz_trace(input.bytes, input.size);
		free(names[i]);
	}
}

Test(trace_fuzz, mutations_of_the_corpus_break_nothing, .timeout = 300)
{
	char *names[FILES_MAX];
	size_t count = list_corpus(names);
	static struct input input;
	uint64_t counter = 0;

	for (size_t i = 0; i < count; i++) {
		for (uint32_t trial = 0; trial < MUTATIONS; trial++) {
			read_input(&input, names[i]);
			uint64_t edits = 1 + draw(&counter, EDITS_MAX);
			for (uint64_t e = 0; e < edits; e++) {
				edit(&input, &counter);
			}
			fuzz_trace(input.bytes, input.size);
		}
		free(names[i]);
	}
}
