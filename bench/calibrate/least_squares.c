#include "bench/calibrate/least_squares.h"

#include "engine/base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Added to the diagonal of the normal equations, so that linearly dependent columns neither make
   them singular nor grow with opposite signs. It is far below measurement errors. */
static const double ridge = 1e-7;

/* Smaller gradients count as 0. Columns have length 1 and values are near 1. */
static const double gradient_min = 1e-10;

void least_squares_init(struct least_squares *system, uint32_t count)
{
	size_t n = count;

	*system = (struct least_squares){
		.count = count,
		.normal = memory_take(n * n, sizeof(double)),
		.right = memory_take(n, sizeof(double)),
		.scale = memory_take(n, sizeof(double)),
		.x = memory_take(n, sizeof(double)),
		.try = memory_take(n, sizeof(double)),
		.factor = memory_take(n * n, sizeof(double)),
		.chosen = memory_take(n, sizeof(uint32_t)),
		.is_chosen = memory_take(n, sizeof(bool)),
		.is_fixed = memory_take(n, sizeof(bool)),
		.cap = memory_take(n, sizeof(double)),
	};
	for (uint32_t i = 0; i < count; i++) {
		system->cap[i] = INFINITY;
	}
}

void least_squares_cap(struct least_squares *system, uint32_t index, double most)
{
	system->cap[index] = most;
}

void least_squares_add(struct least_squares *system, const double *row, double value, double weight)
{
	uint32_t n = system->count;
	double square = weight * weight;

	for (uint32_t i = 0; i < n; i++) {
		if (row[i] == 0) {
			continue;
		}
		for (uint32_t j = 0; j < n; j++) {
			system->normal[i * n + j] += square * row[i] * row[j];
		}
		system->right[i] += square * row[i] * value;
	}
}

static void scale_columns(struct least_squares *system)
{
	uint32_t n = system->count;

	for (uint32_t i = 0; i < n; i++) {
		double square = system->normal[i * n + i];
		system->scale[i] = square > 0 ? 1 / sqrt(square) : 0;
	}
	for (uint32_t i = 0; i < n; i++) {
		system->right[i] *= system->scale[i];
		for (uint32_t j = 0; j < n; j++) {
			system->normal[i * n + j] *= system->scale[i] * system->scale[j];
		}
		system->normal[i * n + i] += ridge;
	}
}

/* Solves for the chosen unknowns only, by Cholesky; the result is in try, in their order. */
static void solve_chosen(struct least_squares *system)
{
	uint32_t n = system->count, m = system->chosen_count;
	double *factor = system->factor, *y = system->try;

	for (uint32_t i = 0; i < m; i++) {
		for (uint32_t j = 0; j <= i; j++) {
			double sum = system->normal[system->chosen[i] * n + system->chosen[j]];
			for (uint32_t k = 0; k < j; k++) {
				sum -= factor[i * n + k] * factor[j * n + k];
			}
			if (i == j) {
				factor[i * n + i] = sqrt(sum > ridge / 2 ? sum : ridge / 2);
			} else {
				factor[i * n + j] = sum / factor[j * n + j];
			}
		}
	}
	for (uint32_t i = 0; i < m; i++) {
		double sum = system->right[system->chosen[i]];
		for (uint32_t k = 0; k < i; k++) {
			sum -= factor[i * n + k] * y[k];
		}
		y[i] = sum / factor[i * n + i];
	}
	for (uint32_t i = m; i-- > 0;) {
		double sum = y[i];
		for (uint32_t k = i + 1; k < m; k++) {
			sum -= factor[k * n + i] * y[k];
		}
		y[i] = sum / factor[i * n + i];
	}
}

/* Chooses the unknown whose growth would reduce the sum most; false: none would. */
static bool choose_one(struct least_squares *system)
{
	uint32_t n = system->count, best = 0;
	double best_gradient = gradient_min;

	for (uint32_t i = 0; i < n; i++) {
		double gradient = system->right[i];
		if (system->is_chosen[i] || system->is_fixed[i] || system->scale[i] == 0) {
			continue;
		}
		for (uint32_t j = 0; j < n; j++) {
			gradient -= system->normal[i * n + j] * system->x[j];
		}
		if (gradient > best_gradient) {
			best_gradient = gradient;
			best = i;
		}
	}
	if (best_gradient <= gradient_min) {
		return false;
	}
	system->is_chosen[best] = true;
	system->chosen[system->chosen_count++] = best;
	return true;
}

/* Moves x towards try until an unknown becomes 0, and drops the unknowns that did; false: try was
   reached. */
static bool step_back(struct least_squares *system)
{
	double share = 1;
	uint32_t kept = 0;

	for (uint32_t i = 0; i < system->chosen_count; i++) {
		double from = system->x[system->chosen[i]], to = system->try[i];
		if (to <= 0 && from / (from - to) < share) {
			share = from / (from - to);
		}
	}
	for (uint32_t i = 0; i < system->chosen_count; i++) {
		uint32_t at = system->chosen[i];
		double from = system->x[at], to = system->try[i];
		system->x[at] = from + share * (to - from);
		bool is_first_to_end = to <= 0 && from / (from - to) <= share;
		if (share < 1 && is_first_to_end) {
			system->x[at] = 0;
			system->is_chosen[at] = false;
		} else {
			system->chosen[kept++] = at;
		}
	}
	system->chosen_count = kept;
	return share < 1;
}

/* Holds unknowns above their caps there, and takes what they explain off the right side; false:
   none is above. */
static bool fix_capped(struct least_squares *system)
{
	uint32_t n = system->count;
	bool has_more = false;

	for (uint32_t i = 0; i < n; i++) {
		double most = system->scale[i] > 0 ? system->cap[i] / system->scale[i] : INFINITY;
		if (system->is_fixed[i] || system->x[i] <= most) {
			continue;
		}
		system->is_fixed[i] = has_more = true;
		for (uint32_t j = 0; j < n; j++) {
			system->right[j] -= system->normal[j * n + i] * most;
		}
	}
	return has_more;
}

static void solve_free(struct least_squares *system)
{
	memset(system->x, 0, system->count * sizeof(*system->x));
	memset(system->is_chosen, 0, system->count * sizeof(*system->is_chosen));
	system->chosen_count = 0;
	/* The method terminates in exact arithmetic; the bound stops cycles caused by rounding. */
	for (uint32_t pass = 0; pass < 10 * system->count && choose_one(system); pass++) {
		solve_chosen(system);
		while (step_back(system)) {
			solve_chosen(system);
		}
	}
}

const double *least_squares_solve(struct least_squares *system)
{
	scale_columns(system);
	do {
		solve_free(system);
	} while (fix_capped(system));
	for (uint32_t i = 0; i < system->count; i++) {
		system->x[i] = system->x[i] > 0 ? system->x[i] * system->scale[i] : 0;
		system->x[i] = system->is_fixed[i] ? system->cap[i] : system->x[i];
	}
	return system->x;
}

void least_squares_free(struct least_squares *system)
{
	free(system->normal);
	free(system->right);
	free(system->scale);
	free(system->x);
	free(system->try);
	free(system->factor);
	free(system->chosen);
	free(system->is_chosen);
	free(system->is_fixed);
	free(system->cap);
}
