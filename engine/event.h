#ifndef ENGINE_EVENT_H
#define ENGINE_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a step decided, in the order in which it was decided. The result hash, the per-request
   records and all request statistics are computed from this list only. X(enumerator, name, meaning
   of a, meaning of b); the enumerator's value enters the result hash.
 */

#define EVENT_LIST(X)                                                                              \
	X(EVENT_REJECT, "reject")	    /* a: enum fit, b: prompt + max tokens */              \
	X(EVENT_ADMIT, "admit")		    /* a: cached tokens, b: tokens in the sequence */      \
	X(EVENT_BLOCK_GIVEN, "block_given") /* a: index in the block table, b: block */            \
	X(EVENT_CHUNK, "chunk")		    /* a: first token, b: tokens; a prefill row */         \
	X(EVENT_PREEMPT, "preempt")	    /* a: tokens computed, b: blocks released */           \
	X(EVENT_FINISH, "finish")	    /* a: completion tokens, b: blocks released */         \
	X(EVENT_STALL, "stall") /* a: tokens in the sequence; its decode got no token */           \
	X(EVENT_DROP, "drop")	/* a: tokens; its decode row came behind an EOS */

enum event_kind {
#define EVENT_ENUM(name, text) name,
	EVENT_LIST(EVENT_ENUM)
#undef EVENT_ENUM
};

struct sequence;

struct event {
	/* the four words that enter the result hash, behind the number of the step */
	uint64_t kind; /* enum event_kind */
	uint64_t request;
	uint64_t a;
	uint64_t b;

	const struct sequence *sequence; /* NULL for EVENT_REJECT */
	bool has_evicted;    /* of a block given: content that could be found was lost */
	bool is_sampled;     /* of a chunk: its row ends in a sampled token */
	uint32_t recomputed; /* of a chunk: its tokens that were computed before a preemption */
};

struct event_list {
	struct event *events; /* (count); the buffer may grow */
	size_t count;
	size_t capacity;
};

void event_list_grow(struct event_list *list, size_t count); /* to so many at least */
void event_list_copy(struct event_list *to, const struct event_list *from);

/* The next `count` events behind the last one, to be written whole by the caller. */
static inline struct event *event_list_extend(struct event_list *list, size_t count)
{
	if (list->capacity - list->count < count) {
		event_list_grow(list, list->count + count);
	}
	list->count += count;
	return list->events + list->count - count;
}

static inline struct event *event_list_next(struct event_list *list)
{
	return event_list_extend(list, 1);
}

#endif
