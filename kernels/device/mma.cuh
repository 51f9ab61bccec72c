#ifndef KERNELS_DEVICE_MMA_CUH
#define KERNELS_DEVICE_MMA_CUH

#include <stdint.h>

/* Tensor cores by warp (sm_80): ldmatrix and mma.sync on bf16. The unit is a matrix of 8 x 8
   elements of 16 bits. Lane l holds two elements of row l / 4, at columns 2 * (l % 4) and
   2 * (l % 4) + 1. */

/* Loads four 8 x 8 matrices. Lane l passes the shared address of row l % 8 of matrix l / 8. */
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

/* Transposes an 8 x 8 matrix across the registers of a warp. */
__device__ inline uint32_t transpose(uint32_t pair)
{
	uint32_t out;

	asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;\n" : "=r"(out) : "r"(pair));
	return out;
}

/* sum (16 x 8, float32) += a (16 x 16, bf16) * b (16 x 8, bf16), the m16n8k16 instruction. Lane
   l holds columns 2 * (l % 4) and 2 * (l % 4) + 1 of row l / 4 in sum[0], sum[1] and of row l /
   4 + 8 in sum[2], sum[3]. */
__device__ inline void multiply_add(float *sum, const uint32_t *a, uint32_t b0, uint32_t b1)
{
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
		     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
		     : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
		     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

#endif
