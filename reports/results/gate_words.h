#ifndef REPORTS_RESULTS_GATE_WORDS_H
#define REPORTS_RESULTS_GATE_WORDS_H

/* The words that a gate (bench/gate/) writes into its history, and the page reads: verdicts and
   costs. */

/* What a gate says of a case. X(enumerator, word, what it costs: 0 nothing, 1 a verdict, 2 the
   comparison is not one, what it means). A later one goes before an earlier one. */
#define GATE_STATUS_LIST(X)                                                                        \
	X(GATE_PASS, "PASS", 0, "same decisions, figures within their limits")                     \
	X(GATE_IMPROVED, "IMPROVED", 0, "better than the limits allow to be worse")                \
	X(GATE_NEW, "NEW", 0, "the baseline does not have this case: --update adds it")            \
	X(GATE_REGRESSED, "REGRESSED", 1, "a figure or a cost is beyond its limit")                \
	X(GATE_CHANGED, "BEHAVIOR_CHANGED", 1, "other decisions for the same trace")               \
	X(GATE_MISSING, "MISSING", 1, "the baseline has a case that the suite lacks")              \
	X(GATE_FAILED, "FAILED", 1, "the run failed")                                              \
	X(GATE_INVALID, "INVALID", 2, "trace, model, profile or option is not the baseline's")

enum gate_status {
#define GATE_STATUS_ENUM(status, word, cost, meaning) status,
	GATE_STATUS_LIST(GATE_STATUS_ENUM)
#undef GATE_STATUS_ENUM
		GATE_STATUS_COUNT
};

extern const char *const gate_status_words[GATE_STATUS_COUNT];
extern const char *const gate_status_meanings[GATE_STATUS_COUNT];
extern const int gate_status_costs[GATE_STATUS_COUNT];

/* What a case costs besides its result. X(enumerator, name, unit, title, the limit in percent that
   holds where the suite gives none, the difference in units that is never judged). The sources:
   instructions of equal runs differ by some 16,000 at most, written bytes not at all. Peak memory
   counts the pages of the program's files that the kernel happens to map: of 8 equal runs of 4.7 MB
   the smallest and largest lay 440 KiB apart. */
#define GATE_COST_LIST(X)                                                                          \
	X(COST_INSTRUCTIONS, "instructions", "instructions", "Instructions", 1, 0)                 \
	X(COST_STEP_INSTRUCTIONS, "instructions_per_step", "instructions", "Instructions a step",  \
		1, 0)                                                                              \
	X(COST_REQUEST_INSTRUCTIONS, "instructions_per_request", "instructions",                   \
		"Instructions a request", 1, 0)                                                    \
	X(COST_CPU_TIME, "cpu_ms", "ms", "CPU time", 3, 0)                                         \
	X(COST_PEAK_MEMORY, "peak_memory", "bytes", "Peak memory", 5, 512 * 1024)                  \
	X(COST_BYTES_WRITTEN, "bytes_written", "bytes", "Bytes written", 1, 0)

enum gate_cost {
#define GATE_COST_ENUM(cost, name, unit, title, limit, floor) cost,
	GATE_COST_LIST(GATE_COST_ENUM)
#undef GATE_COST_ENUM
		COST_COUNT
};

extern const char *const gate_cost_names[COST_COUNT];
extern const char *const gate_cost_titles[COST_COUNT];

#endif
