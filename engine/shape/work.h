#ifndef ENGINE_SHAPE_WORK_H
#define ENGINE_SHAPE_WORK_H

#include <stdint.h>

struct model_config;

/* The least that an operation has to move and to compute, however it is implemented. The kernel
   benchmark, the kernel times of a run and the cost model all use these numbers.

   bytes: every tensor that is read or written, counted once: 2 per bf16 element, 4 per id or
   float32. Caches can reduce the traffic on the memory bus, and a kernel may move more. flops: 2
   for each multiplication and addition of a linear layer or of attention. Memory-bound operations
   have 0: their arithmetic is not counted. */

struct work {
	uint64_t bytes; /* 0: unknown */
	uint64_t flops; /* 0: not counted */
};

/* Reads and writes rows of `width` elements; embedding reads an id per row too. */
struct work work_embedding(uint64_t rows, uint64_t width);
struct work work_gather_rows(uint64_t rows, uint64_t width);
struct work work_rms_norm(uint64_t rows, uint64_t width);

/* Reads the rows and the residual stream, writes the sum and its norm. */
struct work work_add_rms_norm(uint64_t rows, uint64_t width);

/* The same on each of several ranks, with the rows as partial sums of all ranks. */
struct work work_exchange_add_rms_norm(uint64_t rows, uint64_t width, uint64_t ranks);

/* On each rank: reads the best of a row's tiles, sends and gets one word for each peer, writes an
   id. */
struct work work_exchange_candidates(uint64_t rows, uint64_t tiles, uint64_t ranks);

/* Reads gate and up, writes their product. width: of each of the three. */
struct work work_silu_mul(uint64_t rows, uint64_t width);

/* Reads queries, keys and values, writes queries and the pool. query_width, key_width: elements of
   all query heads and of all key/value heads. */
struct work work_qk_norm_rope_store(uint64_t rows, uint64_t query_width, uint64_t key_width);

struct attention_counts {
	uint64_t contexts; /* tokens whose keys and values are read, once for each sequence */
	uint64_t queries;  /* tokens that attend */
	uint64_t pairs;	   /* of a query and a token that it attends to */
};

/* Reads queries, keys and values, writes one output for each query. */
struct work work_attention(
	const struct attention_counts *counts, uint64_t query_width, uint64_t key_width);

/* Reads the weight (outputs, inputs) and rows, writes rows of output_bytes an element. */
struct work work_linear(uint64_t rows, uint64_t inputs, uint64_t outputs, uint64_t output_bytes);

/* A linear layer with silu_mul() behind it: half of the outputs are written. */
struct work work_linear_silu(uint64_t rows, uint64_t inputs, uint64_t outputs);

/* Reads logits in float32, writes an id. */
struct work work_sampler(uint64_t rows, uint64_t vocabulary_size);

struct range_counts {
	uint64_t rows;		  /* that the range computes; 0: unknown */
	uint64_t ranks;		  /* of tensor parallelism; 1: none */
	uint64_t decode_contexts; /* of the step: tokens that its decode rows attend to */
	uint64_t prefill_pairs;	  /* of the step: of a prefill token and one that it attends to */
};

/* The work of one range of the forward pass by its name (engine/runners); of an operation in the
   layers that of one layer. model: with several ranks that of a shard (weight_shard_config()). Work
   that the counts do not determine is 0, such as the keys and values
   that prefill reads; so is the work of a name that is not an operation. */
struct work work_of_range(
	const struct model_config *model, const char *name, const struct range_counts *counts);

#endif
