#ifndef REPORTS_RESULTS_SWEEP_FILE_H
#define REPORTS_RESULTS_SWEEP_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/json.h"
#include "engine/base/status.h"
#include "reports/results/metric.h"
#include "reports/results/results.h"

/* The folder that `quire sweep --out` fills: sweep.json has the grid, sweep.tsv a row for each run
   of it, NAME/ the result folder of a run. This is the contract of what the page reads.

   sweep.json, keys in this order:

     schema  "quire-sweep-1"
     status  "complete", or "interrupted": runs are missing
     calibrated  as of summary.json; false where any run is not, null while no run is complete
     parameters  [{name, values [texts]}]   in the order of --grid; a name is that of an option
     beyond_memory  [{run, gpu, kv_blocks, found_kv_blocks}]  the complete runs with more KV blocks
             than the memory of the GPU has room for, in the order of sweep.tsv; else absent
     slo     {ttft_ms, tpot_ms, e2e_ms}  the limits, as of summary.json; null: none
     trace   as of summary.json: {name, xxh64, requests}
     config  the configuration that all runs share, as of summary.json

   sweep.tsv: the columns run (name of its folder), status (complete, failed or missing), message
   (one line on a failed run, else `-`), then a column a parameter, named as it, with the text of
   its value, then the metrics and sizes below, then verdict and calibrated (1 or 0), both as of
   summary.json. A run that is not complete has `-` from the metrics on.

   cache.tsv, where the grid varies how much the KV pool holds: the table of `quire trace cache`.
   The page draws it beside the hit rates of the runs. */

#define SWEEP_SCHEMA "quire-sweep-1"
#define SWEEP_SUMMARY "sweep.json"
#define SWEEP_RUNS "sweep.tsv"
#define SWEEP_CACHE "cache.tsv"
#define SWEEP_SLO "slo" /* in sweep.json */

enum { SWEEP_PARAMETERS_MAX = 8, SWEEP_RUNS_MAX = 100000, SWEEP_CACHE_MAX = 100000 };

/* The metrics of sweep.tsv, by their names in metric.h. */
#define SWEEP_METRIC_LIST(X)                                                                       \
	X("output_tokens_per_s")                                                                   \
	X("total_tokens_per_s")                                                                    \
	X("requests_per_s")                                                                        \
	X("offered_per_s")                                                                         \
	X("goodput")                                                                               \
	X("attained")                                                                              \
	X("hit_rate")                                                                              \
	X("preemptions")                                                                           \
	X("utilisation")                                                                           \
	X("kv_peak")                                                                               \
	X("seats_peak")                                                                            \
	X("rejected")                                                                              \
	X("unfinished")                                                                            \
	X("makespan_s")                                                                            \
	X("ttft.p50")                                                                              \
	X("ttft.p90")                                                                              \
	X("ttft.p99")                                                                              \
	X("tpot.p50")                                                                              \
	X("tpot.p90")                                                                              \
	X("tpot.p99")                                                                              \
	X("e2e.p50")                                                                               \
	X("e2e.p90")                                                                               \
	X("e2e.p99")                                                                               \
	X("outside_time")

/* Behind the metrics: KV blocks of a replica, the tokens that all replicas' blocks hold, and GPUs
   in all. */
#define SWEEP_SIZE_LIST(X)                                                                         \
	X(kv_blocks)                                                                               \
	X(kv_tokens)                                                                               \
	X(gpus)

#define SWEEP_ONE(name) +1
enum { SWEEP_METRIC_COUNT = 0 SWEEP_METRIC_LIST(SWEEP_ONE) };
#undef SWEEP_ONE

extern const char *const sweep_metrics[SWEEP_METRIC_COUNT];

#define SWEEP_RUN_STATUS_LIST(X)                                                                   \
	X(SWEEP_RUN_COMPLETE, "complete")                                                          \
	X(SWEEP_RUN_FAILED, "failed")                                                              \
	X(SWEEP_RUN_MISSING, "missing")

enum sweep_run_status {
#define SWEEP_RUN_STATUS_ENUM(name, text) name,
	SWEEP_RUN_STATUS_LIST(SWEEP_RUN_STATUS_ENUM)
#undef SWEEP_RUN_STATUS_ENUM
		SWEEP_RUN_STATUS_COUNT
};

extern const char *const sweep_run_statuses[SWEEP_RUN_STATUS_COUNT + 1]; /* ends in NULL */

/* Behind the sizes. */
#define SWEEP_VERDICT "verdict"
#define SWEEP_CALIBRATED "calibrated"

/* Writes the header line of sweep.tsv: the columns that every sweep has and its parameters. header
   is the caller's. parameters: (count). */
void sweep_header(struct text *header, const char *const *parameters, uint32_t count);

/* ---- reading ---- */

struct sweep_parameter {
	const char *name;
	uint32_t value_count;
	const char **values; /* (value_count), owned; the texts are the document's */
	bool is_number;	     /* all of them are numbers >= 0 */
};

struct sweep_run {
	char *name, *message; /* owned */
	enum sweep_run_status status;
	uint32_t values[SWEEP_PARAMETERS_MAX]; /* an index of each parameter's values */
	struct result_value metrics[SWEEP_METRIC_COUNT];
#define SWEEP_MEMBER(name) struct result_value name;
	SWEEP_SIZE_LIST(SWEEP_MEMBER)
#undef SWEEP_MEMBER
	enum verdict verdict;	/* of a complete run */
	bool is_calibrated;	/* likewise */
	bool is_beyond_memory;	/* it has more KV blocks than the GPU's memory has room for: */
	double found_kv_blocks; /* these */
	const char *gpu;	/* whose memory; the document's */
};

/* The place of a metric of the list in sweep_metrics. */
uint32_t sweep_metric_index(const char *name);

/* Requests that a run rejected; 0 where that is not known. */
double sweep_rejected(const struct sweep_run *run);

/* Whether a run is complete and its latencies describe the engine: those of an overloaded run only
   reflect the length of the trace, and an unserved one left requests. */
bool sweep_keeps_up(const struct sweep_run *run);

/* Complete runs whose verdict is overloaded, and whose times are not calibrated. */
bool sweep_is_overloaded(const struct sweep_run *run);
bool sweep_is_uncalibrated(const struct sweep_run *run);

struct sweep_file;

/* How many runs are so. */
uint32_t sweep_count(const struct sweep_file *sweep, bool (*is)(const struct sweep_run *run));

/* Looks for two runs with equal numbers of KV blocks that hold different numbers of tokens, since
   each policy has blocks of its own size. Appends the first two, "600 KV blocks hold 153,600 tokens
   in A and 9,600 in B". False, and nothing is appended: there are none, or the grid varies the size
   of a block. */
bool sweep_add_unlike_pools(const struct sweep_file *sweep, struct text *text);

/* A row of cache.tsv: what caches of a size find of all prompt tokens. */
#define SWEEP_CACHE_LIST(X)                                                                        \
	X(capacity_tokens)                                                                         \
	X(total_tokens)                                                                            \
	X(lru_tail_hit_tokens)                                                                     \
	X(lru_stream_hit_tokens)                                                                   \
	X(fifo_hit_tokens)                                                                         \
	X(belady_hit_tokens)                                                                       \
	X(infinite_hit_tokens)

struct sweep_cache {
#define SWEEP_MEMBER(name) double name;
	SWEEP_CACHE_LIST(SWEEP_MEMBER)
#undef SWEEP_MEMBER
};

struct sweep_file {
	const char *directory; /* borrowed */
	struct json_document summary;
	struct json_document provenance; /* not open when the folder has none */
	struct json_object root, config;
	bool is_complete;
	struct result_value slo_ttft_ms, slo_tpot_ms, slo_e2e_ms;
	const char *trace_name;
	struct result_value trace_requests;
	uint32_t parameter_count;
	struct sweep_parameter parameters[SWEEP_PARAMETERS_MAX];
	uint32_t run_count;
	struct sweep_run *runs;	   /* (run_count), owned, in the order of the table */
	uint32_t cache_count;	   /* 0: the folder has no cache.tsv */
	struct sweep_cache *cache; /* (cache_count), owned */
};

/* Reads and checks all files but those of the runs. To be closed after a failure too. */
enum status sweep_file_open(struct sweep_file *sweep, const char *directory, struct error *error);
void sweep_file_close(struct sweep_file *sweep);

#endif
