#include "engine/runners/cuda_graphs.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/runners/cuda_status.h"

#include <cuda_runtime_api.h>

static void add_bucket(struct cuda_graphs *graphs, const struct cuda_step_sizes *sizes)
{
	check(graphs->bucket_count < CUDA_GRAPHS_MAX);
	graphs->buckets[graphs->bucket_count++] = (struct cuda_bucket){
		.sizes = *sizes,
		.layout = cuda_step_layout(sizes),
	};
}

static void add_decode(struct cuda_graphs *graphs, uint32_t rows)
{
	const struct cuda_step_sizes sizes = {
		.rows = rows, .decode_rows = rows, .tokens = rows, .samples = rows};

	add_bucket(graphs, &sizes);
}

/* Each prompt has at most one tile that is not full. Chunks in the middle of prompts alone have no
   sample, so that no lm_head is computed. */
static void add_prompts(
	struct cuda_graphs *graphs, uint32_t decode_rows, uint32_t tokens, bool has_samples)
{
	const uint32_t prompts = u32_min(tokens, GRAPH_PROMPTS);
	const struct cuda_step_sizes sizes = {
		.rows = decode_rows + prompts,
		.decode_rows = decode_rows,
		.tokens = decode_rows + tokens,
		.samples = has_samples ? decode_rows + prompts : 0,
		.tiles = prompts + (tokens - 1) / PREFILL_QUERY_TILE,
	};

	add_bucket(graphs, &sizes);
}

/* The size behind one, up to `most`. */
static uint32_t next_size(uint32_t size, uint32_t most)
{
	return u32_min((uint32_t)graph_bucket(size + 1), most);
}

void cuda_graphs_init(struct cuda_graphs *graphs, uint32_t max_num_seqs, uint32_t prompt_tokens)
{
	const uint32_t decodes = u32_min(max_num_seqs, GRAPH_PROMPT_DECODES);

	for (uint32_t rows = 0; rows < max_num_seqs;) {
		rows = next_size(rows, max_num_seqs);
		add_decode(graphs, rows);
	}
	graphs->decode_count = graphs->bucket_count;
	graphs->prompt_tokens = prompt_tokens;
	for (uint32_t tokens = 0; tokens < prompt_tokens;) {
		tokens = next_size(tokens, prompt_tokens);
		add_prompts(graphs, 0, tokens, false);
		add_prompts(graphs, 0, tokens, true);
		for (uint32_t rows = 0; rows < decodes;) {
			rows = next_size(rows, decodes);
			add_prompts(graphs, rows, tokens, true);
		}
	}
}

static bool holds(const struct cuda_step_sizes *sizes, const struct step_counts *counts)
{
	return sizes->decode_rows >= counts->decode_rows &&
	       sizes->tokens - sizes->decode_rows >= counts->prefill_tokens &&
	       (sizes->samples > 0) == (counts->sampled_rows > 0);
}

const struct cuda_bucket *cuda_graphs_bucket(
	const struct cuda_graphs *graphs, const struct step_counts *counts)
{
	const bool has_prompts = counts->prefill_rows > 0;
	uint32_t i = has_prompts ? graphs->decode_count : 0;

	if (has_prompts && !graph_holds_prompts(graphs->prompt_tokens, counts->decode_rows,
				   counts->prefill_rows, counts->prefill_tokens)) {
		return NULL;
	}
	while (i < graphs->bucket_count && !holds(&graphs->buckets[i].sizes, counts)) {
		i++;
	}
	return i < graphs->bucket_count ? &graphs->buckets[i] : NULL;
}

/* ---- opening ---- */

/* Fills the next slot with padding only. */
static void fill_padding(struct cuda_launcher *launcher, const struct cuda_bucket *bucket)
{
	cuda_launcher_next_slot(launcher);
	if (!cuda_launcher_fills(launcher)) {
		return;
	}
	(void)cuda_step_data_fill(&launcher->data, &bucket->sizes, &bucket->layout, NULL);
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
	struct cuda_batch batch =
		cuda_step_data_batch(&launcher->data, &bucket->sizes, &bucket->layout);

	batch.decode.is_long = is_long;
	fill_padding(launcher, bucket);
	TRY(cuda_launcher_run_silent(launcher, &bucket->layout, &batch, error));
	return is_eager ? STATUS_OK : open_graph(launcher, bucket, &batch, error);
}

enum status cuda_graphs_open(struct cuda_graphs *graphs, struct cuda_launcher *launcher,
	bool is_eager, struct error *error)
{
	const uint32_t count = is_eager ? graphs->decode_count : graphs->bucket_count;

	for (uint32_t i = 0; i < count; i++) {
		struct cuda_bucket *bucket = &graphs->buckets[i];
		TRY(open_step(launcher, bucket, false, is_eager, error));
		if (bucket->sizes.decode_rows > 0 && decode_list_has_sm90(launcher->data.list.path,
							     &launcher->data.list.shape)) {
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
