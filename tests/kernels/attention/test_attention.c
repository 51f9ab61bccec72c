#include <criterion/criterion.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/base/memory.h"
#include "kernels/attention/decode.h"
#include "kernels/attention/prefill.h"
#include "kernels/attention/qk_norm_rope_store.h"
#include "kernels/attention/rope_table.h"
#include "kernels/op/number.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/twin.h"

/* ---- rotary embedding and the store ---- */

/* The library's power and cosine are not exactly rounded: its frequency may be one float off, and
   so may the cosine. */
static void compare_rope(
	const struct json_object *root, const char *field, const float *table, uint32_t offset)
{
	const cJSON *rows = json_find(root, field);
	const cJSON *position, *value;
	int row = 0;

	cJSON_ArrayForEach(position, json_find(root, "positions"))
	{
		const float *entry = table + (size_t)position->valueint * 128 + offset;
		int index = 0;
		cJSON_ArrayForEach(value, cJSON_GetArrayItem(rows, row))
		{
			double angle = position->valueint * pow(1e6, -index++ / 64.0);
			require(fabs(*entry - value->valuedouble) < 1.3e-7 + angle * 0x1p-23,
				"%s at position %d: %.9g, expected %.9g", field, position->valueint,
				(double)*entry, value->valuedouble);
			entry += 2;
		}
		require_equal(index, 64);
		row++;
	}
	require_equal(row, 8);
}

/* tests/fixtures/models/rope.json: the cosines and sines of transformers, up to the last position.
 */
Test(attention, rope_table_is_that_of_transformers, .timeout = 60)
{
	struct json_document document;
	struct json_object root;
	struct error error = {0};
	float *table = memory_take((size_t)40960 * 128, sizeof(*table));

	rope_table_fill(table, 40960, 128, 1e6);
	require(json_document_open(&document, QUIRE_SOURCE_DIR "/tests/fixtures/models/rope.json",
			&error) == STATUS_OK,
		"%s", error.text);
	require(json_root(&root, &document, &error) == STATUS_OK, "%s", error.text);
	compare_rope(&root, "cosines", table, 0);
	compare_rope(&root, "sines", table, 1);
	json_document_close(&document);
	free(table);
}

/* transformers holds theta as float32. */
Test(attention, rope_theta_counts_as_float32)
{
	enum { POSITIONS = 2000, DIM = 64 };
	float *given = memory_take(POSITIONS * DIM, sizeof(*given));
	float *held = memory_take(POSITIONS * DIM, sizeof(*held));

	for (uint32_t i = 0; i < 20; i++) {
		double theta = 1e4 + i * 12345.6789;
		rope_table_fill(given, POSITIONS, DIM, theta);
		rope_table_fill(held, POSITIONS, DIM, (double)(float)theta);
		require(memcmp(given, held, POSITIONS * DIM * sizeof(*given)) == 0, "theta %.17g",
			theta);
	}
	free(given);
	free(held);
}

enum { POSITION_LIMIT = 1000 };

static void rotate_by_formula(double *out, const float *in, const float *weight, uint32_t position,
	uint32_t dim, double theta)
{
	double *normal = memory_take(dim, sizeof(*normal));
	norm_by_formula(normal, in, weight, 1, dim, 1e-6);
	for (uint32_t i = 0; i < dim / 2; i++) {
		double angle = position * pow(theta, -2.0 * i / dim);
		out[i] = normal[i] * cos(angle) - normal[i + dim / 2] * sin(angle);
		out[i + dim / 2] = normal[i + dim / 2] * cos(angle) + normal[i] * sin(angle);
	}
	free(normal);
}

/* Everything that the store reads and writes. Every third token has no slot. */
struct store {
	struct attention_shape shape;
	struct qk_norm_rope norm;
	float *q_weight, *k_weight, *rope, *qkv, *query, *keys, *values;
	uint64_t query_count, pool_count, token_width;
	uint32_t *positions;
	int64_t *slots;
};

static void store_open(struct store *s, const struct op_case *c)
{
	s->shape = (struct attention_shape){.head_count = c->heads,
		.kv_head_count = c->kv_heads,
		.head_dim = c->head_dim,
		.block_size = c->block_size};
	uint64_t blocks = 2 + 2 * c->rows / c->block_size;
	s->token_width = (uint64_t)(c->heads + 2 * c->kv_heads) * c->head_dim;
	s->query_count = (uint64_t)c->rows * c->heads * c->head_dim;
	s->pool_count = blocks * c->block_size * c->kv_heads * c->head_dim;
	s->q_weight = filled(c->head_dim, 1, CASE_UNIFORM);
	s->k_weight = filled(c->head_dim, 2, CASE_UNIFORM);
	s->qkv = filled(c->rows * s->token_width, 3, CASE_UNIFORM);
	for (uint64_t i = 0; i < c->rows * s->token_width; i++) {
		s->qkv[i] *= 1.1f; /* so that bf16 does not hold them */
	}
	s->rope = memory_take((size_t)POSITION_LIMIT * c->head_dim, sizeof(float));
	s->query = nans(s->query_count);
	s->keys = nans(s->pool_count);
	s->values = nans(s->pool_count);
	s->positions = memory_take(c->rows, sizeof(*s->positions));
	s->slots = memory_take(c->rows, sizeof(*s->slots));
	rope_table_fill(s->rope, POSITION_LIMIT, c->head_dim, 1e6);
	for (uint32_t t = 0; t < c->rows; t++) {
		s->positions[t] = (t * 37) % POSITION_LIMIT;
		s->slots[t] = t % 3 == 2 ? -1 : (int64_t)(2 * t + 1);
	}
	s->norm = (struct qk_norm_rope){s->q_weight, s->k_weight, s->rope, 1e-6f};
}

static void store_close(struct store *s)
{
	free(s->q_weight);
	free(s->k_weight);
	free(s->qkv);
	free(s->rope);
	free(s->query);
	free(s->keys);
	free(s->values);
	free(s->positions);
	free(s->slots);
}

static void store_run(struct store *s, uint32_t rows, enum rounding rounding)
{
	qk_norm_rope_store_cpu(s->query, s->keys, s->values, s->qkv, s->positions, s->slots, rows,
		&s->norm, &s->shape, rounding);
}

/* Where a token's head must lie, by the drawing in paged_kv.h and without paged_kv_offset(). */
static uint64_t pool_offset(const struct attention_shape *shape, int64_t slot, uint32_t head)
{
	uint64_t block = (uint64_t)slot / shape->block_size;
	uint64_t token = (uint64_t)slot % shape->block_size;
	uint64_t head_size = (uint64_t)shape->block_size * shape->head_dim;
	return block * shape->kv_head_count * head_size + head * head_size +
	       token * shape->head_dim;
}

static void compare_token(const struct op_case *c, const struct store *s, uint32_t t)
{
	double *expected = memory_take(c->head_dim, sizeof(*expected));
	const float *in = s->qkv + t * s->token_width;

	for (uint32_t h = 0; h < c->heads; h++) {
		rotate_by_formula(expected, in + (uint64_t)h * c->head_dim, s->q_weight,
			s->positions[t], c->head_dim, 1e6);
		/* The angle is rounded to float32 at position 1,000: 3 * 10^-5 of error at most. */
		for (uint32_t i = 0; i < c->head_dim; i++) {
			float found = s->query[((uint64_t)t * c->heads + h) * c->head_dim + i];
			require(fabs(found - expected[i]) < 2e-4,
				"query %u of token %u: %g, not %g", h, t, (double)found,
				expected[i]);
		}
	}
	in += (uint64_t)c->heads * c->head_dim;
	for (uint32_t h = 0; s->slots[t] >= 0 && h < c->kv_heads; h++) {
		uint64_t at = pool_offset(&s->shape, s->slots[t], h);
		const float *value = in + (uint64_t)(c->kv_heads + h) * c->head_dim;
		rotate_by_formula(expected, in + (uint64_t)h * c->head_dim, s->k_weight,
			s->positions[t], c->head_dim, 1e6);
		for (uint32_t i = 0; i < c->head_dim; i++) {
			require(fabs(s->keys[at + i] - expected[i]) < 2e-4,
				"key %u of token %u: %g, not %g", h, t, (double)s->keys[at + i],
				expected[i]);
		}
		require_same_bits(c, s->values + at, value, c->head_dim, "a value");
	}
	free(expected);
}

static void test_store(const struct op_case *c)
{
	struct store s, other;
	uint64_t written = 0;

	store_open(&s, c);
	store_run(&s, c->rows, ROUNDING_NONE);
	for (uint32_t t = 0; t < c->rows; t++) {
		compare_token(c, &s, t);
		written += s.slots[t] >= 0;
	}
	/* Nothing else was written. */
	for (uint64_t i = 0; i < s.pool_count; i++) {
		require(isnan(s.keys[i]) == isnan(s.values[i]), "a key without its value");
		written -= i % c->head_dim == 0 &&
			   i / c->head_dim / c->block_size % c->kv_heads == 0 && !isnan(s.keys[i]);
	}
	require_equal(written, 0);
	store_open(&other, c);
	store_run(&other, c->rows, ROUNDING_BF16);
	require_rounded(c, other.query, s.query, s.query_count);
	for (uint64_t i = 0; i < s.pool_count; i++) {
		require(isnan(s.keys[i]) || other.keys[i] == rounded(s.keys[i], ROUNDING_BF16),
			"a key is not rounded");
		require(isnan(s.values[i]) ||
				other.values[i] == rounded(s.values[i], ROUNDING_BF16),
			"a value is not rounded");
	}
	store_close(&s);
	store_close(&other);
}

Test(attention, queries_and_keys_are_rotated_and_stored, .timeout = 60)
{
	for_tiny_cases("qk_norm_rope_store", test_store);
}

/* ---- attention ---- */

/* A pool in which a case's sequences lie in blocks that are out of order. */
struct paged {
	struct attention_shape shape;
	float *keys, *values;  /* of a layer */
	uint32_t *tables;      /* (rows in reverse order, table_width) */
	uint32_t *rows;	       /* (rows) index into tables */
	uint32_t *contexts;    /* (rows) */
	uint32_t *query_start; /* (rows + 1) */
	uint32_t token_count;
	float *query; /* (token_count, heads, head_dim) */
	bool is_decode;
};

/* The key (which 0) or value (1) of a position, the same in any block. */
static void token_values(const struct op_case *c, uint32_t which, uint32_t row, uint32_t position,
	uint32_t head, float *out)
{
	uint64_t key = (((uint64_t)which * 1000 + row) * 100000 + position) * 100 + head + 1;
	case_fill(out, c->head_dim, key, CASE_UNIFORM);
	for (uint32_t i = 0; i < c->head_dim; i++) {
		out[i] *= 2; /* so that the scores differ */
	}
}

static void paged_open(
	struct paged *p, const struct op_case *c, uint32_t block_size, bool is_decode)
{
	uint32_t width = (c->context + block_size - 1) / block_size + 1;
	uint32_t blocks = c->rows * width;
	blocks += blocks % 7 == 0; /* so that i * 7 visits each of them */
	uint64_t count = (uint64_t)blocks * c->kv_heads * block_size * c->head_dim;

	p->shape = (struct attention_shape){c->heads, c->kv_heads, c->head_dim, block_size, width};
	p->is_decode = is_decode;
	p->keys = nans(count);
	p->values = nans(count);
	p->tables = memory_take((size_t)c->rows * width, sizeof(*p->tables));
	p->rows = memory_take(c->rows, sizeof(*p->rows));
	p->contexts = memory_take(c->rows, sizeof(*p->contexts));
	p->query_start = memory_take(c->rows + 1, sizeof(*p->query_start));
	for (uint32_t i = 0; i < c->rows * width; i++) {
		p->tables[i] = (i * 7 + 3) % blocks;
	}
	for (uint32_t r = 0; r < c->rows; r++) {
		p->rows[r] = c->rows - 1 - r;
		p->contexts[r] = op_case_context(c, r);
		p->query_start[r + 1] = p->query_start[r] + op_case_chunk(c, r);
		for (uint32_t t = 0; t < p->contexts[r]; t++) {
			uint32_t block = p->tables[p->rows[r] * width + t / block_size];
			for (uint32_t h = 0; h < c->kv_heads; h++) {
				int64_t slot = (int64_t)block * block_size + t % block_size;
				uint64_t at = pool_offset(&p->shape, slot, h);
				token_values(c, 0, r, t, h, p->keys + at);
				token_values(c, 1, r, t, h, p->values + at);
			}
		}
	}
	p->token_count = p->query_start[c->rows];
	p->query = filled((uint64_t)p->token_count * c->heads * c->head_dim, 7, CASE_UNIFORM);
}

static void paged_close(struct paged *p)
{
	free(p->keys);
	free(p->values);
	free(p->tables);
	free(p->rows);
	free(p->contexts);
	free(p->query_start);
	free(p->query);
}

static void attend_by_formula(double *out, const struct op_case *c, const float *query,
	uint32_t row, uint32_t context, uint32_t head)
{
	float *vector = memory_take(c->head_dim, sizeof(*vector));
	double *scores = memory_take(context, sizeof(*scores));
	double largest = -INFINITY, sum = 0;
	/* Neighbouring query heads share a key/value head. */
	uint32_t kv_head = head * c->kv_heads / c->heads;

	for (uint32_t t = 0; t < context; t++) {
		token_values(c, 0, row, t, kv_head, vector);
		for (uint32_t i = 0; i < c->head_dim; i++) {
			scores[t] += (double)query[i] * (double)vector[i];
		}
		scores[t] /= sqrt(c->head_dim);
		largest = fmax(largest, scores[t]);
	}
	memset(out, 0, c->head_dim * sizeof(*out));
	for (uint32_t t = 0; t < context; t++) {
		double weight = exp(scores[t] - largest);
		token_values(c, 1, row, t, kv_head, vector);
		sum += weight;
		for (uint32_t i = 0; i < c->head_dim; i++) {
			out[i] += weight * (double)vector[i];
		}
	}
	for (uint32_t i = 0; i < c->head_dim; i++) {
		out[i] /= sum;
	}
	free(vector);
	free(scores);
}

static void attend(
	float *out, const struct paged *p, const struct op_case *c, enum rounding rounding)
{
	if (p->is_decode) {
		decode_attention_cpu(out, p->query, p->keys, p->values, p->tables, p->rows,
			p->contexts, c->rows, &p->shape, rounding);
	} else {
		prefill_attention_cpu(out, p->query, p->keys, p->values, p->tables, p->rows,
			p->query_start, p->contexts, c->rows, &p->shape, rounding);
	}
}

/* Each token by itself through the decode operation gets the same bits. */
static void check_single_tokens(const struct paged *p, const struct op_case *c, const float *out)
{
	uint64_t width = (uint64_t)c->heads * c->head_dim;
	float *single = nans(width);

	for (uint32_t r = 0; r < c->rows; r++) {
		for (uint32_t t = p->query_start[r]; t < p->query_start[r + 1]; t++) {
			uint32_t context = p->contexts[r] - (p->query_start[r + 1] - 1 - t);
			decode_attention_cpu(single, p->query + t * width, p->keys, p->values,
				p->tables, &p->rows[r], &context, 1, &p->shape, ROUNDING_NONE);
			require_same_bits(c, single, out + t * width, width, "decoded one by one");
		}
	}
	free(single);
}

static void test_attention(const struct op_case *c, bool is_decode)
{
	static const uint32_t block_sizes[] = {1, 3, 64, 1024};
	struct paged p;

	paged_open(&p, c, c->block_size, is_decode);
	uint64_t width = (uint64_t)c->heads * c->head_dim;
	uint64_t count = p.token_count * width;
	float *out = nans(count), *other = nans(count);
	double *expected = memory_take(count, sizeof(*expected));
	attend(out, &p, c, ROUNDING_NONE);
	for (uint32_t r = 0; r < c->rows; r++) {
		for (uint32_t t = p.query_start[r]; t < p.query_start[r + 1]; t++) {
			uint32_t context = p.contexts[r] - (p.query_start[r + 1] - 1 - t);
			for (uint32_t h = 0; h < c->heads; h++) {
				uint64_t at = t * width + (uint64_t)h * c->head_dim;
				attend_by_formula(expected + at, c, p.query + at, r, context, h);
			}
		}
	}
	require_near(c, out, expected, count);
	check_single_tokens(&p, c, out);
	attend(other, &p, c, ROUNDING_BF16);
	require_rounded(c, other, out, count);
	paged_close(&p);
	for (uint32_t i = 0; i < 4; i++) {
		paged_open(&p, c, block_sizes[i], is_decode);
		attend(other, &p, c, ROUNDING_NONE);
		require_same_bits(c, other, out, count, "blocks of another size");
		paged_close(&p);
	}
	free(out);
	free(other);
	free(expected);
}

static void test_decode(const struct op_case *c)
{
	test_attention(c, true);
}

static void test_prefill(const struct op_case *c)
{
	test_attention(c, false);
}

Test(attention, decode_and_prefill_follow_the_formula, .timeout = 240)
{
	for_tiny_cases("decode_attention", test_decode);
	for_tiny_cases("prefill_attention", test_prefill);
}

/* The leading five bits of a number, the others 0. */
static uint32_t leading_bits(uint32_t number)
{
	uint32_t unit = 1;

	while (number / unit >= 32) {
		unit *= 2;
	}
	return number / unit * unit;
}

/* Every query of the rows lies in one tile, and tiles rise by the leading bits of their keys, then
   by their row, then by their place in the row. */
static void body_tiles(struct prop *prop, const void *context)
{
	enum { ROWS = 12, MOST = 600 };
	uint32_t start[ROWS + 1] = {0}, contexts[ROWS], ends[ROWS * (MOST / 128 + 1)];
	uint32_t seen[ROWS * MOST] = {0}, row_count = prop_range(prop, 1, ROWS);
	uint32_t first = prop_below(prop, row_count),
		 alike = prop_below(prop, UINT32_C(1) << prop_range(prop, 1, 31));
	struct prefill_tile tiles[ROWS * (MOST / PREFILL_QUERY_TILE + 1)];

	(void)context;
	for (uint32_t r = 0; r < row_count; r++) {
		uint32_t tokens = prop_range(prop, 1, MOST);
		uint32_t prefix = prop_chance(prop, 1, 2) ? alike : prop_below(prop, 9000);
		start[r + 1] = start[r] + tokens;
		contexts[r] = prefix + tokens;
	}
	uint32_t count = prefill_tiles_fill(tiles, start, contexts, first, row_count);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t r = tiles[i].row, tokens = start[r + 1] - start[r];
		for (uint32_t q = 0; q < PREFILL_QUERY_TILE; q++) {
			uint32_t query = tiles[i].index * PREFILL_QUERY_TILE + q;
			if (query < tokens) {
				seen[start[r] + query]++;
				ends[i] = contexts[r] - tokens + query + 1;
			}
		}
		if (i == 0) {
			continue;
		}
		uint32_t before = leading_bits(ends[i - 1]), length = leading_bits(ends[i]);
		uint32_t row_before = tiles[i - 1].row;
		require(before <= length, "tile %u needs %u keys, the one before %u", i, ends[i],
			ends[i - 1]);
		require(before < length || row_before <= r, "row %u before row %u", row_before, r);
		require(before < length || row_before < r || tiles[i - 1].index < tiles[i].index,
			"places of row %u", r);
	}
	for (uint32_t t = 0; t < start[row_count]; t++) {
		require(seen[t] == (t >= start[first]), "token %u lies in %u tiles", t, seen[t]);
	}
	require_equal(prefill_tiles_fill(tiles, start, contexts, row_count, row_count), 0);
}

Test(attention, prefill_tiles_hold_every_query_once)
{
	const struct prop_options options = {.name = "tiles", .body = body_tiles, .trials = 800};

	cr_assert(prop_holds(&options));
}
