#include "sim/tape.h"

#include "engine/base/check.h"
#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/base/number.h"
#include "engine/base/table.h"
#include "engine/step_record.h"

#include <stdio.h>
#include <stdlib.h>

/* A row that was read and not played yet. */
struct tape_row {
	struct tape_row *next;
	uint64_t value[STEP_COLUMN_COUNT];
};

/* The steps of one replica. */
struct tape {
	struct tape_deck *deck;
	uint32_t replica;
	bool knows_readers; /* how many rows one reading of a shared block serves */
	uint64_t *failures; /* (failure_count) times at which it failed, in order */
	size_t failure_count, failure_capacity, failures_passed;
	uint64_t lost_ns;    /* what a step takes that a failure cuts short; 0: it is on the tape */
	uint64_t step;	     /* steps played */
	uint64_t read_count; /* rows read */
	uint64_t end_ns;     /* of the latest row read */
	struct tape_row *head, *tail; /* rows read and not played */
};

/* The file, which all replicas of a run share: rows of the others are kept until they ask for them.
 */
struct tape_deck {
	struct table_reader table;
	uint32_t field[STEP_COLUMN_COUNT]; /* by column: index of its field in the table */
	uint32_t replica_field;		   /* TABLE_NO_COLUMN: a run of one replica */
	struct tape **tapes;		   /* (tape_count) by replica; NULL once closed */
	uint32_t tape_count, open_count;
	struct tape_row *unused;
};

/* Tapes of older engines lack some counts; a missing count is not compared. */
static bool may_lack(uint32_t column)
{
	return column == STEP_COLUMN_waiting || column == STEP_COLUMN_decode_longest_context ||
	       column == STEP_COLUMN_prefill_longest_context ||
	       column == STEP_COLUMN_prefill_tiles || column == STEP_COLUMN_prefill_tile_keys ||
	       column == STEP_COLUMN_prefill_chain_keys ||
	       column == STEP_COLUMN_prefill_half_chain_keys ||
	       column == STEP_COLUMN_prefill_context_tokens ||
	       column == STEP_COLUMN_prefill_shared_tokens || column == STEP_COLUMN_shared_tokens ||
	       column == STEP_COLUMN_reread_tokens || column == STEP_COLUMN_repeat_tokens;
}

static enum status find_columns(struct tape_deck *deck, struct error *error)
{
	for (uint32_t i = 0; i < STEP_COLUMN_COUNT; i++) {
		deck->field[i] = table_reader_find(&deck->table, step_column_names[i]);
		if (!may_lack(i)) {
			table_reader_column(
				&deck->table, step_column_names[i], &deck->field[i], error);
		}
	}
	deck->replica_field = TABLE_NO_COLUMN;
	if (deck->tape_count > 1) {
		table_reader_column(&deck->table, STEP_REPLICA_COLUMN, &deck->replica_field, error);
	}
	return error->status;
}

static enum status parse_mode(
	const struct tape_deck *deck, struct tape_row *row, struct error *error)
{
	enum step_mode mode;
	uint32_t field = deck->field[STEP_COLUMN_mode];

	if (!step_mode_find(deck->table.cells[field], &mode)) {
		return table_reader_refuse(&deck->table, field, "none, eager or graph", error);
	}
	row->value[STEP_COLUMN_mode] = mode;
	return STATUS_OK;
}

/* Refuses times that no run can have recorded. */
static enum status check_times(
	const struct tape *tape, const struct tape_row *row, struct error *error)
{
	const struct tape_deck *deck = tape->deck;
	const uint64_t *value = row->value;
	uint64_t start_ns = value[STEP_COLUMN_start_ns];
	uint64_t elapsed_ns = value[STEP_COLUMN_elapsed_ns];
	uint64_t gpu_ns = value[STEP_COLUMN_gpu_ns];
	char expected[96];

	if (start_ns < tape->end_ns || start_ns > CLOCK_NS_MAX) {
		snprintf(expected, sizeof(expected),
			"a time from the end of the preceding step, %llu, to 2^63 - 1",
			(unsigned long long)tape->end_ns);
		return table_reader_refuse(
			&deck->table, deck->field[STEP_COLUMN_start_ns], expected, error);
	}
	if (elapsed_ns > CLOCK_NS_MAX - start_ns) {
		return table_reader_refuse(&deck->table, deck->field[STEP_COLUMN_elapsed_ns],
			"an end of the step below 2^63 ns", error);
	}
	if (gpu_ns > elapsed_ns || elapsed_ns - gpu_ns != value[STEP_COLUMN_host_ns]) {
		return table_reader_refuse(&deck->table, deck->field[STEP_COLUMN_gpu_ns],
			"elapsed_ns less host_ns", error);
	}
	return STATUS_OK;
}

/* Parses the table's current row. *tape: whose it is. */
static enum status parse_row(
	struct tape_deck *deck, struct tape_row *row, struct tape **out, struct error *error)
{
	uint64_t replica = 0;

	if (deck->replica_field != TABLE_NO_COLUMN) {
		TRY(table_reader_u64(
			&deck->table, deck->replica_field, deck->tape_count - 1, &replica, error));
	}
	struct tape *tape = deck->tapes[replica];
	for (uint32_t i = 0; i < STEP_COLUMN_COUNT; i++) {
		if (i == STEP_COLUMN_mode) {
			TRY(parse_mode(deck, row, error));
		} else if (deck->field[i] != TABLE_NO_COLUMN) {
			TRY(table_reader_u64(
				&deck->table, deck->field[i], UINT64_MAX, &row->value[i], error));
		}
	}
	if (row->value[STEP_COLUMN_step] != tape->read_count) {
		return error_set(error, STATUS_INPUT,
			"%s:%llu: column step: found %llu, expected %llu", deck->table.path,
			(unsigned long long)deck->table.line_number,
			(unsigned long long)row->value[STEP_COLUMN_step],
			(unsigned long long)tape->read_count);
	}
	TRY(check_times(tape, row, error));
	*out = tape;
	return STATUS_OK;
}

/* Reads the file's next row into the list of its replica. *has_row is false at the file's end. */
static enum status read_row(struct tape_deck *deck, bool *has_row, struct error *error)
{
	struct tape *tape = NULL;

	*has_row = table_reader_next(&deck->table, error);
	if (!*has_row) {
		return error->status;
	}
	if (deck->unused == NULL) {
		deck->unused = memory_take(1, sizeof(*deck->unused));
	}
	struct tape_row *row = deck->unused;
	TRY(parse_row(deck, row, &tape, error));
	deck->unused = row->next;
	row->next = NULL;
	*(tape->head == NULL ? &tape->head : &tape->tail->next) = row;
	tape->tail = row;
	tape->read_count++;
	tape->end_ns = row->value[STEP_COLUMN_start_ns] + row->value[STEP_COLUMN_elapsed_ns];
	return STATUS_OK;
}

/* Reads on until the row of the current step is there; none is at the tape's end. */
static enum status load_row(struct tape *tape, struct error *error)
{
	bool has_row = true;

	while (tape->head == NULL && has_row) {
		TRY(read_row(tape->deck, &has_row, error));
	}
	return STATUS_OK;
}

static enum status load_row_or_diverge(struct tape *tape, struct error *error)
{
	TRY(load_row(tape, error));
	if (tape->head == NULL) {
		return error_set(error, STATUS_VERDICT,
			"step %llu: the tape has ended, after %llu %s",
			(unsigned long long)tape->step, (unsigned long long)tape->step,
			word_of_count(tape->step, "step", "steps"));
	}
	return STATUS_OK;
}

static enum status diverge(
	const struct tape *tape, uint32_t column, uint64_t here, struct error *error)
{
	return error_set(error, STATUS_VERDICT,
		"step %llu: column %s is %llu here and %llu on the tape",
		(unsigned long long)tape->step, step_column_names[column], (unsigned long long)here,
		(unsigned long long)tape->head->value[column]);
}

/* Whether a step that starts at start_ns was lost in the failure that comes next: then the tape has
   none that starts before it. */
static enum status find_loss(struct tape *tape, uint64_t start_ns, struct error *error)
{
	while (tape->failures_passed < tape->failure_count &&
		tape->failures[tape->failures_passed] <= start_ns) {
		tape->failures_passed++;
	}
	tape->lost_ns = 0;
	if (tape->failures_passed == tape->failure_count) {
		return STATUS_OK;
	}
	uint64_t failure_ns = tape->failures[tape->failures_passed];
	TRY(load_row(tape, error));
	if (tape->head == NULL || tape->head->value[STEP_COLUMN_start_ns] >= failure_ns) {
		tape->lost_ns = failure_ns - start_ns + 1; /* it has not ended by then */
	}
	return STATUS_OK;
}

static enum status tape_start(
	void *state, uint64_t earliest_ns, uint64_t *start_ns, struct error *error)
{
	struct tape *tape = state;

	TRY(find_loss(tape, earliest_ns, error));
	if (tape->lost_ns > 0) {
		*start_ns = earliest_ns;
		return STATUS_OK;
	}
	TRY(load_row_or_diverge(tape, error));
	/* A step cannot start before its predecessor has ended. */
	if (tape->head->value[STEP_COLUMN_start_ns] < earliest_ns) {
		return diverge(tape, STEP_COLUMN_start_ns, earliest_ns, error);
	}
	*start_ns = tape->head->value[STEP_COLUMN_start_ns];
	return STATUS_OK;
}

/* Whether the replay counts what was recorded. Engines without prefill_shared_tokens counted what
   all running sequences shared, whether they had a row or not. */
static bool is_known(const struct tape *tape, const uint64_t *here, uint32_t column)
{
	bool has_rows = tape->deck->field[STEP_COLUMN_prefill_shared_tokens] != TABLE_NO_COLUMN;

	switch (column) {
	case STEP_COLUMN_shared_tokens:
	case STEP_COLUMN_reread_tokens:
		return has_rows;
	case STEP_COLUMN_waiting:
		return false;
	case STEP_COLUMN_prefill_chain_keys:
	case STEP_COLUMN_prefill_half_chain_keys:
		return here[column] > 0 || here[STEP_COLUMN_prefill_tiles] == 0;
	case STEP_COLUMN_repeat_tokens:
		return has_rows && (here[column] > 0 || tape->knows_readers);
	default:
		return true;
	}
}

static enum status tape_execute(void *state, const struct batch *batch, int32_t *token_ids,
	struct step_time *time, struct error *error)
{
	struct tape *tape = state;
	uint64_t here[STEP_COLUMN_COUNT];

	(void)token_ids;
	if (tape->lost_ns > 0) {
		*time = (struct step_time){.elapsed_ns = tape->lost_ns, .host_ns = tape->lost_ns};
		return STATUS_OK;
	}
	TRY(load_row_or_diverge(tape, error));
	if (batch->step != tape->step) {
		return diverge(tape, STEP_COLUMN_step, batch->step, error);
	}
	const struct tape_deck *deck = tape->deck;
	struct tape_row *row = tape->head;
	step_count_values(&batch->counts, here + STEP_COLUMN_FIRST_COUNT);
	for (uint32_t column = STEP_COLUMN_FIRST_COUNT; column < STEP_COLUMN_COUNT; column++) {
		bool is_compared =
			is_known(tape, here, column) && deck->field[column] != TABLE_NO_COLUMN;
		if (is_compared && here[column] != row->value[column]) {
			return diverge(tape, column, here[column], error);
		}
	}
	*time = (struct step_time){
		.elapsed_ns = row->value[STEP_COLUMN_elapsed_ns],
		.gpu_ns = row->value[STEP_COLUMN_gpu_ns],
		.host_ns = row->value[STEP_COLUMN_host_ns],
		.mode = (enum step_mode)row->value[STEP_COLUMN_mode],
	};
	tape->head = row->next;
	row->next = tape->deck->unused;
	tape->deck->unused = row;
	tape->step++;
	return STATUS_OK;
}

enum status tape_finish(const struct runner *runner, struct error *error)
{
	check(runner->execute == tape_execute);
	const struct tape *first = runner->state;
	struct tape_deck *deck = first->deck;
	bool has_row = true;

	TRY(read_row(deck, &has_row, error));
	for (uint32_t i = 0; i < deck->tape_count; i++) {
		const struct tape *tape = deck->tapes[i];
		if (tape->head != NULL) {
			return error_set(error, STATUS_VERDICT,
				"step %llu: the run has ended and the tape goes on",
				(unsigned long long)tape->step);
		}
	}
	return STATUS_OK;
}

static void free_rows(struct tape_row *row)
{
	while (row != NULL) {
		struct tape_row *next = row->next;
		free(row);
		row = next;
	}
}

static void deck_close(struct tape_deck *deck)
{
	for (uint32_t i = 0; i < deck->tape_count; i++) {
		free_rows(deck->tapes[i]->head);
		free(deck->tapes[i]->failures);
		free(deck->tapes[i]);
	}
	free_rows(deck->unused);
	free(deck->tapes);
	table_reader_close(&deck->table);
	free(deck);
}

/* The last one that closes frees them all. */
static void tape_close(void *state)
{
	struct tape_deck *deck = ((struct tape *)state)->deck;

	if (--deck->open_count == 0) {
		deck_close(deck);
	}
}

static struct runner runner_of(struct tape *tape)
{
	tape->deck->open_count++;
	return (struct runner){
		.name = "tape",
		.state = tape,
		.is_computing = false,
		.takes_empty_steps = true,
		.execute = tape_execute,
		.start = tape_start,
		.close = tape_close,
	};
}

enum status tape_open(
	struct runner *out, const char *steps_path, uint32_t replica_count, struct error *error)
{
	struct tape_deck *deck = memory_take(1, sizeof(*deck));

	deck->tape_count = replica_count;
	deck->tapes = memory_take(replica_count, sizeof(*deck->tapes));
	for (uint32_t i = 0; i < replica_count; i++) {
		deck->tapes[i] = memory_take(1, sizeof(*deck->tapes[i]));
		*deck->tapes[i] = (struct tape){.deck = deck, .replica = i};
	}
	table_reader_open(&deck->table, steps_path, NULL, error);
	if (find_columns(deck, error) != STATUS_OK) {
		deck_close(deck);
		return error->status;
	}
	*out = runner_of(deck->tapes[0]);
	return STATUS_OK;
}

void tape_open_beside(struct runner *out, const struct runner *first, uint32_t replica)
{
	check(first->execute == tape_execute);
	struct tape_deck *deck = ((const struct tape *)first->state)->deck;

	check(replica < deck->tape_count);
	*out = runner_of(deck->tapes[replica]);
}

void tape_set_gpu(struct runner *tape, struct prefill_spread spread, uint32_t readers)
{
	struct tape *state = tape->state;

	tape->spread = spread;
	tape->readers = readers;
	state->knows_readers = readers > 0;
}

void tape_note_failure(const struct runner *first, uint32_t replica, uint64_t time_ns)
{
	check(first->execute == tape_execute);
	struct tape_deck *deck = ((const struct tape *)first->state)->deck;

	check(replica < deck->tape_count);
	struct tape *tape = deck->tapes[replica];
	tape->failures = memory_grow(tape->failures, &tape->failure_capacity,
		tape->failure_count + 1, sizeof(*tape->failures));
	tape->failures[tape->failure_count++] = time_ns;
}
