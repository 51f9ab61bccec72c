#include "kernels/decode_matmul.h"
#include "kernels/device.cuh"
#include "kernels/warpgroup.cuh"

#include <cuda.h>

/* The weight's rows are the 64 rows of the tensor cores' first operand and the tokens are the
   columns of the second, so a few tokens cost a few columns and one instruction serves every M.

       cluster of `split` blocks: ROWS rows of the weight, one segment of the inputs each
       block: all of its (ROWS, segment) piece of the weight lies in shared memory, on its way there
       before the kernels ahead are done; tokens pass in tiles of TOKENS
       warpgroup: 64 of the rows, summed over the segment in registers

   Each block then sends the sums of a token to the block of the cluster that finishes this token,
   which adds the segments in ascending order. ROWS and split are the weight's, TOKENS is the
   step's: a sum is the same whichever column of whichever tile it stands in. */

enum {
	CHUNK = 64, /* inputs of a row of a tile */
	CHUNK_BYTES = CHUNK * 2,
	CHUNKS_MAX = 16,
	SPLIT_MAX = 8,
	BARRIER_BYTES = 1024, /* of CHUNKS_MAX barriers twice, and what a tile's alignment takes */
	SHARED_MAX = 227 << 10,
	BLOCKS_MAX = 132, /* that the device runs side by side */
	ROW_PAD = 4,	  /* so that the rows of 8 sums lie in different banks */
};

struct product {
	uint16_t *out;
	const uint16_t *bias;
	uint32_t row_count;
	uint32_t output_count; /* of a row of out */
	uint32_t half_offset;  /* silu: the first row of the weight's up half */
	uint32_t chunk_count;  /* of a segment */
	uint32_t split, split_shift;
	uint32_t group_shift; /* tokens go to the blocks of a cluster in groups of 1 << this */
};

/* ---- barriers, copies, clusters ---- */

static __device__ inline void barrier_init(uint32_t barrier, uint32_t count)
{
	asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(barrier), "r"(count)
		     : "memory");
}

static __device__ inline void barrier_expect(uint32_t barrier, uint32_t bytes)
{
	asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(barrier),
		     "r"(bytes)
		     : "memory");
}

static __device__ inline void barrier_wait(uint32_t barrier, uint32_t parity)
{
	asm volatile("{\n.reg .pred done;\n"
		     "again:\n"
		     "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
		     "@!done bra again;\n}\n" ::"r"(barrier),
		     "r"(parity)
		     : "memory");
}

static __device__ inline void copy_tile(
	uint32_t shared, const CUtensorMap *map, uint32_t column, uint32_t row, uint32_t barrier)
{
#if __CUDA_ARCH__ >= 900
	asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
		     "[%0], [%1, {%2, %3}], [%4];\n" ::"r"(shared),
		     "l"(map), "r"(column), "r"(row), "r"(barrier)
		     : "memory");
#endif
}

static __device__ inline uint32_t cluster_rank()
{
	uint32_t rank = 0;
#if __CUDA_ARCH__ >= 900
	asm volatile("mov.u32 %0, %%cluster_ctarank;\n" : "=r"(rank));
#endif
	return rank;
}

static __device__ inline void cluster_arrive_relaxed()
{
#if __CUDA_ARCH__ >= 900
	asm volatile("barrier.cluster.arrive.relaxed.aligned;\n" ::: "memory");
#endif
}

static __device__ inline void cluster_arrive()
{
#if __CUDA_ARCH__ >= 900
	asm volatile("barrier.cluster.arrive.release.aligned;\n" ::: "memory");
#endif
}

static __device__ inline void cluster_wait()
{
#if __CUDA_ARCH__ >= 900
	asm volatile("barrier.cluster.wait.acquire.aligned;\n" ::: "memory");
#endif
}

/* Writes to the same place of another block's shared memory. */
static __device__ inline void send(uint32_t shared, uint32_t rank, float value)
{
#if __CUDA_ARCH__ >= 900
	asm volatile("{\n.reg .b32 there;\n"
		     "mapa.shared::cluster.u32 there, %0, %1;\n"
		     "st.shared::cluster.f32 [there], %2;\n}\n" ::"r"(shared),
		     "r"(rank), "f"(value)
		     : "memory");
#endif
}

/* The same, counted by that block's barrier. */
static __device__ inline void send_counted(
	uint32_t shared, uint32_t rank, float value, uint32_t barrier)
{
#if __CUDA_ARCH__ >= 900
	asm volatile("{\n.reg .b32 there, counter;\n"
		     "mapa.shared::cluster.u32 there, %0, %1;\n"
		     "mapa.shared::cluster.u32 counter, %3, %1;\n"
		     "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [there], %2, "
		     "[counter];\n}\n" ::"r"(shared),
		     "r"(rank), "f"(value), "r"(barrier)
		     : "memory");
#endif
}

/* Arrives at another block's barrier. */
static __device__ inline void barrier_signal(uint32_t barrier, uint32_t rank)
{
#if __CUDA_ARCH__ >= 900
	asm volatile("{\n.reg .b32 there;\n"
		     "mapa.shared::cluster.u32 there, %0, %1;\n"
		     "mbarrier.arrive.shared::cluster.b64 _, [there];\n}\n" ::"r"(barrier),
		     "r"(rank)
		     : "memory");
#endif
}

/* ---- kernels ---- */

/* Where a token of a tile is finished: in which block of the cluster, as its how manyth. */
static __device__ inline uint32_t owner_of(const struct product &product, uint32_t token)
{
	return token >> product.group_shift & (product.split - 1);
}

static __device__ inline uint32_t place_of(const struct product &product, uint32_t token)
{
	uint32_t group = token >> (product.group_shift + product.split_shift);

	return group << product.group_shift | (token & ((1u << product.group_shift) - 1));
}

static __device__ inline uint32_t token_at(
	const struct product &product, uint32_t rank, uint32_t place)
{
	uint32_t group = place >> product.group_shift << product.split_shift | rank;

	return group << product.group_shift | (place & ((1u << product.group_shift) - 1));
}

/* How many of the first token_count tokens of a tile a block finishes. */
static __device__ inline uint32_t owned_count(
	const struct product &product, uint32_t rank, uint32_t token_count)
{
	uint32_t group = 1u << product.group_shift;
	uint32_t round_shift = product.group_shift + product.split_shift;
	uint32_t rest = token_count & ((1u << round_shift) - 1);
	uint32_t before = rank << product.group_shift;

	return (token_count >> round_shift << product.group_shift) +
	       (rest > before ? min(rest - before, group) : 0);
}

/* A block's piece of the weight, chunk by chunk; of the activation half gates and half ups. */
template <int ROWS, bool IS_SILU>
static __device__ inline void fetch_weight(const struct product &product, const CUtensorMap *map,
	uint32_t weights, uint32_t barriers, uint32_t rank)
{
	const uint32_t tile = blockIdx.x >> product.split_shift;

#pragma unroll 1
	for (uint32_t c = 0; c < product.chunk_count; c++) {
		uint32_t to = weights + c * ROWS * CHUNK_BYTES;
		uint32_t column = (rank * product.chunk_count + c) * CHUNK;
		barrier_expect(barriers + 8 * c, ROWS * CHUNK_BYTES);
		if (IS_SILU) {
			copy_tile(to, map, column, tile * (ROWS / 2), barriers + 8 * c);
			copy_tile(to + ROWS / 2 * CHUNK_BYTES, map, column,
				product.half_offset + tile * (ROWS / 2), barriers + 8 * c);
		} else {
			copy_tile(to, map, column, tile * ROWS, barriers + 8 * c);
		}
	}
}

template <int TOKENS>
static __device__ inline void fetch_tokens(const struct product &product, const CUtensorMap *map,
	uint32_t tokens, uint32_t barriers, uint32_t rank, uint32_t first)
{
#pragma unroll 1
	for (uint32_t c = 0; c < product.chunk_count; c++) {
		barrier_expect(barriers + 8 * c, TOKENS * CHUNK_BYTES);
		copy_tile(tokens + c * TOKENS * CHUNK_BYTES, map,
			(rank * product.chunk_count + c) * CHUNK, first, barriers + 8 * c);
	}
}

/* The sums of a segment, from a warpgroup to the blocks that finish them. */
template <int ROWS, int TOKENS, int MODE_>
static __device__ inline void send_sums(const struct product &product, const float *sum,
	uint32_t received, uint32_t rank, uint32_t token_count, uint32_t counter)
{
	const uint32_t per_block = TOKENS >> product.split_shift;
	const uint32_t row = threadIdx.x / WARP * 16 + threadIdx.x % WARP / 4;
	const uint32_t first = received + rank * per_block * (ROWS + ROW_PAD) * 4 + row * 4;

#pragma unroll
	for (int j = 0; j < TOKENS / 8; j++) {
#pragma unroll
		for (int e = 0; e < 2; e++) {
			uint32_t token = (uint32_t)j * 8 + threadIdx.x % 4 * 2 + (uint32_t)e;
			if (token < token_count) {
				uint32_t owner = owner_of(product, token);
				uint32_t to =
					first + place_of(product, token) * (ROWS + ROW_PAD) * 4;
				if (MODE_ == 0) {
					send(to, owner, sum[j * 4 + e]);
					send(to + 8 * 4, owner, sum[j * 4 + 2 + e]);
				} else {
					send_counted(to, owner, sum[j * 4 + e], counter);
					send_counted(
						to + 8 * 4, owner, sum[j * 4 + 2 + e], counter);
				}
			}
		}
	}
}

/* The segments of four rows of a token, added in ascending order. */
static __device__ inline float4 add_segments(const float *received, uint32_t stride, uint32_t split)
{
	float4 sum = *reinterpret_cast<const float4 *>(received);

	for (uint32_t s = 1; s < split; s++) {
		float4 more = *reinterpret_cast<const float4 *>(received + s * stride);
		sum.x += more.x;
		sum.y += more.y;
		sum.z += more.z;
		sum.w += more.w;
	}
	return sum;
}

/* What silu_mul() makes of a gate and an up that a tensor of bf16 has held. */
static __device__ inline float gated(float gate, float up)
{
	gate = __bfloat162float(__float2bfloat16_rn(gate));
	up = __bfloat162float(__float2bfloat16_rn(up));
	return gate / (1.0f + __expf(-gate)) * up;
}

template <int ROWS, int TOKENS, bool IS_SILU>
static __device__ inline void finish(const struct product &product, const float *received,
	uint32_t rank, uint32_t first_token, uint32_t token_count)
{
	const uint32_t outputs = IS_SILU ? ROWS / 2 : ROWS;
	const uint32_t per_block = TOKENS >> product.split_shift;
	const uint32_t stride = per_block * (ROWS + ROW_PAD);
	const uint32_t column = (blockIdx.x >> product.split_shift) * outputs;

	for (uint32_t i = threadIdx.x; i < per_block * (outputs / 4); i += ROWS * 2) {
		uint32_t place = i / (outputs / 4), row = i % (outputs / 4) * 4;
		uint32_t token = token_at(product, rank, place);
		if (token >= token_count) {
			continue;
		}
		const float *from = received + place * (ROWS + ROW_PAD) + row;
		float4 sum = add_segments(from, stride, product.split);
		if (IS_SILU) {
			float4 up = add_segments(from + ROWS / 2, stride, product.split);
			sum.x = gated(sum.x, up.x);
			sum.y = gated(sum.y, up.y);
			sum.z = gated(sum.z, up.z);
			sum.w = gated(sum.w, up.w);
		} else if (product.bias != NULL) {
			sum.x += bf16_load(product.bias + column + row);
			sum.y += bf16_load(product.bias + column + row + 1);
			sum.z += bf16_load(product.bias + column + row + 2);
			sum.w += bf16_load(product.bias + column + row + 3);
		}
		uint2 packed = {pack2(sum.x, sum.y), pack2(sum.z, sum.w)};
		size_t at = (size_t)(first_token + token) * product.output_count + column + row;
		*reinterpret_cast<uint2 *>(product.out + at) = packed;
	}
}

/* The sums of a segment, begun chunk by chunk as they arrive. */
template <int ROWS, int TOKENS>
static __device__ inline void sum_segment(const struct product &product, float *sum,
	uint32_t weights, uint32_t tokens, uint32_t barriers, uint32_t tile)
{
	weights += threadIdx.x / (4 * WARP) * 64 * CHUNK_BYTES;
#pragma unroll 1
	for (uint32_t c = 0; c < product.chunk_count; c++) {
		if (tile == 0) {
			barrier_wait(barriers + 8 * c, 0);
		}
		barrier_wait(barriers + 8 * (CHUNKS_MAX + c), tile & 1);
		warpgroup_begin();
		uint64_t a = tile_descriptor(weights + c * ROWS * CHUNK_BYTES);
		uint64_t b = tile_descriptor(tokens + c * TOKENS * CHUNK_BYTES);
#pragma unroll
		for (uint32_t k = 0; k < CHUNK / 16; k++) { /* 16 inputs are 32 bytes of a row */
			warpgroup_product<TOKENS>::begin(sum, a + 2 * k, b + 2 * k, c + k > 0);
		}
		warpgroup_commit();
	}
	warpgroup_wait();
}

template <int ROWS, int TOKENS, bool IS_SILU, int MODE_>
static __global__ void __launch_bounds__(ROWS * 2, 1)
	decode_matmul_kernel(const __grid_constant__ CUtensorMap weight_map,
		const __grid_constant__ CUtensorMap in_map, const struct product product)
{
	extern __shared__ __align__(1024) uint8_t memory[];
	const uint32_t barriers = shared_address(memory);
	const uint32_t received_barrier = barriers + 16 * CHUNKS_MAX;
	const uint32_t free_barrier = received_barrier + 8;
	const uint32_t weights = barriers + BARRIER_BYTES;
	const uint32_t tokens = weights + product.chunk_count * ROWS * CHUNK_BYTES;
	const uint32_t received = tokens + product.chunk_count * TOKENS * CHUNK_BYTES;
	const uint32_t rank = cluster_rank();
	const bool is_first = threadIdx.x == 0;
	float sum[TOKENS / 2];

	if (is_first) {
#pragma unroll 1
		for (uint32_t c = 0; c < product.chunk_count; c++) {
			barrier_init(barriers + 8 * c, 1);
			barrier_init(barriers + 8 * (CHUNKS_MAX + c), 1);
		}
		barrier_init(received_barrier, 1);
		barrier_init(free_barrier, product.split);
		asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
		asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
		fetch_weight<ROWS, IS_SILU>(product, &weight_map, weights, barriers, rank);
		asm volatile("prefetch.tensormap [%0];\n" ::"l"(&in_map) : "memory");
		barrier_expect(received_barrier,
			owned_count(product, rank, min(product.row_count, (uint32_t)TOKENS)) *
				ROWS * 4 * product.split);
	}
	__syncthreads();
	cluster_arrive_relaxed(); /* that this block is there to be written to */
	dependency_wait();
	dependents_launch();
	if (is_first) {
		fetch_tokens<TOKENS>(product, &in_map, tokens, barriers + 8 * CHUNKS_MAX, rank, 0);
	}
	cluster_wait();
#pragma unroll 1
	for (uint32_t tile = 0, first = 0; first < product.row_count; tile++, first += TOKENS) {
		uint32_t token_count = min(product.row_count - first, (uint32_t)TOKENS);
		bool is_last = first + TOKENS >= product.row_count;
		sum_segment<ROWS, TOKENS>(product, sum, weights, tokens, barriers, tile);
		if (!is_last) {
			__syncthreads();
			if (is_first) {
				fetch_tokens<TOKENS>(product, &in_map, tokens,
					barriers + 8 * CHUNKS_MAX, rank, first + TOKENS);
			}
		}
		if (MODE_ == 0 && tile > 0) {
			cluster_wait();
		} else if (tile > 0) {
			barrier_wait(free_barrier, (tile - 1) & 1);
		}
		send_sums<ROWS, TOKENS, MODE_>(
			product, sum, received, rank, token_count, received_barrier);
		if (MODE_ == 0) {
			cluster_arrive();
			cluster_wait();
		} else {
			barrier_wait(received_barrier, tile & 1);
		}
		finish<ROWS, TOKENS, IS_SILU>(product,
			reinterpret_cast<const float *>(memory + (received - barriers)), rank,
			first, token_count);
		if (is_last) {
			break;
		}
		/* what was received has been read */
		if (MODE_ == 0) {
			cluster_arrive();
		} else {
			__syncthreads();
			if (is_first) {
				barrier_expect(received_barrier,
					owned_count(product, rank,
						min(product.row_count - first - TOKENS,
							(uint32_t)TOKENS)) *
						ROWS * 4 * product.split);
			}
			__syncwarp();
			if (threadIdx.x < product.split) {
				barrier_signal(free_barrier, threadIdx.x);
			}
		}
	}
}

/* ---- launchers ---- */

/* How a weight is cut. */
struct plan {
	uint32_t rows, split, split_shift, chunk_count;
};

static uint32_t shared_bytes(const struct plan *plan, uint32_t tokens)
{
	return BARRIER_BYTES + plan->chunk_count * (plan->rows + tokens) * CHUNK_BYTES +
	       tokens * (plan->rows + ROW_PAD) * 4;
}

/* The cut that makes the most blocks of what runs side by side; of equals the one with the most
   rows, whose blocks read the fewest tokens. */
static bool make_plan(uint32_t input_count, uint32_t output_count, struct plan *best)
{
	const uint32_t tokens_least = 64;
	uint32_t blocks_best = 0;

	for (uint32_t rows = 64; rows <= 192; rows += 64) {
		for (uint32_t shift = 0; 1u << shift <= SPLIT_MAX; shift++) {
			struct plan plan = {rows, 1u << shift, shift, input_count / CHUNK >> shift};
			uint32_t blocks = output_count / rows << shift;
			if (output_count % rows == 0 && plan.chunk_count > 0 &&
				plan.chunk_count <= CHUNKS_MAX &&
				(plan.chunk_count << shift) * CHUNK == input_count &&
				blocks <= BLOCKS_MAX && blocks >= blocks_best &&
				shared_bytes(&plan, tokens_least) <= SHARED_MAX) {
				blocks_best = blocks;
				*best = plan;
			}
		}
	}
	return blocks_best > 0;
}

static int make_map(CUtensorMap *map, const uint16_t *tensor, uint32_t row_count,
	uint32_t input_count, uint32_t tile_rows)
{
	const cuuint64_t sizes[] = {input_count, row_count}, pitch[] = {input_count * 2ull};
	const cuuint32_t tile[] = {CHUNK, tile_rows}, steps[] = {1, 1};
	void *function = NULL;
	cudaDriverEntryPointQueryResult found;

	/* The driver is no library of ours to link: a simulation runs where there is none. */
	int code = (int)cudaGetDriverEntryPointByVersion(
		"cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found);
	if (code != 0 || found != cudaDriverEntryPointSuccess) {
		return code != 0 ? code : (int)cudaErrorSymbolNotFound;
	}
	CUresult result = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function)(map,
		CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<uint16_t *>(tensor), sizes, pitch,
		tile, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
		CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
	return result == CUDA_SUCCESS ? 0 : (int)cudaErrorInvalidValue;
}

/* What a launch is made from. */
struct request {
	struct plan plan;
	struct product product;
	const uint16_t *in, *weight;
	uint32_t input_count, weight_rows;
	cudaStream_t stream;
};

#ifndef MODE
#define MODE 1
#endif
template <int ROWS, int TOKENS, bool IS_SILU> static int launch(struct request *request)
{
	auto kernel = decode_matmul_kernel<ROWS, TOKENS, IS_SILU, MODE>;
	const struct plan *plan = &request->plan;
	struct product *product = &request->product;
	cudaLaunchAttribute attributes[2] = {};
	cudaLaunchConfig_t config = {};
	CUtensorMap weight_map, in_map;

	product->group_shift = TOKENS % (8 * plan->split) == 0 ? 3 : 0;
	attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
	attributes[0].val.programmaticStreamSerializationAllowed = 1;
	attributes[1].id = cudaLaunchAttributeClusterDimension;
	attributes[1].val.clusterDim.x = plan->split;
	attributes[1].val.clusterDim.y = 1;
	attributes[1].val.clusterDim.z = 1;
	config.gridDim = dim3(request->weight_rows / ROWS * plan->split);
	config.blockDim = dim3(ROWS * 2);
	config.dynamicSmemBytes = shared_bytes(plan, TOKENS);
	config.stream = request->stream;
	config.attrs = attributes;
	config.numAttrs = 2;
	int code = make_map(&weight_map, request->weight, request->weight_rows,
		request->input_count, IS_SILU ? ROWS / 2 : ROWS);
	if (code == 0) {
		code = make_map(
			&in_map, request->in, product->row_count, request->input_count, TOKENS);
	}
	if (code == 0) {
		code = (int)cudaFuncSetAttribute(kernel,
			cudaFuncAttributeMaxDynamicSharedMemorySize, (int)config.dynamicSmemBytes);
	}
	return code != 0 ? code
			 : (int)cudaLaunchKernelEx(&config, kernel, weight_map, in_map, *product);
}

/* The tile that leaves the fewest columns empty; of equals the largest. */
static uint32_t choose_tokens(const struct plan *plan, uint32_t row_count)
{
	static const uint32_t sizes[] = {8, 16, 32, 64, 96, 128};
	uint32_t best = 0, columns_best = 0;

	for (uint32_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint32_t columns = (row_count + sizes[i] - 1) / sizes[i] * sizes[i];
		bool is_few = sizes[i] < 64 && row_count > sizes[i];
		if (is_few || sizes[i] < plan->split || shared_bytes(plan, sizes[i]) > SHARED_MAX) {
			continue;
		}
		if (best == 0 || columns <= columns_best) {
			best = sizes[i];
			columns_best = columns;
		}
	}
	return best;
}

template <int ROWS, bool IS_SILU> static int launch_tokens(struct request *request, uint32_t tokens)
{
	switch (tokens) {
	case 8:
		return launch<ROWS, 8, IS_SILU>(request);
	case 16:
		return launch<ROWS, 16, IS_SILU>(request);
	case 32:
		return launch<ROWS, 32, IS_SILU>(request);
	case 64:
		return launch<ROWS, 64, IS_SILU>(request);
	case 96:
		return launch<ROWS, 96, IS_SILU>(request);
	default:
		return launch<ROWS, 128, IS_SILU>(request);
	}
}

template <bool IS_SILU> static int launch_rows(struct request *request, uint32_t tokens)
{
	switch (request->plan.rows) {
	case 64:
		return launch_tokens<64, IS_SILU>(request, tokens);
	case 128:
		return launch_tokens<128, IS_SILU>(request, tokens);
	default:
		return launch_tokens<192, IS_SILU>(request, tokens);
	}
}

bool decode_matmul_fits(uint32_t input_count, uint32_t output_count)
{
	struct plan plan;

	return kernel_path_of_device() == KERNEL_PATH_SM90 &&
	       make_plan(input_count, output_count, &plan);
}

static int make_request(struct request *request, uint32_t input_count, uint32_t weight_rows)
{
	if (!make_plan(input_count, weight_rows, &request->plan)) {
		return (int)cudaErrorInvalidValue;
	}
	request->input_count = input_count;
	request->weight_rows = weight_rows;
	request->product.chunk_count = request->plan.chunk_count;
	request->product.split = request->plan.split;
	request->product.split_shift = request->plan.split_shift;
	return 0;
}

int decode_matmul(uint16_t *out, const uint16_t *in, const uint16_t *weight, const uint16_t *bias,
	uint32_t row_count, uint32_t input_count, uint32_t output_count, struct CUstream_st *stream)
{
	struct request request = {};
	int code = make_request(&request, input_count, output_count);

	if (code != 0 || row_count == 0) {
		return code;
	}
	request.product.out = out;
	request.product.bias = bias;
	request.product.row_count = row_count;
	request.product.output_count = output_count;
	request.in = in;
	request.weight = weight;
	request.stream = stream;
	return launch_rows<false>(&request, choose_tokens(&request.plan, row_count));
}

int decode_matmul_silu(uint16_t *out, const uint16_t *in, const uint16_t *weight,
	uint32_t row_count, uint32_t input_count, uint32_t intermediate, struct CUstream_st *stream)
{
	struct request request = {};
	int code = make_request(&request, input_count, 2 * intermediate);

	if (code != 0 || row_count == 0) {
		return code;
	}
	request.product.out = out;
	request.product.row_count = row_count;
	request.product.output_count = intermediate;
	request.product.half_offset = intermediate;
	request.in = in;
	request.weight = weight;
	request.stream = stream;
	return launch_rows<true>(&request, choose_tokens(&request.plan, row_count));
}
