#ifndef BENCH_PRICE_STEP_VIEWS_H
#define BENCH_PRICE_STEP_VIEWS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/text.h"
#include "engine/batch.h"

/* Ways to tell steps apart, to see which of them a profile prices wrongly. A view puts a step into
   one of its groups, or leaves it out. */

/* A recorded step and its price. */
struct priced_step {
	struct step_counts counts;
	uint64_t start_ns;
	uint64_t measured_ns, measured_host_ns;
	uint64_t predicted_ns, predicted_host_ns;
	bool is_ahead;	 /* its host time is nearer to that of a step that was launched ahead */
	bool has_hull;	 /* the profile was fitted to steps, */
	bool is_outside; /* and this one is unlike them */
	double recent;	 /* share of the STEP_RECENT_NS before it that went to steps with prompts */
};

#define STEP_RECENT_NS UINT64_C(200000000)

enum { STEP_GROUPS = 40, STEP_NO_GROUP = STEP_GROUPS };

struct step_view {
	const char *title;
	uint32_t (*group)(const struct priced_step *step); /* below STEP_GROUPS, or STEP_NO_GROUP */
	void (*name)(uint32_t group, struct text *text);
};

enum { STEP_VIEWS = 10 };
extern const struct step_view step_views[STEP_VIEWS];

/* The octave of a count: 0 holds 0, i holds [2^(i - 1), 2^i). */
uint32_t step_octave(uint64_t count);

/* Adds "0", "1" or "16 to 31". */
void step_octave_name(uint32_t octave, struct text *text);

#endif
