#include "engine/router/router.h"

#include <criterion/criterion.h>
#include <string.h>

#include "engine/router/block_set.h"
#include "engine/router/history.h"
#include "tests/engine/router/router_cases.h"
#include "tests/engine/router/router_scenes.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"

enum { BLOCK_SIZE = 16, SENT_MAX = 400, BLOCKS_MAX = 12, REPLICAS_MAX = 5 };

static const struct router_kind *kind_of(const char *name)
{
	const struct router_kind *kind;

	for (uint32_t i = 0; (kind = router_at(i)) != NULL; i++) {
		if (strcmp(kind->name, name) == 0) {
			return kind;
		}
	}
	require_failed(__FILE__, __LINE__, "no router %s", name);
}

static void open_router(struct router *router, const char *name, const char *options,
	uint32_t replicas, uint64_t seed)
{
	struct error error = {0};

	require(router_open(router, kind_of(name), options, replicas, seed, &error) == STATUS_OK,
		"%s", error.text);
}

/* ---- formulas ---- */

Test(routers, picks_are_those_of_the_published_formulas)
{
	for (size_t i = 0; i < sizeof(router_cases) / sizeof(router_cases[0]); i++) {
		const struct router_case *row = &router_cases[i];
		struct replica_view views[3];
		const struct router_request request = {.prompt_tokens = row->prompt_tokens,
			.block_size = BLOCK_SIZE,
			.block_count = (row->prompt_tokens - 1) / BLOCK_SIZE};
		struct router router;
		uint32_t found = 0;
		for (uint32_t k = 0; k < 3; k++) {
			views[k] = (struct replica_view){.is_open = row->views[k].is_open,
				.requests = row->views[k].requests,
				.waiting = row->views[k].waiting,
				.used_blocks = row->views[k].used_blocks,
				.kv_blocks = 100,
				.prefill_tokens = row->views[k].prefill_tokens,
				.tokens = row->views[k].tokens,
				.cached_blocks = row->views[k].cached_blocks,
				.held_blocks = row->views[k].held_blocks};
		}
		open_router(&router, row->router, NULL, 3, i);
		for (uint32_t k = 0; k < 64; k++) {
			found |= 1u << router_pick(&router, &request, views);
		}
		for (uint32_t k = 0; k < 3 && row->costs[0] > 0; k++) {
			int64_t cost = router.costs[k] < 0 ? -router.costs[k] : router.costs[k];
			int64_t off =
				cost > row->costs[k] ? cost - row->costs[k] : row->costs[k] - cost;
			require(!row->views[k].is_open || off <= 3, "row %zu of %s: %lld", i,
				row->router, (long long)cost);
		}
		/* Drawn ties take every one of the best in time, the others the lowest. */
		bool draws =
			strcmp(row->router, "dynamo-kv") == 0 || strcmp(row->router, "llm-d") == 0;
		uint32_t expected = draws ? row->best : row->best & -row->best;
		require(found == expected, "row %zu of %s: picked %u, expected %u", i, row->router,
			found, expected);
		router_close(&router);
	}
}

/* The keys of a prompt: its first `shared` blocks are those of every request. */
static void scene_keys(uint32_t shared, uint32_t other, struct block_key *keys)
{
	struct block_key key = {0, 0};

	for (uint32_t i = 0; i < BLOCKS_MAX; i++) {
		key = block_key_add(key, i < shared ? 1 : 100 + other, i);
		keys[i] = key;
	}
}

/* What was sent before the request of a scene. */
static void send_before(struct router *router, const struct router_scene *row, uint64_t now_ns)
{
	for (uint32_t i = 0; i < row->sent_count; i++) {
		struct block_key keys[BLOCKS_MAX];
		const struct router_request request = {
			.now_ns = now_ns - row->sent[i].seconds * UINT64_C(1000000000),
			.block_size = BLOCK_SIZE,
			.blocks = keys,
			.block_count = BLOCKS_MAX};
		scene_keys(row->sent[i].blocks, i, keys);
		router_history_add(router->state, row->sent[i].replica, &request, BLOCKS_MAX);
		router_history_sent(router->state, row->sent[i].replica, request.now_ns);
	}
}

static uint32_t pick_in(const struct router_scene *row, uint64_t seed)
{
	const uint64_t now_ns = UINT64_C(1000000000000);
	struct block_key keys[BLOCKS_MAX];
	struct replica_view views[3];
	struct router router;
	const struct router_request request = {.now_ns = now_ns,
		.prompt_tokens = row->blocks * BLOCK_SIZE + 1,
		.block_size = BLOCK_SIZE,
		.blocks = keys,
		.block_count = row->blocks};

	for (uint32_t i = 0; i < 3; i++) {
		views[i] = (struct replica_view){.is_open = row->views[i].is_open,
			.requests = row->views[i].requests,
			.waiting = row->views[i].waiting,
			.kv_blocks = 100};
	}
	scene_keys(row->blocks, 50, keys);
	open_router(&router, row->router, row->options, 3, seed);
	send_before(&router, row, now_ns);
	uint32_t picked = router_pick(&router, &request, views);
	router_close(&router);
	return picked;
}

Test(routers, what_was_drawn_or_sent_before_counts_as_the_formulas_say)
{
	for (size_t i = 0; i < sizeof(router_scenes) / sizeof(router_scenes[0]); i++) {
		const struct router_scene *row = &router_scenes[i];
		uint32_t found = 0;
		for (uint64_t seed = 0; seed < 64; seed++) {
			found |= 1u << pick_in(row, seed);
		}
		require(found == row->best, "scene %zu of %s: picked %x, expected %x", i,
			row->router, found, row->best);
	}
	for (size_t i = 0; i < sizeof(session_scenes) / sizeof(session_scenes[0]); i++) {
		const struct session_scene *row = &session_scenes[i];
		const struct router_request request = {
			.session = row->session, .has_session = true, .block_size = BLOCK_SIZE};
		struct replica_view views[4];
		struct router router;
		for (uint32_t k = 0; k < 4; k++) {
			views[k] = (struct replica_view){
				.is_open = (row->open >> k & 1) != 0, .kv_blocks = 100};
		}
		open_router(&router, "session", NULL, 4, 0);
		uint32_t picked = router_pick(&router, &request, views);
		require(picked == row->best, "session %zu: %u", i, picked);
		router_close(&router);
	}
}

/* ---- routers with a memory, against a list of all that was sent ---- */

struct sent {
	uint32_t replica, count;
	struct block_key keys[BLOCKS_MAX];
	uint64_t time_ns;
};

struct memory_scene {
	struct router router;
	uint32_t replicas;
	struct replica_view views[REPLICAS_MAX];
	struct sent sent[SENT_MAX];
	uint32_t sent_count;
	uint64_t now_ns;
};

static void make_keys(uint32_t family, uint32_t fork, uint32_t count, struct block_key *keys)
{
	struct block_key key = {0, 0};

	for (uint32_t i = 0; i < count; i++) {
		key = block_key_add(key, i < 2 ? family : 100 + fork, i);
		keys[i] = key;
	}
}

/* Leading blocks that any of the requests sent to a replica had. */
static uint32_t known_blocks(
	const struct memory_scene *scene, uint32_t replica, const struct sent *request)
{
	uint32_t most = 0;

	for (uint32_t i = 0; i < scene->sent_count; i++) {
		const struct sent *old = &scene->sent[i];
		uint32_t same = 0;
		while (old->replica == replica && same < old->count && same < request->count &&
			block_key_equal(old->keys[same], request->keys[same])) {
			same++;
		}
		most = same > most ? same : most;
	}
	return most;
}

static uint32_t fewest(const struct memory_scene *scene)
{
	uint32_t best = UINT32_MAX;

	for (uint32_t i = 0; i < scene->replicas; i++) {
		bool is_better = best == UINT32_MAX ||
				 scene->views[i].requests < scene->views[best].requests;
		best = scene->views[i].is_open && is_better ? i : best;
	}
	return best;
}

/* The bits of the replicas with the most known blocks. */
static uint32_t longest(
	const struct memory_scene *scene, const struct sent *request, uint32_t *most)
{
	uint32_t bits = 0;

	*most = 0;
	for (uint32_t i = 0; i < scene->replicas; i++) {
		uint32_t known = known_blocks(scene, i, request);
		if (scene->views[i].is_open && known >= *most) {
			bits = (known > *most ? 0 : bits) | 1u << i;
			*most = known;
		}
	}
	return bits;
}

static uint32_t expect_sglang(
	const struct memory_scene *scene, const struct sent *request, uint32_t prompt_tokens)
{
	uint64_t most_requests = 0, least_requests = UINT64_MAX;
	uint32_t most, bits = longest(scene, request, &most);

	for (uint32_t i = 0; i < scene->replicas; i++) {
		uint64_t requests = scene->views[i].requests;
		if (scene->views[i].is_open) {
			most_requests = requests > most_requests ? requests : most_requests;
			least_requests = requests < least_requests ? requests : least_requests;
		}
	}
	bool is_imbalanced =
		most_requests > least_requests + 32 && 10 * most_requests > 11 * least_requests;
	bool is_known = 2 * most * BLOCK_SIZE > prompt_tokens;
	return is_known && !is_imbalanced ? bits & -bits : 1u << fewest(scene);
}

static uint32_t expect_stack(
	const struct memory_scene *scene, const struct sent *request, uint32_t prompt_tokens)
{
	uint32_t most, bits = longest(scene, request, &most);

	(void)prompt_tokens;
	return bits;
}

static uint32_t expect_stack_above_40(
	const struct memory_scene *scene, const struct sent *request, uint32_t prompt_tokens)
{
	uint32_t most, bits = longest(scene, request, &most);
	uint32_t best = UINT32_MAX, recent[REPLICAS_MAX] = {0};

	(void)prompt_tokens;
	if (most * BLOCK_SIZE >= 40) {
		return bits;
	}
	for (uint32_t i = 0; i < scene->sent_count; i++) {
		recent[scene->sent[i].replica] +=
			scene->now_ns - scene->sent[i].time_ns <= UINT64_C(60000000000);
	}
	for (uint32_t i = 0; i < scene->replicas; i++) {
		bool is_better = best == UINT32_MAX || recent[i] < recent[best];
		best = scene->views[i].is_open && is_better ? i : best;
	}
	return 1u << best;
}

static uint32_t expect_estimated(
	const struct memory_scene *scene, const struct sent *request, uint32_t prompt_tokens)
{
	uint64_t best = 0;
	uint32_t bits = 0;

	(void)prompt_tokens;
	for (uint32_t i = 0; i < scene->replicas; i++) {
		uint32_t waiting = scene->views[i].waiting > 128 ? 128 : scene->views[i].waiting;
		uint64_t count = request->count == 0 ? 1 : request->count;
		/* known / count + 0.5 * (1 - waiting / 128), times 256 * count */
		uint64_t score = 256 * known_blocks(scene, i, request) + (128 - waiting) * count;
		if (scene->views[i].is_open && (bits == 0 || score >= best)) {
			bits = (score > best ? 0 : bits) | 1u << i;
			best = score;
		}
	}
	return bits;
}

struct memory_case {
	const char *router, *options;
	uint32_t (*expect)(const struct memory_scene *scene, const struct sent *request,
		uint32_t prompt_tokens);
};

static const struct memory_case memory_cases[] = {
	{"sglang", "tree-size=1000000", expect_sglang},
	{"production-stack", NULL, expect_stack},
	{"production-stack", "min-match=40", expect_stack_above_40},
	{"llm-d-estimated", NULL, expect_estimated},
};

static void draw_views(struct prop *prop, struct memory_scene *scene)
{
	uint32_t least = prop_range(prop, 0, scene->replicas - 1); /* stays open */

	for (uint32_t i = 0; i < scene->replicas; i++) {
		scene->views[i] =
			(struct replica_view){.is_open = i == least || !prop_chance(prop, 1, 8),
				.requests = prop_range(prop, 0, prop_chance(prop, 1, 4) ? 400 : 34),
				.waiting = prop_range(prop, 0, prop_chance(prop, 1, 4) ? 140 : 2),
				.kv_blocks = 100};
	}
}

static void body_memory(struct prop *prop, const void *context)
{
	const struct memory_case *row = context;
	static struct memory_scene scene;

	memset(&scene, 0, sizeof(scene));
	scene.replicas = prop_range(prop, 1, REPLICAS_MAX);
	open_router(&scene.router, row->router, row->options, scene.replicas, 3);
	for (uint32_t count = prop_range(prop, 1, 40); count > 0; count--) {
		struct sent sent = {.count = prop_range(prop, 0, BLOCKS_MAX)};
		uint32_t rest = prop_range(prop, 1, BLOCK_SIZE);
		scene.now_ns += prop_below(prop, UINT64_C(30000000000));
		make_keys(prop_range(prop, 0, 2), prop_range(prop, 0, 3), sent.count, sent.keys);
		draw_views(prop, &scene);
		const struct router_request request = {.now_ns = scene.now_ns,
			.prompt_tokens = sent.count * BLOCK_SIZE + rest,
			.block_size = BLOCK_SIZE,
			.blocks = sent.keys,
			.block_count = sent.count};
		uint32_t expected = row->expect(&scene, &sent, request.prompt_tokens);
		sent.replica = router_pick(&scene.router, &request, scene.views);
		sent.time_ns = scene.now_ns;
		prop_log(prop, "%u blocks to %u, expected %x", sent.count, sent.replica, expected);
		require((expected >> sent.replica & 1) != 0, "picked %u, expected one of %x",
			sent.replica, expected);
		scene.sent[scene.sent_count++] = sent;
	}
	router_close(&scene.router);
}

Test(routers, those_with_a_memory_pick_as_a_list_of_all_requests_says, .timeout = 120)
{
	for (size_t i = 0; i < sizeof(memory_cases) / sizeof(memory_cases[0]); i++) {
		const struct prop_options options = {.name = memory_cases[i].router,
			.body = body_memory,
			.context = &memory_cases[i],
			.trials = 300};
		cr_assert(prop_holds(&options));
	}
}

/* ---- the simple ones ---- */

static const struct replica_view open_view = {.is_open = true, .kv_blocks = 10};

Test(routers, round_robin_takes_open_replicas_in_turn)
{
	struct replica_view views[3] = {open_view, open_view, open_view};
	const struct router_request request = {.prompt_tokens = 1, .block_size = BLOCK_SIZE};
	const uint32_t expected[] = {0, 1, 2, 0, 2, 0, 1, 2, 0, 1, 2, 2, 2, 0, 0, 0, 1, 2, 0, 1};
	struct router router;

	open_router(&router, "round-robin", NULL, 3, 0);
	for (uint32_t i = 0; i < 20; i++) {
		views[0].is_open = i != 11 && i != 12;
		views[1].is_open = i < 3 || (i > 5 && (i < 11 || i > 15));
		views[2].is_open = i < 13 || i > 15;
		require_equal(router_pick(&router, &request, views), expected[i]);
	}
	router_close(&router);
}

Test(routers, random_and_two_choices_reach_every_open_replica_by_their_seed)
{
	static const char *const names[] = {"random", "two-choices"};
	const struct router_request request = {.prompt_tokens = 1, .block_size = BLOCK_SIZE};

	for (uint32_t k = 0; k < 2; k++) {
		struct replica_view views[4] = {open_view, open_view, open_view, open_view};
		uint32_t picks[2][200], counts[4] = {0};
		views[2].is_open = false;
		views[3].requests = 5;
		for (uint64_t run = 0; run < 2; run++) {
			struct router router;
			open_router(&router, names[k], NULL, 4, 17);
			for (uint32_t i = 0; i < 200; i++) {
				picks[run][i] = router_pick(&router, &request, views);
				counts[picks[run][i]]++;
			}
			router_close(&router);
		}
		require(memcmp(picks[0], picks[1], sizeof(picks[0])) == 0, "not by the seed");
		require(counts[0] > 60 && counts[1] > 60, "uneven");
		require_equal(counts[2], 0);
		/* Of two drawn replicas the loaded one never wins. */
		require(k == 0 ? counts[3] > 60 : counts[3] == 0, "%u", counts[3]);
	}
}

Test(routers, a_session_moves_only_when_its_replica_leaves)
{
	struct replica_view views[8];
	struct router router;
	uint32_t counts[8] = {0};

	open_router(&router, "session", NULL, 8, 0);
	for (uint32_t i = 0; i < 8; i++) {
		views[i] = open_view;
	}
	for (uint64_t session = 0; session < 2000; session++) {
		const struct router_request request = {
			.session = counter_mix(session + 1), .has_session = true};
		views[3].is_open = true;
		uint32_t before = router_pick(&router, &request, views);
		views[3].is_open = false;
		uint32_t after = router_pick(&router, &request, views);
		require(before == 3 ? after != 3 : after == before, "session moved");
		counts[before]++;
	}
	for (uint32_t i = 0; i < 8; i++) {
		require(counts[i] > 180 && counts[i] < 320, "%u sessions", counts[i]);
	}
	router_close(&router);
}

/* ---- options ---- */

/* 64 tokens are cached on replica 0, which has four requests more: 17 each are too many for it. */
Test(routers, prefix_weighs_unfinished_requests_as_it_is_told)
{
	const struct {
		const char *options;
		uint32_t best;
	} rows[] = {{NULL, 0}, {"requests=15", 0}, {"requests=16", 0}, {"requests=17", 1}};
	const struct router_request request = {
		.prompt_tokens = 65, .block_size = BLOCK_SIZE, .block_count = 4};
	struct replica_view views[2] = {open_view, open_view};

	views[0].cached_blocks = 4;
	views[0].requests = 9;
	views[1].requests = 5;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct router router;
		open_router(&router, "prefix", rows[i].options, 2, 0);
		require_equal(router_pick(&router, &request, views), rows[i].best);
		router_close(&router);
	}
}

Test(routers, options_are_named_numbers_of_the_router)
{
	static const char *const bad[] = {"", "load", "load=", "load=x", "load=1001", "lod=1",
		"load=1,", "load=1,,load=2", "load=-1"};
	struct router router;
	struct error error = {0};

	open_router(&router, "dynamo-kv", "overlap-credit=0.5,draw-ties=0", 2, 0);
	require_equal(router.settings[0], 500000);
	require_equal(router.settings[2], 1000000);
	require_equal(router.settings[4], 0);
	router_close(&router);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		error = (struct error){0};
		require(router_open(&router, kind_of("prefix"), bad[i], 2, 0, &error) ==
				STATUS_USAGE,
			"'%s' was accepted", bad[i]);
		router_close(&router);
	}
}
