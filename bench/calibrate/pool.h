#ifndef BENCH_CALIBRATE_POOL_H
#define BENCH_CALIBRATE_POOL_H

#include "bench/calibrate/points.h"
#include "sim/operation_prices.h"

/* Calibrations of several cards of a kind as one. Cards differ by 1 to 5 %, so prices that are
   fitted to several of them are nearer to the next card than those of any one.

   A step that all files have takes the mean of their times, in which a file weighs as many
   calibrations as it holds. Where only some have it, their times are divided by their paces first,
   so that a step is not cheap because only fast cards measured it. A file's pace is the median of
   its times over the means, of the steps that all have, with and without prompts: heat makes cards
   differ more where there are prompts.

   The spread of the cards is by how much the steps that all have take longer or shorter in sum on
   the card that is farthest from the means; of those without prompts, since what heat adds is not
   in these times. Of a file of several cards it is at most the file's own spread plus its distance
   from the means; where such a file does not say its own, the spread is not known. A planner who
   does not know which card he gets may be off by as much. */

enum { CALIBRATE_POOL_MOST = 16 };

/* A pace of fewer steps than this is 1, and a spread of fewer is not known. */
enum { CALIBRATE_PACE_STEPS = 32 };

/* How much longer a calibration's steps take than the first one's, over the steps that both have,
   as ratios: the median, and the least and the most of the nine tenths between. */
struct calibrate_spread {
	const char *path; /* as given; not owned */
	size_t steps;	  /* in both; 0: the ratios are unknown */
	double low, median, high;
	uint64_t calibrations; /* that the file holds */
	double pace[2];	       /* of steps without and with prompts */
	double cards;	       /* card_spread of the file, 0 of a single card; -1: not known */
};

struct calibrate_pool {
	struct calibrate_points points;			      /* joined */
	uint32_t count;					      /* files */
	uint64_t calibrations;				      /* that those are of */
	struct calibrate_spread spreads[CALIBRATE_POOL_MOST]; /* (count); the first is 1 */
	char *paths;					      /* owned, with an end behind each */
};

/* Reads the points.tsv that `paths` names, with commas between them. STATUS_INPUT where they are
   not of one model, one device and one number of GPUs, some know what heat does to their GPU and
   others do not, or two have the same steps and times. Whatever is returned, `out` is to be freed.
   */
enum status calibrate_pool_read(struct calibrate_pool *out, const char *paths, struct error *error);

/* STATUS_INPUT, with the first of them, where more than one in a hundred steps take over 5 % less
   than their operations take at the limits (operation_roofline()): the times are in another unit,
   or of another GPU than the one that `gpu` names. Fewer may be steps that were noticed late. */
enum status calibrate_pool_check(const struct calibrate_pool *pool,
	const struct operation_floors *floors, const char *gpu, struct error *error);

void calibrate_pool_free(struct calibrate_pool *pool);

#endif
