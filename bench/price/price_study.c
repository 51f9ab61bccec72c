#include "bench/price/price_study.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "engine/base/path.h"
#include "engine/step_record.h"
#include "reports/results/results.h"
#include "sim/possible_step.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- sums ---- */

static void add_times(struct price_sum *sum, uint64_t measured_ns, uint64_t predicted_ns)
{
	sum->steps++;
	sum->measured_ns += (double)measured_ns;
	sum->predicted_ns += (double)predicted_ns;
	sum->apart_ns += fabs((double)predicted_ns - (double)measured_ns);
}

static struct price_cell *find_cell(struct price_study *study, const struct priced_step *step)
{
	const struct step_counts *counts = &step->counts;
	uint64_t rows = counts->decode_rows;
	const struct price_cell cell = {.rows = step_octave(rows),
		.tokens = step_octave(counts->prefill_tokens),
		.context = step_octave(rows == 0 ? 0 : counts->decode_context_tokens / rows),
		.shared = step_octave(counts->shared_tokens)};
	uint64_t key =
		(((uint64_t)cell.rows * STEP_GROUPS + cell.tokens) * STEP_GROUPS + cell.context) *
			STEP_GROUPS +
		cell.shared;
	uint64_t index = *map_add(&study->cell_of, key, study->cell_count);

	if (index == study->cell_count) {
		study->cells = memory_grow(study->cells, &study->cell_capacity,
			(size_t)study->cell_count + 1, sizeof(*study->cells));
		study->cells[study->cell_count++] = cell;
	}
	return &study->cells[index];
}

void price_study_add(struct price_study *study, const struct priced_step *step)
{
	add_times(&study->all, step->measured_ns, step->predicted_ns);
	add_times(&study->host, step->measured_host_ns, step->predicted_host_ns);
	for (uint32_t i = 0; i < STEP_VIEWS; i++) {
		uint32_t group = step_views[i].group(step);
		if (group != STEP_NO_GROUP) {
			check(group < STEP_GROUPS);
			add_times(&study->views[i][group], step->measured_ns, step->predicted_ns);
		}
	}
	add_times(&find_cell(study, step)->sum, step->measured_ns, step->predicted_ns);
}

void price_study_close(struct price_study *study)
{
	free(study->cells);
	map_deinit(&study->cell_of);
	memset(study, 0, sizeof(*study));
}

/* ---- recent prompts ---- */

/* The latest steps with prompts of a replica, in order. Where more of them lie within
   STEP_RECENT_NS, the first are forgotten. */
enum { RECENT_STEPS = 1024 };

struct recent {
	uint64_t start_ns[RECENT_STEPS], end_ns[RECENT_STEPS];
	uint64_t count; /* of all */
};

static double recent_share(const struct recent *recent, uint64_t now_ns)
{
	uint64_t from_ns = now_ns > STEP_RECENT_NS ? now_ns - STEP_RECENT_NS : 0, busy_ns = 0;
	uint64_t known = u64_min(recent->count, RECENT_STEPS);

	for (uint64_t i = 1; i <= known; i++) {
		uint32_t at = (recent->count - i) % RECENT_STEPS;
		if (recent->end_ns[at] <= from_ns) {
			break;
		}
		busy_ns += recent->end_ns[at] - u64_max(recent->start_ns[at], from_ns);
	}
	return (double)busy_ns / (double)STEP_RECENT_NS;
}

static void add_recent(struct recent *recent, const struct priced_step *step)
{
	uint32_t at = recent->count % RECENT_STEPS;

	if (step->counts.prefill_rows > 0) {
		recent->start_ns[at] = step->start_ns;
		recent->end_ns[at] = step->start_ns + step->measured_ns;
		recent->count++;
	}
}

/* ---- the steps of a run ---- */

struct reader {
	struct table_reader table;
	uint32_t field[STEP_COLUMN_COUNT]; /* TABLE_NO_COLUMN: the table lacks it */
	uint32_t replica_field;
	const struct price_models *models;
	struct recent *recent; /* (replicas) owned */
};

/* A price needs these; the steps of older engines lack some of the other counts. */
static bool is_required(uint32_t column)
{
	return column == STEP_COLUMN_step || column == STEP_COLUMN_start_ns ||
	       column == STEP_COLUMN_elapsed_ns || column == STEP_COLUMN_host_ns ||
	       column == STEP_COLUMN_decode_rows || column == STEP_COLUMN_prefill_rows ||
	       column == STEP_COLUMN_prefill_tokens ||
	       column == STEP_COLUMN_decode_context_tokens ||
	       column == STEP_COLUMN_prefill_attention_pairs || column == STEP_COLUMN_sampled_rows;
}

static enum status find_columns(struct reader *reader, struct error *error)
{
	for (uint32_t i = 0; i < STEP_COLUMN_COUNT; i++) {
		reader->field[i] = table_reader_find(&reader->table, step_column_names[i]);
		if (is_required(i)) {
			table_reader_column(
				&reader->table, step_column_names[i], &reader->field[i], error);
		}
	}
	reader->replica_field = TABLE_NO_COLUMN;
	if (reader->models->replicas > 1) {
		table_reader_column(
			&reader->table, STEP_REPLICA_COLUMN, &reader->replica_field, error);
	}
	return error->status;
}

/* No run lasts longer, so sums of two times do not overflow. */
static const uint64_t time_max = UINT64_C(1) << 62, count_max = UINT64_C(1) << 53;

static enum status read_cell(
	struct reader *reader, uint32_t column, uint64_t *value, struct error *error)
{
	bool is_count = column >= STEP_COLUMN_FIRST_COUNT;

	*value = 0;
	return reader->field[column] == TABLE_NO_COLUMN
		       ? STATUS_OK
		       : table_reader_u64(&reader->table, reader->field[column],
				 is_count ? count_max : time_max, value, error);
}

static enum status read_step(struct reader *reader, struct priced_step *step, struct error *error)
{
	TRY(read_cell(reader, STEP_COLUMN_start_ns, &step->start_ns, error));
	TRY(read_cell(reader, STEP_COLUMN_elapsed_ns, &step->measured_ns, error));
	TRY(read_cell(reader, STEP_COLUMN_host_ns, &step->measured_host_ns, error));
	if (step->measured_host_ns > step->measured_ns) {
		return table_reader_refuse(&reader->table, reader->field[STEP_COLUMN_host_ns],
			"at most elapsed_ns", error);
	}
#define READ_COUNT(column)                                                                         \
	TRY(read_cell(reader, STEP_COLUMN_##column, &step->counts.column, error));
	STEP_COUNT_LIST(READ_COUNT)
#undef READ_COUNT
	if (reader->field[STEP_COLUMN_prefill_shared_tokens] == TABLE_NO_COLUMN) {
		step_give_shares_to_rows(&step->counts);
	}
	struct step_fault fault;
	return step_is_possible(&step->counts, &fault)
		       ? STATUS_OK
		       : table_reader_refuse(&reader->table,
				 table_reader_find(&reader->table, fault.count), fault.expected,
				 error);
}

/* What tells a step that was launched ahead is the time that the host took: it is one of two prices
   of the profile, and the nearer one is meant. */
static enum status find_launch(
	const struct runner *host, struct priced_step *step, struct error *error)
{
	struct batch batch = {.counts = step->counts};
	struct step_time after, ahead;

	TRY(host->execute(host->state, &batch, NULL, &after, error));
	batch.is_ahead = true;
	TRY(host->execute(host->state, &batch, NULL, &ahead, error));
	step->is_ahead = ahead.host_ns < after.host_ns &&
			 2 * step->measured_host_ns < ahead.host_ns + after.host_ns;
	return STATUS_OK;
}

static enum status price(const struct price_models *models, uint64_t replica,
	struct priced_step *step, struct error *error)
{
	const struct runner *model = &models->of_replica[replica];
	struct step_time time;

	step->has_hull = models->has_hull;
	/* An engine gives its runner no step without rows; it takes no time. */
	if (step->counts.decode_rows + step->counts.prefill_rows == 0) {
		return STATUS_OK;
	}
	TRY(find_launch(&models->host, step, error));
	const struct batch batch = {.counts = step->counts, .is_ahead = step->is_ahead};
	TRY(model->execute(model->state, &batch, NULL, &time, error));
	step->predicted_ns = time.elapsed_ns;
	step->predicted_host_ns = time.host_ns;
	step->is_outside = time.is_outside;
	return STATUS_OK;
}

static void write_step(struct table_writer *each, uint64_t index, const struct priced_step *step)
{
	if (each == NULL) {
		return;
	}
	table_u64(each, index);
	table_u64(each, step->start_ns);
	table_u64(each, step->measured_ns);
	table_u64(each, step->predicted_ns);
	table_u64(each, step->measured_host_ns);
	table_u64(each, step->predicted_host_ns);
	table_u64(each, step->is_ahead);
	if (step->has_hull) {
		table_u64(each, step->is_outside);
	} else {
		table_none(each);
	}
	table_end_row(each);
}

static enum status read_all(struct price_study *study, struct reader *reader,
	struct table_writer *each, struct error *error)
{
	TRY(find_columns(reader, error));
	for (uint64_t i = 0; table_reader_next(&reader->table, error); i++) {
		struct priced_step step = {.start_ns = 0};
		uint64_t replica = 0;
		TRY(read_step(reader, &step, error));
		if (reader->replica_field != TABLE_NO_COLUMN) {
			TRY(table_reader_u64(&reader->table, reader->replica_field,
				reader->models->replicas - 1, &replica, error));
		}
		TRY(price(reader->models, replica, &step, error));
		step.recent = recent_share(&reader->recent[replica], step.start_ns);
		add_recent(&reader->recent[replica], &step);
		price_study_add(study, &step);
		write_step(each, i, &step);
	}
	return error->status;
}

enum status price_study_read(struct price_study *study, const char *directory,
	const struct price_models *models, struct table_writer *each, struct error *error)
{
	struct reader reader = {.models = models};
	char path[PATH_BYTES_MAX];
	bool is_there;

	check(models->replicas > 0);
	TRY(path_format(path, error, "%s/%s", directory, RESULT_STEPS));
	TRY(path_is_there(path, &is_there, error));
	if (!is_there) {
		return error_set(error, STATUS_FILE,
			"%.200s: the run recorded no steps; repeat it with quire replay --steps",
			directory);
	}
	enum status status = table_reader_open(&reader.table, path, NULL, error);
	if (status == STATUS_OK) {
		reader.recent = memory_take(models->replicas, sizeof(*reader.recent));
		status = read_all(study, &reader, each, error);
	}
	free(reader.recent);
	table_reader_close(&reader.table);
	return status;
}
