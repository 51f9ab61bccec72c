#include "tests/fuzz/targets.h"

#include "engine/base/check.h"
#include "engine/base/clock.h"
#include "workloads/block_keys.h"
#include "workloads/conversations.h"
#include "workloads/study/references.h"
#include "workloads/tokens.h"
#include "workloads/trace/format.h"
#include "workloads/trace/trace.h"
#include "workloads/trace/trace_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The first byte chooses how the rest is read:

       bits 0 to 2   format by number, 0: recognised by the first line
       bit 3         rows are sorted
       bits 4 to 7   tokens of a hash id: 0 the format's own, else this many

   Every row must keep the promises of workloads/trace/trace.h, and rows that are written and read
   again are the same. */

enum { ROWS_MAX = 1000, TOKENS_MAX = 1 << 16, PATH_BYTES = 64 };

/* A file without a name; its path holds while it is open. */
static int open_file(const void *bytes, size_t size, char *path)
{
	char name[] = "/tmp/quire-fuzz-XXXXXX";
	int file = mkstemp(name);

	check(file >= 0);
	unlink(name);
	check(size == 0 || write(file, bytes, size) == (ssize_t)size);
	snprintf(path, PATH_BYTES, "/proc/self/fd/%d", file);
	return file;
}

static void check_row(const struct trace_row *row, uint32_t block_size, uint64_t last_ns)
{
	check(row->input_length >= 1 && row->input_length <= TRACE_LENGTH_MAX);
	check(row->output_length >= 1 && row->output_length <= TRACE_LENGTH_MAX);
	check(row->arrival_ns >= last_ns && row->arrival_ns <= CLOCK_NS_MAX);
	check(row->hash_ids != NULL || row->hash_id_count == 0);
	if (row->hash_ids != NULL) {
		check(row->hash_id_count >= row->input_length / block_size);
		check(row->hash_id_count <= row->input_length / block_size + 1);
	}
	for (uint32_t i = 0; i < row->hash_id_count; i++) {
		check(row->hash_ids[i] <= INT64_MAX);
	}
	check(row->has_delay || row->delay_ns == 0);
	check(row->session == NULL || row->session[0] != '\0');
}

/* Runs what a replay and an analysis would do with the row. */
static void use_row(struct conversations *conversations, struct references *references,
	struct trace_row *row, uint32_t block_size)
{
	static int32_t tokens[TOKENS_MAX];
	const struct token_source source = {
		.vocab_size = TOKEN_VOCABULARY_LIMIT, .trace_block_size = block_size};
	struct error error = {0};

	conversations_add(conversations, row);
	if (row->input_length <= TOKENS_MAX) {
		tokens_prompt(&source, row, tokens);
		check(references_add(references, row, &error) == STATUS_OK);
	}
	if (row->output_length <= TOKENS_MAX) {
		tokens_forced(&source, row, tokens);
	}
	if (row->input_length + row->output_length <= TOKENS_MAX) {
		struct block_keys keys;
		block_keys_init(&keys, &source, 1 + row->input_length % 64);
		(void)block_keys_of(&keys, row);
		block_keys_deinit(&keys);
	}
}

/* Reads a trace to its end or its first bad row and writes what it read. */
static enum status read_trace(
	const char *path, const struct trace_options *options, FILE *file, uint32_t *block_size)
{
	struct trace *trace = NULL;
	struct trace_row row;
	struct error error = {0};
	bool has_row = true;
	uint64_t last_ns = 0;
	enum status status = trace_open(&trace, path, options, &error);

	if (status == STATUS_OK) {
		*block_size = trace_block_size(trace) == 0 ? 512 : trace_block_size(trace);
		struct conversations *conversations = conversations_open(*block_size);
		struct references references;
		references_init(&references, *block_size);
		for (uint32_t i = 0; status == STATUS_OK && has_row && i < ROWS_MAX; i++) {
			status = trace_next(trace, &row, &has_row, &error);
			if (status != STATUS_OK || !has_row) {
				break;
			}
			check(row.index == i);
			check_row(&row, *block_size, last_ns);
			last_ns = row.arrival_ns;
			trace_write_row(file, &row);
			use_row(conversations, &references, &row, *block_size);
		}
		references_deinit(&references);
		conversations_close(conversations);
	}
	trace_close(trace);
	check(status == STATUS_OK || status == STATUS_INPUT);
	check((status == STATUS_OK) == (error.text[0] == '\0'));
	check(strchr(error.text, '\n') == NULL && strchr(error.text, '\r') == NULL);
	return status;
}

bool fuzz_trace(const uint8_t *bytes, size_t size)
{
	char path[PATH_BYTES];
	char *first = NULL, *second = NULL;
	size_t first_size = 0, second_size = 0;
	uint32_t block_size = 0;

	if (size == 0) {
		return false;
	}
	struct trace_options options = {
		.format = (bytes[0] & 7) == 0 ? NULL : trace_format_at((bytes[0] & 7) - 1),
		.sort = bytes[0] >> 3 & 1,
		.trace_block_size = bytes[0] >> 4,
	};
	int input = open_file(bytes + 1, size - 1, path);
	FILE *file = open_memstream(&first, &first_size);
	bool is_good = read_trace(path, &options, file, &block_size) == STATUS_OK;
	fclose(file);
	close(input);
	if (first_size > 0) {
		/* What was written is in Mooncake's format, in order. */
		options = (struct trace_options){
			.format = trace_format_find("mooncake"), .trace_block_size = block_size};
		int again = open_file(first, first_size, path);
		file = open_memstream(&second, &second_size);
		check(read_trace(path, &options, file, &block_size) == STATUS_OK);
		fclose(file);
		close(again);
		check(first_size == second_size && memcmp(first, second, first_size) == 0);
	}
	free(first);
	free(second);
	return is_good;
}
