#ifndef KERNELS_ATTENTION_ROPE_TABLE_H
#define KERNELS_ATTENTION_ROPE_TABLE_H

#include <stdint.h>

/* Cosines and sines of the rotary position embedding (RoPE), made once for all positions:

       frequency(i) = 1 / theta^(2 i / head_dim)          for i in [0, head_dim / 2)
       table[p][i]  = (cos, sin) of p * frequency(i)

   Exponent, power, frequency and angle are each rounded to float32, as in the code that trained
   the models. At position 30,000 the exact angle differs from the rounded one by up to 10^-3,
   and the weights were trained with the rounded one. */

/* table: (position_count, head_dim / 2, 2) float32; head_dim even, position_count at most 2^28. */
void rope_table_fill(float *table, uint32_t position_count, uint32_t head_dim, double theta);

#endif
