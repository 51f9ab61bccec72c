#include "sim/step_curves.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/shape/graph_bucket.h"
#include "engine/shape/kernel_tiles.h"

/* The variable of a curve, or its factor. */
enum variable {
	ONE,
	DECODE_STEP,
	AHEAD_STEP,
	AHEAD_ROWS,
	PREFILL_STEP,
	MIXED_STEP,
	MIXED_ROWS,
	ROWS,
	DECODE_ROWS,
	PADDED_ROWS,
	PADDED_SAMPLES,
	DECODE_CONTEXT,
	SHARED_CONTEXT, /* tokens of decode rows in shared blocks, beyond the first reading of each
			   */
	DISTINCT_CONTEXT,    /* all other tokens of decode rows */
	REUSE_DISTANCE,	     /* tokens read between two readings of a shared token */
	DECODE_MEAN_CONTEXT, /* of decode rows */
	DECODE_LONGEST,	     /* context of a decode row; 0 where it is not known */
	PREFILL_TOKENS,
	PROMPT_STEP_ROWS,
	PREFILL_TILES,
	PREFILL_ROWS,
	MEAN_CONTEXT, /* of prompt tokens */
	LAST_CONTEXT, /* of a prompt's last token, if all prompts of the step were equal */
};

static const struct {
	const char *name, *what;
	enum variable x, factor;
	bool is_host;
} curves[STEP_CURVE_COUNT] = {
#define STEP_CURVE_ROW(name, x, factor, is_host, what) {#name, what, x, factor, is_host},
	STEP_CURVE_LIST(STEP_CURVE_ROW)
#undef STEP_CURVE_ROW
};

const char *step_curve_name(enum step_curve curve)
{
	return curves[curve].name;
}

const char *step_curve_what(enum step_curve curve)
{
	return curves[curve].what;
}

bool step_curve_is_host(enum step_curve curve)
{
	return curves[curve].is_host;
}

static double variable_of(enum variable variable, const struct step_counts *counts)
{
	bool has_decodes = counts->decode_rows > 0;
	bool has_prompts = counts->prefill_tokens > 0;
	double tokens = (double)counts->prefill_tokens;
	double mean = has_prompts ? (double)counts->prefill_attention_pairs / tokens : 0;
	double shared = (double)u64_min(counts->shared_tokens, counts->decode_context_tokens);

	switch (variable) {
	case ONE:
		return 1;
	case DECODE_STEP:
		return has_decodes && !has_prompts;
	case AHEAD_STEP:
	case AHEAD_ROWS:
		return 0; /* not of the counts: step_curve_point_of() decides */
	case PROMPT_STEP_ROWS:
		return has_prompts ? tokens + (double)counts->decode_rows : 0;
	case PREFILL_STEP:
		return has_prompts;
	case MIXED_STEP:
		return has_decodes && has_prompts;
	case MIXED_ROWS:
		return has_prompts ? (double)counts->decode_rows : 0;
	case ROWS:
		return (double)(counts->decode_rows + counts->prefill_rows);
	case DECODE_ROWS:
		return (double)counts->decode_rows;
	case PADDED_ROWS:
		return (double)(has_prompts ? 0 : graph_bucket(counts->decode_rows));
	case PADDED_SAMPLES:
		return (double)(has_prompts ? counts->sampled_rows
					    : graph_bucket(counts->sampled_rows));
	case DECODE_CONTEXT:
		return (double)counts->decode_context_tokens;
	case SHARED_CONTEXT:
		return shared;
	case DISTINCT_CONTEXT:
		return (double)counts->decode_context_tokens - shared;
	case REUSE_DISTANCE:
		return counts->pair_tokens > 0 ? (double)counts->decode_context_tokens *
							 (double)counts->shared_tokens /
							 (2 * (double)counts->pair_tokens)
					       : 0;
	case DECODE_MEAN_CONTEXT:
		return has_decodes
			       ? (double)counts->decode_context_tokens / (double)counts->decode_rows
			       : 0;
	case DECODE_LONGEST:
		return (double)counts->decode_longest_context;
	case PREFILL_TOKENS:
		return tokens;
	case PREFILL_TILES:
		return counts->prefill_rows > 1
			       ? tokens / PREFILL_QUERY_TILE + 0.5 * (double)counts->prefill_rows
			       : (double)u64_divide_up(counts->prefill_tokens, PREFILL_QUERY_TILE);
	case PREFILL_ROWS:
		return (double)counts->prefill_rows;
	case MEAN_CONTEXT:
		return mean;
	case LAST_CONTEXT:
		return has_prompts ? mean + tokens / (2.0 * (double)counts->prefill_rows) : 0;
	}
	check_unreachable("no such variable");
}

struct step_curve_point step_curve_point_of(
	enum step_curve curve, const struct step_counts *counts, bool is_ahead)
{
	if (is_ahead && curves[curve].is_host) {
		return (struct step_curve_point){.x = curves[curve].x == AHEAD_STEP, .factor = 1};
	}
	if (is_ahead && curves[curve].x == AHEAD_ROWS) {
		return (struct step_curve_point){
			.x = variable_of(PADDED_ROWS, counts), .factor = 1};
	}
	return (struct step_curve_point){
		.x = variable_of(curves[curve].x, counts),
		.factor = variable_of(curves[curve].factor, counts),
	};
}

double step_curve_at(const struct step_curve_table *table, double x)
{
	uint32_t i = 0;

	if (table->count < 2) {
		return 0;
	}
	while (i + 2 < table->count && x > table->at[i + 1]) {
		i++;
	}
	double share = (x - table->at[i]) / (table->at[i + 1] - table->at[i]);
	return table->ns[i] + share * (table->ns[i + 1] - table->ns[i]);
}
