#ifndef ENGINE_RUNNERS_CUDA_EXCHANGE_H
#define ENGINE_RUNNERS_CUDA_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/status.h"
#include "engine/ranks/ranks.h"
#include "engine/runners/cuda_peer.h"
#include "engine/shape/step_tensors.h"
#include "kernels/exchange/exchange.h"

/* The exchange of partial sums between the ranks of tensor parallelism, behind o and behind down of
   each layer, and of the best tokens behind the sampler's tiles. Bytes travel in one of two ways;
   the kernels of kernels/exchange add them, so both give the same bits:

       peer   the kernels read and write the memory of the other GPUs
       nccl   NCCL gathers the bytes of all ranks, then a kernel adds them */

enum cuda_transport { CUDA_TRANSPORT_AUTO, CUDA_TRANSPORT_PEER, CUDA_TRANSPORT_NCCL };

struct CUstream_st;
struct cuda_nccl;

struct cuda_exchange_options {
	struct ranks *ranks;
	enum cuda_transport transport;
	uint32_t layers;
	uint32_t width; /* hidden_size */
	struct model_step_limits limits;
	const uint64_t *step_count;	/* device: steps completed */
	struct exchange_report *report; /* pinned */
};

struct cuda_exchange {
	enum cuda_transport transport; /* that was chosen */
	char reason[CUDA_PEER_TEXT];   /* why auto chose nccl, or "" */
	struct exchange peers;
	struct cuda_peer_memory memory;

	/* of nccl */
	struct cuda_nccl *nccl;
	uint16_t *partial;  /* (tokens, width) */
	uint16_t *gathered; /* (ranks, tokens, width) */
	uint64_t *words;    /* (1 + ranks, samples): own, then of all ranks */
};

/* Collective. transport auto takes peer where every GPU can access every other. Must be closed,
   also after a failure. */
enum status cuda_exchange_open(struct cuda_exchange *exchange,
	const struct cuda_exchange_options *options, struct error *error);

/* Where the linear layer in front of this exchange of a step writes its partial sums: (tokens,
   width). */
uint16_t *cuda_exchange_partial(const struct cuda_exchange *exchange, uint32_t index);

/* Adds the partial sums of token_count rows over the ranks, then to the residual stream, and
   normalises. The launchers return 0 or a code of cuda_status(). */
int cuda_exchange_add_rms_norm(const struct cuda_exchange *exchange,
	const struct exchange_norm *norm, uint32_t index, uint32_t token_count,
	struct CUstream_st *stream);

/* The tokens of the best candidates of all ranks, from the tiles of this rank. */
int cuda_exchange_candidates(const struct cuda_exchange *exchange, int32_t *token_ids,
	int32_t *last_tokens, const void *tiles, uint32_t tile_count, const uint32_t *rows,
	uint32_t row_count, struct CUstream_st *stream);

/* Not collective: the failure of an exchange under way, 0: none. */
int cuda_exchange_failure(const struct cuda_exchange *exchange);

/* Once ranks have failed: whether the exchange cannot be closed, nor the GPU be waited for, so that
   the process has to end as it is (cuda_nccl_leave()). With peer the ranks' abort word ends what
   waits for a rank. */
bool cuda_exchange_leave(const struct cuda_exchange *exchange);

void cuda_exchange_close(struct cuda_exchange *exchange);

#endif
