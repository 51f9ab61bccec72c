#ifndef REPORTS_RESULTS_RESULTS_H
#define REPORTS_RESULTS_RESULTS_H

#include <stdbool.h>

#include "engine/base/text.h"
#include "engine/wait_cause.h"

/* The files of a result folder. This is their contract: reports/ and quire compare use nothing else
   of a run. Tables are tab-separated with one header line; a cell without a value is `-`; times are
   integer nanoseconds from the trace's zero unless a column says otherwise.

   A folder is written as NAME.PID.part files that are renamed when the run is over, summary.json
   last: a folder with a summary.json is complete (bench/record/result_folder.h has the whole
   promise). Everything but provenance.json is a pure function of
   trace, configuration and seed. */

/* Tables that quire itself reads have a list of their columns: TEXT(name) holds words, NUMBER(name)
   numbers >= 0. Their header lines are generated from it. The columns of steps.tsv are those of
   engine/step_record.h. */
#define RESULT_COLUMN_TEXT(name) "\t" #name
#define RESULT_HEADER(COLUMN_LIST) (&(COLUMN_LIST(RESULT_COLUMN_TEXT, RESULT_COLUMN_TEXT))[1])

#define RESULT_REQUESTS "requests.tsv"
#define RESULT_TIMELINE "timeline.tsv"
#define RESULT_STEP_GRID "step_grid.tsv"
#define RESULT_LATENCY "latency.tsv"
#define RESULT_STEPS "steps.tsv"
#define RESULT_LEVELS "levels.tsv"
#define RESULT_KERNELS "kernels.tsv"
#define RESULT_KERNEL_PHASES "kernel_phases.tsv"
#define RESULT_KERNEL_TIMELINE "kernel_timeline.tsv"
#define RESULT_SUMMARY "summary.json"
#define RESULT_PROVENANCE "provenance.json"

/* All of these, as elements of an array. Who removes a result begins with the summary, without
   which it is none. */
#define RESULT_FILE_NAMES                                                                          \
	RESULT_SUMMARY, RESULT_REQUESTS, RESULT_TIMELINE, RESULT_STEP_GRID, RESULT_LATENCY,        \
		RESULT_STEPS, RESULT_KERNELS, RESULT_KERNEL_PHASES, RESULT_KERNEL_TIMELINE,        \
		RESULT_LEVELS, RESULT_PROVENANCE

/* The origin of a run's step times, runner_kind in summary.json. computed: a clock measured how
   long a runner took to compute tokens. priced: a model of the GPU computed them. recorded: they
   were read from an earlier run's steps.tsv. */
#define RUNNER_KIND_LIST(X)                                                                        \
	X(RUNNER_COMPUTED, "computed")                                                             \
	X(RUNNER_PRICED, "priced")                                                                 \
	X(RUNNER_RECORDED, "recorded")

enum runner_kind {
#define RUNNER_KIND_ENUM(name, text) name,
	RUNNER_KIND_LIST(RUNNER_KIND_ENUM)
#undef RUNNER_KIND_ENUM
		RUNNER_KIND_COUNT
};

/* How a run ended: summary.json's status. */
#define RUN_END_LIST(X)                                                                            \
	X(RUN_COMPLETE, "complete")                                                                \
	X(RUN_INTERRUPTED, "interrupted")                                                          \
	X(RUN_FAILED, "failed")

enum run_end {
#define RUN_END_ENUM(name, text) name,
	RUN_END_LIST(RUN_END_ENUM)
#undef RUN_END_ENUM
};

/* Whether a run's figures describe the engine or the length of the trace: see
   bench/record/run_outcome.h. */
#define VERDICT_LIST(X)                                                                            \
	X(VERDICT_STABLE, "stable")                                                                \
	X(VERDICT_BACKLOGGED, "backlogged")                                                        \
	X(VERDICT_OVERLOADED, "overloaded")                                                        \
	X(VERDICT_UNSERVED, "unserved")

enum verdict {
#define VERDICT_ENUM(name, text) name,
	VERDICT_LIST(VERDICT_ENUM)
#undef VERDICT_ENUM
};

/* requests.tsv, in order of finishing; requests that never finished follow in order of arrival.
   status is one of the names of REQUEST_STATUS_LIST; slo_met is 1, 0 or `-` (no SLO given, or the
   request did not finish). */
#define REQUEST_COLUMNS                                                                            \
	"id\tsession\tstatus\tarrival_ns\tfirst_scheduled_ns\tfirst_token_ns\tfinish_ns\t"         \
	"prompt_tokens\tcached_tokens\toutput_tokens\tpreemptions\trecomputed_tokens\tqueue_ns\t"  \
	"ttft_ns\ttpot_ns\te2e_ns\tslo_met"

/* The column behind them in runs of several replicas. */
#define REQUEST_REPLICA_COLUMN "replica"

#define REQUEST_STATUS_LIST(X)                                                                     \
	X(REQUEST_FINISHED, "finished")                                                            \
	X(REQUEST_REJECTED_TOO_LONG, "rejected_too_long")                                          \
	X(REQUEST_REJECTED_NEVER_FITS, "rejected_never_fits")                                      \
	X(REQUEST_REJECTED_QUEUE_FULL, "rejected_queue_full")                                      \
	X(REQUEST_FAILED, "failed")                                                                \
	X(REQUEST_UNFINISHED, "unfinished")

enum request_status {
#define REQUEST_STATUS_ENUM(name, text) name,
	REQUEST_STATUS_LIST(REQUEST_STATUS_ENUM)
#undef REQUEST_STATUS_ENUM
};

/* timeline.tsv: at most 2,000 time bins of equal width. time_s is the start of the bin, width_s its
   width (the same in every row), both in seconds. running, waiting and used_blocks are averages
   over the bin's time; token counts, preemptions and steps are sums over the steps that end in the
   bin; busy_share is the fraction of the bin in which a step was running, in [0, 1], of a fleet the
   sum over its replicas. wait_CAUSE is the average number of requests that were waiting for their
   first admission because of CAUSE, a name of engine/wait_cause.h. */
#define TIMELINE_COLUMN_LIST(TEXT, NUMBER)                                                         \
	NUMBER(time_s)                                                                             \
	NUMBER(width_s)                                                                            \
	NUMBER(running)                                                                            \
	NUMBER(waiting)                                                                            \
	NUMBER(used_blocks)                                                                        \
	NUMBER(hit_tokens)                                                                         \
	NUMBER(query_tokens)                                                                       \
	NUMBER(output_tokens)                                                                      \
	NUMBER(prefill_tokens)                                                                     \
	NUMBER(preemptions)                                                                        \
	NUMBER(steps)                                                                              \
	NUMBER(busy_share)                                                                         \
	WAIT_CAUSE_LIST(TIMELINE_WAIT_COLUMN, NUMBER)
#define TIMELINE_WAIT_COLUMN(NUMBER, cause, name, title, remedy) NUMBER(wait_##name)
#define TIMELINE_COLUMNS RESULT_HEADER(TIMELINE_COLUMN_LIST)
enum { TIMELINE_BINS_MAX = 2000 };

/* step_grid.tsv: steps by composition; both ranges include their ends. Only cells with steps. */
#define STEP_GRID_COLUMN_LIST(TEXT, NUMBER)                                                        \
	NUMBER(decode_rows_low)                                                                    \
	NUMBER(decode_rows_high)                                                                   \
	NUMBER(prefill_tokens_low)                                                                 \
	NUMBER(prefill_tokens_high)                                                                \
	NUMBER(steps)                                                                              \
	NUMBER(mean_ns)                                                                            \
	NUMBER(max_ns)
#define STEP_GRID_COLUMNS RESULT_HEADER(STEP_GRID_COLUMN_LIST)

/* The latencies of a run, in the order of latency.tsv and of latency_ms in summary.json, and the
   figures that summary.json has of each. X(enumerator, name, title), and X(of, enumerator, name,
   whether it is printed, and compared between a real run and a simulated one); `of` is passed on.
 */
#define LATENCY_METRIC_LIST(X)                                                                     \
	X(LATENCY_QUEUE, "queue", "Time in the queue")                                             \
	X(LATENCY_TTFT, "ttft", "Time to first token (TTFT)")                                      \
	X(LATENCY_TPOT, "tpot", "Time per output token (TPOT)")                                    \
	X(LATENCY_ITL, "itl", "Inter-token latency (ITL)")                                         \
	X(LATENCY_E2E, "e2e", "End-to-end latency (E2E)")

#define LATENCY_STATISTIC_LIST(X, of)                                                              \
	X(of, STATISTIC_MEAN, "mean", true)                                                        \
	X(of, STATISTIC_STD, "std", false)                                                         \
	X(of, STATISTIC_MIN, "min", false)                                                         \
	X(of, STATISTIC_P50, "p50", true)                                                          \
	X(of, STATISTIC_P90, "p90", true)                                                          \
	X(of, STATISTIC_P95, "p95", false)                                                         \
	X(of, STATISTIC_P99, "p99", true)                                                          \
	X(of, STATISTIC_P99_9, "p99_9", false)                                                     \
	X(of, STATISTIC_MAX, "max", true)

enum latency_metric {
#define LATENCY_METRIC_ENUM(metric, name, title) metric,
	LATENCY_METRIC_LIST(LATENCY_METRIC_ENUM)
#undef LATENCY_METRIC_ENUM
		LATENCY_COUNT
};

enum latency_statistic {
#define LATENCY_STATISTIC_ENUM(of, statistic, name, is_main) statistic,
	LATENCY_STATISTIC_LIST(LATENCY_STATISTIC_ENUM, )
#undef LATENCY_STATISTIC_ENUM
		STATISTIC_COUNT
};

extern const char *const latency_names[LATENCY_COUNT];
extern const char *const latency_titles[LATENCY_COUNT];
extern const char *const latency_statistics[STATISTIC_COUNT];
extern const bool latency_is_main[STATISTIC_COUNT];

/* latency.tsv: histograms of queue, ttft, tpot, itl and e2e, in this order, each by rising
   upper_ns; count values lie in (previous bucket's upper_ns, upper_ns]. Only buckets with values.
 */
#define LATENCY_COLUMN_LIST(TEXT, NUMBER) TEXT(metric) NUMBER(upper_ns) NUMBER(count)
#define LATENCY_COLUMNS RESULT_HEADER(LATENCY_COLUMN_LIST)

/* levels.tsv, of a ramp: a row a level, and likewise `levels` of summary.json. rate_per_s: of the
   ramp; requests and latencies of the measured requests that arrived in the level, the others of
   its time: waiting is the mean number of waiting requests (bench/record/levels.h). */
#define LEVEL_COLUMN_LIST(TEXT, NUMBER)                                                            \
	NUMBER(rate_per_s)                                                                         \
	NUMBER(start_s)                                                                            \
	NUMBER(width_s)                                                                            \
	NUMBER(requests)                                                                           \
	NUMBER(finished)                                                                           \
	NUMBER(ttft_p50_ms)                                                                        \
	NUMBER(ttft_p99_ms)                                                                        \
	NUMBER(tpot_p99_ms)                                                                        \
	NUMBER(attained)                                                                           \
	NUMBER(waiting)                                                                            \
	NUMBER(utilisation)
#define LEVEL_COLUMNS RESULT_HEADER(LEVEL_COLUMN_LIST)

/* steps.tsv: one row a step, by the columns of engine/step_record.h. */

/* kernels.tsv, with --kernel-times: GPU time by the ranges that were open around a launch or its
   capture, for each kind of step: phase is decode, prefill or mixed, by the rows of the step; range
   the names from the outermost on, operation the innermost of them ("other": none), layer or `-`. A
   call is one execution of the range: calls, their kernels (copies and fills too), the sum of the
   kernels' durations, and mean, median and 99th percentile of a call's. bytes and flops are the
   least that the operation has to move and to compute (engine/shape/work.h), from the rows it was
   launched for (padding included) and the step's counts; `-` where unknown. tb_per_s and
   tflop_per_s are these divided by sum_ns. kernel is the one that took the most time. The first
   line is a comment.

   Measuring makes a step longer; README.md has figures. */
#define KERNEL_COLUMNS                                                                             \
	"# Durations of kernels. Kernels may overlap, so their sum may exceed the wall time.\n"    \
	"phase\trange\toperation\tlayer\tcalls\tkernels\tsum_ns\tmean_ns\tp50_ns\tp99_ns\t"        \
	"bytes\tflops\ttb_per_s\ttflop_per_s\tkernel"

/* kernel_phases.tsv: the same by kind of step and operation, with the number of such steps, the sum
   of their elapsed_ns, and the part of that time, busy_ns, in which the GPU was running anything.
   rank counts the operations of the run from the longest on; below_ns is the sum of those of
   smaller rank. */
#define KERNEL_PHASE_COLUMN_LIST(TEXT, NUMBER)                                                     \
	TEXT(phase)                                                                                \
	NUMBER(steps)                                                                              \
	NUMBER(step_ns)                                                                            \
	NUMBER(busy_ns)                                                                            \
	TEXT(operation)                                                                            \
	NUMBER(rank)                                                                               \
	NUMBER(sum_ns)                                                                             \
	NUMBER(below_ns)
#define KERNEL_PHASE_COLUMNS RESULT_HEADER(KERNEL_PHASE_COLUMN_LIST)

/* kernel_timeline.tsv: each operation by rank over at most 120 time bins, by the kernels' starts on
   the run's clock; width_s and below_ns as above. */
#define KERNEL_TIMELINE_COLUMN_LIST(TEXT, NUMBER)                                                  \
	TEXT(operation)                                                                            \
	NUMBER(rank)                                                                               \
	NUMBER(time_s)                                                                             \
	NUMBER(width_s)                                                                            \
	NUMBER(sum_ns)                                                                             \
	NUMBER(below_ns)
#define KERNEL_TIMELINE_COLUMNS RESULT_HEADER(KERNEL_TIMELINE_COLUMN_LIST)

/* summary.json, keys in this order; numbers in seconds, milliseconds and rates are decimals, all
   others integers; a value that does not exist (a percentile of nothing) is null:

     schema "quire-result-2"
     status "complete" | "interrupted" | "failed" (then failure: one line)
     config {...every limit and option that decides the result...}
     trace {name, xxh64, requests, ran_out_s}
	 ran_out_s: the last arrival, where the trace ended before --duration or --max-requests
     runner_kind "computed" | "priced" | "recorded"
     calibrated true | false
     found_kv_blocks
	 blocks that the runner found room for, independent of config: the simulation always,
	 CUDA when none were given; else null
     beyond_memory true, where config has more of them; else absent
     requests {submitted, finished, rejected, failed, unfinished, rejected_too_long,
	 rejected_never_fits}; of these kinds the tokens of the longest, prompt and output, where
	 there is one: longest_too_long, longest_never_fits
     window {start_s, end_s, warmup_requests, measured_requests, cooldown_requests, finished,
	 steps_before, steps_after}
	 the time that the figures below are of, and what lies outside of it
	 (bench/record/window.h). finished: in it, of all requests
     time {makespan_s, busy_s, steps}
	 makespan_s: length of the window
     load {offered_per_s, utilisation, kv_mean, kv_peak, seats_mean, seats_peak, budget_mean,
	 budget_peak, backlog_at_last_arrival, drain_s, verdict}
	 utilisation: share of what the engine can carry that was used (bench/record/capacity.h);
	 null where no profile prices its steps and for replicas that differ. The others: shares of
	 KV blocks, of max_num_seqs (above 1 with prefill-first, which limits the rows of a step and
	 not the sequences that run) and of max_num_batched_tokens; a mean is over the window, that
	 of the token budget over steps. offered_per_s is of the measured requests;
	 backlog_at_last_arrival, drain_s and verdict are of the whole run. backlog_at_last_arrival:
	 requests that wait and will be served, of a fleet at that moment, of one engine once it
	 has decided its next step
     tokens {prompt, output, prefill_computed, recomputed}
     prefix_cache {query_tokens, hit_tokens, hit_rate}
	 hit_rate is null where the trace does not say which prompts share tokens
     preemptions
     throughput {output_tokens_per_s, total_tokens_per_s, requests_per_s}
     waiting {step_s, seats_s, blocks_s, budget_s, order_s}
	 time from arrival to first admission by cause (engine/wait_cause.h), summed over all
	 requests, within the window: of a whole run the sum of the queue times
     latency_ms {queue, ttft, tpot, itl, e2e: each {mean, std, min, p50, p90, p95, p99, p99_9, max}}
     slo {ttft_ms, tpot_ms, e2e_ms, attained, goodput_requests_per_s}
	 attained: share of all measured requests; those that were rejected, failed or did not
	 finish miss
     levels [{...the columns of levels.tsv...}]
	 of a run with --ramp alone
     result_hash "16 hex digits"
     dispatch_late_ms {mean, std, min, p50, p90, p95, p99, p99_9, max}
	 of a run by the wall clock: delay of each step's start
     gpu_idle_ms {mean, std, min, p50, p90, p95, p99, p99_9, max}
	 where the runner measures it: idle time of the GPU between two steps that only decode,
	 by the GPU's clock

   provenance.json: commit, machine, date, command, wall_s; of a run of a sweep
   its identity, by which the sweep knows it again. */
#define RESULT_SCHEMA_PREFIX "quire-result-" /* of every version */
#define RESULT_SCHEMA RESULT_SCHEMA_PREFIX "2"

/* The names in summary.json of all that is no number. */
#define SUMMARY_SCHEMA "schema"
#define SUMMARY_STATUS "status"
#define SUMMARY_FAILURE "failure"
#define SUMMARY_CONFIG "config"
#define SUMMARY_TRACE "trace"
#define SUMMARY_TRACE_NAME "name"
#define SUMMARY_TRACE_XXH64 "xxh64"
#define SUMMARY_RUNNER_KIND "runner_kind"
#define SUMMARY_CALIBRATED "calibrated"
/* What about the profile that prices the steps is not as was asked for; absent: nothing. */
#define SUMMARY_PROFILE_NOTE "profile_note"
#define SUMMARY_SPREAD "prefill_spread"
#define SUMMARY_SPREAD_HEADS "heads"
#define SUMMARY_SPREAD_MULTIPROCESSORS "multiprocessors"
#define SUMMARY_READERS "shared_block_readers"
#define SUMMARY_PROFILE_XXH64 "profile_xxh64"
#define SUMMARY_FOUND_KV_BLOCKS "found_kv_blocks"
#define SUMMARY_LONGEST_TOO_LONG "longest_too_long"
#define SUMMARY_LONGEST_NEVER_FITS "longest_never_fits"
#define SUMMARY_BEYOND_MEMORY "beyond_memory"
/* From this share of the time on, steps unlike those that a profile was fitted to are warned of. */
#define OUTSIDE_MOST 0.05

#define SUMMARY_LOAD "load"
#define SUMMARY_LOAD_VERDICT "verdict"
#define SUMMARY_REQUESTS "requests"
#define SUMMARY_REQUESTS_CAPPED "capped"
#define SUMMARY_LATENCY_MS "latency_ms"
#define SUMMARY_FLEET "fleet"
#define SUMMARY_LEVELS "levels"
#define SUMMARY_RESULT_HASH "result_hash"
#define SUMMARY_DISPATCH_LATE_MS "dispatch_late_ms"
#define SUMMARY_GPU_IDLE_MS "gpu_idle_ms"

/* The names in provenance.json. */
#define PROVENANCE_COMMIT "commit"
#define PROVENANCE_MACHINE "machine"
#define PROVENANCE_DEVICE "device"
#define PROVENANCE_DATE "date"
#define PROVENANCE_COMMAND "command"
#define PROVENANCE_IDENTITY "identity"
#define PROVENANCE_FILES "files" /* of a run of a sweep: the hash of each other file */
#define PROVENANCE_WALL_S "wall_s"

#endif
