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

/* Sentences, with a space before each: what curves and panels are left out, and which runs rejected
   more than 1 % of the requests, and which were overloaded. Nothing where there are none. */
void sweep_say_left_out(const struct sweep_axes *axes, struct text *text);
void sweep_say_rejecting(const struct sweep_file *sweep, struct text *text);
void sweep_say_overloaded(const struct sweep_file *sweep, struct text *text);

/* Whether a run rejected more than 1 % of the requests, or any where their number is unknown. */
bool sweep_is_rejecting(const struct sweep_file *sweep, const struct sweep_run *run);

#endif
