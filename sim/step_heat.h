#ifndef SIM_STEP_HEAT_H
#define SIM_STEP_HEAT_H

#include <stdint.h>

#include "engine/batch.h"
#include "sim/operation_prices.h"

/* What prompts do to the clock. A GPU at its power limit lowers it while it computes products at
   its rate, and raises it again some tens of milliseconds later. So a step that follows long
   prompts takes longer than the same step after a rest, which no count of the step shows, and a
   long step with prompts computes most of itself at the lower clock.

   The heat of a GPU is the share of its recent time that the FLOPs of steps with prompts take at
   the limit, 0 after a rest and at most 1. In a step whose share is s it goes from h to

       s + (h - s) * q^2        q = decay / (decay + u)

   in u ns. A step that takes t ns at no heat takes

       t + rise * t * (s^2 + 2 * s * (h - s) * q + (h - s)^2 * q * (1 + q + q^2) / 3)

   where q is that of u = t: the rise times the mean of the heat's square over the step, with a rise
   for steps with prompts and one, no larger, for those without, whose s is 0. The square, since a
   GPU below its power limit keeps its clock: little heat costs next to nothing. The mean, since a
   step behind a rest has its first tens of milliseconds at the full clock (sim/profiles/TUNING.md
   has the measurements). This path and not an exponential one, since its mean needs no logarithm,
   whose last bits differ between machines.

   The whole time grows with t, at the same s * t too, as no rise is above 1, and with s * t; both
   are no less of a larger step. So at any heat a step costs no less than a smaller one, no less
   than its roofline, and a mixed step no less than either of its parts.

   Time in which the engine has no step does not cool the GPU here. */

/* Of a profile; all 0: its GPU's steps were not told apart by heat. */
struct heat_prices {
	double prompt, decode; /* the rises */
	double decay_ns;
};

enum { HEAT_RISE_MOST = 1 };
/* The formula, as profiles and points name it. */
#define HEAT_FORM "mean-square"
#define HEAT_DECAY_NS_MOST UINT64_C(1000000000000)

/* The time, in ns, that the FLOPs of a step with prompts take at the limit; 0 of other steps. */
double heat_flops_ns(const struct operation_floors *floors, const struct step_counts *counts);

/* The mean of the heat's square over a step of ns nanoseconds that begins at a heat. */
double heat_mean_square(double decay_ns, double heat, double flops_ns, double ns);

/* What a step of ns nanoseconds takes more that begins at a heat. flops_ns: its heat_flops_ns(). */
double heat_extra_ns(const struct heat_prices *prices, double heat, double flops_ns,
	const struct step_counts *counts, double ns);

/* The heat after a step that took elapsed_ns. */
double heat_after(double decay_ns, double heat, double flops_ns, double elapsed_ns);

#endif
