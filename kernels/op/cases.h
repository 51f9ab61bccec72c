#ifndef KERNELS_OP_CASES_H
#define KERNELS_OP_CASES_H

#include <stdbool.h>
#include <stdint.h>

/* The one table of what operations are tested and timed with. Tests of the CPU twins run the tiny
   cases against naive formulas; tests of a GPU run all that fit against the twins; a benchmark runs
   the others and divides by the bytes and the arithmetic that a case cannot do without.

   Odd sizes come first: one row, edges of blocks and tiles and the places beside them, every number
   of query heads to a key/value head from 1 to 8. Sizes of models follow. */

#define KERNEL_LIST(X)                                                                             \
	X(KERNEL_EMBEDDING, "embedding")                                                           \
	X(KERNEL_RMS_NORM, "rms_norm")                                                             \
	X(KERNEL_ADD_RMS_NORM, "add_rms_norm")                                                     \
	X(KERNEL_QK_NORM_ROPE_STORE, "qk_norm_rope_store")                                         \
	X(KERNEL_DECODE_ATTENTION, "decode_attention")                                             \
	X(KERNEL_PREFILL_ATTENTION, "prefill_attention")                                           \
	X(KERNEL_SILU_MUL, "silu_mul")                                                             \
	X(KERNEL_GATHER_ROWS, "gather_rows")                                                       \
	X(KERNEL_MATMUL, "matmul")                                                                 \
	X(KERNEL_DECODE_MATMUL, "decode_matmul")                                                   \
	X(KERNEL_DECODE_MATMUL_SILU, "decode_matmul_silu")                                         \
	X(KERNEL_SAMPLER, "sampler")

enum kernel {
#define KERNEL_ENUM(name, text) name,
	KERNEL_LIST(KERNEL_ENUM)
#undef KERNEL_ENUM
		KERNEL_COUNT
};

struct kernel_case {
	enum kernel kernel;
	bool is_tiny;	   /* done by a CPU in no time; the others are sizes of models */
	uint32_t rows;	   /* tokens; of attention: sequences; of gather_rows: rows picked */
	uint32_t width;	   /* of a row in: hidden, intermediate or input size */
	uint32_t outputs;  /* products: rows of the weight; embedding, sampler: the vocabulary */
	bool has_bias;	   /* matmul */
	uint32_t heads;	   /* query heads */
	uint32_t kv_heads; /* key/value heads, divides heads */
	uint32_t head_dim;
	uint32_t block_size; /* a multiple of 64 where a GPU takes the case */
	uint32_t context;    /* of the longest sequence, see kernel_case_context() */
	uint32_t chunk;	     /* prefill: tokens computed of it, see kernel_case_chunk() */
	bool is_ragged;	     /* sequences differ in length */
};

const char *kernel_name(enum kernel kernel);

/* NULL past the end; in order of the kernels. */
const struct kernel_case *kernel_case_at(uint32_t index);

/* Tokens that sequence `row` has, its chunk included: context, or when ragged something drawn from
   [1, context], and context itself in row 0. */
uint32_t kernel_case_context(const struct kernel_case *kernel_case, uint32_t row);

/* Tokens of it that a prefill computes: chunk, at most all of them. */
uint32_t kernel_case_chunk(const struct kernel_case *kernel_case, uint32_t row);

/* What the operation has to read and write at least, two bytes for each element of a tensor, four
   for ids and logits, and the products and sums it has to make, two for each multiplication of a
   matrix product or of attention and none else. */
uint64_t kernel_case_bytes(const struct kernel_case *kernel_case);
uint64_t kernel_case_flops(const struct kernel_case *kernel_case);

/* Inputs, a function of key and index alone. */
enum case_values {
	CASE_INTEGERS, /* in [-4, 4]: their products and sums are exact, so any order is right */
	CASE_UNIFORM,  /* in [-1, 1], values that bf16 holds */
};
void case_fill(float *out, uint64_t count, uint64_t key, enum case_values values);

#endif
