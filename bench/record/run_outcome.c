#include "bench/record/run_outcome.h"

#include <math.h>

const char *verdict_name(enum verdict verdict)
{
	static const char *const names[] = {
#define VERDICT_NAME(name, text) text,
		VERDICT_LIST(VERDICT_NAME)
#undef VERDICT_NAME
	};

	return names[verdict];
}

const char *run_end_name(enum run_end end)
{
	static const char *const names[] = {
#define RUN_END_NAME(name, text) text,
		RUN_END_LIST(RUN_END_NAME)
#undef RUN_END_NAME
	};

	return names[end];
}

struct latency_figures latency_figures_of(const struct histogram *histogram)
{
	if (histogram->count == 0) {
		return (struct latency_figures){0};
	}
	return (struct latency_figures){
		.count = histogram->count,
		.ns = {[STATISTIC_MEAN] = histogram_mean(histogram),
			[STATISTIC_STD] = histogram_deviation(histogram),
			[STATISTIC_MIN] = histogram->min,
			[STATISTIC_P50] = histogram_percentile(histogram, 500),
			[STATISTIC_P90] = histogram_percentile(histogram, 900),
			[STATISTIC_P95] = histogram_percentile(histogram, 950),
			[STATISTIC_P99] = histogram_percentile(histogram, 990),
			[STATISTIC_P99_9] = histogram_percentile(histogram, 999),
			[STATISTIC_MAX] = histogram->max},
	};
}

static bool is_queue_growing(const struct metrics *metrics)
{
	uint64_t start = metrics->first_arrival_ns;
	uint64_t third = (metrics->last_arrival_ns - start) / 3;

	if (third == 0) {
		return false; /* all requests arrive at once, so there is no rate */
	}
	uint64_t middle = timeline_mean_waiting(
		&metrics->distributions->timeline, start + third, start + 2 * third);
	uint64_t last = timeline_mean_waiting(
		&metrics->distributions->timeline, start + 2 * third, metrics->last_arrival_ns);
	/* In thousandths of a request. 5 % of a third of the requests is 1 / 60 of all. */
	return last > middle && (u128)(last - middle) * 60 > (u128)metrics->submitted * 1000;
}

/* Whether more requests are there in each third of the arrivals' time than in the one before. */
static bool is_filling(const struct metrics *metrics)
{
	const struct timeline *timeline = &metrics->distributions->timeline;
	uint64_t third = (metrics->last_arrival_ns - metrics->first_arrival_ns) / 3;
	uint64_t means[3];

	if (third == 0) {
		return false;
	}
	for (uint32_t i = 0; i < 3; i++) {
		uint64_t start_ns = metrics->first_arrival_ns + i * third;
		means[i] = timeline_mean_present(timeline, start_ns, start_ns + third);
	}
	return means[0] < means[1] && means[1] < means[2];
}

static enum verdict verdict_of(
	const struct metrics *metrics, uint64_t backlog_at_last_arrival, enum run_end end)
{
	bool has_backlog = backlog_at_last_arrival * 20 > metrics->submitted;

	if (end == RUN_COMPLETE && metrics->unfinished > 0) {
		return VERDICT_UNSERVED;
	}
	if (has_backlog && is_queue_growing(metrics)) {
		return VERDICT_OVERLOADED;
	}
	if (has_backlog ||
		metrics->distributions->latency[LATENCY_QUEUE].sum > metrics->service_ns) {
		return VERDICT_BACKLOGGED;
	}
	return VERDICT_STABLE;
}

static void set_times(
	struct run_outcome *outcome, const struct metrics *metrics, bool is_closed_loop)
{
	if (metrics->measured_submitted > 0 && !is_closed_loop) {
		outcome->arrival_span_ns =
			metrics->measured_last_arrival_ns - metrics->measured_first_arrival_ns;
	}
	if (metrics->finished > 0) {
		outcome->drain_ns = metrics->last_finish_ns -
				    u64_min(metrics->last_finish_ns, metrics->last_arrival_ns);
	}
}

/* What the engine did in the window. */
static void set_window(
	struct run_outcome *outcome, const struct metrics *metrics, uint64_t run_end_ns)
{
	const struct window *window = &metrics->window;
	struct run_sums *work = &outcome->work;
	uint64_t end_ns;

	metrics_window(metrics, run_end_ns, work, &outcome->window_start_ns, &end_ns);
	outcome->window_ns = end_ns - outcome->window_start_ns;
	outcome->steps_before =
		metrics->distributions->window.is_open ? window->before.steps : metrics->work.steps;
	outcome->steps_after = metrics->work.steps - outcome->steps_before - work->steps;
}

void run_outcome_of_metrics(struct run_outcome *outcome, const struct metrics *metrics,
	uint64_t end_ns, bool is_closed_loop)
{
	outcome->result_hash = metrics_result_hash(metrics);
	outcome->verdict = verdict_of(metrics, outcome->backlog_at_last_arrival, outcome->end);
	outcome->is_filling = !is_closed_loop && is_filling(metrics);
	outcome->submitted = metrics->submitted;
	outcome->finished = metrics->finished;
	outcome->rejected = metrics->rejected;
	outcome->rejected_too_long = metrics->rejected_too_long;
	outcome->rejected_never_fits =
		metrics->rejected - metrics->rejected_too_long - metrics->rejected_queue_full;
	outcome->capped = metrics->capped;
	outcome->longest_too_long = metrics->longest_too_long;
	outcome->longest_never_fitting = metrics->longest_never_fitting;
	outcome->failed = metrics->failed;
	outcome->unfinished = metrics->unfinished;
	outcome->warmup_submitted = metrics->warmup_submitted;
	outcome->measured_submitted = metrics->measured_submitted;
	outcome->measured_finished = metrics->measured_finished;
	outcome->last_arrival_ns = metrics->last_arrival_ns;
	set_times(outcome, metrics, is_closed_loop);
	set_window(outcome, metrics, end_ns);
	const struct levels *levels = &metrics->distributions->levels;
	levels_figures(levels);
	outcome->level_count = levels->count;
	outcome->level_ns = levels->width_ns;
	outcome->levels = levels->figures;
	outcome->slo = metrics->options.slo;
	outcome->slo_attained = metrics->slo_attained;
	outcome->slo_interval = slo_batches_interval(&metrics->distributions->slo_batches);
	outcome->slo_missed_ttft = metrics->slo_missed_ttft;
	outcome->slo_missed_tpot = metrics->slo_missed_tpot;
	outcome->slo_missed_e2e = metrics->slo_missed_e2e;
	outcome->longest_missed = metrics->longest_missed;
	for (uint32_t metric = 0; metric < LATENCY_COUNT; metric++) {
		outcome->latency[metric] =
			latency_figures_of(&metrics->distributions->latency[metric]);
	}
}

/* What the work takes at capacity, as a share of a time; false: it has no price. */
static bool demand_of(const struct run_sums *work, double time_ns,
	const struct engine_config *limits, const struct runner *pricer, double *demand)
{
	double running_ns = (double)work->running_ns;
	double ns;

	if (pricer == NULL || running_ns <= 0 || time_ns <= 0 ||
		!capacity_time(&work->sums, limits, (double)work->used_blocks_ns / running_ns,
			pricer, &ns)) {
		return false;
	}
	*demand = ns / time_ns;
	return true;
}

/* From this utilisation on an engine is at capacity; less than this share of it is no gain. */
static const double vain_from = 0.75, vain_gain = 0.01;
/* From this one on it is overloaded. */
static const double overload_from = 0.95;

/* Whether more blocks may carry more than capacity tells. It is that of the run's own hits and of
   its mean load, but more blocks find more of what prompts share, and hold more of a burst
   (bench/MEASURED.md, "Do more KV blocks help?"). */
static bool blocks_may_help(const struct run_outcome *outcome)
{
	return (outcome->has_prompt_ids && !outcome->is_prefix_cache_off) ||
	       outcome->demand < overload_from;
}

/* Whether twice as much of what a cause waits for would hardly carry more. */
static bool is_vain(const struct run_outcome *outcome, enum wait_cause cause, double time_ns,
	const struct engine_config *limits, const struct runner *pricer)
{
	struct engine_config wider = *limits;
	double demand;

	switch (cause) {
	case WAIT_SEATS:
		wider.max_num_seqs *= 2;
		break;
	case WAIT_BLOCKS:
		if (blocks_may_help(outcome)) {
			return false;
		}
		wider.kv_block_count *= 2;
		break;
	case WAIT_BUDGET:
		wider.max_num_batched_tokens *= 2;
		break;
	default:
		return false;
	}
	return demand_of(&outcome->work, time_ns, &wider, pricer, &demand) &&
	       demand > outcome->demand * (1 - vain_gain);
}

static void set_vain_causes(struct run_outcome *outcome, double time_ns,
	const struct engine_config *limits, const struct runner *pricer)
{
	if (!outcome->has_utilisation || outcome->demand < vain_from) {
		return;
	}
	for (uint32_t cause = 0; cause < WAIT_CAUSE_COUNT; cause++) {
		bool is = is_vain(outcome, (enum wait_cause)cause, time_ns, limits, pricer);
		outcome->vain_causes |= is ? UINT32_C(1) << cause : 0;
	}
}

/* Of a time, what the replicas together could have worked. */
static double time_up(const struct run_outcome *outcome, uint64_t start_ns, uint64_t end_ns)
{
	return outcome->fleet.count == 0
		       ? (double)(end_ns - start_ns)
		       : presence_of_all(outcome->fleet.presence, start_ns, end_ns);
}

/* The work of a finished request, at the rate at which those arrive that are not rejected. */
static double offered_demand(const struct run_outcome *outcome, double ns)
{
	uint64_t end_ns = outcome->window_start_ns + outcome->arrival_span_ns;
	double up_ns = time_up(outcome, outcome->window_start_ns, end_ns);
	double all = (double)outcome->submitted;
	double taken = (all - (double)outcome->rejected) / all;
	uint64_t finished = outcome->work.finished;

	return up_ns > 0 && finished > 0 ? (double)(outcome->measured_submitted - 1) * taken * ns /
						   (double)finished / up_ns
					 : 0;
}

void run_outcome_of_load(struct run_outcome *outcome, const struct metrics *metrics,
	const struct engine_config *limits, uint64_t seats, const struct runner *pricer)
{
	const struct run_sums *work = &outcome->work;
	const struct step_sums *sums = &work->sums;
	uint64_t window_end_ns = outcome->window_start_ns + outcome->window_ns;
	double up_ns = time_up(outcome, outcome->window_start_ns, window_end_ns);
	const struct level *levels = metrics->distributions->levels.levels;

	for (uint32_t i = 0; i < outcome->level_count; i++) {
		struct level_figures *figures = &outcome->levels[i];
		uint64_t start_ns = i * outcome->level_ns;
		figures->has_utilisation = demand_of(&levels[i].work,
			time_up(outcome, start_ns, start_ns + outcome->level_ns), limits, pricer,
			&figures->utilisation);
		figures->utilisation = fmin(figures->utilisation, 1);
	}
	outcome->kv_peak = (double)sums->used_blocks_peak / limits->kv_block_count;
	outcome->seats_peak = (double)sums->running_peak / (double)seats;
	outcome->budget_peak = (double)sums->tokens_peak / limits->max_num_batched_tokens;
	if (up_ns <= 0 || work->steps == 0) {
		return;
	}
	outcome->budget_mean = (double)(sums->decode_rows + sums->prefill_tokens) /
			       (double)work->steps / limits->max_num_batched_tokens;
	outcome->kv_mean = (double)work->used_blocks_ns / up_ns / limits->kv_block_count;
	outcome->seats_mean = (double)work->running_ns / up_ns / (double)seats;
	outcome->has_utilisation = demand_of(work, up_ns, limits, pricer, &outcome->demand);
	outcome->utilisation = fmin(outcome->demand, 1);
	if (outcome->has_utilisation && outcome->end == RUN_COMPLETE &&
		outcome->arrival_span_ns > 0) {
		outcome->offered_demand = offered_demand(outcome, outcome->demand * up_ns);
	}
	if (outcome->offered_demand > 1 && outcome->is_filling &&
		outcome->verdict != VERDICT_UNSERVED) {
		outcome->verdict = VERDICT_OVERLOADED;
	}
	set_vain_causes(outcome, up_ns, limits, pricer);
}
