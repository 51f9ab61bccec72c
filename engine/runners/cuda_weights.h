#ifndef ENGINE_RUNNERS_CUDA_WEIGHTS_H
#define ENGINE_RUNNERS_CUDA_WEIGHTS_H

#include "engine/model/weights.h"

/* Writes weight tensors to the GPU in bf16: copied from their files, or, for dummy weights,
   computed on the GPU by the definition in engine/model/weights_dummy.h. Rows travel through two
   pinned buffers: while one is copied to the GPU, the other is filled from the file. */

struct CUevent_st;

struct cuda_upload {
	uint16_t *buffers[2]; /* pinned, allocated by the first copy */
	struct CUevent_st *copied[2];
	uint32_t next; /* buffer to fill */
};

/* out: (rows, columns) of the shard, on the device; complete after cuda_upload_close(). Returns a
   cudaError_t as an int. The upload is zeroed by the caller at first. */
int cuda_upload_weight(struct cuda_upload *upload, uint16_t *out, const struct weights *weights,
	enum weight weight, uint32_t layer, struct weight_shard shard);

/* Waits for all copies and frees the buffers. Returns a cudaError_t as an int. */
int cuda_upload_close(struct cuda_upload *upload);

/* Fills out, on the device, with count bf16 numbers as keys and values of dummy weights are: of
   either sign, evenly spread within 2, the same ones again every 64 MiB. Complete when it returns.
   Returns a cudaError_t as an int. */
int cuda_fill_dummy(uint16_t *out, uint64_t count);

#endif
