#ifndef KERNELS_DEVICE_MATH_CUH
#define KERNELS_DEVICE_MATH_CUH

/* Approximate float32 functions by the special function units. */

/* x / (1 + exp(-x)). At -infinity the result is the limit, 0. */
__device__ inline float silu(float x)
{
	return __fdividef(x, 1.0f + __expf(-x));
}

__device__ inline float reciprocal(float x)
{
	float out;

	asm("rcp.approx.ftz.f32 %0, %1;\n" : "=f"(out) : "f"(x));
	return out;
}

__device__ inline float power_of_two(float x)
{
	float out;

	asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(out) : "f"(x));
	return out;
}

#endif
