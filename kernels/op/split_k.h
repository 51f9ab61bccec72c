#ifndef KERNELS_OP_SPLIT_K_H
#define KERNELS_OP_SPLIT_K_H

/* The number of slices into which split-K linear layers cut their inputs
   (kernels/linear/linear_plan.h). Both kernels/linear/ and kernels/rows/add_rms_norm.h add the
   slices. */
enum { SPLIT_K = 4 };

#endif
