#include "workloads/study/trace_stat.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/integer.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/sort.h"

/* Statistics of a trace beside naive ones, which keep every row and look at all of them. */

enum { ROWS_MAX = 120, IDS_MAX = 6 };

struct drawn_row {
	uint64_t arrival_ns;
	uint32_t input_length, output_length;
	bool has_ids;
	uint64_t ids[IDS_MAX];
	uint32_t id_count;
};

struct drawn_trace {
	struct drawn_row rows[ROWS_MAX];
	uint32_t count, block_size;
};

static void draw_trace(struct prop *prop, struct drawn_trace *trace)
{
	/* The longest make centuries, the sums of which are scaled down. */
	static const uint64_t gaps[] = {1, 20, 40000, 3000000, 40000000000, 50000000000000};
	uint64_t now_us = prop_below(prop, 5000000);

	trace->count = prop_range(prop, 1, prop_chance(prop, 1, 4) ? 3 : ROWS_MAX);
	trace->block_size = prop_range(prop, 1, 9);
	uint64_t gap = gaps[prop_below(prop, 6)];
	for (uint32_t i = 0; i < trace->count; i++) {
		struct drawn_row *row = &trace->rows[i];
		uint32_t blocks = prop_range(prop, 1, IDS_MAX);
		/* Whole microseconds, in which gaps are squared. */
		now_us += i > 0 && prop_chance(prop, 3, 4) ? prop_below(prop, gap) : 0;
		*row = (struct drawn_row){
			.arrival_ns = now_us * 1000,
			.input_length =
				blocks * trace->block_size - prop_below(prop, trace->block_size),
			.output_length =
				prop_range(prop, 1, prop_chance(prop, 1, 8) ? 1 << 28 : 90),
			.has_ids = prop_chance(prop, 2, 3),
			.id_count = blocks,
		};
		for (uint32_t j = 0; j < blocks; j++) {
			row->ids[j] = prop_below(prop, 3);
		}
	}
	prop_log(prop, "%u rows, gaps below %llu us, blocks of %u", trace->count,
		(unsigned long long)gap, trace->block_size);
}

/* ---- naive figures ---- */

static void require_lengths(
	const struct length_stat *found, const uint64_t *lengths, uint32_t count, const char *what)
{
	uint64_t sorted[ROWS_MAX], sum = 0;

	memcpy(sorted, lengths, count * sizeof(*sorted));
	sort_u64(sorted, count);
	for (uint32_t i = 0; i < count; i++) {
		sum += sorted[i];
	}
	require(found->sum == sum && found->minimum == sorted[0] &&
			found->maximum == sorted[count - 1],
		"sum or limits of %s", what);
	/* Nearest rank: the first value that so many percent of all do not exceed. */
	const uint32_t percentiles[][2] = {{50, found->p50}, {90, found->p90}, {99, found->p99}};
	for (uint32_t p = 0; p < 3; p++) {
		uint32_t rank = 1;
		while (rank * 100 < percentiles[p][0] * count) {
			rank++;
		}
		require(percentiles[p][1] == sorted[rank - 1], "p%u of %s is %u, expected %llu",
			percentiles[p][0], what, percentiles[p][1],
			(unsigned long long)sorted[rank - 1]);
	}
}

static void require_gaps(const struct trace_stat *stat, const struct drawn_trace *trace)
{
	uint32_t gaps = trace->count - 1;
	double span = (double)(trace->rows[gaps].arrival_ns - trace->rows[0].arrival_ns);
	double mean = gaps == 0 ? 0 : span / gaps, variance = 0;

	if (mean == 0) {
		require(stat->gap_cv < 0, "a CV of no gaps");
		return;
	}
	for (uint32_t i = 0; i < gaps; i++) {
		double gap = (double)(trace->rows[i + 1].arrival_ns - trace->rows[i].arrival_ns);
		variance += (gap - mean) * (gap - mean) / gaps;
	}
	double expected = sqrt(variance) / mean;
	require(fabs(stat->gap_cv - expected) < 1e-4 + 1e-5 * expected, "CV is %f, expected %f",
		stat->gap_cv, expected);
}

static void require_seconds(const struct trace_stat *stat, const struct drawn_trace *trace)
{
	uint64_t best = 0, best_second = 0;

	for (uint32_t i = 0; i < trace->count; i++) {
		uint64_t second = trace->rows[i].arrival_ns / 1000000000, count = 0;
		for (uint32_t j = 0; j < trace->count; j++) {
			count += trace->rows[j].arrival_ns / 1000000000 == second;
		}
		best_second = count > best ? second : best_second;
		best = count > best ? count : best;
	}
	require_equal(stat->peak_second, best_second);
	require_equal(stat->peak_second_count, best);
}

static void require_bins(const struct trace_stat *stat, const struct drawn_trace *trace)
{
	uint64_t bins[TRACE_STAT_BINS] = {0};
	uint64_t span_ns = trace->rows[trace->count - 1].arrival_ns - trace->rows[0].arrival_ns;
	uint64_t bin_ns = 1000000;

	while (span_ns / bin_ns >= TRACE_STAT_BINS) {
		bin_ns *= 2;
	}
	require_equal(stat->bin_ns, bin_ns);
	for (uint32_t i = 0; i < trace->count; i++) {
		bins[(trace->rows[i].arrival_ns - trace->rows[0].arrival_ns) / bin_ns]++;
	}
	for (uint32_t i = 0; i < TRACE_STAT_BINS; i++) {
		require_equal(stat->bins[i], bins[i]);
	}
}

/* Whether a row before has the same ids from its first to this one. */
static bool was_there(const struct drawn_trace *trace, uint32_t at, uint32_t index)
{
	const struct drawn_row *row = &trace->rows[at];

	for (uint32_t i = 0; row->has_ids && i < at; i++) {
		const struct drawn_row *other = &trace->rows[i];
		if (other->has_ids && other->id_count > index &&
			memcmp(other->ids, row->ids, (index + 1) * sizeof(*row->ids)) == 0) {
			return true;
		}
	}
	return false;
}

/* An infinite cache finds every block that was there before, behind the same ones. A prompt's last
   one may be partial. */
static void require_blocks(const struct trace_stat *stat, const struct drawn_trace *trace)
{
	uint64_t references = 0, unique = 0, hits = 0, tokens = 0;
	bool has_ids = false;

	for (uint32_t i = 0; i < trace->count; i++) {
		const struct drawn_row *row = &trace->rows[i];
		references += row->id_count;
		has_ids = has_ids || row->has_ids;
		for (uint32_t j = 0; j < row->id_count; j++) {
			uint32_t left = row->input_length - j * trace->block_size;
			bool is_hit = was_there(trace, i, j);
			hits += is_hit;
			tokens += is_hit ? u32_min(left, trace->block_size) : 0;
			unique += !is_hit;
		}
	}
	require_equal(stat->block_references, references);
	require_equal(stat->unique_blocks, unique);
	require_equal(stat->has_ids, has_ids);
	require_equal(stat->ideal.blocks, hits);
	require_equal(stat->ideal.tokens, tokens);
}

static void body_stat(struct prop *prop, const void *context)
{
	static struct drawn_trace trace;
	static struct trace_stat stat;
	uint64_t inputs[ROWS_MAX], outputs[ROWS_MAX];
	struct error error = {0};
	(void)context;

	draw_trace(prop, &trace);
	trace_stat_init(&stat, trace.block_size);
	for (uint32_t i = 0; i < trace.count; i++) {
		const struct drawn_row *drawn = &trace.rows[i];
		struct trace_row row = {.index = i,
			.arrival_ns = drawn->arrival_ns,
			.input_length = drawn->input_length,
			.output_length = drawn->output_length,
			.turn_index = NO_TURN,
			.hash_ids = drawn->has_ids ? drawn->ids : NULL,
			.hash_id_count = drawn->has_ids ? drawn->id_count : 0};
		require_equal(trace_stat_add(&stat, &row, &error), STATUS_OK);
		inputs[i] = drawn->input_length;
		outputs[i] = drawn->output_length;
	}
	trace_stat_finish(&stat);
	require_equal(stat.row_count, trace.count);
	require_equal(stat.first_ns, trace.rows[0].arrival_ns);
	require_equal(stat.last_ns, trace.rows[trace.count - 1].arrival_ns);
	require_lengths(&stat.input, inputs, trace.count, "the inputs");
	require_lengths(&stat.output, outputs, trace.count, "the outputs");
	require_gaps(&stat, &trace);
	require_seconds(&stat, &trace);
	require_bins(&stat, &trace);
	require_blocks(&stat, &trace);
	trace_stat_deinit(&stat);
}

Test(trace_stat, figures_equal_naive_ones)
{
	const struct prop_options options = {
		.name = "trace stat", .body = body_stat, .trials = 2000};

	cr_assert(prop_holds(&options));
}

Test(trace_stat, of_no_row_has_no_figures)
{
	struct trace_stat stat;

	trace_stat_init(&stat, 16);
	trace_stat_finish(&stat);
	require_equal(stat.row_count, 0);
	require_equal(stat.input.sum, 0);
	require_equal(stat.output.maximum, 0);
	require_equal(stat.block_references, 0);
	require(stat.gap_cv < 0, "a CV of no gaps");
	trace_stat_deinit(&stat);
}
