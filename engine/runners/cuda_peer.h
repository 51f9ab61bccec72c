#ifndef ENGINE_RUNNERS_CUDA_PEER_H
#define ENGINE_RUNNERS_CUDA_PEER_H

#include <stdint.h>

#include "engine/base/status.h"
#include "engine/ranks/ranks.h"

/* Memory of every rank's GPU that all ranks can read and write: each rank allocates one piece and
   maps those of the others (NVLink or PCIe).

   A piece is a cuMem allocation, handed over as a file descriptor. A mapping keeps the memory
   alive, so the death of a rank does not pull it away from kernels of the others. Where the system
   refuses descriptors, pieces are cudaMalloc's, handed over as legacy IPC handles. */

struct cuda_peer_piece {
	unsigned char *base;
	uint64_t handle; /* CUmemGenericAllocationHandle, 0: none */
};

struct cuda_peer_memory {
	struct cuda_peer_piece pieces[RANKS_MAX]; /* by rank */
	uint32_t rank, count;
	uint64_t bytes; /* of a piece */
	bool is_legacy; /* IPC handles in place of descriptors */
};

/* Collective: whether every rank's GPU can access the memory of all others. *missing: if not, the
   first pair that cannot, as text; (CUDA_PEER_TEXT) bytes. */
enum { CUDA_PEER_TEXT = 64 };
enum status cuda_peer_is_possible(
	struct ranks *ranks, bool *is_possible, char *missing, struct error *error);

/* Collective: allocates `bytes` of zeros on each rank's current GPU and maps them everywhere. Must
   be closed, also after a failure. */
enum status cuda_peer_open(
	struct cuda_peer_memory *memory, struct ranks *ranks, uint64_t bytes, struct error *error);

/* Not collective. No kernel of this rank may use the memory any more. */
void cuda_peer_close(struct cuda_peer_memory *memory);

#endif
