#ifndef BENCH_FLEET_SIGHT_H
#define BENCH_FLEET_SIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/fleet/parcel.h"
#include "engine/engine.h"
#include "engine/router/block_set.h"
#include "engine/router/router.h"

/* What a router sees of the replicas:

       exact     their state at the moment
       delayed   that state some time ago, as a router does that polls metrics and gets events of
                 KV blocks late
       own       what the router knows by itself: what it sent, and the first and the last token
                 that it heard of each request. It takes a prompt's blocks for cached from the
                 moment it sends it, and as many as the replica has room for.

   Which replicas take requests is always known at once, and so is which of the blocks that it takes
   for cached unfinished requests hold: it has sent these itself. */

enum sight_kind { SIGHT_EXACT, SIGHT_DELAYED, SIGHT_OWN };

/* The state of a replica from a moment on. */
struct sight_past {
	uint64_t time_ns;
	struct replica_view view;
};

/* A change of a replica's prefix cache. */
struct sight_change {
	uint64_t time_ns;
	struct block_change change;
};

/* One replica. */
struct sight_one {
	const struct engine *engine; /* borrowed */
	struct block_log log;	     /* delayed: what the engine's cache has changed since */
	struct sight_past *past;     /* ring of (past_capacity), the first is what is seen */
	size_t past_first, past_count, past_capacity;
	struct sight_change *changes; /* ring of (change_capacity), not seen yet */
	size_t change_first, change_count, change_capacity;
	struct block_set blocks; /* delayed: of its cache as seen; own: sent to it */
	uint64_t own_blocks;	 /* own: of the prompts of its unfinished requests */
	uint32_t own_waiting;	 /* own: of those, without a first token */
};

struct sight {
	enum sight_kind kind;
	uint64_t delay_ns;
	bool has_blocks; /* of the caches, what the router's kind wants of them */
	bool has_held;
	uint32_t replica_count;
	struct sight_one *each;	    /* (replica_count) */
	struct replica_view *views; /* (replica_count) the state of the replicas, borrowed */
	struct replica_view *seen;  /* (replica_count) what the router gets; exact: `views` */
};

/* "exact", "own", "delayed:MS". */
enum status sight_parse(
	const char *text, enum sight_kind *kind, uint64_t *delay_ns, struct error *error);

/* router: what it wants of the caches is seen. views: (replica_count) the state of the replicas,
   which outlives the sight; what each has cached of the request to place is written into it. */
void sight_init(struct sight *sight, enum sight_kind kind, uint64_t delay_ns,
	const struct router_kind *router, struct replica_view *views, uint32_t replica_count);
void sight_deinit(struct sight *sight);

/* A replica's engine, whose cache is empty. */
void sight_set_engine(struct sight *sight, uint32_t replica, struct engine *engine);

/* The state of a replica is `view` from now on, and its cache may have changed. */
void sight_note(
	struct sight *sight, uint32_t replica, const struct replica_view *view, uint64_t now_ns);

/* A parcel was sent to parcel->replica; its first token was heard; its last. */
void sight_sent(
	struct sight *sight, const struct parcel *parcel, uint32_t block_size, uint64_t now_ns);
void sight_first_token(struct sight *sight, const struct parcel *parcel);
void sight_finished(struct sight *sight, const struct parcel *parcel, uint32_t block_size);

/* Fills in sight->seen at now_ns. parcel: whose cached blocks are looked up, in the caches and as
   the router sees them, or NULL. */
void sight_look(struct sight *sight, const struct parcel *parcel, uint64_t now_ns);

#endif
