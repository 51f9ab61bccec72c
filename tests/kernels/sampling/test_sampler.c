#include <criterion/criterion.h>

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/counter_hash.h"
#include "engine/base/memory.h"
#include "kernels/op/operands.h"
#include "kernels/sampling/sampler.h"
#include "tests/harness/require.h"

/* Draws are functions of their seeds, so a statistical bound that holds once holds always: none of
   these tests can fail by chance. */

static int32_t sample_one(const float *logits, uint32_t count, uint64_t key, float temperature)
{
	int32_t token = -1;
	sampler_cpu(&token, logits, &key, &temperature, 1, count);
	return token;
}

/* Pearson's statistic of counts against probabilities. */
static double chi_square(const uint32_t *counts, const double *probabilities, uint32_t cells)
{
	double total = 0, sum = 0;
	for (uint32_t i = 0; i < cells; i++) {
		total += counts[i];
	}
	for (uint32_t i = 0; i < cells; i++) {
		double expected = total * probabilities[i];
		require(expected >= 5, "too few draws for cell %u", i);
		sum += (counts[i] - expected) * (counts[i] - expected) / expected;
	}
	return sum;
}

enum { CELLS = 8, DRAWS = 200000 };

/* The statistic exceeds these in one case of 10^4, with 7 and with 15 degrees of freedom. */
static const double CHI_SQUARE_7 = 29.88;
static const double CHI_SQUARE_15 = 44.26;

static void softmax(double *out, const float *logits, double temperature, uint32_t count)
{
	double sum = 0;
	for (uint32_t i = 0; i < count; i++) {
		out[i] = exp((double)logits[i] / temperature);
		sum += out[i];
	}
	for (uint32_t i = 0; i < count; i++) {
		out[i] /= sum;
	}
}

/* How often each token is drawn when position, request or seed varies. */
static void count_draws(uint32_t *counts, const float *logits, float temperature, uint32_t over)
{
	memset(counts, 0, CELLS * sizeof(*counts));
	for (uint32_t i = 0; i < DRAWS; i++) {
		uint64_t key =
			sampler_row_key(over == 2 ? i : 7, over == 1 ? i : 11, over == 0 ? i : 13);
		counts[sample_one(logits, CELLS, key, temperature)]++;
	}
}

Test(sampler, draws_follow_the_softmax, .timeout = 60)
{
	const float logits[CELLS] = {0.5f, -1, 2, 0, 1, 1, -2, 0.25f};
	const float temperatures[] = {0.5f, 0.8f, 1, 1.5f, 3, 1000};

	for (uint32_t over = 0; over < 3; over++) {
		for (uint32_t t = 0; t < 6; t++) {
			uint32_t counts[CELLS];
			double probabilities[CELLS];
			softmax(probabilities, logits, (double)temperatures[t], CELLS);
			count_draws(counts, logits, temperatures[t], over);
			double statistic = chi_square(counts, probabilities, CELLS);
			require(statistic < CHI_SQUARE_7, "temperature %g over %u: %g",
				(double)temperatures[t], over, statistic);
		}
	}
}

/* Draws of neighbouring positions, requests, seeds and ids are independent. */
static void require_independent(uint32_t (*pair)(uint32_t), const char *what)
{
	uint32_t counts[16] = {0};
	double probabilities[16];

	for (uint32_t i = 0; i < 16; i++) {
		probabilities[i] = 1.0 / 16;
	}
	for (uint32_t i = 0; i < DRAWS / 2; i++) {
		counts[pair(i)]++;
	}
	double statistic = chi_square(counts, probabilities, 16);
	require(statistic < CHI_SQUARE_15, "%s: %g", what, statistic);
}

static const float flat[4] = {0};

static uint32_t pair_of_keys(uint64_t a, uint64_t b)
{
	return (uint32_t)(sample_one(flat, 4, a, 1) * 4 + sample_one(flat, 4, b, 1));
}

static uint32_t pair_of_positions(uint32_t i)
{
	return pair_of_keys(sampler_row_key(1, i, 5), sampler_row_key(1, i, 6));
}

static uint32_t pair_of_requests(uint32_t i)
{
	return pair_of_keys(sampler_row_key(1, 5, i), sampler_row_key(1, 6, i));
}

static uint32_t pair_of_seeds(uint32_t i)
{
	return pair_of_keys(sampler_row_key(5, 1, i), sampler_row_key(6, 1, i));
}

/* Swapping request and position gives an independent draw. */
static uint32_t pair_swapped(uint32_t i)
{
	return pair_of_keys(sampler_row_key(1, i, i + 1), sampler_row_key(1, i + 1, i));
}

/* A quarter of all noise lies below each of these: -log(-log(1/4)), ... */
static uint32_t quarter(float noise)
{
	return (noise > -0.32663426f) + (noise > 0.36651292f) + (noise > 1.24589932f);
}

static uint32_t pair_of_ids(uint32_t i)
{
	uint64_t key = sampler_row_key(1, 2, i);
	return quarter(sampler_noise(key, 6)) * 4 + quarter(sampler_noise(key, 7));
}

static uint32_t pair_of_hashes(uint32_t i)
{
	uint64_t key = sampler_row_key(1, 2, i);
	return quarter(sampler_noise(key, 7)) * 4 + quarter(sampler_noise(key, 8));
}

Test(sampler, neighbours_are_independent, .timeout = 60)
{
	require_independent(pair_of_positions, "positions");
	require_independent(pair_of_requests, "requests");
	require_independent(pair_of_seeds, "seeds");
	require_independent(pair_swapped, "request and position swapped");
	require_independent(pair_of_ids, "ids of one hash");
	require_independent(pair_of_hashes, "ids of two hashes");
}

static void check_noise_of(uint32_t bits)
{
	double expected = -log(-log1p(-((double)bits + 0.5) / 4294967296.0));
	double found = (double)sampler_noise_of_bits(bits);
	require(fabs(found - expected) <= 3e-7 * fmax(1, fabs(expected)),
		"bits %08x: %.9g, expected %.9g", bits, found, expected);
}

/* At both ends, where its two forms meet, and in between. */
Test(sampler, noise_follows_its_formula)
{
	for (uint32_t i = 0; i < 100000; i++) {
		check_noise_of(i);
		check_noise_of(UINT32_MAX - i);
		check_noise_of(UINT32_C(0x40000000) - 50000 + i);
		check_noise_of((uint32_t)counter_hash(3, i));
	}
	/* u = 1/2: the median; the ends are the largest and the least noise there is */
	cr_assert_float_eq(sampler_noise_of_bits(0x80000000), 0.36651292, 1e-6);
	cr_assert_float_eq(sampler_noise_of_bits(0), 22.8739, 1e-3);
	cr_assert_float_eq(sampler_noise_of_bits(UINT32_MAX), -3.1299, 1e-3);
}

/* The sampler skips a candidate whose upper bound is below another's lower one, so the bounds must
   hold for all bits. It is fast only if they are close where the noise is large, but for the few
   bits that give the largest. */
static void check_bound_of(uint32_t bits)
{
	float noise = sampler_noise_of_bits(bits), bound = sampler_noise_bound(bits);

	require(bound >= noise, "bits %08x: noise %.9g, bound %.9g", bits, (double)noise,
		(double)bound);
	require(!sampler_noise_has_floor(bits) || sampler_noise_floor(bits) <= noise,
		"bits %08x: noise %.9g, floor %.9g", bits, (double)noise,
		(double)sampler_noise_floor(bits));
	require(bits < 16 || bits > UINT32_MAX / 8 || bound < noise + 0.15f,
		"bits %08x: noise %.9g, bound %.9g is far off", bits, (double)noise, (double)bound);
}

Test(sampler, noise_is_never_above_its_bound)
{
	for (uint32_t i = 0; i < 1000000; i++) {
		check_bound_of(i);
		check_bound_of(UINT32_MAX - i);
		check_bound_of((uint32_t)counter_hash(5, i));
		/* around powers of two and of halves, where the bound bends */
		check_bound_of((UINT32_C(1) << i % 32) + i / 32 - 15000);
		check_bound_of((UINT32_C(3) << i % 31) + i / 32 - 15000);
	}
}

/* The maximum of many draws: the tail decides how often unlikely tokens are drawn. */
Test(sampler, tail_of_the_noise_has_its_weight)
{
	uint64_t key = sampler_row_key(1, 2, 3);
	uint32_t above[12] = {0};

	for (uint32_t id = 0; id < 4000000; id++) {
		float noise = sampler_noise(key, id);
		for (uint32_t limit = 0; limit < 12; limit++) {
			above[limit] += noise > (float)limit;
		}
	}
	for (uint32_t limit = 0; limit < 12; limit++) {
		double expected = 4e6 * -expm1(-exp(-(double)limit));
		require(fabs(above[limit] - expected) < 4 * sqrt(expected),
			"%u above %u, expected %.1f", above[limit], limit, expected);
	}
}

Test(sampler, zero_temperature_is_greedy)
{
	float logits[1000];

	for (uint32_t i = 0; i < 500; i++) {
		uint64_t key = sampler_row_key(1, 2, i);
		int32_t best = 0;
		case_fill(logits, 1000, i, i % 2 == 0 ? CASE_UNIFORM : CASE_INTEGERS);
		for (int32_t id = 1; id < 1000; id++) {
			best = logits[id] > logits[best] ? id : best;
		}
		cr_assert_eq(sample_one(logits, 1000, key, 0), best);
		/* Integers tie often, and any noise would break the ties. */
		if (i % 2 == 0) {
			cr_assert_eq(sample_one(logits, 1000, key, 1e-20f), best);
			cr_assert_eq(sample_one(logits, 1000, key, 1e-38f), best);
		}
	}
}

Test(sampler, ties_go_to_the_lowest_id)
{
	const float equal[5] = {3, 3, 3, 3, 3};
	const float later[5] = {1, 2, 7, 7, 2};
	const float zeros[3] = {-1, -0.0f, 0};

	cr_assert_eq(sample_one(equal, 5, 1, 0), 0);
	cr_assert_eq(sample_one(later, 5, 1, 0), 2);
	cr_assert_eq(sample_one(zeros, 3, 1, 0), 1);
	cr_assert_eq(sample_one(equal, 1, 1, 0), 0);
	cr_assert_eq(sample_one(equal, 1, 1, 1), 0);
}

Test(sampler, every_logit_is_defined)
{
	const float nan_first[4] = {NAN, 1, 2, NAN};
	const float all_nan[3] = {NAN, NAN, NAN};
	const float nothing[3] = {-INFINITY, NAN, -INFINITY};
	const float masked[4] = {-INFINITY, -INFINITY, -5, -INFINITY};
	const float infinite[5] = {3e38f, NAN, INFINITY, INFINITY, 0};
	const float temperatures[] = {0, 1e-6f, 1, 100, SAMPLER_TEMPERATURE_MAX};

	for (uint32_t i = 0; i < 500; i++) {
		float temperature = temperatures[i % 5];
		uint64_t key = sampler_row_key(1, 2, i);
		int32_t token = sample_one(nan_first, 4, key, temperature);
		cr_assert(token == 1 || token == 2);
		cr_assert_eq(sample_one(all_nan, 3, key, temperature), 0);
		cr_assert_eq(sample_one(nothing, 3, key, temperature), 0);
		cr_assert_eq(sample_one(masked, 4, key, temperature), 2);
		cr_assert_eq(sample_one(infinite, 5, key, temperature), 2);
	}
}

/* The best of the parts of a vocabulary, as words that ranks exchange, in an order of its own. */
static int32_t best_of_parts(
	const float *row, uint64_t key, float temperature, uint32_t vocabulary, uint32_t part)
{
	uint32_t parts = (vocabulary + part - 1) / part;
	struct candidate best = candidate_none();

	for (uint32_t i = 0; i < parts; i++) {
		uint32_t first = (i * 3 + 1) % parts * part; /* parts is not a multiple of 3 */
		uint32_t count = vocabulary - first < part ? vocabulary - first : part;
		struct candidate found =
			sampler_candidate_cpu(row + first, key, temperature, first, count);
		uint64_t word = candidate_pack(found);
		cr_assert_neq(word, UINT64_MAX);
		best = candidate_better(candidate_unpack(word), best);
	}
	return candidate_token(best);
}

/* A row's token is the same in any batch. And the vocabulary can be divided: the best of the parts'
   candidates is the token of the whole. Parts begin at even and at odd ids. */
Test(sampler, rows_and_shards_of_a_vocabulary_are_independent)
{
	enum { ROWS = 9, VOCABULARY = 333 };
	const uint32_t parts[] = {83, 100, 333};
	float *logits = memory_take(ROWS * VOCABULARY, sizeof(*logits));
	uint64_t keys[ROWS];
	float temperatures[ROWS];
	int32_t together[ROWS];

	case_fill(logits, ROWS * VOCABULARY, 1, CASE_UNIFORM);
	for (uint32_t r = 0; r < ROWS; r++) {
		keys[r] = sampler_row_key(9, 100 - r, r);
		temperatures[r] = (float)(r % 3);
		for (uint32_t id = 0; id < VOCABULARY && r > 5; id++) {
			float tie = id % 20 == 7 ? 2 : 0;
			logits[r * VOCABULARY + id] = r == 6 ? tie : r == 7 ? -INFINITY : NAN;
		}
	}
	sampler_cpu(together, logits, keys, temperatures, ROWS, VOCABULARY);
	for (uint32_t r = 0; r < ROWS; r++) {
		const float *row = logits + r * VOCABULARY;
		cr_assert_eq(sample_one(row, VOCABULARY, keys[r], temperatures[r]), together[r]);
		for (uint32_t i = 0; i < 3; i++) {
			cr_assert_eq(
				best_of_parts(row, keys[r], temperatures[r], VOCABULARY, parts[i]),
				together[r], "row %u in parts of %u", r, parts[i]);
		}
	}
	cr_assert_eq(together[6], 7);
	free(logits);
}

/* Pinned values, so that a change of the hash or of the noise is noticed. */
Test(sampler, noise_keeps_its_values)
{
	uint64_t key = sampler_row_key(1, 2, 3);
	uint64_t sum = 0;

	for (uint32_t id = 0; id < 100000; id++) {
		float noise = sampler_noise(key, id);
		uint32_t bits;
		memcpy(&bits, &noise, sizeof(bits));
		sum = counter_mix(sum ^ bits);
	}
	cr_assert_eq(sum, UINT64_C(0x64c2e821777d2d47), "%llx", (unsigned long long)sum);
}
