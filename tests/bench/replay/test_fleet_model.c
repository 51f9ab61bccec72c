#include "bench/replay/fleet.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "engine/policy.h"
#include "tests/harness/files.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/table_file.h"
#include "tests/harness/temporary.h"

/* A fleet beside a naive one, request by request and pick by pick: random traces, limits, queues,
   and replicas that fail, drain and join. The naive fleet looks at every millisecond, since all
   that happens, happens at one. Its engines have seats and nothing else: blocks and tokens never
   lack. */

enum {
	MS = 1000000,
	ROWS_MAX = 48,
	REPLICAS_MAX = 4,
	OUTAGES_DRAWN = 8,
	TIME_MAX_MS = 100000,
	CELLS_MAX = 24,
	PATH_BYTES = TEMPORARY_PATH_BYTES + 32
};

static const uint32_t NOWHERE = UINT32_MAX;

/* ---- what is drawn ---- */

struct drawn_outage {
	uint32_t time_ms, replica;
	enum outage_kind kind;
};

struct scene {
	uint32_t row_count, replica_count, seats;
	uint32_t replica_limit; /* 0: none */
	uint32_t queue_limit;	/* UINT32_MAX: none */
	uint32_t arrival_ms[ROWS_MAX], prompt[ROWS_MAX], output[ROWS_MAX];
	uint32_t outage_count;
	struct drawn_outage outages[OUTAGES_DRAWN]; /* in order of time */
	const char *router;
};

/* Milliseconds of a step of a replica. */
static uint32_t step_ms(uint32_t replica, uint64_t decode_rows, uint64_t prefill_tokens)
{
	return 1 + (uint32_t)((3 * decode_rows + prefill_tokens + 2 * replica) % 7);
}

static void draw(struct prop *prop, struct scene *scene)
{
	static const char *const routers[] = {
		"round-robin", "least-requests", "least-tokens", "prefix"};
	static const char *const kinds[] = {"fail", "drain", "join"};
	uint32_t time_ms = 0;

	*scene = (struct scene){.row_count = prop_range(prop, 1, ROWS_MAX),
		.replica_count = prop_range(prop, 2, REPLICAS_MAX),
		.seats = prop_range(prop, 1, 4),
		.replica_limit = prop_chance(prop, 1, 2) ? prop_range(prop, 1, 8) : 0,
		.queue_limit = prop_chance(prop, 1, 3) ? prop_range(prop, 0, 8) : UINT32_MAX,
		.router = routers[prop_below(prop, 4)]};
	for (uint32_t i = 0; i < scene->row_count; i++) {
		time_ms += prop_chance(prop, 1, 2) ? prop_range(prop, 0, 12) : 0;
		scene->arrival_ms[i] = time_ms;
		scene->prompt[i] = prop_range(prop, 1, 20);
		scene->output[i] = prop_range(prop, 1, 12);
	}
	prop_log(prop, "%u replicas, %s, %u seats, limit %u, queue %u", scene->replica_count,
		scene->router, scene->seats, scene->replica_limit, scene->queue_limit);
	for (uint32_t i = 0; i < scene->row_count; i++) {
		prop_log(prop, "request %u at %u ms: %u in, %u out", i, scene->arrival_ms[i],
			scene->prompt[i], scene->output[i]);
	}
	time_ms = 0;
	scene->outage_count = prop_chance(prop, 2, 3) ? prop_range(prop, 1, OUTAGES_DRAWN) : 0;
	for (uint32_t i = 0; i < scene->outage_count; i++) {
		time_ms += prop_range(prop, 0, 60);
		scene->outages[i] = (struct drawn_outage){.time_ms = time_ms,
			.replica = prop_range(prop, 0, scene->replica_count - 1),
			.kind = (enum outage_kind)prop_below(prop, 3)};
		prop_log(prop, "%s %u at %u ms", kinds[scene->outages[i].kind],
			scene->outages[i].replica, time_ms);
	}
}

/* ---- the naive fleet ---- */

enum place { TO_COME, AT_ROUTER, AT_REPLICA, DONE, REFUSED };

struct naive_request {
	enum place place;
	uint32_t failure;	    /* number of the one that it comes from; 0: none */
	uint32_t replica, number;   /* where this attempt was sent, and as which of all */
	uint32_t since_ms, sent_ms; /* of this attempt: at the router, at the replica */
	bool is_seen;		    /* by a decision of the replica, at seen_ms */
	uint32_t seen_ms;
	bool is_running, has_admission; /* has a seat; the step that gave it has ended */
	uint32_t admitted_ms;
	uint32_t tokens, first_token_ms, finish_ms;
};

struct naive_fleet {
	const struct scene *scene;
	struct naive_request requests[ROWS_MAX];
	uint32_t order[ROWS_MAX * (OUTAGES_DRAWN + 1)]; /* (send_count) as they were sent */
	uint64_t picks[ROWS_MAX * (OUTAGES_DRAWN + 1)][2];
	uint32_t send_count;
	bool is_up[REPLICAS_MAX], is_stepping[REPLICAS_MAX];
	uint32_t step_start_ms[REPLICAS_MAX], step_end_ms[REPLICAS_MAX];
	uint32_t last_picked, next_outage, next_arrival, failures;
	uint64_t retries, lost_tokens;
	uint64_t wait_ms[WAIT_CAUSE_COUNT];
};

static uint32_t unfinished(const struct naive_fleet *fleet, uint32_t replica, uint32_t *tokens)
{
	uint32_t count = 0;

	*tokens = 0;
	for (uint32_t i = 0; i < fleet->scene->row_count; i++) {
		if (fleet->requests[i].place == AT_REPLICA &&
			fleet->requests[i].replica == replica) {
			count++;
			*tokens += fleet->scene->prompt[i] + fleet->scene->output[i];
		}
	}
	return count;
}

/* Prompt tokens of requests without a first token. Without ids nothing is cached, and what router
   prefix adds for the request itself is the same everywhere. */
static uint32_t prompts_ahead(const struct naive_fleet *fleet, uint32_t replica)
{
	uint32_t tokens = 0;

	for (uint32_t i = 0; i < fleet->scene->row_count; i++) {
		const struct naive_request *request = &fleet->requests[i];
		bool is_ahead = request->place == AT_REPLICA && request->replica == replica &&
				!request->has_admission;
		tokens += is_ahead ? fleet->scene->prompt[i] : 0;
	}
	return tokens;
}

static bool is_open(const struct naive_fleet *fleet, uint32_t replica)
{
	uint32_t tokens, limit = fleet->scene->replica_limit;

	return fleet->is_up[replica] && (limit == 0 || unfinished(fleet, replica, &tokens) < limit);
}

/* The replica that gets the next request, or NOWHERE. */
static uint32_t pick(struct naive_fleet *fleet)
{
	uint32_t best = NOWHERE, least = 0, count = fleet->scene->replica_count;
	bool is_in_turn = strcmp(fleet->scene->router, "round-robin") == 0;

	for (uint32_t k = 0; k < count; k++) {
		uint32_t tokens, i = is_in_turn ? (fleet->last_picked + 1 + k) % count : k;
		uint32_t requests = unfinished(fleet, i, &tokens);
		uint32_t load = is_in_turn					    ? 0
				: strcmp(fleet->scene->router, "least-tokens") == 0 ? tokens
				: strcmp(fleet->scene->router, "prefix") == 0
					? prompts_ahead(fleet, i)
					: requests;
		if (is_open(fleet, i) && (best == NOWHERE || load < least)) {
			best = i;
			least = load;
		}
	}
	return best;
}

static void charge(
	struct naive_fleet *fleet, enum wait_cause cause, uint32_t from_ms, uint32_t until_ms)
{
	fleet->wait_ms[cause] += until_ms - from_ms;
}

static void send(struct naive_fleet *fleet, uint32_t id, uint32_t replica, uint32_t now_ms)
{
	struct naive_request *request = &fleet->requests[id];

	charge(fleet, WAIT_ROUTER, request->since_ms, now_ms);
	*request = (struct naive_request){.place = AT_REPLICA,
		.replica = replica,
		.sent_ms = now_ms,
		.number = fleet->send_count};
	fleet->last_picked = replica;
	fleet->picks[fleet->send_count][0] = id;
	fleet->picks[fleet->send_count][1] = replica;
	fleet->order[fleet->send_count++] = id;
}

/* Those of the latest failure come first, and all of one by number. */
static void send_waiting(struct naive_fleet *fleet, uint32_t now_ms)
{
	for (;;) {
		uint32_t first = NOWHERE, replica = pick(fleet);
		for (uint32_t id = 0; id < fleet->scene->row_count; id++) {
			const struct naive_request *request = &fleet->requests[id];
			if (request->place == AT_ROUTER &&
				(first == NOWHERE ||
					request->failure > fleet->requests[first].failure)) {
				first = id;
			}
		}
		if (first == NOWHERE || replica == NOWHERE) {
			return;
		}
		send(fleet, first, replica, now_ms);
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

static void arrive(struct naive_fleet *fleet, uint32_t now_ms)
{
	const struct scene *scene = fleet->scene;

	send_waiting(fleet, now_ms);
	for (; fleet->next_arrival < scene->row_count &&
		scene->arrival_ms[fleet->next_arrival] == now_ms;
		fleet->next_arrival++) {
		uint32_t id = fleet->next_arrival, waiting = count_waiting(fleet);
		struct naive_request *request = &fleet->requests[id];
		bool may_be_sent = waiting == 0 && pick(fleet) != NOWHERE;
		bool is_refused = !may_be_sent && waiting >= scene->queue_limit;
		*request = (struct naive_request){
			.place = is_refused ? REFUSED : AT_ROUTER, .since_ms = now_ms};
		send_waiting(fleet, now_ms);
	}
}

static void end_step(struct naive_fleet *fleet, uint32_t replica, uint32_t now_ms)
{
	fleet->is_stepping[replica] = false;
	for (uint32_t id = 0; id < fleet->scene->row_count; id++) {
		struct naive_request *request = &fleet->requests[id];
		if (request->place != AT_REPLICA || request->replica != replica ||
			!request->is_running) {
			continue;
		}
		if (!request->has_admission) {
			request->has_admission = true;
			charge(fleet, WAIT_STEP, request->sent_ms, request->seen_ms);
			charge(fleet, WAIT_SEATS, request->seen_ms, request->admitted_ms);
			request->first_token_ms = now_ms;
		}
		if (++request->tokens == fleet->scene->output[id]) {
			request->place = DONE;
			request->finish_ms = now_ms;
		}
	}
}

/* Admits in the order of sending, and begins a step where there is work. */
static void begin_step(struct naive_fleet *fleet, uint32_t replica, uint32_t now_ms)
{
	uint64_t running = 0, prefill = 0;

	for (uint32_t id = 0; id < fleet->scene->row_count; id++) {
		const struct naive_request *request = &fleet->requests[id];
		running += request->place == AT_REPLICA && request->replica == replica &&
			   request->is_running;
	}
	uint64_t decoding = running;
	for (uint32_t k = 0; k < fleet->send_count; k++) {
		uint32_t id = fleet->order[k];
		struct naive_request *request = &fleet->requests[id];
		if (request->place != AT_REPLICA || request->replica != replica ||
			request->number != k || request->is_running) {
			continue;
		}
		request->seen_ms = request->is_seen ? request->seen_ms : now_ms;
		request->is_seen = true;
		if (running < fleet->scene->seats) {
			running++;
			prefill += fleet->scene->prompt[id];
			request->is_running = true;
			request->admitted_ms = now_ms;
		}
	}
	fleet->is_stepping[replica] = running > 0;
	fleet->step_start_ms[replica] = now_ms;
	fleet->step_end_ms[replica] = now_ms + step_ms(replica, decoding, prefill);
}

static void fail(struct naive_fleet *fleet, uint32_t replica, uint32_t now_ms)
{
	uint32_t start_ms = fleet->is_stepping[replica] ? fleet->step_start_ms[replica] : now_ms;

	fleet->failures++;
	for (uint32_t id = 0; id < fleet->scene->row_count; id++) {
		struct naive_request *request = &fleet->requests[id];
		if (request->place != AT_REPLICA || request->replica != replica) {
			continue;
		}
		if (request->has_admission) { /* its wait was charged when it was admitted */
			charge(fleet, WAIT_LOST, request->admitted_ms, now_ms);
		} else if (request->is_seen) { /* the step in flight is lost */
			charge(fleet, WAIT_STEP, request->sent_ms, request->seen_ms);
			charge(fleet, WAIT_SEATS, request->seen_ms, start_ms);
			charge(fleet, WAIT_STEP, start_ms, now_ms);
		} else {
			charge(fleet, WAIT_STEP, request->sent_ms, now_ms);
		}
		fleet->lost_tokens += request->tokens;
		fleet->retries++;
		*request = (struct naive_request){
			.place = AT_ROUTER, .failure = fleet->failures, .since_ms = now_ms};
	}
	fleet->is_stepping[replica] = false;
	fleet->is_up[replica] = false;
}

static void play_outages(struct naive_fleet *fleet, uint32_t now_ms)
{
	const struct scene *scene = fleet->scene;

	for (; fleet->next_outage < scene->outage_count &&
		scene->outages[fleet->next_outage].time_ms == now_ms;
		fleet->next_outage++) {
		const struct drawn_outage *outage = &scene->outages[fleet->next_outage];
		if (outage->kind == OUTAGE_FAIL) {
			fail(fleet, outage->replica, now_ms);
		} else {
			fleet->is_up[outage->replica] = outage->kind == OUTAGE_JOIN;
		}
	}
}

static bool is_over(const struct naive_fleet *fleet)
{
	bool is_stepping = false;

	for (uint32_t i = 0; i < fleet->scene->replica_count; i++) {
		is_stepping = is_stepping || fleet->is_stepping[i];
	}
	return !is_stepping && fleet->next_arrival == fleet->scene->row_count &&
	       fleet->next_outage == fleet->scene->outage_count;
}

static void play(struct naive_fleet *fleet, const struct scene *scene)
{
	*fleet = (struct naive_fleet){.scene = scene, .last_picked = scene->replica_count - 1};
	for (uint32_t i = 0; i < scene->replica_count; i++) {
		fleet->is_up[i] = true;
		for (uint32_t k = scene->outage_count; k > 0; k--) {
			if (scene->outages[k - 1].replica == i) { /* the first event decides */
				fleet->is_up[i] = scene->outages[k - 1].kind != OUTAGE_JOIN;
			}
		}
	}
	for (uint32_t now_ms = 0; !is_over(fleet); now_ms++) {
		require(now_ms < TIME_MAX_MS, "the naive fleet does not end");
		for (uint32_t i = 0; i < scene->replica_count; i++) {
			if (fleet->is_stepping[i] && fleet->step_end_ms[i] == now_ms) {
				end_step(fleet, i, now_ms);
			}
		}
		play_outages(fleet, now_ms);
		arrive(fleet, now_ms);
		for (uint32_t i = 0; i < scene->replica_count; i++) {
			if (!fleet->is_stepping[i]) {
				begin_step(fleet, i, now_ms);
			}
		}
	}
}

/* ---- the fleet ---- */

static enum status take_time(void *state, const struct batch *batch, int32_t *token_ids,
	struct step_time *time, struct error *error)
{
	const uint32_t *replica = state;
	uint64_t ns = (uint64_t)MS *
		      step_ms(*replica, batch->counts.decode_rows, batch->counts.prefill_tokens);

	(void)token_ids;
	(void)error;
	*time = (struct step_time){.elapsed_ns = ns, .gpu_ns = ns, .mode = STEP_MODE_NONE};
	return STATUS_OK;
}

static void write_trace(const struct scene *scene, const char *path)
{
	FILE *file = fopen(path, "wb");

	require(file != NULL, "no trace");
	for (uint32_t i = 0; i < scene->row_count; i++) {
		fprintf(file,
			"{\"timestamp\": %u, \"input_length\": %u, \"output_length\": %u, "
			"\"hash_ids\": [%u]}\n",
			scene->arrival_ms[i], scene->prompt[i], scene->output[i], i);
	}
	require(fclose(file) == 0, "no trace");
}

static void add_outages(const struct scene *scene, char *text, size_t bytes)
{
	static const char *const words[] = {"fail", "drain", "join"};
	size_t used = 0;

	for (uint32_t i = 0; i < scene->outage_count; i++) {
		const struct drawn_outage *outage = &scene->outages[i];
		used += (size_t)snprintf(text + used, bytes - used, "%s%s:%u@%u.%03u",
			i == 0 ? "" : ",", words[outage->kind], outage->replica,
			outage->time_ms / 1000, outage->time_ms % 1000);
	}
}

static uint32_t router_index(const char *name)
{
	uint32_t index = 0;

	while (strcmp(router_at(index)->name, name) != 0) {
		index++;
	}
	return index;
}

static void open_fleet(struct fleet *fleet, const struct scene *scene,
	const struct replay_options *options, uint32_t *numbers)
{
	struct error error = {0};

	fleet_init(fleet, scene->replica_count);
	for (uint32_t i = 0; i < scene->replica_count; i++) {
		numbers[i] = i;
		fleet->runners[i] = (struct runner){
			.name = "drawn", .execute = take_time, .state = &numbers[i]};
		fleet->configs[i] = (struct engine_config){.policy = &policy_mixed,
			.block_size = 4,
			.kv_block_count = 400,
			.max_num_seqs = scene->seats,
			.max_num_batched_tokens = 256,
			.max_model_len = 50,
			.eos_token_id = -1};
	}
	require(fleet_open(fleet, options, &error) == STATUS_OK, "%s", error.text);
}

/* ---- what must agree ---- */

static void require_cell(uint32_t id, const char *what, const char *cell, bool has, uint32_t ms)
{
	char expected[32] = "-";

	if (has) {
		snprintf(expected, sizeof(expected), "%llu", (unsigned long long)ms * MS);
	}
	require(strcmp(cell, expected) == 0, "request %u: %s is %s, expected %s", id, what, cell,
		expected);
}

static void require_request(const struct naive_fleet *naive, char *line)
{
	static const char *const words[] = {[AT_ROUTER] = "unfinished",
		[AT_REPLICA] = "unfinished",
		[DONE] = "finished",
		[REFUSED] = "rejected_queue_full"};
	const char *cells[CELLS_MAX];
	uint32_t count = 0;

	for (char *cell = strtok(line, "\t"); cell != NULL; cell = strtok(NULL, "\t")) {
		cells[count++] = cell;
	}
	require(count == 18, "found %u columns", count);
	uint32_t id = (uint32_t)strtoul(cells[0], NULL, 10);
	const struct naive_request *request = &naive->requests[id];
	bool is_done = request->place == DONE;
	require(strcmp(cells[2], words[request->place]) == 0, "request %u is %s, expected %s", id,
		cells[2], words[request->place]);
	require_cell(id, "arrival", cells[3], true, naive->scene->arrival_ms[id]);
	require_cell(id, "admission", cells[4], is_done, request->admitted_ms);
	require_cell(id, "first token", cells[5], is_done, request->first_token_ms);
	require_cell(id, "finish", cells[6], is_done, request->finish_ms);
	if (is_done) {
		require_equal(strtoul(cells[9], NULL, 10), naive->scene->output[id]);
		require_equal(strtoul(cells[17], NULL, 10), request->replica);
	} else {
		require(strcmp(cells[17], "-") == 0, "request %u is on replica %s", id, cells[17]);
	}
}

static void require_requests(const struct naive_fleet *naive, const char *path)
{
	char *text = file_read(path, NULL), *next = strchr(text, '\n') + 1;
	uint32_t count = 0;

	for (; *next != '\0'; count++) {
		char *line = next, *end = strchr(line, '\n');
		*end = '\0';
		next = end + 1;
		require_request(naive, line);
	}
	require_equal(count, naive->scene->row_count);
	free(text);
}

/* Tokens and waits of all attempts; nothing is counted twice or lost. */
static void require_sums(
	const struct naive_fleet *naive, struct fleet *fleet, const struct run_outcome *outcome)
{
	uint64_t output = 0;
	uint32_t unserved = 0;

	for (uint32_t i = 0; i < naive->scene->row_count; i++) {
		output += naive->requests[i].place == DONE ? naive->scene->output[i] : 0;
		unserved += naive->requests[i].place == AT_ROUTER;
	}
	require_equal(outcome->unfinished, unserved);
	require_equal(outcome->fleet.retries, naive->retries);
	require_equal(outcome->work.output_tokens, output);
	require_equal(outcome->work.lost_output_tokens, naive->lost_tokens);
	require_equal(desk_decisions_hash(&fleet->desk),
		XXH64(naive->picks, naive->send_count * sizeof(naive->picks[0]), 0));
	for (uint32_t cause = 0; cause < WAIT_CAUSE_COUNT; cause++) {
		/* Those that are never served wait at the router to the end of the run. */
		bool is_known = unserved == 0 || cause != WAIT_ROUTER;
		require(!is_known || outcome->work.waits.ns[cause] == naive->wait_ms[cause] * MS,
			"waits of cause %u are %llu ns, expected %llu", cause,
			(unsigned long long)outcome->work.waits.ns[cause],
			(unsigned long long)naive->wait_ms[cause] * MS);
	}
}

static void body(struct prop *prop, const void *context)
{
	static struct table_writer requests;
	static struct naive_fleet naive;
	char folder[TEMPORARY_PATH_BYTES], trace[PATH_BYTES], path[PATH_BYTES], outages[1024];
	const struct workload_options load = {.speedup_millionths = 1000000};
	uint32_t numbers[REPLICAS_MAX];
	struct replay_config config;
	struct run_outcome outcome;
	struct fleet fleet;
	struct error error = {0};
	struct scene scene;

	(void)context;
	draw(prop, &scene);
	play(&naive, &scene);
	temporary_folder(folder);
	snprintf(trace, sizeof(trace), "%s/trace.jsonl", folder);
	snprintf(path, sizeof(path), "%s/requests.tsv", folder);
	write_trace(&scene, trace);
	add_outages(&scene, outages, sizeof(outages));
	replay_config_default(&config);
	config.replicas = scene.replica_count;
	config.router = router_index(scene.router);
	config.outages = scene.outage_count > 0 ? outages : NULL;
	config.replica_limit = scene.replica_limit;
	config.router_queue =
		scene.queue_limit == UINT32_MAX ? NO_ROUTER_QUEUE_LIMIT : scene.queue_limit;
	const struct replay_options options = {.config = &config,
		.workload = &load,
		.trace_path = trace,
		.is_checking = true,
		.vocab_size = 1000};
	open_fleet(&fleet, &scene, &options, numbers);
	table_file_open(&requests, path, REQUEST_COLUMNS "\t" REQUEST_REPLICA_COLUMN);
	fleet_set_sinks(&fleet, &(struct replay_sinks){.requests = &requests});
	require(fleet_run(&fleet, &error) == STATUS_OK, "%s", error.text);
	table_file_close(&requests);
	fleet_outcome(&fleet, &outcome);
	require_requests(&naive, path);
	require_sums(&naive, &fleet, &outcome);
	fleet_close(&fleet);
	temporary_remove(folder);
}

Test(fleet_model, a_fleet_is_that_of_a_naive_model, .timeout = 300)
{
	const struct prop_options options = {
		.name = "fleet", .body = body, .trials = 300, .timeout_s = 20};

	cr_assert(prop_holds(&options));
}
