#include "sim/step_curves.h"

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
	VARIABLE_COUNT
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

/* ---- variables ---- */

struct step_variables {
	bool is_ahead;
	double at[VARIABLE_COUNT];
};

static void set_steps(struct step_variables *variables, const struct step_counts *counts)
{
	double *at = variables->at;
	bool has_decodes = counts->decode_rows > 0;
	bool has_prompts = counts->prefill_tokens > 0;

	at[DECODE_STEP] = has_decodes && !has_prompts;
	at[PREFILL_STEP] = has_prompts;
	at[MIXED_STEP] = has_decodes && has_prompts;
	at[ROWS] = (double)(counts->decode_rows + counts->prefill_rows);
	at[PADDED_ROWS] = (double)(has_prompts ? 0 : graph_bucket(counts->decode_rows));
	at[PADDED_SAMPLES] =
		(double)(has_prompts ? counts->sampled_rows : graph_bucket(counts->sampled_rows));
}

static void set_decodes(struct step_variables *variables, const struct step_counts *counts)
{
	double *at = variables->at;
	double rows = (double)counts->decode_rows;
	double context = (double)counts->decode_context_tokens;
	double shared = (double)u64_min(counts->shared_tokens, counts->decode_context_tokens);

	at[DECODE_ROWS] = rows;
	at[DECODE_CONTEXT] = context;
	at[SHARED_CONTEXT] = shared;
	at[DISTINCT_CONTEXT] = context - shared;
	at[REUSE_DISTANCE] = counts->pair_tokens > 0 ? context * (double)counts->shared_tokens /
							       (2 * (double)counts->pair_tokens)
						     : 0;
	at[DECODE_MEAN_CONTEXT] = rows > 0 ? context / rows : 0;
	at[DECODE_LONGEST] = (double)counts->decode_longest_context;
}

static void set_prompts(struct step_variables *variables, const struct step_counts *counts)
{
	double *at = variables->at;
	double tokens = (double)counts->prefill_tokens;
	double rows = (double)counts->prefill_rows;
	double mean = tokens > 0 ? (double)counts->prefill_attention_pairs / tokens : 0;

	at[PROMPT_STEP_ROWS] = tokens > 0 ? tokens + (double)counts->decode_rows : 0;
	at[MIXED_ROWS] = tokens > 0 ? (double)counts->decode_rows : 0;
	at[PREFILL_TOKENS] = tokens;
	at[PREFILL_ROWS] = rows;
	at[PREFILL_TILES] = counts->prefill_rows > 1 ? tokens / PREFILL_QUERY_TILE + 0.5 * rows
						     : (double)u64_divide_up(counts->prefill_tokens,
							       PREFILL_QUERY_TILE);
	at[MEAN_CONTEXT] = mean;
	at[LAST_CONTEXT] = tokens > 0 ? mean + tokens / (2.0 * rows) : 0;
}

static void set_variables(
	struct step_variables *variables, const struct step_counts *counts, bool is_ahead)
{
	*variables = (struct step_variables){.is_ahead = is_ahead, .at[ONE] = 1};
	set_steps(variables, counts);
	set_decodes(variables, counts);
	if (counts->prefill_rows + counts->prefill_tokens > 0) {
		set_prompts(variables, counts);
	}
	if (is_ahead) {
		variables->at[AHEAD_STEP] = 1;
		variables->at[AHEAD_ROWS] = variables->at[PADDED_ROWS];
	}
}

static inline struct step_curve_point point_at(
	const struct step_variables *variables, enum variable x, enum variable factor, bool is_host)
{
	if (variables->is_ahead && is_host) {
		return (struct step_curve_point){.x = x == AHEAD_STEP, .factor = 1};
	}
	return (struct step_curve_point){.x = variables->at[x], .factor = variables->at[factor]};
}

struct step_curve_point step_curve_point_of(
	enum step_curve curve, const struct step_counts *counts, bool is_ahead)
{
	struct step_variables variables;

	set_variables(&variables, counts, is_ahead);
	return point_at(&variables, curves[curve].x, curves[curve].factor, curves[curve].is_host);
}

/* The segment that x lies in: it begins at the last point below x, the end of the curve aside.
   first: where to look first. */
static inline uint32_t segment_of(const struct step_curve_table *table, double x, uint32_t first)
{
	uint32_t last = table->count - 2;
	uint32_t i = first;

	if (first > last || (first > 0 && !(table->at[first] < x))) {
		i = 0;
	}
	while (i < last && table->at[i + 1] < x) {
		i++;
	}
	return i;
}

static inline double height_in(const struct step_curve_table *table, double x, uint32_t i)
{
	double share = (x - table->at[i]) / (table->at[i + 1] - table->at[i]);

	return table->ns[i] + share * (table->ns[i + 1] - table->ns[i]);
}

double step_curve_at(const struct step_curve_table *table, double x)
{
	return table->count < 2 ? 0 : height_in(table, x, segment_of(table, x, 0));
}

static inline double price_of(
	const struct step_curve_table *table, struct step_curve_point point, uint32_t *segment)
{
	if (point.x == 0 || table->count < 2) {
		return 0; /* curves begin at 0 */
	}
	*segment = segment_of(table, point.x, *segment);
	return point.factor * height_in(table, point.x, *segment);
}

void step_curves_price(const struct step_curve_table *tables, const struct step_counts *counts,
	bool is_ahead, struct step_curve_hints *hints, double *ns)
{
	struct step_variables variables;

	set_variables(&variables, counts, is_ahead);
#define PRICE_CURVE(name, x, factor, is_host, what)                                                \
	ns[STEP_CURVE_##name] = price_of(&tables[STEP_CURVE_##name],                               \
		point_at(&variables, x, factor, is_host), &hints->segment[STEP_CURVE_##name]);
	STEP_CURVE_LIST(PRICE_CURVE)
#undef PRICE_CURVE
}
