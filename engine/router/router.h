#ifndef ENGINE_ROUTER_ROUTER_H
#define ENGINE_ROUTER_ROUTER_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/block_key.h"
#include "engine/base/integer.h"
#include "engine/base/status.h"

/* Routers: which replica of a fleet gets a request. A router sees the request and what is known of
   each replica, and answers with an index. It has no clock, no files and no engine: the caller
   brings the views, fresh or stale (bench/fleet/).

   A router is one file, which defines `const struct router_kind router_NAME`, and one row here.
   Costs and scores are integers, so a pick is the same on every machine. */
#define ROUTERS(X)                                                                                 \
	X(round_robin)                                                                             \
	X(random)                                                                                  \
	X(least_requests)                                                                          \
	X(least_tokens)                                                                            \
	X(least_kv)                                                                                \
	X(two_choices)                                                                             \
	X(session)                                                                                 \
	X(prefix)                                                                                  \
	X(dynamo_kv)                                                                               \
	X(llm_d)                                                                                   \
	X(llm_d_estimated)                                                                         \
	X(sglang)                                                                                  \
	X(production_stack)

enum { ROUTER_SETTINGS_MAX = 8, ROUTER_REPLICAS_MAX = 1024 };

/* What is known of a replica. */
struct replica_view {
	bool is_open;		 /* it takes requests */
	uint32_t requests;	 /* sent to it and not finished */
	uint32_t waiting;	 /* of these, never admitted */
	uint32_t used_blocks;	 /* KV blocks in use */
	uint32_t kv_blocks;	 /* KV blocks that it has, at least 1 */
	uint64_t prefill_tokens; /* prompt tokens that are neither cached nor computed yet */
	uint64_t tokens;	 /* prompt and output tokens of `requests`, in full */
	uint32_t cached_blocks;	 /* leading blocks of the request that it has cached; not told
				    unless the router wants blocks */
	uint32_t held_blocks;	 /* of these, those in use by unfinished requests; 0 unless the
				    router wants them */
};

struct router_request {
	uint64_t now_ns;
	uint64_t session; /* a hash of its name */
	bool has_session;
	uint32_t prompt_tokens;
	uint32_t block_size;
	const struct block_key *blocks; /* (block_count) keys of the prompt's full blocks */
	uint32_t block_count;		/* 0 unless the router wants them */
};

/* A number that a router can be given. */
struct router_setting {
	const char *name;
	uint64_t initial; /* in millionths */
	uint64_t maximum;
};

struct router;

struct router_kind {
	const char *name;
	const char *summary;
	bool wants_blocks; /* block hashes in requests, cached_blocks in views */
	bool wants_held;   /* held_blocks in views too */
	struct router_setting settings[ROUTER_SETTINGS_MAX]; /* up to the first without a name */
	void (*open)(struct router *router);		     /* NULL: no state */
	/* An open replica; there is one. views: (replica_count). */
	uint32_t (*pick)(struct router *router, const struct router_request *request,
		const struct replica_view *views);
	/* A replica has failed: what was sent to it is gone. NULL: nothing to forget. */
	void (*forget)(struct router *router, uint32_t replica);
	void (*close)(struct router *router);
};

struct router {
	const struct router_kind *kind;
	uint32_t replica_count;
	uint64_t seed;
	uint64_t settings[ROUTER_SETTINGS_MAX]; /* in millionths */
	uint64_t draws;				/* random numbers so far */
	uint32_t last;				/* of round robin: the latest pick */
	int64_t *costs;				/* (replica_count) scratch */
	void *state;				/* the kind's own */
};

/* NULL past the end. */
const struct router_kind *router_at(uint32_t index);

/* options: NAME=VALUE,NAME=VALUE... for the kind's settings, or NULL. Must be closed, also after a
   failure. */
enum status router_open(struct router *router, const struct router_kind *kind, const char *options,
	uint32_t replica_count, uint64_t seed, struct error *error);
void router_close(struct router *router);

uint32_t router_pick(struct router *router, const struct router_request *request,
	const struct replica_view *views);

/* A replica has failed, and with it all that it had cached. */
void router_forget(struct router *router, uint32_t replica);

/* ---- for routers ---- */

enum { ROUTER_MILLION = 1000000, ROUTER_BILLION = 1000000000 };

/* A random number in [0, bound) by the router's seed. */
uint32_t router_draw(struct router *router, uint32_t bound);

/* The open replica with the least of router->costs; ties by the lowest index, or drawn. */
uint32_t router_least(struct router *router, const struct replica_view *views, bool draws_ties);

/* The open replica with the fewest requests, ties by the lowest index. */
uint32_t router_fewest_requests(const struct router *router, const struct replica_view *views);

/* part / whole in billionths, rounded down; whole >= 1. */
static inline int64_t router_share(uint64_t part, uint64_t whole)
{
	return (int64_t)((u128)part * ROUTER_BILLION / whole);
}

/* A score in billionths times a setting. */
static inline int64_t router_weigh(const struct router *router, uint32_t setting, int64_t score)
{
	return score * (int64_t)(router->settings[setting] / 1000) / 1000;
}

#endif
