#include "sim/tape.h"

#include "engine/base/check.h"
#include "engine/base/memory.h"
#include "engine/base/number.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Columns besides the counts, in the order of enum tape_column. */
#define TAPE_COLUMN_LIST(X)                                                                        \
	X(step)                                                                                    \
	X(start_ns)                                                                                \
	X(elapsed_ns)                                                                              \
	X(gpu_ns)                                                                                  \
	X(host_ns)                                                                                 \
	X(mode)

enum tape_column {
#define COLUMN_ENUM(column) COLUMN_##column,
	TAPE_COLUMN_LIST(COLUMN_ENUM) STEP_COUNT_LIST(COLUMN_ENUM)
#undef COLUMN_ENUM
		COLUMN_COUNT
};

static const char *const column_names[COLUMN_COUNT] = {
#define COLUMN_NAME(column) #column,
	TAPE_COLUMN_LIST(COLUMN_NAME) STEP_COUNT_LIST(COLUMN_NAME)
#undef COLUMN_NAME
};

enum { COLUMN_NONE = COLUMN_COUNT, FIELDS_MAX = 256, FOUND_CHARACTERS = 32 };

struct tape {
	FILE *file;
	char *path;
	char *line; /* grown by getline */
	size_t line_capacity;
	uint64_t line_number;
	uint32_t field_count;
	uint32_t column[FIELDS_MAX]; /* (field_count) which of ours a field is, or COLUMN_NONE */
	bool is_found[COLUMN_COUNT]; /* in the header */
	uint64_t step;		     /* steps played */
	bool has_row;		     /* value holds the row of `step` */
	uint64_t value[COLUMN_COUNT];
};

/* Reads a line without its end; *has_line is false at the end of the file. */
static enum status next_line(struct tape *tape, bool *has_line, struct error *error)
{
	errno = 0;
	ssize_t length = getline(&tape->line, &tape->line_capacity, tape->file);
	*has_line = length >= 0;
	if (length < 0) {
		if (ferror(tape->file)) {
			return error_set(error, STATUS_FILE, "cannot read %s: %s", tape->path,
				strerror(errno));
		}
		return STATUS_OK;
	}
	tape->line_number++;
	if (strlen(tape->line) != (size_t)length) {
		return error_set(error, STATUS_INPUT,
			"%s:%llu: found a zero byte, expected a table of text", tape->path,
			(unsigned long long)tape->line_number);
	}
	while (length > 0 && (tape->line[length - 1] == '\n' || tape->line[length - 1] == '\r')) {
		tape->line[--length] = '\0';
	}
	return STATUS_OK;
}

/* Splits the next field off *rest; NULL when there is none. */
static char *next_field(char **rest)
{
	char *field = *rest;
	if (field == NULL) {
		return NULL;
	}
	char *tab = strchr(field, '\t');
	if (tab != NULL) {
		*tab = '\0';
	}
	*rest = tab == NULL ? NULL : tab + 1;
	return field;
}

/* Tapes of older engines lack counts that were thought of later; what is not there is not compared.
 */
static bool may_lack(uint32_t column)
{
	return column == COLUMN_waiting || column == COLUMN_decode_longest_context ||
	       column == COLUMN_shared_tokens || column == COLUMN_pair_tokens;
}

static enum status read_header(struct tape *tape, struct error *error)
{
	bool has_line = false;

	enum status status = next_line(tape, &has_line, error);
	if (status != STATUS_OK) {
		return status;
	}
	if (!has_line) {
		return error_set(error, STATUS_INPUT,
			"%s:1: found an empty file, expected a header of columns", tape->path);
	}
	char *rest = tape->line;
	for (char *field = next_field(&rest); field != NULL; field = next_field(&rest)) {
		if (tape->field_count == FIELDS_MAX) {
			return error_set(error, STATUS_INPUT, "%s:1: found more than %d columns",
				tape->path, FIELDS_MAX);
		}
		uint32_t column = COLUMN_NONE;
		for (uint32_t i = 0; i < COLUMN_COUNT; i++) {
			if (strcmp(field, column_names[i]) == 0) {
				column = i;
			}
		}
		if (column != COLUMN_NONE && tape->is_found[column]) {
			return error_set(error, STATUS_INPUT,
				"%s:1: found column %s twice, expected it once", tape->path, field);
		}
		if (column != COLUMN_NONE) {
			tape->is_found[column] = true;
		}
		tape->column[tape->field_count++] = column;
	}
	for (uint32_t i = 0; i < COLUMN_COUNT; i++) {
		if (!tape->is_found[i] && !may_lack(i)) {
			return error_set(error, STATUS_INPUT,
				"%s:1: column %s is missing from the header", tape->path,
				column_names[i]);
		}
	}
	return STATUS_OK;
}

static bool parse_mode(const char *text, uint64_t *value)
{
	static const struct {
		const char *name;
		enum step_mode mode;
	} modes[] = {
		{"none", STEP_MODE_NONE},
		{"eager", STEP_MODE_EAGER},
		{"graph", STEP_MODE_GRAPH},
	};
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (strcmp(text, modes[i].name) == 0) {
			*value = modes[i].mode;
			return true;
		}
	}
	return false;
}

static enum status parse_field(
	struct tape *tape, uint32_t column, const char *text, struct error *error)
{
	bool is_mode = column == COLUMN_mode;
	bool is_good = is_mode ? parse_mode(text, &tape->value[column])
			       : text_to_u64(text, &tape->value[column]);
	if (!is_good) {
		return error_set(error, STATUS_INPUT,
			"%s:%llu: column %s: found '%.*s', expected %s", tape->path,
			(unsigned long long)tape->line_number, column_names[column],
			FOUND_CHARACTERS, text,
			is_mode ? "none, eager or graph" : "an integer below 2^64");
	}
	if (column == COLUMN_step && tape->value[column] != tape->step) {
		return error_set(error, STATUS_INPUT,
			"%s:%llu: column step: found %s, expected %llu", tape->path,
			(unsigned long long)tape->line_number, text,
			(unsigned long long)tape->step);
	}
	return STATUS_OK;
}

/* Makes value the row of the current step; has_row stays false at the tape's end. */
static enum status load_row(struct tape *tape, struct error *error)
{
	bool has_line = false;
	uint32_t count = 0;

	if (tape->has_row) {
		return STATUS_OK;
	}
	enum status status = next_line(tape, &has_line, error);
	if (status != STATUS_OK || !has_line) {
		return status;
	}
	char *rest = tape->line;
	for (char *field = next_field(&rest); field != NULL; field = next_field(&rest)) {
		if (count < tape->field_count && tape->column[count] != COLUMN_NONE) {
			status = parse_field(tape, tape->column[count], field, error);
			if (status != STATUS_OK) {
				return status;
			}
		}
		count++;
	}
	if (count != tape->field_count) {
		return error_set(error, STATUS_INPUT,
			"%s:%llu: found %u columns, expected the header's %u", tape->path,
			(unsigned long long)tape->line_number, count, tape->field_count);
	}
	tape->has_row = true;
	return STATUS_OK;
}

static enum status load_row_or_diverge(struct tape *tape, struct error *error)
{
	enum status status = load_row(tape, error);
	if (status == STATUS_OK && !tape->has_row) {
		return error_set(error, STATUS_VERDICT,
			"step %llu: the tape has ended, after %llu steps",
			(unsigned long long)tape->step, (unsigned long long)tape->step);
	}
	return status;
}

static enum status diverge(
	const struct tape *tape, uint32_t column, uint64_t here, struct error *error)
{
	return error_set(error, STATUS_VERDICT,
		"step %llu: column %s is %llu here and %llu on the tape",
		(unsigned long long)tape->step, column_names[column], (unsigned long long)here,
		(unsigned long long)tape->value[column]);
}

static enum status tape_start(
	void *state, uint64_t earliest_ns, uint64_t *start_ns, struct error *error)
{
	struct tape *tape = state;
	enum status status = load_row_or_diverge(tape, error);
	if (status != STATUS_OK) {
		return status;
	}
	/* A step cannot start before its predecessor has ended. */
	if (tape->value[COLUMN_start_ns] < earliest_ns) {
		return diverge(tape, COLUMN_start_ns, earliest_ns, error);
	}
	*start_ns = tape->value[COLUMN_start_ns];
	return STATUS_OK;
}

static enum status tape_execute(void *state, const struct batch *batch, int32_t *token_ids,
	struct step_time *time, struct error *error)
{
	struct tape *tape = state;
	const uint64_t here[] = {
#define COUNT_VALUE(column) batch->counts.column,
		STEP_COUNT_LIST(COUNT_VALUE)
#undef COUNT_VALUE
	};
	const uint32_t first = COLUMN_COUNT - sizeof(here) / sizeof(here[0]);

	(void)token_ids;
	enum status status = load_row_or_diverge(tape, error);
	if (status != STATUS_OK) {
		return status;
	}
	if (batch->step != tape->step) {
		return diverge(tape, COLUMN_step, batch->step, error);
	}
	for (uint32_t column = first; column < COLUMN_COUNT; column++) {
		bool is_compared = column != COLUMN_waiting && tape->is_found[column];
		if (is_compared && here[column - first] != tape->value[column]) {
			return diverge(tape, column, here[column - first], error);
		}
	}
	*time = (struct step_time){
		.elapsed_ns = tape->value[COLUMN_elapsed_ns],
		.gpu_ns = tape->value[COLUMN_gpu_ns],
		.host_ns = tape->value[COLUMN_host_ns],
		.mode = (enum step_mode)tape->value[COLUMN_mode],
	};
	tape->has_row = false;
	tape->step++;
	return STATUS_OK;
}

enum status tape_finish(const struct runner *runner, struct error *error)
{
	check(runner->execute == tape_execute);
	struct tape *tape = runner->state;
	enum status status = load_row(tape, error);
	if (status == STATUS_OK && tape->has_row) {
		return error_set(error, STATUS_VERDICT,
			"step %llu: the run has ended and the tape goes on",
			(unsigned long long)tape->step);
	}
	return status;
}

static void tape_close(void *state)
{
	struct tape *tape = state;
	if (tape->file != NULL) {
		fclose(tape->file);
	}
	free(tape->line);
	free(tape->path);
	free(tape);
}

enum status tape_open(struct runner *out, const char *steps_path, struct error *error)
{
	struct tape *tape = memory_take(1, sizeof(*tape));
	size_t length = strlen(steps_path);
	tape->path = memory_take(length + 1, 1);
	memcpy(tape->path, steps_path, length + 1);

	tape->file = fopen(steps_path, "r");
	enum status status = STATUS_OK;
	if (tape->file == NULL) {
		status = error_set(error, STATUS_FILE, "cannot open the tape %s: %s", steps_path,
			strerror(errno));
	} else {
		status = read_header(tape, error);
	}
	if (status != STATUS_OK) {
		tape_close(tape);
		return status;
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
