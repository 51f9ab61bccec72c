#ifndef ENGINE_WAIT_CAUSE_H
#define ENGINE_WAIT_CAUSE_H

/* Why requests wait for their first admission. A policy reports for every step why its admission
   ended while requests were still waiting: what the head of the waiting queue lacked. The requests
   behind the head wait for the same cause, since the queue is first come, first served. The time
   from an arrival to the next decision has no cause in the policy: a step was in flight. In a fleet
   a request may wait at the router first, and an attempt to serve it may be lost with its replica.

   X(of, enumerator, name in columns and fields, what it is, the option that shortens it, or NULL);
   `of` is passed on. */
#define WAIT_CAUSE_LIST(X, of)                                                                     \
	X(of, WAIT_STEP, step, "the step in flight", NULL)                                         \
	X(of, WAIT_SEATS, seats, "seats", "--max-num-seqs")                                        \
	X(of, WAIT_BLOCKS, blocks, "KV blocks", "--gpu-memory-utilization")                        \
	X(of, WAIT_BUDGET, budget, "the token budget", "--max-num-batched-tokens")                 \
	X(of, WAIT_ORDER, order, "the policy's order", "--policy")                                 \
	X(of, WAIT_ROUTER, router, "a replica that takes requests", "--replicas")                  \
	X(of, WAIT_LOST, lost, "attempts lost with a replica", NULL)

enum wait_cause {
#define WAIT_CAUSE_ENUM(of, cause, name, title, remedy) cause,
	WAIT_CAUSE_LIST(WAIT_CAUSE_ENUM, )
#undef WAIT_CAUSE_ENUM
		WAIT_CAUSE_COUNT
};

#endif
