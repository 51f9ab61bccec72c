#include "workloads/study/trace_stat.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "workloads/generate/fixed.h"

#include <stdlib.h>
#include <string.h>

enum { NS_PER_US = 1000, BIN_NS_AT_START = 1000000, CV_SQUARE_MAX = 1 << 30 };

#define NS_PER_S UINT64_C(1000000000)

void trace_stat_init(struct trace_stat *stat, uint32_t block_size)
{
	*stat = (struct trace_stat){.bin_ns = BIN_NS_AT_START};
	references_init(&stat->references, block_size);
	stat->conversations = conversations_open(block_size);
}

void trace_stat_deinit(struct trace_stat *stat)
{
	free(stat->inputs);
	free(stat->outputs);
	references_deinit(&stat->references);
	conversations_close(stat->conversations);
	*stat = (struct trace_stat){0};
}

/* Counts an arrival in its bin. Bins double in width when the last one is passed. */
static void count_in_bin(struct trace_stat *stat, uint64_t after_first_ns)
{
	while (after_first_ns / stat->bin_ns >= TRACE_STAT_BINS) {
		for (uint32_t i = 0; i < TRACE_STAT_BINS; i++) {
			stat->bins[i] = i < TRACE_STAT_BINS / 2
						? stat->bins[2 * i] + stat->bins[2 * i + 1]
						: 0;
		}
		stat->bin_ns *= 2;
	}
	stat->bins[after_first_ns / stat->bin_ns]++;
}

static void count_arrival(struct trace_stat *stat, uint64_t arrival_ns)
{
	uint64_t second = arrival_ns / NS_PER_S;

	tick_finder_add(&stat->ticks, arrival_ns);

	if (stat->row_count == 0) {
		stat->first_ns = arrival_ns;
		stat->second = second;
	} else {
		uint64_t gap_us = (arrival_ns - stat->last_ns) / NS_PER_US;
		stat->gap_squares += (trace_stat_sum)gap_us * gap_us;
	}
	count_in_bin(stat, arrival_ns - stat->first_ns);
	if (second != stat->second) {
		stat->second = second;
		stat->second_count = 0;
	}
	stat->second_count++;
	if (stat->second_count > stat->peak_second_count) {
		stat->peak_second_count = stat->second_count;
		stat->peak_second = second;
	}
	stat->last_ns = arrival_ns;
}

enum status trace_stat_add(struct trace_stat *stat, struct trace_row *row, struct error *error)
{
	uint64_t blocks = row_block_count(row, stat->references.block_size);

	count_arrival(stat, row->arrival_ns);
	stat->inputs = memory_grow(
		stat->inputs, &stat->input_capacity, stat->row_count + 1, sizeof(uint32_t));
	stat->outputs = memory_grow(
		stat->outputs, &stat->output_capacity, stat->row_count + 1, sizeof(uint32_t));
	stat->inputs[stat->row_count] = row->input_length;
	stat->outputs[stat->row_count] = row->output_length;
	stat->row_count++;
	stat->block_references += blocks;
	conversations_add(stat->conversations, row);
	stat->follow_up_count += row->span_count > 0;
	if (row->hash_ids == NULL && row->prompt_ids == NULL) {
		stat->blocks_without_ids += blocks;
		return STATUS_OK;
	}
	stat->has_ids = true;
	return references_add(&stat->references, row, error);
}

/* Sorts by ten bits at a time, low ones first: lengths have 29 bits, and a trace may have millions.
 */
static void sort_lengths(uint32_t *lengths, uint64_t count)
{
	enum { BITS = 10, BINS = 1 << BITS };
	uint32_t *from = lengths;
	uint32_t *spare = memory_take(count, sizeof(*spare));
	uint32_t *to = spare;

	for (uint32_t shift = 0; shift < 3 * BITS; shift += BITS) {
		uint64_t starts[BINS + 1] = {0};
		for (uint64_t i = 0; i < count; i++) {
			starts[(from[i] >> shift) % BINS + 1]++;
		}
		for (uint32_t bin = 0; bin < BINS; bin++) {
			starts[bin + 1] += starts[bin];
		}
		for (uint64_t i = 0; i < count; i++) {
			to[starts[(from[i] >> shift) % BINS]++] = from[i];
		}
		uint32_t *swapped = from;
		from = to;
		to = swapped;
	}
	memcpy(lengths, from, count * sizeof(*lengths)); /* after three passes the result is in
							    spare */
	free(spare);
}

/* The smallest value that `percent` of all do not exceed. */
static uint32_t percentile(const uint32_t *sorted, uint64_t count, uint64_t percent)
{
	return sorted[u64_max(u64_divide_up(count * percent, 100), 1) - 1];
}

static struct length_stat length_stat(uint32_t *lengths, uint64_t count)
{
	struct length_stat stat = {0};

	for (uint64_t i = 0; i < count; i++) {
		stat.sum += lengths[i];
	}
	if (count > 0) {
		sort_lengths(lengths, count);
		stat.minimum = lengths[0];
		stat.p50 = percentile(lengths, count, 50);
		stat.p90 = percentile(lengths, count, 90);
		stat.p99 = percentile(lengths, count, 99);
		stat.maximum = lengths[count - 1];
	}
	return stat;
}

/* sqrt(n * sum of squares / square of the sum - 1), from exact sums. */
static double gap_cv(const struct trace_stat *stat)
{
	uint64_t gaps = stat->row_count == 0 ? 0 : stat->row_count - 1;
	uint64_t sum = (stat->last_ns - stat->first_ns) / NS_PER_US;
	trace_stat_sum squares = stat->gap_squares;

	if (gaps == 0 || sum == 0) {
		return -1;
	}
	while (sum >> 45 != 0) { /* keeps the products below within 128 bits */
		sum /= 2;
		squares /= 4;
	}
	trace_stat_sum above = squares * gaps;
	trace_stat_sum below = (trace_stat_sum)sum * sum;
	if (above <= below) {
		return 0;
	}
	double square = (double)(above - below) / (double)below;
	square = square < CV_SQUARE_MAX ? square : CV_SQUARE_MAX;
	return (double)fixed_root((int64_t)(square * (double)FIXED_ONE)) / (double)FIXED_ONE;
}

void trace_stat_finish(struct trace_stat *stat)
{
	stat->input = length_stat(stat->inputs, stat->row_count);
	stat->output = length_stat(stat->outputs, stat->row_count);
	stat->gap_cv = gap_cv(stat);
	stat->unique_blocks = stat->references.block_count + stat->blocks_without_ids;
	stat->ideal = cache_infinite(&stat->references);
	stat->turn_count = conversations_turn_count(stat->conversations);
	stat->session_count = conversations_session_count(stat->conversations);
}
