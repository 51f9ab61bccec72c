#include "workloads/trace/format.h"

#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/base/number.h"
#include "workloads/trace/calendar_time.h"
#include "workloads/trace/csv_row.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A log of requests as comma-separated values, whatever its columns are called. Needed are the time
   of arrival, the tokens of the prompt and those of the answer.

   --columns arrival=ts,input=prompt_tokens,output=completion_tokens names the columns, in any
   order. A column that it does not name, or each without it, is the one with a common name of the
   list below, in which upper and lower case, blanks and punctuation do not count.

   Arrival is a calendar time, or a number: seconds, unless unit=ms, us or ns says otherwise or the
   column's name ends in _ms, _us or _ns. A row without tokens of a prompt or an answer, of
   which the log has 0, NULL or nothing, is a request that failed; it is skipped. */

enum { ROLE_ARRIVAL, ROLE_INPUT, ROLE_OUTPUT, ROLE_COUNT };
enum { NAME_BYTES = 48, NAMES_MAX = 14 };

static const struct {
	const char *name;
	const char *common[NAMES_MAX]; /* in lower case, letters and digits only */
} roles[ROLE_COUNT] = {
	{"arrival", {"arrival", "arrivaltime", "arrivedat", "timestamp", "time", "ts", "starttime",
			    "startedat", "requesttime", "created", "createdat"}},
	{"input", {"input", "inputlength", "inputlen", "inputtokens", "prompttokens",
			  "promptlength", "promptlen", "numprompttokens", "numinputtokens",
			  "requesttokens", "contexttokens"}},
	{"output", {"output", "outputlength", "outputlen", "outputtokens", "completiontokens",
			   "completionlength", "generatedtokens", "generationtokens",
			   "responsetokens", "numoutputtokens", "numgenerationtokens"}},
};

static const struct {
	const char *name;
	uint32_t places; /* decimal places of this unit in a nanosecond's */
} units[] = {{"s", 9}, {"ms", 6}, {"us", 3}, {"ns", 0}};

enum { UNIT_COUNT = sizeof(units) / sizeof(units[0]) };

struct csv_log {
	const char *columns; /* of --columns, or NULL */
	struct csv_layout layout;
	struct csv_column names[ROLE_COUNT]; /* what errors call the columns */
	char text[ROLE_COUNT][NAME_BYTES];
	uint32_t unit; /* of arrival, in `units` */
};

/* ---- names ---- */

/* Letters and digits of a name in lower case; "" when it is too long. */
static void plain_name(char *out, const char *name, size_t bytes)
{
	size_t length = 0;

	for (size_t i = 0; i < bytes; i++) {
		char c = name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] + ('a' - 'A')) : name[i];
		bool is_kept = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
		if (is_kept && length + 1 < NAME_BYTES) {
			out[length++] = c;
		} else if (is_kept) {
			length = 0;
			break;
		}
	}
	out[length] = '\0';
}

/* The unit that a column's name ends in, after a character that is no letter; 0, seconds, where it
   ends in none. */
static uint32_t unit_of_name(const char *name, size_t bytes)
{
	for (uint32_t i = 1; i < UNIT_COUNT; i++) {
		size_t unit = strlen(units[i].name);
		if (bytes > unit + 1 && memcmp(name + bytes - unit, units[i].name, unit) == 0 &&
			(name[bytes - unit - 1] == '_' || name[bytes - unit - 1] == ' ' ||
				name[bytes - unit - 1] == '-')) {
			return i;
		}
	}
	return 0;
}

/* Whether a column has a common name of the role; for arrival, one with a unit behind it too. */
static bool is_common(uint32_t role, const struct csv_field *column)
{
	char name[NAME_BYTES];

	plain_name(name, column->text, column->bytes);
	for (uint32_t i = 0; i < NAMES_MAX && roles[role].common[i] != NULL; i++) {
		size_t bytes = strlen(roles[role].common[i]);
		if (strncmp(name, roles[role].common[i], bytes) != 0) {
			continue;
		}
		if (name[bytes] == '\0') {
			return true;
		}
		for (uint32_t j = 0; role == ROLE_ARRIVAL && j < UNIT_COUNT; j++) {
			if (strcmp(name + bytes, units[j].name) == 0) {
				return true;
			}
		}
	}
	return false;
}

/* Bit of each role of which the line has no common name. */
static uint32_t lacking_roles(const char *line, size_t line_bytes)
{
	struct csv_field fields[CSV_FIELDS_MAX];
	uint32_t count = line_bytes > 0 && line[0] != '{' ? csv_split(line, line_bytes, fields) : 0;
	uint32_t lacking = (1U << ROLE_COUNT) - 1;

	for (uint32_t i = 0; i < count; i++) {
		for (uint32_t role = 0; role < ROLE_COUNT; role++) {
			lacking &= is_common(role, &fields[i]) ? ~(1U << role) : UINT32_MAX;
		}
	}
	return lacking;
}

static bool csv_recognises(const char *line, size_t line_bytes)
{
	return lacking_roles(line, line_bytes) == 0;
}

const char *csv_way_out(const char *line, size_t line_bytes)
{
#define NAMED_BY(words, columns)                                                                   \
	"; no column has a common name of " words ": quire trace convert --columns " columns       \
	" reads it"
	static const char other_logs[] = "; quire trace convert --columns "
					 "arrival=NAME,input=NAME,output=NAME reads other CSV logs";
	static const char *const texts[1 << ROLE_COUNT] = {
		"",
		NAMED_BY("the arrival", "arrival=NAME"),
		NAMED_BY("the input tokens", "input=NAME"),
		NAMED_BY("arrival or input tokens", "arrival=NAME,input=NAME"),
		NAMED_BY("the output tokens", "output=NAME"),
		NAMED_BY("arrival or output tokens", "arrival=NAME,output=NAME"),
		NAMED_BY("input or output tokens", "input=NAME,output=NAME"),
		other_logs,
	};
#undef NAMED_BY

	return texts[lacking_roles(line, line_bytes)];
}

/* ---- --columns ---- */

/* Takes one KEY=VALUE of --columns. */
static enum status take_item(struct csv_log *log, const char *item, size_t bytes,
	struct csv_field wanted[ROLE_COUNT], bool *has_unit, struct error *error)
{
	const char *equal = memchr(item, '=', bytes);
	size_t key = equal == NULL ? 0 : (size_t)(equal - item);
	struct csv_field value = {
		equal == NULL ? "" : equal + 1, equal == NULL ? 0 : bytes - key - 1};

	for (uint32_t role = 0; value.bytes > 0 && role < ROLE_COUNT; role++) {
		if (strlen(roles[role].name) == key && memcmp(item, roles[role].name, key) == 0 &&
			wanted[role].bytes == 0) {
			wanted[role] = value;
			return STATUS_OK;
		}
	}
	for (uint32_t i = 0; i < UNIT_COUNT && key == 4 && memcmp(item, "unit", 4) == 0; i++) {
		if (!*has_unit && strlen(units[i].name) == value.bytes &&
			memcmp(value.text, units[i].name, value.bytes) == 0) {
			log->unit = i;
			*has_unit = true;
			return STATUS_OK;
		}
	}
	return error_set(error, STATUS_USAGE,
		"--columns: found '%.*s', expected each of arrival=COLUMN, input=COLUMN, "
		"output=COLUMN and unit=s, ms, us or ns at most once",
		(int)(bytes < 60 ? bytes : 60), item);
}

static enum status read_columns(struct csv_log *log, struct csv_field wanted[ROLE_COUNT],
	bool *has_unit, struct error *error)
{
	const char *item = log->columns;

	while (item != NULL) {
		const char *comma = strchr(item, ',');
		size_t bytes = comma == NULL ? strlen(item) : (size_t)(comma - item);
		TRY(take_item(log, item, bytes, wanted, has_unit, error));
		item = comma == NULL ? NULL : comma + 1;
	}
	return STATUS_OK;
}

/* ---- lines ---- */

/* Finds the column of a role: the one that --columns names, or else the only one with a common
   name. */
static enum status find_column(struct csv_log *log, uint32_t role, const struct csv_field *wanted,
	const struct csv_field *fields, const struct source_line *at, const char *line,
	size_t line_bytes, struct error *error)
{
	uint32_t found = CSV_ABSENT;

	for (uint32_t i = 0; i < log->layout.field_count; i++) {
		bool is_it = wanted->bytes > 0 ? wanted->bytes == fields[i].bytes &&
							 memcmp(wanted->text, fields[i].text,
								 wanted->bytes) == 0
					       : is_common(role, &fields[i]);
		if (is_it && found != CSV_ABSENT) {
			return source_line_error(error, at, roles[role].name, line, line_bytes,
				"one column of it; --columns %s=NAME chooses", roles[role].name);
		}
		found = is_it ? i : found;
	}
	if (found == CSV_ABSENT) {
		return source_line_error(error, at, roles[role].name, line, line_bytes,
			"a header line with %.*s; --columns %s=NAME names the column",
			wanted->bytes > 0 ? (int)(wanted->bytes < 60 ? wanted->bytes : 60) : 19,
			wanted->bytes > 0 ? wanted->text : "a common name of it", roles[role].name);
	}
	log->layout.field_of[role] = found;
	snprintf(log->text[role], NAME_BYTES, "%.*s",
		(int)(fields[found].bytes < NAME_BYTES ? fields[found].bytes : NAME_BYTES - 1),
		fields[found].text);
	log->names[role] = (struct csv_column){log->text[role], true};
	return STATUS_OK;
}

static enum status csv_log_header(void *state, const struct source_line *at, const char *line,
	size_t line_bytes, struct error *error)
{
	struct csv_log *log = state;
	struct csv_field fields[CSV_FIELDS_MAX], wanted[ROLE_COUNT] = {{NULL, 0}};
	bool has_unit = false;

	TRY(read_columns(log, wanted, &has_unit, error));
	log->layout.columns = log->names;
	log->layout.column_count = ROLE_COUNT;
	log->layout.field_count = csv_split(line, line_bytes, fields);
	if (line[0] == '{' || line[0] == '[' || log->layout.field_count == 1) {
		return source_line_error(error, at, NULL, line, line_bytes,
			"a header line of names between commas%s%s",
			log->columns != NULL && line[0] == '{' ? ", for --columns is of CSV" : "",
			trace_format_way_out(line, line_bytes));
	}
	if (log->layout.field_count == 0) {
		return source_line_error(error, at, NULL, line, line_bytes,
			"a header line of at most %d names between commas", CSV_FIELDS_MAX);
	}
	for (uint32_t role = 0; role < ROLE_COUNT; role++) {
		TRY(find_column(log, role, &wanted[role], fields, at, line, line_bytes, error));
	}
	if (!has_unit) {
		const struct csv_field *name = &fields[log->layout.field_of[ROLE_ARRIVAL]];
		log->unit = unit_of_name(name->text, name->bytes);
	}
	return STATUS_OK;
}

static void *csv_log_open(const struct trace_options *options)
{
	struct csv_log *log = memory_take(1, sizeof(*log));

	log->columns = options->columns;
	return log;
}

static void csv_log_close(void *state)
{
	free(state);
}

/* A count of tokens; 0 where the log has none, as of a request that failed. */
static enum status read_tokens(const struct csv_log *log, uint32_t role,
	const struct csv_field *values, const struct source_line *at, uint64_t *tokens,
	struct error *error)
{
	char name[NAME_BYTES];

	plain_name(name, values[role].text, values[role].bytes);
	if (values[role].bytes == 0 || strcmp(name, "null") == 0 || strcmp(name, "none") == 0 ||
		strcmp(name, "nan") == 0) {
		*tokens = 0;
		return STATUS_OK;
	}
	return csv_count(at, log->text[role], &values[role], 0, TRACE_LENGTH_MAX, tokens, error);
}

static enum status csv_log_row(void *state, const struct source_line *at, const char *line,
	size_t line_bytes, struct trace_row *row, bool *is_skipped, struct error *error)
{
	struct csv_log *log = state;
	struct csv_field values[CSV_COLUMNS_MAX];
	const struct csv_field *moment = &values[ROLE_ARRIVAL];
	uint64_t input = 0;
	uint64_t output = 0;

	TRY(csv_line(&log->layout, at, line, line_bytes, values, error));
	if (!calendar_time_ns(moment->text, moment->bytes, &row->arrival_ns) &&
		(!decimal_to_u64(
			 moment->text, moment->bytes, units[log->unit].places, &row->arrival_ns) ||
			row->arrival_ns > CLOCK_NS_MAX)) {
		if (calendar_time_has_form(moment->text, moment->bytes)) {
			return source_line_error(error, at, log->text[ROLE_ARRIVAL], moment->text,
				moment->bytes,
				"a calendar time that there is, of the years 1971 to "
				"2200: " CALENDAR_TIME_FORM);
		}
		return source_line_error(error, at, log->text[ROLE_ARRIVAL], moment->text,
			moment->bytes,
			"%s in [0, 2^63 ns) (quire trace convert --columns unit=ms for another "
			"unit), "
			"or " CALENDAR_TIME_FORM,
			units[log->unit].name);
	}
	TRY(read_tokens(log, ROLE_OUTPUT, values, at, &output, error));
	TRY(read_tokens(log, ROLE_INPUT, values, at, &input, error));
	*is_skipped = input == 0 || output == 0;
	row->input_length = (uint32_t)input;
	row->output_length = (uint32_t)output;
	return STATUS_OK;
}

const struct trace_format format_csv = {
	.name = "csv",
	.starts_at_first_row = true,
	.skipped = {"row without input or output tokens: failures at the source",
		"rows without input or output tokens: failures at the source"},
	.recognises = csv_recognises,
	.open = csv_log_open,
	.close = csv_log_close,
	.header = csv_log_header,
	.row = csv_log_row,
};
