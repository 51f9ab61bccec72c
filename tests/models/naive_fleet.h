#ifndef TESTS_MODELS_NAIVE_FLEET_H
#define TESTS_MODELS_NAIVE_FLEET_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/fleet/outages.h"
#include "engine/wait_cause.h"
#include "tests/harness/property.h"

/* A naive fleet: random traces, limits, queues, replicas that fail, drain and join, and routers
   that see their replicas late or know only what they sent. It looks at every millisecond, since
   all that happens, happens at one, writes down every step, wait and loss, and computes all figures
   from these notes. Its engines have seats and nothing else: blocks and tokens never lack. Requests
   of a group have equal prompts, as far as both go. */

enum {
	NAIVE_MS = 1000000,
	NAIVE_ROWS = 48,
	NAIVE_REPLICAS = 4,
	NAIVE_OUTAGES = 8,
	NAIVE_TIME_MS = 100000,
	NAIVE_BLOCK = 4,
	NAIVE_LENGTH = 50,
	NAIVE_KV_BLOCKS = 4000,
	NAIVE_SENDS = NAIVE_ROWS * (NAIVE_OUTAGES + 1),
	NAIVE_STEPS = NAIVE_SENDS * NAIVE_LENGTH,
	NAIVE_WAITS = NAIVE_SENDS * 8
};

#define NAIVE_NOWHERE UINT32_MAX

enum naive_view { VIEW_EXACT, VIEW_OWN, VIEW_DELAYED };

struct naive_outage {
	uint32_t time_ms, replica;
	enum outage_kind kind;
};

struct naive_scene {
	uint32_t row_count, replica_count, seats;
	uint32_t replica_limit; /* 0: none */
	uint32_t queue_limit;	/* UINT32_MAX: none */
	uint32_t warmup, cooldown;
	uint32_t kv_blocks; /* of a replica */
	uint32_t arrival_ms[NAIVE_ROWS], prompt[NAIVE_ROWS], output[NAIVE_ROWS], group[NAIVE_ROWS];
	uint32_t outage_count;
	struct naive_outage outages[NAIVE_OUTAGES]; /* in order of time */
	const char *router;
	enum naive_view view;
	uint32_t delay_ms;
	bool caps; /* answers end at NAIVE_LENGTH; else none is that long */
};

/* REFUSED: by the router, whose queue was full. REJECTED: by an engine, as too long. */
enum naive_place { TO_COME, AT_ROUTER, AT_REPLICA, DONE, REFUSED, REJECTED };

struct naive_request {
	enum naive_place place;
	uint32_t failure;	    /* number of the one that it comes from; 0: none */
	uint32_t replica, number;   /* where this attempt was sent, and as which of all */
	uint32_t since_ms, sent_ms; /* of this attempt: at the router, at the replica */
	uint32_t ahead; /* tokens of its prompt that the router did not take for cached */
	bool is_taken;	/* by the engine, where it waits or is rejected */
	bool is_seen;	/* by a decision of the replica, at seen_ms */
	uint32_t seen_ms;
	bool is_running, has_admission; /* has a seat; the step that gave it has ended */
	uint32_t admitted_ms, hits;	/* hits: tokens */
	uint32_t tokens, first_token_ms, finish_ms;
};

/* A step that has ended. */
struct naive_step {
	uint32_t replica, start_ms, end_ms;
	uint32_t running, waiting, decoding, prefill, finished;
};

/* An attempt from its first admission on; lost_ms: when its replica failed, or NAIVE_NOWHERE. */
struct naive_attempt {
	uint32_t id, replica, step; /* step: which of all naive_steps admitted it */
	uint32_t prompt, hits, lost_ms, lost_tokens;
};

struct naive_wait {
	enum wait_cause cause;
	uint32_t from_ms, until_ms;
};

/* A prompt that a replica has, or that was sent to it. */
struct naive_prompt {
	uint32_t id, time_ms;
};

struct naive_prompts {
	uint32_t count;
	struct naive_prompt list[NAIVE_SENDS];
};

struct naive_fleet {
	const struct naive_scene *scene;
	struct naive_request requests[NAIVE_ROWS];
	uint32_t order[NAIVE_SENDS]; /* (send_count) as they were sent */
	uint64_t picks[NAIVE_SENDS][2];
	uint32_t send_count;
	bool is_up[NAIVE_REPLICAS], is_stepping[NAIVE_REPLICAS];
	struct naive_step current[NAIVE_REPLICAS];
	uint32_t last_picked, next_outage, next_arrival, failures;
	struct naive_prompts cached[NAIVE_REPLICAS], sent[NAIVE_REPLICAS], whole;

	uint32_t steps_before[NAIVE_ROWS]; /* that had ended when it arrived */
	uint32_t last_steps[NAIVE_ROWS];   /* which of all gave it its last token */
	uint32_t step_count, attempt_count, wait_count;
	struct naive_step steps[NAIVE_STEPS]; /* (step_count) as they ended */
	struct naive_attempt attempts[NAIVE_SENDS];
	struct naive_wait waits[NAIVE_WAITS];
	uint32_t end_ms, backlog;	/* backlog: when the last one had arrived */
	uint32_t up_ms[NAIVE_REPLICAS]; /* when each could work */
	uint64_t retries, regret_blocks, whole_hit_tokens, whole_query_tokens;
};

/* Whether engines take a request. */
bool naive_fits(const struct naive_scene *scene, uint32_t id);

/* The tokens of the answer to one that fits. */
uint32_t naive_output(const struct naive_scene *scene, uint32_t id);

/* Milliseconds of a step of a replica. */
uint32_t naive_step_ms(uint32_t replica, uint64_t decode_rows, uint64_t prefill_tokens);

void naive_scene_draw(struct prop *prop, struct naive_scene *scene);
void naive_fleet_play(struct naive_fleet *fleet, const struct naive_scene *scene);

#endif
