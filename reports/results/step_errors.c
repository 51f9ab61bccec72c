#include "reports/results/step_errors.h"

#include "engine/base/path.h"
#include "engine/base/table.h"
#include "reports/results/results.h"

#include <math.h>
#include <string.h>

const char *const step_kind_names[STEP_KIND_COUNT] = {"decode", "prompt", "mixed"};
const char *const step_kind_titles[STEP_KIND_COUNT] = {
	"Steps that only decode", "Steps of prompts alone", "Steps of both"};

/* The columns that describe a step's work, equal for steps that do the same; then its time. */
static const enum step_column columns[] = {STEP_COLUMN_decode_rows, STEP_COLUMN_prefill_rows,
	STEP_COLUMN_prefill_tokens, STEP_COLUMN_cached_tokens, STEP_COLUMN_decode_context_tokens,
	STEP_COLUMN_prefill_attention_pairs, STEP_COLUMN_sampled_rows, STEP_COLUMN_elapsed_ns};

enum {
	DECODE_ROWS,
	PREFILL_ROWS,
	ELAPSED = sizeof(columns) / sizeof(columns[0]) - 1,
	COLUMN_COUNT
};

struct side {
	struct table_reader table;
	uint32_t field[COLUMN_COUNT]; /* by column: index of its field in the table */
	uint64_t value[COLUMN_COUNT]; /* of the latest row */
	bool has_row;
};

static enum status find_columns(struct side *side, struct error *error)
{
	for (uint32_t i = 0; i < COLUMN_COUNT; i++) {
		table_reader_column(
			&side->table, step_column_names[columns[i]], &side->field[i], error);
	}
	return error->status;
}

static enum status next_step(struct side *side, struct step_sum *sums, struct error *error)
{
	side->has_row = table_reader_next(&side->table, error);
	if (!side->has_row) {
		return error->status;
	}
	for (uint32_t i = 0; i < COLUMN_COUNT; i++) {
		TRY(table_reader_u64(
			&side->table, side->field[i], UINT64_MAX, &side->value[i], error));
	}
	const struct step_counts counts = {
		.decode_rows = side->value[DECODE_ROWS], .prefill_rows = side->value[PREFILL_ROWS]};
	struct step_sum *sum = &sums[step_kind_of(&counts)];
	sum->count++;
	sum->ns += (double)side->value[ELAPSED];
	return STATUS_OK;
}

static bool is_same_work(const struct side *real, const struct side *sim)
{
	return memcmp(real->value, sim->value, ELAPSED * sizeof(real->value[0])) == 0;
}

static void add_same(struct step_errors *errors, const struct side *real, const struct side *sim)
{
	double real_ns = (double)real->value[ELAPSED], sim_ns = (double)sim->value[ELAPSED];

	errors->same_steps++;
	errors->same_real_ns += real_ns;
	errors->same_sim_ns += sim_ns;
	errors->same_error_by_time_ns += fabs(sim_ns - real_ns);
	if (real_ns > 0) {
		errors->same_timed_steps++;
		errors->same_error_sum += fabs(sim_ns - real_ns) / real_ns;
	}
}

static enum status read_both(
	struct step_errors *errors, struct side *real, struct side *sim, struct error *error)
{
	bool is_same = true;

	TRY(find_columns(real, error));
	TRY(find_columns(sim, error));
	for (;;) {
		TRY(next_step(real, errors->real, error));
		TRY(next_step(sim, errors->sim, error));
		if (!real->has_row && !sim->has_row) {
			break;
		}
		is_same = is_same && real->has_row && sim->has_row && is_same_work(real, sim);
		if (is_same) {
			add_same(errors, real, sim);
		}
	}
	errors->is_same_throughout = is_same;
	return STATUS_OK;
}

enum status step_errors_read(struct step_errors *errors, const char *real, const char *sim,
	bool *has_steps, struct error *error)
{
	char real_path[PATH_BYTES_MAX], sim_path[PATH_BYTES_MAX];
	struct side sides[2] = {{.has_row = false}, {.has_row = false}};

	memset(errors, 0, sizeof(*errors));
	TRY(path_format(real_path, error, "%s/%s", real, RESULT_STEPS));
	TRY(path_format(sim_path, error, "%s/%s", sim, RESULT_STEPS));
	TRY(path_is_there(real_path, has_steps, error));
	if (*has_steps) {
		TRY(path_is_there(sim_path, has_steps, error));
	}
	if (!*has_steps) {
		return STATUS_OK;
	}
	table_reader_open(&sides[0].table, real_path, NULL, error);
	enum status status = table_reader_open(&sides[1].table, sim_path, NULL, error);
	if (status == STATUS_OK) {
		status = read_both(errors, &sides[0], &sides[1], error);
	}
	table_reader_close(&sides[0].table);
	table_reader_close(&sides[1].table);
	return status;
}
