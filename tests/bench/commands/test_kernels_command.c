#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/harness/files.h"
#include "tests/harness/process.h"
#include "tests/harness/temporary.h"

/* `quire kernels` where there is no GPU: drawing what was measured elsewhere, and refusals. */

static char folder[TEMPORARY_PATH_BYTES];

static void set_up(void)
{
	temporary_folder(folder);
}

static void tear_down(void)
{
	temporary_remove(folder);
}

TestSuite(kernels_command, .init = set_up, .fini = tear_down);

static const char header[] =
	"kernel\tcase\trows\tbytes\tflops\tlaunches\tus\tus_min\tus_max\tgb_per_s\ttflop_per_s\t"
	"floor_us\tbound\tshare\n";
static const char table[] =
	"limit_read\t-\t0\t4294967296\t0\t4\t950\t949\t951\t4521\t0\t-\t-\t-\n"
	"limit_copy\t-\t0\t4294967296\t0\t4\t990\t989\t991\t4338\t0\t-\t-\t-\n"
	"limit_product\t8192x8192x8192\t0\t0\t1099511627776\t4\t1400\t1399\t1401\t0\t785\t-\t-\t-\n"
	"limit_launch\t-\t0\t0\t0\t256\t1.1\t1.0\t1.2\t0\t0\t-\t-\t-\n"
	"matmul\t256x1024x4096\t256\t11010048\t2147483648\t200\t10\t9\t11\t1101\t215\t2.7\tarith"
	"metic\t27\n"
	"sampler\t256x151936\t256\t155583488\t0\t100\t50\t49\t51\t3111\t0\t34.4\tmemory\t69\n";

/* Writes table.tsv and runs `quire kernels` beside it. *said: both outputs, owned by the caller. */
static int run(char **said, const char *first, const char *second, const char *arguments)
{
	char text[4096];

	snprintf(text, sizeof(text), "%s%s", first, second);
	temporary_write(folder, "table.tsv", text, NULL);
	struct process_result result =
		shell_run(folder, "'%s' kernels %s 2>&1", QUIRE_EXECUTABLE, arguments);
	*said = result.out;
	free(result.err);
	return result.code;
}

Test(kernels_command, draws_a_table)
{
	char *text;
	int code = run(&text, header, table, "--from table.tsv --plot out.svg && cat out.svg");

	cr_assert_eq(code, 0, "%s", text);
	cr_assert(strstr(text, "</svg>") != NULL, "%.300s", text);
	cr_assert(strstr(text, "sampler") != NULL);
	cr_assert(strstr(text, "reading 4.52 TB/s") != NULL);
	cr_assert(strstr(text, "GPU and date are not known") != NULL);
	cr_assert(strstr(text, "<desc>sampler  256x151936: 69 % of the memory limit. matmul  "
			       "256x1024x4096: 27 % of the arithmetic limit.</desc>") != NULL,
		"%.600s", text);
	free(text);
}

/* The first line of a table says which GPU, and when. */
Test(kernels_command, names_the_gpu_and_the_date)
{
	char *text;
	char named[1024];

	snprintf(named, sizeof(named), "# Some GPU, 2026-01-02\n%s", header);
	int code = run(&text, named, table, "--from table.tsv --plot out.svg && cat out.svg");
	cr_assert_eq(code, 0, "%s", text);
	cr_assert(strstr(text, ">Share of the limit: Some GPU, 2026-01-02</text>") != NULL,
		"%.900s", text);
	free(text);
}

static void require_refusal(
	const char *first, const char *second, const char *arguments, const char *part)
{
	char *text;
	int code = run(&text, first, second, arguments);

	cr_assert_eq(code, 2, "%s: exit code %d: %s", arguments, code, text);
	cr_assert(strstr(text, part) != NULL, "%s: %s", arguments, text);
	cr_assert(strchr(text, '\n') == text + strlen(text) - 1, "one line: %s", text);
	free(text);
}

Test(kernels_command, refuses_in_one_line)
{
	require_refusal(header, table, "--from table.tsv", "--plot");
	require_refusal(header, table, "--from nothing.tsv --plot out.svg", "nothing.tsv");
	require_refusal("name\tvalue\n", "a\t1\n", "--from table.tsv --plot out.svg",
		"table.tsv:1: found other columns");
	require_refusal("", "", "--from table.tsv --plot out.svg", "table.tsv:1:");
	require_refusal(header, table, "--plot out.svg", "--out");
	require_refusal(header, table, "--repeats 0", "--repeats");
	require_refusal(header, table, "--kernels fast", "--kernels");
}

/* What contradicts itself is refused whether a table is measured or drawn, and nothing is drawn. */
Test(kernels_command, options_are_judged_before_any_table)
{
	static const struct {
		const char *options, *part;
	} cases[] = {
		{"--tp-transport peer", "above 1"},
		{"--tp-transport nccl", "above 1"},
		{"-tp 0", "--tensor-parallel-size: found '0', expected an integer from 1 to "},
		{"-tp 3", "found 3, expected 1, 2, 4 or 8"},
		{"-tp 16", "--tensor-parallel-size"},
		{"-tp 2 --plot out.svg", "expected no --tensor-parallel-size above 1"},
		{"-tp 8 --plot out.svg", "expected no --tensor-parallel-size above 1"},
		{"-tp 2 --tp-transport nccl --plot out.svg", "expected no --tensor-parallel-size"},
		{"-tp 2 sampler", "sampler: --tensor-parallel-size 2 times the exchange"},
		{"sampler matmul -tp 4", "sampler: --tensor-parallel-size 4 times the exchange"},
	};
	static const char *const tables[] = {"", "--out out.tsv ", "--from table.tsv "};
	char line[256], path[TEMPORARY_PATH_BYTES + 16];

	for (uint32_t i = 0; i < 3 * sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(line, sizeof(line), "%s%s", tables[i % 3], cases[i / 3].options);
		require_refusal(header, table, line, cases[i / 3].part);
		snprintf(path, sizeof(path), "%s/out.svg", folder);
		cr_assert(!file_exists(path), "%s draws", line);
		snprintf(path, sizeof(path), "%s/out.tsv", folder);
		cr_assert(!file_exists(path), "%s writes", line);
	}
}
