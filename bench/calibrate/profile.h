#ifndef BENCH_CALIBRATE_PROFILE_H
#define BENCH_CALIBRATE_PROFILE_H

#include "bench/calibrate/fit.h"
#include "bench/calibrate/points.h"
#include "sim/profile.h"

/* The limits of a GPU and a rank's share of the model that the points' origin names: one that is
   built in, or that of `model_path`, as --model gives it, where it has the name. */
enum status calibrate_setup_find(struct calibrate_setup *setup, const char *model_path,
	const struct calibrate_points *points, const struct gpu_profile *gpu, struct error *error);

/* Writes a calibrated profile (GPU_PROFILE_CALIBRATED_SCHEMA): its origin, the errors of fitted and
   held-out steps, the prices, where they may jump, and which steps were measured. Memory sizes, and
   the host's times of an engine in a process of its own, are copied from the profile `memory`,
   since they cannot be fitted from times. */
enum status calibrate_profile_write(const char *path, const struct calibrate_fit *fit,
	const struct calibrate_points *points, const struct gpu_profile *memory,
	struct error *error);

/* Draws measured and predicted times of every point. */
enum status calibrate_plot(const struct calibrate_fit *fit, const struct calibrate_points *points,
	const char *name, const char *path, struct error *error);

#endif
