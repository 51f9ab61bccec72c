#ifndef ENGINE_WAIT_CAUSE_H
#define ENGINE_WAIT_CAUSE_H

/* Why requests wait for their first admission. A policy reports for every step why its admission
   ended while requests were still waiting: what the head of the waiting queue lacked. The requests
   behind the head wait for the same cause, since the queue is first come, first served. The time
   from an arrival to the next decision has no cause in the policy: a step was in flight.

   X(enumerator, what it is, the option that shortens it, or NULL). */
#define WAIT_CAUSE_LIST(X)                                                                         \
	X(WAIT_STEP, "the step in flight", NULL)                                                   \
	X(WAIT_SEATS, "seats", "--max-num-seqs")                                                   \
	X(WAIT_BLOCKS, "KV blocks", "--gpu-memory-utilization")                                    \
	X(WAIT_BUDGET, "the token budget", "--max-num-batched-tokens")                             \
	X(WAIT_ORDER, "the policy's order", "--policy")

enum wait_cause {
#define WAIT_CAUSE_ENUM(cause, title, remedy) cause,
	WAIT_CAUSE_LIST(WAIT_CAUSE_ENUM)
#undef WAIT_CAUSE_ENUM
		WAIT_CAUSE_COUNT
};

#endif
