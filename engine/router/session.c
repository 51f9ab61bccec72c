#include "engine/base/counter_hash.h"
#include "engine/router/router.h"

/* Rendezvous hashing (Thaler and Ravishankar, "A name-based mapping scheme for rendezvous", 1996):
   each replica draws a number for the session and the largest wins. When a replica leaves, only its
   own sessions move. */
static uint32_t pick(struct router *router, const struct router_request *request,
	const struct replica_view *views)
{
	uint64_t most = 0;
	uint32_t best = UINT32_MAX;

	if (!request->has_session) {
		return router_fewest_requests(router, views);
	}
	for (uint32_t i = 0; i < router->replica_count; i++) {
		uint64_t number = counter_hash(request->session, i);
		if (views[i].is_open && (best == UINT32_MAX || number > most)) {
			best = i;
			most = number;
		}
	}
	return best;
}

const struct router_kind router_session = {
	.name = "session",
	.summary =
		"the replica of its session by consistent hashing; without a session, the fewest "
		"unfinished requests",
	.pick = pick,
};
