#include "engine/router/router.h"

#include "engine/base/check.h"
#include "engine/base/counter_hash.h"
#include "engine/base/memory.h"
#include "engine/base/number.h"
#include "engine/base/text.h"

#include <stdlib.h>
#include <string.h>

#define ROUTER_DECLARATION(name) extern const struct router_kind router_##name;
ROUTERS(ROUTER_DECLARATION)
#undef ROUTER_DECLARATION

static const struct router_kind *const kinds[] = {
#define ROUTER_ENTRY(name) &router_##name,
	ROUTERS(ROUTER_ENTRY)
#undef ROUTER_ENTRY
};

enum { KIND_COUNT = sizeof(kinds) / sizeof(kinds[0]) };

const struct router_kind *router_at(uint32_t index)
{
	return index < KIND_COUNT ? kinds[index] : NULL;
}

/* ---- settings ---- */

static enum status refuse(const struct router_kind *kind, const char *found, struct error *error)
{
	struct text names = {0};

	for (uint32_t i = 0; i < ROUTER_SETTINGS_MAX && kind->settings[i].name != NULL; i++) {
		const struct router_setting *setting = &kind->settings[i];
		text_format(&names, "%s%s=%g (at most %llu)", i == 0 ? "" : ", ", setting->name,
			(double)setting->initial / ROUTER_MILLION,
			(unsigned long long)setting->maximum);
	}
	if (names.bytes == NULL) {
		return error_set(error, STATUS_USAGE,
			"--router-option: found '%.64s', but --router %s has no options", found,
			kind->name);
	}
	error_set(error, STATUS_USAGE,
		"--router-option: found '%.64s', expected NAME=NUMBER with a name of --router %s: "
		"%s",
		found, kind->name, names.bytes);
	text_deinit(&names);
	return error->status;
}

static enum status set_one(struct router *router, const char *text, struct error *error)
{
	const struct router_kind *kind = router->kind;
	const char *equals = strchr(text, '=');
	uint64_t value;

	for (uint32_t i = 0; i < ROUTER_SETTINGS_MAX && kind->settings[i].name != NULL; i++) {
		const struct router_setting *setting = &kind->settings[i];
		size_t bytes = strlen(setting->name);
		if (equals != NULL && (size_t)(equals - text) == bytes &&
			memcmp(text, setting->name, bytes) == 0 &&
			text_to_millionths(equals + 1, &value) &&
			value <= setting->maximum * ROUTER_MILLION) {
			router->settings[i] = value;
			return STATUS_OK;
		}
	}
	return refuse(kind, text, error);
}

static enum status set_options(struct router *router, const char *options, struct error *error)
{
	while (options != NULL) {
		struct text one = {0};
		const char *comma = strchr(options, ',');
		size_t bytes = comma == NULL ? strlen(options) : (size_t)(comma - options);
		text_add_bytes(&one, options, bytes);
		enum status status = set_one(router, bytes == 0 ? "" : one.bytes, error);
		text_deinit(&one);
		TRY(status);
		options = comma == NULL ? NULL : comma + 1;
	}
	return STATUS_OK;
}

/* ---- opening, picking, closing ---- */

enum status router_open(struct router *router, const struct router_kind *kind, const char *options,
	uint32_t replica_count, uint64_t seed, struct error *error)
{
	*router = (struct router){.kind = kind,
		.replica_count = replica_count,
		.seed = seed,
		.last = replica_count - 1};
	check(replica_count >= 1 && replica_count <= ROUTER_REPLICAS_MAX);
	for (uint32_t i = 0; i < ROUTER_SETTINGS_MAX; i++) {
		router->settings[i] = kind->settings[i].initial;
	}
	TRY(set_options(router, options, error));
	router->costs = memory_take(replica_count, sizeof(*router->costs));
	if (kind->open != NULL) {
		kind->open(router);
	}
	return STATUS_OK;
}

void router_close(struct router *router)
{
	if (router->state != NULL) {
		router->kind->close(router);
	}
	free(router->costs);
	memset(router, 0, sizeof(*router));
}

uint32_t router_pick(struct router *router, const struct router_request *request,
	const struct replica_view *views)
{
	uint32_t picked = router->kind->pick(router, request, views);

	check(picked < router->replica_count);
	check(views[picked].is_open);
	return picked;
}

void router_forget(struct router *router, uint32_t replica)
{
	check(replica < router->replica_count);
	if (router->kind->forget != NULL) {
		router->kind->forget(router, replica);
	}
}

/* ---- for routers ---- */

uint32_t router_draw(struct router *router, uint32_t bound)
{
	enum { PURPOSE = 0x526f7574 }; /* of the seed: "Rout" */
	uint64_t key = counter_key(router->seed, PURPOSE);

	return counter_below((uint32_t)(counter_hash(key, router->draws++) >> 32), bound);
}

uint32_t router_least(struct router *router, const struct replica_view *views, bool draws_ties)
{
	uint32_t best = UINT32_MAX, ties = 0;

	for (uint32_t i = 0; i < router->replica_count; i++) {
		if (!views[i].is_open) {
			continue;
		}
		if (best == UINT32_MAX || router->costs[i] < router->costs[best]) {
			best = i;
			ties = 1;
		} else if (router->costs[i] == router->costs[best]) {
			ties++;
		}
	}
	check(best != UINT32_MAX);
	if (!draws_ties || ties == 1) {
		return best;
	}
	uint32_t drawn = router_draw(router, ties);
	for (uint32_t i = best;; i++) {
		if (views[i].is_open && router->costs[i] == router->costs[best] && drawn-- == 0) {
			return i;
		}
	}
}

uint32_t router_fewest_requests(const struct router *router, const struct replica_view *views)
{
	uint32_t best = UINT32_MAX;

	for (uint32_t i = 0; i < router->replica_count; i++) {
		if (views[i].is_open &&
			(best == UINT32_MAX || views[i].requests < views[best].requests)) {
			best = i;
		}
	}
	return best;
}
