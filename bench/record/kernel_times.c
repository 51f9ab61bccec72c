#include "bench/record/kernel_times.h"

#include "engine/profiling/kernel_name.h"
#include "bench/record/kernel_times_state.h"
#include "bench/record/perfetto.h"
#include "engine/base/check.h"
#include "engine/base/memory.h"
#include "engine/profiling/nvtx.h"
#include "engine/shape/work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char other[] = "other"; /* launched outside all ranges */

/* ---- opening ---- */

struct kernel_times *kernel_times_open(const struct kernel_source *source,
	const struct model_config *model, uint32_t ranks, struct perfetto *timeline)
{
	struct kernel_times *times = memory_take(1, sizeof(*times));

	times->source = *source;
	times->model = *model;
	times->ranks = ranks;
	times->timeline = timeline;
	times->steps = memory_take(STEPS_KEPT, sizeof(*times->steps));
	times->records = memory_take(RECORDS_AT_ONCE, sizeof(*times->records));
	times->pending = memory_take(PENDING_MAX, sizeof(*times->pending));
	times->groups = memory_take(GROUPS_MAX, sizeof(*times->groups));
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
	for (uint32_t i = 0; i < STEP_KIND_COUNT; i++) {
		map_deinit(&times->groups_of_sites[i]);
	}
	free(times->bins);
	free(times);
}

/* ---- groups ---- */

/* Operations beyond OPERATIONS_MAX count as "other" too. */
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

/* The group of a phase, path and layer, added if it is new; GROUPS_MAX: the table is full. */
static uint32_t group_index(struct kernel_times *times, enum step_kind phase, const char *path,
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

/* A kernel of a graph has two sites: the ranges around the graph's launch come before those around
   the kernel's capture. */
static uint32_t new_group(
	struct kernel_times *times, enum step_kind phase, const struct kernel_record *record)
{
	const struct kernel_source *source = &times->source;
	char path[PATH_BYTES];
	struct kernel_site site = source->site(source->state, record->launch_site);

	if (record->graph_site == KERNEL_NO_SITE) {
		return group_index(times, phase, site.path, site.operation, site.layer);
	}
	struct kernel_site inner = source->site(source->state, record->graph_site);
	int size = snprintf(path, PATH_BYTES, "%s/%s", site.path, inner.path);
	check(size > 0); /* truncated if it is too long */
	return group_index(times, phase, path, inner.operation, inner.layer);
}

static uint32_t group_of(
	struct kernel_times *times, enum step_kind phase, const struct kernel_record *record)
{
	struct map *groups = &times->groups_of_sites[phase];
	uint64_t sites = (uint64_t)record->launch_site << 32 | record->graph_site;
	const uint64_t *known = map_find(groups, sites);

	if (known == NULL) {
		known = map_add(groups, sites, new_group(times, phase, record));
	}
	return (uint32_t)*known;
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

static void begin_call(struct kernel_times *times, struct group *group,
	const struct kernel_record *record, const struct step_counts *counts)
{
	const char *operation = times->operations[group->operation];
	const struct range_counts range = {
		.rows = record->rows,
		.ranks = times->ranks,
		.decode_contexts = counts->decode_context_tokens,
		.prefill_pairs = counts->prefill_attention_pairs,
	};
	struct work work = work_of_range(&times->model, operation, &range);

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

/* The start of a record on the run's clock. A step launched ahead begins on the GPU before the host
   has noticed the end of the preceding one. */
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
	enum step_kind phase = step_kind_of(&step->counts);
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

/* Adds a record whose step is over, or keeps it until its step is over. */
static void sort_record(struct kernel_times *times, const struct kernel_record *record)
{
	const struct step_info *step = &times->steps[record->step % STEPS_KEPT];

	if (record->step == RANGE_NO_STEP) {
		return; /* launched before the first step */
	}
	if (step->is_known && step->step == record->step) {
		add_record(times, step, record);
	} else if (step->is_known && step->step > record->step) {
		times->lost++; /* its step is older than the steps kept */
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

static void read_records(struct kernel_times *times)
{
	const struct kernel_source *source = &times->source;
	size_t count = times->pending_count;

	/* In place: the write position never passes the read position. */
	times->pending_count = 0;
	for (size_t i = 0; i < count; i++) {
		const struct kernel_record record = times->pending[i];
		sort_record(times, &record);
	}
	while ((count = source->take(source->state, times->records, RECORDS_AT_ONCE)) > 0) {
		qsort(times->records, count, sizeof(*times->records), compare_start);
		for (size_t i = 0; i < count; i++) {
			sort_record(times, &times->records[i]);
		}
	}
}

void kernel_times_step(struct kernel_times *times, uint64_t step, const struct step_counts *counts,
	uint64_t start_ns, uint64_t end_ns)
{
	struct phase_total *phase = &times->phases[step_kind_of(counts)];

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
	read_records(times);
}

void kernel_times_finish(struct kernel_times *times)
{
	times->source.flush(times->source.state);
	read_records(times);
	times->lost += times->pending_count; /* records of a step that failed */
	times->pending_count = 0;
	for (uint32_t i = 0; i < times->group_count; i++) {
		end_call(&times->groups[i]);
	}
	/* Bins shorter than a step would resolve the operations within a step. */
	uint64_t steps = 0;
	for (uint32_t i = 0; i < STEP_KIND_COUNT; i++) {
		steps += times->phases[i].steps;
	}
	while (times->bin_count > u64_max(steps / 4, 1)) {
		double_bins(times);
	}
}
