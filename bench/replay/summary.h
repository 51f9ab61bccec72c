#ifndef BENCH_REPLAY_SUMMARY_H
#define BENCH_REPLAY_SUMMARY_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/replay/replay.h"
#include "bench/replay/runners.h"
#include "engine/base/status.h"

/* What a run comes to: summary.json, and a table for a person.

   The verdict says whether the figures describe the engine under this load or the length of the
   trace:
     overloaded  when the last request arrived, over 5 % of all requests were waiting, and the queue
		 was growing: from the second third of the arrivals' time to the last it gained over
		 5 % of the requests that arrive in a third. Latencies grow with the trace; read
		 only the throughput.
     backlogged  over 5 % were waiting then without such growth, or requests waited longer than they
		 were served. The engine catches up, but queueing dominates the latencies.
     stable      neither.
   A closed loop offers no more than is finished, so it is stable unless its requests queue. */

enum verdict { VERDICT_STABLE, VERDICT_BACKLOGGED, VERDICT_OVERLOADED };

struct summary_input {
	const struct replay *replay;
	const struct replay_config *config;
	const char *trace_name; /* without its folder */
	enum runner_kind runner_kind;
	bool is_calibrated;
	const char *profile;	  /* of a calibrated profile: on what and when; "": there is none */
	uint64_t found_kv_blocks; /* 0: none */
	uint64_t slo_ttft_ns, slo_tpot_ns; /* 0: none */
};

enum verdict summary_verdict(const struct replay *replay);
const char *verdict_name(enum verdict verdict);

enum status summary_write(const struct summary_input *input, const char *path, struct error *error);

/* On stdout. */
void summary_print(const struct summary_input *input);

#endif
