#include "engine/router/router.h"

#include <string.h>

static uint32_t pick(struct router *router, const struct router_request *request,
	const struct replica_view *views)
{
	(void)request;
	memset(router->costs, 0, router->replica_count * sizeof(*router->costs));
	return router_least(router, views, true);
}

const struct router_kind router_random = {
	.name = "random",
	.summary = "any replica, drawn by --seed",
	.pick = pick,
};
