#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/process.h"
#include "tests/harness/temporary.h"

/* `quire price` as its users run it. */

static char folder[TEMPORARY_PATH_BYTES];

static void set_up(void)
{
	temporary_folder(folder);
	free(quire_output(folder, 0,
		"trace make --preset chat --requests 40 --session-rate 30 --seed 4 --out "
		"@/t.jsonl"));
}

static void tear_down(void)
{
	temporary_remove(folder);
}

TestSuite(price_cli, .init = set_up, .fini = tear_down, .timeout = 60);

/* What a profile has priced it prices again: by a calibrated one, where steps are launched ahead,
   by one whose steps depend on those before, and by one of rates. */
Test(price_cli, finds_no_error_in_a_simulation_by_the_same_profile)
{
	static const char *const gpus[] = {"h200-qwen3-0.6b", "@/hot.json", "h200-datasheet"};

	struct process_result made = shell_run(folder,
		"sed -e '/\"heat\":/,/}/d' "
		"-e '1a \"heat\": {\"prompt\": 0.5, \"decode\": 0.5, \"decay_ns\": 5e6},' "
		"'" QUIRE_SOURCE_DIR "/sim/profiles/h200-qwen3-0.6b.json' > hot.json");
	cr_assert_eq(made.code, 0, "%s", made.err);
	process_result_free(&made);
	for (uint32_t i = 0; i < sizeof(gpus) / sizeof(gpus[0]); i++) {
		char order[512];
		snprintf(order, sizeof(order),
			"replay @/t.jsonl --replicas %u --gpu %s --steps --force --out @/sim",
			1 + i % 2, gpus[i]);
		free(quire_output(folder, 0, order));
		snprintf(order, sizeof(order),
			"price @/sim --gpu %s --out @/steps.txt && "
			"awk 'NR > 1 && ($3 != $4 || $5 != $6) {bad++} "
			"END {exit bad > 0 || NR < 100}' @/steps.txt",
			gpus[i]);
		char *text = quire_output(folder, 0, order);
		cr_assert(strstr(text, "+0.00     0.00   +0.00") != NULL, "%s", text);
		free(text);
	}
}

Test(price_cli, says_what_it_needs)
{
	static const struct {
		const char *order, *words;
	} cases[] = {
		{"price @/none", "none/summary.json"},
		{"price @/sim", "sim/steps.tsv: is not there; quire replay --steps records"},
		{"price @/sim --gpu h200-qwen3-8b",
			"calibrated with qwen3-8b and prices no other model, found qwen3-0.6b"},
		{"price @/sim --model nothing", "nothing"},
		{"price", "expected: quire price DIR"},
	};

	free(quire_output(folder, 0, "replay @/t.jsonl --out @/sim"));
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *text = quire_output(folder, 2, cases[i].order);
		cr_assert(strstr(text, cases[i].words) != NULL, "%s: %s", cases[i].order, text);
		free(text);
	}
}

Test(price_cli, refuses_ranks_that_do_not_divide_the_model)
{
	free(quire_output(folder, 0, "replay @/t.jsonl --steps --out @/sim"));
	char *text = quire_output(folder, 2,
		"price @/sim --gpu h200-datasheet 2>/dev/null >/dev/null && sed -i "
		"'s/\"tensor_parallel_size\":\t1/\"tensor_parallel_size\":\t5/' "
		"@/sim/summary.json && " QUIRE_EXECUTABLE " price @/sim --gpu h200-datasheet");
	cr_assert(strstr(text, "5") != NULL && strstr(text, "heads") != NULL, "%s", text);
	free(text);
}

Test(price_cli, names_the_line_of_a_step_that_no_run_recorded)
{
	free(quire_output(folder, 0, "replay @/t.jsonl --steps --out @/sim"));
	struct process_result result = shell_run(folder,
		"awk 'BEGIN {OFS = \"\\t\"} NR == 5 {$5 = $3 + 1} {print}' sim/steps.tsv > s && "
		"mv s sim/steps.tsv && '%s' price sim",
		QUIRE_EXECUTABLE);
	cr_assert_eq(result.code, 2);
	cr_assert(strstr(result.err, "steps.tsv:5: column host_ns: found '") != NULL, "%s",
		result.err);
	process_result_free(&result);
}
