#ifndef BENCH_PLAN_OBJECTIVE_H
#define BENCH_PLAN_OBJECTIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/record/run_outcome.h"
#include "engine/base/text.h"
#include "reports/results/metric.h"

/* What a run must hold to pass: enough of its requests are within the limits of each request, the
   engine is not overloaded, and the limits on figures of the run hold.

   The share is of all measured requests: rejected, failed and unfinished ones miss. */

enum { OBJECTIVE_LIMITS_MAX = 16 };

struct objective {
	struct slo slo;
	uint64_t attain;	 /* the least share, in millionths */
	const char *limits_text; /* as --slo has it; NULL: none */
	uint32_t limit_count;
	struct metric_limit limits[METRIC_LIMITS_MAX];
};

/* Reads limits_text. Refuses an objective without any limit, and limits by which no search can go.

   A search needs to know on which side of a load that fails the others lie. So where load varies, a
   limit must be one that more load can only break: latencies, waits, what is in use, rejections and
   the like from above, the hit rate and the share that attains from below. Throughput and goodput
   first grow with the load, and a makespan gets shorter. Where what serves a given load varies
   (is_least), limits of these are sound too. */
enum status objective_check(struct objective *objective, bool is_least, struct error *error);

/* The objective in words: "99 % of requests within TTFT 5000 ms, TPOT 50 ms". */
void objective_text(const struct objective *objective, struct text *text);

/* "at most 50 ms" */
void metric_limit_add_text(const struct metric_limit *limit, struct text *text);

/* Why a run does not pass. */
enum objective_miss {
	MISS_NOTHING, /* it passes */
	MISS_ATTAINED,
	MISS_OVERLOADED,
	MISS_LIMIT, /* of the run: `limit` of objective_judge() */
};

struct objective_verdict {
	enum objective_miss miss;
	uint32_t limit;			     /* of MISS_LIMIT: the first that does not hold */
	double value;			     /* of its metric; NAN: the run has none */
	double values[OBJECTIVE_LIMITS_MAX]; /* (limit_count) likewise, of each limit */
	/* How clear it is: misses in those that are allowed, or the figure in its limit, less 1;
	   the largest of them. At most 0 where the run passes. */
	bool has_margin;
	double margin;
};

/* is_alone: one request was in the system at a time. Such a run is judged by what only gets worse
   under load: the share, and limits on latencies from above. */
enum status objective_judge(const struct objective *objective, const struct run_outcome *outcome,
	bool is_alone, struct objective_verdict *verdict, struct error *error);

#endif
