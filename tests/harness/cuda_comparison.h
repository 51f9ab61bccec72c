#ifndef TESTS_HARNESS_CUDA_COMPARISON_H
#define TESTS_HARNESS_CUDA_COMPARISON_H

#include "tests/harness/cuda_run.h"

/* The same requests on the GPU, on the CPU with the GPU's rounding, and on the CPU without
   rounding. The distance of the last two is what rounding to bf16 does to a model's logits. The
   GPU's order of sums may add little to that.

   With several ranks the rounded reference has as many, and the logits compared are those of rank
   0's part of the vocabulary. */
struct comparison {
	struct run gpu, rounded, exact;
	uint32_t vocab_size;
	uint32_t compared; /* ids of the vocabulary */
	uint64_t preemptions, graph_steps, eager_steps, rows;
	double row_error_max;		       /* of a row, GPU against rounded */
	double gpu_error, rounded_error, size; /* squares of all rows, against exact */
};

/* Squares of the distance of two vectors, and of the length of one. */
double squared_distance(const float *out, const float *ref, size_t count);
double squared_size(const float *ref, size_t count);

/* The distance of a GPU's logits to the exact ones, at most, by that of the rounded ones. */
static const double RUN_ERROR_RATIO = 1.5;

/* All three take the same steps. ranks: 1; or more, if nothing of CUDA was called in this process.
   Expects that the logits agree. */
struct comparison compare_runs(const struct subject *subject, const char *policy, uint32_t blocks,
	bool is_eager, uint32_t ranks);

#endif
