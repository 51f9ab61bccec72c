#include "bench/gate/suite.h"

#include <criterion/criterion.h>
#include <glob.h>
#include <string.h>

#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* Suites: what is read, and what is refused with the field's name. */

#define CASE "\"name\": \"a\", \"trace\": \"t.jsonl\""

static enum status open_text(
	struct suite *suite, const char *text, char *folder, struct error *error)
{
	char path[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	temporary_write(folder, "suite.json", text, path);
	return suite_open(suite, path, error);
}

Test(suite, a_case_takes_what_it_lacks_from_the_defaults)
{
	char folder[TEMPORARY_PATH_BYTES];
	struct error error = {0};
	struct suite suite;

	enum status status = open_text(&suite,
		"{\"defaults\": {\"recorded\": \"--runner cuda\","
		" \"options\": \"--seed  4 \", \"limits\": \"ttft.p99<=+5%\","
		" \"measure\": [\"instructions\"], \"repeats\": 3},\n"
		" \"cases\": [{" CASE ", \"options\": \"--policy mixed\"},\n"
		" {\"name\": \"b\", \"make\": \"--requests 5\", \"limits\": \"\","
		" \"measure\": [], \"repeats\": 1, \"cost_limits_percent\": {\"instructions\": "
		"2}},\n"
		" {\"name\": \"c\", \"tape\": \"b\"},\n"
		" {\"name\": \"d\", \"trace\": \"/of/all.jsonl\"}]}",
		folder, &error);
	require(status == STATUS_OK, "%s", error.text);
	require_equal(suite.count, 4);
	const struct suite_case *a = &suite.cases[0], *b = &suite.cases[1];
	require_equal(a->option_count, 4);
	cr_assert_str_eq(a->options[1], "4");
	cr_assert_str_eq(a->options[3], "mixed");
	require(strncmp(a->trace, folder, strlen(folder)) == 0, "%s", a->trace);
	require_equal(a->limits.count, 1);
	require_equal(a->measures[COST_INSTRUCTIONS], true);
	require_equal(a->repeats, 3);
	require_equal(a->recorded_count, 2);
	cr_assert_str_eq(a->recorded[1], "cuda");
	require_equal(b->option_count, 2);
	require_equal(b->make_count, 2);
	require_equal(b->limits.count, 0);
	require_equal(b->measures[COST_INSTRUCTIONS], false);
	require(b->cost_limit[COST_INSTRUCTIONS] == 0.02, "%g", b->cost_limit[COST_INSTRUCTIONS]);
	/* Shares, of which bench/gate/README.md gives the percent. */
	require(a->cost_limit[COST_INSTRUCTIONS] == 0.01, "%g", a->cost_limit[COST_INSTRUCTIONS]);
	require(b->cost_limit[COST_CPU_TIME] == 0.03, "%g", b->cost_limit[COST_CPU_TIME]);
	require(b->cost_limit[COST_PEAK_MEMORY] == 0.05, "%g", b->cost_limit[COST_PEAK_MEMORY]);
	require(suite.cases[2].tape == b, "another tape");
	cr_assert_str_eq(suite.cases[3].trace, "/of/all.jsonl");
	suite_close(&suite);
	temporary_remove(folder);
}

Test(suite, what_is_wrong_is_refused_by_its_field)
{
	static const struct {
		const char *text, *expected;
	} rows[] = {
		{"{}", "cases"},
		{"{\"cases\": []}", "field cases: found no case, expected at least one"},
		{"{\"cases\": [3]}", "cases"},
		{"{\"cases\": [{}]}", "cases[0].name"},
		{"{\"cases\": [{\"name\": \"a/b\", \"trace\": \"t\"}]}", "cases[0].name"},
		{"{\"cases\": [{\"name\": \"a\"}]}", "one of trace, make and tape"},
		{"{\"cases\": [{" CASE ", \"make\": \"\"}]}", "one of trace, make and tape"},
		{"{\"cases\": [{\"name\": \"a\", \"tape\": \"b\"}]}", "an earlier case"},
		{"{\"cases\": [{" CASE "}, {\"name\": \"b\", \"tape\": \"a\"}, {\"name\": \"c\", "
		 "\"tape\": \"b\"}]}",
			"which is no tape itself"},
		{"{\"cases\": [{" CASE "}, {" CASE "}]}", "no other case"},
		{"{\"cases\": [{" CASE ", \"measure\": [\"cpu_ms\", \"instruction\"]}]}",
			"field cases[0].measure: found \"instruction\", expected names among "},
		{"{\"cases\": [{" CASE ", \"measure\": [7]}]}",
			"field cases[0].measure: found what is no text, expected names among "},
		{"{\"cases\": [{" CASE ", \"limit\": \"\"}]}", "no such field"},
		{"{\"case\": [{" CASE "}]}", "no such field"},
		{"{\"defaults\": {\"limit\": \"\"}, \"cases\": [{" CASE "}]}",
			"defaults.limit: found \"\", expected no such field"},
		{"{\"defaults\": {\"name\": \"a\"}, \"cases\": [{" CASE "}]}",
			"defaults.name: found \"a\", expected no such field"},
		{"{\"defaults\": {\"trace\": \"t\"}, \"cases\": [{" CASE "}]}",
			"defaults.trace: found \"t\", expected no such field"},
		{"{\"defaults\": 3, \"cases\": [{" CASE "}]}", "defaults: found 3"},
		{"{\"defaults\": {\"repeats\": 0}, \"cases\": [{" CASE "}]}",
			"defaults.repeats: found 0"},
		{"{\"defaults\": {\"timeout_s\": 0}, \"cases\": [{" CASE "}]}",
			"defaults.timeout_s: found 0"},
		{"{\"defaults\": {\"decisions\": \"some\"}, \"cases\": [{" CASE "}]}",
			"defaults.decisions: found \"some\", expected compared or ignored"},
		{"{\"cases\": [{" CASE ", \"limits\": \"hits<=3\"}]}", "no metric 'hits'"},
		{"{\"cases\": [{" CASE ", \"options\": \"--out x\"}]}", "which the gate gives"},
		{"{\"cases\": [{" CASE ", \"options\": \"--steps\"}]}", "which the gate gives"},
		{"{\"cases\": [{" CASE ", \"options\": \"--out=x\"}]}", "which the gate gives"},
		{"{\"cases\": [{" CASE ", \"options\": \"--seed 4 --json=y\"}]}",
			"which the gate gives"},
		{"{\"cases\": [{" CASE ", \"options\": \"--seed 4 --help\"}]}",
			"cases[0].options: found \"--seed 4 --help\", expected no --help, nor"},
		{"{\"cases\": [{\"name\": \"a\", \"make\": \"-h\"}]}",
			"cases[0].make: found \"-h\", expected no --help, nor"},
		{"{\"cases\": [{\"name\": \"a\", \"make\": \"  \"}]}",
			"cases[0].make: found \"  \", expected options of quire trace make"},
		{"{\"cases\": [{" CASE ", \"measure\": [\"time\"]}]}", "names among"},
		{"{\"cases\": [{" CASE ", \"repeats\": 0}]}", "repeats"},
		{"{\"cases\": [{" CASE ", \"cost_limits_percent\": {\"x\": 1}}]}",
			"name of a cost"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char folder[TEMPORARY_PATH_BYTES];
		struct error error = {0};
		struct suite suite;
		enum status status = open_text(&suite, rows[i].text, folder, &error);
		require(status == STATUS_INPUT && strstr(error.text, rows[i].expected) != NULL,
			"%s: found '%s', expected '%s'", rows[i].text, error.text,
			rows[i].expected);
		suite_close(&suite);
		temporary_remove(folder);
	}
}

/* Some are for machines with GPUs, so that no other test reads them. */
Test(suite, those_of_the_project_can_be_read)
{
	glob_t found;

	require_equal(glob(QUIRE_SOURCE_DIR "/bench/suites/*.json", 0, NULL, &found), 0);
	require(found.gl_pathc >= 5, "%zu suites", found.gl_pathc);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		struct error error = {0};
		struct suite suite;
		enum status status = suite_open(&suite, found.gl_pathv[i], &error);
		require(status == STATUS_OK, "%s", error.text);
		suite_close(&suite);
	}
	globfree(&found);
}
