#include "workloads/conversations.h"
#include "workloads/tokens.h"
#include "workloads/workload.h"

#include "engine/base/clock.h"
#include "engine/base/counter_hash.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* ---- follow-ups say what was said ----

   Conversations made of words; ids are hashes of all words up to a block's end, as those of real
   traces are. What the tokens of a follow-up must be follows from its words. */

enum { TURNS_MAX = 6, WORDS_MAX = 400, SESSIONS = 2 };

struct said {
	uint64_t words[WORDS_MAX]; /* prompt and completion */
	int32_t tokens[WORDS_MAX];
	uint64_t ids[WORDS_MAX];
	uint32_t input, output;
};

struct talk {
	struct said turns[TURNS_MAX];
	uint32_t turn_count;
	char name[8];
};

/* CUTS_SHORT: the beginning of the prompt before, whose last block keeps its id. */
enum follow_up { CONTINUES, RETRIES, CHANGES_THE_END, STARTS_AFRESH, CUTS_SHORT, FOLLOW_UP_COUNT };

static void add_words(struct prop *prop, struct said *said, uint32_t *count, uint32_t more)
{
	for (uint32_t i = 0; i < more && *count < WORDS_MAX; i++) {
		said->words[(*count)++] = 1 + prop_below(prop, UINT64_C(1) << 40);
	}
}

/* What the next prompt begins with; returns which kind it is. */
static enum follow_up draw_prompt(struct prop *prop, const struct talk *talk, struct said *said)
{
	enum follow_up kind = (enum follow_up)prop_below(prop, FOLLOW_UP_COUNT);
	uint32_t count = 0;

	if (talk->turn_count == 0) {
		kind = STARTS_AFRESH;
	}
	if (kind != STARTS_AFRESH) {
		const struct said *before = &talk->turns[talk->turn_count - 1];
		count = kind == CONTINUES ? before->input + before->output
			: kind == RETRIES ? before->input
					  : prop_range(prop, 1, before->input);
		memcpy(said->words, before->words, count * sizeof(*said->words));
	}
	if (kind != RETRIES && kind != CUTS_SHORT) {
		add_words(prop, said, &count, prop_range(prop, kind != CONTINUES, 40));
	}
	said->input = count;
	return kind;
}

/* A prompt without new words has the ids of the one before. */
static uint32_t make_ids(struct said *said, uint32_t block_size, bool has_rest, enum follow_up kind)
{
	uint32_t count = (said->input + has_rest * (block_size - 1)) / block_size;
	uint64_t chain = 0;

	for (uint32_t i = 0; i < count * block_size && i < said->input; i++) {
		chain = counter_mix(chain ^ said->words[i]);
		said->ids[i / block_size] = chain >> 1;
	}
	if (kind == RETRIES || kind == CUTS_SHORT) {
		memcpy(said->ids, (said - 1)->ids, count * sizeof(*said->ids));
	}
	return count;
}

/* Spans are of the prompt, in its order, and none of them covers what another does. */
static void require_spans(const struct trace_row *row)
{
	uint32_t end = 0;

	for (uint32_t i = 0; i < row->span_count; i++) {
		const struct token_span *span = &row->spans[i];
		require(span->count > 0 && span->first >= end && span->origin <= span->first,
			"span %u of %u: %u tokens from %u on, behind %u", i, row->span_count,
			span->count, span->first, end);
		end = span->first + span->count;
	}
	require(end <= row->input_length, "spans to %u of %u", end, row->input_length);
}

static void require_same(
	const struct said *a, const struct said *b, uint32_t count, const char *what)
{
	for (uint32_t i = 0; i < count; i++) {
		require(a->tokens[i] == b->tokens[i], "%s: token %u of %u differs", what, i, count);
	}
}

struct talk_shape {
	uint32_t block_size;
	bool has_ids, has_rest;
};

static void add_turn(struct prop *prop, struct conversations *conversations, struct talk *talk,
	const struct talk_shape *shape, uint64_t index)
{
	const struct token_source source = {.seed = 5,
		.vocab_size = TOKEN_VOCABULARY_LIMIT,
		.trace_block_size = shape->block_size};
	struct said *said = &talk->turns[talk->turn_count];
	const struct said *before = talk->turn_count > 0 ? said - 1 : NULL;
	enum follow_up kind = draw_prompt(prop, talk, said);
	uint32_t all = said->input;

	add_words(prop, said, &all, prop_range(prop, 1, 20));
	said->output = all - said->input;
	struct trace_row row = {.index = index,
		.input_length = said->input,
		.output_length = said->output,
		.session = talk->name};
	if (shape->has_ids) {
		row.hash_ids = said->ids;
		row.hash_id_count = make_ids(said, shape->block_size, shape->has_rest, kind);
	}
	prop_log(prop, "row %" PRIu64 " of %s: kind %d, %u in, %u out", index, talk->name,
		(int)kind, said->input, said->output);
	conversations_add(conversations, &row);
	require_spans(&row);
	tokens_prompt(&source, &row, said->tokens);
	tokens_forced(&source, &row, said->tokens + said->input);
	if (kind == CONTINUES) {
		require_same(said, before, before->input + before->output, "a continuation");
	} else if (kind == RETRIES && shape->has_ids && shape->has_rest) {
		require_same(said, before, before->input, "a retry");
	} else if (kind == RETRIES && shape->has_ids) {
		require_same(said, before, before->input / shape->block_size * shape->block_size,
			"whole blocks of a retry");
	} else if (kind == CUTS_SHORT && row.hash_id_count > 0 &&
		   row.hash_id_count >= before->input / shape->block_size) {
		uint32_t named = row.hash_id_count * shape->block_size;
		require_same(said, before, named < said->input ? named : said->input,
			"the blocks of what was cut short");
	}
	require_equal(conversations_turn(conversations, row.turn_index)->depth, talk->turn_count);
	talk->turn_count++;
}

static void follow_ups_repeat_the_conversation(struct prop *prop, const void *context)
{
	struct talk talks[SESSIONS] = {{.name = "a"}, {.name = "b"}};
	const struct talk_shape shape = {.block_size = prop_range(prop, 1, 24),
		.has_ids = prop_chance(prop, 2, 3),
		.has_rest = prop_chance(prop, 1, 2)};
	struct conversations *conversations = conversations_open(shape.block_size);

	(void)context;
	prop_log(prop, "blocks of %u, ids %d, rest %d", shape.block_size, shape.has_ids,
		shape.has_rest);
	for (uint64_t index = 0; index < SESSIONS * TURNS_MAX; index++) {
		struct talk *talk = &talks[prop_below(prop, SESSIONS)];
		if (talk->turn_count < TURNS_MAX &&
			(talk->turn_count == 0 ||
				talk->turns[talk->turn_count - 1].input < WORDS_MAX - 100)) {
			add_turn(prop, conversations, talk, &shape, index);
		}
	}
	conversations_close(conversations);
}

Test(trace_sessions, follow_ups_repeat_the_conversation)
{
	const struct prop_options options = {
		.name = "follow-ups", .body = follow_ups_repeat_the_conversation, .trials = 3000};

	cr_assert(prop_holds(&options));
}

/* A follow-up of the same length that names the partial block behind the whole ones by the same id
   repeats it, and by another id it does not. */
Test(trace_sessions, a_partial_block_is_repeated_by_its_id)
{
	enum { BLOCK = 16, INPUT = 20 };
	static uint64_t ids[][2] = {{7, 8}, {7, 8}, {7, 9}};
	const struct token_source source = {
		.seed = 5, .vocab_size = TOKEN_VOCABULARY_LIMIT, .trace_block_size = BLOCK};
	struct conversations *conversations = conversations_open(BLOCK);
	int32_t tokens[3][INPUT];

	for (uint64_t i = 0; i < 3; i++) {
		struct trace_row row = {.index = i,
			.input_length = INPUT,
			.output_length = 3,
			.session = "a",
			.hash_ids = ids[i],
			.hash_id_count = 2};
		conversations_add(conversations, &row);
		tokens_prompt(&source, &row, tokens[i]);
	}
	conversations_close(conversations);
	require_equal(memcmp(tokens[1], tokens[0], sizeof(tokens[0])), 0);
	require_equal(memcmp(tokens[2], tokens[1], BLOCK * sizeof(tokens[0][0])), 0);
	for (uint32_t i = BLOCK; i < INPUT; i++) {
		require(tokens[2][i] != tokens[1][i], "token %u is repeated", i);
	}
}

Test(trace_sessions, chats_branch_at_their_parents)
{
	struct conversations *conversations = conversations_open(16);
	struct trace_row rows[4];

	for (uint64_t i = 0; i < 4; i++) {
		static const char *const turns[] = {"10", "11", "12", "13"};
		static const char *const parents[] = {NULL, "10", "10", "99"};
		rows[i] = (struct trace_row){.index = i,
			.input_length = 5 + 20 * (uint32_t)i,
			.output_length = 2,
			.session = turns[i],
			.turn = turns[i],
			.parent = parents[i]};
		conversations_add(conversations, &rows[i]);
		cr_assert_str_eq(rows[i].session, i == 3 ? "13" : "10");
	}
	require_equal(conversations_session_count(conversations), 2);
	require_equal(conversations_turn_count(conversations), 4);
	for (uint64_t i = 1; i < 3; i++) {
		const struct turn *turn = conversations_turn(conversations, rows[i].turn_index);
		require_equal(turn->parent, 0);
		require_equal(turn->depth, 1);
		require_equal(turn->session, 0);
	}
	require_equal(rows[2].span_count, 1);
	require_equal(rows[2].spans[0].source, 0);
	conversations_close(conversations);
}

Test(trace_sessions, many_names_are_distinguished)
{
	enum { NAMES = 20000 };
	struct conversations *conversations = conversations_open(16);

	for (uint64_t i = 0; i < 2 * NAMES; i++) {
		char name[24];
		snprintf(name, sizeof(name), "s%" PRIu64, i % NAMES);
		struct trace_row row = {
			.index = i, .input_length = 1, .output_length = 1, .session = name};
		conversations_add(conversations, &row);
		const struct turn *turn = conversations_turn(conversations, row.turn_index);
		require_equal(turn->parent, i < NAMES ? NO_TURN : i - NAMES);
		cr_assert_str_eq(row.session, name);
	}
	require_equal(conversations_session_count(conversations), NAMES);
	conversations_close(conversations);
}

/* ---- arrivals against a naive model ----

   The model knows the whole file and looks at every row each time. */

enum { ROWS_MAX = 24 };

struct model_row {
	uint64_t time_ns, delay_ns; /* of the file */
	bool has_delay;
	uint32_t session;   /* 0: none */
	int32_t parent;	    /* row, or -1 */
	uint64_t begins_ns; /* drawn arrival, under a profile */
	bool is_handed, is_finished;
	uint64_t finish_ns, turn_index;
};

struct model {
	struct model_row rows[ROWS_MAX];
	uint32_t row_count;
	struct workload_options options;
	struct arrival_profile profile;
	uint64_t credits[2 * ROWS_MAX];
	uint32_t credit_count, credit_next;
};

static const uint64_t NEVER = UINT64_MAX;

static void draw_file(struct prop *prop, struct model *model, char *text, size_t room)
{
	uint64_t ms = 0;
	size_t used = 0;

	model->row_count = prop_range(prop, 1, ROWS_MAX);
	for (uint32_t i = 0; i < model->row_count; i++) {
		struct model_row *row = &model->rows[i];
		ms += prop_below(prop, 4) * prop_below(prop, 20);
		*row = (struct model_row){.time_ns = ms * 1000000,
			.session = prop_range(prop, 0, 3),
			.has_delay = prop_chance(prop, 1, 2),
			.parent = -1};
		row->delay_ns = row->has_delay ? prop_below(prop, 30) * 1000000 : 0;
		for (uint32_t j = 0; j < i && row->session > 0; j++) {
			row->parent =
				model->rows[j].session == row->session ? (int32_t)j : row->parent;
		}
		used += (size_t)snprintf(text + used, room - used,
			"{\"timestamp\":%" PRIu64 ",\"input_length\":%u,\"output_length\":1", ms,
			i + 1);
		if (row->session > 0) {
			used += (size_t)snprintf(
				text + used, room - used, ",\"session_id\":%u", row->session);
		}
		if (row->has_delay) {
			used += (size_t)snprintf(text + used, room - used, ",\"delay\":%" PRIu64,
				row->delay_ns / 1000000);
		}
		used += (size_t)snprintf(text + used, room - used, "}\n");
		prop_log(prop, "row %u at %" PRIu64 " ms, session %u, delay %" PRIu64 " ms", i, ms,
			row->session, row->delay_ns / 1000000);
	}
}

static void draw_options(struct prop *prop, struct model *model)
{
	struct workload_options *options = &model->options;

	*options = (struct workload_options){.speedup_millionths = 1000000, .seed = 9};
	switch (prop_below(prop, 4)) {
	case 0:
		options->sessions = prop_chance(prop, 1, 2) ? SESSIONS_CLOSED : SESSIONS_OPEN;
		options->speedup_millionths = prop_chance(prop, 1, 2) ? 3000000 : 1000000;
		break;
	case 1:
		options->sessions = SESSIONS_CLOSED;
		break;
	case 2:
		options->concurrency = prop_range(prop, 1, 5);
		break;
	default:
		options->sessions = prop_chance(prop, 1, 2) ? SESSIONS_CLOSED : SESSIONS_OPEN;
		model->profile = (struct arrival_profile){.kind = ARRIVALS_POISSON,
			.rate_from = 100000000,
			.rate_to = 100000000,
			.step_count = 1,
			.resolution_ns = 1};
		options->profile = &model->profile;
	}
	options->max_requests = prop_chance(prop, 1, 4) ? prop_range(prop, 1, ROWS_MAX) : 0;
	/* Half of the ends are at whole milliseconds, where rows are due too. */
	options->duration_ns = prop_chance(prop, 1, 3)
				       ? prop_range(prop, 1, 200) * 1000000 + prop_below(prop, 2)
				       : 0;
	if (options->max_requests > 0 && options->max_requests < model->row_count) {
		model->row_count = (uint32_t)options->max_requests;
	}
	prop_log(prop, "sessions %d, concurrency %" PRIu64 ", profile %d, duration %" PRIu64 " ns",
		options->sessions, options->concurrency, options->profile != NULL,
		options->duration_ns);
}

static bool is_follow_up(const struct model *model, const struct model_row *row)
{
	return model->options.sessions == SESSIONS_CLOSED && row->parent >= 0;
}

static void draw_beginnings(struct model *model)
{
	if (model->options.profile == NULL) {
		return;
	}
	struct arrivals *arrivals = arrivals_open(&model->profile, model->options.seed);
	for (uint32_t i = 0; i < model->row_count; i++) {
		model->rows[i].begins_ns =
			is_follow_up(model, &model->rows[i]) ? 0 : arrivals_next(arrivals);
	}
	arrivals_close(arrivals);
}

/* What a row's arrival is by itself, and a follow-up's at least. */
static uint64_t model_own_time(const struct model *model, uint32_t i)
{
	const struct model_row *row = &model->rows[i];

	return model->options.profile != NULL
		       ? row->begins_ns
		       : row->time_ns * 1000000 / model->options.speedup_millionths;
}

/* When a row arrives; NEVER while that depends on a finish. */
static uint64_t model_arrival(const struct model *model, uint32_t i)
{
	const struct model_row *row = &model->rows[i];
	const struct workload_options *options = &model->options;
	uint64_t at_ns = model_own_time(model, i);

	if (!is_follow_up(model, row)) {
		return at_ns;
	}
	const struct model_row *before = &model->rows[row->parent];
	uint64_t delay_ns = row->delay_ns;
	if (options->profile != NULL && !row->has_delay) {
		delay_ns = row->time_ns - before->time_ns;
	}
	if (!before->is_finished) {
		return NEVER;
	}
	return at_ns > before->finish_ns + delay_ns ? at_ns : before->finish_ns + delay_ns;
}

/* Others wait for rows that come themselves, or for ones that never do. */
static bool waits_for_a_row_that_is_out(const struct model *model, uint32_t i)
{
	const struct model_row *row = &model->rows[i];

	return is_follow_up(model, row) && model->rows[row->parent].is_handed &&
	       !model->rows[row->parent].is_finished;
}

/* The earliest row that was not handed out and whose arrival is known; row_count: none. */
static uint32_t model_next(const struct model *model, uint64_t *at_ns, bool *some_wait)
{
	uint32_t next = model->row_count;
	uint64_t end_ns = model->options.duration_ns > 0 ? model->options.duration_ns : NEVER;

	*some_wait = false;
	*at_ns = NEVER;
	for (uint32_t i = 0; i < model->row_count; i++) {
		uint64_t arrival_ns = model_arrival(model, i);
		if (model->rows[i].is_handed) {
			continue;
		}
		if (model->options.concurrency > 0) {
			*some_wait = model->credit_next == model->credit_count;
			*at_ns = *some_wait ? NEVER : model->credits[model->credit_next];
			*some_wait = *some_wait && end_ns == NEVER;
			return *at_ns >= end_ns ? model->row_count : i;
		}
		*some_wait = *some_wait || (model_own_time(model, i) < end_ns &&
						   waits_for_a_row_that_is_out(model, i));
		if (arrival_ns < *at_ns && arrival_ns < end_ns) {
			*at_ns = arrival_ns;
			next = i;
		}
	}
	return next;
}

static uint32_t count_out(const struct model *model)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < model->row_count; i++) {
		count += model->rows[i].is_handed && !model->rows[i].is_finished;
	}
	return count;
}

/* Asks the workload once and compares; returns whether it is over. */
static bool ask(struct model *model, struct workload *workload, uint64_t *now_ns)
{
	struct trace_row row;
	enum workload_state state;
	struct error error = {0};
	uint64_t next_ns = 0;
	uint64_t at_ns;
	bool some_wait;
	uint32_t expected = model_next(model, &at_ns, &some_wait);

	require_equal(workload_next(workload, *now_ns, &row, &state, &next_ns, &error), STATUS_OK);
	if (expected < model->row_count && at_ns <= *now_ns) {
		require(state == WORKLOAD_ROW, "state %d, expected row %u", (int)state, expected);
		require_equal(row.index, expected);
		require_equal(row.arrival_ns, at_ns);
		model->rows[expected].is_handed = true;
		model->rows[expected].turn_index = row.turn_index;
		model->credit_next++;
		return false;
	}
	require(state != WORKLOAD_ROW, "row %" PRIu64 " at %" PRIu64 " ns came at %" PRIu64,
		row.index, row.arrival_ns, *now_ns);
	if (state == WORKLOAD_LATER) {
		/* A bound, which may lie before the next row's time but not behind it. */
		require(next_ns > *now_ns && next_ns <= at_ns, "next at %" PRIu64, next_ns);
		*now_ns = next_ns;
		return false;
	}
	require(expected == model->row_count, "row %u never comes", expected);
	if (state == WORKLOAD_WAITS) {
		require(count_out(model) > 0, "it waits, and nothing is out that could finish");
	}
	if (state == WORKLOAD_END) {
		require(!some_wait, "the end, and some rows wait");
	}
	return state == WORKLOAD_END;
}

/* Finishes a row that is out, if there is one. */
static bool finish_one(
	struct prop *prop, struct model *model, struct workload *workload, uint64_t now_ns)
{
	uint32_t out[ROWS_MAX];
	uint32_t count = 0;

	for (uint32_t i = 0; i < model->row_count; i++) {
		if (model->rows[i].is_handed && !model->rows[i].is_finished) {
			out[count++] = i;
		}
	}
	if (count == 0) {
		return false;
	}
	struct model_row *row = &model->rows[out[prop_below(prop, count)]];
	row->is_finished = true;
	row->finish_ns = now_ns;
	model->credits[model->credit_count++] = now_ns;
	workload_finish(workload, row->turn_index, now_ns);
	return true;
}

static void arrivals_equal_the_model(struct prop *prop, const void *context)
{
	static struct model model;
	char text[ROWS_MAX * 120];
	char path[TEMPORARY_PATH_BYTES];
	struct workload *workload = NULL;
	struct error error = {0};
	uint64_t now_ns = 0;
	bool is_over = false;

	model = (struct model){0};
	draw_file(prop, &model, text, sizeof(text));
	draw_options(prop, &model);
	draw_beginnings(&model);
	model.credit_count = (uint32_t)model.options.concurrency;
	temporary_write(context, "trace.jsonl", text, path);
	require_equal(workload_open(&workload, path, &model.options, &error), STATUS_OK);
	for (uint32_t asked = 0; !is_over; asked++) {
		require(asked < 2000, "no end");
		is_over = ask(&model, workload, &now_ns);
		uint64_t end_ns = model.options.duration_ns;
		if (now_ns < end_ns && prop_chance(prop, 1, 8)) {
			now_ns =
				end_ns; /* what finishes there is the first that has no successor */
		} else if (prop_chance(prop, 1, 3)) {
			now_ns += prop_below(prop, 30) * 1000000;
		}
		/* A workload that waits for finishes gets them sooner or later. */
		if (prop_chance(prop, 1, 2) || asked > 500) {
			finish_one(prop, &model, workload, now_ns);
		}
	}
	workload_close(workload);
}

/* The end of the clock is the last time at which a turn may arrive; one nanosecond later it is an
   error, however the turn before it finished: in the middle of the run, or before the row was read.
   Where the run ends before, the turn is dropped. */
Test(trace_sessions, a_turn_beyond_the_clock_is_refused)
{
	static const char *const text =
		"{\"timestamp\":0,\"input_length\":1,\"output_length\":1,\"session_id\":1}\n"
		"{\"timestamp\":0,\"input_length\":9,\"output_length\":1,\"session_id\":1,"
		"\"delay\":1.000001}\n";
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	temporary_write(folder, "trace.jsonl", text, path);
	for (uint32_t i = 0; i < 8; i++) {
		bool is_beyond = i % 2 == 1, is_read_before = i / 2 % 2 == 1, has_end = i >= 4;
		const struct workload_options options = {.speedup_millionths = 1000000,
			.sessions = SESSIONS_CLOSED,
			.duration_ns = has_end ? CLOCK_NS_MAX : 0};
		uint64_t finish_ns = CLOCK_NS_MAX - 1000001 + is_beyond, next_ns = 0;
		struct workload *workload = NULL;
		struct trace_row row;
		enum workload_state state;
		struct error error = {0};
		require_equal(workload_open(&workload, path, &options, &error), STATUS_OK);
		require_equal(
			workload_next(workload, 0, &row, &state, &next_ns, &error), STATUS_OK);
		if (is_read_before) {
			workload_next(workload, 0, &row, &state, &next_ns, &error);
			require_equal(state, WORKLOAD_WAITS);
		}
		workload_finish(workload, row.turn_index, finish_ns);
		enum status status =
			workload_next(workload, finish_ns, &row, &state, &next_ns, &error);
		require_equal(status, is_beyond && !has_end ? STATUS_INPUT : STATUS_OK);
		if (has_end) {
			require_equal(state, WORKLOAD_END);
		} else if (is_beyond) {
			require(strstr(error.text, "trace.jsonl:2: found a turn") != NULL,
				"found '%s'", error.text);
		} else {
			require(state == WORKLOAD_LATER && next_ns == CLOCK_NS_MAX,
				"state %d, next %" PRIu64, (int)state, next_ns);
		}
		workload_close(workload);
	}
	temporary_remove(folder);
}

Test(trace_sessions, rows_arrive_as_in_a_naive_model)
{
	char folder[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	const struct prop_options options = {.name = "arrivals",
		.body = arrivals_equal_the_model,
		.context = folder,
		.trials = 2000};
	bool holds = prop_holds(&options);
	temporary_remove(folder);
	cr_assert(holds);
}

/* A turn that would arrive at the end is dropped, and so are the turns behind it: nothing is waited
   for. One nanosecond earlier it arrives. */
Test(trace_sessions, a_turn_due_at_the_end_is_dropped_with_those_behind_it)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];
	const struct workload_options options = {.speedup_millionths = 1000000,
		.sessions = SESSIONS_CLOSED,
		.duration_ns = 100000000};

	temporary_folder(folder);
	temporary_write(folder, "trace.jsonl",
		"{\"timestamp\":0,\"input_length\":1,\"output_length\":1,\"session_id\":1}\n"
		"{\"timestamp\":1,\"input_length\":2,\"output_length\":1,\"session_id\":1,"
		"\"delay\":30}\n"
		"{\"timestamp\":2,\"input_length\":3,\"output_length\":1,\"session_id\":1}\n",
		path);
	for (uint64_t early = 0; early < 2; early++) {
		struct workload *workload = NULL;
		struct trace_row row;
		enum workload_state state;
		struct error error = {0};
		uint64_t next_ns = 0;
		require_equal(workload_open(&workload, path, &options, &error), STATUS_OK);
		workload_next(workload, 0, &row, &state, &next_ns, &error);
		require_equal(state, WORKLOAD_ROW);
		uint64_t turn = row.turn_index;
		workload_next(workload, 50000000, &row, &state, &next_ns, &error);
		require_equal(state, WORKLOAD_WAITS);
		workload_finish(workload, turn, 70000000 - early);
		workload_next(workload, 70000000, &row, &state, &next_ns, &error);
		if (early == 0) {
			require_equal(state, WORKLOAD_END);
		} else {
			require_equal(state, WORKLOAD_LATER);
			require_equal(next_ns, 99999999);
			workload_next(workload, next_ns, &row, &state, &next_ns, &error);
			require_equal(state, WORKLOAD_ROW);
			require_equal(row.arrival_ns, 99999999);
		}
		workload_close(workload);
	}
	temporary_remove(folder);
}
