#ifndef BENCH_REPLAY_REPLAY_CONFIG_H
#define BENCH_REPLAY_REPLAY_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/options/options.h"
#include "engine/base/status.h"
#include "engine/config.h"
#include "workloads/workload.h"

/* Everything that decides a run's result, one field for each row of replay_options.def. Words are
   indexes into the words that the row names; texts are borrowed. */

/* The words of options, in the order of their indexes. --policy counts as policy_at() does,
   --admission as enum admission, --sessions as enum workload_sessions, --format as
   trace_format_word(). */
enum { DTYPE_FLOAT32, DTYPE_BFLOAT16 };
enum { KERNELS_AUTO, KERNELS_GENERAL };
enum { OVERLAP_ON, OVERLAP_OFF };
enum { REPLAY_CLOCK_VIRTUAL, REPLAY_CLOCK_WALL };
enum { TOKENS_FORCED, TOKENS_SAMPLED };
enum { ARRIVE_BY_TRACE, ARRIVE_POISSON, ARRIVE_GAMMA, ARRIVE_CONSTANT };

/* Which options the user gave. The others hold defaults, which the runner or a tape may change. */
struct replay_given {
#define OPTION(name, field, kind, tape, group, ...) bool field;
#include "bench/replay/replay_options.def"
#undef OPTION
};

#define OPTION_TYPE_FLAG bool
#define OPTION_TYPE_COUNT uint64_t
#define OPTION_TYPE_MILLIONTHS uint64_t
#define OPTION_TYPE_TEXT const char *
#define OPTION_TYPE_WORD uint32_t

struct replay_config {
#define OPTION(name, field, kind, tape, group, ...) OPTION_TYPE_##kind field;
#include "bench/replay/replay_options.def"
#undef OPTION
	struct replay_given given;
};

/* The rows of replay_options.def; they fill a struct replay_config. */
extern const struct option_table replay_options;

void replay_config_default(struct replay_config *config);

/* Combinations that make no sense, each naming its options. */
enum status replay_config_check(const struct replay_config *config, struct error *error);

/* The engine's part of it. */
void replay_config_engine(const struct replay_config *config, struct engine_config *engine);

/* How the trace's rows arrive; profile: what options->profile points to when arrivals are drawn.
   Combinations that make no sense are refused, naming the options. */
enum status replay_config_workload(const struct replay_config *config,
	struct workload_options *options, struct arrival_profile *profile, struct error *error);

struct cJSON;

/* The config section of summary.json, owned by the caller. */
struct cJSON *replay_config_json(const struct replay_config *config);

/* A recorded run's configuration for a tape: fields not given are taken over, given ones must
   agree. What is read: DIR/summary.json. */
struct replay_recording {
	struct cJSON *root; /* owns the texts that config points to */
	char trace_xxh64[17];
	bool is_calibrated; /* its times were */
};
enum status replay_config_from_recording(struct replay_config *config, const char *directory,
	struct replay_recording *recording, struct error *error);
void replay_recording_close(struct replay_recording *recording);

#endif
