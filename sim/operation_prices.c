#include "sim/operation_prices.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/shape/graph_bucket.h"
#include "engine/shape/kernel_tiles.h"
#include "engine/shape/weight_shape.h"

#include <math.h>

_Static_assert(
	(int)PREFILL_TILE == (int)PREFILL_QUERY_TILE, "a tile of the counts is the kernels'");

static const struct {
	const char *name, *what;
	enum operation_kind kind;
	enum operation_section section;
	enum operation_variable x, y;
} terms[OPERATION_TERM_COUNT] = {
#define OPERATION_TERM_ROW(name, kind, section, x, y, what)                                        \
	{#name, what, OPERATION_KIND_##kind, OPERATION_SECTION_##section, OPERATION_VARIABLE_##x,  \
		OPERATION_VARIABLE_##y},
	OPERATION_TERM_LIST(OPERATION_TERM_ROW)
#undef OPERATION_TERM_ROW
};

const char *operation_term_name(enum operation_term term)
{
	return terms[term].name;
}

const char *operation_term_what(enum operation_term term)
{
	return terms[term].what;
}

enum operation_kind operation_term_kind(enum operation_term term)
{
	return terms[term].kind;
}

enum operation_section operation_term_section(enum operation_term term)
{
	return terms[term].section;
}

enum operation_variable operation_term_x(enum operation_term term)
{
	return terms[term].x;
}

enum operation_variable operation_term_y(enum operation_term term)
{
	return terms[term].y;
}

bool operation_term_is_of_tokens(enum operation_term term)
{
	return term == OPERATION_TERM_kv_all || terms[term].x == OPERATION_VARIABLE_DISTINCT;
}

bool operation_term_may_lack(enum operation_term term)
{
	return term == OPERATION_TERM_kv_rounds || term == OPERATION_TERM_kv_repeat ||
	       term == OPERATION_TERM_kv_each || term == OPERATION_TERM_kv_each_far ||
	       term == OPERATION_TERM_kv_long || term == OPERATION_TERM_kv_long_rows ||
	       term == OPERATION_TERM_prefill_half || term == OPERATION_TERM_eager_mixed_tokens ||
	       term == OPERATION_TERM_eager_launched;
}

struct operation_sharing operation_sharing_of(const struct model_config *shape)
{
	double bytes =
		(double)MODEL_ELEMENT_BYTES * 2 * shape->num_key_value_heads * shape->head_dim;

	return (struct operation_sharing){
		.tokens = ceil(DECODE_SHARING_LEAST / bytes),
		.longest = (double)DECODE_LONG * DECODE_SPLIT,
		.alone = (double)decode_long_alone(shape->num_key_value_heads) * DECODE_SPLIT,
		.round = DECODE_ROUND,
		.readers = decode_readers(shape->num_attention_heads, shape->num_key_value_heads),
	};
}

struct prefill_spread operation_spread(const struct operation_floors *floors)
{
	return (struct prefill_spread){
		.heads = (uint32_t)floors->query_heads,
		.multiprocessors = (uint32_t)floors->multiprocessors,
	};
}

static inline double least(double a, double b)
{
	return a < b ? a : b;
}

static inline double most(double a, double b)
{
	return a > b ? a : b;
}

bool operation_shares(const struct operation_sharing *rule, const struct step_counts *counts)
{
	double shared = (double)counts->shared_tokens;

	return shared > 0 &&
	       (shared >= rule->tokens || (double)counts->decode_longest_context > rule->longest);
}

void operation_floors_of(struct operation_floors *out, const struct operation_limits *limits,
	const struct model_config *shape)
{
	const double bytes = MODEL_ELEMENT_BYTES, layers = shape->num_hidden_layers;
	const double read = limits->read_rate, flops = limits->flop_rate * 1000; /* a ns */
	const struct model_linear_shape qkv = model_linear_shape(shape, MODEL_LINEAR_QKV);
	double weights = 0;

	for (uint32_t i = 0; i < MODEL_LINEAR_LM_HEAD; i++) {
		struct model_linear_shape one = model_linear_shape(shape, (enum model_linear)i);
		weights += (double)one.inputs * one.outputs;
	}
	double of_token = weights * (layers - 1) + (double)qkv.inputs * qkv.outputs;
	double head = (double)shape->hidden_size * shape->vocab_size;
	double queries = (double)shape->num_attention_heads * shape->head_dim;
	double keys = (double)shape->num_key_value_heads * shape->head_dim;
	*out = (struct operation_floors){
		.products = bytes * weights * layers / read,
		.product_token = 2 * of_token / flops,
		.head = bytes * head / read,
		.head_row = 2 * head / flops,
		.kv_token = 2 * bytes * keys * layers / read,
		.pair = 4 * queries * (layers - 1) / flops, /* 2 FLOPs for Q K, 2 for P V */
		.query_heads = shape->num_attention_heads,
		.multiprocessors = limits->multiprocessors,
	};
}

/* ---- variables ---- */

struct operation_rows operation_rows_of(const struct step_counts *counts)
{
	return (struct operation_rows){
		.decodes = (double)counts->decode_rows,
		.prompts = (double)counts->prefill_rows,
		.tokens = (double)counts->prefill_tokens,
		.samples = (double)counts->sampled_rows,
		.context = (double)counts->decode_context_tokens,
	};
}

uint64_t product_tiles(uint64_t tokens)
{
	if (tokens <= PRODUCT_TILE / 2) {
		return tokens > PRODUCT_TILE / 4;
	}
	return 1 + u64_divide_up(tokens, PRODUCT_TILE);
}

void operation_step_rows(struct operation_step *out, const struct operation_floors *floors,
	uint32_t graph_tokens, const struct operation_rows *rows, bool is_ahead)
{
	double *at = out->at;
	bool is_eager = rows->tokens > 0;
	bool is_graph = !is_eager && rows->decodes > 0;
	bool is_mixed = is_eager && rows->decodes > 0;
	bool is_captured = is_eager && graph_holds_prompts(graph_tokens, (uint64_t)rows->decodes,
					       (uint64_t)rows->prompts, (uint64_t)rows->tokens);
	double padded = is_graph ? (double)graph_bucket((uint64_t)rows->decodes) : 0;
	double tokens = is_eager ? rows->tokens + rows->decodes : 0;

	at[OPERATION_VARIABLE_ONE] = 1;
	at[OPERATION_VARIABLE_GRAPH_STEP] = is_graph;
	at[OPERATION_VARIABLE_GRAPH_ROWS] = padded;
	at[OPERATION_VARIABLE_EAGER_STEP] = is_eager;
	at[OPERATION_VARIABLE_LAUNCHED_STEP] = is_eager && !is_captured;
	at[OPERATION_VARIABLE_MIXED_STEP] = is_mixed;
	at[OPERATION_VARIABLE_MIXED_TOKENS] = is_mixed ? least(rows->tokens, MIXED_TOKENS_MOST) : 0;
	at[OPERATION_VARIABLE_PRODUCTS] =
		operation_floor(floors->products, floors->product_token, tokens);
	at[OPERATION_VARIABLE_EAGER_TOKENS] = tokens;
	at[OPERATION_VARIABLE_EAGER_TILES] = is_eager ? (double)product_tiles((uint64_t)tokens) : 0;
	at[OPERATION_VARIABLE_MIXED_ROWS] = is_mixed ? rows->decodes : 0;
	at[OPERATION_VARIABLE_PROMPTS] = rows->prompts;
	at[OPERATION_VARIABLE_SAMPLES] = is_eager ? rows->samples : padded;
	at[OPERATION_VARIABLE_HOST_GRAPH] = is_graph && !is_ahead;
	at[OPERATION_VARIABLE_HOST_EAGER] = is_eager && !is_ahead;
	at[OPERATION_VARIABLE_HOST_AHEAD] = is_ahead;
	at[OPERATION_VARIABLE_HOST_ROWS] = is_ahead ? 0 : rows->decodes + rows->prompts;
	at[OPERATION_VARIABLE_HOST_TOKENS] = is_ahead ? 0 : rows->tokens;
	at[OPERATION_VARIABLE_HOST_CONTEXT] = is_ahead ? 0 : rows->context;
}

void operation_step_context(struct operation_step *out, const struct operation_sharing *rule,
	const struct step_counts *counts)
{
	double *at = out->at;
	double rows = (double)counts->decode_rows;
	double context = (double)counts->decode_context_tokens;
	double shared = (double)counts->shared_tokens;
	double mean = rows > 0 ? context / rows : 0;
	double longest = most(least((double)counts->decode_longest_context, context), mean);
	double short_most = rows > 1 ? rule->longest : rule->alone;
	bool is_once = operation_shares(rule, counts);
	bool has_long_row = short_most > 0 && longest > short_most;
	bool is_long = is_once || has_long_row;
	double many = rows > 1 || has_long_row;

	at[OPERATION_VARIABLE_DECODE_CONTEXT] = context;
	at[OPERATION_VARIABLE_DISTINCT] = context - shared;
	at[OPERATION_VARIABLE_SHARED] = is_once ? shared : 0;
	at[OPERATION_VARIABLE_SHARED_REPEAT] = is_once ? (double)counts->repeat_tokens : 0;
	at[OPERATION_VARIABLE_SHARED_EACH] = is_once ? 0 : shared;
	at[OPERATION_VARIABLE_REREAD_SPAN] = (double)counts->reread_tokens * context;
	at[OPERATION_VARIABLE_LONGEST] = longest;
	at[OPERATION_VARIABLE_LONGEST_MANY] = many * longest;
	at[OPERATION_VARIABLE_OTHERS] = many * (context - longest);
	at[OPERATION_VARIABLE_CONTEXT_MANY] = many * context;
	at[OPERATION_VARIABLE_DECODE_ROWS] = rows;
	at[OPERATION_VARIABLE_LONG_STEP] = is_long;
	at[OPERATION_VARIABLE_LONG_ROWS] = is_long ? rows : 0;
}

/* Tiles of queries, the keys that they walk through, and the least tiles that they can be. Steps of
   other engines do not count them: then each of several prompts has half a tile more than its
   tokens, a single one is rounded up, and the last tile has the longest prompt's keys. */
struct tiles {
	double count, keys, least;
};

static struct tiles tiles_of(const struct step_counts *counts, double longest)
{
	double full = (double)u64_divide_up(counts->prefill_tokens, PREFILL_QUERY_TILE);
	double exact = (double)counts->prefill_tokens / PREFILL_QUERY_TILE;
	double pairs = (double)counts->prefill_attention_pairs;

	if (counts->prefill_tiles > 0) {
		double tiles = (double)counts->prefill_tiles;
		return (struct tiles){tiles, (double)counts->prefill_tile_keys, tiles};
	}
	double tiles = counts->prefill_rows > 1 ? exact + 0.5 * (double)counts->prefill_rows : full;
	return (struct tiles){tiles, pairs / PREFILL_QUERY_TILE + (tiles - exact) * longest, full};
}

/* The longest chain where it is not counted: rounds of tiles. Those behind the first one have a
   single prompt's mean keys; of several prompts, whose lengths are unknown, the longest one's, but
   no more than all tiles have together. */
static double usual_chain(const struct operation_floors *floors, const struct step_counts *counts,
	const struct tiles *tiles, double longest)
{
	double heads = floors->query_heads, processors = floors->multiprocessors;
	double rounds = most(most(tiles->count * heads / processors, 1),
		ceil(tiles->least * heads / processors));
	double own = counts->prefill_rows > 1 ? 0 : (double)counts->prefill_tokens;
	double each = most(longest - 0.5 * own, 0);

	return longest + least((rounds - 1) * each, tiles->keys * heads / processors);
}

/* The same where tiles at most half full count half: all of them where the kernel halves its tiles,
   up to half of the multiprocessors, and else none. */
static double usual_half_chain(
	const struct operation_floors *floors, const struct tiles *tiles, double chain)
{
	bool is_halved = 2 * tiles->count * floors->query_heads <= floors->multiprocessors;

	return is_halved ? 0.5 * chain : chain;
}

void operation_step_prompts(struct operation_step *out, const struct operation_floors *floors,
	const struct step_counts *counts)
{
	double *at = out->at;
	double tokens = (double)counts->prefill_tokens, rows = (double)counts->prefill_rows;
	double pairs = (double)counts->prefill_attention_pairs;
	double keys = (double)counts->prefill_longest_context;
	double heads = floors->query_heads, processors = floors->multiprocessors;

	if (keys == 0) {
		keys = pairs / tokens + 0.5 * (tokens / rows - 1);
	}
	const struct tiles tiles = tiles_of(counts, keys);
	/* What prompts share is read once. */
	double shared = (double)counts->prefill_shared_tokens;
	double others = (double)counts->prefill_context_tokens - keys - shared;
	double chain = (double)counts->prefill_chain_keys;
	double half_chain = (double)counts->prefill_half_chain_keys;
	chain = chain > 0 ? chain : usual_chain(floors, counts, &tiles, keys);
	half_chain = half_chain > 0 ? half_chain : usual_half_chain(floors, &tiles, chain);
	at[OPERATION_VARIABLE_KEYS] = keys;
	at[OPERATION_VARIABLE_EVEN_KEYS] = tiles.keys * heads / processors;
	at[OPERATION_VARIABLE_CHAIN_KEYS] = chain;
	at[OPERATION_VARIABLE_HALF_CHAIN_KEYS] = half_chain;
	at[OPERATION_VARIABLE_OTHER_CONTEXTS] = most(others, 0);
	at[OPERATION_VARIABLE_PAIRS] = pairs;
	at[OPERATION_VARIABLE_TILE_PAIRS] = tiles.keys * PREFILL_QUERY_TILE;
	at[OPERATION_VARIABLE_TILES] = tiles.count;
}

void operation_step_rounds(struct operation_step *out, const struct operation_sharing *rule)
{
	double longest = out->at[OPERATION_VARIABLE_LONGEST];
	double tokens = least(longest, rule->alone), in_rounds = 0;

	if (rule->round > 0) { /* ceil() takes longer */
		in_rounds = (double)(int64_t)(tokens / rule->round) * rule->round;
		in_rounds += in_rounds < tokens ? rule->round : 0;
	}
	out->at[OPERATION_VARIABLE_ROUND_TOKENS] = most(longest, in_rounds);
}

double operation_basis(enum operation_term term, const struct operation_parts *parts, uint32_t i,
	const struct operation_step *step)
{
	double x = step->at[terms[term].x], y = step->at[terms[term].y];

	check(i < parts->count);
	switch (terms[term].kind) {
	case OPERATION_KIND_DEARER:
		return most(x, parts->at[i] * y);
	case OPERATION_KIND_CHEAPER:
		return least(x, parts->at[i] * y);
	case OPERATION_KIND_REREAD:
		return x + least(step->at[OPERATION_VARIABLE_SHARED], y / parts->at[i]);
	default:
		if (i + 1 < parts->count) {
			x = least(x, parts->at[i + 1]);
		}
		return most(x - parts->at[i], 0);
	}
}
