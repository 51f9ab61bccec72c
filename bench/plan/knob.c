#include "bench/plan/knob.h"

#include "engine/base/check.h"
#include "engine/base/number.h"

#include <stdio.h>
#include <string.h>

#define MILLION UINT64_C(1000000)

const struct knob knobs[KNOB_COUNT] = {
	[KNOB_SPEEDUP] = {"speedup", "speedup", "", false, true, MILLION},
	[KNOB_RATE] = {"rate", "rate", "requests/s", false, true, MILLION},
	[KNOB_CONCURRENCY] = {"concurrency", "concurrency", "requests at a time", false, false, 16},
	[KNOB_KV_BLOCKS] = {"kv-blocks", "kv_blocks", "KV blocks", true, false, 0},
	[KNOB_REPLICAS] = {"replicas", "replicas", "replicas", true, false, 1},
};

const char *knob_word(uint32_t index)
{
	return index < KNOB_COUNT ? knobs[index].name : NULL;
}

void knob_range(enum knob_index knob, uint64_t *minimum, uint64_t *maximum)
{
	const struct option *option = option_table_find(&replay_options, knobs[knob].name);

	check(option != NULL);
	*minimum = option->minimum;
	*maximum = option->maximum;
}

/* The option's field. */
static uint64_t *field_of(enum knob_index knob, struct replay_config *config, bool **given)
{
	switch (knob) {
	case KNOB_RATE:
		*given = &config->given.rate;
		return &config->rate;
	case KNOB_CONCURRENCY:
		*given = &config->given.concurrency;
		return &config->concurrency;
	case KNOB_KV_BLOCKS:
		*given = &config->given.kv_blocks;
		return &config->kv_blocks;
	case KNOB_REPLICAS:
		*given = &config->given.replicas;
		return &config->replicas;
	default:
		*given = &config->given.speedup;
		return &config->speedup;
	}
}

uint64_t knob_given(enum knob_index knob, const struct replay_config *config)
{
	struct replay_config copy = *config;
	bool *given;
	uint64_t *field = field_of(knob, &copy, &given);

	return *given ? *field : 0;
}

void knob_set(enum knob_index knob, struct replay_config *config, uint64_t load)
{
	bool *given;
	uint64_t *field = field_of(knob, config, &given);

	*field = load;
	*given = true;
}

double knob_value(enum knob_index knob, uint64_t load)
{
	return knobs[knob].is_fraction ? (double)load / 1e6 : (double)load;
}

void knob_text(enum knob_index knob, uint64_t load, char *text)
{
	short_decimal_text(text, load, knobs[knob].is_fraction ? 6 : 0);
}
