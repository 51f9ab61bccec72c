#include "bench/kernels/cuda_kernel_bench.h"

#include "bench/kernels/cuda_kernel_table.h"
#include "engine/base/integer.h"
#include "kernels/device/cuda_operand_memory.h"
#include "kernels/device/limits.h"
#include "kernels/linear/cublaslt.h"
#include "kernels/op_table.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

enum {
	SETS_MAX = 256,
	LAUNCHES_MAX = 256,
	GRAPH_US = 5000, /* duration of a case's graph, about */
};

static const uint64_t ROTATED_BYTES = UINT64_C(256) << 20; /* several times any L2 cache */
static const size_t STREAM_BYTES = (size_t)4 << 30;

struct timing {
	uint32_t launches;
	double us, us_min, us_max;
};

struct limits {
	double bytes_per_us, flops_per_us, launch_us;
};

struct bench {
	const struct kernel_bench_options *options;
	FILE *table;
	cudaStream_t stream;
	cudaEvent_t begin, end;
	struct cublaslt *cublaslt;
	void *flushed; /* (ROTATED_BYTES) */
	uint32_t processors;
	struct limits limits;
	int code;
	const char *call; /* the first call that failed */
};

/* The launched work: a case, or one of the limits. */
enum limit { LIMIT_READ, LIMIT_COPY, LIMIT_PRODUCT, LIMIT_LAUNCH, LIMIT_NONE };
enum { PRODUCT_SIZE = 8192 };

struct subject {
	enum limit limit;
	const struct op *op;		 /* of LIMIT_NONE */
	const struct operands *operands; /* of LIMIT_NONE */
	uint8_t *memory;		 /* (STREAM_BYTES) of the others */
};

static void note(struct bench *bench, int code, const char *call)
{
	if (code != 0 && bench->code == 0) {
		bench->code = code;
		bench->call = call;
	}
}

/* ---- timing ---- */

static int launch(struct bench *bench, const struct subject *subject, uint32_t index)
{
	const size_t square = (size_t)PRODUCT_SIZE * PRODUCT_SIZE * 2;

	switch (subject->limit) {
	case LIMIT_READ:
		return limit_read(bench->flushed, subject->memory, STREAM_BYTES, bench->stream);
	case LIMIT_COPY:
		return limit_copy(subject->memory, subject->memory + STREAM_BYTES / 2,
			STREAM_BYTES / 2, bench->stream);
	case LIMIT_PRODUCT:
		return cublaslt_linear(bench->cublaslt, (uint16_t *)subject->memory,
			(uint16_t *)(subject->memory + square),
			(uint16_t *)(subject->memory + 2 * square), NULL, PRODUCT_SIZE,
			PRODUCT_SIZE, PRODUCT_SIZE, bench->stream);
	case LIMIT_LAUNCH:
		return limit_launch(bench->stream);
	case LIMIT_NONE:
		break;
	}
	return subject->op->launch(
		subject->operands, index % subject->operands->set_count, bench->stream);
}

static double elapsed_us(struct bench *bench)
{
	float ms = 0;

	note(bench, (int)cudaEventSynchronize(bench->end), "a kernel");
	if (bench->code == 0) {
		note(bench, (int)cudaEventElapsedTime(&ms, bench->begin, bench->end),
			"cudaEventElapsedTime");
	}
	return (double)ms * 1000;
}

/* Eager launches. The first also makes cuBLASLt choose and load its kernels. */
static double time_eager(struct bench *bench, const struct subject *subject, uint32_t count)
{
	note(bench, (int)cudaEventRecord(bench->begin, bench->stream), "cudaEventRecord");
	for (uint32_t i = 0; i < count && bench->code == 0; i++) {
		note(bench, launch(bench, subject, i), "a launch");
	}
	note(bench, (int)cudaEventRecord(bench->end, bench->stream), "cudaEventRecord");
	return elapsed_us(bench) / count;
}

static cudaGraphExec_t capture(struct bench *bench, const struct subject *subject, uint32_t count)
{
	cudaGraph_t graph = NULL;
	cudaGraphExec_t result = NULL;

	note(bench, (int)cudaStreamBeginCapture(bench->stream, cudaStreamCaptureModeThreadLocal),
		"cudaStreamBeginCapture");
	for (uint32_t i = 0; i < count && bench->code == 0; i++) {
		note(bench, launch(bench, subject, i), "a launch into a graph");
	}
	note(bench, (int)cudaStreamEndCapture(bench->stream, &graph), "cudaStreamEndCapture");
	if (bench->code == 0) {
		note(bench, (int)cudaGraphInstantiate(&result, graph, 0), "cudaGraphInstantiate");
	}
	if (graph != NULL) {
		cudaGraphDestroy(graph);
	}
	return result;
}

static struct timing time_graphs(struct bench *bench, cudaGraphExec_t graph, uint32_t launches)
{
	uint32_t repeats = bench->options->repeats;
	double times[KERNEL_REPEATS_MAX] = {0};

	/* The first is a warm-up. */
	for (uint32_t i = 0; i <= repeats && bench->code == 0; i++) {
		if (!bench->options->is_warm) {
			note(bench,
				(int)cudaMemsetAsync(
					bench->flushed, (int)i, ROTATED_BYTES, bench->stream),
				"cudaMemsetAsync");
		}
		note(bench, (int)cudaEventRecord(bench->begin, bench->stream), "cudaEventRecord");
		note(bench, (int)cudaGraphLaunch(graph, bench->stream), "cudaGraphLaunch");
		note(bench, (int)cudaEventRecord(bench->end, bench->stream), "cudaEventRecord");
		times[i == 0 ? 0 : i - 1] = elapsed_us(bench) / launches;
	}
	kernel_table_sort(times, repeats);
	return (struct timing){launches, times[repeats / 2], times[0], times[repeats - 1]};
}

static struct timing time_subject(struct bench *bench, const struct subject *subject)
{
	struct timing timing = {0};

	time_eager(bench, subject, 1);
	double us = time_eager(bench, subject, 4);
	/* Without a graph even a small kernel takes several microseconds to launch. */
	double wanted = us > 0 ? GRAPH_US / us : 1;
	uint32_t launches = wanted > LAUNCHES_MAX ? LAUNCHES_MAX
			    : wanted < 4	  ? 4
						  : (uint32_t)wanted;
	if (us < 20) {
		launches = LAUNCHES_MAX;
	}
	if (bench->code != 0) {
		return timing;
	}
	cudaGraphExec_t graph = capture(bench, subject, launches);
	if (bench->code == 0) {
		timing = time_graphs(bench, graph, launches);
	}
	if (graph != NULL) {
		cudaGraphExecDestroy(graph);
	}
	return timing;
}

/* ---- the table ---- */

static void write_row(struct bench *bench, const char *kernel, const char *text, uint32_t rows,
	uint64_t bytes, uint64_t flops, const struct timing *timing)
{
	const struct limits *limits = &bench->limits;
	double memory = limits->bytes_per_us > 0 ? (double)bytes / limits->bytes_per_us : 0;
	double compute = limits->flops_per_us > 0 ? (double)flops / limits->flops_per_us : 0;
	double floor_us = memory > compute ? memory : compute;
	const char *bound = memory > compute ? "memory" : "arithmetic";

	if (limits->launch_us > floor_us) {
		floor_us = limits->launch_us;
		bound = "launch";
	}
	fprintf(bench->table, "%s\t%s\t%u\t%llu\t%llu\t%u\t%.3f\t%.3f\t%.3f\t%.1f\t%.2f", kernel,
		text, rows, (unsigned long long)bytes, (unsigned long long)flops, timing->launches,
		timing->us, timing->us_min, timing->us_max, (double)bytes / timing->us / 1e3,
		(double)flops / timing->us / 1e6);
	if (floor_us > 0) {
		fprintf(bench->table, "\t%.3f\t%s\t%.1f\n", floor_us, bound,
			100 * floor_us / timing->us);
	} else {
		fprintf(bench->table, "\t-\t-\t-\n");
	}
	fflush(bench->table);
}

static void measure_limits(struct bench *bench)
{
	static const char *const names[] = {
		"limit_read", "limit_copy", "limit_product", "limit_launch"};
	const uint64_t flops = UINT64_C(2) * PRODUCT_SIZE * PRODUCT_SIZE * PRODUCT_SIZE;
	struct timing timings[LIMIT_NONE] = {{0}};
	struct subject limit = {0};

	note(bench, (int)cudaMalloc((void **)&limit.memory, STREAM_BYTES), "cudaMalloc");
	if (bench->code == 0) {
		note(bench, fill_bf16((uint16_t *)limit.memory, STREAM_BYTES / 2, 1, bench->stream),
			"fill_bf16");
	}
	for (uint32_t i = 0; i < LIMIT_NONE && bench->code == 0; i++) {
		limit.limit = (enum limit)i;
		timings[i] = time_subject(bench, &limit);
	}
	cudaFree(limit.memory);
	for (uint32_t i = 0; i < LIMIT_NONE && bench->code == 0; i++) {
		bool is_stream = i == LIMIT_READ || i == LIMIT_COPY;
		bool is_product = i == LIMIT_PRODUCT;
		write_row(bench, names[i], is_product ? "8192x8192x8192" : "-", 0,
			is_stream ? STREAM_BYTES : 0, is_product ? flops : 0, &timings[i]);
	}
	bench->limits = (struct limits){
		.bytes_per_us = (double)STREAM_BYTES / timings[LIMIT_READ].us,
		.flops_per_us = (double)flops / timings[LIMIT_PRODUCT].us,
		.launch_us = timings[LIMIT_LAUNCH].us,
	};
}

/* ---- operations ---- */

static bool is_named(const struct kernel_bench_options *options, const char *name)
{
	bool is_named = options->name_count == 0;

	for (uint32_t i = 0; i < options->name_count; i++) {
		is_named = is_named || strstr(name, options->names[i]) != NULL;
	}
	return is_named;
}

static void measure_case(
	struct bench *bench, const struct op *op, const struct op_case *c, const char *text)
{
	struct work work = op->work(c);
	uint64_t sets = u64_min(u64_divide_up(ROTATED_BYTES, work.bytes), SETS_MAX);
	struct operands operands = {
		.op_case = c,
		.memory = &cuda_operand_memory,
		.path = bench->options->path,
		.cublaslt = bench->cublaslt,
		.processors = bench->processors,
		.set_count = bench->options->is_warm ? 1 : (uint32_t)sets,
	};
	const struct subject subject = {.limit = LIMIT_NONE, .op = op, .operands = &operands};
	struct timing timing = {0};

	op->open(&operands);
	note(bench, operands.code, "making the tensors of a case");
	note(bench, (int)cudaDeviceSynchronize(), "making the tensors of a case");
	if (bench->code == 0) {
		timing = time_subject(bench, &subject);
	}
	operands_close(&operands);
	if (bench->code == 0) {
		write_row(bench, op->name, text, c->rows, work.bytes, work.flops, &timing);
	}
}

static void measure_op(struct bench *bench, const struct op *op, bool shows_progress)
{
	char text[OP_TEXT_BYTES];

	for (uint32_t i = 0; i < op->case_count && bench->code == 0; i++) {
		const struct op_case *c = &op->cases[i];
		if (c->size != CASE_MODEL || !op->fits(c)) {
			continue;
		}
		op->describe(c, text);
		if (shows_progress) {
			fprintf(stderr, "\r%-22s %-40s", op->name, text);
		}
		measure_case(bench, op, c, text);
		if (bench->code != 0) {
			fprintf(stderr, "%s %s:\n", op->name, text);
		}
	}
}

static void measure_ops(struct bench *bench, bool shows_progress)
{
	for (uint32_t i = 0; op_at(i) != NULL && bench->code == 0; i++) {
		if (is_named(bench->options, op_at(i)->name)) {
			measure_op(bench, op_at(i), shows_progress);
		}
	}
	if (shows_progress) {
		fprintf(stderr, "\r%-64s\r", "");
	}
}

/* ---- the whole benchmark ---- */

static void open_bench(struct bench *bench)
{
	int device = 0, processors = 0;

	note(bench, (int)cudaGetDevice(&device), "cudaGetDevice");
	note(bench,
		(int)cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device),
		"cudaDeviceGetAttribute");
	bench->processors = (uint32_t)processors;
	if (bench->code == 0) {
		note(bench, (int)cudaStreamCreate(&bench->stream), "cudaStreamCreate");
		note(bench, (int)cudaEventCreate(&bench->begin), "cudaEventCreate");
		note(bench, (int)cudaEventCreate(&bench->end), "cudaEventCreate");
		note(bench, (int)cudaMalloc(&bench->flushed, ROTATED_BYTES), "cudaMalloc");
		note(bench, cublaslt_open(&bench->cublaslt), "opening cuBLASLt");
	}
}

static void close_bench(struct bench *bench)
{
	cublaslt_close(bench->cublaslt);
	cudaFree(bench->flushed);
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

enum status kernel_bench(const struct kernel_bench_options *options, bool shows_progress,
	FILE *table, struct error *error)
{
	struct bench bench = {.options = options, .table = table};
	enum status status = STATUS_OK;

	open_bench(&bench);
	if (bench.code == 0) {
		kernel_table_begin(table);
		measure_limits(&bench);
	}
	if (bench.code == 0) {
		measure_ops(&bench, shows_progress);
	}
	if (bench.code != 0) {
		status = error_set(error, STATUS_DEVICE, "%s: %s", bench.call,
			cublaslt_error_text(bench.code));
	}
	close_bench(&bench);
	return status;
}
