#ifndef BENCH_RECORD_KERNEL_TIMES_STATE_H
#define BENCH_RECORD_KERNEL_TIMES_STATE_H

#include "bench/record/histogram.h"
#include "bench/record/kernel_times.h"
#include "engine/base/integer.h"
#include "engine/base/map.h"

/* The sums that bench/record/kernel_times.c computes and bench/record/kernel_tables.c writes.
   Private to these two files. */

enum {
	STEPS_KEPT = 1 << 14,
	RECORDS_AT_ONCE = 1 << 12,
	PENDING_MAX = 1 << 16, /* records of a step that is not over yet */
	GROUPS_MAX = 1 << 12,
	OPERATIONS_MAX = 48,
	KERNELS_OF_GROUP = 6,
	BINS_MAX = 120,
	PATH_BYTES = 128,
};

struct step_info {
	bool is_known;
	uint64_t step;
	struct step_counts counts;
	uint64_t end_ns;	/* on the run's clock */
	uint64_t source_end_ns; /* its end on the source's clock */
};

/* A range under one kind of step: a row of kernels.tsv. */
struct group {
	enum step_kind phase;
	char path[PATH_BYTES];
	uint32_t operation;
	uint32_t layer;
	uint64_t kernels;
	uint64_t sum_ns;
	struct histogram calls; /* the time of all kernels of a call */
	bool has_bytes, has_flops;
	u128 bytes, flops;
	struct {
		const char *name;
		uint64_t sum_ns;
	} names[KERNELS_OF_GROUP]; /* the first few kernels seen */

	/* the call being added up */
	bool is_open;
	uint64_t step;
	uint32_t call;
	uint64_t call_ns;
};

struct phase_total {
	uint64_t steps;
	uint64_t step_ns;
	uint64_t busy_ns;
	uint64_t sum_ns[OPERATIONS_MAX];
};

struct kernel_times {
	struct kernel_source source;
	struct model_config model;
	uint32_t ranks;
	struct perfetto *timeline;

	struct step_info *steps;       /* (STEPS_KEPT) by step % STEPS_KEPT */
	struct kernel_record *records; /* (RECORDS_AT_ONCE) */
	struct kernel_record *pending; /* (PENDING_MAX) */
	size_t pending_count;

	struct group *groups; /* (GROUPS_MAX) */
	uint32_t group_count;
	/* From launch site << 32 | graph site to the group, or to GROUPS_MAX when they were full.
	   Several pairs of sites may have the same ranges, and so one group. */
	struct map groups_of_sites[STEP_KIND_COUNT];
	char operations[OPERATIONS_MAX][PATH_BYTES];
	uint32_t operation_count;
	struct phase_total phases[STEP_KIND_COUNT];

	uint64_t record_count, lost;
	uint64_t busy_end_ns; /* on the source's clock: the end of the last record so far */

	bool has_origin;
	uint64_t origin_ns;
	uint64_t bin_ns;
	uint32_t bin_count;
	uint64_t (*bins)[OPERATIONS_MAX]; /* (BINS_MAX) */
};

#endif
