#include "bench/calibrate/fit.h"

#include "bench/calibrate/least_squares.h"
#include "engine/base/counter_hash.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "sim/step_price.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { POINTS_MIN = 60, HELD_OUT_SHARE = 3, PURPOSE_HELD_OUT = 0x68656c64, FIT_PASSES = 8 };

enum { UNKNOWNS_MAX = 2 * STEP_CURVE_COUNT * STEP_CURVE_POINTS };

/* The knots of each piecewise linear curve; those beyond the measurements are dropped. Curves over
   rows have knots at graph buckets and at the kernels' tile sizes; others have about one per
   octave. */
static const double step_knots[] = {0, 1};
static const double row_knots[] = {0, 1, 2, 4, 8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 160, 192,
	224, 256, 288, 320, 352, 384, 416, 448, 480, 512};
static const double line_knots[] = {0, 1024};
static const double context_knots[] = {
	0, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144, 524288};
static const double reuse_knots[] = {
	0, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 32768};
static const double merge_knots[] = {0, 2048, 8192, 32768};
static const double token_knots[] = {0, 16, 32, 64, 65, 96, 128, 129, 192, 256, 257, 320, 384, 448,
	512, 640, 768, 896, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 6144, 8192, 12288, 16384};
static const double mixed_knots[] = {0, 1, 8, 16, 32, 64, 80, 128, 192, 256, 384, 512};
static const double tile_knots[] = {
	0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 12, 16, 17, 18, 24, 25, 32, 33, 48, 64, 128};
static const double host_knots[] = {0, 16, 64, 256, 1024, 4096, 16384};

static const double ahead_knots[] = {0, 16, 64, 80, 128, 256, 512};
static const double spread_knots[] = {0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512};

#define COUNT_OF(knots) (sizeof(knots) / sizeof((knots)[0]))
#define KNOTS(knots)                                                                               \
	{                                                                                          \
		knots, COUNT_OF(knots), false                                                      \
	}
#define FREE_KNOTS(knots)                                                                          \
	{                                                                                          \
		knots, COUNT_OF(knots), true                                                       \
	}

/* More work costs no less, so most curves may not fall. The exceptions depend on the choice of
   kernels: 33 rows may be faster than 32. */
static const struct {
	const double *at;
	uint32_t count;
	bool may_fall;
} knots_of[STEP_CURVE_COUNT] = {
	[STEP_CURVE_decode_step] = KNOTS(step_knots),
	[STEP_CURVE_decode_rows] = FREE_KNOTS(row_knots),
	[STEP_CURVE_decode_ahead] = FREE_KNOTS(ahead_knots),
	[STEP_CURVE_decode_attention] = KNOTS(context_knots),
	[STEP_CURVE_decode_shared] = KNOTS(reuse_knots),
	[STEP_CURVE_decode_attention_rows] = KNOTS(line_knots),
	[STEP_CURVE_decode_spread] = KNOTS(spread_knots),
	[STEP_CURVE_decode_merge] = KNOTS(merge_knots),
	[STEP_CURVE_sampled_rows] = KNOTS(row_knots),
	[STEP_CURVE_prefill_step] = KNOTS(step_knots),
	[STEP_CURVE_mixed_step] = KNOTS(step_knots),
	[STEP_CURVE_prefill_tokens] = FREE_KNOTS(token_knots),
	[STEP_CURVE_mixed_rows] = FREE_KNOTS(mixed_knots),
	[STEP_CURVE_prefill_rows] = KNOTS(line_knots),
	[STEP_CURVE_prefill_attention] = FREE_KNOTS(tile_knots),
	[STEP_CURVE_prefill_context] = KNOTS(step_knots),
	[STEP_CURVE_host_decode_step] = KNOTS(step_knots),
	[STEP_CURVE_host_ahead_step] = KNOTS(step_knots),
	[STEP_CURVE_host_prefill_step] = KNOTS(step_knots),
	[STEP_CURVE_host_rows] = KNOTS(host_knots),
	[STEP_CURVE_host_decode_context] = KNOTS(line_knots),
	[STEP_CURVE_host_prefill_tokens] = KNOTS(host_knots),
};

/* ---- fitted and held out ---- */

/* A hash of a step's counts, independent of its position in the table. */
static uint64_t hash_of(const struct calibrate_point *point, uint64_t seed)
{
	uint64_t hash = counter_key(seed, PURPOSE_HELD_OUT);

#define HASH_COUNT(name) hash = counter_hash(hash, point->counts.name);
	CALIBRATE_POINT_LIST(HASH_COUNT)
#undef HASH_COUNT
	return counter_hash(hash, point->ahead);
}

/* Chooses the held-out steps. For each count, one step with its largest value is always fitted,
   since a curve that ended before it would be extrapolated. */
static void hold_out(struct calibrate_points *points, uint64_t seed)
{
	struct calibrate_point *all = points->points;
	uint64_t *hash = memory_take(points->count, sizeof(*hash));
	size_t largest;

	for (size_t i = 0; i < points->count; i++) {
		hash[i] = hash_of(&all[i], seed);
		all[i].is_held_out = hash[i] % HELD_OUT_SHARE == 0;
	}
#define KEEP_LARGEST(name)                                                                         \
	largest = 0;                                                                               \
	for (size_t i = 1; i < points->count; i++) {                                               \
		uint64_t count = all[i].counts.name, most = all[largest].counts.name;              \
		bool is_larger = count > most || (count == most && hash[i] > hash[largest]);       \
		largest = is_larger ? i : largest;                                                 \
	}                                                                                          \
	all[largest].is_held_out = false;
	CALIBRATE_POINT_LIST(KEEP_LARGEST)
#undef KEEP_LARGEST
	free(hash);
}

static struct step_curve_point curve_point_of(
	enum step_curve curve, const struct calibrate_point *point)
{
	return step_curve_point_of(curve, &point->counts, point->ahead != 0);
}

/* ---- curves as unknowns: the slope of each segment ---- */

/* Sets the knots that the fitted steps reach, and the first one beyond. */
static void set_knots(struct step_curve_table *table, enum step_curve curve,
	const struct calibrate_points *points)
{
	double most = 0;

	for (size_t i = 0; i < points->count; i++) {
		if (!points->points[i].is_held_out) {
			struct step_curve_point at = curve_point_of(curve, &points->points[i]);
			most = at.x > most ? at.x : most;
		}
	}
	memset(table, 0, sizeof(*table));
	for (uint32_t i = 0; i < knots_of[curve].count; i++) {
		if (i < 2 || knots_of[curve].at[i - 1] < most) {
			table->at[table->count++] = knots_of[curve].at[i];
		}
	}
}

/* The length of segment i below x; the last segment is unbounded. */
static double segment_below(const struct step_curve_table *table, uint32_t i, double x)
{
	double low = table->at[i], high = table->at[i + 1];

	if (x <= low) {
		return 0;
	}
	return x >= high && i + 2 < table->count ? high - low : x - low;
}

/* A slope that may be negative is the difference of two unknowns. Beyond the last knot no curve
   falls. */
static bool may_fall_in(const struct step_curve_table *table, uint32_t curve, uint32_t segment)
{
	return knots_of[curve].may_fall && segment + 2 < table->count;
}

/* A row of the system: the time that one unit of slope in each segment adds to a step. */
static uint32_t fill_row(double *row, const struct step_curve_table *curves, bool is_host,
	const struct calibrate_point *point)
{
	uint32_t column = 0;

	for (uint32_t c = 0; c < STEP_CURVE_COUNT; c++) {
		if (step_curve_is_host((enum step_curve)c) != is_host) {
			continue;
		}
		struct step_curve_point at = curve_point_of((enum step_curve)c, point);
		for (uint32_t i = 0; i + 1 < curves[c].count; i++) {
			double length = at.factor * segment_below(&curves[c], i, at.x);
			row[column++] = length;
			if (may_fall_in(&curves[c], c, i)) {
				row[column++] = -length;
			}
		}
	}
	return column;
}

/* Nine digits are more precise than any measurement, and survive writing and reading. */
static double rounded(double ns)
{
	return (double)(int64_t)(ns * 1e6 + (ns < 0 ? -0.5 : 0.5)) / 1e6;
}

static void set_heights(struct step_curve_table *curves, bool is_host, const double *slopes)
{
	uint32_t column = 0;

	for (uint32_t c = 0; c < STEP_CURVE_COUNT; c++) {
		struct step_curve_table *table = &curves[c];
		if (step_curve_is_host((enum step_curve)c) != is_host) {
			continue;
		}
		for (uint32_t i = 0; i + 1 < table->count; i++) {
			double width = table->at[i + 1] - table->at[i];
			double slope = slopes[column++];
			if (may_fall_in(table, c, i)) {
				slope -= slopes[column++];
			}
			table->ns[i + 1] = rounded(table->ns[i] + slope * width);
		}
	}
}

/* The time that the curves of the GPU, or of the host, predict for a step. */
static double side_ns(
	const struct step_curve_table *curves, bool is_host, const struct calibrate_point *point)
{
	double ns = 0;

	for (uint32_t c = 0; c < STEP_CURVE_COUNT; c++) {
		if (step_curve_is_host((enum step_curve)c) == is_host) {
			struct step_curve_point at = curve_point_of((enum step_curve)c, point);
			ns += at.factor * step_curve_at(&curves[c], at.x);
		}
	}
	return ns;
}

/* Outliers weigh less in the next pass (Huber's weights): a step's time may have a cause that its
   counts do not show, such as the first use of a kernel. */
static double weight_of(double off, bool is_first)
{
	const double tolerated = 0.01;

	off = off < 0 ? -off : off;
	return is_first || off <= tolerated ? 1 : tolerated / off;
}

/* Regularization: where few steps distinguish the slopes of two neighbouring segments, these are
   kept equal. A change of slope is penalised like an error of a small fraction of what the segments
   add to all steps. */
static void tie_slopes(
	struct least_squares *system, const struct step_curve_table *curves, bool is_host)
{
	const double share = 0.05;
	double row[UNKNOWNS_MAX] = {0};
	uint32_t column = 0;

	for (uint32_t c = 0; c < STEP_CURVE_COUNT; c++) {
		if (step_curve_is_host((enum step_curve)c) != is_host) {
			continue;
		}
		for (uint32_t i = 0; i + 1 < curves[c].count; i++) {
			uint32_t own = column, next = column + 1 + may_fall_in(&curves[c], c, i);
			column = next;
			if (i + 2 == curves[c].count) {
				break;
			}
			double one = least_squares_length(system, own);
			double other = least_squares_length(system, next);
			double least = one < other ? one : other;
			row[own] = 1;
			row[next] = -1;
			if (may_fall_in(&curves[c], c, i)) {
				row[own + 1] = -1;
			}
			if (may_fall_in(&curves[c], c, i + 1)) {
				row[next + 1] = 1;
			}
			least_squares_add(system, row, 0, share * least);
			memset(row, 0, sizeof(row));
		}
	}
}

static void fit_once(struct step_curve_table *curves, bool is_host, bool is_first,
	const struct calibrate_points *points)
{
	struct least_squares system;
	double row[UNKNOWNS_MAX] = {0};
	const struct calibrate_point nothing = {0};
	uint32_t count = fill_row(row, curves, is_host, &nothing);

	least_squares_init(&system, count);
	for (size_t i = 0; i < points->count; i++) {
		const struct calibrate_point *point = &points->points[i];
		double ns = (double)(is_host ? point->host_ns : point->gpu_ns);
		double elapsed = (double)point->elapsed_ns;
		if (point->is_held_out) {
			continue;
		}
		fill_row(row, curves, is_host, point);
		double off = (side_ns(curves, is_host, point) - ns) / elapsed;
		/* least_squares_add() squares the weight. */
		least_squares_add(&system, row, ns, sqrt(weight_of(off, is_first)) / elapsed);
	}
	tie_slopes(&system, curves, is_host);
	set_heights(curves, is_host, least_squares_solve(&system));
	least_squares_free(&system);
}

static void fit_side(
	struct step_curve_table *curves, bool is_host, const struct calibrate_points *points)
{
	for (uint32_t pass = 0; pass < FIT_PASSES; pass++) {
		fit_once(curves, is_host, pass == 0, points);
	}
}

/* If no measured step shared blocks, shared tokens are priced like others read from memory. */
static void assume_sharing(struct step_curve_table *curves, const struct calibrate_points *points)
{
	const struct step_curve_table *memory = &curves[STEP_CURVE_decode_attention];
	uint32_t last = memory->count - 1;

	for (size_t i = 0; i < points->count; i++) {
		if (points->points[i].counts.pair_tokens > 0 && !points->points[i].is_held_out) {
			return;
		}
	}
	double ns = memory->ns[last] / memory->at[last];
	curves[STEP_CURVE_decode_shared] = (struct step_curve_table){
		.count = 3, .at = {0, 1, 2}, .ns = {0, rounded(ns), rounded(ns)}};
}

/* ---- errors ---- */

static uint64_t predict(const struct step_curve_table *curves, const struct calibrate_point *point)
{
	double gpu = step_price_part(side_ns(curves, false, point));
	double host = step_price_part(side_ns(curves, true, point));

	/* The cost model refuses a step beyond the limit. */
	return (uint64_t)(fmin(gpu + host, STEP_PRICE_LIMIT) + 0.5);
}

static int compare_doubles(const void *a, const void *b)
{
	const double *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

/* Nearest rank. */
static double percentile(const double *sorted, size_t count, uint64_t percent)
{
	return sorted[u64_max(u64_divide_up(count * percent, 100), 1) - 1];
}

static struct calibrate_errors errors_of(const struct calibrate_points *points, bool is_held_out)
{
	struct calibrate_errors errors = {0};
	double *all = memory_take(points->count, sizeof(*all));
	double sum = 0, bias = 0;
	size_t count = 0;

	for (size_t i = 0; i < points->count; i++) {
		const struct calibrate_point *point = &points->points[i];
		if (point->is_held_out == is_held_out) {
			double off = (double)point->predicted_ns / (double)point->elapsed_ns - 1;
			all[count] = off < 0 ? -off : off;
			sum += all[count++];
			bias += off;
		}
	}
	if (count > 0) {
		qsort(all, count, sizeof(*all), compare_doubles);
		errors = (struct calibrate_errors){
			.points = u32_from(count),
			.mean = sum / (double)count,
			.p50 = percentile(all, count, 50),
			.p90 = percentile(all, count, 90),
			.p99 = percentile(all, count, 99),
			.max = all[count - 1],
			.bias = bias / (double)count,
		};
	}
	free(all);
	return errors;
}

enum status calibrate_fit(struct calibrate_fit *out, struct calibrate_points *points, uint64_t seed,
	struct error *error)
{
	memset(out, 0, sizeof(*out));
	if (points->count < POINTS_MIN) {
		return error_set(error, STATUS_INPUT,
			"found %zu different steps, expected at least %d to fit a profile to",
			points->count, POINTS_MIN);
	}
	hold_out(points, seed);
	for (uint32_t c = 0; c < STEP_CURVE_COUNT; c++) {
		set_knots(&out->curves[c], (enum step_curve)c, points);
	}
	fit_side(out->curves, false, points);
	fit_side(out->curves, true, points);
	assume_sharing(out->curves, points);
	for (size_t i = 0; i < points->count; i++) {
		struct calibrate_point *point = &points->points[i];
		point->predicted_ns = predict(out->curves, point);
	}
	out->fitted = errors_of(points, false);
	out->held_out = errors_of(points, true);
	return STATUS_OK;
}
