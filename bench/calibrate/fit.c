#include "bench/calibrate/fit.h"

#include "bench/calibrate/least_squares.h"
#include "engine/base/check.h"
#include "engine/base/counter_hash.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "engine/base/number.h"
#include "sim/price_by_operations.h"
#include "sim/profile_laws.h"
#include "sim/step_price.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POINTS_MIN = 60, HELD_OUT_SHARE = 3, PURPOSE_HELD_OUT = 0x68656c64 };

/* Passes of Huber's weights, and of the rule that K and V are no faster than memory. */
enum { HUBER_PASSES = 6, MEMORY_PASSES = 12 };

/* How much neighbours of a ramp are kept alike, and prices small, in errors of all steps. With less
   prices of few steps follow these alone, with more the steps are missed. */
static const double tie_share = 0.03, small_share = 0.002, host_small_share = 0.0001;
/* Points are medians of at least three samples, steps of a log are single ones. */
static const double huber_tolerated = 0.04, huber_tolerated_logged = 0.01;

/* ---- the parts of each term ----

   Rows of graphs have a part for each of their smaller sizes, and else for each 32. Others have few
   parts, since steps are few. */

static const double once[] = {0};
static const double whole[] = {1};
static const double graph_parts[] = {0, 1, 2, 4, 8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160,
	192, 224, 256, 288, 320, 352, 384, 416, 448, 480};
/* Other engines stop capturing graphs: vLLM at 512 rows, beyond which a step is launched in pieces.
   Behind the last of these parts a step may jump by what that takes. */
static const double logged_graph_parts[] = {512, 528};
static const double logged_reread_parts[] = {1024, 2048, 4096, 8192, 16384, 65536};
static const double small_token_parts[] = {4, 8};
static const double token_parts[] = {0, 16, 32, 64, 128, 192, 256, 512, 768, 1024, 2048, 4096};
/* Each tile up to 16 has a price: with 132 multiprocessors some begin another round of blocks and
   others fill the one that has begun (sim/profiles/TUNING.md). */
static const double tile_parts[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
static const double mixed_token_parts[] = {0, 256};
static const double mixed_parts[] = {0, 8, 32, 128};
static const double sample_parts[] = {0, 16, 64, 128};
static const double reread_parts[] = {4096, 65536, 16777216};
static const double uneven_parts[] = {4, 16, 64};
static const double longest_parts[] = {0, 512, 2048};
static const double many_parts[] = {0, 256, 512, 2048};
static const double beside_parts[] = {0.25, 1, 4};
static const double fill_parts[] = {2048, 8192, 32768};
static const double first_parts[] = {2048, 8192, 32768};
static const double late_parts[] = {128};
static const double shared_parts[] = {0.015625, 0.0625, 0.125};
enum { USUAL_SHARED_PART = 1 };
static const double again_parts[] = {8192, 24576, 49152};
static const double merge_parts[] = {256, 1024};
static const double even_parts[] = {0.25, 0.5, 1};
/* What prefill attention computes is in the longest chain; but in a step of many pairs K and V come
   from memory again and again, so that each pair beyond the first part has a price. */
static const double pair_parts[] = {0, 67108864};
/* One of the two warpgroups that compute a tile has nothing to do where the tile has at most half
   of its queries. */
static const double half_parts[] = {0.5};
static const double host_row_parts[] = {0, 16};
static const double host_token_parts[] = {0, 256};

#define PARTS(name, array) [OPERATION_TERM_##name] = {array, sizeof(array) / sizeof((array)[0])}

static const struct {
	const double *at;
	uint32_t count;
} parts_of[OPERATION_TERM_COUNT] = {
	PARTS(graph, once),
	PARTS(graph_rows, graph_parts),
	PARTS(eager, once),
	PARTS(eager_launched, once),
	PARTS(eager_mixed, once),
	PARTS(eager_mixed_tokens, mixed_token_parts),
	PARTS(eager_products, once),
	PARTS(eager_tokens, token_parts),
	PARTS(eager_tiles, tile_parts),
	PARTS(eager_decodes, mixed_parts),
	PARTS(eager_decode, once),
	PARTS(eager_rows, once),
	PARTS(samples, sample_parts),
	PARTS(kv_reread, reread_parts),
	PARTS(kv_all, once),
	PARTS(kv_uneven, uneven_parts),
	PARTS(kv_longest, longest_parts),
	PARTS(kv_rounds, whole),
	PARTS(kv_longest_many, many_parts),
	PARTS(kv_beside, beside_parts),
	PARTS(kv_fill, fill_parts),
	PARTS(kv_first, first_parts),
	PARTS(kv_late, late_parts),
	PARTS(kv_shared, shared_parts),
	PARTS(kv_repeat, once),
	PARTS(kv_each, once),
	PARTS(kv_each_far, once), /* set_far_part() */
	PARTS(kv_again, again_parts),
	PARTS(kv_merge, merge_parts),
	PARTS(kv_long, once),
	PARTS(kv_long_rows, once),
	PARTS(prefill_walk, once),
	PARTS(prefill_even, even_parts),
	PARTS(prefill_chain, once),
	PARTS(prefill_half_chain, once),
	PARTS(prefill_beside, whole),
	PARTS(prefill_pairs, pair_parts),
	PARTS(prefill_half, half_parts),
	PARTS(prefill_tiles, once),
	PARTS(host_graph, once),
	PARTS(host_eager, once),
	PARTS(host_ahead, once),
	PARTS(host_rows, host_row_parts),
	PARTS(host_tokens, host_token_parts),
	PARTS(host_context, once),
};

/* Nine digits are more precise than any measurement, and survive writing and reading. */
static double rounded(double ns)
{
	char text[40];

	snprintf(text, sizeof(text), "%.9g", ns);
	return strtod(text, NULL);
}

static void append_part(struct operation_parts *parts, double at)
{
	check(parts->count < OPERATION_PARTS);
	parts->at[parts->count++] = at;
}

/* What only another engine's steps have. Their attention (FlashAttention) splits the keys of a row
   that are more than a multiprocessor's share of all rows' keys, and each key/value head has shares
   of its own. The step ends with the longest piece: the longest row or that share. */
static void set_logged_parts(struct operation_prices *prices, const struct calibrate_setup *setup)
{
	static const enum operation_term not_logged[] = {OPERATION_TERM_kv_rounds,
		OPERATION_TERM_kv_shared, OPERATION_TERM_kv_repeat, OPERATION_TERM_kv_each,
		OPERATION_TERM_kv_each_far, OPERATION_TERM_kv_again, OPERATION_TERM_kv_merge,
		OPERATION_TERM_kv_first, OPERATION_TERM_kv_late, OPERATION_TERM_kv_long,
		OPERATION_TERM_kv_long_rows, OPERATION_TERM_prefill_chain,
		OPERATION_TERM_prefill_half_chain, OPERATION_TERM_prefill_beside,
		OPERATION_TERM_prefill_half, OPERATION_TERM_eager_tiles,
		OPERATION_TERM_eager_mixed_tokens};
	struct operation_parts *beside = &prices->terms[OPERATION_TERM_kv_beside];
	struct operation_parts *reread = &prices->terms[OPERATION_TERM_kv_reread];
	double share = setup->shape.num_key_value_heads / setup->limits.multiprocessors;

	for (uint32_t i = 0; i < sizeof(logged_graph_parts) / sizeof(double); i++) {
		append_part(&prices->terms[OPERATION_TERM_graph_rows], logged_graph_parts[i]);
	}
	for (uint32_t i = 0; i < sizeof(not_logged) / sizeof(not_logged[0]); i++) {
		prices->terms[not_logged[i]].count = 0;
	}
	prices->terms[OPERATION_TERM_prefill_pairs].count = 1;
	memcpy(reread->at, logged_reread_parts, sizeof(logged_reread_parts));
	reread->count = sizeof(logged_reread_parts) / sizeof(double);
	if (share < beside->at[0]) {
		memmove(beside->at + 1, beside->at, beside->count * sizeof(beside->at[0]));
		beside->at[0] = rounded(share);
		beside->count++;
	}
}

/* Shared tokens that every row reads come from the L2 cache again where the readings are close, and
   from memory where more than the cache holds (50 MB of an H200) is read between them. The price
   rises in proportion to the distance, so blocks with close readings and blocks with far ones add
   up to their mean distance. A second part, which would be dear at smaller distances already, is
   wrong for such mixtures. */
static void set_far_part(struct operation_prices *prices, const struct calibrate_setup *setup)
{
	const double cache_bytes = 64 << 20;
	double token_bytes = 2.0 * MODEL_ELEMENT_BYTES * setup->shape.num_key_value_heads *
			     setup->shape.head_dim; /* K and V of a layer */

	prices->terms[OPERATION_TERM_kv_each_far].at[0] = rounded(token_bytes / cache_bytes);
}

/* Where steps of few prompt tokens are graphs, those that are not have a price for that, and few
   tokens have more parts. Else every step with prompts is launched, and its price says it. */
static void set_graph_parts(struct operation_prices *prices, const struct calibrate_setup *setup)
{
	struct operation_parts *tokens = &prices->terms[OPERATION_TERM_eager_tokens];
	const size_t more = sizeof(small_token_parts) / sizeof(double);

	if (setup->graph_tokens == 0) {
		prices->terms[OPERATION_TERM_eager_launched].count = 0;
		return;
	}
	memmove(tokens->at + 1 + more, tokens->at + 1, (tokens->count - 1) * sizeof(double));
	memcpy(tokens->at + 1, small_token_parts, sizeof(small_token_parts));
	tokens->count += (uint32_t)more;
}

static void set_parts(struct operation_prices *prices, const struct calibrate_setup *setup)
{
	for (uint32_t t = 0; t < OPERATION_TERM_COUNT; t++) {
		struct operation_parts *parts = &prices->terms[t];
		parts->count = parts_of[t].count;
		memcpy(parts->at, parts_of[t].at, parts->count * sizeof(parts->at[0]));
	}
	set_far_part(prices, setup);
	set_graph_parts(prices, setup);
	if (setup->is_step_log) {
		set_logged_parts(prices, setup);
	} else {
		/* The longest chain says how tiles are spread. */
		prices->terms[OPERATION_TERM_prefill_even].count = 0;
	}
}

/* ---- one system: the GPU's prices or the host's ---- */

struct column {
	enum operation_term term;
	uint32_t part;
	uint32_t head; /* the column whose price it has: its own, or one of its ramp before it */
};

struct system {
	bool is_host;
	double tolerated; /* Huber's, relative */
	uint32_t count;	  /* columns */
	struct column columns[OPERATION_TERM_COUNT * OPERATION_PARTS];
	size_t rows;	/* fitted points */
	double *basis;	/* (rows, count) */
	double *value;	/* (rows) ns */
	double *weight; /* (rows) 1 / elapsed */
	double *huber;	/* (rows) */
	double *price;	/* (count) */
};

/* Without the longest context of any row no price may depend on it: a mean in its place falls when
   a short row joins. */
static bool is_left_out(enum operation_term term, bool has_longest)
{
	enum operation_variable x = operation_term_x(term), y = operation_term_y(term);

	return !has_longest &&
	       (x == OPERATION_VARIABLE_LONGEST || x == OPERATION_VARIABLE_LONGEST_MANY ||
		       y == OPERATION_VARIABLE_LONGEST);
}

static void list_columns(
	struct system *system, const struct operation_prices *prices, bool has_longest)
{
	for (uint32_t t = 0; t < OPERATION_TERM_COUNT; t++) {
		enum operation_term term = (enum operation_term)t;
		bool is_host = operation_term_section(term) == OPERATION_SECTION_HOST;
		if (is_host != system->is_host || is_left_out(term, has_longest)) {
			continue;
		}
		for (uint32_t i = 0; i < prices->terms[t].count; i++) {
			system->columns[system->count] =
				(struct column){.term = term, .part = i, .head = system->count};
			system->count++;
		}
	}
}

static void step_of(struct operation_step *step, const struct operation_floors *floors,
	const struct operation_prices *prices, const struct calibrate_point *point)
{
	const struct operation_rows rows = operation_rows_of(&point->counts);

	memset(step, 0, sizeof(*step));
	operation_step_rows(step, floors, prices->graph_tokens, &rows, point->ahead != 0);
	operation_step_context(step, &prices->sharing, &point->counts);
	operation_step_rounds(step, &prices->sharing);
	if (point->counts.prefill_rows > 0) {
		operation_step_prompts(step, floors, &point->counts);
	}
}

static void add_point(struct system *system, const struct operation_prices *prices,
	const struct operation_floors *floors, const struct calibrate_point *point)
{
	struct operation_step step;
	size_t row = system->rows++;
	double *basis = &system->basis[row * system->count];
	double tokens = (double)(point->counts.decode_rows + point->counts.prefill_tokens);
	double fixed =
		operation_products_base(floors, tokens) +
		operation_floor(floors->head, floors->head_row, (double)point->counts.sampled_rows);

	step_of(&step, floors, prices, point);
	for (uint32_t i = 0; i < system->count; i++) {
		enum operation_term term = system->columns[i].term;
		basis[i] =
			operation_basis(term, &prices->terms[term], system->columns[i].part, &step);
	}
	system->weight[row] = 1 / (double)point->elapsed_ns;
	system->value[row] =
		system->is_host ? (double)point->host_ns : (double)point->gpu_ns - fixed;
}

static double largest(const struct system *system, uint32_t column)
{
	double most = 0;

	for (size_t row = 0; row < system->rows; row++) {
		most = fmax(most, system->basis[row * system->count + column]);
	}
	return most;
}

/* Parts that no step enters by half the width of the part before continue its price. */
static void join_parts(struct system *system)
{
	for (uint32_t i = 1; i < system->count; i++) {
		struct column *column = &system->columns[i];
		bool is_ramp = operation_term_kind(column->term) == OPERATION_KIND_RAMP;
		if (!is_ramp || column->part == 0 ||
			largest(system, i) >= 0.5 * largest(system, i - 1)) {
			continue;
		}
		column->head = system->columns[i - 1].head;
	}
	for (uint32_t i = 1; i < system->count; i++) {
		uint32_t head = system->columns[i].head;
		for (size_t row = 0; head != i && row < system->rows; row++) {
			double *basis = &system->basis[row * system->count];
			basis[head] += basis[i];
			basis[i] = 0;
		}
	}
}

static void open_system(struct system *system, bool is_host, const struct operation_prices *prices,
	const struct operation_floors *floors, const struct calibrate_points *points)
{
	bool has_longest = false;

	memset(system, 0, sizeof(*system));
	system->is_host = is_host;
	for (size_t i = 0; i < points->count; i++) {
		const struct calibrate_point *point = &points->points[i];
		bool is_known = point->counts.decode_longest_context > 0;
		has_longest = has_longest || (is_known && !point->is_held_out);
	}
	list_columns(system, prices, has_longest);
	system->basis = memory_take(points->count * system->count, sizeof(double));
	system->value = memory_take(points->count, sizeof(double));
	system->weight = memory_take(points->count, sizeof(double));
	system->huber = memory_take(points->count, sizeof(double));
	system->price = memory_take(system->count, sizeof(double));
	for (size_t i = 0; i < points->count; i++) {
		if (!points->points[i].is_held_out) {
			add_point(system, prices, floors, &points->points[i]);
		}
	}
	join_parts(system);
}

static void close_system(struct system *system)
{
	free(system->basis);
	free(system->value);
	free(system->weight);
	free(system->huber);
	free(system->price);
}

/* ---- solving ---- */

/* The length of a column, in relative errors of all steps. */
static double length_of(const struct system *system, uint32_t column)
{
	double square = 0;

	for (size_t row = 0; row < system->rows; row++) {
		double one = system->basis[row * system->count + column] * system->weight[row];
		square += one * one;
	}
	return sqrt(square);
}

/* Where no step shares blocks, nothing tells the prices of K and V apart. This engine reads them
   once, so that price is free to be the large one. */
static bool is_usual_shared(const struct column *column)
{
	return column->term == OPERATION_TERM_kv_shared && column->part == USUAL_SHARED_PART;
}

static double small_share_of(const struct system *system, uint32_t column)
{
	double usual = is_usual_shared(&system->columns[column]) ? small_share / 10 : small_share;

	return system->is_host ? host_small_share : usual;
}

static void add_habits(const struct system *system, struct least_squares *squares)
{
	double *row = memory_take(system->count, sizeof(*row));

	for (uint32_t i = 0; i < system->count; i++) {
		double length = length_of(system, i);
		row[i] = 1;
		least_squares_add(squares, row, 0, small_share_of(system, i) * length);
		bool has_next = i + 1 < system->count && !system->is_host &&
				system->columns[i + 1].term == system->columns[i].term &&
				operation_term_kind(system->columns[i].term) == OPERATION_KIND_RAMP;
		if (has_next) {
			row[i + 1] = -1;
			least_squares_add(squares, row, 0,
				tie_share * fmin(length, length_of(system, i + 1)));
			row[i + 1] = 0;
		}
		row[i] = 0;
	}
	free(row);
}

static double predicted(const struct system *system, size_t row)
{
	const double *basis = &system->basis[row * system->count];
	double ns = 0;

	for (uint32_t i = 0; i < system->count; i++) {
		ns += basis[i] * system->price[i];
	}
	return ns;
}

/* caps: by column; base: a price of column `kv` that is given. */
static void solve(struct system *system, const double *caps, uint32_t kv, double base)
{
	for (size_t row = 0; row < system->rows; row++) {
		system->huber[row] = 1;
	}
	for (uint32_t pass = 0; pass < HUBER_PASSES; pass++) {
		struct least_squares squares;
		least_squares_init(&squares, system->count);
		for (size_t row = 0; row < system->rows; row++) {
			const double *basis = &system->basis[row * system->count];
			/* least_squares_add() squares the weight. */
			least_squares_add(&squares, basis, system->value[row] - base * basis[kv],
				system->weight[row] * sqrt(system->huber[row]));
		}
		add_habits(system, &squares);
		for (uint32_t i = 0; i < system->count; i++) {
			least_squares_cap(&squares, i, caps[i]);
		}
		memcpy(system->price, least_squares_solve(&squares),
			system->count * sizeof(double));
		least_squares_free(&squares);
		system->price[kv] += base;
		for (size_t row = 0; row < system->rows; row++) {
			double off = fabs(predicted(system, row) - system->value[row]) *
				     system->weight[row];
			system->huber[row] = off <= system->tolerated ? 1 : system->tolerated / off;
		}
	}
}

/* ---- both systems ---- */

/* Prices that few steps see: lm_head and sampler four times what they take at the limits, a prompt
   20 us, a tile of queries 6 us of a multiprocessor in each layer. Logs, which have few crowds of
   prompts, 5 and 2 us. Where chains are counted, the first part of pairs costs nothing: the chain
   has its price. */
static double cap_of(const struct column *column, const struct calibrate_setup *setup)
{
	const struct model_config *shape = &setup->shape;
	const double vocabulary = shape->vocab_size, flops = setup->limits.flop_rate * 1000;

	switch (column->term) {
	case OPERATION_TERM_samples:
		return 4 * (2 * vocabulary * shape->hidden_size / flops +
				   4 * vocabulary / setup->limits.read_rate);
	case OPERATION_TERM_eager_rows:
		return setup->is_step_log ? 5000 : 20000;
	case OPERATION_TERM_prefill_tiles:
		return (setup->is_step_log ? 2000.0 : 6000.0) * shape->num_hidden_layers *
		       shape->num_attention_heads / setup->limits.multiprocessors;
	case OPERATION_TERM_prefill_pairs:
		return column->part == 0 && !setup->is_step_log ? 0 : INFINITY;
	default:
		return INFINITY;
	}
}

static void take_prices(struct operation_prices *prices, const struct system *system)
{
	for (uint32_t i = 0; i < system->count; i++) {
		const struct column *column = &system->columns[i];
		prices->terms[column->term].ns[column->part] = rounded(system->price[column->head]);
	}
}

/* Reading a shared token again, be it for each row or for each group of rows, takes at most as long
   as reading another. The prices are fitted to different steps, so that they may come out a few
   percent above. */
static void bound_shared(struct operation_prices *prices)
{
	static const enum operation_term terms[] = {
		OPERATION_TERM_kv_each_far, OPERATION_TERM_kv_each};

	for (uint32_t i = 0; i < sizeof(terms) / sizeof(terms[0]); i++) {
		double *ns = &prices->terms[terms[i]].ns[0];
		double excess =
			operation_shared_token_ns(prices) - operation_distinct_token_ns(prices);
		*ns = excess > 0 ? rounded(fmax(0, *ns - excess)) : *ns;
	}
	struct operation_parts *repeat = &prices->terms[OPERATION_TERM_kv_repeat];
	if (repeat->count > 0) {
		repeat->ns[0] = rounded(fmin(repeat->ns[0], operation_distinct_token_ns(prices)));
	}
}

/* A row or token of an eager step adds at most this share of the shortest step that has one to each
   of the four terms that it enters, so that it stays below the 5 % of sim/profile_laws.h. Where
   steps of few prompt tokens are graphs, a token takes more of it and the other three less: from
   4 to 8 tokens of qwen3-0.6b each takes 3 % of the step (engine/runners/TUNING.md). */
static const double share_most = 0.012, graph_share_most = 0.009, graph_token_most = 0.022;

static double share_most_of(enum operation_variable x, uint32_t graph_tokens)
{
	if (graph_tokens == 0) {
		return share_most;
	}
	return x == OPERATION_VARIABLE_EAGER_TOKENS ? graph_token_most : graph_share_most;
}

static double steepest_of(const struct system *system, uint32_t column, uint32_t graph_tokens)
{
	enum operation_variable x = operation_term_x(system->columns[column].term);
	double shortest = INFINITY;

	if (x != OPERATION_VARIABLE_EAGER_TOKENS && x != OPERATION_VARIABLE_MIXED_ROWS &&
		x != OPERATION_VARIABLE_SAMPLES) {
		return INFINITY;
	}
	for (size_t row = 0; row < system->rows; row++) {
		if (system->basis[row * system->count + column] > 0) {
			shortest = fmin(shortest, 1 / system->weight[row]);
		}
	}
	return share_most_of(x, graph_tokens) * shortest;
}

/* What the fitted prices of K and V lack to the time that memory takes. */
static double memory_lack(const struct system *system, double kv_token)
{
	double ns = 0;

	for (uint32_t i = 0; i < system->count; i++) {
		bool is_of_tokens = operation_term_is_of_tokens(system->columns[i].term);
		ns += is_of_tokens ? system->price[i] : 0;
	}
	return kv_token - ns;
}

static void fit_side(struct operation_prices *prices, bool is_host,
	const struct calibrate_points *points, const struct calibrate_setup *setup)
{
	struct system *system = memory_take(1, sizeof(*system));
	struct operation_floors floors;
	double base = 0;
	uint32_t kv = 0;

	operation_floors_of(&floors, &setup->limits, &setup->shape);
	open_system(system, is_host, prices, &floors, points);
	system->tolerated = setup->is_step_log ? huber_tolerated_logged : huber_tolerated;
	double *caps = memory_take(system->count, sizeof(*caps));
	for (uint32_t i = 0; i < system->count; i++) {
		caps[i] = fmin(cap_of(&system->columns[i], setup),
			steepest_of(system, i, setup->graph_tokens));
		bool is_usual = is_usual_shared(&system->columns[i]);
		kv = is_usual || system->columns[i].term == OPERATION_TERM_kv_all ? i : kv;
	}
	for (uint32_t pass = 0; pass < MEMORY_PASSES; pass++) {
		solve(system, caps, kv, base);
		for (uint32_t i = 0; pass == 0 && i < system->count; i++) {
			bool is_shared = system->columns[i].term == OPERATION_TERM_kv_shared;
			kv = is_shared && system->price[i] > system->price[kv] ? i : kv;
		}
		double lack = memory_lack(system, floors.kv_token);
		if (is_host || lack <= 1e-9 * floors.kv_token) {
			break;
		}
		/* The others give way to what is put under, so that some of it is lacking again. */
		base = pass + 2 < MEMORY_PASSES ? base + lack : floors.kv_token;
	}
	take_prices(prices, system);
	free(caps);
	close_system(system);
	free(system);
}

void calibrate_prices(struct operation_prices *out, const struct calibrate_points *points,
	const struct calibrate_setup *setup)
{
	memset(out, 0, sizeof(*out));
	out->limits = setup->limits;
	out->shape = setup->shape;
	out->graph_tokens = setup->graph_tokens;
	if (!setup->is_step_log) {
		out->sharing = operation_sharing_of(&setup->shape);
	}
	set_parts(out, setup);
	fit_side(out, false, points, setup);
	bound_shared(out);
	fit_side(out, true, points, setup);
}

/* ---- fitted and held out ---- */

/* Whether a count takes part in the choice of held-out steps. Those that older tables lack do not,
   so that the same steps are held out of a table with and without them. */
static bool is_of_choice(size_t offset)
{
	return offset != offsetof(struct step_counts, repeat_tokens) &&
	       offset != offsetof(struct step_counts, prefill_context_tokens) &&
	       offset != offsetof(struct step_counts, prefill_shared_tokens) &&
	       offset != offsetof(struct step_counts, prefill_half_chain_keys);
}

/* A hash of a step's counts, independent of its position in the table. */
static uint64_t hash_of(const struct calibrate_point *point, uint64_t seed)
{
	uint64_t hash = counter_key(seed, PURPOSE_HELD_OUT);

#define HASH_COUNT(name)                                                                           \
	if (is_of_choice(offsetof(struct step_counts, name))) {                                    \
		hash = counter_hash(hash, point->counts.name);                                     \
	}
	CALIBRATE_POINT_LIST(HASH_COUNT)
#undef HASH_COUNT
	return counter_hash(hash, point->ahead);
}

/* Chooses the held-out steps. For each count of the choice, one step with its largest value is
   always fitted, since the prices beyond it are a guess. */
static void hold_out(struct calibrate_points *points, uint64_t seed)
{
	struct calibrate_point *all = points->points;
	uint64_t *hash = memory_take(points->count, sizeof(*hash));
	size_t largest_at;

	for (size_t i = 0; i < points->count; i++) {
		hash[i] = hash_of(&all[i], seed);
		all[i].is_held_out = hash[i] % HELD_OUT_SHARE == 0;
	}
#define KEEP_LARGEST(name)                                                                         \
	largest_at = 0;                                                                            \
	for (size_t i = 1; i < points->count; i++) {                                               \
		uint64_t count = all[i].counts.name, most = all[largest_at].counts.name;           \
		bool is_larger = count > most || (count == most && hash[i] > hash[largest_at]);    \
		largest_at = is_larger ? i : largest_at;                                           \
	}                                                                                          \
	all[largest_at].is_held_out =                                                              \
		all[largest_at].is_held_out && !is_of_choice(offsetof(struct step_counts, name));
	CALIBRATE_POINT_LIST(KEEP_LARGEST)
#undef KEEP_LARGEST
	free(hash);
}

/* ---- errors ---- */

static int compare_doubles(const void *a, const void *b)
{
	const double *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

/* Nearest rank. */
static double percentile(const double *sorted, size_t count, uint64_t percent)
{
	return sorted[u64_max(u64_divide_up(count * percent, 100), 1) - 1];
}

struct profile_errors calibrate_predict(
	const struct operation_prices *prices, struct calibrate_points *points, bool is_held_out)
{
	struct profile_errors errors = {0};
	double *all = memory_take(points->count, sizeof(*all));
	struct operation_pricer *pricer = memory_take(1, sizeof(*pricer));
	double sum = 0, bias = 0;
	size_t count = 0;

	operation_pricer_init(pricer, prices);
	for (size_t i = 0; i < points->count; i++) {
		struct calibrate_point *point = &points->points[i];
		if (point->is_held_out != is_held_out) {
			continue;
		}
		const struct operation_price price =
			price_by_operations(pricer, &point->counts, point->ahead != 0);
		/* The cost model refuses a step beyond the limit. */
		double ns = fmin(price.gpu_ns + price.host_ns, STEP_PRICE_LIMIT);
		point->predicted_ns = (uint64_t)(ns + 0.5);
		double off = (double)point->predicted_ns / (double)point->elapsed_ns - 1;
		all[count] = fabs(off);
		sum += all[count++];
		bias += off;
	}
	if (count > 0) {
		qsort(all, count, sizeof(*all), compare_doubles);
		errors = (struct profile_errors){
			.points = u32_from(count),
			.mean = sum / (double)count,
			.p50 = percentile(all, count, 50),
			.p90 = percentile(all, count, 90),
			.p99 = percentile(all, count, 99),
			.max = all[count - 1],
			.bias = bias / (double)count,
		};
	}
	free(pricer);
	free(all);
	return errors;
}

enum status calibrate_fit(struct calibrate_fit *out, struct calibrate_points *points,
	const struct calibrate_setup *setup, uint64_t seed, struct error *error)
{
	memset(out, 0, sizeof(*out));
	if (points->count < POINTS_MIN) {
		return error_set(error, STATUS_INPUT,
			"found %zu different %s, expected at least %d to fit a profile to",
			points->count, word_of_count(points->count, "step", "steps"), POINTS_MIN);
	}
	hold_out(points, seed);
	calibrate_prices(&out->prices, points, setup);
	out->held_out = calibrate_predict(&out->prices, points, true);
	bool *is_held_out = memory_take(points->count, sizeof(*is_held_out));
	for (size_t i = 0; i < points->count; i++) {
		is_held_out[i] = points->points[i].is_held_out;
		points->points[i].is_held_out = false;
	}
	calibrate_prices(&out->prices, points, setup);
	for (size_t i = 0; i < points->count; i++) {
		points->points[i].is_held_out = is_held_out[i];
	}
	free(is_held_out);
	out->fitted = calibrate_predict(&out->prices, points, false);
	out->edges = operation_prices_edges(&out->prices);
	return operation_prices_check(&out->prices, out->edges, error);
}
