#ifndef ENGINE_RUNNERS_CUDA_GRAPHS_H
#define ENGINE_RUNNERS_CUDA_GRAPHS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/status.h"
#include "engine/runners/cuda_launcher.h"
#include "engine/shape/graph_bucket.h"

/* Steps as captured CUDA graphs, one for each of the sizes of engine/shape/graph_bucket.h to which
   steps are padded. Eager steps of these sizes are padded too, so that a step is the same work with
   and without a graph. */

struct CUgraphExec_st;

enum {
	CUDA_GRAPHS_DECODE = 5 + 65536 / GRAPH_BUCKET_STEP,
	/* sizes of prompt tokens; and of decode rows beside them: none, without samples too, and as
	   many as there are */
	CUDA_GRAPHS_PROMPTS = 4 + GRAPH_PROMPT_TOKENS / GRAPH_BUCKET_STEP,
	CUDA_GRAPHS_ROWS = 6 + GRAPH_PROMPT_DECODES / GRAPH_BUCKET_STEP,
	CUDA_GRAPHS_MAX = CUDA_GRAPHS_DECODE + CUDA_GRAPHS_PROMPTS * CUDA_GRAPHS_ROWS,
};

struct cuda_bucket {
	struct cuda_step_sizes sizes;
	struct cuda_step_layout layout;
	/* of steps whose decode attention is not long, and is long
	   (kernels/attention/decode_list.h); NULL: eager */
	struct CUgraphExec_st *graphs[2];
};

struct cuda_graphs {
	/* by rising decode rows; then those with prompts, by rising tokens of these first */
	struct cuda_bucket buckets[CUDA_GRAPHS_MAX];
	uint32_t bucket_count, decode_count;
	uint32_t prompt_tokens; /* the most in a graph */
};

/* Sets the sizes of decode steps up to max_num_seqs rows, which is the last one, and those of steps
   with up to prompt_tokens prompt tokens and max_num_seqs decode rows. Captures nothing. */
void cuda_graphs_init(struct cuda_graphs *graphs, uint32_t max_num_seqs, uint32_t prompt_tokens);

/* Runs an eager step of every size, which loads its kernels. Then captures the graphs and
   launches one. is_eager: no graphs, and no steps with prompts, whose kernels the largest step has
   loaded for the most part (cuda_runner_open.c). */
enum status cuda_graphs_open(struct cuda_graphs *graphs, struct cuda_launcher *launcher,
	bool is_eager, struct error *error);

void cuda_graphs_close(struct cuda_graphs *graphs);

/* The smallest bucket that holds a step; NULL: none does. */
const struct cuda_bucket *cuda_graphs_bucket(
	const struct cuda_graphs *graphs, const struct step_counts *counts);

#endif
