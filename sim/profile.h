#ifndef SIM_PROFILE_H
#define SIM_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/status.h"
#include "engine/shape/model_config.h"
#include "engine/shape/weight_shape.h"
#include "sim/operation_prices.h"
#include "sim/step_heat.h"
#include "sim/step_hull.h"

/* A GPU as the cost model sees it: its memory, its speed at each kind of work, and the fixed costs
   of launches, layers and steps. Profiles are JSON files, sim/profiles/NAME.json, built into the
   program; each number is an object of value, unit and source, and sim/profiles/README.md shows how
   the prices compare with measurements.

   A rate in GB/s is bytes per nanosecond, one in TFLOP/s a thousand FLOPs per nanosecond.

   A profile that `quire calibrate` made is of another kind (GPU_PROFILE_CALIBRATED_SCHEMA): for one
   model and one number of ranks alone, it prices a step by operations (sim/operation_prices.h). The
   prices were fitted to steps measured on the GPU. It says which steps these were and how far off
   its prices are, and its prices obey the laws of sim/profile_laws.h. */

enum { GPU_PROFILE_NAME_BYTES = 64, GPU_PROFILE_TEXT_BYTES = 160 };

/* Of calibrated profiles. The same numbers mean other prices in another schema of this form. */
#define GPU_PROFILE_CALIBRATED_FORM "quire-calibrated-"
#define GPU_PROFILE_CALIBRATED_SCHEMA GPU_PROFILE_CALIBRATED_FORM "4"

/* The most that cards of a kind may differ by, as a share. */
#define GPU_PROFILE_SPREAD_MOST 0.5

/* Ends the name of a GPU's profile by rates: h200-datasheet. */
#define GPU_PROFILE_DATASHEET "-datasheet"

/* clang-format off */
/* X(field, unit in the file, smallest, largest) */
#define GPU_PROFILE_NUMBER_LIST(X) \
	/* total memory as the driver reports it, and what context and libraries hold of it */ \
	X(memory_bytes, "B", 1e6, 1e15) \
	X(context_bytes, "B", 0, 1e12) \
	/* streaming by elementwise kernels, reads and writes */ \
	X(memory_rate, "GB/s", 1, 1e6) \
	/* share of the FLOP rate of a linear layer measured by itself that remains when those of \
	   a model follow each other without a pause */ \
	X(product_sustained, "share", 0.01, 1) \
	/* decode attention, a layer: fixed + row a row and KV head + K and V at a rate */ \
	X(decode_attention_fixed, "ns", 0, 1e9) \
	X(decode_attention_row, "ns", 0, 1e9) \
	X(decode_attention_rate, "GB/s", 1, 1e6) \
	/* prefill attention, a layer: fixed + token a token and query head + FLOPs at a rate */ \
	X(prefill_attention_fixed, "ns", 0, 1e9) \
	X(prefill_attention_token, "ns", 0, 1e9) \
	X(prefill_attention_rate, "TFLOP/s", 0.1, 1e6) \
	/* norms, rotations, activations and KV stores of a layer, besides their bytes */ \
	X(elementwise_fixed, "ns", 0, 1e9) \
	/* sampling, a step: fixed + logits at a rate (1e9 a second) */ \
	X(sampling_fixed, "ns", 0, 1e9) \
	X(sampling_rate, "Glogit/s", 0.01, 1e6) \
	/* embedding, last norm and other work on the GPU that every step has once */ \
	X(step_fixed, "ns", 0, 1e9) \
	/* time in which the GPU waits for the host, a step and a row of it */ \
	X(host_fixed, "ns", 0, 1e9) \
	X(host_row, "ns", 0, 1e9)
/* clang-format on */

/* The link between the GPUs of one host, for exchanges of tensor parallelism: section "link" of a
   profile, which may lack it. */
#define GPU_PROFILE_LINK_LIST(X)                                                                   \
	/* of two ranks, besides the bytes */                                                      \
	X(link_fixed, "ns", 0, 1e9)                                                                \
	/* more for each further rank */                                                           \
	X(link_rank, "ns", 0, 1e9)                                                                 \
	/* in one direction of one GPU */                                                          \
	X(link_rate, "GB/s", 0.1, 1e6)                                                             \
	/* time in which the GPU waits for the host, a step and rank beyond the first */           \
	X(host_rank, "ns", 0, 1e9)

/* A linear layer: floor + max(bytes / memory_rate, FLOPs / flop_rate), bytes being those of the
   weights and of the activations in and out. */
#define GPU_PROFILE_LINEAR_LIST(X)                                                                 \
	X(floor, "ns", 0, 1e9)                                                                     \
	X(memory_rate, "GB/s", 1, 1e6)                                                             \
	X(flop_rate, "TFLOP/s", 0.1, 1e6)

struct gpu_linear {
#define GPU_LINEAR_FIELD(field, unit, minimum, maximum) double field;
	GPU_PROFILE_LINEAR_LIST(GPU_LINEAR_FIELD)
#undef GPU_LINEAR_FIELD
};

/* |predicted / measured - 1| of steps that the prices were not fitted to, section
   residuals.held_out of a calibrated profile. */
#define GPU_PROFILE_ERROR_LIST(X) X(mean) X(p50) X(p90) X(p99) X(max)

struct profile_errors {
	uint32_t points;
#define GPU_PROFILE_ERROR_FIELD(field) double field;
	GPU_PROFILE_ERROR_LIST(GPU_PROFILE_ERROR_FIELD)
#undef GPU_PROFILE_ERROR_FIELD
	double bias; /* mean of predicted / measured - 1 */
};

struct gpu_profile {
	char name[GPU_PROFILE_NAME_BYTES]; /* the file's name without .json */
	char description[GPU_PROFILE_TEXT_BYTES];
	uint64_t xxh64;	    /* of its content, whatever the blanks between; 0: it was not read */
	bool is_calibrated; /* made by a calibration run; false: results are marked `uncalibrated`
			       */

	/* calibrated */
	char model[GPU_PROFILE_NAME_BYTES]; /* the model it was measured with, */
	uint32_t ranks;			    /* and the number of GPUs that shared it */
	bool has_limits;		    /* section "limits", which calibration needs */
	struct operation_prices prices;	    /* of a profile of rates at most the limits */
	uint32_t edges; /* bits of enum price_edge: where the prices of neighbours may jump */
	struct heat_prices heat;
	struct step_hull hull;
	struct profile_errors held_out;
	double card_spread;  /* how far a card is from the mean of those that were measured, at
			       most; 0: not known */
	double engine_bytes; /* what the engine holds beside weights and KV blocks, its context
				included, as it was measured; 0: not known, and estimated */
	/* The least that a step takes on the host of an engine in a process of its own, as a
	   server's is, ns: a step and each of its rows. 0: as the prices say. */
	double process_step, process_row;

	/* by work and rates; a calibrated one has memory_bytes and context_bytes only */
	struct gpu_linear linear[MODEL_LINEAR_COUNT];
#define GPU_PROFILE_FIELD(field, unit, minimum, maximum) double field;
	GPU_PROFILE_NUMBER_LIST(GPU_PROFILE_FIELD)
	bool has_link;
	GPU_PROFILE_LINK_LIST(GPU_PROFILE_FIELD)
#undef GPU_PROFILE_FIELD
};

/* Whether the name is the path of a file, which another machine may not have. */
bool gpu_profile_is_file(const char *name_or_path);

struct json_object;

/* Reads a calibrated profile whose limits are known; part of gpu_profile_find(). */
enum status gpu_profile_read_calibrated(
	const struct json_object *root, struct gpu_profile *out, struct error *error);

/* The name of a built-in profile or a path that ends in ".json"; sim/profile_choice.h finds the
   profile of a GPU. An unknown name is refused with the list of
   names; a malformed file with file, field, what was found and what was expected. */
enum status gpu_profile_find(
	const char *name_or_path, struct gpu_profile *out, struct error *error);

/* The built-in profiles by name; NULL beyond the last. The text lives as long as the program, and
   ends in ".json". */
uint32_t gpu_profile_count(void);
const char *gpu_profile_file(uint32_t index);

#endif
