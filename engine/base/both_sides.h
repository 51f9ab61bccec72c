#ifndef ENGINE_BASE_BOTH_SIDES_H
#define ENGINE_BASE_BOTH_SIDES_H

/* Marks the small functions that host and GPU share, so that there is one text of each. */

#ifdef __CUDACC__
#define BOTH_SIDES __host__ __device__
#else
#define BOTH_SIDES
#endif

#endif
