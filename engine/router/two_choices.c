#include "engine/router/router.h"

/* Mitzenmacher, "The power of two choices in randomized load balancing", 2001. */
static uint32_t pick(struct router *router, const struct router_request *request,
	const struct replica_view *views)
{
	uint32_t open = 0, drawn[2] = {0}, replica[2] = {0};

	(void)request;
	for (uint32_t i = 0; i < router->replica_count; i++) {
		open += views[i].is_open;
	}
	drawn[0] = router_draw(router, open);
	drawn[1] = open == 1 ? 0 : router_draw(router, open - 1);
	drawn[1] += open > 1 && drawn[1] >= drawn[0]; /* another one than the first */
	for (uint32_t i = 0, at = 0; i < router->replica_count; i++) {
		for (uint32_t k = 0; k < 2 && views[i].is_open; k++) {
			replica[k] = drawn[k] == at ? i : replica[k];
		}
		at += views[i].is_open;
	}
	return views[replica[1]].requests < views[replica[0]].requests ? replica[1] : replica[0];
}

const struct router_kind router_two_choices = {
	.name = "two-choices",
	.summary = "of two drawn replicas the one with fewer unfinished requests",
	.pick = pick,
};
