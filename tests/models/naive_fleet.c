#include "tests/models/naive_fleet.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/integer.h"
#include "tests/harness/require.h"

/* ---- what is drawn ---- */

uint32_t naive_step_ms(uint32_t replica, uint64_t decode_rows, uint64_t prefill_tokens)
{
	return 1 + (uint32_t)((3 * decode_rows + prefill_tokens + 2 * replica) % 7);
}

bool naive_fits(const struct naive_scene *scene, uint32_t id)
{
	return scene->caps ? scene->prompt[id] < NAIVE_LENGTH
			   : scene->prompt[id] + scene->output[id] <= NAIVE_LENGTH;
}

uint32_t naive_output(const struct naive_scene *scene, uint32_t id)
{
	uint32_t room = NAIVE_LENGTH - scene->prompt[id];

	return scene->caps ? u32_min(scene->output[id], room) : scene->output[id];
}

static void draw_router(struct prop *prop, struct naive_scene *scene)
{
	static const char *const routers[] = {
		"round-robin", "least-requests", "least-tokens", "prefix", "least-kv"};

	scene->view = (enum naive_view)prop_below(prop, 3);
	scene->delay_ms = scene->view == VIEW_DELAYED ? prop_range(prop, 0, 60) : 0;
	/* Only of its own view it is told how many blocks are in use. */
	scene->router = routers[prop_below(prop, scene->view == VIEW_OWN ? 5 : 4)];
	if (scene->view == VIEW_DELAYED && prop_chance(prop, 1, 2)) {
		scene->router = "prefix";
	}
}

static void draw_rows(struct prop *prop, struct naive_scene *scene)
{
	bool has_groups = prop_chance(prop, 1, 2), has_long = prop_chance(prop, 1, 3);
	uint32_t time_ms = 0, most = (NAIVE_LENGTH + NAIVE_BLOCK - 1) / NAIVE_BLOCK;

	/* Where nothing is shared, just what those with a seat can need will do. */
	scene->kv_blocks =
		!has_groups && prop_chance(prop, 1, 2) ? scene->seats * most + 1 : NAIVE_KV_BLOCKS;

	for (uint32_t i = 0; i < scene->row_count; i++) {
		time_ms += prop_chance(prop, 1, 2) ? prop_range(prop, 0, 12) : 0;
		scene->arrival_ms[i] = time_ms;
		bool is_long = has_long && prop_chance(prop, 1, 4);
		scene->prompt[i] = prop_range(prop, 1, is_long ? 60 : 20);
		scene->output[i] = prop_range(prop, 1, scene->caps ? 60 : 12);
		scene->group[i] = has_groups ? (uint32_t)prop_below(prop, 4) : 100 + i;
		prop_log(prop, "request %u at %u ms: %u in, %u out, group %u", i, time_ms,
			scene->prompt[i], scene->output[i], scene->group[i]);
	}
}

static void draw_outages(struct prop *prop, struct naive_scene *scene)
{
	static const char *const kinds[] = {"fail", "drain", "join"};
	uint32_t time_ms = 0;
	bool comes_back = prop_chance(prop, 1, 2); /* after each failure */

	scene->outage_count = prop_chance(prop, 2, 3) ? prop_range(prop, 1, NAIVE_OUTAGES) : 0;
	for (uint32_t i = 0; i < scene->outage_count; i++) {
		time_ms += prop_range(prop, 0, 60);
		scene->outages[i] = (struct naive_outage){.time_ms = time_ms,
			.replica = prop_range(prop, 0, scene->replica_count - 1),
			.kind = (enum outage_kind)prop_below(prop, 3)};
		if (comes_back && i > 0 && scene->outages[i - 1].kind == OUTAGE_FAIL) {
			scene->outages[i].kind = OUTAGE_JOIN;
			scene->outages[i].replica = scene->outages[i - 1].replica;
		}
		prop_log(prop, "%s %u at %u ms", kinds[scene->outages[i].kind],
			scene->outages[i].replica, time_ms);
	}
}

void naive_scene_draw(struct prop *prop, struct naive_scene *scene)
{
	*scene = (struct naive_scene){.row_count = prop_range(prop, 1, NAIVE_ROWS),
		.replica_count = prop_range(prop, 2, NAIVE_REPLICAS),
		.seats = prop_range(prop, 1, 4),
		.replica_limit = prop_chance(prop, 1, 2) ? prop_range(prop, 1, 8) : 0,
		.queue_limit = prop_chance(prop, 1, 3) ? prop_range(prop, 0, 8) : UINT32_MAX,
		.caps = prop_chance(prop, 1, 4)};
	if (prop_chance(prop, 1, 2)) {
		scene->warmup = (uint32_t)prop_below(prop, scene->row_count);
		scene->cooldown = (uint32_t)prop_below(prop, scene->row_count - scene->warmup);
	}
	draw_router(prop, scene);
	prop_log(prop, "%u replicas, %s, view %d of %u ms, %u seats, limit %u, queue %u",
		scene->replica_count, scene->router, (int)scene->view, scene->delay_ms,
		scene->seats, scene->replica_limit, scene->queue_limit);
	prop_log(prop, "warmup %u, cooldown %u", scene->warmup, scene->cooldown);
	draw_rows(prop, scene);
	draw_outages(prop, scene);
}

/* ---- prompts that are cached ---- */

/* Full blocks of a prompt that another one has too; its last token is always computed. other: full
   blocks of that one that count. */
static uint32_t shared_blocks(
	const struct naive_scene *scene, uint32_t id, uint32_t other_id, uint32_t other)
{
	bool is_shared = scene->group[id] == scene->group[other_id];

	return is_shared ? u32_min((scene->prompt[id] - 1) / NAIVE_BLOCK, other) : 0;
}

/* Leading blocks of a prompt that any of those has that were added by then_ms. */
static uint32_t known_blocks(const struct naive_scene *scene, const struct naive_prompts *prompts,
	uint32_t id, uint32_t then_ms, bool has_last_token)
{
	uint32_t most = 0;

	for (uint32_t k = 0; k < prompts->count; k++) {
		const struct naive_prompt *prompt = &prompts->list[k];
		uint32_t tokens = scene->prompt[prompt->id] - !has_last_token;
		if (prompt->time_ms <= then_ms) {
			most = u32_max(
				most, shared_blocks(scene, id, prompt->id, tokens / NAIVE_BLOCK));
		}
	}
	return most;
}

static void add_prompt(struct naive_prompts *prompts, uint32_t id, uint32_t now_ms)
{
	require(prompts->count < NAIVE_SENDS, "too many prompts");
	prompts->list[prompts->count++] = (struct naive_prompt){.id = id, .time_ms = now_ms};
}

/* ---- what a router sees ---- */

struct naive_state {
	uint32_t requests, tokens, ahead, blocks;
};

struct naive_run {
	struct naive_fleet *fleet;
	uint32_t now_ms;
	struct naive_state (*past)[NAIVE_REPLICAS]; /* (now_ms) at the end of each millisecond */
	uint32_t there_ms[NAIVE_REPLICAS];
};

static struct naive_state state_of(const struct naive_fleet *fleet, uint32_t replica)
{
	struct naive_state state = {0};

	for (uint32_t i = 0; i < fleet->scene->row_count; i++) {
		const struct naive_request *request = &fleet->requests[i];
		if (request->place == AT_REPLICA && request->replica == replica) {
			state.requests++;
			state.tokens += fleet->scene->prompt[i] + fleet->scene->output[i];
			state.ahead += request->has_admission ? 0 : request->ahead;
			state.blocks += (fleet->scene->prompt[i] + NAIVE_BLOCK - 1) / NAIVE_BLOCK;
		}
	}
	state.blocks = u32_min(state.blocks, fleet->scene->kv_blocks);
	return state;
}

static bool is_open(const struct naive_fleet *fleet, uint32_t replica)
{
	uint32_t limit = fleet->scene->replica_limit;

	return fleet->is_up[replica] && (limit == 0 || state_of(fleet, replica).requests < limit);
}

static uint32_t then_of(const struct naive_run *run)
{
	uint32_t delay_ms = run->fleet->scene->delay_ms;

	return run->now_ms > delay_ms ? run->now_ms - delay_ms : 0;
}

static struct naive_state seen_state(const struct naive_run *run, uint32_t replica)
{
	uint32_t then_ms = then_of(run);
	bool is_now = run->fleet->scene->view != VIEW_DELAYED || then_ms == run->now_ms;

	return is_now ? state_of(run->fleet, replica) : run->past[then_ms][replica];
}

/* Leading blocks that the router takes for cached. */
static uint32_t seen_blocks(const struct naive_run *run, uint32_t replica, uint32_t id)
{
	const struct naive_fleet *fleet = run->fleet;
	const struct naive_scene *scene = fleet->scene;

	if (scene->view == VIEW_EXACT) {
		return known_blocks(scene, &fleet->cached[replica], id, run->now_ms, true);
	}
	if (strcmp(scene->router, "prefix") != 0) {
		return 0; /* it does not ask */
	}
	return scene->view == VIEW_OWN
		       ? known_blocks(scene, &fleet->sent[replica], id, run->now_ms, false)
		       : known_blocks(scene, &fleet->cached[replica], id, then_of(run), true);
}

static uint32_t load_of(const struct naive_run *run, uint32_t replica, uint32_t id)
{
	const char *router = run->fleet->scene->router;
	const struct naive_state state = seen_state(run, replica);

	if (strcmp(router, "least-tokens") == 0) {
		return state.tokens;
	}
	if (strcmp(router, "least-kv") == 0) {
		return state.blocks;
	}
	if (strcmp(router, "prefix") == 0) {
		uint32_t cached = seen_blocks(run, replica, id) * NAIVE_BLOCK;
		return run->fleet->scene->prompt[id] - cached + state.ahead;
	}
	return strcmp(router, "round-robin") == 0 ? 0 : state.requests;
}

/* The replica that gets a request now, or NAIVE_NOWHERE. */
static uint32_t pick(const struct naive_run *run, uint32_t id)
{
	const struct naive_fleet *fleet = run->fleet;
	uint32_t best = NAIVE_NOWHERE, least = 0, count = fleet->scene->replica_count;
	bool is_in_turn = strcmp(fleet->scene->router, "round-robin") == 0;

	for (uint32_t k = 0; k < count; k++) {
		uint32_t i = is_in_turn ? (fleet->last_picked + 1 + k) % count : k;
		uint32_t load = load_of(run, i, id);
		if (is_open(fleet, i) && (best == NAIVE_NOWHERE || load < least)) {
			best = i;
			least = load;
		}
	}
	return best;
}

/* ---- sending ---- */

static void charge(
	struct naive_fleet *fleet, enum wait_cause cause, uint32_t from_ms, uint32_t until_ms)
{
	require(fleet->wait_count < NAIVE_WAITS, "too many waits");
	fleet->waits[fleet->wait_count++] = (struct naive_wait){cause, from_ms, until_ms};
}

/* What is cached elsewhere, and what one cache for all would have. */
static void note_caches(struct naive_run *run, uint32_t id, uint32_t replica)
{
	struct naive_fleet *fleet = run->fleet;
	const struct naive_scene *scene = fleet->scene;
	uint32_t most = 0;

	for (uint32_t i = 0; i < scene->replica_count; i++) {
		uint32_t cached = known_blocks(scene, &fleet->cached[i], id, run->now_ms, true);
		most = is_open(fleet, i) ? u32_max(most, cached) : most;
	}
	fleet->regret_blocks +=
		most - known_blocks(scene, &fleet->cached[replica], id, run->now_ms, true);
	if (fleet->requests[id].failure == 0 && naive_fits(scene, id)) {
		fleet->whole_hit_tokens +=
			(uint64_t)NAIVE_BLOCK *
			known_blocks(scene, &fleet->whole, id, run->now_ms, true);
		fleet->whole_query_tokens += scene->prompt[id];
		add_prompt(&fleet->whole, id, run->now_ms);
	}
}

static void send(struct naive_run *run, uint32_t id, uint32_t replica)
{
	struct naive_fleet *fleet = run->fleet;
	struct naive_request *request = &fleet->requests[id];
	uint32_t cached = seen_blocks(run, replica, id) * NAIVE_BLOCK;

	note_caches(run, id, replica);
	if (naive_fits(fleet->scene, id)) {
		charge(fleet, WAIT_ROUTER, request->since_ms, run->now_ms);
	}
	*request = (struct naive_request){.place = AT_REPLICA,
		.replica = replica,
		.since_ms = request->since_ms,
		.sent_ms = run->now_ms,
		.ahead = fleet->scene->prompt[id] - cached,
		.number = fleet->send_count};
	add_prompt(&fleet->sent[replica], id, run->now_ms);
	fleet->last_picked = replica;
	fleet->picks[fleet->send_count][0] = id;
	fleet->picks[fleet->send_count][1] = replica;
	fleet->order[fleet->send_count++] = id;
}

/* Those of the latest failure come first, and all of one by number. */
static void send_waiting(struct naive_run *run)
{
	const struct naive_fleet *fleet = run->fleet;

	for (;;) {
		uint32_t first = NAIVE_NOWHERE;
		for (uint32_t id = 0; id < fleet->scene->row_count; id++) {
			const struct naive_request *request = &fleet->requests[id];
			if (request->place == AT_ROUTER &&
				(first == NAIVE_NOWHERE ||
					request->failure > fleet->requests[first].failure)) {
				first = id;
			}
		}
		uint32_t replica = first == NAIVE_NOWHERE ? NAIVE_NOWHERE : pick(run, first);
		if (replica == NAIVE_NOWHERE) {
			return;
		}
		send(run, first, replica);
	}
}

static uint32_t count_waiting(const struct naive_fleet *fleet)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < fleet->scene->row_count; i++) {
		count += fleet->requests[i].place == AT_ROUTER;
	}
	return count;
}

static void arrive(struct naive_run *run)
{
	struct naive_fleet *fleet = run->fleet;
	const struct naive_scene *scene = fleet->scene;

	send_waiting(run);
	for (; fleet->next_arrival < scene->row_count &&
		scene->arrival_ms[fleet->next_arrival] == run->now_ms;
		fleet->next_arrival++) {
		uint32_t id = fleet->next_arrival, waiting = count_waiting(fleet);
		bool may_be_sent = waiting == 0 && pick(run, id) != NAIVE_NOWHERE;
		bool is_refused = !may_be_sent && waiting >= scene->queue_limit;
		fleet->requests[id] = (struct naive_request){
			.place = is_refused ? REFUSED : AT_ROUTER, .since_ms = run->now_ms};
		fleet->steps_before[id] = fleet->step_count;
		send_waiting(run);
	}
}

/* ---- steps ---- */

static void admit(struct naive_fleet *fleet, uint32_t id)
{
	const struct naive_request *request = &fleet->requests[id];

	charge(fleet, WAIT_STEP, request->sent_ms, request->seen_ms);
	charge(fleet, WAIT_SEATS, request->seen_ms, request->admitted_ms);
	require(fleet->attempt_count < NAIVE_SENDS, "too many attempts");
	fleet->attempts[fleet->attempt_count++] = (struct naive_attempt){.id = id,
		.replica = request->replica,
		.step = fleet->step_count,
		.prompt = fleet->scene->prompt[id],
		.hits = request->hits,
		.lost_ms = NAIVE_NOWHERE};
}

/* Those that an engine has rejected leave it with its next step, or at once where it has none.
   Returns whether any does. */
static bool dismiss(struct naive_fleet *fleet, uint32_t replica)
{
	bool is_any = false;

	for (uint32_t id = 0; id < fleet->scene->row_count; id++) {
		struct naive_request *request = &fleet->requests[id];
		if (request->place == AT_REPLICA && request->replica == replica &&
			request->is_taken && !naive_fits(fleet->scene, id)) {
			request->place = REJECTED;
			is_any = true;
		}
	}
	return is_any;
}

static void end_step(struct naive_fleet *fleet, uint32_t replica, uint32_t now_ms)
{
	fleet->is_stepping[replica] = false;
	dismiss(fleet, replica);
	for (uint32_t id = 0; id < fleet->scene->row_count; id++) {
		struct naive_request *request = &fleet->requests[id];
		if (request->place != AT_REPLICA || request->replica != replica ||
			!request->is_running) {
			continue;
		}
		if (!request->has_admission) {
			request->has_admission = true;
			request->first_token_ms = now_ms;
			admit(fleet, id);
		}
		if (++request->tokens == naive_output(fleet->scene, id)) {
			request->place = DONE;
			request->finish_ms = now_ms;
			fleet->last_steps[id] = fleet->step_count;
			fleet->current[replica].finished++;
		}
	}
	require(fleet->step_count < NAIVE_STEPS, "too many steps");
	fleet->steps[fleet->step_count++] = fleet->current[replica];
}

static bool is_here(const struct naive_fleet *fleet, uint32_t id, uint32_t replica)
{
	return fleet->requests[id].place == AT_REPLICA && fleet->requests[id].replica == replica;
}

/* Gives the engine what was sent to it, in order, as long as fewer wait in it than have seats. */
static void take(struct naive_fleet *fleet, uint32_t replica)
{
	uint32_t waiting = 0;

	for (uint32_t id = 0; id < fleet->scene->row_count; id++) {
		const struct naive_request *request = &fleet->requests[id];
		waiting += is_here(fleet, id, replica) && request->is_taken &&
			   !request->is_running && naive_fits(fleet->scene, id);
	}
	for (uint32_t k = 0; k < fleet->send_count && waiting < fleet->scene->seats; k++) {
		struct naive_request *request = &fleet->requests[fleet->order[k]];
		if (is_here(fleet, fleet->order[k], replica) && request->number == k &&
			!request->is_taken) {
			request->is_taken = true;
			waiting += naive_fits(fleet->scene, fleet->order[k]);
		}
	}
}

/* Admits in the order of sending. A prompt is cached from its admission on. */
static void admit_waiting(struct naive_fleet *fleet, struct naive_step *step)
{
	for (uint32_t k = 0; k < fleet->send_count; k++) {
		uint32_t id = fleet->order[k];
		struct naive_request *request = &fleet->requests[id];
		if (!is_here(fleet, id, step->replica) || request->number != k ||
			request->is_running || !naive_fits(fleet->scene, id)) {
			continue;
		}
		request->seen_ms = request->is_seen ? request->seen_ms : step->start_ms;
		request->is_seen = true;
		if (step->running == fleet->scene->seats) {
			step->waiting++;
			continue;
		}
		step->running++;
		request->hits =
			NAIVE_BLOCK * known_blocks(fleet->scene, &fleet->cached[step->replica], id,
					      step->start_ms, true);
		step->prefill += fleet->scene->prompt[id] - request->hits;
		request->is_running = true;
		request->admitted_ms = step->start_ms;
		add_prompt(&fleet->cached[step->replica], id, step->start_ms);
	}
}

static void begin_step(struct naive_fleet *fleet, uint32_t replica, uint32_t now_ms)
{
	struct naive_step step = {.replica = replica, .start_ms = now_ms};

	for (uint32_t id = 0; id < fleet->scene->row_count; id++) {
		const struct naive_request *request = &fleet->requests[id];
		step.running += request->place == AT_REPLICA && request->replica == replica &&
				request->is_running;
	}
	step.decoding = step.running;
	take(fleet, replica);
	admit_waiting(fleet, &step);
	step.end_ms = now_ms + naive_step_ms(replica, step.decoding, step.prefill);
	fleet->is_stepping[replica] = step.running > 0;
	fleet->current[replica] = step;
}

/* ---- outages ---- */

/* The latest attempt of a request is lost. */
static void lose(struct naive_fleet *fleet, uint32_t id, uint32_t now_ms)
{
	uint32_t at = fleet->attempt_count - 1;

	while (fleet->attempts[at].id != id) {
		at--;
	}
	fleet->attempts[at].lost_ms = now_ms;
	fleet->attempts[at].lost_tokens = fleet->requests[id].tokens;
	charge(fleet, WAIT_LOST, fleet->requests[id].admitted_ms, now_ms);
}

static void fail(struct naive_fleet *fleet, uint32_t replica, uint32_t now_ms)
{
	bool is_stepping = fleet->is_stepping[replica];
	uint32_t start_ms = is_stepping ? fleet->current[replica].start_ms : now_ms;

	fleet->failures++;
	dismiss(fleet, replica);
	for (uint32_t id = 0; id < fleet->scene->row_count; id++) {
		struct naive_request *request = &fleet->requests[id];
		if (request->place != AT_REPLICA || request->replica != replica) {
			continue;
		}
		bool fits = naive_fits(fleet->scene, id);
		if (!fits) {			     /* nothing is charged */
		} else if (request->has_admission) { /* its wait was charged when it was admitted */
			lose(fleet, id, now_ms);
		} else if (request->is_seen) { /* the step in flight is lost */
			charge(fleet, WAIT_STEP, request->sent_ms, request->seen_ms);
			charge(fleet, WAIT_SEATS, request->seen_ms, start_ms);
			charge(fleet, WAIT_STEP, start_ms, now_ms);
		} else {
			charge(fleet, WAIT_STEP, request->sent_ms, now_ms);
		}
		fleet->retries++;
		*request = (struct naive_request){.place = AT_ROUTER,
			.failure = fleet->failures,
			.since_ms = fits ? now_ms : request->since_ms};
	}
	fleet->cached[replica].count = 0;
	fleet->sent[replica].count = 0;
	fleet->is_stepping[replica] = false;
	fleet->is_up[replica] = false;
}

static void play_outages(struct naive_fleet *fleet, uint32_t now_ms)
{
	const struct naive_scene *scene = fleet->scene;

	for (; fleet->next_outage < scene->outage_count &&
		scene->outages[fleet->next_outage].time_ms == now_ms;
		fleet->next_outage++) {
		const struct naive_outage *outage = &scene->outages[fleet->next_outage];
		if (outage->kind == OUTAGE_FAIL) {
			fail(fleet, outage->replica, now_ms);
		} else {
			fleet->is_up[outage->replica] = outage->kind == OUTAGE_JOIN;
		}
	}
}

/* ---- the run ---- */

/* Nothing runs or comes any more. Who waits at the router waits for the next replica that joins. */
static bool is_over(const struct naive_fleet *fleet)
{
	const struct naive_scene *scene = fleet->scene;
	bool is_stepping = false;

	for (uint32_t i = 0; i < scene->replica_count; i++) {
		is_stepping = is_stepping || fleet->is_stepping[i];
	}
	return !is_stepping && fleet->next_arrival == scene->row_count &&
	       (count_waiting(fleet) == 0 || fleet->next_outage == scene->outage_count);
}

static bool has_event(const struct naive_fleet *fleet, uint32_t now_ms)
{
	const struct naive_scene *scene = fleet->scene;
	bool is_any = (fleet->next_arrival < scene->row_count &&
			      scene->arrival_ms[fleet->next_arrival] == now_ms) ||
		      (fleet->next_outage < scene->outage_count &&
			      scene->outages[fleet->next_outage].time_ms == now_ms);

	for (uint32_t i = 0; i < scene->replica_count; i++) {
		is_any = is_any || (fleet->is_stepping[i] && fleet->current[i].end_ms == now_ms);
	}
	return is_any;
}

/* From the first arrival on, each millisecond in which a replica takes requests or has any. */
static void note_moment(struct naive_run *run)
{
	struct naive_fleet *fleet = run->fleet;
	const struct naive_scene *scene = fleet->scene;

	for (uint32_t i = 0; i < scene->replica_count; i++) {
		const struct naive_state state = state_of(fleet, i);
		bool is_there = fleet->is_up[i] || state.requests > 0;
		run->past[run->now_ms][i] = state;
		run->there_ms[i] += is_there && run->now_ms >= scene->arrival_ms[0];
	}
}

/* The first event of a replica decides. */
static bool is_up_at_first(const struct naive_scene *scene, uint32_t replica)
{
	for (uint32_t k = 0; k < scene->outage_count; k++) {
		if (scene->outages[k].replica == replica) {
			return scene->outages[k].kind != OUTAGE_JOIN;
		}
	}
	return true;
}

/* Who waits to be served when the last request has arrived, and those that can start have. */
static void note_backlog(struct naive_fleet *fleet, uint32_t now_ms)
{
	const struct naive_scene *scene = fleet->scene;

	if (now_ms != scene->arrival_ms[scene->row_count - 1]) {
		return;
	}
	for (uint32_t id = 0; id < scene->row_count; id++) {
		const struct naive_request *request = &fleet->requests[id];
		bool is_waiting = request->place == AT_ROUTER ||
				  (request->place == AT_REPLICA && !request->is_running);
		fleet->backlog += is_waiting && naive_fits(scene, id);
	}
}

/* Begins steps. Returns whether a replica without work has dismissed requests: then it may take
   others at once. */
static bool begin_steps(struct naive_fleet *fleet, uint32_t now_ms)
{
	bool is_any = false;

	for (uint32_t i = 0; i < fleet->scene->replica_count; i++) {
		if (!fleet->is_stepping[i]) {
			begin_step(fleet, i, now_ms);
			is_any = (!fleet->is_stepping[i] && dismiss(fleet, i)) || is_any;
		}
	}
	return is_any;
}

static void play_moment(struct naive_run *run)
{
	struct naive_fleet *fleet = run->fleet;
	uint32_t count = fleet->scene->replica_count;

	if (has_event(fleet, run->now_ms)) {
		fleet->end_ms = run->now_ms;
		memcpy(fleet->up_ms, run->there_ms, sizeof(fleet->up_ms));
	}
	for (uint32_t i = 0; i < count; i++) {
		if (fleet->is_stepping[i] && fleet->current[i].end_ms == run->now_ms) {
			end_step(fleet, i, run->now_ms);
		}
	}
	play_outages(fleet, run->now_ms);
	arrive(run);
	bool has_left = begin_steps(fleet, run->now_ms);
	note_backlog(fleet, run->now_ms);
	while (has_left) {
		send_waiting(run);
		has_left = begin_steps(fleet, run->now_ms);
	}
	note_moment(run);
}

void naive_fleet_play(struct naive_fleet *fleet, const struct naive_scene *scene)
{
	struct naive_run run = {.fleet = fleet};

	memset(fleet, 0, sizeof(*fleet));
	fleet->scene = scene;
	fleet->last_picked = scene->replica_count - 1;
	run.past = calloc(NAIVE_TIME_MS, sizeof(*run.past));
	require(run.past != NULL, "out of memory");
	for (uint32_t i = 0; i < scene->replica_count; i++) {
		fleet->is_up[i] = is_up_at_first(scene, i);
	}
	for (; !is_over(fleet); run.now_ms++) {
		require(run.now_ms < NAIVE_TIME_MS, "the naive fleet does not end");
		play_moment(&run);
	}
	for (uint32_t id = 0; id < scene->row_count; id++) {
		if (fleet->requests[id].place == AT_ROUTER) {
			charge(fleet, WAIT_ROUTER, fleet->requests[id].since_ms, fleet->end_ms);
		}
	}
	free(run.past);
}
