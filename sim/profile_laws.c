#include "sim/profile_laws.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/shape/graph_bucket.h"
#include "engine/shape/kernel_tiles.h"
#include "sim/price_by_operations.h"

#include <math.h>
#include <stdio.h>

static const double jump_most = 1.05;
/* From here on a profile names its edge: steps between those of the grid may jump by more. */
static const double edge_least = 1.04;

/* Sums of prices differ by their rounding, and prices have nine digits in a file. */
static const double tolerated = 1e-6;

static const char *const edge_names[PRICE_EDGE_COUNT] = {
#define PRICE_EDGE_NAME(name, what) #name,
	PRICE_EDGE_LIST(PRICE_EDGE_NAME)
#undef PRICE_EDGE_NAME
};

const char *price_edge_name(enum price_edge edge)
{
	return edge_names[edge];
}

/* ---- prices by themselves ---- */

static const char *fault_of(const struct operation_parts *parts, enum operation_kind kind)
{
	if (parts->count > OPERATION_PARTS) {
		return "at most 32 parts";
	}
	for (uint32_t i = 0; i < parts->count; i++) {
		double at = parts->at[i], ns = parts->ns[i];
		if (!(ns >= 0 && ns <= OPERATION_PRICE_LIMIT)) {
			return "prices from 0 to 10^15";
		}
		if (!(at >= 0 && at <= OPERATION_PRICE_LIMIT) ||
			(i > 0 && at <= parts->at[i - 1])) {
			return "numbers 'at' that rise, from 0 to 10^15";
		}
		if (kind == OPERATION_KIND_RAMP && i == 0 && at != 0) {
			return "0 as the first number 'at'";
		}
		if (kind == OPERATION_KIND_REREAD && at == 0) {
			return "numbers 'at' above 0";
		}
	}
	return NULL;
}

static double sum_of_parts(const struct operation_prices *prices, enum operation_term term)
{
	const struct operation_parts *parts = &prices->terms[term];
	double ns = 0;

	for (uint32_t i = 0; i < parts->count; i++) {
		ns += parts->ns[i];
	}
	return ns;
}

static double all_token_ns(const struct operation_prices *prices)
{
	const struct operation_parts *all = &prices->terms[OPERATION_TERM_kv_all];

	return all->count > 0 ? all->ns[0] : 0;
}

double operation_distinct_token_ns(const struct operation_prices *prices)
{
	double ns = all_token_ns(prices);

	for (uint32_t i = 0; i < OPERATION_TERM_COUNT; i++) {
		enum operation_term term = (enum operation_term)i;
		bool is_of_tokens = operation_term_is_of_tokens(term);
		ns += is_of_tokens && term != OPERATION_TERM_kv_all ? sum_of_parts(prices, term)
								    : 0;
	}
	return ns;
}

double operation_shared_token_ns(const struct operation_prices *prices)
{
	return all_token_ns(prices) + sum_of_parts(prices, OPERATION_TERM_kv_each) +
	       sum_of_parts(prices, OPERATION_TERM_kv_each_far);
}

bool operation_prices_are_sound(
	const struct operation_prices *prices, enum operation_term *term, const char **expected)
{
	struct operation_floors floors;

	for (uint32_t i = 0; i < OPERATION_TERM_COUNT; i++) {
		*term = (enum operation_term)i;
		*expected = fault_of(&prices->terms[i], operation_term_kind(*term));
		if (*expected != NULL) {
			return false;
		}
	}
	const struct operation_parts *rounds = &prices->terms[OPERATION_TERM_kv_rounds];
	*term = OPERATION_TERM_kv_rounds;
	*expected = "numbers 'at' of at most 1";
	if (rounds->count > 0 && !(rounds->at[rounds->count - 1] <= 1)) {
		return false;
	}
	operation_floors_of(&floors, &prices->limits, &prices->shape);
	*term = OPERATION_TERM_kv_all;
	*expected = "prices of K and V that are no less than their bytes take at read_rate";
	double token_ns = operation_distinct_token_ns(prices);
	if (!(token_ns >= floors.kv_token * (1 - tolerated))) {
		return false;
	}
	*term = prices->terms[OPERATION_TERM_kv_each_far].count > 0 ? OPERATION_TERM_kv_each_far
								    : OPERATION_TERM_kv_each;
	*expected = "prices of shared tokens that are no more than those of others";
	if (!(operation_shared_token_ns(prices) <= token_ns * (1 + tolerated))) {
		return false;
	}
	*term = OPERATION_TERM_kv_repeat;
	*expected = "a price of reading shared tokens again that is no more than that of others";
	return sum_of_parts(prices, OPERATION_TERM_kv_repeat) <= token_ns * (1 + tolerated);
}

/* ---- steps of a grid ---- */

/* The longest chains of a step's tiles: prefill_chain_keys() and prefill_half_chain_keys(). */
struct chains {
	uint64_t keys, half_keys;
};

/* Equal rows, one prompt behind a prefix, and other prompts of one token; shared: tokens that the
   rows hold in common, each counted for every row but one; repeat: of those that are read once,
   what is read again; chains and longer: of the prompts, and with a token more in the first. */
struct place {
	uint64_t rows, context, tokens, prefix, others, shared, repeat;
	struct chains chains, longer;
};

enum { OTHERS_MOST = 64, TILES_MOST = 128 };

static struct chains chains_of(
	const struct place *place, uint64_t tokens, const struct prefill_spread *spread)
{
	uint64_t prefix = place->prefix;
	struct chains alone = {prefill_chain_of_prompt(prefix, tokens, spread),
		prefill_half_chain_of_prompt(prefix, tokens, spread)};
	uint32_t tiles[TILES_MOST], count;

	if (place->others == 0) {
		return alone;
	}
	check(place->others <= OTHERS_MOST &&
		prefill_tile_count(tokens) + OTHERS_MOST <= TILES_MOST);
	count = prefill_tiles_list(tiles, (uint32_t)prefix, (uint32_t)tokens);
	for (uint64_t i = 0; i < place->others; i++) {
		tiles[count++] = prefill_tile(1, false);
	}
	return (struct chains){prefill_chain_keys(tiles, count, spread),
		prefill_half_chain_keys(tiles, count, prefix + tokens, alone.half_keys, spread)};
}

static struct step_counts counts_of(const struct place *place)
{
	uint64_t rows = place->rows, tokens = place->tokens, prefix = place->prefix;
	uint64_t others = place->others;
	bool has_prompt = tokens > 0;

	return (struct step_counts){
		.decode_rows = rows,
		.decode_context_tokens = rows * place->context,
		.decode_longest_context = rows > 0 ? place->context : 0,
		.shared_tokens = place->shared,
		.reread_tokens = rows > 0 ? place->shared / rows : 0,
		.repeat_tokens = place->repeat,
		.prefill_rows = has_prompt + others,
		.prefill_tokens = tokens + others,
		.prefill_attention_pairs = batch_attention_pairs(prefix, tokens) + others,
		.prefill_longest_context = has_prompt ? prefix + tokens : 0,
		.prefill_context_tokens = has_prompt ? prefix + tokens + others : 0,
		.prefill_tiles = prefill_tile_count(tokens) + others,
		.prefill_tile_keys = prefill_tile_keys(prefix, tokens) + others,
		.prefill_chain_keys = has_prompt ? place->chains.keys : 0,
		.prefill_half_chain_keys = has_prompt ? place->chains.half_keys : 0,
		.sampled_rows = rows + has_prompt + others,
	};
}

static double ns_of(struct operation_pricer *pricer, const struct step_counts *counts)
{
	const struct operation_price price = price_by_operations(pricer, counts, false);

	return price.gpu_ns + price.host_ns;
}

static bool is_captured(uint32_t graph_tokens, const struct place *place)
{
	return graph_holds_prompts(graph_tokens, place->rows, (place->tokens > 0) + place->others,
		place->tokens + place->others);
}

/* Edges between a step and the same with one row or prompt token more, as bits. */
static uint32_t edges_between(
	const struct operation_pricer *pricer, const struct place *place, bool is_row)
{
	uint64_t all = place->rows + place->tokens + place->others;
	bool is_full = place->tokens > 0 && product_tiles(all) != product_tiles(all + 1);
	const struct place more = {.rows = place->rows + is_row,
		.tokens = place->tokens + !is_row,
		.others = place->others};
	bool is_last = is_captured(pricer->graph_tokens, place) &&
		       !is_captured(pricer->graph_tokens, &more);
	uint32_t edges = is_full ? 1U << PRICE_EDGE_product_tile : 0;

	edges |= is_last ? 1U << PRICE_EDGE_captured : 0;
	if (is_row) {
		/* Of mixed steps too, which cost no less than their decode rows alone. */
		bool is_bucket = place->rows > 0 &&
				 graph_bucket(place->rows) != graph_bucket(place->rows + 1);
		edges |= place->rows == 0 ? 1U << PRICE_EDGE_captured : 0;
		edges |= place->rows == 1 ? 1U << PRICE_EDGE_second_row : 0;
		edges |= is_bucket ? 1U << PRICE_EDGE_graph_bucket : 0;
	} else {
		edges |= place->tokens == 0 ? 1U << PRICE_EDGE_captured : 0;
		edges |= place->tokens > 0 && place->tokens % (PREFILL_QUERY_TILE / 2) == 0
				 ? 1U << PRICE_EDGE_prompt_tile
				 : 0;
	}
	return edges;
}

/* The same of a step and one with a token more in its longest row. */
static uint32_t edges_of_token(const struct place *place, const struct operation_sharing *rule)
{
	double context = (double)place->context;
	double rounds = rule->round > 0 ? floor(context / rule->round) : 0;

	if (place->rows > 1) {
		return rule->longest > 0 && context == floor(rule->longest)
			       ? 1U << PRICE_EDGE_long_row
			       : 0;
	}
	uint32_t edges =
		rule->alone > 0 && context == floor(rule->alone) ? 1U << PRICE_EDGE_long_row : 0;
	return edges |
	       (rounds > 0 && context - rounds * rule->round < 1 ? 1U << PRICE_EDGE_row_round : 0);
}

struct trial {
	struct operation_pricer *pricer;
	uint32_t edges;	 /* that may jump */
	uint32_t jumped; /* those that did */
	struct place place;
	char fault[200]; /* "": none */
};

static void refuse(struct trial *trial, const char *law, double ns, double other_ns)
{
	const struct place *place = &trial->place;
	char others[40] = "";

	if (place->others > 0) {
		snprintf(others, sizeof(others), " and %llu of 1",
			(unsigned long long)place->others);
	}
	snprintf(trial->fault, sizeof(trial->fault),
		"%s: %llu decode rows of %llu tokens beside a prompt of %llu behind %llu%s take "
		"%.3f ms, and %.3f ms",
		law, (unsigned long long)place->rows, (unsigned long long)place->context,
		(unsigned long long)place->tokens, (unsigned long long)place->prefix, others,
		ns / 1e6, other_ns / 1e6);
}

/* A step beside a larger one. */
static void try_more(struct trial *trial, double ns, const struct step_counts *larger,
	uint32_t edges, const char *what)
{
	double more_ns = ns_of(trial->pricer, larger);
	char law[96];

	if (!(more_ns >= ns * (1 - tolerated))) {
		snprintf(law, sizeof(law), "%s more costs less", what);
		refuse(trial, law, ns, more_ns);
		return;
	}
	trial->jumped |= more_ns > ns * edge_least ? edges : 0;
	if (!(more_ns <= ns * jump_most) && (edges & trial->edges) == 0) {
		snprintf(law, sizeof(law), "%s more is a jump over 5 %% at no named edge", what);
		refuse(trial, law, ns, more_ns);
	}
}

static void try_parts(struct trial *trial, double ns)
{
	struct place decodes = trial->place, prompts = trial->place;

	decodes.tokens = 0;
	prompts.rows = 0;
	const struct step_counts a = counts_of(&decodes), b = counts_of(&prompts);
	double a_ns = ns_of(trial->pricer, &a), b_ns = ns_of(trial->pricer, &b);
	double dearer = a_ns > b_ns ? a_ns : b_ns;
	if (!(ns >= dearer * (1 - tolerated))) {
		refuse(trial, "a mixed step costs less than its dearer part", ns, dearer);
	}
	if (!(ns <= PRICE_MIXED_MOST * (a_ns + b_ns) * (1 + tolerated))) {
		char law[96];
		snprintf(law, sizeof(law), "a mixed step costs over %.2f times its parts",
			PRICE_MIXED_MOST);
		refuse(trial, law, ns, a_ns + b_ns);
	}
}

/* Rows that read shared tokens each for themselves, and the next that read them once. */
static void try_edge_of_sharing(
	struct trial *trial, const struct place *less, const struct place *more)
{
	const struct step_counts before = counts_of(less), after = counts_of(more);
	double ns = ns_of(trial->pricer, &before), more_ns = ns_of(trial->pricer, &after);

	if (more_ns > ns * jump_most || more_ns < ns * (1 - tolerated)) {
		trial->jumped |= 1U << PRICE_EDGE_sharing;
		if ((trial->edges >> PRICE_EDGE_sharing & 1) == 0) {
			refuse(trial, "reading shared tokens once is a jump at no named edge", ns,
				more_ns);
		}
	}
}

static void try_sharing(struct trial *trial)
{
	uint64_t tokens = (uint64_t)trial->pricer->sharing.tokens;
	uint64_t longest = (uint64_t)trial->pricer->sharing.longest;
	struct place less = trial->place, more = trial->place;

	if (tokens > 1 && tokens < less.rows * less.context && less.context <= longest) {
		less.shared = tokens - 1;
		more.shared = tokens;
		try_edge_of_sharing(trial, &less, &more);
	}
	less.shared = more.shared = DECODE_SPLIT * (less.rows - 1);
	if (less.shared > 0 && less.shared < tokens) {
		less.context = longest;
		more.context = longest + 1;
		try_edge_of_sharing(trial, &less, &more);
	}
}

/* A row alone of `context` tokens, and of one more. */
static void try_edge_of_row(struct trial *trial, uint64_t context, enum price_edge edge)
{
	const struct place place = trial->place;
	struct place more = place;

	trial->place.context = context;
	more.context = context + 1;
	if (place.rows == 1 && context > 0) {
		const struct step_counts less = counts_of(&trial->place), after = counts_of(&more);
		try_more(trial, ns_of(trial->pricer, &less), &after, 1U << edge,
			"a token of context");
	}
	trial->place = place;
}

/* Rows that hold the same tokens, one more than a reading serves, beside the same rows if it served
   them all. */
static void try_edge_of_readers(struct trial *trial)
{
	const struct place place = trial->place;
	uint64_t readers = (uint64_t)trial->pricer->sharing.readers;

	if (place.rows != 1 || readers == 0) {
		return; /* once for each context */
	}
	trial->place.rows = readers + 1;
	trial->place.shared = readers * place.context;
	struct place more = trial->place;
	more.repeat = place.context;
	const struct step_counts less = counts_of(&trial->place), after = counts_of(&more);
	if (operation_shares(&trial->pricer->sharing, &less)) {
		try_more(trial, ns_of(trial->pricer, &less), &after, 1U << PRICE_EDGE_readers,
			"a reading");
	}
	trial->place = place;
}

/* A step beside that with a token more in its prompt. */
static void try_prompt_token(struct trial *trial, double ns)
{
	struct place more = trial->place;

	more.tokens++;
	more.chains = more.longer;
	const struct step_counts larger = counts_of(&more);
	try_more(trial, ns, &larger, edges_between(trial->pricer, &trial->place, false),
		"a prompt token");
}

static void try_place(struct trial *trial)
{
	const struct place *place = &trial->place;
	const struct step_counts counts = counts_of(place);
	double ns = ns_of(trial->pricer, &counts);
	double roofline = operation_roofline(&trial->pricer->floors, &counts);

	if (!(ns >= roofline * (1 - tolerated))) {
		refuse(trial, "a step costs less than its roofline", ns, roofline);
	}
	if (place->rows > 0 && place->tokens > 0) {
		try_parts(trial, ns);
	}
	if (place->rows > 0) {
		struct step_counts larger = counts;
		larger.decode_context_tokens++;
		larger.decode_longest_context++;
		try_more(trial, ns, &larger, edges_of_token(place, &trial->pricer->sharing),
			"a token of context");
		try_sharing(trial);
		const struct operation_sharing *sharing = &trial->pricer->sharing;
		try_edge_of_row(trial, (uint64_t)sharing->alone, PRICE_EDGE_long_row);
		try_edge_of_row(trial, (uint64_t)sharing->round, PRICE_EDGE_row_round);
		try_edge_of_readers(trial);
	}
	/* A row of one token, so that it is the row that costs. */
	struct step_counts larger = counts;
	larger.decode_rows++;
	larger.decode_context_tokens++;
	larger.decode_longest_context = u64_max(larger.decode_longest_context, 1);
	larger.sampled_rows++;
	try_more(trial, ns, &larger, edges_between(trial->pricer, place, true), "a row");
	try_prompt_token(trial, ns);
}

static void try_grid(struct trial *trial)
{
	static const uint64_t rows[] = {0, 1, 2, 3, 4, 7, 16, 31, 32, 100, 160, 256, 400, 511};
	static const uint64_t contexts[] = {64, 1500, 30000};
	static const uint64_t tokens[] = {0, 1, 60, 128, 255, 256, 700, 2047, 2048, 9000};
	static const uint64_t prefixes[] = {0, 32768};
	enum {
		ROWS = sizeof(rows) / sizeof(rows[0]),
		CONTEXTS = sizeof(contexts) / sizeof(contexts[0]),
		TOKENS = sizeof(tokens) / sizeof(tokens[0]),
		PREFIXES = sizeof(prefixes) / sizeof(prefixes[0]),
	};

	const struct prefill_spread spread = operation_spread(&trial->pricer->floors);
	struct chains chains[TOKENS][PREFIXES], longer[TOKENS][PREFIXES];

	for (uint32_t t = 0; t < TOKENS; t++) {
		for (uint32_t p = 0; p < PREFIXES; p++) {
			const struct place place = {.prefix = prefixes[p]};
			chains[t][p] = chains_of(&place, tokens[t], &spread);
			longer[t][p] = chains_of(&place, tokens[t] + 1, &spread);
		}
	}
	for (uint32_t i = 0; i < ROWS * CONTEXTS * TOKENS * PREFIXES; i++) {
		uint32_t t = i / PREFIXES % TOKENS, p = i % PREFIXES;
		trial->place = (struct place){
			.rows = rows[i / PREFIXES / TOKENS / CONTEXTS],
			.context = contexts[i / PREFIXES / TOKENS % CONTEXTS],
			.tokens = tokens[t],
			.prefix = prefixes[p],
			.chains = chains[t][p],
			.longer = longer[t][p],
		};
		bool is_empty = trial->place.rows + trial->place.tokens == 0;
		bool is_again = (trial->place.rows == 0 && trial->place.context != contexts[0]) ||
				(trial->place.tokens == 0 && trial->place.prefix > 0);
		if (!is_empty && !is_again && trial->fault[0] == '\0') {
			try_place(trial);
		}
	}
}

/* A prompt that fills tiles or halves of them, or nearly, beside prompts of one token each: the
   longest chain is the prompt's, and a token more makes it longer. */
static void try_crowds(struct trial *trial)
{
	static const uint64_t others[] = {1, 4, OTHERS_MOST};
	static const uint64_t tokens[] = {63, 64, 127, 128, 192, 1087, 1088, 2048};
	static const uint64_t prefixes[] = {0, 688, 65536};
	enum {
		OTHERS = sizeof(others) / sizeof(others[0]),
		TOKENS = sizeof(tokens) / sizeof(tokens[0]),
		PREFIXES = sizeof(prefixes) / sizeof(prefixes[0]),
	};
	const struct prefill_spread spread = operation_spread(&trial->pricer->floors);

	for (uint32_t i = 0; i < OTHERS * TOKENS * PREFIXES && trial->fault[0] == '\0'; i++) {
		struct place *place = &trial->place;
		*place = (struct place){
			.tokens = tokens[i / PREFIXES % TOKENS],
			.prefix = prefixes[i % PREFIXES],
			.others = others[i / PREFIXES / TOKENS],
		};
		place->chains = chains_of(place, place->tokens, &spread);
		place->longer = chains_of(place, place->tokens + 1, &spread);
		const struct step_counts counts = counts_of(place);
		try_prompt_token(trial, ns_of(trial->pricer, &counts));
	}
}

/* ---- steps at the profile's own numbers ----

   Between the steps of the grid a price may begin, end or jump only where the profile says so: at a
   number `at` of a ramp, or of the least of a variable and 1, and where its engine begins to share.
   Its steepest share of a step is in the smallest step there. */

enum axis { AXIS_NONE, AXIS_ROWS, AXIS_CONTEXT, AXIS_TOKENS, AXIS_PREFIX };

/* A variable's axis, and what one of it is there, where a step has as little else as it can. */
static enum axis axis_of(enum operation_variable x, double *scale)
{
	*scale = 1;
	switch (x) {
	case OPERATION_VARIABLE_GRAPH_ROWS:
	case OPERATION_VARIABLE_MIXED_ROWS:
	case OPERATION_VARIABLE_SAMPLES:
	case OPERATION_VARIABLE_LONG_ROWS:
	case OPERATION_VARIABLE_HOST_ROWS:
		return AXIS_ROWS;
	case OPERATION_VARIABLE_DECODE_CONTEXT:
	case OPERATION_VARIABLE_LONGEST:
	case OPERATION_VARIABLE_LONGEST_MANY:
	case OPERATION_VARIABLE_HOST_CONTEXT:
		return AXIS_CONTEXT;
	case OPERATION_VARIABLE_CONTEXT_MANY:
		*scale = 0.5; /* of two rows */
		return AXIS_CONTEXT;
	case OPERATION_VARIABLE_EAGER_TOKENS:
	case OPERATION_VARIABLE_MIXED_TOKENS:
	case OPERATION_VARIABLE_HOST_TOKENS:
		return AXIS_TOKENS;
	case OPERATION_VARIABLE_EAGER_TILES:
		*scale = PRODUCT_TILE;
		return AXIS_TOKENS;
	case OPERATION_VARIABLE_TILES:
		*scale = PREFILL_QUERY_TILE;
		return AXIS_TOKENS;
	case OPERATION_VARIABLE_KEYS:
	case OPERATION_VARIABLE_CHAIN_KEYS:
		return AXIS_PREFIX;
	case OPERATION_VARIABLE_HALF_CHAIN_KEYS:
		*scale = 2;
		return AXIS_PREFIX;
	case OPERATION_VARIABLE_TILE_PAIRS:
		*scale = 1.0 / PREFILL_QUERY_TILE;
		return AXIS_PREFIX;
	default:
		return AXIS_NONE;
	}
}

static void try_at(
	struct trial *trial, uint64_t rows, uint64_t context, uint64_t tokens, uint64_t prefix)
{
	const struct prefill_spread spread = operation_spread(&trial->pricer->floors);

	if (rows + tokens == 0 || trial->fault[0] != '\0') {
		return;
	}
	trial->place = (struct place){
		.rows = rows,
		.context = context,
		.tokens = tokens,
		.prefix = prefix,
	};
	if (tokens > 0 || rows == 0) {
		trial->place.chains = chains_of(&trial->place, tokens, &spread);
	}
	trial->place.longer = chains_of(&trial->place, tokens + 1, &spread);
	try_place(trial);
}

/* Longer contexts and larger steps than any engine has are not tried. */
enum { FEW_TOKENS = 64, ROWS_MOST = 1 << 16, CONTEXT_MOST = 1 << 24, TOKENS_MOST = 1 << 20 };

static void try_number(struct trial *trial, enum axis axis, double number)
{
	uint64_t at = number < CONTEXT_MOST ? (uint64_t)number : CONTEXT_MOST;

	switch (axis) {
	case AXIS_ROWS:
		at = u64_min(at, ROWS_MOST);
		if (graph_bucket(at) != graph_bucket(at + 1)) {
			try_at(trial, at, FEW_TOKENS, 0, 0);
			try_at(trial, at, FEW_TOKENS, 1, 0);
			at++;
		}
		try_at(trial, at, FEW_TOKENS, 0, 0);
		try_at(trial, at, FEW_TOKENS, 1, 0);
		break;
	case AXIS_CONTEXT:
		try_at(trial, 1, u64_max(at, 1), 0, 0);
		try_at(trial, 2, u64_max(at, 1), 0, 0);
		break;
	case AXIS_TOKENS:
		try_at(trial, 0, 0, u64_min(at, TOKENS_MOST), 0);
		try_at(trial, 1, 1, u64_min(at, TOKENS_MOST), 0);
		break;
	case AXIS_PREFIX:
		try_at(trial, 0, 0, 1, at > 0 ? at - 1 : 0);
		break;
	case AXIS_NONE:
		break;
	}
}

/* The numbers of one term, each once; the one before it is where a cheaper price still rises. */
static void try_term(
	struct trial *trial, enum operation_term term, const struct operation_parts *parts)
{
	double scale = 1;
	enum axis axis = axis_of(operation_term_x(term), &scale);
	bool is_capped = operation_term_kind(term) == OPERATION_KIND_CHEAPER &&
			 operation_term_y(term) == OPERATION_VARIABLE_ONE;
	bool is_tried = operation_term_kind(term) == OPERATION_KIND_RAMP || is_capped;

	for (uint32_t i = 0; i < parts->count && is_tried; i++) {
		if (parts->ns[i] > 0 && parts->at[i] > 0) {
			try_number(trial, axis, ceil(parts->at[i] * scale) - is_capped);
		}
	}
}

/* Few rows whose contexts are at most those that are not long, and shared tokens as they begin to
   be read once. */
static void try_sharing_of_rows(struct trial *trial)
{
	static const uint64_t rows[] = {2, 3, 4, 5, 6, 8, 10, 12, 20, 64};
	const struct operation_sharing *rule = &trial->pricer->sharing;

	if (rule->tokens <= 1 || rule->longest < 1 || rule->longest > CONTEXT_MOST ||
		rule->tokens > CONTEXT_MOST) {
		return;
	}
	uint64_t longest = (uint64_t)rule->longest;
	for (uint32_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && trial->fault[0] == '\0'; i++) {
		uint64_t fewest = (uint64_t)rule->tokens / rows[i] + 1;
		trial->place = (struct place){.rows = rows[i], .context = longest};
		try_sharing(trial);
		if (fewest < longest && trial->fault[0] == '\0') {
			trial->place.context = fewest;
			try_sharing(trial);
		}
	}
}

static void try_own_numbers(struct trial *trial, const struct operation_prices *prices)
{
	const struct operation_sharing *rule = &prices->sharing;

	for (uint32_t i = 0; i < OPERATION_TERM_COUNT; i++) {
		try_term(trial, (enum operation_term)i, &prices->terms[i]);
	}
	if (rule->longest > 0) {
		try_number(trial, AXIS_CONTEXT, rule->longest);
	}
	if (prices->graph_tokens > 0) {
		try_number(trial, AXIS_TOKENS, prices->graph_tokens);
		try_at(trial, GRAPH_PROMPT_DECODES, FEW_TOKENS, 1, 0);
	}
	try_sharing_of_rows(trial);
}

enum status operation_prices_check(
	const struct operation_prices *prices, uint32_t edges, struct error *error)
{
	struct operation_pricer pricer;
	struct trial trial = {.pricer = &pricer, .edges = edges};
	enum operation_term term;
	const char *expected;

	if (!operation_prices_are_sound(prices, &term, &expected)) {
		return error_set(error, STATUS_INPUT, "prices of %s: expected %s",
			operation_term_name(term), expected);
	}
	operation_pricer_init(&pricer, prices);
	try_grid(&trial);
	try_crowds(&trial);
	try_own_numbers(&trial, prices);
	return trial.fault[0] == '\0'
		       ? STATUS_OK
		       : error_set(error, STATUS_INPUT, "prices break a law: %s", trial.fault);
}

uint32_t operation_prices_edges(const struct operation_prices *prices)
{
	struct operation_pricer pricer;
	struct trial trial = {.pricer = &pricer, .edges = (1U << PRICE_EDGE_COUNT) - 1};

	operation_pricer_init(&pricer, prices);
	try_grid(&trial);
	try_crowds(&trial);
	try_own_numbers(&trial, prices);
	return trial.jumped;
}
