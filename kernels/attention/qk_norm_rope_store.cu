#include "kernels/device/early_launch.cuh"
#include "kernels/device/vector.cuh"
#include "kernels/attention/qk_norm_rope_store.h"

/* Norm, rotation (RoPE) and KV store of each head in one pass over qkv; formulas and shapes are in
   qk_norm_rope_store.h.

   DIM / 16 lanes a head: first the q heads of a token, then its k heads, then its v heads, in
   the order of a row of qkv. A lane holds 8 elements of the lower half of the head and the 8
   elements of the upper half that are rotated with them. So each element is read and written
   once, 16 bytes at a time, and the norm is a warp shuffle. All inputs but qkv are read before
   the dependency wait. */

enum { STORE_THREADS = 128 };

struct store_arguments {
	uint16_t *query, *keys, *values;
	const uint16_t *qkv;
	const uint32_t *positions;
	const int64_t *slots;
	qk_norm_rope_device norm;
	attention_shape shape;
};

/* ---- kernels ---- */

/* Where in the pool a lane stores its elements of a key or value. */
struct pool_offsets {
	bool is_stored;
	uint64_t low, high; /* element indices */
};

static __device__ inline pool_offsets find_pool_offsets(
	const attention_shape &shape, int64_t slot, uint32_t kv_head, uint32_t lane)
{
	pool_offsets at = {slot >= 0, 0, 0};

	if (at.is_stored) {
		/* Most pools have fewer than 2^32 slots, and a 64-bit division is slow. */
		uint64_t block = (uint64_t)slot >> 32 == 0 ? (uint32_t)slot / shape.block_size
							   : (uint64_t)slot / shape.block_size;
		uint32_t token = (uint32_t)((uint64_t)slot - block * shape.block_size);
		uint64_t row = paged_kv_offset(&shape, block, kv_head, token);
		at.low = row + paged_kv_chunk(&shape, token, lane) * 8;
		at.high = row + paged_kv_chunk(&shape, token, shape.head_dim / 16 + lane) * 8;
	}
	return at;
}

/* Normalises and rotates 16 elements in place. angles: (cos, sin) of each pair, float32. */
template <int LANES>
static __device__ inline void norm_rope(bf16x8 *low, bf16x8 *high, const bf16x8 &low_weight,
	const bf16x8 &high_weight, const float4 (&angles)[4], float epsilon)
{
	float a[8], b[8], wa[8], wb[8];
	float square = 0;

	unpack8(*low, a);
	unpack8(*high, b);
	unpack8(low_weight, wa);
	unpack8(high_weight, wb);
#pragma unroll
	for (int j = 0; j < 8; j++) {
		square += a[j] * a[j] + b[j] * b[j];
	}
#pragma unroll
	for (int distance = LANES / 2; distance > 0; distance /= 2) {
		square += __shfl_xor_sync(0xffffffffu, square, distance);
	}
	float scale = rsqrtf(square / (float)(LANES * 16) + epsilon);
#pragma unroll
	for (int j = 0; j < 8; j++) {
		float cosine = j % 2 == 0 ? angles[j / 2].x : angles[j / 2].z;
		float sine = j % 2 == 0 ? angles[j / 2].y : angles[j / 2].w;
		float x = a[j] * scale * wa[j];
		float y = b[j] * scale * wb[j];
		a[j] = x * cosine - y * sine;
		b[j] = y * cosine + x * sine;
	}
	*low = pack8(a);
	*high = pack8(b);
}

template <int DIM>
static __global__ void __launch_bounds__(STORE_THREADS, 7)
	qk_norm_rope_store_kernel(store_arguments a)
{
	const int LANES = DIM / 16;

	dependents_launch();
	uint32_t key_start = a.shape.head_count;
	uint32_t value_start = key_start + a.shape.kv_head_count;
	uint32_t heads = value_start + a.shape.kv_head_count;
	uint32_t token = blockIdx.x;
	uint32_t head = blockIdx.y * (STORE_THREADS / LANES) + threadIdx.x / LANES;
	uint32_t lane = threadIdx.x % LANES;
	bool has_head = head < heads;
	bool is_query = head < key_start;
	bool is_rotated = head < value_start;
	pool_offsets at = {false, 0, 0};
	bf16x8 low_weight = {}, high_weight = {};
	float4 angles[4] = {};

	if (has_head && !is_query) {
		uint32_t kv_head = head - (is_rotated ? key_start : value_start);
		at = find_pool_offsets(a.shape, a.slots[token], kv_head, lane);
	}
	if (is_rotated) {
		const uint16_t *weight = is_query ? a.norm.q_weight : a.norm.k_weight;
		const float *rope = a.norm.rope + (size_t)a.positions[token] * DIM + lane * 16;
		low_weight = load8(weight + lane * 8);
		high_weight = load8(weight + DIM / 2 + lane * 8);
#pragma unroll
		for (int j = 0; j < 4; j++) {
			angles[j] = reinterpret_cast<const float4 *>(rope)[j];
		}
	}
	dependency_wait();
	bf16x8 low = {}, high = {};
	if (has_head) {
		const uint16_t *in = a.qkv + ((size_t)token * heads + head) * DIM + lane * 8;
		low = load8(in);
		high = load8(in + DIM / 2);
	}
	/* Lanes of v heads and idle lanes take part too, because warp_sum() shuffles across the
	   whole warp. */
	bf16x8 rotated_low = low, rotated_high = high;
	norm_rope<LANES>(
		&rotated_low, &rotated_high, low_weight, high_weight, angles, a.norm.epsilon);
	if (is_rotated) {
		low = rotated_low;
		high = rotated_high;
	}
	if (is_query) {
		uint16_t *out =
			a.query + ((size_t)token * a.shape.head_count + head) * DIM + lane * 8;
		store8(out, low);
		store8(out + DIM / 2, high);
	} else if (at.is_stored) {
		uint16_t *out = is_rotated ? a.keys : a.values;
		store8(out + at.low, low);
		store8(out + at.high, high);
	}
}

/* ---- launchers ---- */

template <int DIM>
static int launch(const store_arguments &arguments, uint32_t token_count, cudaStream_t stream)
{
	const uint32_t each = STORE_THREADS / (DIM / 16);
	uint32_t heads = arguments.shape.head_count + 2 * arguments.shape.kv_head_count;

	return launch_dependent(qk_norm_rope_store_kernel<DIM>,
		dim3(token_count, (heads + each - 1) / each), STORE_THREADS, 0, stream, arguments);
}

int qk_norm_rope_store(uint16_t *query, uint16_t *keys, uint16_t *values, const uint16_t *qkv,
	const uint32_t *positions, const int64_t *slots, uint32_t token_count,
	const struct qk_norm_rope_device *norm, const struct attention_shape *shape,
	struct CUstream_st *stream)
{
	const store_arguments arguments = {
		query, keys, values, qkv, positions, slots, *norm, *shape};

	if (token_count == 0) {
		return (int)cudaSuccess;
	}
	switch (shape->head_dim) {
	case 16:
		return launch<16>(arguments, token_count, stream);
	case 32:
		return launch<32>(arguments, token_count, stream);
	case 64:
		return launch<64>(arguments, token_count, stream);
	case 128:
		return launch<128>(arguments, token_count, stream);
	case 256:
		return launch<256>(arguments, token_count, stream);
	default:
		return (int)cudaErrorInvalidValue;
	}
}
