#ifndef BENCH_GATE_REQUEST_LATENCIES_H
#define BENCH_GATE_REQUEST_LATENCIES_H

#include <stdint.h>

#include "engine/base/json.h"
#include "engine/base/status.h"
#include "reports/results/results.h"

/* The latencies of each measured request of a run, in the order of the trace, so that blocks of
   neighbours can be drawn (bench/gate/bootstrap.h). Times between tokens are several a request and
   are not kept. */

#define NO_LATENCY UINT64_MAX

enum {
	/* a longer run's figures are judged as wholes */
	REQUEST_LATENCIES_MAX = 65536,
	/* a baseline of more requests would not be small: about 30 bytes each and run */
	REQUEST_LATENCIES_KEPT_MAX = 512
};

struct request_latencies {
	uint32_t count; /* 0: not known */
	/* (LATENCY_COUNT)(count) owned; NO_LATENCY: the request has none; [LATENCY_ITL] is NULL */
	uint64_t *ns[LATENCY_COUNT];
};

/* Reads a requests.tsv. The measured requests are those with an id in [first, first + count). Both
   may be anything; more than REQUEST_LATENCIES_MAX are not known. To be closed after a failure
   too. */
enum status request_latencies_read(struct request_latencies *out, const char *path, uint64_t first,
	uint64_t count, struct error *error);
void request_latencies_close(struct request_latencies *latencies);

/* To and from a baseline: for each latency a list of nanoseconds, or null. */
cJSON *request_latencies_to_json(const struct request_latencies *latencies);
enum status request_latencies_from_json(
	struct request_latencies *out, const struct json_object *object, struct error *error);

#endif
