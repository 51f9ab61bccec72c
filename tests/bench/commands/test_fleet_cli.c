#include <criterion/criterion.h>

#include <cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/integer.h"
#include "engine/base/table.h"
#include "engine/base/text.h"
#include "tests/harness/files.h"
#include "tests/harness/property.h"
#include "tests/harness/replay_cli.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* `quire replay --replicas N`. A replica must do what one engine does that replays its requests
   alone, which tests/models/replay_model.h checks against a naive replay; what a fleet adds is
   checked here: who gets which request, and what happens where replicas come and go. */

enum { ROWS_MAX = 120, REPLICAS_MAX = 4, CELLS_MAX = 32 };

static const char *const routers[] = {"round-robin", "random", "least-requests", "least-tokens",
	"least-kv", "two-choices", "session", "prefix", "dynamo-kv", "llm-d", "llm-d-estimated",
	"sglang", "production-stack"};

enum { ROUTER_COUNT = sizeof(routers) / sizeof(routers[0]) };

/* ---- traces ---- */

struct fleet_scene {
	char folder[TEMPORARY_PATH_BYTES];
	char trace[PATH_BYTES], out[PATH_BYTES], part[PATH_BYTES];
	char *lines[ROWS_MAX]; /* of the trace */
	uint32_t row_count;
	char replicas[8];
	const char *router;
	const char *policy;
	const char *batched; /* the policy's token budget */
};

static void draw_trace(struct prop *prop, struct fleet_scene *scene)
{
	struct text text = {0};
	uint64_t time_ms = 0;
	uint32_t gap_ms = prop_range(prop, 0, 40);

	scene->row_count = prop_range(prop, 1, ROWS_MAX - 1);
	for (uint32_t i = 0; i < scene->row_count; i++) {
		struct text line = {0};
		uint32_t input = prop_range(prop, 1, prop_chance(prop, 1, 12) ? 400 : 120);
		uint32_t family = prop_range(prop, 0, 3);
		time_ms += prop_chance(prop, 1, 2) ? 0 : prop_range(prop, 0, gap_ms);
		text_format(&line,
			"{\"timestamp\": %llu, \"input_length\": %u, \"output_length\": %u, ",
			(unsigned long long)time_ms, input, prop_range(prop, 1, 40));
		if (prop_chance(prop, 1, 8)) {
			text_format(
				&line, "\"stored_length\": %u, ", prop_range(prop, 0, input - 1));
		}
		text_add(&line, "\"hash_ids\": [");
		for (uint32_t k = 0; k * 16 < input; k++) {
			text_format(&line, "%s%u", k == 0 ? "" : ", ",
				k < 2 ? 10 * family + k : 1000 + 100 * i + k);
		}
		text_add(&line, "]}\n");
		text_add(&text, line.bytes);
		scene->lines[i] = line.bytes;
	}
	temporary_write(scene->folder, "trace.jsonl", text.bytes, scene->trace);
	text_deinit(&text);
}

static void draw_scene(struct prop *prop, struct fleet_scene *scene)
{
	memset(scene, 0, sizeof(*scene));
	temporary_folder(scene->folder);
	path_in(scene->out, scene->folder, "out");
	path_in(scene->part, scene->folder, "part");
	draw_trace(prop, scene);
	snprintf(scene->replicas, sizeof(scene->replicas), "%u", prop_range(prop, 2, REPLICAS_MAX));
	scene->router = routers[prop_below(prop, ROUTER_COUNT)];
	bool is_mixed = prop_chance(prop, 2, 3);
	scene->policy = is_mixed ? "mixed" : "prefill-first";
	scene->batched = is_mixed ? "64" : "320";
	prop_log(prop, "%u rows, %s replicas, %s, %s", scene->row_count, scene->replicas,
		scene->router, scene->policy);
}

static void close_scene(struct fleet_scene *scene)
{
	for (uint32_t i = 0; i < scene->row_count; i++) {
		free(scene->lines[i]);
	}
	temporary_remove(scene->folder);
}

/* A small engine, so that requests wait and are preempted. */
#define ENGINE(scene)                                                                              \
	"--trace-block-size", "16", "--block-size", "16", "--kv-blocks", "26", "--max-num-seqs",   \
		"4", "--max-model-len", "320", "--policy", (scene)->policy,                        \
		"--max-num-batched-tokens", (scene)->batched, "--overlap", "off", "--steps",       \
		"--force"

/* Exit code 0; requests that are too long are told on stderr. */
static void require_ran(struct process_result result)
{
	require(result.code == 0, "%s", result.err);
	free(result.out);
	free(result.err);
}

static void run_fleet(const struct fleet_scene *scene, const char *out, const char *const *more)
{
	struct replay_arguments arguments = {0};

	add_all(&arguments, LIST(scene->trace, "--out", out, "--replicas", scene->replicas,
				    "--router", scene->router, ENGINE(scene)));
	add_all(&arguments, more);
	arguments.list[arguments.count] = NULL;
	require_ran(quire_replay((struct process_order){0}, false, arguments.list));
}

/* ---- tables ---- */

/* The next line's cells; the text is cut up. Returns the text behind the line. */
static char *next_cells(char *text, char **cells, uint32_t *count)
{
	char *end = strchr(text, '\n');

	*end = '\0';
	*count = 0;
	for (char *cell = text; cell != NULL && *count < CELLS_MAX; (*count)++) {
		char *tab = strchr(cell, '\t');
		cells[*count] = cell;
		if (tab != NULL) {
			*tab = '\0';
		}
		cell = tab == NULL ? NULL : tab + 1;
	}
	return end + 1;
}

/* Replica of each request by id; REPLICAS_MAX: none. Demands that each has one row. */
static void read_replicas(const struct fleet_scene *scene, uint32_t *replica_of)
{
	char *text = read_in(scene->out, "requests.tsv");
	char *at = strchr(text, '\n') + 1;
	bool is_there[ROWS_MAX] = {false};

	for (uint32_t i = 0; i < scene->row_count; i++) {
		char *cells[CELLS_MAX];
		uint32_t count;
		require(*at != '\0', "only %u rows", i);
		at = next_cells(at, cells, &count);
		uint64_t id = strtoull(cells[0], NULL, 10);
		require(id < scene->row_count && !is_there[id], "request %s again", cells[0]);
		is_there[id] = true;
		replica_of[id] = strcmp(cells[count - 1], "-") == 0
					 ? REPLICAS_MAX
					 : (uint32_t)strtoul(cells[count - 1], NULL, 10);
	}
	require(*at == '\0', "more rows than requests");
	free(text);
}

/* The rows of one replica without that column, and with the ids of its part. */
static struct text rows_of(const struct fleet_scene *scene, const char *file, uint32_t replica,
	const uint32_t *id_in_part)
{
	char *text = read_in(scene->out, file);
	char wanted[8];
	struct text rows = {0};

	snprintf(wanted, sizeof(wanted), "%u", replica);
	for (char *at = strchr(text, '\n') + 1; *at != '\0';) {
		char *cells[CELLS_MAX];
		uint32_t count;
		at = next_cells(at, cells, &count);
		if (strcmp(cells[count - 1], wanted) != 0) {
			continue;
		}
		if (id_in_part != NULL) {
			text_format(&rows, "%u", id_in_part[strtoul(cells[0], NULL, 10)]);
		} else {
			text_add(&rows, cells[0]);
		}
		for (uint32_t i = 1; i + 1 < count; i++) {
			text_format(&rows, "\t%s", cells[i]);
		}
		text_add(&rows, "\n");
	}
	free(text);
	return rows;
}

static void require_same_rows(const char *folder, const char *file, const struct text *rows)
{
	char *text = read_in(folder, file);
	const char *alone = strchr(text, '\n') + 1;

	require(strcmp(alone, rows->bytes == NULL ? "" : rows->bytes) == 0,
		"%s alone:\n%.2000s\nin the fleet:\n%.2000s", file, alone, rows->bytes);
	free(text);
}

/* ---- a replica is an engine ---- */

static void require_same_alone(
	const struct fleet_scene *scene, uint32_t replica, const uint32_t *replica_of)
{
	struct text trace = {0};
	uint32_t id_in_part[ROWS_MAX], count = 0;
	char path[PATH_BYTES];

	for (uint32_t i = 0; i < scene->row_count; i++) {
		if (replica_of[i] == replica) {
			id_in_part[i] = count++;
			text_add(&trace, scene->lines[i]);
		}
	}
	if (count == 0) {
		return;
	}
	temporary_write(scene->folder, "part.jsonl", trace.bytes, path);
	require_ran(RUN(path, "--out", scene->part, ENGINE(scene)));
	struct text requests = rows_of(scene, "requests.tsv", replica, id_in_part);
	struct text steps = rows_of(scene, "steps.tsv", replica, NULL);
	require_same_rows(scene->part, "requests.tsv", &requests);
	require_same_rows(scene->part, "steps.tsv", &steps);
	text_deinit(&requests);
	text_deinit(&steps);
	text_deinit(&trace);
}

static void body_alone(struct prop *prop, const void *context)
{
	struct fleet_scene scene;
	uint32_t replica_of[ROWS_MAX];

	(void)context;
	draw_scene(prop, &scene);
	run_fleet(&scene, scene.out, LIST("--check"));
	read_replicas(&scene, replica_of);
	for (uint32_t i = 0; i < REPLICAS_MAX; i++) {
		require_same_alone(&scene, i, replica_of);
	}
	close_scene(&scene);
}

Test(fleet_cli, a_replica_does_what_it_would_do_alone_with_its_requests, .timeout = 400)
{
	const struct prop_options options = {
		.name = "alone", .body = body_alone, .trials = 12, .timeout_s = 120};

	cr_assert(prop_holds(&options));
}

/* ---- what must not matter ---- */

static char *hash_in(const char *folder)
{
	cJSON *root = read_summary(folder);
	char *hash = strdup(text_in(root, NULL, "result_hash"));

	cJSON_Delete(root);
	return hash;
}

static void require_same_hash(const char *a, const char *b, const char *what)
{
	char *first = hash_in(a), *second = hash_in(b);

	require(strcmp(first, second) == 0, "%s: %s and %s", what, first, second);
	free(first);
	free(second);
}

/* The run in scene->part has the decisions and times of the one in scene->out. */
static void require_same_run(const struct fleet_scene *scene)
{
	require_same_hash(scene->out, scene->part, "tape");
	require_same_file(scene->out, scene->part, "requests.tsv");
	require_same_file(scene->out, scene->part, "steps.tsv");
}

static void body_same(struct prop *prop, const void *context)
{
	struct fleet_scene scene;

	(void)context;
	draw_scene(prop, &scene);
	run_fleet(&scene, scene.out, LIST("--check"));
	/* What is seen without delay is the state itself. */
	run_fleet(&scene, scene.part, LIST("--router-view", "delayed:0"));
	require_same_hash(scene.out, scene.part, "delayed:0");
	/* A queue and a limit that are never reached change nothing. */
	run_fleet(&scene, scene.part,
		LIST("--router-queue", "1", "--replica-limit", "100000", "--outages",
			"drain:0@1000000"));
	require_same_hash(scene.out, scene.part, "limits");
	require_ran(RUN(scene.trace, "--runner", "tape", "--tape", scene.out, "--out", scene.part,
		"--steps", "--force"));
	require_same_run(&scene);
	close_scene(&scene);
}

Test(fleet_cli, what_is_never_reached_changes_nothing_and_a_tape_neither, .timeout = 400)
{
	const struct prop_options options = {
		.name = "same", .body = body_same, .trials = 12, .timeout_s = 120};

	cr_assert(prop_holds(&options));
}

/* What happened exactly the delay ago is seen: that replica 0 has half of the second prompt, and
   that it was sent the first, whose tokens count half. */
Test(fleet_cli, a_router_sees_what_happened_the_delay_ago, .timeout = 60)
{
	struct fleet_scene scene = {.row_count = 2};
	uint32_t replica_of[ROWS_MAX];
	char path[PATH_BYTES];

	temporary_folder(scene.folder);
	path_in(scene.out, scene.folder, "out");
	temporary_write(scene.folder, "trace.jsonl",
		"{\"timestamp\": 500, \"input_length\": 1024, \"output_length\": 1, "
		"\"hash_ids\": [1, 2]}\n"
		"{\"timestamp\": 1500, \"input_length\": 2048, \"output_length\": 1, "
		"\"hash_ids\": [1, 2, 3, 4]}\n",
		path);
	require_ran(RUN(path, "--out", scene.out, "--replicas", "2", "--router", "prefix",
		"--router-option", "load=0.5", "--router-view", "delayed:1000", "--block-size",
		"16", "--trace-block-size", "512"));
	read_replicas(&scene, replica_of);
	cr_expect_eq(replica_of[0], 0);
	cr_expect_eq(replica_of[1], 0);
	temporary_remove(scene.folder);
}

/* By its own book a router takes for cached what it has sent, and counts the rest of a prompt as
   work that is ahead, whatever the engine has cached: here nothing. So the fourth request goes
   where the second is, of which 16 tokens are left by the book, and not where the 300 of the third
   are. */
Test(fleet_cli, the_load_that_a_router_sees_is_that_of_its_own_book, .timeout = 60)
{
	struct fleet_scene scene = {
		.row_count = 4, .replicas = "2", .router = "prefix", .policy = "mixed"};
	uint32_t replica_of[ROWS_MAX];
	struct text text = {0};

	scene.batched = "64";
	temporary_folder(scene.folder);
	path_in(scene.out, scene.folder, "out");
	text_add(&text, "{\"timestamp\": 0, \"input_length\": 1024, \"output_length\": 1, "
			"\"hash_ids\": [1, 2]}\n"
			"{\"timestamp\": 60000, \"input_length\": 1024, \"output_length\": 1, "
			"\"hash_ids\": [1, 2]}\n"
			"{\"timestamp\": 60000, \"input_length\": 300, \"output_length\": 1}\n"
			"{\"timestamp\": 60000, \"input_length\": 200, \"output_length\": 1}\n");
	temporary_write(scene.folder, "trace.jsonl", text.bytes, scene.trace);
	require_ran(RUN(scene.trace, "--out", scene.out, "--replicas", "2", "--router", "prefix",
		"--router-view", "own", "--enable-prefix-caching", "off", "--block-size", "16",
		"--trace-block-size", "512"));
	read_replicas(&scene, replica_of);
	cr_expect_eq(replica_of[1], replica_of[0]);
	cr_expect_eq(replica_of[2], 1 - replica_of[0]);
	cr_expect_eq(replica_of[3], replica_of[0]);
	text_deinit(&text);
	temporary_remove(scene.folder);
}

Test(fleet_cli, one_replica_is_no_fleet, .timeout = 60)
{
	struct replay_fixture fixture;
	char other[PATH_BYTES];

	replay_fixture_open(&fixture);
	path_in(other, fixture.folder, "other");
	require_good(RUN_SMALL(fixture.trace, "--out", fixture.out, "--steps"));
	require_good(RUN_SMALL(fixture.trace, "--out", other, "--steps", "--replicas", "1"));
	require_same_result(fixture.out, other);
	require_refused(RUN_SMALL(fixture.trace, "--out", other, "--force", "--router", "prefix"),
		"--replicas");
	require_refused(RUN_SMALL(fixture.trace, "--out", other, "--force", "--warmup", "100000"),
		"--warmup 100000 leaves nothing of");
	require_refused(RUN_SMALL(fixture.trace, "--out", other, "--force", "--replicas", "2",
				"--router-view", "delayed"),
		"delayed:MS");
	require_refused(RUN_SMALL(fixture.trace, "--out", other, "--force", "--replicas", "2",
				"--outages", "fail:2@1"),
		"below 2");
	require_refused(
		RUN_SMALL(fixture.trace, "--out", other, "--force", "--replicas", "2", "--policy",
			"vllm", "--async-scheduling", "on", "--outages", "fail:1@1"),
		"--async-scheduling off");
	replay_fixture_close(&fixture);
}

Test(fleet_cli, a_fleet_of_equal_groups_is_that_of_its_replicas, .timeout = 60)
{
	static const struct {
		const char *table, *words;
	} bad[] = {
		{"group\nbig\n", "replicas"},
		{"group\treplicas\nbig\t0\n", "column replicas: found '0', expected at least 1"},
		{"group\treplicas\nbig\t1025\n", "column replicas"},
		{"group\treplicas\tgpu\nbig\t2\tnone-such\n",
			"fleet.tsv: group big: gpu 'none-such'"},
		{"group\treplicas\n", "0 replicas"},
		{"group\treplicas\tkv_block\nbig\t2\t9\n", "found a column 'kv_block'"},
		{"group\treplicas\ttensor_parallel_size\nbig\t2\t3\n", "expected 1, 2, 4 or 8"},
		{"group\treplicas\n-\t2\n", "column group: found '-', expected a name"},
		{"group\treplicas\n\t2\n", "column group: found '', expected a name"},
		{"group\treplicas\nbig\t2\nbig\t2\n", "fleet.tsv:3: column group: found 'big'"},
	};
	struct replay_fixture fixture;
	char table[PATH_BYTES], other[PATH_BYTES];

	replay_fixture_open(&fixture);
	path_in(other, fixture.folder, "other");
	require_ran(RUN_SMALL(fixture.trace, "--out", fixture.out, "--replicas", "3", "--steps"));
	temporary_write(fixture.folder, "fleet.tsv",
		"group\tmax_num_seqs\treplicas\tgpu\none\t-\t1\t-\ntwo\t-\t2\t-\n", table);
	require_ran(RUN_SMALL(fixture.trace, "--out", other, "--fleet", table, "--steps"));
	require_same_hash(fixture.out, other, "groups");
	require_same_file(fixture.out, other, "steps.tsv");
	/* What all replicas share may be said by the groups alone. */
	temporary_write(fixture.folder, "fleet.tsv",
		"group\treplicas\tkv_blocks\tmax_num_seqs\tmax_num_batched_tokens\tmax_model_len\n"
		"one\t1\t16\t4\t48\t200\ntwo\t2\t16\t4\t48\t200\n",
		table);
	require_ran(RUN(fixture.trace, "--block-size", "16", "--trace-block-size", "16", "--out",
		other, "--fleet", table, "--steps", "--force"));
	require_same_hash(fixture.out, other, "limits of groups");
	require_same_file(fixture.out, other, "steps.tsv");
	/* One seat in place of several is told by the steps. */
	temporary_write(fixture.folder, "fleet.tsv",
		"group\tmax_num_seqs\treplicas\none\t1\t1\ntwo\t-\t2\n", table);
	require_ran(RUN_SMALL(
		fixture.trace, "--out", other, "--fleet", table, "--force", "--steps", "--check"));
	char *first = hash_in(fixture.out), *second = hash_in(other);
	require(strcmp(first, second) != 0, "the limits of a group have no effect");
	free(first);
	free(second);
	require_refused(RUN(fixture.trace, "--runner", "tape", "--tape", other, "--out",
				fixture.out, "--force"),
		"the replicas of the recorded run differ (--fleet fleet.tsv)");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		temporary_write(fixture.folder, "fleet.tsv", bad[i].table, table);
		require_refused(
			RUN_SMALL(fixture.trace, "--out", other, "--force", "--fleet", table),
			bad[i].words);
	}
	replay_fixture_close(&fixture);
}

/* Sums and peaks of steps.tsv. */
struct step_figures {
	uint64_t steps, tokens, most_tokens, most_running, most_blocks;
};

static struct step_figures read_steps(const char *folder)
{
	enum { DECODES, PROMPTS, RUNNING, BLOCKS, COLUMNS };
	static const char *const names[COLUMNS] = {
		"decode_rows", "prefill_tokens", "running", "used_blocks"};
	struct step_figures out = {0};
	struct table_reader table;
	struct error error = {0};
	uint32_t field[COLUMNS];
	uint64_t value[COLUMNS];
	char path[PATH_BYTES];

	path_in(path, folder, "steps.tsv");
	table_reader_open(&table, path, NULL, &error);
	for (uint32_t i = 0; i < COLUMNS; i++) {
		table_reader_column(&table, names[i], &field[i], &error);
	}
	require(error.status == STATUS_OK, "%s", error.text);
	while (table_reader_next(&table, &error)) {
		for (uint32_t i = 0; i < COLUMNS; i++) {
			table_reader_u64(&table, field[i], UINT64_MAX, &value[i], &error);
		}
		out.steps++;
		out.tokens += value[DECODES] + value[PROMPTS];
		out.most_tokens = u64_max(out.most_tokens, value[DECODES] + value[PROMPTS]);
		out.most_running = u64_max(out.most_running, value[RUNNING]);
		out.most_blocks = u64_max(out.most_blocks, value[BLOCKS]);
	}
	require(error.status == STATUS_OK, "%s", error.text);
	table_reader_close(&table);
	return out;
}

static void require_share(const cJSON *load, const char *name, double expected)
{
	double found = cJSON_GetObjectItem(load, name)->valuedouble;

	require(found > expected - 1e-6 && found < expected + 1e-6, "%s is %g, expected %g", name,
		found, expected);
}

/* A replica of a fleet is held against the mean limits of all of them. */
Test(fleet_cli, shares_of_limits_are_those_of_the_mean_replica, .timeout = 60)
{
	struct replay_fixture fixture;
	char table[PATH_BYTES];

	replay_fixture_open(&fixture);
	temporary_write(fixture.folder, "fleet.tsv",
		"group\treplicas\tkv_blocks\tmax_num_seqs\tmax_num_batched_tokens\tmax_model_len\n"
		"one\t1\t16\t4\t48\t200\ntwo\t2\t40\t7\t90\t200\n",
		table);
	struct process_result seen = RUN(fixture.trace, "--block-size", "16", "--trace-block-size",
		"16", "--out", fixture.out, "--fleet", table, "--steps");
	require(strstr(seen.out, "  32 KV blocks of  16 tokens in an average replica\n") != NULL &&
			strstr(seen.out, " of the seats of an average replica\n") != NULL,
		"%s", seen.out);
	require_ran(seen);
	struct step_figures steps = read_steps(fixture.out);
	cJSON *root = read_summary(fixture.out);
	const cJSON *load = cJSON_GetObjectItem(root, "load");
	const double blocks = (16 + 2 * 40) / 3.0, seats = (4 + 2 * 7) / 3.0;
	const double budget = (48 + 2 * 90) / 3.0;
	require_share(load, "budget_mean", (double)steps.tokens / (double)steps.steps / budget);
	require_share(load, "budget_peak", (double)steps.most_tokens / budget);
	require_share(load, "seats_peak", (double)steps.most_running / seats);
	require_share(load, "kv_peak", (double)steps.most_blocks / blocks);
	cJSON_Delete(root);
	replay_fixture_close(&fixture);
}

/* What was told on stderr. */
static char *told_by(struct process_result result)
{
	require(result.code == 0, "%s", result.err);
	free(result.out);
	return result.err;
}

/* Of the groups all profiles are named, and those whose times were never compared with a GPU. */
Test(fleet_cli, uncalibrated_groups_are_named, .timeout = 60)
{
	struct replay_fixture fixture;
	char table[PATH_BYTES];

	replay_fixture_open(&fixture);
	temporary_write(fixture.folder, "fleet.tsv",
		"group\treplicas\tgpu\none\t1\th200-qwen3-0.6b\ntwo\t1\tl40s-datasheet\n"
		"three\t1\ta100-datasheet\n",
		table);
	struct process_result result = RUN(
		fixture.trace, "--trace-block-size", "16", "--out", fixture.out, "--fleet", table);
	require(result.code == 0, "%s", result.err);
	require(strstr(result.out,
			"priced by profiles h200-qwen3-0.6b, l40s-datasheet, a100-datasheet\n"
			"uncalibrated: the times of l40s-datasheet, a100-datasheet were") != NULL,
		"%s", result.out);
	process_result_free(&result);
	replay_fixture_close(&fixture);
}

/* More blocks than a GPU has room for: each group that has them is told of once, and where there
   are no groups the run is. */
Test(fleet_cli, groups_beyond_their_memory_are_told_of, .timeout = 60)
{
	static const char *const kinds[] = {"-\t-", "-\t90000", "l40s-datasheet\t90000"};
	struct replay_fixture fixture;
	char table[PATH_BYTES], text[256];

	replay_fixture_open(&fixture);
	for (uint32_t first = 0; first < 3; first++) {
		for (uint32_t other = 0; other < 3; other++) {
			snprintf(text, sizeof(text),
				"group\treplicas\tgpu\tkv_blocks\none\t2\t%s\ntwo\t1\t%s\n",
				kinds[first], kinds[other]);
			temporary_write(fixture.folder, "fleet.tsv", text, table);
			char *told = told_by(RUN(fixture.trace, "--trace-block-size", "16", "--out",
				fixture.out, "--force", "--fleet", table));
			require((strstr(told, "group one of --fleet has 90000 KV blocks") !=
					NULL) == (first > 0),
				"%s: %s", text, told);
			require((strstr(told, "group two of --fleet has 90000 KV blocks") !=
					NULL) == (other > 0),
				"%s: %s", text, told);
			require(strstr(told, "warning: ") == NULL, "%s", told);
			free(told);
		}
	}
	char *told = told_by(RUN(fixture.trace, "--trace-block-size", "16", "--out", fixture.out,
		"--force", "--replicas", "2", "--kv-blocks", "90000"));
	require(strstr(told, "warning: 90000 KV blocks are more than the memory of") != NULL, "%s",
		told);
	free(told);
	replay_fixture_close(&fixture);
}

Test(fleet_cli, advice_names_the_limits_of_groups, .timeout = 60)
{
	struct replay_fixture fixture;
	char table[PATH_BYTES];

	replay_fixture_open(&fixture);
	temporary_write(fixture.folder, "fleet.tsv",
		"group\treplicas\tmax_model_len\tkv_blocks\nshort\t1\t20\t4\n"
		"large\t1\t-\t9999999\n",
		table);
	char *told = told_by(RUN_SMALL(fixture.trace, "--out", fixture.out, "--fleet", table));
	static const char *const words[] = {"exceed max_model_len of the group",
		"in every row of --fleet takes all",
		"group large of --fleet has 9999999 KV blocks, more than the"};
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		require(strstr(told, words[i]) != NULL, "'%s' lacks '%s'", told, words[i]);
	}
	require(strstr(told, "--max-model-len") == NULL, "%s", told);
	require(strstr(told, "group short") == NULL, "%s", told);
	unsigned rejected = 0;
	double share = 0;
	const char *line = strstr(told, " requests (");
	while (line != NULL && line > told && line[-1] != '\n') {
		line--;
	}
	require(line != NULL && sscanf(line, "%u requests (%lf%%;", &rejected, &share) == 2, "%s",
		told);
	cJSON *root = read_summary(fixture.out);
	double all = cJSON_GetObjectItem(cJSON_GetObjectItem(root, "requests"), "submitted")
			     ->valuedouble;
	require(share > 100 * rejected / all - 0.06 && share < 100 * rejected / all + 0.06,
		"%u of %g are no %g %%", rejected, all, share);
	cJSON_Delete(root);
	free(told);
	char timeline[PATH_BYTES];
	path_in(timeline, fixture.folder, "steps.perfetto");
	require_refused(RUN_SMALL(fixture.trace, "--out", fixture.out, "--force", "--replicas", "2",
				"--timeline", timeline),
		"--timeline shows one replica: give --replicas 1");
	replay_fixture_close(&fixture);
}

/* What one cache would hit is of the requests that some engine took: rejected ones, and those that
   are sent again after a failure, are not looked up in it a second time. */
Test(fleet_cli, one_cache_sees_what_the_replicas_take_and_sees_it_once, .timeout = 60)
{
	struct replay_fixture fixture;
	char lines[2][PATH_BYTES];
	const char *taken = "{\"timestamp\": %u, \"input_length\": 64, \"output_length\": 8, "
			    "\"hash_ids\": [1, 2, 3, %u]}\n";
	struct text with = {0}, without = {0};
	double rate[3];

	replay_fixture_open(&fixture);
	for (uint32_t i = 0; i < 20; i++) {
		text_format(&with, taken, 10 * i, 100 + i);
		text_format(&without, taken, 10 * i, 100 + i);
		text_format(&with,
			"{\"timestamp\": %u, \"input_length\": 400, \"output_length\": 8, "
			"\"hash_ids\": [7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, "
			"22, 23, 24, 25, 26, 27, 28, 29, 30, 31]}\n",
			10 * i + 1);
	}
	temporary_write(fixture.folder, "with.jsonl", with.bytes, lines[0]);
	temporary_write(fixture.folder, "without.jsonl", without.bytes, lines[1]);
	for (uint32_t i = 0; i < 3; i++) {
		/* A failure before the end sends requests again. */
		require_ran(RUN(lines[i == 0 ? 0 : 1], "--trace-block-size", "16", "--block-size",
			"16", "--kv-blocks", "400", "--max-model-len", "100", "--replicas", "2",
			"--out", fixture.out, "--force", "--outages",
			i == 2 ? "fail:0@0.1001" : "drain:0@9"));
		cJSON *root = read_summary(fixture.out);
		const cJSON *fleet = cJSON_GetObjectItem(root, "fleet");
		rate[i] = cJSON_GetObjectItem(fleet, "whole_hit_rate")->valuedouble;
		require(i != 2 || cJSON_GetObjectItem(fleet, "retries")->valuedouble > 0,
			"nothing was sent again");
		cJSON_Delete(root);
	}
	require(rate[0] == rate[1], "%g with rejected requests, %g without", rate[0], rate[1]);
	require(rate[2] == rate[1], "%g with a failure, %g without", rate[2], rate[1]);
	require(rate[1] == 0.7125, "%g, not 3 of 4 blocks of 19 in 20 requests", rate[1]);
	text_deinit(&with);
	text_deinit(&without);
	replay_fixture_close(&fixture);
}

/* Four requests with three blocks in common, one after the other, in turn to two replicas. Only the
   second finds them at the other replica and not at its own. */
Test(fleet_cli, regret_is_what_another_replica_had, .timeout = 60)
{
	struct replay_fixture fixture;
	struct text text = {0};
	char lines[PATH_BYTES];

	replay_fixture_open(&fixture);
	for (uint32_t i = 0; i < 4; i++) {
		text_format(&text,
			"{\"timestamp\": %u, \"session_id\": \"%u\", \"input_length\": 64, "
			"\"output_length\": 8, \"hash_ids\": [1, 2, 3, %u]}\n",
			5000 * i, i, 100 + i);
	}
	temporary_write(fixture.folder, "four.jsonl", text.bytes, lines);
	require_ran(RUN(lines, "--trace-block-size", "16", "--block-size", "16", "--kv-blocks",
		"400", "--max-model-len", "100", "--replicas", "2", "--router", "round-robin",
		"--out", fixture.out));
	cJSON *root = read_summary(fixture.out);
	const cJSON *regret =
		cJSON_GetObjectItem(cJSON_GetObjectItem(root, "fleet"), "regret_blocks");
	require(cJSON_IsNumber(regret) && regret->valuedouble == 3, "%s",
		cJSON_PrintUnformatted(cJSON_GetObjectItem(root, "fleet")));
	cJSON_Delete(root);
	text_deinit(&text);
	replay_fixture_close(&fixture);
}

/* Two requests run on two replicas, and a third has the prompt of one of them. Only the blocks that
   it would share there tell the replicas apart, whoever has the lower number. */
Test(fleet_cli, blocks_in_use_are_shared_by_a_request_that_has_them, .timeout = 60)
{
	struct replay_fixture fixture;
	char lines[PATH_BYTES];

	replay_fixture_open(&fixture);
	for (uint32_t wanted = 0; wanted < 2; wanted++) {
		struct text text = {0};
		for (uint32_t i = 0; i < 3; i++) {
			uint32_t prompt = 1 + (i < 2 ? i : wanted);
			text_format(&text,
				"{\"timestamp\": %u, \"input_length\": 64, \"output_length\": 400, "
				"\"hash_ids\": [%u1, %u2, %u3, %u4]}\n",
				i < 2 ? 0 : 100, prompt, prompt, prompt, prompt);
		}
		temporary_write(fixture.folder, "three.jsonl", text.bytes, lines);
		require_ran(RUN(lines, "--trace-block-size", "16", "--block-size", "16",
			"--kv-blocks", "400", "--max-model-len", "500", "--replicas", "2",
			"--router", "dynamo-kv", "--router-option", "overlap-credit=0,draw-ties=0",
			"--out", fixture.out, "--force"));
		char *table = read_in(fixture.out, "requests.tsv");
		char *at = strchr(table, '\n') + 1;
		uint32_t count = 0, ids[2] = {0};
		for (uint32_t i = 0; i < 3; i++) {
			char *cells[CELLS_MAX];
			at = next_cells(at, cells, &count);
			if (strcmp(cells[count - 1], wanted == 0 ? "0" : "1") == 0) {
				ids[atoi(cells[0]) == 2]++;
			}
		}
		require(ids[0] == 1 && ids[1] == 1, "the third went to another than replica %u",
			wanted);
		free(table);
		text_deinit(&text);
	}
	replay_fixture_close(&fixture);
}

/* Of many replicas nobody looks up what each has cached unless the router does: what would come of
   it is not said. */
Test(fleet_cli, what_is_not_looked_up_is_not_said, .timeout = 60)
{
	static const struct {
		const char *replicas, *router;
		bool is_known;
	} cases[] = {
		{"64", "round-robin", true}, {"65", "round-robin", false}, {"65", "llm-d", true}};
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct process_result ran = RUN_SMALL(fixture.trace, "--out", fixture.out,
			"--force", "--replicas", cases[i].replicas, "--router", cases[i].router);
		require(ran.code == 0, "%s", ran.err);
		const char *line = strstr(ran.out, "Jain's index");
		require(line != NULL, "%s", ran.out);
		const char *end = strchr(line, '\n'), *regret = strstr(line, "regret"),
			   *whole = strstr(line, "one cache with all the memory");
		require_equal(regret != NULL && regret < end, cases[i].is_known);
		require_equal(whole != NULL && whole < end, cases[i].is_known);
		cJSON *root = read_summary(fixture.out);
		const cJSON *fleet = cJSON_GetObjectItem(root, "fleet");
		require_equal(cJSON_IsNumber(cJSON_GetObjectItem(fleet, "regret_blocks")),
			cases[i].is_known);
		require_equal(cJSON_IsNumber(cJSON_GetObjectItem(fleet, "whole_hit_rate")),
			cases[i].is_known);
		cJSON_Delete(root);
		free(ran.out);
		free(ran.err);
	}
	replay_fixture_close(&fixture);
}

/* A queue of no request is a limit, in the record of the run and in its replay too. */
Test(fleet_cli, a_queue_of_none_rejects_at_once, .timeout = 60)
{
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	char *told = told_by(RUN_SMALL(fixture.trace, "--out", fixture.out, "--steps", "--replicas",
		"2", "--replica-limit", "1", "--router-queue", "0"));
	require(strstr(told, "found the router's queue full") != NULL, "%s", told);
	free(told);
	cJSON *root = read_summary(fixture.out);
	const cJSON *limit =
		cJSON_GetObjectItem(cJSON_GetObjectItem(root, "config"), "router_queue");
	require(cJSON_IsNumber(limit) && limit->valuedouble == 0, "not 0 in the configuration");
	uint64_t rejected = number_in(root, "fleet", "rejected_queue_full");
	require(rejected > 0, "none was rejected");
	cJSON_Delete(root);
	char again[PATH_BYTES];
	path_in(again, fixture.folder, "again");
	told = told_by(
		RUN(fixture.trace, "--runner", "tape", "--tape", fixture.out, "--out", again));
	free(told);
	root = read_summary(again);
	require_equal(number_in(root, "fleet", "rejected_queue_full"), rejected);
	cJSON_Delete(root);
	replay_fixture_close(&fixture);
}

/* A request that is sent again has come once: each level of a ramp has those that came in it. */
Test(fleet_cli, a_retry_is_no_request_of_its_own_in_a_level, .timeout = 60)
{
	enum { LEVELS = 4, LEVEL_NS = 500000000 };
	struct replay_fixture fixture;
	uint64_t requests[LEVELS] = {0}, rows = 0;

	replay_fixture_open(&fixture);
	require_ran(RUN_SMALL(fixture.trace, "--out", fixture.out, "--replicas", "2", "--ramp",
		"10:60:4", "--duration", "2", "--outages",
		"fail:0@0.4,join:0@0.5,fail:1@1.2,join:1@1.3,fail:0@1.7,join:0@1.9"));
	char *table = read_in(fixture.out, "requests.tsv");
	for (char *at = strchr(table, '\n') + 1; *at != '\0'; rows++) {
		char *cells[CELLS_MAX];
		uint32_t count;
		at = next_cells(at, cells, &count);
		requests[strtoull(cells[3], NULL, 10) / LEVEL_NS]++;
	}
	cJSON *root = read_summary(fixture.out);
	const cJSON *levels = cJSON_GetObjectItem(root, "levels");
	require(number_in(root, "fleet", "retries") > 0, "nothing was sent again");
	require_equal(cJSON_GetArraySize(levels), LEVELS);
	for (int i = 0; i < LEVELS; i++) {
		cr_expect_eq(number_in(cJSON_GetArrayItem(levels, i), NULL, "requests"),
			requests[i], "level %d", i);
	}
	require(rows > 0, "no request");
	cJSON_Delete(root);
	free(table);
	replay_fixture_close(&fixture);
}

/* Outages behind the run's end, and those of a replica that is gone, leave a result like any. */
Test(fleet_cli, outages_without_effect_are_told_of, .timeout = 60)
{
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	char *told = told_by(RUN_SMALL(fixture.trace, "--out", fixture.out, "--replicas", "2",
		"--outages", "fail:0@0.02,fail:0@0.03,join:0@5000"));
	require(strstr(told, "note: outage fail:0@0.03 changed nothing: replica 0 was gone already"
			     "\nnote: outage join:0@5000 never took effect: the run ended at 0.") !=
			NULL,
		"%s", told);
	free(told);
	told = told_by(RUN_SMALL(fixture.trace, "--out", fixture.out, "--force", "--replicas", "2",
		"--outages", "fail:0@0.02,join:0@0.03"));
	require(strstr(told, "outage") == NULL, "%s", told);
	free(told);
	told = told_by(RUN_SMALL(fixture.trace, "--out", fixture.out, "--force"));
	require(strstr(told, "outage") == NULL, "%s", told);
	free(told);
	replay_fixture_close(&fixture);
}

/* A fleet whose replicas all fail is not stable, and requests wait to the end of the trace. */
Test(fleet_cli, a_fleet_that_is_gone_leaves_its_requests, .timeout = 60)
{
	struct replay_fixture fixture;
	uint64_t rows;

	replay_fixture_open(&fixture);
	struct process_result seen = RUN_SMALL(fixture.trace, "--replicas", "2", "--speedup",
		"0.01", "--outages", "fail:0@0.05,fail:1@0.05");
	require(strstr(seen.out, "% of capacity;") != NULL, "no head room is left: %s", seen.out);
	free(told_by(seen));
	char *told = told_by(RUN_SMALL(fixture.trace, "--out", fixture.out, "--replicas", "2",
		"--outages", "fail:0@0.05,fail:1@0.05"));
	require(strstr(told, "no replica was left") != NULL, "%s", told);
	free(told);
	cJSON *root = read_summary(fixture.out);
	require(strcmp(text_in(root, "load", "verdict"), "unserved") == 0, "the verdict");
	require(number_in(root, "requests", "unfinished") > 0, "all were served");
	char *table = read_in(fixture.out, "requests.tsv");
	double column = (double)sum_column(table, 12, 0, NULL, &rows) / 1e9, sum = 0;
	const cJSON *cause, *waiting = cJSON_GetObjectItem(root, "waiting");
	cJSON_ArrayForEach(cause, waiting)
	{
		sum += cause->valuedouble;
	}
	require(sum > 0 && sum - column < 1e-6 && column - sum < 1e-6,
		"%.9f s of waiting, %.9f by request", sum, column);
	/* Of those that no replica served, none is booked with one. */
	const cJSON *replica,
		*list = cJSON_GetObjectItem(cJSON_GetObjectItem(root, "fleet"), "replicas");
	uint64_t booked = 0;
	cJSON_ArrayForEach(replica, list)
	{
		booked += number_in(replica, NULL, "requests");
	}
	sum_column(table, 0, 17, "-", &rows);
	require_equal(booked + rows, number_in(root, "requests", "submitted"));
	free(table);
	cJSON_Delete(root);
	replay_fixture_close(&fixture);
}

Test(fleet_cli, replicas_that_compute_play_from_their_tape, .timeout = 120)
{
	struct replay_fixture fixture;
	char played[PATH_BYTES];

	replay_fixture_open(&fixture);
	path_in(played, fixture.folder, "played");
	require_ran(RUN_SMALL(fixture.trace, "--out", fixture.out, "--steps", "--runner",
		"reference", "--model", "tests/fixtures/models/group1", "--replicas", "2",
		"--router", "prefix", "--check"));
	require_ran(RUN_SMALL(fixture.trace, "--runner", "tape", "--tape", fixture.out, "--out",
		played, "--steps", "--model", "tests/fixtures/models/group1"));
	require_same_hash(fixture.out, played, "tape");
	require_same_file(fixture.out, played, "requests.tsv");
	replay_fixture_close(&fixture);
}

/* id, arrival, first step, first token and end of each request, by id. */
static char *times_of(const struct replay_fixture *fixture, const char *replicas)
{
	require_ran(RUN(fixture->trace, "--gpu", "h200-datasheet", "--enable-prefix-caching", "off",
		"--sessions", "closed", "--replicas", replicas, "--out", fixture->out, "--force"));
	struct process_result result =
		shell_run(fixture->out, "cut -f 1,4-7 requests.tsv | sort -n");
	require_equal(result.code, 0);
	free(result.err);
	return result.out;
}

/* Turns of two chats, each long after the other's, before a request that comes much later. */
Test(fleet_cli, who_waits_for_nobody_starts_at_once_in_any_fleet)
{
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	temporary_write(fixture.folder, "trace.jsonl",
		"{\"timestamp\":0,\"input_length\":100,\"output_length\":20,\"session_id\":\"a\"}\n"
		"{\"timestamp\":9,\"input_length\":200,\"output_length\":5,\"session_id\":\"a\"}\n"
		"{\"timestamp\":9000,\"input_length\":50,\"output_length\":9,\"session_id\":\"b\"}"
		"\n"
		"{\"timestamp\":9001,\"input_length\":80,\"output_length\":7,\"session_id\":\"b\"}"
		"\n"
		"{\"timestamp\":9002,\"input_length\":99,\"output_length\":3,\"session_id\":\"b\"}"
		"\n"
		"{\"timestamp\":90000,\"input_length\":10,\"output_length\":2}\n",
		NULL);
	char *alone = times_of(&fixture, "1");
	for (const char *replicas = "2"; replicas != NULL;
		replicas = strcmp(replicas, "2") == 0 ? "5" : NULL) {
		char *times = times_of(&fixture, replicas);
		cr_assert_str_eq(times, alone);
		free(times);
	}
	free(alone);
	replay_fixture_close(&fixture);
}

/* The window of measurement of a load that one replica can take, whichever of its requests are
   measured; the first two are rejected. */
Test(fleet_cli, the_window_of_an_idle_fleet_is_that_of_a_replica)
{
	static const char *const cooldowns[] = {"0", "1", "2", "3"};
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	temporary_write(fixture.folder, "trace.jsonl",
		"{\"timestamp\":0,\"input_length\":900000,\"output_length\":9}\n"
		"{\"timestamp\":1000,\"input_length\":900000,\"output_length\":9}\n"
		"{\"timestamp\":2000,\"input_length\":100,\"output_length\":9}\n"
		"{\"timestamp\":3000,\"input_length\":100,\"output_length\":9}\n",
		NULL);
	for (uint32_t i = 0; i < 4; i++) {
		cJSON *summaries[2];
		for (uint32_t j = 0; j < 2; j++) {
			require_ran(RUN(fixture.trace, "--gpu", "h200-datasheet", "--replicas",
				j == 0 ? "1" : "2", "--cooldown", cooldowns[i], "--out",
				fixture.out, "--force"));
			summaries[j] = read_summary(fixture.out);
		}
		const cJSON *one = cJSON_GetObjectItem(summaries[0], "window");
		const cJSON *two = cJSON_GetObjectItem(summaries[1], "window");
		require(one != NULL && cJSON_Compare(one, two, true), "cooldown %s", cooldowns[i]);
		cJSON_Delete(summaries[0]);
		cJSON_Delete(summaries[1]);
	}
	replay_fixture_close(&fixture);
}

/* Every replica opens the weights by their path, of which the result keeps the last name. */
Test(fleet_cli, weights_are_opened_by_path_and_kept_by_name, .timeout = 120)
{
	static const struct {
		const char *path, *name;
	} weights[] = {{"tests/fixtures/models/group1", "group1"},
		{"./tests//fixtures/models//group1", "group1"},
		{"tests/fixtures/models/group1/", "group1/"}};
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	for (uint32_t i = 0; i < 3; i++) {
		require_ran(RUN_SMALL(fixture.trace, "--out", fixture.out, "--force", "--runner",
			"reference", "--model", "tests/fixtures/models/group1", "--replicas", "3",
			"--weights", weights[i].path));
		cJSON *summary = read_summary(fixture.out);
		cr_assert_str_eq(text_in(summary, "config", "weights"), weights[i].name);
		cJSON_Delete(summary);
	}
	replay_fixture_close(&fixture);
}

/* ---- the wall clock ---- */

/* A fleet whose steps take real time, in the given traffic. */
static void run_wall(struct prop *prop, const struct fleet_scene *scene, const char *model)
{
	static const char *const views[] = {"exact", "own", "delayed:3"};
	static const char *const traffic[][4] = {{"--speedup", "8"}, {"--concurrency", "5"},
		{"--speedup", "4", "--outages", "drain:1@0.02,join:1@0.05"},
		{"--speedup", "8", "--replica-limit", "3"}};
	struct replay_arguments arguments = {0};

	add_all(&arguments,
		LIST(scene->trace, "--out", scene->out, "--replicas", scene->replicas, "--router",
			scene->router, ENGINE(scene), "--runner", "reference", "--model", model,
			"--clock", "wall", "--check", "--router-view", views[prop_below(prop, 3)]));
	const char *const *more = traffic[prop_below(prop, 4)];
	for (uint32_t i = 0; i < 4 && more[i] != NULL; i++) {
		arguments.list[arguments.count++] = more[i];
	}
	arguments.list[arguments.count] = NULL;
	prop_log(prop, "%s %s %s %s", more[0], more[1], more[2] == NULL ? "" : more[2],
		more[3] == NULL ? "" : more[3]);
	require_ran(quire_replay((struct process_order){0}, false, arguments.list));
}

/* Whatever the times were, they are all that a tape needs to make the same decisions. */
static void body_wall(struct prop *prop, const void *context)
{
	static const char model[] = "tests/fixtures/models/group1";
	struct fleet_scene scene;
	uint32_t replica_of[ROWS_MAX];

	(void)context;
	draw_scene(prop, &scene);
	run_wall(prop, &scene, model);
	read_replicas(&scene, replica_of);
	require_ran(RUN(scene.trace, "--runner", "tape", "--tape", scene.out, "--out", scene.part,
		"--steps", "--force", "--model", model));
	require_same_run(&scene);
	cJSON *root = read_summary(scene.out);
	require(strcmp(text_in(root, "config", "overlap"), "off") == 0,
		"replicas launched steps ahead");
	cJSON_Delete(root);
	close_scene(&scene);
}

Test(fleet_cli, replicas_in_real_time_play_from_their_tape, .timeout = 400)
{
	const struct prop_options options = {
		.name = "wall", .body = body_wall, .trials = 6, .timeout_s = 120};

	cr_assert(prop_holds(&options));
}

Test(fleet_cli, times_of_a_model_cannot_be_waited_for, .timeout = 60)
{
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	require_refused(RUN_SMALL(fixture.trace, "--out", fixture.out, "--replicas", "2", "--clock",
				"wall"),
		"--clock wall needs a runner whose steps take real time");
	replay_fixture_close(&fixture);
}

/* ---- replicas that come and go ---- */

/* Steps of one replica follow each other, and none runs over a failure of it. */
static void require_sound_steps(const struct fleet_scene *scene, uint64_t fail_ns, uint64_t join_ns)
{
	char *text = read_in(scene->out, "steps.tsv");
	uint64_t end_ns[REPLICAS_MAX] = {0}, step[REPLICAS_MAX] = {0};

	for (char *at = strchr(text, '\n') + 1; *at != '\0';) {
		char *cells[CELLS_MAX];
		uint32_t count;
		at = next_cells(at, cells, &count);
		uint32_t replica = (uint32_t)strtoul(cells[count - 1], NULL, 10);
		uint64_t start_ns = strtoull(cells[1], NULL, 10);
		require(start_ns >= end_ns[replica], "steps of a replica overlap");
		require_equal(strtoull(cells[0], NULL, 10), step[replica]++);
		end_ns[replica] = start_ns + strtoull(cells[2], NULL, 10);
		bool is_away = replica == 0 && end_ns[0] > fail_ns && start_ns < join_ns;
		require(!is_away, "a step of a replica that is not there");
	}
	free(text);
}

/* Replicas that fail before the first request are as if they were not there, with asynchronous
   scheduling (vllm) too: a plan's --spare relies on it. Routers that draw or hash replicas by their
   number may pick others. */
static void body_lost(struct prop *prop, const void *context)
{
	static const char *const plain[] = {
		"round-robin", "least-requests", "least-tokens", "prefix"};
	static const char *const counts[] = {"2", "3", "4"};
	struct fleet_scene scene;
	uint32_t count = prop_range(prop, 1, 2); /* of counts: those that stay */

	(void)context;
	draw_scene(prop, &scene);
	scene.router = plain[prop_below(prop, 4)];
	scene.policy = prop_chance(prop, 1, 2) ? "vllm" : "mixed";
	scene.batched = "64";
	prop_log(prop, "%s, %s, one of %s lost", scene.router, scene.policy, counts[count]);
	snprintf(scene.replicas, sizeof(scene.replicas), "%s", counts[count]);
	run_fleet(&scene, scene.out,
		LIST("--outages", count == 1 ? "fail:2@0" : "fail:3@0", "--check"));
	snprintf(scene.replicas, sizeof(scene.replicas), "%s", counts[count - 1]);
	run_fleet(&scene, scene.part, LIST("--check"));
	require_same_file(scene.out, scene.part, "requests.tsv");
	close_scene(&scene);
}

Test(fleet_cli, a_replica_lost_from_the_start_is_one_fewer, .timeout = 400)
{
	const struct prop_options options = {
		.name = "lost", .body = body_lost, .trials = 24, .timeout_s = 120};

	cr_assert(prop_holds(&options));
}

static void body_outages(struct prop *prop, const void *context)
{
	struct fleet_scene scene;
	uint32_t replica_of[ROWS_MAX];
	uint32_t fail_ms = prop_range(prop, 0, 400), join_ms = fail_ms + prop_range(prop, 1, 400);
	uint32_t drain_ms = prop_range(prop, 0, 400);
	char outages[96], queue[8];

	(void)context;
	draw_scene(prop, &scene);
	snprintf(outages, sizeof(outages), "drain:1@0.%03u,fail:0@0.%03u,join:0@0.%03u,join:1@9",
		drain_ms, fail_ms, join_ms);
	snprintf(queue, sizeof(queue), "%u", prop_range(prop, 1, 20));
	run_fleet(&scene, scene.out,
		LIST("--outages", outages, "--router-queue", queue, "--replica-limit", "9",
			"--router-view", prop_chance(prop, 1, 2) ? "own" : "delayed:20",
			"--check"));
	read_replicas(&scene, replica_of);
	require_sound_steps(&scene, fail_ms * UINT64_C(1000000), join_ms * UINT64_C(1000000));
	/* A tape lacks the step that was lost, and repeats all else. */
	require_ran(RUN(scene.trace, "--runner", "tape", "--tape", scene.out, "--out", scene.part,
		"--steps", "--force"));
	require_same_run(&scene);
	cJSON *root = read_summary(scene.out);
	require_equal(number_in(root, "requests", "submitted"), scene.row_count);
	require_equal(number_in(root, "requests", "submitted"),
		number_in(root, "requests", "finished") + number_in(root, "requests", "rejected"));
	cJSON_Delete(root);
	close_scene(&scene);
}

Test(fleet_cli, every_request_has_one_end_though_replicas_come_and_go, .timeout = 400)
{
	const struct prop_options options = {
		.name = "outages", .body = body_outages, .trials = 15, .timeout_s = 120};

	cr_assert(prop_holds(&options));
}
