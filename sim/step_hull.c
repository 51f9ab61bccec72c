#include "sim/step_hull.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"

#include <string.h>

static inline uint32_t octave(uint64_t count)
{
	if (count >> (STEP_HULL_OCTAVES - 2) != 0) {
		return STEP_HULL_OCTAVES - 1;
	}
	return 63 - (uint32_t)__builtin_clzll(2 * count + 1);
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

static inline bool has_larger_prompts(
	const struct step_counts *most, const struct step_counts *counts)
{
	return counts->prefill_rows > most->prefill_rows ||
	       counts->prefill_tokens > most->prefill_tokens ||
	       counts->prefill_attention_pairs > most->prefill_attention_pairs ||
	       (most->prefill_longest_context > 0 &&
		       counts->prefill_longest_context > most->prefill_longest_context);
}

bool step_hull_is_outside(const struct step_hull *hull, const struct step_counts *counts)
{
	const struct step_counts *most = &hull->largest;
	uint32_t tokens = 0;

	if (counts->prefill_rows > 0) {
		if (has_larger_prompts(most, counts)) {
			return true;
		}
		tokens = octave(counts->prefill_tokens);
	}
	uint32_t cells = hull->inside[octave(counts->decode_rows)][tokens];
	return (cells >> context_octave(counts) & 1) == 0 ||
	       counts->decode_rows > most->decode_rows ||
	       counts->decode_context_tokens > most->decode_context_tokens ||
	       counts->sampled_rows > most->sampled_rows ||
	       counts->shared_tokens > most->shared_tokens ||
	       (most->decode_longest_context > 0 &&
		       counts->decode_longest_context > most->decode_longest_context);
}
