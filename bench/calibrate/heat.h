#ifndef BENCH_CALIBRATE_HEAT_H
#define BENCH_CALIBRATE_HEAT_H

#include "bench/calibrate/fit.h"
#include "bench/calibrate/points.h"
#include "sim/step_heat.h"

/* How much longer steps take on a GPU that is hot from prompts (sim/step_heat.h), from equal steps
   that were measured at several heats. What a step costs need not be known for that. The times of
   the points are then those at no heat, to which prices are fitted.

   The steps of a log come without this: what its engine did between them is not known. */

/* Sets the heat of every point; they are the steps of a run in their order, none left out. */
void calibrate_heat_note(struct calibrate_points *points, const struct calibrate_setup *setup);

/* The rises, and of some decays the one, that explain best how times of equal steps differ, by
   least squares; a rise of less than four standard errors is 0. They are exact to a millionth, as
   points.tsv has them. Changes the order of the points. */
struct heat_prices calibrate_heat_fit(struct calibrate_points *points);

/* Writes the rises, of which the one of prompts is not 0, into an origin. */
void calibrate_heat_write(struct calibrate_origin *origin, const struct heat_prices *heat);

/* Takes what their heat added from the times, and writes the rises into the origin. */
void calibrate_heat_remove(struct calibrate_points *points, const struct heat_prices *heat);

/* The rises of the points' origin; all 0 where it has none. */
enum status calibrate_heat_read(
	const struct calibrate_points *points, struct heat_prices *out, struct error *error);

#endif
