#include "bench/fleet/replicas.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/harness/process.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"

/* When replicas could work, against a mark for every moment, and how even their load was. */

enum { REPLICAS = 3, MOMENTS = 60 };

static void body_presence(struct prop *prop, const void *context)
{
	struct presence presence;
	bool is_there[REPLICAS] = {false}, marks[REPLICAS][MOMENTS];

	(void)context;
	presence_open(&presence, REPLICAS);
	for (uint32_t now = 0; now < MOMENTS; now++) {
		for (uint32_t change = prop_below(prop, 3) == 0; change > 0; change--) {
			uint32_t replica = prop_range(prop, 0, REPLICAS - 1);
			is_there[replica] = prop_chance(prop, 1, 2);
			(is_there[replica] ? presence_begin : presence_end)(
				&presence, replica, now);
		}
		for (uint32_t i = 0; i < REPLICAS; i++) {
			marks[i][now] = is_there[i];
		}
	}
	uint32_t start = prop_range(prop, 0, MOMENTS), end = prop_range(prop, start, MOMENTS);
	uint64_t all = 0;
	for (uint32_t i = 0; i < REPLICAS; i++) {
		uint64_t marked = 0;
		for (uint32_t now = start; now < end; now++) {
			marked += marks[i][now];
		}
		require_equal(presence_of(&presence, i, start, end), marked);
		all += marked;
	}
	require_equal((uint64_t)presence_of_all(&presence, start, end), all);
	presence_close(&presence);
}

Test(replicas, presence_is_that_of_every_moment)
{
	const struct prop_options options = {
		.name = "presence", .body = body_presence, .trials = 2000};

	cr_assert(prop_holds(&options));
}

static struct fleet_figures fleet_of(const struct replica_figures *each, uint32_t count)
{
	return (struct fleet_figures){.count = count, .each = each};
}

static void require_near(double found, double expected)
{
	require(fabs(found - expected) < 1e-12, "%.12g, not %.12g", found, expected);
}

Test(replicas, evenness_is_that_of_the_tokens_where_all_are_there)
{
	const struct replica_figures each[] = {
		{.prompt_tokens = 100, .output_tokens = 200, .up_ns = 7},
		{.prompt_tokens = 100, .up_ns = 7},
		{.up_ns = 7},
		{.output_tokens = 400, .up_ns = 7},
	};
	struct fleet_figures fleet = fleet_of(each, 4);

	require_near(replicas_imbalance(&fleet), 400 * 4 / 800.0);
	require_near(replicas_jain(&fleet), 800.0 * 800 / (4 * (90000 + 10000 + 160000)));
	fleet.count = 3; /* one has three quarters */
	require_near(replicas_imbalance(&fleet), 300 * 3 / 400.0);
	fleet = fleet_of(&each[2], 1); /* nothing was done */
	require_near(replicas_imbalance(&fleet), 1);
	require_near(replicas_jain(&fleet), 1);
}

/* A replica that was there for a quarter of the time and had a quarter of the others' tokens was
   loaded as they were, and one that never came changes nothing. */
Test(replicas, evenness_is_over_the_time_in_which_a_replica_could_work)
{
	const struct replica_figures even[] = {
		{.output_tokens = 400, .up_ns = 8},
		{.output_tokens = 100, .up_ns = 2},
		{.up_ns = 0},
		{.prompt_tokens = 400, .up_ns = 8},
	};
	const struct replica_figures uneven[] = {
		{.output_tokens = 300, .up_ns = 1000},
		{.output_tokens = 300, .up_ns = 500},
	};
	struct fleet_figures fleet = fleet_of(even, 4);

	require_near(replicas_imbalance(&fleet), 1);
	require_near(replicas_jain(&fleet), 1);
	/* 0.3 and 0.6 a ns, 0.4 on the mean */
	fleet = fleet_of(uneven, 2);
	require_near(replicas_imbalance(&fleet), 1.5);
	require_near(replicas_jain(&fleet), 600.0 * 600 / (1500 * (90.0 + 180.0)));
}

/* One of several has it all, down to a single token. */
Test(replicas, evenness_does_not_depend_on_how_much_was_done)
{
	for (uint64_t tokens = 1; tokens < 1000000; tokens *= 7) {
		for (uint32_t count = 1; count <= 4; count++) {
			const struct replica_figures each[] = {
				{.output_tokens = tokens, .up_ns = 5}, {.up_ns = 5}, {.up_ns = 5},
				{.up_ns = 5}};
			struct fleet_figures fleet = fleet_of(each, count);
			require_near(replicas_imbalance(&fleet), count);
			require_near(replicas_jain(&fleet), 1.0 / count);
		}
	}
}

/* ---- what is printed and written ---- */

static const struct replica_figures printed_replicas[] = {
	{.group = "big",
		.submitted = 101,
		.finished = 92,
		.preemptions = 13,
		.steps = 3004,
		.busy_ns = 7654321987,
		.prompt_tokens = 40005,
		.output_tokens = 1600,
		.query_tokens = 30000,
		.hit_tokens = 12345,
		.lost_tokens = 7,
		.up_ns = 8000000009},
	{.submitted = 55, .prompt_tokens = 41605, .lost_tokens = 4, .up_ns = 8000000009},
};

static struct fleet_figures printed_fleet(void)
{
	struct fleet_figures fleet = fleet_of(printed_replicas, 2);

	fleet.router = "prefix";
	fleet.has_prompt_ids = fleet.knows_regret = true;
	fleet.regret_blocks = 321;
	fleet.retries = 6;
	fleet.refused = 8;
	fleet.whole_hit_tokens = 23456;
	fleet.whole_query_tokens = 50000;
	return fleet;
}

static char *table_of(const struct fleet_figures *fleet)
{
	struct capture capture;

	fflush(stdout);
	capture_begin(&capture, STDOUT_FILENO);
	replicas_print(fleet);
	fflush(stdout);
	return capture_end(&capture);
}

#define HEADER                                                                                     \
	"\n\n  replica   requests        prompt        output    hit % preemptions      steps    " \
	" "                                                                                        \
	"busy s\n"

Test(replicas, every_figure_is_printed)
{
	struct fleet_figures fleet = printed_fleet();
	char *text = table_of(&fleet);

	cr_assert_str_eq(text,
		"\n  fleet     2 replicas behind prefix; most tokens over mean 1.000, Jain's index "
		"1.0000, regret 321 blocks; one cache with all the memory would hit 46.91%\n"
		"            6 requests sent again after a failure, which lost 11 output tokens; 8 "
		"rejected by a full queue" HEADER "        0        101         40005          "
		"1600    41.15          13       3004   "
		"   7.654  big\n"
		"        1         55         41605             0        -           0          0  "
		" "
		"   0.000\n");
	free(text);
	fleet.has_prompt_ids = fleet.knows_regret = false;
	fleet.retries = 1;
	fleet.refused = 0;
	text = table_of(&fleet);
	require(strstr(text, "Jain's index 1.0000\n            1 request sent again") != NULL, "%s",
		text);
	require(strstr(text, " 1600        -          13") != NULL, "%s", text);
	free(text);
	fleet.retries = 0;
	text = table_of(&fleet);
	require(strstr(text, "Jain's index 1.0000" HEADER) != NULL, "%s", text);
	free(text);
}

/* Of a large fleet the first rows. */
Test(replicas, of_many_the_first_64_are_printed)
{
	static struct replica_figures each[65];
	struct fleet_figures fleet = fleet_of(each, 64);

	fleet.router = "random";
	char *text = table_of(&fleet);
	require(strstr(text, "\n       63 ") != NULL && strstr(text, "...") == NULL, "%s", text);
	free(text);
	fleet.count = 65;
	text = table_of(&fleet);
	require(strstr(text, "\n       63 ") != NULL && strstr(text, "\n       64 ") == NULL, "%s",
		text);
	require(strstr(text, "\n  ...     summary.json has all 65\n") != NULL, "%s", text);
	free(text);
}

/* ---- the printed table ---- */

static void require_printed(const struct fleet_figures *fleet, const char *expected)
{
	struct capture capture;

	capture_begin(&capture, STDOUT_FILENO);
	replicas_print(fleet);
	char *text = capture_end(&capture);
	cr_assert_str_eq(text, expected);
	free(text);
}

#define REPLICA_HEADER                                                                             \
	"\n\n  replica   requests        prompt        output    hit % preemptions      steps    " \
	" "                                                                                        \
	"busy s\n"

Test(replicas, the_printed_table)
{
	static const struct replica_figures each[] = {
		{.submitted = 12,
			.finished = 11,
			.preemptions = 3,
			.steps = 1234,
			.busy_ns = 5678900000,
			.prompt_tokens = 3000,
			.output_tokens = 1000,
			.query_tokens = 3000,
			.hit_tokens = 1000,
			.lost_tokens = 7,
			.up_ns = 10000000000},
		{.group = "gpu=h100",
			.submitted = 4,
			.finished = 4,
			.steps = 100,
			.busy_ns = 999999,
			.prompt_tokens = 900,
			.output_tokens = 100,
			.lost_tokens = 30,
			.up_ns = 10000000000},
	};
	struct presence presence;
	struct fleet_figures fleet = fleet_of(each, 2);

	presence_open(&presence, 2);
	fleet.presence = &presence;
	fleet.router = "prefix";
	fleet.has_prompt_ids = fleet.knows_regret = true;
	fleet.regret_blocks = 17;
	fleet.retries = 2;
	fleet.refused = 5;
	fleet.whole_hit_tokens = 1;
	fleet.whole_query_tokens = 3;
	require_printed(&fleet,
		"\n  fleet     2 replicas behind prefix; most tokens over mean 1.600, Jain's index "
		"0.7353, regret 17 blocks; one cache with all the memory would hit 33.33%"
		"\n            2 requests sent again after a failure, which lost 37 output tokens; "
		"5 "
		"rejected by a full queue" REPLICA_HEADER
		"        0         12          3000          1000    33.33           3       1234  "
		"    5.679\n"
		"        1          4           900           100        -           0        100  "
		"    0.001  "
		"gpu=h100\n");
	fleet.has_prompt_ids = fleet.knows_regret = false;
	fleet.retries = fleet.refused = 0;
	require_printed(&fleet,
		"\n  fleet     2 replicas behind prefix; most tokens over mean 1.600, Jain's index "
		"0.7353" REPLICA_HEADER "        0         12          3000          1000        - "
		"          3       1234      "
		"5.679\n"
		"        1          4           900           100        -           0        100  "
		"    "
		"0.001  gpu=h100\n");
	fleet = fleet_of(each, 0);
	fleet.router = "random";
	fleet.presence = &presence;
	fleet.refused = 1;
	require_printed(&fleet,
		"\n  fleet     0 replicas behind random; most tokens over mean 1.000, Jain's index "
		"1.0000\n            0 requests sent again after a failure, which lost 0 output "
		"tokens; "
		"1 rejected by a full queue" REPLICA_HEADER);
	presence_close(&presence);
}
