#include "engine/base/counter_hash.h"
#include "kernels/device/early_launch.cuh"
#include "tests/harness/cuda_exchange.h"

enum { THREADS = 256, BLOCKS = 4 };

/* bf16 bits of magnitudes 2^-12 to 2^11, so that the order of a sum shows in its bits. One
   in 65,536 is a NaN that looks like an empty slot, an infinity or -0. */
static __device__ uint16_t random_bits(uint64_t hash)
{
	static const uint16_t specials[4] = {0xffff, 0x7f80, 0x8000, 0x7fff};
	uint32_t exponent = 127 - 12 + (uint32_t)(hash >> 20) % 24;

	if (hash >> 48 == 0) {
		return specials[hash % 4];
	}
	return (uint16_t)((hash & 0x807f) | exponent << 7);
}

static __device__ void spin(uint64_t cycles)
{
	int64_t begin = clock64();

	while ((uint64_t)(clock64() - begin) < cycles) {
	}
}

static __global__ void __launch_bounds__(THREADS) round_kernel(exchange_round r)
{
	dependents_launch();
	const uint32_t first = blockIdx.x * THREADS + threadIdx.x, step = BLOCKS * THREADS;
	const uint64_t n = *r.step_count * r.per_step + r.index;
	const uint64_t key = counter_key(r.key, n);

	dependency_wait();
	for (uint32_t i = first; i < r.rows_max * r.width; i += step) {
		uint32_t bits = (uint32_t)r.residual[i] << 16 | r.out[i];
		r.digest[i] = counter_mix(r.digest[i] ^ bits);
	}
	if (r.delay_cycles > 0) {
		spin(counter_hash(key, ~(uint64_t)r.first_rank) % r.delay_cycles);
	}
	for (uint32_t i = first; i < r.rows * r.width; i += step) {
		r.residual[i] = random_bits(counter_hash(key, i));
		for (uint32_t k = 0; k < r.ranks; k++) {
			uint64_t of_rank = (uint64_t)(r.first_rank + k + 1) << 32;
			r.parts[k * r.rows * r.width + i] =
				random_bits(counter_hash(key, of_rank + i));
		}
	}
}

static __global__ void delay_kernel(uint64_t cycles)
{
	spin(cycles);
}

int round_begin(const struct exchange_round *r, struct CUstream_st *stream)
{
	return launch_dependent(round_kernel, BLOCKS, THREADS, 0, stream, *r);
}

int round_delay(uint64_t cycles, struct CUstream_st *stream)
{
	delay_kernel<<<1, 1, 0, stream>>>(cycles);
	return (int)cudaGetLastError();
}
