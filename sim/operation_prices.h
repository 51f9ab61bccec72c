#ifndef SIM_OPERATION_PRICES_H
#define SIM_OPERATION_PRICES_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/batch.h"
#include "engine/shape/model_config.h"

/* What a calibrated profile knows: non-negative prices of the operations of a step, beside what
   weights take, and floors that no GPU of its limits can beat. sim/price_by_operations.h adds them
   up.

   A term is one operation, or one reason why it takes time. Its basis functions are 0 or more, and
   none falls when a row, a token or a context is added to a step whose counts are known. So no sum
   of them falls either, whatever the prices. Of variables x and y (below), a part with the number
   `at` counts

     RAMP     x beyond `at`, up to the next part's `at`; the last part has no end
     DEARER   max(x, at * y): what fills the GPU against its longest chain
     CHEAPER  min(x, at * y)
     REREAD   x + min(shared tokens, y / at): `at` tokens between two readings are as many as
              memory reads again

   Shared tokens are those that decode rows hold in the same blocks, each counted for every row but
   one. An engine reads them once for all rows, or for each row again, as its rule says for the
   step (struct operation_sharing); prices of the one are not those of the other.

   X(name, kind, section, x, y, what it stands for) */
#define OPERATION_TERM_LIST(X)                                                                     \
	X(graph, RAMP, LAUNCH, GRAPH_STEP, NONE, "a step that only decodes")                       \
	X(graph_rows, RAMP, LAUNCH, GRAPH_ROWS, NONE, "decode rows of a graph, padded")            \
	X(eager, RAMP, LAUNCH, EAGER_STEP, NONE, "a step with prompts")                            \
	X(eager_launched, RAMP, LAUNCH, LAUNCHED_STEP, NONE,                                       \
		"a step with prompts that no graph holds")                                         \
	X(eager_mixed, RAMP, LAUNCH, MIXED_STEP, NONE, "launches that only a mixed step has")      \
	X(eager_mixed_tokens, RAMP, LAUNCH, MIXED_TOKENS, NONE,                                    \
		"prompt tokens beside decode rows")                                                \
	X(eager_products, RAMP, LAUNCH, PRODUCTS, NONE, "products, in their floor's time")         \
	X(eager_tokens, RAMP, LAUNCH, EAGER_TOKENS, NONE, "tokens of a step with prompts")         \
	X(eager_tiles, RAMP, LAUNCH, EAGER_TILES, NONE, "tiles of those, behind the first one")    \
	X(eager_decodes, RAMP, LAUNCH, MIXED_ROWS, NONE, "decode rows beside prompts")             \
	X(eager_decode, RAMP, LAUNCH, MIXED_ROWS, NONE, "a decode row beside prompts")             \
	X(eager_rows, RAMP, LAUNCH, PROMPTS, NONE, "prompts, whatever their lengths")              \
	X(samples, RAMP, LAUNCH, SAMPLES, NONE, "lm_head and sampler")                             \
	X(kv_reread, REREAD, CONTEXT, DISTINCT, REREAD_SPAN, "K and V, the shared ones again")     \
	X(kv_all, RAMP, CONTEXT, DECODE_CONTEXT, NONE, "K and V, the shared ones too")             \
	X(kv_uneven, DEARER, CONTEXT, DECODE_CONTEXT, LONGEST, "rows of uneven length")            \
	X(kv_longest, RAMP, CONTEXT, LONGEST, NONE, "the longest row")                             \
	X(kv_rounds, DEARER, CONTEXT, DISTINCT, ROUND_TOKENS, "K and V, in whole rounds")          \
	X(kv_longest_many, RAMP, CONTEXT, LONGEST_MANY, NONE, "the longest of several rows")       \
	X(kv_beside, CHEAPER, CONTEXT, LONGEST_MANY, OTHERS, "merging while others are read")      \
	X(kv_fill, CHEAPER, CONTEXT, CONTEXT_MANY, ONE, "few tokens that do not fill the GPU")     \
	X(kv_first, CHEAPER, CONTEXT, LONGEST, ONE, "the first tokens of the longest row")         \
	X(kv_late, CHEAPER, CONTEXT, LONGEST_MANY, DECODE_ROWS, "a long row behind many others")   \
	X(kv_shared, DEARER, CONTEXT, DISTINCT, DECODE_CONTEXT,                                    \
		"K and V read once, for many rows")                                                \
	X(kv_repeat, RAMP, CONTEXT, SHARED_REPEAT, NONE,                                           \
		"shared tokens, read again for more rows")                                         \
	X(kv_each, RAMP, CONTEXT, SHARED_EACH, NONE, "shared tokens that every row reads")         \
	X(kv_each_far, CHEAPER, CONTEXT, SHARED_EACH, REREAD_SPAN,                                 \
		"the same from memory, far apart")                                                 \
	X(kv_again, CHEAPER, CONTEXT, SHARED, ONE, "shared tokens, too few to be read once")       \
	X(kv_merge, CHEAPER, CONTEXT, SHARED, DECODE_ROWS, "shared parts of a row, merged")        \
	X(kv_long, RAMP, CONTEXT, LONG_STEP, NONE, "attention with a long row")                    \
	X(kv_long_rows, RAMP, CONTEXT, LONG_ROWS, NONE, "rows, where one is long")                 \
	X(prefill_walk, RAMP, PROMPT, KEYS, NONE, "keys that a tile walks through")                \
	X(prefill_even, DEARER, PROMPT, EVEN_KEYS, KEYS, "tiles spread over the GPU")              \
	X(prefill_chain, RAMP, PROMPT, CHAIN_KEYS, NONE, "keys of the busiest multiprocessor")     \
	X(prefill_half_chain, RAMP, PROMPT, HALF_CHAIN_KEYS, NONE,                                 \
		"the same, of tiles at most half full by half")                                    \
	X(prefill_beside, CHEAPER, PROMPT, CHAIN_KEYS, OTHER_CONTEXTS,                             \
		"the same, while other prompts are read")                                          \
	X(prefill_pairs, RAMP, PROMPT, TILE_PAIRS, NONE, "queries and keys, in whole tiles")       \
	X(prefill_half, DEARER, PROMPT, PAIRS, TILE_PAIRS,                                         \
		"the same, in tiles at least half full")                                           \
	X(prefill_tiles, RAMP, PROMPT, TILES, NONE, "tiles that are listed")                       \
	X(host_graph, RAMP, HOST, HOST_GRAPH, NONE, "host: a step that only decodes")              \
	X(host_eager, RAMP, HOST, HOST_EAGER, NONE, "host: a step with prompts")                   \
	X(host_ahead, RAMP, HOST, HOST_AHEAD, NONE, "host: a step launched ahead")                 \
	X(host_rows, RAMP, HOST, HOST_ROWS, NONE, "host: rows that are listed and sent")           \
	X(host_tokens, RAMP, HOST, HOST_TOKENS, NONE, "host: prompt tokens, listed and sent")      \
	X(host_context, RAMP, HOST, HOST_CONTEXT, NONE, "host: parts of attention, listed")

enum operation_term {
#define OPERATION_TERM_ENUM(name, kind, section, x, y, what) OPERATION_TERM_##name,
	OPERATION_TERM_LIST(OPERATION_TERM_ENUM)
#undef OPERATION_TERM_ENUM
		OPERATION_TERM_COUNT
};

enum operation_kind {
	OPERATION_KIND_RAMP,
	OPERATION_KIND_DEARER,
	OPERATION_KIND_CHEAPER,
	OPERATION_KIND_REREAD
};

/* LAUNCH depends on which rows share the step; CONTEXT on decode rows alone; PROMPT on prompts
   alone; HOST is the host's time. */
enum operation_section {
	OPERATION_SECTION_LAUNCH,
	OPERATION_SECTION_CONTEXT,
	OPERATION_SECTION_PROMPT,
	OPERATION_SECTION_HOST
};

/* Here a graph step is one that only decodes, an eager one has prompts, though a graph may hold it
   too (graph_holds_prompts()), and a mixed one has both. */
enum operation_variable {
	OPERATION_VARIABLE_NONE,
	OPERATION_VARIABLE_ONE,
	OPERATION_VARIABLE_GRAPH_STEP,	  /* 1 or 0 */
	OPERATION_VARIABLE_GRAPH_ROWS,	  /* padded to the graph's size */
	OPERATION_VARIABLE_EAGER_STEP,	  /* 1 or 0 */
	OPERATION_VARIABLE_LAUNCHED_STEP, /* 1 where no graph holds one, or 0 */
	OPERATION_VARIABLE_MIXED_STEP,	  /* 1 or 0 */
	OPERATION_VARIABLE_MIXED_TOKENS,  /* prompt tokens of one, up to MIXED_TOKENS_MOST */
	OPERATION_VARIABLE_PRODUCTS,	  /* floor of the layers' products in an eager step, ns */
	OPERATION_VARIABLE_EAGER_TOKENS,  /* prompt tokens and decode rows of an eager step */
	OPERATION_VARIABLE_EAGER_TILES,	  /* product_tiles() of those */
	OPERATION_VARIABLE_MIXED_ROWS,	  /* decode rows of a mixed step */
	OPERATION_VARIABLE_PROMPTS,
	OPERATION_VARIABLE_SAMPLES,	   /* sampled rows, in a graph step its padded rows */
	OPERATION_VARIABLE_DECODE_CONTEXT, /* tokens of all decode rows */
	OPERATION_VARIABLE_DISTINCT,	   /* those less the shared tokens */
	OPERATION_VARIABLE_SHARED,	   /* the shared tokens, where they are read once */
	OPERATION_VARIABLE_SHARED_REPEAT,  /* repeat tokens, where shared ones are read once */
	OPERATION_VARIABLE_SHARED_EACH,	   /* the same where every row reads them */
	OPERATION_VARIABLE_REREAD_SPAN,	   /* reread tokens * decode context */
	OPERATION_VARIABLE_LONGEST,	   /* longest context of a decode row */
	OPERATION_VARIABLE_ROUND_TOKENS,   /* of the rounds that hold the longest row */
	OPERATION_VARIABLE_LONGEST_MANY,   /* the same of several rows, or of a long row alone */
	OPERATION_VARIABLE_OTHERS,	   /* context of the other rows */
	OPERATION_VARIABLE_CONTEXT_MANY,   /* decode context of those, or of that */
	OPERATION_VARIABLE_DECODE_ROWS,
	OPERATION_VARIABLE_LONG_STEP,  /* 1 where a row is long or shared tokens are read once */
	OPERATION_VARIABLE_LONG_ROWS,  /* decode rows of such a step */
	OPERATION_VARIABLE_KEYS,       /* longest context of a prompt token */
	OPERATION_VARIABLE_EVEN_KEYS,  /* keys a multiprocessor walks through, spread evenly */
	OPERATION_VARIABLE_CHAIN_KEYS, /* keys of the longest chain of tiles */
	OPERATION_VARIABLE_HALF_CHAIN_KEYS, /* the same, tiles at most half full by half */
	OPERATION_VARIABLE_OTHER_CONTEXTS,  /* of the prompts but the longest, less what they share;
					       0: not known */
	OPERATION_VARIABLE_PAIRS,	    /* of a query and a key */
	OPERATION_VARIABLE_TILE_PAIRS,	    /* the same of whole tiles */
	OPERATION_VARIABLE_TILES,	    /* of PREFILL_QUERY_TILE queries */
	OPERATION_VARIABLE_HOST_GRAPH,
	OPERATION_VARIABLE_HOST_EAGER,
	OPERATION_VARIABLE_HOST_AHEAD,
	OPERATION_VARIABLE_HOST_ROWS,
	OPERATION_VARIABLE_HOST_TOKENS,
	OPERATION_VARIABLE_HOST_CONTEXT,
	OPERATION_VARIABLE_COUNT
};

enum { OPERATION_PARTS = 32 };

/* What prompt tokens take more beside decode rows is level from here on: of models of 8 billion
   parameters and more no step with more of them was measured. */
enum { MIXED_TOKENS_MOST = 2048 };

/* Products of a step with prompts are computed in tiles of PRODUCT_TILE tokens. Half as many tokens
   fit into a tile of half the size, a quarter into one of a quarter. A step takes longer where a
   token needs a larger tile or another one: on an H200 qwen3-14b takes 11 % longer for 48 tokens
   than for 32, and 18 % longer for 129 than for 128. */
enum { PRODUCT_TILE = 128 };

/* How often a step has become longer so up to `tokens`: 0 up to a quarter of a tile, 1 up to half a
   tile, 2 up to a whole one, and once more for every further tile. */
uint64_t product_tiles(uint64_t tokens);

/* Prices and numbers `at` lie within this distance of 0. */
#define OPERATION_PRICE_LIMIT 1e15

struct operation_parts {
	uint32_t count;		    /* 0: the term costs nothing */
	double at[OPERATION_PARTS]; /* rising; of a RAMP the first is 0 */
	double ns[OPERATION_PARTS]; /* price of a unit, 0 or more */
};

/* The best that a GPU can do: X(field, unit in a file, smallest, largest). */
#define OPERATION_LIMIT_LIST(X)                                                                    \
	X(read_rate, "GB/s", 1, 1e6)	  /* memory, read by a streaming kernel */                 \
	X(flop_rate, "TFLOP/s", 0.1, 1e6) /* products of bf16 matrices */                          \
	X(multiprocessors, "count", 1, PREFILL_MULTIPROCESSORS_MAX)

struct operation_limits {
#define OPERATION_LIMIT_FIELD(field, unit, minimum, maximum) double field;
	OPERATION_LIMIT_LIST(OPERATION_LIMIT_FIELD)
#undef OPERATION_LIMIT_FIELD
};

/* The shape of the model that a GPU computes, a rank's share: fields of config.json. */
#define OPERATION_SHAPE_LIST(X)                                                                    \
	X(hidden_size)                                                                             \
	X(num_hidden_layers)                                                                       \
	X(num_attention_heads)                                                                     \
	X(num_key_value_heads)                                                                     \
	X(head_dim)                                                                                \
	X(intermediate_size)                                                                       \
	X(vocab_size)

/* The rules by which an engine picks its kernel of decode attention. It reads shared tokens once
   where they are at least `tokens`, or where there are any and a row has more than `longest`; with
   0, 0 in every step. A row alone has a kernel of its own up to `alone` tokens, and beyond the one
   of several rows; 0: there is no such kernel. That kernel reads `round` tokens at a time, so that
   a step takes longer where another round begins; 0: it has no rounds. One reading of shared tokens
   serves up to `readers` rows; 0: any number. */
struct operation_sharing {
	double tokens, longest, alone, round, readers;
};

/* The most that a profile or a recorded run may say. */
enum { OPERATION_READERS_MOST = 1024 };

/* The rules of quire's own engine for a rank's share of a model. Source: kernels/attention/
   decode_list.h, decode_list_may_share() and long launches; decode_readers(). */
struct operation_sharing operation_sharing_of(const struct model_config *shape);

bool operation_shares(const struct operation_sharing *rule, const struct step_counts *counts);

struct operation_prices {
	struct operation_limits limits;
	struct operation_sharing sharing;
	uint32_t graph_tokens;	   /* the most prompt tokens in a graph; 0: none has prompts */
	struct model_config shape; /* fields of the list only */
	struct operation_parts terms[OPERATION_TERM_COUNT];
};

/* What the operations take at the limits, in ns. Weights are read once a step, K and V once for
   all rows that share them. What a token or a pair computes leaves out the last layer but for its
   qkv, since an engine may compute the rest of that layer for the sampled rows alone
   (drop_rows() in engine/runners/cuda_pass.c). */
struct operation_floors {
	double products, product_token; /* max(products, product_token * tokens) */
	double head, head_row;		/* max(head, head_row * sampled rows) */
	double kv_token;		/* a distinct token that decode rows attend to */
	double pair;			/* a prompt token and one that it attends to */
	double query_heads, multiprocessors;
};

/* What prefill attention spreads its tiles over; nothing, where the floors are 0. */
struct prefill_spread operation_spread(const struct operation_floors *floors);

void operation_floors_of(struct operation_floors *out, const struct operation_limits *limits,
	const struct model_config *shape);

static inline double operation_floor(double whole, double each, double count)
{
	return count <= 0 ? 0 : (whole > each * count ? whole : each * count);
}

/* What products take before any price is added: the time of reading the weights, or the time of
   computing the tokens less half of the former, whichever is longer. It is at most the floor. Added
   to the floor itself, prices could not follow a step that takes no longer for more tokens while
   they fill a tile: on an H200 qwen3-14b takes 11.2 ms for 192 and for 255 tokens, but the floors
   of their products are 6.4 and 8.5 ms. The floor bounds the whole step in its place. */
static inline double operation_products_base(const struct operation_floors *floors, double tokens)
{
	double beyond = floors->product_token * tokens - 0.5 * floors->products;

	return tokens <= 0 ? 0 : (floors->products > beyond ? floors->products : beyond);
}

const char *operation_term_name(enum operation_term term);
const char *operation_term_what(enum operation_term term);
/* Whether each token of context that no other row holds pays the term's prices, all of them. */
bool operation_term_is_of_tokens(enum operation_term term);
/* Whether a profile may leave the term out, which then costs nothing. */
bool operation_term_may_lack(enum operation_term term);
enum operation_kind operation_term_kind(enum operation_term term);
enum operation_section operation_term_section(enum operation_term term);
enum operation_variable operation_term_x(enum operation_term term);
enum operation_variable operation_term_y(enum operation_term term);

/* ---- variables of a step ----

   Computed with + - * / on doubles only. Where the longest context of a decode row is not known (0)
   it is the mean; likewise the longest of a prompt token is that of equal prompts. */
struct operation_step {
	double at[OPERATION_VARIABLE_COUNT];
};

/* The rows that share a step; of a mixed step also those of one kind alone. */
struct operation_rows {
	double decodes, prompts, tokens, samples; /* tokens: of the prompts */
	double context;				  /* of the decode rows */
};

struct operation_rows operation_rows_of(const struct step_counts *counts);

/* Each sets the variables of its sections, and no others. graph_tokens: of the prices. */
void operation_step_rows(struct operation_step *out, const struct operation_floors *floors,
	uint32_t graph_tokens, const struct operation_rows *rows, bool is_ahead);
void operation_step_context(struct operation_step *out, const struct operation_sharing *rule,
	const struct step_counts *counts);
/* After operation_step_context(): sets the tokens of the whole rounds that hold the longest row.
   Only a row alone is read in rounds, but if other rows did not count them, a step could become
   cheaper when a short row joins. A function of its own, since pricing skips it where the rows have
   at least a round more than the longest: their tokens are more than its rounds. */
void operation_step_rounds(struct operation_step *out, const struct operation_sharing *rule);
void operation_step_prompts(struct operation_step *out, const struct operation_floors *floors,
	const struct step_counts *counts);

/* A basis function of a term: part `i` of `parts`. */
double operation_basis(enum operation_term term, const struct operation_parts *parts, uint32_t i,
	const struct operation_step *step);

#endif
