#include <criterion/criterion.h>

#include <cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/files.h"
#include "tests/harness/replay_cli.h"
#include "tests/harness/require.h"

/* Names and habits of vLLM, and what of the help is shown. */

#define SAME_RUN(fixture, ours, theirs)                                                            \
	do {                                                                                       \
		char again[PATH_BYTES];                                                            \
		path_in(again, (fixture)->folder, "again");                                        \
		require_good(quire_replay((struct process_order){0}, true,                         \
			LIST((fixture)->trace, "--out", (fixture)->out, "--force", ours)));        \
		require_good(quire_replay((struct process_order){0}, true,                         \
			LIST((fixture)->trace, "--out", again, "--force", theirs)));               \
		require_same_result((fixture)->out, again);                                        \
	} while (0)
#define ARGS(...) __VA_ARGS__

Test(names_cli, of_vllm_make_the_same_run)
{
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	SAME_RUN(&fixture, ARGS("--rate", "3", "--max-requests", "40"),
		ARGS("--request-rate", "3", "--num-prompts=40"));
	SAME_RUN(&fixture, ARGS("--arrivals", "at-once"), ARGS("--request-rate", "inf"));
	SAME_RUN(&fixture, ARGS("--slo-ttft-ms", "2000", "--slo-tpot-ms", "50"),
		ARGS("--goodput", "ttft:2000", "tpot:50ms"));
	SAME_RUN(&fixture, ARGS("--slo-ttft-ms", "2000", "--slo-e2e-ms", "9000"),
		ARGS("--goodput", "ttft:2000", "e2el:9s"));
	SAME_RUN(&fixture, ARGS("--enable-prefix-caching", "off"),
		ARGS("--no-enable-prefix-caching"));
	SAME_RUN(&fixture, ARGS("--model", "qwen3-8b", "--duration", "120"),
		ARGS("--model", "Qwen/Qwen3-8B", "--duration", "2m"));
	replay_fixture_close(&fixture);
}

/* Without gaps every request arrives at time 0. */
Test(names_cli, an_infinite_rate_has_all_arrive_at_once)
{
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	require_good(RUN_SMALL(fixture.trace, "--out", fixture.out, "--rate", "inf"));
	char *requests = read_in(fixture.out, "requests.tsv");
	char header[1024];
	uint64_t rows = 0;
	uint32_t column = 0;
	snprintf(header, sizeof(header), "%.*s", (int)strcspn(requests, "\n"), requests);
	for (char *at = header; strncmp(at, "arrival_ns", 10) != 0; column++) {
		at = strchr(at, '\t') + 1;
	}
	require_equal(sum_column(requests, column, 0, NULL, &rows), 0);
	require_equal(rows, 60);
	free(requests);
	cJSON *summary = read_summary(fixture.out);
	require(strcmp(text_in(summary, "config", "arrivals"), "at-once") == 0, "arrivals");
	require(cJSON_IsNull(cJSON_GetObjectItem(cJSON_GetObjectItem(summary, "config"), "rate")),
		"a rate");
	cJSON_Delete(summary);
	require_refused(
		RUN_SMALL(fixture.trace, "--out", "none", "--rate", "inf", "--burstiness", "2"),
		"--burstiness spreads arrivals");
	require_refused(RUN_SMALL(fixture.trace, "--out", "none", "--swap-space", "4"),
		"unknown option --swap-space; quire has no swap");
	replay_fixture_close(&fixture);
}

static uint32_t option_count(const char *help)
{
	uint32_t count = 0;

	for (const char *at = help; (at = strstr(at, "\n  --")) != NULL; at++) {
		count++;
	}
	return count;
}

Test(names_cli, help_shows_what_matters_and_the_rest_on_demand)
{
	char *help = quire_output(".", 0, "replay --help");
	char *all = quire_output(".", 0, "replay --help all");
	char *word = quire_output(".", 0, "help replay all");

	require_equal(option_count(help), 8);
	require(strstr(help, "--help all shows the other options") != NULL, "%s", help);
	require(option_count(all) > 30, "%u options", option_count(all));
	require(strstr(all, "--request-rate for --rate") != NULL, "%s", all);
	cr_assert_str_eq(all, word);
	free(help);
	free(all);
	free(word);
}

/* A name is a shape without a tokenizer: the line says where one is had. */
Test(names_cli, a_missing_tokenizer_says_how_to_get_one)
{
	char *text = quire_output(".", 2, "generate --model qwen3-0.6b --prompt hello");

	require(strstr(text, "found no qwen3-0.6b/tokenizer.json") != NULL, "%s", text);
	require(strstr(text, "hf download Qwen/Qwen3-0.6B --local-dir DIR") != NULL, "%s", text);
	free(text);
}

/* The most requests that are admitted and not finished, by the times of requests.tsv. */
static uint64_t most_in_flight(const char *folder)
{
	char command[1024];

	snprintf(command, sizeof(command),
		"tail -n +2 '%s/requests.tsv' | awk '$3 == \"finished\" {print $5, 1; print $7, "
		"-1}' | "
		"sort -n -k1,1 -k2,2 | awk '{n += $2; if (n > most) most = n} END {print most}'",
		folder);
	struct process_result result = shell_run(".", "%s", command);
	uint64_t most = (uint64_t)atoll(result.out);
	process_result_free(&result);
	return most;
}

/* Held back by N, a request still counts from the time at which it was to arrive. */
Test(names_cli, arrivals_are_held_back)
{
	struct replay_fixture fixture;
	char held[PATH_BYTES];

	replay_fixture_open(&fixture);
	path_in(held, fixture.folder, "held");
	require_good(RUN(
		fixture.trace, "--trace-block-size", "16", "--rate", "2000", "--out", fixture.out));
	require(most_in_flight(fixture.out) > 5, "the load is too low for this test");
	require_good(RUN(fixture.trace, "--trace-block-size", "16", "--rate", "2000",
		"--max-concurrency", "5", "--out", held));
	require_equal(most_in_flight(held), 5);
	struct process_result same = shell_run(".",
		"cut -f 1,4 '%s/requests.tsv' | sort >'%s/a'; cut -f 1,4 '%s/requests.tsv' | sort "
		"| "
		"cmp - '%s/a'",
		fixture.out, fixture.folder, held, fixture.folder);
	require(same.code == 0, "arrivals moved: %s", same.err);
	process_result_free(&same);
	cJSON *summary = read_summary(held);
	require_equal(number_in(summary, "config", "max_concurrency"), 5);
	require_equal(number_in(summary, "config", "max_num_seqs"), 512);
	cJSON_Delete(summary);

	SAME_RUN(&fixture, ARGS("--concurrency", "3"),
		ARGS("--request-rate", "inf", "--max-concurrency", "3"));
	require_refused(RUN(fixture.trace, "--max-concurrency", "3", "--concurrency", "3"),
		"--max-concurrency holds arrivals back");
	require_refused(RUN(fixture.trace, "--max-concurrency", "3", "--policy", "prefill-first"),
		"--max-concurrency belongs to a policy");
	replay_fixture_close(&fixture);
}
