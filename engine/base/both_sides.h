#ifndef ENGINE_BASE_BOTH_SIDES_H
#define ENGINE_BASE_BOTH_SIDES_H

/* Marks small functions that are compiled for both host and GPU. */

#ifdef __CUDACC__
#define BOTH_SIDES __host__ __device__
#else
#define BOTH_SIDES
#endif

#endif
