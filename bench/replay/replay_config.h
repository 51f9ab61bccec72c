#ifndef BENCH_REPLAY_REPLAY_CONFIG_H
#define BENCH_REPLAY_REPLAY_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/options/options.h"
#include "engine/base/status.h"
#include "engine/batch.h"
#include "engine/config.h"
#include "engine/shape/model_config.h"
#include "workloads/workload.h"

/* Everything that determines a run's result, one field for each row of replay_options.def. An
   option with a list of words is stored as an index into it; texts are borrowed. */

/* The words of options, in the order of their indexes. --policy counts as policy_at() does,
   --admission as enum admission, --enable-prefix-caching as enum prefix_caching,
   --scheduling-policy as enum queue_order, --allocation, --free-order and --eviction as the enums
   of that name, --sessions as enum workload_sessions, --format as trace_format_word(). */
enum { DTYPE_FLOAT32, DTYPE_BFLOAT16 };
enum { TP_TRANSPORT_AUTO, TP_TRANSPORT_PEER, TP_TRANSPORT_NCCL };
enum { KERNELS_AUTO, KERNELS_GENERAL };
enum { SHARED_PREFIX_ATTENTION_AUTO, SHARED_PREFIX_ATTENTION_ON, SHARED_PREFIX_ATTENTION_OFF };
enum { OVERLAP_ON, OVERLAP_OFF };
enum { ASYNC_SCHEDULING_OFF, ASYNC_SCHEDULING_ON };
enum { CHUNKED_PREFILL_ON, CHUNKED_PREFILL_OFF };
enum { ENGINE_PROCESS_OWN, ENGINE_PROCESS_SAME };
enum { REPLAY_CLOCK_VIRTUAL, REPLAY_CLOCK_WALL };
enum { TOKENS_FORCED, TOKENS_SAMPLED };
#define NO_ROUTER_QUEUE_LIMIT UINT64_MAX
enum { ARRIVE_BY_TRACE, ARRIVE_POISSON, ARRIVE_GAMMA, ARRIVE_CONSTANT, ARRIVE_AT_ONCE };

/* Which options the user gave. The others have defaults, which the runner or a tape may replace. */
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

/* Whether the option of this name, a number of that table, can have no more than `value`. */
bool replay_option_is_full(const char *name, uint64_t value);

void replay_config_default(struct replay_config *config);

/* As --policy spells it. */
const char *replay_config_policy(const struct replay_config *config);

/* Sets what the policy has defaults of its own for (engine/policy.h) and the user did not give. A
   tape's configuration has all values already. */
void replay_config_take_policy(struct replay_config *config);

/* --max-concurrency with all requests at once is a closed loop. */
void replay_config_close_loop(struct replay_config *config);

/* Holds arrivals back by --max-concurrency: requests are admitted first come, first served, so a
   limit of seats keeps them waiting in the order and for the time that a client would. */
void replay_config_hold_back(const struct replay_config *config, struct engine_config *engine);

/* Refuses contradictory options with their names. */
enum status replay_config_check(const struct replay_config *config, struct error *error);

/* Refuses tp_transport without ranks, and of a runner without GPUs; part of
   replay_config_check(). */
enum status replay_config_transport_check(
	const struct replay_config *config, const char *runner, struct error *error);

/* Refuses numbers of ranks but 1, 2, 4 and 8. */
enum status replay_config_rank_count_check(uint64_t ranks, struct error *error);

/* Refuses a tensor_parallel_size by which the model cannot be divided. */
enum status replay_config_ranks_check(
	const struct replay_config *config, const struct model_config *model, struct error *error);

/* Takes away which replica gets a request, for a run of one: router, router_option and router_view
   are then as in a run that was given none. */
void replay_config_drop_router(struct replay_config *config);

/* Fills in the limits that were not given and depend on the model or on other options. */
void replay_config_complete(struct replay_config *config, const struct model_config *model);

/* The engine's part of it. */
void replay_config_engine(const struct replay_config *config, struct engine_config *engine);

/* How the trace's rows arrive. profile: storage that options->profile points to when arrivals are
   drawn. Contradictory options are refused with their names. */
enum status replay_config_workload(const struct replay_config *config,
	struct workload_options *options, struct arrival_profile *profile, struct error *error);

struct cJSON;

/* Makes the config section of summary.json, to be freed by the caller. */
struct cJSON *replay_config_json(const struct replay_config *config);

/* The value of an option as on a command line, decimals without trailing zeros and a flag as on or
   off; "" for what is not set. It lasts as long as config and buffer (REPLAY_VALUE_BYTES). */
enum { REPLAY_VALUE_BYTES = 64 };
const char *replay_config_value(
	const struct replay_config *config, const struct option *row, char *buffer);

/* Appends the options that were given, as a shell reads them: " --gpu h200 --kv-blocks 800". */
struct text;
void replay_config_words(const struct replay_config *config, struct text *text);

/* A recorded run's configuration, for a tape, read from DIR/summary.json. Options that the user did
   not give are set from it; given ones must agree with it. */
struct replay_recording {
	struct cJSON *root;	/* owns the texts that config points to */
	const char *trace_name; /* the text is the root's */
	char trace_xxh64[17];
	bool is_calibrated; /* its times were calibrated */
	bool is_wall_clock; /* steps started later than they could */
	struct prefill_spread spread;
	uint32_t readers; /* of a shared block; 0: not known */
};
enum status replay_config_from_recording(struct replay_config *config, const char *directory,
	struct replay_recording *recording, struct error *error);
void replay_recording_close(struct replay_recording *recording);

#endif
