#include "sim/tape.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/path.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

#define HEADER                                                                                     \
	"step\tstart_ns\telapsed_ns\tgpu_ns\thost_ns\tmode\tdecode_rows\tprefill_rows\t"           \
	"prefill_tokens\tcached_tokens\tdecode_context_tokens\tdecode_longest_context\tprefill_"   \
	"attention_pairs\tprefill_longest_context\tprefill_context_tokens\tprefill_shared_"        \
	"tokens\t"                                                                                 \
	"prefill_tiles\t"                                                                          \
	"prefill_tile_keys\tprefill_chain_keys\tprefill_half_chain_keys\t"                         \
	"sampled_rows\trunning\twaiting\tused_blocks\tshared_tokens\treread_tokens\t"              \
	"repeat_tokens\tcached_free_blocks\tfree_blocks\tpreemptions\n"
#define COUNTS_0                                                                                   \
	"\t0\t2\t30\t16\t0\t0\t300\t24\t40\t16\t2\t39\t24\t12\t2\t2\t7\t3\t16\t8\t4\t0\t5\t0\n"
#define ROW_0 "0\t100\t50\t40\t10\teager" COUNTS_0
#define ROW_1                                                                                      \
	"1\t150\t20\t19\t1\tgraph\t2\t0\t0\t0\t48\t28\t0\t0\t0\t0\t0\t0\t0\t0\t2\t2\t7\t3\t16\t8"  \
	"\t4\t0\t5\t0\n"

static const struct batch batches[] = {
	{.step = 0,
		.counts = {.prefill_rows = 2,
			.prefill_tokens = 30,
			.cached_tokens = 16,
			.prefill_attention_pairs = 300,
			.prefill_longest_context = 24,
			.prefill_context_tokens = 40,
			.prefill_shared_tokens = 16,
			.prefill_tiles = 2,
			.prefill_tile_keys = 39,
			.prefill_chain_keys = 24,
			.prefill_half_chain_keys = 12,
			.sampled_rows = 2,
			.running = 2,
			.waiting = 7,
			.used_blocks = 3,
			.shared_tokens = 16,
			.reread_tokens = 8,
			.repeat_tokens = 4,
			.free_blocks = 5}},
	{.step = 1,
		.counts = {.decode_rows = 2,
			.decode_context_tokens = 48,
			.decode_longest_context = 28,
			.sampled_rows = 2,
			.running = 2,
			.waiting = 7,
			.used_blocks = 3,
			.shared_tokens = 16,
			.reread_tokens = 8,
			.repeat_tokens = 4,
			.free_blocks = 5}},
};

struct tape_fixture {
	char folder[TEMPORARY_PATH_BYTES];
	struct runner runner;
	struct error error;
};

static enum status open_text(struct tape_fixture *fixture, const char *text)
{
	char path[TEMPORARY_PATH_BYTES];
	*fixture = (struct tape_fixture){.error = {STATUS_OK, ""}};
	temporary_folder(fixture->folder);
	temporary_write(fixture->folder, "steps.tsv", text, path);
	return tape_open(&fixture->runner, path, 1, &fixture->error);
}

static void close_tape(struct tape_fixture *fixture)
{
	if (fixture->runner.close != NULL) {
		fixture->runner.close(fixture->runner.state);
	}
	temporary_remove(fixture->folder);
}

static enum status play(
	struct tape_fixture *fixture, const struct batch *batch, struct step_time *time)
{
	fixture->error = (struct error){0};
	return fixture->runner.execute(fixture->runner.state, batch, NULL, time, &fixture->error);
}

static enum status start(struct tape_fixture *fixture, uint64_t earliest_ns, uint64_t *start_ns)
{
	fixture->error = (struct error){0};
	return fixture->runner.start(fixture->runner.state, earliest_ns, start_ns, &fixture->error);
}

Test(tape, plays_starts_and_times)
{
	struct tape_fixture fixture;
	struct step_time time = {0};
	uint64_t start_ns = 0;

	require_equal(open_text(&fixture, HEADER ROW_0 ROW_1), STATUS_OK);
	require_equal(fixture.runner.is_computing, false);
	require_equal(start(&fixture, 90, &start_ns), STATUS_OK);
	require_equal(start_ns, 100);
	require_equal(play(&fixture, &batches[0], &time), STATUS_OK);
	require_equal(time.elapsed_ns, 50);
	require_equal(time.gpu_ns, 40);
	require_equal(time.host_ns, 10);
	require_equal(time.mode, STEP_MODE_EAGER);
	require_equal(tape_finish(&fixture.runner, &fixture.error), STATUS_VERDICT);
	require_equal(start(&fixture, 150, &start_ns), STATUS_OK);
	require_equal(start_ns, 150);
	require_equal(play(&fixture, &batches[1], &time), STATUS_OK);
	require_equal(time.elapsed_ns, 20);
	require_equal(time.mode, STEP_MODE_GRAPH);
	require_equal(tape_finish(&fixture.runner, &fixture.error), STATUS_OK);
	close_tape(&fixture);
}

/* Rows start at 100 and 150. The failure at 95 loses the step that could start at 90, whatever it
   computes, and the one at 100 the step at 99, since no row starts before it; the one at 175 loses
   the step behind the last row, and none that starts then. */
Test(tape, steps_lost_in_a_failure_are_played_beyond_it)
{
	struct tape_fixture fixture;
	struct step_time time = {0};
	uint64_t start_ns = 0;

	require_equal(open_text(&fixture, HEADER ROW_0 ROW_1), STATUS_OK);
	tape_note_failure(&fixture.runner, 0, 95);
	tape_note_failure(&fixture.runner, 0, 99);
	tape_note_failure(&fixture.runner, 0, 100);
	tape_note_failure(&fixture.runner, 0, 175);
	require_equal(start(&fixture, 90, &start_ns), STATUS_OK);
	require_equal(start_ns, 90);
	require_equal(play(&fixture, &batches[1], &time), STATUS_OK);
	require_equal(time.elapsed_ns, 6);
	require_equal(start(&fixture, 99, &start_ns), STATUS_OK);
	require_equal(start_ns, 99);
	require_equal(play(&fixture, &batches[1], &time), STATUS_OK);
	require_equal(time.elapsed_ns, 2);
	require_equal(start(&fixture, 100, &start_ns), STATUS_OK);
	require_equal(play(&fixture, &batches[0], &time), STATUS_OK);
	require_equal(time.elapsed_ns, 50);
	require_equal(start(&fixture, 150, &start_ns), STATUS_OK);
	require_equal(play(&fixture, &batches[1], &time), STATUS_OK);
	require_equal(time.elapsed_ns, 20);
	require_equal(start(&fixture, 170, &start_ns), STATUS_OK);
	require_equal(start_ns, 170);
	require_equal(play(&fixture, &batches[1], &time), STATUS_OK);
	require_equal(time.elapsed_ns, 6);
	require_equal(start(&fixture, 175, &start_ns), STATUS_VERDICT);
	cr_assert_str_eq(fixture.error.text, "step 2: the tape has ended, after 2 steps");
	close_tape(&fixture);
}

Test(tape, names_the_first_count_that_differs)
{
	static const char *const names[] = {
#define NAME(column) #column,
		STEP_COUNT_LIST(NAME)
#undef NAME
	};
	enum { COUNT = sizeof(names) / sizeof(names[0]) };

	for (uint32_t i = 0; i < COUNT; i++) {
		struct tape_fixture fixture;
		struct step_time time = {0};
		struct batch batch = batches[0];
		uint64_t *const counts[] = {
#define POINTER(column) &batch.counts.column,
			STEP_COUNT_LIST(POINTER)
#undef POINTER
		};
		char expected[96];
		bool is_free = strcmp(names[i], "waiting") == 0;

		unsigned long long recorded = *counts[i];
		*counts[i] += 3;
		require_equal(open_text(&fixture, HEADER ROW_0), STATUS_OK);
		require_equal(play(&fixture, &batch, &time), is_free ? STATUS_OK : STATUS_VERDICT);
		snprintf(expected, sizeof(expected),
			"step 0: column %s is %llu here and %llu on "
			"the tape",
			names[i], recorded + 3, recorded);
		require(is_free || strcmp(fixture.error.text, expected) == 0, "found '%s'",
			fixture.error.text);
		close_tape(&fixture);
	}
}

Test(tape, a_step_is_the_next_one_on_the_tape)
{
	struct tape_fixture fixture;
	struct step_time time = {0};
	struct batch later = batches[0];

	require_equal(open_text(&fixture, HEADER ROW_0 ROW_1), STATUS_OK);
	later.step = 1;
	require_equal(play(&fixture, &later, &time), STATUS_VERDICT);
	cr_assert_str_eq(fixture.error.text, "step 0: column step is 1 here and 0 on the tape");
	close_tape(&fixture);
}

/* ---- several replicas ---- */

#define FLEET_HEADER                                                                               \
	"step\tstart_ns\telapsed_ns\tgpu_ns\thost_ns\tmode\tdecode_rows\tprefill_rows\t"           \
	"prefill_tokens\tcached_tokens\tdecode_context_tokens\tdecode_longest_context\tprefill_"   \
	"attention_pairs\tprefill_longest_context\tprefill_context_tokens\tprefill_shared_"        \
	"tokens\t"                                                                                 \
	"prefill_tiles\t"                                                                          \
	"prefill_tile_keys\tprefill_chain_keys\tprefill_half_chain_keys\t"                         \
	"sampled_rows\trunning\twaiting\tused_blocks\tshared_tokens\treread_tokens\t"              \
	"repeat_tokens\tcached_free_blocks\tfree_blocks\tpreemptions\treplica\n"
#define FLEET_COUNTS                                                                               \
	"\t0\t2\t30\t16\t0\t0\t300\t24\t40\t16\t2\t39\t24\t12\t2\t2\t7\t3\t16\t8\t4\t0\t5\t0\t"

enum { FLEET = 3 };

/* Opens the tapes of all replicas; those that failed to open are empty. */
static enum status open_fleet(struct tape_fixture *fixture, const char *text, struct runner *tapes)
{
	char path[TEMPORARY_PATH_BYTES];

	*fixture = (struct tape_fixture){.error = {STATUS_OK, ""}};
	temporary_folder(fixture->folder);
	temporary_write(fixture->folder, "steps.tsv", text, path);
	TRY(tape_open(&tapes[0], path, FLEET, &fixture->error));
	for (uint32_t i = 1; i < FLEET; i++) {
		tape_open_beside(&tapes[i], &tapes[0], i);
	}
	return STATUS_OK;
}

static void close_fleet(struct tape_fixture *fixture, struct runner *tapes)
{
	for (uint32_t i = 0; i < FLEET; i++) {
		tapes[i].close(tapes[i].state);
	}
	temporary_remove(fixture->folder);
}

static const char fleet[] = FLEET_HEADER "0\t100\t50\t40\t10\teager" FLEET_COUNTS "2\n"
					 "0\t110\t60\t40\t20\teager" FLEET_COUNTS "0\n"
					 "1\t150\t70\t40\t30\teager" FLEET_COUNTS "2\n"
					 "0\t130\t80\t40\t40\teager" FLEET_COUNTS "1\n";

/* Each replica has the rows with its number, in whatever order the replicas play. */
Test(tape, replicas_play_their_own_rows)
{
	static const struct {
		uint32_t replica;
		uint64_t step, start_ns, elapsed_ns;
	} orders[][4] = {
		{{2, 0, 100, 50}, {0, 0, 110, 60}, {2, 1, 150, 70}, {1, 0, 130, 80}},
		{{1, 0, 130, 80}, {0, 0, 110, 60}, {2, 0, 100, 50}, {2, 1, 150, 70}},
	};

	for (uint32_t o = 0; o < 2; o++) {
		struct tape_fixture fixture;
		struct runner tapes[FLEET];
		require_equal(open_fleet(&fixture, fleet, tapes), STATUS_OK);
		for (uint32_t i = 0; i < 4; i++) {
			const struct runner *tape = &tapes[orders[o][i].replica];
			struct batch batch = batches[0];
			struct step_time time = {0};
			struct error unused = {0};
			uint64_t start_ns = 0;
			require_equal(tape_finish(&tapes[i % FLEET], &unused), STATUS_VERDICT);
			batch.step = orders[o][i].step;
			require_equal(
				tape->start(tape->state, 0, &start_ns, &fixture.error), STATUS_OK);
			require_equal(start_ns, orders[o][i].start_ns);
			require_equal(
				tape->execute(tape->state, &batch, NULL, &time, &fixture.error),
				STATUS_OK);
			require_equal(time.elapsed_ns, orders[o][i].elapsed_ns);
		}
		require_equal(tape_finish(&tapes[o], &fixture.error), STATUS_OK);
		close_fleet(&fixture, tapes);
	}
}

Test(tape, rows_are_of_a_replica_that_there_is)
{
	struct tape_fixture fixture;
	struct runner tapes[FLEET];
	uint64_t start_ns = 0;

	require_equal(open_fleet(&fixture,
			      FLEET_HEADER "0\t100\t50\t40\t10\teager" FLEET_COUNTS "3\n", tapes),
		STATUS_OK);
	require_equal(tapes[0].start(tapes[0].state, 0, &start_ns, &fixture.error), STATUS_INPUT);
	require(strstr(fixture.error.text,
			"steps.tsv:2: column replica: found '3', expected an integer in [0, 2]") !=
			NULL,
		"%s", fixture.error.text);
	close_fleet(&fixture, tapes);
}

Test(tape, an_early_end_is_a_divergence)
{
	struct tape_fixture fixture;
	struct step_time time = {0};
	uint64_t start_ns = 0;

	require_equal(open_text(&fixture, HEADER ROW_0), STATUS_OK);
	require_equal(play(&fixture, &batches[0], &time), STATUS_OK);
	require_equal(start(&fixture, 0, &start_ns), STATUS_VERDICT);
	cr_assert_str_eq(fixture.error.text, "step 1: the tape has ended, after 1 step");
	require_equal(play(&fixture, &batches[1], &time), STATUS_VERDICT);
	close_tape(&fixture);
}

Test(tape, a_step_does_not_start_before_its_predecessor_ends)
{
	struct tape_fixture fixture;
	uint64_t start_ns = 0;

	require_equal(open_text(&fixture, HEADER ROW_0), STATUS_OK);
	require_equal(start(&fixture, 101, &start_ns), STATUS_VERDICT);
	cr_assert_str_eq(
		fixture.error.text, "step 0: column start_ns is 101 here and 100 on the tape");
	close_tape(&fixture);
}

/* Without prefill_shared_tokens the others are of all running sequences, and not compared. */
Test(tape, columns_are_found_by_name)
{
	struct tape_fixture fixture;
	struct step_time time = {0};
	const char *text =
		"spare\tpreemptions\tfree_blocks\tcached_free_blocks\treread_tokens\tshared_"
		"tokens\tused_blocks\t"
		"running\tsampled_rows\tprefill_longest_context\tprefill_attention_pairs\t"
		"decode_longest_context\t"
		"decode_context_tokens\tcached_tokens\tprefill_tokens\tprefill_rows\t"
		"decode_rows\tmode\thost_ns\tgpu_ns\telapsed_ns\tstart_ns\tstep\n"
		"-\t0\t5\t0\t9\t17\t3\t2\t2\t24\t300\t0\t0\t16\t30\t2\t0\tnone\t10\t40\t50\t100\t0";

	enum status status = open_text(&fixture, text);
	require(status == STATUS_OK, "%s", fixture.error.text);
	status = play(&fixture, &batches[0], &time);
	require(status == STATUS_OK, "%s", fixture.error.text);
	require_equal(time.elapsed_ns, 50);
	require_equal(time.mode, STEP_MODE_NONE);
	close_tape(&fixture);
}

/* Recorded before these counts were thought of. */
Test(tape, counts_missing_from_a_tape_are_not_compared)
{
	static const char *const text =
		"step\tstart_ns\telapsed_ns\tgpu_ns\thost_ns\tmode\tdecode_rows\tprefill_rows\t"
		"prefill_tokens\tcached_tokens\tdecode_context_tokens\tprefill_attention_pairs\t"
		"sampled_rows\trunning\twaiting\tused_blocks\tcached_free_blocks\tfree_blocks\t"
		"preemptions\n"
		"0\t100\t50\t40\t10\teager\t0\t2\t30\t16\t0\t300\t2\t2\t7\t3\t0\t5\t0\n"
		"1\t150\t20\t19\t1\tgraph\t2\t0\t0\t0\t47\t0\t2\t2\t7\t3\t0\t5\t0\n";
	struct tape_fixture fixture;
	struct step_time time = {0};

	enum status status = open_text(&fixture, text);
	require(status == STATUS_OK, "%s", fixture.error.text);
	require_equal(play(&fixture, &batches[0], &time), STATUS_OK);
	require_equal(time.elapsed_ns, 50);
	require_equal(play(&fixture, &batches[1], &time), STATUS_VERDICT);
	cr_assert_str_eq(fixture.error.text,
		"step 1: column decode_context_tokens is 48 here and 47 on the tape");
	close_tape(&fixture);
}

Test(tape, malformed_tapes_are_refused_with_line_and_column)
{
	static const struct {
		const char *text, *part;
	} cases[] = {
		{"", "steps.tsv:1: found an empty file"},
		{"step\tstart_ns\n", "steps.tsv:1: column elapsed_ns is missing"},
		{"step\tstep\n", "steps.tsv:1: found column step twice"},
		{HEADER "0\t1\n", "steps.tsv:2: found 2 columns, expected the header's 30"},
		{HEADER "\n", "steps.tsv:2: found 1 column, expected the header's 30"},
		{HEADER "\t1\t1\t1\t1\tnone" COUNTS_0,
			"steps.tsv:2: column step: found '', expected an integer"},
		{HEADER "0\t10\r0\n", "steps.tsv:2: found a carriage return"},
		{HEADER "0\t100\r\n", "steps.tsv:2: found 2 columns"},
		{HEADER "1" ROW_0, "steps.tsv:2: column step: found 10, expected 0"},
		{HEADER ROW_1, "steps.tsv:2: column step: found 1, expected 0"},
		{HEADER "0\t-1\t1\t1\t1\tnone" COUNTS_0,
			"steps.tsv:2: column start_ns: found '-1'"},
		{HEADER "0\t99999999999999999999\t1\t1\t1\tnone" COUNTS_0,
			"steps.tsv:2: column start_ns: found '9999"},
		{HEADER "0\t1\t1\t1\t1\tfast" COUNTS_0,
			"column mode: found 'fast', expected none, eager or graph"},
		{HEADER "0\t1 \t1\t1\t1\tnone" COUNTS_0, "column start_ns: found '1 '"},
		/* 2^63 and more, in the last place where each fits 64 bits */
		{HEADER "0\t9223372036854775808\t0\t0\t0\tnone" COUNTS_0,
			"steps.tsv:2: column start_ns: found '9223372036854775808', expected a "
			"time from the end of the preceding step, 0, to 2^63 - 1"},
		{HEADER "0\t18446744073709551615\t1\t1\t0\tnone" COUNTS_0,
			"column start_ns: found '18446744073709551615'"},
		{HEADER "0\t0\t9223372036854775808\t9223372036854775808\t0\tnone" COUNTS_0,
			"column elapsed_ns: found '9223372036854775808', expected an end of the "
			"step below 2^63 ns"},
		{HEADER "0\t9223372036854775807\t1\t1\t0\tnone" COUNTS_0,
			"column elapsed_ns: found '1'"},
		{HEADER "0\t1\t18446744073709551615\t1\t0\tnone" COUNTS_0,
			"column elapsed_ns: found '18446744073709551615'"},
		{HEADER "0\t0\t50\t40\t11\tnone" COUNTS_0,
			"steps.tsv:2: column gpu_ns: found '40', expected elapsed_ns less host_ns"},
		{HEADER "0\t0\t50\t40\t9\tnone" COUNTS_0,
			"steps.tsv:2: column gpu_ns: found '40', expected elapsed_ns less host_ns"},
		{HEADER "0\t0\t50\t51\t18446744073709551615\tnone" COUNTS_0,
			"column gpu_ns: found '51'"},
		{HEADER "0\t0\t50\t18446744073709551615\t51\tnone" COUNTS_0,
			"column gpu_ns: found '18446744073709551615'"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tape_fixture fixture;
		struct step_time time = {0};
		enum status status = open_text(&fixture, cases[i].text);
		if (status == STATUS_OK) {
			status = play(&fixture, &batches[0], &time);
		}
		require_equal(status, STATUS_INPUT);
		require(strstr(fixture.error.text, cases[i].part) != NULL, "'%s' does not say '%s'",
			fixture.error.text, cases[i].part);
		close_tape(&fixture);
	}
}

/* The clock ends at 2^63 - 1 ns, and a step may end there. */
Test(tape, a_step_may_end_at_the_end_of_the_clock)
{
	struct tape_fixture fixture;
	struct step_time time = {0};
	uint64_t start_ns = 0;

	require_equal(open_text(&fixture, HEADER "0\t9223372036854775800\t7\t6\t1\tnone" COUNTS_0
						 "1\t9223372036854775807\t0\t0\t0\tnone" COUNTS_0),
		STATUS_OK);
	require_equal(start(&fixture, 0, &start_ns), STATUS_OK);
	require_equal(start_ns, UINT64_C(9223372036854775800));
	require_equal(play(&fixture, &batches[0], &time), STATUS_OK);
	require_equal(time.elapsed_ns, 7);
	require_equal(start(&fixture, CLOCK_NS_MAX, &start_ns), STATUS_OK);
	require_equal(start_ns, CLOCK_NS_MAX);
	close_tape(&fixture);
}

Test(tape, times_and_numbers_of_a_tape_do_not_go_back)
{
	struct tape_fixture fixture;
	struct step_time time = {0};
	uint64_t start_ns = 0;

	require_equal(
		open_text(&fixture, HEADER ROW_0 "1\t149\t1\t1\t0\tnone" COUNTS_0), STATUS_OK);
	require_equal(play(&fixture, &batches[0], &time), STATUS_OK);
	require_equal(start(&fixture, 0, &start_ns), STATUS_INPUT);
	require(strstr(fixture.error.text,
			"steps.tsv:3: column start_ns: found '149', expected a time from the end "
			"of the preceding step, 150, to 2^63 - 1") != NULL,
		"found '%s'", fixture.error.text);
	close_tape(&fixture);
	require_equal(
		open_text(&fixture, HEADER ROW_0 "2\t150\t1\t1\t0\tnone" COUNTS_0), STATUS_OK);
	require_equal(play(&fixture, &batches[0], &time), STATUS_OK);
	require_equal(start(&fixture, 150, &start_ns), STATUS_INPUT);
	require(strcmp(path_name(fixture.error.text),
			"steps.tsv:3: column step: found 2, expected 1") == 0,
		"found '%s'", fixture.error.text);
	close_tape(&fixture);
}

Test(tape, a_missing_file_is_named)
{
	struct runner runner;
	struct error error = {STATUS_OK, ""};
	require_equal(tape_open(&runner, "no/such/steps.tsv", 1, &error), STATUS_FILE);
	cr_assert_not_null(strstr(error.text, "no/such/steps.tsv"));
}

/* Steps and starts that do not fit into 32 bits: 4.29 s and more. */
Test(tape, plays_long_steps_to_the_nanosecond)
{
	struct tape_fixture fixture;
	struct step_time time = {0};
	uint64_t start_ns = 0;
	const char *row = "0\t98765432109876\t12345678901\t7345678902\t4999999999\tgraph" COUNTS_0;
	char text[2048];

	snprintf(text, sizeof(text), "%s%s", HEADER, row);
	require_equal(open_text(&fixture, text), STATUS_OK);
	require_equal(start(&fixture, 98765432109876, &start_ns), STATUS_OK);
	require_equal(start_ns, 98765432109876);
	require_equal(play(&fixture, &batches[0], &time), STATUS_OK);
	require_equal(time.elapsed_ns, 12345678901);
	require_equal(time.gpu_ns, 7345678902);
	require_equal(time.host_ns, 4999999999);
	require_equal(time.idle_ns, 0);
	close_tape(&fixture);
}
