#include "engine/router/router.h"

static uint32_t pick(struct router *router, const struct router_request *request,
	const struct replica_view *views)
{
	(void)request;
	return router_fewest_requests(router, views);
}

const struct router_kind router_least_requests = {
	.name = "least-requests",
	.summary = "the fewest unfinished requests",
	.pick = pick,
};
