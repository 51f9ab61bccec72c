#include "engine/runners/cuda_graphs.h"

#include "engine/base/check.h"
#include "engine/runners/cuda_status.h"

#include <cuda_runtime_api.h>

static void add_bucket(struct cuda_graphs *graphs, uint32_t rows)
{
	check(graphs->bucket_count < CUDA_GRAPHS_MAX);
	graphs->buckets[graphs->bucket_count++] = (struct cuda_bucket){
		.row_count = rows,
		.layout = cuda_step_layout(rows, rows, rows, 0),
	};
}

void cuda_graphs_init(struct cuda_graphs *graphs, uint32_t max_num_seqs)
{
	for (uint32_t rows = 1; rows < max_num_seqs; rows = (uint32_t)graph_bucket(rows + 1)) {
		add_bucket(graphs, rows);
	}
	add_bucket(graphs, max_num_seqs);
}

const struct cuda_bucket *cuda_graphs_bucket(const struct cuda_graphs *graphs, uint32_t row_count)
{
	uint32_t i = 0;

	while (graphs->buckets[i].row_count < row_count) {
		check(i + 1 < graphs->bucket_count);
		i++;
	}
	return &graphs->buckets[i];
}

/* ---- opening ---- */

/* Fills the next slot with padding rows only. */
static void fill_padding(struct cuda_launcher *launcher, const struct cuda_bucket *bucket)
{
	cuda_launcher_next_slot(launcher);
	if (!cuda_launcher_fills(launcher)) {
		return;
	}
	cuda_step_data_pad(&launcher->data, &bucket->layout, 0, bucket->row_count);
	cuda_step_data_finish(&launcher->data, &bucket->layout, 0, NULL, 0);
}

/* Captures a step. A capture that has begun must be ended even after a failure. */
static enum status capture(struct cuda_launcher *launcher, const struct cuda_bucket *bucket,
	const struct cuda_batch *batch, cudaGraph_t *out, struct error *error)
{
	TRY(cuda_status(
		(int)cudaStreamBeginCapture(launcher->stream, cudaStreamCaptureModeThreadLocal),
		"cudaStreamBeginCapture", error));
	enum status status = cuda_launcher_run(launcher, &bucket->layout, batch, error);
	int code = (int)cudaStreamEndCapture(launcher->stream, out);
	TRY(status);
	return cuda_status(code, "cudaStreamEndCapture", error);
}

static enum status instantiate(struct CUgraphExec_st **graph, cudaGraph_t captured,
	struct CUstream_st *stream, struct error *error)
{
	TRY(cuda_status(
		(int)cudaGraphInstantiate(graph, captured, 0), "cudaGraphInstantiate", error));
	return cuda_status((int)cudaGraphUpload(*graph, stream), "cudaGraphUpload", error);
}

static enum status open_graph(struct cuda_launcher *launcher, struct cuda_bucket *bucket,
	const struct cuda_batch *batch, struct error *error)
{
	struct CUgraphExec_st **graph = &bucket->graphs[batch->decode.is_long];
	cudaGraph_t captured = NULL;

	enum status status = capture(launcher, bucket, batch, &captured, error);
	if (status == STATUS_OK) {
		status = instantiate(graph, captured, launcher->stream, error);
	}
	if (captured != NULL) {
		cudaGraphDestroy(captured);
	}
	return status;
}

/* Launches a graph while another runs. The driver's preparation for that, 2 ms, happens only the
   first time, so it happens here and not in a measured step. */
static enum status rehearse(
	const struct cuda_bucket *bucket, struct cuda_launcher *launcher, struct error *error)
{
	for (uint32_t i = 0; i < CUDA_STEP_SLOTS; i++) {
		fill_padding(launcher, bucket);
		TRY(cuda_launcher_meet(launcher, error));
		TRY(cuda_status((int)cudaGraphLaunch(bucket->graphs[0], launcher->stream),
			"cudaGraphLaunch", error));
		launcher->launched++;
	}
	for (uint32_t i = 0; i < CUDA_STEP_SLOTS; i++) {
		TRY(cuda_launcher_await(launcher, cuda_launcher_rank(launcher), error));
		launcher->collected++;
	}
	return cuda_status((int)cudaStreamSynchronize(launcher->stream), "warm-up", error);
}

/* Runs a step and captures it. is_long: with the kernel for long launches of decode attention. */
static enum status open_step(struct cuda_launcher *launcher, struct cuda_bucket *bucket,
	bool is_long, bool is_eager, struct error *error)
{
	struct cuda_batch batch = cuda_step_data_batch(&launcher->data, &bucket->layout);

	batch.token_count = batch.decode_count = batch.sample_count = bucket->row_count;
	batch.decode.is_long = is_long;
	fill_padding(launcher, bucket);
	TRY(cuda_launcher_run_silent(launcher, &bucket->layout, &batch, error));
	return is_eager ? STATUS_OK : open_graph(launcher, bucket, &batch, error);
}

enum status cuda_graphs_open(struct cuda_graphs *graphs, struct cuda_launcher *launcher,
	bool is_eager, struct error *error)
{
	for (uint32_t i = 0; i < graphs->bucket_count; i++) {
		struct cuda_bucket *bucket = &graphs->buckets[i];
		TRY(open_step(launcher, bucket, false, is_eager, error));
		if (decode_list_has_sm90(launcher->data.list.path, &launcher->data.list.shape)) {
			TRY(open_step(launcher, bucket, true, is_eager, error));
		}
	}
	return is_eager ? STATUS_OK : rehearse(&graphs->buckets[0], launcher, error);
}

void cuda_graphs_close(struct cuda_graphs *graphs)
{
	for (uint32_t i = 0; i < graphs->bucket_count; i++) {
		for (uint32_t k = 0; k < 2; k++) {
			if (graphs->buckets[i].graphs[k] != NULL) {
				cudaGraphExecDestroy(graphs->buckets[i].graphs[k]);
			}
		}
	}
}
