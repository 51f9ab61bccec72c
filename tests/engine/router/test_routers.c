#include "engine/router/router.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/counter_hash.h"
#include "engine/base/integer.h"
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

/* apart, tenths: of balance-abs and balance-rel. */
static uint32_t expect_balanced(const struct memory_scene *scene, const struct sent *request,
	uint32_t prompt_tokens, uint64_t apart, uint64_t tenths)
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
	bool is_imbalanced = most_requests > least_requests + apart &&
			     10 * most_requests > tenths * least_requests;
	bool is_known = 2 * most * BLOCK_SIZE > prompt_tokens;
	return is_known && !is_imbalanced ? bits & -bits : 1u << fewest(scene);
}

static uint32_t expect_sglang(
	const struct memory_scene *scene, const struct sent *request, uint32_t prompt_tokens)
{
	return expect_balanced(scene, request, prompt_tokens, 32, 11);
}

static uint32_t expect_sglang_of_small_loads(
	const struct memory_scene *scene, const struct sent *request, uint32_t prompt_tokens)
{
	return expect_balanced(scene, request, prompt_tokens, 2, 20);
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
	bool was_sent[REPLICAS_MAX] = {false};

	(void)prompt_tokens;
	if (most * BLOCK_SIZE >= 40) {
		return bits;
	}
	for (uint32_t i = 0; i < scene->sent_count; i++) {
		was_sent[scene->sent[i].replica] = true;
		recent[scene->sent[i].replica] +=
			scene->now_ns - scene->sent[i].time_ns <= UINT64_C(60000000000);
	}
	for (uint32_t i = 0; i < scene->replicas; i++) {
		bool is_better = best == UINT32_MAX || recent[i] < recent[best];
		if (scene->views[i].is_open && !was_sent[i]) {
			return 1u << i;
		}
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
	{"sglang", "tree-size=1000000,balance-abs=2,balance-rel=2", expect_sglang_of_small_loads},
	{"production-stack", NULL, expect_stack},
	{"production-stack", "min-match=40", expect_stack_above_40},
	{"llm-d-estimated", "capacity=1000", expect_estimated},
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

/* The same draws by hand: the n-th open replica; of two different ones the first drawn, unless the
   other has fewer requests. */
static void body_drawn(struct prop *prop, const void *context)
{
	const bool is_random = strcmp(context, "random") == 0;
	const struct router_request request = {.prompt_tokens = 1, .block_size = BLOCK_SIZE};
	const uint32_t replicas = prop_range(prop, 1, REPLICAS_MAX);
	const uint64_t seed = prop_range(prop, 0, 99);
	struct router router, twin;

	open_router(&router, context, NULL, replicas, seed);
	open_router(&twin, context, NULL, replicas, seed);
	for (uint32_t i = prop_range(prop, 1, 20); i > 0; i--) {
		struct replica_view views[REPLICAS_MAX];
		uint32_t open[REPLICAS_MAX], count = 0, always = prop_range(prop, 0, replicas - 1);
		for (uint32_t k = 0; k < replicas; k++) {
			views[k] = (struct replica_view){
				.is_open = k == always || prop_chance(prop, 2, 3),
				.requests = prop_range(prop, 0, 2),
				.kv_blocks = 10};
			open[count] = k;
			count += views[k].is_open;
		}
		/* who is alone is not drawn at random */
		uint32_t first = is_random && count == 1 ? 0 : router_draw(&twin, count);
		uint32_t second = first;
		if (!is_random && count > 1) {
			second = router_draw(&twin, count - 1);
			second += second >= first;
		}
		bool has_fewer = views[open[second]].requests < views[open[first]].requests;
		require_equal(
			router_pick(&router, &request, views), open[has_fewer ? second : first]);
	}
	router_close(&router);
	router_close(&twin);
}

Test(routers, drawn_picks_are_those_of_the_same_draws)
{
	static const char *const names[] = {"random", "two-choices"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct prop_options options = {
			.name = names[i], .body = body_drawn, .context = names[i], .trials = 300};
		cr_assert(prop_holds(&options));
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

/* Logits of 2, 3 and 4 blocks, and one that is closed: the replicas are drawn in proportion to
   exp(-share / temperature) of shares 0, 1/2 and 1. */
Test(routers, dynamo_draws_by_its_temperature)
{
	static const struct {
		const char *options;
		double temperature;
	} rows[] = {{"temperature=1", 1}, {"temperature=0.25", 0.25}, {"temperature=1000", 1000},
		{"temperature=0.000001", 1e-6}};
	enum { DRAWS = 20000 };
	const struct router_request request = {.prompt_tokens = 16, .block_size = BLOCK_SIZE};

	for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
		struct replica_view views[4] = {open_view, open_view, open_view, open_view};
		uint32_t counts[4] = {0};
		double sum = 0;
		struct router router;
		views[1].used_blocks = 2;
		views[2].is_open = false;
		views[3].used_blocks = 1;
		open_router(&router, "dynamo-kv", rows[k].options, 4, 7);
		for (uint32_t i = 0; i < DRAWS; i++) {
			counts[router_pick(&router, &request, views)]++;
		}
		require_equal(counts[2], 0);
		for (uint32_t i = 0; i < 4; i++) {
			sum += i == 2 ? 0 : exp(-0.5 * views[i].used_blocks / rows[k].temperature);
		}
		for (uint32_t i = 0; i < 4; i++) {
			double share = exp(-0.5 * views[i].used_blocks / rows[k].temperature) / sum;
			double off = counts[i] - share * DRAWS;
			/* Four standard deviations. */
			require(i == 2 || off * off <= 16 * share * (1 - share) * DRAWS + 1e-6,
				"%s: %u of replica %u, expected %f", rows[k].options, counts[i], i,
				share * DRAWS);
		}
		router_close(&router);
	}
}

/* Equal logits have equal chances. */
Test(routers, dynamo_draws_evenly_of_equal_replicas)
{
	const struct router_request request = {.prompt_tokens = 16, .block_size = BLOCK_SIZE};
	struct replica_view views[4] = {open_view, open_view, open_view, open_view};
	uint32_t counts[4] = {0};
	struct router router;

	open_router(&router, "dynamo-kv", "temperature=0.5", 4, 7);
	for (uint32_t i = 0; i < 8000; i++) {
		counts[router_pick(&router, &request, views)]++;
	}
	for (uint32_t i = 0; i < 4; i++) {
		require(counts[i] > 1850 && counts[i] < 2150, "%u", counts[i]);
	}
	router_close(&router);
}

/* Figures of a replica for a request of `blocks` full blocks, drawn. */
static struct replica_view drawn_view(struct prop *prop, uint32_t blocks)
{
	struct replica_view view = {.is_open = true,
		.requests = prop_range(prop, 0, 40),
		.used_blocks = prop_range(prop, 0, 100),
		.kv_blocks = 100,
		.prefill_tokens = prop_range(prop, 0, 200),
		.tokens = prop_range(prop, 0, 1000),
		.cached_blocks = prop_range(prop, 0, blocks)};

	view.waiting = prop_range(prop, 0, view.requests);
	view.held_blocks = prop_range(prop, 0, view.cached_blocks);
	return view;
}

/* In blocks. waiting_more: prompt tokens that wait here and not at the open replica with the
   fewest, in prompts like this one. */
static double naive_logit(const double *settings, const struct router_request *request,
	const struct replica_view *views, uint32_t replicas, uint32_t at)
{
	double blocks = ceil((double)request->prompt_tokens / BLOCK_SIZE);
	double waiting = (double)views[at].prefill_tokens, least = HUGE_VAL;

	for (uint32_t i = 0; i < replicas; i++) {
		least = views[i].is_open ? fmin(least, (double)views[i].prefill_tokens) : least;
	}
	double waiting_more = (waiting - least) / BLOCK_SIZE / blocks;
	double credit = settings[0] * views[at].cached_blocks / (1 + settings[1] * waiting_more);
	double raw = (waiting + request->prompt_tokens) / BLOCK_SIZE;
	return settings[2] * fmax(0, raw - credit) + views[at].used_blocks + blocks -
	       views[at].held_blocks + settings[3] * views[at].requests;
}

static void body_dynamo(struct prop *prop, const void *context)
{
	static const double drawn[4][5] = {{0, 0.25, 0.5, 0.75, 1}, {0, 0.5, 1, 7.25, 1000},
		{0, 0.5, 1, 1.5, 3}, {0, 0.125, 1, 2, 9}};
	uint32_t replicas = prop_range(prop, 1, REPLICAS_MAX), blocks = prop_below(prop, 13);
	uint32_t always = prop_below(prop, replicas), best = replicas;
	const struct router_request request = {
		.prompt_tokens = blocks * BLOCK_SIZE + prop_range(prop, 1, BLOCK_SIZE),
		.block_size = BLOCK_SIZE,
		.block_count = blocks};
	struct replica_view views[REPLICAS_MAX];
	struct router router;
	double settings[4];
	char options[128];

	(void)context;
	for (uint32_t i = 0; i < 4; i++) {
		settings[i] = drawn[i][prop_below(prop, 5)];
	}
	snprintf(options, sizeof(options),
		"overlap-credit=%g,credit-decay=%g,prefill-scale=%g,request-weight=%g,draw-ties=0",
		settings[0], settings[1], settings[2], settings[3]);
	open_router(&router, "dynamo-kv", options, replicas, 3);
	for (uint32_t i = 0; i < replicas; i++) {
		views[i] = drawn_view(prop, blocks);
		views[i].held_blocks =
			(uint32_t)u64_min(views[i].held_blocks, views[i].used_blocks);
		views[i].is_open = i == always || prop_chance(prop, 3, 4);
	}
	uint32_t picked = router_pick(&router, &request, views);
	for (uint32_t i = 0; i < replicas; i++) {
		if (!views[i].is_open) {
			continue;
		}
		double expected = naive_logit(settings, &request, views, replicas, i) * 1e6;
		require(fabs((double)router.costs[i] - expected) <= 8, "%s: %lld, expected %f",
			options, (long long)router.costs[i], expected);
		best = best == replicas || router.costs[i] < router.costs[best] ? i : best;
	}
	require_equal(picked, best);
	router_close(&router);
}

/* Whatever is set and seen; the formula is in the head of engine/router/dynamo_kv.c. */
Test(routers, dynamo_takes_the_least_logit_by_its_formula)
{
	const struct prop_options options = {.name = "logits", .body = body_dynamo, .trials = 3000};

	cr_assert(prop_holds(&options));
}

/* Two routers see the same but for the figures of closed replicas. */
static void body_closed(struct prop *prop, const void *context)
{
	static const char *const options[] = {
		NULL, "credit-decay=1", "temperature=0.5", "credit-decay=1,temperature=0.5"};
	const struct router_kind *kind = context;
	const bool is_dynamo = strcmp(kind->name, "dynamo-kv") == 0;
	const char *chosen = options[is_dynamo ? prop_range(prop, 0, 3) : 0];
	const uint32_t replicas = prop_range(prop, 2, REPLICAS_MAX);
	struct router routers[2];

	open_router(&routers[0], kind->name, chosen, replicas, 3);
	open_router(&routers[1], kind->name, chosen, replicas, 3);
	for (uint32_t i = prop_range(prop, 1, 12); i > 0; i--) {
		struct replica_view views[2][REPLICAS_MAX];
		struct block_key keys[BLOCKS_MAX];
		uint32_t blocks = prop_range(prop, 0, BLOCKS_MAX);
		uint32_t always = prop_range(prop, 0, replicas - 1);
		const struct router_request request = {.now_ns = (20 - i) * UINT64_C(1000000000),
			.session = prop_range(prop, 1, 5),
			.has_session = true,
			.prompt_tokens = blocks * BLOCK_SIZE + prop_range(prop, 1, BLOCK_SIZE),
			.block_size = BLOCK_SIZE,
			.blocks = keys,
			.block_count = blocks};
		make_keys(prop_range(prop, 0, 2), prop_range(prop, 0, 3), blocks, keys);
		for (uint32_t k = 0; k < replicas; k++) {
			views[0][k] = drawn_view(prop, blocks);
			views[0][k].is_open = k == always || prop_chance(prop, 1, 2);
			views[1][k] = views[0][k].is_open ? views[0][k] : drawn_view(prop, blocks);
			views[1][k].is_open = views[0][k].is_open;
		}
		uint32_t picked = router_pick(&routers[0], &request, views[0]);
		require_equal(router_pick(&routers[1], &request, views[1]), picked);
	}
	router_close(&routers[0]);
	router_close(&routers[1]);
}

/* Replicas that take no requests have no say in where a request goes. */
Test(routers, figures_of_closed_replicas_change_no_pick)
{
	const struct router_kind *kind;

	for (uint32_t i = 0; (kind = router_at(i)) != NULL; i++) {
		const struct prop_options options = {
			.name = kind->name, .body = body_closed, .context = kind, .trials = 400};
		cr_assert(prop_holds(&options));
	}
}

/* ---- what is forgotten ---- */

static uint32_t pick_known(struct router *router, uint64_t now_s, uint32_t family)
{
	const struct replica_view views[2] = {open_view, open_view};
	struct block_key keys[BLOCKS_MAX];
	const struct router_request request = {.now_ns = now_s * UINT64_C(1000000000),
		.prompt_tokens = BLOCKS_MAX * BLOCK_SIZE + 1,
		.block_size = BLOCK_SIZE,
		.blocks = keys,
		.block_count = BLOCKS_MAX};

	make_keys(family, 0, BLOCKS_MAX, keys);
	return router_pick(router, &request, views);
}

/* A prompt of 12 blocks is sent to replica 1. SGLang cuts its trees to 11 blocks, which leave
   enough of it, or to 4 every 30 seconds of its clock, whenever requests come: none between 5 and
   29 s does, one at 30 does. An interval of 0 never does. */
Test(routers, sglang_cuts_its_trees_by_its_clock)
{
	static const struct {
		const char *options;
		uint64_t now_s;
		uint32_t best;
	} rows[] = {{"tree-size=64", 29, 1}, {"tree-size=64", 30, 0}, {"tree-size=64", 61, 0},
		{"tree-size=176", 61, 1}, {"tree-size=64,evict-s=0", 61, 1},
		{"tree-size=64,evict-s=120", 61, 1}, {"tree-size=64,evict-s=4", 7, 1},
		{"tree-size=64,evict-s=4", 8, 0}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct router router;
		struct block_key keys[BLOCKS_MAX];
		const struct router_request sent = {.now_ns = UINT64_C(5000000000), .blocks = keys};
		open_router(&router, "sglang", rows[i].options, 2, 0);
		pick_known(&router, 5, 9); /* another prompt, to replica 0 */
		make_keys(1, 0, BLOCKS_MAX, keys);
		router_history_add(router.state, 1, &sent, BLOCKS_MAX);
		require(pick_known(&router, rows[i].now_s, 1) == rows[i].best, "row %zu", i);
		router_close(&router);
	}
}

/* A tree that was cut holds whole blocks of no more than its tokens, the leading ones. */
Test(routers, a_tree_of_sglang_holds_no_more_than_its_tokens)
{
	for (uint32_t tokens = 0; tokens <= (BLOCKS_MAX + 1) * BLOCK_SIZE; tokens++) {
		struct block_key keys[BLOCKS_MAX];
		const struct router_request sent = {
			.now_ns = 1, .blocks = keys, .block_count = BLOCKS_MAX};
		struct router router;
		char options[32];
		snprintf(options, sizeof(options), "tree-size=%u", tokens);
		open_router(&router, "sglang", options, 2, 0);
		make_keys(1, 0, BLOCKS_MAX, keys);
		router_history_add(router.state, 1, &sent, BLOCKS_MAX);
		require_equal(pick_known(&router, 30, 9), 0); /* another prompt, behind the cut */
		uint32_t whole =
			tokens / BLOCK_SIZE < BLOCKS_MAX ? tokens / BLOCK_SIZE : BLOCKS_MAX;
		require_equal(router_history_match(router.state, 1, &sent, BLOCKS_MAX), whole);
		router_close(&router);
	}
}

/* Of two prompts that were sent to a replica with room for one and a half, llm-d has forgotten the
   first blocks of the older one, and so all of it; with room for both, neither. It looks at as many
   tokens as it is told. */
Test(routers, llm_d_forgets_the_oldest_blocks_from_their_first)
{
	static const struct {
		const char *options;
		uint32_t kv_blocks, old, young;
	} rows[] = {{"match-tokens=0", 18, 0, 12}, {"capacity=18", 99, 0, 12},
		{"capacity=24", 18, 12, 12}, {NULL, 24, 12, 12}, {"match-tokens=64", 8, 4, 4},
		{"match-tokens=64", 7, 0, 4}, {"match-tokens=79", 9, 4, 4}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct replica_view view = {.is_open = true, .kv_blocks = rows[i].kv_blocks};
		struct block_key keys[2][BLOCKS_MAX];
		struct router_request request = {.prompt_tokens = BLOCKS_MAX * BLOCK_SIZE + 1,
			.block_size = BLOCK_SIZE,
			.block_count = BLOCKS_MAX};
		struct router router;
		open_router(&router, "llm-d-estimated", rows[i].options, 1, 0);
		for (uint32_t k = 0; k < 2; k++) {
			make_keys(k, k, BLOCKS_MAX, keys[k]);
			request.blocks = keys[k];
			router_pick(&router, &request, &view);
		}
		request.blocks = keys[0];
		uint32_t old = router_history_match(router.state, 0, &request, BLOCKS_MAX);
		request.blocks = keys[1];
		uint32_t young = router_history_match(router.state, 0, &request, BLOCKS_MAX);
		require(old == rows[i].old && young == rows[i].young, "row %zu: %u, %u", i, old,
			young);
		router_close(&router);
	}
}

/* Of replicas with different memories each is taken to remember as many blocks as it has itself. */
Test(routers, llm_d_remembers_what_each_replica_has_room_for)
{
	static const uint32_t room[] = {6, 24, 12}, known[] = {0, 12, 12};

	for (uint32_t replica = 0; replica < 3; replica++) {
		struct replica_view views[3];
		struct block_key keys[BLOCKS_MAX];
		struct router_request request = {.prompt_tokens = BLOCKS_MAX * BLOCK_SIZE + 1,
			.block_size = BLOCK_SIZE,
			.blocks = keys,
			.block_count = BLOCKS_MAX};
		struct router router;
		open_router(&router, "llm-d-estimated", NULL, 3, 0);
		for (uint32_t i = 0; i < 3; i++) {
			views[i] = (struct replica_view){
				.is_open = i == replica, .kv_blocks = room[i]};
		}
		make_keys(1, 1, BLOCKS_MAX, keys);
		require_equal(router_pick(&router, &request, views), replica);
		uint32_t matched =
			router_history_match(router.state, replica, &request, BLOCKS_MAX);
		require(matched == known[replica], "replica %u: %u", replica, matched);
		router_close(&router);
	}
}

/* A replica that failed has an empty cache: those who take it out of their books send the prompt
   to another. */
Test(routers, what_was_sent_to_a_failed_replica_is_forgotten)
{
	static const struct {
		const char *router;
		bool forgets;
	} rows[] = {{"sglang", true}, {"llm-d-estimated", true}, {"production-stack", false},
		{"least-requests", false}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct router router;
		struct block_key keys[BLOCKS_MAX];
		const struct router_request request = {.blocks = keys};
		open_router(&router, rows[i].router, NULL, 2, 0);
		uint32_t picked = pick_known(&router, 1, 1);
		router_forget(&router, picked);
		make_keys(1, 0, BLOCKS_MAX, keys);
		uint32_t known = router.state == NULL ? 0
						      : router_history_match(router.state, picked,
								&request, BLOCKS_MAX);
		bool is_known = router.state != NULL && !rows[i].forgets;
		require(known == (is_known ? BLOCKS_MAX : 0), "%s", rows[i].router);
		router_close(&router);
	}
}

/* Requests that came less than a window ago, by replica, against a list of all. The ring grows, and
   empties now and then. */
Test(routers, requests_are_recent_for_a_window)
{
	enum { REQUESTS = 2000, REPLICAS = 3, WINDOW_NS = 50 };
	struct router router;
	static uint64_t sent_ns[REQUESTS];
	static uint32_t sent_to[REQUESTS];
	uint64_t now_ns = 0;

	open_router(&router, "production-stack", NULL, REPLICAS, 0);
	struct router_history *history = router.state;
	for (uint32_t i = 0; i < REQUESTS; i++) {
		uint64_t draw = counter_hash(7, i);
		uint32_t expected[REPLICAS] = {0};
		now_ns += i % 400 > 390 ? draw % 120 : draw % (i / 400 == 3 ? 2 : 12);
		router_history_forget_sent(history, now_ns, WINDOW_NS);
		for (uint32_t k = 0; k < i; k++) {
			expected[sent_to[k]] += now_ns - sent_ns[k] <= WINDOW_NS;
		}
		for (uint32_t replica = 0; replica < REPLICAS; replica++) {
			require(history->recent[replica] == expected[replica],
				"request %u: %u to replica %u, expected %u", i,
				history->recent[replica], replica, expected[replica]);
		}
		sent_ns[i] = now_ns;
		sent_to[i] = (uint32_t)(draw >> 32) % REPLICAS;
		router_history_sent(history, sent_to[i], now_ns);
	}
	router_close(&router);
}

/* Prompts of which no block is known are too short a match for any least match. */
Test(routers, production_stack_sends_unknown_prompts_in_turn)
{
	for (uint32_t least = 1; least <= BLOCK_SIZE; least++) {
		struct router router;
		char option[32];
		snprintf(option, sizeof(option), "min-match=%u", least);
		open_router(&router, "production-stack", option, 2, least);
		for (uint32_t i = 0; i < 6; i++) {
			struct block_key keys[BLOCKS_MAX];
			const struct replica_view views[2] = {open_view, open_view};
			const struct router_request request = {.prompt_tokens = 33,
				.block_size = BLOCK_SIZE,
				.block_count = 2,
				.now_ns = i,
				.blocks = keys};
			make_keys(i, 0, BLOCKS_MAX, keys);
			require_equal(router_pick(&router, &request, views), i % 2);
		}
		router_close(&router);
	}
}

/* By the time of the request, whatever its session. */
Test(routers, blocks_that_were_sent_age)
{
	enum { TTL_NS = 100 };
	struct router router = {.replica_count = 1};
	struct block_key keys[BLOCKS_MAX];
	struct router_request request = {.now_ns = 1000, .blocks = keys, .session = 5000};

	router_history_open(&router, 0, TTL_NS);
	make_keys(1, 0, BLOCKS_MAX, keys);
	router_history_add(router.state, 0, &request, BLOCKS_MAX);
	request.now_ns += TTL_NS / 2;
	request.session = 0;
	require_equal(router_history_match(router.state, 0, &request, BLOCKS_MAX), BLOCKS_MAX);
	request.now_ns += TTL_NS;
	request.session = 1000;
	require_equal(router_history_match(router.state, 0, &request, BLOCKS_MAX), 0);
	router_history_close(&router);
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

static void require_refused(const char *name, const char *options, const char *line)
{
	struct router router;
	struct error error = {0};

	require_equal(router_open(&router, kind_of(name), options, 2, 0, &error), STATUS_USAGE);
	require(strcmp(error.text, line) == 0, "'%s'", error.text);
	router_close(&router);
}

Test(routers, options_that_are_refused_name_those_that_there_are)
{
	require_refused("random", "load=1",
		"--router-option: found 'load=1', but --router random has no options");
	require_refused("prefix", "load=1,lod=2",
		"--router-option: found 'lod=2', expected NAME=NUMBER with a name of --router "
		"prefix: load=1 (at most 1000), requests=0 (at most 1048576)");
}
