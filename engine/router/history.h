#ifndef ENGINE_ROUTER_HISTORY_H
#define ENGINE_ROUTER_HISTORY_H

#include "engine/router/block_set.h"
#include "engine/router/router.h"

/* What a router sent to each replica: the prompts' blocks, by replica. The state of routers that
   do not ask the engines what they have cached. */

struct router_history {
	struct block_set *sets; /* (replica_count) */
	uint64_t evictions;	/* how often sets should have been cut */
	uint64_t *sent_ns;	/* ring of (sent_capacity) times at which requests were sent */
	uint32_t *sent_to;	/* likewise */
	size_t sent_first, sent_count, sent_capacity;
	uint32_t *recent; /* (replica_count) of those, sent to each replica */
	bool *was_sent;	  /* (replica_count) a request has ever been sent there */
};

/* Opens it as router->state. capacity: blocks a replica, 0: no limit. */
void router_history_open(struct router *router, uint32_t capacity, uint64_t ttl_ns);

/* For struct router_kind. */
void router_history_forget(struct router *router, uint32_t replica);
void router_history_close(struct router *router);

/* Of the first `count` blocks of the request, those that lead and were sent to the replica. */
uint32_t router_history_match(const struct router_history *history, uint32_t replica,
	const struct router_request *request, uint32_t count);
void router_history_add(struct router_history *history, uint32_t replica,
	const struct router_request *request, uint32_t count);

/* Requests that were sent to a replica in the window before now. */
void router_history_sent(struct router_history *history, uint32_t replica, uint64_t now_ns);
void router_history_forget_sent(
	struct router_history *history, uint64_t now_ns, uint64_t window_ns);

#endif
