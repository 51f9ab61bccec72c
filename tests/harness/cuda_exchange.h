#ifndef TESTS_HARNESS_CUDA_EXCHANGE_H
#define TESTS_HARNESS_CUDA_EXCHANGE_H

#include "kernels/exchange/exchange.h"
#include "tests/harness/cuda_device.h"

/* Ranks of tensor parallelism in one process: each has memory, words and a stream of its own. They
   share one GPU, with grids small enough that all are resident together, or are dealt out to
   several GPUs. */

struct CUstream_st;

struct group_words {
	uint64_t step_count;
	uint32_t aborted;
	uint32_t unused;
};

struct group {
	uint32_t ranks;
	uint32_t devices; /* rank r is on device r % devices */
	struct exchange x[EXCHANGE_RANKS_MAX];
	struct CUstream_st *streams[EXCHANGE_RANKS_MAX];
	struct group_words *words[EXCHANGE_RANKS_MAX];
	struct exchange_report *reports; /* (ranks) pinned */
	uint32_t *abort;		 /* pinned */
};

/* Like skip_without_device(). Streams get queues of their own, and kernels are loaded at once: a
   kernel that waits for its peers must hold up neither. */
void skip_without_device_for_group(void);

/* Devices that can access each other's memory, at most `most`. */
uint32_t group_devices(uint32_t most);

/* Waits end after limit_ms. */
void group_open(struct group *group, uint32_t ranks, uint32_t devices, uint32_t width,
	uint32_t tokens, uint32_t per_step, uint32_t limit_ms);
void group_close(struct group *group);

/* Makes the device of a rank the current one. */
void group_use(const struct group *group, uint32_t rank);

/* All ranks on one GPU in one launch, as those that rank 0 computes. */
struct exchange group_of_one_launch(const struct group *group);

/* Counts a step on every rank, behind what their streams do. */
void group_end_step(struct group *group);

/* Waits for the streams; expects that no wait was given up. */
void group_wait(struct group *group, const char *what);

/* ---- rounds: one exchange after the other with new rows ---- */

/* What a rank does between two exchanges: adds what the last one has written to its digest, waits
   for a time that depends on rank and round, and makes new rows from key, round, rank and element:
   partial sums and the residual stream, which is the same on all ranks. */
struct exchange_round {
	uint64_t key;
	const uint64_t *step_count;
	uint32_t per_step, index; /* the round is step_count * per_step + index */
	uint32_t first_rank;	  /* of the parts that are made */
	uint32_t ranks;		  /* parts: (ranks, rows, width), of consecutive ranks */
	uint32_t rows;		  /* 0: only the digest */
	uint32_t rows_max;	  /* of residual, out and digest */
	uint32_t width;
	uint32_t delay_cycles; /* at most; 0: none */
	uint16_t *parts;
	uint16_t *residual, *out; /* (rows_max, width) */
	uint64_t *digest;	  /* (rows_max * width) */
};

#ifdef __cplusplus
extern "C" {
#endif

int round_begin(const struct exchange_round *round, struct CUstream_st *stream);

/* Busy for so many cycles. */
int round_delay(uint64_t cycles, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
