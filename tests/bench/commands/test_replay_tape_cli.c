#include <criterion/criterion.h>

#include <cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "reports/results/results.h"
#include "tests/harness/files.h"
#include "tests/harness/replay_cli.h"
#include "tests/harness/require.h"

/* `quire replay --runner tape`: what a result records is decided again, and what differs ends the
   run. */

static void write_in(const char *folder, const char *name, const char *text)
{
	temporary_write(folder, name, text, NULL);
}

/* A copy of a table with one cell replaced: row and column count from 0, the header aside. */
static char *with_cell(const char *table, uint32_t row, uint32_t column, const char *cell)
{
	char *copy = malloc(strlen(table) + strlen(cell) + 1);
	const char *at = strchr(table, '\n') + 1;

	require(copy != NULL, "out of memory");
	for (; row > 0; row--) {
		at = strchr(at, '\n') + 1;
	}
	for (; column > 0; column--) {
		at = strchr(at, '\t') + 1;
	}
	size_t before = (size_t)(at - table);
	memcpy(copy, table, before);
	strcpy(copy + before, cell);
	strcat(copy + before, at + strcspn(at, "\t\n"));
	return copy;
}

/* A copy of a text with the first `old` in it replaced. */
static char *with_text(const char *text, const char *old, const char *fresh)
{
	const char *at = strstr(text, old);
	char *copy = malloc(strlen(text) + strlen(fresh) + 1);

	require(at != NULL && copy != NULL, "no %s in %s", old, text);
	size_t before = (size_t)(at - text);
	memcpy(copy, text, before);
	strcpy(copy + before, fresh);
	strcat(copy + before, at + strlen(old));
	return copy;
}

#define RUN_TAPE(fixture, tape, out)                                                               \
	RUN((fixture)->trace, "--runner", "tape", "--tape", tape, "--out", out, "--steps",         \
		"--force")

/* Millionths are recorded as decimals. Read again each is the number that it was written from,
   whether its product with a million comes out above or below that. */
Test(replay_tape_cli, every_decimal_that_was_recorded_is_the_same_again)
{
	static const char *const decimals[] = {
		"1.001", "1.003", "0.1", "0.3", "2.000003", "9.999999", "64.000001", "1.1"};
	struct replay_fixture fixture;
	char played[PATH_BYTES];

	replay_fixture_open(&fixture);
	path_in(played, fixture.folder, "played");
	for (uint32_t i = 0; i < sizeof(decimals) / sizeof(decimals[0]); i++) {
		require_good(RUN_SMALL(fixture.trace, "--out", fixture.out, "--steps", "--force",
			"--speedup", decimals[i]));
		require_good(RUN_TAPE(&fixture, fixture.out, played));
		require_same_file(fixture.out, played, RESULT_STEPS);
		cJSON *summary = read_summary(played);
		const cJSON *config = cJSON_GetObjectItem(summary, SUMMARY_CONFIG);
		double speedup = cJSON_GetObjectItem(config, "speedup")->valuedouble;
		require(speedup == strtod(decimals[i], NULL), "%s became %.9g", decimals[i],
			speedup);
		cJSON_Delete(summary);
	}
	replay_fixture_close(&fixture);
}

Test(replay_tape_cli, a_tape_decides_what_was_recorded)
{
	struct replay_fixture fixture;
	char played[PATH_BYTES];

	replay_fixture_open(&fixture);
	path_in(played, fixture.folder, "played");
	require_good(RUN_SMALL(fixture.trace, "--out", fixture.out, "--steps"));
	require_good(RUN_TAPE(&fixture, fixture.out, played));
	for (uint32_t i = 0; i < 5; i++) {
		require_same_file(fixture.out, played, replay_files[i]);
	}
	cJSON *recorded = read_summary(fixture.out);
	cJSON *summary = read_summary(played);
	cr_assert_str_eq(
		text_in(recorded, NULL, "result_hash"), text_in(summary, NULL, "result_hash"));
	require(cJSON_Compare(cJSON_GetObjectItem(recorded, "latency_ms"),
			cJSON_GetObjectItem(summary, "latency_ms"), true) == 1,
		"latencies differ");
	require(cJSON_Compare(cJSON_GetObjectItem(recorded, "load"),
			cJSON_GetObjectItem(summary, "load"), true) == 1,
		"load differs");
	require(cJSON_IsTrue(cJSON_GetObjectItem(recorded, "calibrated")) ==
			cJSON_IsTrue(cJSON_GetObjectItem(summary, "calibrated")),
		"a tape is as calibrated as what it recorded");
	/* What belongs to prices is in records of prices alone. */
	for (uint32_t i = 0; i < 2; i++) {
		const char *field = i == 0 ? "engine_process" : "step_time_scale";
		require(cJSON_HasObjectItem(cJSON_GetObjectItem(recorded, "config"), field) &&
				!cJSON_HasObjectItem(cJSON_GetObjectItem(summary, "config"), field),
			"%s", field);
	}
	cJSON_Delete(recorded);
	cJSON_Delete(summary);
	/* An option given again has to agree. */
	require_refused(RUN(fixture.trace, "--runner", "tape", "--tape", fixture.out, "--out",
				played, "--force", "--kv-blocks", "17"),
		"--kv-blocks");
	replay_fixture_close(&fixture);
}

/* Rows that say what is stored, some of which come while a step runs that no arrival can change:
   steps launched ahead, or not, and a tape decide the same. */
Test(replay_tape_cli, what_rows_store_is_the_same_for_steps_launched_ahead)
{
	static const char trace[] =
		"{\"timestamp\": 0.5, \"input_length\": 1484, \"output_length\": 21, "
		"\"hash_ids\": [2, 10, 11, 12, 13, 14]}\n"
		"{\"timestamp\": 5.5, \"input_length\": 860, \"output_length\": 16, "
		"\"hash_ids\": [1, 15, 16, 17]}\n"
		"{\"timestamp\": 5.5, \"input_length\": 1449, \"output_length\": 26, "
		"\"hash_ids\": [3, 20, 21, 22, 23, 24]}\n"
		"{\"timestamp\": 10.5, \"input_length\": 347, \"output_length\": 23, "
		"\"hash_ids\": [0, 30], \"stored_length\": 286}\n"
		"{\"timestamp\": 11, \"input_length\": 735, \"output_length\": 27, "
		"\"hash_ids\": [0, 40, 41], \"stored_length\": 495}\n"
		"{\"timestamp\": 12, \"input_length\": 799, \"output_length\": 12, "
		"\"hash_ids\": [2, 50, 51, 52], \"stored_length\": 344}\n";
	struct replay_fixture fixture;
	char path[TEMPORARY_PATH_BYTES], ahead[PATH_BYTES], played[PATH_BYTES];

	replay_fixture_open(&fixture);
	path_in(ahead, fixture.folder, "ahead");
	path_in(played, fixture.folder, "played");
	temporary_write(fixture.folder, "stored.jsonl", trace, path);
#define RUN_STORED(out, overlap)                                                                   \
	RUN(path, "--trace-block-size", "256", "--block-size", "256", "--kv-blocks", "14",         \
		"--max-num-seqs", "2", "--steps", "--overlap", overlap, "--out", out)
	require_good(RUN_STORED(ahead, "on"));
	require_good(RUN_STORED(fixture.out, "off"));
	require_good(RUN(path, "--runner", "tape", "--tape", ahead, "--out", played, "--steps"));
	require_same_file(ahead, played, RESULT_STEPS);
	cJSON *a = read_summary(ahead), *b = read_summary(fixture.out);
	cr_assert_str_eq(text_in(a, NULL, "result_hash"), text_in(b, NULL, "result_hash"));
	cJSON_Delete(a);
	cJSON_Delete(b);
	replay_fixture_close(&fixture);
}

/* A recording has the name of the profile that --gpu chose; the same --gpu chooses it again. */
Test(replay_tape_cli, a_gpu_given_again_is_that_of_the_recording)
{
	struct replay_fixture fixture;
	char played[PATH_BYTES];

	replay_fixture_open(&fixture);
	path_in(played, fixture.folder, "played");
	require_good(RUN_SMALL(fixture.trace, "--out", fixture.out, "--steps", "--gpu", "h200"));
	cJSON *recorded = read_summary(fixture.out);
	const char *profile = text_in(recorded, "config", "gpu");
	require(strcmp(profile, "h200") != 0, "no profile was chosen");
	const char *const same[] = {"h200", profile};
	for (uint32_t i = 0; i < 2; i++) {
		require_good(RUN(fixture.trace, "--runner", "tape", "--tape", fixture.out, "--out",
			played, "--force", "--gpu", same[i]));
	}
	require_refused(RUN(fixture.trace, "--runner", "tape", "--tape", fixture.out, "--out",
				played, "--force", "--gpu", "h200-datasheet"),
		"--gpu is h200-datasheet here and h200-");
	cJSON_Delete(recorded);
	replay_fixture_close(&fixture);
}

/* Plays the recording of the fixture with `from` replaced by `to` in its summary: it is refused
   with these words, or taken where they are NULL. */
static void require_changed(const struct replay_fixture *fixture, const char *played,
	const char *summary, const char *from, const char *to, const char *refusal)
{
	char *changed = with_text(summary, from, to);

	write_in(fixture->out, "summary.json", changed);
	free(changed);
	struct process_result outcome = RUN_TAPE(fixture, fixture->out, played);
	require((outcome.code == 0) == (refusal == NULL), "%s: %d, %s", to, outcome.code,
		outcome.err);
	require(refusal == NULL || strstr(outcome.err, refusal) != NULL, "%s: %s", to, outcome.err);
	process_result_free(&outcome);
}

/* Chains of tiles are counted by what the recorded GPU spreads them over. Where that is not known,
   as in older recordings, they are not compared; what no GPU has is refused. */
Test(replay_tape_cli, a_tape_counts_chains_as_its_recording_did)
{
	static const struct {
		const char *heads, *refusal;
	} changes[] = {
		{"\"heads\":\t1024,", "column prefill_chain_keys is "},
		{"\"heads\":\t0,",
			"field prefill_spread.heads: found 0, expected an integer in [1, "
			"1024]"},
		{"\"heads\":\t1025,", "field prefill_spread.heads: found 1025"},
		{"\"other\":\t1,", "field prefill_spread.heads"},
	};
	struct replay_fixture fixture;
	char played[PATH_BYTES];

	replay_fixture_open(&fixture);
	path_in(played, fixture.folder, "played");
	require_good(RUN_SMALL(fixture.trace, "--out", fixture.out, "--steps"));
	char *summary = read_in(fixture.out, "summary.json");
	char *heads = strstr(summary, "\"heads\":\t16,"),
	     *spread = strstr(summary, "prefill_spread");
	require(heads != NULL && spread != NULL, "no spread in %s", summary);
	require_good(RUN_TAPE(&fixture, fixture.out, played));
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		require_changed(&fixture, played, summary, "\"heads\":\t16,", changes[i].heads,
			changes[i].refusal);
	}
	require_changed(
		&fixture, played, summary, "\"prefill_spread\"", "\"something_else\"", NULL);
	free(summary);
	replay_fixture_close(&fixture);
}

/* Readings of shared blocks are counted by how many rows the recorded GPU serves by one. */
Test(replay_tape_cli, a_tape_counts_readings_as_its_recording_did)
{
	static const struct {
		const char *readers, *refusal; /* NULL: none */
	} changes[] = {
		{"\"shared_block_readers\":\t1,", "column repeat_tokens is "},
		{"\"shared_block_readers\":\t0,",
			"field shared_block_readers: found 0, expected an integer in [1, 1024]"},
		{"\"shared_block_readers\":\t1025,", "field shared_block_readers: found 1025"},
		{"\"other\":\t1,", NULL},
	};
	static const char recorded[] = "\"shared_block_readers\":\t16,";
	struct replay_fixture fixture;
	char played[PATH_BYTES];

	replay_fixture_open(&fixture);
	path_in(played, fixture.folder, "played");
	require_good(RUN_SMALL(fixture.trace, "--out", fixture.out, "--steps"));
	char *summary = read_in(fixture.out, "summary.json");
	require(strstr(summary, recorded) != NULL, "no readers in %s", summary);
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		require_changed(&fixture, played, summary, recorded, changes[i].readers,
			changes[i].refusal);
	}
	free(summary);
	replay_fixture_close(&fixture);
}

/* A recording of a program without tensor parallelism is of one rank. */
Test(replay_tape_cli, a_tape_without_a_number_of_ranks_has_one)
{
	static const char field[] = "\"tensor_parallel_size\":\t1,";
	struct replay_fixture fixture;
	char played[PATH_BYTES];

	replay_fixture_open(&fixture);
	path_in(played, fixture.folder, "played");
	require_good(RUN_SMALL(fixture.trace, "--out", fixture.out, "--steps"));
	char *summary = read_in(fixture.out, "summary.json");
	char *found = strstr(summary, field);
	require(found != NULL, "no %s in %s", field, summary);
	memset(found, ' ', strlen(field));
	write_in(fixture.out, "summary.json", summary);
	free(summary);
	require_good(RUN_TAPE(&fixture, fixture.out, played));
	require_refused(RUN(fixture.trace, "--runner", "tape", "--tape", fixture.out, "--out",
				played, "--force", "-tp", "2"),
		"--tensor-parallel-size is 2 here and 1 in the recorded run");
	replay_fixture_close(&fixture);
}

/* Any count of any step that differs ends the run there and is named; its files are whole. */
Test(replay_tape_cli, a_tape_names_the_step_and_column_that_differ)
{
	static const char *const columns[] = {"decode_rows", "prefill_rows", "prefill_tokens",
		"cached_tokens", "decode_context_tokens", "decode_longest_context",
		"prefill_attention_pairs", "prefill_longest_context", "prefill_context_tokens",
		"prefill_shared_tokens", "prefill_tiles", "prefill_tile_keys", "prefill_chain_keys",
		"prefill_half_chain_keys", "sampled_rows", "running", "waiting", "used_blocks",
		"shared_tokens", "reread_tokens", "repeat_tokens", "cached_free_blocks",
		"free_blocks", "preemptions"};
	struct replay_fixture fixture;
	char tape[PATH_BYTES], played[PATH_BYTES], words[128];

	replay_fixture_open(&fixture);
	path_in(tape, fixture.folder, "tape");
	path_in(played, fixture.folder, "played");
	require_good(RUN_SMALL(fixture.trace, "--out", tape, "--steps"));
	char *steps = read_in(tape, RESULT_STEPS);
	for (uint32_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
		uint32_t step = 7 * i;
		char *changed = with_cell(steps, step, 6 + i, "12345");
		write_in(tape, RESULT_STEPS, changed);
		free(changed);
		struct process_result outcome = RUN_TAPE(&fixture, tape, played);
		if (strcmp(columns[i], "waiting") == 0) {
			require_good(outcome); /* depends on how far was read ahead */
			continue;
		}
		snprintf(words, sizeof(words), "step %u: column %s is ", step, columns[i]);
		require_line(outcome, 1, words);
		require_no_parts(played);
		cJSON *summary = read_summary(played);
		cr_assert_str_eq(text_in(summary, NULL, "status"), "failed");
		require(strstr(text_in(summary, NULL, "failure"), columns[i]) != NULL, "why?");
		require_equal(number_in(summary, "time", "steps"), step);
		require_equal(number_in(summary, "requests", "submitted"),
			number_in(summary, "requests", "finished") +
				number_in(summary, "requests", "rejected") +
				number_in(summary, "requests", "failed"));
		cJSON_Delete(summary);
	}
	free(steps);
	replay_fixture_close(&fixture);
}

Test(replay_tape_cli, a_tape_fits_its_trace_from_end_to_end)
{
	struct replay_fixture fixture;
	char tape[PATH_BYTES], played[PATH_BYTES];

	replay_fixture_open(&fixture);
	path_in(tape, fixture.folder, "tape");
	path_in(played, fixture.folder, "played");
	require_good(RUN_SMALL(fixture.trace, "--out", tape, "--steps"));
	char *steps = read_in(tape, RESULT_STEPS);
	size_t bytes = strlen(steps);

	/* shorter by a step, and longer by one */
	size_t last = bytes - 1;
	while (steps[last - 1] != '\n') {
		last--;
	}
	char *shorter = strndup(steps, last);
	write_in(tape, RESULT_STEPS, shorter);
	require_line(RUN_TAPE(&fixture, tape, played), 1, "the tape has ended");
	char *longer = malloc(2 * bytes);
	require(shorter != NULL && longer != NULL, "out of memory");
	uint64_t rows;
	sum_column(steps, 0, 0, NULL, &rows);
	const char *start_ns = strchr(steps + last, '\t') + 1;
	snprintf(longer, 2 * bytes, "%s%llu\t9000000000000000000%s", steps,
		(unsigned long long)rows, strchr(start_ns, '\t'));
	write_in(tape, RESULT_STEPS, longer);
	require_line(RUN_TAPE(&fixture, tape, played), 1, "the tape goes on");
	free(shorter);
	free(longer);

	/* The same rows in other bytes are another trace. */
	write_in(tape, RESULT_STEPS, steps);
	char *trace = file_read(fixture.trace, NULL);
	char *other = malloc(strlen(trace) + 2);
	sprintf(other, "{ %s", trace + 1);
	write_in(fixture.folder, "trace.jsonl", other);
	require_line(RUN_TAPE(&fixture, tape, played), 2, "XXH64");
	free(other);
	free(trace);
	free(steps);
	replay_fixture_close(&fixture);
}

/* A run that failed and cannot be written either leaves nothing begun. */
Test(replay_tape_cli, a_failed_run_on_a_full_disk_leaves_nothing)
{
	const struct process_order tight = {.file_bytes_max = 500};
	struct replay_fixture fixture;
	char tape[PATH_BYTES], played[PATH_BYTES];

	replay_fixture_open(&fixture);
	path_in(tape, fixture.folder, "tape");
	path_in(played, fixture.folder, "played");
	require_good(RUN_SMALL(fixture.trace, "--out", tape, "--steps"));
	char *steps = read_in(tape, RESULT_STEPS);
	char *changed = with_cell(steps, 30, 6, "12345");
	write_in(tape, RESULT_STEPS, changed);
	require_refused(quire_replay(tight, false,
				LIST(fixture.trace, "--runner", "tape", "--tape", tape, "--out",
					played, "--steps")),
		"cannot be written: File too large");
	require(!file_exists(played), "a folder is left");
	free(steps);
	free(changed);
	replay_fixture_close(&fixture);
}
