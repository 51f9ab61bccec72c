#ifndef SIM_STEP_CURVES_H
#define SIM_STEP_CURVES_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/batch.h"

/* What a calibrated profile knows of a step: a sum of curves, each a table of nanoseconds over one
   variable of the step's counts, straight between its points and as steep as in its last part
   beyond them.

     time of a step = sum over curves of factor * curve(x)

   The points are the calibration's; it fits their heights. The GPU's curves and the host's are
   priced apart.

   X(name, x, factor, whether the host's, what it stands for). */
#define STEP_CURVE_LIST(X)                                                                         \
	X(decode_step, DECODE_STEP, ONE, false, "a step that only decodes")                        \
	X(decode_rows, PADDED_ROWS, ONE, false, "products and other work of decode rows")          \
	X(decode_ahead, AHEAD_ROWS, ONE, false, "what is slower where steps follow at once")       \
	X(decode_attention, DISTINCT_CONTEXT, ONE, false, "K and V read from memory")              \
	X(decode_shared, REUSE_DISTANCE, SHARED_CONTEXT, false, "K and V read again")              \
	X(decode_attention_rows, DECODE_ROWS, ONE, false, "decode rows, whatever they read")       \
	X(decode_spread, DECODE_ROWS, DECODE_MEAN_CONTEXT, false, "K and V, as rows fill the GPU") \
	X(decode_merge, DECODE_LONGEST, ONE, false, "parts that are merged for the longest row")   \
	X(sampled_rows, PADDED_SAMPLES, ONE, false, "lm_head and sampler")                         \
	X(prefill_step, PREFILL_STEP, ONE, false, "a step with prompts")                           \
	X(mixed_step, MIXED_STEP, ONE, false, "launches that only a mixed step has")               \
	X(prefill_tokens, PROMPT_STEP_ROWS, ONE, false, "products and other work, with prompts")   \
	X(mixed_rows, MIXED_ROWS, ONE, false, "products of decode rows beside prompts")            \
	X(prefill_rows, PREFILL_ROWS, ONE, false, "prompts, whatever their lengths")               \
	X(prefill_attention, PREFILL_TILES, MEAN_CONTEXT, false, "pairs, as they fill the GPU")    \
	X(prefill_context, PREFILL_STEP, LAST_CONTEXT, false, "keys that a tile walks through")    \
	X(host_decode_step, DECODE_STEP, ONE, true, "a step that only decodes")                    \
	X(host_ahead_step, AHEAD_STEP, ONE, true, "one launched before its predecessor has ended") \
	X(host_prefill_step, PREFILL_STEP, ONE, true, "a step with prompts")                       \
	X(host_rows, ROWS, ONE, true, "rows that are listed and sent")                             \
	X(host_decode_context, DECODE_CONTEXT, ONE, true, "parts of attention that are listed")    \
	X(host_prefill_tokens, PREFILL_TOKENS, ONE, true, "tokens that are listed and sent")

enum step_curve {
#define STEP_CURVE_ENUM(name, x, factor, is_host, what) STEP_CURVE_##name,
	STEP_CURVE_LIST(STEP_CURVE_ENUM)
#undef STEP_CURVE_ENUM
		STEP_CURVE_COUNT
};

enum { STEP_CURVE_POINTS = 32, STEP_BUCKET = 16, STEP_TILE = 128 };

struct step_curve_table {
	uint32_t count;		      /* points; 0: the curve is nothing */
	double at[STEP_CURVE_POINTS]; /* of x, rising from 0 */
	double ns[STEP_CURVE_POINTS]; /* 0 at first */
};

const char *step_curve_name(enum step_curve curve);
const char *step_curve_what(enum step_curve curve);
bool step_curve_is_host(enum step_curve curve);

/* Where on its curve a step lies, and what the curve is multiplied by there. Only + - * / on
   doubles. Decode rows and samples of a step that only decodes are padded to the next of 1, 2, 4,
   8, 16, 32, 48, ... as the CUDA runner pads its graphs. In a step with prompts all tokens, those
   of decode rows too, are one product, but for the weights whose products with decode rows are
   launched apart. Prompts are cut into tiles of STEP_TILE tokens, half of one more for each but the
   only one. K and V that several sequences hold are read from memory once; what each further
   reading costs depends on how many tokens are read since the one before, for the cache keeps the
   latest. The parts of a row are merged in turn, so the longest row ends last; counts that do not
   know it (0) have nothing to merge. */
struct step_place {
	double x, factor;
};

/* is_ahead: the step was launched before the one before it ended, so that what the host did for it
   cost no time but what the curve of such steps says. */
struct step_place step_curve_place(
	enum step_curve curve, const struct step_counts *counts, bool is_ahead);

double step_curve_at(const struct step_curve_table *table, double x);

#endif
