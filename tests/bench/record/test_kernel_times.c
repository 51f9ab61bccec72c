#include "engine/profiling/kernel_name.h"
#include "bench/record/kernel_times.h"
#include "bench/record/kernel_times_state.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/model/config_json.h"
#include "reports/results/results.h"
#include "engine/base/memory.h"
#include "engine/profiling/nvtx.h"
#include "tests/harness/files.h"
#include "tests/harness/process.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/table_file.h"
#include "tests/harness/temporary.h"

/* Compares kernel_times with naive sums over the same records. The records come from a fake source
   that the test fills, so no GPU is needed. */

enum { RECORDS_MAX = 4096, SITES = 6, CELL_BYTES = 64, CELLS_MAX = 16, ROWS_MAX = 2048 };

static const struct kernel_site sites[SITES] = {
	{"decode", "decode", RANGE_NO_LAYER},
	{"decode/qkv", "qkv", 3},
	{"qkv", "qkv", 3},
	{"decode_attention", "decode_attention", 7},
	{"qkv", "qkv", 12},
	{"", "", RANGE_NO_LAYER},
};

enum { SITE_DECODE, SITE_EAGER_QKV, SITE_QKV, SITE_ATTENTION, SITE_LATER_QKV, SITE_NONE };

struct fake {
	struct kernel_record records[RECORDS_MAX];
	size_t count;	 /* records in the source */
	size_t taken;	 /* records returned */
	size_t shown;	 /* available without a flush */
	size_t at_once;	 /* most records per call; 0: no limit */
	uint64_t now_ns; /* the source's clock */
	uint64_t lost;
};

static uint64_t fake_now(void *state)
{
	return ((struct fake *)state)->now_ns;
}

static size_t fake_take(void *state, struct kernel_record *records, size_t capacity)
{
	struct fake *fake = state;
	size_t count = fake->shown - fake->taken;

	count = count < capacity ? count : capacity;
	count = fake->at_once > 0 && fake->at_once < count ? fake->at_once : count;
	memcpy(records, fake->records + fake->taken, count * sizeof(*records));
	fake->taken += count;
	return count;
}

static void fake_flush(void *state)
{
	struct fake *fake = state;

	fake->shown = fake->count;
}

static struct kernel_site fake_site(void *state, uint32_t index)
{
	(void)state;
	return index == KERNEL_NO_SITE ? sites[SITE_NONE] : sites[index];
}

static uint64_t fake_lost(void *state)
{
	return ((struct fake *)state)->lost;
}

static void put(struct fake *fake, uint64_t step, uint32_t launch_site, uint32_t graph_site,
	uint64_t start_ns, uint64_t length_ns)
{
	require(fake->count < RECORDS_MAX, "too many records");
	fake->records[fake->count++] = (struct kernel_record){
		.start_ns = start_ns,
		.end_ns = start_ns + length_ns,
		.step = step,
		.launch_site = launch_site,
		.graph_site = graph_site,
		.rows = 16,
		.name = "kernel",
	};
}

static struct kernel_source source_of(struct fake *fake)
{
	return (struct kernel_source){.state = fake,
		.now = fake_now,
		.take = fake_take,
		.flush = fake_flush,
		.site = fake_site,
		.lost = fake_lost};
}

static struct kernel_times *open_times(struct fake *fake)
{
	struct model_config model;
	struct error error = {0};
	const struct kernel_source source = source_of(fake);

	require(model_config_find("qwen3-0.6b", &model, &error) == STATUS_OK, "%s", error.text);
	return kernel_times_open(&source, &model, 1, NULL);
}

/* ---- tables that were written ---- */

struct written {
	char cells[ROWS_MAX][CELLS_MAX][CELL_BYTES];
	uint32_t row_count;
	char remark[256]; /* of the first line, if it is one */
};

static void split(char *line, char cells[CELLS_MAX][CELL_BYTES])
{
	uint32_t count = 0;

	line[strcspn(line, "\n")] = '\0';
	for (char *at = line; at != NULL; count++) {
		char *end = strchr(at, '\t');
		require(count < CELLS_MAX, "too many cells: %s", line);
		if (end != NULL) {
			*end = '\0';
		}
		require(strlen(at) < CELL_BYTES, "a long cell: %s", at);
		strcpy(cells[count], at);
		at = end == NULL ? NULL : end + 1;
	}
}

typedef void writing(const struct kernel_times *times, struct table_writer *table);

/* What a table says; the names of its columns are row 0. */
static struct written *write_and_read(
	const struct kernel_times *times, writing *write, const char *header)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES + 16], line[1024];
	struct table_writer *table = memory_take(1, sizeof(*table));
	struct written *written = memory_take(1, sizeof(*written));

	temporary_folder(folder);
	snprintf(path, sizeof(path), "%s/table.tsv", folder);
	table_file_open(table, path, header);
	write(times, table);
	table_file_close(table);
	free(table);
	FILE *file = fopen(path, "r");
	require(file != NULL, "cannot open %s", path);
	while (fgets(line, sizeof(line), file) != NULL) {
		if (line[0] == '#') {
			require(written->row_count == 0, "a remark in mid table");
			snprintf(written->remark, sizeof(written->remark), "%.200s", line);
			continue;
		}
		require(written->row_count < ROWS_MAX, "too many rows");
		split(line, written->cells[written->row_count++]);
	}
	fclose(file);
	temporary_remove(folder);
	return written;
}

static const char *cell(const struct written *written, uint32_t row, const char *column)
{
	for (uint32_t i = 0; i < CELLS_MAX; i++) {
		if (strcmp(written->cells[0][i], column) == 0) {
			return written->cells[row][i];
		}
	}
	require(false, "no column %s", column);
	return NULL;
}

static uint64_t number(const struct written *written, uint32_t row, const char *column)
{
	return strtoull(cell(written, row, column), NULL, 10);
}

static uint64_t column_sum(const struct written *written, const char *column)
{
	uint64_t sum = 0;

	for (uint32_t row = 1; row < written->row_count; row++) {
		sum += number(written, row, column);
	}
	return sum;
}

static void require_cell(
	const struct written *written, uint32_t row, const char *column, const char *expected)
{
	const char *found = cell(written, row, column);

	require(strcmp(found, expected) == 0, "%s of row %u: found %s, expected %s", column, row,
		found, expected);
}

/* ---- by hand ---- */

static const struct step_counts decoding = {.decode_rows = 16, .decode_context_tokens = 1000};

/* Launched and captured alike come to one row; a call is all that was launched in one range. */
Test(kernel_times, calls_of_a_range_are_one_row)
{
	struct fake *fake = memory_take(1, sizeof(*fake));
	struct kernel_times *times = open_times(fake);

	put(fake, 0, SITE_EAGER_QKV, KERNEL_NO_SITE, 100, 10);
	put(fake, 0, SITE_EAGER_QKV, KERNEL_NO_SITE, 110, 30);
	fake->shown = 2;
	fake->now_ns = 1000;
	kernel_times_step(times, 0, &decoding, 5000, 6000);
	put(fake, 1, SITE_DECODE, SITE_QKV, 1100, 60);
	put(fake, 1, SITE_DECODE, SITE_ATTENTION, 1160, 500);
	fake->now_ns = 2000;
	kernel_times_step(times, 1, &decoding, 6000, 7000);
	kernel_times_finish(times);

	struct written *kernels = write_and_read(times, kernel_times_write, KERNEL_COLUMNS);
	require(strstr(kernels->remark, "may exceed") != NULL, "no remark");
	require_equal(kernels->row_count, 3);
	require_cell(kernels, 1, "range", "decode/decode_attention");
	require_cell(kernels, 1, "layer", "7");
	require_cell(kernels, 2, "phase", "decode");
	require_cell(kernels, 2, "range", "decode/qkv");
	require_cell(kernels, 2, "operation", "qkv");
	require_cell(kernels, 2, "layer", "3");
	require_cell(kernels, 2, "calls", "2");
	require_cell(kernels, 2, "kernels", "3");
	require_cell(kernels, 2, "sum_ns", "100");
	require_cell(kernels, 2, "mean_ns", "50");
	require_cell(kernels, 2, "p50_ns", "40");
	require_cell(kernels, 2, "p99_ns", "60");
	/* (4096, 1024) bf16, and 16 rows of 1024 in and 4096 out, twice */
	require_cell(kernels, 2, "bytes", "17104896");
	require_cell(kernels, 2, "flops", "268435456");
	/* 8 KV heads of 128 for 1000 tokens, 16 queries of 16 heads in and out */
	require_cell(kernels, 1, "bytes", "4227072");
	require_cell(kernels, 1, "flops", "8192000");
	require_cell(kernels, 1, "tb_per_s", "8.454");
	require_cell(kernels, 1, "kernel", "kernel");
	free(kernels);
	kernel_times_close(times);
	free(fake);
}

static void put_kernel(struct fake *fake, uint64_t step, uint32_t launch_site, uint32_t graph_site,
	uint64_t start_ns, uint64_t length_ns, const char *name, uint32_t call)
{
	put(fake, step, launch_site, graph_site, start_ns, length_ns);
	fake->records[fake->count - 1].name = name;
	fake->records[fake->count - 1].call = call;
}

/* A step of prefill, one of decode and one of both, with ranges of two layers, two calls of one
   range in a step, kernels of several names in a call, a copy outside all ranges, and one lost. */
static void run_three_steps(struct fake *fake, struct kernel_times *times)
{
	static const struct step_counts both = {.prefill_rows = 1,
		.prefill_tokens = 16,
		.prefill_attention_pairs = 136,
		.decode_rows = 2,
		.decode_context_tokens = 40};
	static const struct step_counts prefill = {
		.prefill_rows = 1, .prefill_tokens = 16, .prefill_attention_pairs = 136};

	put_kernel(fake, 0, SITE_EAGER_QKV, KERNEL_NO_SITE, 1000, 700, "first", 1);
	put_kernel(fake, 0, SITE_EAGER_QKV, KERNEL_NO_SITE, 1700, 900, "second", 1);
	put_kernel(fake, 0, SITE_EAGER_QKV, KERNEL_NO_SITE, 2600, 100, "third", 2);
	put_kernel(fake, 0, SITE_NONE, KERNEL_NO_SITE, 2800, 1000, "copy to the GPU", 3);
	fake->records[fake->count - 1].bytes = 4096;
	fake->shown = fake->count;
	fake->now_ns = 4000;
	kernel_times_step(times, 0, &prefill, 50000, 54000);
	put_kernel(fake, 1, SITE_DECODE, SITE_QKV, 5000, 2000, "second", 4);
	put_kernel(fake, 1, SITE_DECODE, SITE_LATER_QKV, 7000, 2100, "second", 5);
	put_kernel(fake, 1, SITE_DECODE, SITE_ATTENTION, 8000, 5000, "attention", 6);
	fake->shown = fake->count;
	fake->now_ns = 14000;
	kernel_times_step(times, 1, &decoding, 54000, 64000);
	put_kernel(fake, 2, SITE_EAGER_QKV, KERNEL_NO_SITE, 15000, 3000, "third", 7);
	put_kernel(fake, 7, SITE_EAGER_QKV, KERNEL_NO_SITE, 16000, 10, "never over", 8);
	fake->shown = fake->count;
	fake->now_ns = 19000;
	kernel_times_step(times, 2, &both, 70000, 75000);
	kernel_times_finish(times);
}

static char *written_text(const struct kernel_times *times, writing *write, const char *header)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES + 16];
	struct table_writer *table = memory_take(1, sizeof(*table));

	temporary_folder(folder);
	snprintf(path, sizeof(path), "%s/table.tsv", folder);
	table_file_open(table, path, header);
	write(times, table);
	table_file_close(table);
	free(table);
	char *text = file_read(path, NULL);
	temporary_remove(folder);
	return text;
}

static void require_table(
	const struct kernel_times *times, writing *write, const char *header, const char *expected)
{
	char *text = written_text(times, write, header);
	size_t bytes = strlen(header);

	require(strncmp(text, header, bytes) == 0 && text[bytes] == '\n', "%s", text);
	cr_assert_str_eq(text + bytes + 1, expected);
	free(text);
}

Test(kernel_times, whole_tables)
{
	struct fake *fake = memory_take(1, sizeof(*fake));
	struct kernel_times *times = open_times(fake);
	struct capture capture;

	run_three_steps(fake, times);
	require_table(times, kernel_times_write, KERNEL_COLUMNS,
		"decode\tdecode/"
		"decode_attention\tdecode_"
		"attention\t7\t1\t1\t5000\t5000\t5000\t5000\t4227072\t8192000\t0.845\t1."
		"638\tattention\n"
		"decode\tdecode/"
		"qkv\tqkv\t3\t1\t1\t2000\t2000\t2000\t2000\t8552448\t134217728\t4.276\t67."
		"108\tsecond\n"
		"decode\tdecode/"
		"qkv\tqkv\t12\t1\t1\t2100\t2100\t2100\t2100\t8552448\t134217728\t4.072\t63."
		"913\tsecond\n"
		"prefill\t-\tother\t-\t1\t1\t1000\t1000\t1000\t1000\t4096\t-\t0.004\t-\tcopy to "
		"the GPU\n"
		"prefill\tdecode/"
		"qkv\tqkv\t3\t2\t3\t1700\t850\t100\t1600\t17104896\t268435456\t10.061\t157."
		"903\tsecond\n"
		"mixed\tdecode/"
		"qkv\tqkv\t3\t1\t1\t3000\t3000\t3000\t3000\t8552448\t134217728\t2.850\t44."
		"739\tthird\n");
	require_table(times, kernel_times_write_phases, KERNEL_PHASE_COLUMNS,
		"decode\t1\t10000\t8000\tqkv\t1\t4100\t0\n"
		"decode\t1\t10000\t8000\tdecode_attention\t2\t5000\t4100\n"
		"decode\t1\t10000\t8000\tother\t3\t0\t9100\n"
		"prefill\t1\t4000\t2700\tqkv\t1\t1700\t0\n"
		"prefill\t1\t4000\t2700\tdecode_attention\t2\t0\t1700\n"
		"prefill\t1\t4000\t2700\tother\t3\t1000\t1700\n"
		"mixed\t1\t5000\t3000\tqkv\t1\t3000\t0\n"
		"mixed\t1\t5000\t3000\tdecode_attention\t2\t0\t3000\n"
		"mixed\t1\t5000\t3000\tother\t3\t0\t3000\n");
	require_table(times, kernel_times_write_timeline, KERNEL_TIMELINE_COLUMNS,
		"qkv\t1\t0.000050000\t0.000032000\t8800\t0\n"
		"decode_attention\t2\t0.000050000\t0.000032000\t5000\t8800\n"
		"other\t3\t0.000050000\t0.000032000\t1000\t13800\n");
	capture_begin(&capture, STDOUT_FILENO);
	kernel_times_print(times);
	char *text = capture_end(&capture);
	cr_assert_str_eq(text,
		"\n"
		"GPU time by operation, of the steps' time (the GPU was busy for 72.1 %; kernels "
		"may overlap, their sum is 77.9 %)\n"
		"  qkv                      0.000 s   46.3 %     4.86 TB/s     76.3 TFLOP/s\n"
		"  decode_attention         0.000 s   26.3 %     0.85 TB/s      1.6 TFLOP/s\n"
		"  other                    0.000 s    5.3 %     0.00 TB/s        - TFLOP/s\n"
		"  8 kernels, copies and fills; 1 more was lost\n");
	free(text);
	kernel_times_close(times);
	free(fake);
}

/* Kernels that overlap count once as busy time, each in the sum. */
Test(kernel_times, overlap_is_busy_once)
{
	struct fake *fake = memory_take(1, sizeof(*fake));
	struct kernel_times *times = open_times(fake);

	put(fake, 0, SITE_EAGER_QKV, KERNEL_NO_SITE, 100, 50);
	put(fake, 0, SITE_ATTENTION, KERNEL_NO_SITE, 120, 50);
	put(fake, 0, SITE_ATTENTION, KERNEL_NO_SITE, 130, 10);
	put(fake, 0, SITE_NONE, KERNEL_NO_SITE, 200, 5);
	fake->now_ns = 300;
	kernel_times_step(times, 0, &decoding, 0, 250);
	kernel_times_finish(times);
	struct kernel_totals totals = kernel_times_totals(times);
	require_equal(totals.step_ns, 250);
	require_equal(totals.busy_ns, 75);
	require_equal(totals.sum_ns, 115);
	struct written *phases =
		write_and_read(times, kernel_times_write_phases, KERNEL_PHASE_COLUMNS);
	require_equal(phases->row_count, 4);
	require_cell(phases, 1, "operation", "decode_attention");
	require_cell(phases, 1, "sum_ns", "60");
	require_cell(phases, 2, "below_ns", "60");
	require_cell(phases, 3, "operation", "other");
	require_cell(phases, 3, "rank", "3");
	require_cell(phases, 3, "below_ns", "110");
	require_cell(phases, 3, "busy_ns", "75");
	free(phases);
	kernel_times_close(times);
	free(fake);
}

/* Records of preparations belong to no step; those that come before their step is over wait for
   it; those of a step that never ends, or that is long forgotten, are lost. */
Test(kernel_times, early_late_and_stray_records)
{
	struct fake *fake = memory_take(1, sizeof(*fake));
	struct kernel_times *times = open_times(fake);

	put(fake, RANGE_NO_STEP, SITE_EAGER_QKV, KERNEL_NO_SITE, 10, 5);
	put(fake, 1, SITE_EAGER_QKV, KERNEL_NO_SITE, 100, 10);
	put(fake, 0, SITE_EAGER_QKV, KERNEL_NO_SITE, 90, 10);
	put(fake, 99999, SITE_EAGER_QKV, KERNEL_NO_SITE, 110, 10);
	fake->shown = fake->count;
	fake->lost = 3;
	kernel_times_step(times, 0, &decoding, 0, 50);
	require_equal(kernel_times_totals(times).records, 1);
	kernel_times_step(times, 1, &decoding, 50, 100);
	require_equal(kernel_times_totals(times).records, 2);
	for (uint64_t step = 2; step < 2 + (1 << 14); step++) {
		kernel_times_step(times, step, &decoding, 50 * step, 50 * step + 50);
	}
	put(fake, 1, SITE_EAGER_QKV, KERNEL_NO_SITE, 100, 10);
	kernel_times_finish(times);
	require_equal(kernel_times_totals(times).records, 2);
	require_equal(kernel_times_totals(times).lost, 3 + 2);
	kernel_times_close(times);
	free(fake);
}

/* A record lies in the bin of its time on the run's clock, which the step's end ties to the
   source's. */
Test(kernel_times, records_are_dated_by_their_step)
{
	struct fake *fake = memory_take(1, sizeof(*fake));
	struct kernel_times *times = open_times(fake);

	for (uint64_t step = 0; step < 16; step++) {
		uint64_t source_ns = 77000000 + step * 900;
		put(fake, step, SITE_EAGER_QKV, KERNEL_NO_SITE, source_ns + 100, 7 + step);
		fake->now_ns = source_ns + 800;
		/* On the run's clock, steps of 1 ms with an idle second after the eighth. */
		uint64_t start_ns = 5000000000 + step * 1000000 + (step >= 8 ? 1000000000 : 0);
		kernel_times_step(times, step, &decoding, start_ns, start_ns + 1000000);
	}
	kernel_times_finish(times);
	struct written *bins =
		write_and_read(times, kernel_times_write_timeline, KERNEL_TIMELINE_COLUMNS);
	require(bins->row_count >= 3, "one bin for all");
	require_cell(bins, 1, "time_s", "5.000000000");
	/* Bins as long as the run divided by a quarter of its steps, at most twice that. */
	uint32_t count = bins->row_count - 1;
	double width_s = strtod(cell(bins, 1, "width_s"), NULL);
	require(count <= 16 / 4 && count * width_s >= 1.016 && (count - 1) * width_s < 1.016,
		"%u bins of %f s", count, width_s);
	for (uint32_t row = 1; row < bins->row_count; row++) {
		double time_s = strtod(cell(bins, row, "time_s"), NULL);
		double expected_s = 5 + (row - 1) * width_s;
		require(time_s > expected_s - 1e-8 && time_s < expected_s + 1e-8, "bin %u", row);
	}
	require_equal(number(bins, 1, "sum_ns"), 8 * 7 + 28);
	require_equal(number(bins, bins->row_count - 1, "sum_ns"), 8 * 7 + 92);
	free(bins);
	kernel_times_close(times);
	free(fake);
}

/* Records may wait for the end of their step as long as there is room, however many came before. */
Test(kernel_times, records_wait_while_there_is_room)
{
	enum { FILLS = PENDING_MAX / RECORDS_MAX };
	struct fake *fake = memory_take(1, sizeof(*fake));
	struct kernel_times *times = open_times(fake);

	for (uint64_t step = 0; step < 2; step++) {
		for (int fill = 0; fill <= FILLS; fill++) {
			fake->count = fake->taken = 0;
			while (fake->count < (fill < FILLS ? RECORDS_MAX : 3)) {
				put(fake, 2 * step + 1, SITE_EAGER_QKV, KERNEL_NO_SITE, 100, 10);
			}
			fake->shown = fake->count;
			kernel_times_step(times, 2 * step, &decoding, 0, 50);
		}
		kernel_times_step(times, 2 * step + 1, &decoding, 50, 100);
		require_equal(kernel_times_totals(times).records, (step + 1) * PENDING_MAX);
		require_equal(kernel_times_totals(times).lost, (step + 1) * 3);
	}
	kernel_times_close(times);
	free(fake);
}

/* ---- at random ---- */

static const struct step_counts kinds[] = {
	{.decode_rows = 3, .decode_context_tokens = 50},
	{.prefill_rows = 2, .prefill_tokens = 30, .prefill_attention_pairs = 300},
	{.decode_rows = 1, .prefill_rows = 1, .prefill_tokens = 4},
};

/* With random records no nanosecond is lost or counted twice, in any table. */
static void sums_agree(struct prop *prop, const void *context)
{
	(void)context;
	struct fake *fake = memory_take(1, sizeof(*fake));
	struct kernel_times *times = open_times(fake);
	uint64_t steps = 1 + prop_below(prop, 40);
	uint64_t sum_ns = 0, phase_ns[STEP_KIND_COUNT] = {0};
	uint64_t run_ns = 0;

	fake->at_once = prop_below(prop, 4);
	for (uint64_t step = 0; step < steps; step++) {
		uint64_t kind = prop_below(prop, STEP_KIND_COUNT);
		uint64_t records = prop_below(prop, 20);
		for (uint64_t i = 0; i < records; i++) {
			uint64_t length_ns = prop_below(prop, 100000);
			uint32_t graph_site = prop_below(prop, 2) == 0
						      ? KERNEL_NO_SITE
						      : (uint32_t)prop_below(prop, SITES);
			put(fake, step, (uint32_t)prop_below(prop, SITES), graph_site,
				fake->now_ns + prop_below(prop, 50000), length_ns);
			sum_ns += length_ns;
			phase_ns[kind] += length_ns;
		}
		/* What has arrived is anything up to now. */
		fake->shown += prop_below(prop, fake->count - fake->shown + 1);
		fake->now_ns += 100000;
		uint64_t elapsed_ns = prop_below(prop, 1000000);
		kernel_times_step(times, step, &kinds[kind], run_ns, run_ns + elapsed_ns);
		run_ns += elapsed_ns + prop_below(prop, 2) * 5000000;
	}
	kernel_times_finish(times);
	struct kernel_totals totals = kernel_times_totals(times);
	require_equal(totals.records, fake->count);
	require_equal(totals.lost, 0);
	require_equal(totals.sum_ns, sum_ns);
	require(totals.busy_ns <= sum_ns, "busier than all kernels");
	struct written *kernels = write_and_read(times, kernel_times_write, KERNEL_COLUMNS);
	require_equal(column_sum(kernels, "sum_ns"), sum_ns);
	require_equal(column_sum(kernels, "kernels"), fake->count);
	struct written *phases =
		write_and_read(times, kernel_times_write_phases, KERNEL_PHASE_COLUMNS);
	require_equal(column_sum(phases, "sum_ns"), sum_ns);
	for (uint32_t row = 1; row < phases->row_count; row++) {
		for (uint32_t kind = 0; kind < STEP_KIND_COUNT; kind++) {
			if (strcmp(cell(phases, row, "phase"),
				    step_kind_name((enum step_kind)kind)) == 0) {
				phase_ns[kind] -= number(phases, row, "sum_ns");
			}
		}
	}
	for (uint32_t kind = 0; kind < STEP_KIND_COUNT; kind++) {
		require_equal(phase_ns[kind], 0);
	}
	struct written *bins =
		write_and_read(times, kernel_times_write_timeline, KERNEL_TIMELINE_COLUMNS);
	require_equal(column_sum(bins, "sum_ns"), sum_ns);
	free(kernels);
	free(phases);
	free(bins);
	kernel_times_close(times);
	free(fake);
}

Test(kernel_times, no_time_is_lost_or_counted_twice, .timeout = 120)
{
	const struct prop_options options = {
		.name = "no time is lost or counted twice", .body = sums_agree, .trials = 60};

	cr_assert(prop_holds(&options));
}

/* ---- names and work ---- */

Test(kernel_times, names_lose_what_the_compiler_adds)
{
	static const char *const cases[][2] = {
		{"nvjet_sm90_tst_64x16_64x16_4x1_v_bz_TNT",
			"nvjet_sm90_tst_64x16_64x16_4x1_v_bz_TNT"},
		{"_Z15silu_mul_kernelPtPKtjj", "silu_mul_kernel"},
		{"_ZL15silu_mul_kernelPtPKtjj", "silu_mul_kernel"},
		{"_Z23decode_attention_kernelILi128ELi2EEvPt", "decode_attention_kernel"},
		{"_ZN8cublasLt19splitKreduce_kernelILi32EEEvv", "splitKreduce_kernel"},
		{"_ZN12_GLOBAL__N_16kernelEv", "kernel"},
		{"_ZN", "_ZN"},
		{"_Z99short", "_Z99short"},
		{"copy to the GPU", "copy to the GPU"},
		{"", ""},
	};
	char found[KERNEL_NAME_BYTES];

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		kernel_name_short(cases[i][0], found);
		require(strcmp(found, cases[i][1]) == 0, "%s: found %s, expected %s", cases[i][0],
			found, cases[i][1]);
	}
}
