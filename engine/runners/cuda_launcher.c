#include "engine/runners/cuda_launcher.h"

#include "engine/base/check.h"
#include "engine/base/clock.h"
#include "engine/base/integer.h"
#include "engine/profiling/nvtx.h"
#include "engine/runners/cuda_status.h"

#include <cuda_runtime_api.h>
#include <stdatomic.h>

enum { POLLS_A_LOOK = 1 << 16 }; /* polls of the completion flag per query of the driver */

/* Claims that step_begin copies speculatively: of each decode row, since most are one claim, and
   in any step, where a few rows may be cut into splits. */
enum { SPECULATIVE_ROW_CLAIMS = 4, SPECULATIVE_CLAIMS = 64 };

uint32_t cuda_launcher_rank(const struct cuda_launcher *launcher)
{
	return launcher->ranks == NULL ? 0 : ranks_index(launcher->ranks);
}

bool cuda_launcher_fills(const struct cuda_launcher *launcher)
{
	return cuda_launcher_rank(launcher) == 0 || !ranks_share_memory(launcher->ranks);
}

uint32_t cuda_launcher_next_slot(struct cuda_launcher *launcher)
{
	uint32_t slot = (uint32_t)(launcher->launched % CUDA_STEP_SLOTS);

	check(!launcher->is_launching);
	check(launcher->launched - launcher->collected < CUDA_STEP_SLOTS);
	cuda_step_data_select(&launcher->data, slot);
	return slot;
}

enum status cuda_launcher_begin(struct cuda_launcher *launcher,
	const struct cuda_step_layout *layout, const struct cuda_batch *batch, struct error *error)
{
	const struct step_io *io = &launcher->data.io;
	size_t claims = (size_t)batch->decode_count * SPECULATIVE_ROW_CLAIMS + SPECULATIVE_CLAIMS;
	size_t speculative_bytes =
		u64_min(layout->claims + claims * sizeof(struct decode_claim), io->data_bytes);

	check(!launcher->is_launching);
	nvtx_push(launcher->ranges, "upload");
	int code = step_begin(io, speculative_bytes, launcher->stream);
	nvtx_pop(launcher->ranges);
	TRY(cuda_status(code, "step_begin", error));
	cuda_forward_begin(launcher->forward, batch, launcher->stream);
	launcher->sample_count = batch->sample_count;
	launcher->is_launching = true;
	return STATUS_OK;
}

enum status cuda_launcher_run_part(struct cuda_launcher *launcher, struct error *error)
{
	bool is_over = true;

	check(launcher->is_launching);
	enum status status = cuda_forward_run_part(launcher->forward, &is_over, error);
	launcher->is_launching = status == STATUS_OK && !is_over;
	if (status != STATUS_OK || !is_over) {
		return status;
	}
	nvtx_push(launcher->ranges, "collect");
	int code = step_end(&launcher->data.io, launcher->sample_count, launcher->stream);
	nvtx_pop(launcher->ranges);
	return cuda_status(code, "step_end", error);
}

enum status cuda_launcher_run_rest(struct cuda_launcher *launcher, struct error *error)
{
	while (launcher->is_launching) {
		TRY(cuda_launcher_run_part(launcher, error));
	}
	return STATUS_OK;
}

enum status cuda_launcher_run(struct cuda_launcher *launcher, const struct cuda_step_layout *layout,
	const struct cuda_batch *batch, struct error *error)
{
	TRY(cuda_launcher_begin(launcher, layout, batch, error));
	return cuda_launcher_run_rest(launcher, error);
}

void cuda_launcher_fail(const struct cuda_launcher *launcher, struct error *error)
{
	struct ranks *ranks = launcher->ranks;
	struct error first = {0};

	if (ranks == NULL) {
		return;
	}
	/* A rank of mpirun knows of no other's failure. */
	if (ranks_share_memory(ranks) && ranks_check(ranks, &first) != STATUS_OK) {
		*error = first;
	} else {
		ranks_fail(ranks, error);
	}
}

/* Whether an exchange of a rank was given up. */
static enum status exchange_status(
	const volatile struct exchange_report *report, struct error *error)
{
	if (report->end == EXCHANGE_RUNS) {
		return STATUS_OK;
	}
	return error_set(error, STATUS_DEVICE,
		"exchange %u of a step: rank %u did not answer within %.0f s, so it hangs",
		report->index, report->peer, (double)EXCHANGE_LIMIT_NS / 1e9);
}

/* Whether this rank's GPU, or its exchange with others, has failed. */
static enum status look_at_gpu(const struct cuda_launcher *launcher, struct error *error)
{
	const volatile struct exchange_report *report =
		&cuda_step_data_report(&launcher->data, cuda_launcher_rank(launcher))->exchange;
	int code = (int)cudaStreamQuery(launcher->stream);

	if (code != (int)cudaSuccess && code != (int)cudaErrorNotReady) {
		return cuda_status(code, "a step on the GPU", error);
	}
	if (launcher->exchange != NULL) {
		TRY(cuda_status(cuda_exchange_failure(launcher->exchange), "an exchange", error));
	}
	return exchange_status(report, error);
}

enum status cuda_launcher_look(const struct cuda_launcher *launcher, struct error *error)
{
	if (launcher->ranks == NULL) {
		return look_at_gpu(launcher, error);
	}
	TRY(ranks_check(launcher->ranks, error)); /* the cause, where this rank waits for it */
	if (look_at_gpu(launcher, error) != STATUS_OK) {
		ranks_fail(launcher->ranks, error);
	}
	return error->status;
}

/* NCCL's kernels wait without a limit. */
static enum status check_limit(
	const struct cuda_launcher *launcher, uint64_t begin_ns, uint32_t rank, struct error *error)
{
	const uint64_t limit_ns = EXCHANGE_LIMIT_NS + EXCHANGE_LIMIT_NS / 5;

	if (launcher->exchange == NULL || launcher->exchange->transport != CUDA_TRANSPORT_NCCL ||
		monotonic_ns() - begin_ns < limit_ns) {
		return STATUS_OK;
	}
	error_set(error, STATUS_DEVICE, "a step of rank %u did not end within %.0f s", rank,
		(double)limit_ns / 1e9);
	ranks_fail(launcher->ranks, error);
	return error->status;
}

/* The mark of the oldest step in flight on a rank's GPU. */
static const volatile struct step_completion *oldest(
	const struct cuda_launcher *launcher, uint32_t rank)
{
	return &cuda_step_data_report(&launcher->data, rank)
			->completions[launcher->collected % CUDA_STEP_SLOTS];
}

bool cuda_launcher_has_ended(const struct cuda_launcher *launcher)
{
	uint32_t rank = cuda_launcher_rank(launcher);

	return oldest(launcher, rank)->done == launcher->collected + 1;
}

enum status cuda_launcher_await(
	const struct cuda_launcher *launcher, uint32_t rank, struct error *error)
{
	const volatile struct cuda_rank_report *report =
		cuda_step_data_report(&launcher->data, rank);
	const volatile struct step_completion *completion = oldest(launcher, rank);
	uint64_t begin_ns = 0;

	for (uint64_t polls = 1; completion->done != launcher->collected + 1; polls++) {
		if (polls % POLLS_A_LOOK == 0) {
			begin_ns = begin_ns == 0 ? monotonic_ns() : begin_ns;
			TRY(cuda_launcher_look(launcher, error));
			TRY(check_limit(launcher, begin_ns, rank, error));
		}
	}
	atomic_thread_fence(memory_order_acquire);
	if (report->exchange.end != EXCHANGE_RUNS) {
		TRY(cuda_launcher_look(launcher, error)); /* the cause, if it is known */
	}
	return exchange_status(&report->exchange, error);
}

enum status cuda_launcher_meet(struct cuda_launcher *launcher, struct error *error)
{
	return launcher->ranks == NULL ? error->status : ranks_barrier(launcher->ranks, error);
}

enum status cuda_launcher_run_silent(struct cuda_launcher *launcher,
	const struct cuda_step_layout *layout, const struct cuda_batch *batch, struct error *error)
{
	TRY(cuda_launcher_meet(launcher, error));
	enum status status = cuda_launcher_run(launcher, layout, batch, error);
	launcher->launched++;
	if (status != STATUS_OK) {
		cuda_launcher_fail(launcher, error);
	} else {
		(void)cuda_launcher_await(launcher, cuda_launcher_rank(launcher), error);
	}
	launcher->collected++;
	TRY(error->status);
	return cuda_status((int)cudaStreamSynchronize(launcher->stream), "warm-up", error);
}
