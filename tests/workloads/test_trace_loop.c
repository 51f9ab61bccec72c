#include "workloads/trace_loop.h"

#include "workloads/workload.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/text.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* A trace that is read once and kept, beside one that is repeated. */

enum { ROWS_MAX = 30, IDS_MAX = 4, REPETITIONS = 4, BLOCK = 16 };

struct kept {
	struct trace_row row;
	uint64_t ids[IDS_MAX];
	char session[16];
};

static void write_trace(struct prop *prop, const char *path, uint32_t count)
{
	FILE *file = fopen(path, "wb");
	uint64_t time_ms = prop_below(prop, 5) * 1000;
	bool stands_still = prop_chance(prop, 1, 6);

	require(file != NULL, "%s cannot be written", path);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t blocks = prop_range(prop, 1, IDS_MAX);
		time_ms += stands_still ? 0 : prop_below(prop, 3000);
		fprintf(file, "{\"timestamp\": %llu, \"input_length\": %u, \"output_length\": %u, ",
			(unsigned long long)time_ms, blocks * BLOCK, prop_range(prop, 1, 9));
		if (prop_chance(prop, 1, 2)) {
			fprintf(file, "\"session_id\": \"s%u\", ", (unsigned)prop_below(prop, 3));
		}
		fprintf(file, "\"hash_ids\": [");
		for (uint32_t j = 0; j < blocks; j++) {
			fprintf(file, "%s%llu", j == 0 ? "" : ", ",
				(unsigned long long)prop_below(prop, 50));
		}
		fprintf(file, "]}\n");
	}
	fclose(file);
}

static uint32_t keep_rows(const char *path, const struct trace_options *options, struct kept *kept)
{
	struct trace *trace;
	struct trace_row row;
	struct error error = {0};
	bool has_row = true;
	uint32_t count = 0;

	require(trace_open(&trace, path, options, &error) == STATUS_OK, "%s", error.text);
	for (; trace_next(trace, &row, &has_row, &error) == STATUS_OK && has_row; count++) {
		require(row.hash_id_count <= IDS_MAX, "too many ids");
		kept[count].row = row;
		memcpy(kept[count].ids, row.hash_ids, row.hash_id_count * sizeof(uint64_t));
		snprintf(kept[count].session, sizeof(kept[count].session), "%s",
			row.session == NULL ? "" : row.session);
	}
	trace_close(trace);
	return count;
}

static void require_row(const struct trace_row *row, const struct kept *kept, uint64_t index,
	uint32_t count, enum loop_mode mode)
{
	const struct kept *one = &kept[index % count];
	uint64_t repetition = index / count;
	uint64_t span = kept[count - 1].row.arrival_ns - kept[0].row.arrival_ns;
	uint64_t period = count < 2 ? 0 : span + span / (count - 1);
	char name[32] = "";

	require_equal(row->index, index);
	require_equal(row->line, one->row.line);
	require_equal(row->arrival_ns, one->row.arrival_ns + repetition * period);
	require_equal(row->input_length, one->row.input_length);
	require_equal(row->output_length, one->row.output_length);
	require_equal(row->hash_id_count, one->row.hash_id_count);
	require((row->session == NULL) == (one->row.session == NULL), "a session too many");
	if (row->session != NULL && repetition > 0) {
		snprintf(name, sizeof(name), "%s#%llu", one->session,
			(unsigned long long)repetition + 1);
	} else if (row->session != NULL) {
		snprintf(name, sizeof(name), "%s", one->session);
	}
	require(row->session == NULL || strcmp(row->session, name) == 0, "session %s, expected %s",
		row->session, name);
	for (uint32_t i = 0; i < row->hash_id_count; i++) {
		bool is_same = row->hash_ids[i] == one->ids[i];
		require(is_same == (repetition == 0 || mode == LOOP_SHARED),
			"id %u of row %llu is %s", i, (unsigned long long)index,
			is_same ? "the same" : "another one");
		require(row->hash_ids[i] >> 63 == 0, "an id of 64 bits");
	}
}

/* Ids that were equal in the file are equal in each repetition, and others are not. */
struct seen {
	uint64_t ids[ROWS_MAX][IDS_MAX];
};

static void require_same_sharing(const struct seen *seen, const struct kept *kept, uint32_t count)
{
	for (uint32_t a = 0; a < count * IDS_MAX; a++) {
		for (uint32_t b = 0; b < a; b++) {
			const struct kept *x = &kept[a / IDS_MAX], *y = &kept[b / IDS_MAX];
			if (a % IDS_MAX >= x->row.hash_id_count ||
				b % IDS_MAX >= y->row.hash_id_count) {
				continue;
			}
			bool was_same = x->ids[a % IDS_MAX] == y->ids[b % IDS_MAX];
			bool is_same = seen->ids[a / IDS_MAX][a % IDS_MAX] ==
				       seen->ids[b / IDS_MAX][b % IDS_MAX];
			require(was_same == is_same, "what is shared changes");
		}
	}
}

static void body_loop(struct prop *prop, const void *context)
{
	static struct kept kept[ROWS_MAX];
	static struct seen seen;
	const char *path = context;
	const struct trace_options options = {.trace_block_size = BLOCK};
	enum loop_mode mode = (enum loop_mode)prop_below(prop, 3);
	struct trace_loop *loop;
	struct trace_row row;
	struct error error = {0};
	bool has_row = false;
	uint64_t index = 0;

	write_trace(prop, path, prop_range(prop, 1, ROWS_MAX));
	uint32_t count = keep_rows(path, &options, kept);
	require(trace_loop_open(&loop, path, &options, mode, &error) == STATUS_OK, "%s",
		error.text);
	for (; index < count * REPETITIONS; index++) {
		require(trace_loop_next(loop, &row, &has_row, &error) == STATUS_OK, "%s",
			error.text);
		if (!has_row) {
			break;
		}
		require_row(&row, kept, index, count, mode);
		memcpy(seen.ids[index % count], row.hash_ids, row.hash_id_count * sizeof(uint64_t));
		if (index % count == count - 1) {
			require_same_sharing(&seen, kept, count);
		}
	}
	require_equal(index, mode == LOOP_OFF ? count : (uint64_t)count * REPETITIONS);
	bool has_one_time = kept[0].row.arrival_ns == kept[count - 1].row.arrival_ns;
	require_equal(trace_loop_stands_still(loop), mode != LOOP_OFF && has_one_time);
	trace_loop_close(loop);
}

Test(trace_loop, repetitions_are_those_of_a_trace_that_was_kept)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES + 16];
	struct prop_options options = {.name = "trace loop", .body = body_loop, .trials = 400};

	temporary_folder(folder);
	snprintf(path, sizeof(path), "%s/trace.jsonl", folder);
	options.context = path;
	cr_assert(prop_holds(&options));
	temporary_remove(folder);
}

static struct trace_row next_row(struct trace_loop *loop)
{
	struct trace_row row;
	struct error error = {0};
	bool has_row = false;

	require(trace_loop_next(loop, &row, &has_row, &error) == STATUS_OK && has_row, "%s",
		error.text);
	return row;
}

/* A turn follows one of its own repetition. */
Test(trace_loop, turns_follow_those_of_their_repetition)
{
	static const struct {
		const char *turn, *parent;
	} expected[] = {{"1", NULL}, {"2", "1"}, {"1#2", NULL}, {"2#2", "1#2"}, {"1#3", NULL},
		{"2#3", "1#3"}};
	const struct trace_options options = {.trace_block_size = BLOCK};
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];
	struct trace_loop *loop;
	struct error error = {0};

	temporary_folder(folder);
	temporary_write(folder, "chats.jsonl",
		"{\"chat_id\":1,\"parent_chat_id\":-1,\"timestamp\":0,\"input_length\":1,"
		"\"output_length\":1}\n"
		"{\"chat_id\":2,\"parent_chat_id\":1,\"timestamp\":1,\"input_length\":9,"
		"\"output_length\":1}\n",
		path);
	require_equal(trace_loop_open(&loop, path, &options, LOOP_SHARED, &error), STATUS_OK);
	for (uint32_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		struct trace_row row = next_row(loop);
		cr_assert_str_eq(row.turn, expected[i].turn);
		cr_assert_str_eq(row.session, expected[i].turn);
		require((row.parent == NULL) == (expected[i].parent == NULL), "parent of %u", i);
		cr_assert(row.parent == NULL || strcmp(row.parent, expected[i].parent) == 0);
	}
	trace_loop_close(loop);
	temporary_remove(folder);
}

/* Token ids of a prompt and of its answer are others in each repetition, or the same in all. They
   are no other row's in another repetition, though its ids lie beside them in the trace. */
Test(trace_loop, tokens_are_shared_or_fresh)
{
	static const char *const text =
		"{\"arrival_time_ns\":0,\"input_tok_ids\":[7,8,7],\"output_toks\":2,"
		"\"output_tok_ids\":[40,40]}\n"
		"{\"arrival_time_ns\":1,\"input_tok_ids\":[9],\"output_toks\":1}\n";
	const struct trace_options options = {.trace_block_size = BLOCK};
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	temporary_write(folder, "tokens.jsonl", text, path);
	for (uint32_t is_fresh = 0; is_fresh < 2; is_fresh++) {
		struct trace_loop *loop;
		struct error error = {0};
		require_equal(trace_loop_open(&loop, path, &options,
				      is_fresh ? LOOP_FRESH : LOOP_SHARED, &error),
			STATUS_OK);
		uint64_t seen[12];
		uint32_t seen_count = 0;
		for (uint64_t repetition = 0; repetition < 3; repetition++) {
			bool is_own = is_fresh && repetition > 0;
			struct trace_row row = next_row(loop);
			uint64_t ids[] = {
				row.prompt_ids[0], row.prompt_ids[1], row.output_ids[0], 0};
			require_equal(row.prompt_ids[2], ids[0]);
			require_equal(row.output_ids[1], ids[2]);
			row = next_row(loop);
			ids[3] = row.prompt_ids[0];
			require(row.output_ids == NULL, "an answer that the trace has not");
			require(is_own ||
					(ids[0] == 7 && ids[1] == 8 && ids[2] == 40 && ids[3] == 9),
				"repetition %llu has others", (unsigned long long)repetition);
			for (uint32_t i = 0; i < 4 && (is_own || repetition == 0); i++) {
				for (uint32_t k = 0; k < seen_count; k++) {
					require(seen[k] != ids[i], "%llu again",
						(unsigned long long)ids[i]);
				}
				seen[seen_count++] = ids[i];
			}
		}
		trace_loop_close(loop);
	}
	temporary_remove(folder);
}

/* ---- as a workload ---- */

static enum status open_workload(struct workload **workload, const char *path,
	const struct workload_options *options, struct error *error)
{
	*error = (struct error){0};
	return workload_open(workload, path, options, error);
}

/* Reads all rows that arrive by themselves, which come in order of time; returns how many. */
static uint64_t read_all(struct workload *workload, struct error *error)
{
	struct trace_row row;
	enum workload_state state = WORKLOAD_ROW;
	uint64_t next_ns, count = 0, before_ns = 0;

	while (workload_next(workload, CLOCK_NS_MAX, &row, &state, &next_ns, error) == STATUS_OK &&
		state == WORKLOAD_ROW) {
		require(++count < 1000, "no end");
		require(row.arrival_ns >= before_ns, "row %llu comes before the one before it",
			(unsigned long long)count);
		before_ns = row.arrival_ns;
	}
	return count;
}

/* Five rows, a second from each other. */
static void write_seconds(const char *path, uint64_t gap_ms)
{
	FILE *file = fopen(path, "wb");

	for (uint32_t i = 0; i < 5; i++) {
		fprintf(file,
			"{\"timestamp\": %llu, \"input_length\": 16, \"output_length\": 1, "
			"\"hash_ids\": [%u]}\n",
			(unsigned long long)(i * gap_ms), i);
	}
	fclose(file);
}

Test(trace_loop, a_workload_ends_where_it_is_told_to)
{
	static const struct {
		enum loop_mode loop;
		uint64_t duration_s, max_requests, rows;
		bool ran_out;
	} cases[] = {
		{LOOP_OFF, 0, 0, 5, false},
		{LOOP_OFF, 4, 0, 4, false},
		{LOOP_OFF, 5, 0, 5, true},
		{LOOP_OFF, 0, 5, 5, false},
		{LOOP_OFF, 0, 6, 5, true},
		{LOOP_OFF, 3, 6, 3, false},
		{LOOP_OFF, 60, 5, 5, false},
		{LOOP_SHARED, 23, 0, 23, false},
		{LOOP_FRESH, 0, 17, 17, false},
		{LOOP_FRESH, 23, 17, 17, false},
		{LOOP_SHARED, 17, 23, 17, false},
	};
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES + 16];
	struct workload *workload;
	struct error error;

	temporary_folder(folder);
	snprintf(path, sizeof(path), "%s/trace.jsonl", folder);
	write_seconds(path, 1000);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct workload_options options = {.trace.trace_block_size = BLOCK,
			.loop = cases[i].loop,
			.speedup_millionths = 1000000,
			.duration_ns = cases[i].duration_s * 1000000000,
			.max_requests = cases[i].max_requests};
		uint64_t counted;
		require(open_workload(&workload, path, &options, &error) == STATUS_OK, "%s",
			error.text);
		require_equal(read_all(workload, &error), cases[i].rows);
		require_equal(workload_ran_out(workload), cases[i].ran_out);
		workload_close(workload);
		require(workload_count(path, &options, &counted, &error) == STATUS_OK, "%s",
			error.text);
		require_equal(counted, cases[i].rows);
	}
	temporary_remove(folder);
}

/* A draw has more or fewer rows than it was drawn from. It runs out where that did: not where the
   first rows were all that was asked for, however many were drawn from them. */
Test(trace_loop, a_draw_runs_out_where_its_trace_does)
{
	static const uint64_t ms[] = {0, 100, 200, 300, 3000, 3100, 9000, 12000};
	enum { COUNT = sizeof(ms) / sizeof(ms[0]) };
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];
	struct text text = {0};
	uint32_t fewer = 0, more = 0;

	temporary_folder(folder);
	for (uint32_t i = 0; i < COUNT; i++) {
		text_format(&text,
			"{\"timestamp\": %llu, \"input_length\": 16, \"output_length\": 1}\n",
			(unsigned long long)ms[i]);
	}
	temporary_write(folder, "trace.jsonl", text.bytes, path);
	text_deinit(&text);
	for (uint64_t seed = 0; seed < 40; seed++) {
		for (uint64_t most = 0; most < 4 * COUNT; most++) {
			const struct workload_options options = {.trace.trace_block_size = BLOCK,
				.speedup_millionths = 1000000,
				.resample_seed = seed / 2,
				.resample_window_ns = 1000000000,
				.duration_ns = seed % 2 * 1000000000000,
				.max_requests = most};
			uint64_t used = most == 0 || most > COUNT ? COUNT : most;
			bool wants_more = most > 0 || seed % 2 > 0;
			struct workload *workload;
			struct error error;
			require(open_workload(&workload, path, &options, &error) == STATUS_OK, "%s",
				error.text);
			uint64_t rows = read_all(workload, &error);
			fewer += rows < used;
			more += rows > used;
			require(workload_ran_out(workload) ==
					(wants_more && (most == 0 || most > COUNT)),
				"seed %llu, at most %llu, %llu rows", (unsigned long long)seed,
				(unsigned long long)most, (unsigned long long)rows);
			workload_close(workload);
		}
	}
	require(fewer > 100 && more > 100, "%u draws have fewer rows, %u more", fewer, more);
	temporary_remove(folder);
}

/* Rows of a tick are spread over it, those of a repetition's last one as well. */
Test(trace_loop, rows_that_are_spread_stay_in_order_in_every_repetition)
{
	struct workload_options options = {.trace.trace_block_size = BLOCK,
		.loop = LOOP_SHARED,
		.spreads_ties = true,
		.speedup_millionths = 1000000,
		.max_requests = 300};
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES + 16];
	struct workload *workload;
	struct error error;

	temporary_folder(folder);
	snprintf(path, sizeof(path), "%s/trace.jsonl", folder);
	FILE *file = fopen(path, "wb");
	for (uint32_t i = 0; i < 12; i++) {
		fprintf(file, "{\"timestamp\": %u, \"input_length\": 16, \"output_length\": 1}\n",
			i / 4 * 3000);
	}
	fclose(file);
	for (options.seed = 1; options.seed <= 20; options.seed++) {
		require(open_workload(&workload, path, &options, &error) == STATUS_OK, "%s",
			error.text);
		require_equal(read_all(workload, &error), 300);
		workload_close(workload);
	}
	temporary_remove(folder);
}

static const struct arrival_profile four_a_second = {.kind = ARRIVALS_CONSTANT,
	.rate_from = 4000000,
	.rate_to = 4000000,
	.step_count = 1,
	.resolution_ns = 1};

/* Of drawn arrivals those before the end, and of closed sessions all rows. */
Test(trace_loop, rows_are_counted_as_they_will_arrive)
{
	const char *turns = "{\"timestamp\": 0, \"input_length\": 9, \"output_length\": 1, "
			    "\"session_id\": \"a\"}\n"
			    "{\"timestamp\": 1, \"input_length\": 20, \"output_length\": 1, "
			    "\"session_id\": \"a\"}\n";
	const struct workload_options drawn = {.trace.trace_block_size = BLOCK,
		.profile = &four_a_second,
		.speedup_millionths = 1000000,
		.duration_ns = 1000000000};
	const struct workload_options closed = {.trace.trace_block_size = BLOCK,
		.sessions = SESSIONS_CLOSED,
		.speedup_millionths = 1000000};
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];
	struct workload *workload;
	struct error error = {0};
	uint64_t count = 0;

	temporary_folder(folder);
	temporary_write(folder, "turns.jsonl", turns, path);
	require_equal(workload_count(path, &closed, &count, &error), STATUS_OK);
	require_equal(count, 2);
	snprintf(path, sizeof(path), "%.400s/trace.jsonl", folder);
	write_seconds(path, 1000);
	require_equal(workload_count(path, &drawn, &count, &error), STATUS_OK);
	require_equal(count, 3);
	require_equal(open_workload(&workload, path, &drawn, &error), STATUS_OK);
	require_equal(read_all(workload, &error), count);
	workload_close(workload);
	temporary_remove(folder);
}

/* Drawn arrivals can. */
Test(trace_loop, rows_of_one_time_cannot_fill_a_duration)
{
	const struct workload_options options = {.trace.trace_block_size = BLOCK,
		.loop = LOOP_SHARED,
		.seed = 1,
		.speedup_millionths = 1000000,
		.duration_ns = 5000000000};
	struct workload_options with_rate = options;
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES + 16];
	struct workload *workload;
	struct error error;

	temporary_folder(folder);
	snprintf(path, sizeof(path), "%s/trace.jsonl", folder);
	write_seconds(path, 0);
	require(open_workload(&workload, path, &options, &error) == STATUS_OK, "%s", error.text);
	require_equal(read_all(workload, &error), 5);
	cr_assert_eq(error.status, STATUS_INPUT);
	cr_assert_not_null(strstr(error.text, "one time"), "%s", error.text);
	workload_close(workload);
	with_rate.profile = &four_a_second;
	require(open_workload(&workload, path, &with_rate, &error) == STATUS_OK, "%s", error.text);
	require_equal(read_all(workload, &error), 19);
	workload_close(workload);
	temporary_remove(folder);
}

/* A turn that would arrive behind the end was there, so the trace did not run out. */
Test(trace_loop, a_turn_that_is_too_late_is_still_there)
{
	const struct workload_options options = {.trace.trace_block_size = BLOCK,
		.sessions = SESSIONS_CLOSED,
		.speedup_millionths = 1000000,
		.duration_ns = 5000000000};
	const char *rows = "{\"timestamp\": 0, \"input_length\": 9, \"output_length\": 1, "
			   "\"session_id\": \"a\"}\n"
			   "{\"timestamp\": 1, \"input_length\": 20, \"output_length\": 1, "
			   "\"session_id\": \"a\"}\n";
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	temporary_write(folder, "trace.jsonl", rows, path);
	for (uint64_t finish_s = 4; finish_s < 7; finish_s++) {
		struct workload *workload;
		struct trace_row row;
		struct error error;
		enum workload_state state;
		uint64_t next_ns;
		require(open_workload(&workload, path, &options, &error) == STATUS_OK, "%s",
			error.text);
		require_equal(read_all(workload, &error), 1);
		workload_finish(workload, 0, finish_s * 1000000000);
		workload_next(workload, CLOCK_NS_MAX, &row, &state, &next_ns, &error);
		require_equal(state, finish_s < 5 ? WORKLOAD_ROW : WORKLOAD_END);
		require_equal(workload_ran_out(workload), finish_s < 5);
		workload_close(workload);
	}
	temporary_remove(folder);
}
