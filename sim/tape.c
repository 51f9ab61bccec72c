#include "sim/tape.h"

#include "engine/base/check.h"
#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/base/table.h"
#include "engine/step_record.h"

#include <stdio.h>
#include <stdlib.h>

struct tape {
	struct table_reader table;
	uint32_t field[STEP_COLUMN_COUNT]; /* by column: index of its field in the table */
	uint64_t step;			   /* steps played */
	uint64_t end_ns;		   /* of the latest row */
	bool has_row;			   /* `value` is the row of `step` */
	uint64_t value[STEP_COLUMN_COUNT];
};

/* Tapes of older engines lack some counts; a missing count is not compared. */
static bool may_lack(uint32_t column)
{
	return column == STEP_COLUMN_waiting || column == STEP_COLUMN_decode_longest_context ||
	       column == STEP_COLUMN_shared_tokens || column == STEP_COLUMN_pair_tokens;
}

static enum status find_columns(struct tape *tape, struct error *error)
{
	for (uint32_t i = 0; i < STEP_COLUMN_COUNT; i++) {
		tape->field[i] = table_reader_find(&tape->table, step_column_names[i]);
		if (!may_lack(i)) {
			table_reader_column(
				&tape->table, step_column_names[i], &tape->field[i], error);
		}
	}
	return error->status;
}

static enum status parse_mode(struct tape *tape, struct error *error)
{
	enum step_mode mode;
	uint32_t field = tape->field[STEP_COLUMN_mode];

	if (!step_mode_find(tape->table.cells[field], &mode)) {
		return table_reader_refuse(&tape->table, field, "none, eager or graph", error);
	}
	tape->value[STEP_COLUMN_mode] = mode;
	return STATUS_OK;
}

/* Refuses times that no run can have recorded. */
static enum status check_times(const struct tape *tape, struct error *error)
{
	const struct table_reader *table = &tape->table;
	const uint64_t *value = tape->value;
	uint64_t start_ns = value[STEP_COLUMN_start_ns];
	uint64_t elapsed_ns = value[STEP_COLUMN_elapsed_ns];
	uint64_t gpu_ns = value[STEP_COLUMN_gpu_ns];
	char expected[96];

	if (start_ns < tape->end_ns || start_ns > CLOCK_NS_MAX) {
		snprintf(expected, sizeof(expected),
			"a time from the end of the preceding step, %llu, to 2^63 - 1",
			(unsigned long long)tape->end_ns);
		return table_reader_refuse(
			table, tape->field[STEP_COLUMN_start_ns], expected, error);
	}
	if (elapsed_ns > CLOCK_NS_MAX - start_ns) {
		return table_reader_refuse(table, tape->field[STEP_COLUMN_elapsed_ns],
			"an end of the step below 2^63 ns", error);
	}
	if (gpu_ns > elapsed_ns || elapsed_ns - gpu_ns != value[STEP_COLUMN_host_ns]) {
		return table_reader_refuse(
			table, tape->field[STEP_COLUMN_gpu_ns], "elapsed_ns less host_ns", error);
	}
	return STATUS_OK;
}

/* Reads the row of the current step into `value`; has_row stays false at the tape's end. */
static enum status load_row(struct tape *tape, struct error *error)
{
	if (tape->has_row || !table_reader_next(&tape->table, error)) {
		return error->status;
	}
	for (uint32_t i = 0; i < STEP_COLUMN_COUNT; i++) {
		if (i == STEP_COLUMN_mode) {
			TRY(parse_mode(tape, error));
		} else if (tape->field[i] != TABLE_NO_COLUMN) {
			TRY(table_reader_u64(
				&tape->table, tape->field[i], UINT64_MAX, &tape->value[i], error));
		}
	}
	if (tape->value[STEP_COLUMN_step] != tape->step) {
		return error_set(error, STATUS_INPUT,
			"%s:%llu: column step: found %llu, expected %llu", tape->table.path,
			(unsigned long long)tape->table.line_number,
			(unsigned long long)tape->value[STEP_COLUMN_step],
			(unsigned long long)tape->step);
	}
	TRY(check_times(tape, error));
	tape->end_ns = tape->value[STEP_COLUMN_start_ns] + tape->value[STEP_COLUMN_elapsed_ns];
	tape->has_row = true;
	return STATUS_OK;
}

static enum status load_row_or_diverge(struct tape *tape, struct error *error)
{
	TRY(load_row(tape, error));
	if (!tape->has_row) {
		return error_set(error, STATUS_VERDICT,
			"step %llu: the tape has ended, after %llu steps",
			(unsigned long long)tape->step, (unsigned long long)tape->step);
	}
	return STATUS_OK;
}

static enum status diverge(
	const struct tape *tape, uint32_t column, uint64_t here, struct error *error)
{
	return error_set(error, STATUS_VERDICT,
		"step %llu: column %s is %llu here and %llu on the tape",
		(unsigned long long)tape->step, step_column_names[column], (unsigned long long)here,
		(unsigned long long)tape->value[column]);
}

static enum status tape_start(
	void *state, uint64_t earliest_ns, uint64_t *start_ns, struct error *error)
{
	struct tape *tape = state;

	TRY(load_row_or_diverge(tape, error));
	/* A step cannot start before its predecessor has ended. */
	if (tape->value[STEP_COLUMN_start_ns] < earliest_ns) {
		return diverge(tape, STEP_COLUMN_start_ns, earliest_ns, error);
	}
	*start_ns = tape->value[STEP_COLUMN_start_ns];
	return STATUS_OK;
}

static enum status tape_execute(void *state, const struct batch *batch, int32_t *token_ids,
	struct step_time *time, struct error *error)
{
	struct tape *tape = state;
	uint64_t here[STEP_COLUMN_COUNT];

	(void)token_ids;
	TRY(load_row_or_diverge(tape, error));
	if (batch->step != tape->step) {
		return diverge(tape, STEP_COLUMN_step, batch->step, error);
	}
	step_count_values(&batch->counts, here + STEP_COLUMN_FIRST_COUNT);
	for (uint32_t column = STEP_COLUMN_FIRST_COUNT; column < STEP_COLUMN_COUNT; column++) {
		bool is_compared =
			column != STEP_COLUMN_waiting && tape->field[column] != TABLE_NO_COLUMN;
		if (is_compared && here[column] != tape->value[column]) {
			return diverge(tape, column, here[column], error);
		}
	}
	*time = (struct step_time){
		.elapsed_ns = tape->value[STEP_COLUMN_elapsed_ns],
		.gpu_ns = tape->value[STEP_COLUMN_gpu_ns],
		.host_ns = tape->value[STEP_COLUMN_host_ns],
		.mode = (enum step_mode)tape->value[STEP_COLUMN_mode],
	};
	tape->has_row = false;
	tape->step++;
	return STATUS_OK;
}

enum status tape_finish(const struct runner *runner, struct error *error)
{
	check(runner->execute == tape_execute);
	struct tape *tape = runner->state;

	TRY(load_row(tape, error));
	if (tape->has_row) {
		return error_set(error, STATUS_VERDICT,
			"step %llu: the run has ended and the tape goes on",
			(unsigned long long)tape->step);
	}
	return STATUS_OK;
}

static void tape_close(void *state)
{
	struct tape *tape = state;

	table_reader_close(&tape->table);
	free(tape);
}

enum status tape_open(struct runner *out, const char *steps_path, struct error *error)
{
	struct tape *tape = memory_take(1, sizeof(*tape));

	table_reader_open(&tape->table, steps_path, NULL, error);
	if (find_columns(tape, error) != STATUS_OK) {
		tape_close(tape);
		return error->status;
	}
	*out = (struct runner){
		.name = "tape",
		.state = tape,
		.is_computing = false,
		.execute = tape_execute,
		.start = tape_start,
		.close = tape_close,
	};
	return STATUS_OK;
}
