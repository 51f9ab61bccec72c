#ifndef REPORTS_SWEEP_AXES_H
#define REPORTS_SWEEP_AXES_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/text.h"
#include "reports/results/sweep_file.h"

/* Over which parameters the figures of a sweep are drawn, and what their captions say of runs that
   a figure lacks or flatters. */

enum {
	SWEEP_CURVES_MAX = 8,  /* there are as many colours */
	SWEEP_PANELS_MAX = 12, /* more would be too small to read */
};

/* The parameters that have several values, in their order: the first is the x axis, the second the
   curves or the y axis, the others make panels. Where none varies, the first alone. */
struct sweep_axes {
	const struct sweep_file *sweep; /* borrowed */
	uint32_t count;			/* > 0 */
	uint32_t list[SWEEP_PARAMETERS_MAX];
	bool has_short_panels; /* panels are named by values alone, else by parameters too */
};

void sweep_axes_find(struct sweep_axes *axes, const struct sweep_file *sweep);

const struct sweep_parameter *sweep_axis(const struct sweep_axes *axes, uint32_t axis);
uint32_t sweep_axis_value(
	const struct sweep_axes *axes, const struct sweep_run *run, uint32_t axis);

/* A value without the folders that all values of the parameter have. */
const char *sweep_value_text(const struct sweep_parameter *parameter, uint32_t index);

/* Panels in all, and the name of one; axes: of three and more. */
uint32_t sweep_panel_count(const struct sweep_axes *axes);
uint32_t sweep_panel_of(const struct sweep_axes *axes, const struct sweep_run *run);
void sweep_panel_name(const struct sweep_axes *axes, uint32_t panel, struct text *name);

/* The points of runs over the size of their KV pool are told apart by what else varies: a group has
   equal values of that. The last of them has all others where there would be more. */
enum { SWEEP_GROUPS_MAX = 8 }; /* there are as many markers */

struct sweep_groups {
	const struct sweep_file *sweep; /* borrowed */
	uint32_t count;
	uint32_t first[SWEEP_GROUPS_MAX]; /* (count) a run of each, in the order of the table */
	bool has_others;
	bool has_short_names; /* of values alone, since two columns have no room for more */
};

void sweep_groups_find(struct sweep_groups *groups, const struct sweep_file *sweep);
uint32_t sweep_group_of(const struct sweep_groups *groups, const struct sweep_run *run);

/* Appends "policy mixed, seed 1" or "mixed, 1", "others", or "runs" where there is one group. */
void sweep_group_name(const struct sweep_groups *groups, uint32_t group, struct text *name);

/* Appends " Markers tell apart policy, seed." where there are several groups. */
void sweep_groups_say(const struct sweep_groups *groups, struct text *text);

/* Sentences, with a space before each: what curves and panels are left out, and which runs rejected
   more than 1 % of the requests, and which were overloaded. Nothing where there are none. */
void sweep_say_left_out(const struct sweep_axes *axes, struct text *text);
void sweep_say_rejecting(const struct sweep_file *sweep, struct text *text);
void sweep_say_overloaded(const struct sweep_file *sweep, struct text *text);

/* Whether a run rejected more than 1 % of the requests, or any where their number is unknown. */
bool sweep_is_rejecting(const struct sweep_file *sweep, const struct sweep_run *run);

#endif
