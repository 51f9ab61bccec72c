#include "kernels/linear/linear.h"

#include "kernels/linear/cublaslt.h"
#include "kernels/linear/linear_sm90.cuh"

int linear_run(const struct linear_plan *plan, const struct linear_operands *operands,
	struct cublaslt *library, struct CUstream_st *stream)
{
	const struct linear_shape *shape = &plan->shape;

	if (plan->row_count == 0) {
		return 0;
	}
	if (plan->fuses_norm != (operands->norm != NULL)) {
		return (int)cudaErrorInvalidValue;
	}
	switch (plan->path) {
	case LINEAR_TINY:
		return linear_tiny(plan, operands, stream);
	case LINEAR_STREAM:
		return linear_stream(plan, operands, stream);
	case LINEAR_SMALL:
		return linear_small(plan, operands, stream);
	case LINEAR_WIDE:
		return linear_wide(plan, operands, stream);
	case LINEAR_TALL:
		return linear_tall(plan, operands, stream);
	case LINEAR_CUBLASLT:
		if (shape->is_logits) {
			return cublaslt_linear_logits(library, (float *)operands->out, operands->in,
				operands->weight, plan->row_count, shape->input_count,
				shape->output_count, stream);
		}
		return cublaslt_linear(library, (uint16_t *)operands->out, operands->in,
			operands->weight, operands->bias, plan->row_count, shape->input_count,
			shape->output_count, stream);
	case LINEAR_CUBLASLT_SPLIT_K:
		return cublaslt_linear_split_k(library, (float *)operands->out, operands->in,
			operands->weight, plan->row_count, shape->input_count, shape->output_count,
			shape->split_k, stream);
	case LINEAR_NONE:
		break;
	}
	return (int)cudaErrorInvalidValue;
}

static struct linear_shape shape_of(uint32_t input_count, uint32_t output_count, bool has_silu)
{
	return {input_count, output_count, linear_split_k(input_count, output_count), has_silu,
		false};
}

bool linear_fits(uint32_t input_count, uint32_t output_count)
{
	const struct linear_device device = linear_device(kernel_path_of_device());
	const struct linear_shape shape = shape_of(input_count, output_count, false);

	return linear_has_kernel(&shape, &device);
}

static int run_kernel(const struct linear_shape &shape, uint32_t row_count,
	const struct linear_operands &operands, struct CUstream_st *stream)
{
	const struct linear_device device = linear_device(kernel_path_of_device());
	const struct linear_plan plan = linear_plan_kernel(&shape, row_count, false, &device);

	return linear_run(&plan, &operands, NULL, stream);
}

int linear(uint16_t *out, const uint16_t *in, const uint16_t *weight, const uint16_t *bias,
	uint32_t row_count, uint32_t input_count, uint32_t output_count, struct CUstream_st *stream)
{
	return run_kernel(shape_of(input_count, output_count, false), row_count,
		{out, in, weight, bias, NULL}, stream);
}

int linear_silu(uint16_t *out, const uint16_t *in, const uint16_t *weight, uint32_t row_count,
	uint32_t input_count, uint32_t intermediate, struct CUstream_st *stream)
{
	return run_kernel(shape_of(input_count, 2 * intermediate, true), row_count,
		{out, in, weight, NULL, NULL}, stream);
}
