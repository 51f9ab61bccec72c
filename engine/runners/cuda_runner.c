#include "engine/runners/cuda_runner.h"

#include "engine/base/check.h"
#include "engine/base/clock.h"
#include "engine/base/integer.h"
#include "engine/profiling/nvtx.h"
#include "engine/runners/cuda_runner_state.h"
#include "engine/runners/cuda_status.h"

#include <cuda_runtime_api.h>
#include <string.h>

/* ---- steps ---- */

static enum status cuda_start(
	void *state, uint64_t earliest_ns, uint64_t *start_ns, struct error *error)
{
	struct cuda_runner *runner = state;

	(void)error; /* reading a clock cannot fail */
	*start_ns = earliest_ns;
	runner->start_ns = monotonic_ns();
	nvtx_push(runner->launcher.ranges, "schedule"); /* until launch */
	return STATUS_OK;
}

/* Fills the slot of a step, padded to a bucket where one holds it. A graph has room for so many
   splits; beyond it the same kernels are launched one by one. */
static struct rank_message fill(struct cuda_runner *runner, const struct batch *batch)
{
	struct cuda_step_data *data = &runner->launcher.data;
	const struct cuda_bucket *bucket = cuda_graphs_bucket(&runner->graphs, &batch->counts);
	const struct cuda_step_sizes sizes =
		bucket == NULL ? cuda_step_sizes(batch) : bucket->sizes;
	const struct cuda_step_layout layout = cuda_step_layout(&sizes);

	uint32_t splits = cuda_step_data_fill(data, &sizes, &layout, batch);
	cuda_step_data_finish(
		data, &layout, data->claim_count, batch->additions, batch->addition_count);
	bool has_graph = bucket != NULL && bucket->graphs[0] != NULL && splits <= data->split_limit;
	return (struct rank_message){
		.kind = has_graph ? RANK_STEP_GRAPH : RANK_STEP_EAGER,
		.bucket = has_graph ? (uint32_t)(bucket - runner->graphs.buckets) : 0,
		.rows = sizes.rows,
		.tokens = sizes.tokens,
		.decode_rows = sizes.decode_rows,
		.samples = sizes.samples,
		.tiles = sizes.tiles,
		.splits = splits,
	};
}

enum status cuda_runner_launch(
	struct cuda_runner *runner, const struct rank_message *step, struct error *error)
{
	struct cuda_launcher *launcher = &runner->launcher;
	const struct cuda_step_sizes sizes = {
		.rows = step->rows,
		.decode_rows = step->decode_rows,
		.tokens = step->tokens,
		.samples = step->samples,
		.tiles = step->tiles,
	};
	const struct cuda_step_layout layout = cuda_step_layout(&sizes);

	if (step->kind == RANK_STEP_GRAPH) {
		bool is_long = cuda_step_data_is_long(&launcher->data, &layout, 1);
		return cuda_status(
			(int)cudaGraphLaunch(runner->graphs.buckets[step->bucket].graphs[is_long],
				launcher->stream),
			"cudaGraphLaunch", error);
	}
	struct cuda_batch device = cuda_step_data_batch(&launcher->data, &sizes, &layout);
	cuda_step_data_group(&launcher->data, &layout, &device);
	return cuda_launcher_begin(launcher, &layout, &device, error);
}

/* Tells the other ranks of the step whose slot is filled. */
static enum status post_step(const struct cuda_runner *runner, struct rank_message *step,
	const struct batch *batch, struct error *error)
{
	const struct cuda_step_data *data = &runner->launcher.data;
	uint64_t end = data->io.data_bytes + batch->addition_count * sizeof(struct table_addition);

	if (runner->launcher.ranks == NULL) {
		return STATUS_OK;
	}
	step->step = batch->step;
	step->data_offset = (uint64_t)((unsigned char *)data->headers - data->pinned);
	step->data_bytes = (uint64_t)(data->host - (unsigned char *)data->headers) + end;
	step->additions = batch->addition_count;
	return ranks_post(runner->launcher.ranks, step, error);
}

static enum status cuda_launch(void *state, const struct batch *batch, struct error *error)
{
	struct cuda_runner *runner = state;
	struct cuda_launcher *launcher = &runner->launcher;
	bool is_decode = batch->counts.prefill_rows == 0;
	uint32_t slot = cuda_launcher_next_slot(launcher);

	if (runner->start_ns != 0) {
		nvtx_pop(launcher->ranges);
	}
	uint64_t start_ns = runner->start_ns == 0 ? monotonic_ns() : runner->start_ns;
	runner->start_ns = 0;
	runner->range = is_decode ? "decode" : "prefill";
	nvtx_step(launcher->ranges, batch->step);
	nvtx_push(launcher->ranges, runner->range);
	nvtx_push(launcher->ranges, "fill");
	struct rank_message step = fill(runner, batch);
	step.turn = slot;
	nvtx_pop(launcher->ranges);
	runner->flights[slot] = (struct flight){
		.start_ns = start_ns,
		.sampled_count = (uint32_t)batch->counts.sampled_rows,
		.decode_count = (uint32_t)batch->counts.decode_rows,
		.prompt_sample = step.decode_rows,
		.mode = step.kind == RANK_STEP_GRAPH ? STEP_MODE_GRAPH : STEP_MODE_EAGER,
	};
	enum status status = post_step(runner, &step, batch, error);
	if (status == STATUS_OK) {
		status = cuda_runner_launch(runner, &step, error);
	}
	nvtx_pop(launcher->ranges);
	launcher->launched++;
	if (status != STATUS_OK) {
		cuda_launcher_fail(launcher, error);
		status = error->status;
	}
	return status;
}

static enum status cuda_launch_part(void *state, bool *is_whole, struct error *error)
{
	struct cuda_runner *runner = state;
	struct cuda_launcher *launcher = &runner->launcher;
	enum status status = STATUS_OK;

	if (launcher->is_launching) {
		nvtx_push(launcher->ranges, runner->range);
		status = cuda_launcher_run_part(launcher, error);
		nvtx_pop(launcher->ranges);
	}
	*is_whole = !launcher->is_launching;
	if (status != STATUS_OK) {
		cuda_launcher_fail(launcher, error);
		status = error->status;
	}
	return status;
}

static bool cuda_has_ended(void *state)
{
	const struct cuda_runner *runner = state;

	return cuda_launcher_has_ended(&runner->launcher);
}

/* Refuses tokens that differ between ranks, which compute the same step from the same bits. Their
   last kernels wait for each other, so they end together. Ranks that share no memory (mpirun) are
   not compared. */
static enum status compare_ranks(
	const struct cuda_runner *runner, uint32_t slot, uint32_t count, struct error *error)
{
	const struct cuda_launcher *launcher = &runner->launcher;
	const struct cuda_step_data *data = &launcher->data;
	bool is_shared = launcher->ranks != NULL && ranks_share_memory(launcher->ranks);
	uint32_t ranks = is_shared ? ranks_count(launcher->ranks) : 1;
	const int32_t *own = cuda_step_data_tokens(data, 0, slot);

	for (uint32_t r = 1; r < ranks; r++) {
		const int32_t *other = cuda_step_data_tokens(data, r, slot);
		TRY(cuda_launcher_await(launcher, r, error));
		for (uint32_t i = 0; i < count; i++) {
			if (own[i] != other[i]) {
				error_set(error, STATUS_DEVICE,
					"rank %u sampled token %d in row %u, rank 0 sampled %d: "
					"their bits differ",
					r, other[i], i, own[i]);
				cuda_launcher_fail(launcher, error);
				return error->status;
			}
		}
	}
	return STATUS_OK;
}

static enum status cuda_collect(
	void *state, int32_t *token_ids, struct step_time *time, struct error *error)
{
	struct cuda_runner *runner = state;
	struct cuda_launcher *launcher = &runner->launcher;
	const struct cuda_step_data *data = &launcher->data;
	uint32_t slot = (uint32_t)(launcher->collected % CUDA_STEP_SLOTS);
	const struct flight *flight = &runner->flights[slot];
	const volatile struct step_completion *completion =
		&cuda_step_data_report(data, 0)->completions[slot];

	check(launcher->collected + launcher->is_launching < launcher->launched);
	TRY(cuda_launcher_await(launcher, 0, error));
	uint64_t end_ns = monotonic_ns();
	const int32_t *tokens = cuda_step_data_tokens(data, 0, slot);
	memcpy(token_ids, tokens, flight->decode_count * sizeof(int32_t));
	memcpy(token_ids + flight->decode_count, tokens + flight->prompt_sample,
		(flight->sampled_count - flight->decode_count) * sizeof(int32_t));
	time->mode = flight->mode;
	time->elapsed_ns = end_ns - u64_max(flight->start_ns, runner->host_end_ns);
	time->gpu_ns = u64_min(completion->end_ns - completion->begin_ns, time->elapsed_ns);
	time->host_ns = time->elapsed_ns - time->gpu_ns;
	time->idle_ns = runner->gpu_end_ns == 0 ? 0 : completion->begin_ns - runner->gpu_end_ns;
	runner->host_end_ns = end_ns;
	runner->gpu_end_ns = completion->end_ns;
	TRY(compare_ranks(runner, slot, flight->sampled_count, error));
	launcher->collected++;
	return STATUS_OK;
}

static enum status cuda_execute(void *state, const struct batch *batch, int32_t *token_ids,
	struct step_time *time, struct error *error)
{
	bool is_whole = false;

	TRY(cuda_launch(state, batch, error));
	while (!is_whole) {
		TRY(cuda_launch_part(state, &is_whole, error));
	}
	return cuda_collect(state, token_ids, time, error);
}

struct runner cuda_runner_functions(struct cuda_runner *runner)
{
	return (struct runner){
		.name = "cuda",
		.state = runner,
		.is_computing = true,
		.spread = runner->spread,
		.readers = runner->readers,
		.execute = cuda_execute,
		.launch = cuda_launch,
		.launch_part = cuda_launch_part,
		.has_ended = cuda_has_ended,
		.collect = cuda_collect,
		.start = cuda_start,
		.close = cuda_runner_close,
	};
}

/* ---- for tests ---- */

uint64_t cuda_runner_block_bytes(const struct runner *runner)
{
	const struct cuda_runner *state = runner->state;

	return cuda_forward_block_bytes(state->launcher.forward);
}

enum status cuda_runner_read_block(
	const struct runner *runner, uint32_t block, uint16_t *out, struct error *error)
{
	const struct cuda_runner *state = runner->state;

	return cuda_forward_read_block(state->launcher.forward, block, out, error);
}

enum status cuda_runner_logits(
	const struct runner *runner, uint32_t row_count, float *logits, struct error *error)
{
	const struct cuda_runner *state = runner->state;
	const struct flight *flight =
		&state->flights[(state->launcher.launched - 1) % CUDA_STEP_SLOTS];
	const uint32_t decodes = u32_min(row_count, flight->decode_count);
	const size_t width = cuda_forward_vocabulary(state->launcher.forward);
	const float *from = cuda_forward_logits(state->launcher.forward);

	TRY(cuda_status((int)cudaMemcpy(logits, from, decodes * width * sizeof(float),
				cudaMemcpyDeviceToHost),
		"cudaMemcpy", error));
	return cuda_status(
		(int)cudaMemcpy(logits + decodes * width, from + flight->prompt_sample * width,
			(row_count - decodes) * width * sizeof(float), cudaMemcpyDeviceToHost),
		"cudaMemcpy", error);
}
