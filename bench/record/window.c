#include "bench/record/window.h"

/* Time of the step that lies before an edge. */
static uint64_t span_before(const struct timeline_step *step, uint64_t edge_ns)
{
	uint64_t end_ns = u64_min(step->end_ns, edge_ns);

	return end_ns - u64_min(step->start_ns, end_ns);
}

/* Every sum, the peaks aside. */
#define RUN_SUM_LIST(X)                                                                            \
	X(steps)                                                                                   \
	X(finished)                                                                                \
	X(prompt_tokens)                                                                           \
	X(hit_tokens)                                                                              \
	X(output_tokens)                                                                           \
	X(recomputed_tokens)                                                                       \
	X(preemptions)                                                                             \
	X(busy_ns)                                                                                 \
	X(running_ns)                                                                              \
	X(waiting_ns)                                                                              \
	X(used_blocks_ns)

struct run_sums run_sums_between(const struct run_sums *earlier, const struct run_sums *later)
{
	struct run_sums sums = *later;

	step_sums_subtract(&sums.sums, &earlier->sums);
#define SUBTRACT(sum) sums.sum -= earlier->sum;
	RUN_SUM_LIST(SUBTRACT)
#undef SUBTRACT
	for (uint32_t cause = 0; cause < WAIT_CAUSE_COUNT; cause++) {
		sums.waits.ns[cause] -= earlier->waits.ns[cause];
	}
	return sums;
}

void run_sums_join(struct run_sums *sums, const struct run_sums *other)
{
	step_sums_join(&sums->sums, &other->sums);
#define ADD(sum) sums->sum += other->sum;
	RUN_SUM_LIST(ADD)
#undef ADD
	for (uint32_t cause = 0; cause < WAIT_CAUSE_COUNT; cause++) {
		sums->waits.ns[cause] += other->waits.ns[cause];
	}
}

/* Adds the part of a step before an edge, and of the time that requests waited in it. */
static void add_part(struct run_sums *sums, const struct summed_step *step, uint64_t edge_ns)
{
	uint64_t span_ns = span_before(&step->step, edge_ns);

	run_sums_add_time(sums, &step->step, span_ns);
	sums->waits.ns[step->wait_cause] += (u128)step->wait_count * span_ns;
}

/* Takes what was charged for waiting behind start_ns, for those that waited in the latest step and
   those that have arrived since, out of what was charged before it. */
static void take_waits(struct window *window, const struct waits *waits, uint64_t start_ns)
{
	u128 *before = window->before.waits.ns;
	uint64_t in_step = window->step.wait_count;
	uint64_t now_ns = u64_max(waits->charged_ns, start_ns);
	uint64_t step_end_ns = u64_min(u64_max(window->step.step.end_ns, start_ns), now_ns);

	for (uint32_t cause = 0; cause < WAIT_CAUSE_COUNT; cause++) {
		before[cause] = waits->ns[cause];
	}
	before[window->step.wait_cause] -= (u128)in_step * (step_end_ns - start_ns);
	before[WAIT_STEP] -= (u128)in_step * (now_ns - step_end_ns);
	before[WAIT_STEP] -= (u128)(waits->count - in_step) * (now_ns - start_ns);
}

static void open(struct window *window, struct run_sums *sums, uint64_t start_ns)
{
	const struct summed_step *step = &window->step;
	bool is_cut = step->step.end_ns > start_ns;

	window->is_open = true;
	window->before = is_cut ? window->previous : *sums;
	if (is_cut) {
		run_sums_add_time(&window->before, &step->step, span_before(&step->step, start_ns));
	}
	take_waits(window, &sums->waits, start_ns);
	sums->sums.running_peak = is_cut ? step->step.running : 0;
	sums->sums.used_blocks_peak = is_cut ? step->step.used_blocks : 0;
	sums->sums.tokens_peak = is_cut ? step->tokens : 0;
}

void window_meet(struct window *window, const struct window_edges *edges, struct run_sums *sums)
{
	if (!edges->is_partial) {
		return;
	}
	if (!window->is_open && edges->is_open) {
		open(window, sums, edges->start_ns);
	}
	if (window->finish_count != edges->finish_count) {
		window->finish_count = edges->finish_count;
		window->last = *sums;
	}
}

void window_begin_step(struct window *window, const struct run_sums *sums)
{
	if (!window->is_open) {
		window->previous = *sums;
	}
}

void window_end_step(
	struct window *window, const struct window_edges *edges, const struct summed_step *step)
{
	if (!window->is_open) {
		window->step = *step;
		return;
	}
	if (step->step.start_ns < edges->start_ns) {
		add_part(&window->before, step, edges->start_ns);
	}
	if (edges->finish_count > 0 && step->step.start_ns < edges->end_ns) {
		add_part(&window->last, step, edges->end_ns);
	}
}

void window_open(
	struct window *window, struct window_edges *edges, struct run_sums *sums, uint64_t start_ns)
{
	edges->is_open = true;
	edges->start_ns = start_ns;
	if (edges->is_partial) {
		open(window, sums, start_ns);
	}
}

void window_finish(struct window *window, struct window_edges *edges, const struct run_sums *sums,
	uint64_t end_ns)
{
	edges->end_ns = end_ns;
	edges->finish_count++;
	if (edges->is_partial) {
		window->finish_count = edges->finish_count;
		window->last = *sums;
	}
}

void window_arrive(struct window *window, const struct window_edges *edges, uint64_t arrival_ns)
{
	if (edges->is_partial && edges->finish_count > 0 && arrival_ns < edges->end_ns) {
		window->last.waits.ns[WAIT_STEP] += edges->end_ns - arrival_ns;
	}
}
