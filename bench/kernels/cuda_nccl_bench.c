#include "bench/kernels/cuda_nccl_bench.h"

#include "bench/kernels/cuda_kernel_table.h"
#include "engine/runners/cuda_memory.h"
#include "engine/runners/cuda_nccl.h"
#include "engine/runners/cuda_status.h"
#include "kernels/device/limits.h"
#include "kernels/exchange/exchange.h"
#include "kernels/op/op.h"

#include <cuda_runtime_api.h>

static const float EPSILON = 1e-6f;

enum subject { SUBJECT_EXCHANGE, SUBJECT_GATHER, SUBJECT_COUNT };

static const char *const names[SUBJECT_COUNT] = {"exchange_nccl", "nccl_all_gather"};

struct bench {
	struct ranks *ranks; /* borrowed */
	uint32_t repeats;
	FILE *table; /* of rank 0; NULL in the others */
	struct cuda_nccl *nccl;
	cudaStream_t stream;
	cudaEvent_t begin, end;
	cudaGraphExec_t graph;
	/* of the largest case */
	uint16_t *partial, *out, *residual; /* (rows, width) */
	uint16_t *gathered;		    /* (ranks, rows, width) */
	uint16_t *weight;		    /* (width) */
};

static uint64_t row_bytes(const struct exchange_case *c)
{
	return (uint64_t)c->rows * c->width * sizeof(uint16_t);
}

/* ---- opening ---- */

static struct exchange_case largest_case(void)
{
	struct exchange_case largest = {0};

	for (uint32_t i = 0; exchange_case_at(i) != NULL; i++) {
		const struct exchange_case *c = exchange_case_at(i);
		largest = row_bytes(c) > row_bytes(&largest) ? *c : largest;
	}
	return largest;
}

/* Rank r uses the r-th GPU of the machine, or on several hosts those of its host in turn. */
static enum status open_device(struct bench *bench, struct error *error)
{
	int count = 0;

	TRY(cuda_status((int)cudaGetDeviceCount(&count), "cudaGetDeviceCount", error));
	TRY(cuda_status((int)cudaSetDevice((int)ranks_index(bench->ranks) % count), "cudaSetDevice",
		error));
	TRY(cuda_status((int)cudaStreamCreate(&bench->stream), "cudaStreamCreate", error));
	TRY(cuda_status((int)cudaEventCreate(&bench->begin), "cudaEventCreate", error));
	return cuda_status((int)cudaEventCreate(&bench->end), "cudaEventCreate", error);
}

static enum status open_tensors(struct bench *bench, struct error *error)
{
	const struct exchange_case largest = largest_case();
	const uint64_t bytes = row_bytes(&largest);
	const size_t size = bytes / sizeof(uint16_t);

	TRY(cuda_alloc_device(&bench->partial, bytes, error));
	TRY(cuda_alloc_device(&bench->out, bytes, error));
	TRY(cuda_alloc_device(&bench->residual, bytes, error));
	TRY(cuda_alloc_device(&bench->gathered, ranks_count(bench->ranks) * bytes, error));
	TRY(cuda_alloc_device(&bench->weight, bytes, error));
	TRY(cuda_status(fill_bf16(bench->partial, size, ranks_index(bench->ranks), bench->stream),
		"fill_bf16", error));
	TRY(cuda_status(fill_bf16(bench->residual, size, 9, bench->stream), "fill_bf16", error));
	TRY(cuda_status(fill_bf16(bench->weight, size, 10, bench->stream), "fill_bf16", error));
	return cuda_status((int)cudaStreamSynchronize(bench->stream), "filling", error);
}

static enum status open_bench(struct bench *bench, struct error *error)
{
	TRY(error->status);
	TRY(open_device(bench, error));
	return open_tensors(bench, error);
}

static void close_bench(struct bench *bench)
{
	struct error failure = {0};

	if (bench->nccl != NULL && ranks_check(bench->ranks, &failure) != STATUS_OK) {
		cuda_nccl_leave(); /* with what is of the GPU */
		return;
	}
	cuda_nccl_close(bench->nccl);
	cudaFree(bench->partial);
	cudaFree(bench->out);
	cudaFree(bench->residual);
	cudaFree(bench->gathered);
	cudaFree(bench->weight);
	if (bench->begin != NULL) {
		cudaEventDestroy(bench->begin);
	}
	if (bench->end != NULL) {
		cudaEventDestroy(bench->end);
	}
	if (bench->stream != NULL) {
		cudaStreamDestroy(bench->stream);
	}
}

/* ---- timing ---- */

static enum status launch(const struct bench *bench, enum subject subject,
	const struct exchange_case *c, struct error *error)
{
	const struct exchange_norm norm = {
		.out = bench->out,
		.residual = bench->residual,
		.weight = bench->weight,
		.row_count = c->rows,
		.epsilon = EPSILON,
	};

	TRY(cuda_status(cuda_nccl_all_gather(bench->nccl, bench->gathered, bench->partial,
				row_bytes(c), bench->stream),
		"ncclAllGather", error));
	return subject == SUBJECT_GATHER
		       ? STATUS_OK
		       : cuda_status(exchange_gathered_add_rms_norm(&norm, bench->gathered,
					     ranks_count(bench->ranks), c->rows, c->width,
					     bench->stream),
				 "exchange_gathered_add_rms_norm", error);
}

static enum status capture(struct bench *bench, enum subject subject, const struct exchange_case *c,
	struct error *error)
{
	cudaGraph_t graph = NULL;

	TRY(cuda_status(
		(int)cudaStreamBeginCapture(bench->stream, cudaStreamCaptureModeThreadLocal),
		"cudaStreamBeginCapture", error));
	for (uint32_t i = 0; i < exchange_case_launches(c); i++) {
		TRY(launch(bench, subject, c, error));
	}
	TRY(cuda_status(
		(int)cudaStreamEndCapture(bench->stream, &graph), "cudaStreamEndCapture", error));
	int code = (int)cudaGraphInstantiate(&bench->graph, graph, 0);
	cudaGraphDestroy(graph);
	return cuda_status(code, "cudaGraphInstantiate", error);
}

/* NCCL's kernels wait for the other ranks without a limit. */
static enum status await_end(const struct bench *bench, struct error *error)
{
	cudaError_t code;

	while ((code = cudaEventQuery(bench->end)) == cudaErrorNotReady) {
		TRY(ranks_check(bench->ranks, error));
		TRY(cuda_status(cuda_nccl_failure(bench->nccl), "an exchange", error));
	}
	return cuda_status((int)code, "an exchange", error);
}

/* All ranks launch a graph. *us: of a launch, where it was shortest: that rank started last, so it
   did not wait for the others to start. */
static enum status run_graph(
	const struct bench *bench, uint32_t launches, double *us, struct error *error)
{
	double all[RANKS_MAX];
	float ms = 0;

	TRY(ranks_barrier(bench->ranks, error));
	TRY(cuda_status(
		(int)cudaEventRecord(bench->begin, bench->stream), "cudaEventRecord", error));
	TRY(cuda_status(
		(int)cudaGraphLaunch(bench->graph, bench->stream), "cudaGraphLaunch", error));
	TRY(cuda_status((int)cudaEventRecord(bench->end, bench->stream), "cudaEventRecord", error));
	TRY(await_end(bench, error));
	TRY(cuda_status((int)cudaEventElapsedTime(&ms, bench->begin, bench->end),
		"cudaEventElapsedTime", error));
	*us = (double)ms * 1000 / launches;
	TRY(ranks_gather(bench->ranks, us, sizeof(*us), all, error));
	for (uint32_t r = 0; r < ranks_count(bench->ranks); r++) {
		*us = all[r] < *us ? all[r] : *us;
	}
	return STATUS_OK;
}

static enum status measure(struct bench *bench, enum subject subject, const struct exchange_case *c,
	struct error *error)
{
	const uint32_t launches = exchange_case_launches(c), ranks = ranks_count(bench->ranks);
	double times[KERNEL_REPEATS_MAX] = {0};

	/* NCCL connects for a size when it is used first, which cannot be captured. */
	TRY(launch(bench, subject, c, error));
	TRY(capture(bench, subject, c, error));
	/* The first is a warm-up. */
	for (uint32_t i = 0; i <= bench->repeats; i++) {
		TRY(run_graph(bench, launches, &times[i == 0 ? 0 : i - 1], error));
	}
	TRY(cuda_status((int)cudaGraphExecDestroy(bench->graph), "cudaGraphExecDestroy", error));
	if (bench->table != NULL) {
		const uint64_t bytes =
			subject == SUBJECT_GATHER
				? ranks * row_bytes(c)
				: work_exchange_add_rms_norm(c->rows, c->width, ranks).bytes;
		kernel_table_add_exchange(
			bench->table, names[subject], c, ranks, bytes, times, bench->repeats);
	}
	return STATUS_OK;
}

static enum status measure_all(struct bench *bench, struct error *error)
{
	TRY(cuda_nccl_open(&bench->nccl, bench->ranks, error));
	if (bench->table != NULL) {
		kernel_table_begin(bench->table);
	}
	for (uint32_t i = 0; exchange_case_at(i) != NULL; i++) {
		for (uint32_t s = 0; s < SUBJECT_COUNT; s++) {
			TRY(measure(bench, (enum subject)s, exchange_case_at(i), error));
		}
	}
	return STATUS_OK;
}

/* What every rank does. */
static enum status run(struct bench *bench, struct error *error)
{
	(void)open_bench(bench, error);
	if (ranks_barrier(bench->ranks, error) == STATUS_OK &&
		measure_all(bench, error) != STATUS_OK) {
		ranks_fail(bench->ranks, error);
	}
	close_bench(bench);
	return error->status;
}

/* ---- the ranks ---- */

static enum status serve(struct ranks *ranks, void *argument, struct error *error)
{
	struct bench bench = {.ranks = ranks, .repeats = *(const uint32_t *)argument};
	struct rank_message end;

	TRY(run(&bench, error));
	return ranks_receive(ranks, &end, error);
}

enum status nccl_bench_start(
	struct ranks **ranks, uint32_t count, uint32_t *repeats, struct error *error)
{
	const struct ranks_options options = {.count = count, .serve = serve, .argument = repeats};

	cuda_nccl_prepare();
	return ranks_open(ranks, &options, error);
}

enum status nccl_bench(struct ranks *ranks, uint32_t repeats, FILE *table, struct error *error)
{
	struct bench bench = {.ranks = ranks, .repeats = repeats, .table = table};
	enum status status = run(&bench, error);

	ranks_close(ranks);
	return status;
}
