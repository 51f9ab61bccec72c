#include "bench/record/kernel_times.h"

#include "bench/record/histogram.h"
#include "bench/record/perfetto.h"
#include "engine/base/check.h"
#include "engine/base/memory.h"
#include "engine/profiling/nvtx.h"
#include "engine/shape/work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	STEPS_KEPT = 1 << 14,
	RECORDS_AT_ONCE = 1 << 12,
	PENDING_MAX = 1 << 16, /* records of a step that is not over yet */
	GROUPS_MAX = 1 << 12,
	ALIASES_MAX = 1 << 14, /* a power of two */
	OPERATIONS_MAX = 48,
	KERNELS_OF_GROUP = 6,
	BINS_MAX = 120,
	PATH_BYTES = 128,
};

static const char other[] = "other"; /* what no range was open around */

struct step_info {
	bool is_known;
	uint64_t step;
	struct step_counts counts;
	uint64_t end_ns;	/* on the run's clock */
	uint64_t source_end_ns; /* its end on the source's */
};

/* A range under one kind of step: a row of kernels.tsv. */
struct group {
	enum kernel_phase phase;
	char path[PATH_BYTES];
	uint32_t operation;
	uint32_t layer;
	uint64_t kernels;
	uint64_t sum_ns;
	struct histogram calls; /* time of each, of all its kernels */
	bool has_bytes, has_flops;
	u128 bytes, flops;
	struct {
		const char *name;
		uint64_t sum_ns;
	} names[KERNELS_OF_GROUP]; /* of the first few */

	/* the call being added up */
	bool is_open;
	uint64_t step;
	uint32_t call;
	uint64_t call_ns;
};

/* Where records of two sites go: a few pairs of sites may say the same. */
struct alias {
	bool is_taken;
	enum kernel_phase phase;
	uint32_t launch_site, graph_site;
	uint32_t group; /* GROUPS_MAX: there was no room */
};

struct phase_total {
	uint64_t steps;
	uint64_t step_ns;
	uint64_t busy_ns;
	uint64_t sum_ns[OPERATIONS_MAX];
};

struct kernel_times {
	struct kernel_source source;
	struct model_config model;
	struct perfetto *timeline;

	struct step_info *steps;       /* (STEPS_KEPT) by step % STEPS_KEPT */
	struct kernel_record *records; /* (RECORDS_AT_ONCE) */
	struct kernel_record *pending; /* (PENDING_MAX) */
	size_t pending_count;

	struct group *groups; /* (GROUPS_MAX) */
	uint32_t group_count;
	struct alias *aliases; /* (ALIASES_MAX) open addressing */
	uint32_t alias_count;
	char operations[OPERATIONS_MAX][PATH_BYTES];
	uint32_t operation_count;
	struct phase_total phases[PHASE_COUNT];

	uint64_t record_count, lost;
	uint64_t busy_end_ns; /* on the source's clock: all seen so far has ended by then */

	bool has_origin;
	uint64_t origin_ns;
	uint64_t bin_ns;
	uint32_t bin_count;
	uint64_t (*bins)[OPERATIONS_MAX]; /* (BINS_MAX) */
};

const char *kernel_phase_name(enum kernel_phase phase)
{
	static const char *const names[PHASE_COUNT] = {"decode", "prefill", "mixed"};

	return names[phase];
}

enum kernel_phase kernel_phase_of(const struct step_counts *counts)
{
	return counts->prefill_rows == 0  ? PHASE_DECODE
	       : counts->decode_rows == 0 ? PHASE_PREFILL
					  : PHASE_MIXED;
}

/* The length of the identifier that starts at `at`, when its length stands in front of it as the
   compiler writes it; *at is moved to the identifier. 0: there is none. */
static size_t identifier_size(const char **at)
{
	size_t size = 0;

	while (**at >= '0' && **at <= '9' && size < 1000) {
		size = size * 10 + (size_t)(**at - '0');
		(*at)++;
	}
	return size <= strlen(*at) ? size : 0;
}

void kernel_name_short(const char *name, char *short_name)
{
	const char *found = name;
	size_t size = strlen(name);

	if (strncmp(name, "_Z", 2) == 0) {
		const char *at = name + 2;
		bool is_nested = *at == 'N';
		at += is_nested;
		at += *at == 'L';
		for (size_t part; (part = identifier_size(&at)) > 0; at += part) {
			/* What has no name of its own is in front of what has. */
			if (strncmp(at, "_GLOBAL_", 8) != 0 && strncmp(at, "_INTERNAL_", 10) != 0) {
				found = at;
				size = part;
			}
			if (!is_nested) {
				break;
			}
		}
	}
	size = u64_min(size, KERNEL_NAME_BYTES - 1);
	memcpy(short_name, found, size);
	short_name[size] = '\0';
}

/* ---- opening ---- */

struct kernel_times *kernel_times_open(const struct kernel_source *source,
	const struct model_config *model, struct perfetto *timeline)
{
	struct kernel_times *times = memory_take(1, sizeof(*times));

	times->source = *source;
	times->model = *model;
	times->timeline = timeline;
	times->steps = memory_take(STEPS_KEPT, sizeof(*times->steps));
	times->records = memory_take(RECORDS_AT_ONCE, sizeof(*times->records));
	times->pending = memory_take(PENDING_MAX, sizeof(*times->pending));
	times->groups = memory_take(GROUPS_MAX, sizeof(*times->groups));
	times->aliases = memory_take(ALIASES_MAX, sizeof(*times->aliases));
	times->bins = memory_take(BINS_MAX, sizeof(*times->bins));
	times->bin_ns = 1000;
	return times;
}

void kernel_times_close(struct kernel_times *times)
{
	if (times == NULL) {
		return;
	}
	for (uint32_t i = 0; i < times->group_count; i++) {
		histogram_deinit(&times->groups[i].calls);
	}
	free(times->steps);
	free(times->records);
	free(times->pending);
	free(times->groups);
	free(times->aliases);
	free(times->bins);
	free(times);
}

/* ---- groups ---- */

/* What does not fit the table is "other" too. */
static uint32_t operation_index(struct kernel_times *times, const char *name)
{
	const char *wanted = name[0] == '\0' ? other : name;

	for (uint32_t i = 0; i < times->operation_count; i++) {
		if (strcmp(times->operations[i], wanted) == 0) {
			return i;
		}
	}
	if (times->operation_count == OPERATIONS_MAX - 1 && wanted != other) {
		return operation_index(times, "");
	}
	check(times->operation_count < OPERATIONS_MAX);
	snprintf(times->operations[times->operation_count], PATH_BYTES, "%s", wanted);
	return times->operation_count++;
}

/* The group of a phase, path and layer, added if it is new; GROUPS_MAX: no room. */
static uint32_t group_index(struct kernel_times *times, enum kernel_phase phase, const char *path,
	const char *operation, uint32_t layer)
{
	for (uint32_t i = 0; i < times->group_count; i++) {
		const struct group *group = &times->groups[i];
		if (group->phase == phase && group->layer == layer &&
			strcmp(group->path, path) == 0) {
			return i;
		}
	}
	if (times->group_count == GROUPS_MAX) {
		return GROUPS_MAX;
	}
	struct group *group = &times->groups[times->group_count];
	group->phase = phase;
	group->layer = layer;
	group->operation = operation_index(times, operation);
	group->has_bytes = group->has_flops = true;
	snprintf(group->path, PATH_BYTES, "%s", path);
	histogram_init(&group->calls);
	return times->group_count++;
}

/* Of a record that was captured, the ranges around the launch come first. */
static uint32_t new_group(
	struct kernel_times *times, enum kernel_phase phase, const struct kernel_record *record)
{
	const struct kernel_source *source = &times->source;
	char path[PATH_BYTES];
	struct kernel_site site = source->site(source->state, record->launch_site);

	if (record->graph_site == KERNEL_NO_SITE) {
		return group_index(times, phase, site.path, site.operation, site.layer);
	}
	struct kernel_site inner = source->site(source->state, record->graph_site);
	int size = snprintf(path, PATH_BYTES, "%s/%s", site.path, inner.path);
	check(size > 0); /* cut if it is too long */
	return group_index(times, phase, path, inner.operation, inner.layer);
}

static uint32_t group_of(
	struct kernel_times *times, enum kernel_phase phase, const struct kernel_record *record)
{
	uint64_t hash = (uint64_t)record->launch_site * 0x9e3779b1u +
			(uint64_t)record->graph_site * 0x85ebca6bu + phase;
	uint32_t i = (uint32_t)(hash ^ hash >> 15) & (ALIASES_MAX - 1);

	for (;; i = (i + 1) & (ALIASES_MAX - 1)) {
		struct alias *alias = &times->aliases[i];
		if (!alias->is_taken) {
			break;
		}
		if (alias->phase == phase && alias->launch_site == record->launch_site &&
			alias->graph_site == record->graph_site) {
			return alias->group;
		}
	}
	uint32_t group = new_group(times, phase, record);
	if (times->alias_count < ALIASES_MAX / 2) {
		times->alias_count++;
		times->aliases[i] = (struct alias){.is_taken = true,
			.phase = phase,
			.launch_site = record->launch_site,
			.graph_site = record->graph_site,
			.group = group};
	}
	return group;
}

static void end_call(struct group *group)
{
	if (group->is_open) {
		histogram_add(&group->calls, group->call_ns, 1);
		group->is_open = false;
	}
}

static void add_name(struct group *group, const char *name, uint64_t ns)
{
	for (uint32_t i = 0; i < KERNELS_OF_GROUP; i++) {
		if (group->names[i].name == NULL || group->names[i].name == name) {
			group->names[i].name = name;
			group->names[i].sum_ns += ns;
			return;
		}
	}
}

/* A decode row attends to all of its context. How many tokens the prefill rows read is not among
   the counts of a step. */
static struct attention_counts attention_counts(
	const char *operation, const struct step_counts *counts)
{
	uint64_t decoded = counts->decode_context_tokens;

	return strcmp(operation, "decode_attention") == 0
		       ? (struct attention_counts){.contexts = decoded, .pairs = decoded}
		       : (struct attention_counts){.pairs = counts->prefill_attention_pairs};
}

static void begin_call(struct kernel_times *times, struct group *group,
	const struct kernel_record *record, const struct step_counts *counts)
{
	const char *operation = times->operations[group->operation];
	const struct attention_counts attention = attention_counts(operation, counts);
	struct work work = work_of_range(&times->model, operation, record->rows, &attention);

	end_call(group);
	group->is_open = true;
	group->step = record->step;
	group->call = record->call;
	group->call_ns = 0;
	group->has_bytes = group->has_bytes && (work.bytes > 0 || record->bytes > 0);
	group->has_flops = group->has_flops && work.flops > 0;
	group->bytes += work.bytes;
	group->flops += work.flops;
}

/* ---- records ---- */

static void double_bins(struct kernel_times *times)
{
	for (uint32_t i = 0; i < BINS_MAX / 2; i++) {
		for (uint32_t k = 0; k < OPERATIONS_MAX; k++) {
			times->bins[i][k] = times->bins[2 * i][k] + times->bins[2 * i + 1][k];
		}
	}
	memset(times->bins + BINS_MAX / 2, 0, (BINS_MAX / 2) * sizeof(*times->bins));
	times->bin_ns *= 2;
	times->bin_count = (times->bin_count + 1) / 2;
}

/* Doubles the bins' width until the time falls into one of them. */
static uint64_t *bin_at(struct kernel_times *times, uint64_t time_ns)
{
	while (time_ns / times->bin_ns >= BINS_MAX) {
		double_bins(times);
	}
	uint32_t bin = (uint32_t)(time_ns / times->bin_ns);
	times->bin_count = u32_max(times->bin_count, bin + 1);
	return times->bins[bin];
}

/* When the record began on the run's clock. A step may begin on the GPU a little before it does for
   the host, which has yet to see the end of the one before. */
static uint64_t run_time(const struct kernel_times *times, const struct step_info *step,
	const struct kernel_record *record)
{
	uint64_t back_ns =
		step->source_end_ns > record->start_ns ? step->source_end_ns - record->start_ns : 0;

	return step->end_ns - u64_min(back_ns, step->end_ns - times->origin_ns);
}

static void add_record(struct kernel_times *times, const struct step_info *step,
	const struct kernel_record *record)
{
	enum kernel_phase phase = kernel_phase_of(&step->counts);
	uint64_t ns = record->end_ns > record->start_ns ? record->end_ns - record->start_ns : 0;
	uint32_t index = group_of(times, phase, record);

	if (index == GROUPS_MAX) {
		times->lost++;
		return;
	}
	struct group *group = &times->groups[index];
	struct phase_total *total = &times->phases[phase];
	if (!group->is_open || group->step != record->step || group->call != record->call) {
		begin_call(times, group, record, &step->counts);
	}
	group->call_ns += ns;
	group->sum_ns += ns;
	group->kernels++;
	group->bytes += record->bytes;
	add_name(group, record->name, ns);
	total->sum_ns[group->operation] += ns;
	if (record->end_ns > times->busy_end_ns) {
		total->busy_ns += record->end_ns - u64_max(record->start_ns, times->busy_end_ns);
		times->busy_end_ns = record->end_ns;
	}
	uint64_t start_ns = run_time(times, step, record);
	bin_at(times, start_ns - times->origin_ns)[group->operation] += ns;
	times->record_count++;
	if (times->timeline != NULL) {
		char name[KERNEL_NAME_BYTES];
		kernel_name_short(record->name, name);
		perfetto_kernel(times->timeline, times->operations[group->operation], name,
			start_ns, ns, record->step, group->layer);
	}
}

/* A record of a step that is over, or one to be kept until it is. */
static void place_record(struct kernel_times *times, const struct kernel_record *record)
{
	const struct step_info *step = &times->steps[record->step % STEPS_KEPT];

	if (record->step == RANGE_NO_STEP) {
		return; /* preparations */
	}
	if (step->is_known && step->step == record->step) {
		add_record(times, step, record);
	} else if (step->is_known && step->step > record->step) {
		times->lost++; /* of a step that is forgotten */
	} else if (times->pending_count < PENDING_MAX) {
		times->pending[times->pending_count++] = *record;
	} else {
		times->lost++;
	}
}

static int compare_start(const void *a, const void *b)
{
	const struct kernel_record *first = a, *second = b;

	return (first->start_ns > second->start_ns) - (first->start_ns < second->start_ns);
}

static void take_records(struct kernel_times *times)
{
	const struct kernel_source *source = &times->source;
	size_t count = times->pending_count;

	/* In place: at most as many are kept again as were there. */
	times->pending_count = 0;
	for (size_t i = 0; i < count; i++) {
		const struct kernel_record record = times->pending[i];
		place_record(times, &record);
	}
	while ((count = source->take(source->state, times->records, RECORDS_AT_ONCE)) > 0) {
		qsort(times->records, count, sizeof(*times->records), compare_start);
		for (size_t i = 0; i < count; i++) {
			place_record(times, &times->records[i]);
		}
	}
}

void kernel_times_step(struct kernel_times *times, uint64_t step, const struct step_counts *counts,
	uint64_t start_ns, uint64_t end_ns)
{
	struct phase_total *phase = &times->phases[kernel_phase_of(counts)];

	check(step != RANGE_NO_STEP);
	check(start_ns <= end_ns);
	times->steps[step % STEPS_KEPT] = (struct step_info){
		.is_known = true,
		.step = step,
		.counts = *counts,
		.end_ns = end_ns,
		.source_end_ns = times->source.now(times->source.state),
	};
	if (!times->has_origin) {
		times->has_origin = true;
		times->origin_ns = start_ns;
	}
	phase->steps++;
	phase->step_ns += end_ns - start_ns;
	take_records(times);
}

void kernel_times_finish(struct kernel_times *times)
{
	times->source.flush(times->source.state);
	take_records(times);
	times->lost += times->pending_count; /* of a step that failed */
	times->pending_count = 0;
	for (uint32_t i = 0; i < times->group_count; i++) {
		end_call(&times->groups[i]);
	}
	/* Some steps to a bin, or it would show the operations one after the other. */
	uint64_t steps = 0;
	for (uint32_t i = 0; i < PHASE_COUNT; i++) {
		steps += times->phases[i].steps;
	}
	while (times->bin_count > u64_max(steps / 4, 1)) {
		double_bins(times);
	}
}

/* ---- results ---- */

static uint64_t operation_sum(const struct kernel_times *times, uint32_t operation)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < PHASE_COUNT; i++) {
		sum += times->phases[i].sum_ns[operation];
	}
	return sum;
}

/* Operations by falling time; order: (OPERATIONS_MAX). */
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

/* Units of work a nanosecond, told in thousands of them: TB/s, TFLOP/s. */
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
	table_text(table, kernel_phase_name(group->phase));
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
	table_u64(table, histogram_percentile(&group->calls, 50));
	table_u64(table, histogram_percentile(&group->calls, 99));
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
	for (uint32_t i = 0; i < PHASE_COUNT; i++) {
		const struct phase_total *phase = &times->phases[i];
		uint64_t below_ns = 0;
		for (uint32_t k = 0; k < times->operation_count && phase->steps > 0; k++) {
			uint64_t sum_ns = phase->sum_ns[order[k]];
			table_text(table, kernel_phase_name((enum kernel_phase)i));
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

	for (uint32_t i = 0; i < PHASE_COUNT; i++) {
		totals.step_ns += times->phases[i].step_ns;
		totals.busy_ns += times->phases[i].busy_ns;
	}
	for (uint32_t i = 0; i < times->operation_count; i++) {
		totals.sum_ns += operation_sum(times, i);
	}
	return totals;
}

/* A line: the operation's time, its share of the steps' time, and what it achieved. */
static void print_operation(
	const struct kernel_times *times, uint32_t operation, const struct kernel_totals *totals)
{
	char seconds[TABLE_CELL_BYTES], share[TABLE_CELL_BYTES];
	char bytes_rate[TABLE_CELL_BYTES] = "-", flops_rate[TABLE_CELL_BYTES] = "-";
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
	decimal_text(seconds, sum_ns / 1000000, 3);
	ratio_text(share, (u128)sum_ns * 100, totals->step_ns, 1, "-");
	if (has_bytes) {
		ratio_text(bytes_rate, bytes, (u128)sum_ns * 1000, 2, "-");
	}
	if (has_flops) {
		ratio_text(flops_rate, flops, (u128)sum_ns * 1000, 1, "-");
	}
	printf("  %-20s %9s s %6s %% %8s TB/s %8s TFLOP/s\n", times->operations[operation], seconds,
		share, bytes_rate, flops_rate);
}

void kernel_times_print(const struct kernel_times *times)
{
	enum { PRINTED_MAX = 12 };
	uint32_t order[OPERATIONS_MAX];
	char share[TABLE_CELL_BYTES], sum[TABLE_CELL_BYTES];
	struct kernel_totals totals = kernel_times_totals(times);

	rank_operations(times, order);
	ratio_text(share, (u128)totals.busy_ns * 100, totals.step_ns, 1, "-");
	ratio_text(sum, (u128)totals.sum_ns * 100, totals.step_ns, 1, "-");
	printf("\nGPU time by operation, of the steps' time (the GPU was busy for %s %%; kernels "
	       "may "
	       "overlap, their sum is %s %%)\n",
		share, sum);
	for (uint32_t i = 0; i < u32_min(times->operation_count, PRINTED_MAX); i++) {
		print_operation(times, order[i], &totals);
	}
	printf("  %llu kernels, copies and fills", (unsigned long long)totals.records);
	if (totals.lost > 0) {
		printf("; %llu more were lost", (unsigned long long)totals.lost);
	}
	printf("\n");
}
