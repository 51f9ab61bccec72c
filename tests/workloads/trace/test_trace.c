#include "workloads/trace/format.h"
#include "workloads/trace/trace.h"
#include "workloads/trace/trace_writer.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>
#include <zlib.h>
#include <zstd.h>

#include "tests/harness/files.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* ---- helpers ---- */

struct bytes {
	const char *text;
	size_t size;
};

static char folder[TEMPORARY_PATH_BYTES];

static void write_bytes(const char *name, const void *bytes, size_t size, char *path)
{
	temporary_write(folder, name, "", path);
	file_write(path, bytes, size);
}

/* Reads every row as a line of Mooncake JSONL into out. */
static enum status read_all(
	const char *path, const struct trace_options *options, char **out, struct error *error)
{
	struct trace *trace = NULL;
	struct trace_row row;
	bool has_row = true;
	size_t size = 0;
	FILE *file = open_memstream(out, &size);
	enum status status = trace_open(&trace, path, options, error);

	while (status == STATUS_OK && has_row) {
		status = trace_next(trace, &row, &has_row, error);
		if (status == STATUS_OK && has_row) {
			trace_write_row(file, &row);
		}
	}
	trace_close(trace);
	fclose(file);
	return status;
}

static void require_rows(const char *text, struct trace_options options, const char *expected)
{
	char path[TEMPORARY_PATH_BYTES];
	char *found = NULL;
	struct error error = {0};

	write_bytes("trace", text, strlen(text), path);
	enum status status = read_all(path, &options, &found, &error);
	require(status == STATUS_OK, "%s", error.text);
	require(strcmp(found, expected) == 0, "found\n%sexpected\n%s", found, expected);
	free(found);
}

/* The one line that a bad file gives, without its folder. */
static void require_refused(struct bytes text, struct trace_options options, const char *expected)
{
	char path[TEMPORARY_PATH_BYTES];
	char *found = NULL;
	struct error error = {0};

	write_bytes("bad", text.text, text.size, path);
	enum status status = read_all(path, &options, &found, &error);
	require(status == STATUS_INPUT, "status %d for %s", (int)status, expected);
	require(error.status == STATUS_INPUT && strchr(error.text, '\n') == NULL, "%s", error.text);
	require(strlen(error.text) > strlen(folder) + 1 &&
			strcmp(error.text + strlen(folder) + 1, expected) == 0,
		"found    %s\nexpected %s", error.text + strlen(folder) + 1, expected);
	free(found);
}

static void set_up(void)
{
	temporary_folder(folder);
}

static void tear_down(void)
{
	temporary_remove(folder);
}

TestSuite(trace, .init = set_up, .fini = tear_down);

#define ROW(time, input, output)                                                                   \
	"{\"timestamp\":" time ",\"input_length\":" input ",\"output_length\":" output "}\n"

static const struct trace_options any = {0};

/* ---- formats ---- */

Test(trace, reads_mooncake)
{
	require_rows(
		"{\"timestamp\": 0, \"input_length\": 600, \"output_length\": 2, \"hash_ids\": "
		"[7, 9]}\n"
		"{\"output_length\": 1, \"unknown\": {\"a\": [1, {}]}, \"hash_ids\": null, "
		"\"input_length\": 3, \"timestamp\": 1.5e3}\n"
		"{\"timestamp\":1500.0000019,\"input_length\":1,\"output_length\":1,"
		"\"session_id\":\"a\\\"b\",\"delay\":20}\n",
		any,
		"{\"timestamp\":0,\"input_length\":600,\"output_length\":2,\"hash_ids\":[7,9]}\n"
		"{\"timestamp\":1500,\"input_length\":3,\"output_length\":1}\n"
		"{\"timestamp\":1500.000001,\"input_length\":1,\"output_length\":1,"
		"\"session_id\":\"a\\\"b\",\"delay\":20}\n");
}

/* What is noted of a trace, without its folder; "": nothing. */
static const char *note_of(const char *rows)
{
	static char text[512];
	char path[TEMPORARY_PATH_BYTES];
	struct trace *trace = NULL;
	struct trace_row row;
	struct error error = {0};
	bool has_row = true;

	write_bytes("trace", rows, strlen(rows), path);
	require(trace_open(&trace, path, &any, &error) == STATUS_OK, "%s", error.text);
	while (has_row) {
		require(trace_next(trace, &row, &has_row, &error) == STATUS_OK, "%s", error.text);
	}
	const char *note = trace_note(trace, 0);
	bool has_folder = note != NULL && strncmp(note, folder, strlen(folder)) == 0;
	snprintf(text, sizeof(text), "%s",
		note == NULL ? "" : note + (has_folder ? strlen(folder) + 1 : 0));
	require(note == NULL || trace_note(trace, 1) == NULL, "%s: two notes", rows);
	trace_close(trace);
	return text;
}

/* Times of ten digits that are near each other; milliseconds have thirteen. */
Test(trace, seconds_since_1970_are_noted)
{
	static const char *const seconds[] = {ROW("1714000000", "1", "1"),
		ROW("1000000000", "1", "1") ROW("1000999999.9", "1", "1"),
		ROW("9999999998.5", "1", "1") ROW("9999999999.9", "1", "1")};
	static const char *const others[] = {ROW("0", "1", "1"),
		ROW("999999999.9", "1", "1") ROW("1000000000", "1", "1"),
		ROW("9999999999", "1", "1") ROW("10000000000", "1", "1"),
		ROW("1714000000", "1", "1") ROW("1715000000", "1", "1"),
		ROW("1714000000000", "1", "1")};

	for (uint32_t i = 0; i < sizeof(seconds) / sizeof(seconds[0]); i++) {
		const char *note = note_of(seconds[i]);
		require(strstr(note, "look like seconds since 1970") != NULL, "%s", seconds[i]);
	}
	for (uint32_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		require(note_of(others[i])[0] == '\0', "%s: %s", others[i], note_of(others[i]));
	}
}

/* Rows of 2,000 tokens at multiples of a time in thousandths of what --format mooncake counts. */
static const char *note_of_rows(uint32_t count, uint32_t thousandths)
{
	static char text[1 << 14];
	size_t used = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t at = i * thousandths;
		used += (size_t)snprintf(text + used, sizeof(text) - used,
			ROW("%u.%03u", "2000", "1"), at / 1000, at % 1000);
	}
	return note_of(text);
}

Test(trace, seconds_from_zero_are_noted)
{
	const char *note = note_of_rows(40, 250);
	require(strstr(note, "more than 1,000 requests") != NULL, "%s", note);
	note = note_of_rows(20, 949);
	require(strstr(note, "more than 1,000 requests") != NULL, "%s", note);
	/* A burst of few rows, all at once, whole milliseconds, and what an engine may serve. */
	require(note_of_rows(19, 250)[0] == '\0', "few rows");
	require(note_of_rows(40, 0)[0] == '\0', "all at once");
	require(note_of_rows(40, 1000)[0] == '\0', "whole milliseconds");
	require(note_of_rows(40, 1030)[0] == '\0', "fewer than 1,000 a second");
}

#define MORE_ROW(more) "{\"timestamp\":0,\"input_length\":6,\"output_length\":2," more "}\n"

Test(trace, a_field_that_may_be_misspelt_is_noted)
{
	static const struct {
		const char *rows, *note;
	} cases[] = {
		{MORE_ROW("\"hash_id\":[1]"),
			"trace:1: found field hash_id, which is not read; is hash_ids meant?"},
		{MORE_ROW("\"delay\":1") MORE_ROW("\"x\":{\"hash_id\":1},\"sesion_id\":\"a\""),
			"trace:2: found field sesion_id, which is not read; is session_id meant?"},
		{MORE_ROW("\"sessionId\":3"),
			"trace:1: found field sessionId, which is not read; is session_id meant?"},
		{MORE_ROW("\"dely\":3"),
			"trace:1: found field dely, which is not read; is delay meant?"},
		{MORE_ROW("\"hash_id\":[1],\"hash_ids\":[1]"), ""}, /* the right one is there */
		{MORE_ROW("\"delta\":3,\"user_id\":4,\"model\":\"m\",\"type\":\"text\""), ""},
		{MORE_ROW("\"hash_i\\u0007\":[1]"), ""},
		{"{\"chat_id\":1,\"timestamp\":0,\"input_length\":6,\"output_length\":2,"
		 "\"parent_chatid\":2}\n",
			"trace:1: found field parent_chatid, which is not read; is "
			"parent_chat_id meant?"},
		{"{\"arrival_time_ns\":0,\"input_tok_ids\":[1],\"output_toks\":1,"
		 "\"prority\":1}\n",
			"trace:1: found field prority, which is not read; is priority meant?"},
		{"Timestamp,Session_ID,Request tokens,Response tokens\n1,2,3,4\n",
			"trace:1: found column Session_ID, which is not read; is Session ID "
			"meant?"},
		{"Timestamp,Session ID,Request tokens,Response tokens,SessionID\n1,2,3,4,5\n", ""},
	};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *note = note_of(cases[i].rows);
		require(strcmp(note, cases[i].note) == 0, "%sfound    %s\nexpected %s",
			cases[i].rows, note, cases[i].note);
	}
}

/* A row without one has priority 0, which is not written. */
Test(trace, reads_priorities)
{
	require_rows("{\"timestamp\":0,\"input_length\":6,\"output_length\":2,\"priority\":7}\n"
		     "{\"timestamp\":0,\"input_length\":6,\"output_length\":2}\n"
		     "{\"timestamp\":0,\"input_length\":6,\"output_length\":2,\"priority\":0}\n"
		     "{\"timestamp\":0,\"input_length\":6,\"output_length\":2,"
		     "\"priority\":-2147483647}\n",
		any,
		"{\"timestamp\":0,\"input_length\":6,\"output_length\":2,\"priority\":7}\n"
		"{\"timestamp\":0,\"input_length\":6,\"output_length\":2}\n"
		"{\"timestamp\":0,\"input_length\":6,\"output_length\":2}\n"
		"{\"timestamp\":0,\"input_length\":6,\"output_length\":2,"
		"\"priority\":-2147483647}\n");
}

/* A row without one has 0, which is not written. */
Test(trace, reads_what_is_stored)
{
	require_rows(
		"{\"timestamp\":0,\"input_length\":6,\"output_length\":2,\"stored_length\":5}\n"
		"{\"timestamp\":0,\"input_length\":6,\"output_length\":2,\"stored_length\":0}\n",
		any,
		"{\"timestamp\":0,\"input_length\":6,\"output_length\":2,\"stored_length\":5}\n"
		"{\"timestamp\":0,\"input_length\":6,\"output_length\":2}\n");
}

Test(trace, reads_ids_with_and_without_the_rest_of_a_prompt)
{
	const char *text = "{\"timestamp\":0,\"input_length\":40,\"output_length\":1,\"hash_ids\":["
			   "1,2,3]}\n"
			   "{\"timestamp\":0,\"input_length\":40,\"output_length\":1,\"hash_ids\":["
			   "1,2]}\n"
			   "{\"timestamp\":0,\"input_length\":32,\"output_length\":1,\"hash_ids\":["
			   "1,2]}\n";

	require_rows(text, (struct trace_options){.trace_block_size = 16}, text);
}

/* A prompt of 32 tokens is two blocks of 16, one of 33 is two and a rest, which may have an id. */
Test(trace, accepts_as_many_ids_as_a_prompt_has_blocks)
{
	for (uint32_t input = 1; input <= 50; input++) {
		for (uint32_t ids = 0; ids <= 5; ids++) {
			char text[256], path[TEMPORARY_PATH_BYTES];
			char *found = NULL;
			struct error error = {0};
			snprintf(text, sizeof(text),
				"{\"timestamp\":0,\"input_length\":%u,\"output_length\":1,"
				"\"hash_ids\":[%.*s]}\n",
				input, ids == 0 ? 0 : (int)(2 * ids - 1), "1,2,3,4,5");
			temporary_write(folder, "ids", text, path);
			const struct trace_options blocks = {.trace_block_size = 16};
			enum status status = read_all(path, &blocks, &found, &error);
			bool is_good = ids * 16 <= input + 15 && ids * 16 + 15 >= input;
			require(status == (is_good ? STATUS_OK : STATUS_INPUT),
				"%u ids for %u tokens: %s", ids, input, error.text);
			free(found);
		}
	}
}

Test(trace, reads_bailian)
{
	const char *text = "{\"chat_id\": 159, \"parent_chat_id\": -1, \"timestamp\": 61.114, "
			   "\"input_length\": 17, \"output_length\": 132, \"type\": \"text\", "
			   "\"turn\": 1, \"hash_ids\": [1089, 1090]}\n";

	require_rows(text, any,
		"{\"timestamp\":61114,\"input_length\":17,\"output_length\":132,"
		"\"session_id\":\"159\",\"hash_ids\":[1089,1090]}\n");
}

/* Only -1 is no parent: chats are counted from 0. */
Test(trace, bailian_chats_may_follow_chat_0)
{
	static const struct {
		const char *parent, *expected;
	} cases[] = {
		{"-1", NULL}, {"0", "0"}, {"1", "1"}, {"-2", "-2"}, {"\"-1\"", NULL}, {"10", "10"}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[256], path[TEMPORARY_PATH_BYTES];
		struct trace *trace = NULL;
		struct trace_row row;
		struct error error = {0};
		bool has_row = false;
		snprintf(text, sizeof(text),
			"{\"chat_id\": 0, \"parent_chat_id\": %s, \"timestamp\": 1, "
			"\"input_length\": 1, \"output_length\": 1}\n",
			cases[i].parent);
		temporary_write(folder, "chat", text, path);
		require_equal(trace_open(&trace, path, &any, &error), STATUS_OK);
		require_equal(trace_next(trace, &row, &has_row, &error), STATUS_OK);
		cr_expect_str_eq(row.turn, "0");
		require((row.parent == NULL) == (cases[i].expected == NULL), "of %s",
			cases[i].parent);
		if (row.parent != NULL) {
			cr_expect_str_eq(row.parent, cases[i].expected);
		}
		trace_close(trace);
	}
}

Test(trace, reads_azure_in_both_forms)
{
	require_rows("TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
		     "2023-12-31 23:59:59.9999999,374,44\r\n"
		     "2024-01-01 00:00:00.0000001,396,109",
		any,
		"{\"timestamp\":0,\"input_length\":374,\"output_length\":44}\n"
		"{\"timestamp\":0.0002,\"input_length\":396,\"output_length\":109}\n");
	require_rows("TIMESTAMP,ContextTokens,GeneratedTokens\n"
		     "2024-02-28 22:00:00.009930+00:00,2,1\n"
		     "2024-02-29T00:00:00-02:00,3,1\n"
		     "2024-03-01 00:00:00+00:00,4,1\n",
		any,
		"{\"timestamp\":0,\"input_length\":2,\"output_length\":1}\n"
		"{\"timestamp\":14399990.07,\"input_length\":3,\"output_length\":1}\n"
		"{\"timestamp\":93599990.07,\"input_length\":4,\"output_length\":1}\n");
}

Test(trace, reads_burstgpt_with_both_sets_of_columns)
{
	require_rows("Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
		     "5,ChatGPT,472,18,490,Conversation log\n"
		     "45,\"Chat,GPT\",0,0,0,Conversation log\n"
		     "118.5,GPT-4,417,276,693,API log\n",
		any,
		"{\"timestamp\":0,\"input_length\":472,\"output_length\":18}\n"
		"{\"timestamp\":113500,\"input_length\":417,\"output_length\":276}\n");
	require_rows("Timestamp,Session ID,Elapsed time,Model,Request tokens,Response "
		     "tokens,Total tokens,Log Type\n"
		     "19440110.0,1722ac82,43,GPT-4,906,446,1352,Conversation log\n"
		     "19440161.0,,2,ChatGPT,36,29,65,API log\n",
		any,
		"{\"timestamp\":0,\"input_length\":906,\"output_length\":446,\"session_id\":"
		"\"1722ac82\"}\n"
		"{\"timestamp\":51000,\"input_length\":36,\"output_length\":29}\n");
}

Test(trace, counts_the_failures_of_burstgpt)
{
	char path[TEMPORARY_PATH_BYTES];
	struct trace *trace = NULL;
	struct trace_row row;
	struct error error = {0};
	bool has_row = true;

	temporary_write(folder, "burst.csv",
		"Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
		"1,a,5,0,5,x\n2,a,5,1,6,x\n3,a,5,0,5,x\n",
		path);
	require_equal(trace_open(&trace, path, &any, &error), STATUS_OK);
	while (has_row) {
		require_equal(trace_next(trace, &row, &has_row, &error), STATUS_OK);
		require(!has_row || (row.index == 0 && row.line == 3), "row %llu",
			(unsigned long long)row.line);
	}
	require_equal(trace_skipped_count(trace), 2);
	require(strstr(trace_skip_reason(trace), "failures") != NULL, "no reason");
	trace_close(trace);
}

Test(trace, reads_token_ids)
{
	char path[TEMPORARY_PATH_BYTES];
	struct trace *trace = NULL;
	struct trace_row row;
	struct error error = {0};
	bool has_row;

	temporary_write(folder, "ids.jsonl",
		"{\"input_toks\": 3, \"output_toks\": 2, \"arrival_time_ns\": 46926808, "
		"\"input_tok_ids\": [5, 6, 7], \"output_tok_ids\": [8, 9]}\n"
		"{\"arrival_time_ns\": 46926809, \"input_tok_ids\": [1], \"output_toks\": 1}\n",
		path);
	require_equal(trace_open(&trace, path, &any, &error), STATUS_OK);
	cr_assert_str_eq(trace_format_name(trace), "token-ids");
	require_equal(trace_next(trace, &row, &has_row, &error), STATUS_OK);
	require_equal(row.arrival_ns, 46926808);
	require_equal(row.input_length, 3);
	require_equal(row.prompt_ids[2], 7);
	require_equal(row.output_ids[1], 9);
	require_equal(trace_next(trace, &row, &has_row, &error), STATUS_OK);
	require(has_row && row.output_ids == NULL, "completion ids out of nowhere");
	trace_close(trace);
}

/* Of rows in turn: what a row does not have is not that of the row before. */
Test(trace, token_ids_have_fields_of_their_own_row)
{
	enum { ROWS = 5 };
	static const int32_t priorities[ROWS] = {3, 0, -2147483647, 0, 2147483647};
	char path[TEMPORARY_PATH_BYTES], text[ROWS * 128];
	struct trace *trace = NULL;
	struct error error = {0};
	size_t used = 0;

	for (uint32_t i = 0; i < ROWS; i++) {
		used += (size_t)snprintf(text + used, sizeof(text) - used,
			"{\"arrival_time_ns\":%u,\"input_tok_ids\":[%u,9],\"output_toks\":%u",
			i * 7, i, i + 1);
		used += (size_t)snprintf(text + used, sizeof(text) - used,
			priorities[i] == 0 ? "}\n" : ",\"priority\":%d}\n", priorities[i]);
	}
	temporary_write(folder, "ids.jsonl", text, path);
	require_equal(trace_open(&trace, path, &any, &error), STATUS_OK);
	for (uint32_t i = 0; i < ROWS; i++) {
		struct trace_row row;
		bool has_row;
		require_equal(trace_next(trace, &row, &has_row, &error), STATUS_OK);
		require(has_row && row.priority == priorities[i], "row %u has priority %d", i,
			row.priority);
		require_equal(row.arrival_ns, i * 7);
		require_equal(row.input_length, 2);
		require_equal(row.output_length, i + 1);
		require_equal(row.prompt_ids[0], i);
	}
	trace_close(trace);
}

Test(trace, accepts_a_format_by_its_name)
{
	/* Its first line alone could be Mooncake's or Bailian's. */
	require_rows("{\"chat_id\":1,\"timestamp\":2,\"input_length\":3,\"output_length\":4}\n",
		(struct trace_options){.format = trace_format_find("mooncake")},
		"{\"timestamp\":2,\"input_length\":3,\"output_length\":4}\n");
}

/* What --format, its help and error lines say of formats comes from one table. */
Test(trace, formats_have_names_of_their_own)
{
	uint32_t count = 0;

	cr_assert_str_eq(trace_format_word(0), "any");
	cr_assert(trace_format_of_word(0) == NULL);
	for (; trace_format_at(count) != NULL; count++) {
		const struct trace_format *format = trace_format_at(count);
		cr_assert(trace_format_find(format->name) == format, "%s is there twice",
			format->name);
		cr_assert_str_eq(trace_format_word(count + 1), format->name);
		cr_assert(trace_format_of_word(count + 1) == format);
	}
	cr_assert(count >= 5);
	cr_assert(trace_format_word(count + 1) == NULL);
	cr_assert(trace_format_find("any") == NULL && trace_format_find("") == NULL);
}

/* ---- files ---- */

Test(trace, accepts_byte_order_marks_carriage_returns_and_blank_ends)
{
	require_rows("\xef\xbb\xbf" ROW("1", "2", "3") "\n \t\r\n\n", any, ROW("1", "2", "3"));
	require_rows("{\"timestamp\":1,\"input_length\":2,\"output_length\":3}\r\n"
		     "{\"timestamp\":1,\"input_length\":2,\"output_length\":4}",
		any, ROW("1", "2", "3") ROW("1", "2", "4"));
}

/* A mark is three bytes at the start of the file, and nothing else is. */
Test(trace, half_a_byte_order_mark_is_none)
{
	char path[TEMPORARY_PATH_BYTES];
	static const char *const starts[] = {
		"\xef\xbb", "\xef\xbb\xbe", "\xef", "\xbb\xbf", "\xef\xbb\xbf\xef\xbb\xbf"};

	for (uint32_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		char text[128];
		char *found = NULL;
		struct error error = {0};
		snprintf(text, sizeof(text), "%s%s", starts[i], ROW("1", "2", "3"));
		temporary_write(folder, "marked", text, path);
		require(read_all(path, &any, &found, &error) == STATUS_INPUT, "start %u", i);
		free(found);
	}
}

/* Labels are written to tables and drawn: any text but control characters. */
Test(trace, labels_have_no_control_characters)
{
	for (uint32_t i = 3; i < 3 * 0x80; i++) {
		uint32_t byte = i / 3, place = i % 3; /* at the start, in the middle, at the end */
		char text[160], path[TEMPORARY_PATH_BYTES];
		char *found = NULL;
		struct error error = {0};
		snprintf(text, sizeof(text),
			"{\"timestamp\":1,\"input_length\":2,\"output_length\":3,"
			"\"session_id\":\"%s\\u00%02x%s\"}\n",
			place > 0 ? "a" : "", byte, place < 2 ? "b" : "");
		temporary_write(folder, "labels", text, path);
		bool is_good = byte >= 0x20 && byte != 0x7f;
		enum status status = read_all(path, &any, &found, &error);
		require(status == (is_good ? STATUS_OK : STATUS_INPUT), "byte %u: %s", byte,
			error.text);
		free(found);
	}
}

static void require_packed(const void *packed, size_t size, const char *expected)
{
	char path[TEMPORARY_PATH_BYTES];
	char *found = NULL;
	struct error error = {0};
	struct trace *trace = NULL;

	write_bytes("packed", packed, size, path);
	enum status status = read_all(path, &any, &found, &error);
	require(status == STATUS_OK, "%s", error.text);
	require(strcmp(found, expected) == 0, "unpacked text differs");
	free(found);
	require_equal(trace_open(&trace, path, &any, &error), STATUS_OK);
	require_equal(trace_finish(trace, &error), STATUS_OK);
	require_equal(trace_xxh64(trace), XXH64(packed, size, 0));
	trace_close(trace);
	/* Cut anywhere, it is refused: it never passes for a shorter trace. */
	for (size_t cut = size - 1; cut > size / 2; cut -= size / 40 + 1) {
		write_bytes("cut", packed, cut, path);
		status = read_all(path, &any, &found, &error);
		require(status == STATUS_INPUT, "cut at %zu of %zu: %d", cut, size, (int)status);
		free(found);
	}
}

/* Many rows, so that buffers are filled and refilled. */
static char *long_text(size_t rows)
{
	size_t room = rows * 80 + 1;
	size_t size = 0;
	char *text = malloc(room);

	for (size_t i = 0; i < rows; i++) {
		size += (size_t)snprintf(text + size, room - size,
			"{\"timestamp\":%zu,\"input_length\":%zu,\"output_length\":%zu}\n", i,
			i % 977 + 1, i % 31 + 1);
	}
	return text;
}

static size_t gzip(const char *text, size_t size, unsigned char *out, size_t room)
{
	z_stream stream = {0};

	require_equal(deflateInit2(&stream, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
	stream.next_in = (unsigned char *)(uintptr_t)text;
	stream.avail_in = (unsigned)size;
	stream.next_out = out;
	stream.avail_out = (unsigned)room;
	require_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
	deflateEnd(&stream);
	return room - stream.avail_out;
}

Test(trace, unpacks_gzip)
{
	char *text = long_text(60000);
	size_t size = strlen(text);
	size_t room = size + 1000;
	unsigned char *packed = malloc(room);

	require_packed(packed, gzip(text, size, packed, room), text);
	/* Two members in one file are one text. */
	size_t half = (size_t)(strchr(text + size / 2, '\n') - text) + 1;
	size_t first = gzip(text, half, packed, room);
	size_t both = first + gzip(text + half, size - half, packed + first, room - first);
	char path[TEMPORARY_PATH_BYTES];
	char *found = NULL;
	struct error error = {0};
	write_bytes("members.gz", packed, both, path);
	require_equal(read_all(path, &any, &found, &error), STATUS_OK);
	require(strcmp(found, text) == 0, "two members differ from one");
	free(found);
	free(packed);
	free(text);
}

Test(trace, unpacks_zstd)
{
	char *text = long_text(60000);
	size_t size = strlen(text);
	size_t room = ZSTD_compressBound(size);
	unsigned char *packed = malloc(room);

	require_packed(packed, ZSTD_compress(packed, room, text, size, 3), text);
	free(packed);
	free(text);
}

Test(trace, hashes_the_whole_file_even_when_it_stops_early)
{
	char *text = long_text(100000);
	char path[TEMPORARY_PATH_BYTES];
	struct trace *trace = NULL;
	struct trace_row row;
	struct error error = {0};
	bool has_row;

	write_bytes("long.jsonl", text, strlen(text), path);
	require_equal(trace_open(&trace, path, &any, &error), STATUS_OK);
	require_equal(trace_next(trace, &row, &has_row, &error), STATUS_OK);
	require_equal(trace_finish(trace, &error), STATUS_OK);
	require_equal(trace_xxh64(trace), XXH64(text, strlen(text), 0));
	trace_close(trace);
	free(text);
}

Test(trace, reads_a_line_longer_than_any_buffer)
{
	enum { COUNT = 1 << 20 };
	char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);

	fprintf(file, "{\"timestamp\":1,\"input_length\":%d,\"output_length\":1,\"hash_ids\":[",
		COUNT);
	for (int i = 0; i < COUNT; i++) {
		fprintf(file, "%s%d", i == 0 ? "" : ",", i);
	}
	fprintf(file, "]}\n");
	fclose(file);
	require_rows(text, (struct trace_options){.trace_block_size = 1}, text);
	free(text);
}

Test(trace, refuses_paths_that_are_not_files)
{
	struct trace *trace = NULL;
	struct error error = {0};
	char path[2 * TEMPORARY_PATH_BYTES];

	snprintf(path, sizeof(path), "%s/none", folder);
	require_equal(trace_open(&trace, path, &any, &error), STATUS_FILE);
	require(strstr(error.text, "none: cannot be opened: No such file") != NULL, "%s",
		error.text);
	require_equal(trace_open(&trace, folder, &any, &error), STATUS_FILE);
	require(strstr(error.text, "cannot be opened: Is a directory") != NULL, "%s", error.text);
}

/* ---- order ---- */

Test(trace, sorts_by_time_and_keeps_ties_in_order)
{
	const struct trace_options sort = {.sort = true};

	require_rows(ROW("3", "1", "1") ROW("1", "2", "1") ROW("3", "3", "1") ROW("1", "4", "1"),
		sort, ROW("1", "2", "1") ROW("1", "4", "1") ROW("3", "1", "1") ROW("3", "3", "1"));
	/* Times count from the earliest row, not from the first of the file. */
	require_rows("TIMESTAMP,ContextTokens,GeneratedTokens\n"
		     "2024-05-10 00:00:01+00:00,1,1\n2024-05-10 00:00:00+00:00,2,1\n",
		sort, ROW("0", "2", "1") ROW("1000", "1", "1"));
}

/* ---- refusals ---- */

#define TEXT(text)                                                                                 \
	{                                                                                          \
		text, sizeof(text) - 1                                                             \
	}
#define GOOD ROW("0", "1", "1")

Test(trace, refuses_files_that_are_not_traces)
{
	char formats[200];
	size_t used = (size_t)sprintf(formats, "expected the first line of a trace (mooncake");
	char expected[400];

	for (uint32_t i = 1; trace_format_at(i) != NULL; i++) {
		used += (size_t)snprintf(
			formats + used, sizeof(formats) - used, ", %s", trace_format_at(i)->name);
	}
	snprintf(formats + used, sizeof(formats) - used, ")");
	require_refused((struct bytes)TEXT(""), any,
		"bad: found an empty file, expected a trace with at least "
		"one row");
	require_refused((struct bytes)TEXT("\n\n"), any,
		"bad: found an empty file, expected a trace with at "
		"least one row");
	require_refused((struct bytes)TEXT("TIMESTAMP,ContextTokens,GeneratedTokens\n"), any,
		"bad: found no row, expected a trace with at least one");
	snprintf(expected, sizeof(expected), "bad:1: found hello, %s", formats);
	require_refused((struct bytes)TEXT("hello\n"), any, expected);
	snprintf(expected, sizeof(expected),
		"bad:1: found {\"a\":1}, %s; a row of JSON has timestamp, input_length and "
		"output_length",
		formats);
	require_refused((struct bytes)TEXT("{\"a\":1}\n"), any, expected);
	snprintf(expected, sizeof(expected),
		"bad:1: found {\"a\":1,\"b\":2}, %s; a row of JSON has timestamp, input_length and "
		"output_length",
		formats);
	require_refused((struct bytes)TEXT("{\"a\":1,\"b\":2}\n"), any, expected);
	snprintf(expected, sizeof(expected),
		"bad:1: found a,b, %s; quire trace convert --columns "
		"arrival=NAME,input=NAME,output=NAME reads other CSV logs",
		formats);
	require_refused((struct bytes)TEXT("a,b\n"), any, expected);
	snprintf(expected, sizeof(expected),
		"bad:1: found a;b, %s; columns are separated by commas, here by semicolons: tr ';' "
		", makes them commas",
		formats);
	require_refused((struct bytes)TEXT("a;b\n"), any, expected);
	snprintf(expected, sizeof(expected),
		"bad:1: found a?b?c,d, %s; columns are separated by commas, here by tabs: tr '\\t' "
		", makes them commas",
		formats);
	require_refused((struct bytes)TEXT("a\tb\tc,d\n"), any, expected);
	snprintf(expected, sizeof(expected),
		"bad:1: found [{\"a\":1}, %s; of JSON a line has one object: jq -c '.[]' writes "
		"those "
		"of an array so",
		formats);
	require_refused((struct bytes)TEXT("[{\"a\":1}\n"), any, expected);
	snprintf(expected, sizeof(expected),
		"bad:1: found {, %s; an object of JSON is on one line: jq -c . writes it so",
		formats);
	require_refused((struct bytes)TEXT("{\n  \"date\": 1\n}\n"), any, expected);
	snprintf(expected, sizeof(expected), "bad:1: found ?ELF?????, %s", formats);
	require_refused((struct bytes)TEXT("\x7f"
					   "ELF\1\2\0\0\377"),
		any, expected);
	require_refused((struct bytes)TEXT("\x1f\x8b\x08garbage that is no stream"), any,
		"bad: found a damaged gzip stream (unknown header flags set), expected a whole "
		"one");
}

struct refusal {
	struct bytes text;
	const char *expected;
};

static void require_all_refused(const struct refusal *refusals, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		require_refused(refusals[i].text, any, refusals[i].expected);
	}
}

#define LENGTH "expected an integer in [1, 268435456]"
#define MILLISECONDS "expected milliseconds in [0, 2^63 ns)"

Test(trace, refuses_bad_fields_of_json)
{
	static const struct refusal refusals[] = {
		{TEXT(GOOD ROW("-1", "1", "1")), "bad:2: timestamp: found -1, " MILLISECONDS},
		{TEXT(GOOD ROW("1e300", "1", "1")), "bad:2: timestamp: found 1e300, " MILLISECONDS},
		{TEXT(GOOD ROW("9223372036855", "1", "1")),
			"bad:2: timestamp: found 9223372036855, " MILLISECONDS},
		{TEXT(GOOD ROW("\"7\"", "1", "1")),
			"bad:2: timestamp: found the text \"7\", " MILLISECONDS},
		{TEXT(GOOD ROW("[7]", "1", "1")),
			"bad:2: timestamp: found an array, " MILLISECONDS},
		{TEXT(GOOD ROW("{}", "1", "1")),
			"bad:2: timestamp: found an object, " MILLISECONDS},
		{TEXT(GOOD ROW("null", "1", "1")), "bad:2: timestamp: found null, " MILLISECONDS},
		{TEXT(GOOD ROW("0", "0", "1")), "bad:2: input_length: found 0, " LENGTH},
		{TEXT(GOOD ROW("0", "-5", "1")), "bad:2: input_length: found -5, " LENGTH},
		{TEXT(GOOD ROW("0", "1.5", "1")), "bad:2: input_length: found 1.5, " LENGTH},
		{TEXT(GOOD ROW("0", "true", "1")), "bad:2: input_length: found true, " LENGTH},
		{TEXT(GOOD ROW("0", "268435457", "1")),
			"bad:2: input_length: found 268435457, " LENGTH},
		{TEXT(GOOD ROW("0", "99999999999999999999999", "1")),
			"bad:2: input_length: found 99999999999999999999999, " LENGTH},
		{TEXT(GOOD ROW("0", "1", "0")), "bad:2: output_length: found 0, " LENGTH},
		{TEXT("{\"input_length\":1,\"output_length\":1}"),
			"bad:1: timestamp: found nothing, " MILLISECONDS},
		{TEXT(GOOD "{\"timestamp\":0,\"input_length\":1}"),
			"bad:2: output_length: found nothing, " LENGTH},
		{TEXT(GOOD "{\"timestamp\":0,\"input_length\":1,\"output_length\":1,"
			   "\"timestamp\":0}"),
			"bad:2: timestamp: found it twice, expected it once"},
		{TEXT(GOOD "{\"timestamp\":0,\"input_length\":1,\"output_length\":1,"
			   "\"priority\":-2147483648}"),
			"bad:2: priority: found -2147483648, expected an integer in (-2^31, 2^31)"},
		{TEXT(GOOD "{\"timestamp\":0,\"input_length\":1,\"output_length\":1,"
			   "\"session_id\":1.5}"),
			"bad:2: session_id: found 1.5, expected a text without control characters, "
			"or an integer"},
		{TEXT(GOOD "{\"timestamp\":0,\"input_length\":1,\"output_length\":1,"
			   "\"session_id\":\"a\\tb\"}"),
			"bad:2: session_id: found the text \"a?b\", expected a text without "
			"control characters, "
			"or "
			"an integer"},
		{TEXT(ROW("5", "1", "1") ROW("4.5", "1", "1")),
			"bad:2: found a time 500000 ns earlier, expected a time not before that of "
			"line 1 (--sort brings rows in order)"},
	};

	require_all_refused(refusals, sizeof(refusals) / sizeof(refusals[0]));
}

#define AZURE "TIMESTAMP,ContextTokens,GeneratedTokens\n"
#define BURST "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
#define CHAT "{\"chat_id\":1,\"timestamp\":"
#define MOON "{\"timestamp\":0,\"input_length\":9,\"output_length\":1,"
#define TOKENS "{\"arrival_time_ns\":"

/* Each number of each format has its least and its greatest value, and none beyond. */
Test(trace, numbers_have_the_same_limits_in_every_format)
{
	static const struct {
		const char *before, *behind;
		const char *accepted[2], *refused[2];
	} cases[] = {
		{CHAT, ",\"input_length\":1,\"output_length\":1}", {"0", "9223372036.854775807"},
			{"-0.000000001", "9223372036.854775808"}},
		{CHAT "0,\"input_length\":", ",\"output_length\":1}", {"1", "268435456"},
			{"0", "268435457"}},
		{CHAT "0,\"input_length\":1,\"output_length\":", "}", {"1", "268435456"},
			{"0", "268435457"}},
		{CHAT "0,\"input_length\":1,\"output_length\":1,\"hash_ids\":[", "]}",
			{"0", "9223372036854775807"}, {"-1", "9223372036854775808"}},
		{"{\"timestamp\":", ",\"input_length\":1,\"output_length\":1}",
			{"0", "9223372036854.775807"}, {"-0.000001", "9223372036854.775808"}},
		{"{\"timestamp\":0,\"input_length\":", ",\"output_length\":1}", {"1", "268435456"},
			{"0", "268435457"}},
		{"{\"timestamp\":0,\"input_length\":1,\"output_length\":", "}", {"1", "268435456"},
			{"0", "268435457"}},
		{MOON "\"hash_ids\":[", "]}", {"0", "9223372036854775807"},
			{"-1", "9223372036854775808"}},
		{MOON "\"session_id\":1,\"delay\":", "}", {"0", "9223372036854.775807"},
			{"-1", "9223372036854.775808"}},
		{MOON "\"block_size\":", "}", {"1", "1048576"}, {"0", "1048577"}},
		{MOON "\"priority\":", "}", {"-2147483647", "2147483647"},
			{"-2147483648", "2147483648"}},
		{MOON "\"stored_length\":", "}", {"0", "8"}, {"-1", "268435457"}},
		{TOKENS, ",\"input_tok_ids\":[1],\"output_toks\":1}", {"0", "9223372036854775807"},
			{"-1", "9223372036854775808"}},
		{TOKENS "0,\"input_tok_ids\":[", "],\"output_toks\":1}", {"0", "2147483647"},
			{"-1", "2147483648"}},
		{TOKENS "0,\"input_tok_ids\":[1],\"output_toks\":", "}", {"1", "268435456"},
			{"0", "268435457"}},
		{TOKENS "0,\"input_tok_ids\":[1],\"output_toks\":1,\"output_tok_ids\":[", "]}",
			{"0", "2147483647"}, {"-1", "2147483648"}},
		{TOKENS "0,\"input_tok_ids\":[1],\"output_toks\":1,\"priority\":", "}",
			{"-2147483647", "2147483647"}, {"-2147483648", "2147483648"}},
		{AZURE "2023-11-16 18:15:46,", ",1\n", {"1", "268435456"}, {"0", "268435457"}},
		{AZURE "2023-11-16 18:15:46,1,", "\n", {"1", "268435456"}, {"0", "268435457"}},
		{BURST, ",a,5,1,6,x\n", {"0", "9223372036.854775807"},
			{"-1", "9223372036.854775808"}},
		{BURST "1,a,", ",1,6,x\n", {"1", "268435456"}, {"0", "268435457"}},
		{BURST "1,a,5,", ",6,x\n", {"1", "268435456"}, {"-1", "268435457"}},
	};

	for (size_t i = 0; i < 4 * (sizeof(cases) / sizeof(cases[0])); i++) {
		bool is_good = i % 4 < 2;
		const char *value =
			is_good ? cases[i / 4].accepted[i % 2] : cases[i / 4].refused[i % 2];
		char text[512], path[TEMPORARY_PATH_BYTES], *found = NULL;
		struct error error = {0};
		snprintf(text, sizeof(text), "%s%s%s", cases[i / 4].before, value,
			cases[i / 4].behind);
		write_bytes("limits", text, strlen(text), path);
		enum status status = read_all(path, &any, &found, &error);
		require(status == (is_good ? STATUS_OK : STATUS_INPUT), "%s: %s", text, error.text);
		free(found);
	}
}

Test(trace, refuses_bad_ids)
{
	static const struct refusal refusals[] = {
		{TEXT(GOOD "{\"timestamp\":0,\"input_length\":1,\"output_length\":1,"
			   "\"hash_ids\":[-1]}"),
			"bad:2: hash_ids: found -1, expected an array of integers in [0, 2^63)"},
		{TEXT(GOOD "{\"timestamp\":0,\"input_length\":1,\"output_length\":1,"
			   "\"hash_ids\":[9223372036854775808]}"),
			"bad:2: hash_ids: found 9223372036854775808, expected an array of integers "
			"in [0, 2^63)"},
		{TEXT(GOOD "{\"timestamp\":0,\"input_length\":513,\"output_length\":1,"
			   "\"hash_ids\":[1,null]}"),
			"bad:2: hash_ids: found null, expected an array of integers in [0, 2^63)"},
		{TEXT(GOOD "{\"timestamp\":0,\"input_length\":513,\"output_length\":1,"
			   "\"hash_ids\":[1,true]}"),
			"bad:2: hash_ids: found true, expected an array of integers in [0, 2^63)"},
		{TEXT(GOOD "{\"timestamp\":0,\"input_length\":513,\"output_length\":1,"
			   "\"hash_ids\":[1,\"1\"]}"),
			"bad:2: hash_ids: found the text \"1\", expected an array of integers in "
			"[0, 2^63)"},
		{TEXT(GOOD "{\"timestamp\":0,\"input_length\":513,\"output_length\":1,"
			   "\"hash_ids\":[1,1.5]}"),
			"bad:2: hash_ids: found 1.5, expected an array of integers in [0, 2^63)"},
		{TEXT(GOOD "{\"timestamp\":0,\"input_length\":1,\"output_length\":1,"
			   "\"hash_ids\":[[1]]}"),
			"bad:2: hash_ids: found an array, expected an array of integers in [0, "
			"2^63)"},
		{TEXT(GOOD
			 "{\"timestamp\":0,\"input_length\":1,\"output_length\":1,\"hash_ids\":5}"),
			"bad:2: hash_ids: found 5, expected an array of integers in [0, 2^63)"},
		{TEXT(GOOD "{\"timestamp\":0,\"input_length\":1025,\"output_length\":1,"
			   "\"hash_ids\":[1,2,3,4]}"),
			"bad:2: hash_ids: found 4 ids for input_length 1025, expected 2 or one "
			"more "
			"for the rest at 512 tokens an id (--trace-block-size 256 would fit)"},
		{TEXT(GOOD "{\"timestamp\":0,\"input_length\":1024,\"output_length\":1,"
			   "\"hash_ids\":[1]}"),
			"bad:2: hash_ids: found 1 id for input_length 1024, expected 2 at 512 "
			"tokens an id (--trace-block-size 1024 would fit)"},
	};

	require_all_refused(refusals, sizeof(refusals) / sizeof(refusals[0]));
}

/* The first of them is named, however many there are. */
Test(trace, refuses_lines_with_nothing_on_them_before_a_row)
{
	static const struct refusal refusals[] = {
		{TEXT(GOOD "\n\n\n" GOOD),
			"bad:2: found a line with nothing on it, expected a row"},
		{TEXT("\n\n" GOOD), "bad:1: found a line with nothing on it, expected a row"},
	};

	require_all_refused(refusals, sizeof(refusals) / sizeof(refusals[0]));
}

Test(trace, names_the_largest_block_size_that_fits)
{
	static const struct refusal refusals[] = {
		{TEXT(GOOD "{\"timestamp\":0,\"input_length\":131072,\"output_length\":1,"
			   "\"hash_ids\":[1,2]}"),
			"bad:2: hash_ids: found 2 ids for input_length 131072, expected 256 at 512 "
			"tokens an id (--trace-block-size 65536 would fit)"},
		{TEXT(GOOD "{\"timestamp\":0,\"input_length\":3,\"output_length\":1,"
			   "\"hash_ids\":[1,2,3]}"),
			"bad:2: hash_ids: found 3 ids for input_length 3, expected 0 or one more "
			"for the rest at 512 tokens an id (--trace-block-size 1 would fit)"},
	};

	require_all_refused(refusals, sizeof(refusals) / sizeof(refusals[0]));
}

/* A text of digits looks like the number that was expected. */
Test(trace, shows_texts_in_quotes)
{
	static const struct refusal refusals[] = {
		{TEXT("{\"timestamp\":0,\"input_length\":\"600\",\"output_length\":1}"),
			"bad:1: input_length: found the text \"600\", expected an integer in [1, "
			"268435456]"},
		{TEXT(GOOD "{\"timestamp\":0,\"input_length\":1,\"output_length\":"
			   "\"a text of 47 letters, more than are shown of it\"}"),
			"bad:2: output_length: found the text \"a text of 47 letters, more than "
			"are "
			"shown of ...\", expected an integer in [1, 268435456]"},
		{TEXT(GOOD "{\"timestamp\":0,\"input_length\":1,\"output_length\":\"\"}"),
			"bad:2: output_length: found the text \"\", expected an integer in [1, "
			"268435456]"},
	};

	require_all_refused(refusals, sizeof(refusals) / sizeof(refusals[0]));
}

Test(trace, refuses_another_block_size_than_the_first_rows)
{
	static const struct refusal refusals[] = {
		{TEXT(GOOD "{\"timestamp\":0,\"input_length\":1,\"output_length\":1,"
			   "\"block_size\":16}"),
			"bad:2: block_size: found 16, expected what the first row says, or "
			"nothing"},
		{TEXT("{\"timestamp\":0,\"input_length\":1,\"output_length\":1,"
		      "\"block_size\":0}"),
			"bad:1: block_size: found 0, expected an integer in [1, 1048576]"},
	};

	require_all_refused(refusals, sizeof(refusals) / sizeof(refusals[0]));
}

Test(trace, refuses_invalid_json)
{
	static const struct refusal refusals[] = {
		{TEXT(GOOD ROW("NaN", "1", "1")),
			"bad:2: found {\"timestamp\":NaN,\"input_length\":1,\"output_length\":1}, "
			"expected a JSON object (near column 14: lexical error: invalid char in "
			"json "
			"text.)"},
		{TEXT(GOOD ROW("Infinity", "1", "1")),
			"bad:2: found "
			"{\"timestamp\":Infinity,\"input_length\":1,\"output_length\":1}, "
			"expected a JSON object (near column 14: lexical error: invalid char in "
			"json "
			"text.)"},
		{TEXT(GOOD "{\"timestamp\":0,\"input_"), "bad:2: found {\"timestamp\":0,\"input_, "
							 "expected a JSON object (near column 23: "
							 "parse error: premature EOF)"},
		{TEXT(GOOD "[1]\n"), "bad:2: found an array, expected a JSON object"},
		{TEXT(GOOD "7\n"), "bad:2: found 7, expected a JSON object"},
		{TEXT(GOOD "\"x\"\n"), "bad:2: found the text \"x\", expected a JSON object"},
		{TEXT(GOOD "null\n"), "bad:2: found null, expected a JSON object"},
		{TEXT(GOOD "{} {}\n"),
			"bad:2: found {} {}, expected a JSON object (near column 4: parse "
			"error: trailing garbage)"},
		{TEXT(GOOD "{} 12\n" GOOD),
			"bad:2: found {} 12, expected a JSON object (near column 6: parse error: "
			"trailing garbage)"},
		{TEXT(GOOD "{} tru\n" GOOD),
			"bad:2: found {} tru, expected a JSON object (near column 7: parse error: "
			"trailing garbage)"},
		{TEXT(GOOD "{}{\n" GOOD), "bad:2: found {}{, expected a JSON object (near column "
					  "3: parse error: trailing garbage)"},
		{TEXT(GOOD "// comment\n"),
			"bad:2: found // comment, expected a JSON object (near column 1: lexical "
			"error: "
			"probable comment found in input text, comments are not enabled.)"},
		{TEXT(GOOD "\n" GOOD), "bad:2: found a line with nothing on it, expected a row"},
		{TEXT(GOOD "{\"a\":\"\xff\"}\n"), "bad:2: found {\"a\":\"?\"}, expected a JSON "
						  "object (near column 7: lexical "
						  "error: invalid bytes in UTF8 string.)"},
		{TEXT(GOOD "{\"~\0\":1}\n"), "bad:2: found {\"~?\":1}, expected a JSON object "
					     "(near column 3: lexical error: "
					     "invalid character inside string.)"},
	};

	require_all_refused(refusals, sizeof(refusals) / sizeof(refusals[0]));
}

Test(trace, refuses_deep_nesting)
{
	enum { DEPTH = 100000 };
	char *text = malloc(sizeof(GOOD) + 5 + DEPTH);

	strcpy(text, GOOD "{\"a\":");
	memset(text + strlen(text), '[', DEPTH + 1);
	struct bytes bytes = {text, sizeof(GOOD) + 4 + DEPTH};
	require_refused(bytes, any, "bad:2: found deeper nesting, expected at most 64 levels");
	free(text);
}

#define CALENDAR "expected YYYY-MM-DD HH:MM:SS.fraction, with +HH:MM or without"

Test(trace, refuses_bad_values_of_csv)
{
	static const struct refusal refusals[] = {
		{TEXT(AZURE "2023-11-16 18:15:46.68,374\n"),
			"bad:2: found 2023-11-16 18:15:46.68,374, expected 3 values between "
			"commas, "
			"as in the header"},
		{TEXT(AZURE "2023-11-16 18:15:46.68,374,1,2\n"),
			"bad:2: found 2023-11-16 18:15:46.68,374,1,2, expected 3 values between "
			"commas, as in the header"},
		{TEXT(AZURE "2023-02-29 18:15:46,374,1\n"),
			"bad:2: TIMESTAMP: found 2023-02-29 18:15:46, " CALENDAR},
		{TEXT(AZURE "2023-11-16 24:00:00,374,1\n"),
			"bad:2: TIMESTAMP: found 2023-11-16 24:00:00, " CALENDAR},
		{TEXT(AZURE "2023-11-16 18:15:60,374,1\n"),
			"bad:2: TIMESTAMP: found 2023-11-16 18:15:60, " CALENDAR},
		{TEXT(AZURE "2023-11-16 18:15:46 PST,374,1\n"),
			"bad:2: TIMESTAMP: found 2023-11-16 18:15:46 PST, " CALENDAR},
		{TEXT(AZURE "2023-11-16,374,1\n"), "bad:2: TIMESTAMP: found 2023-11-16, " CALENDAR},
		{TEXT(AZURE "2023-11-16 18:15:46,0,1\n"), "bad:2: ContextTokens: found 0, " LENGTH},
		{TEXT(AZURE "2023-11-16 18:15:46,5,-1\n"),
			"bad:2: GeneratedTokens: found -1, " LENGTH},
		{TEXT(AZURE "2023-11-16 18:15:46,5,\n"),
			"bad:2: GeneratedTokens: found nothing, " LENGTH},
		{TEXT("TIMESTAMP,ContextTokens\n"),
			"bad:1: GeneratedTokens: found TIMESTAMP,ContextTokens, expected a header "
			"line with this column"},
		{TEXT("TIMESTAMP,ContextTokens,GeneratedTokens,TIMESTAMP\n"),
			"bad:1: TIMESTAMP: found the column twice, expected it once"},
		{TEXT("TIMESTAMP,ContextTokens,GeneratedTokens,GeneratedTokens\n"),
			"bad:1: GeneratedTokens: found the column twice, expected it once"},
		{TEXT(BURST "1,\"a\"b5,1,6,x\n"),
			"bad:2: found 1,\"a\"b5,1,6,x, expected 6 values between commas, as in the "
			"header"},
		{TEXT(BURST "nan,a,5,1,6,x\n"),
			"bad:2: Timestamp: found nan, expected seconds in [0, 2^63 ns)"},
		{TEXT(BURST "1,a,5.5,1,6,x\n"), "bad:2: Request tokens: found 5.5, " LENGTH},
		{TEXT(BURST "1,a,0,1,6,x\n"), "bad:2: Request tokens: found 0, " LENGTH},
		{TEXT(BURST "1,\"a,5,1,6,x\n"),
			"bad:2: found 1,\"a,5,1,6,x, expected 6 values between commas, as in the "
			"header; a field in quotes does not end on its line, and line breaks "
			"within fields are not read: leave that column out"},
	};

	require_all_refused(refusals, sizeof(refusals) / sizeof(refusals[0]));
}

Test(trace, refuses_token_ids_that_contradict_their_counts)
{
	static const struct refusal refusals[] = {
		{TEXT("{\"arrival_time_ns\":0,\"input_tok_ids\":[1,2],\"output_toks\":1,"
		      "\"input_toks\":3}"),
			"bad:1: input_tok_ids: found 2 ids, expected 3 as in input_toks"},
		{TEXT("{\"arrival_time_ns\":0,\"input_tok_ids\":[1],\"output_toks\":1,"
		      "\"output_tok_ids\":[1,2]}"),
			"bad:1: output_tok_ids: found 2 ids, expected 1 as in output_toks"},
		{TEXT("{\"arrival_time_ns\":0,\"input_tok_ids\":[],\"output_toks\":1}"),
			"bad:1: input_tok_ids: found no id, expected at least one"},
		{TEXT("{\"arrival_time_ns\":0,\"input_tok_ids\":[2147483648],\"output_toks\":1}"),
			"bad:1: input_tok_ids: found 2147483648, expected an array of integers in "
			"[0, 2^31)"},
	};

	require_all_refused(refusals, sizeof(refusals) / sizeof(refusals[0]));
}

/* ---- real traces ---- */

struct real_trace {
	const char *name;
	uint32_t trace_block_size;
	uint64_t rows, input, output;
};

Test(trace, reads_real_ones)
{
	static const struct real_trace traces[] = {
		{"mooncake_conversation.jsonl", 0, 12031, 144793823, 4122048},
		{"azure2023_conv.csv", 0, 19366, 22361870, 4088665},
		{"kvct_dev12.jsonl", 64, 1054, 91252762, 398476},
		{"nano_bench.jsonl", 0, 256, 142827, 133966},
		{"sharegpt_rtxpro6000/workload.jsonl", 0, 300, 257239, 195753},
	};

	if (access("../shared/traces", F_OK) != 0) {
		cr_skip_test("../shared/traces is not here");
	}
	for (size_t i = 0; i < sizeof(traces) / sizeof(traces[0]); i++) {
		const struct trace_options options = {
			.trace_block_size = traces[i].trace_block_size};
		char path[100];
		struct trace *trace = NULL;
		struct trace_row row;
		struct error error = {0};
		bool has_row = true;
		uint64_t rows = 0, input = 0, output = 0;
		snprintf(path, sizeof(path), "../shared/traces/%s", traces[i].name);
		require_equal(trace_open(&trace, path, &options, &error), STATUS_OK);
		while (has_row) {
			enum status status = trace_next(trace, &row, &has_row, &error);
			require(status == STATUS_OK, "%s", error.text);
			rows += has_row;
			input += has_row ? row.input_length : 0;
			output += has_row ? row.output_length : 0;
		}
		require_equal(rows, traces[i].rows);
		require_equal(input, traces[i].input);
		require_equal(output, traces[i].output);
		trace_close(trace);
	}
}
