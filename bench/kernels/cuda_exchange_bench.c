#include "bench/kernels/cuda_exchange_bench.h"

#include "bench/kernels/cuda_kernel_table.h"
#include "engine/base/number.h"
#include "kernels/device/limits.h"
#include "kernels/exchange/exchange.h"
#include "kernels/linear/cublaslt.h"
#include "kernels/op/op.h"
#include "kernels/rows/add_rms_norm.h"

#include <cuda_runtime_api.h>

enum { READ_ROWS = 16384 }; /* from so many on, reads of a peer's memory are timed too */

static const float EPSILON = 1e-6f;

enum subject { SUBJECT_PUSH, SUBJECT_PULL, SUBJECT_NORM, SUBJECT_READ, SUBJECT_COUNT };

static const char *const names[SUBJECT_COUNT] = {
	"exchange_push", "exchange_pull", "add_rms_norm", "limit_peer"};

/* The words of an exchange, all on the device: nobody ends this benchmark early. */
struct words {
	uint64_t step_count;
	uint32_t abort, aborted;
	struct exchange_report report;
};

/* What a rank has on its GPU. */
struct gpu {
	cudaStream_t stream;
	cudaEvent_t begin, end;
	cudaGraphExec_t graph;
	struct exchange exchange;
	struct words *words;
	uint16_t *out, *residual, *weight;
};

struct bench {
	uint32_t ranks, repeats;
	FILE *table;
	uint32_t rows, width; /* of the case */
	struct gpu gpus[EXCHANGE_RANKS_MAX];
	int code;
	const char *call; /* the first call that failed */
};

static void note(struct bench *bench, int code, const char *call)
{
	if (code != 0 && bench->code == 0) {
		bench->code = code;
		bench->call = call;
	}
}

/* ---- the ranks of a case ---- */

static void allow_access(struct bench *bench, uint32_t rank)
{
	for (uint32_t peer = 0; peer < bench->ranks; peer++) {
		int code = peer == rank ? 0 : (int)cudaDeviceEnablePeerAccess((int)peer, 0);
		if (code == cudaErrorPeerAccessAlreadyEnabled) {
			code = (int)cudaGetLastError() == code ? 0 : code;
		}
		note(bench, code, "access to a peer's memory");
	}
}

static void open_rank(struct bench *bench, uint32_t rank)
{
	const size_t row = (size_t)bench->width * sizeof(uint16_t), bytes = bench->rows * row;
	struct gpu *gpu = &bench->gpus[rank];
	int processors = 0;

	note(bench, (int)cudaSetDevice((int)rank), "cudaSetDevice");
	allow_access(bench, rank);
	note(bench,
		(int)cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, (int)rank),
		"cudaDeviceGetAttribute");
	gpu->exchange = (struct exchange){
		.layout = exchange_layout(bench->ranks, bench->width, bench->rows, 1),
		.rank = rank,
		.local_ranks = 1,
		.multiprocessors = (uint32_t)processors,
		.limit_ns = EXCHANGE_LIMIT_NS,
	};
	unsigned char **memory = &gpu->exchange.memory[rank];
	note(bench, (int)cudaStreamCreate(&gpu->stream), "cudaStreamCreate");
	note(bench, (int)cudaEventCreate(&gpu->begin), "cudaEventCreate");
	note(bench, (int)cudaEventCreate(&gpu->end), "cudaEventCreate");
	note(bench, (int)cudaMalloc((void **)memory, gpu->exchange.layout.bytes), "cudaMalloc");
	note(bench, (int)cudaMalloc((void **)&gpu->out, bytes), "cudaMalloc");
	note(bench, (int)cudaMalloc((void **)&gpu->residual, bytes), "cudaMalloc");
	note(bench, (int)cudaMalloc((void **)&gpu->weight, row), "cudaMalloc");
	note(bench, (int)cudaMalloc((void **)&gpu->words, sizeof(*gpu->words)), "cudaMalloc");
	note(bench, (int)cudaMemset(gpu->words, 0, sizeof(*gpu->words)), "cudaMemset");
}

/* Counts, words and values; the memory of the others. */
static void fill_rank(struct bench *bench, uint32_t rank)
{
	struct gpu *gpu = &bench->gpus[rank];
	struct exchange *x = &gpu->exchange;
	const size_t size = (size_t)bench->rows * bench->width;

	note(bench, (int)cudaSetDevice((int)rank), "cudaSetDevice");
	for (uint32_t r = 0; r < bench->ranks; r++) {
		x->memory[r] = bench->gpus[r].exchange.memory[r];
	}
	x->step_count = &gpu->words->step_count;
	x->abort = &gpu->words->abort;
	x->aborted = &gpu->words->aborted;
	x->report = &gpu->words->report;
	note(bench, exchange_clear(x->memory[rank], &x->layout, gpu->stream), "exchange_clear");
	for (uint32_t i = 0; i < EXCHANGE_PARTIALS; i++) {
		note(bench, fill_bf16(exchange_partial(x, i), size, rank + i, gpu->stream),
			"fill_bf16");
	}
	note(bench, fill_bf16(gpu->residual, size, 9, gpu->stream), "fill_bf16");
	note(bench, fill_bf16(gpu->weight, bench->width, 10, gpu->stream), "fill_bf16");
	note(bench, (int)cudaStreamSynchronize(gpu->stream), "filling");
}

static void close_case(struct bench *bench)
{
	for (uint32_t r = 0; r < bench->ranks; r++) {
		struct gpu *gpu = &bench->gpus[r];
		cudaSetDevice((int)r);
		cudaFree(gpu->exchange.memory[r]);
		cudaFree(gpu->out);
		cudaFree(gpu->residual);
		cudaFree(gpu->weight);
		cudaFree(gpu->words);
		if (gpu->begin != NULL) {
			cudaEventDestroy(gpu->begin);
		}
		if (gpu->end != NULL) {
			cudaEventDestroy(gpu->end);
		}
		if (gpu->stream != NULL) {
			cudaStreamDestroy(gpu->stream);
		}
		*gpu = (struct gpu){0};
	}
	cudaSetDevice(0);
}

static void open_case(struct bench *bench, uint32_t rows, uint32_t width)
{
	bench->rows = rows;
	bench->width = width;
	for (uint32_t r = 0; r < bench->ranks && bench->code == 0; r++) {
		open_rank(bench, r);
	}
	for (uint32_t r = 0; r < bench->ranks && bench->code == 0; r++) {
		fill_rank(bench, r);
	}
}

/* ---- timing ---- */

static int launch(const struct bench *bench, enum subject subject, uint32_t rank, uint32_t index)
{
	const struct gpu *gpu = &bench->gpus[rank];
	const uint32_t peer = (rank + 1) % bench->ranks;
	const struct exchange_norm norm = {
		.out = gpu->out,
		.residual = gpu->residual,
		.weight = gpu->weight,
		.row_count = bench->rows,
		.epsilon = EPSILON,
	};
	struct exchange exchange = gpu->exchange;

	switch (subject) {
	case SUBJECT_NORM:
		return add_rms_norm(gpu->out, gpu->residual, exchange_partial(&exchange, index),
			gpu->weight, NULL, bench->rows, bench->width, EPSILON, gpu->stream);
	case SUBJECT_READ:
		return limit_read(&gpu->words->report.unused,
			exchange_partial(&bench->gpus[peer].exchange, index),
			(size_t)bench->rows * bench->width * sizeof(uint16_t), gpu->stream);
	case SUBJECT_PULL:
		exchange.layout.push_rows = 0;
		break;
	case SUBJECT_PUSH:
	case SUBJECT_COUNT:
		break;
	}
	return exchange_add_rms_norm(&norm, &exchange, index, gpu->stream);
}

/* A step of `launches` exchanges on one GPU. */
static void capture(struct bench *bench, enum subject subject, uint32_t rank, uint32_t launches)
{
	struct gpu *gpu = &bench->gpus[rank];
	cudaGraph_t graph = NULL;

	note(bench, (int)cudaSetDevice((int)rank), "cudaSetDevice");
	gpu->exchange.per_step = launches;
	note(bench, (int)cudaStreamBeginCapture(gpu->stream, cudaStreamCaptureModeThreadLocal),
		"cudaStreamBeginCapture");
	for (uint32_t i = 0; i < launches; i++) {
		note(bench, launch(bench, subject, rank, i), names[subject]);
	}
	note(bench, exchange_end_step(&gpu->words->step_count, gpu->stream), "exchange_end_step");
	note(bench, (int)cudaStreamEndCapture(gpu->stream, &graph), "cudaStreamEndCapture");
	if (bench->code == 0) {
		note(bench, (int)cudaGraphInstantiate(&gpu->graph, graph, 0),
			"cudaGraphInstantiate");
	}
	if (graph != NULL) {
		cudaGraphDestroy(graph);
	}
}

/* Launches the graphs of all GPUs. Returns the shortest duration in us. */
static double run_graphs(struct bench *bench)
{
	float ms = 0, least = 0;

	for (uint32_t r = 0; r < bench->ranks && bench->code == 0; r++) {
		struct gpu *gpu = &bench->gpus[r];
		note(bench, (int)cudaSetDevice((int)r), "cudaSetDevice");
		note(bench, (int)cudaEventRecord(gpu->begin, gpu->stream), "cudaEventRecord");
		note(bench, (int)cudaGraphLaunch(gpu->graph, gpu->stream), "cudaGraphLaunch");
		note(bench, (int)cudaEventRecord(gpu->end, gpu->stream), "cudaEventRecord");
	}
	for (uint32_t r = 0; r < bench->ranks && bench->code == 0; r++) {
		struct gpu *gpu = &bench->gpus[r];
		note(bench, (int)cudaEventSynchronize(gpu->end), "a kernel");
		note(bench, (int)cudaEventElapsedTime(&ms, gpu->begin, gpu->end),
			"cudaEventElapsedTime");
		least = r == 0 || ms < least ? ms : least;
	}
	return (double)least * 1000;
}

static void measure(struct bench *bench, enum subject subject)
{
	const struct exchange_case c = {bench->rows, bench->width};
	const uint32_t launches = exchange_case_launches(&c);
	const struct work work =
		work_exchange_add_rms_norm(bench->rows, bench->width, bench->ranks);
	double times[KERNEL_REPEATS_MAX] = {0};

	for (uint32_t r = 0; r < bench->ranks && bench->code == 0; r++) {
		capture(bench, subject, r, launches);
	}
	/* The first is a warm-up. */
	for (uint32_t i = 0; i <= bench->repeats && bench->code == 0; i++) {
		times[i == 0 ? 0 : i - 1] = run_graphs(bench) / launches;
	}
	for (uint32_t r = 0; r < bench->ranks; r++) {
		if (bench->gpus[r].graph != NULL) {
			cudaGraphExecDestroy(bench->gpus[r].graph);
		}
		bench->gpus[r].graph = NULL;
	}
	const uint64_t row_bytes = (uint64_t)bench->rows * bench->width * sizeof(uint16_t);
	const uint64_t bytes = subject == SUBJECT_READ	 ? row_bytes
			       : subject == SUBJECT_NORM ? 4 * row_bytes
							 : work.bytes;
	if (bench->code == 0) {
		kernel_table_add_exchange(bench->table, names[subject], &c, bench->ranks, bytes,
			times, bench->repeats);
	}
}

/* ---- the whole benchmark ---- */

static enum status check_gpus(uint32_t ranks, struct error *error)
{
	int count = 0, can_access = 0;

	if (cudaGetDeviceCount(&count) != cudaSuccess || (uint32_t)count < ranks) {
		return error_set(error, STATUS_DEVICE,
			"found %d %s, --tensor-parallel-size %u needs %u", count,
			word_of_count((uint64_t)count, "GPU", "GPUs"), ranks, ranks);
	}
	for (uint32_t a = 0; a < ranks; a++) {
		for (uint32_t b = 0; b < ranks; b++) {
			if (a != b && (cudaDeviceCanAccessPeer(&can_access, (int)a, (int)b) != 0 ||
					      !can_access)) {
				return error_set(error, STATUS_DEVICE,
					"GPU %u has no access to the memory of GPU %u; "
					"--tp-transport nccl does without",
					a, b);
			}
		}
	}
	return STATUS_OK;
}

static bool is_measured(const struct bench *bench, enum subject subject)
{
	bool pushes = bench->rows <= bench->gpus[0].exchange.layout.push_rows;

	return (subject != SUBJECT_PUSH || pushes) &&
	       (subject != SUBJECT_READ || bench->rows >= READ_ROWS);
}

enum status exchange_bench(uint32_t ranks, uint32_t repeats, FILE *table, struct error *error)
{
	struct bench bench = {.ranks = ranks, .repeats = repeats, .table = table};

	TRY(check_gpus(ranks, error));
	kernel_table_begin(table);
	for (uint32_t i = 0; exchange_case_at(i) != NULL && bench.code == 0; i++) {
		open_case(&bench, exchange_case_at(i)->rows, exchange_case_at(i)->width);
		for (uint32_t s = 0; s < SUBJECT_COUNT && bench.code == 0; s++) {
			if (is_measured(&bench, (enum subject)s)) {
				measure(&bench, (enum subject)s);
			}
		}
		close_case(&bench);
	}
	return bench.code == 0 ? STATUS_OK
			       : error_set(error, STATUS_DEVICE, "%s: %s", bench.call,
					 cublaslt_error_text(bench.code));
}
