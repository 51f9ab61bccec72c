#ifndef WORKLOADS_STUDY_TRACE_STAT_H
#define WORKLOADS_STUDY_TRACE_STAT_H

#include <stddef.h>
#include <stdint.h>

#include "workloads/study/cache.h"
#include "workloads/conversations.h"
#include "workloads/study/references.h"
#include "workloads/ties.h"
#include "workloads/trace/trace.h"

/* Statistics of a trace, computed without an engine. Rows are added in order; finish computes
   percentiles and hit rates. Takes 8 bytes per row, and what workloads/study/references.h and
   workloads/conversations.h need for rows with ids and sessions. */

__extension__ typedef unsigned __int128 trace_stat_sum;

struct length_stat {
	uint64_t sum;
	uint32_t minimum, p50, p90, p99, maximum; /* nearest rank */
};

enum { TRACE_STAT_BINS = 400 };

struct trace_stat {
	uint64_t row_count;
	uint64_t first_ns, last_ns;
	struct tick_finder ticks;
	uint64_t peak_second;	    /* seconds from the trace's zero, the first of several */
	uint64_t peak_second_count; /* rows in it */
	double gap_cv;	 /* standard deviation of the gaps between arrivals / their mean; < 0: no
			    gaps */
	uint64_t bin_ns; /* rows over time, from the first row's time on */
	uint64_t bins[TRACE_STAT_BINS];
	struct length_stat input, output;
	uint64_t block_references; /* blocks of all prompts */
	uint64_t unique_blocks;	   /* different ones; rows without ids share none */
	bool has_ids;
	struct cache_hits ideal; /* of an infinite cache */
	uint64_t session_count, turn_count;
	uint64_t follow_up_count; /* turns that continue an earlier turn word for word */

	uint32_t *inputs, *outputs; /* (row_count), sorted by trace_stat_finish() */

	/* while rows are added */
	size_t input_capacity, output_capacity;
	uint64_t second, second_count;
	trace_stat_sum gap_squares; /* microseconds squared */
	uint64_t blocks_without_ids;
	struct references references;
	struct conversations *conversations;
};

void trace_stat_init(struct trace_stat *stat, uint32_t block_size);
void trace_stat_deinit(struct trace_stat *stat);

/* Sets the row's session and turn too. */
enum status trace_stat_add(struct trace_stat *stat, struct trace_row *row, struct error *error);

void trace_stat_finish(struct trace_stat *stat);

#endif
