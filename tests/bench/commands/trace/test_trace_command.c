#include <criterion/criterion.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cJSON.h>

#include "tests/harness/files.h"
#include "tests/harness/process.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* The commands of quire trace from the outside: files, output and exit codes. */

enum { COMMAND_BYTES = 4096 };

static char folder[TEMPORARY_PATH_BYTES];

static void set_up(void)
{
	temporary_folder(folder);
}

static void tear_down(void)
{
	temporary_remove(folder);
}

TestSuite(trace_command, .init = set_up, .fini = tear_down);

static void require_good(const char *arguments)
{
	free(quire_output(folder, 0, arguments));
}

/* Exit code 2 and exactly one line, and it is this one. */
static void require_refused(const char *arguments, const char *expected)
{
	char *text = quire_output(folder, 2, arguments);
	char *line_end = strchr(text, '\n');

	require(line_end != NULL && line_end[1] == '\0', "not one line: %s", text);
	require(strstr(text, expected) != NULL, "found    %sexpected %s", text, expected);
	free(text);
}

static cJSON *json_of(const char *arguments)
{
	char *text = quire_output(folder, 0, arguments);
	cJSON *root = cJSON_Parse(text);
	require(root != NULL, "quire %s: no JSON: %s", arguments, text);
	free(text);
	return root;
}

static double number(const cJSON *root, const char *name)
{
	const cJSON *item = cJSON_GetObjectItem(root, name);

	require(cJSON_IsNumber(item), "no number %s", name);
	return item->valuedouble;
}

/* Shares are those of the counts beside them. */
static void require_shares(const cJSON *stat)
{
	const cJSON *ideal = cJSON_GetObjectItem(stat, "ideal");
	double blocks = number(cJSON_GetObjectItem(stat, "blocks"), "total");
	double tokens = number(cJSON_GetObjectItem(stat, "input_tokens"), "sum");

	require(number(ideal, "hit_blocks") > 0, "no hits");
	require(fabs(number(ideal, "block_hit_rate") - number(ideal, "hit_blocks") / blocks) < 1e-6,
		"hits by block");
	require(fabs(number(ideal, "token_hit_rate") - number(ideal, "hit_tokens") / tokens) < 1e-6,
		"hits by token");
}

static bool exists(const char *name)
{
	char path[2 * TEMPORARY_PATH_BYTES];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return file_exists(path);
}

/* ---- make ---- */

Test(trace_command, make_refuses_what_makes_no_sense)
{
	static const char *const refusals[][2] = {
		{"", "--requests is missing"},
		{"--requests 5", "--input is missing"},
		{"--requests 5 --input 5", "--output is missing"},
		{"--requests 0 --input 5 --output 5", "--requests: found '0'"},
		{"--requests 5 --input 0 --output 5", "--input: found '0'"},
		{"--requests 5 --input 9:5 --output 5", "--input: found '9:5'"},
		{"--requests 5 --input 5:6:7 --output 5", "--input: found '5:6:7'"},
		{"--requests 5 --input lognormal:5 --output 5", "--input: found 'lognormal:5'"},
		{"--requests 5 --input 5 --output -1", "--output: found '-1'"},
		{"--requests 5 --input 5 --output 5 --prefix 10:0", "--prefix: found '10:0'"},
		{"--requests 5 --input 5 --output 5 --prefix 10,", "--prefix: found '10,'"},
		{"--requests 5 --input 5 --output 5 --rate 1 --wave 9:1:2", "--wave and --rate"},
		{"--requests 5 --input 5 --output 5 --rate 1 --session-rate 2",
			"--rate is of requests and --session-rate of sessions"},
		{"--preset chat --rate 5", "--rate is of requests, and a session of --turns 1:7"},
		{"--preset chat --session-rate 5 --wave 9:1:2", "--wave and --session-rate"},
		{"--requests 5 --input 5 --output 5 --wave 9:0:2", "--wave: found '9:0:2'"},
		{"--requests 5 --input 5 --output 5 --wave 9:1:1000001",
			"--wave: found '9:1:1000001'"},
		{"--requests 5 --input 5 --output 5 --wave 9:1000001:1",
			"--wave: found '9:1000001:1'"},
		{"--requests 5 --input 5 --output 5 --turns 3",
			"--turns needs sessions that begin"},
		{"--requests 5 --input 5 --output 5 --ramp 1:2:3", "--ramp divides --duration"},
		{"--requests 5 --input 5 --output 5 --burstiness 2", "needs --rate or --ramp"},
		{"--requests 5 --input 5 --lengths-from x", "--lengths-from says both lengths"},
		{"--requests 5 --lengths-from @/none", "none: cannot be opened"},
		{"--preset talk", "--preset: found 'talk'"},
		{"--requests 5 --input 5 --output 5 extra", "extra"},
	};

	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		char arguments[512];
		snprintf(arguments, sizeof(arguments), "trace make %s --out @/none.jsonl",
			refusals[i][0]);
		require_refused(arguments, refusals[i][1]);
		require(!exists("none.jsonl"), "%s left a file", arguments);
		require_no_parts(folder);
	}
	require_refused("trace make --requests 5 --input 5 --output 5", "--out is missing");
	require_refused("trace make --requests 5 --input 5 --output 5 --out @/no/such/folder",
		"cannot be written: No such file or directory");
}

/* The rate of the requests is printed, since that of the sessions was asked for. */
Test(trace_command, an_existing_trace_is_replaced_by_force_only)
{
	static const char *const commands[] = {
		"trace make --requests 2 --input 5 --output 5 --out @/t.jsonl",
		"trace convert @/given.jsonl --out @/t.jsonl"};
	char path[TEMPORARY_PATH_BYTES], command[256];

	temporary_write(folder, "given.jsonl",
		"{\"timestamp\":7,\"input_length\":5,\"output_length\":2}\n", path);
	for (int i = 0; i < 2; i++) {
		temporary_write(folder, "t.jsonl", "old", path);
		require_refused(commands[i], "t.jsonl: exists already; --force replaces it");
		char *old = file_read(path, NULL);
		require(strcmp(old, "old") == 0, "%s: replaced it by %s", commands[i], old);
		free(old);
		snprintf(command, sizeof(command), "%s --force", commands[i]);
		require_good(command);
		temporary_write(folder, "t.jsonl", "", path); /* as mktemp leaves it */
		require_good(commands[i]);
	}
	require_refused("trace convert @/given.jsonl --force --out @/given.jsonl",
		"is read by this command");
}

Test(trace_command, make_says_what_it_made)
{
	char *text = quire_output(folder, 0,
		"trace make --preset chat --requests 400 --session-rate 5 --out @/chat.jsonl");
	unsigned requests = 0, sessions = 0;
	double seconds = 0, rate = 0;

	require(sscanf(text, "%u requests of %u sessions in %lf s: %lf requests/s", &requests,
			&sessions, &seconds, &rate) == 4,
		"%s", text);
	cJSON *stat = json_of("trace stat @/chat.jsonl --json");
	require_shares(stat);
	require_equal(requests, number(stat, "rows"));
	require_equal(sessions, number(cJSON_GetObjectItem(stat, "sessions"), "count"));
	require(rate > 5.1 && rate < seconds && rate * seconds > 390 && rate * seconds < 410, "%s",
		text);
	cJSON_Delete(stat);
	free(text);
}

/* The end of the time or the number of rows, whichever comes first. */
Test(trace_command, make_ends_by_time_or_by_rows)
{
	static const char *const loads[] = {"--arrivals poisson --rate 5 --seed 3",
		"--arrivals constant --rate 4", "--prefix 64:3 --session-rate 3 --turns 1:4"};

	for (size_t i = 0; i < sizeof(loads) / sizeof(loads[0]); i++) {
		char make[256];
		snprintf(make, sizeof(make),
			"trace make --requests 90 --input 9:99 --output 5 %s --force --out "
			"@/whole.jsonl",
			loads[i]);
		require_good(make);
		for (uint32_t seconds = 1; seconds < 1000; seconds *= 3) {
			struct process_result whole = shell_run(
				folder, "awk -F'[:,]' '$2 < %u' whole.jsonl", seconds * 1000);
			char *line_end = strrchr(make, '@');
			snprintf(line_end, sizeof(make) - (size_t)(line_end - make),
				"@/part.jsonl --duration %u", seconds);
			require_good(make);
			struct process_result part = shell_run(folder, "cat part.jsonl");
			require(strcmp(whole.out, part.out) == 0, "%s: found\n%s\nexpected\n%s",
				make, part.out, whole.out);
			process_result_free(&whole);
			process_result_free(&part);
		}
	}
}

/* Longer prompts than a quarter of the longest of a trace are not drawn from. */
Test(trace_command, lengths_are_drawn_from_prompts_up_to_a_limit)
{
	enum { MOST = 1 << 26 };
	char row[128];

	for (int more = -1; more <= 1; more++) {
		snprintf(row, sizeof(row),
			"{\"timestamp\":0,\"input_length\":%d,\"output_length\":3}\n", MOST + more);
		temporary_write(folder, "lengths.jsonl", row, NULL);
		if (more > 0) {
			require_refused("trace make --requests 2 --lengths-from @/lengths.jsonl "
					"--out @/none.jsonl",
				"found an input_length of 67108865, expected at most 67108864");
			continue;
		}
		require_good("trace make --requests 2 --lengths-from @/lengths.jsonl "
			     "--max-context 268435456 --force --out @/drawn.jsonl");
		cJSON *stat = json_of("trace stat @/drawn.jsonl --json");
		require_equal(number(cJSON_GetObjectItem(stat, "input_tokens"), "sum"),
			2.0 * (MOST + more));
		cJSON_Delete(stat);
	}
}

/* The file says how many tokens an id stands for, which another program may still overrule. */
Test(trace_command, what_make_writes_can_be_read_without_options)
{
	static const char *const presets[] = {"chat", "agent", "rag", "batch"};

	for (size_t i = 0; i < sizeof(presets) / sizeof(presets[0]); i++) {
		char make[256];
		snprintf(make, sizeof(make),
			"trace make --preset %s --requests 60 --force --out @/p.jsonl", presets[i]);
		free(quire_output(folder, 0, make));
		free(quire_output(folder, 0, "trace stat @/p.jsonl"));
		char *text = quire_output(folder, 0,
			"replay @/p.jsonl --max-model-len 200000 --out @/replayed --force");
		require(strstr(text, "60 finished") != NULL, "%s", text);
		free(text);
	}
	free(quire_output(
		folder, 0, "trace make --preset chat --requests 60 --force --out @/p.jsonl"));
	require_refused("replay @/p.jsonl --trace-block-size 32 --out @/none", "hash_ids: found");
	free(quire_output(folder, 0,
		"trace make --requests 5 --input 9 --output 9 --prefix 32:2 "
		"--trace-block-size 512 --force --out @/p.jsonl"));
	char *row = quire_output(folder, 0, "trace convert @/p.jsonl --out -");
	require(strstr(row, "block_size") == NULL, "the format's default is written: %s", row);
	free(row);
}

Test(trace_command, make_writes_into_devices_and_pipes)
{
	char command[COMMAND_BYTES];

	/* A named pipe, which a careless rename would replace by a file. */
	snprintf(command, sizeof(command),
		"cd %s && mkfifo pipe && (wc -l <pipe >lines &) && %s trace make --requests 5 "
		"--input 1 --output 1 --out pipe && test -p pipe && ! ls pipe.*",
		folder, QUIRE_EXECUTABLE);
	require(system(command) == 0, "%s", command);
}

Test(trace_command, make_writes_the_same_twice)
{
	const char *arguments = "trace make --preset agent --requests 20 --seed 4 --out -";
	char *first = quire_output(folder, 0, arguments);
	char *second = quire_output(folder, 0, arguments);
	require(strlen(first) > 1000 && strcmp(first, second) == 0, "two runs differ");
	free(second);
	second =
		quire_output(folder, 0, "trace make --preset agent --requests 20 --seed 5 --out -");
	require(strcmp(first, second) != 0, "two seeds do not differ");
	free(first);
	free(second);
}

/* Arrivals of a trace in [from_ms, to_ms). */
static double arrivals_between(const char *text, double from_ms, double to_ms)
{
	double count = 0;

	for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1) {
		double at_ms = atof(line + strlen("{\"timestamp\":"));
		count += at_ms >= from_ms && at_ms < to_ms;
	}
	return count;
}

/* Without chance each period has as many arrivals as at the mean of both rates. Where a period
   begins the rate is the first one, and in its middle the second; of the 30 steps that a period has
   the one about these times is watched. */
Test(trace_command, a_wave_has_its_period_and_both_rates)
{
	static const struct {
		double period_s, first, second;
	} waves[] = {{300, 2, 12}, {60, 50, 10}, {12.5, 40, 120}, {100, 30, 30}};

	for (size_t i = 0; i < sizeof(waves) / sizeof(waves[0]); i++) {
		double period_ms = 1000 * waves[i].period_s, step_ms = period_ms / 30;
		double first = waves[i].first / 1000, second = waves[i].second / 1000;
		double expected = (first + second) / 2 * period_ms;
		double steep = fabs(first - second) * step_ms / 5;
		char command[COMMAND_BYTES];
		snprintf(command, sizeof(command),
			"trace make --input 5 --output 5 --arrivals constant --requests %.0f "
			"--wave %g:%g:%g --out -",
			3.6 * expected, waves[i].period_s, waves[i].first, waves[i].second);
		char *text = quire_output(folder, 0, command);
		for (int period = 0; period < 3; period++) {
			double at_ms = period * period_ms, middle_ms = at_ms + period_ms / 2;
			double count = arrivals_between(text, at_ms, at_ms + period_ms);
			require(fabs(count - expected) <= 2, "%s: %g in period %d", command, count,
				period);
			count = arrivals_between(text, at_ms - step_ms / 2, at_ms + step_ms / 2);
			require(period == 0 || fabs(count - first * step_ms) <= 2 + steep,
				"%s: %g where period %d begins", command, count, period);
			count = arrivals_between(
				text, middle_ms - step_ms / 2, middle_ms + step_ms / 2);
			require(fabs(count - second * step_ms) <= 2 + steep,
				"%s: %g in the middle of period %d", command, count, period);
		}
		free(text);
	}
}

Test(trace_command, presets_are_changed_by_options)
{
	require_good("trace make --preset chat --requests 50 --wave 60:1:5 --out @/wave.jsonl");
	require_good("trace make --preset chat --lengths-from workloads/traces/demo.jsonl "
		     "--requests 50 --turns 1 --out @/lengths.jsonl");
	cJSON *stat = json_of("trace stat @/lengths.jsonl --trace-block-size 16 --json");
	require_equal(number(stat, "rows"), 50);
	require_equal(number(cJSON_GetObjectItem(stat, "sessions"), "turns"), 0);
	cJSON_Delete(stat);
}

/* Whatever a preset says of rates. */
Test(trace_command, presets_can_arrive_at_once)
{
	static const char *const presets[] = {
		"none --input 5 --output 5", "chat", "agent", "rag", "batch"};
	char arguments[256], path[2 * TEMPORARY_PATH_BYTES];

	snprintf(path, sizeof(path), "%s/t.jsonl", folder);
	for (uint32_t i = 0; i < sizeof(presets) / sizeof(presets[0]); i++) {
		uint32_t rows = 0;
		snprintf(arguments, sizeof(arguments),
			"trace make --preset %s --turns 1 --requests 20 --arrivals at-once --force "
			"--out "
			"@/t.jsonl",
			presets[i]);
		require_good(arguments);
		char *text = file_read(path, NULL);
		for (const char *at = text; (at = strstr(at, "\"timestamp\":")) != NULL; at++) {
			rows += strncmp(at, "\"timestamp\":0,", 14) == 0;
		}
		require(rows == 20, "%s: %u of 20 rows are there at once", arguments, rows);
		free(text);
	}
}

static char *made(const char *options)
{
	char arguments[256];

	snprintf(arguments, sizeof(arguments),
		"trace make --requests 9 --input 5 --output 5 --rate 1 --out - %s", options);
	return quire_output(folder, 0, arguments);
}

/* TOKENS is TOKENS:1, and all levels together have a limit. */
Test(trace_command, a_prefix_has_a_number_and_a_limit)
{
	char *plain = made("--prefix 1024"), *one = made("--prefix 1024:1");
	char *three = made("--prefix 1024:3");

	cr_assert_str_eq(plain, one);
	require(strcmp(plain, three) != 0, "three prefixes are one");
	free(plain);
	free(one);
	free(three);
	require_good(
		"trace make --requests 1 --input 5 --output 5 --rate 1 --force --out @/t.jsonl "
		"--prefix 67108863:1,1");
	require_refused(
		"trace make --requests 1 --input 5 --output 5 --rate 1 --force --out @/t.jsonl "
		"--prefix 67108864:1,1",
		"--prefix: found '67108864:1,1', expected TOKENS:COUNT");
}

/* ---- stat and convert ---- */

Test(trace_command, stat_sums_a_trace_up)
{
	char path[TEMPORARY_PATH_BYTES];

	temporary_write(folder, "small.jsonl",
		"{\"timestamp\":500,\"input_length\":10,\"output_length\":1,\"hash_ids\":[1,2,3]}\n"
		"{\"timestamp\":1500,\"input_length\":8,\"output_length\":3,\"hash_ids\":[1,2]}\n"
		"{\"timestamp\":1500,\"input_length\":10,\"output_length\":5,\"hash_ids\":[1,2,3],"
		"\"session_id\":\"a\"}\n"
		"{\"timestamp\":4500,\"input_length\":100,\"output_length\":7}\n",
		path);
	cJSON *stat = json_of("trace stat @/small.jsonl --trace-block-size 4 --json");
	require_equal(number(stat, "rows"), 4);
	require_equal(number(stat, "duration_s"), 4);
	require_equal(number(stat, "rate_per_s") * 100, 75);
	/* Gaps 1, 0 and 3 seconds: mean 4/3, mean of squares 10/3. */
	require(number(stat, "gap_cv") > 0.9353 && number(stat, "gap_cv") < 0.9355, "CV %f",
		number(stat, "gap_cv"));
	require_equal(number(stat, "peak_second"), 1);
	require_equal(number(stat, "peak_second_rows"), 2);
	const cJSON *input = cJSON_GetObjectItem(stat, "input_tokens");
	require_equal(number(input, "sum"), 128);
	require_equal(number(input, "min"), 8);
	require_equal(number(input, "p50"), 10);
	require_equal(number(input, "p90"), 100);
	require_equal(number(input, "max"), 100);
	const cJSON *blocks = cJSON_GetObjectItem(stat, "blocks");
	require_equal(number(blocks, "total"), 3 + 2 + 3 + 25);
	require_equal(number(blocks, "unique"), 3 + 25);
	const cJSON *ideal = cJSON_GetObjectItem(stat, "ideal");
	require_equal(number(ideal, "hit_blocks"), 5);
	require_equal(number(ideal, "hit_tokens"), 18);
	require_equal(number(cJSON_GetObjectItem(stat, "sessions"), "count"), 1);
	cJSON_Delete(stat);
}

/* The figures of the demonstration's trace, which were computed by another program too. */
Test(trace_command, stat_says_the_same_in_words)
{
	char *text = quire_output(folder, 0, "trace stat workloads/traces/demo.jsonl");
	cr_assert_str_eq(text,
		"format      mooncake\n"
		"rows        2200\n"
		"duration    346.927 s\n"
		"rate        6.3385 requests/s\n"
		"gaps        CV 1.494 (Poisson: 1)\n"
		"peak        17 requests in second 101\n\n"
		"  tokens                 mean        min        p50        p90        p99        "
		"max\n"
		"  input                7567.5       2082       5926      14887      27536      "
		"32644\n"
		"  output                596.4         23        397       1270       3260       "
		"7179\n\n"
		"tokens      16648565 input, 1312031 output\n"
		"blocks      33635 of 512 tokens, 11398 different\n"
		"ideal hits  66.11 % of blocks, 68.39 % of input tokens (nothing ever evicted)\n"
		"sessions    669, 3.29 turns each; 1531 turns continue the one before word for "
		"word\n");
	free(text);
}

/* Three rows every 2 s, the very last one 2 s later: 30 rows at 11 times. */
Test(trace_command, stat_finds_the_ticks_of_a_clock)
{
	char rows[4096], path[TEMPORARY_PATH_BYTES];
	size_t bytes = 0;

	for (unsigned i = 0; i < 30; i++) {
		bytes += (size_t)snprintf(rows + bytes, sizeof(rows) - bytes,
			"{\"timestamp\":%u,\"input_length\":8,\"output_length\":1}\n",
			i / 3 * 2000 + (i == 29 ? 2000 : 0));
	}
	temporary_write(folder, "ticks.jsonl", rows, path);
	cJSON *stat = json_of("trace stat @/ticks.jsonl --json");
	require_equal(number(stat, "tick_s"), 2);
	require(number(stat, "requests_per_tick") > 30 / 11.01 &&
			number(stat, "requests_per_tick") < 30 / 10.99,
		"%f requests share a time", number(stat, "requests_per_tick"));
	cJSON_Delete(stat);
}

Test(trace_command, convert_keeps_what_is_mooncake_already)
{
	require_good("trace convert workloads/traces/demo.jsonl --out @/again.jsonl");
	free(quire_output(folder, 0, "trace stat @/again.jsonl"));
	char command[COMMAND_BYTES];
	snprintf(
		command, sizeof(command), "cmp workloads/traces/demo.jsonl %s/again.jsonl", folder);
	require(system(command) == 0, "the copy differs");
}

Test(trace_command, convert_gives_chats_and_token_ids_their_sharing)
{
	char path[TEMPORARY_PATH_BYTES];
	temporary_write(folder, "chats.jsonl",
		"{\"chat_id\":7,\"parent_chat_id\":-1,\"timestamp\":0.25,\"input_length\":17,"
		"\"output_length\":2,\"hash_ids\":[1,2]}\n"
		"{\"chat_id\":8,\"parent_chat_id\":7,\"timestamp\":0.5,\"input_length\":32,"
		"\"output_length\":2,\"hash_ids\":[1,3]}\n",
		path);
	char *text = quire_output(folder, 0, "trace convert @/chats.jsonl --out -");
	require(strstr(text, "\"session_id\":\"7\",\"block_size\":16,\"hash_ids\":[1,2]}") != NULL,
		"%s", text);
	require(strstr(text, "{\"timestamp\":500,\"input_length\":32,\"output_length\":2,"
			     "\"session_id\":\"7\",\"hash_ids\":[1,3]}") != NULL,
		"%s", text);
	temporary_write(folder, "tokens.jsonl",
		"{\"arrival_time_ns\":0,\"input_tok_ids\":[1,2,3,4,5],\"output_toks\":1}\n"
		"{\"arrival_time_ns\":0,\"input_tok_ids\":[1,2,3,4],\"output_toks\":1}\n",
		path);
	require_good("trace convert @/tokens.jsonl --trace-block-size 2 --out @/ids.jsonl");
	cJSON *from_ids = json_of("trace stat @/ids.jsonl --json");
	cJSON *from_tokens = json_of("trace stat @/tokens.jsonl --trace-block-size 2 --json");
	require(cJSON_Compare(cJSON_GetObjectItem(from_ids, "ideal"),
			cJSON_GetObjectItem(from_tokens, "ideal"), true),
		"sharing got lost");
	require_equal(number(cJSON_GetObjectItem(from_ids, "ideal"), "hit_tokens"), 4);
	cJSON_Delete(from_ids);
	cJSON_Delete(from_tokens);
	free(text);
}

/* Two prompts that share 16 of 17 tokens, in blocks as small as any policy's by default. */
Test(trace_command, token_ids_share_what_a_replay_finds)
{
	static const char ids[] = "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16";
	char rows[512];
	char path[TEMPORARY_PATH_BYTES];

	snprintf(rows, sizeof(rows),
		"{\"arrival_time_ns\":0,\"input_tok_ids\":[%s,17],\"output_toks\":5}\n"
		"{\"arrival_time_ns\":1000000000,\"input_tok_ids\":[%s,18],\"output_toks\":5}\n",
		ids, ids);
	temporary_write(folder, "tokens.jsonl", rows, path);
	require_good("trace convert @/tokens.jsonl --out @/ids.jsonl");
	static const char *const traces[] = {"tokens.jsonl", "ids.jsonl"};
	for (int i = 0; i < 2; i++) {
		char arguments[256];
		snprintf(arguments, sizeof(arguments), "trace stat @/%s --json", traces[i]);
		cJSON *stat = json_of(arguments);
		require_equal(number(cJSON_GetObjectItem(stat, "ideal"), "hit_tokens"), 16);
		cJSON_Delete(stat);
		snprintf(arguments, sizeof(arguments), "replay @/%s --policy vllm", traces[i]);
		char *text = quire_output(folder, 0, arguments);
		require(strstr(text, "47.06% of prompt tokens hit") != NULL, "%s", text);
		free(text);
	}
}

/* Closed sessions of a trace that misspells them end with the note and the error. */
Test(trace_command, a_misspelt_field_is_noted_by_each_command)
{
	static const char *const commands[] = {"trace stat @/t.jsonl", "replay @/t.jsonl",
		"trace convert @/t.jsonl --out @/c.jsonl",
		"plan @/t.jsonl --slo-ttft-ms 2000 --slo-tpot-ms 80"};
	static const char *const refused[] = {
		"replay @/t.jsonl --sessions closed", "trace cache @/t.jsonl"};
	char path[TEMPORARY_PATH_BYTES];

	temporary_write(folder, "t.jsonl",
		"{\"timestamp\":0,\"input_length\":9,\"output_length\":2,\"sesion_id\":\"a\"}\n"
		"{\"timestamp\":9,\"input_length\":9,\"output_length\":2,\"sesion_id\":\"a\"}\n",
		path);
	for (int i = 0; i < 6; i++) {
		const char *arguments = i < 4 ? commands[i] : refused[i - 4];
		char *text = quire_output(folder, i < 4 ? 0 : 2, arguments);
		const char *note = strstr(text, "t.jsonl:1: found field sesion_id, which is not "
						"read; is session_id meant?\n");
		require(note != NULL && strstr(note + 9, ":1: found") == NULL, "%s: %s", arguments,
			text);
		free(text);
	}
}

/* Whichever of its rows have ids: those of the second share half of the third's tokens. */
Test(trace_command, convert_keeps_the_size_of_blocks_though_a_row_has_no_ids)
{
	static const char row[] = "{\"chat_id\":%d,\"parent_chat_id\":-1,\"timestamp\":%d,"
				  "\"input_length\":32,\"output_length\":2%s}\n";
	static const char *const ids[] = {"", ",\"hash_ids\":[1,2]", ",\"hash_ids\":[1,3]"};

	for (int first = 0; first < 3; first++) {
		char rows[512] = "";
		char path[TEMPORARY_PATH_BYTES];
		for (int i = 0; i < 3; i++) {
			size_t used = strlen(rows);
			snprintf(rows + used, sizeof(rows) - used, row, i, i, ids[(first + i) % 3]);
		}
		temporary_write(folder, "chats.jsonl", rows, path);
		require_good("trace convert @/chats.jsonl --force --out @/some.jsonl");
		cJSON *before = json_of("trace stat @/chats.jsonl --json");
		cJSON *after = json_of("trace stat @/some.jsonl --json");
		require_equal(number(cJSON_GetObjectItem(after, "ideal"), "hit_tokens"), 16);
		require(cJSON_Compare(cJSON_GetObjectItem(before, "blocks"),
				cJSON_GetObjectItem(after, "blocks"), true),
			"row %d is the first: other blocks", first);
		cJSON_Delete(before);
		cJSON_Delete(after);
	}
}

/* Sessions of three turns, whose delays are none, 0 or some; the ids are shared. */
static char *sessions_trace(bool has_delays)
{
	static const char *const delays[] = {"", ",\"delay\":0", ",\"delay\":1500.5"};
	char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);

	for (int i = 0; i < 90; i++) {
		fprintf(file,
			"{\"timestamp\":%d,\"input_length\":%d,\"output_length\":%d,"
			"\"session_id\":\"s%d\"%s%s,\"block_size\":16,\"hash_ids\":[%d,%d]}\n",
			10 * i, 32 + i % 15, 5 + i % 7, i % 30,
			i < 30 || !has_delays ? "" : delays[i % 30 % 3],
			i % 4 == 0 ? ",\"priority\":3" : "", i % 5, 100 + i);
	}
	fclose(file);
	return text;
}

/* The requests of a run of the trace. The caller frees it. */
static char *replayed(const char *trace, const char *options)
{
	char command[COMMAND_BYTES], path[2 * TEMPORARY_PATH_BYTES];

	snprintf(command, sizeof(command), "replay @/%s %s --out @/run --force", trace, options);
	require_good(command);
	snprintf(path, sizeof(path), "%s/run/requests.tsv", folder);
	return file_read(path, NULL);
}

/* A delay of 0 is one: without it a drawn arrival keeps the gap of the trace. */
Test(trace_command, a_converted_trace_is_replayed_alike)
{
	static const char *const options[] = {"--sessions open --rate 20", "--sessions closed",
		"--sessions closed --rate 20",
		"--sessions closed --rate 200 --policy vllm "
		"--scheduling-policy priority --max-num-seqs 4"};
	char path[TEMPORARY_PATH_BYTES];
	char *with = sessions_trace(true), *without = sessions_trace(false);

	temporary_write(folder, "with.jsonl", with, path);
	temporary_write(folder, "without.jsonl", without, path);
	require_good("trace convert @/with.jsonl --out @/again.jsonl");
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		char *first = replayed("with.jsonl", options[i]);
		char *again = replayed("again.jsonl", options[i]);
		char *other = replayed("without.jsonl", options[i]);
		require(strcmp(first, again) == 0, "another run with %s", options[i]);
		require((strcmp(first, other) == 0) == (i == 0), "delays and %s", options[i]);
		free(first);
		free(again);
		free(other);
	}
	free(with);
	free(without);
}

Test(trace_command, convert_leaves_nothing_of_a_bad_file)
{
	char path[TEMPORARY_PATH_BYTES];

	temporary_write(folder, "bad.jsonl",
		"{\"timestamp\":0,\"input_length\":1,\"output_length\":1}\n{\"timestamp\":\n",
		path);
	require_refused("trace convert @/bad.jsonl --out @/none.jsonl",
		"bad.jsonl:2: found {\"timestamp\":, expected a JSON object");
	require(!exists("none.jsonl"), "a file was left");
	require_no_parts(folder);
	require_refused("trace stat @/bad.jsonl", "bad.jsonl:2");
	require_refused("trace cache @/bad.jsonl", "bad.jsonl:2");
	require_refused("trace stat @/none.jsonl", "none.jsonl: cannot be opened");
	require_refused("trace stat @", "Is a directory");
	require_refused("trace stat", "TRACE");
	require_refused("trace stat a b", "b");
}

Test(trace_command, failed_requests_of_the_source_are_skipped_and_counted)
{
	char path[TEMPORARY_PATH_BYTES];
	temporary_write(folder, "burst.csv",
		"Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
		"1,a,5,0,5,x\n2,a,5,1,6,x\n",
		path);
	char *text = quire_output(folder, 0, "trace stat @/burst.csv");
	require(strstr(text, "note: passed over 1 row without response tokens: failures at the "
			     "source\n") != NULL,
		"%s", text);
	free(text);
}

/* What is noted of a file is noted by every command that reads it whole. */
Test(trace_command, each_command_notes_what_it_passed_over)
{
	static const char *const commands[] = {
		"trace stat @/burst.csv", "trace convert @/burst.csv --force --out @/burst.jsonl"};

	for (uint32_t failures = 0; failures <= 3; failures++) {
		char log[512], note[128] = "note: passed over";
		int bytes = snprintf(log, sizeof(log),
			"Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
			"1,a,5,2,7,x\n");
		for (uint32_t i = 0; i < failures; i++) {
			bytes += snprintf(
				log + bytes, sizeof(log) - (size_t)bytes, "%u,a,5,0,5,x\n", 2 + i);
		}
		if (failures > 0) {
			snprintf(note, sizeof(note), "note: passed over %u row%s without response",
				failures, failures == 1 ? "" : "s");
		}
		temporary_write(folder, "burst.csv", log, NULL);
		for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
			char *text = quire_output(folder, 0, commands[i]);
			require((strstr(text, note) != NULL) == (failures > 0), "%s: %s",
				commands[i], text);
			free(text);
		}
	}
}

/* ---- cache ---- */

Test(trace_command, cache_answers_one_question_with_one_object)
{
	cJSON *object = json_of(
		"trace cache workloads/traces/demo.jsonl --capacity 2000 --policy lru_tail --json");
	cJSON *best = json_of(
		"trace cache workloads/traces/demo.jsonl --capacity 2000 --policy belady --json");
	cJSON *all = json_of("trace cache workloads/traces/demo.jsonl --capacity 2000,9 --policy "
			     "infinite --json");

	require(cJSON_IsObject(object) && cJSON_IsArray(all), "not the right kind");
	require_equal(number(object, "capacity_blocks"), 2000);
	require_equal(number(object, "capacity_tokens"), 2000 * 512);
	require(number(object, "hit_blocks") <= number(best, "hit_blocks"),
		"LRU beats the optimum");
	require(number(best, "hit_blocks") <= number(cJSON_GetArrayItem(all, 0), "hit_blocks"),
		"the optimum beats an infinite cache");
	require(number(object, "hit_tokens") > 0, "nothing is found");
	cJSON_Delete(object);
	cJSON_Delete(best);
	cJSON_Delete(all);
}

/* A row as it is printed: blocks, tokens, GiB, and the share of each policy. */
static void require_row(const cJSON *point, const char *line)
{
	static const char *const policies[] = {"lru_tail", "lru_stream", "fifo", "belady"};
	char expected[160];
	int used = snprintf(expected, sizeof(expected), "%10.0f %12.0f  %9.3f ",
		number(point, "capacity_blocks"), number(point, "capacity_tokens"),
		number(point, "capacity_gib"));

	for (uint32_t i = 0; i < 4; i++) {
		const cJSON *hits = cJSON_GetObjectItem(point, policies[i]);
		used += snprintf(expected + used, sizeof(expected) - (size_t)used, " %*.2f",
			i == 0	 ? 8
			: i == 1 ? 10
				 : 7,
			100 * number(hits, "token_hit_rate"));
	}
	require(strcmp(line, expected) == 0, "found    '%s'\nexpected '%s'", line, expected);
}

/* About twenty points of the curve, the last one and those of --capacity among them. */
Test(trace_command, cache_prints_points_of_its_curve)
{
	static const char command[] = "trace cache workloads/traces/demo.jsonl --model qwen3-8b "
				      "--capacity 78,1234,1235,1236,7306";
	char with_json[COMMAND_BYTES], header[160];
	uint32_t rows = 0, asked = 0;

	snprintf(with_json, sizeof(with_json), "%s --json", command);
	cJSON *curve = json_of(with_json);
	const cJSON *points = cJSON_GetObjectItem(curve, "points");
	const cJSON *largest = cJSON_GetArrayItem(points, cJSON_GetArraySize(points) - 1);
	char *text = quire_output(folder, 0, command);
	snprintf(header, sizeof(header),
		"%.0f requests, %.0f blocks of %.0f tokens, %.0f different\n",
		number(curve, "requests"), number(curve, "total_blocks"),
		number(curve, "block_size"), number(curve, "unique_blocks"));
	require(strncmp(text, header, strlen(header)) == 0, "%s", text);
	snprintf(header, sizeof(header),
		"share of %.0f prompt tokens found, in %%; infinite: %.2f\n",
		number(curve, "total_tokens"),
		100 * number(cJSON_GetObjectItem(largest, "infinite"), "token_hit_rate"));
	require(strstr(text, header) != NULL, "%s", text);
	char *line = strtok(strstr(text, "    blocks       tokens        GiB  lru_tail"), "\n");
	const cJSON *point = points->child;
	while ((line = strtok(NULL, "\n")) != NULL) {
		double blocks = strtod(line, NULL);
		while (point != NULL && number(point, "capacity_blocks") < blocks) {
			point = point->next;
		}
		require(point != NULL, "'%s' is no point of the curve", line);
		require_row(point, line);
		rows++;
		asked += blocks == 78 || blocks == 7306 || (blocks >= 1234 && blocks <= 1236);
	}
	require(point == largest, "the largest is not printed");
	require_equal(asked, 5);
	require(rows >= 15 && rows <= 35, "%u rows", rows);
	free(text);
	cJSON_Delete(curve);
}

Test(trace_command, cache_draws_its_curve)
{
	cJSON *curve;

	if (system("command -v gnuplot >/dev/null") != 0) {
		cr_skip_test("gnuplot is not here");
	}
	require_good("trace cache workloads/traces/demo.jsonl --model qwen3-8b --capacity 1234 "
		     "--out @/curve.tsv --plot @/curve.svg");
	require(exists("curve.tsv") && exists("curve.svg"), "a file is missing");
	char command[COMMAND_BYTES];
	snprintf(command, sizeof(command),
		"gnuplot -c reports/figures/trace_cache.gp %s/by_hand.svg %s/curve.tsv && "
		"grep -q 'KV cache of qwen3-8b, GiB' %s/curve.svg && "
		"cut -f 1 %s/curve.tsv | grep -qx 1234",
		folder, folder, folder, folder);
	require(system(command) == 0, "%s", command);
	require_good("trace stat workloads/traces/demo.jsonl --plot @/stat.svg");
	require(exists("stat.svg"), "no picture");
	curve = json_of("trace cache workloads/traces/demo.jsonl --json");
	require(cJSON_GetArraySize(cJSON_GetObjectItem(curve, "points")) > 50, "too few points");
	cJSON_Delete(curve);
}

/* The picture marks what the GPU holds beside the model, as quire info says it: 3,055 blocks. */
Test(trace_command, cache_marks_a_gpu)
{
	static const char order[] =
		"trace cache workloads/traces/demo.jsonl --model qwen3-8b --gpu h200";
	char command[COMMAND_BYTES];

	char *text = quire_output(folder, 0, order);
	require(strstr(text, "h200 has room for 782080 tokens, 107.402 GiB, beside qwen3-8b") !=
			NULL,
		"%s", text);
	free(text);
	if (system("command -v gnuplot >/dev/null") != 0) {
		return;
	}
	snprintf(command, sizeof(command), "%s --plot @/curve.svg", order);
	require_good(command);
	snprintf(command, sizeof(command),
		"grep -q 'h200: 107 GiB' %s/curve.svg && "
		"grep -q '<desc>.*h200 holds 107 GiB, where LRU finds' %s/curve.svg",
		folder, folder);
	require(system(command) == 0, "%s", command);
}

/* Two GPUs hold more than twice as much, for each has half of the weights: 6,562 blocks. */
Test(trace_command, cache_marks_gpus_that_share_a_model)
{
	char *text = quire_output(folder, 0,
		"trace cache workloads/traces/demo.jsonl --model qwen3-8b --gpu h200 -tp 2");

	require(strstr(text, "\nh200 -tp 2 has room for 1679872 tokens, 230.695 GiB, beside "
			     "qwen3-8b\n") != NULL,
		"%s", text);
	free(text);
	require_refused("trace cache workloads/traces/demo.jsonl --model qwen3-8b -tp 2",
		"--tensor-parallel-size needs --gpu");
	require_refused("trace cache workloads/traces/demo.jsonl --model qwen3-8b --gpu h200 -tp 3",
		"expected 1, 2, 4 or 8");
}

Test(trace_command, cache_refuses_what_makes_no_sense)
{
	char path[TEMPORARY_PATH_BYTES];

	require_refused("trace cache workloads/traces/demo.jsonl --policy lru_tail",
		"--policy needs --capacity");
	require_refused("trace cache workloads/traces/demo.jsonl --policy lru --capacity 5",
		"--policy: found 'lru'");
	require_refused(
		"trace cache workloads/traces/demo.jsonl --capacity 0", "--capacity: found '0'");
	require_refused(
		"trace cache workloads/traces/demo.jsonl --capacity 5,", "--capacity: found '5,'");
	require_refused("trace cache workloads/traces/demo.jsonl --capacity 5 --policy fifo --out "
			"@/x.tsv",
		"--policy does not go with it");
	require_refused("trace cache workloads/traces/demo.jsonl --model gpt-5", "gpt-5");
	require_refused(
		"trace cache workloads/traces/demo.jsonl --gpu h200", "--gpu needs --model");
	require_refused(
		"trace cache workloads/traces/demo.jsonl --model qwen3-8b --gpu abacus", "abacus");
	temporary_write(folder, "alone.jsonl",
		"{\"timestamp\":0,\"input_length\":1,\"output_length\":1}\n", path);
	require_refused("trace cache @/alone.jsonl", "neither hash ids nor token ids");
}

/* ---- what an engine finds ---- */

/* Hit tokens of a replay with blocks of this many tokens and a pool that holds everything. */
static double replayed_hits(const char *block_size)
{
	char arguments[512];
	char path[2 * TEMPORARY_PATH_BYTES];
	snprintf(arguments, sizeof(arguments),
		"replay @/trace.jsonl --trace-block-size 32 --block-size %s --kv-blocks 5000 "
		"--out @/result --force",
		block_size);
	require_good(arguments);
	snprintf(path, sizeof(path), "%s/result/summary.json", folder);
	char *text = file_read(path, NULL);
	cJSON *summary = cJSON_Parse(text);
	double hits = number(cJSON_GetObjectItem(summary, "prefix_cache"), "hit_tokens");
	cJSON_Delete(summary);
	free(text);
	return hits;
}

Test(trace_command, an_engine_never_finds_more_than_the_ideal, .timeout = 120)
{
	static const char *const shapes[] = {
		"--input 5:60 --output 1:9 --prefix 64:1,128:10 --zipf 1 --rate 20",
		"--input 1:90 --output 1:20 --prefix 30:3,20:3,70:3 --rate 20",
		"--input 1:5 --output 1:9 --prefix 170:2 --rate 5"};
	static const char *const block_sizes[] = {"4", "8", "32"};

	for (size_t i = 0; i < 3; i++) {
		char arguments[512];
		snprintf(arguments, sizeof(arguments),
			"trace make %s --trace-block-size 32 --requests 60 --seed %zu --force "
			"--out "
			"@/trace.jsonl",
			shapes[i], i);
		require_good(arguments);
		cJSON *stat = json_of("trace stat @/trace.jsonl --trace-block-size 32 --json");
		double ideal = number(cJSON_GetObjectItem(stat, "ideal"), "hit_tokens");
		for (size_t b = 0; b < 3; b++) {
			double hits = replayed_hits(block_sizes[b]);
			require(hits <= ideal, "%s, blocks of %s: %.0f hit tokens, ideal %.0f",
				shapes[i], block_sizes[b], hits, ideal);
			require(hits > 0, "%s, blocks of %s: nothing found", shapes[i],
				block_sizes[b]);
		}
		cJSON_Delete(stat);
	}
}

/* ---- help ---- */

Test(trace_command, help_exists_on_every_level)
{
	static const char *const commands[] = {"trace --help", "trace make --help",
		"trace stat --help", "trace cache --help", "trace convert --help"};

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		char *text = quire_output(folder, 0, commands[i]);
		require(strstr(text, "quire trace") != NULL, "%s", text);
		free(text);
	}
	free(quire_output(folder, 2, "trace"));
	free(quire_output(folder, 2, "trace sort"));
}
