#include "sim/step_hull.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"

#include <string.h>

static inline uint32_t octave(uint64_t count)
{
	uint32_t bits = count == 0 ? 0 : 64 - (uint32_t)__builtin_clzll(count);

	return bits < STEP_HULL_OCTAVES ? bits : STEP_HULL_OCTAVES - 1;
}

static inline uint32_t context_octave(const struct step_counts *counts)
{
	return counts->decode_rows == 0
		       ? 0
		       : octave(counts->decode_context_tokens / counts->decode_rows);
}

void step_hull_init(struct step_hull *hull)
{
	memset(hull, 0, sizeof(*hull));
}

/* Whether octaves `a` and `b` are equal or beside each other; 0 is beside none. */
static bool is_near(uint32_t a, uint32_t b)
{
	return a == b || (a > 0 && b > 0 && (a + 1 == b || b + 1 == a));
}

void step_hull_add_cell(struct step_hull *hull, uint32_t rows, uint32_t tokens, uint32_t context)
{
	check(rows < STEP_HULL_OCTAVES && tokens < STEP_HULL_OCTAVES);
	check(context < STEP_HULL_OCTAVES);
	hull->measured[rows][tokens] |= UINT32_C(1) << context;
	hull->inside[rows][tokens] |= UINT32_C(1) << context;
	for (uint32_t i = 0; i < STEP_HULL_OCTAVES; i++) {
		uint32_t bit = UINT32_C(1) << context;
		hull->inside[i][tokens] |= is_near(i, rows) ? bit : 0;
		hull->inside[rows][i] |= is_near(i, tokens) ? bit : 0;
		hull->inside[rows][tokens] |= is_near(i, context) ? UINT32_C(1) << i : 0;
	}
}

void step_hull_add(struct step_hull *hull, const struct step_counts *counts)
{
#define RAISE(count) hull->largest.count = u64_max(hull->largest.count, counts->count);
	STEP_HULL_COUNT_LIST(RAISE)
#undef RAISE
	step_hull_add_cell(hull, octave(counts->decode_rows), octave(counts->prefill_tokens),
		context_octave(counts));
}

bool step_hull_is_outside(const struct step_hull *hull, const struct step_counts *counts)
{
	const struct step_counts *most = &hull->largest;
	uint32_t cells = hull->inside[octave(counts->decode_rows)][octave(counts->prefill_tokens)];

	return (cells >> context_octave(counts) & 1) == 0 ||
	       counts->decode_rows > most->decode_rows ||
	       counts->prefill_rows > most->prefill_rows ||
	       counts->prefill_tokens > most->prefill_tokens ||
	       counts->decode_context_tokens > most->decode_context_tokens ||
	       counts->prefill_attention_pairs > most->prefill_attention_pairs ||
	       counts->sampled_rows > most->sampled_rows ||
	       counts->shared_tokens > most->shared_tokens ||
	       (most->decode_longest_context > 0 &&
		       counts->decode_longest_context > most->decode_longest_context) ||
	       (most->prefill_longest_context > 0 &&
		       counts->prefill_longest_context > most->prefill_longest_context);
}
