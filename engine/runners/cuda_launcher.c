#include "engine/runners/cuda_launcher.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/profiling/nvtx.h"
#include "engine/runners/cuda_status.h"

#include <cuda_runtime_api.h>

/* splits of each decode row that step_begin copies speculatively */
enum { SPECULATIVE_SPLITS = 8 };

uint32_t cuda_launcher_next_slot(struct cuda_launcher *launcher)
{
	uint32_t slot = (uint32_t)(launcher->launched % CUDA_STEP_SLOTS);

	check(launcher->launched - launcher->collected < CUDA_STEP_SLOTS);
	cuda_step_data_select(&launcher->data, slot);
	return slot;
}

enum status cuda_launcher_run(struct cuda_launcher *launcher, const struct cuda_step_layout *layout,
	const struct cuda_batch *batch, struct error *error)
{
	const struct step_io *io = &launcher->data.io;
	size_t splits = (size_t)batch->decode_count * SPECULATIVE_SPLITS;
	size_t speculative_bytes =
		u64_min(layout->splits + splits * sizeof(struct decode_split), io->data_bytes);

	nvtx_push(launcher->ranges, "upload");
	int code = step_begin(io, speculative_bytes, launcher->stream);
	nvtx_pop(launcher->ranges);
	TRY(cuda_status(code, "step_begin", error));
	TRY(cuda_forward_run(launcher->forward, batch, launcher->stream, error));
	nvtx_push(launcher->ranges, "collect");
	code = step_end(io, batch->sample_count, launcher->stream);
	nvtx_pop(launcher->ranges);
	return cuda_status(code, "step_end", error);
}

enum status cuda_launcher_run_silent(struct cuda_launcher *launcher,
	const struct cuda_step_layout *layout, const struct cuda_batch *batch, struct error *error)
{
	enum status status = cuda_launcher_run(launcher, layout, batch, error);

	launcher->launched++;
	launcher->collected++;
	TRY(status);
	return cuda_status((int)cudaStreamSynchronize(launcher->stream), "warm-up", error);
}
