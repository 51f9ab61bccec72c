#ifndef BENCH_CALIBRATE_FIT_H
#define BENCH_CALIBRATE_FIT_H

#include "bench/calibrate/points.h"
#include "sim/step_curves.h"

/* Fits the curves of a calibrated profile to measured points. A third of the points are held out,
   chosen by a seeded hash of their counts, so that equal steps are treated alike in every fit. The
   steps with the largest value of a count are always fitted.

   The curves are piecewise linear. Their heights are found by least squares in relative error, with
   the constraint that most curves do not fall (non-negative least squares,
   bench/calibrate/least_squares.h). GPU time and host time are two systems; the errors of both are
   relative to the whole step. */

struct calibrate_errors {
	uint32_t points;
	double mean, p50, p90, p99, max; /* |predicted / measured - 1| */
	double bias;			 /* mean of predicted / measured - 1 */
};

struct calibrate_fit {
	struct step_curve_table curves[STEP_CURVE_COUNT];
	struct calibrate_errors fitted, held_out;
};

/* Also writes the fit's predictions into points. STATUS_INPUT if there are too few points. */
enum status calibrate_fit(struct calibrate_fit *out, struct calibrate_points *points, uint64_t seed,
	struct error *error);

#endif
