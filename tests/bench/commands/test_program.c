#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/commands/commands.h"
#include "tests/harness/files.h"
#include "tests/harness/process.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* `quire` as a whole: its version, its help, and what it writes of itself for man and shells. */

static char folder[TEMPORARY_PATH_BYTES];

static void set_up(void)
{
	temporary_folder(folder);
}

static void tear_down(void)
{
	temporary_remove(folder);
}

TestSuite(program, .init = set_up, .fini = tear_down);

/* Runs a line of the shell that has to end well, and requires all of the words, which end with
   NULL, in its output. */
static void require_output(const char *line, const char *const *words)
{
	struct process_result result = shell_run(folder, "%s", line);

	require(result.code == 0, "%s: code %d: %s%s", line, result.code, result.out, result.err);
	for (; *words != NULL; words++) {
		require(strstr(result.out, *words) != NULL, "%s: no '%s' in: %.2000s", line, *words,
			result.out);
	}
	process_result_free(&result);
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define QUIRE "'" QUIRE_EXECUTABLE "'"

/* Whether a test that needs the program can be made here. */
static bool has_program(const char *name)
{
	struct process_result result = shell_run(folder, "command -v %s", name);
	bool has_it = result.code == 0;

	process_result_free(&result);
	return has_it;
}

/* ---- version and help ---- */

Test(program, prints_its_version_by_three_spellings)
{
#ifdef QUIRE_HAS_CUDA
	const char *cuda = ", CUDA 1";
#else
	const char *cuda = ", no CUDA";
#endif
	static const char *const lines[] = {QUIRE " --version", QUIRE " -V", QUIRE " version"};

	for (uint32_t i = 0; i < 3; i++) {
		require_output(lines[i], WORDS("quire 0.", ", commit ", cuda));
	}
}

/* `quire help COMMAND` is `quire COMMAND --help`, for groups and their members too. */
Test(program, helps_by_both_spellings)
{
	static const char *const names[] = {"", "replay", "trace", "trace make", "help"};

	for (uint32_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct process_result help = shell_run(folder, QUIRE " help %s", names[i]);
		struct process_result option = shell_run(folder, QUIRE " %s --help", names[i]);
		require(help.code == 0 && option.code == 0, "help of '%s': %s%s", names[i],
			help.err, option.err);
		cr_assert_str_eq(help.out, option.out);
		process_result_free(&help);
		process_result_free(&option);
	}
	struct process_result result = shell_run(folder, QUIRE " help replay make");
	require(result.code == 2 && strstr(result.err, "unknown command 'make'") != NULL, "%s",
		result.err);
	process_result_free(&result);
}

/* What was typed is told with what may have been meant, and with how much would have been right. */
Test(program, mistyped_commands_are_told_what_was_meant)
{
	static const struct {
		const char *typed, *told;
	} cases[] = {
		{"reply", "quire: unknown command 'reply'; did you mean replay? quire --help lists "
			  "them\n"},
		{"trace mkae", "quire trace: unknown command 'mkae'; did you mean make? quire "
			       "trace --help "
			       "lists them\n"},
		{"zzz", "quire: unknown command 'zzz'; quire --help lists them\n"},
		{"help reply",
			"quire help: unknown command 'reply'; did you mean replay? quire help "
			"lists them (see quire help --help)\n"},
		{"report 1 2 3 4 5 6 7 8 9",
			"quire report: one argument too many: '9', expected at most 8 (see quire "
			"report --help)\n"},
		{"replay a b",
			"quire replay: one argument too many: 'b' (see quire replay --help)\n"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct process_result result = shell_run(folder, QUIRE " %s", cases[i].typed);
		require(result.code == 2 && strcmp(result.err, cases[i].told) == 0, "%s: %s",
			cases[i].typed, result.err);
		process_result_free(&result);
	}
}

/* ---- what it writes of itself ---- */

static void name_commands(const struct command *group, const char *text)
{
	for (uint32_t i = 0; group->members[i] != NULL; i++) {
		const struct command *member = group->members[i];
		require(strstr(text, command_word(member)) != NULL, "no %s", member->name);
		struct option option;
		for (uint32_t j = 0; command_option(member, j, &option); j++) {
			const char *name = option.name;
			require(name == NULL || strstr(text, name) != NULL, "no --%s of %s", name,
				member->name);
		}
		if (member->members != NULL) {
			name_commands(member, text);
		}
	}
}

Test(program, names_every_command_and_option_to_the_shells)
{
	static const char *const shells[] = {"bash", "zsh", "fish"};

	for (uint32_t i = 0; i < 3; i++) {
		struct process_result script =
			shell_run(folder, QUIRE " help --completion %s | tee script", shells[i]);
		require(script.code == 0 && script.out[0] != '\0', "%s", script.err);
		name_commands(&command_quire, script.out);
		process_result_free(&script);
		if (has_program(shells[i])) {
			struct process_result check = shell_run(folder, "%s -n script", shells[i]);
			require(check.code == 0, "%s -n: %s", shells[i], check.err);
			process_result_free(&check);
		}
	}
}

/* Each line: the words of a command line, the last to be completed, and some of what comes. */
static const struct {
	const char *line, *completions;
} completed[] = {
	{"re", "replay report"},
	{"trace ''", "make stat cache convert --help"},
	{"trace ma", "make"},
	{"replay --cl", "--clock"},
	{"replay --clock ''", "virtual wall"},
	{"replay --clock =", "virtual wall"},
	{"replay --clock = w", "wall"},
	{"replay --policy p", "prefill-first"},
	{"replay --model ./own", "./own-model"},
	{"replay --model qwen3-0", "qwen3-0.6b"},
	{"replay --out o", "own-model"},
	{"replay a.j", "a.jsonl"},
	{"replay --max-num-seqs ''", ""},
	{"trace make --preset c", "chat"},
	{"trace stat --format m", "mooncake"},
	{"kernels --plot a", "a.jsonl"},
	{"kernels --from a", "a.jsonl"},
	{"replay --tape o", "own-model"},
	{"replay -t", "-tp"},
	{"replay -tp ''", ""},
};

Test(program, lets_bash_complete_words_and_files)
{
	temporary_write(folder, "a.jsonl", "", NULL);
	require_output("mkdir own-model", WORDS(""));
	for (uint32_t i = 0; i < sizeof(completed) / sizeof(completed[0]); i++) {
		struct process_result result = shell_run(folder,
			"bash -c \"source <(" QUIRE " help --completion bash)\n"
			"COMP_WORDS=(quire %s) COMP_CWORD=\\$((\\${#COMP_WORDS[@]} - 1))\n"
			"_quire; echo \\\"\\${COMPREPLY[*]}\\\"\"",
			completed[i].line);
		require(result.code == 0, "%s", result.err);
		result.out[strcspn(result.out, "\n")] = '\0';
		require(strcmp(result.out, completed[i].completions) == 0,
			"%s: found '%s', expected '%s'", completed[i].line, result.out,
			completed[i].completions);
		process_result_free(&result);
	}
}

Test(program, lets_fish_complete_words_and_files)
{
	if (!has_program("fish")) {
		cr_skip_test("fish is not here");
	}
	temporary_write(folder, "a.jsonl", "", NULL);
	require_output(QUIRE " help --completion fish >f", WORDS(""));
	require_output("HOME=. fish -c 'source f; complete -C \"quire replay --clock \"'",
		WORDS("virtual", "wall"));
	require_output("HOME=. fish -c 'source f; complete -C \"quire trace \"'",
		WORDS("make", "convert"));
	require_output(
		"HOME=. fish -c 'source f; complete -C \"quire replay a.\"'", WORDS("a.jsonl"));
	require_output("HOME=. fish -c 'source f; complete -C \"quire trace make --pres\"'",
		WORDS("--preset"));
}

Test(program, writes_a_manual_page_that_man_reads)
{
	struct process_result page = shell_run(folder, QUIRE " help --man | tee quire.1");

	require(page.code == 0, "%s", page.err);
	require(strncmp(page.out, ".TH QUIRE 1", 11) == 0, "%.80s", page.out);
	process_result_free(&page);
	if (has_program("mandoc")) {
		/* The page has no date, so that one source gives one page. */
		struct process_result lint = shell_run(folder,
			"mandoc -T lint -W warning quire.1 | grep -vE 'STYLE|missing date'");
		require(lint.out[0] == '\0', "%s", lint.out);
		process_result_free(&lint);
		require_output("mandoc -T ascii quire.1 | col -b",
			WORDS("--max-num-seqs", "quire trace make", "default 16384"));
	}
}

Test(program, installs_what_it_needs)
{
	static const char *const files[] = {"bin/quire", "share/man/man1/quire.1",
		"share/bash-completion/completions/quire", "share/zsh/site-functions/_quire",
		"share/fish/vendor_completions.d/quire.fish", "share/doc/quire/README.md"};
	struct process_result result = shell_run(folder,
		"cmake --install \"$(dirname '%s')\" --prefix \"$PWD/prefix\"", QUIRE_EXECUTABLE);

	require(result.code == 0, "%s", result.err);
	process_result_free(&result);
	for (uint32_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		char path[2 * TEMPORARY_PATH_BYTES];
		snprintf(path, sizeof(path), "%s/prefix/%s", folder, files[i]);
		require(access(path, R_OK) == 0, "no %s", files[i]);
	}
	require_output("prefix/bin/quire --version", WORDS("quire 0."));
}

Test(program, estimates_the_memory_of_each_of_several_gpus)
{
	require_output(QUIRE " info --model qwen3-8b -tp 2 --max-model-len 4096",
		WORDS("estimated for qwen3-8b on each of 2 GPUs", "exchange", "KV blocks"));
	require_output(QUIRE " info --model qwen3-8b --max-model-len 4096",
		WORDS("estimated for qwen3-8b\n", "KV blocks"));
	struct process_result result = shell_run(folder, QUIRE " info --model qwen3-8b -tp 5");
	require(result.code == 2, "%d", result.code);
	require(strstr(result.err, "found 5, expected 1, 2, 4 or 8") != NULL, "%s", result.err);
	process_result_free(&result);
}

/* The number behind a word at the beginning of a line. */
static double figure_of(const char *text, const char *word)
{
	const char *at = strstr(text, word);

	require(at != NULL, "no %s in %s", word, text);
	return strtod(at + strlen(word), NULL);
}

/* Context, weights and activations leave room for the blocks in what is usable, and no more. */
Test(program, estimates_add_up)
{
	struct process_result result =
		shell_run(folder, QUIRE " info --model qwen3-8b --gpu h200 --max-model-len 4096");
	const char *text = result.out;
	double usable = figure_of(text, "\n  of that usable");
	double taken = figure_of(text, "\n  context") + figure_of(text, "\n  weights") +
		       figure_of(text, "\n  activations");
	double block = figure_of(text, "\n  a KV block") / 1000;
	double left = usable - taken - figure_of(text, "\n  KV blocks") * block;

	require(result.code == 0, "%s", result.err);
	/* Figures are rounded to 0.001, those of blocks 3,066 times. */
	require(left > -0.01 && left < block + 0.01, "%.3f GB are left of %s", left, text);
	require(usable < figure_of(text, "\n  memory"), "%s", text);
	require(strstr(text, "uncalibrated") == NULL, "%s", text);
	process_result_free(&result);
}

Test(program, tables_of_compare_exclude_each_other)
{
	static const char *const lines[] = {"--errors --json", "--errors --same-decisions",
		"--gate 'ttft.p99<=+5%' --json", "--gate 'ttft.p99<=+5%' --errors",
		"--limits none --json"};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		char line[200];
		snprintf(line, sizeof(line), QUIRE " compare a b %s", lines[i]);
		struct process_result result = shell_run(folder, "%s", line);
		require(result.code == 2 && strstr(result.err, "go with --json or --") != NULL,
			"%s: %d: %s", lines[i], result.code, result.err);
		process_result_free(&result);
	}
}

/* One program for machines with CUDA and without. */
Test(program, needs_no_library_of_cuda_to_start)
{
	struct process_result result = shell_run(
		folder, "ldd '%s' | grep -iE 'libcuda|libcudart|cublas|cupti'", QUIRE_EXECUTABLE);

	require(result.out[0] == '\0', "it needs %s", result.out);
	process_result_free(&result);
}
