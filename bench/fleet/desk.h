#ifndef BENCH_FLEET_DESK_H
#define BENCH_FLEET_DESK_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/fleet/outages.h"
#include "bench/fleet/parcel.h"
#include "bench/fleet/presence.h"
#include "bench/fleet/sight.h"
#include "engine/engine.h"
#include "engine/router/block_set.h"
#include "engine/router/router.h"
#include "workloads/block_keys.h"
#include "workloads/workload.h"

/* The desk of a fleet: it reads the trace, has the router pick a replica for each request at the
   moment of its arrival, and keeps what waits before each engine.

       trace ─► workload ─► router ─► inbox of a replica ─► engine
                   ▲           ▲                               │
                   │           └── what it sees of replicas ◄──┤
                   └──────────────── finishes ◄────────────────┘

   It has no clock: the loop that owns time tells it what happens when. */

/* Up to so many replicas, what each has cached of a request is looked up for routers that do not
   ask for it too, to know the regret. */
enum { DESK_REGRET_REPLICAS = 64 };

struct desk_options {
	const char *trace_path;
	const struct workload_options *workload; /* borrowed */
	const struct router_kind *router;
	const char *router_options; /* NULL: the router's defaults */
	const char *view;	    /* what the router sees: sight_parse() */
	const char *outages;	    /* outages_parse(), or NULL */
	uint32_t replica_limit;	    /* unfinished requests a replica takes; 0: no limit */
	bool has_queue_limit;
	uint64_t queue_limit; /* requests that may wait at the router while no replica takes any */
	uint32_t replica_count;
	uint32_t block_size;
	uint64_t seed;
	uint32_t vocab_size;
	bool needs_tokens; /* the runners read tokens; else the keys of blocks suffice */
};

/* A replica as the desk knows it. */
struct berth {
	struct engine *engine;	  /* borrowed */
	bool is_up;		  /* it is there and not draining */
	struct parcel_list inbox; /* sent, and not given to the engine yet */
	uint32_t fit_count;	  /* of these, those that the engine will not reject */
	struct parcel *unseen;	  /* first of the inbox that was not counted as waiting */
};

struct desk {
	struct desk_options options;
	struct workload *workload;
	enum workload_state state; /* its latest answer */
	uint64_t next_ns;	   /* of WORKLOAD_LATER */
	bool has_finish;	   /* since the latest answer, which may have changed */
	struct block_keys keys;
	struct token_source tokens;
	struct router router;
	struct sight sight;	    /* what it sees */
	struct berth *berths;	    /* (replica_count) */
	struct replica_view *views; /* (replica_count) the state of each replica */
	uint32_t open_count;	    /* of replicas that take requests */
	struct parcel_list queue;   /* no replica takes them; the first waits longest */
	struct parcel_list refused; /* the queue was full; the caller records and frees them */
	struct outages outages;
	struct presence presence; /* when each replica could work */
	bool has_arrival;
	uint64_t first_arrival_ns;
	uint64_t warmup, measured_end; /* as metrics_options has them; set by the caller */
	bool has_measured;	       /* a measured request has arrived that a replica can take */
	uint64_t first_measured_ns;
	uint64_t retries;	  /* requests that were sent again after a failure */
	XXH64_state_t *decisions; /* (request, replica) of every pick, in order */
	bool has_prompt_ids;	  /* a row says what its prompt shares with others */

	int32_t *prompt; /* (prompt_capacity) tokens, where the engines make keys from them */
	struct block_key *prompt_keys;
	size_t prompt_capacity, prompt_key_capacity;

	struct block_set whole; /* one cache with the memory of all replicas, least recently used
				   block first out; of the requests that are not rejected */
	uint64_t whole_hit_tokens, whole_query_tokens;
	bool finds_cached; /* what each replica has cached of a request, and so the regret */
	uint64_t picks;
	uint64_t regret_blocks; /* best overlap there was less that of the picked replica, summed */
};

/* The trace must be a file. Must be closed, also after a failure. */
enum status desk_open(struct desk *desk, const struct desk_options *options, struct error *error);
void desk_close(struct desk *desk);

/* A replica's engine, which outlives the desk's use of it. */
void desk_set_engine(struct desk *desk, uint32_t replica, struct engine *engine);

/* A replica stops or starts to take requests. */
void desk_set_up(struct desk *desk, uint32_t replica, bool is_up, uint64_t now_ns);

/* A replica has failed with `lost` in its engine; its inbox is lost too. All of them wait at the
   router again, before the others there, in the order of the trace. Those that the engine would
   not have rejected are charged up to now_ns by the caller. */
void desk_fail(struct desk *desk, uint32_t replica, struct parcel **lost, uint32_t lost_count,
	uint64_t now_ns);

/* Sends every row that has arrived by now_ns, or that has waited, to a replica, and sets the bit of
   each such replica in `woken` (a bit for each replica). */
enum status desk_send_arrived(
	struct desk *desk, uint64_t now_ns, uint64_t *woken, struct error *error);

/* Whether any row may still arrive. */
static inline bool desk_has_ended(const struct desk *desk)
{
	return desk->state == WORKLOAD_END;
}

/* The next parcel for a replica's engine, or NULL. */
struct parcel *desk_take(struct desk *desk, uint32_t replica);

/* Parcels in a replica's inbox that were not counted as waiting yet; they are from now on. The
   caller walks `count` of them from *first on. */
uint32_t desk_newly_waiting(struct desk *desk, uint32_t replica, struct parcel **first);

/* Requests that wait in a replica's inbox or engine, and those at the router. Those that will be
   rejected do not count. */
uint64_t desk_waiting_at_replica(const struct desk *desk, uint32_t replica);
uint64_t desk_waiting_at_router(const struct desk *desk);

/* The state of a replica's engine has changed. */
void desk_look(struct desk *desk, uint32_t replica, uint64_t now_ns);

/* A parcel's prompt was computed. */
void desk_first_token(struct desk *desk, struct parcel *parcel, uint64_t now_ns);

/* A parcel has finished or was rejected by its engine; it is freed. */
void desk_finish(struct desk *desk, struct parcel *parcel, uint64_t now_ns);

/* XXH64 over the picks so far. */
uint64_t desk_decisions_hash(const struct desk *desk);

#endif
