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
				"SECONDS, drain: and join:, with a replica below %u",
				text, OUTAGES_MAX, replica_count);
		}
		add(outages, &outage);
		text = comma == NULL ? NULL : comma + 1;
	}
	return STATUS_OK;
}

void outages_close(struct outages *outages)
{
	free(outages->list);
	*outages = (struct outages){0};
}
