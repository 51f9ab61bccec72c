#include <criterion/criterion.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "kernels/attention/attention_operands.h"
#include "kernels/attention/decode_list.h"
#include "kernels/op/number.h"
#include "kernels/op_table.h"
#include "tests/harness/require.h"

/* The table of operations without a GPU: its cases, and the operands that it would give to kernels,
   on a device that is memory of the host. */

/* ---- the table ---- */

/* How often the cases of attention have each number of query heads to a key/value head. */
static void count_groups(const struct op *op, uint32_t *groups)
{
	for (uint32_t i = 0; i < op->case_count; i++) {
		const struct op_case *c = &op->cases[i];
		if (c->heads == 0 || c->context == 0) {
			continue;
		}
		require_equal(c->heads % c->kv_heads, 0);
		require_equal(op_case_context(c, 0), c->context);
		require(op_case_chunk(c, c->rows - 1) <= c->chunk, "a chunk is too long");
		require(c->heads / c->kv_heads <= 8, "%s: case %u", op->name, i);
		groups[c->heads / c->kv_heads]++;
	}
}

Test(op_table, cases_make_sense)
{
	uint32_t groups[9] = {0};

	for (uint32_t k = 0; op_at(k) != NULL; k++) {
		const struct op *op = op_at(k);
		uint32_t counts[3] = {0};
		for (uint32_t i = 0; i < op->case_count; i++) {
			const struct op_case *c = &op->cases[i];
			struct work work = op->work(c);
			cr_assert_geq(c->rows, 1);
			cr_assert_gt(work.bytes, 0);
			cr_assert_eq(work.flops > 0, (op->properties & OP_COMPUTES) != 0);
			cr_assert(c->size != CASE_MODEL || c->block_size % 16 == 0);
			cr_assert(i == 0 || c->size >= op->cases[i - 1].size);
			counts[c->size]++;
		}
		cr_assert_geq(counts[CASE_TINY], 2, "%s", op->name);
		cr_assert_geq(counts[CASE_MODEL], 1, "%s", op->name);
		count_groups(op, groups);
	}
	for (uint32_t group = 1; group <= 8; group++) {
		cr_assert_geq(groups[group], 2, "%u query heads to a key/value head", group);
	}
}

Test(op_table, every_operation_has_all_its_functions)
{
	for (uint32_t k = 0; op_at(k) != NULL; k++) {
		const struct op *op = op_at(k);
		require(op->describe != NULL && op->work != NULL && op->open != NULL &&
				op->twin != NULL,
			"%s", op->name);
#ifdef QUIRE_HAS_CUDA
		require(op->fits != NULL && op->launch != NULL, "%s", op->name);
#else
		require(op->launch == NULL, "%s", op->name);
#endif
	}
}

/* The work of attention by its lists: keys and values of the blocks that any row reads, each once,
   and the pairs of each query one by one. */
static void check_attention_work(const struct op *op, const struct op_case *c)
{
	const struct attention_shape shape = attention_shape_of(c);
	const uint32_t pool = attention_pool_blocks(c);
	uint32_t *read = memory_take(pool, sizeof(*read)); /* tokens of each block */
	uint64_t tokens = 0, queries = 0, pairs = 0;
	struct attention_lists lists;

	attention_lists_make(&lists, c);
	require_equal(lists.split_start[0], 0);
	for (uint32_t r = 0; r < c->rows; r++) {
		uint32_t context = lists.contexts[r], chunk = op_case_chunk(c, r);
		const uint32_t *table = lists.tables + (size_t)lists.rows[r] * shape.table_width;
		for (uint32_t at = 0; at < context; at += c->block_size) {
			uint32_t block = table[at / c->block_size];
			require(block < pool, "row %u reads behind the pool", r);
			read[block] = u32_max(read[block], u32_min(context - at, c->block_size));
		}
		for (uint32_t q = 0; q < chunk; q++) {
			pairs += context - q;
		}
		queries += chunk;
		uint32_t splits = lists.split_start[r + 1] - lists.split_start[r];
		require(splits * DECODE_SPLIT >= context &&
				splits * DECODE_SPLIT < context + DECODE_SPLIT,
			"row %u has %u splits", r, splits);
	}
	for (uint32_t b = 0; b < pool; b++) {
		tokens += read[b];
	}
	const struct work work = op->work(c);
	require_equal(work.bytes,
		4 * (tokens * c->kv_heads * c->head_dim + queries * c->heads * c->head_dim));
	require_equal(work.flops, 4 * pairs * c->heads * c->head_dim);
	attention_lists_free(&lists);
	free(read);
}

Test(op_table, attention_reads_each_block_once)
{
	uint32_t shared = 0;

	for (uint32_t k = 0; op_at(k) != NULL; k++) {
		const struct op *op = op_at(k);
		for (uint32_t i = 0; i < op->case_count && strstr(op->name, "attention"); i++) {
			check_attention_work(op, &op->cases[i]);
			shared += op->cases[i].prefix > 0;
		}
	}
	cr_expect(shared >= 5, "%u cases share a prefix", shared);
}

Test(op_table, operations_are_found_by_their_names)
{
	for (uint32_t k = 0; op_at(k) != NULL; k++) {
		cr_assert_eq(op_find(op_at(k)->name), op_at(k));
	}
	cr_assert_null(op_find("what"));
}

/* ---- operands on a device of host memory ---- */

enum { DEVICE_FAILS = 77 };

static int device_take(void **out, size_t bytes, int byte)
{
	*out = memory_take(bytes, 1);
	memset(*out, byte, bytes);
	return 0;
}

static int device_take_fails(void **out, size_t bytes, int byte)
{
	(void)bytes;
	(void)byte;
	*out = NULL;
	return DEVICE_FAILS;
}

static int device_set(void *memory, int byte, size_t bytes)
{
	memset(memory, byte, bytes);
	return 0;
}

static int device_copy(void *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
	return 0;
}

static int device_fill_bf16(uint16_t *out, size_t count, uint64_t key)
{
	for (size_t i = 0; i < count; i++) {
		out[i] = (uint16_t)(key + i) | 1;
	}
	return 0;
}

static int device_fill_float(float *out, size_t count, uint64_t key)
{
	for (size_t i = 0; i < count; i++) {
		out[i] = (float)(key % 1000 + 1);
	}
	return 0;
}

static const struct operand_memory device = {device_take, free, device_set, device_copy,
	device_copy, device_fill_bf16, device_fill_float};

static bool is_poisoned(const struct operand *operand, const void *fetched)
{
	const unsigned char *bytes = fetched;
	const float *values = fetched;

	for (size_t i = 0; i < operand->count; i++) {
		if (operand->type == OPERAND_BYTES ? bytes[i] != 0xff : !isnan(values[i])) {
			return false;
		}
	}
	return true;
}

/* The same values on both sides, whatever the order of a tensor on the device. */
static double sum_of(const struct operand *operand, const void *values)
{
	double sum = 0;

	for (size_t i = 0; i < operand->count && operand->type != OPERAND_BYTES; i++) {
		double value = (double)((const float *)values)[i];
		sum += isfinite(value) ? value * value * value : 1;
	}
	return sum;
}

static void check_inputs(struct operands *operands, const char *name, bool is_written)
{
	for (uint32_t i = 0; i < OPERANDS_MAX; i++) {
		const struct operand *operand = &operands->operand[i];
		if (operand->device == NULL || (operand->is_output && is_written)) {
			continue;
		}
		void *found = operands_fetch(operands, i);
		require(is_poisoned(operand, found) == is_poisoned(operand, operand->host),
			"%s: operand %u", name, i);
		require(is_poisoned(operand, found) ||
				fabs(sum_of(operand, found) - sum_of(operand, operand->host)) <
					1e-6 * (1 + operand->count),
			"%s: operand %u differs", name, i);
		free(found);
	}
}

/* A kernel that leaves an element as it was differs from the twin only if the twin writes it. Of
   prefill the first tokens are those of decode rows, which stay. */
static void check_written(const struct operands *operands, const char *name)
{
	const struct operand *out = &operands->operand[OPERAND_OUT];
	const float *values = out->host;

	if (out->type == OPERAND_BYTES || strcmp(name, "prefill_attention") == 0) {
		return;
	}
	for (size_t i = 0; i < out->count; i++) {
		require(!isnan(values[i]), "%s: the twin left element %zu", name, i);
	}
}

/* Of rows, width, outputs, ranks, heads, key/value heads and a head's size: all different. */
enum { R = 3, W = 40, N = 10, K = 5, H = 16, G = 8, D = 32 };

#define OF(size) .rows = R, .width = W, .outputs = N, .ranks = size
#define HEADS .rows = R, .heads = H, .kv_heads = G, .head_dim = D, .context = 9

/* What a case is in `quire kernels`, its work, and the bytes of its tensors on the device. */
static const struct sized {
	const char *name, *text;
	struct op_case op_case;
	uint64_t bytes, flops;
	size_t out, in, weight; /* 0: not a tensor */
} sized[] = {
	{"embedding", "3x40", {OF(1)}, 4 * R *W + 4 * R, 0, 2 * R *W, 0, 2 * N *W},
	{"rms_norm", "3x40", {OF(1)}, 4 * R *W, 0, 2 * R *W, 2 * R *W, 2 * W},
	{"add_rms_norm", "3x40", {OF(1)}, 8 * R *W, 0, 2 * R *W, 2 * R *W, 2 * W},
	{"silu_mul", "3x40", {OF(1)}, 6 * R *W, 0, 2 * R *W, 4 * R *W, 0},
	{"gather_rows", "3x40", {OF(1)}, 4 * R *W, 0, 2 * R *W, 3 * 2 * R *W, 0},
	{"matmul", "3x40x10", {OF(1)}, 2 * (R * W + W * N + R * N), 2 * R *W *N, 2 * R *N, 2 * R *W,
		2 * W *N},
	{"decode_matmul", "3x40x10", {OF(1)}, 2 * (R * W + W * N + R * N), 2 * R *W *N, 2 * R *N,
		2 * R *W, 2 * W *N},
	{"decode_matmul_silu", "3x40x10", {OF(1)}, 2 * (R * W + W * N) + R *N, 2 * R *W *N, R *N,
		2 * R *W, 2 * W *N},
	{"sampler", "3x10", {OF(1)}, 4 * R *N + 4 * R, 0, 4 * R, 4 * R *N, 0},
	{"exchange_add_rms_norm", "3x40, 5 ranks", {OF(K)}, K *(3 + K) * 2 * R *W, 0, 2 * K *R *W,
		2 * K *R *W, 2 * W},
	{"exchange_gathered_add_rms_norm", "3x40, 5 ranks", {OF(K)}, (3 + K) * 2 * R *W, 0,
		2 * R *W, 2 * K *R *W, 2 * W},
	{"exchange_candidates", "3x10, 5 ranks", {OF(K)}, K *R *((N + 2 * (K - 1)) * 8 + 4), 0,
		4 * K *R, 8 * K *R *N, 0},
	{"qk_norm_rope_store", "3, 16/8 heads", {HEADS, .block_size = 16},
		2 * 2 * R *(H + 2 * G) * D, 0, 2 * R *H *D, 2 * R *(H + 2 * G) * D, 2 * D},
	{"decode_attention", "3x9, 16/8 heads, blocks of 16", {HEADS, .block_size = 16, .chunk = 1},
		4 * (R * 9 * G + R * H) * D, 4 * R * 9 * H *D, 2 * R *H *D, 2 * R *H *D, 0},
	{"prefill_attention", "3x4 of 9, 16/8 heads", {HEADS, .block_size = 256, .chunk = 4},
		4 * (R * 9 * G + R * 4 * H) * D, 4 * R *(6 + 7 + 8 + 9) * H *D, 0, 0, 0},
};

static size_t device_bytes(const struct operand *operand)
{
	static const size_t bytes[] = {2, sizeof(float), 1};

	return operand->device == NULL ? 0 : operand->count * bytes[operand->type];
}

Test(op_table, cases_have_the_tensors_and_the_work_of_their_sizes)
{
	enum { COUNT = sizeof(sized) / sizeof(sized[0]) };

	require(op_at(COUNT) == NULL && op_at(COUNT - 1) != NULL, "not every operation");
	for (uint32_t i = 0; i < COUNT; i++) {
		const struct sized *s = &sized[i];
		const struct op *op = op_find(s->name);
		struct operands operands = {.op_case = &s->op_case,
			.memory = &device,
			.set_count = 1,
			.is_checked = true};
		const size_t expected[] = {s->out, s->in, s->weight};
		struct work work = op->work(&s->op_case);
		char text[OP_TEXT_BYTES];
		op->describe(&s->op_case, text);
		cr_expect_str_eq(text, s->text);
		cr_expect(work.bytes == s->bytes && work.flops == s->flops, "%s: %llu, %llu",
			s->name, (unsigned long long)work.bytes, (unsigned long long)work.flops);
		op->open(&operands);
		for (uint32_t j = 0; j < 3; j++) {
			size_t bytes = device_bytes(&operands.operand[j]);
			cr_expect(expected[j] == 0 || bytes == expected[j],
				"%s: operand %u has %zu bytes", s->name, j, bytes);
		}
		operands_close(&operands);
	}
}

/* The twin's output where the first element of a row of the input is replaced; -1: of none. */
static float *output_with(const struct sized *s, int32_t row, size_t *count)
{
	struct operands operands = {
		.op_case = &s->op_case, .memory = &device, .set_count = 1, .is_checked = true};

	op_find(s->name)->open(&operands);
	const struct operand *in = &operands.operand[OPERAND_IN];
	const struct operand *out = &operands.operand[OPERAND_OUT];
	if (row >= 0) {
		((float *)in->host)[in->count / R * (uint32_t)row] = 1000;
	}
	op_find(s->name)->twin(&operands);
	*count = out->count / R;
	float *copy = memory_take(out->count, sizeof(*copy));
	memcpy(copy, out->host, out->count * sizeof(*copy));
	operands_close(&operands);
	return copy;
}

Test(op_table, twins_compute_each_row_from_its_own)
{
	for (uint32_t i = 0; sized[i].op_case.heads == 0; i++) {
		const struct sized *s = &sized[i];
		size_t width;
		if (s->in == 0 || s->op_case.ranks > 1 || strcmp(s->name, "gather_rows") == 0 ||
			strcmp(s->name, "sampler") == 0) {
			continue; /* a row may be gathered anywhere, and a token may be the same */
		}
		float *usual = output_with(s, -1, &width);
		for (uint32_t k = 0; k < R * R; k++) {
			float *other = output_with(s, (int32_t)(k / R), &width);
			size_t at = k % R * width;
			bool is_same = memcmp(usual + at, other + at, width * sizeof(*usual)) == 0;
			require(is_same == (k / R != k % R), "%s: row %u of row %u", s->name, k % R,
				k / R);
			free(other);
		}
		free(usual);
	}
}

static void check_twin(const struct op *op, const struct op_case *c, enum case_values values)
{
	struct operands operands = {.op_case = c,
		.memory = &device,
		.set_count = 1,
		.is_checked = true,
		.values = values};
	uint32_t outputs = 0;

	op->open(&operands);
	require_equal(operands.code, 0);
	check_inputs(&operands, op->name, false);
	op->twin(&operands);
	check_written(&operands, op->name);
	check_inputs(&operands, op->name, true);
	for (uint32_t i = 0; i < OPERANDS_MAX; i++) {
		const struct operand *operand = &operands.operand[i];
		outputs += operand->is_output;
		require(!operand->is_output || !is_poisoned(operand, operand->host),
			"%s: the twin left output %u", op->name, i);
	}
	require(outputs > 0, "%s has no output", op->name);
	operands_close(&operands);
}

Test(op_table, twins_read_what_kernels_read, .timeout = 120)
{
	for (uint32_t k = 0; op_at(k) != NULL; k++) {
		const struct op *op = op_at(k);
		for (uint32_t i = 0; i < op->case_count; i++) {
			if (op->cases[i].size == CASE_TINY) {
				check_twin(op, &op->cases[i], CASE_UNIFORM);
				check_twin(op, &op->cases[i], CASE_INTEGERS);
			}
		}
	}
}

/* Each query is in one tile of those that the kernel is given. */
Test(op_table, tiles_of_prefill_hold_every_query)
{
	const struct op *op = op_find("prefill_attention");

	for (uint32_t i = 0; i < op->case_count; i++) {
		const struct op_case *c = &op->cases[i];
		struct operands operands = {
			.op_case = c, .memory = &device, .set_count = 1, .is_checked = true};
		uint64_t queries = 0, expected = 0;
		if (c->size != CASE_TINY) {
			continue;
		}
		op->open(&operands);
		const struct prefill_work work = prefill_attention_work(&operands);
		for (uint32_t t = 0; t < work.tile_count; t++) {
			require(work.tiles[t].row < c->rows, "tile %u is of no row", t);
			uint32_t chunk = op_case_chunk(c, work.tiles[t].row);
			uint32_t first = work.tiles[t].index * PREFILL_QUERY_TILE;
			require(first < chunk, "tile %u is empty", t);
			queries += u32_min(chunk - first, PREFILL_QUERY_TILE);
		}
		for (uint32_t r = 0; r < c->rows; r++) {
			expected += op_case_chunk(c, r);
		}
		require_equal(queries, expected);
		operands_close(&operands);
	}
}

/* A token that is stored has a slot of its own in the pool; every fourth is not stored. */
Test(op_table, slots_of_stored_tokens_are_distinct)
{
	const struct op *op = op_find("qk_norm_rope_store");

	for (uint32_t i = 0; i < op->case_count; i++) {
		const struct op_case *c = &op->cases[i];
		struct operands operands = {
			.op_case = c, .memory = &device, .set_count = 1, .is_checked = true};
		if (c->size == CASE_MODEL) {
			continue;
		}
		op->open(&operands);
		const int64_t *slots = operand_host(&operands, STORE_SLOTS);
		size_t width = (size_t)c->kv_heads * c->head_dim;
		size_t pool = operands.operand[ATTENTION_KEYS].count / width;
		bool *is_used = memory_take(pool, sizeof(*is_used));
		require_equal(pool % c->block_size, 0);
		for (uint32_t t = 0; t < c->rows; t++) {
			require((slots[t] == -1) == (t % 4 == 3), "token %u", t);
			if (slots[t] >= 0) {
				require((size_t)slots[t] < pool && !is_used[slots[t]],
					"token %u has slot %lld of %zu", t, (long long)slots[t],
					pool);
				is_used[slots[t]] = true;
			}
		}
		free(is_used);
		operands_close(&operands);
	}
}

/* Of the rows whose best candidates ranks exchange, every fifth has none on any rank, and its token
   is 0. */
Test(op_table, some_rows_have_no_candidate)
{
	const struct op *op = op_find("exchange_candidates");
	uint32_t rows[2] = {0}; /* with candidates, and without */

	for (uint32_t i = 0; i < op->case_count; i++) {
		const struct op_case *c = &op->cases[i];
		struct operands operands = {
			.op_case = c, .memory = &device, .set_count = 1, .is_checked = true};
		op->open(&operands);
		op->twin(&operands);
		const int32_t *token_ids = operand_host(&operands, OPERAND_OUT);
		for (uint32_t r = 0; r < c->ranks * c->rows; r++) {
			bool is_without = r % c->rows % 5 == 4;
			require(is_without == (token_ids[r] == 0), "row %u of %u: token %d", r,
				c->rows, token_ids[r]);
			rows[is_without]++;
		}
		operands_close(&operands);
	}
	require(rows[0] > 0 && rows[1] > 0, "%u and %u rows", rows[0], rows[1]);
}

/* Rows without context, as the padding of a graph, get zeroes. */
Test(op_table, padded_rows_of_decode_are_zero)
{
	static const uint32_t contexts[] = {65, 3, 0, 0, 0};
	const struct op_case c = {.rows = 5,
		.heads = 4,
		.kv_heads = 2,
		.head_dim = 32,
		.block_size = 16,
		.context = 65,
		.chunk = 1,
		.contexts = contexts};
	struct operands operands = {
		.op_case = &c, .memory = &device, .set_count = 1, .is_checked = true};
	const struct op *op = op_find("decode_attention");
	const size_t width = (size_t)c.heads * c.head_dim;

	op->open(&operands);
	op->twin(&operands);
	check_written(&operands, op->name);
	const float *out = operand_host(&operands, OPERAND_OUT);
	for (size_t i = 0; i < c.rows * width; i++) {
		require((out[i] == 0) == (i >= 2 * width), "element %zu is %g", i, (double)out[i]);
	}
	operands_close(&operands);
}

/* What is timed has no host side but lists, and every set its own values. */
static void check_sets(const struct op *op, const struct op_case *c)
{
	struct operands operands = {.op_case = c, .memory = &device, .set_count = 3};
	uint32_t different = 0;

	op->open(&operands);
	require_equal(operands.code, 0);
	for (uint32_t i = 0; i < OPERANDS_MAX; i++) {
		const struct operand *operand = &operands.operand[i];
		require(operand->host == NULL || operand->type == OPERAND_BYTES,
			"%s: operand %u has a host side", op->name, i);
		if (operand->device != NULL && operand->stride > 0) {
			require_equal(operand->stride % 256, 0);
			different += memcmp(operand_at(&operands, i, 0),
					     operand_at(&operands, i, 2), 2) != 0;
		}
	}
	require(different > 0 || c->rows * c->width * c->outputs == 1, "%s: all sets are the same",
		op->name);
	operands_close(&operands);
}

Test(op_table, timed_operands_differ_from_set_to_set)
{
	for (uint32_t k = 0; op_at(k) != NULL; k++) {
		check_sets(op_at(k), &op_at(k)->cases[1]);
	}
}

#ifdef QUIRE_HAS_CUDA
/* A launch of decode attention reads on the host which kernel its claims are for. */
static void check_timed_decode(const struct op *op)
{
	for (uint32_t i = 0; i < op->case_count; i++) {
		struct operands operands = {.op_case = &op->cases[i],
			.memory = &device,
			.path = KERNEL_PATH_SM90,
			.processors = 132,
			.set_count = 2};
		if (op->cases[i].size == CASE_TINY) {
			op->open(&operands);
			const struct decode_launch *launch =
				operand_host(&operands, ATTENTION_LAUNCH);
			require_equal(decode_attention_work(&operands).is_long, launch->is_long);
			operands_close(&operands);
		}
	}
}

Test(op_table, timed_decode_attention_can_be_launched)
{
	bool is_found = false;

	for (uint32_t k = 0; op_at(k) != NULL; k++) {
		if (strcmp(op_at(k)->name, "decode_attention") == 0) {
			check_timed_decode(op_at(k));
			is_found = true;
		}
	}
	cr_assert(is_found);
}
#endif

Test(op_table, after_a_device_failed_no_call_is_made)
{
	struct operand_memory failing = device;

	failing.allocate = device_take_fails;
	for (uint32_t k = 0; op_at(k) != NULL; k++) {
		struct operands operands = {.op_case = &op_at(k)->cases[0],
			.memory = &failing,
			.set_count = 1,
			.is_checked = true};
		op_at(k)->open(&operands);
		require_equal(operands.code, DEVICE_FAILS);
		cr_assert_null(operands_fetch(&operands, OPERAND_OUT));
		operands_close(&operands);
	}
}
