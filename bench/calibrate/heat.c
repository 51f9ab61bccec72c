#include "bench/calibrate/heat.h"

#include "engine/base/integer.h"
#include "engine/base/number.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SAMPLES_MIN = 3, PASSES = 3, HALVINGS = 40, MILLION = 1000000 };

/* Steps that differ by more from their median were disturbed by something else. Heat makes prompts
   of qwen3-14b up to 26 % longer. */
static const double difference_most = 0.3;

/* On calibrations of an H200 70 to 140 ms explained the most of how equal steps differ. */
static const double decays_ns[CALIBRATE_HEAT_DECAYS] = {
	50e6, 70e6, 100e6, 140e6, 200e6, 280e6, 400e6};

static const double rise_most = 0.5, errors_least = 4;

void calibrate_heat_note(struct calibrate_points *points, const struct calibrate_setup *setup)
{
	struct operation_floors floors;
	double heat[CALIBRATE_HEAT_DECAYS] = {0};

	operation_floors_of(&floors, &setup->limits, &setup->shape);
	for (size_t i = 0; i < points->count; i++) {
		struct calibrate_point *point = &points->points[i];
		double flops_ns = heat_flops_ns(&floors, &point->counts);
		memcpy(point->heat, heat, sizeof(heat));
		point->flops_ns = flops_ns;
		for (uint32_t d = 0; d < CALIBRATE_HEAT_DECAYS; d++) {
			heat[d] = heat_after(
				decays_ns[d], heat[d], flops_ns, (double)point->elapsed_ns);
		}
	}
}

/* Rises of one of the decays. */
struct candidate {
	uint32_t decay;
	struct heat_prices heat;
	double explained; /* squares */
};

/* The time at no heat, to which heat adds up to the measured one. The sum grows with it, so it is
   found by halves; heat adds no more than the rise. */
static double rested_ns(const struct calibrate_point *point, const struct candidate *candidate)
{
	const struct heat_prices *heat = &candidate->heat;
	double rise = point->counts.prefill_rows > 0 ? heat->prompt : heat->decode;
	double elapsed = (double)point->elapsed_ns, least = elapsed / (1 + rise), most = elapsed;

	for (int i = 0; i < HALVINGS && rise > 0; i++) {
		double ns = (least + most) / 2;
		double more = heat_extra_ns(
			heat, point->heat[candidate->decay], point->flops_ns, &point->counts, ns);
		if (ns + more < elapsed) {
			least = ns;
		} else {
			most = ns;
		}
	}
	return most;
}

/* Sums over steps with prompts, or over the others, each less the mean of its equals. x: what a
   rise of 1 adds to a step, y: what it takes more than the median, both as shares of that. */
struct rise_sums {
	double xx, xy, yy;
	size_t freedom;
};

/* Whether a step is not disturbed; then what a rise of 1 adds to it, and what it takes more than
   the median of its equals. */
static bool differs_by(const struct calibrate_point *point, const struct candidate *candidate,
	double median, double *x, double *y)
{
	*x = heat_mean_square(
		candidate->heat.decay_ns, point->heat[candidate->decay], point->flops_ns, median);
	*y = rested_ns(point, candidate) / median - 1;
	return fabs(*y) <= difference_most;
}

/* Equal steps, in order of their times. */
static void add_group(struct rise_sums *sums, const struct calibrate_point *points, size_t count,
	const struct candidate *candidate)
{
	double median = rested_ns(&points[(count - 1) / 2], candidate);
	double x, y, x_sum = 0, y_sum = 0;
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		if (differs_by(&points[i], candidate, median, &x, &y)) {
			x_sum += x;
			y_sum += y;
			kept++;
		}
	}
	if (kept < SAMPLES_MIN) {
		return;
	}
	for (size_t i = 0; i < count; i++) {
		if (differs_by(&points[i], candidate, median, &x, &y)) {
			x -= x_sum / (double)kept;
			y -= y_sum / (double)kept;
			sums->xx += x * x;
			sums->xy += x * y;
			sums->yy += y * y;
		}
	}
	sums->freedom += kept - 1;
}

/* What is lacking in a rise, 0 where it cannot be told from noise. */
static double more_rise(const struct rise_sums *sums, double rise)
{
	double slope = sums->xx > 0 ? sums->xy / sums->xx : 0;
	double left = sums->yy - slope * sums->xy; /* squares that it does not explain */
	double error = sums->freedom > 1 ? left / (double)(sums->freedom - 1) / sums->xx : 0;
	double whole = rise + slope;

	if (sums->xx == 0 || whole <= 0 || whole * whole < errors_least * errors_least * error) {
		return -rise;
	}
	return fmin(whole, rise_most) - rise;
}

static double to_millionth(double rise)
{
	return floor(rise * MILLION + 0.5) / MILLION;
}

static void sum_up(struct rise_sums *prompt, struct rise_sums *decode,
	const struct calibrate_points *points, const struct candidate *candidate)
{
	*prompt = (struct rise_sums){0};
	*decode = (struct rise_sums){0};
	for (size_t i = 0, end; i < points->count; i = end) {
		const struct calibrate_point *first = &points->points[i];
		end = calibrate_points_group(points, i);
		add_group(first->counts.prefill_rows > 0 ? prompt : decode, first, end - i,
			candidate);
	}
}

static struct candidate try_decay(const struct calibrate_points *points, uint32_t decay)
{
	struct candidate candidate = {.decay = decay, .heat.decay_ns = decays_ns[decay]};
	struct heat_prices *heat = &candidate.heat;
	struct rise_sums prompt, decode;

	sum_up(&prompt, &decode, points, &candidate);
	double before = prompt.yy + decode.yy;
	for (int pass = 0; pass < PASSES; pass++) {
		heat->prompt += more_rise(&prompt, heat->prompt);
		heat->decode += more_rise(&decode, heat->decode);
		sum_up(&prompt, &decode, points, &candidate);
	}
	candidate.explained = before - prompt.yy - decode.yy;
	heat->prompt = to_millionth(heat->prompt);
	heat->decode = fmin(to_millionth(heat->decode), heat->prompt);
	return candidate;
}

struct heat_prices calibrate_heat_fit(struct calibrate_points *points)
{
	struct candidate best = {.explained = 0};

	calibrate_points_sort(points);
	for (uint32_t i = 0; i < CALIBRATE_HEAT_DECAYS; i++) {
		struct candidate candidate = try_decay(points, i);
		if (candidate.heat.prompt > 0 && candidate.explained > best.explained) {
			best = candidate;
		}
	}
	return best.heat;
}

void calibrate_heat_write(struct calibrate_origin *origin, const struct heat_prices *heat)
{
	snprintf(origin->heat_form, sizeof(origin->heat_form), "%s", HEAT_FORM);
	snprintf(origin->heat_prompt, sizeof(origin->heat_prompt), "%.6f", heat->prompt);
	snprintf(origin->heat_decode, sizeof(origin->heat_decode), "%.6f", heat->decode);
	snprintf(origin->heat_decay_ns, sizeof(origin->heat_decay_ns), "%.0f", heat->decay_ns);
}

void calibrate_heat_remove(struct calibrate_points *points, const struct heat_prices *heat)
{
	struct candidate candidate = {.heat = *heat};

	if (heat->prompt == 0) {
		return;
	}
	while (decays_ns[candidate.decay] < heat->decay_ns) {
		candidate.decay++;
	}
	for (size_t i = 0; i < points->count; i++) {
		struct calibrate_point *point = &points->points[i];
		uint64_t rested = u64_max(1, (uint64_t)(rested_ns(point, &candidate) + 0.5));
		uint64_t more = point->elapsed_ns - u64_min(rested, point->elapsed_ns);
		more = u64_min(more, point->gpu_ns);
		point->elapsed_ns -= more;
		point->gpu_ns -= more;
	}
	calibrate_heat_write(&points->origin, heat);
}

enum status calibrate_heat_read(
	const struct calibrate_points *points, struct heat_prices *out, struct error *error)
{
	const struct calibrate_origin *origin = &points->origin;
	uint64_t decay_ns = 0, most = (uint64_t)HEAT_RISE_MOST * MILLION;

	*out = (struct heat_prices){0};
	if (origin->heat_prompt[0] == '\0' && origin->heat_form[0] == '\0' &&
		origin->heat_decode[0] == '\0' && origin->heat_decay_ns[0] == '\0') {
		return STATUS_OK;
	}
	if (strcmp(origin->heat_form, HEAT_FORM) != 0) {
		return calibrate_origin_refuse(origin, "heat_form", error,
			"%s; points of another form have other times, `quire calibrate --measured` "
			"makes them again from the recording",
			HEAT_FORM);
	}
	TRY(calibrate_origin_share(
		origin, origin->heat_prompt, "heat_prompt", most, &out->prompt, error));
	most = (uint64_t)(out->prompt * MILLION + 0.5);
	TRY(calibrate_origin_share(
		origin, origin->heat_decode, "heat_decode", most, &out->decode, error));
	if (!text_to_u64(origin->heat_decay_ns, &decay_ns) || decay_ns == 0 ||
		decay_ns > HEAT_DECAY_NS_MOST) {
		return calibrate_origin_refuse(origin, "heat_decay_ns", error, "1 to %llu",
			(unsigned long long)HEAT_DECAY_NS_MOST);
	}
	out->decay_ns = (double)decay_ns;
	return STATUS_OK;
}
