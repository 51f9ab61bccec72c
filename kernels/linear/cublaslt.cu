#include "kernels/linear/cublaslt.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Row-major out = in * weight^T is, in cuBLAS's column-major view, out^T = weight * in^T. So the
   weight is the transposed left operand.

   The heuristic of the library is queried once a shape, and close numbers of rows share one
   algorithm. Steps with prompts have any number of rows, a query takes 0.1 ms, and loading a kernel
   for the first time takes several ms.

   Its first candidate takes up to 1.75 times as long as another one where the tiles of a large
   weight do not divide among the multiprocessors. So for up to TIMED_ROWS_MAX rows of such weights
   the candidates are timed when they are prepared. The choice differs between runs where two take
   nearly the same time; the bits do not.

   Batch invariance: only algorithms are accepted that accumulate all inputs of an output in one
   chain, without the split-K, reduction scheme and workspace of the library. They differ in tiles
   and pipelines, but the tensor cores of each add 16 inputs after 16 in ascending order. The
   library does not promise that; the tests check it row by row. It costs nothing: for the weights
   of qwen3-0.6b and qwen3-8b and 1 to 16,384 rows these algorithms are as fast as those with
   split-K.

   Our own split-K is a strided batched GEMM with one matrix a slice. Its partial sums are stored
   side by side. */

enum {
	PLANS_BITS = 13,
	PLANS_MAX = 1 << PLANS_BITS,
	CANDIDATES_MAX = 16,
	CUBLASLT_NO_LIBRARY = 999,
	TIMED_ROWS_MAX = 2048,
	TIMED_ROWS_STEP = 16, /* the graphs' */
	TIMED_CANDIDATES = 6,
	TIMED_LAUNCHES = 4,
	TIMED_BYTES = 16 << 20 /* smaller weights have kernels of our own (linear_plan.c) */
};

/* A candidate takes the first one's place if it needs at most this share of its time: two launches
   of one kernel differ by as much. */
static const float timed_share = 0.98f;

/* The library is half a gigabyte, and a simulation needs none of it. So it is loaded when a
   context is opened, and its functions are called through this table. */
#define CUBLASLT_LIST(X)                                                                           \
	X(cublasLtCreate)                                                                          \
	X(cublasLtDestroy)                                                                         \
	X(cublasLtMatmul)                                                                          \
	X(cublasLtMatmulAlgoConfigGetAttribute)                                                    \
	X(cublasLtMatmulAlgoGetHeuristic)                                                          \
	X(cublasLtMatmulDescCreate)                                                                \
	X(cublasLtMatmulDescDestroy)                                                               \
	X(cublasLtMatmulDescSetAttribute)                                                          \
	X(cublasLtMatrixLayoutCreate)                                                              \
	X(cublasLtMatrixLayoutDestroy)                                                             \
	X(cublasLtMatrixLayoutSetAttribute)                                                        \
	X(cublasLtMatmulPreferenceCreate)                                                          \
	X(cublasLtMatmulPreferenceDestroy)                                                         \
	X(cublasLtMatmulPreferenceSetAttribute)

struct cublaslt_api {
	void *library;
#define CUBLASLT_FIELD(name) decltype(&::name) name;
	CUBLASLT_LIST(CUBLASLT_FIELD)
#undef CUBLASLT_FIELD
};

struct plan {
	uint32_t row_count; /* of shared_rows() */
	uint32_t input_count, output_count;
	uint32_t split_k; /* slices of the inputs, each with its own sum; 1 without split-K */
	bool has_bias, is_f32, is_known;
	cublasLtMatmulDesc_t operation;
	cublasLtMatrixLayout_t weight, in, out;
	cublasLtMatmulAlgo_t algorithm;
};

struct cublaslt {
	struct cublaslt_api api;
	cublasLtHandle_t handle;
	/* (PLANS_MAX) open addressing; not engine/base/map.h, which the kernels do not know */
	struct plan *plans;
	uint32_t plan_count;
};

/* Returns from the caller with the status of a failed call. */
#define CUBLAS_TRY(call)                                                                           \
	do {                                                                                       \
		const cublasStatus_t try_status = (call);                                          \
		if (try_status != CUBLAS_STATUS_SUCCESS) {                                         \
			return try_status;                                                         \
		}                                                                                  \
	} while (0)

static int failure(cublasStatus_t status)
{
	return status == CUBLAS_STATUS_SUCCESS ? 0 : CUBLASLT_ERROR + (int)status;
}

const char *cublaslt_error_text(int code)
{
	if (code < CUBLASLT_ERROR) {
		return cudaGetErrorString((cudaError_t)code);
	}
	switch (code - CUBLASLT_ERROR) {
	case CUBLASLT_NO_LIBRARY:
		return "libcublasLt of the CUDA toolkit cannot be loaded";
	case CUBLAS_STATUS_ALLOC_FAILED:
		return "cuBLASLt: CUBLAS_STATUS_ALLOC_FAILED: too little memory of the GPU is free";
	case CUBLAS_STATUS_INVALID_VALUE:
		return "cuBLASLt: CUBLAS_STATUS_INVALID_VALUE";
	case CUBLAS_STATUS_EXECUTION_FAILED:
		return "cuBLASLt: CUBLAS_STATUS_EXECUTION_FAILED: a kernel failed, or too little "
		       "memory of the GPU is free to load it";
	case CUBLAS_STATUS_NOT_SUPPORTED:
		return "cuBLASLt: CUBLAS_STATUS_NOT_SUPPORTED";
	default:
		return "cuBLASLt failed";
	}
}

static int load(struct cublaslt_api *api)
{
	char name[64];

	snprintf(name, sizeof(name), "libcublasLt.so.%d", CUBLAS_VER_MAJOR);
	api->library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
	if (api->library == NULL) {
		return CUBLASLT_ERROR + CUBLASLT_NO_LIBRARY;
	}
#define CUBLASLT_FIND(name)                                                                        \
	api->name = (decltype(&::name))dlsym(api->library, #name);                                 \
	if (api->name == NULL) {                                                                   \
		return CUBLASLT_ERROR + CUBLASLT_NO_LIBRARY;                                       \
	}
	CUBLASLT_LIST(CUBLASLT_FIND)
#undef CUBLASLT_FIND
	return 0;
}

static void plan_release(const struct cublaslt_api *api, struct plan *plan)
{
	if (plan->operation != NULL) {
		api->cublasLtMatmulDescDestroy(plan->operation);
	}
	if (plan->weight != NULL) {
		api->cublasLtMatrixLayoutDestroy(plan->weight);
	}
	if (plan->in != NULL) {
		api->cublasLtMatrixLayoutDestroy(plan->in);
	}
	if (plan->out != NULL) {
		api->cublasLtMatrixLayoutDestroy(plan->out);
	}
	memset(plan, 0, sizeof(*plan));
}

int cublaslt_open(struct cublaslt **out)
{
	struct cublaslt *context = (struct cublaslt *)calloc(1, sizeof(*context));

	*out = context;
	if (context == NULL) {
		return cudaErrorMemoryAllocation;
	}
	context->plans = (struct plan *)calloc(PLANS_MAX, sizeof(*context->plans));
	if (context->plans == NULL) {
		return cudaErrorMemoryAllocation;
	}
	int code = load(&context->api);
	if (code == 0) {
		code = failure(context->api.cublasLtCreate(&context->handle));
	}
	return code;
}

void cublaslt_close(struct cublaslt *context)
{
	if (context == NULL) {
		return;
	}
	for (uint32_t i = 0; context->plan_count > 0 && i < PLANS_MAX; i++) {
		plan_release(&context->api, &context->plans[i]);
	}
	free(context->plans);
	if (context->handle != NULL) {
		context->api.cublasLtDestroy(context->handle);
	}
	if (context->api.library != NULL) {
		dlclose(context->api.library);
	}
	free(context);
}

/* Makes a layout a batch of `count` slices that are `stride` elements apart. */
static cublasStatus_t set_slices(const struct cublaslt_api *api, cublasLtMatrixLayout_t layout,
	uint32_t count, int64_t stride)
{
	const int32_t batch_count = (int32_t)count;

	CUBLAS_TRY(api->cublasLtMatrixLayoutSetAttribute(
		layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch_count, sizeof(batch_count)));
	return api->cublasLtMatrixLayoutSetAttribute(
		layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof(stride));
}

/* Sets the number of rows of the next launch; a plan serves several numbers. */
static cublasStatus_t set_rows(const struct cublaslt_api *api, struct plan *plan, uint64_t rows)
{
	CUBLAS_TRY(api->cublasLtMatrixLayoutSetAttribute(
		plan->in, CUBLASLT_MATRIX_LAYOUT_COLS, &rows, sizeof(rows)));
	CUBLAS_TRY(api->cublasLtMatrixLayoutSetAttribute(
		plan->out, CUBLASLT_MATRIX_LAYOUT_COLS, &rows, sizeof(rows)));
	return plan->split_k == 1 ? CUBLAS_STATUS_SUCCESS
				  : set_slices(api, plan->out, plan->split_k,
					    (int64_t)rows * plan->output_count);
}

/* bias: any bias of the shape. cuBLASLt needs to know its alignment; each launch sets its own. */
static cublasStatus_t describe_bias(
	const struct cublaslt_api *api, struct plan *plan, const uint16_t *bias)
{
	cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
	cudaDataType_t type = CUDA_R_16BF;

	CUBLAS_TRY(api->cublasLtMatmulDescSetAttribute(
		plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof(epilogue)));
	CUBLAS_TRY(api->cublasLtMatmulDescSetAttribute(
		plan->operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof(type)));
	return api->cublasLtMatmulDescSetAttribute(
		plan->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof(bias));
}

/* Creates the descriptors of a plan. */
static cublasStatus_t describe(
	const struct cublaslt_api *api, struct plan *plan, const uint16_t *bias)
{
	cublasOperation_t transposed = CUBLAS_OP_T;
	uint32_t slice = plan->input_count / plan->split_k;

	CUBLAS_TRY(api->cublasLtMatmulDescCreate(&plan->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
	CUBLAS_TRY(api->cublasLtMatmulDescSetAttribute(
		plan->operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof(transposed)));
	if (plan->has_bias) {
		CUBLAS_TRY(describe_bias(api, plan, bias));
	}
	CUBLAS_TRY(api->cublasLtMatrixLayoutCreate(
		&plan->weight, CUDA_R_16BF, slice, plan->output_count, plan->input_count));
	CUBLAS_TRY(api->cublasLtMatrixLayoutCreate(
		&plan->in, CUDA_R_16BF, slice, plan->row_count, plan->input_count));
	CUBLAS_TRY(
		api->cublasLtMatrixLayoutCreate(&plan->out, plan->is_f32 ? CUDA_R_32F : CUDA_R_16BF,
			plan->output_count, plan->row_count, plan->output_count));
	if (plan->split_k > 1) {
		CUBLAS_TRY(set_slices(api, plan->weight, plan->split_k, slice));
		CUBLAS_TRY(set_slices(api, plan->in, plan->split_k, slice));
	}
	return set_rows(api, plan, plan->row_count);
}

static bool sums_in_one_chain(const struct cublaslt_api *api, const cublasLtMatmulAlgo_t *algorithm)
{
	int32_t splits = 0;
	uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_MASK;
	size_t written;

	return api->cublasLtMatmulAlgoConfigGetAttribute(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM,
		       &splits, sizeof(splits), &written) == CUBLAS_STATUS_SUCCESS &&
	       api->cublasLtMatmulAlgoConfigGetAttribute(algorithm,
		       CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme, sizeof(scheme),
		       &written) == CUBLAS_STATUS_SUCCESS &&
	       splits <= 1 && scheme == CUBLASLT_REDUCTION_SCHEME_NONE;
}

static cublasStatus_t query_heuristic(const struct cublaslt *context, const struct plan *plan,
	cublasLtMatmulPreference_t preference, cublasLtMatmulHeuristicResult_t *results, int *count)
{
	uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_NONE;
	size_t bytes = 0;

	CUBLAS_TRY(context->api.cublasLtMatmulPreferenceSetAttribute(
		preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof(bytes)));
	CUBLAS_TRY(context->api.cublasLtMatmulPreferenceSetAttribute(
		preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof(schemes)));
	return context->api.cublasLtMatmulAlgoGetHeuristic(context->handle, plan->operation,
		plan->weight, plan->in, plan->out, plan->out, preference, CANDIDATES_MAX, results,
		count);
}

/* The candidates of the library's heuristic, best first, without workspace or reduction scheme. */
static cublasStatus_t list_candidates(const struct cublaslt *context, const struct plan *plan,
	cublasLtMatmulHeuristicResult_t *results, int *count)
{
	cublasLtMatmulPreference_t preference = NULL;

	CUBLAS_TRY(context->api.cublasLtMatmulPreferenceCreate(&preference));
	cublasStatus_t status = query_heuristic(context, plan, preference, results, count);
	context->api.cublasLtMatmulPreferenceDestroy(preference);
	return status;
}

static cublasStatus_t choose(struct cublaslt *context, struct plan *plan)
{
	cublasLtMatmulHeuristicResult_t results[CANDIDATES_MAX];
	int count = 0;

	CUBLAS_TRY(list_candidates(context, plan, results, &count));
	for (int i = 0; i < count; i++) {
		if (sums_in_one_chain(&context->api, &results[i].algo)) {
			plan->algorithm = results[i].algo;
			plan->is_known = true;
			return CUBLAS_STATUS_SUCCESS;
		}
	}
	return CUBLAS_STATUS_NOT_SUPPORTED;
}

static bool is_timed(const struct plan *plan)
{
	return plan->split_k == 1 &&
	       (uint64_t)plan->input_count * plan->output_count * sizeof(uint16_t) >= TIMED_BYTES;
}

/* The number of rows for which an algorithm is chosen, instead of row_count.

       up to 1,024     the next multiple of 8, of a timed shape of 16. At least 8, because for one
                       row the choice is bad.
       up to 16,384    a multiple of 64 has its own choice. All numbers between two multiples share
                       one choice, made for the largest of them; the choice for the multiple itself
                       is slower for them.
       beyond          the same with multiples of 1,024 */
static uint32_t shared_rows(const struct plan *shape, uint32_t row_count)
{
	uint32_t few = is_timed(shape) ? TIMED_ROWS_STEP : 8;
	uint32_t step = row_count <= 1024 ? few : row_count <= 16384 ? 64 : 1024;
	uint32_t end = (row_count + step - 1) / step * step;

	return step == few || row_count == end ? end : end - 1;
}

/* Finds the plan of a shape, or makes it. A half full table is emptied first. */
static cublasStatus_t find_plan(
	struct cublaslt *context, const struct plan *wanted, const uint16_t *bias, plan **out)
{
	uint32_t key =
		((wanted->row_count * 31 + wanted->input_count) * 31 + wanted->output_count) * 31 +
		wanted->split_k;
	uint32_t index = key * 2654435761u >> (32 - PLANS_BITS);

	for (;; index++) {
		struct plan *plan = &context->plans[index % PLANS_MAX];
		*out = plan;
		if (!plan->is_known) {
			break;
		}
		if (plan->row_count == wanted->row_count &&
			plan->input_count == wanted->input_count &&
			plan->output_count == wanted->output_count &&
			plan->split_k == wanted->split_k && plan->has_bias == wanted->has_bias &&
			plan->is_f32 == wanted->is_f32) {
			return CUBLAS_STATUS_SUCCESS;
		}
	}
	if (context->plan_count == PLANS_MAX / 2) {
		for (uint32_t i = 0; i < PLANS_MAX; i++) {
			plan_release(&context->api, &context->plans[i]);
		}
		context->plan_count = 0;
	}
	struct plan *plan = *out;
	*plan = *wanted;
	cublasStatus_t status = describe(&context->api, plan, bias);
	if (status == CUBLAS_STATUS_SUCCESS) {
		status = choose(context, plan);
	}
	if (status != CUBLAS_STATUS_SUCCESS) {
		plan_release(&context->api, plan);
		return status;
	}
	context->plan_count++;
	return status;
}

static cublasStatus_t launch(const struct cublaslt *context, const struct plan *plan,
	const cublasLtMatmulAlgo_t *algorithm, void *out, const uint16_t *in,
	const uint16_t *weight, struct CUstream_st *stream)
{
	const float one = 1, zero = 0;

	return context->api.cublasLtMatmul(context->handle, plan->operation, &one, weight,
		plan->weight, in, plan->in, &zero, out, plan->out, out, plan->out, algorithm, NULL,
		0, stream);
}

/* Launches the GEMM for wanted->row_count rows, by the plan that serves this number. */
static cublasStatus_t run_plan(struct cublaslt *context, void *out, const uint16_t *in,
	const uint16_t *weight, const uint16_t *bias, const struct plan *wanted,
	struct CUstream_st *stream)
{
	struct plan shared = *wanted;
	struct plan *plan;

	shared.row_count = shared_rows(wanted, wanted->row_count);
	CUBLAS_TRY(find_plan(context, &shared, bias, &plan));
	CUBLAS_TRY(set_rows(&context->api, plan, wanted->row_count));
	if (plan->has_bias) {
		CUBLAS_TRY(context->api.cublasLtMatmulDescSetAttribute(
			plan->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof(bias)));
	}
	return launch(context, plan, &plan->algorithm, out, in, weight, stream);
}

/* ---- timing ---- */

/* Returns from the caller with the code of a failed call of CUDA. */
#define CUDA_TRY(call)                                                                             \
	do {                                                                                       \
		const int try_code = (int)(call);                                                  \
		if (try_code != 0) {                                                               \
			return try_code;                                                           \
		}                                                                                  \
	} while (0)

struct stopwatch {
	cudaEvent_t begin, end;
	void *out;
	const struct cublaslt_weights *weights;
	struct CUstream_st *stream;
};

static int stopwatch_open(struct stopwatch *watch)
{
	CUDA_TRY(cudaEventCreateWithFlags(&watch->begin, cudaEventDefault));
	return (int)cudaEventCreateWithFlags(&watch->end, cudaEventDefault);
}

static void stopwatch_close(struct stopwatch *watch)
{
	if (watch->begin != NULL) {
		cudaEventDestroy(watch->begin);
	}
	if (watch->end != NULL) {
		cudaEventDestroy(watch->end);
	}
}

/* Time of TIMED_LAUNCHES launches, each of another layer's weight, which comes from memory then.
   Rows of a weight are the input: a product of zeros draws less power and is faster. INFINITY where
   the algorithm does not serve the plan. */
static int time_launches(const struct cublaslt *context, const struct plan *plan,
	const cublasLtMatmulAlgo_t *algorithm, const struct stopwatch *watch, float *ms)
{
	const uint16_t *const *layers = watch->weights->layers;
	const uint32_t count = watch->weights->count;

	*ms = INFINITY;
	for (uint32_t i = 0; i <= TIMED_LAUNCHES; i++) {
		if (i == 1) { /* the launch before has loaded the kernel */
			CUDA_TRY(cudaEventRecord(watch->begin, watch->stream));
		}
		cublasStatus_t status = launch(context, plan, algorithm, watch->out, layers[0],
			layers[i % count], watch->stream);
		if (status == CUBLAS_STATUS_NOT_SUPPORTED ||
			status == CUBLAS_STATUS_INVALID_VALUE) {
			return 0;
		}
		CUDA_TRY(failure(status));
	}
	CUDA_TRY(cudaEventRecord(watch->end, watch->stream));
	CUDA_TRY(cudaEventSynchronize(watch->end));
	return (int)cudaEventElapsedTime(ms, watch->begin, watch->end);
}

/* Gives a plan an algorithm if that takes less than *least, which it becomes. */
static int take_faster(const struct cublaslt *context, struct plan *plan,
	const cublasLtMatmulAlgo_t *algorithm, const struct stopwatch *watch, float *least)
{
	float ms;

	CUDA_TRY(time_launches(context, plan, algorithm, watch, &ms));
	if (ms < *least) {
		*least = ms;
		plan->algorithm = *algorithm;
	}
	return 0;
}

/* Gives a plan, which has the library's first choice, the fastest of its candidates and of
   `larger`, the algorithm of the next larger number of rows. With the latter fewer rows take no
   longer than more, but for what timed_share leaves to the first choice. */
static int choose_fastest(const struct cublaslt *context, struct plan *plan,
	const cublasLtMatmulAlgo_t *larger, const struct stopwatch *watch)
{
	cublasLtMatmulHeuristicResult_t results[CANDIDATES_MAX];
	float least;
	int count = 0, seen = 0;

	CUDA_TRY(time_launches(context, plan, &plan->algorithm, watch, &least));
	least *= timed_share;
	CUDA_TRY(failure(list_candidates(context, plan, results, &count)));
	for (int i = 0; i < count && seen < TIMED_CANDIDATES; i++) {
		if (!sums_in_one_chain(&context->api, &results[i].algo)) {
			continue;
		}
		if (seen++ > 0) { /* the first one is that of the plan */
			CUDA_TRY(take_faster(context, plan, &results[i].algo, watch, &least));
		}
	}
	return larger == NULL ? 0 : take_faster(context, plan, larger, watch, &least);
}

/* ---- preparing ---- */

/* Every number of rows that has a plan of its own, up to that of row_limit. out: PLANS_MAX. */
static uint32_t list_sizes(uint32_t *out, const struct plan *shape, uint32_t row_limit)
{
	uint32_t count = 0;

	for (uint32_t rows = 0; rows < row_limit && count < PLANS_MAX / 2;) {
		rows = shared_rows(shape, rows + 1);
		out[count++] = rows;
	}
	return count;
}

/* Makes every plan up to row_limit rows, the largest first, and launches each kernel that differs
   from that of the plan before. */
static int prepare_sizes(struct cublaslt *context, const uint32_t *sizes, uint32_t count,
	const uint16_t *in, const uint16_t *bias, const struct plan *wanted, uint32_t row_limit,
	const struct stopwatch *watch)
{
	cublasLtMatmulAlgo_t before = {};
	bool has_larger = false;
	struct plan shape = *wanted;

	for (uint32_t i = count; i-- > 0;) {
		uint32_t rows = sizes[i] < row_limit ? sizes[i] : row_limit;
		struct plan *plan;
		shape.row_count = sizes[i];
		CUDA_TRY(failure(find_plan(context, &shape, bias, &plan)));
		/* rows of the weight stand in for the input */
		if (is_timed(plan) && rows <= TIMED_ROWS_MAX && rows <= plan->output_count) {
			CUDA_TRY(failure(set_rows(&context->api, plan, rows)));
			CUDA_TRY(choose_fastest(context, plan, has_larger ? &before : NULL, watch));
			has_larger = true;
		} else if (memcmp(&before, &plan->algorithm, sizeof(before)) != 0) {
			shape.row_count = rows;
			CUDA_TRY(failure(run_plan(context, watch->out, in,
				watch->weights->layers[0], bias, &shape, watch->stream)));
		}
		before = plan->algorithm;
	}
	return 0;
}

static int prepare(struct cublaslt *context, void *out, const uint16_t *in,
	const struct cublaslt_weights *weights, const uint16_t *bias, const struct plan *wanted,
	uint32_t row_limit, struct CUstream_st *stream)
{
	uint32_t *sizes = (uint32_t *)malloc(PLANS_MAX * sizeof(*sizes));
	struct stopwatch watch = {};

	if (sizes == NULL) {
		return cudaErrorMemoryAllocation;
	}
	watch.out = out;
	watch.weights = weights;
	watch.stream = stream;
	int code = stopwatch_open(&watch);
	if (code == 0) {
		code = prepare_sizes(context, sizes, list_sizes(sizes, wanted, row_limit), in, bias,
			wanted, row_limit, &watch);
	}
	stopwatch_close(&watch);
	free(sizes);
	return code;
}

static struct plan plan_of(
	uint32_t row_count, uint32_t input_count, uint32_t output_count, bool has_bias, bool is_f32)
{
	struct plan plan = {};

	plan.split_k = 1;
	plan.row_count = row_count;
	plan.input_count = input_count;
	plan.output_count = output_count;
	plan.has_bias = has_bias;
	plan.is_f32 = is_f32;
	return plan;
}

int cublaslt_linear(struct cublaslt *context, uint16_t *out, const uint16_t *in,
	const uint16_t *weight, const uint16_t *bias, uint32_t row_count, uint32_t input_count,
	uint32_t output_count, struct CUstream_st *stream)
{
	if (row_count == 0) {
		return 0;
	}
	struct plan wanted = plan_of(row_count, input_count, output_count, bias != NULL, false);
	return failure(run_plan(context, out, in, weight, bias, &wanted, stream));
}

int cublaslt_prepare(struct cublaslt *context, uint16_t *out, const uint16_t *in,
	const struct cublaslt_weights *weights, const uint16_t *bias, uint32_t row_limit,
	uint32_t input_count, uint32_t output_count, struct CUstream_st *stream)
{
	struct plan wanted = plan_of(0, input_count, output_count, bias != NULL, false);

	return prepare(context, out, in, weights, bias, &wanted, row_limit, stream);
}

int cublaslt_linear_logits(struct cublaslt *context, float *out, const uint16_t *in,
	const uint16_t *weight, uint32_t row_count, uint32_t input_count, uint32_t output_count,
	struct CUstream_st *stream)
{
	if (row_count == 0) {
		return 0;
	}
	struct plan wanted = plan_of(row_count, input_count, output_count, false, true);
	return failure(run_plan(context, out, in, weight, NULL, &wanted, stream));
}

int cublaslt_prepare_logits(struct cublaslt *context, float *out, const uint16_t *in,
	const struct cublaslt_weights *weights, uint32_t row_limit, uint32_t input_count,
	uint32_t output_count, struct CUstream_st *stream)
{
	struct plan wanted = plan_of(0, input_count, output_count, false, true);

	return prepare(context, out, in, weights, NULL, &wanted, row_limit, stream);
}

static struct plan plan_split_k(
	uint32_t row_count, uint32_t input_count, uint32_t output_count, uint32_t split_k)
{
	struct plan plan = plan_of(row_count, input_count, output_count, false, true);

	plan.split_k = split_k;
	return plan;
}

int cublaslt_linear_split_k(struct cublaslt *context, float *out, const uint16_t *in,
	const uint16_t *weight, uint32_t row_count, uint32_t input_count, uint32_t output_count,
	uint32_t split_k, struct CUstream_st *stream)
{
	if (row_count == 0) {
		return 0;
	}
	struct plan wanted = plan_split_k(row_count, input_count, output_count, split_k);
	return failure(run_plan(context, out, in, weight, NULL, &wanted, stream));
}

int cublaslt_prepare_split_k(struct cublaslt *context, float *out, const uint16_t *in,
	const struct cublaslt_weights *weights, uint32_t row_limit, uint32_t input_count,
	uint32_t output_count, uint32_t split_k, struct CUstream_st *stream)
{
	struct plan wanted = plan_split_k(0, input_count, output_count, split_k);

	return prepare(context, out, in, weights, NULL, &wanted, row_limit, stream);
}
