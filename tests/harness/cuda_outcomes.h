#ifndef TESTS_HARNESS_CUDA_OUTCOMES_H
#define TESTS_HARNESS_CUDA_OUTCOMES_H

#include "engine/runners/cuda_exchange.h"
#include "tests/harness/cuda_run.h"

/* Runs of the same requests under different setups on the GPU, and what each request got: its
   tokens, and the bits of its keys and values. */

enum { LENGTH_MAX = PROMPT_MAX + OUTPUT_MAX, KV_TENSORS_MAX = 6 };

/* The tokens of a request, and for each position a hash of the keys, and one of the values, of each
   layer. */
struct outcome {
	uint32_t prompt_count, token_count;
	uint32_t cached_count, preemption_count;
	int32_t tokens[LENGTH_MAX];
	uint64_t kv[LENGTH_MAX][KV_TENSORS_MAX];
};

struct outcomes {
	struct outcome of[REQUESTS];
	uint64_t preemptions, graph_steps, eager_steps, mixed_steps;
	uint64_t prompt_graphs; /* graph steps with prompts; not with is_async */
	uint64_t shared_steps;	/* with decode rows that share the blocks of a whole split */
	uint64_t most_decode_rows;
	uint64_t dropped_rows; /* with is_async: behind an EOS */
};

/* How requests are run. */
struct setup {
	const char *name;
	const char *policy;
	uint32_t max_num_seqs;
	uint32_t max_num_batched_tokens;
	uint32_t blocks;    /* of 64 tokens; of others, as many as hold the same tokens */
	bool is_one_by_one; /* one request after the other, each with an empty cache */
	bool is_eager;
	bool reads_prefixes_apart;
	uint32_t block_size; /* 0: 64 */
	bool is_async;	     /* policy vllm: asynchronous scheduling */
	int32_t eos_token;   /* ends every request; 0: none */
	uint32_t background; /* others with prompts of a few tokens, there from the start */

	uint32_t ranks; /* 0: one; else the run is a process of its own, and K/V are rank 0's */
	enum cuda_transport transport;
	bool is_forced; /* completions are given */
	bool is_ahead;	/* with is_forced: launches each step before the preceding one has ended */
};

/* Models whose layers choose every kind of linear kernel: small weights; those of qwen3-0.6b, with
   split-K; those of qwen3-8b, whose order of summation decode rows share with prefill rows; those
   of qwen3-1.7b, whose down has split-K also where two ranks share it. */
enum { INVARIANCE_MODELS = 4 };
void open_invariance(struct subject *subject, uint32_t i);

/* free() it. With ranks nothing of CUDA may have been called in this process. */
struct outcomes *run_setup(
	const struct subject *subject, const struct setup *setup, enum kernel_path path);

/* Compares every request, or only those that were never preempted. */
void expect_equal_outcomes(const char *model, const char *name, const struct outcomes *a,
	const struct outcomes *b, bool with_preempted);

#endif
