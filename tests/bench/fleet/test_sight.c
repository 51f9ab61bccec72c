#include "bench/fleet/sight.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/policy.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"

/* What a router sees of replicas against a naive sight, which writes down all that happened and
   when, and looks through all of it each time. A replica may fail: then its cache is empty, and
   changes of it that the router had not heard of are void. */

enum {
	REPLICAS = 3,
	EVENTS = 80,
	FAMILIES = 3,
	CHAIN = 6, /* blocks of a prompt, of one family */
	KEYS = FAMILIES * CHAIN,
	BLOCK_SIZE = 4
};

struct change {
	uint32_t key;
	bool is_added, is_noted;
	uint64_t time_ns; /* when it was noted */
};

/* One replica, as it is written down. */
struct notes {
	uint32_t view_count, change_count;
	uint64_t times_ns[EVENTS];
	struct replica_view views[EVENTS];
	struct change changes[EVENTS * 3]; /* since it failed */
	uint32_t used[EVENTS * CHAIN];	   /* own: keys in order of use, the latest last */
	uint32_t used_count, waiting;
	uint64_t blocks;
};

/* A request on its way. */
struct sent {
	struct parcel parcel;
	struct block_key keys[CHAIN];
	bool has_begun, is_done;
};

struct scene {
	struct sight sight;
	struct engine *engines[REPLICAS];
	struct replica_view views[REPLICAS];
	struct notes notes[REPLICAS];
	struct sent sent[EVENTS];
	uint32_t sent_count;
	uint64_t now_ns;
};

static struct block_key key_of(uint32_t key)
{
	return (struct block_key){.low = UINT64_C(0x9e3779b97f4a7c15) * (key + 1), .high = key};
}

static void draw_view(struct prop *prop, struct replica_view *view)
{
	view->is_open = prop_chance(prop, 3, 4);
	view->requests = (uint32_t)prop_below(prop, 20);
	view->waiting = (uint32_t)prop_below(prop, 20);
	view->used_blocks = (uint32_t)prop_below(prop, view->kv_blocks + 1);
	view->prefill_tokens = prop_below(prop, 1000);
	view->tokens = prop_below(prop, 5000);
}

/* ---- the naive sight ---- */

/* What is seen is what was at this time. */
static uint64_t seen_ns(const struct scene *scene)
{
	uint64_t delay_ns = scene->sight.delay_ns;

	return scene->now_ns < delay_ns ? 0 : scene->now_ns - delay_ns;
}

static bool naive_has(const struct scene *scene, uint32_t replica, uint32_t key)
{
	const struct notes *notes = &scene->notes[replica];
	bool has = false;
	uint32_t newer = 0;

	if (scene->sight.kind == SIGHT_OWN) { /* fewer other keys than it holds were used since */
		bool is_other[KEYS] = {false};
		for (uint32_t i = notes->used_count; i-- > 0 && notes->used[i] != key;) {
			newer += !is_other[notes->used[i]];
			is_other[notes->used[i]] = true;
			has = i > 0 && notes->used[i - 1] == key;
		}
		has = has || (notes->used_count > 0 && notes->used[notes->used_count - 1] == key);
		return has && newer < scene->views[replica].kv_blocks;
	}
	for (uint32_t i = 0; i < notes->change_count; i++) {
		const struct change *change = &notes->changes[i];
		if (change->key == key && change->is_noted && change->time_ns <= seen_ns(scene)) {
			has = change->is_added;
		}
	}
	return has;
}

static struct replica_view naive_view(const struct scene *scene, uint32_t replica)
{
	const struct notes *notes = &scene->notes[replica];
	struct replica_view view = scene->views[replica];

	if (scene->sight.kind == SIGHT_OWN) {
		view.waiting = notes->waiting;
		view.used_blocks =
			(uint32_t)(notes->blocks < view.kv_blocks ? notes->blocks : view.kv_blocks);
	}
	for (uint32_t i = 0; scene->sight.kind == SIGHT_DELAYED && i < notes->view_count; i++) {
		bool is_begin = notes->times_ns[i] == notes->times_ns[0];
		if (is_begin || notes->times_ns[i] <= seen_ns(scene)) {
			view = notes->views[i];
		}
	}
	view.is_open = scene->views[replica].is_open;
	view.kv_blocks = scene->views[replica].kv_blocks;
	return view;
}

/* ---- what happens ---- */

/* The caches change, and what they changed is noted with the state, or not before the replica
   fails. */
static void note(struct prop *prop, struct scene *scene, uint32_t replica)
{
	struct notes *notes = &scene->notes[replica];
	struct block_log *log = &scene->sight.each[replica].log;
	bool is_noted = prop_chance(prop, 5, 6);

	for (uint32_t i = prop_range(prop, 0, 3); i > 0 && scene->sight.has_blocks; i--) {
		struct change change = {.key = (uint32_t)prop_below(prop, KEYS),
			.is_added = prop_chance(prop, 2, 3)};
		notes->changes[notes->change_count++] = change;
		log->changes = memory_grow(
			log->changes, &log->capacity, log->count + 1, sizeof(*log->changes));
		log->changes[log->count++] =
			(struct block_change){key_of(change.key), change.is_added};
	}
	if (!is_noted) {
		return;
	}
	draw_view(prop, &scene->views[replica]);
	sight_note(&scene->sight, replica, &scene->views[replica], scene->now_ns);
	notes->views[notes->view_count] = scene->views[replica];
	notes->times_ns[notes->view_count++] = scene->now_ns;
	for (uint32_t i = 0; i < notes->change_count; i++) {
		if (!notes->changes[i].is_noted) {
			notes->changes[i].is_noted = true;
			notes->changes[i].time_ns = scene->now_ns;
		}
	}
}

static void fail(struct scene *scene, uint32_t replica)
{
	sight_set_engine(&scene->sight, replica, scene->engines[replica]);
	scene->notes[replica].change_count = 0;
	scene->notes[replica].used_count = 0;
}

static void draw_parcel(struct prop *prop, struct sent *sent, uint32_t *family)
{
	uint32_t blocks = prop_range(prop, 0, CHAIN), more = (uint32_t)prop_below(prop, BLOCK_SIZE);

	*family = (uint32_t)prop_below(prop, FAMILIES);
	for (uint32_t i = 0; i < CHAIN; i++) {
		sent->keys[i] = key_of(*family * CHAIN + i);
	}
	sent->parcel = (struct parcel){.keys = sent->keys,
		.key_count = CHAIN,
		.prompt_block_count = blocks,
		.row.input_length = blocks * BLOCK_SIZE + (blocks == 0 ? 1 : more)};
}

static void send(struct prop *prop, struct scene *scene, uint32_t replica)
{
	struct sent *sent = &scene->sent[scene->sent_count++];
	struct notes *notes = &scene->notes[replica];
	uint32_t family;

	draw_parcel(prop, sent, &family);
	sent->parcel.replica = replica;
	sight_sent(&scene->sight, &sent->parcel, BLOCK_SIZE, scene->now_ns);
	for (uint32_t i = sent->parcel.prompt_block_count; i-- > 0;) {
		notes->used[notes->used_count++] = family * CHAIN + i;
	}
	notes->waiting++;
	notes->blocks += (sent->parcel.row.input_length + BLOCK_SIZE - 1) / BLOCK_SIZE;
}

/* A request has its first token, or its last one. */
static void go_on(struct prop *prop, struct scene *scene)
{
	struct sent *sent = &scene->sent[prop_below(prop, scene->sent_count)];
	struct notes *notes = &scene->notes[sent->parcel.replica];

	if (sent->is_done) {
		return;
	}
	if (!sent->has_begun) {
		sight_first_token(&scene->sight, &sent->parcel);
		notes->waiting--;
		sent->has_begun = true;
		return;
	}
	sight_finished(&scene->sight, &sent->parcel, BLOCK_SIZE);
	notes->blocks -= (sent->parcel.row.input_length + BLOCK_SIZE - 1) / BLOCK_SIZE;
	sent->is_done = true;
}

/* ---- both ---- */

static void require_seen(struct scene *scene, const struct sent *asked, uint32_t family)
{
	const struct sight *sight = &scene->sight;

	for (uint32_t i = 0; i < REPLICAS; i++) {
		struct replica_view expected = naive_view(scene, i);
		const struct replica_view *seen = &sight->seen[i];
		uint32_t known = 0, count = asked == NULL ? 0 : asked->parcel.prompt_block_count;
		require_equal(seen->is_open, expected.is_open);
		require_equal(seen->requests, expected.requests);
		require_equal(seen->waiting, expected.waiting);
		require_equal(seen->used_blocks, expected.used_blocks);
		require_equal(seen->kv_blocks, expected.kv_blocks);
		require_equal(seen->prefill_tokens, expected.prefill_tokens);
		require_equal(seen->tokens, expected.tokens);
		while (sight->kind != SIGHT_EXACT && sight->has_blocks && known < count &&
			naive_has(scene, i, family * CHAIN + known)) {
			known++;
		}
		/* The engines themselves have nothing cached. */
		require(asked == NULL || seen->cached_blocks == known,
			"replica %u: %u blocks are taken for cached, not %u", i,
			seen->cached_blocks, known);
		require(asked == NULL || (seen->held_blocks == 0 &&
						 (sight->kind == SIGHT_EXACT ||
							 scene->views[i].cached_blocks == 0)),
			"replica %u has blocks", i);
	}
}

static void look(struct prop *prop, struct scene *scene)
{
	struct sent asked = {0};
	uint32_t family = 0;

	if (prop_chance(prop, 1, 5)) {
		sight_look(&scene->sight, NULL, scene->now_ns);
		require_seen(scene, NULL, 0);
		return;
	}
	draw_parcel(prop, &asked, &family);
	sight_look(&scene->sight, &asked.parcel, scene->now_ns);
	require_seen(scene, &asked, family);
}

static void happen(struct prop *prop, struct scene *scene, const uint32_t *weights)
{
	uint32_t replica = (uint32_t)prop_below(prop, REPLICAS);

	switch (prop_weighted(prop, weights, 4)) {
	case 0:
		note(prop, scene, replica);
		break;
	case 1:
		send(prop, scene, replica);
		break;
	case 2:
		if (scene->sent_count > 0) {
			go_on(prop, scene);
		}
		break;
	default:
		fail(scene, replica);
		break;
	}
}

static void open_scene(struct prop *prop, struct scene *scene)
{
	static const struct runner runner = {.name = "none"};
	static const uint64_t delays_ns[] = {0, 1, 7, 40, 1000};
	enum sight_kind kind = (enum sight_kind)prop_below(prop, 3);
	struct error error = {0};
	uint32_t routers = 0;

	while (router_at(routers) != NULL) {
		routers++;
	}
	const struct router_kind *router = router_at((uint32_t)prop_below(prop, routers));
	sight_init(&scene->sight, kind, kind == SIGHT_DELAYED ? delays_ns[prop_below(prop, 5)] : 0,
		router, scene->views, REPLICAS);
	prop_log(prop, "view %u, %llu ns late, %s", kind, (unsigned long long)scene->sight.delay_ns,
		router->name);
	for (uint32_t i = 0; i < REPLICAS; i++) {
		const struct engine_config config = {.policy = &policy_mixed,
			.block_size = BLOCK_SIZE,
			.kv_block_count = prop_range(prop, 4, KEYS + 2),
			.max_num_seqs = 2,
			.max_num_batched_tokens = 16,
			.max_model_len = 16,
			.eos_token_id = -1};
		require(engine_open(&scene->engines[i], &config, &runner, &error) == STATUS_OK,
			"%s", error.text);
		scene->views[i].kv_blocks = config.kv_block_count;
		sight_set_engine(&scene->sight, i, scene->engines[i]);
	}
}

static void body_sight(struct prop *prop, const void *context)
{
	struct scene *scene = calloc(1, sizeof(*scene));
	uint32_t weights[4];

	(void)context;
	require(scene != NULL, "out of memory");
	open_scene(prop, scene);
	prop_swarm(prop, weights, 4);
	for (uint32_t i = 0; i < EVENTS; i++) {
		scene->now_ns += prop_chance(prop, 1, 2) ? prop_below(prop, 12) : 0;
		happen(prop, scene, weights);
		if (prop_chance(prop, 1, 2)) {
			look(prop, scene);
		}
	}
	sight_deinit(&scene->sight);
	for (uint32_t i = 0; i < REPLICAS; i++) {
		engine_close(scene->engines[i]);
	}
	free(scene);
}

Test(sight, is_that_of_a_naive_one, .timeout = 120)
{
	const struct prop_options options = {.name = "sight", .body = body_sight, .trials = 3000};

	cr_assert(prop_holds(&options));
}
