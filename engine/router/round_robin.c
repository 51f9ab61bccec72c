#include "engine/router/router.h"

static uint32_t pick(struct router *router, const struct router_request *request,
	const struct replica_view *views)
{
	(void)request;
	do {
		router->last = (router->last + 1) % router->replica_count;
	} while (!views[router->last].is_open);
	return router->last;
}

const struct router_kind router_round_robin = {
	.name = "round-robin",
	.summary = "each replica in turn",
	.pick = pick,
};
