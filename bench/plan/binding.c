#include "bench/plan/binding.h"

#include "engine/wait_cause.h"

#include <math.h>
#include <string.h>

enum cause { CAUSE_TTFT, CAUSE_TPOT, CAUSE_E2E, CAUSE_REJECTIONS, CAUSE_COUNT };

static const char *const cause_names[CAUSE_COUNT] = {"ttft", "tpot", "e2e", "rejections"};

static uint64_t unserved(const struct probe_figures *figures)
{
	return figures->rejected + figures->failed + figures->unfinished;
}

static uint64_t missed(const struct probe_figures *figures, enum cause cause)
{
	const uint64_t counts[CAUSE_COUNT] = {
		figures->missed_ttft, figures->missed_tpot, figures->missed_e2e, unserved(figures)};

	return counts[cause];
}

static enum cause largest(const struct probe_figures *figures)
{
	enum cause found = CAUSE_TTFT;

	for (uint32_t i = 1; i < CAUSE_COUNT; i++) {
		if (missed(figures, (enum cause)i) > missed(figures, found)) {
			found = (enum cause)i;
		}
	}
	return found;
}

const char *binding_name(const struct objective *objective, const struct probe_figures *figures)
{
	switch (figures->judged.miss) {
	case MISS_OVERLOADED:
		return "overload";
	case MISS_LIMIT:
		return objective->limits[figures->judged.limit].metric->name;
	default:
		return cause_names[largest(figures)];
	}
}

const char *binding_verb(const char *name)
{
	return strcmp(name, cause_names[CAUSE_REJECTIONS]) == 0 ? "bind" : "binds";
}

/* Whether what binds is mostly spent in the queue: half of the latency at the 99th percentile. */
static bool is_queueing(const struct probe_figures *figures, enum latency_metric metric)
{
	double queue_ms = figures->latency_ms[LATENCY_QUEUE][STATISTIC_P99];

	return queue_ms * 2 >= figures->latency_ms[metric][STATISTIC_P99];
}

/* NULL: there are as many as there can be. */
static const char *more_replicas(const struct probe_figures *figures)
{
	bool is_full = (figures->spent_causes >> WAIT_ROUTER & 1) != 0;

	return figures->has_groups ? "more replicas in --fleet" : is_full ? NULL : "--replicas";
}

/* "; --max-num-seqs would help": of what more would help, the option that decides in the run.
   Where that is at its end, or more of it is in vain, more replicas do. */
static void add_remedy(
	struct text *text, const struct probe_figures *figures, uint32_t cause, const char *remedy)
{
	bool is_vain = (figures->vain_causes >> cause & 1) != 0;
	bool is_spent = (figures->spent_causes >> cause & 1) != 0;

	if (is_vain || is_spent) {
		remedy = more_replicas(figures);
	} else if (cause == WAIT_BLOCKS && figures->has_given_blocks) {
		remedy = "--kv-blocks";
	} else if (cause == WAIT_SEATS && figures->is_held_back) {
		remedy = "--max-concurrency";
	}
	text_add(text, is_vain ? "; more of that would not help" : "");
	if (remedy != NULL) {
		text_format(text, "%s %s would help", is_vain ? "," : ";", remedy);
	}
}

/* More arrives than the engine carries, whatever requests wait for. */
static void add_capacity(struct text *text, const struct probe_figures *figures)
{
	const char *remedy = more_replicas(figures);

	text_format(
		text, "capacity: %.2f times what the engine can carry arrives", figures->demand);
	if (remedy != NULL) {
		text_format(text, "; %s would help", remedy);
	}
}

/* What requests wait for before they start, and the option that shortens it. */
static void add_waiting(struct text *text, const struct probe_figures *figures)
{
	static const struct {
		const char *title, *remedy;
	} causes[] = {
#define WAIT_CAUSE_ROW(of, cause, name, title, remedy) {title, remedy},
		WAIT_CAUSE_LIST(WAIT_CAUSE_ROW, )
#undef WAIT_CAUSE_ROW
	};
	double sum = 0;
	uint32_t most = 0;

	for (uint32_t i = 0; i < WAIT_CAUSE_COUNT; i++) {
		sum += figures->wait_s[i];
		most = figures->wait_s[i] > figures->wait_s[most] ? i : most;
	}
	if (figures->judged.miss == MISS_OVERLOADED && figures->demand > 1 &&
		(sum <= 0 || causes[most].remedy == NULL)) {
		add_capacity(text, figures);
		return;
	}
	if (sum <= 0 || !is_queueing(figures, LATENCY_TTFT)) {
		text_add(text, "latency: steps that compute a prompt take that long");
		return;
	}
	text_format(text, "%s%s: ", most == WAIT_STEP ? "latency: " : "", causes[most].title);
	text_add_number(text, NUMBER_SHARE, true, figures->wait_s[most] / sum);
	text_add(text, " of the time in the queue");
	if (causes[most].remedy != NULL) {
		add_remedy(text, figures, most, causes[most].remedy);
	}
}

/* What gives requests that are in the pool more room. */
static void add_more_blocks(struct text *text, const struct probe_figures *figures)
{
	if ((figures->spent_causes >> WAIT_BLOCKS & 1) != 0) {
		add_remedy(text, figures, WAIT_BLOCKS, NULL);
	} else {
		text_format(text, "; more KV blocks would help (%s--kv-blocks)",
			figures->has_given_blocks ? "" : "--gpu-memory-utilization, ");
	}
}

/* Why steps are long. */
static void add_steps(struct text *text, const struct probe_figures *figures)
{
	if (figures->preemptions * 100 > figures->submitted) {
		text_add(text, "memory: ");
		text_add_count(text, figures->preemptions, "preemption interrupts",
			"preemptions interrupt");
		text_add(text, " answers");
		add_more_blocks(text, figures);
		return;
	}
	text_add(text, "latency: steps take longer than the limit, by the prompts and the "
		       "sequences that share them");
	/* Where a router crowds requests on few replicas, smaller steps are no way out. */
	if (!figures->is_router_blind &&
		(!figures->has_least_seats || !figures->has_least_budget)) {
		text_format(text, "; a smaller %s%s%s shortens them, and may carry less",
			figures->has_least_budget ? "" : "--max-num-batched-tokens",
			figures->has_least_seats || figures->has_least_budget ? "" : " or ",
			figures->has_least_seats ? "" : "--max-num-seqs");
	}
}

/* Requests over a limit, and the value that takes all; groups of a fleet have it in their table. */
static void add_exceeding(struct text *text, const struct probe_figures *figures, uint64_t count,
	const char *why, const char *option, const char *column, uint64_t needed)
{
	text_add_number(text, NUMBER_COUNT, true, (double)count);
	text_format(text, " %s (%s %llu%s takes all)", why, figures->has_groups ? column : option,
		(unsigned long long)needed, figures->has_groups ? " in every row of --fleet" : "");
}

void binding_add_rejections(struct text *text, const struct probe_figures *figures)
{
	const char *comma = "";

	if (figures->too_long > 0) {
		add_exceeding(text, figures, figures->too_long, "too long", "--max-model-len",
			"max_model_len", figures->needed_model_len);
		comma = ", ";
	}
	if (figures->never_fit > 0) {
		text_add(text, comma);
		add_exceeding(text, figures, figures->never_fit, "for lack of KV blocks",
			"--kv-blocks", "kv_blocks", figures->needed_kv_blocks);
		comma = ", ";
	}
	if (figures->rejected > figures->too_long + figures->never_fit) {
		text_add(text, comma);
		text_add_number(text, NUMBER_COUNT, true,
			(double)(figures->rejected - figures->too_long - figures->never_fit));
		text_add(text, " by a full queue at the router");
	}
}

/* What explains the miss: of a limit on a latency of the run that of the same latency of requests.
   Between tokens nobody waits in the queue, and an overloaded engine's waits are there. */
static enum cause cause_of(const struct objective *objective, const struct probe_figures *figures)
{
	if (figures->judged.miss == MISS_ATTAINED) {
		return largest(figures);
	}
	if (figures->judged.miss != MISS_LIMIT) {
		return CAUSE_TTFT;
	}
	const char *name = objective->limits[figures->judged.limit].metric->name;
	return strncmp(name, "tpot.", 5) == 0 || strncmp(name, "itl.", 4) == 0 ? CAUSE_TPOT
	       : strncmp(name, "e2e.", 4) == 0				       ? CAUSE_E2E
									       : CAUSE_TTFT;
}

void binding_add_text(
	struct text *text, const struct objective *objective, const struct probe_figures *figures)
{
	if (figures->judged.miss == MISS_LIMIT) {
		const struct metric *metric = objective->limits[figures->judged.limit].metric;
		text_format(text, "%s of the run", metric->title);
		if (strncmp(metric->section, "latency_ms", 10) != 0) {
			return; /* what requests wait for does not explain it */
		}
		text_add(text, "; ");
	}
	enum cause cause = cause_of(objective, figures);
	if (cause == CAUSE_REJECTIONS) {
		text_add(text, figures->rejected > 0 ? "rejections: " : "no replica took them");
		binding_add_rejections(text, figures);
	} else if (cause == CAUSE_TPOT ||
		   (cause == CAUSE_E2E && !is_queueing(figures, LATENCY_E2E))) {
		add_steps(text, figures);
	} else {
		add_waiting(text, figures);
	}
}

void binding_add_causes(struct text *text, const struct probe_figures *figures, const char *before)
{
	static const char *const words[CAUSE_COUNT] = {
		"miss TTFT", "miss TPOT", "miss E2E", "are not served"};

	for (uint32_t i = 0; i < CAUSE_COUNT; i++) {
		uint64_t count = missed(figures, (enum cause)i);
		if (count > 0) {
			text_add(text, before);
			text_add_number(text, NUMBER_COUNT, true, (double)count);
			text_format(text, " %s", words[i]);
			before = ", ";
		}
	}
}

void binding_add_misses(
	struct text *text, const struct objective *objective, const struct probe_figures *figures)
{
	if (figures->judged.miss == MISS_OVERLOADED) {
		text_add(text, "the engine is overloaded: more arrives than it serves, to the "
			       "end of the arrivals; ");
	} else if (figures->judged.miss == MISS_LIMIT) {
		const struct metric_limit *limit = &objective->limits[figures->judged.limit];
		text_format(text, "%s is ", limit->metric->name);
		text_add_number(text, limit->metric->format, !isnan(figures->judged.value),
			figures->judged.value);
		text_add(text, ", not ");
		metric_limit_add_text(limit, text);
		text_add(text, "; ");
	}
	text_format(text, "%.2f %%", 100 * (double)figures->attained / (double)figures->submitted);
	text_add(text, slo_is_given(&objective->slo) ? " of the requests are within the limits"
						     : " of the requests finish");
	binding_add_causes(text, figures, ": ");
}
