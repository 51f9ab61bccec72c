#include "bench/calibrate/pool.h"

#include "bench/calibrate/heat.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "sim/price_by_operations.h"
#include "sim/profile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How far below its roofline a step may be, and one in how many may be further. */
static const double below_most = 0.05;
enum { BELOW_ONE_IN = 100 };

/* ---- origins ---- */

static enum status check_same(const struct calibrate_spread *first,
	const struct calibrate_spread *other, const char *what, const char *expected,
	const char *found, struct error *error)
{
	return strcmp(expected, found) == 0
		       ? STATUS_OK
		       : error_set(error, STATUS_INPUT, "%s: found %s %s, expected %s as in %s",
				 other->path, what, found[0] == '\0' ? "none" : found,
				 expected[0] == '\0' ? "none" : expected, first->path);
}

/* Whether both have the same steps, with the same times. */
static bool are_same(const struct calibrate_point *a, const struct calibrate_point *b, size_t count)
{
	size_t i = 0;

	while (i < count && a[i].elapsed_ns == b[i].elapsed_ns && a[i].gpu_ns == b[i].gpu_ns &&
		a[i].samples == b[i].samples &&
		memcmp(&a[i].counts, &b[i].counts, sizeof(a[i].counts)) == 0) {
		i++;
	}
	return i == count;
}

/* No two calibrations take the same nanoseconds for all steps: it is one file, or a copy. */
static enum status check_new(const struct calibrate_pool *pool,
	const struct calibrate_points *points, struct error *error)
{
	const struct calibrate_points *all = &pool->points;

	for (size_t i = 0, end; i < all->count; i = end) {
		for (end = i + 1;
			end < all->count && all->points[end].file == all->points[i].file;) {
			end++;
		}
		if (end - i == points->count &&
			are_same(&all->points[i], points->points, points->count)) {
			return error_set(error, STATUS_INPUT,
				"%s: found the steps and times of %s, expected those of another "
				"calibration",
				pool->spreads[pool->count].path,
				pool->spreads[all->points[i].file].path);
		}
	}
	return STATUS_OK;
}

static const char between[] = ", ";

/* The text of a list behind another one, from its begin where that is NULL; NULL: none. *length:
   of the one before, then its own. */
static const char *next_text(const char *list, const char *before, size_t *length)
{
	const char *text = before == NULL ? list : before + *length;

	text += strspn(text, between);
	*length = strcspn(text, between);
	return *length == 0 ? NULL : text;
}

static void remove_text(char *list, size_t at, size_t length)
{
	const char *behind = list + at + length;

	behind += strspn(behind, between);
	memmove(list + at, behind, strlen(behind) + 1);
	for (size_t end = strlen(list); end > 0 && strchr(between, list[end - 1]) != NULL; end--) {
		list[end - 1] = '\0';
	}
}

/* Appends a text to a list, or moves one that is there to its end. Where there is no room, the
   first ones make it. */
static void add_text(char *list, size_t bytes, const char *more, size_t more_length)
{
	size_t length = 0;
	const char *same = next_text(list, NULL, &length);

	while (same != NULL && (length != more_length || strncmp(same, more, length) != 0)) {
		same = next_text(list, same, &length);
	}
	if (same != NULL) {
		remove_text(list, (size_t)(same - list), length);
	}
	while (list[0] != '\0' && strlen(list) + strlen(between) + more_length >= bytes) {
		next_text(list, NULL, &length);
		remove_text(list, 0, length);
	}
	size_t end = strlen(list);
	snprintf(list + end, bytes - end, "%s%.*s", end > 0 ? between : "", (int)more_length, more);
}

/* What the pool is of: the device, the commits, the latest date, the commands of the first. */
static void add_origin(struct calibrate_origin *origin, const struct calibrate_origin *more)
{
	if (origin->device[0] == '\0') {
		memcpy(origin->device, more->device, sizeof(origin->device));
	}
	size_t length = 0;
	for (const char *text = next_text(more->commit, NULL, &length); text != NULL;
		text = next_text(more->commit, text, &length)) {
		add_text(origin->commit, sizeof(origin->commit), text, length);
	}
	if (strcmp(more->date, origin->date) > 0) {
		memcpy(origin->date, more->date, sizeof(origin->date));
	}
}

static void set_heat(
	struct calibrate_origin *origin, const struct heat_prices *sum, uint64_t calibrations)
{
	double count = (double)calibrations;

	if (sum->prompt > 0) {
		const struct heat_prices mean = {
			sum->prompt / count, sum->decode / count, sum->decay_ns / count};
		calibrate_heat_write(origin, &mean);
	}
}

/* ---- reading ---- */

static enum status read_one(const char *path, struct calibrate_points *points, struct error *error)
{
	TRY(calibrate_points_read(points, path, 0, error));
	if (points->origin.model[0] == '\0') {
		return error_set(error, STATUS_INPUT,
			"%s: found no line '# model NAME' at the start: a profile is for one model",
			path);
	}
	calibrate_points_join(points);
	return STATUS_OK;
}

/* How far a file says that its own cards are apart. */
static enum status read_cards(const struct calibrate_origin *origin, uint64_t calibrations,
	double *cards, struct error *error)
{
	*cards = calibrations > 1 ? -1 : 0;
	return origin->card_spread[0] == '\0'
		       ? STATUS_OK
		       : calibrate_origin_share(origin, origin->card_spread, "card_spread",
				 (uint64_t)(GPU_PROFILE_SPREAD_MOST * 1e6), cards, error);
}

/* Adds one calibration's points, and its heat to the sum. */
static enum status add_one(struct calibrate_pool *pool, struct calibrate_points *points,
	struct heat_prices *sum, struct error *error)
{
	const struct calibrate_spread *first = &pool->spreads[0], *own = first + pool->count;
	struct calibrate_origin *origin = &pool->points.origin, *more = &points->origin;
	struct heat_prices heat;
	uint64_t calibrations;

	TRY(calibrate_heat_read(points, &heat, error));
	TRY(calibrate_points_calibrations(points, &calibrations, error));
	TRY(read_cards(more, calibrations, &pool->spreads[pool->count].cards, error));
	if (pool->count == 0) {
		*origin = *more;
	}
	TRY(check_same(first, own, "model", origin->model, more->model, error));
	TRY(check_same(first, own, "tensor_parallel_size", origin->tensor_parallel_size,
		more->tensor_parallel_size, error));
	TRY(check_same(first, own, "source", origin->source, more->source, error));
	if (origin->device[0] != '\0' && more->device[0] != '\0') {
		TRY(check_same(first, own, "device", origin->device, more->device, error));
	}
#define CHECK_ENGINE(key, bytes) TRY(check_same(first, own, #key, origin->key, more->key, error));
	CALIBRATE_ENGINE_LIST(CHECK_ENGINE)
#undef CHECK_ENGINE
	if ((heat.prompt > 0) != (sum->prompt > 0) && pool->count > 0) {
		return error_set(error, STATUS_INPUT,
			"%s: found %s heat_prompt, expected %s as in %s: times at no heat and as "
			"measured are not alike",
			own->path, heat.prompt > 0 ? "a" : "no", heat.prompt > 0 ? "none" : "one",
			first->path);
	}
	TRY(check_new(pool, points, error));
	add_origin(origin, more);
	pool->spreads[pool->count].calibrations = calibrations;
	pool->calibrations += calibrations;
	sum->prompt += heat.prompt * (double)calibrations;
	sum->decode += heat.decode * (double)calibrations;
	sum->decay_ns += heat.decay_ns * (double)calibrations;
	for (size_t i = 0; i < points->count; i++) {
		points->points[i].file = pool->count;
	}
	calibrate_points_append(&pool->points, points);
	pool->count++;
	return STATUS_OK;
}

static enum status read_all(struct calibrate_pool *pool, struct error *error)
{
	struct heat_prices sum = {0};
	enum status status = STATUS_OK;

	for (char *path = pool->paths; path != NULL && status == STATUS_OK;) {
		struct calibrate_points points = {0};
		char *comma = strchr(path, ',');
		if (comma != NULL) {
			*comma = '\0';
		}
		if (path[0] == '\0' || pool->count == CALIBRATE_POOL_MOST) {
			return error_set(error, STATUS_USAGE,
				"--points: found %s, expected 1 to %d files with commas between "
				"them",
				path[0] == '\0' ? "a file without a name" : "more files",
				CALIBRATE_POOL_MOST);
		}
		pool->spreads[pool->count] = (struct calibrate_spread){.path = path};
		status = read_one(path, &points, error);
		if (status == STATUS_OK) {
			status = add_one(pool, &points, &sum, error);
		}
		calibrate_points_free(&points);
		path = comma == NULL ? NULL : comma + 1;
	}
	set_heat(&pool->points.origin, &sum, u64_max(pool->calibrations, 1));
	return status;
}

/* ---- steps of several calibrations ---- */

static int compare_doubles(const void *a, const void *b)
{
	const double *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

/* The ratios of calibration `index` to the first, by nearest rank. */
static void find_spread(struct calibrate_pool *pool, uint32_t index, double *ratios)
{
	const struct calibrate_points *points = &pool->points;
	struct calibrate_spread *spread = &pool->spreads[index];

	for (size_t i = 0, end; i < points->count; i = end) {
		const struct calibrate_point *first = NULL, *own = NULL;
		end = calibrate_points_group(points, i);
		for (size_t j = i; j < end; j++) {
			const struct calibrate_point *point = &points->points[j];
			first = point->file == 0 ? point : first;
			own = point->file == index ? point : own;
		}
		if (first != NULL && own != NULL) {
			ratios[spread->steps++] =
				(double)own->elapsed_ns / (double)first->elapsed_ns;
		}
	}
	if (spread->steps > 0) {
		qsort(ratios, spread->steps, sizeof(*ratios), compare_doubles);
		size_t last = spread->steps - 1;
		spread->low = ratios[last / 20];
		spread->median = ratios[last / 2];
		spread->high = ratios[last - last / 20];
	}
}

/* The mean of a column, in which each point weighs its file's calibrations and is divided by its
   file's pace. */
static uint64_t mean_of_column(const struct calibrate_pool *pool,
	const struct calibrate_point *points, size_t count, size_t offset, bool is_paced)
{
	bool has_prompts = points[0].counts.prefill_rows > 0;
	double sum = 0, weight = 0;

	for (size_t i = 0; i < count; i++) {
		const struct calibrate_spread *file = &pool->spreads[points[i].file];
		uint64_t value;
		memcpy(&value, (const char *)&points[i] + offset, sizeof(value));
		double pace = is_paced ? file->pace[has_prompts] : 1;
		sum += (double)file->calibrations * ((double)value / pace);
		weight += (double)file->calibrations;
	}
	return (uint64_t)(sum / weight);
}

/* Whether all files have a step of a group. */
static bool is_of_all(
	const struct calibrate_pool *pool, const struct calibrate_point *points, size_t count)
{
	uint32_t files = 0;

	for (size_t i = 0; i < count; i++) {
		files |= UINT32_C(1) << points[i].file;
	}
	return files == (UINT32_C(1) << pool->count) - 1;
}

/* One step of a group: means of counts and times. */
static struct calibrate_point mean_of(
	const struct calibrate_pool *pool, const struct calibrate_point *points, size_t count)
{
	bool is_paced = !is_of_all(pool, points, count);
	struct calibrate_point mean = points[0];

	mean.samples = 0;
	for (size_t i = 0; i < count; i++) {
		mean.samples += points[i].samples;
	}
#define MEAN_COUNT(name)                                                                           \
	mean.counts.name = mean_of_column(                                                         \
		pool, points, count, offsetof(struct calibrate_point, counts.name), false);
	CALIBRATE_POINT_LIST(MEAN_COUNT)
#undef MEAN_COUNT
	mean.start_ns = 0;
	mean.elapsed_ns = mean_of_column(
		pool, points, count, offsetof(struct calibrate_point, elapsed_ns), is_paced);
	mean.gpu_ns = mean_of_column(
		pool, points, count, offsetof(struct calibrate_point, gpu_ns), is_paced);
	mean.gpu_ns = u64_min(mean.gpu_ns, mean.elapsed_ns);
	mean.host_ns = mean.elapsed_ns - mean.gpu_ns;
	return mean;
}

/* A file's times over the means of the steps that all have, with prompts or without: the median,
   and in sum. Of few steps neither is known. */
struct beside {
	bool is_known;
	double median, sum;
};

static struct beside beside_means(
	const struct calibrate_pool *pool, uint32_t file, bool has_prompts, double *ratios)
{
	const struct calibrate_points *points = &pool->points;
	double own = 0, means = 0;
	size_t count = 0;

	for (size_t i = 0, end; i < points->count; i = end) {
		end = calibrate_points_group(points, i);
		const struct calibrate_point *group = &points->points[i];
		if ((group->counts.prefill_rows > 0) != has_prompts ||
			!is_of_all(pool, group, end - i)) {
			continue;
		}
		double mean = (double)mean_of_column(
			pool, group, end - i, offsetof(struct calibrate_point, elapsed_ns), false);
		for (size_t j = i; j < end; j++) {
			if (points->points[j].file == file) {
				double ns = (double)points->points[j].elapsed_ns;
				own += ns;
				means += mean;
				ratios[count++] = ns / mean;
			}
		}
	}
	if (count < CALIBRATE_PACE_STEPS) {
		return (struct beside){0};
	}
	qsort(ratios, count, sizeof(*ratios), compare_doubles);
	return (struct beside){true, ratios[(count - 1) / 2], own / means};
}

/* The paces of a file's card, and how far it or one of its cards is from the means; negative where
   that is not known. */
static double find_paces(struct calibrate_pool *pool, uint32_t file, double *ratios)
{
	struct calibrate_spread *own = &pool->spreads[file];
	const struct beside decodes = beside_means(pool, file, false, ratios);
	const struct beside prompts = beside_means(pool, file, true, ratios);

	own->pace[false] = decodes.is_known ? decodes.median : 1;
	own->pace[true] = prompts.is_known ? prompts.median : 1;
	return decodes.is_known && own->cards >= 0
		       ? fabs(decodes.sum - 1) + own->cards * decodes.sum
		       : -1;
}

static void set_card_spread(struct calibrate_origin *origin, double spread)
{
	origin->card_spread[0] = '\0';
	if (spread > 0) {
		snprintf(origin->card_spread, sizeof(origin->card_spread), "%.6f",
			fmin(spread, GPU_PROFILE_SPREAD_MOST));
	}
}

static void join_all(struct calibrate_pool *pool)
{
	struct calibrate_points *points = &pool->points;
	double *ratios = memory_take(points->count + 1, sizeof(*ratios));
	double spread = 0;
	bool is_known = true;
	size_t kept = 0;

	calibrate_points_sort(points);
	for (uint32_t i = 0; i < pool->count; i++) {
		find_spread(pool, i, ratios);
		double farthest = find_paces(pool, i, ratios);
		is_known = is_known && farthest >= 0;
		spread = fmax(spread, farthest);
	}
	set_card_spread(&points->origin, is_known ? spread : 0);
	for (size_t i = 0, end; i < points->count; i = end) {
		end = calibrate_points_group(points, i);
		points->points[kept++] = mean_of(pool, &points->points[i], end - i);
	}
	points->count = kept;
	snprintf(points->origin.calibrations, sizeof(points->origin.calibrations), "%llu",
		(unsigned long long)pool->calibrations);
	free(ratios);
}

enum status calibrate_pool_read(struct calibrate_pool *out, const char *paths, struct error *error)
{
	memset(out, 0, sizeof(*out));
	out->paths = memory_take(strlen(paths) + 1, 1);
	memcpy(out->paths, paths, strlen(paths) + 1);
	TRY(read_all(out, error));
	if (out->count > 1) {
		join_all(out);
	}
	return STATUS_OK;
}

enum status calibrate_pool_check(const struct calibrate_pool *pool,
	const struct operation_floors *floors, const char *gpu, struct error *error)
{
	const struct calibrate_points *points = &pool->points;
	const struct calibrate_point *first = NULL;
	size_t count = 0;

	for (size_t i = 0; i < points->count; i++) {
		const struct calibrate_point *point = &points->points[i];
		double least = operation_roofline(floors, &point->counts);
		if ((double)point->elapsed_ns >= (1 - below_most) * least) {
			continue;
		}
		count++;
		if (first == NULL || point->file < first->file ||
			(point->file == first->file && point->line < first->line)) {
			first = point;
		}
	}
	return count <= points->count / BELOW_ONE_IN
		       ? STATUS_OK
		       : error_set(error, STATUS_INPUT,
				 "%s:%llu: column elapsed_ns: found %llu, expected %.0f or more at "
				 "the limits of %s (--gpu); %zu of %zu steps take less than they "
				 "can",
				 pool->spreads[first->file].path, (unsigned long long)first->line,
				 (unsigned long long)first->elapsed_ns,
				 ceil(operation_roofline(floors, &first->counts)), gpu, count,
				 points->count);
}

void calibrate_pool_free(struct calibrate_pool *pool)
{
	calibrate_points_free(&pool->points);
	free(pool->paths);
	memset(pool, 0, sizeof(*pool));
}
