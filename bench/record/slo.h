#ifndef BENCH_RECORD_SLO_H
#define BENCH_RECORD_SLO_H

#include <stdbool.h>
#include <stdint.h>

struct text;

/* The service level objective of a request: limits on its latencies. A request that did not finish
   misses it. */

struct slo {
	uint64_t ttft_ns, tpot_ns, e2e_ns; /* 0: no limit */
};

/* Bits: which limits a finished request missed. */
enum { SLO_MISSED_TTFT = 1, SLO_MISSED_TPOT = 2, SLO_MISSED_E2E = 4 };

static inline bool slo_is_given(const struct slo *slo)
{
	return slo->ttft_ns > 0 || slo->tpot_ns > 0 || slo->e2e_ns > 0;
}

/* tpot_ns: 0 of a request with one token. */
static inline uint32_t slo_missed(
	const struct slo *slo, uint64_t ttft_ns, uint64_t tpot_ns, uint64_t e2e_ns)
{
	return (slo->ttft_ns > 0 && ttft_ns > slo->ttft_ns ? SLO_MISSED_TTFT : 0u) |
	       (slo->tpot_ns > 0 && tpot_ns > slo->tpot_ns ? SLO_MISSED_TPOT : 0u) |
	       (slo->e2e_ns > 0 && e2e_ns > slo->e2e_ns ? SLO_MISSED_E2E : 0u);
}

/* Appends the limits as options: " --slo-ttft-ms 2000". */
void slo_add_words(const struct slo *slo, struct text *text);

/* ---- how sure a share is ---- */

/* Measured requests in batches of equal size, in order of arrival. Requests near each other share
   a queue, so their fates are not independent, while batches that are long enough nearly are. The
   size doubles whenever the batches are used up, so at the end half of them or more are full. */
enum { SLO_BATCHES = 32 };

struct slo_batches {
	uint64_t size; /* 0: no request yet */
	uint64_t submitted[SLO_BATCHES], attained[SLO_BATCHES];
};

/* index: of the request among the measured ones, from 0. */
void slo_batches_submit(struct slo_batches *batches, uint64_t index);
void slo_batches_attain(struct slo_batches *batches, uint64_t index);

/* Takes a request back that was submitted. */
void slo_batches_forget(struct slo_batches *batches, uint64_t index);

struct slo_interval {
	double low, high;
};

/* The 95 % interval of the share of requests that attain the SLO: Wilson's score interval
   (J. Am. Stat. Assoc. 22, 1927, 209) for as many independent requests as have the variance of the
   batches' means; for all requests where fewer than eight batches are full. Of no requests it is
   0 to 1. */
struct slo_interval slo_batches_interval(const struct slo_batches *batches);

#endif
