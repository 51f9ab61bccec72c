#ifndef ENGINE_SHAPE_GRAPH_BUCKET_H
#define ENGINE_SHAPE_GRAPH_BUCKET_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/shape/model_config.h"

/* The CUDA runner captures steps as graphs of some sizes, to which it pads them: 1, 2, 4, 8, 16,
   32, 48, ... decode rows, and of small models as many prompt tokens beside none or so many decode
   rows. */

enum {
	GRAPH_BUCKET_STEP = 16, /* sizes double up to it, then grow by it */

	/* The most of a graph with prompts, which has a tile of attention for each prompt and one
	   more. An H200 cuts tiles in halves up to 4 tiles of 16 query heads, a GPU of fewer
	   multiprocessors up to fewer (kernels/attention/prefill_sm90.cu): with room for a fourth
	   prompt, 256 tokens of qwen3-0.6b behind 114,688 took 38.2 ms instead of 29.0. */
	GRAPH_PROMPT_TOKENS = 256,
	GRAPH_PROMPTS = 3,
	GRAPH_PROMPT_DECODES = 128, /* decode rows */
};

/* Elements of the layers' weights, up to which a model has graphs with prompts: qwen3-0.6b and 1.7b
   have fewer, qwen3-4b 3.6 billion. Source: engine/runners/TUNING.md, "Graphs with prompts". */
#define GRAPH_PROMPT_WEIGHTS UINT64_C(2000000000)

/* The smallest size >= count; 0 for 0. */
uint64_t graph_bucket(uint64_t count);

/* The most prompt tokens in a graph of a model; 0: it has graphs of decode steps alone. */
uint64_t graph_prompt_tokens(const struct model_config *model);

/* Whether a step with prompts has a graph, where graphs have up to most_tokens prompt tokens. */
bool graph_holds_prompts(
	uint64_t most_tokens, uint64_t decode_rows, uint64_t prompts, uint64_t tokens);

#endif
