#ifndef SIM_STEP_CURVES_H
#define SIM_STEP_CURVES_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/batch.h"

/* How a calibrated profile prices a step: as a sum of curves. Each is a table of nanoseconds over
   one variable of the step's counts, linear between its points. Beyond the last point it continues
   with the slope of its last segment.

     time of a step = sum over curves of factor * curve(x)

   The calibration chooses the points and fits their heights. Curves of the GPU and of the host are
   summed separately.

   X(name, x, factor, is it the host's?, what it stands for). */
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

enum { STEP_CURVE_POINTS = 32 };

/* Points lie within this distance of 0, in x and in height. */
#define STEP_CURVE_LIMIT 1e15

struct step_curve_table {
	uint32_t count;		      /* points; 0: the curve is 0 everywhere */
	double at[STEP_CURVE_POINTS]; /* x of each point, rising from 0 */
	double ns[STEP_CURVE_POINTS]; /* height of each point, the first is 0 */
};

const char *step_curve_name(enum step_curve curve);
const char *step_curve_what(enum step_curve curve);
bool step_curve_is_host(enum step_curve curve);

/* Where a step lies on a curve, and the factor of the curve there. Computed with + - * / on doubles
   only.

   Decode rows and samples of a step that only decodes are padded as the CUDA runner pads its graphs
   (engine/shape/graph_bucket.h). In a step with prompts every linear layer has one launch for all
   tokens; only with split-K do decode rows have a launch of their own.

   Prompts are cut into tiles of PREFILL_QUERY_TILE tokens. Each of several prompts counts half a
   tile more, a single one is rounded up.

   K and V that several sequences share are read from memory once. The cost of each further read
   depends on how many tokens are read in between, since the L2 cache keeps the latest.

   The splits of a row are merged one after the other, so the longest row ends last. Where its
   length is unknown (0), merging costs nothing. */
struct step_curve_point {
	double x, factor;
};

/* is_ahead: the step was launched before its predecessor ended. Then the host's work for it costs
   only what the curve of such steps says. */
struct step_curve_point step_curve_point_of(
	enum step_curve curve, const struct step_counts *counts, bool is_ahead);

double step_curve_at(const struct step_curve_table *table, double x);

/* Segments in which the latest step lay, where the next one is looked for first: steps that follow
   each other are much alike. They change no result; all 0 at first. */
struct step_curve_hints {
	uint32_t segment[STEP_CURVE_COUNT];
};

/* factor * curve(x) of every curve for a step. tables, ns: (STEP_CURVE_COUNT). */
void step_curves_price(const struct step_curve_table *tables, const struct step_counts *counts,
	bool is_ahead, struct step_curve_hints *hints, double *ns);

#endif
