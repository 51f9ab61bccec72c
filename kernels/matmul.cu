#include "kernels/matmul.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <stdlib.h>
#include <string.h>

/* Row-major out = in * weight^T is, column by column, out^T = weight * in^T: cuBLAS sees the weight
   as its transposed left operand. The algorithm of a shape is asked for once and kept. */

enum { PLANS_MAX = 4096 };

struct plan {
	uint32_t row_count, input_count, output_count;
	bool has_bias, is_f32, is_known;
	cublasLtMatmulDesc_t operation;
	cublasLtMatrixLayout_t weight, in, out;
	cublasLtMatmulAlgo_t algorithm;
};

struct matmul_context {
	cublasLtHandle_t library;
	void *workspace;
	struct plan *plans; /* (PLANS_MAX) open addressing */
	uint32_t plan_count;
};

static int failure(cublasStatus_t status)
{
	return status == CUBLAS_STATUS_SUCCESS ? 0 : MATMUL_CUBLAS_ERROR + (int)status;
}

const char *matmul_error_text(int code)
{
	return code >= MATMUL_CUBLAS_ERROR
		       ? cublasLtGetStatusString((cublasStatus_t)(code - MATMUL_CUBLAS_ERROR))
		       : cudaGetErrorString((cudaError_t)code);
}

int matmul_open(struct matmul_context **out)
{
	struct matmul_context *context = (struct matmul_context *)calloc(1, sizeof(*context));

	*out = context;
	if (context == NULL) {
		return cudaErrorMemoryAllocation;
	}
	context->plans = (struct plan *)calloc(PLANS_MAX, sizeof(*context->plans));
	if (context->plans == NULL) {
		return cudaErrorMemoryAllocation;
	}
	int code = failure(cublasLtCreate(&context->library));
	return code != 0 ? code : cudaMalloc(&context->workspace, MATMUL_WORKSPACE_BYTES);
}

void matmul_close(struct matmul_context *context)
{
	if (context == NULL) {
		return;
	}
	for (uint32_t i = 0; context->plans != NULL && i < PLANS_MAX; i++) {
		struct plan *plan = &context->plans[i];
		cublasLtMatmulDescDestroy(plan->operation);
		cublasLtMatrixLayoutDestroy(plan->weight);
		cublasLtMatrixLayoutDestroy(plan->in);
		cublasLtMatrixLayoutDestroy(plan->out);
	}
	free(context->plans);
	cudaFree(context->workspace);
	if (context->library != NULL) {
		cublasLtDestroy(context->library);
	}
	free(context);
}

/* Fills a plan's descriptions; `bias` only tells cuBLAS where one will be. */
static cublasStatus_t describe(struct plan *plan, const uint16_t *bias)
{
	cublasOperation_t transposed = CUBLAS_OP_T;
	cublasStatus_t status =
		cublasLtMatmulDescCreate(&plan->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);

	if (status == CUBLAS_STATUS_SUCCESS) {
		status = cublasLtMatmulDescSetAttribute(plan->operation,
			CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof(transposed));
	}
	if (status == CUBLAS_STATUS_SUCCESS && plan->has_bias) {
		cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
		cudaDataType_t type = CUDA_R_16BF;
		cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE,
			&epilogue, sizeof(epilogue));
		cublasLtMatmulDescSetAttribute(
			plan->operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof(type));
		status = cublasLtMatmulDescSetAttribute(
			plan->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof(bias));
	}
	if (status == CUBLAS_STATUS_SUCCESS) {
		status = cublasLtMatrixLayoutCreate(&plan->weight, CUDA_R_16BF, plan->input_count,
			plan->output_count, plan->input_count);
	}
	if (status == CUBLAS_STATUS_SUCCESS) {
		status = cublasLtMatrixLayoutCreate(&plan->in, CUDA_R_16BF, plan->input_count,
			plan->row_count, plan->input_count);
	}
	if (status == CUBLAS_STATUS_SUCCESS) {
		status = cublasLtMatrixLayoutCreate(&plan->out,
			plan->is_f32 ? CUDA_R_32F : CUDA_R_16BF, plan->output_count,
			plan->row_count, plan->output_count);
	}
	return status;
}

static cublasStatus_t choose(struct matmul_context *context, struct plan *plan)
{
	cublasLtMatmulPreference_t preference = NULL;
	cublasLtMatmulHeuristicResult_t result;
	size_t bytes = MATMUL_WORKSPACE_BYTES;
	int count = 0;
	cublasStatus_t status = cublasLtMatmulPreferenceCreate(&preference);

	if (status == CUBLAS_STATUS_SUCCESS) {
		status = cublasLtMatmulPreferenceSetAttribute(preference,
			CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof(bytes));
	}
	if (status == CUBLAS_STATUS_SUCCESS) {
		status = cublasLtMatmulAlgoGetHeuristic(context->library, plan->operation,
			plan->weight, plan->in, plan->out, plan->out, preference, 1, &result,
			&count);
	}
	if (preference != NULL) {
		cublasLtMatmulPreferenceDestroy(preference);
	}
	if (status == CUBLAS_STATUS_SUCCESS && count == 0) {
		status = CUBLAS_STATUS_NOT_SUPPORTED;
	}
	if (status == CUBLAS_STATUS_SUCCESS) {
		plan->algorithm = result.algo;
		plan->is_known = true;
	}
	return status;
}

static void forget(struct plan *plan)
{
	cublasLtMatmulDescDestroy(plan->operation);
	cublasLtMatrixLayoutDestroy(plan->weight);
	cublasLtMatrixLayoutDestroy(plan->in);
	cublasLtMatrixLayoutDestroy(plan->out);
	memset(plan, 0, sizeof(*plan));
}

/* The plan of a shape, made if need be. When the table is half full everything is forgotten: step
   shapes of eager prefills are without number. */
static cublasStatus_t find_plan(
	struct matmul_context *context, const struct plan *wanted, const uint16_t *bias, plan **out)
{
	uint32_t place = wanted->row_count * 2654435761u ^ wanted->output_count * 40503u ^
			 wanted->input_count * 2246822519u;

	for (;; place++) {
		struct plan *plan = &context->plans[place % PLANS_MAX];
		*out = plan;
		if (!plan->is_known) {
			break;
		}
		if (plan->row_count == wanted->row_count &&
			plan->input_count == wanted->input_count &&
			plan->output_count == wanted->output_count &&
			plan->has_bias == wanted->has_bias && plan->is_f32 == wanted->is_f32) {
			return CUBLAS_STATUS_SUCCESS;
		}
	}
	if (context->plan_count == PLANS_MAX / 2) {
		for (uint32_t i = 0; i < PLANS_MAX; i++) {
			forget(&context->plans[i]);
		}
		context->plan_count = 0;
	}
	struct plan *plan = *out;
	*plan = *wanted;
	cublasStatus_t status = describe(plan, bias);
	if (status == CUBLAS_STATUS_SUCCESS) {
		status = choose(context, plan);
	}
	if (status != CUBLAS_STATUS_SUCCESS) {
		forget(plan);
		return status;
	}
	context->plan_count++;
	return status;
}

static int multiply(struct matmul_context *context, void *out, const uint16_t *in,
	const uint16_t *weight, const uint16_t *bias, const struct plan *wanted,
	struct CUstream_st *stream)
{
	const float one = 1, zero = 0;
	struct plan *plan;

	if (wanted->row_count == 0) {
		return 0;
	}
	cublasStatus_t status = find_plan(context, wanted, bias, &plan);
	if (status == CUBLAS_STATUS_SUCCESS && plan->has_bias) {
		status = cublasLtMatmulDescSetAttribute(
			plan->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof(bias));
	}
	if (status == CUBLAS_STATUS_SUCCESS) {
		status = cublasLtMatmul(context->library, plan->operation, &one, weight,
			plan->weight, in, plan->in, &zero, out, plan->out, out, plan->out,
			&plan->algorithm, context->workspace, MATMUL_WORKSPACE_BYTES, stream);
	}
	return failure(status);
}

int matmul(struct matmul_context *context, uint16_t *out, const uint16_t *in,
	const uint16_t *weight, const uint16_t *bias, uint32_t row_count, uint32_t input_count,
	uint32_t output_count, struct CUstream_st *stream)
{
	struct plan wanted = {};

	wanted.row_count = row_count;
	wanted.input_count = input_count;
	wanted.output_count = output_count;
	wanted.has_bias = bias != NULL;
	return multiply(context, out, in, weight, bias, &wanted, stream);
}

int matmul_logits(struct matmul_context *context, float *out, const uint16_t *in,
	const uint16_t *weight, uint32_t row_count, uint32_t input_count, uint32_t output_count,
	struct CUstream_st *stream)
{
	struct plan wanted = {};

	wanted.row_count = row_count;
	wanted.input_count = input_count;
	wanted.output_count = output_count;
	wanted.is_f32 = true;
	return multiply(context, out, in, weight, NULL, &wanted, stream);
}
