#include "sim/price_by_operations.h"

#include "engine/base/check.h"

#include <string.h>

static inline double least(double a, double b)
{
	return a < b ? a : b;
}

static inline double most(double a, double b)
{
	return a > b ? a : b;
}

/* ---- sums of prices ---- */

static void add_ramp(struct operation_section_sum *sum, const struct operation_parts *parts,
	enum operation_variable x)
{
	struct operation_ramp *ramp = &sum->ramps[sum->ramp_count++];
	double height = 0;

	ramp->x = x;
	for (uint32_t i = 0; i < parts->count; i++) {
		uint32_t last = ramp->count;
		if (last > 0) {
			height += ramp->ns[last - 1] * (parts->at[i] - ramp->at[last - 1]);
		}
		ramp->at[last] = parts->at[i];
		ramp->ns[last] = parts->ns[i];
		ramp->height[last] = height;
		ramp->count++;
	}
}

static void add_lines(struct operation_line *lines, uint32_t *count, enum operation_term term,
	const struct operation_parts *parts)
{
	for (uint32_t i = 0; i < parts->count; i++) {
		if (parts->ns[i] > 0) {
			check(*count < OPERATION_LINES);
			lines[(*count)++] = (struct operation_line){
				.x = operation_term_x(term),
				.y = operation_term_y(term),
				.at = parts->at[i],
				.ns = parts->ns[i],
			};
		}
	}
}

static void add_term(struct operation_section_sum *sum, enum operation_term term,
	const struct operation_parts *parts)
{
	double ns = 0;

	for (uint32_t i = 0; i < parts->count; i++) {
		ns += parts->ns[i];
	}
	if (ns == 0) {
		return;
	}
	bool is_shared = operation_term_x(term) == OPERATION_VARIABLE_SHARED ||
			 operation_term_x(term) == OPERATION_VARIABLE_SHARED_EACH;
	bool is_distinct = operation_term_x(term) == OPERATION_VARIABLE_DISTINCT &&
			   parts->at[parts->count - 1] <= 1;
	switch (operation_term_kind(term)) {
	case OPERATION_KIND_DEARER:
		if (operation_term_y(term) == OPERATION_VARIABLE_ROUND_TOKENS) {
			add_lines(sum->rounds, &sum->round_count, term, parts);
			sum->rounds_ns += ns;
			break;
		}
		if (is_distinct) {
			add_lines(sum->dearer_shared, &sum->dearer_shared_count, term, parts);
			sum->reread_ns += ns;
			break;
		}
		add_lines(sum->dearer, &sum->dearer_count, term, parts);
		break;
	case OPERATION_KIND_CHEAPER:
		if (is_shared) {
			add_lines(sum->cheaper_shared, &sum->cheaper_shared_count, term, parts);
			break;
		}
		add_lines(sum->cheaper, &sum->cheaper_count, term, parts);
		break;
	case OPERATION_KIND_REREAD:
		add_lines(sum->reread, &sum->reread_count, term, parts);
		sum->reread_ns += ns;
		break;
	case OPERATION_KIND_RAMP:
		if (parts->count == 1) {
			add_lines(sum->lines, &sum->line_count, term, parts);
		} else {
			add_ramp(sum, parts, operation_term_x(term));
		}
		break;
	}
}

void operation_pricer_init(struct operation_pricer *out, const struct operation_prices *prices)
{
	memset(out, 0, sizeof(*out));
	operation_floors_of(&out->floors, &prices->limits, &prices->shape);
	out->sharing = prices->sharing;
	out->graph_tokens = prices->graph_tokens;
	for (uint32_t i = 0; i < OPERATION_TERM_COUNT; i++) {
		enum operation_term term = (enum operation_term)i;
		add_term(&out->sections[operation_term_section(term)], term, &prices->terms[i]);
	}
}

static inline double ramp_ns(struct operation_ramp *ramp, double x)
{
	uint32_t i = ramp->latest;

	while (i > 0 && x < ramp->at[i]) {
		i--;
	}
	while (i + 1 < ramp->count && x >= ramp->at[i + 1]) {
		i++;
	}
	ramp->latest = i;
	return ramp->height[i] + ramp->ns[i] * (x - ramp->at[i]);
}

static inline double section_ns(
	struct operation_section_sum *sum, const struct operation_step *step)
{
	const double *at = step->at;
	double ns = 0;

	for (uint32_t i = 0; i < sum->line_count; i++) {
		ns += sum->lines[i].ns * at[sum->lines[i].x];
	}
	for (uint32_t i = 0; i < sum->ramp_count; i++) {
		double x = at[sum->ramps[i].x];
		if (x > 0) {
			ns += ramp_ns(&sum->ramps[i], x);
		}
	}
	return ns;
}

static inline double dearer_ns(const struct operation_line *lines, uint32_t count, const double *at)
{
	double ns = 0;

	for (uint32_t i = 0; i < count; i++) {
		ns += lines[i].ns * most(at[lines[i].x], lines[i].at * at[lines[i].y]);
	}
	return ns;
}

static inline double cheaper_ns(
	const struct operation_line *lines, uint32_t count, const double *at)
{
	double ns = 0;

	for (uint32_t i = 0; i < count; i++) {
		ns += lines[i].ns * least(at[lines[i].x], lines[i].at * at[lines[i].y]);
	}
	return ns;
}

static inline double extremes_ns(
	const struct operation_section_sum *sum, const struct operation_step *step)
{
	return dearer_ns(sum->dearer, sum->dearer_count, step->at) +
	       cheaper_ns(sum->cheaper, sum->cheaper_count, step->at);
}

static inline double context_ns(struct operation_pricer *pricer, struct operation_step *step)
{
	struct operation_section_sum *sum = &pricer->sections[OPERATION_SECTION_CONTEXT];
	double shared = step->at[OPERATION_VARIABLE_SHARED];
	double distinct = step->at[OPERATION_VARIABLE_DISTINCT];
	double ns = section_ns(sum, step) + extremes_ns(sum, step);

	if (distinct < step->at[OPERATION_VARIABLE_LONGEST] + pricer->sharing.round) {
		operation_step_rounds(step, &pricer->sharing);
		ns += dearer_ns(sum->rounds, sum->round_count, step->at);
	} else {
		ns += sum->rounds_ns * distinct;
	}
	if (distinct == step->at[OPERATION_VARIABLE_DECODE_CONTEXT]) {
		return ns + sum->reread_ns * distinct;
	}
	ns += dearer_ns(sum->dearer_shared, sum->dearer_shared_count, step->at) +
	      cheaper_ns(sum->cheaper_shared, sum->cheaper_shared_count, step->at);
	for (uint32_t i = 0; i < sum->reread_count; i++) {
		const struct operation_line *line = &sum->reread[i];
		ns += line->ns * (step->at[line->x] + least(shared, step->at[line->y] / line->at));
	}
	return ns;
}

/* ---- whole steps ---- */

/* A part of a step's rows: time, and the host's share of it. attention: prices of what the rows
   attend to; floor: the same at the limits. */
struct whole {
	double ns, host;
};

static inline struct whole whole_of(struct operation_pricer *pricer, struct operation_step *step,
	const struct operation_rows *rows, bool is_ahead, double attention, double floor)
{
	const struct operation_floors *floors = &pricer->floors;

	operation_step_rows(step, floors, pricer->graph_tokens, rows, is_ahead);
	double tokens = rows->decodes + rows->tokens;
	double head = operation_floor(floors->head, floors->head_row, rows->samples);
	double base = operation_products_base(floors, tokens);
	double products = operation_floor(floors->products, floors->product_token, tokens);
	double host = section_ns(&pricer->sections[OPERATION_SECTION_HOST], step);
	double priced =
		section_ns(&pricer->sections[OPERATION_SECTION_LAUNCH], step) + attention + host;
	return (struct whole){.ns = head + most(base + priced, products + floor), .host = host};
}

static struct whole mixed_of(struct operation_pricer *pricer, struct operation_step *step,
	const struct operation_rows *rows, bool is_ahead, const double attention[2],
	const double floor[2])
{
	const struct operation_rows decodes = {.decodes = rows->decodes,
		.samples = least(rows->decodes, rows->samples),
		.context = rows->context};
	const struct operation_rows prompts = {.prompts = rows->prompts,
		.tokens = rows->tokens,
		.samples = most(rows->samples - rows->decodes, 0)};
	double a = whole_of(pricer, step, &decodes, is_ahead, attention[0], floor[0]).ns;
	double b = whole_of(pricer, step, &prompts, is_ahead, attention[1], floor[1]).ns;
	struct whole both = whole_of(
		pricer, step, rows, is_ahead, attention[0] + attention[1], floor[0] + floor[1]);

	both.ns = most(least(both.ns, PRICE_MIXED_MOST * (a + b)), most(a, b));
	return both;
}

struct operation_price price_by_operations(
	struct operation_pricer *pricer, const struct step_counts *counts, bool is_ahead)
{
	const struct operation_rows rows = operation_rows_of(counts);
	const struct operation_floors *floors = &pricer->floors;
	struct operation_step step;
	double attention[2] = {0, 0}, floor[2] = {0, 0};

	step.at[OPERATION_VARIABLE_NONE] = 0;
	if (counts->decode_rows > 0) {
		operation_step_context(&step, &pricer->sharing, counts);
		step.at[OPERATION_VARIABLE_ONE] = 1;
		attention[0] = context_ns(pricer, &step);
		floor[0] = floors->kv_token * step.at[OPERATION_VARIABLE_DISTINCT];
	}
	if (counts->prefill_tokens > 0) {
		struct operation_section_sum *sum = &pricer->sections[OPERATION_SECTION_PROMPT];
		operation_step_prompts(&step, floors, counts);
		attention[1] = section_ns(sum, &step) + extremes_ns(sum, &step);
		floor[1] = floors->pair * (double)counts->prefill_attention_pairs;
	}
	bool is_mixed = counts->decode_rows > 0 && counts->prefill_tokens > 0;
	struct whole whole = is_mixed ? mixed_of(pricer, &step, &rows, is_ahead, attention, floor)
				      : whole_of(pricer, &step, &rows, is_ahead,
						attention[0] + attention[1], floor[0] + floor[1]);
	double host = least(whole.host, whole.ns);
	return (struct operation_price){.gpu_ns = whole.ns - host, .host_ns = host};
}

double operation_roofline(const struct operation_floors *floors, const struct step_counts *counts)
{
	double tokens = (double)(counts->decode_rows + counts->prefill_tokens);
	double distinct = (double)counts->decode_context_tokens - (double)counts->shared_tokens;

	return operation_floor(floors->products, floors->product_token, tokens) +
	       operation_floor(floors->head, floors->head_row, (double)counts->sampled_rows) +
	       floors->kv_token * distinct + floors->pair * (double)counts->prefill_attention_pairs;
}
