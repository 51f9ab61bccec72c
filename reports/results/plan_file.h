#ifndef REPORTS_RESULTS_PLAN_FILE_H
#define REPORTS_RESULTS_PLAN_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/base/table.h"
#include "reports/results/metric.h"
#include "reports/results/results.h"

/* The folder that `quire plan --out` fills: plan.json has the answer, plan.tsv a row for each run
   that the search made. This is the contract of both: the search writes and the page reads with the
   lists and functions below.

   plan.json, keys in this order:

     schema  "quire-plan-1"
     status  "complete"; "interrupted", or "failed": runs are missing; is_bound tells of what
     calibrated  as of summary.json
     answer  of the best configuration (PLAN_ANSWER_* below; plan_answer_json() writes it)
     slo {text, ttft_ms, tpot_ms, e2e_ms, attain, limits}
	 text: the whole SLO in words; the limits of each request, null where none is set; attain:
	 the share of requests that must be within them; limits: those on percentiles, as the
	 option takes them (metric.h), or ""
     trace   as of summary.json: {name, xxh64, requests}; of a trace that the plan made, made_by:
	 the command that makes it again
     configurations  [{name, options, profile, calibrated, profile_note, gpus, answer,
		      goodput_per_gpu {value, low, high}, against_best {value, low, high},
		      utilisation, throughput_per_gpu, speed_per_user, rank, same_as [names],
		      on_pareto_front}]
	 at least one, the best first. options: as on a command line. profile: what prices its
	 steps; calibrated, profile_note: as of summary.json, for it. gpus: of one replica; the
	 mean, where those of --fleet differ. against_best: its goodput a GPU in that of the best,
	 from the same replicates. utilisation: at the answer. speed_per_user: output
	 tokens/s of one user, 1000 / tpot_p50. rank: from 1. same_as: the configurations from
	 which it cannot be told apart. Names are unique
     config  as of summary.json

   A number that does not exist or was not asked for is null, a text is "". All numbers are >= 0.
   plan.json is written last: a folder that has it is complete. */

#define PLAN_SCHEMA_PREFIX "quire-plan-" /* of every version */
#define PLAN_SCHEMA PLAN_SCHEMA_PREFIX "1"
#define PLAN_SUMMARY "plan.json"
#define PLAN_PROBES "plan.tsv"
#define PLAN_MADE_BY "made_by"

enum {
	PLAN_CONFIGURATIONS_MAX = 256,
	PLAN_STRETCHES_MAX = 64,
	PLAN_PROBES_MAX = 1000000,
};

/* ---- an answer ---- */

/* The unit of a rate with --sessions closed. */
#define PLAN_UNIT_SESSIONS "sessions/s"

/* sentence: the whole answer for a manager. vary: speedup, rate, concurrency, kv-blocks or
   replicas. unit: of its values, "" for a factor. binding: ttft, tpot, e2e, rejections, queue,
   overload or a metric; binding_text: what that is and which option would help. why_not_more: one
   sentence on the failing run nearest to the answer. */
#define PLAN_ANSWER_TEXT_LIST(X)                                                                   \
	X(sentence)                                                                                \
	X(vary)                                                                                    \
	X(unit)                                                                                    \
	X(binding)                                                                                 \
	X(binding_text)                                                                            \
	X(why_not_more)

/* is_bound: the value that passes is a bound, not the end (the search was stopped, or ended at the
   edge of its range). is_least: more makes it easier (KV blocks, replicas): then lowest_pass and
   highest_fail have values, else highest_pass and lowest_fail. */
#define PLAN_ANSWER_BOOL_LIST(X)                                                                   \
	X(is_bound)                                                                                \
	X(is_least)

/* X(name, maximum). attained: of the run at the value that passes. goodput_requests_per_s and
   output_tokens_per_s: of that run, at the load that is offered, or that there is capacity for if
   that is less: without the time behind the last arrival, of which a short trace has much.
   outside_share: of its step time, priced outside what the profile was measured on. gpus: of all
   replicas, spare ones too; spare: replicas that may be lost. currency_per_gpu_hour: as the user
   gave it; cost_per_million_tokens, in its unit: gpus * currency_per_gpu_hour / 3600 /
   output_tokens_per_s * 10^6. */
#define PLAN_ANSWER_NUMBER_LIST(X)                                                                 \
	X(highest_pass, DBL_MAX)                                                                   \
	X(lowest_fail, DBL_MAX)                                                                    \
	X(lowest_pass, DBL_MAX)                                                                    \
	X(highest_fail, DBL_MAX)                                                                   \
	X(attained, 1)                                                                             \
	X(offered_requests_per_s, DBL_MAX)                                                         \
	X(goodput_requests_per_s, DBL_MAX)                                                         \
	X(output_tokens_per_s, DBL_MAX)                                                            \
	X(outside_share, 1)                                                                        \
	X(replicas, DBL_MAX)                                                                       \
	X(gpus, DBL_MAX)                                                                           \
	X(spare, DBL_MAX)                                                                          \
	X(currency_per_gpu_hour, DBL_MAX)                                                          \
	X(cost_per_million_tokens, DBL_MAX)

/* An interval of the value that passes. An end without a value is open. */
struct plan_interval {
	struct result_value low, high;
};

/* Loads from `from` to `to` fail although a higher one passes. */
struct plan_stretch {
	double from, to;
};

struct plan_answer {
#define PLAN_MEMBER(name) const char *name;
	PLAN_ANSWER_TEXT_LIST(PLAN_MEMBER)
#undef PLAN_MEMBER
#define PLAN_MEMBER(name) bool name;
	PLAN_ANSWER_BOOL_LIST(PLAN_MEMBER)
#undef PLAN_MEMBER
#define PLAN_MEMBER(name, maximum) struct result_value name;
	PLAN_ANSWER_NUMBER_LIST(PLAN_MEMBER)
#undef PLAN_MEMBER
	/* What follows where all requests arrive within less than their p99 latency; "" in a file
	   without it. */
	const char *short_trace;
	/* A warning where turns of a session come before the answers to the last ones; else "". */
	const char *early_turns;
	/* That the router goes by prompt ids, which the trace lacks; absent or "": it does not. */
	const char *router_note;
	uint32_t stretch_count;
	struct plan_stretch stretches[PLAN_STRETCHES_MAX]; /* ascending */
	/* The randomness of the trace. method: "seeds", "block bootstrap" or "none". */
	struct {
		struct plan_interval interval;
		struct result_value replicates, window_s;
		const char *method, *text;
	} sampling;
	/* The error of the step times, as a factor common to all. is_guess: no error was measured
	   for this profile. */
	struct {
		struct plan_interval interval;
		struct result_value error;
		bool is_guess;
		const char *text;
	} model;
	/* One request in the system at a time: those that then miss the SLO always do. */
	struct {
		struct result_value requests, misses, longest_tokens;
	} alone;
};

/* The JSON object of an answer; the caller's. Texts that are NULL are "". */
cJSON *plan_answer_json(const struct plan_answer *answer);

/* The value that passes, whichever way the knob goes. */
struct result_value plan_answer_pass(const struct plan_answer *answer);
struct result_value plan_answer_fail(const struct plan_answer *answer);

/* The unit of a load, in the singular for 1: "replica"; "" of a factor. */
const char *plan_answer_unit(const struct plan_answer *answer, double load);

/* Appends the interval of a ratio, both of whose ends are known: "0.85 to 0.97", "1" where both
   are the same. Three digits, and as many more as tell an end from the other, and from 1. */
void plan_add_ratio(struct text *text, const struct plan_interval *ratio);

/* Whether the interval of a ratio holds 1, or lies within 0.1 % of it, which decides nothing. */
bool plan_ratio_is_one(const struct plan_interval *ratio);

/* ---- the table of runs ---- */

/* Why the search made a run. first: whose utilisation says where to look; bracket and bisect: of
   the search; shape: between them, for the curve and for stretches that fail; alone: one request
   at a time; sampling, model: of the intervals. */
#define PROBE_PURPOSE_LIST(X)                                                                      \
	X(PROBE_FIRST, "first")                                                                    \
	X(PROBE_BRACKET, "bracket")                                                                \
	X(PROBE_BISECT, "bisect")                                                                  \
	X(PROBE_SHAPE, "shape")                                                                    \
	X(PROBE_ALONE, "alone")                                                                    \
	X(PROBE_SAMPLING, "sampling")                                                              \
	X(PROBE_MODEL, "model")

enum probe_purpose {
#define PROBE_PURPOSE_ENUM(name, text) name,
	PROBE_PURPOSE_LIST(PROBE_PURPOSE_ENUM)
#undef PROBE_PURPOSE_ENUM
		PROBE_PURPOSE_COUNT
};

extern const char *const probe_purposes[PROBE_PURPOSE_COUNT + 1]; /* ends in NULL */

/* The columns of plan.tsv: TEXT(name), NUMBER(name, decimal places, maximum). configuration is a
   name of plan.json; load the value of the knob; replicate 0 the trace itself, from 1 another
   sample, which resample_seed and resample_window_s draw from the trace, or a seed of its own;
   lost the replicas that fail at the start. options: with them `quire replay TRACE` makes the same
   run; of a trace that was made, `quire trace make` takes the seed too. failure: why the run could
   not be made; then it has no figures. attained_low and attained_high are the 95 %
   Wilson interval of the share attained. demand: what arrives in a time takes so much of it at
   capacity, so above 1 it cannot be carried. verdict is that of summary.json. passes is 1 or 0.
   Up to PROBE_NUMBER_MAX a number with six places fits 64 bits. */
#define PROBE_NUMBER_MAX 1e13
#define PROBE_COLUMN_LIST(TEXT, NUMBER)                                                            \
	TEXT(configuration)                                                                        \
	NUMBER(load, 6, PROBE_NUMBER_MAX)                                                          \
	TEXT(purpose)                                                                              \
	NUMBER(replicate, 0, PROBE_NUMBER_MAX)                                                     \
	NUMBER(resample_seed, 0, PROBE_NUMBER_MAX)                                                 \
	NUMBER(resample_window_s, 6, PROBE_NUMBER_MAX)                                             \
	NUMBER(seed, 0, PROBE_NUMBER_MAX)                                                          \
	NUMBER(step_time_scale, 6, PROBE_NUMBER_MAX)                                               \
	NUMBER(replicas, 0, PROBE_NUMBER_MAX)                                                      \
	NUMBER(lost, 0, PROBE_NUMBER_MAX)                                                          \
	NUMBER(offered_requests_per_s, 6, PROBE_NUMBER_MAX)                                        \
	NUMBER(attained, 6, 1)                                                                     \
	NUMBER(attained_low, 6, 1)                                                                 \
	NUMBER(attained_high, 6, 1)                                                                \
	NUMBER(goodput_requests_per_s, 6, PROBE_NUMBER_MAX)                                        \
	NUMBER(output_tokens_per_s, 3, PROBE_NUMBER_MAX)                                           \
	NUMBER(ttft_p50_ms, 6, PROBE_NUMBER_MAX)                                                   \
	NUMBER(ttft_p90_ms, 6, PROBE_NUMBER_MAX)                                                   \
	NUMBER(ttft_p99_ms, 6, PROBE_NUMBER_MAX)                                                   \
	NUMBER(tpot_p50_ms, 6, PROBE_NUMBER_MAX)                                                   \
	NUMBER(tpot_p90_ms, 6, PROBE_NUMBER_MAX)                                                   \
	NUMBER(tpot_p99_ms, 6, PROBE_NUMBER_MAX)                                                   \
	NUMBER(e2e_p50_ms, 6, PROBE_NUMBER_MAX)                                                    \
	NUMBER(e2e_p99_ms, 6, PROBE_NUMBER_MAX)                                                    \
	NUMBER(hit_rate, 6, 1)                                                                     \
	NUMBER(preemptions, 0, PROBE_NUMBER_MAX)                                                   \
	NUMBER(utilisation, 6, PROBE_NUMBER_MAX)                                                   \
	NUMBER(demand, 6, PROBE_NUMBER_MAX)                                                        \
	NUMBER(outside_share, 6, 1)                                                                \
	TEXT(verdict)                                                                              \
	NUMBER(passes, 0, 1)                                                                       \
	TEXT(failure)                                                                              \
	TEXT(options)

#define PROBE_TEXT_NAME(name) "\t" #name
#define PROBE_NUMBER_NAME(name, places, maximum) "\t" #name
#define PROBE_COLUMNS (&(PROBE_COLUMN_LIST(PROBE_TEXT_NAME, PROBE_NUMBER_NAME))[1])

/* Behind them, a column for each metric that a limit names, which has its unit: limit.ttft.p95. So
   what a run was judged by is in its row. */
#define PLAN_LIMIT_PREFIX "limit."
enum { PLAN_LIMITS_MAX = 16 };

struct plan_limits {
	uint32_t count;
	struct metric_limit list[METRIC_LIMITS_MAX]; /* (count), at most PLAN_LIMITS_MAX */
};

struct plan_probe {
	uint32_t configuration; /* index in plan.json's list */
	enum probe_purpose purpose;
	bool has_verdict;
	enum verdict verdict;
#define PROBE_NO_MEMBER(name)
#define PROBE_MEMBER(name, places, maximum) struct result_value name;
	PROBE_COLUMN_LIST(PROBE_NO_MEMBER, PROBE_MEMBER)
#undef PROBE_NO_MEMBER
#undef PROBE_MEMBER
	struct result_value limits[PLAN_LIMITS_MAX]; /* the metric of each limit */
	const char *failure, *options;		     /* NULL: none */
};

/* Appends the header of plan.tsv. */
void plan_probe_header(struct text *header, const struct plan_limits *limits);

/* Writes a row; numbers are rounded to the places of their column, and must be at most
   PROBE_NUMBER_MAX. The table was begun with plan_probe_header(). */
void plan_probe_write(struct table_writer *table, const char *configuration,
	const struct plan_probe *probe, const struct plan_limits *limits);

/* ---- reading ---- */

struct plan_configuration {
	const char *name, *options, *profile;
	const char *profile_note; /* "": none */
	bool is_calibrated;
	bool is_beyond_memory; /* it has more KV blocks than the GPU's memory has room for */
	double gpus;	       /* of a replica */
	struct plan_answer answer;
	struct result_value goodput_per_gpu, against_best;
	struct plan_interval goodput_per_gpu_interval, against_best_interval;
	struct result_value utilisation, throughput_per_gpu, speed_per_user;
	uint32_t rank;
	const cJSON *same_as; /* an array of names of configurations */
	bool on_pareto_front;
};

/* Texts are owned by the documents. */
struct plan_file {
	const char *directory; /* borrowed */
	struct json_document summary;
	struct json_document provenance; /* not open when the folder has none */
	struct json_object root, config;
	bool is_complete, is_failed; /* neither: interrupted */
	bool is_calibrated;
	struct plan_answer answer;
	const char *slo_text;
	struct plan_limits limits; /* on figures of a run */
	struct result_value slo_ttft_ms, slo_tpot_ms, slo_e2e_ms, slo_attain;
	const char *trace_name;
	const char *made_by; /* the command that makes the trace; "": the plan did not make it */
	struct result_value trace_requests;
	uint32_t configuration_count;
	struct plan_configuration *configurations; /* (configuration_count), owned */
	uint64_t probe_count;
	struct plan_probe *probes; /* (probe_count), owned with its texts, in the table's order */
};

/* GPUs of so many replicas of a configuration, whose `gpus` are those of one: the mean where they
   differ, so the product is rounded. */
double plan_gpus(double gpus, double replicas);

/* Whether requests have limits, and not only figures of the run; else the share that attains is
   that of the requests that finish. */
bool plan_has_request_limits(const struct plan_file *plan);

/* Reads and checks both files. To be closed after a failure too. */
enum status plan_file_open(struct plan_file *plan, const char *directory, struct error *error);
void plan_file_close(struct plan_file *plan);

#endif
