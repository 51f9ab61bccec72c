/* Exchanges between ranks on one GPU, and on several where peers can be accessed: sums and norms
   bit by bit, in any number of rows, by every way. Skipped without a device. */

#include "engine/base/counter_hash.h"
#include "engine/base/memory.h"
#include "kernels/exchange/exchange.h"
#include "kernels/op/number.h"
#include "kernels/rows/add_rms_norm.h"
#include "tests/harness/cuda_exchange.h"

#include <criterion/criterion.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(cuda_exchange, .init = skip_without_device_for_group);

static const float EPSILON = 1e-6f;

enum { ROWS_MAX = 512, LIMIT_MS = 3000, PER_STEP = 6 };

/* ---- values ---- */

/* Of magnitudes 2^-12 to 2^11, so that the order of a sum shows in its bits; among them NaN that
   looks like an empty slot, infinities and -0. */
static uint16_t random_bits(uint64_t key, uint64_t i)
{
	static const uint16_t specials[6] = {0xffff, 0xffff, 0x7f80, 0xff80, 0x8000, 0x7fff};
	uint64_t hash = counter_hash(key, i / 2 * 2), own = counter_hash(key, i);
	uint32_t exponent = 127 - 12 + (uint32_t)(own >> 20) % 24;

	/* pairs, so that both halves of a word are 0xffff */
	return hash >> 50 == 0 ? specials[hash % 6] : (uint16_t)((own & 0x807f) | exponent << 7);
}

static float random_slice(uint64_t key, uint64_t i)
{
	uint64_t hash = counter_hash(key, i);

	return ((float)(hash >> 40) - 0x1p23f) * (hash % 2 == 0 ? 0x1p-20f : 0x1p-26f);
}

/* ---- one exchange, bit by bit ---- */

/* What all ranks bring, and what each must get. Rows below SLICED have slices too. */
enum { SLICED = 37 };

struct device_rows {
	uint16_t *weight;	  /* (width) */
	uint16_t *before;	  /* (ROWS_MAX, width) the residual stream */
	uint16_t *residual, *out; /* (ranks, ROWS_MAX, width) */
	float *slices;		  /* (ranks, SPLIT_K, SLICED, width) */
	uint32_t *index;	  /* (ROWS_MAX) element i is at most i */
};

struct trial {
	struct group group;
	struct exchange one; /* all ranks in one launch */
	uint32_t width;
	uint32_t index[ROWS_MAX];
	uint16_t *parts;	  /* (ranks, ROWS_MAX, width) */
	uint16_t *out, *residual; /* expected: (ROWS_MAX, width) */
	uint16_t *found;	  /* (ROWS_MAX, width) */
	struct device_rows device[EXCHANGE_RANKS_MAX];
	uint32_t round; /* of PER_STEP */
};

/* Which ranks launch what. */
struct variant {
	bool pulls, is_one_launch, is_sliced, is_indexed;
};

/* The parts of the ranks; of the first rows the slices that add up to them, which are returned. */
static float *make_parts(struct trial *own)
{
	const uint32_t width = own->width, ranks = own->group.ranks;
	const size_t slice = (size_t)SLICED * width, size = (size_t)ROWS_MAX * width;
	float *slices = memory_take(ranks * SPLIT_K * slice, sizeof(*slices));

	own->parts = memory_take(ranks * size, sizeof(*own->parts));
	for (uint32_t r = 0; r < ranks; r++) {
		float *first = slices + r * SPLIT_K * slice;
		for (size_t i = 0; i < SPLIT_K * slice; i++) {
			first[i] = random_slice(r + 1, i);
		}
		for (size_t i = 0; i < size; i++) {
			uint16_t bits = random_bits(100 + r, i);
			if (i < slice) {
				bits = bf16_from_float(
					((first[i] + first[slice + i]) + first[2 * slice + i]) +
					first[3 * slice + i]);
			}
			own->parts[r * size + i] = bits;
		}
	}
	return slices;
}

/* The sum of all ranks by the CPU twin. */
static uint16_t *sum_parts(const struct trial *own)
{
	const size_t size = (size_t)ROWS_MAX * own->width;
	const uint32_t ranks = own->group.ranks;
	uint16_t *sum = memory_take(size, sizeof(*sum));
	float values[EXCHANGE_RANKS_MAX], out;
	const float *parts[EXCHANGE_RANKS_MAX];

	for (size_t i = 0; i < size; i++) {
		for (uint32_t r = 0; r < ranks; r++) {
			values[r] = bf16_to_float(own->parts[r * size + i]);
			parts[r] = &values[r];
		}
		exchange_sum_cpu(&out, parts, ranks, 1, ROUNDING_BF16);
		sum[i] = bf16_from_float(out);
	}
	return sum;
}

/* What add_rms_norm() makes of the sum. */
static void expect_from(struct trial *own, const uint16_t *before)
{
	const size_t bytes = (size_t)ROWS_MAX * own->width * sizeof(uint16_t);
	uint16_t *sum = sum_parts(own);
	uint16_t *in = device_copy(sum, bytes), *residual = device_copy(before, bytes);

	own->out = memory_take(bytes, 1);
	own->residual = memory_take(bytes, 1);
	own->found = memory_take(bytes, 1);
	must(add_rms_norm(in, residual, in, own->device[0].weight, NULL, ROWS_MAX, own->width,
		     EPSILON, NULL),
		"add_rms_norm");
	must(cudaMemcpy(own->out, in, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
	must(cudaMemcpy(own->residual, residual, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
	cudaFree(in);
	cudaFree(residual);
	free(sum);
}

static void open_trial(struct trial *own, uint32_t ranks, uint32_t devices, uint32_t width)
{
	const size_t size = (size_t)ROWS_MAX * width, bytes = size * sizeof(uint16_t);
	uint16_t *before = memory_take(bytes, 1), *weight = memory_take(width, sizeof(*weight));

	*own = (struct trial){.width = width};
	group_open(&own->group, ranks, devices, width, ROWS_MAX, PER_STEP, LIMIT_MS);
	own->one = group_of_one_launch(&own->group);
	float *slices = make_parts(own);
	for (size_t i = 0; i < size; i++) {
		before[i] = random_bits(7, i);
	}
	for (uint32_t i = 0; i < width; i++) {
		weight[i] = bf16_from_float((float)(i % 100) / 64);
	}
	for (uint32_t i = 0; i < ROWS_MAX; i++) {
		own->index[i] = (uint32_t)(counter_hash(8, i) % (i + 1));
	}
	for (uint32_t r = 0; r < ranks; r++) {
		struct device_rows *device = &own->device[r];
		group_use(&own->group, r);
		for (uint32_t i = 0; i < EXCHANGE_PARTIALS; i++) {
			must(cudaMemcpy(exchange_partial(&own->group.x[r], i),
				     own->parts + r * size, bytes, cudaMemcpyHostToDevice),
				"cudaMemcpy");
		}
		if (r < devices) {
			*device = (struct device_rows){
				.weight = device_copy(weight, width * sizeof(*weight)),
				.before = device_copy(before, bytes),
				.residual = device_take(ranks * bytes),
				.out = device_take(ranks * bytes),
				.slices = device_copy(
					slices, ranks * SPLIT_K * SLICED * width * sizeof(float)),
				.index = device_copy(own->index, sizeof(own->index)),
			};
		} else {
			*device = own->device[r % devices];
		}
	}
	group_use(&own->group, 0);
	expect_from(own, before);
	free(before);
	free(weight);
	free(slices);
}

static void close_trial(struct trial *own)
{
	for (uint32_t r = 0; r < own->group.devices; r++) {
		struct device_rows *device = &own->device[r];
		group_use(&own->group, r);
		cudaFree(device->weight);
		cudaFree(device->before);
		cudaFree(device->residual);
		cudaFree(device->out);
		cudaFree(device->slices);
		cudaFree(device->index);
	}
	free(own->parts);
	free(own->out);
	free(own->residual);
	free(own->found);
	group_close(&own->group);
}

/* The operands of a rank, whose rows follow those of the ranks before it. */
static struct exchange_norm norm_of(
	const struct trial *own, uint32_t rank, uint32_t rows, struct variant variant)
{
	const struct device_rows *device = &own->device[rank];
	const size_t first = (size_t)rank * rows * own->width;
	/* Slices are (SPLIT_K, SLICED, width), so they serve no other number of rows. */
	const bool is_sliced = variant.is_sliced && (rows >= SLICED || variant.is_indexed);

	return (struct exchange_norm){
		.out = device->out + first,
		.residual = device->residual + first,
		.weight = device->weight,
		.index = variant.is_indexed ? device->index : NULL,
		.row_count = rows,
		.epsilon = EPSILON,
		.slices = device->slices + (size_t)rank * SPLIT_K * SLICED * own->width,
		.slice_rows = is_sliced ? SLICED : 0,
	};
}

/* The residual stream as before, and nothing in out; what slices replace is poisoned. */
static void prepare(struct trial *own, uint32_t rank, uint32_t rows, struct variant variant)
{
	const struct exchange_norm norm = norm_of(own, rank, rows, variant);
	const struct device_rows *device = &own->device[rank];
	const size_t row = own->width * sizeof(uint16_t);

	group_use(&own->group, rank);
	must(cudaMemcpy(norm.residual, device->before, rows * row, cudaMemcpyDeviceToDevice),
		"cudaMemcpy");
	must(cudaMemset(norm.out, 0xee, rows * row), "cudaMemset");
	must(cudaMemcpy(exchange_partial(&own->group.x[rank], own->round),
		     own->parts + (size_t)rank * ROWS_MAX * own->width, SLICED * row,
		     cudaMemcpyHostToDevice),
		"cudaMemcpy");
	if (norm.slice_rows > 0) {
		must(cudaMemset(exchange_partial(&own->group.x[rank], own->round), 0xff,
			     norm.slice_rows * row),
			"cudaMemset");
	}
	must(cudaDeviceSynchronize(), "preparing");
}

static void expect_rank(
	struct trial *own, uint32_t rank, uint32_t rows, struct variant variant, const char *what)
{
	const struct exchange_norm norm = norm_of(own, rank, rows, variant);
	const size_t width = own->width, row = width * sizeof(uint16_t);

	group_use(&own->group, rank);
	must(cudaMemcpy(own->found, norm.out, rows * row, cudaMemcpyDeviceToHost), "cudaMemcpy");
	for (uint32_t r = 0; r < rows; r++) {
		uint32_t source = variant.is_indexed ? own->index[r] : r;
		cr_assert(memcmp(own->found + r * width, own->out + source * width, row) == 0,
			"%s: rank %u, row %u of the norm", what, rank, r);
	}
	must(cudaMemcpy(own->found, norm.residual, rows * row, cudaMemcpyDeviceToHost),
		"cudaMemcpy");
	for (uint32_t r = 0; r < rows && !variant.is_indexed; r++) {
		cr_assert(memcmp(own->found + r * width, own->residual + r * width, row) == 0,
			"%s: rank %u, row %u of the residual stream", what, rank, r);
	}
}

static void check_exchange(struct trial *own, uint32_t rows, struct variant variant)
{
	struct group *group = &own->group;
	const uint32_t ranks = group->ranks;
	char what[128];

	snprintf(what, sizeof(what), "%u ranks on %u GPUs, %ux%u%s%s%s%s", ranks, group->devices,
		rows, own->width, variant.pulls ? ", pull" : "",
		variant.is_one_launch ? ", one launch" : "", variant.is_sliced ? ", sliced" : "",
		variant.is_indexed ? ", indexed" : "");
	for (uint32_t r = 0; r < ranks; r++) {
		prepare(own, r, rows, variant);
	}
	for (uint32_t r = 0; r < (variant.is_one_launch ? 1 : ranks); r++) {
		struct exchange x = variant.is_one_launch ? own->one : group->x[r];
		const struct exchange_norm norm = norm_of(own, r, rows, variant);
		x.layout.push_rows = variant.pulls ? 0 : x.layout.push_rows;
		group_use(group, r);
		must(exchange_add_rms_norm(&norm, &x, own->round, group->streams[r]), what);
	}
	group_wait(group, what);
	for (uint32_t r = 0; r < ranks; r++) {
		expect_rank(own, r, rows, variant, what);
	}
	own->round = (own->round + 1) % PER_STEP;
	if (own->round == 0) {
		group_end_step(group);
		group_wait(group, "exchange_end_step");
	}
}

static void check_sums(uint32_t ranks, uint32_t devices, uint32_t width)
{
	static const uint32_t rows[] = {3, 64, 1, SLICED, 130, ROWS_MAX};
	const uint32_t count = takes_few() ? 2 : sizeof(rows) / sizeof(rows[0]);
	struct trial own;

	open_trial(&own, ranks, devices, width);
	for (uint32_t i = 0; i < 16 * count; i++) {
		const struct variant variant = {i & 1, i & 2, i & 4, i & 8};
		if (variant.is_one_launch && devices > 1) {
			continue;
		}
		check_exchange(&own, rows[i / 16], variant);
	}
	close_trial(&own);
}

/* Widths are divided over cases, so that a case is short under a sanitizer too. */
static void check_width(uint32_t width)
{
	const uint32_t devices = group_devices(EXCHANGE_RANKS_MAX);

	for (uint32_t ranks = 2; ranks <= EXCHANGE_RANKS_MAX; ranks *= 2) {
		if (!takes_few() || ranks == 2 || width % 2048 == 0) {
			check_sums(ranks, 1, width);
		}
	}
	if (devices > 1) {
		check_sums(devices, devices, width);
		check_sums(2 * devices, devices, width);
	}
}

Test(cuda_exchange, sums_and_norms_have_the_bits_of_the_twin)
{
	check_width(8);
	check_width(1024);
	check_sums(1, 1, 1024);
	check_sums(3, 1, 1024);
}

Test(cuda_exchange, sums_and_norms_of_middle_width)
{
	check_width(2048);
	check_width(2560);
}

Test(cuda_exchange, sums_and_norms_of_wide_rows)
{
	check_width(4096);
	check_width(5120);
}

/* ---- gathered by a library ---- */

static void check_gathered(struct trial *own, uint32_t rows, bool is_indexed)
{
	const size_t row = own->width * sizeof(uint16_t);
	struct exchange_norm norm = norm_of(own, 0, rows, (struct variant){0});
	uint16_t *parts = device_copy(own->parts, own->group.ranks * ROWS_MAX * row);

	norm.index = is_indexed ? own->device[0].index : NULL;
	norm.slices = NULL;
	prepare(own, 0, rows, (struct variant){0});
	/* The sums of slices take the place of rows that are poisoned. */
	for (uint32_t r = 0; r < own->group.ranks; r++) {
		uint16_t *part = parts + (size_t)r * ROWS_MAX * own->width;
		must(cudaMemset(part, 0xff, SLICED * row), "cudaMemset");
		must(exchange_sum_slices(part,
			     own->device[0].slices + (size_t)r * SPLIT_K * SLICED * own->width,
			     SLICED, own->width, NULL),
			"exchange_sum_slices");
	}
	must(exchange_gathered_add_rms_norm(
		     &norm, parts, own->group.ranks, ROWS_MAX, own->width, NULL),
		"exchange_gathered_add_rms_norm");
	must(cudaDeviceSynchronize(), "exchange_gathered_add_rms_norm");
	expect_rank(own, 0, rows, (struct variant){.is_indexed = is_indexed}, "gathered");
	cudaFree(parts);
}

Test(cuda_exchange, gathered_parts_have_the_same_bits)
{
	static const uint32_t widths[] = {1024, 2560, 5120};

	for (uint32_t i = 0; i < 3; i++) {
		for (uint32_t ranks = 1; ranks <= EXCHANGE_RANKS_MAX;
			ranks += takes_few() ? 3 : 1) {
			struct trial own;
			open_trial(&own, ranks, 1, widths[i]);
			check_gathered(&own, 1, false);
			check_gathered(&own, ROWS_MAX, false);
			check_gathered(&own, 100, true);
			close_trial(&own);
		}
	}
}
