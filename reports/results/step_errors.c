#include "reports/results/step_errors.h"

#include "reports/results/table.h"
#include "engine/base/text.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

const char *const step_kind_names[STEP_KINDS] = {"decode", "prompt", "mixed"};
const char *const step_kind_titles[STEP_KINDS] = {
	"Steps that only decode", "Steps of prompts alone", "Steps of both"};

/* What a step computed, by which steps of two runs are told to be the same; then its time. */
static const struct table_format format = {"steps.tsv", "mode",
	{"decode_rows", "prefill_rows", "prefill_tokens", "cached_tokens", "decode_context_tokens",
		"prefill_attention_pairs", "sampled_rows", "elapsed_ns"}};

enum { DECODE_ROWS, PREFILL_ROWS, WORK_COLUMNS = 7, ELAPSED = WORK_COLUMNS };

static bool has_file(const char *directory)
{
	struct text path = {0};

	text_add(&path, directory);
	text_add(&path, "/");
	text_add(&path, format.name);
	bool is_there = access(path.bytes, F_OK) == 0;
	text_deinit(&path);
	return is_there;
}

static void add_step(struct step_sum sums[STEP_KINDS], const struct table_reader *table)
{
	bool has_decodes = strcmp(table_reader_cell(table, DECODE_ROWS), "0") != 0;
	bool has_prompts = strcmp(table_reader_cell(table, PREFILL_ROWS), "0") != 0;
	struct step_sum *sum = &sums[has_decodes && has_prompts ? STEP_MIXED
				     : has_prompts		? STEP_PROMPT
								: STEP_DECODE];

	sum->count++;
	sum->ns += table_reader_number(table, ELAPSED);
}

static bool is_same_work(const struct table_reader *real, const struct table_reader *sim)
{
	for (uint32_t i = 0; i < WORK_COLUMNS; i++) {
		if (strcmp(table_reader_cell(real, i), table_reader_cell(sim, i)) != 0) {
			return false;
		}
	}
	return true;
}

static void add_same(
	struct step_errors *errors, const struct table_reader *real, const struct table_reader *sim)
{
	double real_ns = table_reader_number(real, ELAPSED),
	       sim_ns = table_reader_number(sim, ELAPSED);

	errors->same_steps++;
	errors->same_real_ns += real_ns;
	errors->same_sim_ns += sim_ns;
	errors->same_error_by_time_ns += fabs(sim_ns - real_ns);
	if (real_ns > 0) {
		errors->same_timed_steps++;
		errors->same_error_sum += fabs(sim_ns - real_ns) / real_ns;
	}
}

static enum status read_both(struct step_errors *errors, struct table_reader *real,
	struct table_reader *sim, struct error *error)
{
	bool is_same = true, real_ends = false, sim_ends = false;

	while (!real_ends || !sim_ends) {
		enum status status =
			real_ends ? STATUS_OK : table_reader_next(real, &format, &real_ends, error);
		if (status == STATUS_OK && !sim_ends) {
			status = table_reader_next(sim, &format, &sim_ends, error);
		}
		if (status != STATUS_OK) {
			return status;
		}
		if (!real_ends) {
			add_step(errors->real, real);
		}
		if (!sim_ends) {
			add_step(errors->sim, sim);
		}
		if (real_ends && sim_ends) {
			break;
		}
		is_same = is_same && !real_ends && !sim_ends && is_same_work(real, sim);
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
	struct table_reader tables[2] = {{.file = NULL}, {.file = NULL}};

	memset(errors, 0, sizeof(*errors));
	*has_steps = has_file(real) && has_file(sim);
	if (!*has_steps) {
		return STATUS_OK;
	}
	enum status status = table_reader_open(&tables[0], real, &format, error);
	if (status == STATUS_OK) {
		status = table_reader_open(&tables[1], sim, &format, error);
	}
	if (status == STATUS_OK) {
		status = read_both(errors, &tables[0], &tables[1], error);
	}
	table_reader_close(&tables[0]);
	table_reader_close(&tables[1]);
	return status;
}
