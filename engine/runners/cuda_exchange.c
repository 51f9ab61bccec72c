#include "engine/runners/cuda_exchange.h"

#include "engine/base/integer.h"
#include "engine/runners/cuda_memory.h"
#include "engine/runners/cuda_nccl.h"
#include "engine/runners/cuda_status.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- opening ---- */

static enum status choose(struct cuda_exchange *exchange,
	const struct cuda_exchange_options *options, struct error *error)
{
	bool is_possible = false;

	exchange->transport = options->transport;
	if (options->transport == CUDA_TRANSPORT_NCCL) {
		return STATUS_OK;
	}
	if (ranks_share_memory(options->ranks)) {
		TRY(cuda_peer_is_possible(options->ranks, &is_possible, exchange->reason, error));
	} else {
		snprintf(exchange->reason, sizeof(exchange->reason),
			"a rank of mpirun cannot map another");
	}
	if (!is_possible && options->transport == CUDA_TRANSPORT_PEER) {
		/* All ranks have this error; the barrier lets rank 0 alone tell it. */
		error_set(error, STATUS_DEVICE,
			"--tp-transport peer: %s's memory; --tp-transport nccl does without",
			exchange->reason);
		return ranks_barrier(options->ranks, error);
	}
	exchange->transport = is_possible ? CUDA_TRANSPORT_PEER : CUDA_TRANSPORT_NCCL;
	return STATUS_OK;
}

/* The multiprocessors of the GPU with the fewest, so that all ranks launch the same grids. */
static enum status fewest_multiprocessors(
	struct ranks *ranks, uint32_t *fewest, struct error *error)
{
	int device = 0, own = 0;
	uint32_t all[RANKS_MAX];

	(void)cuda_status((int)cudaGetDevice(&device), "cudaGetDevice", error);
	(void)cuda_status((int)cudaDeviceGetAttribute(&own, cudaDevAttrMultiProcessorCount, device),
		"cudaDeviceGetAttribute", error);
	*fewest = (uint32_t)own;
	TRY(ranks_gather(ranks, fewest, sizeof(*fewest), all, error));
	for (uint32_t r = 0; r < ranks_count(ranks); r++) {
		*fewest = u32_min(*fewest, all[r]);
	}
	return STATUS_OK;
}

static enum status open_peers(struct cuda_exchange *exchange,
	const struct cuda_exchange_options *options, struct error *error)
{
	struct exchange *peers = &exchange->peers;

	TRY(fewest_multiprocessors(options->ranks, &peers->multiprocessors, error));
	TRY(cuda_peer_open(&exchange->memory, options->ranks, peers->layout.bytes, error));
	for (uint32_t r = 0; r < peers->layout.ranks; r++) {
		peers->memory[r] = exchange->memory.pieces[r].base;
	}
	(void)cuda_alloc_device(&peers->aborted, sizeof(*peers->aborted), error);
	if (error->status == STATUS_OK) {
		(void)cuda_status(exchange_clear(peers->memory[peers->rank], &peers->layout, NULL),
			"exchange_clear", error);
		(void)cuda_status((int)cudaDeviceSynchronize(), "exchange_clear", error);
	}
	return ranks_barrier(options->ranks, error);
}

static enum status open_nccl(struct cuda_exchange *exchange,
	const struct cuda_exchange_options *options, struct error *error)
{
	uint64_t ranks = ranks_count(options->ranks), samples = options->limits.samples;
	uint64_t bytes = options->limits.tokens * options->width * sizeof(uint16_t);

	(void)cuda_alloc_device(&exchange->partial, bytes, error);
	(void)cuda_alloc_device(&exchange->gathered, ranks * bytes, error);
	(void)cuda_alloc_device(&exchange->words, (1 + ranks) * samples * sizeof(uint64_t), error);
	TRY(ranks_barrier(options->ranks, error));
	return cuda_nccl_open(&exchange->nccl, options->ranks, error);
}

enum status cuda_exchange_open(struct cuda_exchange *exchange,
	const struct cuda_exchange_options *options, struct error *error)
{
	struct ranks *ranks = options->ranks;

	*exchange = (struct cuda_exchange){
		.peers =
			{
				.layout = exchange_layout(ranks_count(ranks), options->width,
					options->limits.tokens, options->limits.samples),
				.rank = ranks_index(ranks),
				.per_step = 2 * options->layers,
				.local_ranks = 1,
				.limit_ns = EXCHANGE_LIMIT_NS,
				.step_count = options->step_count,
				.abort = (const volatile uint32_t *)ranks_abort_word(ranks),
				.report = options->report,
			},
	};
	TRY(choose(exchange, options, error));
	return exchange->transport == CUDA_TRANSPORT_PEER ? open_peers(exchange, options, error)
							  : open_nccl(exchange, options, error);
}

void cuda_exchange_close(struct cuda_exchange *exchange)
{
	cuda_peer_close(&exchange->memory);
	cuda_nccl_close(exchange->nccl);
	cudaFree(exchange->peers.aborted);
	cudaFree(exchange->partial);
	cudaFree(exchange->gathered);
	cudaFree(exchange->words);
}

/* ---- launching ---- */

uint16_t *cuda_exchange_partial(const struct cuda_exchange *exchange, uint32_t index)
{
	return exchange->transport == CUDA_TRANSPORT_PEER
		       ? exchange_partial(&exchange->peers, index)
		       : exchange->partial;
}

int cuda_exchange_add_rms_norm(const struct cuda_exchange *exchange,
	const struct exchange_norm *norm, uint32_t index, uint32_t token_count,
	struct CUstream_st *stream)
{
	const struct exchange_layout *layout = &exchange->peers.layout;
	struct exchange_norm gathered = *norm;

	if (exchange->transport == CUDA_TRANSPORT_PEER) {
		return exchange_add_rms_norm(norm, &exchange->peers, index, stream);
	}
	int code = exchange_sum_slices(
		exchange->partial, norm->slices, norm->slice_rows, layout->width, stream);
	if (code == 0) {
		code = cuda_nccl_all_gather(exchange->nccl, exchange->gathered, exchange->partial,
			(uint64_t)token_count * layout->width * sizeof(uint16_t), stream);
	}
	gathered.slices = NULL;
	gathered.slice_rows = 0;
	return code != 0 ? code
			 : exchange_gathered_add_rms_norm(&gathered, exchange->gathered,
				   layout->ranks, token_count, layout->width, stream);
}

int cuda_exchange_candidates(const struct cuda_exchange *exchange, int32_t *token_ids,
	int32_t *last_tokens, const void *tiles, uint32_t tile_count, const uint32_t *rows,
	uint32_t row_count, struct CUstream_st *stream)
{
	uint64_t *own = exchange->words, *all = own + exchange->peers.layout.samples;

	if (exchange->transport == CUDA_TRANSPORT_PEER) {
		return exchange_candidates(token_ids, last_tokens, tiles, tile_count, rows,
			row_count, &exchange->peers, stream);
	}
	int code = exchange_pack_candidates(own, tiles, tile_count, row_count, stream);
	if (code == 0) {
		code = cuda_nccl_all_gather(
			exchange->nccl, all, own, row_count * sizeof(*own), stream);
	}
	return code != 0 ? code
			 : exchange_pick_candidates(token_ids, last_tokens, all, rows, row_count,
				   exchange->peers.layout.ranks, stream);
}

/* ---- failures ---- */

int cuda_exchange_failure(const struct cuda_exchange *exchange)
{
	return exchange->nccl == NULL ? 0 : cuda_nccl_failure(exchange->nccl);
}

bool cuda_exchange_leave(const struct cuda_exchange *exchange)
{
	if (exchange->nccl != NULL) {
		cuda_nccl_leave();
	}
	return exchange->nccl != NULL;
}
