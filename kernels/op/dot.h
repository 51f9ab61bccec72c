#ifndef KERNELS_OP_DOT_H
#define KERNELS_OP_DOT_H

#include <stdint.h>

/* The sum of a[i] * b[i] over count elements, in the order that all CPU twins share:

       lane l of 16 sums the products of elements l, l + 16, l + 32, ... in that order from 0,
       then lanes l and l + 8 are added, l and l + 4, l and l + 2, and at last 0 and 1

   It depends on nothing but the two vectors, and a compiler can keep the lanes in vector
   registers without changing a bit. */

enum { DOT_LANES = 16 };

float dot_f32(const float *a, const float *b, uint32_t count);
float dot_bf16(const float *a, const uint16_t *b, uint32_t count);

#endif
