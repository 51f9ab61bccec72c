#ifndef BENCH_FLEET_OUTAGES_H
#define BENCH_FLEET_OUTAGES_H

#include <stdint.h>

#include "engine/base/status.h"
#include "engine/base/text.h"

/* Replicas that come and go: a list of KIND:REPLICA@SECONDS, separated by commas.

       fail    the replica is gone: its step in flight is lost, and its requests start anew at the
               router
       drain   it takes no more requests and finishes those it has
       join    it takes requests (again); after a failure with an empty cache

   A replica whose first event is a join is not there before. Events of one moment happen in the
   order of the list. */

enum outage_kind { OUTAGE_FAIL, OUTAGE_DRAIN, OUTAGE_JOIN };

struct outage {
	uint64_t time_ns;
	enum outage_kind kind;
	uint32_t replica;
};

enum { OUTAGES_MAX = 4096 };

struct outages {
	struct outage *list; /* (count) in order of time */
	uint32_t count, next;
};

/* text: NULL: none. Must be closed, also after a failure. */
enum status outages_parse(
	struct outages *outages, const char *text, uint32_t replica_count, struct error *error);
void outages_close(struct outages *outages);

/* Adds a line for those that the run, which ended at end_ns, was over for, and one for those that
   found their replica as they would have left it, such as a second failure. */
void outages_add_idle(const struct outages *outages, uint64_t end_ns, struct text *out);

/* When the next one happens; UINT64_MAX: none does. */
static inline uint64_t outages_next_ns(const struct outages *outages)
{
	return outages->next < outages->count ? outages->list[outages->next].time_ns : UINT64_MAX;
}

#endif
