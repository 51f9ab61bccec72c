#ifndef REPORTS_RESULTS_CHANGE_POINTS_H
#define REPORTS_RESULTS_CHANGE_POINTS_H

#include <stdint.h>

/* Where the level of a series of figures changes, as of a metric over commits.

   Binary segmentation: a stretch is split where the difference of the two parts' means is
   largest in units of its standard deviation, if that exceeds CHANGE_POINT_THRESHOLD, and the
   parts are split in turn. The noise is estimated once, by the median of the distances between
   neighbours, which a few changes of level do not move, and taken as normal. A part has three
   figures or more.

   A series of which more than half of the neighbours are equal has no noise, as the figures of a
   simulation: there every change of more than CHANGE_POINT_FLOOR of the level is one.

   The threshold is for series of up to some hundred figures: of 1,000 series of 100 normal figures
   fewer than 10 are split (tests/reports/results/test_change_points.c). */

#define CHANGE_POINT_THRESHOLD 5.0
#define CHANGE_POINT_FLOOR 1e-4

enum { CHANGE_POINT_SERIES_MAX = 1024 };

/* Writes the indices at which a new level begins, ascending, to points (count); returns how many
   there are. count <= CHANGE_POINT_SERIES_MAX. */
uint32_t change_points_find(const double *values, uint32_t count, uint32_t *points);

#endif
