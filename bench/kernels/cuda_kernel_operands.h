#ifndef BENCH_KERNELS_CUDA_KERNEL_OPERANDS_H
#define BENCH_KERNELS_CUDA_KERNEL_OPERANDS_H

#include "kernels/op/cases.h"
#include "kernels/op/launch.h"
#include "kernels/linear/cublaslt.h"
#include "kernels/attention/paged_kv.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The tensors of a case of kernels/op/cases.h on the current device, in several sets, and the
   launch of the case on one of them. Only in builds with CUDA. */

/* Device memory of one tensor, one copy a set: the copy of set s lies at base + s * stride. */
struct operand {
	uint8_t *base;
	size_t stride; /* bytes; 0: all sets share it */
};

enum { OPERAND_COUNT = 12 };

struct kernel_operands {
	const struct kernel_case *kernel_case;
	enum kernel_path path;
	struct cublaslt *products; /* borrowed */
	uint32_t set_count;
	uint32_t processors;		      /* of the device */
	struct operand tensor[OPERAND_COUNT]; /* what each is, the case's kernel knows */
	struct attention_shape shape;
	uint32_t tile_count; /* of prefill attention */
	int code;	     /* of the first call that failed, as launchers return it */
};

/* Whether the device computes this case at all. */
bool kernel_operands_fit(const struct kernel_case *kernel_case);

/* Takes and fills everything. operands: kernel_case, path, products, set_count and processors are
   set, the rest is zeroed. Returns the code; to be closed in any case. */
int kernel_operands_open(struct kernel_operands *operands);
void kernel_operands_close(struct kernel_operands *operands);

/* Launches the case on set `set` < set_count. */
int kernel_operands_launch(
	const struct kernel_operands *operands, uint32_t set, struct CUstream_st *stream);

#endif
