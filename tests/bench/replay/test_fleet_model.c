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
#include "tests/models/naive_fleet.h"

/* A fleet beside a naive one: request by request, pick by pick, and every sum of the run, of its
   window and of each replica. */

enum { CELLS_MAX = 24, PATH_BYTES = TEMPORARY_PATH_BYTES + 32 };

/* ---- the fleet ---- */

/* A replica's number, and how many steps of all replicas are left before one fails. */
struct pacer {
	uint32_t replica;
	uint32_t *steps_left;
};

static enum status take_time(void *state, const struct batch *batch, int32_t *token_ids,
	struct step_time *time, struct error *error)
{
	const struct pacer *pacer = state;
	uint64_t ns = (uint64_t)NAIVE_MS * naive_step_ms(pacer->replica, batch->counts.decode_rows,
						   batch->counts.prefill_tokens);

	(void)token_ids;
	if ((*pacer->steps_left)-- == 0) {
		return error_set(error, STATUS_DEVICE, "the pacer stumbles");
	}
	*time = (struct step_time){.elapsed_ns = ns, .gpu_ns = ns, .mode = STEP_MODE_NONE};
	return STATUS_OK;
}

static void write_trace(const struct naive_scene *scene, const char *path)
{
	FILE *file = fopen(path, "wb");

	require(file != NULL, "no trace");
	for (uint32_t i = 0; i < scene->row_count; i++) {
		fprintf(file,
			"{\"timestamp\": %u, \"input_length\": %u, \"output_length\": %u, "
			"\"hash_ids\": [%u], \"session_id\": \"chat %u\"}\n",
			scene->arrival_ms[i], scene->prompt[i], scene->output[i], scene->group[i],
			i);
	}
	require(fclose(file) == 0, "no trace");
}

static void add_outages(const struct naive_scene *scene, char *text, size_t bytes)
{
	static const char *const words[] = {"fail", "drain", "join"};
	size_t used = 0;

	for (uint32_t i = 0; i < scene->outage_count; i++) {
		const struct naive_outage *outage = &scene->outages[i];
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

static void open_fleet(struct fleet *fleet, const struct naive_scene *scene,
	const struct replay_options *options, struct pacer *pacers, uint32_t *steps_left)
{
	struct error error = {0};

	fleet_init(fleet, scene->replica_count);
	for (uint32_t i = 0; i < scene->replica_count; i++) {
		pacers[i] = (struct pacer){i, steps_left};
		fleet->runners[i] =
			(struct runner){.name = "drawn", .execute = take_time, .state = &pacers[i]};
		fleet->configs[i] =
			(struct engine_config){.policy = scene->caps ? &policy_vllm : &policy_mixed,
				.block_size = NAIVE_BLOCK,
				.kv_block_count = scene->kv_blocks,
				.max_num_seqs = scene->seats,
				.max_num_batched_tokens = 256,
				.max_model_len = NAIVE_LENGTH,
				.eos_token_id = -1};
	}
	require(fleet_open(fleet, options, &error) == STATUS_OK, "%s", error.text);
}

/* ---- what must agree ---- */

static void require_cell(uint32_t id, const char *what, const char *cell, bool has, uint32_t ms)
{
	char expected[32] = "-";

	if (has) {
		snprintf(expected, sizeof(expected), "%llu", (unsigned long long)ms * NAIVE_MS);
	}
	require(strcmp(cell, expected) == 0, "request %u: %s is %s, expected %s", id, what, cell,
		expected);
}

static void require_request(const struct naive_fleet *naive, char *line)
{
	static const char *const words[] = {[AT_ROUTER] = "unfinished",
		[AT_REPLICA] = "unfinished",
		[DONE] = "finished",
		[REFUSED] = "rejected_queue_full",
		[REJECTED] = "rejected_too_long"};
	const char *cells[CELLS_MAX];
	uint32_t count = 0;

	for (char *cell = strtok(line, "\t"); cell != NULL; cell = strtok(NULL, "\t")) {
		cells[count++] = cell;
	}
	require(count == 18, "found %u columns", count);
	uint32_t id = (uint32_t)strtoul(cells[0], NULL, 10);
	const struct naive_request *request = &naive->requests[id];
	bool is_done = request->place == DONE;
	char session[32];
	snprintf(session, sizeof(session), "chat %u", id);
	require(strcmp(cells[1], session) == 0, "request %u is of session %s", id, cells[1]);
	require(strcmp(cells[2], words[request->place]) == 0, "request %u is %s, expected %s", id,
		cells[2], words[request->place]);
	require_cell(id, "arrival", cells[3], true, naive->scene->arrival_ms[id]);
	require_cell(id, "admission", cells[4], is_done, request->admitted_ms);
	require_cell(id, "first token", cells[5], is_done, request->first_token_ms);
	require_cell(id, "finish", cells[6], is_done, request->finish_ms);
	if (request->place == REJECTED) {
		require_equal(strtoul(cells[17], NULL, 10), request->replica);
	} else if (is_done) {
		require_equal(strtoul(cells[8], NULL, 10), request->hits);
		require_equal(strtoul(cells[9], NULL, 10), naive_output(naive->scene, id));
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
	uint64_t capped = 0;
	uint64_t longest = 0;
	uint32_t unserved = 0, refused = 0, rejected = 0;

	for (uint32_t i = 0; i < naive->scene->row_count; i++) {
		unserved += naive->requests[i].place == AT_ROUTER;
		refused += naive->requests[i].place == REFUSED;
		if (naive->requests[i].place == REJECTED) {
			rejected++;
			longest =
				u64_max(longest, naive->scene->prompt[i] + naive->scene->output[i]);
		}
		capped += naive->requests[i].place == DONE &&
			  naive_output(naive->scene, i) < naive->scene->output[i];
	}
	require_equal(outcome->submitted, naive->scene->row_count);
	require_equal(outcome->unfinished, unserved);
	require_equal(outcome->rejected, refused + rejected);
	require_equal(outcome->rejected_too_long, rejected);
	require_equal(outcome->rejected_never_fits, 0);
	require_equal(outcome->longest_too_long, longest);
	require_equal(outcome->capped, capped);
	require_equal(outcome->fleet.refused, refused);
	require_equal(outcome->backlog_at_last_arrival, naive->backlog);
	require_equal(outcome->fleet.retries, naive->retries);
	require_equal(outcome->fleet.regret_blocks, naive->regret_blocks);
	require_equal(outcome->fleet.whole_hit_tokens, naive->whole_hit_tokens);
	require_equal(outcome->fleet.whole_query_tokens, naive->whole_query_tokens);
	require_equal(desk_decisions_hash(&fleet->desk),
		XXH64(naive->picks, naive->send_count * sizeof(naive->picks[0]), 0));
}

static bool is_measured(const struct naive_scene *scene, uint32_t id)
{
	return id >= scene->warmup && id < scene->row_count - scene->cooldown;
}

/* Of all requests, and of those that are measured. */
static void require_requests_counted(
	const struct naive_fleet *naive, const struct run_outcome *outcome)
{
	const struct naive_scene *scene = naive->scene;
	uint32_t last_id = scene->row_count - 1, end_id = scene->row_count - scene->cooldown;
	uint32_t finished = 0, measured = 0, last_finish_ms = 0, last_arrival_ms;

	for (uint32_t id = 0; id < scene->row_count; id++) {
		bool is_done = naive->requests[id].place == DONE;
		finished += is_done;
		measured += is_done && is_measured(scene, id);
		last_finish_ms = is_done ? u32_max(last_finish_ms, naive->requests[id].finish_ms)
					 : last_finish_ms;
	}
	last_arrival_ms = scene->arrival_ms[last_id];
	require_equal(outcome->finished, finished);
	require_equal(outcome->measured_finished, measured);
	require_equal(outcome->warmup_submitted, scene->warmup);
	require_equal(outcome->measured_submitted, end_id - scene->warmup);
	require_equal(outcome->last_arrival_ns, (uint64_t)last_arrival_ms * NAIVE_MS);
	require_equal(outcome->arrival_span_ns,
		(uint64_t)(scene->arrival_ms[end_id - 1] - scene->arrival_ms[scene->warmup]) *
			NAIVE_MS);
	require_equal(outcome->drain_ns,
		finished == 0 || last_finish_ms < last_arrival_ms
			? 0
			: (uint64_t)(last_finish_ms - last_arrival_ms) * NAIVE_MS);
}

/* ---- the window ---- */

/* Times of a run's window, and which of all steps count in it. */
struct naive_window {
	bool is_open, is_cut_short;
	uint32_t start_ms, end_ms, first_step, end_step;
};

static struct naive_window find_window(const struct naive_fleet *naive)
{
	const struct naive_scene *scene = naive->scene;
	struct naive_window window = {.is_open = false};

	for (uint32_t id = 0; id < scene->row_count; id++) {
		const struct naive_request *request = &naive->requests[id];
		if (!is_measured(scene, id) || request->place == REFUSED ||
			!naive_fits(scene, id)) {
			continue;
		}
		if (!window.is_open) {
			window.is_open = true;
			window.start_ms = scene->arrival_ms[id];
			window.first_step = naive->steps_before[id];
		}
		window.is_cut_short = window.is_cut_short || request->place != DONE;
		if (request->place == DONE && naive->last_steps[id] >= window.end_step) {
			window.end_step = naive->last_steps[id] + 1;
			window.end_ms = request->finish_ms;
		}
	}
	/* One of the whole run begins with it; its waits may be of earlier times. */
	if (scene->warmup + scene->cooldown == 0) {
		window.first_step = 0;
	}
	if (window.is_cut_short || scene->warmup + scene->cooldown == 0) {
		window.end_step = naive->step_count;
	}
	window.end_ms = window.is_cut_short ? naive->end_ms : window.end_ms;
	return window;
}

static uint64_t overlap_ns(const struct naive_window *window, uint32_t from_ms, uint32_t until_ms)
{
	uint32_t from = u32_max(from_ms, window->start_ms);
	uint32_t until = u32_min(until_ms, window->end_ms);

	return until > from ? (uint64_t)(until - from) * NAIVE_MS : 0;
}

static void add_steps(
	const struct naive_fleet *naive, const struct naive_window *window, struct run_sums *out)
{
	for (uint32_t i = 0; i < naive->step_count; i++) {
		const struct naive_step *step = &naive->steps[i];
		uint64_t span_ns = overlap_ns(window, step->start_ms, step->end_ms);
		out->busy_ns += span_ns;
		out->running_ns += (u128)step->running * span_ns;
		out->waiting_ns += (u128)step->waiting * span_ns;
		if (i < window->first_step || i >= window->end_step) {
			continue;
		}
		out->steps++;
		out->finished += step->finished;
		out->output_tokens += step->running;
		out->sums.decode_rows += step->decoding;
		out->sums.prefill_tokens += step->prefill;
		out->sums.running_peak = u64_max(out->sums.running_peak, step->running);
		out->sums.tokens_peak =
			u64_max(out->sums.tokens_peak, step->decoding + step->prefill);
	}
}

/* A prompt counts in the window that admitted it, unless the attempt is lost at any time; the
   tokens of a lost one are taken out where it was lost. */
static void add_attempts(
	const struct naive_fleet *naive, const struct naive_window *window, struct run_sums *out)
{
	for (uint32_t i = 0; i < naive->attempt_count; i++) {
		const struct naive_attempt *attempt = &naive->attempts[i];
		bool is_lost = attempt->lost_ms != NAIVE_NOWHERE;
		bool is_lost_in = is_lost && attempt->lost_ms > window->start_ms &&
				  (window->is_cut_short || attempt->lost_ms < window->end_ms);
		out->lost_output_tokens += is_lost_in ? attempt->lost_tokens : 0;
		if (attempt->step < window->first_step || attempt->step >= window->end_step) {
			continue;
		}
		*(is_lost ? &out->lost_prompt_tokens : &out->prompt_tokens) += attempt->prompt;
		*(is_lost ? &out->lost_hit_tokens : &out->hit_tokens) += attempt->hits;
	}
	out->output_tokens -= u64_min(out->output_tokens, out->lost_output_tokens);
}

static void require_window(const struct naive_fleet *naive, const struct run_outcome *outcome)
{
	const struct run_sums *work = &outcome->work;
	const struct naive_window window = find_window(naive);
	struct run_sums expected = {0};

	require(window.is_open || work->steps == 0, "a window of nothing");
	if (!window.is_open) {
		return;
	}
	add_steps(naive, &window, &expected);
	add_attempts(naive, &window, &expected);
	for (uint32_t i = 0; i < naive->wait_count; i++) {
		const struct naive_wait *wait = &naive->waits[i];
		expected.waits.ns[wait->cause] +=
			overlap_ns(&window, wait->from_ms, wait->until_ms);
	}
	require_equal(outcome->window_start_ns, (uint64_t)window.start_ms * NAIVE_MS);
	require_equal(outcome->window_ns, (uint64_t)(window.end_ms - window.start_ms) * NAIVE_MS);
	require_equal(outcome->steps_before, window.first_step);
	require_equal(outcome->steps_after, naive->step_count - window.end_step);
	require_equal(work->steps, expected.steps);
	require_equal(work->finished, expected.finished);
	require_equal(work->prompt_tokens, expected.prompt_tokens);
	require_equal(work->hit_tokens, expected.hit_tokens);
	require_equal(work->output_tokens, expected.output_tokens);
	require_equal(work->lost_prompt_tokens, expected.lost_prompt_tokens);
	require_equal(work->lost_hit_tokens, expected.lost_hit_tokens);
	require_equal(work->lost_output_tokens, expected.lost_output_tokens);
	require_equal(work->busy_ns, expected.busy_ns);
	require_equal((uint64_t)work->running_ns, (uint64_t)expected.running_ns);
	require_equal((uint64_t)work->waiting_ns, (uint64_t)expected.waiting_ns);
	require_equal(work->sums.decode_rows, expected.sums.decode_rows);
	require_equal(work->sums.prefill_tokens, expected.sums.prefill_tokens);
	require_equal(work->sums.running_peak, expected.sums.running_peak);
	require_equal(work->sums.tokens_peak, expected.sums.tokens_peak);
	for (uint32_t cause = 0; cause < WAIT_CAUSE_COUNT; cause++) {
		require(work->waits.ns[cause] == expected.waits.ns[cause],
			"waits of cause %u are %llu ns, expected %llu", cause,
			(unsigned long long)work->waits.ns[cause],
			(unsigned long long)expected.waits.ns[cause]);
	}
}

/* ---- each replica ---- */

static void require_replica(
	const struct naive_fleet *naive, const struct replica_figures *found, uint32_t replica)
{
	struct replica_figures expected = {0};

	for (uint32_t i = 0; i < naive->step_count; i++) {
		const struct naive_step *step = &naive->steps[i];
		if (step->replica == replica) {
			expected.steps++;
			expected.finished += step->finished;
			expected.output_tokens += step->running;
			expected.busy_ns += (uint64_t)(step->end_ms - step->start_ms) * NAIVE_MS;
		}
	}
	for (uint32_t i = 0; i < naive->scene->row_count; i++) {
		const struct naive_request *request = &naive->requests[i];
		expected.submitted += request->place == REJECTED && request->replica == replica;
	}
	for (uint32_t i = 0; i < naive->attempt_count; i++) {
		const struct naive_attempt *attempt = &naive->attempts[i];
		if (attempt->replica == replica && attempt->lost_ms == NAIVE_NOWHERE) {
			expected.submitted++;
			expected.prompt_tokens += attempt->prompt;
			expected.hit_tokens += attempt->hits;
		} else if (attempt->replica == replica) {
			expected.lost_tokens += attempt->lost_tokens;
		}
	}
	require_equal(found->up_ns, (uint64_t)naive->up_ms[replica] * NAIVE_MS);
	require_equal(found->submitted, expected.submitted);
	require_equal(found->finished, expected.finished);
	require_equal(found->steps, expected.steps);
	require_equal(found->busy_ns, expected.busy_ns);
	require_equal(found->prompt_tokens, expected.prompt_tokens);
	require_equal(found->query_tokens, expected.prompt_tokens);
	require_equal(found->hit_tokens, expected.hit_tokens);
	require_equal(found->lost_tokens, expected.lost_tokens);
	require_equal(found->output_tokens, expected.output_tokens - expected.lost_tokens);
}

/* ---- a scene in a fleet ---- */

/* What a scene is in a folder: its files and its options. */
struct staged {
	char folder[TEMPORARY_PATH_BYTES], trace[PATH_BYTES], requests[PATH_BYTES];
	char outages[1024], view[32];
	struct replay_config config;
};

static void stage(struct staged *staged, const struct naive_scene *scene)
{
	struct replay_config *config = &staged->config;
	bool is_delayed = scene->view == VIEW_DELAYED;

	temporary_folder(staged->folder);
	snprintf(staged->trace, PATH_BYTES, "%s/trace.jsonl", staged->folder);
	snprintf(staged->requests, PATH_BYTES, "%s/requests.tsv", staged->folder);
	write_trace(scene, staged->trace);
	add_outages(scene, staged->outages, sizeof(staged->outages));
	snprintf(staged->view, sizeof(staged->view),
		is_delayed		  ? "delayed:%u"
		: scene->view == VIEW_OWN ? "own"
					  : "exact",
		scene->delay_ms);
	replay_config_default(config);
	config->replicas = scene->replica_count;
	config->router = router_index(scene->router);
	config->outages = scene->outage_count > 0 ? staged->outages : NULL;
	config->warmup = scene->warmup;
	config->cooldown = scene->cooldown;
	config->router_view = staged->view;
	config->replica_limit = scene->replica_limit;
	config->router_queue =
		scene->queue_limit == UINT32_MAX ? NO_ROUTER_QUEUE_LIMIT : scene->queue_limit;
}

static void require_same(const struct naive_scene *scene)
{
	static struct table_writer requests;
	static struct naive_fleet naive;
	static struct staged staged;
	const struct workload_options load = {.speedup_millionths = 1000000};
	struct pacer pacers[NAIVE_REPLICAS];
	uint32_t steps_left = UINT32_MAX;
	struct run_outcome outcome;
	struct fleet fleet;
	struct error error = {0};

	naive_fleet_play(&naive, scene);
	stage(&staged, scene);
	const struct replay_options options = {.config = &staged.config,
		.workload = &load,
		.trace_path = staged.trace,
		.is_checking = true,
		.vocab_size = 1 << 24}; /* hardly any two tokens are equal by chance */
	open_fleet(&fleet, scene, &options, pacers, &steps_left);
	table_file_open(&requests, staged.requests, REQUEST_COLUMNS "\t" REQUEST_REPLICA_COLUMN);
	fleet_set_sinks(&fleet, &(struct replay_sinks){.requests = &requests});
	require(fleet_run(&fleet, &error) == STATUS_OK, "%s", error.text);
	table_file_close(&requests);
	fleet_outcome(&fleet, &outcome);
	require_requests(&naive, staged.requests);
	require_sums(&naive, &fleet, &outcome);
	require_requests_counted(&naive, &outcome);
	require_window(&naive, &outcome);
	for (uint32_t i = 0; i < scene->replica_count; i++) {
		require_replica(&naive, &outcome.fleet.each[i], i);
	}
	fleet_close(&fleet);
	temporary_remove(staged.folder);
}

static void body(struct prop *prop, const void *context)
{
	struct naive_scene scene;

	(void)context;
	naive_scene_draw(prop, &scene);
	require_same(&scene);
}

Test(fleet_model, a_fleet_is_that_of_a_naive_model, .timeout = 300)
{
	const struct prop_options options = {
		.name = "fleet", .body = body, .trials = 600, .timeout_s = 20};

	cr_assert(prop_holds(&options));
}

/* A replica that fails in mid-step has nothing any more, also no request that it had rejected and
   would have told of at the step's end. One that it had not looked at waits at the router again,
   from its arrival on: nothing of its wait was charged. */
Test(fleet_model, a_failed_replica_keeps_no_rejected_request)
{
	struct naive_scene scene = {.row_count = 4,
		.replica_count = 2,
		.queue_limit = UINT32_MAX,
		.kv_blocks = NAIVE_KV_BLOCKS,
		.prompt = {5, NAIVE_LENGTH, NAIVE_LENGTH, 5},
		.output = {9, 9, 9, 9},
		.group = {0, 1, 2, 3},
		.outages = {{.time_ms = 0, .replica = 1, .kind = OUTAGE_DRAIN},
			{.time_ms = 1, .replica = 0, .kind = OUTAGE_FAIL},
			{.time_ms = 30, .replica = 1, .kind = OUTAGE_JOIN}},
		.router = "round-robin"};

	for (scene.seats = 1; scene.seats <= 3; scene.seats++) {
		for (scene.outage_count = 2; scene.outage_count <= 3; scene.outage_count++) {
			require_same(&scene);
		}
	}
}

/* ---- runs that break off ---- */

/* The sum of a column over all rows that have it. */
static uint64_t sum_of_column(const char *path, uint32_t column)
{
	char *text = file_read(path, NULL), *next = strchr(text, '\n') + 1;
	uint64_t sum = 0;

	while (*next != '\0') {
		char *cell = next;
		for (uint32_t i = 0; i < column; i++) {
			cell = strchr(cell, '\t') + 1;
		}
		sum += cell[0] == '-' ? 0 : strtoull(cell, NULL, 10);
		next = strchr(next, '\n') + 1;
	}
	free(text);
	return sum;
}

/* Wherever a run breaks off, each nanosecond that a request waited is charged to one cause: in the
   engine, before it and at the router, of its lost attempts too. */
static void body_failing(struct prop *prop, const void *context)
{
	enum { QUEUE_NS = 12 };
	static struct table_writer requests;
	static struct staged staged;
	const struct workload_options load = {.speedup_millionths = 1000000};
	struct pacer pacers[NAIVE_REPLICAS];
	uint32_t steps_left = prop_range(prop, 0, 60);
	struct naive_scene scene;
	struct run_outcome outcome;
	struct fleet fleet;
	struct error error = {0};
	u128 charged = 0, at_router = 0;

	(void)context;
	naive_scene_draw(prop, &scene);
	scene.warmup = scene.cooldown = 0;
	prop_log(prop, "step %u fails", steps_left);
	stage(&staged, &scene);
	const struct replay_options options = {.config = &staged.config,
		.workload = &load,
		.trace_path = staged.trace,
		.is_checking = true,
		.vocab_size = 1 << 24};
	open_fleet(&fleet, &scene, &options, pacers, &steps_left);
	table_file_open(&requests, staged.requests, REQUEST_COLUMNS "\t" REQUEST_REPLICA_COLUMN);
	fleet_set_sinks(&fleet, &(struct replay_sinks){.requests = &requests});
	require(fleet_run(&fleet, &error) == STATUS_OK, "%s", error.text);
	table_file_close(&requests);
	fleet_outcome(&fleet, &outcome);
	bool has_failed = steps_left == UINT32_MAX;
	require_equal(outcome.end, has_failed ? RUN_FAILED : RUN_COMPLETE);
	for (uint32_t i = 0; i < scene.replica_count; i++) {
		for (uint32_t cause = 0; cause < WAIT_CAUSE_COUNT; cause++) {
			charged += fleet.replays[i].metrics.work.waits.ns[cause];
		}
		at_router += fleet.replays[i].metrics.work.waits.ns[WAIT_ROUTER];
	}
	require(scene.replica_limit > 0 || scene.outage_count > 0 || at_router == 0,
		"some wait at the router of replicas that take all");
	require_equal((uint64_t)charged, sum_of_column(staged.requests, QUEUE_NS));
	require_equal(outcome.submitted,
		outcome.finished + outcome.rejected + outcome.failed + outcome.unfinished);
	fleet_close(&fleet);
	temporary_remove(staged.folder);
}

Test(fleet_model, waits_are_charged_once_wherever_a_run_breaks_off, .timeout = 300)
{
	const struct prop_options options = {
		.name = "failing fleet", .body = body_failing, .trials = 400, .timeout_s = 20};

	cr_assert(prop_holds(&options));
}
