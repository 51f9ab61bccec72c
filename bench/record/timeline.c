#include "bench/record/timeline.h"

#include "engine/base/check.h"
#include "engine/base/clock.h"

#include <string.h>

void timeline_init(struct timeline *timeline)
{
	memset(timeline, 0, sizeof(*timeline));
	timeline->bin_ns = 1000;
}

/* out may be first. */
static void bin_add(struct timeline_bin *out, const struct timeline_bin *first,
	const struct timeline_bin *second)
{
	out->running_ns = first->running_ns + second->running_ns;
	out->waiting_ns = first->waiting_ns + second->waiting_ns;
	out->used_blocks_ns = first->used_blocks_ns + second->used_blocks_ns;
	for (uint32_t cause = 0; cause < WAIT_CAUSE_COUNT; cause++) {
		out->wait_ns[cause] = first->wait_ns[cause] + second->wait_ns[cause];
	}
	out->busy_ns = first->busy_ns + second->busy_ns;
	out->hit_tokens = first->hit_tokens + second->hit_tokens;
	out->query_tokens = first->query_tokens + second->query_tokens;
	out->output_tokens = first->output_tokens + second->output_tokens;
	out->prefill_tokens = first->prefill_tokens + second->prefill_tokens;
	out->preemptions = first->preemptions + second->preemptions;
	out->steps = first->steps + second->steps;
}

/* Doubles the bins' width: each becomes the sum of two. */
static void merge_pairs(struct timeline *timeline)
{
	struct timeline_bin *bins = timeline->bins;
	uint32_t count = timeline->bin_count;

	for (uint32_t i = 0; i < count / 2; i++) {
		bin_add(&bins[i], &bins[2 * i], &bins[2 * i + 1]);
	}
	if (count % 2 == 1) {
		bins[count / 2] = bins[count - 1];
	}
	timeline->bin_ns *= 2;
	timeline->bin_count = (count + 1) / 2;
}

/* Makes the bins up to that of time_ns, wider ones if there would be too many. */
static uint64_t add_bins(struct timeline *timeline, uint64_t time_ns)
{
	while (time_ns / timeline->bin_ns >= TIMELINE_BINS_MAX) {
		merge_pairs(timeline);
	}
	uint32_t index = (uint32_t)(time_ns / timeline->bin_ns);
	while (timeline->bin_count <= index) {
		timeline->bins[timeline->bin_count++] = (struct timeline_bin){0};
	}
	return index;
}

/* The index of the bin that a time falls into. */
static inline uint64_t reach(struct timeline *timeline, uint64_t time_ns)
{
	uint64_t index = time_ns / timeline->bin_ns;

	return index < timeline->bin_count ? index : add_bins(timeline, time_ns);
}

void timeline_add(struct timeline *timeline, const struct timeline_step *step)
{
	check(step->start_ns >= timeline->origin_ns);
	check(step->end_ns >= step->start_ns);
	check(step->end_ns <= CLOCK_NS_MAX); /* else the ends of bins would wrap */
	uint64_t start_ns = step->start_ns - timeline->origin_ns;
	uint64_t end_ns = step->end_ns - timeline->origin_ns;
	/* A step is [start, end): it counts in the bin of its last instant. */
	uint64_t last_ns = end_ns > start_ns ? end_ns - 1 : end_ns;

	reach(timeline, last_ns);
	uint64_t bin_ns = timeline->bin_ns;
	struct timeline_bin *bin = &timeline->bins[start_ns / bin_ns];
	uint64_t bin_end_ns = (start_ns / bin_ns + 1) * bin_ns;
	for (uint64_t at = start_ns;; bin++, bin_end_ns += bin_ns) {
		uint64_t until = u64_min(end_ns, bin_end_ns);
		uint64_t span_ns = until - at;
		bin->running_ns += (u128)step->running * span_ns;
		bin->waiting_ns += (u128)step->waiting * span_ns;
		bin->used_blocks_ns += (u128)step->used_blocks * span_ns;
		bin->busy_ns += span_ns;
		if (until == end_ns) {
			break;
		}
		at = until;
	}
	bin->hit_tokens += step->hit_tokens;
	bin->query_tokens += step->query_tokens;
	bin->output_tokens += step->output_tokens;
	bin->prefill_tokens += step->prefill_tokens;
	bin->preemptions += step->preemptions;
	bin->steps++;
}

void timeline_wait(struct timeline *timeline, enum wait_cause cause, uint64_t count,
	uint64_t start_ns, uint64_t end_ns)
{
	if (count == 0 || end_ns == start_ns) {
		return;
	}
	check(start_ns >= timeline->origin_ns && end_ns > start_ns);
	uint64_t at = start_ns - timeline->origin_ns;
	uint64_t end = end_ns - timeline->origin_ns;

	reach(timeline, end - 1);
	while (at < end) {
		uint64_t index = at / timeline->bin_ns;
		uint64_t until = u64_min(end, (index + 1) * timeline->bin_ns);
		timeline->bins[index].wait_ns[cause] += (u128)count * (until - at);
		at = until;
	}
}

static void table_average(struct table_writer *table, u128 integral, uint64_t bin_ns)
{
	if (integral == 0) {
		table_text(
			table, "0.000"); /* as most cells of the causes are; the digits take long */
	} else {
		table_decimal(table, (uint64_t)(integral * 1000 / bin_ns), 3);
	}
}

void timeline_write(const struct timeline *timeline, struct table_writer *table)
{
	for (uint32_t i = 0; i < timeline->bin_count; i++) {
		const struct timeline_bin *bin = &timeline->bins[i];
		table_decimal(table, timeline->origin_ns + i * timeline->bin_ns, 9);
		table_decimal(table, timeline->bin_ns, 9);
		table_average(table, bin->running_ns, timeline->bin_ns);
		table_average(table, bin->waiting_ns, timeline->bin_ns);
		table_average(table, bin->used_blocks_ns, timeline->bin_ns);
		table_u64(table, bin->hit_tokens);
		table_u64(table, bin->query_tokens);
		table_u64(table, bin->output_tokens);
		table_u64(table, bin->prefill_tokens);
		table_u64(table, bin->preemptions);
		table_u64(table, bin->steps);
		table_decimal(
			table, (uint64_t)((u128)bin->busy_ns * 1000000 / timeline->bin_ns), 6);
		for (uint32_t cause = 0; cause < WAIT_CAUSE_COUNT; cause++) {
			table_average(table, bin->wait_ns[cause], timeline->bin_ns);
		}
		table_end_row(table);
	}
}

static uint64_t mean_requests(
	const struct timeline *timeline, bool has_running, uint64_t start_ns, uint64_t end_ns)
{
	check(start_ns >= timeline->origin_ns);
	start_ns -= timeline->origin_ns;
	end_ns -= timeline->origin_ns;
	uint64_t first = start_ns / timeline->bin_ns;
	uint64_t end = u64_min(u64_divide_up(end_ns, timeline->bin_ns), timeline->bin_count);
	u128 integral = 0;

	if (first >= end) {
		return 0;
	}
	for (uint64_t i = first; i < end; i++) {
		integral += timeline->bins[i].waiting_ns;
		integral += has_running ? timeline->bins[i].running_ns : 0;
	}
	return (uint64_t)(integral * 1000 / ((end - first) * timeline->bin_ns));
}

uint64_t timeline_mean_waiting(const struct timeline *timeline, uint64_t start_ns, uint64_t end_ns)
{
	return mean_requests(timeline, false, start_ns, end_ns);
}

uint64_t timeline_mean_present(const struct timeline *timeline, uint64_t start_ns, uint64_t end_ns)
{
	return mean_requests(timeline, true, start_ns, end_ns);
}
