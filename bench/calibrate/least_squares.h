#ifndef BENCH_CALIBRATE_LEAST_SQUARES_H
#define BENCH_CALIBRATE_LEAST_SQUARES_H

#include <stdbool.h>
#include <stdint.h>

/* Non-negative least squares: the x >= 0 that minimises the sum of (weight * (row . x - value))^2,
   by the active-set method of Lawson and Hanson ("Solving Least Squares Problems", 1974, chapter
   23) on the normal equations. Columns are scaled to length 1 first. A column of zeros gets 0. Of
   linearly dependent columns, any one may get the whole value.

   An unknown may have a cap. Where the solution exceeds it, the unknown stays at its cap and the
   others are solved again, until none exceeds its own. */

struct least_squares {
	uint32_t count;	  /* unknowns */
	double *normal;	  /* (count, count) */
	double *right;	  /* (count) */
	double *scale;	  /* (count) */
	double *x;	  /* (count) the solution */
	double *try;	  /* (count) */
	double *factor;	  /* (count, count) */
	uint32_t *chosen; /* (count) unknowns that may differ from 0 */
	uint32_t chosen_count;
	bool *is_chosen; /* (count) */
	bool *is_fixed;	 /* (count) at its cap */
	double *cap;	 /* (count) */
};

void least_squares_init(struct least_squares *system, uint32_t count);

/* row: (count). */
void least_squares_add(
	struct least_squares *system, const double *row, double value, double weight);

/* The largest value of an unknown, more than 0. */
void least_squares_cap(struct least_squares *system, uint32_t index, double most);

/* Returns x: (count), owned by the system. No rows may be added afterwards. */
const double *least_squares_solve(struct least_squares *system);

void least_squares_free(struct least_squares *system);

#endif
