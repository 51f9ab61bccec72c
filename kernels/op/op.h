#ifndef KERNELS_OP_OP_H
#define KERNELS_OP_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/shape/work.h"
#include "kernels/op/operands.h"

/* The description of an operation, from which generic code tests and measures it. Tests run
   every case on the GPU and in the CPU twin and compare the results. The kernel benchmark times
   the cases of model size. To add an operation: one struct op in X_op.c beside its kernels, and
   one row in kernels/op_table.c. */

enum case_size {
	CASE_TINY,  /* also for the CPU, where tests compare the twin with a naive formula */
	CASE_EDGE,  /* sizes around those of blocks and tiles, for tests on a GPU */
	CASE_MODEL, /* sizes of models: timed, and tested where a CPU is fast enough */
};

struct op_case {
	enum case_size size;
	uint32_t rows;	   /* tokens; of attention: sequences; of gather_rows: rows picked */
	uint32_t width;	   /* of a row in: hidden, intermediate or input size */
	uint32_t outputs;  /* linear: rows of the weight; embedding, sampler: the vocabulary */
	bool has_bias;	   /* linear */
	uint32_t heads;	   /* query heads */
	uint32_t kv_heads; /* key/value heads, divides heads */
	uint32_t head_dim;
	uint32_t block_size; /* a multiple of 16 for the GPU */
	uint32_t context;    /* of the longest sequence, see op_case_context() */
	uint32_t prefix;     /* decode: tokens that all sequences share, whole blocks */
	uint32_t chunk;	     /* prefill: tokens computed, see op_case_chunk() */
	bool is_ragged;	     /* sequences differ in length */
	uint32_t ranks;	     /* exchanges: ranks, all on one GPU */
	/* (rows) lengths that replace the three fields above, or NULL */
	const uint32_t *contexts, *chunks;
};

enum op_property {
	OP_HAS_PATHS = 1, /* enum kernel_path chooses between kernels */
	OP_HAS_BIAS = 2,  /* op_case.has_bias has an effect */
	OP_IS_EXACT = 4,  /* with CASE_INTEGERS the kernels have the bits of the twin */
	OP_COMPUTES = 8,  /* its FLOPs are counted */
};

enum { OP_TEXT_BYTES = 64 };

struct op {
	const char *name;
	const struct op_case *cases;
	uint32_t case_count;
	uint32_t properties; /* of enum op_property */

	/* Whether the kernels on the current GPU support the case. NULL in a build without CUDA,
	   as is launch. */
	bool (*fits)(const struct op_case *op_case);

	/* Writes the sizes of a case as readable text of at most OP_TEXT_BYTES. */
	void (*describe)(const struct op_case *op_case, char *text);
	struct work (*work)(const struct op_case *op_case);

	/* Makes the operands of operands->op_case. */
	void (*open)(struct operands *operands);

	/* Launches the kernels on set `set` of the tensors. Returns as launchers do. */
	int (*launch)(const struct operands *operands, uint32_t set, struct CUstream_st *stream);

	/* Computes the host side of the outputs from that of the inputs, rounding to bf16. */
	void (*twin)(struct operands *operands);
};

/* The function in a build with CUDA, else NULL. */
#ifdef QUIRE_HAS_CUDA
#define OP_ON_GPU(function) function
#else
#define OP_ON_GPU(function) NULL
#endif

#define OP_CASES(array) .cases = (array), .case_count = sizeof(array) / sizeof((array)[0])

/* Tokens of sequence `row`, its chunk included: context. When ragged, a number drawn from [1,
   context], and context itself for row 0. */
uint32_t op_case_context(const struct op_case *op_case, uint32_t row);

/* Tokens of the sequence that a prefill computes: chunk, or all of them if there are fewer. */
uint32_t op_case_chunk(const struct op_case *op_case, uint32_t row);

/* Defaults for operations on rows: fits for a width that is a multiple of 16 bytes, and the
   description. */
bool op_fits_rows(const struct op_case *op_case);
void op_describe_rows(const struct op_case *op_case, char *text);

#endif
