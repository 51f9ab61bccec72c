#ifndef KERNELS_OP_DOT_H
#define KERNELS_OP_DOT_H

#include <stdint.h>

/* The dot product of a and b over count elements. All CPU twins sum in this order:

       lane l of 16 sums the products of elements l, l + 16, l + 32, ... in this order, from 0;
       then lanes l and l + 8 are added, l and l + 4, l and l + 2, and at last lanes 0 and 1

   The result depends on nothing but the two vectors. A compiler can keep the lanes in vector
   registers without changing a bit. */

enum { DOT_LANES = 16 };

float dot_f32(const float *a, const float *b, uint32_t count);
float dot_bf16(const float *a, const uint16_t *b, uint32_t count);

#endif
