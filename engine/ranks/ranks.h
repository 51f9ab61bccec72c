#ifndef ENGINE_RANKS_RANKS_H
#define ENGINE_RANKS_RANKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"
#include "engine/ranks/shared_word.h"

/* The ranks of tensor parallelism: N processes that open together and compute the same steps. Rank
   0 is the caller's own process: it schedules, keeps the clock and writes files. The others are
   forked from it, run one function, and end.

	rank 0   ranks_open ─► open, phase by phase ─► ranks_post a step ─► ... ─► ranks_close
	             │ fork          │ barriers              │ ring                   │ CLOSE
	rank r       └─────► serve:  open, phase by phase ─► ranks_receive ─► ... ─► returns, ends

   Memory. All ranks share one mapping, made before the fork, which lies at the same address in each
   of them and goes when the last of them ends. It has no name and no file:

	page-aligned ─► the abort word, the failure, the ring, a line for each rank's barriers
	page-aligned ─► the data: options.data_bytes of zeros, whose layout is the caller's
	                (step data that rank 0 writes, words and tokens that each rank writes)

   The whole mapping, or the data alone, can be given to cudaHostRegister, in each rank by itself.

   Errors. The error of one rank is everybody's. A barrier carries it while ranks open; afterwards
   the failing rank calls ranks_fail(), or just dies, and rank 0 sees it in ranks_check(), which
   every wait calls. "Collective" functions are called by all ranks, in the same order, with
   arguments of the same size.

   Under mpirun the ranks are the processes that it started (engine/ranks/launch.h), with the same
   functions and without shared memory: abort word and data are each rank's own, and ranks_post()
   sends the bytes of the data that the message names. Words of other ranks in the data cannot be
   waited for there, and files cannot be passed; see ranks_share_memory(). mpirun ends all ranks
   when one dies, and what rank 0 had not written is lost; one that is stopped is waited for without
   a limit, but for exchanges of GPUs.

   No CUDA call may precede ranks_open(): a forked process cannot use its parent's. No thread of the
   caller is in the new processes. */

enum {
	RANKS_MAX = 8,
	RANK_PAYLOAD_BYTES = 128, /* of one rank in ranks_gather(); an NCCL unique id has as many */
	RANK_WARNING_BYTES = 256,
};

/* How long a step may wait for a rank before it is called hung. Opening has no limit, for loading
   weights takes minutes. */
#define RANK_LIMIT_NS UINT64_C(10000000000)

enum rank_message_kind {
	RANK_STEP_GRAPH, /* the graph of a bucket */
	RANK_STEP_EAGER, /* launched kernel by kernel */
	RANK_CLOSE,	 /* return from serve */
};

/* What rank 0 tells the others of a step: one cache line. What they need besides lies in the data.
   Under mpirun there is no shared data, and ranks_post() sends those bytes of it that the message
   names. */
struct rank_message {
	uint64_t step;	      /* number of the step */
	uint64_t data_offset; /* bytes of the data that rank 0 has written for this step; */
	uint64_t data_bytes;  /* the others find them at the same offset */
	uint32_t kind;	      /* enum rank_message_kind */
	uint32_t turn;	      /* which of the slots of the step data */
	uint32_t bucket;      /* index of the graph */
	uint32_t rows;
	uint32_t tokens;
	uint32_t decode_rows;
	uint32_t samples;
	uint32_t tiles;
	uint32_t splits;
	uint32_t additions;
};

struct ranks;

struct ranks_options {
	uint32_t count;		 /* ranks, 2 to RANKS_MAX */
	uint64_t data_bytes;	 /* of shared data; may be 0 */
	uint64_t exchange_bytes; /* the most that a rank gives in ranks_exchange(); may be 0 */
	uint64_t limit_ns;	 /* see RANK_LIMIT_NS, which 0 stands for */
	/* Under mpirun, where the ranks are there from the start: runs with the same options that
	   follow in rank 0's process, each from ranks_open() to ranks_close(). The other ranks do
	   them all in their first ranks_open(). Elsewhere it is not looked at. */
	uint32_t runs_after;

	/* What ranks 1 and up do. It opens what rank 0 opens, with the same barriers, then receives
	   messages until RANK_CLOSE. It returns an error of its own or one that a function of this
	   header gave it. The process ends when it returns for the last time. */
	enum status (*serve)(struct ranks *ranks, void *argument, struct error *error);
	void *argument;
};

/* Starts the ranks. Returns in rank 0 only. The ranks started ignore SIGINT, SIGTERM and SIGHUP,
   and are killed when rank 0 dies. */
enum status ranks_open(
	struct ranks **out, const struct ranks_options *options, struct error *error);

/* Ends the ranks, in rank 0: posts RANK_CLOSE, or aborts where a rank has failed, waits, and kills
   what has not ended after 5 s (1 s after a failure). Accepts NULL. */
void ranks_close(struct ranks *ranks);

uint32_t ranks_index(const struct ranks *ranks); /* of this process */
uint32_t ranks_count(const struct ranks *ranks);

/* The shared data: data_bytes from a page boundary on. */
void *ranks_data(const struct ranks *ranks);

/* The whole mapping, of *bytes: the abort word and the data lie in it. */
void *ranks_memory(const struct ranks *ranks, size_t *bytes);

/* Whether ranks share the data; not under mpirun. */
bool ranks_share_memory(const struct ranks *ranks);

/* ---- opening: collective functions ---- */

/* Waits until every rank is here. error is this rank's so far: {0}, or what its phase of opening
   failed with. If any rank has one, every rank returns the one of the lowest such rank, named. */
enum status ranks_barrier(struct ranks *ranks, struct error *error);

/* A barrier that gives every rank `bytes` (at most RANK_PAYLOAD_BYTES) of each: all is (count,
   bytes), in the order of the ranks. */
enum status ranks_gather(
	struct ranks *ranks, const void *own, size_t bytes, void *all, struct error *error);

/* A barrier that gives every rank rank 0's `bytes` (at most RANK_PAYLOAD_BYTES). */
enum status ranks_broadcast(struct ranks *ranks, void *bytes, size_t count, struct error *error);

/* A barrier that refuses values that differ; `what` names the value. */
enum status ranks_agree(struct ranks *ranks, uint64_t value, const char *what, struct error *error);

/* A barrier that gives every rank the least number of KV blocks that a rank has room for. Where a
   rank has 10 % less room than another, warning (RANK_WARNING_BYTES) names it, for somebody else
   uses its GPU; otherwise it is empty. */
enum status ranks_agree_blocks(struct ranks *ranks, uint64_t found, uint64_t *block_count,
	char *warning, struct error *error);

/* A barrier that gives every rank a file descriptor of each: fds (count), of which the own is -1.
   The caller closes them, and its own. */
enum status ranks_gather_files(struct ranks *ranks, int own, int *fds, struct error *error);

/* ---- steps ---- */

/* Rank 0: tells the other ranks of a step. Four messages may be posted and not yet received; then
   it waits, at most limit_ns. */
enum status ranks_post(
	struct ranks *ranks, const struct rank_message *message, struct error *error);

/* The other ranks: waits for the next message, without a limit. Spins for 2 ms, then sleeps. */
enum status ranks_receive(struct ranks *ranks, struct rank_message *message, struct error *error);

/* The other ranks: a look at something of their own, such as their GPU, while ranks_receive()
   waits, some times a second. Its error ends the run. */
void ranks_watch(struct ranks *ranks, enum status (*look)(void *argument, struct error *error),
	void *argument);

/* For waits of more than some microseconds, in any rank: the failure that ended the run, if there
   is one. In rank 0 it also asks the system whether a rank has died (a system call a rank), and
   then aborts the others. */
enum status ranks_check(struct ranks *ranks, struct error *error);

/* Waits until a word of the shared data reaches a value, which `rank` is to set; `what` names it.
   Fails as ranks_check() does, and after limit_ns in which that rank used no processor time. */
enum status ranks_await(struct ranks *ranks, struct shared_word *word, uint32_t value,
	uint32_t rank, const char *what, struct error *error);

/* Gives every rank `bytes` of each, through the memory of the host: all is (count, bytes), of which
   this rank has filled in its own part. Collective. Fails as ranks_await() does; a rank that
   computes, by the clock of its processor time, is waited for without a limit. */
enum status ranks_exchange(struct ranks *ranks, void *all, size_t bytes, struct error *error);

/* An exchange that refuses token ids (count) that differ between ranks, and names the first. */
enum status ranks_agree_tokens(
	struct ranks *ranks, const int32_t *token_ids, uint32_t count, struct error *error);

/* Ends the run of all ranks with this rank's error, unless it is one that all have from the latest
   barrier. The first failure counts; further ones are
   dropped. */
void ranks_fail(struct ranks *ranks, const struct error *error);

/* Not 0 once the run has failed: what a kernel that waits for a peer looks at. In the mapping. */
_Atomic uint32_t *ranks_abort_word(const struct ranks *ranks);

#endif
