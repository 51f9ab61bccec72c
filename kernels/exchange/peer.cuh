#ifndef KERNELS_EXCHANGE_PEER_CUH
#define KERNELS_EXCHANGE_PEER_CUH

#include "kernels/device/vector.cuh"
#include "kernels/exchange/exchange.h"

/* Access to memory that several GPUs share, and waiting for it.

   The L2 of the GPU that owns a line is where all GPUs meet: loads and stores of system scope pass
   by L1. A flag is stored with release and polled with acquire, so that a block that has seen it
   sees what its sender wrote before, in that kernel or in earlier ones. Pushed elements need no
   order, for each tells by itself whether it has arrived. */

enum { POLLS_BETWEEN_LOOKS = 1024 };

/* Two elements that nothing was pushed to. */
static const uint32_t EMPTY = 0xffffffff;

/* ---- access ---- */

__device__ inline bf16x8 peer_load8(const unsigned char *from)
{
	uint4 v;
	bf16x8 value;

	asm volatile("ld.relaxed.sys.global.v4.b32 {%0, %1, %2, %3}, [%4];\n"
		     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
		     : "l"(from)
		     : "memory");
	memcpy(&value, &v, sizeof(value));
	return value;
}

__device__ inline void peer_store8(unsigned char *to, uint4 v)
{
	asm volatile("st.relaxed.sys.global.v4.b32 [%0], {%1, %2, %3, %4};\n" ::"l"(to), "r"(v.x),
		     "r"(v.y), "r"(v.z), "r"(v.w)
		     : "memory");
}

__device__ inline uint64_t peer_load_word(const uint64_t *from)
{
	uint64_t value;

	asm volatile("ld.relaxed.sys.global.u64 %0, [%1];\n" : "=l"(value) : "l"(from) : "memory");
	return value;
}

__device__ inline void peer_store_word(uint64_t *to, uint64_t value)
{
	asm volatile("st.relaxed.sys.global.u64 [%0], %1;\n" ::"l"(to), "l"(value) : "memory");
}

__device__ inline int64_t flag_read(const uint64_t *flag)
{
	int64_t value;

	asm volatile("ld.acquire.sys.global.s64 %0, [%1];\n" : "=l"(value) : "l"(flag) : "memory");
	return value;
}

__device__ inline void flag_set(uint64_t *flag, int64_t value)
{
	asm volatile("st.release.sys.global.s64 [%0], %1;\n" ::"l"(flag), "l"(value) : "memory");
}

/* ---- elements that tell whether they have arrived ---- */

/* A pair of NaN may have the bits of EMPTY. It is pushed as another pair of NaN. */
__device__ inline uint32_t never_empty(uint32_t pair)
{
	return pair == EMPTY ? 0x7fff7fff : pair;
}

__device__ inline void push8(unsigned char *to, const bf16x8 &value)
{
	uint4 v;

	memcpy(&v, &value, sizeof(v));
	peer_store8(to,
		make_uint4(never_empty(v.x), never_empty(v.y), never_empty(v.z), never_empty(v.w)));
}

__device__ inline bool has_arrived(const bf16x8 &value)
{
	uint4 v;

	memcpy(&v, &value, sizeof(v));
	return v.x != EMPTY && v.y != EMPTY && v.z != EMPTY && v.w != EMPTY;
}

__device__ inline void empty8(unsigned char *to)
{
	peer_store8(to, make_uint4(EMPTY, EMPTY, EMPTY, EMPTY));
}

/* ---- waiting ---- */

/* A warp's wait for its peers. */
struct peer_wait {
	bool may_wait;	/* false behind an exchange that has ended early */
	uint32_t index; /* of the exchange, for the report */
	uint32_t polls;
	uint64_t since; /* of the first look at the clock; 0 before */
};

__device__ inline peer_wait wait_open(const exchange &x, uint32_t index)
{
	uint32_t aborted;

	asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];\n"
		     : "=r"(aborted)
		     : "l"(x.aborted)
		     : "memory");
	return {aborted == EXCHANGE_RUNS, index, 0, 0};
}

/* Ends this exchange and all later ones. The first caller of all writes the report. */
static __device__ void wait_end(
	const struct exchange *x, uint32_t index, uint32_t end, uint32_t missing)
{
	volatile exchange_report *report = x->report;

	if (atomicCAS(x->aborted, EXCHANGE_RUNS, end) != EXCHANGE_RUNS) {
		return;
	}
	report->index = index;
	report->peer = (uint32_t)__ffs((int)missing) - 1;
	report->step = *x->step_count;
	__threadfence_system();
	report->end = end;
}

/* Looks at the clock, at the abort word and at what other blocks have found. Returns the time of
   the first look, or 0 to give up. The word is read by one thread a block, because reads of one
   line of the host's memory are served one after the other, 1 us each (engine/runners/TUNING.md).
   All lanes call it; missing: the ranks that a lane waits for. */
static __device__ __noinline__ uint64_t wait_looks(
	const struct exchange *x, uint32_t index, uint32_t missing, uint64_t since)
{
	uint32_t end = EXCHANGE_RUNS;
	uint64_t now;

	missing = __reduce_or_sync(0xffffffffu, missing);
	if (threadIdx.x % WARP == 0) {
		asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
		since = since == 0 ? now : since;
		if (now - since >= x->limit_ns) {
			end = EXCHANGE_TIMED_OUT;
		}
		if (threadIdx.x == 0 && *x->abort != 0) {
			end = EXCHANGE_ABORTED;
		}
		if (end != EXCHANGE_RUNS) {
			wait_end(x, index, end, missing);
		}
		since = *(volatile uint32_t *)x->aborted == EXCHANGE_RUNS ? since : 0;
	}
	return __shfl_sync(0xffffffffu, since, 0);
}

/* Whether the warp polls again. All lanes call it; missing: bit r is set while the lane waits for
   rank r. */
__device__ inline bool wait_goes_on(const exchange &x, peer_wait &wait, uint32_t missing)
{
	if (!__any_sync(0xffffffffu, missing != 0) || !wait.may_wait) {
		return false;
	}
	wait.polls++;
	if (wait.polls % POLLS_BETWEEN_LOOKS == 0) {
		wait.since = wait_looks(&x, wait.index, missing, wait.since);
		wait.may_wait = wait.since != 0;
	}
	return wait.may_wait;
}

#endif
