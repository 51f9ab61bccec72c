#include "bench/replay/loop.h"

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/replay/fleet.h"
#include "engine/base/clock.h"
#include "engine/policy.h"
#include "engine/step_record.h"
#include "reports/results/results.h"
#include "tests/harness/files.h"
#include "tests/harness/require.h"
#include "tests/harness/table_file.h"
#include "tests/harness/temporary.h"

/* A fleet under the wall clock, with runners whose steps take real time. */

enum { MS = 1000000, REPLICAS = 3, PATH_BYTES = TEMPORARY_PATH_BYTES + 32 };

#define PATIENCE_NS UINT64_C(60000000000)

/* What the runners of a fleet share. */
struct floor {
	_Atomic uint32_t inside; /* steps begun, by all replicas */
	uint32_t together;	 /* a step waits until so many others of its number have begun */
	bool has_waited_in_vain;
};

/* A runner. */
struct walker {
	struct floor *floor;
	uint32_t steps;
	uint64_t step_ns;	/* at least */
	uint32_t failing_steps; /* the step that fails; 0: none */
};

static enum status walk(void *state, const struct batch *batch, int32_t *token_ids,
	struct step_time *time, struct error *error)
{
	struct walker *walker = state;
	struct floor *floor = walker->floor;
	uint64_t start_ns = monotonic_ns();

	(void)batch;
	(void)token_ids;
	if (++walker->steps == walker->failing_steps) {
		pause_ns(walker->step_ns);
		return error_set(error, STATUS_DEVICE, "the floor gives way");
	}
	atomic_fetch_add(&floor->inside, 1);
	while (atomic_load(&floor->inside) < floor->together * walker->steps) {
		pause_ns(MS / 20);
		if (monotonic_ns() - start_ns > PATIENCE_NS) {
			floor->has_waited_in_vain = true;
			break;
		}
	}
	if (walker->step_ns > 0) {
		pause_ns(walker->step_ns);
	}
	/* Longer than the step: the loop's clock counts. */
	*time = (struct step_time){
		.elapsed_ns = PATIENCE_NS, .gpu_ns = PATIENCE_NS, .mode = STEP_MODE_NONE};
	return STATUS_OK;
}

struct scene {
	char folder[TEMPORARY_PATH_BYTES];
	char trace[PATH_BYTES], steps[PATH_BYTES], requests[PATH_BYTES];
	struct floor floor;
	struct walker walkers[REPLICAS];
	struct replay_config config;
	struct run_outcome outcome;
	struct error failure;
};

static void open_scene(struct scene *scene, const char *rows)
{
	memset(scene, 0, sizeof(*scene));
	temporary_folder(scene->folder);
	temporary_write(scene->folder, "trace.jsonl", rows, scene->trace);
	snprintf(scene->steps, sizeof(scene->steps), "%s/steps.tsv", scene->folder);
	snprintf(scene->requests, sizeof(scene->requests), "%s/requests.tsv", scene->folder);
	replay_config_default(&scene->config);
	scene->config.replicas = REPLICAS;
	scene->config.clock = REPLAY_CLOCK_WALL;
}

static void run_scene(struct scene *scene)
{
	static struct table_writer steps, requests;
	const struct workload_options load = {.speedup_millionths = 1000000};
	const struct replay_options options = {.config = &scene->config,
		.workload = &load,
		.trace_path = scene->trace,
		.is_checking = true,
		.is_wall_clock = true,
		.vocab_size = 1000};
	struct error error = {0};
	struct fleet fleet;

	fleet_init(&fleet, REPLICAS);
	for (uint32_t i = 0; i < REPLICAS; i++) {
		scene->walkers[i].floor = &scene->floor;
		fleet.runners[i] = (struct runner){
			.name = "walker", .state = &scene->walkers[i], .execute = walk};
		fleet.configs[i] = (struct engine_config){.policy = &policy_mixed,
			.block_size = 4,
			.kv_block_count = 100,
			.max_num_seqs = 4,
			.max_num_batched_tokens = 64,
			.max_model_len = 50,
			.eos_token_id = -1};
	}
	require(fleet_open(&fleet, &options, &error) == STATUS_OK, "%s", error.text);
	table_file_open(&steps, scene->steps, STEP_COLUMNS "\t" STEP_REPLICA_COLUMN);
	table_file_open(&requests, scene->requests, REQUEST_COLUMNS "\t" REQUEST_REPLICA_COLUMN);
	fleet_set_sinks(&fleet, &(struct replay_sinks){.steps = &steps, .requests = &requests});
	require(fleet_run(&fleet, &error) == STATUS_OK, "%s", error.text);
	table_file_close(&steps);
	table_file_close(&requests);
	fleet_outcome(&fleet, &scene->outcome);
	scene->failure = scene->outcome.failure;
	fleet_close(&fleet);
}

/* Begin and end of the first step of each replica; 0: it has none. */
static void read_first_steps(const struct scene *scene, uint64_t *start_ns, uint64_t *end_ns)
{
	char *text = file_read(scene->steps, NULL);

	for (char *line = strchr(text, '\n') + 1; *line != '\0'; line = strchr(line, '\n') + 1) {
		unsigned long long step, start, elapsed;
		require(sscanf(line, "%llu\t%llu\t%llu", &step, &start, &elapsed) == 3, "%s", line);
		require(elapsed < PATIENCE_NS, "the runner's time counts: %s", line);
		size_t bytes = strcspn(line, "\n");
		uint32_t replica = (uint32_t)(line[bytes - 1] - '0');
		require(replica < REPLICAS, "%s", line);
		if (step == 0) {
			start_ns[replica] = start;
			end_ns[replica] = start + elapsed;
		}
	}
	free(text);
}

#define ROW(time_ms, output)                                                                       \
	"{\"timestamp\": " #time_ms ", \"input_length\": 4, \"output_length\": " #output           \
	", \"hash_ids\": [1]}\n"

/* Every step waits until those of the other replicas have begun. */
Test(wall_fleet, steps_of_replicas_take_their_time_side_by_side, .timeout = 200)
{
	uint64_t start_ns[REPLICAS] = {0}, end_ns[REPLICAS] = {0};
	struct scene scene;

	open_scene(&scene, ROW(0, 5) ROW(0, 5) ROW(0, 5));
	scene.floor.together = REPLICAS;
	run_scene(&scene);
	require(!scene.floor.has_waited_in_vain, "a step has waited for another in vain");
	require_equal(scene.outcome.end, RUN_COMPLETE);
	read_first_steps(&scene, start_ns, end_ns);
	for (uint32_t i = 0; i < REPLICAS; i++) {
		require_equal(scene.walkers[i].steps, 5);
		require(end_ns[i] > start_ns[0], "replica %u begins when others have ended", i);
	}
	temporary_remove(scene.folder);
}

/* A row that arrives while a replica steps is sent to the other one at once. */
Test(wall_fleet, arrivals_are_waited_for_and_need_not_wait_for_steps, .timeout = 100)
{
	uint64_t start_ns[REPLICAS] = {0}, end_ns[REPLICAS] = {0};
	struct scene scene;

	open_scene(&scene, ROW(0, 1) ROW(30, 1) ROW(60, 1));
	for (uint32_t i = 0; i < REPLICAS; i++) {
		scene.walkers[i].step_ns = UINT64_C(900) * MS;
	}
	run_scene(&scene);
	read_first_steps(&scene, start_ns, end_ns);
	require(start_ns[1] >= UINT64_C(30) * MS && start_ns[2] >= UINT64_C(60) * MS,
		"a step begins before its request arrives");
	require(end_ns[0] >= start_ns[0] + UINT64_C(899) * MS, "a step of 900 ms took less");
	require(start_ns[2] < end_ns[0], "the third request waits for the first one's step");
	require(scene.outcome.has_dispatch_late && scene.outcome.dispatch_late.count == 3,
		"%llu steps were late or not",
		(unsigned long long)scene.outcome.dispatch_late.count);
	temporary_remove(scene.folder);
}

/* The step of a replica that fails is dropped, and its request starts anew. */
Test(wall_fleet, a_replica_fails_in_mid_step, .timeout = 100)
{
	struct scene scene;

	open_scene(&scene, ROW(0, 2));
	scene.config.outages = "fail:0@0.02,join:0@0.04";
	for (uint32_t i = 0; i < REPLICAS; i++) {
		scene.walkers[i].step_ns = UINT64_C(100) * MS;
	}
	run_scene(&scene);
	require_equal(scene.outcome.end, RUN_COMPLETE);
	require_equal(scene.outcome.fleet.retries, 1);
	require_equal(scene.walkers[0].steps, 1);
	require_equal(scene.walkers[1].steps + scene.walkers[2].steps, 2);
	temporary_remove(scene.folder);
}

/* The replica that served a request. */
static uint32_t replica_of(const struct scene *scene, uint32_t id)
{
	char *text = file_read(scene->requests, NULL);
	uint32_t replica = REPLICAS;

	for (char *line = strchr(text, '\n') + 1; *line != '\0'; line = strchr(line, '\n') + 1) {
		if (strtoul(line, NULL, 10) == id) {
			replica = (uint32_t)(line[strcspn(line, "\n") - 1] - '0');
		}
	}
	free(text);
	return replica;
}

/* The loop is held up from 20 to 100 ms. Replica 1's step ends at 30 ms and is seen at 100; so the
   request of 50 ms finds replica 1 with two requests, that of the failed replica 0 and its own, and
   replica 2 with one. */
Test(wall_fleet, what_comes_while_the_loop_is_held_up_comes_in_its_order, .timeout = 100)
{
	struct scene scene;

	open_scene(&scene, ROW(0, 1) ROW(0, 1) ROW(0, 1) ROW(50, 1));
	scene.config.outages = "fail:0@0.02";
	scene.walkers[0].step_ns = UINT64_C(100) * MS;
	scene.walkers[1].step_ns = UINT64_C(30) * MS;
	scene.walkers[2].step_ns = UINT64_C(900) * MS;
	run_scene(&scene);
	require_equal(replica_of(&scene, 0), 1);
	require_equal(replica_of(&scene, 3), 2);
	temporary_remove(scene.folder);
}

/* Other replicas are in mid-step when one's step fails, and requests wait for them. */
Test(wall_fleet, the_failure_of_one_step_ends_the_run, .timeout = 100)
{
	struct scene scene;

	/* None is finished when it fails, at 60 ms, however late this machine is. */
	open_scene(&scene, ROW(0, 40) ROW(0, 40) ROW(0, 40) ROW(45, 40) ROW(45, 40) ROW(45, 40));
	for (uint32_t i = 0; i < REPLICAS; i++) {
		scene.walkers[i].step_ns = UINT64_C(20) * MS;
	}
	scene.walkers[1].failing_steps = 3;
	run_scene(&scene);
	require_equal(scene.outcome.end, RUN_FAILED);
	require_equal(scene.outcome.failed, scene.outcome.submitted);
	require(strcmp(scene.failure.text, "the floor gives way") == 0, "%s", scene.failure.text);
	require(scene.walkers[2].steps < 40, "the others went on");
	temporary_remove(scene.folder);
}
