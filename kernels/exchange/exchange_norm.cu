#include "kernels/device/early_launch.cuh"
#include "kernels/exchange/peer.cuh"
#include "kernels/rows/rms_norm.cuh"

/* exchange_add_rms_norm() and exchange_gathered_add_rms_norm(): formulas, shapes and ways are in
   the header.

   The rows are dealt out to the blocks of a grid that is resident as a whole, one row at a time to
   a block, whose threads hold it as those of rms_norm_kernel() do. A block first makes all its rows
   known to the peers: it pushes them, or completes them in the partial buffer and sets its flags.
   Then it collects row after row. */

enum exchange_way { EXCHANGE_PUSH, EXCHANGE_PULL, EXCHANGE_GATHERED };

enum {
	EXCHANGE_THREADS_MAX = 384, /* of a row of EXCHANGE_WIDTH_MAX */
	EXCHANGE_BLOCKS = 2,	    /* of so many threads on a multiprocessor */
	SLICE_THREADS = 256,
};

struct exchange_arguments {
	exchange_norm norm;
	exchange x;
	uint32_t index;
	uint32_t width;
	uint32_t ranks;
	const uint16_t *parts; /* (ranks, part_rows, width) of EXCHANGE_GATHERED */
	uint32_t part_rows;
};

/* ---- kernels ---- */

/* A block's view of an exchange. With several ranks on one GPU, blockIdx.y is the rank. */
struct block_exchange {
	const exchange_arguments *a;
	uint32_t rank;
	uint64_t count; /* of exchanges before this one, in all steps */
	const float *slices;
	uint16_t *partial; /* of this rank */
};

static __device__ inline unsigned char *partial_of(const exchange_arguments &a, int rank)
{
	uint64_t bytes = (uint64_t)a.x.layout.tokens * a.width * sizeof(uint16_t);

	return a.x.memory[rank] + a.x.layout.partials + a.index % EXCHANGE_PARTIALS * bytes;
}

/* The slot row in the memory of rank `to` for the row that rank `from` pushes. */
static __device__ inline unsigned char *slot_row(
	const block_exchange &b, int to, uint32_t from, uint32_t row)
{
	const struct exchange_layout &l = b.a->x.layout;
	uint64_t slot = b.count % EXCHANGE_SLOTS;
	uint64_t place = ((slot * l.ranks + from) * l.push_rows + row) * l.width;

	return b.a->x.memory[to] + l.slots + place * sizeof(uint16_t);
}

/* The first of the 8 elements of a vector of this thread. */
static __device__ inline uint32_t vector_at(int vector)
{
	return (threadIdx.x + vector * blockDim.x) * 8;
}

static __device__ inline uint32_t source_of(const exchange_norm &norm, uint32_t row)
{
	return norm.index == nullptr ? row : norm.index[row];
}

/* Makes this rank's part of a row known: sums its slices, and pushes it to all peers. */
template <exchange_way WAY, int RANKS, int VECTORS>
static __device__ inline void send_row(const block_exchange &b, uint32_t row)
{
	const exchange_arguments &a = *b.a;
	const uint32_t source = source_of(a.norm, row);
	const bool is_sliced = source < a.norm.slice_rows;

	if (WAY == EXCHANGE_PULL && !is_sliced) {
		return;
	}
	const size_t first = (size_t)source * a.width;
	bf16x8 part[VECTORS];

#pragma unroll
	for (int v = 0; v < VECTORS; v++) {
		uint32_t at = vector_at(v);
		if (at >= a.width) {
			continue;
		}
		if (is_sliced) {
			part[v] = sum_slices8(
				b.slices + first + at, (size_t)a.norm.slice_rows * a.width);
		} else {
			part[v] = load8(b.partial + first + at);
		}
	}
#pragma unroll
	for (int v = 0; v < VECTORS; v++) {
		uint32_t at = vector_at(v);
		if (at >= a.width) {
			continue;
		}
#pragma unroll
		for (int r = 0; r < RANKS && WAY == EXCHANGE_PUSH; r++) {
			if (r < a.ranks && r != b.rank) {
				push8(slot_row(b, r, b.rank, row) + at * sizeof(uint16_t), part[v]);
			}
		}
		if (is_sliced) {
			store8(b.partial + first + at, part[v]);
		}
	}
}

/* Tells every peer that the rows of this block are complete, and waits for the same of theirs. */
static __device__ inline void meet_peers(const block_exchange &b, peer_wait &wait)
{
	const exchange &x = b.a->x;
	const uint32_t lane = threadIdx.x;
	const int64_t epoch = (int64_t)b.count + 1;

	if (threadIdx.x < WARP) {
		bool is_peer = lane < b.a->ranks && lane != b.rank;
		const uint64_t *flag = nullptr;
		if (is_peer) {
			uint64_t *flags = (uint64_t *)(x.memory[lane] + x.layout.flags);
			flag_set(flags + b.rank * EXCHANGE_BLOCKS_MAX + blockIdx.x, epoch);
			flags = (uint64_t *)(x.memory[b.rank] + x.layout.flags);
			flag = flags + lane * EXCHANGE_BLOCKS_MAX + blockIdx.x;
		}
		while (wait_goes_on(
			b.a->x, wait, is_peer && flag_read(flag) < epoch ? 1u << lane : 0)) {
		}
	}
	__syncthreads();
}

/* Loads what all ranks have for 8 elements of BATCH vectors of a row. */
template <exchange_way WAY, int RANKS, int BATCH>
static __device__ inline void collect(const block_exchange &b, peer_wait &wait, uint32_t row,
	uint32_t source, const uint32_t *at, bf16x8 (&parts)[BATCH][RANKS])
{
	const exchange_arguments &a = *b.a;
	bf16x8 own[BATCH];
	uint32_t missing;

#pragma unroll
	for (int v = 0; v < BATCH && WAY == EXCHANGE_PUSH; v++) {
		if (at[v] < a.width) {
			own[v] = load8(b.partial + (size_t)source * a.width + at[v]);
		}
	}
	do {
		missing = 0;
#pragma unroll
		for (int v = 0; v < BATCH; v++) {
#pragma unroll
			for (int r = 0; r < RANKS; r++) {
				if (r >= a.ranks || at[v] >= a.width) {
					continue;
				}
				const size_t element = (size_t)source * a.width + at[v];
				if (WAY == EXCHANGE_GATHERED) {
					size_t part = (size_t)r * a.part_rows * a.width;
					parts[v][r] = load8(a.parts + part + element);
				} else if (WAY == EXCHANGE_PULL) {
					parts[v][r] = peer_load8(
						partial_of(a, r) + element * sizeof(uint16_t));
				} else if (r == b.rank) {
					parts[v][r] = own[v];
				} else {
					parts[v][r] = peer_load8(slot_row(b, b.rank, r, row) +
								 at[v] * sizeof(uint16_t));
					missing |= has_arrived(parts[v][r]) ? 0 : 1u << r;
				}
			}
		}
	} while (WAY == EXCHANGE_PUSH && wait_goes_on(a.x, wait, missing));
}

/* Empties the slots of a row that collect() has read. */
template <int RANKS, int BATCH>
static __device__ inline void empty_slots(const block_exchange &b, uint32_t row, const uint32_t *at)
{
#pragma unroll
	for (int v = 0; v < BATCH; v++) {
#pragma unroll
		for (int r = 0; r < RANKS; r++) {
			if (r < b.a->ranks && r != b.rank && at[v] < b.a->width) {
				empty8(slot_row(b, b.rank, r, row) + at[v] * sizeof(uint16_t));
			}
		}
	}
}

/* The parts of 8 elements in the order of the ranks, from zero, rounded once. */
template <int RANKS>
static __device__ inline bf16x8 sum_ranks8(const bf16x8 (&parts)[RANKS], uint32_t ranks)
{
	float sum[8] = {}, x[8];

#pragma unroll
	for (int r = 0; r < RANKS; r++) {
		if (r < ranks) {
			unpack8(parts[r], x);
#pragma unroll
			for (int j = 0; j < 8; j++) {
				sum[j] += x[j];
			}
		}
	}
	return pack8(sum);
}

/* Collects a row, adds it to the residual stream and normalises it. sums: as for block_sum(). */
template <exchange_way WAY, int RANKS, int VECTORS>
static __device__ inline void norm_row(const block_exchange &b, peer_wait &wait, uint32_t row,
	const bf16x8 (&weight)[VECTORS], float *sums)
{
	/* Vectors whose parts are in registers at the same time. */
	constexpr int BATCH = RANKS <= 2 ? VECTORS : 1;
	const exchange_norm &norm = b.a->norm;
	const uint32_t width = b.a->width;
	const uint32_t source = source_of(norm, row);
	const size_t local = (size_t)blockIdx.y * norm.row_count;
	uint16_t *residual = norm.residual + (local + source) * width;
	uint16_t *out = norm.out + (local + row) * width;
	bf16x8 sum[VECTORS];
	float square = 0;

#pragma unroll
	for (int first = 0; first < VECTORS; first += BATCH) {
		bf16x8 parts[BATCH][RANKS], added[BATCH];
		uint32_t at[BATCH];
#pragma unroll
		for (int v = 0; v < BATCH; v++) {
			at[v] = vector_at(first + v);
			if (at[v] < width) {
				added[v] = load8(residual + at[v]);
			}
		}
		collect<WAY, RANKS, BATCH>(b, wait, row, source, at, parts);
		if (WAY == EXCHANGE_PUSH) {
			empty_slots<RANKS, BATCH>(b, row, at);
		}
#pragma unroll
		for (int v = 0; v < BATCH; v++) {
			if (at[v] < width) {
				bf16x8 all = sum_ranks8<RANKS>(parts[v], b.a->ranks);
				sum[first + v] = sum8(all, added[v]);
				if (norm.index == nullptr) {
					store8(residual + at[v], sum[first + v]);
				}
				square = add_squares8(square, sum[first + v]);
			}
		}
	}
	square = block_sum(square, sums, blockDim.x / WARP);
	float scale = norm_scale(square, width, norm.epsilon);
#pragma unroll
	for (int v = 0; v < VECTORS; v++) {
		uint32_t at = vector_at(v);
		if (at < width) {
			store8(out + at, scale8(sum[v], scale, weight[v]));
		}
	}
}

template <exchange_way WAY, int RANKS, int VECTORS>
static __global__ void __launch_bounds__(EXCHANGE_THREADS_MAX, EXCHANGE_BLOCKS)
	exchange_norm_kernel(const __grid_constant__ exchange_arguments a)
{
	/* Rows take turns, so that a barrier of one row lies between two uses of the same array. */
	__shared__ float sums[2][EXCHANGE_THREADS_MAX / WARP];

	const uint32_t row_count = a.norm.row_count;
	const size_t local = blockIdx.y;
	block_exchange b = {&a, a.x.rank + blockIdx.y, 0,
		a.norm.slices + local * SPLIT_K * a.norm.slice_rows * a.width, nullptr};
	peer_wait wait = {};
	bf16x8 weight[VECTORS];

#pragma unroll
	for (int v = 0; v < VECTORS; v++) {
		uint32_t at = vector_at(v);
		if (at < a.width) {
			weight[v] = load8(a.norm.weight + at);
		}
	}
	if (WAY != EXCHANGE_GATHERED) {
		b.count = *a.x.step_count * a.x.per_step + a.index;
		b.partial = (uint16_t *)partial_of(a, b.rank);
	}
	dependency_wait();
	if (WAY != EXCHANGE_GATHERED) {
		wait = wait_open(a.x, a.index);
		for (uint32_t row = blockIdx.x; row < row_count; row += gridDim.x) {
			send_row<WAY, RANKS, VECTORS>(b, row);
		}
	}
	if (WAY == EXCHANGE_PULL) {
		__syncthreads(); /* the flag covers the rows of all threads */
		meet_peers(b, wait);
	}
	/* The next kernel starts while this one collects. Earlier, its blocks would take the places
	   of blocks that have yet to send (kernels/exchange/TUNING.md). */
	dependents_launch();
	uint32_t turn = 0;
	for (uint32_t row = blockIdx.x; row < row_count; row += gridDim.x) {
		norm_row<WAY, RANKS, VECTORS>(b, wait, row, weight, sums[turn]);
		turn ^= 1;
	}
}

static __global__ void exchange_end_step_kernel(uint64_t *step_count)
{
	*step_count += 1;
}

static __global__ void exchange_sum_slices_kernel(
	uint16_t *partial, const float *slices, uint32_t vectors)
{
	dependents_launch();
	const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;

	dependency_wait();
	if (i < vectors) {
		store8(partial + (size_t)i * 8,
			sum_slices8(slices + (size_t)i * 8, (size_t)vectors * 8));
	}
}

/* ---- launchers ---- */

static_assert(EXCHANGE_WIDTH_MAX == EXCHANGE_THREADS_MAX * NORM_VECTORS_MAX * 8, "a row fits");

template <exchange_way WAY, int RANKS> static auto *kernel_of_width(uint32_t width)
{
	return norm_vectors(width) == 1 ? exchange_norm_kernel<WAY, RANKS, 1>
					: exchange_norm_kernel<WAY, RANKS, NORM_VECTORS_MAX>;
}

/* Blocks that are resident at once: the launch bounds of the kernel guarantee the threads. */
static uint32_t blocks_of(uint32_t rows, uint32_t multiprocessors, uint32_t threads)
{
	uint32_t resident = multiprocessors * (EXCHANGE_BLOCKS * EXCHANGE_THREADS_MAX / threads);
	uint32_t most = resident < EXCHANGE_BLOCKS_MAX ? resident : EXCHANGE_BLOCKS_MAX;

	return rows < most ? rows : most;
}

template <exchange_way WAY>
static int launch(const exchange_arguments &a, dim3 grid, cudaStream_t stream)
{
	auto *kernel = a.ranks <= 2   ? kernel_of_width<WAY, 2>(a.width)
		       : a.ranks <= 4 ? kernel_of_width<WAY, 4>(a.width)
				      : kernel_of_width<WAY, EXCHANGE_RANKS_MAX>(a.width);

	if (a.width > EXCHANGE_WIDTH_MAX) {
		return (int)cudaErrorInvalidValue;
	}
	return launch_dependent(kernel, grid, norm_threads(a.width), 0, stream, a);
}

uint16_t *exchange_partial(const struct exchange *exchange, uint32_t index)
{
	const struct exchange_layout &l = exchange->layout;
	uint64_t row = (uint64_t)(index % EXCHANGE_PARTIALS) * l.tokens;

	return (uint16_t *)(exchange->memory[exchange->rank] + l.partials) + row * l.width;
}

int exchange_add_rms_norm(const struct exchange_norm *norm, const struct exchange *exchange,
	uint32_t index, struct CUstream_st *stream)
{
	const struct exchange_layout &l = exchange->layout;
	const exchange_arguments a = {*norm, *exchange, index, l.width, l.ranks, nullptr, 0};
	uint32_t blocks = blocks_of(norm->row_count,
		exchange->multiprocessors / exchange->local_ranks, norm_threads(l.width));
	const dim3 grid(blocks == 0 ? 1 : blocks, exchange->local_ranks);

	/* Without rows the ranks meet all the same: it orders what they write before and behind. */
	return norm->row_count > 0 && norm->row_count <= l.push_rows
		       ? launch<EXCHANGE_PUSH>(a, grid, stream)
		       : launch<EXCHANGE_PULL>(a, grid, stream);
}

int exchange_gathered_add_rms_norm(const struct exchange_norm *norm, const uint16_t *parts,
	uint32_t ranks, uint32_t part_rows, uint32_t width, struct CUstream_st *stream)
{
	const exchange_arguments a = {*norm, {}, 0, width, ranks, parts, part_rows};

	if (norm->row_count == 0) {
		return (int)cudaSuccess;
	}
	if (ranks > EXCHANGE_RANKS_MAX || norm->slices != nullptr) {
		return (int)cudaErrorInvalidValue;
	}
	return launch<EXCHANGE_GATHERED>(a, norm->row_count, stream);
}

int exchange_sum_slices(uint16_t *partial, const float *slices, uint32_t slice_rows, uint32_t width,
	struct CUstream_st *stream)
{
	const uint32_t vectors = slice_rows * (width / 8);

	if (vectors == 0) {
		return (int)cudaSuccess;
	}
	return launch_dependent(exchange_sum_slices_kernel,
		(vectors + SLICE_THREADS - 1) / SLICE_THREADS, SLICE_THREADS, 0, stream, partial,
		slices, vectors);
}

int exchange_clear(
	unsigned char *memory, const struct exchange_layout *layout, struct CUstream_st *stream)
{
	return (int)cudaMemsetAsync(memory, 0xff, layout->bytes, stream);
}

int exchange_end_step(uint64_t *step_count, struct CUstream_st *stream)
{
	exchange_end_step_kernel<<<1, 1, 0, stream>>>(step_count);
	return (int)cudaGetLastError();
}
