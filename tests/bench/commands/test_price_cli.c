#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/process.h"
#include "tests/harness/require.h"
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

static const char note_of_same[] = "its steps were priced by this profile";

/* What a profile has priced it prices again, and a note says so: by a calibrated one, where steps
   are launched ahead, by one whose steps depend on those before, and by one of rates; and where
   steps have no rows, by policy vllm. */
Test(price_cli, finds_no_error_in_a_simulation_by_the_same_profile)
{
	static const char *const gpus[] = {
		"h200-qwen3-0.6b", "@/hot.json", "h200-datasheet", "h200-datasheet"};
	static const char *const policies[] = {"mixed", "mixed", "mixed", "vllm"};

	struct process_result made = shell_run(folder,
		"sed -e '/\"heat\":/,/}/d' "
		"-e '1a \"heat\": {\"form\": \"mean-square\", \"prompt\": 0.5, \"decode\": 0.5, "
		"\"decay_ns\": 5e6},' "
		"'" QUIRE_SOURCE_DIR "/sim/profiles/h200-qwen3-0.6b.json' > hot.json");
	cr_assert_eq(made.code, 0, "%s", made.err);
	process_result_free(&made);
	for (uint32_t i = 0; i < sizeof(gpus) / sizeof(gpus[0]); i++) {
		char order[512];
		snprintf(order, sizeof(order),
			"replay @/t.jsonl --replicas %u --gpu %s --policy %s --steps --force "
			"--out @/sim",
			1 + i % 2, gpus[i], policies[i]);
		free(quire_output(folder, 0, order));
		snprintf(order, sizeof(order),
			"price @/sim --gpu %s --out @/steps.txt && "
			"awk 'NR > 1 && ($3 != $4 || $5 != $6) {bad++} "
			"END {exit bad > 0 || NR < 100}' @/steps.txt",
			gpus[i]);
		char *text = quire_output(folder, 0, order);
		cr_assert(strstr(text, "+0.00     0.00   +0.00") != NULL, "%s", text);
		cr_assert(strstr(text, note_of_same) != NULL, "%s", text);
		free(text);
	}
	char *text = quire_output(folder, 0, "price @/sim --gpu h200-qwen3-0.6b");
	cr_assert(strstr(text, note_of_same) == NULL, "%s", text);
	free(text);
}

Test(price_cli, says_that_a_simulation_scaled_its_prices)
{
	free(quire_output(
		folder, 0, "replay @/t.jsonl --steps --step-time-scale 1.25 --out @/slow"));
	char *text = quire_output(folder, 0, "price @/slow");
	cr_assert(strstr(text, note_of_same) != NULL &&
			  strstr(text, "and multiplied by 1.25 (--step-time-scale)") != NULL &&
			  strstr(text, "-20.00    20.00  -20.00") != NULL,
		"%s", text);
	free(text);
	free(quire_output(folder, 0, "replay @/t.jsonl --steps --out @/sim"));
	text = quire_output(folder, 0, "price @/sim");
	cr_assert(strstr(text, "multiplied") == NULL, "%s", text);
	free(text);
}

Test(price_cli, says_what_it_needs)
{
	static const struct {
		const char *order, *words;
	} cases[] = {
		{"price @/none", "none: is no result folder: it has no summary.json"},
		{"price @/sim",
			"sim: the run recorded no steps; repeat it with quire replay --steps"},
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

/* Steps of older engines lack some counts; what a price needs is asked for by its name. */
Test(price_cli, needs_some_columns_of_the_steps)
{
	static const char *const required[] = {"step", "start_ns", "elapsed_ns", "host_ns",
		"decode_rows", "prefill_rows", "prefill_tokens", "decode_context_tokens",
		"prefill_attention_pairs", "sampled_rows"};
	uint32_t refused = 0;

	free(quire_output(folder, 0, "replay @/t.jsonl --steps --out @/sim"));
	for (uint32_t column = 1;; column++) {
		struct process_result result = shell_run(folder,
			"head -1 sim/steps.tsv | cut -sf %u | tr -d '\n'; mkdir -p cut && "
			"cp sim/summary.json cut && cut --complement -f %u sim/steps.tsv "
			">cut/steps.tsv && '%s' price cut >priced",
			column, column, QUIRE_EXECUTABLE);
		bool is_required = false;
		if (result.out[0] == '\0') {
			process_result_free(&result);
			break;
		}
		for (uint32_t i = 0; i < 10; i++) {
			is_required |= strcmp(result.out, required[i]) == 0;
		}
		require(result.code == (is_required ? 2 : 0), "%s: %d: %s", result.out, result.code,
			result.err);
		require(!is_required || strstr(result.err, result.out) != NULL, "%s", result.err);
		refused += is_required;
		process_result_free(&result);
	}
	require_equal(refused, 10);
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

/* A result names a profile that is a file, not its folder, which is another on another machine. */
Test(price_cli, results_do_not_tell_where_a_profile_lies)
{
	static const char *const places[] = {"here", "there"};

	for (uint32_t i = 0; i < 2; i++) {
		const char *place = places[i];
		struct process_result made = shell_run(folder,
			"quire() { '" QUIRE_EXECUTABLE "' \"$@\" --gpu \"$PWD/%s/p.json\"; } && "
			"mkdir %s && cp '" QUIRE_SOURCE_DIR
			"/tests/fixtures/calibrated_profile.json' %s/p.json && "
			"quire replay t.jsonl --steps --out %s/run && "
			"quire replay t.jsonl --runner tape --tape %s/run --out %s/again && "
			"quire plan t.jsonl --slo-ttft-ms 900 --replicates 0 --precision 0.5 "
			"--out %s/plan && "
			"quire sweep t.jsonl --grid max-num-seqs=8,16 --out %s/sweep",
			place, place, place, place, place, place, place, place);
		cr_assert_eq(made.code, 0, "%s", made.err);
		process_result_free(&made);
	}
	struct process_result same = shell_run(folder,
		"for f in run/summary.json again/summary.json plan/plan.json sweep/sweep.json; do "
		"cmp here/$f there/$f || exit 1; ! grep -l here/ here/$f || exit 1; done");
	cr_assert_eq(same.code, 0, "%s%s", same.out, same.err);
	process_result_free(&same);
}

/* Without prefill_shared_tokens shared tokens are those of all that ran, more than the rows of a
   step may have. */
Test(price_cli, reads_what_older_engines_counted_as_shared)
{
	free(quire_output(folder, 0, "replay @/t.jsonl --steps --out @/old"));
	struct process_result made = shell_run(folder,
		"awk -F'\\t' -v OFS='\\t' 'NR == 1 {for (i = 1; i <= NF; i++) {at[$i] = i} "
		"$at[\"prefill_shared_tokens\"] = \"other\"} NR > 1 {$at[\"shared_tokens\"] = "
		"999999; $at[\"reread_tokens\"] = 888888} {print}' old/steps.tsv > old/t && "
		"mv old/t old/steps.tsv && grep -c 999999 old/steps.tsv");
	cr_assert(made.code == 0 && strtoul(made.out, NULL, 10) > 1, "%s%s", made.out, made.err);
	process_result_free(&made);
	free(quire_output(folder, 0, "price @/old --gpu h200-qwen3-0.6b"));
	made = shell_run(
		folder, "sed -i '1s/\\tother\\t/\\tprefill_shared_tokens\\t/' old/steps.tsv");
	process_result_free(&made);
	char *text = quire_output(folder, 2, "price @/old --gpu h200-qwen3-0.6b");
	cr_assert(strstr(text, "column shared_tokens: found '999999'") != NULL, "%s", text);
	free(text);
}

/* What was fitted to no steps has no inside. */
Test(price_cli, says_that_a_profile_of_rates_was_fitted_to_nothing)
{
	free(quire_output(folder, 0, "replay @/t.jsonl --steps --out @/sim"));
	char *text = quire_output(folder, 0, "price @/sim --gpu h200-datasheet --out @/each.tsv");
	cr_assert(strstr(text, "fitted to no steps") != NULL, "%s", text);
	cr_assert(strstr(text, "what the profile was fitted to") == NULL, "%s", text);
	free(text);
	struct process_result each =
		shell_run(folder, "awk 'NR == 1 {at = $8} NR > 1 && $8 != \"-\" {bad = 1} "
				  "END {exit bad || at != \"outside\" || NR < 2}' each.tsv");
	cr_assert_eq(each.code, 0);
	process_result_free(&each);
	text = quire_output(folder, 0, "price @/sim");
	cr_assert(strstr(text, "what the profile was fitted to") != NULL, "%s", text);
	cr_assert(strstr(text, "fitted to no steps") == NULL, "%s", text);
	free(text);
	/* where the name of a GPU finds no calibrated profile, beside the note that says so */
	free(quire_output(
		folder, 0, "replay @/t.jsonl --model qwen3-8b -tp 4 --steps --out @/four"));
	text = quire_output(folder, 0, "price @/four");
	cr_assert(strstr(text, "\nuncalibrated: ") != NULL, "%s", text);
	cr_assert(strstr(text, "fitted to no steps") != NULL, "%s", text);
	free(text);
}
