#include "bench/record/slo.h"

#include "engine/base/check.h"
#include "engine/base/number.h"
#include "engine/base/text.h"

#include <math.h>
#include <string.h>

enum { FULL_LEAST = 8 };

void slo_add_words(const struct slo *slo, struct text *text)
{
	const uint64_t limits[] = {slo->ttft_ns, slo->tpot_ns, slo->e2e_ns};
	static const char *const names[] = {"ttft", "tpot", "e2e"};

	for (uint32_t i = 0; i < 3; i++) {
		char number[NUMBER_TEXT_BYTES];
		short_decimal_text(number, limits[i], 6);
		if (limits[i] > 0) {
			text_format(text, " --slo-%s-ms %s", names[i], number);
		}
	}
}

/* The two-sided 95 % quantile of the normal distribution. */
#define NORMAL_95 1.959963984540054

/* Puts two batches into one. */
static void double_size(struct slo_batches *batches)
{
	for (uint32_t i = 0; i < SLO_BATCHES / 2; i++) {
		batches->submitted[i] = batches->submitted[2 * i] + batches->submitted[2 * i + 1];
		batches->attained[i] = batches->attained[2 * i] + batches->attained[2 * i + 1];
	}
	memset(batches->submitted + SLO_BATCHES / 2, 0, sizeof(batches->submitted) / 2);
	memset(batches->attained + SLO_BATCHES / 2, 0, sizeof(batches->attained) / 2);
	batches->size *= 2;
}

static uint32_t batch_of(struct slo_batches *batches, uint64_t index)
{
	batches->size += batches->size == 0;
	while (index / batches->size >= SLO_BATCHES) {
		double_size(batches);
	}
	return (uint32_t)(index / batches->size);
}

void slo_batches_submit(struct slo_batches *batches, uint64_t index)
{
	uint32_t batch = batch_of(batches, index);

	batches->submitted[batch]++;
}

void slo_batches_attain(struct slo_batches *batches, uint64_t index)
{
	uint32_t batch = batch_of(batches, index);

	batches->attained[batch]++;
}

void slo_batches_forget(struct slo_batches *batches, uint64_t index)
{
	uint32_t batch = batch_of(batches, index);

	check(batches->submitted[batch] > 0);
	batches->submitted[batch]--;
}

/* Of how many independent requests the share would vary as much as it does between batches. */
static double independent_requests(const struct slo_batches *batches, double share, double count)
{
	double squares = 0, full = 0;

	for (uint32_t i = 0; i < SLO_BATCHES; i++) {
		if (batches->size > 0 && batches->submitted[i] == batches->size) {
			double mean = (double)batches->attained[i] / (double)batches->size;
			squares += (mean - share) * (mean - share);
			full++;
		}
	}
	if (full < FULL_LEAST || squares <= 0) {
		return count;
	}
	double variance = squares / (full - 1) / full; /* of the mean of the batches */
	double independent = share * (1 - share) / variance;
	return independent < 1 ? 1 : independent > count ? count : independent;
}

struct slo_interval slo_batches_interval(const struct slo_batches *batches)
{
	double count = 0, attained = 0;

	for (uint32_t i = 0; i < SLO_BATCHES; i++) {
		count += (double)batches->submitted[i];
		attained += (double)batches->attained[i];
	}
	if (count <= 0) {
		return (struct slo_interval){0, 1};
	}
	double share = attained / count;
	double n = independent_requests(batches, share, count);
	double z2 = NORMAL_95 * NORMAL_95;
	double middle = (share + z2 / (2 * n)) / (1 + z2 / n);
	double half = NORMAL_95 / (1 + z2 / n) * sqrt(share * (1 - share) / n + z2 / (4 * n * n));
	double low = middle - half, high = middle + half;
	return (struct slo_interval){low < 0 ? 0 : low, high > 1 ? 1 : high};
}
