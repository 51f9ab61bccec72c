#ifndef TESTS_HARNESS_CUDA_TENSOR_H
#define TESTS_HARNESS_CUDA_TENSOR_H

#include <stddef.h>
#include <stdint.h>

/* A tensor on both sides, with values that bf16 holds: float32 on the host, where the CPU twin
   computes, and bf16 on the device. */
struct tensor {
	size_t count;
	float *host;
	uint16_t *device;
};

struct tensor tensor_random(size_t count, uint64_t key);

/* NaN on both sides. */
struct tensor tensor_poisoned(size_t count);

/* NaN on the device, before it is written again. */
void tensor_poison(struct tensor *tensor);

/* Takes device memory for the host's values. */
void tensor_send(struct tensor *tensor);

/* The device's values, for the caller to free. */
float *tensor_fetch(const struct tensor *tensor);

void tensor_free(struct tensor *tensor);

/* Compares the device's values with what they were `before`, which is freed. */
void expect_same_bits(const struct tensor *tensor, float *before, const char *what);

/* Compares the bits of two tensors on the device. */
void expect_equal_tensors(const struct tensor *a, const struct tensor *b, const char *what);

/* Compares row by row, as an error in one row would be lost in the size of all. tolerance: the
   relative error of a row in the Euclidean norm. */
void expect_rows(const float *found, const float *expected, size_t count, size_t width,
	double tolerance, const char *what);

/* Compares the device's values with the host's, row by row. */
void expect_close(const struct tensor *tensor, size_t width, double tolerance, const char *what);

#endif
