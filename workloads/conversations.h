#ifndef WORKLOADS_CONVERSATIONS_H
#define WORKLOADS_CONVERSATIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "workloads/trace/trace.h"

/* Which row follows which. A turn is a row that belongs to a session. It follows the turn that its
   row names, or else the latest one of its session. A turn continues its predecessor word for word
   if its prompt is long enough to hold the predecessor's prompt and completion, and its hash ids
   (if any) begin like the predecessor's:

       turn 1   | prompt 1 ...... | completion 1 ..... |
       turn 2   | prompt 1 ...... | completion 1 ..... | new words ... | completion 2 .... |
				  |<- span of turn 1 ->|

   row.spans lists the positions of its prompt that are tokens of earlier turns and that no hash id
   covers: their completions, and the tokens behind the last whole block of their prompts.

   A turn takes about 88 bytes and its name. They are never freed, since a trace does not mark the
   last turn of a session. Rows without a session take no memory. */

struct conversations;

/* trace_block_size: tokens per hash id; unused where rows have none. */
struct conversations *conversations_open(uint32_t trace_block_size);
void conversations_close(struct conversations *conversations);

/* Adds the next row: sets its turn_index and spans, and its session to the name of the session's
   first turn. Rows come in the order of the trace. Pointers set here are valid until the next call.
   A name that is used twice refers to the later turn from then on. A parent name that was never
   defined is ignored. */
void conversations_add(struct conversations *conversations, struct trace_row *row);

/* Turns so far, and sessions they form. */
uint64_t conversations_turn_count(const struct conversations *conversations);
uint64_t conversations_session_count(const struct conversations *conversations);

struct turn {
	uint64_t row;		   /* index of its row */
	uint64_t parent;	   /* the turn it follows, or NO_TURN */
	uint64_t session;	   /* number of its session, from 0 in order of appearance */
	uint64_t trace_arrival_ns; /* its timestamp in the trace */
	uint32_t depth;		   /* number of turns before it along its parents */
};

const struct turn *conversations_turn(
	const struct conversations *conversations, uint64_t turn_index);

#endif
