#ifndef REPORTS_RESULTS_RESULT_H
#define REPORTS_RESULTS_RESULT_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/base/text.h"
#include "reports/results/results.h"

/* A result folder as the report reads it: summary.json, provenance.json if it is there, and tables
   that were checked for the figures. */

/* The numbers of summary.json that the page shows. X(name, section ("" is the root), field, whether
   it may be null, how it is written, what is better (1 more, -1 less, 0 neither), title). */
#define RESULT_NUMBER_LIST(X)                                                                      \
	X(OUTPUT_RATE, "throughput", "output_tokens_per_s", true, NUMBER_RATE, 1,                  \
		"Output tokens/s")                                                                 \
	X(TOTAL_RATE, "throughput", "total_tokens_per_s", true, NUMBER_RATE, 1,                    \
		"Prompt and output tokens/s")                                                      \
	X(REQUEST_RATE, "throughput", "requests_per_s", true, NUMBER_RATE, 1, "Requests/s")        \
	X(OFFERED_RATE, "load", "offered_per_s", true, NUMBER_RATE, 0, "Requests/s offered")       \
	X(BUSY_SHARE, "load", "busy_share", true, NUMBER_SHARE, 0, "Busy share")                   \
	X(BACKLOG, "load", "backlog_at_last_arrival", true, NUMBER_COUNT, -1,                      \
		"Waiting at the last arrival")                                                     \
	X(DRAIN, "load", "drain_s", true, NUMBER_TIME_S, -1, "From last arrival to last finish")   \
	X(MAKESPAN, "time", "makespan_s", true, NUMBER_TIME_S, -1, "Makespan")                     \
	X(BUSY, "time", "busy_s", true, NUMBER_TIME_S, 0, "Busy time")                             \
	X(STEPS, "time", "steps", false, NUMBER_COUNT, 0, "Steps")                                 \
	X(HIT_RATE, "prefix_cache", "hit_rate", true, NUMBER_SHARE, 1, "Prefix-cache hit rate")    \
	X(HIT_TOKENS, "prefix_cache", "hit_tokens", false, NUMBER_COUNT, 0, "Hit tokens")          \
	X(QUERY_TOKENS, "prefix_cache", "query_tokens", false, NUMBER_COUNT, 0, "Query tokens")    \
	X(PREEMPTIONS, "", "preemptions", false, NUMBER_COUNT, -1, "Preemptions")                  \
	X(SUBMITTED, "requests", "submitted", false, NUMBER_COUNT, 0, "Requests submitted")        \
	X(FINISHED, "requests", "finished", false, NUMBER_COUNT, 0, "Requests finished")           \
	X(REJECTED, "requests", "rejected", false, NUMBER_COUNT, -1, "Requests rejected")          \
	X(FAILED, "requests", "failed", false, NUMBER_COUNT, -1, "Requests failed")                \
	X(UNFINISHED, "requests", "unfinished", false, NUMBER_COUNT, -1, "Requests unfinished")    \
	X(PROMPT, "tokens", "prompt", false, NUMBER_COUNT, 0, "Prompt tokens")                     \
	X(OUTPUT, "tokens", "output", false, NUMBER_COUNT, 0, "Output tokens")                     \
	X(PREFILL, "tokens", "prefill_computed", false, NUMBER_COUNT, 0, "Prompt tokens computed") \
	X(RECOMPUTED, "tokens", "recomputed", false, NUMBER_COUNT, -1,                             \
		"Tokens recomputed after preemption")                                              \
	X(SLO_TTFT, "slo", "ttft_ms", true, NUMBER_TIME_MS, 0, "SLO: time to first token")         \
	X(SLO_TPOT, "slo", "tpot_ms", true, NUMBER_TIME_MS, 0, "SLO: time per output token")       \
	X(SLO_ATTAINED, "slo", "attained", true, NUMBER_SHARE, 1, "Requests within the SLO")       \
	X(SLO_GOODPUT, "slo", "goodput_requests_per_s", true, NUMBER_RATE, 1,                      \
		"Goodput, requests/s")                                                             \
	X(TRACE_REQUESTS, "trace", "requests", false, NUMBER_COUNT, 0, "Requests in the trace")

enum result_number {
#define RESULT_NUMBER_ENUM(name, section, field, is_optional, format, better, title) VALUE_##name,
	RESULT_NUMBER_LIST(RESULT_NUMBER_ENUM)
#undef RESULT_NUMBER_ENUM
		RESULT_NUMBER_COUNT
};

struct result_number_row {
	const char *section;
	const char *field;
	bool is_optional;
	enum number_format format;
	int better;
	const char *title;
};

extern const struct result_number_row result_number_rows[RESULT_NUMBER_COUNT];

struct result_value {
	bool has_value; /* false: null */
	double value;
};

/* Texts belong to the documents. */
struct result {
	const char *directory; /* borrowed */
	struct text label;     /* what the page calls it */
	struct json_document summary;
	struct json_document provenance; /* closed when the folder has none */
	struct json_object root;
	struct json_object config;
	enum runner_kind runner_kind; /* RUNNER_KIND_COUNT: unknown */
	const char *status;	      /* complete, interrupted or failed */
	const char *failure;	      /* "" unless failed */
	const char *verdict;	      /* stable, backlogged or overloaded */
	const char *trace_name;
	const char *trace_xxh64;
	const char *result_hash;
	bool is_calibrated;
	bool has_kernels; /* its kernels were measured */
	struct result_value numbers[RESULT_NUMBER_COUNT];
	struct result_value latency_ms[LATENCY_COUNT][STATISTIC_COUNT];
};

/* Reads and checks everything that the page and its figures use. To be closed after a failure too.
 */
enum status result_open(struct result *result, const char *directory, struct error *error);
void result_close(struct result *result);

/* The shortest ends of the folders' paths that tell them apart. */
void results_label(struct result *results, uint32_t count);

#endif
