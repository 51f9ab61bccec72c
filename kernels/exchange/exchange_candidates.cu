#include "kernels/device/early_launch.cuh"
#include "kernels/exchange/peer.cuh"
#include "kernels/sampling/candidate.cuh"

/* The best candidate of a row over all ranks, one warp a row. Peers push theirs as one word each;
   the word that is empty has all bits set. */

enum { ROW_WARPS = 4 };

static const uint64_t EMPTY_WORD = UINT64_MAX;

/* ---- kernels ---- */

/* The candidates that rank `from` pushes to rank `to` in this step. */
static __device__ inline uint64_t *words_of(
	const exchange &x, uint64_t step, uint32_t to, uint32_t from)
{
	const struct exchange_layout &l = x.layout;
	uint64_t *words = (uint64_t *)(x.memory[to] + l.candidates);

	return words + (step % EXCHANGE_SLOTS * l.ranks + from) * l.samples;
}

/* The best over ranks; every lane gets it. Lane r serves rank r. */
static __device__ inline candidate exchange_row(
	const exchange &x, uint64_t step, uint32_t rank, uint32_t row, candidate own)
{
	const uint32_t lane = threadIdx.x % WARP;
	const bool is_peer = lane < x.layout.ranks && lane != rank;
	peer_wait wait = wait_open(x, x.per_step);
	uint64_t *slot = is_peer ? words_of(x, step, rank, lane) + row : nullptr;
	uint64_t word = candidate_pack(lane == rank ? own : candidate_none());
	uint32_t missing;

	if (is_peer) {
		peer_store_word(words_of(x, step, lane, rank) + row, candidate_pack(own));
	}
	do {
		word = is_peer ? peer_load_word(slot) : word;
		missing = word == EMPTY_WORD ? 1u << lane : 0;
	} while (wait_goes_on(x, wait, missing));
	if (is_peer) {
		peer_store_word(slot, EMPTY_WORD);
	}
	return warp_best(candidate_unpack(word));
}

static __global__ void __launch_bounds__(ROW_WARPS *WARP) exchange_candidates_kernel(
	int32_t *token_ids, int32_t *last_tokens, const candidate *tiles, uint32_t tile_count,
	const uint32_t *rows, uint32_t row_count, const __grid_constant__ exchange x)
{
	dependents_launch();
	const size_t local = (size_t)blockIdx.y * row_count;
	const uint64_t step = *x.step_count;

	dependency_wait();
	for (uint32_t row = blockIdx.x * ROW_WARPS + threadIdx.x / WARP; row < row_count;
		row += gridDim.x * ROW_WARPS) {
		candidate own = best_of_tiles(tiles + (local + row) * tile_count, tile_count);
		candidate best = exchange_row(x, step, x.rank + blockIdx.y, row, own);
		if (threadIdx.x % WARP == 0) {
			store_token(token_ids + local, last_tokens + local, row, rows[row], best);
		}
	}
}

static __global__ void __launch_bounds__(ROW_WARPS *WARP) exchange_pack_kernel(
	uint64_t *words, const candidate *tiles, uint32_t tile_count, uint32_t row_count)
{
	dependents_launch();
	const uint32_t row = blockIdx.x * ROW_WARPS + threadIdx.x / WARP;

	if (row >= row_count) {
		return;
	}
	dependency_wait();
	candidate best = best_of_tiles(tiles + (size_t)row * tile_count, tile_count);
	if (threadIdx.x % WARP == 0) {
		words[row] = candidate_pack(best);
	}
}

static __global__ void __launch_bounds__(ROW_WARPS *WARP)
	exchange_pick_kernel(int32_t *token_ids, int32_t *last_tokens, const uint64_t *words,
		const uint32_t *rows, uint32_t row_count, uint32_t ranks)
{
	dependents_launch();
	const uint32_t row = blockIdx.x * blockDim.x + threadIdx.x;
	candidate best = candidate_none();

	if (row >= row_count) {
		return;
	}
	dependency_wait();
	for (uint32_t r = 0; r < ranks; r++) {
		best = candidate_better(best, candidate_unpack(words[(size_t)r * row_count + row]));
	}
	store_token(token_ids, last_tokens, row, rows[row], best);
}

/* ---- launchers ---- */

static uint32_t blocks_of(uint32_t rows, uint32_t rows_of_block)
{
	return (rows + rows_of_block - 1) / rows_of_block;
}

int exchange_candidates(int32_t *token_ids, int32_t *last_tokens, const void *tiles,
	uint32_t tile_count, const uint32_t *rows, uint32_t row_count,
	const struct exchange *exchange, struct CUstream_st *stream)
{
	/* All blocks are resident at once: 4 of them take 512 threads of a multiprocessor. */
	const uint32_t most = exchange->multiprocessors / exchange->local_ranks * 4;
	const uint32_t blocks = blocks_of(row_count, ROW_WARPS);

	if (row_count == 0) {
		return (int)cudaSuccess;
	}
	return launch_dependent(exchange_candidates_kernel,
		dim3(blocks < most ? blocks : most, exchange->local_ranks), ROW_WARPS * WARP, 0,
		stream, token_ids, last_tokens, (const candidate *)tiles, tile_count, rows,
		row_count, *exchange);
}

int exchange_pack_candidates(uint64_t *words, const void *tiles, uint32_t tile_count,
	uint32_t row_count, struct CUstream_st *stream)
{
	if (row_count == 0) {
		return (int)cudaSuccess;
	}
	return launch_dependent(exchange_pack_kernel, blocks_of(row_count, ROW_WARPS),
		ROW_WARPS * WARP, 0, stream, words, (const candidate *)tiles, tile_count,
		row_count);
}

int exchange_pick_candidates(int32_t *token_ids, int32_t *last_tokens, const uint64_t *words,
	const uint32_t *rows, uint32_t row_count, uint32_t ranks, struct CUstream_st *stream)
{
	if (row_count == 0) {
		return (int)cudaSuccess;
	}
	return launch_dependent(exchange_pick_kernel, blocks_of(row_count, ROW_WARPS * WARP),
		ROW_WARPS * WARP, 0, stream, token_ids, last_tokens, words, rows, row_count, ranks);
}
