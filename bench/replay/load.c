#include "bench/replay/load.h"

#include "bench/options/options.h"
#include "engine/base/number.h"

#include <stdio.h>
#include <string.h>

enum { RAMP_TEXT_BYTES = 128 };

static const uint64_t RATE_MAX = UINT64_C(1000000000000); /* a million requests a second */

/* Cuts "FROM:TO:STEPS" into its parts. */
static enum status parse_ramp(
	const char *text, struct arrival_profile *profile, struct error *error)
{
	char copy[RAMP_TEXT_BYTES];
	uint64_t steps;

	snprintf(copy, sizeof(copy), "%s", text);
	char *to = strchr(copy, ':');
	char *count = to == NULL ? NULL : strchr(to + 1, ':');
	if (count != NULL) {
		*to++ = '\0';
		*count++ = '\0';
	}
	if (count == NULL || !text_to_millionths(copy, &profile->rate_from) ||
		!text_to_millionths(to, &profile->rate_to) || !text_to_u64(count, &steps) ||
		profile->rate_from == 0 || profile->rate_from > RATE_MAX || profile->rate_to == 0 ||
		profile->rate_to > RATE_MAX || steps < 2 || steps > ARRIVAL_STEPS_MAX) {
		return error_set(error, STATUS_USAGE,
			"--ramp: found '%s', expected FROM:TO:STEPS, two rates in requests/s above "
			"0 "
			"and 2 to %d steps",
			text, ARRIVAL_STEPS_MAX);
	}
	profile->step_count = (uint32_t)steps;
	return STATUS_OK;
}

static enum status choose_kind(
	const struct load *load, struct arrival_profile *profile, struct error *error)
{
	bool is_trace = strcmp(load->arrivals, "trace") == 0;

	if (strcmp(load->arrivals, "gamma") == 0 || (is_trace && load->burstiness > 0)) {
		profile->kind = ARRIVALS_GAMMA;
	} else if (strcmp(load->arrivals, "constant") == 0) {
		profile->kind = ARRIVALS_CONSTANT;
	} else if (strcmp(load->arrivals, "poisson") == 0 || is_trace) {
		profile->kind = ARRIVALS_POISSON;
	} else {
		return error_set(error, STATUS_USAGE,
			"--arrivals: found '%s', expected one of poisson, gamma, constant",
			load->arrivals);
	}
	if (load->burstiness > 0 && profile->kind != ARRIVALS_GAMMA) {
		return error_set(error, STATUS_USAGE,
			"--burstiness shapes --arrivals gamma; %s arrivals have none",
			load->arrivals);
	}
	profile->burstiness_millionths = load->burstiness > 0 ? load->burstiness : 1000000;
	return STATUS_OK;
}

enum status load_profile(const struct load *load, struct arrival_profile *out, bool *has_profile,
	struct error *error)
{
	bool has_ramp = strcmp(load->ramp, "none") != 0;
	bool has_rate = load->rate > 0;

	*out = (struct arrival_profile){.resolution_ns = 1, .step_count = 1};
	*has_profile = has_rate || has_ramp;
	if (has_rate && has_ramp) {
		return error_set(error, STATUS_USAGE,
			"--rate is one rate and --ramp several: give one of them");
	}
	if (!*has_profile) {
		if (strcmp(load->arrivals, "trace") != 0 || load->burstiness > 0) {
			return error_set(error, STATUS_USAGE,
				"%s draws arrivals, so it needs --rate or --ramp",
				load->burstiness > 0 ? "--burstiness" : "--arrivals");
		}
		return STATUS_OK;
	}
	if (has_ramp && load->duration == 0) {
		return error_set(error, STATUS_USAGE,
			"--ramp divides --duration into its steps: give that too");
	}
	enum status status = choose_kind(load, out, error);
	if (status != STATUS_OK) {
		return status;
	}
	out->rate_from = load->rate;
	out->rate_to = load->rate;
	if (has_ramp) {
		status = parse_ramp(load->ramp, out, error);
		out->step_ns = status == STATUS_OK ? load->duration * 1000 / out->step_count : 0;
	}
	return status;
}
