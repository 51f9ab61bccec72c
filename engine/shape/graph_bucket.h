#ifndef ENGINE_SHAPE_GRAPH_BUCKET_H
#define ENGINE_SHAPE_GRAPH_BUCKET_H

#include <stdint.h>

/* The CUDA runner pads decode steps to 1, 2, 4, 8, 16, 32, 48, ... rows and captures a graph for
   each size. */

enum { GRAPH_BUCKET_STEP = 16 }; /* sizes double up to it, then grow by it */

/* The smallest graph size >= rows; 0 for 0 rows. */
uint64_t graph_bucket(uint64_t rows);

#endif
