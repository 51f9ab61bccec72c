#include "engine/profiling/launch_sites.h"

#include <criterion/criterion.h>

#include "tests/harness/require.h"

static struct launch_sites sites;

static void open_sites(void)
{
	launch_sites_init(&sites);
}

static void close_sites(void)
{
	launch_sites_deinit(&sites);
}

TestSuite(launch_sites, .init = open_sites, .fini = close_sites);

/* Opens a range below those that are open; each execution has a serial number of its own. */
static void push(const char *name, uint32_t layer, uint32_t rows)
{
	sites.stack.open[sites.stack.depth++] = (struct range){
		.name = name, .layer = layer, .rows = rows, .serial = ++sites.stack.push_count};
}

static void pop(void)
{
	sites.stack.depth--;
}

static struct kernel_record found(uint32_t correlation, uint64_t node)
{
	struct kernel_record record = {0};

	require(launch_sites_find(&sites, correlation, node, &record), "launch %u was not found",
		correlation);
	return record;
}

Test(launch_sites, a_record_belongs_to_the_ranges_around_its_launch)
{
	sites.stack.step = 7;
	push("prefill", RANGE_NO_LAYER, 0);
	launch_sites_note_launch(&sites, 10);
	push("qkv", 3, 64);
	launch_sites_note_launch(&sites, 11);
	launch_sites_note_launch(&sites, 12);
	pop();
	launch_sites_note_launch(&sites, 20);

	struct kernel_record record = found(12, 0);
	struct kernel_site site = launch_sites_at(&sites, record.launch_site);
	require_equal(record.step, 7);
	require_equal(record.rows, 64);
	require_equal(record.graph_site, KERNEL_NO_SITE);
	require_equal(site.layer, 3);
	cr_assert_str_eq(site.path, "prefill/qkv");
	cr_assert_str_eq(site.operation, "qkv");
	site = launch_sites_at(&sites, found(10, 0).launch_site);
	cr_assert_str_eq(site.path, "prefill");
	require_equal(site.layer, RANGE_NO_LAYER);
	/* Calls in between are not noted, and belong to the launch before them. */
	require_equal(found(19, 0).launch_site, record.launch_site);
	require_equal(found(25, 0).launch_site, found(10, 0).launch_site);
}

Test(launch_sites, executions_of_a_range_differ_only_in_call)
{
	for (uint32_t i = 0; i < 2; i++) {
		push("o", 1, 8);
		launch_sites_note_launch(&sites, 1 + i);
		pop();
	}
	require_equal(found(1, 0).launch_site, found(2, 0).launch_site);
	require(found(1, 0).call != found(2, 0).call, "two calls are the same");
}

Test(launch_sites, a_copied_node_belongs_to_its_capture)
{
	push("down", 5, 16);
	launch_sites_note_node(&sites, 1000);
	pop();
	push("decode", RANGE_NO_LAYER, 0);
	launch_sites_note_node(&sites, 1000); /* the first site counts */
	launch_sites_note_copy(&sites, 2000, 1000);
	launch_sites_note_copy(&sites, 2001, 999); /* of nothing that is known */
	launch_sites_note_launch(&sites, 1);
	pop();

	struct kernel_record record = found(1, 2000);
	cr_assert_str_eq(launch_sites_at(&sites, record.graph_site).path, "down");
	cr_assert_str_eq(launch_sites_at(&sites, record.launch_site).path, "decode");
	require_equal(record.rows, 16);
	record = found(1, 2001);
	require_equal(record.graph_site, KERNEL_NO_SITE);
	require_equal(record.rows, 0);
}

Test(launch_sites, nodes_are_kept_however_many_there_are)
{
	enum { NODES = 20000 };

	launch_sites_note_node(&sites, 3 * NODES); /* so that copies let the table grow */
	for (uint32_t i = 1; i <= NODES; i++) {
		push("qkv", i % 28, i);
		launch_sites_note_node(&sites, i);
		pop();
		launch_sites_note_copy(&sites, NODES + i, 1 + i / 2); /* of one that is far away */
	}
	launch_sites_note_launch(&sites, 1);
	for (uint32_t i = 1; i <= NODES; i++) {
		struct kernel_record record = found(1, i);
		require_equal(record.rows, i);
		require_equal(found(1, NODES + i).rows, 1 + i / 2);
		require_equal(launch_sites_at(&sites, record.graph_site).layer, i % 28);
	}
}

Test(launch_sites, the_oldest_launches_are_forgotten)
{
	struct kernel_record record;

	require(!launch_sites_find(&sites, 1, 0, &record), "found before the first launch");
	for (uint32_t i = 1; i <= LAUNCHES_MAX + 10; i++) {
		sites.stack.step = i;
		launch_sites_note_launch(&sites, i);
	}
	require(!launch_sites_find(&sites, 10, 0, &record), "found what was overwritten");
	require_equal(found(11, 0).step, 11);
	require_equal(found(LAUNCHES_MAX + 10, 0).step, LAUNCHES_MAX + 10);
}

Test(launch_sites, a_full_table_has_no_site_for_more)
{
	for (uint32_t i = 0; i <= SITES_MAX; i++) {
		push("qkv", i, 1);
		launch_sites_note_launch(&sites, i + 1);
		pop();
	}
	require_equal(launch_sites_at(&sites, found(1, 0).launch_site).layer, 0);
	require_equal(found(SITES_MAX + 1, 0).launch_site, KERNEL_NO_SITE);
	cr_assert_str_eq(launch_sites_at(&sites, KERNEL_NO_SITE).path, "");
}
