#include "workloads/trace/trace_writer.h"

#include <cJSON.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "tests/harness/files.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"
#include "workloads/trace/format.h"

/* Drawn rows, each optional field absent or at an edge of its range, are written and read again.
   What is read is what was written, and a line has the fields that its row has and no other. */

enum { ROWS_MAX = 6, IDS_MAX = 1200 };

struct drawn_rows {
	uint32_t count, block_size; /* block_size: of the ids; 0: the first row does not say it */
	struct trace_row rows[ROWS_MAX];
	uint64_t ids[ROWS_MAX][IDS_MAX];
};

static uint64_t draw_ns(struct prop *prop)
{
	static const uint64_t edges[] = {0, 1, 10, 999999, 1000000, 1000001, 1500000, 20000000,
		1999999999, CLOCK_NS_MAX - 1, CLOCK_NS_MAX};

	return edges[prop_below(prop, sizeof(edges) / sizeof(edges[0]))];
}

static uint32_t draw_length(struct prop *prop)
{
	static const uint32_t edges[] = {
		1, 2, 9, 511, 512, 513, 1 << 20, TRACE_LENGTH_MAX - 1, TRACE_LENGTH_MAX};

	return edges[prop_below(prop, sizeof(edges) / sizeof(edges[0]))];
}

static const char *draw_session(struct prop *prop)
{
	static const char *const texts[] = {NULL, "a", "0", "-1", "17", "\"", "\\", "a\"b\\c", " ",
		"\\u0041", "\\\"", "[1]", "grüß", "\xf0\x9f\x98\x80", "\xed\x9f\xbf", "null"};

	return texts[prop_below(prop, sizeof(texts) / sizeof(texts[0]))];
}

/* An id for each whole block, and perhaps one for the rest. */
static void draw_ids(struct prop *prop, struct drawn_rows *drawn, uint32_t index)
{
	static const uint64_t edges[] = {0, 1, 9, 10, 4096, UINT32_MAX, INT64_MAX - 1, INT64_MAX};
	struct trace_row *row = &drawn->rows[index];
	uint32_t block = drawn->block_size == 0 ? MOONCAKE_BLOCK_SIZE : drawn->block_size;
	uint32_t whole =
		prop_chance(prop, 1, 4) ? prop_range(prop, 0, IDS_MAX - 1) : prop_range(prop, 0, 3);
	uint32_t rest = (uint32_t)prop_below(prop, block);
	uint64_t most = edges[prop_below(prop, sizeof(edges) / sizeof(edges[0]))];

	if (prop_chance(prop, 1, 3)) {
		row->input_length = draw_length(prop);
		return;
	}
	rest = whole == 0 && rest == 0 ? 1 : rest;
	row->input_length = whole * block + rest;
	row->hash_id_count = row->input_length / block +
			     (row->input_length % block > 0 && prop_chance(prop, 1, 2));
	row->hash_ids = drawn->ids[index];
	for (uint32_t i = 0; i < row->hash_id_count; i++) {
		drawn->ids[index][i] = i % 3 == 0 ? most : most / (i + 1);
	}
}

static void draw_rows(struct prop *prop, struct drawn_rows *drawn)
{
	static const uint32_t sizes[] = {0, 1, 2, 16, 511, 512, 513};
	static const int32_t priorities[] = {0, 1, -1, 7, INT32_MAX, -INT32_MAX};
	uint64_t last_ns = 0;

	drawn->count = prop_range(prop, 1, ROWS_MAX);
	drawn->block_size = sizes[prop_below(prop, sizeof(sizes) / sizeof(sizes[0]))];
	for (uint32_t i = 0; i < drawn->count; i++) {
		struct trace_row *row = &drawn->rows[i];
		uint64_t arrival_ns = draw_ns(prop);
		last_ns = arrival_ns > last_ns ? arrival_ns : last_ns;
		row->arrival_ns = last_ns;
		draw_ids(prop, drawn, i);
		row->output_length = draw_length(prop);
		row->session = draw_session(prop);
		row->has_delay = prop_chance(prop, 1, 2);
		row->delay_ns = row->has_delay ? draw_ns(prop) : 0;
		row->priority = priorities[prop_below(prop, 6)];
		row->stored_length = prop_chance(prop, 1, 2) ? draw_length(prop) : 0;
		/* Those behind the first may say it too. */
		row->block_size = i == 0 || prop_chance(prop, 1, 3) ? drawn->block_size : 0;
	}
}

/* ---- what is written ---- */

static uint32_t written_block_size(const struct trace_row *row)
{
	return row->block_size == MOONCAKE_BLOCK_SIZE ? 0 : row->block_size;
}

static void require_fields(const struct trace_row *row, const char *line)
{
	const char *names[10] = {"timestamp", "input_length", "output_length"};
	uint32_t count = 3, i = 0;
	cJSON *object = cJSON_Parse(line);
	const cJSON *field;

	names[count] = "session_id";
	count += row->session != NULL;
	names[count] = "delay";
	count += row->has_delay;
	names[count] = "priority";
	count += row->priority != 0;
	names[count] = "stored_length";
	count += row->stored_length != 0;
	names[count] = "block_size";
	count += written_block_size(row) != 0;
	names[count] = "hash_ids";
	count += row->hash_ids != NULL;
	names[count] = NULL;
	require(object != NULL, "no JSON: %s", line);
	cJSON_ArrayForEach(field, object)
	{
		require(i < count && strcmp(field->string, names[i]) == 0, "%s, expected %s: %s",
			field->string, names[i < count ? i : count], line);
		i++;
	}
	require(i == count, "no %s: %s", names[i], line);
	cJSON_Delete(object);
}

/* ---- what is read ---- */

static void require_same(const struct trace_row *found, const struct trace_row *row)
{
	require_equal(found->arrival_ns, row->arrival_ns);
	require_equal(found->input_length, row->input_length);
	require_equal(found->output_length, row->output_length);
	require_equal(found->has_delay, row->has_delay);
	require_equal(found->delay_ns, row->delay_ns);
	require_equal((uint64_t)(int64_t)found->priority, (uint64_t)(int64_t)row->priority);
	require_equal(found->stored_length, row->stored_length);
	require_equal(found->block_size, written_block_size(row));
	require_equal(found->session != NULL, row->session != NULL);
	require(row->session == NULL || strcmp(found->session, row->session) == 0,
		"session %s is read as %s", row->session, found->session);
	require(found->turn == NULL && found->parent == NULL, "a turn out of nowhere");
	require_equal(found->hash_ids != NULL, row->hash_ids != NULL);
	require_equal(found->hash_id_count, row->hash_id_count);
	for (uint32_t i = 0; i < row->hash_id_count; i++) {
		require_equal(found->hash_ids[i], row->hash_ids[i]);
	}
}

static void read_again(const struct drawn_rows *drawn, const char *text)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];
	const struct trace_options options = {.trace_block_size = 0};
	struct trace *trace = NULL;
	struct trace_row row;
	struct error error = {0};
	bool has_row = false;

	temporary_folder(folder);
	temporary_write(folder, "trace.jsonl", text, path);
	enum status status = trace_open(&trace, path, &options, &error);
	require(status == STATUS_OK, "%s", error.text);
	require_equal(trace_block_size(trace),
		drawn->block_size == 0 ? MOONCAKE_BLOCK_SIZE : drawn->block_size);
	for (uint32_t i = 0; i < drawn->count; i++) {
		status = trace_next(trace, &row, &has_row, &error);
		require(status == STATUS_OK && has_row, "row %u: %s", i, error.text);
		require_same(&row, &drawn->rows[i]);
	}
	require_equal(trace_next(trace, &row, &has_row, &error), STATUS_OK);
	require(!has_row, "a row too many");
	trace_close(trace);
	temporary_remove(folder);
}

static void body(struct prop *prop, const void *context)
{
	static struct drawn_rows drawn;
	char *text = NULL;
	size_t size = 0, from = 0;

	(void)context;
	memset(&drawn, 0, sizeof(drawn));
	draw_rows(prop, &drawn);
	FILE *file = open_memstream(&text, &size);
	for (uint32_t i = 0; i < drawn.count; i++) {
		trace_write_row(file, &drawn.rows[i]);
		fflush(file);
		prop_log(prop, "%.400s", text + from);
		require_fields(&drawn.rows[i], text + from);
		from = size;
	}
	fclose(file);
	read_again(&drawn, text);
	free(text);
}

Test(trace_writer, what_is_written_is_read_again)
{
	const struct prop_options options = {.name = "drawn rows", .body = body, .trials = 1500};

	cr_assert(prop_holds(&options));
}
