#include <criterion/criterion.h>
#include <cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/harness/files.h"
#include "tests/harness/process.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* `quire gate` as its users run it: verdicts, exit codes, files. @ is the test's folder. */

#define MAKE "\"make\": \"--requests 30 --input 40:400 --output 5:20 --rate 20 --seed 3\""
#define OPTIONS "--block-size 16 --kv-blocks 60 --max-num-seqs 8 --max-model-len 512"
#define SUITE(cases) "{\"defaults\": {\"limits\": \"ttft.p99<=+5%\"}, \"cases\": [" cases "]}"
#define SMALL(name, more) "{\"name\": \"" name "\", " MAKE ", \"options\": \"" OPTIONS more "\"}"

static void write_suite(const char *folder, const char *text)
{
	temporary_write(folder, "s.json", text, NULL);
}

/* Runs the gate and demands an exit code, and all of the words in what it prints. */
static void require_gate(const char *folder, const char *more, int code, const char *const *words)
{
	char arguments[512];

	snprintf(arguments, sizeof(arguments), "gate @/s.json --out @/results %s", more);
	char *printed = quire_output(folder, code, arguments);
	for (uint32_t i = 0; words[i] != NULL; i++) {
		require(strstr(printed, words[i]) != NULL, "no '%s' in\n%s", words[i], printed);
	}
	free(printed);
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void open_folder(char *folder)
{
	temporary_folder(folder);
	write_suite(folder, SUITE(SMALL("one", "") ", " SMALL("two", " --seed 7")));
	require_gate(folder, "--update", 0, WORDS("2 NEW", "s-baseline has these runs: commit it"));
}

/* Changes files of a test. */
static void shell(const char *folder, const char *command)
{
	struct process_result result = shell_run(folder, "%s", command);

	require(result.code == 0, "%s: %s%s", command, result.out, result.err);
	process_result_free(&result);
}

static void close_folder(const char *folder)
{
	struct process_result result = shell_run(NULL, "rm -rf '%s'", folder);

	process_result_free(&result);
}

Test(gate, a_program_passes_its_own_baseline)
{
	char folder[TEMPORARY_PATH_BYTES];

	open_folder(folder);
	require_gate(folder, "", 0, WORDS("2 PASS"));
	require_gate(folder, "--jobs 1", 0, WORDS("2 PASS"));
	require_gate(folder, "--against '" QUIRE_EXECUTABLE "'", 0, WORDS("2 PASS"));
	require_gate(folder, "--only two", 0, WORDS("1 PASS"));
	require_gate(folder, "--only three", 2, WORDS("--only: found 'three'"));
	close_folder(folder);
}

Test(gate, cases_come_and_go)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES + 32];

	open_folder(folder);
	write_suite(folder, SUITE(SMALL("one", "") ", " SMALL("three", "")));
	require_gate(folder, "", 1,
		WORDS("three                    NEW", "two                      MISSING",
			"1 PASS, 1 NEW, 1 MISSING"));
	/* several in the order of their names */
	shell(folder, "for name in m k z a; do cp s-baseline/two.json s-baseline/$name.json; done");
	struct process_result result = shell_run(folder, QUIRE_EXECUTABLE " gate s.json");
	const char *at = result.out;
	for (const char *name = "akmtz"; *name != '\0'; name++) {
		char line[] = {'\n', *name, *name == 't' ? 'w' : ' ', '\0'};
		const char *next = strstr(at, line);
		require(next != NULL, "%c is not behind the ones before: %s", *name, result.out);
		at = next + 1;
	}
	process_result_free(&result);
	shell(folder, "cd s-baseline && rm m.json k.json z.json a.json");
	/* nor is a file a case that no gate wrote */
	shell(folder, "cp s.json s-baseline/other.json; echo mine >s-baseline/notes.json");
	require_gate(folder, "--update", 0, WORDS("1 MISSING"));
	snprintf(path, sizeof(path), "%s/s-baseline/two.json", folder);
	require(!file_exists(path), "%s is left", path);
	shell(folder, "cmp s.json s-baseline/other.json && grep -q mine s-baseline/notes.json");
	require_gate(folder, "", 0, WORDS("2 PASS"));
	close_folder(folder);
}

Test(gate, what_is_another_run_is_invalid)
{
	char folder[TEMPORARY_PATH_BYTES];

	open_folder(folder);
	write_suite(folder, SUITE("{\"name\": \"one\", \"make\": \"--requests 29 --input 40:400 "
				  "--output 5:20 --rate 20 --seed 3\", \"options\": \"" OPTIONS
				  "\"}, " SMALL("two", " --seed 7 --gpu h100-datasheet")));
	require_gate(folder, "", 2,
		WORDS("another trace: its xxh64 is", "gpu is \"h100-datasheet\"", "2 INVALID",
			"quire gate: 2 of 2 cases cannot be compared"));
	/* another engine, the same trace */
	write_suite(folder, SUITE(SMALL("one", " --policy prefill-first --max-num-batched-tokens "
					       "512") ", " SMALL("two", " --seed 7")));
	require_gate(folder, "", 2,
		WORDS("policy is \"prefill-first\"", ", not judged", "1 PASS, 1 INVALID",
			"(quire compare shows what a setting changes, --against PROGRAM judges a "
			"program with the present settings, --update makes the present case the "
			"baseline)"));
	close_folder(folder);
}

Test(gate, a_profile_with_other_content_is_invalid)
{
	char folder[TEMPORARY_PATH_BYTES], cases[1024];

	temporary_folder(folder);
	snprintf(cases, sizeof(cases),
		"{\"cases\": [{\"name\": \"one\", " MAKE ", \"options\": \"" OPTIONS
		" --gpu %s/gpu.json\"}]}",
		folder);
	write_suite(folder, cases);
	shell(folder, "cp \"" QUIRE_SOURCE_DIR "/sim/profiles/h200-datasheet.json\" gpu.json");
	require_gate(folder, "--update", 0, WORDS("1 NEW"));
	/* Blanks are no content. */
	shell(folder, "sed -i 's/^/  /' gpu.json");
	require_gate(folder, "", 0, WORDS("1 PASS"));
	shell(folder, "sed -i 's/\"description\": \"/&Other words. /' gpu.json");
	require_gate(folder, "", 2,
		WORDS("another content of the profile gpu", "gpu.json", "its xxh64 is",
			"the baseline's is"));
	close_folder(folder);
}

Test(gate, a_run_that_takes_too_long_is_ended)
{
	char folder[TEMPORARY_PATH_BYTES];

	open_folder(folder);
	write_suite(folder,
		SUITE("{\"name\": \"one\", \"timeout_s\": 1, \"make\": \"--requests 30 --input "
		      "40:400 --output 5:20 --rate 20 --seed 3\", \"options\": \"" OPTIONS
		      " --loop shared --max-requests 100000000\"}, " SMALL("two", " --seed 7")));
	require_gate(
		folder, "", 1, WORDS("replay took longer than timeout_s 1", "1 PASS, 1 FAILED"));
	close_folder(folder);
}

Test(gate, a_run_that_fails_is_named_with_its_reason)
{
	char folder[TEMPORARY_PATH_BYTES];

	open_folder(folder);
	write_suite(folder, SUITE(SMALL("one", " --policy none") ", " SMALL("two", " --seed 7")));
	require_gate(folder, "", 1,
		WORDS("one                      FAILED",
			"replay ended with exit code 2: quire replay: --policy",
			"1 PASS, 1 FAILED"));
	require_gate(folder, "--update", 1,
		WORDS("1 FAILED", "these runs, but none that failed: commit it"));
	write_suite(folder, SUITE(SMALL("one", "") ", " SMALL("two", " --seed 7")));
	require_gate(folder, "", 0, WORDS("2 PASS"));
	close_folder(folder);
}

Test(gate, a_program_against_itself_is_never_flagged)
{
	char folder[TEMPORARY_PATH_BYTES];

	open_folder(folder);
	require_gate(folder, "--null-runs 3", 0,
		WORDS("3 runs of a program against itself: 0 of 6 cases flagged"));
	/* the other side is run, and not read from a baseline */
	shell(folder, "mv s-baseline kept");
	require_gate(folder, "--null-runs 1", 0,
		WORDS("1 run of a program against itself: 0 of 2 cases flagged"));
	shell(folder, "mv kept s-baseline");
	require_gate(folder, "--null-runs 3 --update", 2, WORDS("give one of them"));
	require_gate(folder, "--null-runs 3 --against /bin/true", 2, WORDS("give one of them"));
	require_gate(folder, "--update --against /bin/true", 2, WORDS("give one of them"));
	close_folder(folder);
}

/* A mistyped folder would make every case NEW, and every gate green. */
Test(gate, a_baseline_that_is_not_there_is_an_error)
{
	char folder[TEMPORARY_PATH_BYTES];

	open_folder(folder);
	shell(folder, "rm -r results");
	require_gate(folder, "--baseline @/s-baselin", 2,
		WORDS("/s-baselin is not there", "--update makes it"));
	require_gate(folder, "--baseline @/s.json", 2, WORDS("/s.json is no folder"));
	shell(folder, "mv s-baseline kept");
	require_gate(folder, "", 2, WORDS("/s-baseline is not there", "--update makes it"));
	shell(folder, "test ! -e results"); /* nothing was run */
	require_gate(folder, "--null-runs 1", 0, WORDS("0 of 2 cases flagged"));
	require_gate(folder, "--against '" QUIRE_EXECUTABLE "'", 0, WORDS("2 PASS"));
	shell(folder, "mkdir s-baseline && cp kept/one.json s-baseline");
	require_gate(folder, "", 0, WORDS("1 PASS, 1 NEW"));
	require_gate(folder, "--update --baseline @/other", 0, WORDS("2 NEW"));
	require_gate(folder, "--baseline @/other", 0, WORDS("2 PASS"));
	close_folder(folder);
}

/* An empty folder would make every case NEW. */
Test(gate, an_update_that_failed_leaves_no_baseline)
{
	char folder[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	write_suite(folder, "{\"cases\": [{\"name\": \"one\", \"trace\": \"none.jsonl\"}]}");
	require_gate(folder, "--update", 1,
		WORDS("1 FAILED", "no case ran, so", "/s-baseline is as it was"));
	require_gate(folder, "", 2, WORDS("/s-baseline is not there", "--update makes it"));
	shell(folder, "mkdir s-baseline && touch s-baseline/notes");
	require_gate(folder, "--update", 1, WORDS("1 FAILED"));
	require_gate(folder, "", 2, WORDS("/s-baseline has no case", "--update makes it"));
	shell(folder, "rm s-baseline/notes && rmdir s-baseline");
	write_suite(folder, SUITE(SMALL("one", "")));
	require_gate(folder, "--update", 0, WORDS("1 NEW"));
	require_gate(folder, "", 0, WORDS("1 PASS"));
	close_folder(folder);
}

/* Steps that the baseline keeps name the first one that differs. */
Test(gate, the_first_step_is_named_where_steps_are_kept)
{
	char folder[TEMPORARY_PATH_BYTES];

	open_folder(folder);
	require_gate(folder, "--update --keep-steps", 0, WORDS("2 PASS"));
	require_gate(folder, "", 0, WORDS("2 PASS"));
	/* the kept steps and the trail of the baseline are those of another run */
	shell(folder, "awk -F'\t' -v OFS='\t' 'NR == 21 {$7++} 1' "
		      "s-baseline/one.steps.tsv >x && mv x s-baseline/one.steps.tsv && "
		      "sed -i 's/\"decisions\":.*\"[0-9a-f]*\",/\"decisions\": "
		      "\"0000000000000000\",/' s-baseline/one.json");
	require_gate(folder, "", 1,
		WORDS("one                      BEHAVIOR_CHANGED", "step 19: decode_rows was"));
	require_gate(folder, "--update", 0, WORDS("1 PASS"));
	require_gate(folder, "", 0, WORDS("2 PASS"));
	close_folder(folder);
}

/* Steps that are left of an older baseline would be compared with: that they stay is an error. */
Test(gate, an_update_that_leaves_older_steps_fails)
{
	char folder[TEMPORARY_PATH_BYTES];

	open_folder(folder);
	require_gate(folder, "--update --keep-steps", 0, WORDS("2 PASS"));
	shell(folder, "test -f s-baseline/one.steps.tsv");
	require_gate(folder, "--update", 0, WORDS("2 PASS"));
	shell(folder, "test ! -e s-baseline/one.steps.tsv && test ! -e s-baseline/two.steps.tsv");
	shell(folder, "mkdir -p s-baseline/one.steps.tsv/x");
	require_gate(folder, "--update", 2, WORDS("s-baseline/one.steps.tsv: cannot be removed"));
	shell(folder, "rm -r s-baseline/one.steps.tsv");
	require_gate(folder, "--update", 0, WORDS("2 PASS"));
	close_folder(folder);
}

/* A case whose decisions nobody compares has no steps to keep. */
Test(gate, steps_are_kept_of_cases_that_compare_them)
{
	char folder[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	write_suite(
		folder, SUITE(SMALL("one", "\", \"decisions\": \"ignored") ", " SMALL("two", "")));
	require_gate(folder, "--update --keep-steps", 0, WORDS("2 NEW"));
	shell(folder, "test ! -e s-baseline/one.steps.tsv && test -s s-baseline/two.steps.tsv");
	require_gate(folder, "--update --keep-steps", 0, WORDS("2 PASS"));
	close_folder(folder);
}

/* One case says nothing of the others: those that the suite has lost are not missing, and an update
   leaves their files. Nor are they where no baseline is read. */
Test(gate, one_case_leaves_the_others)
{
	char folder[TEMPORARY_PATH_BYTES];
	static const char all[] =
		SUITE(SMALL("one", "") ", " SMALL("two", "") ", " SMALL("three", ""));

	temporary_folder(folder);
	write_suite(folder, all);
	require_gate(folder, "--update --keep-steps", 0, WORDS("3 NEW;"));
	shell(folder, "cp -r s-baseline kept && sed -i -E 's/\\{.name.: .two.[^}]*\\}, //' s.json "
		      "&& ! grep -q two s.json");
	require_gate(folder, "--only one", 0, WORDS("\n1 PASS;"));
	require_gate(folder, "--against '" QUIRE_EXECUTABLE "'", 0, WORDS("\n2 PASS;"));
	require_gate(folder, "--null-runs 1", 0, WORDS("0 of 2 cases flagged"));
	require_gate(folder, "--update --only three", 0, WORDS("\n1 PASS;"));
	shell(folder, "ls kept >before; ls s-baseline | cmp - before; "
		      "cmp kept/two.json s-baseline/two.json && "
		      "cmp kept/two.steps.tsv s-baseline/two.steps.tsv && "
		      "cmp kept/one.json s-baseline/one.json");
	require_gate(folder, "", 1, WORDS("two                      MISSING", "2 PASS, 1 MISSING"));
	require_gate(folder, "--update", 0, WORDS("2 PASS, 1 MISSING"));
	shell(folder, "test ! -e s-baseline/two.json && test ! -e s-baseline/two.steps.tsv");
	require_gate(folder, "--only three", 0, WORDS("\n1 PASS;"));
	close_folder(folder);
}

#define REAL                                                                                       \
	"{\"cases\": [{\"name\": \"real\", \"make\": \"--requests 8 --input 20 --output 5 --seed " \
	"1\","                                                                                     \
	" \"options\": \"--runner reference --model " QUIRE_SOURCE_DIR                             \
	"/tests/fixtures/models/group3 --block-size 8 --kv-blocks 40 --max-num-seqs 8"             \
	" --max-num-batched-tokens 48\", \"repeats\": 4, \"limits\": \"makespan_s<=+900%\"}]}"

/* A runner that measures time: its runs are repeated, beside the other program's, and a limit is
   broken only where noise cannot explain it. */
Test(gate, measured_times_are_judged_by_intervals)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES + 64];

	temporary_folder(folder);
	write_suite(folder, REAL);
	require_gate(folder, "--update", 0, WORDS("1 NEW"));
	shell(folder, "grep -q requests_ns s-baseline/real.json"); /* without a warmup too */
	require_gate(folder, "--against '" QUIRE_EXECUTABLE "'", 0, WORDS("1 PASS"));
	snprintf(path, sizeof(path), "%s/results/real.base.4/summary.json", folder);
	require(file_exists(path), "no fourth run of the base");
	require_gate(folder, "", 0, WORDS("1 PASS"));
	/* the baseline's runs took a thousandth of the time */
	shell(folder, "sed -i -E 's/(\"makespan_s\":[^0-9]*)([0-9.e-]+)/\\10.000\\2/; "
		      "s/0\\.0000\\./0.0000/' s-baseline/real.json");
	require_gate(folder, "", 1,
		WORDS("1 REGRESSED", "makespan_s", "(99 % interval +", "would have been flagged"));
	close_folder(folder);
}

#define RECORDED(more, limits)                                                                     \
	"{\"defaults\": {\"recorded\": \"--runner reference\"}, \"cases\": ["                      \
	"{\"name\": \"real\", \"make\": \"--requests 4 --input 20:40 --output 5:10 --seed 3\","    \
	" \"options\": \"--model " QUIRE_SOURCE_DIR "/tests/fixtures/models/group3 --block-size 8" \
	" --kv-blocks 40 --max-num-seqs 8 --max-num-batched-tokens 48" more                        \
	"\", \"limits\": \"" limits "\"}]}"

/* A simulation beside runs of another runner, made here or elsewhere. The baseline's runs are made
   90 s long, so the simulation is faster, and that is no improvement. */
Test(gate, a_simulation_is_judged_by_recorded_runs)
{
	static const char lengthen[] =
		"sed -i -E 's/(\"makespan_s\":[^0-9]*)([0-9])/\\19\\2/' s-baseline/real.json";
	char folder[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	write_suite(folder, RECORDED("", "makespan_s<=+1%"));
	require_gate(folder, "--update", 0, WORDS("1 NEW"));
	shell(folder, "mkdir runs && cp -r results/real runs/ && cp -r results/real runs/real.2");
	shell(folder, lengthen);
	require_gate(folder, "", 0,
		WORDS("| error, % | makespan_s | queue mean, p50, p90, p99 |", "| real | -",
			"1 PASS"));
	write_suite(folder, RECORDED("", "makespan_s<=+1%,makespan_s>=-1%,tpot.p50<=+900000%,"
					 "tpot.p99<=+900000%,preemptions<=+0%"));
	require_gate(folder, "", 1,
		WORDS("makespan_s", "1 REGRESSED", "| makespan_s | tpot p50, p99 | preemptions |",
			"| real | **-"));
	write_suite(folder, RECORDED(" --seed 5", "makespan_s<=+1%"));
	require_gate(folder, "", 2, WORDS("seed is 5", "1 INVALID"));
	write_suite(folder, RECORDED("", "makespan_s<=+1%"));
	require_gate(folder, "--recorded @/runs", 2, WORDS("--recorded names runs that --update"));
	require_gate(folder, "--update --keep-steps --recorded @/runs", 2, WORDS("--keep-steps"));
	require_gate(
		folder, "--update --recorded @/none", 1, WORDS("1 FAILED", "none: cannot be read"));
	shell(folder, "cp -r runs half && sed -i 's/\"complete\"/\"failed\"/' "
		      "half/real.2/summary.json && cp s-baseline/real.json before.json");
	require_gate(folder, "--update --recorded @/half", 1,
		WORDS("1 FAILED", "half/real.2/summary.json",
			"found \"failed\", expected \"complete\""));
	shell(folder, "cmp s-baseline/real.json before.json");
	shell(folder, "rm -r s-baseline");
	require_gate(folder, "--update --recorded @/runs", 0, WORDS("1 NEW"));
	shell(folder, lengthen);
	require_gate(folder, "", 0, WORDS("1 PASS", "| real, its runs apart | 0.00 |"));
	/* 0, 90 and 0 s are at most 200 % from their mean */
	shell(folder, "cp -r runs/real.2 runs/real.3 && rm -r s-baseline && "
		      "sed -i -E 's/(\"makespan_s\":[^0-9]*)([0-9])/\\19\\2/' "
		      "runs/real.2/summary.json");
	require_gate(folder, "--update --recorded @/runs", 0, WORDS("1 NEW"));
	require_gate(folder, "", 0, WORDS("1 PASS", "| real, its runs apart | 199."));
	close_folder(folder);
}

/* One of three recorded runs is changed by a command, and the case refused. */
static void require_recorded(const char *folder, const char *change, const char *words)
{
	shell(folder, "rm -rf s-baseline runs && mkdir runs && cp -r results/real runs/ && "
		      "cp -r runs/real runs/real.2 && cp -r runs/real runs/real.3");
	shell(folder, change);
	require_gate(folder, "--update --recorded @/runs", 1, WORDS("1 FAILED", words));
}

/* What was copied in part, or is of another run, is no repeat of the first run. */
Test(gate, recorded_runs_are_whole_and_alike)
{
	char folder[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	write_suite(folder, RECORDED("", "makespan_s<=+1%"));
	require_gate(folder, "--update", 0, WORDS("1 NEW"));
	require_recorded(folder, "sed -i 2d runs/real.3/requests.tsv",
		"/real.3/requests.tsv: found 3 rows, expected the 4 of its summary.json");
	require_recorded(folder, "sed -i '$d' runs/real/steps.tsv", "/real/steps.tsv: found ");
	require_recorded(folder, "rm runs/real.2/steps.tsv",
		"/real.2/steps.tsv: is not there, but the case's first run has one");
	require_recorded(folder, "rm runs/real/steps.tsv",
		"/real.2/steps.tsv: is there, but the case's first run has none");
	require_recorded(folder, "rm runs/real.3/requests.tsv", "/real.3/requests.tsv: ");
	require_recorded(
		folder, "rm -r runs/real.2", "/real.2/summary.json is not there, but real.3 is");
	require_recorded(
		folder, "rm runs/real.3/summary.json", "/real.3/summary.json is not there");
	require_recorded(folder, "mv runs/real.3 runs/real.65",
		"/real.65: found a run of this number, expected at most 64");
	require_recorded(folder,
		"sed -i 's/\"xxh64\":.*/\"xxh64\": \"0\",/' runs/real.3/summary.json",
		"/real.3/summary.json: field trace.xxh64: found \"0\", expected \"");
	require_recorded(folder, "sed -i 's/\"seed\":.*/\"seed\": 9,/' runs/real.2/summary.json",
		"/real.2/summary.json: field config.seed: found 9, expected 0 as in");
	require_recorded(folder, "sed -i 's/\"seed\":/\"more\": 1, &/' runs/real.2/summary.json",
		"/real.2/summary.json: field config.more: found 1, expected nothing as in");
	require_recorded(folder,
		"sed -i 's/\"submitted\":.*/\"submitted\": -4,/' runs/real/summary.json",
		"/real/summary.json: field requests.submitted: found -4");
	close_folder(folder);
}

/* A run of other settings, or of no clock, is not what the case simulates. */
Test(gate, recorded_options_say_what_computes)
{
	static const struct {
		const char *recorded, *words;
	} cases[] = {
		{"--step-time-scale 1.1", "found step_time_scale "},
		{"--runner reference --seed=7", "s.json: case one: field recorded: found seed 7, "},
		{"--runner reference -tp 2", "found tensor_parallel_size 2, "},
		{"--runner reference --kv-blocks 50", "found kv_blocks 50, "},
		{"--gpu h100-datasheet", "found --runner sim, expected one that computes"},
		{"--runner sim", "found --runner sim, expected one that computes"},
	};
	char folder[TEMPORARY_PATH_BYTES], suite[512];

	temporary_folder(folder);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(suite, sizeof(suite),
			"{\"cases\": [{\"name\": \"one\", " MAKE ", \"recorded\": \"%s\"}]}",
			cases[i].recorded);
		write_suite(folder, suite);
		require_gate(folder, "--update", 2, WORDS(cases[i].words));
		shell(folder, "test ! -e s-baseline");
	}
	close_folder(folder);
}

/* Each side replays what it recorded itself. The other program is quire, its calls are noted. */
Test(gate, a_tape_is_that_of_the_same_program)
{
	char folder[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	write_suite(folder,
		"{\"cases\": [" SMALL("one", "") ","
						 "{\"name\": \"again\", \"tape\": \"one\"}]}");
	shell(folder, "printf '#!/bin/sh\\necho \"$@\" >>%s/calls\\nexec %s \"$@\"\\n' \"$PWD\" "
		      "'" QUIRE_EXECUTABLE "' >other && chmod +x other");
	require_gate(folder, "--jobs 1 --against @/other", 0, WORDS("2 PASS"));
	shell(folder, "grep -q -e '--runner tape --tape [^ ]*/results/one.base .*"
		      "--out [^ ]*/results/again.base' calls");
	shell(folder, "! grep -q -e '/results/one ' calls");
	close_folder(folder);
}

/* An update that was cut short goes on: what the baseline has is not run again, but the case whose
   tape is replayed. */
Test(gate, an_update_adds_what_is_missing)
{
	static const char suite[] = "{\"cases\": [" SMALL("one", "") "," SMALL(
		"two", "") ","
			   "{\"name\": \"again\", \"tape\": \"one\"}]}";
	char folder[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	write_suite(folder, suite);
	require_gate(folder, "--missing", 2, WORDS("--missing says which cases --update runs"));
	require_gate(folder, "--update --only two", 0, WORDS("1 NEW"));
	shell(folder, "cp s-baseline/two.json two.json && echo >> s-baseline/two.json");
	require_gate(folder, "--update --missing", 0, WORDS("one ", "again ", "2 NEW;"));
	shell(folder, "! cmp -s s-baseline/two.json two.json");
	shell(folder, "rm s-baseline/again.json");
	require_gate(folder, "--update --missing", 0, WORDS("1 PASS, 1 NEW;"));
	require_gate(folder, "--update --missing", 0, WORDS("\nno case was run; 0."));
	require_gate(folder, "", 0, WORDS("3 PASS;"));
	close_folder(folder);
}

/* Costs that are uncertain are taken of each run, and judged by an interval. No steps are written
   where decisions are not compared. */
Test(gate, costs_of_repeated_runs_are_judged_by_intervals)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES + 64];

	temporary_folder(folder);
	write_suite(folder, "{\"defaults\": {\"decisions\": \"ignored\", \"repeats\": 3, "
			    "\"measure\": [\"cpu_ms\", \"bytes_written\"], "
			    "\"cost_limits_percent\": {\"cpu_ms\": 1000}}, "
			    "\"cases\": [" SMALL("one", "") "]}");
	require_gate(folder, "--update", 0, WORDS("1 NEW", "cpu_ms ", "bytes_written "));
	require_gate(folder, "--against '" QUIRE_EXECUTABLE "'", 0,
		WORDS("1 PASS", "cpu_ms ", "would have been flagged"));
	snprintf(path, sizeof(path), "%s/results/one.base.3/summary.json", folder);
	require(file_exists(path), "no third run of the base");
	snprintf(path, sizeof(path), "%s/results/one/steps.tsv", folder);
	require(!file_exists(path), "%s is there", path);
	/* the baseline's runs took microseconds */
	shell(folder, "sed -i -E 's/(\"cpu_ms\":).*/\\1 [0.001, 0.0011, 0.001],/' "
		      "s-baseline/one.json");
	require_gate(folder, "", 1, WORDS("1 REGRESSED", "limit +1000 %", "(99 % interval +"));
	shell(folder, "sed -i -E 's/(\"cpu_ms\":).*/\\1 [0.001, \"x\"],/' s-baseline/one.json");
	require_gate(folder, "", 2, WORDS("s-baseline/one.json", "cpu_ms"));
	close_folder(folder);
}

static double number_at(const cJSON *root, const char *section, const char *name)
{
	const cJSON *node = cJSON_GetObjectItemCaseSensitive(
		cJSON_GetObjectItemCaseSensitive(root, section), name);

	require(cJSON_IsNumber(node), "no %s.%s", section, name);
	return node->valuedouble;
}

/* It cannot run a program that is instrumented. */
static bool has_valgrind(void)
{
	struct process_result found =
		shell_run(NULL, "valgrind '" QUIRE_EXECUTABLE "' version >/dev/null");
	bool is_there = found.code == 0;

	process_result_free(&found);
	return is_there;
}

/* Instructions a step and a request are those of the run over its steps and its requests. */
Test(gate, instructions_are_shared_by_steps_and_by_requests)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES + 64];

	if (!has_valgrind()) {
		cr_skip_test("valgrind cannot run the program");
	}
	temporary_folder(folder);
	write_suite(folder,
		"{\"defaults\": {\"measure\": [\"instructions\", \"instructions_per_step\", "
		"\"instructions_per_request\"]}, \"cases\": [" SMALL("one", "") "]}");
	require_gate(folder, "--update", 0, WORDS("1 NEW"));
	snprintf(path, sizeof(path), "%s/s-baseline/one.json", folder);
	char *text = file_read(path, NULL);
	cJSON *root = cJSON_Parse(text);
	const cJSON *summary = cJSON_GetObjectItemCaseSensitive(root, "summary");
	double all = number_at(root, "costs", "instructions");
	double steps = number_at(summary, "time", "steps");
	double requests = number_at(summary, "requests", "submitted");
	double a_step = number_at(root, "costs", "instructions_per_step");
	double a_request = number_at(root, "costs", "instructions_per_request");
	require(requests == 30 && steps > 31, "%g requests, %g steps", requests, steps);
	require(all > 1e5, "%g instructions", all);
	require(a_step > 0.999999 * all / steps && a_step < 1.000001 * all / steps,
		"%g instructions a step, of %g in %g steps", a_step, all, steps);
	require(a_request > 0.999999 * all / requests && a_request < 1.000001 * all / requests,
		"%g instructions a request, of %g of %g requests", a_request, all, requests);
	cJSON_Delete(root);
	free(text);
	close_folder(folder);
}

/* valgrind follows no script into the program that this becomes. */
Test(gate, the_side_whose_instructions_are_not_counted_is_named)
{
	char folder[TEMPORARY_PATH_BYTES];

	if (!has_valgrind()) {
		cr_skip_test("valgrind cannot run the program");
	}
	temporary_folder(folder);
	write_suite(folder, "{\"defaults\": {\"measure\": [\"instructions\"]}, \"cases\": [" SMALL(
				    "one", "") "]}");
	shell(folder, "printf '#!/bin/sh\nexec \"%s\" \"$@\"\n' '" QUIRE_EXECUTABLE
		      "' >other; chmod +x other");
	require_gate(folder, "--against @/other", 1,
		WORDS("FAILED",
			"valgrind counted no instructions of the other program: --against takes"));
	close_folder(folder);
}

/* The other program is quire, but its fourth step has a thousand prompt tokens too many. */
Test(gate, the_first_other_step_of_another_program_is_named)
{
	char folder[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	write_suite(folder, "{\"cases\": [" SMALL("one", "") "]}");
	shell(folder, "cat >other <<'END'\n"
		      "#!/bin/sh\n"
		      "'" QUIRE_EXECUTABLE "' \"$@\" || exit\n"
		      "while [ \"$1\" != --out ]; do shift; done\n"
		      "awk -F '\\t' -v OFS='\\t' 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "
		      "\"prefill_tokens\") c = i } NR == 5 { $c += 1000 } 1' \"$2/steps.tsv\" "
		      ">steps.new\n"
		      "mv steps.new \"$2/steps.tsv\"\n"
		      "END\nchmod +x other");
	require_gate(folder, "--jobs 1 --against @/other", 1,
		WORDS("BEHAVIOR_CHANGED", "step 3: prefill_tokens was 10"));
	close_folder(folder);
}

/* A figure of the baseline that is changed by hand: the same steps are counted differently. */
Test(gate, figures_of_the_same_steps_must_be_equal)
{
	char folder[TEMPORARY_PATH_BYTES];

	open_folder(folder);
	shell(folder, "sed -i 's/\"rejected\":.*/\"rejected\": 1,/' s-baseline/one.json");
	require_gate(folder, "", 1,
		WORDS("the same steps are counted differently: rejected 1 to 0",
			"1 PASS, 1 REGRESSED"));
	shell(folder, "sed -i 's/\"decisions\":.*\"[0-9a-f]*\",/\"decisions\": "
		      "\"0000000000000000\",/' s-baseline/two.json");
	require_gate(folder, "", 1, WORDS("BEHAVIOR_CHANGED", "first other decision"));
	shell(folder, "echo '{' >s-baseline/two.json");
	require_gate(folder, "", 2, WORDS("s-baseline/two.json"));
	require_gate(folder, "--update", 0, WORDS("1 PASS, 1 REGRESSED"));
	/* no percentile need tell of a request that moved: the histogram does */
	shell(folder, "sed -i -E 's/(\"ttft\":[[:space:]]*\\[[0-9]+, [0-9]+, )[0-9]+/\\17/' "
		      "s-baseline/one.json");
	require_gate(folder, "", 1,
		WORDS("the same steps are counted differently: histogram of ttft", "1 PASS"));
	shell(folder, "sed -i -E 's/(\"ttft\":[[:space:]]*\\[)[0-9]+/\\1-7/' s-baseline/one.json");
	require_gate(folder, "", 2, WORDS("s-baseline/one.json", "ttft", "rising buckets"));
	close_folder(folder);
}

/* A latency that breaks its limit: the histograms tell how many requests moved. */
Test(gate, a_latency_that_moved_is_told_with_its_requests)
{
	char folder[TEMPORARY_PATH_BYTES];

	open_folder(folder);
	shell(folder, "sed -i -E 's/\"times\":.*\"[0-9a-f]*\"/\"times\": \"0000000000000000\"/; "
		      "s/(\"p99\":[^0-9]*)[0-9.]+/\\10.001/; "
		      "s/(\"ttft\":[[:space:]]*\\[)[0-9]+/\\11/' s-baseline/one.json");
	require_gate(folder, "", 1,
		WORDS("1 PASS, 1 REGRESSED", "limit ttft.p99<=+5%", " % of ttft are at most ",
			" % in the baseline: the largest difference"));
	close_folder(folder);
}

Test(gate, verdicts_are_written_for_people_and_machines)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES + 32];

	open_folder(folder);
	shell(folder, "sed -i 's/\"rejected\":.*/\"rejected\": 1,/' s-baseline/one.json");
	require_gate(folder, "--markdown @/v.md --junit @/v.xml --json @/v.json --annotations", 1,
		WORDS("::error title=quire gate: one REGRESSED::the same steps"));
	snprintf(path, sizeof(path), "%s/v.json", folder);
	char *text = file_read(path, NULL);
	cJSON *root = cJSON_Parse(text);
	const cJSON *cases = cJSON_GetObjectItem(root, "cases");
	require_equal(cJSON_GetArraySize(cases), 2);
	cr_assert_str_eq(cJSON_GetObjectItem(cases->child, "status")->valuestring, "REGRESSED");
	const cJSON *findings = cJSON_GetObjectItem(cases->child, "findings");
	require(strncmp(findings->child->valuestring, "the same steps", 14) == 0, "%s",
		findings->child->valuestring);
	require_equal(cJSON_GetArraySize(cJSON_GetObjectItem(cases->child->next, "findings")), 0);
	require_equal(
		cJSON_GetObjectItem(cJSON_GetObjectItem(root, "counts"), "PASS")->valueint, 1);
	cJSON_Delete(root);
	free(text);
	snprintf(path, sizeof(path), "%s/v.xml", folder);
	text = file_read(path, NULL);
	require(strstr(text, "tests=\"2\" failures=\"1\"") != NULL &&
			strstr(text, "<failure message=\"REGRESSED\">the same steps") != NULL,
		"%s", text);
	free(text);
	snprintf(path, sizeof(path), "%s/v.md", folder);
	text = file_read(path, NULL);
	require(strstr(text, "| one | **REGRESSED** | the same steps") != NULL &&
			strstr(text, "| two | PASS |  |") != NULL,
		"%s", text);
	free(text);
	close_folder(folder);
}

/* On GitHub's machines, unasked; what the step wrote before stays. */
Test(gate, github_gets_a_summary_and_annotations)
{
	char folder[TEMPORARY_PATH_BYTES];

	open_folder(folder);
	shell(folder, "sed -i 's/\"rejected\":.*/\"rejected\": 1,/' s-baseline/one.json; "
		      "echo before >sum.md");
	struct process_result result = shell_run(folder,
		"GITHUB_ACTIONS=true GITHUB_STEP_SUMMARY=sum.md " QUIRE_EXECUTABLE
		" gate s.json; cat sum.md; "
		"GITHUB_ACTIONS=false GITHUB_STEP_SUMMARY=sum.md " QUIRE_EXECUTABLE
		" gate s.json | grep -c ::; "
		"GITHUB_ACTIONS=true GITHUB_STEP_SUMMARY=s.json " QUIRE_EXECUTABLE " gate s.json");
	require(strstr(result.out, "::error title=quire gate: one REGRESSED::") != NULL &&
			strstr(result.out, "\nbefore\n### quire gate: 1 PASS") != NULL &&
			strstr(result.out, "\n0\n") != NULL,
		"%s", result.out);
	require(strstr(result.err, "is read by this command") != NULL, "%s", result.err);
	process_result_free(&result);
	/* a machine without summaries may have the variable, and nothing in it */
	shell(folder, "rm s-baseline/one.json");
	result = shell_run(folder,
		"GITHUB_ACTIONS=true GITHUB_STEP_SUMMARY= " QUIRE_EXECUTABLE " gate s.json");
	require(result.code == 0 && result.err[0] == '\0', "%d: %s", result.code, result.err);
	process_result_free(&result);
	close_folder(folder);
}

/* The date of a line is that of its gate, in UTC. */
static void require_date(const cJSON *line, time_t before)
{
	const char *date = cJSON_GetObjectItem(line, "date")->valuestring;
	struct tm utc = {0};
	char again[32];

	require(sscanf(date, "%d-%d-%dT%d:%d:%dZ", &utc.tm_year, &utc.tm_mon, &utc.tm_mday,
			&utc.tm_hour, &utc.tm_min, &utc.tm_sec) == 6,
		"%s", date);
	utc.tm_year -= 1900;
	utc.tm_mon--;
	time_t then = timegm(&utc);
	strftime(again, sizeof(again), "%Y-%m-%dT%H:%M:%SZ", &utc);
	cr_assert_str_eq(date, again);
	require(then >= before && then <= time(NULL), "%s", date);
}

/* A line a gate, of the figures that have limits. */
Test(gate, a_history_grows_by_a_line)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES + 32];
	time_t before = time(NULL);

	open_folder(folder);
	setenv("TZ", "FAR-9", 1);
	require_gate(folder, "--history @/h.jsonl", 0, WORDS("2 PASS"));
	require_gate(folder, "--history @/h.jsonl", 0, WORDS("2 PASS"));
	unsetenv("TZ");
	snprintf(path, sizeof(path), "%s/h.jsonl", folder);
	char *text = file_read(path, NULL), *second = strchr(text, '\n') + 1;
	require(strchr(second, '\n') != NULL && strchr(second, '\n')[1] == '\0', "%s", text);
	cJSON *line = cJSON_Parse(second);
	require_date(line, before);
	const cJSON *one = cJSON_GetObjectItem(cJSON_GetObjectItem(line, "cases"), "one");
	cr_assert_str_eq(cJSON_GetObjectItem(one, "verdict")->valuestring, "PASS");
	/* a level that changed three lines ago is told with its commit */
	shell(folder, "for commit in a a a b b; do sed -E \"1!d; "
		      "s/\\\"commit\\\":\\\"[^\\\"]*/\\\"commit\\\":\\\"$commit/; "
		      "s/(\\\"ttft.p99\\\":)[0-9.]+/\\1$([ $commit = a ] && echo 7 || echo "
		      "8)/\" h.jsonl; done >k.jsonl");
	require_gate(
		folder, "--history @/k.jsonl", 0, WORDS("since b: one ttft.p99 7 to 8 (+14.29 %)"));
	const cJSON *figures = cJSON_GetObjectItem(one, "figures");
	require(cJSON_IsNumber(cJSON_GetObjectItem(figures, "ttft.p99")), "%s", second);
	cJSON_Delete(line);
	free(text);
	close_folder(folder);
}

/* What ends well and writes nothing is not judged by the result of an earlier gate. */
Test(gate, an_older_result_is_not_judged)
{
	char folder[TEMPORARY_PATH_BYTES];

	open_folder(folder);
	require_gate(folder, "--against '" QUIRE_EXECUTABLE "'", 0, WORDS("2 PASS"));
	require_gate(folder, "--against /bin/true", 1, WORDS("2 FAILED", "wrote no"));
	require_gate(folder, "--against /bin/false", 1,
		WORDS("2 FAILED", "the other program's replay ended with exit code 1"));
	/* one that refuses an option, and one that is killed */
	shell(folder, "printf '#!/bin/sh\\nexit 2\\n' >refuses && chmod 755 refuses && "
		      "printf '#!/bin/sh\\nkill -9 $$\\n' >dies && chmod 755 dies");
	require_gate(folder, "--against @/refuses", 0,
		WORDS("2 NEW", "the other program's replay ended with exit code 2"));
	require_gate(folder, "--against @/dies", 1, WORDS("2 FAILED", "exit code 137"));
	close_folder(folder);
}

/* The gate itself cannot go on: that is no verdict on the program. */
Test(gate, what_cannot_be_started_or_read_is_no_verdict)
{
	char folder[TEMPORARY_PATH_BYTES];

	open_folder(folder);
	require_gate(folder, "--against ./nowhere", 2, WORDS("./nowhere: cannot be started"));
	shell(folder, "mv s-baseline/two.json two.json; "
		      "mkdir s-baseline/two.json");
	require_gate(folder, "", 2, WORDS("two.json: cannot be opened: Is a directory"));
	require_gate(folder, "--update", 2, WORDS("two.json: cannot be opened: Is a directory"));
	close_folder(folder);
}

/* The suite, its traces and a file that is no history stay as they are. */
Test(gate, no_output_replaces_an_input)
{
	static const char *const files[] = {"s.json", "t.jsonl", "notes"};
	char folder[TEMPORARY_PATH_BYTES], arguments[256];

	temporary_folder(folder);
	free(quire_output(
		folder, 0, "trace make --requests 5 --input 40 --output 5 --out @/t.jsonl"));
	write_suite(folder, SUITE("{\"name\": \"one\", \"trace\": \"t.jsonl\"}"));
	temporary_write(folder, "notes", "not a history\n", NULL);
	require_gate(folder, "--update", 0, WORDS("1 NEW"));
	shell(folder, "cp -r . ../$(basename $PWD).kept");
	for (uint32_t i = 0; i < 3; i++) {
		snprintf(arguments, sizeof(arguments), "--history @/%s", files[i]);
		require_gate(folder, arguments, 2, WORDS("quire gate: "));
		if (i < 2) {
			snprintf(arguments, sizeof(arguments), "--junit @/%s", files[i]);
			require_gate(folder, arguments, 2, WORDS("is read by this command"));
		}
	}
	struct process_result same = shell_run(folder,
		"for f in s.json t.jsonl notes; do cmp $f ../$(basename $PWD).kept/$f; done; "
		"rm -rf ../$(basename $PWD).kept");
	require(same.out[0] == '\0', "%s", same.out);
	process_result_free(&same);
	close_folder(folder);
}

/* Files that only the runs read, in processes of their own, and the other program. */
static const struct {
	const char *options, *file;
} read_by_runs[] = {
	{"--junit mine.json", "mine.json"},
	{"--json ./mine.json", "mine.json"},
	{"--markdown hard.json", "mine.json"},
	{"--json soft.json", "mine.json"},
	{"--history mine.json", "mine.json"},
	{"--json fl.tsv", "fl.tsv"},
	{"--json other.json", "other.json"},
	{"--json model/config.json", "model/config.json"},
	{"--json tape/notes", "tape/notes"},
	{"--json lengths.jsonl", "lengths.jsonl"},
	{"--junit s-baseline/one.json", "s-baseline/one.json"},
	{"--against ./quire --json quire", "quire"},
	{"--out made", "made/makes.jsonl"},
	{"--out .", "one/requests.tsv"},
	{"--null-runs 1 --out .", "one/requests.tsv"},
	{"--against ./quire --out .", "one.base/steps.tsv"},
};

static const char reading_suite[] =
	"{\"cases\": ["
	"{\"name\": \"one\", \"trace\": \"t.jsonl\", \"options\": \"--gpu mine.json\"}, "
	"{\"name\": \"fleet\", \"trace\": \"t.jsonl\", \"options\": \"--fleet=fl.tsv\"}, "
	"{\"name\": \"model\", \"trace\": \"t.jsonl\", \"options\": \"--model ./model\"}, "
	"{\"name\": \"tape\", \"trace\": \"t.jsonl\", \"options\": \"--runner tape --tape tape\"}, "
	"{\"name\": \"makes\", \"make\": \"--requests 3 --lengths-from lengths.jsonl\"}, "
	"{\"name\": \"takes\", \"trace\": \"made/makes.jsonl\"}, "
	"{\"name\": \"result\", \"trace\": \"one/requests.tsv\"}, "
	"{\"name\": \"other\", \"options\": \"--gpu one.base/steps.tsv\", \"trace\": "
	"\"t.jsonl\"}]}";

Test(gate, no_output_replaces_what_only_a_run_reads)
{
	char folder[TEMPORARY_PATH_BYTES], path[2 * TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	write_suite(folder, reading_suite);
	shell(folder, QUIRE_EXECUTABLE
		" trace make --requests 5 --input 40 --output 5 --out t.jsonl && "
		"cp '" QUIRE_SOURCE_DIR "/sim/profiles/h200-datasheet.json' mine.json && "
		"cp mine.json other.json && ln mine.json hard.json && ln -s mine.json soft.json && "
		"printf 'group\\treplicas\\tgpu\\na\\t1\\tother.json\\n' >fl.tsv && "
		"printf '#!/bin/sh\\n' >quire && chmod +x quire && "
		"mkdir one one.base && echo mine >one/requests.tsv && "
		"echo mine >one.base/steps.tsv && "
		"mkdir model tape made s-baseline && echo {} >model/config.json && "
		"echo notes >tape/notes && cp t.jsonl lengths.jsonl && "
		"cp t.jsonl made/makes.jsonl && echo {} >s-baseline/one.json");
	for (size_t i = 0; i < sizeof(read_by_runs) / sizeof(read_by_runs[0]); i++) {
		const char *options = read_by_runs[i].options;
		snprintf(path, sizeof(path), "%s/%s", folder, read_by_runs[i].file);
		char *before = file_read(path, NULL);
		struct process_result result =
			shell_run(folder, QUIRE_EXECUTABLE " gate s.json %s", options);
		require(result.code == 2 && strstr(result.err, "is read by this command") != NULL,
			"%s: %d: %s", options, result.code, result.err);
		process_result_free(&result);
		char *after = file_read(path, NULL);
		require(strcmp(before, after) == 0, "%s: lost", options);
		free(before);
		free(after);
		shell(folder, "test ! -e gate-results && test $(ls made | wc -l) = 1");
	}
	close_folder(folder);
}

/* Each verdict and the history is a file of its own; nothing runs before that is known. */
Test(gate, no_output_replaces_another)
{
	static const char *const options[] = {"--json h.jsonl --history h.jsonl",
		"--junit h.jsonl --history ./h.jsonl", "--markdown hard --history h.jsonl",
		"--markdown soft --history h.jsonl", "--junit x --markdown x",
		"--json ./x --junit x", "--history new --json new"};
	char folder[TEMPORARY_PATH_BYTES];

	open_folder(folder);
	require_gate(folder, "--history @/h.jsonl", 0, WORDS("2 PASS"));
	shell(folder, "ln h.jsonl hard; ln -s h.jsonl soft; cp h.jsonl kept; rm -r results");
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		struct process_result result = shell_run(
			folder, QUIRE_EXECUTABLE " gate s.json --out results %s", options[i]);
		require(result.code == 2 && strstr(result.err, "is written to twice") != NULL,
			"%s: %d: %s", options[i], result.code, result.err);
		process_result_free(&result);
		shell(folder, "cmp h.jsonl kept && test ! -e results && test ! -e new && "
			      "test ! -e x");
	}
	shell(folder, "GITHUB_ACTIONS=true GITHUB_STEP_SUMMARY=h.jsonl " QUIRE_EXECUTABLE
		      " gate s.json --out results --history h.jsonl 2>err; test $? = 2 && "
		      "grep -q 'is written to twice' err && cmp h.jsonl kept && "
		      "test ! -e results");
	static const char *const nowhere[] = {"--junit .", "--json nodir/x", "--markdown s.json/x",
		"--history nodir/x", "--junit results.old/"};
	for (size_t i = 0; i < sizeof(nowhere) / sizeof(nowhere[0]); i++) {
		struct process_result result = shell_run(
			folder, QUIRE_EXECUTABLE " gate s.json --out results %s", nowhere[i]);
		const char *path = strchr(nowhere[i], ' ') + 1;
		char expected[64];
		snprintf(expected, sizeof(expected), "quire gate: %s: cannot be written: ", path);
		require(result.code == 2 && strstr(result.err, expected) == result.err,
			"%s: %d: %s", nowhere[i], result.code, result.err);
		process_result_free(&result);
		shell(folder, "test ! -e results");
	}
	shell(folder, "GITHUB_ACTIONS=true GITHUB_STEP_SUMMARY=nodir/s.md " QUIRE_EXECUTABLE
		      " gate s.json --out results 2>err; test $? = 2 && "
		      "grep -q 'nodir/s.md: cannot be written: No such file' err && "
		      "test ! -e results");
	/* one that is no history is refused as early */
	shell(folder, "echo notes >notes; " QUIRE_EXECUTABLE
		      " gate s.json --out results --history notes 2>err; test $? = 2 && "
		      "grep -q notes err && test $(cat notes) = notes && test ! -e results");
	shell(folder, QUIRE_EXECUTABLE
		" gate s.json --out results --json results/one/requests.tsv 2>err; test $? = 2 && "
		"grep -q 'the name of a file of a result' err && test ! -e results");
	close_folder(folder);
}

/* A signal ends the runs too. */
Test(gate, a_signal_ends_the_runs)
{
	char folder[TEMPORARY_PATH_BYTES];

	open_folder(folder);
	struct process_result result = shell_run(folder,
		"printf '#!/bin/sh\necho $$ >pid; exec sleep 60\n' >slow; chmod +x "
		"slow; " QUIRE_EXECUTABLE " gate s.json --only one --against ./slow & gate=$!; "
		"while [ ! -s pid ]; do sleep 0.05; done; kill -TERM $gate; wait $gate; echo code "
		"$?; "
		"sleep 0.2; kill -0 $(cat pid) 2>/dev/null && echo runs on");
	require(strcmp(result.out, "code 1\n") == 0, "%s%s", result.out, result.err);
	require(strcmp(result.err, "quire gate: interrupted\n") == 0, "%s", result.err);
	process_result_free(&result);
	close_folder(folder);
}
