#ifndef ENGINE_RUNNERS_CUDA_NCCL_H
#define ENGINE_RUNNERS_CUDA_NCCL_H

#include <stdint.h>

#include "engine/base/status.h"
#include "engine/ranks/ranks.h"

/* NCCL, which moves bytes between ranks whose GPUs cannot map each other's memory. It adds nothing:
   the order of its sums depends on their size. It is opened by dlopen(), so the program runs where
   it is not installed.

   NVLink multicast stays off (NCCL_NVLS_ENABLE=0): its sums are not used here, and it takes GPU
   memory. */

struct CUstream_st;
struct cuda_nccl;

/* Codes from here on, and below CUBLASLT_ERROR, are CUDA_NCCL_ERROR + an ncclResult_t. */
enum { CUDA_NCCL_ERROR = 90000 };
const char *cuda_nccl_error_text(int code);

/* Before ranks are started: NCCL reads its settings from the environment of each. */
void cuda_nccl_prepare(void);

/* Collective: connects the ranks on their current GPUs. */
enum status cuda_nccl_open(struct cuda_nccl **out, struct ranks *ranks, struct error *error);

/* Enqueues: out (ranks, bytes), the `bytes` of each rank's `own` in their order. Can be captured.
   Returns 0 or a code. */
int cuda_nccl_all_gather(struct cuda_nccl *nccl, void *out, const void *own, uint64_t bytes,
	struct CUstream_st *stream);

/* The failure of an operation under way, 0: none. */
int cuda_nccl_failure(const struct cuda_nccl *nccl);

/* Once ranks have failed, in place of closing: what an abort does to a communicator that still
   opens is not defined, and one in use waits for threads that wait for a rank. The process has to
   end: NCCL's threads and its kernels go on until then. It will flush its files and run no exit
   functions. */
void cuda_nccl_leave(void);

/* Of ranks that have not failed. Accepts NULL. */
void cuda_nccl_close(struct cuda_nccl *nccl);

#endif
