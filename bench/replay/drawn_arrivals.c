#include "bench/replay/drawn_arrivals.h"

#include "engine/base/check.h"

#include "bench/options/options.h"
#include "engine/base/number.h"

#include <stdio.h>
#include <string.h>

enum { RAMP_TEXT_BYTES = 128 };

/* Reads FROM:TO:STEPS. */
static enum status parse_ramp(
	const char *text, struct arrival_profile *profile, struct error *error)
{
	const struct option *rate = option_table_find(&replay_options, "rate");
	char copy[RAMP_TEXT_BYTES], rates[OPTION_EXPECTED_BYTES];
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
		!option_fits(rate, profile->rate_from) || !option_fits(rate, profile->rate_to) ||
		steps < 2 || steps > ARRIVAL_STEPS_MAX) {
		option_expected(rate, rates);
		return error_set(error, STATUS_USAGE,
			"--ramp: found '%.*s', expected FROM:TO:STEPS, two rates in requests/s, "
			"each %s, and 2 to %d steps",
			RAMP_TEXT_BYTES, text, rates, ARRIVAL_STEPS_MAX);
	}
	profile->step_count = (uint32_t)steps;
	return STATUS_OK;
}

static enum status choose_kind(
	const struct replay_config *config, struct arrival_profile *profile, struct error *error)
{
	static const enum arrival_kind kinds[] = {
		[ARRIVE_BY_TRACE] = ARRIVALS_POISSON,
		[ARRIVE_POISSON] = ARRIVALS_POISSON,
		[ARRIVE_GAMMA] = ARRIVALS_GAMMA,
		[ARRIVE_CONSTANT] = ARRIVALS_CONSTANT,
	};
	bool has_shape = config->burstiness > 0;

	profile->kind = kinds[config->arrivals];
	if (has_shape && config->arrivals == ARRIVE_BY_TRACE) {
		profile->kind = ARRIVALS_GAMMA;
	}
	if (has_shape && profile->kind != ARRIVALS_GAMMA) {
		return error_set(error, STATUS_USAGE,
			"--burstiness shapes --arrivals gamma; %s arrivals have none",
			profile->kind == ARRIVALS_POISSON ? "poisson" : "constant");
	}
	profile->burstiness_millionths = has_shape ? config->burstiness : 1000000;
	return STATUS_OK;
}

uint32_t drawn_arrivals_word(const struct arrival_profile *profile)
{
	switch (profile->kind) {
	case ARRIVALS_POISSON:
		return ARRIVE_POISSON;
	case ARRIVALS_GAMMA:
		return ARRIVE_GAMMA;
	case ARRIVALS_CONSTANT:
		return ARRIVE_CONSTANT;
	case ARRIVALS_AT_ONCE:
		return ARRIVE_AT_ONCE;
	}
	check_unreachable("an unknown kind of arrivals");
}

static enum status all_at_once(
	const struct replay_config *config, struct arrival_profile *out, struct error *error)
{
	const char *other = config->rate > 0	     ? "--rate"
			    : config->ramp != NULL   ? "--ramp"
			    : config->burstiness > 0 ? "--burstiness"
						     : NULL;

	if (other != NULL) {
		return error_set(error, STATUS_USAGE,
			"%s spreads arrivals, --arrivals at-once (--rate inf) has all at time 0: "
			"give one of them",
			other);
	}
	out->kind = ARRIVALS_AT_ONCE;
	out->rate_from = out->rate_to = 1; /* of no effect */
	return STATUS_OK;
}

enum status drawn_arrivals(const struct replay_config *config, struct arrival_profile *out,
	bool *has_profile, struct error *error)
{
	bool has_ramp = config->ramp != NULL;
	bool has_rate = config->rate > 0;

	*out = (struct arrival_profile){.resolution_ns = 1, .step_count = 1};
	*has_profile = has_rate || has_ramp || config->arrivals == ARRIVE_AT_ONCE;
	if (config->arrivals == ARRIVE_AT_ONCE) {
		return all_at_once(config, out, error);
	}
	if (has_rate && has_ramp) {
		return error_set(error, STATUS_USAGE,
			"--rate is one rate and --ramp several: give one of them");
	}
	if (!*has_profile) {
		if (config->arrivals != ARRIVE_BY_TRACE || config->burstiness > 0) {
			return error_set(error, STATUS_USAGE,
				"%s draws arrivals, so it needs --rate or --ramp",
				config->burstiness > 0 ? "--burstiness" : "--arrivals");
		}
		return STATUS_OK;
	}
	if (has_ramp && config->duration_s == 0) {
		return error_set(error, STATUS_USAGE,
			"--ramp divides --duration into its steps: give that too");
	}
	TRY(choose_kind(config, out, error));
	out->rate_from = config->rate;
	out->rate_to = config->rate;
	if (has_ramp) {
		TRY(parse_ramp(config->ramp, out, error));
		out->step_ns = config->duration_s * 1000 / out->step_count;
	}
	return STATUS_OK;
}
