#ifndef SIM_PROFILE_H
#define SIM_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/status.h"

/* A GPU as the cost model sees it: what it holds, how fast it is at each kind of work, and what
   every launch, layer and step costs besides. Profiles are JSON files, sim/profiles/NAME.json,
   built into the program; each number carries its unit and the source it was taken from, and
   sim/profiles/README.md shows how the model's prices compare with measurements. */

enum { GPU_PROFILE_NAME_BYTES = 64, GPU_PROFILE_TEXT_BYTES = 160 };

/* The numbers: X(field, unit in the file, smallest, largest). Rates are per nanosecond, so that
   bytes / rate and FLOPs / rate are nanoseconds: 1 GB/s is 1 byte/ns, 1 TFLOP/s is 1,000 FLOP/ns.
 */
#define GPU_PROFILE_NUMBER_LIST(X)                                                                 \
	X(memory_bytes, "B", 1e6, 1e15)		  /* as the driver reports it in total */          \
	X(context_bytes, "B", 0, 1e12)		  /* held by driver, context and libraries */      \
	X(memory_rate, "GB/s", 1, 1e6)		  /* streaming reads of elementwise kernels */     \
	X(product_memory_rate, "GB/s", 1, 1e6)	  /* weights and activations of a product */       \
	X(product_flop_rate, "TFLOP/s", 0.1, 1e6) /* a large matrix product, bf16 */               \
	X(product_floor, "ns", 0, 1e9)		  /* a product that does nothing, in a graph */    \
	X(single_row_penalty, "ns", 0, 1e9)	  /* a layer's products on one token, besides */   \
	X(decode_attention_rate, "GB/s", 1, 1e6)  /* K and V read by decode attention */           \
	X(decode_attention_fixed, "ns", 0, 1e9)	  /* a layer, added to the time of the bytes */    \
	X(decode_attention_floor, "ns", 0, 1e9)	  /* a layer is never faster than this */          \
	X(prefill_attention_rate, "TFLOP/s", 0.1, 1e6) /* of long prompts */                       \
	X(prefill_attention_floor, "ns", 0, 1e9)       /* a layer, added */                        \
	X(elementwise_floor, "ns", 0, 1e9) /* a layer's norms, rotations, activations */           \
	X(sampling_fixed, "ns", 0, 1e9)	   /* a step that samples */                               \
	X(step_fixed, "ns", 0, 1e9)	   /* on the GPU, every step */                            \
	X(host_step, "ns", 0, 1e9)	   /* on the host while the GPU idles, every step */       \
	X(host_row, "ns", 0, 1e9)	   /* and for every row of the batch */

struct gpu_profile {
	char name[GPU_PROFILE_NAME_BYTES];	  /* "h200", or the file's name without .json */
	char description[GPU_PROFILE_TEXT_BYTES]; /* one line for a person */
	bool is_calibrated; /* carries residuals of a calibration run; false: say `uncalibrated` */
#define GPU_PROFILE_FIELD(field, unit, minimum, maximum) double field;
	GPU_PROFILE_NUMBER_LIST(GPU_PROFILE_FIELD)
#undef GPU_PROFILE_FIELD
};

/* A built-in name or a path that ends in ".json". An unknown name is refused with the list of
   names; a malformed file with file, field, what was found and what was expected. */
enum status gpu_profile_find(
	const char *name_or_path, struct gpu_profile *out, struct error *error);

#endif
