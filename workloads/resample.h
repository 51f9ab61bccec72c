#ifndef WORKLOADS_RESAMPLE_H
#define WORKLOADS_RESAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/status.h"
#include "workloads/ties.h"
#include "workloads/trace/trace.h"

/* A trace drawn from a trace: what the same source might have sent instead. It is a moving block
   bootstrap of windows of time (Kuensch 1989), circular (Politis and Romano 1992), of which the
   sessions stay whole.

       period   last - first time and a mean gap, (last - first) / (rows - 1)
       unit     a session, or a row without one; its time is that of its first row
       window   begins at a uniform random time of the period, and goes on at the trace's begin
                where it passes the trace's end

       drawn     | window 1     | window 2     | window 3     | ... as long as the period
                 |<- window_ns->|<- window_ns->|<- window_ns->|     the last one is cut

   The units whose time lies in a window come with it, with all their rows and the times between
   these. So the rows of a session may reach into later windows. Rows beyond the period's end come
   at its begin, so that a draw offers as much as the trace: they are a conversation of their own,
   whose first prompt nothing holds, as of one that began before the trace. A unit is drawn once on
   average: the number of rows is about that of the trace.

   A unit that is drawn again is a twin (twin.h). If it had the same prompts it would hit what the
   first one left, which no real request did. The names of its sessions and turns therefore end in
   "#2", "#3", and so on, and its ids are other ones, the same for all n-th twins, from the first id
   on that is private: of which all occurrences lie in units less than a window apart. Ids that
   spread farther, of system prompts and of documents, stay. Hits stay about as many: of the hour of
   Mooncake's conversations an endless cache finds 37 % of the prompt tokens, of draws with windows
   from 30 s to 12 min 34 to 38 %.

   A prompt that the trace spells out has an id for each RESAMPLE_CHUNK tokens, which stands for
   them and all before them. From the first private one on, the twin's tokens are other ones, and so
   are all of its completion.

   Rows that all have one time are a batch: units are drawn one by one, in no window.

   Arithmetic is in integers; seed and window determine every byte. The whole trace is in memory:
   about 300 bytes a row, 32 an id and 10 a spelled-out token, and at most 2^32 rows. */

enum { RESAMPLE_CHUNK = 16, RESAMPLE_WINDOWS_MAX = 1000 * 1000, RESAMPLE_SHARE = 20 };

struct resample_options {
	uint64_t seed;
	uint64_t window_ns; /* of the trace's own time; 0: the RESAMPLE_SHARE-th part of the period
			       */
	uint64_t max_rows;  /* of the trace, the first ones; 0: all */
	const struct spread_times
		*times; /* offsets of the rows, or NULL; borrowed until open ends */
};

struct resample;

/* Reads the trace to its end, or to max_rows. More than RESAMPLE_WINDOWS_MAX windows are refused.
   */
enum status resample_open(struct resample **out, struct trace *trace,
	const struct resample_options *options, struct error *error);

/* Accepts NULL. */
void resample_close(struct resample *resample);

/* The next row in order of time, as trace_next(): valid until the next call; .index counts the rows
   of the draw, .line is that of the trace. False: there is none. */
bool resample_next(struct resample *resample, struct trace_row *row);

/* Rows that were read, what their times have in common, and the window, which is at most the
   period. */
uint64_t resample_source_rows(const struct resample *resample);
const struct tick_finder *resample_ticks(const struct resample *resample);
uint64_t resample_window_ns(const struct resample *resample);

#endif
