#ifndef REPORTS_RESULTS_METRIC_H
#define REPORTS_RESULTS_METRIC_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/base/text.h"
#include "reports/results/results.h"

/* The one table of the figures of a run: what each is called, its unit, whether more or less of it
   is better, and where it stands in summary.json. The summary is written by it; the page, `quire
   compare` and limits such as ttft.p99<=2000 read it.

       const struct metric *metric = metric_find("ttft.p99");
       struct result_value value = metric_value(&result->root, metric);

   Numbers come first, in the order of the list below, then every statistic of every latency. */

/* X(enumerator, name, unit, section of summary.json ("" is the root), field, whether it may be
   null, how the page writes it, what is better (1 more, -1 less, 0 neither), title). A unit of
   "share" is a part of 1. */
#define RESULT_NUMBER_LIST(X)                                                                      \
	X(OUTPUT_RATE, "output_tokens_per_s", "tokens/s", "throughput", "output_tokens_per_s",     \
		true, NUMBER_RATE, 1, "Output tokens/s")                                           \
	X(TOTAL_RATE, "total_tokens_per_s", "tokens/s", "throughput", "total_tokens_per_s", true,  \
		NUMBER_RATE, 1, "Prompt and output tokens/s")                                      \
	X(REQUEST_RATE, "requests_per_s", "requests/s", "throughput", "requests_per_s", true,      \
		NUMBER_RATE, 1, "Requests/s")                                                      \
	X(OFFERED_RATE, "offered_per_s", "requests/s", SUMMARY_LOAD, "offered_per_s", true,        \
		NUMBER_RATE, 0, "Requests/s offered")                                              \
	X(UTILISATION, "utilisation", "share", SUMMARY_LOAD, "utilisation", true, NUMBER_SHARE, 0, \
		"Utilisation")                                                                     \
	X(KV_MEAN, "kv_mean", "share", SUMMARY_LOAD, "kv_mean", true, NUMBER_SHARE, 0,             \
		"KV blocks in use, mean")                                                          \
	X(KV_PEAK, "kv_peak", "share", SUMMARY_LOAD, "kv_peak", true, NUMBER_SHARE, 0,             \
		"KV blocks in use, peak")                                                          \
	X(SEATS_MEAN, "seats_mean", "share", SUMMARY_LOAD, "seats_mean", true, NUMBER_SHARE, 0,    \
		"Seats in use, mean")                                                              \
	X(SEATS_PEAK, "seats_peak", "share", SUMMARY_LOAD, "seats_peak", true, NUMBER_SHARE, 0,    \
		"Seats in use, peak")                                                              \
	X(BUDGET_MEAN, "budget_mean", "share", SUMMARY_LOAD, "budget_mean", true, NUMBER_SHARE, 0, \
		"Token budget used, mean")                                                         \
	X(BUDGET_PEAK, "budget_peak", "share", SUMMARY_LOAD, "budget_peak", true, NUMBER_SHARE, 0, \
		"Token budget used, peak")                                                         \
	X(BACKLOG, "backlog", "requests", SUMMARY_LOAD, "backlog_at_last_arrival", true,           \
		NUMBER_COUNT, -1, "Waiting at the last arrival")                                   \
	X(DRAIN, "drain_s", "s", SUMMARY_LOAD, "drain_s", true, NUMBER_TIME_S, -1,                 \
		"From last arrival to last finish")                                                \
	X(WINDOW_START, "window_start_s", "s", "window", "start_s", false, NUMBER_TIME_S, 0,       \
		"Window: start")                                                                   \
	X(WINDOW_END, "window_end_s", "s", "window", "end_s", false, NUMBER_TIME_S, 0,             \
		"Window: end")                                                                     \
	X(WARMUP, "warmup_requests", "requests", "window", "warmup_requests", false, NUMBER_COUNT, \
		0, "Requests of the warm-up")                                                      \
	X(MEASURED, "measured_requests", "requests", "window", "measured_requests", false,         \
		NUMBER_COUNT, 0, "Requests measured")                                              \
	X(COOLDOWN, "cooldown_requests", "requests", "window", "cooldown_requests", false,         \
		NUMBER_COUNT, 0, "Requests of the cooldown")                                       \
	X(WINDOW_FINISHED, "window_finished", "requests", "window", "finished", false,             \
		NUMBER_COUNT, 0, "Requests finished in the window")                                \
	X(STEPS_BEFORE, "steps_before", "steps", "window", "steps_before", false, NUMBER_COUNT, 0, \
		"Steps before the window")                                                         \
	X(STEPS_AFTER, "steps_after", "steps", "window", "steps_after", false, NUMBER_COUNT, 0,    \
		"Steps behind the window")                                                         \
	X(MAKESPAN, "makespan_s", "s", "time", "makespan_s", true, NUMBER_TIME_S, -1, "Makespan")  \
	X(BUSY, "busy_s", "s", "time", "busy_s", true, NUMBER_TIME_S, 0, "Busy time")              \
	X(STEPS, "steps", "steps", "time", "steps", false, NUMBER_COUNT, 0, "Steps")               \
	X(OUTSIDE_STEPS, "outside_steps", "share", "time", "outside_steps", true, NUMBER_SHARE, 0, \
		"Steps unlike those of the profile")                                               \
	X(OUTSIDE_TIME, "outside_time", "share", "time", "outside_time", true, NUMBER_SHARE, 0,    \
		"Time in steps unlike those of the profile")                                       \
	X(HIT_RATE, "hit_rate", "share", "prefix_cache", "hit_rate", true, NUMBER_SHARE, 1,        \
		"Prefix-cache hit rate")                                                           \
	X(HIT_TOKENS, "hit_tokens", "tokens", "prefix_cache", "hit_tokens", false, NUMBER_COUNT,   \
		0, "Hit tokens")                                                                   \
	X(QUERY_TOKENS, "query_tokens", "tokens", "prefix_cache", "query_tokens", false,           \
		NUMBER_COUNT, 0, "Query tokens")                                                   \
	X(PREEMPTIONS, "preemptions", "count", "", "preemptions", false, NUMBER_COUNT, -1,         \
		"Preemptions")                                                                     \
	X(SUBMITTED, "submitted", "requests", "requests", "submitted", false, NUMBER_COUNT, 0,     \
		"Requests submitted")                                                              \
	X(FINISHED, "finished", "requests", "requests", "finished", false, NUMBER_COUNT, 0,        \
		"Requests finished")                                                               \
	X(REJECTED, "rejected", "requests", "requests", "rejected", false, NUMBER_COUNT, -1,       \
		"Requests rejected")                                                               \
	X(FAILED, "failed", "requests", "requests", "failed", false, NUMBER_COUNT, -1,             \
		"Requests failed")                                                                 \
	X(UNFINISHED, "unfinished", "requests", "requests", "unfinished", false, NUMBER_COUNT, -1, \
		"Requests unfinished")                                                             \
	X(REJECTED_TOO_LONG, "rejected_too_long", "requests", "requests", "rejected_too_long",     \
		false, NUMBER_COUNT, -1, "Rejected: longer than max_model_len")                    \
	X(REJECTED_NEVER_FITS, "rejected_never_fits", "requests", "requests",                      \
		"rejected_never_fits", false, NUMBER_COUNT, -1,                                    \
		"Rejected: larger than the KV pool")                                               \
	X(PROMPT, "prompt_tokens", "tokens", "tokens", "prompt", false, NUMBER_COUNT, 0,           \
		"Prompt tokens")                                                                   \
	X(OUTPUT, "output_tokens", "tokens", "tokens", "output", false, NUMBER_COUNT, 0,           \
		"Output tokens")                                                                   \
	X(PREFILL, "prefill_tokens", "tokens", "tokens", "prefill_computed", false, NUMBER_COUNT,  \
		0, "Prompt tokens computed")                                                       \
	X(RECOMPUTED, "recomputed_tokens", "tokens", "tokens", "recomputed", false, NUMBER_COUNT,  \
		-1, "Tokens recomputed after preemption")                                          \
	X(LOST, "lost_tokens", "tokens", "tokens", "lost", false, NUMBER_COUNT, -1,                \
		"Output tokens lost with a replica")                                               \
	WAIT_CAUSE_LIST(RESULT_NUMBER_OF_WAIT, X)                                                  \
	X(SLO_TTFT, "slo_ttft_ms", "ms", "slo", "ttft_ms", true, NUMBER_TIME_MS, 0,                \
		"SLO: time to first token")                                                        \
	X(SLO_TPOT, "slo_tpot_ms", "ms", "slo", "tpot_ms", true, NUMBER_TIME_MS, 0,                \
		"SLO: time per output token")                                                      \
	X(SLO_E2E, "slo_e2e_ms", "ms", "slo", "e2e_ms", true, NUMBER_TIME_MS, 0,                   \
		"SLO: time to the end")                                                            \
	X(SLO_ATTAINED, "attained", "share", "slo", "attained", true, NUMBER_SHARE, 1,             \
		"Requests within the SLO")                                                         \
	X(SLO_GOODPUT, "goodput", "requests/s", "slo", "goodput_requests_per_s", true,             \
		NUMBER_RATE, 1, "Goodput, requests/s")                                             \
	X(TRACE_REQUESTS, "trace_requests", "requests", SUMMARY_TRACE, "requests", false,          \
		NUMBER_COUNT, 0, "Requests in the trace")                                          \
	X(RAN_OUT, "ran_out_s", "s", SUMMARY_TRACE, "ran_out_s", true, NUMBER_TIME_S, 0,           \
		"The trace ran out at")

/* The time that requests waited for each cause of engine/wait_cause.h. */
#define RESULT_NUMBER_OF_WAIT(X, cause, name, title, remedy)                                       \
	X(cause, "wait_" #name "_s", "s", "waiting", #name "_s", true, NUMBER_TIME_S, -1,          \
		"Waited for: " title)

enum result_number {
#define RESULT_NUMBER_ENUM(                                                                        \
	enumerator, name, unit, section, field, is_optional, format, better, title)                \
	VALUE_##enumerator,
	RESULT_NUMBER_LIST(RESULT_NUMBER_ENUM)
#undef RESULT_NUMBER_ENUM
		RESULT_NUMBER_COUNT
};

enum { METRIC_COUNT = RESULT_NUMBER_COUNT + (int)LATENCY_COUNT * (int)STATISTIC_COUNT };

struct metric {
	const char *name; /* unique: "output_tokens_per_s", "ttft.p99" */
	const char *unit;
	const char *section; /* in summary.json: "throughput", "latency_ms.ttft"; "": the root */
	const char *field;   /* in the section */
	bool is_optional;    /* may be null: there is no such figure of this run */
	enum number_format format;
	int better; /* 1: more, -1: less, 0: neither */
	const char *title;
};

/* By enum result_number, then metric_of_latency(). */
extern const struct metric metrics_table[METRIC_COUNT];

const struct metric *metric_of_latency(
	enum latency_metric latency, enum latency_statistic statistic);

/* By its name or by its path in summary.json ("latency_ms.ttft.p99"); p99.9 is p99_9. NULL: there
   is none. */
const struct metric *metric_find(const char *name);

struct result_value {
	bool has_value; /* false: null */
	double value;
};

/* The metric's value in a summary; none if it is null or absent. */
struct result_value metric_value(const struct json_object *summary, const struct metric *metric);

/* Refuses a figure that is neither null nor a number >= 0, with its file and field. A summary may
   lack figures. */
enum status metrics_check(const struct json_object *summary, struct error *error);

/* The options of `quire replay`, one of which a run needs to have the figure:
   "--slo-ttft-ms, --slo-tpot-ms or --slo-e2e-ms". NULL: it needs none. */
const char *metric_options(const struct metric *metric);

/* ---- limits ---- */

/* What a limit's number means: itself, in the metric's unit; a percentage by which a base may
   change; or points by which a base that is a share may. */
enum limit_kind { LIMIT_VALUE, LIMIT_PERCENT, LIMIT_POINTS };

struct metric_limit {
	const struct metric *metric;
	bool is_least; /* >=, else <= */
	enum limit_kind kind;
	double amount; /* 2000 of <=2000, -0.02 of >=-2%, 0.005 of <=+0.5pt */
};

enum { METRIC_LIMITS_MAX = 64 };

/* Reads limits that are separated by commas, such as ttft.p99<=2000, output_tokens_per_s>=-2% or
   hit_rate>=-0.5pt. Blanks beside a comma and at both ends are skipped. Numbers have at most six
   decimals; percentages and points have a sign and are read only where is_relative. limits:
   (METRIC_LIMITS_MAX). name: of the option or file, for errors. */
enum status metric_limits_parse(const char *name, const char *text, bool is_relative,
	struct metric_limit *limits, uint32_t *count, struct error *error);

/* Whether a value lies within a limit. base: what a percentage or points refer to. */
bool metric_limit_holds(const struct metric_limit *limit, double base, double value);

#endif
