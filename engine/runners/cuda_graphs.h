#ifndef ENGINE_RUNNERS_CUDA_GRAPHS_H
#define ENGINE_RUNNERS_CUDA_GRAPHS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/status.h"
#include "engine/runners/cuda_launcher.h"
#include "engine/shape/graph_bucket.h"

/* Decode steps as captured CUDA graphs, one for each batch size to which steps are padded. Eager
   steps are padded too, so that a step is the same work with and without a graph. */

struct CUgraphExec_st;

enum { CUDA_GRAPHS_MAX = 5 + 65536 / GRAPH_BUCKET_STEP };

struct cuda_bucket {
	uint32_t row_count;
	struct cuda_step_layout layout;
	/* of steps whose decode attention is not long, and is long
	   (kernels/attention/decode_list.h); NULL: eager */
	struct CUgraphExec_st *graphs[2];
};

struct cuda_graphs {
	struct cuda_bucket buckets[CUDA_GRAPHS_MAX]; /* by rising row_count */
	uint32_t bucket_count;
};

/* Sets the bucket sizes up to max_num_seqs rows, which is the last one. Captures nothing. */
void cuda_graphs_init(struct cuda_graphs *graphs, uint32_t max_num_seqs);

/* Runs an eager step of every size, which loads its kernels. Then captures the graphs and
   launches one. is_eager: no graphs. */
enum status cuda_graphs_open(struct cuda_graphs *graphs, struct cuda_launcher *launcher,
	bool is_eager, struct error *error);

void cuda_graphs_close(struct cuda_graphs *graphs);

/* The smallest bucket that holds row_count rows. */
const struct cuda_bucket *cuda_graphs_bucket(const struct cuda_graphs *graphs, uint32_t row_count);

#endif
