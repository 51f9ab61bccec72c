#include "bench/price/step_views.h"

#include "engine/base/integer.h"
#include "engine/step_record.h"

uint32_t step_octave(uint64_t count)
{
	uint32_t octave = 0;

	for (; count > 0 && octave < STEP_GROUPS - 1; count >>= 1) {
		octave++;
	}
	return octave;
}

void step_octave_name(uint32_t octave, struct text *text)
{
	uint64_t low = octave == 0 ? 0 : UINT64_C(1) << (octave - 1);

	text_format(text, "%llu", (unsigned long long)low);
	if (octave > 1) {
		text_format(text, " to %llu", (unsigned long long)(2 * low - 1));
	}
}

static bool decodes_only(const struct priced_step *step)
{
	return step_kind_of(&step->counts) == STEP_DECODE;
}

/* ---- what the step computes ---- */

static uint32_t kind_of(const struct priced_step *step)
{
	return step_kind_of(&step->counts);
}

static void kind_name(uint32_t group, struct text *text)
{
	static const char *const names[STEP_KIND_COUNT] = {
		"decode rows only", "prompts only", "both"};

	text_add(text, names[group]);
}

static uint32_t rows_of(const struct priced_step *step)
{
	return decodes_only(step) ? step_octave(step->counts.decode_rows) : STEP_NO_GROUP;
}

static uint32_t context_of(const struct priced_step *step)
{
	uint64_t rows = step->counts.decode_rows;

	return decodes_only(step) && rows > 0
		       ? step_octave(step->counts.decode_context_tokens / rows)
		       : STEP_NO_GROUP;
}

static uint32_t shared_of(const struct priced_step *step)
{
	return decodes_only(step) ? step_octave(step->counts.shared_tokens) : STEP_NO_GROUP;
}

static uint32_t prompt_tokens_of(const struct priced_step *step)
{
	return decodes_only(step) ? STEP_NO_GROUP : step_octave(step->counts.prefill_tokens);
}

static uint32_t beside_of(const struct priced_step *step)
{
	return decodes_only(step) ? STEP_NO_GROUP : step_octave(step->counts.decode_rows);
}

static uint32_t prompt_context_of(const struct priced_step *step)
{
	return decodes_only(step) ? STEP_NO_GROUP
				  : step_octave(step->counts.prefill_longest_context);
}

/* ---- when it was computed ---- */

static uint32_t launch_of(const struct priced_step *step)
{
	return step->is_ahead ? 1 : 0;
}

static void launch_name(uint32_t group, struct text *text)
{
	text_add(text, group == 1 ? "before the step in front ended" : "after it");
}

enum { RECENT_SHARES = 5 };

/* None, then a quarter each. */
static uint32_t recent_of(const struct priced_step *step)
{
	return step->recent <= 0 ? 0 : u32_min(1 + (uint32_t)(4 * step->recent), RECENT_SHARES - 1);
}

static void recent_name(uint32_t group, struct text *text)
{
	static const char *const names[RECENT_SHARES] = {
		"nothing", "up to a quarter", "up to a half", "up to three quarters", "more"};

	text_add(text, names[group]);
}

static uint32_t hull_of(const struct priced_step *step)
{
	return !step->has_hull ? STEP_NO_GROUP : step->is_outside ? 1 : 0;
}

static void hull_name(uint32_t group, struct text *text)
{
	text_add(text, group == 1 ? "outside" : "inside");
}

const struct step_view step_views[STEP_VIEWS] = {
	{"what steps compute", kind_of, kind_name},
	{"steps of decode rows only, by rows", rows_of, step_octave_name},
	{"the same, by context tokens a row", context_of, step_octave_name},
	{"the same, by tokens that another row shares", shared_of, step_octave_name},
	{"steps with prompts, by prompt tokens", prompt_tokens_of, step_octave_name},
	{"the same, by decode rows beside them", beside_of, step_octave_name},
	{"the same, by the longest context of a prompt token", prompt_context_of, step_octave_name},
	{"launched", launch_of, launch_name},
	{"share of the 0.2 s before that went to steps with prompts", recent_of, recent_name},
	{"what the profile was fitted to", hull_of, hull_name},
};
