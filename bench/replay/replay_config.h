#ifndef BENCH_REPLAY_REPLAY_CONFIG_H
#define BENCH_REPLAY_REPLAY_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/status.h"
#include "engine/config.h"
#include "workloads/workload.h"

/* Everything that decides a replay's result, in the order in which summary.json prints it.
   X(field, kind, option, whether a tape's value binds): TEXT is const char *, NUMBER uint64_t,
   MILLIONTHS uint64_t standing for value * 10^6. */

#define REPLAY_FIELD_LIST(X)                                                                       \
	X(model, TEXT, "model", true)                                                              \
	X(runner, TEXT, "runner", false)                                                           \
	X(gpu, TEXT, "gpu", true)                                                                  \
	X(weights, TEXT, "weights", true)                                                          \
	X(dtype, TEXT, "dtype", true)                                                              \
	X(kernels, TEXT, "kernels", false)                                                         \
	X(enforce_eager, NUMBER, "enforce-eager", false)                                           \
	X(overlap, TEXT, "overlap", false)                                                         \
	X(clock, TEXT, "clock", false)                                                             \
	X(policy, TEXT, "policy", true)                                                            \
	X(admission, TEXT, "admission", true)                                                      \
	X(block_size, NUMBER, "block-size", true)                                                  \
	X(kv_blocks, NUMBER, "kv-blocks", true)                                                    \
	X(gpu_memory_utilization, MILLIONTHS, "gpu-memory-utilization", true)                      \
	X(max_num_seqs, NUMBER, "max-num-seqs", true)                                              \
	X(max_num_batched_tokens, NUMBER, "max-num-batched-tokens", true)                          \
	X(max_model_len, NUMBER, "max-model-len", true)                                            \
	X(tokens, TEXT, "tokens", true)                                                            \
	X(temperature, MILLIONTHS, "temperature", true)                                            \
	X(seed, NUMBER, "seed", true)                                                              \
	X(trace_block_size, NUMBER, "trace-block-size", true)                                      \
	X(trace_format, TEXT, "format", true)                                                      \
	X(sort, NUMBER, "sort", true)                                                              \
	X(sessions, TEXT, "sessions", true)                                                        \
	X(arrivals, TEXT, "arrivals", true)                                                        \
	X(rate, MILLIONTHS, "rate", true)                                                          \
	X(burstiness, MILLIONTHS, "burstiness", true)                                              \
	X(ramp, TEXT, "ramp", true)                                                                \
	X(duration_s, MILLIONTHS, "duration", true)                                                \
	X(speedup, MILLIONTHS, "speedup", true)                                                    \
	X(concurrency, NUMBER, "concurrency", true)                                                \
	X(max_requests, NUMBER, "max-requests", true)                                              \
	X(warmup, NUMBER, "warmup", true)

#define REPLAY_TYPE_TEXT const char *
#define REPLAY_TYPE_NUMBER uint64_t
#define REPLAY_TYPE_MILLIONTHS uint64_t

struct replay_config {
#define REPLAY_FIELD(field, kind, option, binds) REPLAY_TYPE_##kind field;
	REPLAY_FIELD_LIST(REPLAY_FIELD)
#undef REPLAY_FIELD
};

/* Which fields the user gave; the others hold defaults until something better is known. */
struct replay_given {
#define REPLAY_FIELD(field, kind, option, binds) bool field;
	REPLAY_FIELD_LIST(REPLAY_FIELD)
#undef REPLAY_FIELD
};

void replay_config_default(struct replay_config *config);

/* Values and combinations that make no sense, each naming its options. */
enum status replay_config_check(
	const struct replay_config *config, const struct replay_given *given, struct error *error);

/* The engine's part of it; policy and admission are known to exist. */
void replay_config_engine(const struct replay_config *config, struct engine_config *engine);

/* How the trace's rows arrive; profile: what options->profile points to when arrivals are drawn.
   Combinations that make no sense are refused, naming the options. */
enum status replay_config_workload(const struct replay_config *config,
	const struct replay_given *given, struct workload_options *options,
	struct arrival_profile *profile, struct error *error);

struct cJSON;

/* The config section of summary.json, owned by the caller. */
struct cJSON *replay_config_json(const struct replay_config *config);

/* A recorded run's configuration for a tape: fields not given are taken over, given ones must
   agree. What is read: DIR/summary.json. Texts are kept in `texts`, owned by the caller. */
struct replay_recording {
	struct cJSON *root; /* owns the texts that config points to */
	char trace_xxh64[17];
	bool is_calibrated; /* were its times? */
};
enum status replay_config_from_recording(struct replay_config *config,
	const struct replay_given *given, const char *directory, struct replay_recording *recording,
	struct error *error);
void replay_recording_close(struct replay_recording *recording);

#endif
