#include "bench/fleet/outages.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/text.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"

/* --outages against a list that is sorted by looking at all pairs. */

enum { EVENTS_MOST = 12, REPLICAS = 4 };

static const char *const names[] = {"fail", "drain", "join"};

struct event {
	uint64_t half_s; /* in halves of a second */
	uint32_t kind, replica;
};

/* Whether event i comes before event k: earlier, or at the same moment and earlier in the list. */
static bool precedes(const struct event *events, uint32_t i, uint32_t k)
{
	return events[i].half_s != events[k].half_s ? events[i].half_s < events[k].half_s : i < k;
}

static void body_order(struct prop *prop, const void *context)
{
	uint32_t count = prop_range(prop, 1, EVENTS_MOST);
	struct event events[EVENTS_MOST];
	struct outages outages;
	struct text text = {0};
	struct error error = {0};

	(void)context;
	for (uint32_t i = 0; i < count; i++) {
		events[i] = (struct event){
			prop_below(prop, 5), prop_range(prop, 0, 2), prop_range(prop, 0, 3)};
		text_format(&text, "%s%s:%u@%g", i == 0 ? "" : ",", names[events[i].kind],
			events[i].replica, (double)events[i].half_s / 2);
	}
	const char *list = text.bytes == NULL ? "" : text.bytes;
	prop_log(prop, "%s", list);
	enum status status = outages_parse(&outages, list, REPLICAS, &error);
	require(status == STATUS_OK, "%s", error.text);
	require_equal(outages.count, count);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t place = 0;
		for (uint32_t k = 0; k < count; k++) {
			place += k != i && precedes(events, k, i);
		}
		const struct outage *found = &outages.list[place];
		require_equal(found->time_ns, events[i].half_s * 500000000);
		require_equal(found->kind, events[i].kind);
		require_equal(found->replica, events[i].replica);
	}
	for (; outages.next < count; outages.next++) {
		require_equal(outages_next_ns(&outages), outages.list[outages.next].time_ns);
	}
	require_equal(outages_next_ns(&outages), UINT64_MAX);
	outages_close(&outages);
	text_deinit(&text);
}

Test(outages, events_of_one_moment_keep_the_order_of_the_list)
{
	const struct prop_options options = {.name = "outages", .body = body_order, .trials = 500};

	cr_assert(prop_holds(&options));
}

Test(outages, others_are_refused)
{
	static const char *const bad[] = {"", "fail", "fail:1", "fail:@1", "fail:1@", "fail:4@1",
		"Fail:1@1", "fail:1@-1", "fail:1@1,", ",fail:1@1", "leave:1@1", "fail:1@1000000001",
		"fail:1@0.0000001"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct outages outages;
		struct error error = {0};
		require(outages_parse(&outages, bad[i], REPLICAS, &error) == STATUS_USAGE,
			"'%s' is taken", bad[i]);
		require(strstr(error.text,
				"with a replica below 4 and seconds in [0, 1000000000]") != NULL,
			"%s", error.text);
		outages_close(&outages);
	}
}

/* ---- those without effect ---- */

/* What is said of a list of which `next` outages happened before the run ended at 347.5 s. */
static void require_idle(const char *list, uint32_t next, const char *expected)
{
	struct outages outages;
	struct text text = {0};
	struct error error = {0};

	require(outages_parse(&outages, list, REPLICAS, &error) == STATUS_OK, "%s", error.text);
	outages.next = next;
	outages_add_idle(&outages, 347500000000, &text);
	const char *found = text.bytes == NULL ? "" : text.bytes;
	require(strcmp(found, expected) == 0, "%s: found '%s'", list, found);
	text_deinit(&text);
	outages_close(&outages);
}

Test(outages, those_without_effect_are_named)
{
	require_idle("fail:0@20,join:0@30,fail:0@40,drain:1@50,fail:1@60,join:1@70", 6, "");
	require_idle("join:2@0,drain:2@1,join:2@2", 3, "");
	require_idle("fail:0@5000", 0,
		"outage fail:0@5000 never took effect: the run ended at 347.500 s\n");
	require_idle("fail:0@20,join:0@5000.25,fail:1@6000", 1,
		"outages join:0@5000.25 and 1 other never took effect: the run ended at 347.500 "
		"s\n");
	require_idle("fail:0@20,fail:0@30", 2,
		"outage fail:0@30 changed nothing: replica 0 was gone already\n");
	require_idle("fail:0@20,drain:0@30,fail:0@40", 3,
		"outages drain:0@30 and 1 other changed nothing: replica 0 was gone already\n");
	require_idle("drain:3@20,drain:3@30", 2,
		"outage drain:3@30 changed nothing: replica 3 was drained already\n");
	require_idle("fail:1@20,join:1@30,join:1@40,fail:0@348,fail:0@349,fail:0@350", 3,
		"outage join:1@40 changed nothing: replica 1 was there already\n"
		"outages fail:0@348 and 2 others never took effect: the run ended at 347.500 s\n");
}
