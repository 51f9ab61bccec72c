#include "engine/router/router.h"

static uint32_t pick(struct router *router, const struct router_request *request,
	const struct replica_view *views)
{
	(void)request;
	for (uint32_t i = 0; i < router->replica_count; i++) {
		router->costs[i] = (int64_t)views[i].tokens;
	}
	return router_least(router, views, false);
}

const struct router_kind router_least_tokens = {
	.name = "least-tokens",
	.summary = "the fewest prompt and output tokens of unfinished requests",
	.pick = pick,
};
