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
	X(attained)                                                                                \
	X(prompt_tokens)                                                                           \
	X(hit_tokens)                                                                              \
	X(output_tokens)                                                                           \
	X(recomputed_tokens)                                                                       \
	X(preemptions)                                                                             \
	X(lost_prompt_tokens)                                                                      \
	X(lost_hit_tokens)                                                                         \
	X(lost_output_tokens)                                                                      \
	X(lost_recomputed_tokens)                                                                  \
	X(outside_steps)                                                                           \
	X(outside_ns)                                                                              \
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

void run_sums_settle(struct run_sums *sums)
{
	sums->prompt_tokens -= u64_min(sums->prompt_tokens, sums->lost_prompt_tokens);
	sums->hit_tokens -= u64_min(sums->hit_tokens, sums->lost_hit_tokens);
	sums->output_tokens -= u64_min(sums->output_tokens, sums->lost_output_tokens);
	sums->recomputed_tokens -= u64_min(sums->recomputed_tokens, sums->lost_recomputed_tokens);
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

void window_lose(struct window *window, const struct window_edges *edges, uint64_t first_step,
	uint64_t prompt_tokens, uint64_t hit_tokens)
{
	if (!edges->is_partial || !window->is_open) {
		return;
	}
	if (first_step < window->before.steps) {
		window->before.lost_prompt_tokens += prompt_tokens;
		window->before.lost_hit_tokens += hit_tokens;
	}
	if (first_step < window->last.steps) {
		window->last.lost_prompt_tokens += prompt_tokens;
		window->last.lost_hit_tokens += hit_tokens;
	}
}

void window_wait(struct window *window, const struct window_edges *edges, enum wait_cause cause,
	uint64_t count, uint64_t from_ns, uint64_t until_ns)
{
	if (!edges->is_partial || !window->is_open) {
		return;
	}
	if (from_ns < edges->start_ns) {
		window->before.waits.ns[cause] +=
			(u128)count * (u64_min(until_ns, edges->start_ns) - from_ns);
	}
	if (edges->finish_count > 0 && from_ns < edges->end_ns) {
		window->last.waits.ns[cause] +=
			(u128)count * (u64_min(until_ns, edges->end_ns) - from_ns);
	}
}
