#include "bench/commands/commands.h"
#include "bench/compare/compare.h"

#include <cJSON.h>
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

#define SUMMARY(gpu, makespan, p99, hash)                                                          \
	"{\"schema\": \"quire-result-2\", \"status\": \"complete\",\n"                             \
	" \"config\": {\"gpu\": \"" gpu "\", \"block_size\": 256},\n"                              \
	" \"trace\": {\"name\": \"t.jsonl\", \"xxh64\": \"00\", \"requests\": 10},\n"              \
	" \"time\": {\"makespan_s\": " makespan ", \"steps\": 3},\n"                               \
	" \"latency_ms\": {\"ttft\": {\"p99\": " p99 "}}, \"preemptions\": 0,\n"                   \
	" \"result_hash\": \"" hash "\"}\n"

#define HEADER "step\tstart_ns\telapsed_ns\tdecode_rows\tprefill_tokens\twaiting\n"

struct folders {
	char root[TEMPORARY_PATH_BYTES], a[TEMPORARY_PATH_BYTES + 2], b[TEMPORARY_PATH_BYTES + 2];
	struct error error;
	struct comparison comparison;
};

/* NULL: no such file. */
static enum status compare(struct folders *out, const char *a_summary, const char *a_steps,
	const char *b_summary, const char *b_steps)
{
	memset(out, 0, sizeof(*out));
	temporary_folder(out->root);
	snprintf(out->a, sizeof(out->a), "%s/a", out->root);
	snprintf(out->b, sizeof(out->b), "%s/b", out->root);
	require(mkdir(out->a, 0777) == 0 && mkdir(out->b, 0777) == 0, "mkdir");
	const struct {
		const char *folder, *name, *text;
	} files[] = {{out->a, "summary.json", a_summary}, {out->a, "steps.tsv", a_steps},
		{out->b, "summary.json", b_summary}, {out->b, "steps.tsv", b_steps}};
	for (size_t i = 0; i < 4; i++) {
		if (files[i].text != NULL) {
			temporary_write(files[i].folder, files[i].name, files[i].text, NULL);
		}
	}
	return comparison_open(&out->comparison, out->a, out->b, &out->error);
}

static void close_folders(struct folders *folders)
{
	comparison_close(&folders->comparison);
	temporary_remove(folders->root);
}

static const struct compared_value *value(const struct folders *folders, const char *name)
{
	for (uint32_t i = 0; i < folders->comparison.value_count; i++) {
		if (strcmp(folders->comparison.values[i].name, name) == 0) {
			return &folders->comparison.values[i];
		}
	}
	require(false, "no value %s", name);
}

/* The program's exit code; its output goes nowhere. */
static int exit_code(const struct folders *folders, const char *option)
{
	char command[] = "compare";
	char *a = strdup(folders->a), *b = strdup(folders->b);
	char *more = option == NULL ? NULL : strdup(option);
	char *argv[] = {command, a, b, more, NULL};
	cr_redirect_stdout();
	int code = command_run(&command_compare, more == NULL ? 3 : 4, argv);
	free(a);
	free(b);
	free(more);
	return code;
}

Test(compare, equal_results_are_equal)
{
	const char *summary = SUMMARY("h200", "12.5", "3", "aa");
	const char *steps = HEADER "0\t0\t5\t1\t2\t3\n1\t5\t5\t1\t0\t3\n";
	struct folders folders;

	enum status status = compare(&folders, summary, steps, summary, steps);
	require(status == STATUS_OK, "%s", folders.error.text);
	require_equal(folders.comparison.has_same_decisions, true);
	require_equal(folders.comparison.has_same_values, true);
	require_equal(folders.comparison.has_steps, true);
	require_equal(folders.comparison.steps.step_count, 2);
	require_equal(folders.comparison.steps.other.is_there, false);
	require_equal(folders.comparison.value_count, 12);
	require_equal(exit_code(&folders, NULL), 0);
	close_folders(&folders);
}

Test(compare, other_times_are_no_verdict)
{
	struct folders folders;
	enum status status = compare(&folders, SUMMARY("h200", "10", "null", "aa"),
		HEADER "0\t0\t5\t1\t2\t3\n1\t5\t5\t1\t0\t3\n", SUMMARY("a100", "12.5", "4", "aa"),
		HEADER "0\t0\t5\t1\t2\t9\n1\t5\t6\t1\t0\t3\n");

	require(status == STATUS_OK, "%s", folders.error.text);
	require_equal(folders.comparison.has_same_decisions, true);
	require_equal(folders.comparison.has_same_values, false);
	cr_assert_str_eq(value(&folders, "config.gpu")->b, "a100");
	require_equal(value(&folders, "config.gpu")->is_equal, false);
	require_equal(value(&folders, "config.block_size")->is_equal, true);
	cr_assert(value(&folders, "time.makespan_s")->b_number == 12.5);
	cr_assert_str_eq(value(&folders, "latency_ms.ttft.p99")->a, "-");
	require_equal(value(&folders, "latency_ms.ttft.p99")->is_number, false);
	require_equal(folders.comparison.steps.step_count, 2);
	require_equal(folders.comparison.steps.other.step, 0);
	cr_assert_str_eq(folders.comparison.steps.other.column, "waiting");
	require_equal(exit_code(&folders, NULL), 0);
	close_folders(&folders);
}

/* Two runs of different configurations may have the same values. */
/* Runs of two traces have other values even where all figures agree. */
Test(compare, another_trace_is_another_value)
{
	struct folders folders;
	static const char other[] =
		"{\"schema\": \"quire-result-2\", \"config\": {\"gpu\": \"h200\", "
		"\"block_size\": 256}, \"trace\": {\"name\": \"t.jsonl\", \"xxh64\": \"01\", "
		"\"requests\": 10}, \"status\": \"complete\", \"time\": {\"makespan_s\": 1, "
		"\"steps\": 3}, \"latency_ms\": {\"ttft\": {\"p99\": 2}}, \"preemptions\": 0, "
		"\"result_hash\": \"r\"}";

	enum status status = compare(&folders, SUMMARY("h200", "1", "2", "r"), NULL, other, NULL);
	require(status == STATUS_OK, "%s", folders.error.text);
	cr_expect(!folders.comparison.has_same_trace && !folders.comparison.has_same_values);
	cr_expect(folders.comparison.has_same_decisions);
	close_folders(&folders);
	status = compare(&folders, SUMMARY("h200", "1", "2", "r"), NULL,
		SUMMARY("h200", "1", "2", "r"), NULL);
	require(status == STATUS_OK, "%s", folders.error.text);
	cr_expect(folders.comparison.has_same_trace && folders.comparison.has_same_values);
	close_folders(&folders);
}

Test(compare, the_configuration_is_told_apart_from_the_values)
{
	struct folders folders;
	enum status status = compare(&folders, SUMMARY("h200", "10", "1", "aa"), NULL,
		SUMMARY("a100", "10", "1", "aa"), NULL);

	require(status == STATUS_OK, "%s", folders.error.text);
	require_equal(value(&folders, "config.gpu")->is_config, true);
	require_equal(value(&folders, "config.gpu")->is_equal, false);
	require_equal(value(&folders, "time.makespan_s")->is_config, false);
	require_equal(folders.comparison.has_same_values, true);
	close_folders(&folders);
}

/* Values are compared as they are, and not by the digits that are shown. */
Test(compare, values_that_look_equal_may_differ)
{
	struct folders folders;
	enum status status = compare(&folders,
		"{\"schema\": \"quire-result-2\", \"x\": 0.1234567890123451, \"list\": [1, "
		"\"a\"], "
		"\"is\": true, \"word\": \"1\", \"result_hash\": \"aa\"}",
		NULL,
		"{\"schema\": \"quire-result-2\", \"x\": 0.1234567890123454, \"list\": [1, "
		"\"b\"], "
		"\"is\": false, \"word\": 1, \"result_hash\": \"aa\"}",
		NULL);

	require(status == STATUS_OK, "%s", folders.error.text);
	cr_expect_str_eq(value(&folders, "x")->a, value(&folders, "x")->b);
	require_equal(value(&folders, "x")->is_equal, false);
	cr_expect_str_eq(value(&folders, "list")->a, "[1,\"a\"]");
	cr_expect_str_eq(value(&folders, "list")->b, "[1,\"b\"]");
	cr_expect_str_eq(value(&folders, "is")->a, "true");
	cr_expect_str_eq(value(&folders, "is")->b, "false");
	require_equal(value(&folders, "word")->is_equal, false);
	require_equal(value(&folders, "word")->is_number, false);
	require_equal(folders.comparison.has_same_values, false);
	close_folders(&folders);
}

Test(compare, the_first_decision_that_differs_is_named)
{
	struct folders folders;
	enum status status = compare(&folders, SUMMARY("h200", "10", "1", "aa"),
		HEADER "0\t0\t5\t1\t2\t3\n1\t5\t5\t1\t7\t3\n2\t9\t1\t1\t1\t1\n",
		SUMMARY("h200", "10", "1", "bb"),
		HEADER "0\t0\t6\t1\t2\t3\n1\t5\t5\t1\t8\t3\n2\t9\t1\t1\t2\t1\n");

	require(status == STATUS_OK, "%s", folders.error.text);
	require_equal(folders.comparison.has_same_hash, false);
	require_equal(folders.comparison.has_same_decisions, false);
	require_equal(folders.comparison.steps.decision.step, 1);
	cr_assert_str_eq(folders.comparison.steps.decision.column, "prefill_tokens");
	cr_assert_str_eq(folders.comparison.steps.decision.a, "7");
	cr_assert_str_eq(folders.comparison.steps.decision.b, "8");
	cr_assert_str_eq(folders.comparison.steps.other.column, "elapsed_ns");
	require_equal(exit_code(&folders, "--same-decisions"), 1);
	close_folders(&folders);
}

/* In a fleet a step of another replica is another decision, though it does the same. */
Test(compare, the_replica_of_a_step_is_a_decision)
{
	static const char columns[] = "step\tdecode_rows\treplica\n";
	const char *summary = SUMMARY("h200", "10", "1", "aa");
	char a[64], b[64];
	struct folders folders;

	for (int replica = 0; replica < 3; replica++) {
		snprintf(a, sizeof(a), "%s0\t1\t0\n0\t1\t1\n", columns);
		snprintf(b, sizeof(b), "%s0\t1\t0\n0\t1\t%d\n", columns, replica);
		enum status status = compare(&folders, summary, a, summary, b);
		require(status == STATUS_OK, "%s", folders.error.text);
		const struct step_comparison *steps = &folders.comparison.steps;
		require_equal(folders.comparison.has_same_decisions, replica == 1);
		require_equal(steps->decision.is_there, replica != 1);
		cr_assert_str_eq(steps->decision.column, replica == 1 ? "" : "replica");
		require_equal(steps->other.is_there, false);
		require_equal(exit_code(&folders, "--same-decisions"), replica != 1);
		close_folders(&folders);
	}
}

Test(compare, counts_decide_even_where_hashes_agree)
{
	const char *summary = SUMMARY("h200", "10", "1", "aa");
	struct folders folders;
	enum status status = compare(&folders, summary, HEADER "0\t0\t5\t1\t2\t3\n", summary,
		HEADER "0\t0\t5\t1\t2\t3\n1\t5\t5\t1\t8\t3\n");

	require(status == STATUS_OK, "%s", folders.error.text);
	require_equal(folders.comparison.has_same_hash, true);
	require_equal(folders.comparison.steps.b_is_longer, true);
	require_equal(folders.comparison.has_same_decisions, false);
	close_folders(&folders);
}

Test(compare, free_blocks_are_decided_only_in_pools_of_one_size)
{
	const char *summary[2] = {
		"{\"schema\": \"quire-result-2\", \"config\": {\"kv_blocks\": 8}, "
		"\"result_hash\": \"aa\"}",
		"{\"schema\": \"quire-result-2\", \"config\": {\"kv_blocks\": 9}, "
		"\"result_hash\": \"aa\"}"};
	const char *a_steps = "step\tused_blocks\tfree_blocks\tcached_free_blocks\n0\t3\t5\t1\n";
	const char *b_steps = "step\tused_blocks\tfree_blocks\tcached_free_blocks\n0\t3\t6\t2\n";
	struct folders folders;

	enum status status = compare(&folders, summary[0], a_steps, summary[1], b_steps);
	require(status == STATUS_OK, "%s", folders.error.text);
	require_equal(folders.comparison.has_same_decisions, true);
	cr_assert_str_eq(folders.comparison.steps.other.column, "free_blocks");
	close_folders(&folders);
	status = compare(&folders, summary[0], a_steps, summary[0], b_steps);
	require(status == STATUS_OK, "%s", folders.error.text);
	require_equal(folders.comparison.has_same_decisions, false);
	cr_assert_str_eq(folders.comparison.steps.decision.column, "free_blocks");
	close_folders(&folders);
}

/* They follow from the rows that the other counts tell apart. */
Test(compare, contexts_and_half_chains_of_prompts_are_no_decisions)
{
	const char *summary = "{\"schema\": \"quire-result-2\", \"config\": {\"kv_blocks\": 8}, "
			      "\"result_hash\": \"aa\"}";
	const char *a_steps = "step\tprefill_rows\tprefill_context_tokens\t"
			      "prefill_chain_keys\tprefill_half_chain_keys\n0\t3\t5\t1\t1\n";
	const char *other_steps = "step\tprefill_rows\tprefill_context_tokens\t"
				  "prefill_chain_keys\tprefill_half_chain_keys\n0\t3\t6\t1\t2\n";
	const char *chain_steps = "step\tprefill_rows\tprefill_context_tokens\t"
				  "prefill_chain_keys\tprefill_half_chain_keys\n0\t3\t5\t2\t1\n";
	struct folders folders;

	enum status status = compare(&folders, summary, a_steps, summary, other_steps);
	require(status == STATUS_OK, "%s", folders.error.text);
	require_equal(folders.comparison.has_same_decisions, true);
	cr_assert_str_eq(folders.comparison.steps.other.column, "prefill_context_tokens");
	close_folders(&folders);
	status = compare(&folders, summary, a_steps, summary, chain_steps);
	require(status == STATUS_OK, "%s", folders.error.text);
	require_equal(folders.comparison.has_same_decisions, false);
	cr_assert_str_eq(folders.comparison.steps.decision.column, "prefill_chain_keys");
	close_folders(&folders);
}

/* Nor are the counts of shared blocks, which follow from the blocks, and which older engines
   counted otherwise; their use of blocks is one. */
Test(compare, counts_of_shared_blocks_are_no_decisions)
{
	static const char *const columns[] = {
		"shared_tokens", "reread_tokens", "repeat_tokens", "prefill_shared_tokens"};
	const char *summary = "{\"schema\": \"quire-result-2\", \"config\": {\"kv_blocks\": 8}, "
			      "\"result_hash\": \"aa\"}";

	for (uint32_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
		for (uint32_t is_decision = 0; is_decision < 2; is_decision++) {
			struct folders folders;
			char a[128], b[128];
			snprintf(a, sizeof(a), "step\tused_blocks\t%s\n0\t3\t16\n", columns[i]);
			snprintf(b, sizeof(b), "step\tused_blocks\t%s\n0\t%u\t32\n", columns[i],
				3 + is_decision);
			enum status status = compare(&folders, summary, a, summary, b);
			require(status == STATUS_OK, "%s", folders.error.text);
			require_equal(folders.comparison.has_same_decisions, !is_decision);
			cr_assert_str_eq(is_decision ? folders.comparison.steps.decision.column
						     : folders.comparison.steps.other.column,
				is_decision ? "used_blocks" : columns[i]);
			close_folders(&folders);
		}
	}
}

Test(compare, hashes_alone_decide_without_steps)
{
	struct folders folders;
	enum status status = compare(&folders, SUMMARY("h200", "10", "1", "aa"), NULL,
		SUMMARY("h200", "10", "1", "bb"), HEADER "0\t0\t5\t1\t2\t3\n");

	require(status == STATUS_OK, "%s", folders.error.text);
	require_equal(folders.comparison.has_steps, false);
	require_equal(folders.comparison.has_same_values, true);
	require_equal(exit_code(&folders, "--same-decisions"), 1);
	close_folders(&folders);
}

Test(compare, values_of_one_side_only_are_listed)
{
	struct folders folders;
	enum status status = compare(&folders,
		"{\"schema\": \"quire-result-2\", \"old\": 1, \"result_hash\": \"aa\"}", NULL,
		"{\"schema\": \"quire-result-2\", \"result_hash\": \"aa\", \"new\": {\"x\": 2}}",
		NULL);

	require(status == STATUS_OK, "%s", folders.error.text);
	require_equal(folders.comparison.value_count, 4);
	cr_assert_str_eq(value(&folders, "old")->b, "-");
	cr_assert_str_eq(value(&folders, "new.x")->b, "2");
	require_equal(value(&folders, "new.x")->is_equal, false);
	require_equal(exit_code(&folders, NULL), 0);
	close_folders(&folders);
}

/* A summary writes null for what a run has not, and an older one lacks the field: both say so. */
Test(compare, null_is_equal_to_nothing_and_to_no_number)
{
	static const char *const values[] = {"", ", \"x\": null", ", \"x\": 0"};
	enum { COUNT = sizeof(values) / sizeof(values[0]) };
	char summary[2][128];
	struct folders folders;

	for (uint32_t i = 0; i < COUNT * COUNT; i++) {
		uint32_t side[2] = {i / COUNT, i % COUNT};
		for (uint32_t k = 0; k < 2; k++) {
			snprintf(summary[k], sizeof(summary[k]),
				"{\"schema\": \"quire-result-2\", \"result_hash\": \"aa\"%s}",
				values[side[k]]);
		}
		enum status status = compare(&folders, summary[0], NULL, summary[1], NULL);
		require(status == STATUS_OK, "%s", folders.error.text);
		bool is_equal = side[0] == side[1] || (side[0] < 2 && side[1] < 2);
		require(folders.comparison.has_same_values == is_equal, "%s and %s", summary[0],
			summary[1]);
		close_folders(&folders);
	}
}

Test(compare, json_says_the_same)
{
	struct folders folders;
	enum status status =
		compare(&folders, SUMMARY("h200", "10", "0", "aa"), HEADER "0\t0\t5\t1\t2\t3\n",
			SUMMARY("h200", "12.5", "1", "bb"), HEADER "0\t0\t5\t4\t2\t3\n");
	require(status == STATUS_OK, "%s", folders.error.text);

	FILE *file = tmpfile();
	char text[16384];
	comparison_print_json(&folders.comparison, file);
	rewind(file);
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	fclose(file);
	cJSON *root = cJSON_Parse(text);
	require(root != NULL, "no JSON: %s", text);
	cr_assert(cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(root, "same_decisions")));
	const cJSON *steps = cJSON_GetObjectItemCaseSensitive(root, "steps");
	const cJSON *first = cJSON_GetObjectItemCaseSensitive(steps, "first_decision");
	cr_assert_str_eq(
		cJSON_GetObjectItemCaseSensitive(first, "column")->valuestring, "decode_rows");
	const cJSON *item = NULL;
	cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(root, "values"))
	{
		const char *name = cJSON_GetObjectItemCaseSensitive(item, "name")->valuestring;
		const cJSON *relative = cJSON_GetObjectItemCaseSensitive(item, "relative");
		if (strcmp(name, "time.makespan_s") == 0) {
			cr_assert(fabs(relative->valuedouble - 0.25) < 1e-12);
		} else if (strcmp(name, "latency_ms.ttft.p99") == 0) {
			cr_assert(cJSON_IsNull(relative), "a share of nothing");
		}
	}
	cJSON_Delete(root);
	require_equal(exit_code(&folders, "--json"), 0);
	close_folders(&folders);
}

Test(compare, a_folder_without_a_result_is_refused)
{
	static const struct {
		const char *summary, *steps, *part;
	} cases[] = {
		{NULL, NULL, "b: is no result folder: it has no summary.json"},
		{"{", NULL, "b/summary.json:1"},
		{"[]", NULL, "expected an object"},
		{"{\"schema\": \"other\"}", NULL, "field schema: found \"other\""},
		{"{\"schema\": \"quire-result-2\"}", NULL, "field result_hash: found nothing"},
		{SUMMARY("h200", "1", "1", "aa"), HEADER "0\t1\n",
			"b/steps.tsv:2: found 2 columns, expected the header's 6"},
		{SUMMARY("h200", "1", "1", "aa"), "start_ns\n", "no column 'step'"},
		{SUMMARY("h200", "1", "1", "aa"), HEADER "0\t0\t5\tbanana\t2\t3\n",
			"b/steps.tsv:2: column decode_rows: found 'banana', expected an integer"},
		{SUMMARY("h200", "1", "1", "aa"), HEADER "0\t0\t-5\t1\t2\t3\n",
			"b/steps.tsv:2: column elapsed_ns: found '-5', expected an integer"},
		{SUMMARY("h200", "1", "-5", "aa"), NULL,
			"b/summary.json: field latency_ms.ttft.p99: found -5, expected a number >= "
			"0"},
		{SUMMARY("h200", "\"1\"", "1", "aa"), NULL,
			"b/summary.json: field time.makespan_s: found \"1\", expected a number"},
		{"{\"schema\": \"quire-result-2\", \"result_hash\": \"aa\", \"preemptions\": -7}",
			NULL, "b/summary.json: field preemptions: found -7"},
		{SUMMARY("h200", "1", "1", "aa"), "", "b/steps.tsv:1: found an empty file"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct folders folders;
		enum status status = compare(&folders, SUMMARY("h200", "1", "1", "aa"),
			HEADER "0\t0\t5\t1\t2\t3\n", cases[i].summary, cases[i].steps);
		require(status == STATUS_INPUT || status == STATUS_FILE, "case %zu", i);
		require(strstr(folders.error.text, cases[i].part) != NULL, "'%s' does not say '%s'",
			folders.error.text, cases[i].part);
		close_folders(&folders);
	}
}

/* What a table has in the place of a word is shown without what a terminal obeys. */
Test(compare, cells_that_differ_are_shown_printable)
{
	static const char *const summary = SUMMARY("h200", "1.0", "2.0", "aa");
	static const char plain[] = "step\twaiting\tmode\n0\t3\tgraph\n";
	static const char hostile[] = "step\twaiting\tmode\n0\t3\t\x1b[31m7\n";
	struct folders folders;

	for (uint32_t i = 0; i < 2; i++) {
		require_equal(compare(&folders, summary, i == 0 ? plain : hostile, summary,
				      i == 0 ? hostile : plain),
			STATUS_OK);
		const struct step_comparison *steps = &folders.comparison.steps;
		cr_assert_str_eq(steps->other.column, "mode");
		cr_assert_str_eq(i == 0 ? steps->other.a : steps->other.b, "graph");
		const char *shown = i == 0 ? steps->other.b : steps->other.a;
		require(strstr(shown, "[31m7") != NULL && strchr(shown, '\x1b') == NULL, "'%s'",
			shown);
		close_folders(&folders);
	}
}

/* Columns are matched by their names, and A and B are told apart. */
Test(compare, steps_are_compared_by_name_in_both_directions)
{
	static const char *const summary = SUMMARY("h200", "1.0", "2.0", "aa");
	static const char few[] = "step\twaiting\tdecode_rows\n0\t3\t1\n1\t3\t1\n";
	static const char many[] = HEADER "0\t0\t5\t1\t2\t3\n1\t5\t5\t7\t0\t3\n";
	static const char longer[] = "step\twaiting\tdecode_rows\n0\t3\t1\n1\t3\t1\n2\t3\t1\n";
	struct folders folders;

	for (uint32_t i = 0; i < 2; i++) {
		require_equal(compare(&folders, summary, i == 0 ? few : many, summary,
				      i == 0 ? many : few),
			STATUS_OK);
		const struct step_comparison *steps = &folders.comparison.steps;
		cr_assert_str_eq(steps->decision.column, "decode_rows");
		cr_assert_str_eq(steps->decision.a, i == 0 ? "1" : "7");
		cr_assert_str_eq(steps->decision.b, i == 0 ? "7" : "1");
		require_equal(steps->decision.step, 1);
		close_folders(&folders);
		require_equal(compare(&folders, summary, i == 0 ? few : longer, summary,
				      i == 0 ? longer : few),
			STATUS_OK);
		require_equal(folders.comparison.steps.step_count, 2);
		require_equal(folders.comparison.steps.a_is_longer, i == 1);
		require_equal(folders.comparison.steps.b_is_longer, i == 0);
		close_folders(&folders);
	}
}

/* Without limits it is shown, and said above the figures. */
Test(compare, a_run_that_was_cut_short_is_named_above_the_figures)
{
	static const char part[] = "{\"schema\": \"quire-result-2\", \"status\": \"interrupted\", "
				   "\"result_hash\": \"aa\"}";
	struct folders folders;
	char *text = NULL;
	size_t size = 0;

	enum status status = compare(&folders, SUMMARY("h200", "1", "2", "aa"), NULL, part, NULL);
	require(status == STATUS_OK, "%s", folders.error.text);
	FILE *file = open_memstream(&text, &size);
	comparison_print(&folders.comparison, file);
	fclose(file);
	require(strstr(text, "the run of B is interrupted: its figures are of what was done") !=
			NULL,
		"%s", text);
	require(strstr(text, "the run of A") == NULL, "%s", text);
	free(text);
	require_equal(exit_code(&folders, NULL), 0);
	close_folders(&folders);
}
