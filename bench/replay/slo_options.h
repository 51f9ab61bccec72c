#ifndef BENCH_REPLAY_SLO_OPTIONS_H
#define BENCH_REPLAY_SLO_OPTIONS_H

#include "bench/options/options.h"
#include "bench/record/slo.h"

/* The options that set a struct slo at an offset of a command's struct. */

enum { SLO_UNITS_A_MS = 1000 * 1000 };

#define SLO_OPTION(option_name, place, text)                                                       \
	{                                                                                          \
		.name = (option_name), .kind = OPTION_MILLIONTHS, .offset = (place),               \
		.argument = "MS", .unit = "ms", .minimum = 1,                                      \
		.maximum = UINT64_C(1000000000) * SLO_UNITS_A_MS, .help = (text)                   \
	}

#define SLO_OPTIONS(place)                                                                         \
	SLO_OPTION("slo-ttft-ms", (place) + offsetof(struct slo, ttft_ns),                         \
		"time to the first token, from arrival"),                                          \
		SLO_OPTION("slo-tpot-ms", (place) + offsetof(struct slo, tpot_ns),                 \
			"time per output token after the first"),                                  \
		SLO_OPTION("slo-e2e-ms", (place) + offsetof(struct slo, e2e_ns),                   \
			"time to the last token, from arrival")

#endif
