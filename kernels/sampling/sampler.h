#ifndef KERNELS_SAMPLING_SAMPLER_H
#define KERNELS_SAMPLING_SAMPLER_H

#include "engine/shape/kernel_tiles.h"
#include "kernels/op/launch.h"
#include "kernels/sampling/candidate.h"
#include "kernels/sampling/sampler_noise.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Samples a token from each row of logits by the Gumbel-max rule:

       token = the id with the largest score, the lowest of equals
       score = logit[id] + temperature * noise(row key, id)

   This draws id with probability proportional to exp(logit[id] / temperature). Temperature 0 is
   greedy. Small temperatures approach it smoothly, since nothing is divided by the temperature.
   Product and sum are rounded to float32 separately.

       noise = -log(-log(1 - u))
       u     = (bits + 0.5) / 2^32
       bits  = the low half (even id) or the high half (odd id) of counter_hash(row key, id / 2)

   The row key is a hash of seed, request and position. So a token depends only on these and on its
   logits, not on the batch, and a rank that holds a range of the vocabulary draws the same noise
   for it. -log(1 - u) is computed without cancellation, so the upper tail keeps its shape up to its
   end at 22.9 (u = 2^-33).

   A NaN logit counts as -infinity. An infinite logit beats every finite one. If all logits are
   -infinity or NaN, the token is 0. */

/* Above this the product with the noise could be infinite. */
#define SAMPLER_TEMPERATURE_MAX 1e30f

/* The key of a row's noise; position is that of the token to be sampled. */
uint64_t sampler_row_key(uint64_t seed, uint64_t request, uint32_t position);

/* token_ids: (row_count); logits: (row_count, vocabulary_size) float32; row_keys, temperatures:
   (row_count), temperatures in [0, SAMPLER_TEMPERATURE_MAX]; vocabulary_size in [1, 2^31). */
void sampler_cpu(int32_t *token_ids, const float *logits, const uint64_t *row_keys,
	const float *temperatures, uint32_t row_count, uint32_t vocabulary_size);

/* The best of the ids [first_id, first_id + count), whose logits are given. The best of the
   candidates of all parts of a vocabulary is the token of sampler_cpu(). */
struct candidate sampler_candidate_cpu(const float *logits, uint64_t row_key, float temperature,
	uint32_t first_id, uint32_t count);

/* On the GPU: two kernels, the best of each tile of the vocabulary, then the best of a row's tiles.
   The tokens are those of the CPU twin for the same logits. Each token is also stored to
   last_tokens of its row.

   tiles: (row_count, ceil(vocabulary_size / SAMPLER_TILE)) of SAMPLER_TILE_BYTES, scratch; rows:
   (row_count) index into last_tokens, or SAMPLER_NO_ROW: not stored. */
#define SAMPLER_NO_ROW UINT32_MAX

int sampler(int32_t *token_ids, int32_t *last_tokens, void *tiles, const float *logits,
	const uint64_t *row_keys, const float *temperatures, const uint32_t *rows,
	uint32_t row_count, uint32_t vocabulary_size, struct CUstream_st *stream);

/* The first of the two kernels, for a rank that holds the ids [first_id, first_id + count) of a
   vocabulary: logits (row_count, count), tiles (row_count, sampler_tile_count()). The second is
   exchange_candidates() (kernels/exchange/exchange.h). */
int sampler_tiles(void *tiles, const float *logits, const uint64_t *row_keys,
	const float *temperatures, uint32_t row_count, uint32_t first_id, uint32_t count,
	struct CUstream_st *stream);

/* Tiles of a row, at most ceil(count / SAMPLER_TILE). */
uint32_t sampler_tile_count(uint32_t row_count, uint32_t count);

#ifdef __cplusplus
}
#endif

#endif
