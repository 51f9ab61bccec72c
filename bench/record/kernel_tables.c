#include "engine/profiling/kernel_name.h"
#include "bench/record/kernel_times_state.h"
#include "engine/base/memory.h"
#include "engine/base/number.h"
#include "engine/profiling/nvtx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The tables and the summary of the sums in kernel_times.c. */

static uint64_t operation_sum(const struct kernel_times *times, uint32_t operation)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < STEP_KIND_COUNT; i++) {
		sum += times->phases[i].sum_ns[operation];
	}
	return sum;
}

/* Ranks the operations by time, longest first; order: (OPERATIONS_MAX). */
static void rank_operations(const struct kernel_times *times, uint32_t *order)
{
	for (uint32_t i = 0; i < times->operation_count; i++) {
		uint32_t at = i;
		uint64_t sum = operation_sum(times, i);
		while (at > 0 && operation_sum(times, order[at - 1]) < sum) {
			order[at] = order[at - 1];
			at--;
		}
		order[at] = i;
	}
}

static int compare_groups(const void *a, const void *b)
{
	const struct group *first = *(const struct group *const *)a;
	const struct group *second = *(const struct group *const *)b;

	if (first->phase != second->phase) {
		return (first->phase > second->phase) - (first->phase < second->phase);
	}
	int paths = strcmp(first->path, second->path);
	return paths != 0 ? paths : (first->layer > second->layer) - (first->layer < second->layer);
}

/* Work per nanosecond / 1000: TB/s for bytes, TFLOP/s for FLOPs. */
static void table_rate(struct table_writer *table, bool is_known, u128 work, uint64_t ns)
{
	if (is_known && ns > 0) {
		table_decimal(table, (uint64_t)(work / ns), 3);
	} else {
		table_none(table);
	}
}

static void table_work(struct table_writer *table, bool is_known, u128 work)
{
	if (is_known && work <= UINT64_MAX) {
		table_u64(table, (uint64_t)work);
	} else {
		table_none(table);
	}
}

static void write_group(
	const struct kernel_times *times, const struct group *group, struct table_writer *table)
{
	char name[KERNEL_NAME_BYTES];
	uint32_t most = 0;

	for (uint32_t i = 1; i < KERNELS_OF_GROUP; i++) {
		most = group->names[i].sum_ns > group->names[most].sum_ns ? i : most;
	}
	kernel_name_short(group->names[most].name, name);
	table_text(table, step_kind_name(group->phase));
	table_text(table, group->path[0] == '\0' ? NULL : group->path);
	table_text(table, times->operations[group->operation]);
	if (group->layer == RANGE_NO_LAYER) {
		table_none(table);
	} else {
		table_u64(table, group->layer);
	}
	table_u64(table, group->calls.count);
	table_u64(table, group->kernels);
	table_u64(table, group->sum_ns);
	table_u64(table, histogram_mean(&group->calls));
	table_u64(table, histogram_percentile(&group->calls, 500));
	table_u64(table, histogram_percentile(&group->calls, 990));
	table_work(table, group->has_bytes, group->bytes);
	table_work(table, group->has_flops, group->flops);
	table_rate(table, group->has_bytes, group->bytes, group->sum_ns);
	table_rate(table, group->has_flops, group->flops, group->sum_ns);
	table_text(table, name);
	table_end_row(table);
}

void kernel_times_write(const struct kernel_times *times, struct table_writer *table)
{
	const struct group **order = memory_take(times->group_count + 1, sizeof(struct group *));

	for (uint32_t i = 0; i < times->group_count; i++) {
		order[i] = &times->groups[i];
	}
	qsort(order, times->group_count, sizeof(struct group *), compare_groups);
	for (uint32_t i = 0; i < times->group_count; i++) {
		write_group(times, order[i], table);
	}
	free(order);
}

void kernel_times_write_phases(const struct kernel_times *times, struct table_writer *table)
{
	uint32_t order[OPERATIONS_MAX];

	rank_operations(times, order);
	for (uint32_t i = 0; i < STEP_KIND_COUNT; i++) {
		const struct phase_total *phase = &times->phases[i];
		uint64_t below_ns = 0;
		for (uint32_t k = 0; k < times->operation_count && phase->steps > 0; k++) {
			uint64_t sum_ns = phase->sum_ns[order[k]];
			table_text(table, step_kind_name((enum step_kind)i));
			table_u64(table, phase->steps);
			table_u64(table, phase->step_ns);
			table_u64(table, phase->busy_ns);
			table_text(table, times->operations[order[k]]);
			table_u64(table, k + 1);
			table_u64(table, sum_ns);
			table_u64(table, below_ns);
			table_end_row(table);
			below_ns += sum_ns;
		}
	}
}

void kernel_times_write_timeline(const struct kernel_times *times, struct table_writer *table)
{
	uint32_t order[OPERATIONS_MAX];
	uint64_t below_ns[BINS_MAX] = {0};

	rank_operations(times, order);
	for (uint32_t k = 0; k < times->operation_count; k++) {
		for (uint32_t i = 0; i < times->bin_count; i++) {
			uint64_t sum_ns = times->bins[i][order[k]];
			table_text(table, times->operations[order[k]]);
			table_u64(table, k + 1);
			table_decimal(table, times->origin_ns + i * times->bin_ns, 9);
			table_decimal(table, times->bin_ns, 9);
			table_u64(table, sum_ns);
			table_u64(table, below_ns[i]);
			table_end_row(table);
			below_ns[i] += sum_ns;
		}
	}
}

struct kernel_totals kernel_times_totals(const struct kernel_times *times)
{
	struct kernel_totals totals = {
		.records = times->record_count,
		.lost = times->lost + times->source.lost(times->source.state),
	};

	for (uint32_t i = 0; i < STEP_KIND_COUNT; i++) {
		totals.step_ns += times->phases[i].step_ns;
		totals.busy_ns += times->phases[i].busy_ns;
	}
	for (uint32_t i = 0; i < times->operation_count; i++) {
		totals.sum_ns += operation_sum(times, i);
	}
	return totals;
}

/* One line: the operation's time, its share of the steps' time, and its bandwidth and FLOP rate. */
static void print_operation(
	const struct kernel_times *times, uint32_t operation, const struct kernel_totals *totals)
{
	char seconds[NUMBER_TEXT_BYTES], share[NUMBER_TEXT_BYTES];
	char bytes_rate[NUMBER_TEXT_BYTES] = "-", flops_rate[NUMBER_TEXT_BYTES] = "-";
	uint64_t sum_ns = operation_sum(times, operation);
	bool has_bytes = true, has_flops = true;
	u128 bytes = 0, flops = 0;

	for (uint32_t i = 0; i < times->group_count; i++) {
		const struct group *group = &times->groups[i];
		if (group->operation == operation) {
			has_bytes = has_bytes && group->has_bytes;
			has_flops = has_flops && group->has_flops;
			bytes += group->bytes;
			flops += group->flops;
		}
	}
	rounded_text(seconds, sum_ns, 1000000000, 3, "-");
	rounded_text(share, (u128)sum_ns * 100, totals->step_ns, 1, "-");
	if (has_bytes) {
		rounded_text(bytes_rate, bytes, (u128)sum_ns * 1000, 2, "-");
	}
	if (has_flops) {
		rounded_text(flops_rate, flops, (u128)sum_ns * 1000, 1, "-");
	}
	printf("  %-20s %9s s %6s %% %8s TB/s %8s TFLOP/s\n", times->operations[operation], seconds,
		share, bytes_rate, flops_rate);
}

void kernel_times_print(const struct kernel_times *times)
{
	enum { PRINTED_MAX = 12 };
	uint32_t order[OPERATIONS_MAX];
	char share[NUMBER_TEXT_BYTES], sum[NUMBER_TEXT_BYTES];
	struct kernel_totals totals = kernel_times_totals(times);

	rank_operations(times, order);
	rounded_text(share, (u128)totals.busy_ns * 100, totals.step_ns, 1, "-");
	rounded_text(sum, (u128)totals.sum_ns * 100, totals.step_ns, 1, "-");
	printf("\nGPU time by operation, of the steps' time (the GPU was busy for %s %%; kernels "
	       "may "
	       "overlap, their sum is %s %%)\n",
		share, sum);
	for (uint32_t i = 0; i < u32_min(times->operation_count, PRINTED_MAX); i++) {
		print_operation(times, order[i], &totals);
	}
	printf("  %llu %s", (unsigned long long)totals.records,
		word_of_count(totals.records, "kernel, copy or fill", "kernels, copies and fills"));
	if (totals.lost > 0) {
		printf("; %llu more %s lost", (unsigned long long)totals.lost,
			word_of_count(totals.lost, "was", "were"));
	}
	printf("\n");
}
