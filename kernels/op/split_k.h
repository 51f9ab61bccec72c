#ifndef KERNELS_OP_SPLIT_K_H
#define KERNELS_OP_SPLIT_K_H

/* Slices into which linear layers with few outputs cut their inputs (kernels/linear/linear_plan.h),
   to be added by kernels/linear/ itself, or by kernels/rows/add_rms_norm.h. */
enum { SPLIT_K = 4 };

#endif
