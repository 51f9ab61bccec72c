#include "bench/calibrate/points.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "engine/base/output_file.h"
#include "engine/base/number.h"
#include "engine/base/table.h"
#include "engine/shape/weight_shape.h"
#include "engine/base/text.h"
#include "sim/possible_step.h"
#include "sim/step_price.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Decode rows and samples of which the mean is taken, and how far those may lie from the median. */
enum { FEW_ROWS = 2, MEAN_SAMPLES = 4, CALIBRATIONS_MOST = 1000000 };
static const double difference_most = 0.15;

/* Columns in the order in which points.tsv has them. */
#define COLUMN_LIST(X)                                                                             \
	X(samples)                                                                                 \
	X(start_ns)                                                                                \
	X(elapsed_ns)                                                                              \
	X(gpu_ns)                                                                                  \
	X(host_ns)                                                                                 \
	X(ahead)                                                                                   \
	CALIBRATE_POINT_LIST(X)

enum column {
#define COLUMN_ENUM(name) COLUMN_##name,
	COLUMN_LIST(COLUMN_ENUM)
#undef COLUMN_ENUM
		COLUMN_pair_tokens,
	COLUMN_COUNT
};

static const char *const column_names[COLUMN_COUNT] = {
#define COLUMN_NAME(name) #name,
	COLUMN_LIST(COLUMN_NAME)
#undef COLUMN_NAME
		"pair_tokens",
};

/* A steps.tsv lacks the first two, and older tables the others. */
static const bool may_lack[COLUMN_COUNT] = {
	[COLUMN_samples] = true,
	[COLUMN_ahead] = true,
	[COLUMN_start_ns] = true,
	[COLUMN_gpu_ns] = true,
	[COLUMN_host_ns] = true,
	[COLUMN_pair_tokens] = true,
	[COLUMN_reread_tokens] = true,
	[COLUMN_repeat_tokens] = true,
	[COLUMN_prefill_longest_context] = true,
	[COLUMN_prefill_tiles] = true,
	[COLUMN_prefill_tile_keys] = true,
	[COLUMN_prefill_chain_keys] = true,
	[COLUMN_prefill_half_chain_keys] = true,
	[COLUMN_prefill_context_tokens] = true,
	[COLUMN_prefill_shared_tokens] = true,
	[COLUMN_shared_tokens] = true,
	[COLUMN_decode_longest_context] = true,
};

struct reader {
	struct table_reader table;
	uint32_t field[COLUMN_COUNT]; /* by column: index of its field in the table */
	uint64_t value[COLUMN_COUNT]; /* of the latest row */
};

/* Reads "# key value" lines; other comment lines are ignored. */
static void read_origin(char *remarks, struct calibrate_origin *origin)
{
	uint32_t number = 1;

	for (char *line = remarks; line != NULL && *line != '\0'; number++) {
		char *end = strchr(line, '\n');
		*end = '\0';
#define READ_ORIGIN(key, bytes)                                                                    \
	if (strncmp(line, "# " #key " ", sizeof("# " #key)) == 0) {                                \
		snprintf(origin->key, bytes, "%s", line + sizeof("# " #key));                      \
		text_make_printable(origin->key);                                                  \
		origin->line_of.key = number;                                                      \
	}
		CALIBRATE_LINE_LIST(READ_ORIGIN)
#undef READ_ORIGIN
		line = end + 1;
	}
}

enum status calibrate_origin_refuse(const struct calibrate_origin *origin, const char *key,
	struct error *error, const char *expected_format, ...)
{
	const char *found = "";
	char expected[200], place[sizeof(origin->path) + 16] = "";
	uint32_t line = 0;
	va_list arguments;

#define FIND_LINE(name, bytes)                                                                     \
	if (strcmp(key, #name) == 0) {                                                             \
		found = origin->name;                                                              \
		line = origin->line_of.name;                                                       \
	}
	CALIBRATE_LINE_LIST(FIND_LINE)
#undef FIND_LINE
	va_start(arguments, expected_format);
	vsnprintf(expected, sizeof(expected), expected_format, arguments);
	va_end(arguments);
	if (line > 0) {
		snprintf(place, sizeof(place), "%s:%u: ", origin->path, line);
	} else if (origin->path[0] != '\0') {
		snprintf(place, sizeof(place), "%s: ", origin->path);
	}
	return error_set(error, STATUS_INPUT,
		"%sthe line '# %s' of the points: found '%s', expected %s", place, key, found,
		expected);
}

enum status calibrate_origin_share(const struct calibrate_origin *origin, const char *text,
	const char *key, uint64_t most, double *out, struct error *error)
{
	enum { MILLION = 1000000 };
	uint64_t millionths = 0;

	if (!text_to_millionths(text, &millionths) || millionths > most) {
		return calibrate_origin_refuse(
			origin, key, error, "0 to %.6f", (double)most / MILLION);
	}
	*out = (double)millionths / MILLION;
	return STATUS_OK;
}

static enum status open_table(struct reader *reader, const char *path,
	struct calibrate_origin *origin, struct error *error)
{
	struct text remarks = {0};

	enum status status = table_reader_open(&reader->table, path, &remarks, error);
	snprintf(origin->path, sizeof(origin->path), "%s", path);
	read_origin(remarks.bytes, origin);
	text_deinit(&remarks);
	TRY(status);
	for (uint32_t i = 0; i < COLUMN_COUNT; i++) {
		reader->field[i] = table_reader_find(&reader->table, column_names[i]);
		if (!may_lack[i]) {
			table_reader_column(
				&reader->table, column_names[i], &reader->field[i], error);
		}
	}
	return error->status;
}

static enum status parse_row(struct reader *reader, struct error *error)
{
	memset(reader->value, 0, sizeof(reader->value));
	reader->value[COLUMN_samples] = 1;
	for (uint32_t i = 0; i < COLUMN_COUNT; i++) {
		if (reader->field[i] != TABLE_NO_COLUMN) {
			TRY(table_reader_u64(&reader->table, reader->field[i], UINT64_C(1) << 53,
				&reader->value[i], error));
		}
	}
	return STATUS_OK;
}

static enum status refuse(
	const struct reader *reader, enum column column, const char *expected, struct error *error)
{
	return table_reader_refuse(&reader->table, reader->field[column], expected, error);
}

static enum status check_times(const struct reader *reader, struct error *error)
{
	const uint64_t *value = reader->value;
	uint64_t elapsed_ns = value[COLUMN_elapsed_ns], gpu_ns = value[COLUMN_gpu_ns];
	bool has_gpu = reader->field[COLUMN_gpu_ns] != TABLE_NO_COLUMN;

	if (value[COLUMN_samples] == 0) {
		return refuse(reader, COLUMN_samples, "1 or more", error);
	}
	if (elapsed_ns == 0 || (double)elapsed_ns > STEP_PRICE_LIMIT) {
		return refuse(reader, COLUMN_elapsed_ns, "1 to 10^15", error);
	}
	if (has_gpu && gpu_ns > elapsed_ns) {
		return refuse(reader, COLUMN_gpu_ns, "at most elapsed_ns", error);
	}
	if (reader->field[COLUMN_host_ns] != TABLE_NO_COLUMN &&
		(value[COLUMN_host_ns] > elapsed_ns ||
			(has_gpu && value[COLUMN_host_ns] != elapsed_ns - gpu_ns))) {
		return refuse(reader, COLUMN_host_ns, "elapsed_ns less gpu_ns", error);
	}
	return value[COLUMN_ahead] <= 1 ? STATUS_OK : refuse(reader, COLUMN_ahead, "0 or 1", error);
}

static enum status check_counts(
	const struct reader *reader, const struct step_counts *counts, struct error *error)
{
	struct step_fault fault;

	if (!step_is_possible(counts, &fault)) {
		return table_reader_refuse(&reader->table,
			table_reader_find(&reader->table, fault.count), fault.expected, error);
	}
	return counts->decode_rows + counts->prefill_rows > 0
		       ? STATUS_OK
		       : refuse(reader, COLUMN_decode_rows, "a decode row or a prompt", error);
}

/* k sequences that hold the same T tokens share T (k - 1), reread T (k - 1) / k and have
   T k (k - 1) / 2 in pairs. */
static uint64_t reread_of_pairs(uint64_t shared, uint64_t pairs)
{
	double reread = pairs == 0 ? 0 : (double)shared * (double)shared / (double)pairs / 2;

	return reread < (double)shared ? (uint64_t)reread : shared;
}

static enum status append(
	struct calibrate_points *points, const struct reader *reader, struct error *error)
{
	struct calibrate_point point = {
		.samples = reader->value[COLUMN_samples],
		.start_ns = reader->value[COLUMN_start_ns],
		.elapsed_ns = reader->value[COLUMN_elapsed_ns],
		.gpu_ns = reader->value[COLUMN_gpu_ns],
		.host_ns = reader->value[COLUMN_host_ns],
		.ahead = reader->value[COLUMN_ahead],
		.line = reader->table.line_number,
	};

#define COPY_COUNT(name) point.counts.name = reader->value[COLUMN_##name];
	CALIBRATE_POINT_LIST(COPY_COUNT)
#undef COPY_COUNT
	TRY(check_times(reader, error));
	if (reader->field[COLUMN_gpu_ns] == TABLE_NO_COLUMN) {
		point.gpu_ns = point.elapsed_ns - point.host_ns;
	}
	point.host_ns = point.elapsed_ns - point.gpu_ns;
	if (reader->field[COLUMN_reread_tokens] == TABLE_NO_COLUMN) {
		point.counts.reread_tokens = reread_of_pairs(
			point.counts.shared_tokens, reader->value[COLUMN_pair_tokens]);
	}
	if (reader->field[COLUMN_prefill_shared_tokens] == TABLE_NO_COLUMN) {
		step_give_shares_to_rows(&point.counts);
	}
	TRY(check_counts(reader, &point.counts, error));
	points->points = memory_grow(
		points->points, &points->capacity, points->count + 1, sizeof(*points->points));
	points->points[points->count++] = point;
	return STATUS_OK;
}

enum status calibrate_points_read(
	struct calibrate_points *out, const char *path, uint64_t from_ns, struct error *error)
{
	struct reader reader;

	memset(out, 0, sizeof(*out));
	open_table(&reader, path, &out->origin, error);
	while (table_reader_next(&reader.table, error) && parse_row(&reader, error) == STATUS_OK) {
		if (reader.value[COLUMN_start_ns] >= from_ns) {
			append(out, &reader, error);
		}
	}
	table_reader_close(&reader.table);
	return error->status;
}

void calibrate_points_append(struct calibrate_points *points, const struct calibrate_points *more)
{
	size_t count = points->count + more->count;

	points->points =
		memory_grow(points->points, &points->capacity, count, sizeof(*points->points));
	for (size_t i = 0; i < more->count; i++) {
		points->points[points->count++] = more->points[i];
	}
}

/* ---- joining ---- */

/* A count rounded down to its five leading bits. */
static uint64_t coarse(uint64_t count)
{
	if (count < 32) {
		return count;
	}
	uint32_t shift = 63 - (uint32_t)__builtin_clzll(count) - 5;
	return count >> shift << shift;
}

static int compare_u64(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static int compare_kinds(const struct calibrate_point *left, const struct calibrate_point *right)
{
	const struct step_counts *a = &left->counts, *b = &right->counts;
	int order = compare_u64(left->ahead, right->ahead);

	order = order != 0 ? order : compare_u64(a->prefill_rows, b->prefill_rows);
	order = order != 0 ? order : compare_u64(a->prefill_tokens, b->prefill_tokens);
	order = order != 0 ? order : compare_u64(a->decode_rows, b->decode_rows);
	order = order != 0 ? order : compare_u64(a->sampled_rows, b->sampled_rows);
	order = order != 0 ? order
			   : compare_u64(coarse(a->decode_context_tokens),
				     coarse(b->decode_context_tokens));
	order = order != 0 ? order
			   : compare_u64(coarse(a->prefill_attention_pairs),
				     coarse(b->prefill_attention_pairs));
	order = order != 0 ? order
			   : compare_u64(coarse(a->reread_tokens), coarse(b->reread_tokens));
	order = order != 0 ? order
			   : compare_u64(coarse(a->repeat_tokens), coarse(b->repeat_tokens));
	order = order != 0 ? order
			   : compare_u64(coarse(a->shared_tokens), coarse(b->shared_tokens));
	order = order != 0 ? order
			   : compare_u64(coarse(a->decode_longest_context),
				     coarse(b->decode_longest_context));
	order = order != 0 ? order
			   : compare_u64(coarse(a->prefill_longest_context),
				     coarse(b->prefill_longest_context));
	order = order != 0 ? order : compare_u64(a->prefill_tiles, b->prefill_tiles);
	order = order != 0
			? order
			: compare_u64(coarse(a->prefill_tile_keys), coarse(b->prefill_tile_keys));
	order = order != 0
			? order
			: compare_u64(coarse(a->prefill_chain_keys), coarse(b->prefill_chain_keys));
	order = order != 0 ? order
			   : compare_u64(coarse(a->prefill_half_chain_keys),
				     coarse(b->prefill_half_chain_keys));
	order = order != 0 ? order
			   : compare_u64(coarse(a->prefill_context_tokens),
				     coarse(b->prefill_context_tokens));
	return order != 0 ? order
			  : compare_u64(coarse(a->prefill_shared_tokens),
				    coarse(b->prefill_shared_tokens));
}

static int compare_points(const void *a, const void *b)
{
	const struct calibrate_point *left = a, *right = b;
	int order = compare_kinds(left, right);

	return order != 0 ? order : compare_u64(left->elapsed_ns, right->elapsed_ns);
}

static int compare_times(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;

	return compare_u64(*left, *right);
}

/* The lower median of one column of points. */
static uint64_t median_of(
	const struct calibrate_point *points, size_t count, size_t offset, uint64_t *scratch)
{
	for (size_t i = 0; i < count; i++) {
		memcpy(&scratch[i], (const char *)&points[i] + offset, sizeof(uint64_t));
	}
	qsort(scratch, count, sizeof(*scratch), compare_times);
	return scratch[(count - 1) / 2];
}

/* The mean of one column of samples that the others do not call disturbed. */
static uint64_t mean_of(const struct calibrate_point *points, size_t count, size_t offset)
{
	double median = (double)points[(count - 1) / 2].elapsed_ns, sum = 0, kept = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t value;
		memcpy(&value, (const char *)&points[i] + offset, sizeof(value));
		bool is_usual = fabs((double)points[i].elapsed_ns / median - 1) <= difference_most;
		sum += is_usual ? (double)value : 0;
		kept += is_usual;
	}
	return (uint64_t)(sum / kept + 0.5);
}

/* The middle of the samples, which are in order of time: their lower median. But of one row
   of qwen3-0.6b one step in twenty takes 2 to 9 % longer, and many in a row take the mean. */
static uint64_t middle_of(
	const struct calibrate_point *points, size_t count, size_t offset, uint64_t *scratch)
{
	const struct step_counts *counts = &points->counts;
	bool has_tail = counts->prefill_rows == 0 && counts->decode_rows <= FEW_ROWS;

	return has_tail && count >= MEAN_SAMPLES ? mean_of(points, count, offset)
						 : median_of(points, count, offset, scratch);
}

static struct calibrate_point joined(
	const struct calibrate_point *points, size_t count, uint64_t *scratch)
{
	struct calibrate_point point = points[(count - 1) / 2]; /* they are in order of time */
	uint64_t context = 0, pairs = 0, shared = 0, reread = 0, repeat = 0, longest = 0;
	uint64_t keys = 0, tile_keys = 0, chain_keys = 0, half_chain_keys = 0, contexts = 0;
	uint64_t prompts_shared = 0;

	point.samples = 0;
	for (size_t i = 0; i < count; i++) {
		point.samples += points[i].samples;
		context += points[i].counts.decode_context_tokens;
		pairs += points[i].counts.prefill_attention_pairs;
		shared += points[i].counts.shared_tokens;
		reread += points[i].counts.reread_tokens;
		repeat += points[i].counts.repeat_tokens;
		keys += points[i].counts.prefill_longest_context;
		tile_keys += points[i].counts.prefill_tile_keys;
		chain_keys += points[i].counts.prefill_chain_keys;
		half_chain_keys += points[i].counts.prefill_half_chain_keys;
		contexts += points[i].counts.prefill_context_tokens;
		prompts_shared += points[i].counts.prefill_shared_tokens;
		longest += points[i].counts.decode_longest_context;
	}
	point.counts.decode_context_tokens = context / count;
	point.counts.prefill_attention_pairs = pairs / count;
	point.counts.shared_tokens = shared / count;
	point.counts.reread_tokens = reread / count;
	point.counts.repeat_tokens = repeat / count;
	point.counts.prefill_longest_context = keys / count;
	point.counts.prefill_tile_keys = tile_keys / count;
	point.counts.prefill_chain_keys = chain_keys / count;
	point.counts.prefill_half_chain_keys = half_chain_keys / count;
	point.counts.prefill_context_tokens = contexts / count;
	point.counts.prefill_shared_tokens = prompts_shared / count;
	point.counts.decode_longest_context = longest / count;
	point.elapsed_ns =
		middle_of(points, count, offsetof(struct calibrate_point, elapsed_ns), scratch);
	point.gpu_ns = middle_of(points, count, offsetof(struct calibrate_point, gpu_ns), scratch);
	point.gpu_ns = u64_min(point.gpu_ns, point.elapsed_ns);
	/* Medians of the times need not add up, so host_ns is the difference. */
	point.host_ns = point.elapsed_ns - point.gpu_ns;
	return point;
}

void calibrate_points_sort(struct calibrate_points *points)
{
	if (points->count > 0) {
		qsort(points->points, points->count, sizeof(*points->points), compare_points);
	}
}

size_t calibrate_points_group(const struct calibrate_points *points, size_t begin)
{
	size_t end = begin + 1;

	while (end < points->count &&
		compare_kinds(&points->points[begin], &points->points[end]) == 0) {
		end++;
	}
	return end;
}

void calibrate_points_join(struct calibrate_points *points)
{
	uint64_t *scratch = memory_take(points->count + 1, sizeof(*scratch));
	size_t kept = 0;

	calibrate_points_sort(points);
	for (size_t i = 0, end; i < points->count; i = end) {
		end = calibrate_points_group(points, i);
		points->points[kept++] = joined(&points->points[i], end - i, scratch);
	}
	points->count = kept;
	free(scratch);
}

void calibrate_points_drop_lone(struct calibrate_points *points)
{
	size_t kept = 0;

	for (size_t i = 0; i < points->count; i++) {
		const struct calibrate_point *point = &points->points[i];
		if (point->samples > 1) {
			points->points[kept++] = *point;
		}
	}
	points->count = kept;
}

enum status calibrate_points_ranks(
	const struct calibrate_points *points, uint32_t *ranks, struct error *error)
{
	const char *text = points->origin.tensor_parallel_size;
	uint64_t value = 1;

	if (text[0] != '\0' &&
		(!text_to_u64(text, &value) || value < 1 || value > TENSOR_PARALLEL_MAX)) {
		return calibrate_origin_refuse(&points->origin, "tensor_parallel_size", error,
			"1 to %d", TENSOR_PARALLEL_MAX);
	}
	*ranks = (uint32_t)value;
	return STATUS_OK;
}

enum status calibrate_points_calibrations(
	const struct calibrate_points *points, uint64_t *count, struct error *error)
{
	const char *text = points->origin.calibrations;

	*count = 1;
	if (text[0] != '\0' &&
		(!text_to_u64(text, count) || *count < 1 || *count > CALIBRATIONS_MOST)) {
		return calibrate_origin_refuse(
			&points->origin, "calibrations", error, "1 to %d", CALIBRATIONS_MOST);
	}
	return STATUS_OK;
}

/* ---- writing ---- */

enum status calibrate_points_write(
	const struct calibrate_points *points, const char *path, struct error *error)
{
	struct output_file output;

	TRY(output_file_open(&output, path, error));
#define WRITE_ORIGIN(key, bytes)                                                                   \
	if (points->origin.key[0] != '\0') {                                                       \
		fprintf(output.file, "# " #key " %s\n", points->origin.key);                       \
	}
	CALIBRATE_LINE_LIST(WRITE_ORIGIN)
#undef WRITE_ORIGIN
	for (uint32_t i = 0; i < COLUMN_pair_tokens; i++) {
		fprintf(output.file, "%s%c", column_names[i],
			i + 1 < COLUMN_pair_tokens ? '\t' : '\n');
	}
	for (size_t i = 0; i < points->count; i++) {
		const struct calibrate_point *point = &points->points[i];
		fprintf(output.file, "%llu\t%llu\t%llu\t%llu\t%llu\t%llu",
			(unsigned long long)point->samples, (unsigned long long)point->start_ns,
			(unsigned long long)point->elapsed_ns, (unsigned long long)point->gpu_ns,
			(unsigned long long)point->host_ns, (unsigned long long)point->ahead);
#define WRITE_COUNT(name) fprintf(output.file, "\t%llu", (unsigned long long)point->counts.name);
		CALIBRATE_POINT_LIST(WRITE_COUNT)
#undef WRITE_COUNT
		fprintf(output.file, "\n");
	}
	return output_file_commit(&output, error);
}

void calibrate_points_free(struct calibrate_points *points)
{
	free(points->points);
	memset(points, 0, sizeof(*points));
}
