#ifndef KERNELS_SAMPLING_CANDIDATE_H
#define KERNELS_SAMPLING_CANDIDATE_H

#include "engine/base/both_sides.h"

#include <stdint.h>
#include <string.h>

/* The best token of a part of the vocabulary. The best of all parts does not depend on the order in
   which they are compared. */
struct candidate {
	float score; /* never NaN */
	int32_t id;
};

/* Of a part whose scores are all -infinity or NaN. Any other candidate is better. */
BOTH_SIDES static inline struct candidate candidate_none(void)
{
	const uint32_t bits = 0xff800000;
	struct candidate none;

	memcpy(&none.score, &bits, sizeof(bits));
	none.id = INT32_MAX;
	return none;
}

/* The larger score, or the lower id of equals. Associative and commutative. */
BOTH_SIDES static inline struct candidate candidate_better(struct candidate a, struct candidate b)
{
	int is_b = b.score > a.score || (b.score == a.score && b.id < a.id);

	return is_b ? b : a;
}

/* The token of the best candidate: 0 when there is none. */
BOTH_SIDES static inline int32_t candidate_token(struct candidate best)
{
	return best.id == INT32_MAX ? 0 : best.id;
}

/* A candidate in one word, as ranks exchange it. No candidate has all bits set. */
BOTH_SIDES static inline uint64_t candidate_pack(struct candidate candidate)
{
	uint32_t score;

	memcpy(&score, &candidate.score, sizeof(score));
	return (uint64_t)score << 32 | (uint32_t)candidate.id;
}

BOTH_SIDES static inline struct candidate candidate_unpack(uint64_t word)
{
	const uint32_t score = (uint32_t)(word >> 32);
	struct candidate candidate;

	memcpy(&candidate.score, &score, sizeof(score));
	candidate.id = (int32_t)(uint32_t)word;
	return candidate;
}

#endif
