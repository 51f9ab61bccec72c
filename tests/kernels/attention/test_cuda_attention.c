/* Attention and its store on the GPU, for every shape of heads: near the CPU twin, and the same
   bits however rows are batched, sequences cut into chunks and work spread over blocks. */

#include "engine/base/counter_hash.h"
#include "kernels/attention/attention_operands.h"
#include "kernels/op_table.h"
#include "tests/harness/cuda_op.h"

#include <criterion/criterion.h>
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

TestSuite(cuda_attention, .init = skip_without_device);

/* GQA: `group` query heads to a key/value head; i chooses the size of a head. */
static struct op_case case_of_group(uint32_t group, uint32_t i)
{
	static const uint32_t dims[] = {32, 64, 128}, sizes[] = {64, 16, 256, 48};

	return (struct op_case){.heads = 2 * group,
		.kv_heads = 2,
		.head_dim = dims[i],
		.block_size = sizes[(group + i) % COUNT(sizes)]};
}

static const struct op_case SMALLEST_PUBLISHED = {
	.heads = 16, .kv_heads = 8, .head_dim = 128, .block_size = 256};

/* The case with these sequences. chunks: of prefill, or NULL. */
static struct op_case with_sequences(
	struct op_case c, const uint32_t *contexts, const uint32_t *chunks, uint32_t count)
{
	c.rows = count;
	c.contexts = contexts;
	c.chunks = chunks;
	for (uint32_t r = 0; r < count; r++) {
		c.context = contexts[r] > c.context ? contexts[r] : c.context;
	}
	return c;
}

/* The lists as a test has changed them. They are not to be freed. */
static struct attention_lists lists_of(const struct operands *operands)
{
	return (struct attention_lists){
		.tables = operand_host(operands, ATTENTION_TABLES),
		.rows = operand_host(operands, ATTENTION_ROWS),
		.contexts = operand_host(operands, ATTENTION_CONTEXTS),
		.split_start = operand_host(operands, ATTENTION_SPLIT_START),
	};
}

/* Whether all launches count as long. */
static bool is_every_launch_long;

/* The most splits of an entry that is not shared, of all launches. */
static uint32_t longest_claim;

/* Computes rows [first, first + count) of the batch by lists that share prefixes or not. */
static void decode_rows_by(struct operands *operands, struct decode_work *work, uint32_t first,
	uint32_t count, bool is_sharing)
{
	const struct attention_shape shape = attention_shape_of(operands->op_case);
	struct decode_claims claims;
	const struct attention_lists lists = lists_of(operands);

	decode_attention_claims(&claims, operands, &lists, first, count, is_sharing);

	struct decode_launch *launch = device_copy(&claims.launch, sizeof(claims.launch));
	struct decode_claim *list = device_copy(claims.claims, claims.capacity * sizeof(*list));
	for (uint32_t i = claims.launch.shared; i < claims.launch.count; i++) {
		uint32_t splits = claims.claims[claims.launch.first + i].count;
		longest_claim = splits > longest_claim ? splits : longest_claim;
	}
	work->launch = launch;
	work->claims = list;
	work->is_long = claims.launch.is_long || is_every_launch_long;
	work->first_row = first;
	must(decode_attention(operand_at(operands, OPERAND_OUT, 0),
		     operand_at(operands, OPERAND_IN, 0), operand_at(operands, ATTENTION_KEYS, 0),
		     operand_at(operands, ATTENTION_VALUES, 0), work, count, &shape, NULL),
		"decode_attention");
	must(cudaDeviceSynchronize(), "decode_attention");
	cudaFree(launch);
	cudaFree(list);
	free(claims.claims);
}

static void decode_rows(
	struct operands *operands, struct decode_work *work, uint32_t first, uint32_t count)
{
	decode_rows_by(operands, work, first, count, true);
}

/* Near the twin, and the same bits by any number of blocks and launches, for which the lists are
   planned. */
static void check_decode_ways(const struct op_case *c, uint32_t block_count, enum kernel_path path)
{
	const struct op *op = op_find("decode_attention");
	struct operands operands = open_case(op, c, path, CASE_UNIFORM, NULL);
	struct decode_work work = decode_attention_work(&operands);
	const struct tensor out = tensor_of(&operands, OPERAND_OUT);
	uint32_t count = c->rows;
	const struct {
		const char *what;
		uint32_t first_rows, block_count;
		bool is_long;
	} ways[] = {{"two launches", count / 2, block_count, false}, {"one block", 0, 1, false},
		{"many blocks", 0, 3 * block_count + 1, false},
		{"clusters", 0, 16 * count * c->kv_heads, false},
		{"long launch", 0, block_count, true},
		{"two long launches", count / 2, 3 * block_count + 1, true}};

	work.block_count = operands.processors = block_count;
	decode_rows(&operands, &work, 0, count);
	op->twin(&operands);
	expect_outputs(&operands, "decode_attention");
	for (uint32_t i = 0; i < COUNT(ways); i++) {
		float *whole = tensor_fetch(&out);
		operands_poison(&operands, OPERAND_OUT);
		work.block_count = operands.processors = ways[i].block_count;
		is_every_launch_long = ways[i].is_long;
		decode_rows(&operands, &work, 0, ways[i].first_rows);
		decode_rows(&operands, &work, ways[i].first_rows, count - ways[i].first_rows);
		expect_same_bits(&out, whole, ways[i].what);
	}
	is_every_launch_long = false;
	operands_close(&operands);
}

static void check_decode(const struct op_case *c, uint32_t block_count)
{
	for (uint32_t path = 0; path <= kernel_path_of_device(); path++) {
		check_decode_ways(c, block_count, (enum kernel_path)path);
	}
}

static void check_decode_case(
	const struct op *op, const struct op_case *c, struct cublaslt *cublaslt)
{
	(void)op;
	(void)cublaslt;
	check_decode(c, c->size == CASE_TINY ? 7 : 264);
}

Test(cuda_attention, decode_has_the_same_bits_by_any_launch)
{
	static const uint32_t contexts[] = {
		1, 2, 15, 16, 17, 63, 64, 65, 255, 256, 257, 511, 512, 513, 1000, 2049};
	static const uint32_t whole_contexts[] = {4096, 3001, 300}, long_contexts[] = {8193, 100};
	struct op_case c;

	for (uint32_t i = 0; i < 24; i += takes_few() ? 5 : 1) {
		c = with_sequences(
			case_of_group(1 + i / 3, i % 3), contexts, NULL, COUNT(contexts));
		check_decode(&c, 7);
	}
	/* Whole rows of more splits than a block looks up at a time. */
	for (uint32_t i = 0; i < 2; i++) {
		c = with_sequences(
			case_of_group(2 + 4 * i, i), whole_contexts, NULL, COUNT(whole_contexts));
		check_decode(&c, 1);
	}
	cr_assert(kernel_path_of_device() != KERNEL_PATH_SM90 || longest_claim == 16);
	/* Without the longest each row has fewer splits than a block looks up at a time. */
	for (uint32_t i = 0; i < 2; i++) {
		c = with_sequences(SMALLEST_PUBLISHED, contexts, NULL, COUNT(contexts) - i);
		check_decode(&c, 7);
	}
	for (uint32_t i = 0; i < COUNT(contexts); i += takes_few() ? 5 : 1) {
		c = with_sequences(SMALLEST_PUBLISHED, contexts + i, NULL, 1);
		check_decode(&c, 1 + i);
	}
	/* More than is gathered at a time. */
	c = with_sequences(case_of_group(2, 2), long_contexts, NULL, COUNT(long_contexts));
	check_decode(&c, 7);
	c = with_sequences(case_of_group(8, 2), long_contexts, NULL, COUNT(long_contexts));
	check_decode(&c, 7);
	for_cases(op_find("decode_attention"), NULL, check_decode_case);
}

/* Padding of a graph: rows without context behind the others get zeros and change nothing else. */
Test(cuda_attention, decode_of_padded_rows_is_zero)
{
	static const uint32_t contexts[] = {300, 1, 0, 0, 0};
	const struct op *op = op_find("decode_attention");
	const struct op_case c =
		with_sequences(SMALLEST_PUBLISHED, contexts, NULL, COUNT(contexts));

	for (uint32_t path = 0; path <= kernel_path_of_device(); path++) {
		struct operands operands =
			open_case(op, &c, (enum kernel_path)path, CASE_UNIFORM, NULL);
		struct decode_work work = decode_attention_work(&operands);
		op->twin(&operands);
		for (work.block_count = 7; work.block_count < 1000; work.block_count *= 5) {
			operands_poison(&operands, OPERAND_OUT);
			decode_rows(&operands, &work, 0, c.rows);
			expect_outputs(&operands, "decode_attention of padded rows");
		}
		operands_close(&operands);
	}
}

/* Computes row r of a batch as a batch of one row. Query, table and context are the batch's; lists
   and scratch are those of one row. Returns the output, for the caller to free. */
static float *decode_single_row(const struct operands *batch, uint32_t r)
{
	const struct op_case *all = batch->op_case;
	const struct op_case c = with_sequences(SMALLEST_PUBLISHED, all->contexts + r, NULL, 1);
	const struct attention_shape shape = attention_shape_of(all);
	struct operands single =
		open_case(op_find("decode_attention"), &c, batch->path, CASE_UNIFORM, NULL);
	struct decode_work work = decode_attention_work(&single);
	const struct decode_work whole = decode_attention_work(batch);
	const struct tensor query = tensor_of(batch, OPERAND_IN);
	const struct tensor out = tensor_of(&single, OPERAND_OUT);

	const uint32_t *rows = operand_host(batch, ATTENTION_ROWS);
	const uint32_t *own = operand_host(&single, ATTENTION_ROWS);

	work.tables = whole.tables + (size_t)(rows[r] - own[0]) * shape.table_width;
	work.contexts = whole.contexts + r;
	work.block_count = 13;
	must(decode_attention(out.device, query.device + r * attention_query_width(all),
		     operand_at(batch, ATTENTION_KEYS, 0), operand_at(batch, ATTENTION_VALUES, 0),
		     &work, 1, &shape, NULL),
		"decode_attention");
	float *result = tensor_fetch(&out);
	operands_close(&single);
	return result;
}

Test(cuda_attention, decode_rows_do_not_depend_on_the_batch)
{
	static const uint32_t contexts[] = {
		1, 700, 64, 65, 256, 257, 2000, 511, 15, 16, 17, 1024, 320, 2, 1025, 100};
	const struct op_case c =
		with_sequences(SMALLEST_PUBLISHED, contexts, NULL, COUNT(contexts));
	size_t width = attention_query_width(&c);

	for (uint32_t path = 0; path <= kernel_path_of_device(); path++) {
		struct operands batch = open_case(op_find("decode_attention"), &c,
			(enum kernel_path)path, CASE_UNIFORM, NULL);
		struct decode_work work = decode_attention_work(&batch);
		const struct tensor out = tensor_of(&batch, OPERAND_OUT);
		work.block_count = 5;
		decode_rows(&batch, &work, 0, c.rows);
		float *together = tensor_fetch(&out);
		for (uint32_t r = 0; r < c.rows; r++) {
			float *single = decode_single_row(&batch, r);
			cr_expect(memcmp(single, together + r * width, width * sizeof(float)) == 0,
				"path %u, row %u", path, r);
			free(single);
		}
		free(together);
		operands_close(&batch);
	}
}

/* Gives every sequence the first blocks of an earlier one, so that they form a tree, and now and
   then one block more behind a gap. At least the last block of each stays its own. */
static void share_blocks(struct operands *operands, uint64_t key)
{
	const struct op_case *c = operands->op_case;
	uint32_t width = attention_shape_of(c).table_width;
	uint32_t *tables = operand_host(operands, ATTENTION_TABLES);
	const uint32_t *rows = operand_host(operands, ATTENTION_ROWS);

	for (uint32_t r = 1; r < c->rows; r++) {
		uint32_t bits = (uint32_t)counter_hash(key, r);
		uint32_t other = counter_below(bits, r);
		uint32_t own = (c->contexts[r] - 1) / c->block_size;
		uint32_t least = (c->contexts[other] - 1) / c->block_size;
		uint32_t most = own < least ? own : least;
		uint32_t count = r == 1 ? most : counter_below(bits * 2654435761u, most + 1);
		uint32_t *table = tables + (size_t)rows[r] * width;
		const uint32_t *from = tables + (size_t)rows[other] * width;
		memcpy(table, from, count * sizeof(*table));
		if (bits % 3 == 0 && count + 1 < most) {
			table[count + 1] = from[count + 1];
		}
	}
	must(cudaMemcpy((void *)operand_at(operands, ATTENTION_TABLES, 0), tables,
		     (size_t)c->rows * width * sizeof(*tables), cudaMemcpyHostToDevice),
		"cudaMemcpy");
}

/* Whether the lists of a case have a shared unit of several splits, planned for its processors. */
static bool has_long_units(const struct operands *operands)
{
	const struct attention_lists lists = lists_of(operands);
	struct decode_claims claims;
	bool found = false;

	decode_attention_claims(&claims, operands, &lists, 0, operands->op_case->rows, true);
	for (uint32_t i = 0; i < claims.launch.shared; i++) {
		found = found || claims.claims[claims.launch.first + i].count > 1;
	}
	free(claims.claims);
	return found;
}

/* The same bits whether shared blocks are read once or by each row, in units of one split and of
   several; has_twin: and near the twin. Returns whether there were units of several. */
static bool check_sharing(const struct op_case *c, uint64_t key, bool has_twin)
{
	static const uint32_t block_counts[] = {1, 7, 132, 400};
	const struct op *op = op_find("decode_attention");
	struct operands operands = open_case(op, c, KERNEL_PATH_SM90, CASE_UNIFORM, NULL);
	struct decode_work work = decode_attention_work(&operands);
	const struct tensor out = tensor_of(&operands, OPERAND_OUT);
	struct decode_claims claims;

	share_blocks(&operands, key);
	const struct attention_lists lists = lists_of(&operands);
	decode_attention_claims(&claims, &operands, &lists, 0, c->rows, true);

	cr_assert(claims.launch.shared > 0, "the case shares no split");
	free(claims.claims);
	decode_rows_by(&operands, &work, 0, c->rows, false);
	if (has_twin) {
		op->twin(&operands);
		expect_outputs(&operands, "decode_attention of sequences that share blocks");
	}
	bool has_long = false;
	for (uint32_t i = 0; i < 2 * COUNT(block_counts); i++) {
		uint32_t first = i < COUNT(block_counts) ? 0 : c->rows / 3;
		float *apart = tensor_fetch(&out);
		operands_poison(&operands, OPERAND_OUT);
		work.block_count = operands.processors = block_counts[i % COUNT(block_counts)];
		has_long = has_long || has_long_units(&operands);
		decode_rows(&operands, &work, 0, first);
		decode_rows(&operands, &work, first, c->rows - first);
		expect_same_bits(&out, apart, "decode_attention of shared blocks");
	}
	operands_close(&operands);
	return has_long;
}

Test(cuda_attention, decode_has_the_same_bits_with_shared_blocks)
{
	enum { ROWS = 70 };
	uint32_t contexts[ROWS], long_units = 0;

	if (kernel_path_of_device() != KERNEL_PATH_SM90) {
		return; /* the general path reads shared blocks for each row */
	}
	for (uint32_t i = 0; i < 48; i += takes_few() ? 11 : 1) {
		struct op_case c = case_of_group(1 + i / 6, 1 + i / 3 % 2);
		static const uint32_t sizes[] = {64, 192, 256, 512, 16, 48, 80};
		uint32_t rows = 2 + counter_below((uint32_t)counter_hash(31, i), ROWS - 1);
		uint32_t longest = i % 5 == 0 ? 9000 : 1800;
		c.block_size = sizes[i % COUNT(sizes)];
		for (uint32_t r = 0; r < rows; r++) {
			contexts[r] =
				700 + counter_below((uint32_t)counter_hash(i, r), longest - 700);
		}
		contexts[0] = contexts[1] = longest;
		c = with_sequences(c, contexts, NULL, rows);
		long_units += check_sharing(&c, i, i % 8 == 0);
	}
	cr_assert(long_units > 0, "no shared unit of several splits");
}

/* Whether the lists of a case have chains, for so many blocks. */
static bool has_chains(struct operands *operands, uint32_t block_count)
{
	const struct attention_lists lists = lists_of(operands);
	struct decode_claims claims;

	operands->processors = block_count;
	decode_attention_claims(&claims, operands, &lists, 0, operands->op_case->rows, false);
	free(claims.claims);
	return claims.launch.chains > 0;
}

/* The same bits by chains of any length as by single splits; has_twin: and near the twin. */
static void check_chains(const struct op_case *c, bool has_twin)
{
	static const uint32_t filled_for[] = {1, 2, 3, 5}, block_counts[] = {1, 7, 132};
	const struct op *op = op_find("decode_attention");
	struct operands operands = open_case(op, c, KERNEL_PATH_SM90, CASE_UNIFORM, NULL);
	struct decode_work work = decode_attention_work(&operands);
	const struct tensor out = tensor_of(&operands, OPERAND_OUT);

	cr_assert(!has_chains(&operands, 1 << 20));
	decode_rows_by(&operands, &work, 0, c->rows, false);
	if (has_twin) {
		op->twin(&operands);
		expect_outputs(&operands, "decode_attention of long rows");
	}
	for (uint32_t i = 0; i < COUNT(filled_for); i++) {
		float *single = tensor_fetch(&out);
		operands_poison(&operands, OPERAND_OUT);
		cr_assert(has_chains(&operands, filled_for[i]), "the case has no chain");
		work.block_count = block_counts[i % COUNT(block_counts)];
		decode_rows_by(&operands, &work, 0, c->rows, false);
		expect_same_bits(&out, single, "decode_attention by chains");
	}
	operands_close(&operands);
}

Test(cuda_attention, decode_has_the_same_bits_by_chains)
{
	static const uint32_t contexts[] = {8193, 100, 5000, 4097, 256, 1, 11000};

	if (kernel_path_of_device() != KERNEL_PATH_SM90) {
		return; /* the general path merges all splits in one way */
	}
	for (uint32_t i = 0; i < 16; i += takes_few() ? 5 : 1) {
		struct op_case c = case_of_group(1 + i / 2, 1 + i % 2);
		static const uint32_t sizes[] = {256, 16, 48};
		c.block_size = sizes[i % COUNT(sizes)];
		c = with_sequences(c, contexts, NULL, COUNT(contexts));
		check_chains(&c, i % 8 == 0);
	}
}

/* Fills the pool of a case with the keys or values that the sequences of another one have, which
   differs in nothing but its block size. */
static void take_tokens(
	struct operands *operands, const struct operands *from, enum attention_operand index)
{
	const struct op_case *c = operands->op_case;
	const struct attention_shape shape = attention_shape_of(c);
	const struct attention_shape other = attention_shape_of(from->op_case);
	size_t rows = (size_t)attention_pool_blocks(c) * c->kv_heads * c->block_size;
	const uint32_t *tables = operand_host(operands, ATTENTION_TABLES);
	const uint32_t *other_tables = operand_host(from, ATTENTION_TABLES);
	float *to = operand_host(operands, index);
	const float *tokens = operand_host(from, index);

	for (uint32_t r = 0; r < c->rows; r++) {
		const uint32_t *table = tables + (size_t)(c->rows - 1 - r) * shape.table_width;
		const uint32_t *other_table =
			other_tables + (size_t)(c->rows - 1 - r) * other.table_width;
		for (uint32_t p = 0; p < c->contexts[r]; p++) {
			uint32_t block = table[p / shape.block_size];
			uint32_t other_block = other_table[p / other.block_size];
			for (uint32_t h = 0; h < c->kv_heads; h++) {
				uint64_t at =
					paged_kv_offset(&shape, block, h, p % shape.block_size);
				uint64_t other_at = paged_kv_offset(
					&other, other_block, h, p % other.block_size);
				memcpy(to + at, tokens + other_at, c->head_dim * sizeof(*to));
			}
		}
	}
	attention_permute(to, rows, &shape);
	operands_send(operands, index);
	attention_permute(to, rows, &shape);
}

/* The bits of a case at 16 and at two more block sizes that i chooses, and at 256. */
static void check_block_sizes(const char *name, struct op_case c, uint32_t i, enum kernel_path path)
{
	static const uint32_t small[] = {32, 48, 80}, large[] = {64, 192, 1024};
	const uint32_t sizes[] = {16, small[i % COUNT(small)], large[i % COUNT(large)]};
	const struct op *op = op_find(name);
	struct op_case other = c;

	c.block_size = 256;
	struct operands operands = open_case(op, &c, path, CASE_UNIFORM, NULL);
	const struct tensor whole = tensor_of(&operands, OPERAND_OUT);
	must(op->launch(&operands, 0, NULL), name);
	for (uint32_t k = 0; k < COUNT(sizes); k++) {
		other.block_size = sizes[k];
		struct operands again = open_case(op, &other, path, CASE_UNIFORM, NULL);
		const struct tensor out = tensor_of(&again, OPERAND_OUT);
		take_tokens(&again, &operands, ATTENTION_KEYS);
		take_tokens(&again, &operands, ATTENTION_VALUES);
		must(op->launch(&again, 0, NULL), name);
		expect_same_bits(&out, tensor_fetch(&whole), "another block size");
		operands_close(&again);
	}
	operands_close(&operands);
}

/* Splits and tiles begin at absolute positions. */
Test(cuda_attention, bits_do_not_depend_on_the_block_size)
{
	static const uint32_t contexts[] = {1, 15, 16, 17, 47, 64, 65, 255, 256, 257, 700, 1300};
	static const uint32_t chunks[] = {1, 15, 3, 17, 1, 64, 37, 255, 130, 1, 700, 300};
	static const uint32_t alone[] = {1, 17, 100, 700, 8300};
	struct op_case c;

	for (uint32_t path = 0; path <= kernel_path_of_device(); path++) {
		for (uint32_t i = 0; i < 12; i += takes_few() ? 5 : 1) {
			c = case_of_group(1 + i % 8, i % 3);
			check_block_sizes("decode_attention",
				with_sequences(c, contexts, NULL, COUNT(contexts)), i,
				(enum kernel_path)path);
			check_block_sizes("prefill_attention",
				with_sequences(c, contexts, chunks, COUNT(contexts)), i,
				(enum kernel_path)path);
		}
		/* by a cluster */
		for (uint32_t i = 0; i < COUNT(alone); i++) {
			c = with_sequences(SMALLEST_PUBLISHED, alone + i, NULL, 1);
			check_block_sizes("decode_attention", c, i, (enum kernel_path)path);
		}
	}
}

static void check_prefill(const struct op_case *c)
{
	for (uint32_t path = 0; path <= kernel_path_of_device(); path++) {
		check_case(op_find("prefill_attention"), c, (enum kernel_path)path, CASE_UNIFORM,
			NULL);
	}
}

Test(cuda_attention, prefill_is_near_its_twin)
{
	/* whole prompts, then chunks behind a cached prefix */
	static const uint32_t chunks[] = {
		1, 2, 15, 16, 17, 63, 64, 65, 200, 257, 1, 1, 5, 130, 64, 1, 33};
	static const uint32_t contexts[] = {
		1, 2, 15, 16, 17, 63, 64, 65, 200, 257, 65, 256, 261, 387, 512, 2049, 545};
	struct op_case c;

	for (uint32_t i = 0; i < 24; i += takes_few() ? 5 : 1) {
		c = with_sequences(
			case_of_group(1 + i / 3, i % 3), contexts, chunks, COUNT(contexts));
		check_prefill(&c);
	}
	c = with_sequences(SMALLEST_PUBLISHED, contexts, chunks, COUNT(contexts));
	check_prefill(&c);
	for (uint32_t i = 0; i < COUNT(contexts); i += takes_few() ? 5 : 1) {
		c = with_sequences(SMALLEST_PUBLISHED, contexts + i, chunks + i, 1);
		check_prefill(&c);
	}
}

enum { CHUNKS = 9 };

/* One launch of `count` chunks of one sequence: chunk r computes tokens [start[r], start[r + 1]) of
   the batch and ends at position ends[r]. */
static void prefill_chunks(const struct operands *operands, const uint32_t *start,
	const uint32_t *ends, uint32_t count)
{
	static const uint32_t no_rows[CHUNKS] = {0}; /* every chunk is of the same sequence */
	const struct attention_shape shape = attention_shape_of(operands->op_case);
	struct prefill_work work = prefill_attention_work(operands);
	struct prefill_tile tiles[2048 / PREFILL_QUERY_TILE + CHUNKS];
	uint32_t tile_count = prefill_tiles_fill(tiles, start, ends, 0, count);
	uint32_t *rows = device_copy(no_rows, sizeof(no_rows));
	uint32_t *query_start = device_copy(start, (count + 1) * sizeof(*start));
	uint32_t *contexts = device_copy(ends, count * sizeof(*ends));
	struct prefill_tile *device_tiles = device_copy(tiles, tile_count * sizeof(*tiles));

	work.rows = rows;
	work.query_start = query_start;
	work.contexts = contexts;
	work.tiles = device_tiles;
	work.tile_count = tile_count;
	must(prefill_attention(operand_at(operands, OPERAND_OUT, 0),
		     operand_at(operands, OPERAND_IN, 0), operand_at(operands, ATTENTION_KEYS, 0),
		     operand_at(operands, ATTENTION_VALUES, 0), &work, &shape, NULL),
		"prefill_attention of chunks");
	must(cudaDeviceSynchronize(), "kernel");
	cudaFree(rows);
	cudaFree(query_start);
	cudaFree(contexts);
	cudaFree(device_tiles);
}

/* A token's output has the same bits however its sequence is cut into chunks. */
static void check_chunks(struct op_case c, enum kernel_path path)
{
	static const uint32_t ends[CHUNKS] = {1, 64, 100, 333, 334, 512, 777, 1280, 1290};
	static const uint32_t whole = 1290;
	const struct op *op = op_find("prefill_attention");
	uint32_t start[CHUNKS + 1];

	c = with_sequences(c, &whole, &whole, 1);
	struct operands operands = open_case(op, &c, path, CASE_UNIFORM, NULL);
	const struct tensor out = tensor_of(&operands, OPERAND_OUT);
	const uint32_t *first = operand_host(&operands, ATTENTION_QUERY_START);
	start[0] = first[0];
	for (uint32_t r = 0; r < CHUNKS; r++) {
		start[r + 1] = first[0] + ends[r];
	}
	must(op->launch(&operands, 0, NULL), op->name);
	float *expected = tensor_fetch(&out);
	operands_poison(&operands, OPERAND_OUT);
	prefill_chunks(&operands, start, ends, CHUNKS);
	expect_same_bits(&out, expected, "chunks in one launch");
	expected = tensor_fetch(&out);
	operands_poison(&operands, OPERAND_OUT);
	for (uint32_t r = 0; r < CHUNKS; r++) {
		prefill_chunks(&operands, start + r, ends + r, 1);
	}
	expect_same_bits(&out, expected, "chunks in launches of their own");
	operands_close(&operands);
}

Test(cuda_attention, prefill_does_not_depend_on_chunks)
{
	for (uint32_t path = 0; path <= kernel_path_of_device(); path++) {
		for (uint32_t i = 0; i < 24; i += takes_few() ? 5 : 1) {
			check_chunks(case_of_group(1 + i / 3, i % 3), (enum kernel_path)path);
		}
		check_chunks(SMALLEST_PUBLISHED, (enum kernel_path)path);
	}
}

/* Near the twin, and the same bits when tokens are stored piece by piece. */
static void check_store(const struct op *op, const struct op_case *c, struct cublaslt *cublaslt)
{
	static const uint32_t outputs[] = {OPERAND_OUT, ATTENTION_KEYS, ATTENTION_VALUES};
	const struct attention_shape shape = attention_shape_of(c);
	struct operands operands = open_case(op, c, KERNEL_PATH_GENERAL, CASE_UNIFORM, cublaslt);
	const struct qk_norm_rope_device norm = qk_norm_rope_store_norm(&operands);
	const struct tensor query = tensor_of(&operands, OPERAND_OUT);
	const struct tensor qkv = tensor_of(&operands, OPERAND_IN);
	const uint32_t *positions = operand_at(&operands, STORE_POSITIONS, 0);
	const int64_t *slots = operand_at(&operands, STORE_SLOTS, 0);
	uint64_t width = attention_query_width(c), qkv_width = width + 2 * attention_key_width(c);
	float *whole[COUNT(outputs)];

	must(op->launch(&operands, 0, NULL), op->name);
	op->twin(&operands);
	expect_outputs(&operands, op->name);
	for (uint32_t i = 0; i < COUNT(outputs); i++) {
		whole[i] = operands_fetch(&operands, outputs[i]);
		operands_poison(&operands, outputs[i]);
	}
	for (uint32_t t = 0, count = c->rows > 700 ? 700 : 7; t < c->rows; t += count) {
		count = c->rows - t < count ? c->rows - t : count;
		must(qk_norm_rope_store(query.device + t * width,
			     operand_at(&operands, ATTENTION_KEYS, 0),
			     operand_at(&operands, ATTENTION_VALUES, 0), qkv.device + t * qkv_width,
			     positions + t, slots + t, count, &norm, &shape, NULL),
			"qk_norm_rope_store of a piece");
	}
	for (uint32_t i = 0; i < COUNT(outputs); i++) {
		const struct tensor tensor = tensor_of(&operands, outputs[i]);
		expect_same_bits(&tensor, whole[i], "qk_norm_rope_store in pieces");
	}
	operands_close(&operands);
}

Test(cuda_attention, store_has_the_same_bits_in_pieces)
{
	const struct op *op = op_find("qk_norm_rope_store");

	for (uint32_t i = 0; i < 24; i++) {
		struct op_case c = case_of_group(1 + i / 3, i % 3);
		c.rows = 1 + 5 * i;
		check_store(op, &c, NULL);
	}
	for_cases(op, NULL, check_store);
}
