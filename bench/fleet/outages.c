#include "bench/fleet/outages.h"

#include "engine/base/memory.h"
#include "engine/base/number.h"

#include <stdlib.h>
#include <string.h>

static const char *const kind_names[] = {
	[OUTAGE_FAIL] = "fail",
	[OUTAGE_DRAIN] = "drain",
	[OUTAGE_JOIN] = "join",
};

enum { KIND_COUNT = sizeof(kind_names) / sizeof(kind_names[0]), SECONDS_MAX = 1000000000 };

/* Reads KIND:REPLICA@SECONDS. text may be written to. */
static bool parse_one(char *text, uint32_t replica_count, struct outage *out)
{
	char *colon = strchr(text, ':');
	char *at = colon == NULL ? NULL : strchr(colon, '@');
	uint64_t replica, millionths;
	uint32_t kind = 0;

	if (at == NULL) {
		return false;
	}
	*colon = '\0';
	*at = '\0';
	while (kind < KIND_COUNT && strcmp(text, kind_names[kind]) != 0) {
		kind++;
	}
	if (kind == KIND_COUNT || !text_to_u64(colon + 1, &replica) || replica >= replica_count ||
		!text_to_millionths(at + 1, &millionths) ||
		millionths > SECONDS_MAX * UINT64_C(1000000)) {
		return false;
	}
	*out = (struct outage){.time_ns = millionths * 1000,
		.kind = (enum outage_kind)kind,
		.replica = (uint32_t)replica};
	return true;
}

/* By insertion, since equal times keep the order of the list. */
static void add(struct outages *outages, const struct outage *outage)
{
	uint32_t at = outages->count++;

	for (; at > 0 && outages->list[at - 1].time_ns > outage->time_ns; at--) {
		outages->list[at] = outages->list[at - 1];
	}
	outages->list[at] = *outage;
}

enum status outages_parse(
	struct outages *outages, const char *text, uint32_t replica_count, struct error *error)
{
	*outages = (struct outages){0};
	if (text == NULL) {
		return STATUS_OK;
	}
	outages->list = memory_take(OUTAGES_MAX, sizeof(*outages->list));
	while (text != NULL) {
		const char *comma = strchr(text, ',');
		size_t bytes = comma == NULL ? strlen(text) : (size_t)(comma - text);
		struct outage outage;
		char one[64] = "";
		if (bytes < sizeof(one)) {
			memcpy(one, text, bytes);
		}
		if (!parse_one(one, replica_count, &outage) || outages->count == OUTAGES_MAX) {
			return error_set(error, STATUS_USAGE,
				"--outages: found '%.64s', expected at most %d of fail:REPLICA@"
				"SECONDS, drain: and join:, with a replica below %u and seconds in "
				"[0, %d]",
				text, OUTAGES_MAX, replica_count, SECONDS_MAX);
		}
		add(outages, &outage);
		text = comma == NULL ? NULL : comma + 1;
	}
	return STATUS_OK;
}

/* ---- those without effect ---- */

enum presence_state { STATE_UNKNOWN, STATE_UP, STATE_DRAINED, STATE_GONE };

/* What an outage found its replica in: what the one before it left, or the start of the run. */
static enum presence_state state_before(const struct outages *outages, uint32_t index)
{
	static const enum presence_state left[] = {
		[OUTAGE_FAIL] = STATE_GONE,
		[OUTAGE_DRAIN] = STATE_DRAINED,
		[OUTAGE_JOIN] = STATE_UP,
	};
	const struct outage *outage = &outages->list[index];
	enum presence_state state = STATE_UNKNOWN;

	for (uint32_t i = 0; i < index; i++) {
		const struct outage *other = &outages->list[i];
		if (other->replica != outage->replica) {
			continue;
		}
		/* a replica that is gone has nothing to drain */
		bool is_gone = state == STATE_GONE && other->kind == OUTAGE_DRAIN;
		state = is_gone ? STATE_GONE : left[other->kind];
	}
	if (state != STATE_UNKNOWN) {
		return state;
	}
	return outage->kind == OUTAGE_JOIN ? STATE_GONE : STATE_UP;
}

/* Why an outage that happened changed nothing; NULL: it did. */
static const char *vain_reason(const struct outages *outages, uint32_t index)
{
	enum presence_state state = state_before(outages, index);

	switch (outages->list[index].kind) {
	case OUTAGE_FAIL:
		return state == STATE_GONE ? "was gone already" : NULL;
	case OUTAGE_DRAIN:
		return state == STATE_GONE	? "was gone already"
		       : state == STATE_DRAINED ? "was drained already"
						: NULL;
	default:
		return state == STATE_UP ? "was there already" : NULL;
	}
}

/* "outage fail:0@5000", or "outages fail:0@5000 and 2 others", of `count`. */
static void add_named(const struct outage *first, uint32_t count, struct text *out)
{
	char seconds[NUMBER_TEXT_BYTES];

	short_decimal_text(seconds, first->time_ns, 9);
	text_format(out, "%s %s:%u@%s", word_of_count(count, "outage", "outages"),
		kind_names[first->kind], first->replica, seconds);
	if (count > 1) {
		text_format(
			out, " and %u %s", count - 1, word_of_count(count - 1, "other", "others"));
	}
}

void outages_add_idle(const struct outages *outages, uint64_t end_ns, struct text *out)
{
	uint32_t vain_count = 0, first = 0, left = outages->count - outages->next;

	for (uint32_t i = outages->next; i > 0; i--) {
		if (vain_reason(outages, i - 1) != NULL) {
			vain_count++;
			first = i - 1;
		}
	}
	if (vain_count > 0) {
		const struct outage *outage = &outages->list[first];
		add_named(outage, vain_count, out);
		text_format(out, " changed nothing: replica %u %s\n", outage->replica,
			vain_reason(outages, first));
	}
	if (left > 0) {
		char seconds[NUMBER_TEXT_BYTES];
		rounded_text(seconds, end_ns, 1000000000, 3, "-");
		add_named(&outages->list[outages->next], left, out);
		text_format(out, " never took effect: the run ended at %s s\n", seconds);
	}
}

void outages_close(struct outages *outages)
{
	free(outages->list);
	*outages = (struct outages){0};
}
