#include "bench/gate/bootstrap.h"

#include "engine/base/counter_hash.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"

#include <math.h>
#include <stdlib.h>

enum { SIDES = 2, BASE = 0, VALUE = 1 };

struct timed_request {
	uint64_t ns;
	uint32_t block;
};

/* The requests of a run, by rising latency. */
struct sorted_run {
	struct timed_request *requests; /* (count) owned */
	uint32_t count;
};

struct draws {
	uint64_t key, used;		    /* a stream of numbers */
	uint32_t block_count;		    /* 1: there is nothing to draw */
	uint32_t weights[BOOTSTRAP_BLOCKS]; /* how often a block was drawn */
	uint32_t per_mille;		    /* of the percentile; 0: the mean */
	const struct bootstrap_side *sides[SIDES];
	struct sorted_run *runs[SIDES]; /* (run_count) owned; NULL: whole runs are judged */
	double *figures[SIDES];		/* (run_count) owned: of a draw, logarithms */
};

static uint32_t draw(struct draws *draws, uint32_t bound)
{
	return counter_below((uint32_t)(counter_hash(draws->key, draws->used++) >> 32), bound);
}

/* The percentile that a statistic is; 0: the mean; 1001: neither. */
static uint32_t per_mille_of(enum latency_statistic statistic)
{
	switch (statistic) {
	case STATISTIC_MEAN:
		return 0;
	case STATISTIC_P50:
		return 500;
	case STATISTIC_P90:
		return 900;
	case STATISTIC_P95:
		return 950;
	case STATISTIC_P99:
		return 990;
	case STATISTIC_P99_9:
		return 999;
	default:
		return 1001;
	}
}

static int by_latency(const void *a, const void *b)
{
	const struct timed_request *x = a, *y = b;

	return x->ns != y->ns ? (x->ns > y->ns) - (x->ns < y->ns)
			      : (x->block > y->block) - (x->block < y->block);
}

static struct sorted_run sort_run(const struct request_latencies *latencies,
	enum latency_metric latency, uint32_t block_count)
{
	struct sorted_run out = {.requests = memory_take(latencies->count, sizeof(*out.requests))};

	for (uint32_t i = 0; i < latencies->count; i++) {
		uint64_t ns = latencies->ns[latency][i];
		if (ns != NO_LATENCY) {
			out.requests[out.count++] = (struct timed_request){
				ns, (uint32_t)((uint64_t)i * block_count / latencies->count)};
		}
	}
	qsort(out.requests, out.count, sizeof(*out.requests), by_latency);
	return out;
}

/* The figure of a run over the drawn blocks, in ns; 0: they have none. */
static double figure_of(const struct draws *draws, const struct sorted_run *run)
{
	uint64_t count = 0, seen = 0;
	double sum = 0;

	for (uint32_t i = 0; i < run->count; i++) {
		uint32_t weight = draws->weights[run->requests[i].block];
		count += weight;
		sum += weight * (double)run->requests[i].ns;
	}
	if (count == 0 || draws->per_mille == 0) {
		return count == 0 ? 0 : sum / (double)count;
	}
	uint64_t rank = (count * draws->per_mille + 999) / 1000;
	for (uint32_t i = 0;; i++) {
		seen += draws->weights[run->requests[i].block];
		if (seen >= rank) {
			return (double)run->requests[i].ns;
		}
	}
}

static void draw_blocks(struct draws *draws)
{
	for (uint32_t i = 0; i < draws->block_count; i++) {
		draws->weights[i] = 0;
	}
	for (uint32_t i = 0; i < draws->block_count; i++) {
		draws->weights[draw(draws, draws->block_count)]++;
	}
}

/* The logarithm of a draw's ratio. False: a figure has none. */
static bool draw_ratio(struct draws *draws, double *out)
{
	double means[SIDES] = {0};

	draw_blocks(draws);
	for (int side = 0; side < SIDES; side++) {
		uint32_t count = draws->sides[side]->run_count;
		for (uint32_t i = 0; i < count; i++) {
			double figure = draws->runs[side] == NULL
						? draws->sides[side]->figures[i]
						: figure_of(draws, &draws->runs[side][i]);
			if (!(figure > 0)) {
				return false;
			}
			draws->figures[side][i] = log(figure);
		}
		for (uint32_t i = 0; i < count; i++) {
			means[side] += draws->figures[side][draw(draws, count)] / count;
		}
	}
	*out = means[VALUE] - means[BASE];
	return true;
}

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* How many blocks the requests of all runs make; 1: they are not known, or too few. */
static uint32_t count_blocks(const struct bootstrap_side *base, const struct bootstrap_side *value)
{
	const struct bootstrap_side *sides[SIDES] = {base, value};
	uint32_t count = base->requests == NULL ? 0 : base->requests[0].count;

	for (int side = 0; side < SIDES; side++) {
		for (uint32_t i = 0; i < sides[side]->run_count; i++) {
			if (sides[side]->requests == NULL ||
				sides[side]->requests[i].count != count) {
				return 1;
			}
		}
	}
	uint32_t blocks = u32_min(count / 2, BOOTSTRAP_BLOCKS);
	return blocks < BOOTSTRAP_BLOCKS_MIN ? 1 : blocks;
}

/* The percentiles of all draws. */
static struct ratio interval(struct draws *draws)
{
	double *ratios = memory_take(BOOTSTRAP_DRAWS, sizeof(*ratios));
	struct ratio out = {.is_known = true};

	for (uint32_t i = 0; i < BOOTSTRAP_DRAWS && out.is_known; i++) {
		out.is_known = draw_ratio(draws, &ratios[i]);
	}
	if (out.is_known) {
		qsort(ratios, BOOTSTRAP_DRAWS, sizeof(*ratios), by_value);
		out.low = exp(ratios[BOOTSTRAP_DRAWS / 200]);
		out.ratio = exp(ratios[BOOTSTRAP_DRAWS / 2]);
		out.high = exp(ratios[BOOTSTRAP_DRAWS - 1 - BOOTSTRAP_DRAWS / 200]);
	}
	free(ratios);
	return out;
}

struct ratio bootstrap_ratio(const struct bootstrap_side *base, const struct bootstrap_side *value,
	enum latency_metric latency, enum latency_statistic statistic)
{
	uint32_t per_mille = per_mille_of(statistic);
	bool has_requests = latency != LATENCY_COUNT && latency != LATENCY_ITL && per_mille <= 1000;
	struct draws draws = {
		.key = counter_key(1, 0x626f6f74),
		.block_count = has_requests ? count_blocks(base, value) : 1,
		.per_mille = per_mille,
		.sides = {base, value},
	};

	if (base->run_count < 2 || value->run_count < 2) {
		return (struct ratio){.is_known = false};
	}
	for (int side = 0; side < SIDES; side++) {
		uint32_t count = draws.sides[side]->run_count;
		draws.figures[side] = memory_take(count, sizeof(double));
		if (draws.block_count == 1) {
			continue;
		}
		draws.runs[side] = memory_take(count, sizeof(*draws.runs[side]));
		for (uint32_t i = 0; i < count; i++) {
			draws.runs[side][i] = sort_run(
				&draws.sides[side]->requests[i], latency, draws.block_count);
		}
	}
	struct ratio out = interval(&draws);
	for (int side = 0; side < SIDES; side++) {
		for (uint32_t i = 0; draws.runs[side] != NULL && i < draws.sides[side]->run_count;
			i++) {
			free(draws.runs[side][i].requests);
		}
		free(draws.runs[side]);
		free(draws.figures[side]);
	}
	return out;
}
