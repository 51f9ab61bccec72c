#ifndef KERNELS_OP_OP_H
#define KERNELS_OP_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/shape/work.h"
#include "kernels/op/operands.h"

/* The generic view of an operation: tests run every case on the GPU and in the CPU twin and
   compare, the kernel benchmark times the cases that are sizes of models. An operation is one such
   struct in X_op.c beside its kernels and one row of kernels/op_table.c. */

enum case_size {
	CASE_TINY,  /* for the CPU too, where tests compare the twin with a naive formula */
	CASE_EDGE,  /* edges of blocks and tiles and their neighbours, for tests on a GPU */
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
	uint32_t block_size;		   /* a multiple of 64 where a GPU takes the case */
	uint32_t context;		   /* of the longest sequence, see op_case_context() */
	uint32_t chunk;			   /* prefill: tokens computed of it, see op_case_chunk() */
	bool is_ragged;			   /* sequences differ in length */
	const uint32_t *contexts, *chunks; /* (rows) instead of these three, or NULL */
};

enum op_property {
	OP_HAS_PATHS = 1, /* enum kernel_path chooses between kernels */
	OP_HAS_BIAS = 2,  /* op_case.has_bias means something */
	OP_IS_EXACT = 4,  /* CASE_INTEGERS give the twin's bits */
	OP_COMPUTES = 8,  /* its FLOPs count */
};

enum { OP_TEXT_BYTES = 64 };

struct op {
	const char *name;
	const struct op_case *cases;
	uint32_t case_count;
	uint32_t properties; /* of enum op_property */

	/* Whether the current GPU computes the case. NULL in a build without CUDA, as is launch. */
	bool (*fits)(const struct op_case *op_case);

	/* The sizes of a case for people, in OP_TEXT_BYTES. */
	void (*describe)(const struct op_case *op_case, char *text);
	struct work (*work)(const struct op_case *op_case);

	/* Makes the operands of operands->op_case. */
	void (*open)(struct operands *operands);

	/* Runs the kernels on set `set`. Returns as launchers do. */
	int (*launch)(const struct operands *operands, uint32_t set, struct CUstream_st *stream);

	/* Computes the outputs' host side with rounding to bf16, from that of the others. */
	void (*twin)(struct operands *operands);
};

/* Names a function that exists only under #ifdef QUIRE_HAS_CUDA. */
#ifdef QUIRE_HAS_CUDA
#define OP_ON_GPU(function) function
#else
#define OP_ON_GPU(function) NULL
#endif

#define OP_CASES(array) .cases = (array), .case_count = sizeof(array) / sizeof((array)[0])

/* Tokens that sequence `row` has, its chunk included: context, or when ragged something drawn from
   [1, context], and context itself in row 0. */
uint32_t op_case_context(const struct op_case *op_case, uint32_t row);

/* Tokens of it that a prefill computes: chunk, at most all of them. */
uint32_t op_case_chunk(const struct op_case *op_case, uint32_t row);

/* What most operations fill in. The kernels of rows take 16 bytes at a time. */
bool op_fits_rows(const struct op_case *op_case);
void op_describe_rows(const struct op_case *op_case, char *text);

#endif
