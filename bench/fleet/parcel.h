#ifndef BENCH_FLEET_PARCEL_H
#define BENCH_FLEET_PARCEL_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/block_key.h"
#include "workloads/trace/trace.h"

/* A request on its way: a copy of its row of the trace, from its arrival at the router until it has
   finished. One allocation. */
struct parcel {
	struct parcel *next;	/* in the list that it is in */
	struct trace_row row;	/* its pointers are the parcel's own */
	struct block_key *keys; /* (key_count) of its KV blocks, completion included */
	uint32_t key_count;
	uint32_t prompt_block_count; /* full blocks of its prompt, of key_count */
	uint64_t session;	     /* a hash of its session's name */

	uint64_t since_ns; /* its arrival, or when its latest attempt was lost: its wait is charged
			      up to then */

	/* where it was sent */
	uint32_t replica;
	uint64_t sent_ns;
	uint32_t retry_count;	 /* replicas that failed under it */
	uint64_t prefill_tokens; /* of its prompt, not cached when it was sent */
	bool has_first_token;	 /* its prompt has been computed */
	bool fits;		 /* the replica's engine will not reject it */
	bool is_awaited; /* it was counted among the waiting ones before the engine had room */
};

/* keys: (key_count), copied; NULL: none. needs_ids: keeps all that tokens are made from. */
struct parcel *parcel_of_row(const struct trace_row *row, const struct block_key *keys,
	uint32_t key_count, bool needs_ids);

/* A list of parcels, first in, first out. A zeroed one is empty. */
struct parcel_list {
	struct parcel *head, *tail;
	uint32_t count;
};

void parcel_list_push(struct parcel_list *list, struct parcel *parcel);

/* NULL: the list is empty. */
struct parcel *parcel_list_take(struct parcel_list *list);

/* Puts a list behind another one; the second is not used any more. */
void parcel_list_join(struct parcel_list *list, const struct parcel_list *behind);

/* Frees all parcels of a list. */
void parcel_list_clear(struct parcel_list *list);

#endif
