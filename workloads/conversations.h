#ifndef WORKLOADS_CONVERSATIONS_H
#define WORKLOADS_CONVERSATIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "workloads/trace/trace.h"

/* Which row follows which. A turn is a row that belongs to a session; it follows the turn that its
   row names, or the latest one of its session. A turn whose prompt is long enough to hold the
   prompt and the completion of the one before, and whose hash ids (if any) begin like that one's,
   is taken to continue it word for word:

       turn 1   | prompt 1 ...... | completion 1 ..... |
       turn 2   | prompt 1 ...... | completion 1 ..... | new words ... | completion 2 .... |
				  |<- span of turn 1 ->|

   so row.spans says which positions of its prompt are words of earlier turns that no id names:
   their completions, and what stood behind the last whole block of their prompts.

   A turn costs about 88 bytes and its name, for as long as the structure lives, since a trace does
   not say which turn is a session's last. Rows without a session cost nothing. */

struct conversations;

/* trace_block_size: tokens a hash id stands for; unused where rows have none. */
struct conversations *conversations_open(uint32_t trace_block_size);
void conversations_close(struct conversations *conversations);

/* Adds the next row: sets its turn_index and spans, and its session to the name of the session's
   first turn. Rows come in the order of the trace. Pointers set here die with the next
   call. A name that comes twice means the later turn from then on; one that never came means no
   turn. */
void conversations_add(struct conversations *conversations, struct trace_row *row);

/* Turns so far, and sessions they form. */
uint64_t conversations_turn_count(const struct conversations *conversations);
uint64_t conversations_session_count(const struct conversations *conversations);

struct turn {
	uint64_t row;		   /* its row's index */
	uint64_t parent;	   /* the turn before, or NO_TURN */
	uint64_t session;	   /* number of its session, from 0 in order of appearance */
	uint64_t trace_arrival_ns; /* as the trace says */
	uint32_t depth;		   /* turns before it in its line of turns */
};

const struct turn *conversations_turn(
	const struct conversations *conversations, uint64_t turn_index);

#endif
