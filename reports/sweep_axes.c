#include "reports/sweep_axes.h"

#include "engine/base/number.h"

#include <string.h>

/* Longer names of panels are cut (short() of style.gp); more names than these are counted only. */
enum { PANEL_NAME_MAX = 30, GROUP_NAME_MAX = 20, NAMED_MAX = 12, NAMED_RUNS_MAX = 4 };

/* A share of rejected requests that a figure must not hide. */
static const double rejecting_from = 0.01;

/* ---- parameters ---- */

const struct sweep_parameter *sweep_axis(const struct sweep_axes *axes, uint32_t axis)
{
	return &axes->sweep->parameters[axes->list[axis]];
}

uint32_t sweep_axis_value(const struct sweep_axes *axes, const struct sweep_run *run, uint32_t axis)
{
	return run->values[axes->list[axis]];
}

/* Bytes up to the last slash of what all values begin with. */
static size_t common_folders(const struct sweep_parameter *parameter)
{
	const char *first = parameter->values[0];
	size_t same = strlen(first);

	for (uint32_t i = 1; i < parameter->value_count; i++) {
		size_t bytes = 0;
		while (bytes < same && parameter->values[i][bytes] == first[bytes]) {
			bytes++;
		}
		same = bytes;
	}
	while (same > 0 && first[same - 1] != '/') {
		same--;
	}
	return same;
}

const char *sweep_value_text(const struct sweep_parameter *parameter, uint32_t index)
{
	return parameter->value_count < 2 ? parameter->values[index]
					  : parameter->values[index] + common_folders(parameter);
}

/* ---- panels ---- */

uint32_t sweep_panel_count(const struct sweep_axes *axes)
{
	uint64_t count = 1;

	for (uint32_t i = 2; i < axes->count; i++) {
		count *= sweep_axis(axes, i)->value_count;
		count = count < SWEEP_RUNS_MAX ? count : SWEEP_RUNS_MAX;
	}
	return (uint32_t)count;
}

uint32_t sweep_panel_of(const struct sweep_axes *axes, const struct sweep_run *run)
{
	uint64_t panel = 0;

	for (uint32_t i = axes->count; i-- > 2;) {
		panel = panel * sweep_axis(axes, i)->value_count + sweep_axis_value(axes, run, i);
		panel = panel < SWEEP_PANELS_MAX ? panel : SWEEP_PANELS_MAX;
	}
	return (uint32_t)panel;
}

static void add_panel_name(
	const struct sweep_axes *axes, uint32_t panel, bool is_short, struct text *name)
{
	for (uint32_t i = 2; i < axes->count; i++) {
		const struct sweep_parameter *parameter = sweep_axis(axes, i);
		text_add(name, i > 2 ? ", " : "");
		if (!is_short) {
			text_add(name, parameter->name);
			text_add(name, " ");
		}
		text_add(name, sweep_value_text(parameter, panel % parameter->value_count));
		panel /= parameter->value_count;
	}
}

void sweep_panel_name(const struct sweep_axes *axes, uint32_t panel, struct text *name)
{
	add_panel_name(axes, panel, axes->has_short_panels, name);
}

void sweep_axes_find(struct sweep_axes *axes, const struct sweep_file *sweep)
{
	*axes = (struct sweep_axes){.sweep = sweep};
	for (uint32_t i = 0; i < sweep->parameter_count; i++) {
		if (sweep->parameters[i].value_count > 1) {
			axes->list[axes->count++] = i;
		}
	}
	axes->count += axes->count == 0;
	for (uint32_t i = 0; i < sweep_panel_count(axes) && i < SWEEP_PANELS_MAX; i++) {
		struct text name = {0};
		add_panel_name(axes, i, false, &name);
		axes->has_short_panels = axes->has_short_panels || name.byte_count > PANEL_NAME_MAX;
		text_deinit(&name);
	}
}

/* ---- groups ---- */

/* A parameter with several values that is more than the size of the pool. */
static bool tells_apart(const struct sweep_parameter *parameter)
{
	return parameter->value_count > 1 && strcmp(parameter->name, "kv-blocks") != 0 &&
	       strcmp(parameter->name, "gpu-memory-utilization") != 0;
}

static bool are_alike(
	const struct sweep_file *sweep, const struct sweep_run *a, const struct sweep_run *b)
{
	for (uint32_t i = 0; i < sweep->parameter_count; i++) {
		if (tells_apart(&sweep->parameters[i]) && a->values[i] != b->values[i]) {
			return false;
		}
	}
	return true;
}

/* groups->count: it is of none. */
static uint32_t find_group(const struct sweep_groups *groups, const struct sweep_run *run)
{
	uint32_t group = 0;

	while (group < groups->count &&
		!are_alike(groups->sweep, &groups->sweep->runs[groups->first[group]], run)) {
		group++;
	}
	return group;
}

static void add_group_name(
	const struct sweep_groups *groups, uint32_t group, bool is_short, struct text *name)
{
	const struct sweep_file *sweep = groups->sweep;
	const char *comma = "";

	for (uint32_t i = 0; i < sweep->parameter_count; i++) {
		const struct sweep_parameter *parameter = &sweep->parameters[i];
		if (tells_apart(parameter)) {
			uint32_t value = sweep->runs[groups->first[group]].values[i];
			text_add(name, comma);
			if (!is_short) {
				text_format(name, "%s ", parameter->name);
			}
			text_add(name, sweep_value_text(parameter, value));
			comma = ", ";
		}
	}
}

void sweep_groups_find(struct sweep_groups *groups, const struct sweep_file *sweep)
{
	*groups = (struct sweep_groups){.sweep = sweep};
	for (uint32_t i = 0; i < sweep->run_count && !groups->has_others; i++) {
		const struct sweep_run *run = &sweep->runs[i];
		if (run->status != SWEEP_RUN_COMPLETE || find_group(groups, run) < groups->count) {
			continue;
		}
		groups->has_others = groups->count == SWEEP_GROUPS_MAX;
		if (!groups->has_others) {
			groups->first[groups->count++] = i;
		}
	}
	for (uint32_t i = 0; i < groups->count; i++) {
		struct text name = {0};
		add_group_name(groups, i, false, &name);
		groups->has_short_names |= name.byte_count > GROUP_NAME_MAX;
		text_deinit(&name);
	}
}

uint32_t sweep_group_of(const struct sweep_groups *groups, const struct sweep_run *run)
{
	uint32_t group = find_group(groups, run);

	return group < groups->count ? group : groups->count - 1;
}

void sweep_group_name(const struct sweep_groups *groups, uint32_t group, struct text *name)
{
	if (groups->count < 2 || (groups->has_others && group + 1 == groups->count)) {
		text_add(name, groups->count < 2 ? "runs" : "others");
	} else {
		add_group_name(groups, group, groups->has_short_names, name);
	}
}

void sweep_groups_say(const struct sweep_groups *groups, struct text *text)
{
	const char *before = " Markers tell apart ";

	for (uint32_t i = 0; i < groups->sweep->parameter_count && groups->count > 1; i++) {
		const struct sweep_parameter *parameter = &groups->sweep->parameters[i];
		if (tells_apart(parameter)) {
			text_format(text, "%s%s", before, parameter->name);
			before = ", ";
		}
	}
	text_add(text, groups->count > 1 ? "." : "");
}

/* ---- what is left out ---- */

/* " Not drawn: 3 of 11 curves, of max-num-seqs 9, 10, 11; the table has their runs." */
static void say_not_drawn(const struct sweep_axes *axes, bool is_panels, struct text *text)
{
	const struct sweep_parameter *curves = sweep_axis(axes, 1);
	uint32_t total = is_panels ? sweep_panel_count(axes) : curves->value_count;
	uint32_t drawn = is_panels ? (uint32_t)SWEEP_PANELS_MAX : (uint32_t)SWEEP_CURVES_MAX;

	if (total <= drawn) {
		return;
	}
	uint32_t left = total - drawn;
	text_format(
		text, " Not drawn: %u of %u %s, of ", left, total, is_panels ? "panels" : "curves");
	if (!is_panels) {
		text_format(text, "%s ", curves->name);
	}
	for (uint32_t i = 0; i < left && i < NAMED_MAX; i++) {
		text_add(text, i == 0 ? "" : is_panels ? "; " : ", ");
		if (is_panels) {
			sweep_panel_name(axes, drawn + i, text);
		} else {
			text_add(text, sweep_value_text(curves, drawn + i));
		}
	}
	if (left > NAMED_MAX) {
		text_format(text, " and %u more", left - NAMED_MAX);
	}
	text_add(text, "; the table has their runs.");
}

void sweep_say_left_out(const struct sweep_axes *axes, struct text *text)
{
	if (axes->count > 2) {
		say_not_drawn(axes, false, text);
		say_not_drawn(axes, true, text);
	}
}

/* ---- runs that reject ---- */

bool sweep_is_rejecting(const struct sweep_file *sweep, const struct sweep_run *run)
{
	double rejected = sweep_rejected(run);
	bool is_known = sweep->trace_requests.has_value && sweep->trace_requests.value > 0;

	return rejected > (is_known ? rejecting_from * sweep->trace_requests.value : 0);
}

void sweep_say_rejecting(const struct sweep_file *sweep, struct text *text)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < sweep->run_count; i++) {
		const struct sweep_run *run = &sweep->runs[i];
		if (!sweep_is_rejecting(sweep, run)) {
			continue;
		}
		if (count++ < NAMED_RUNS_MAX) {
			text_add(text, count > 1 ? ", "
						 : " Runs that rejected more than 1 % of the "
						   "requests look better than they are, since only "
						   "what they took counts: ");
			text_add(text, run->name);
			if (sweep->trace_requests.has_value && sweep->trace_requests.value > 0) {
				text_format(text, " (%.1f %%)",
					100 * sweep_rejected(run) / sweep->trace_requests.value);
			}
		}
	}
	if (count > NAMED_RUNS_MAX) {
		text_format(text, " and %u more", count - NAMED_RUNS_MAX);
	}
	text_add(text, count > 0 ? "." : "");
}

/* ---- runs that do not keep up ---- */

void sweep_say_overloaded(const struct sweep_file *sweep, struct text *text)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < sweep->run_count; i++) {
		const struct sweep_run *run = &sweep->runs[i];
		if (sweep_is_overloaded(run) && count++ < NAMED_RUNS_MAX) {
			text_add(text, count > 1 ? ", " : " Overloaded: ");
			text_add(text, run->name);
		}
	}
	if (count > NAMED_RUNS_MAX) {
		text_format(text, " and %u more", count - NAMED_RUNS_MAX);
	}
	text_add(text, count > 0 ? "; what these show of single requests only reflects the length "
				   "of the trace."
				 : "");
}
