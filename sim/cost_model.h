#ifndef SIM_COST_MODEL_H
#define SIM_COST_MODEL_H

#include "engine/base/status.h"
#include "engine/runner.h"
#include "engine/shape/model_config.h"
#include "sim/profile.h"
#include "sim/step_price.h"

/* A runner that prices a step from its counts alone, by one of two methods: by work and rates
   (sim/price_by_rates.h), or with a calibrated profile by operations (sim/price_by_operations.h).
   A calibrated profile is for one model and one number of ranks, and others are refused; so is a
   profile without a link for more than one rank. Its runner launches steps ahead as the CUDA runner
   does, and prices the host's share of those accordingly.

   What prompts leave behind makes the next steps dearer, where the profile knows by how much
   (sim/step_heat.h); price() is that of a rested GPU.

   A step of a calibrated profile is marked where it is outside of the profile's hull
   (sim/step_hull.h).

   Both methods use + - * / on doubles only, so every machine computes the same nanoseconds. A step
   of more than 10^15 ns, before it is scaled, is refused. */

/* ranks: GPUs that share the model, a number that divides it. */
enum status cost_model_open(struct runner *out, const struct model_config *model,
	const struct gpu_profile *profile, uint32_t ranks, struct error *error);

/* The model of another replica of a fleet: it uses the prices of `first`, as long as that is open,
   and has a heat of its own. */
void cost_model_open_beside(struct runner *out, const struct runner *first);

/* Multiplies every step's nanoseconds, once rounded, by millionths / 10^6 and rounds them again. */
enum { COST_MODEL_SCALE_MAX = 1000 * 1000000 };
void cost_model_scale(struct runner *cost_model, uint64_t millionths);

/* The price of a step by rates, for tables and tests, by a scale of 1. */
void cost_model_price(
	const struct runner *cost_model, const struct step_counts *counts, struct step_price *out);

#endif
