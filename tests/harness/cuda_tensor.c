#include "tests/harness/cuda_tensor.h"

#include "engine/base/memory.h"
#include "kernels/op/number.h"
#include "kernels/op/operands.h"
#include "tests/harness/cuda_device.h"

#include <criterion/criterion.h>
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void tensor_send(struct tensor *tensor)
{
	uint16_t *bits = memory_take(tensor->count, sizeof(*bits));

	for (size_t i = 0; i < tensor->count; i++) {
		bits[i] = bf16_from_float(tensor->host[i]);
	}
	tensor->device = device_copy(bits, tensor->count * sizeof(*bits));
	free(bits);
}

struct tensor tensor_random(size_t count, uint64_t key)
{
	struct tensor tensor = {.count = count, .host = memory_take(count, sizeof(float))};

	case_fill(tensor.host, count, key, CASE_UNIFORM);
	tensor_send(&tensor);
	return tensor;
}

struct tensor tensor_poisoned(size_t count)
{
	struct tensor tensor = {.count = count, .host = memory_take(count, sizeof(float))};

	for (size_t i = 0; i < count; i++) {
		tensor.host[i] = NAN;
	}
	tensor.device = device_take(count * sizeof(uint16_t));
	return tensor;
}

void tensor_poison(struct tensor *tensor)
{
	must(cudaMemset(tensor->device, 0xff, tensor->count * sizeof(uint16_t)), "cudaMemset");
}

void tensor_free(struct tensor *tensor)
{
	free(tensor->host);
	cudaFree(tensor->device);
}

float *tensor_fetch(const struct tensor *tensor)
{
	uint16_t *bits = memory_take(tensor->count, sizeof(*bits));
	float *values = memory_take(tensor->count, sizeof(*values));

	must(cudaDeviceSynchronize(), "kernel");
	must(cudaMemcpy(
		     bits, tensor->device, tensor->count * sizeof(*bits), cudaMemcpyDeviceToHost),
		"cudaMemcpy");
	for (size_t i = 0; i < tensor->count; i++) {
		values[i] = bf16_to_float(bits[i]);
	}
	free(bits);
	return values;
}

void expect_same_bits(const struct tensor *tensor, float *before, const char *what)
{
	float *after = tensor_fetch(tensor);

	cr_expect(
		memcmp(before, after, tensor->count * sizeof(*after)) == 0, "%s: other bits", what);
	free(before);
	free(after);
}

/* ||out - ref|| / ||ref||. An element that is NaN in both was written by neither and counts as
   equal. */
static double distance(const float *out, const float *ref, size_t count)
{
	double difference = 0, size = 0;

	for (size_t i = 0; i < count; i++) {
		if (isnan(ref[i]) && isnan(out[i])) {
			continue;
		}
		difference += ((double)out[i] - ref[i]) * ((double)out[i] - ref[i]);
		size += (double)ref[i] * ref[i];
	}
	return size == 0 ? sqrt(difference) : sqrt(difference / size);
}

void expect_rows(const float *found, const float *expected, size_t count, size_t width,
	double tolerance, const char *what)
{
	size_t rows = count / width, row = 0;
	double error = 0;

	while (row < rows) {
		error = distance(found + row * width, expected + row * width, width);
		if (!(error <= tolerance)) { /* NaN is not close either */
			break;
		}
		row++;
	}
	cr_expect(row == rows, "%s: row %zu of %zu: relative error %g, at most %g", what, row, rows,
		error, tolerance);
}

void expect_close(const struct tensor *tensor, size_t width, double tolerance, const char *what)
{
	float *out = tensor_fetch(tensor);

	expect_rows(out, tensor->host, tensor->count, width, tolerance, what);
	free(out);
}

void expect_equal_tensors(const struct tensor *a, const struct tensor *b, const char *what)
{
	float *left = tensor_fetch(a), *right = tensor_fetch(b);

	cr_expect(a->count == b->count && memcmp(left, right, a->count * sizeof(*left)) == 0, "%s",
		what);
	free(left);
	free(right);
}
