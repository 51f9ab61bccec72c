#ifndef KERNELS_DEVICE_DEVICE_CUH
#define KERNELS_DEVICE_DEVICE_CUH

#include "kernels/op/launch.h"

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <stdint.h>

/* Pieces that several kernels are made of. */

enum { WARP = 32 };

/* Eight bf16 in 16 bytes, the widest access of a thread. */
struct alignas(16) bf16x8 {
	__nv_bfloat162 pair[4];
};

__device__ inline bf16x8 load8(const uint16_t *from)
{
	return *reinterpret_cast<const bf16x8 *>(from);
}

__device__ inline void store8(uint16_t *to, const bf16x8 &value)
{
	*reinterpret_cast<bf16x8 *>(to) = value;
}

__device__ inline void unpack8(const bf16x8 &packed, float *out)
{
#pragma unroll
	for (int i = 0; i < 4; i++) {
		float2 two = __bfloat1622float2(packed.pair[i]);
		out[2 * i] = two.x;
		out[2 * i + 1] = two.y;
	}
}

__device__ inline bf16x8 pack8(const float *in)
{
	bf16x8 packed;
#pragma unroll
	for (int i = 0; i < 4; i++) {
		packed.pair[i] = __floats2bfloat162_rn(in[2 * i], in[2 * i + 1]);
	}
	return packed;
}

__device__ inline float bf16_load(const uint16_t *from)
{
	return __bfloat162float(*reinterpret_cast<const __nv_bfloat16 *>(from));
}

__device__ inline void bf16_store(uint16_t *to, float value)
{
	*reinterpret_cast<__nv_bfloat16 *>(to) = __float2bfloat16_rn(value);
}

/* x / (1 + exp(-x)); at -infinity its limit, 0. */
__device__ inline float silu(float x)
{
	return __fdividef(x, 1.0f + __expf(-x));
}

/* Sum over a warp in a fixed tree; every lane gets it. */
__device__ inline float warp_sum(float value)
{
#pragma unroll
	for (int distance = WARP / 2; distance > 0; distance /= 2) {
		value += __shfl_xor_sync(0xffffffffu, value, distance);
	}
	return value;
}

/* Sum over a block of `warps` warps; every thread gets it. `shared`: (warps) floats that nobody
   else uses until the next barrier. */
__device__ inline float block_sum(float value, float *shared, int warps)
{
	value = warp_sum(value);
	if (threadIdx.x % WARP == 0) {
		shared[threadIdx.x / WARP] = value;
	}
	__syncthreads();
	float sum = 0;
	for (int i = 0; i < warps; i++) {
		sum += shared[i];
	}
	return sum;
}

/* ---- asynchronous copies and matrix fragments (sm_80) ---- */

__device__ inline uint32_t shared_address(const void *pointer)
{
	return (uint32_t)__cvta_generic_to_shared(pointer);
}

/* 16 bytes from global to shared memory; zeroes when not `is_there`. */
__device__ inline void copy16(uint32_t shared, const void *global, bool is_there)
{
	int bytes = is_there ? 16 : 0;
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(shared), "l"(global),
		"r"(bytes));
}

__device__ inline void copy_commit()
{
	asm volatile("cp.async.commit_group;\n" ::);
}

template <int PENDING> __device__ inline void copy_wait()
{
	asm volatile("cp.async.wait_group %0;\n" ::"n"(PENDING));
}

/* Four 8x8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8. */
__device__ inline void load_matrices(uint32_t *out, uint32_t address)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
		     : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
		     : "r"(address));
}

__device__ inline void load_matrices_transposed(uint32_t *out, uint32_t address)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
		     : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
		     : "r"(address));
}

/* sum (16 x 8, float32) += a (16 x 16, bf16) * b (16 x 8, bf16).
   Lane l holds of sum: rows l / 4 (elements 0, 1) and l / 4 + 8 (2, 3), columns 2 * (l % 4) + 0, 1.
 */
__device__ inline void multiply_add(float *sum, const uint32_t *a, uint32_t b0, uint32_t b1)
{
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
		     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
		     : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
		     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ inline uint32_t pack2(float low, float high)
{
	__nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
	return *reinterpret_cast<uint32_t *>(&pair);
}

/* ---- programmatic dependent launch (sm_90) ---- */

/* A kernel launched with launch_dependent() says dependents_launch() first of all, unless there is
   a reason to hold the next one back. So that one begins as soon as all blocks of this one have
   begun, whether the kernels before are done or not, and several kernels at once hold
   multiprocessors, each as far as it comes before its own dependency_wait(). This returns when the
   kernel before has ended and all that it wrote can be seen. As every kernel waits, none ends
   before the one ahead of it: the wait is for all kernels before.

   Ahead of its wait a kernel finds nothing done, so there it writes no global memory and reads only
   what no kernel of the step writes: weights, keys and values of earlier steps; and the lists that
   the step's first kernel brings (kernels/step_io/step_io.h). For the sake of these the embedding,
   which follows that kernel, waits before it lets others begin, and reads even its lists after
   that. The first kernel itself is launched in turn, when the step before has ended. A kernel that
   knows nothing of this, as those of libraries, is launched in turn too and lets the next begin at
   its end. On older architectures both functions are nothing. */
__device__ inline void dependency_wait()
{
#if __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.wait;\n" ::: "memory");
#endif
}

__device__ inline void dependents_launch()
{
#if __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.launch_dependents;\n" ::: "memory");
#endif
}

/* Launches a kernel that calls dependency_wait(). Early where the device can and the kernel was
   compiled for it, else in turn. Returns a cudaError_t. */
template <typename... PARAMETERS, typename... ARGUMENTS>
static int launch_dependent(void (*kernel)(PARAMETERS...), dim3 grid, dim3 block, size_t shared,
	cudaStream_t stream, ARGUMENTS... arguments)
{
	cudaLaunchAttribute attribute = {};
	cudaLaunchConfig_t config = {};

	attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
	attribute.val.programmaticStreamSerializationAllowed = 1;
	config.gridDim = grid;
	config.blockDim = block;
	config.dynamicSmemBytes = shared;
	config.stream = stream;
	config.attrs = &attribute;
	config.numAttrs = kernel_path_of_device() == KERNEL_PATH_SM90 ? 1 : 0;
	return (int)cudaLaunchKernelEx(&config, kernel, PARAMETERS(arguments)...);
}

/* Byte offset of 8 elements of a token in a tile of rows of D elements: chunks are permuted within
   a row so that the rows of a matrix lie in different banks. */
template <int D> __device__ inline uint32_t tile_offset(uint32_t token, uint32_t chunk)
{
	const uint32_t chunks = D / 8;
	const uint32_t mask = (chunks < 8 ? chunks : 8) - 1;

	return (token * chunks + (chunk ^ (token & mask))) * 16;
}

#endif
