#include "reports/results/fidelity.h"
#include "reports/page/page.h"
#include "reports/page/page_sections.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* Two result folders whose figures are drawn, with nothing, zeros and very large and small numbers
   among them, and what is said of their errors, compared with a naive reading of the same folders:
   every line of the table is reckoned again from the two summaries and step tables. */

enum { STEPS_MAX = 6, WORK_COLUMNS = 7, PATH_BYTES = TEMPORARY_PATH_BYTES + 32 };

struct step {
	uint32_t work[WORK_COLUMNS]; /* decode_rows, prefill_rows and the rest */
	uint32_t elapsed_ns;
};

struct side {
	char folder[PATH_BYTES];
	cJSON *summary;
	bool has_steps;
	uint32_t step_count;
	struct step steps[STEPS_MAX];
};

struct trial {
	char root[TEMPORARY_PATH_BYTES];
	struct side real, sim;
};

/* ---- drawing ---- */

static cJSON *draw_number(struct prop *prop, bool may_be_null)
{
	static const double extremes[] = {5e-324, 1e-300, 0.1, 1e15, 1e300};

	switch (prop_below(prop, 6)) {
	case 0:
		return cJSON_CreateNumber(0);
	case 1:
		return may_be_null ? cJSON_CreateNull() : cJSON_CreateNumber(1);
	case 2:
		return cJSON_CreateNumber(extremes[prop_below(prop, 5)]);
	default:
		return cJSON_CreateNumber(prop_range(prop, 1, 9) / 4.0);
	}
}

static cJSON *section_of(cJSON *root, const char *name)
{
	if (*name == '\0') {
		return root;
	}
	cJSON *section = cJSON_GetObjectItemCaseSensitive(root, name);
	return section != NULL ? section : cJSON_AddObjectToObject(root, name);
}

static void draw_numbers(struct prop *prop, cJSON *root)
{
	for (uint32_t i = 0; i < RESULT_NUMBER_COUNT; i++) {
		const struct metric *row = &metrics_table[i];
		cJSON_AddItemToObject(section_of(root, row->section), row->field,
			draw_number(prop, row->is_optional));
	}
	cJSON *latency = section_of(root, "latency_ms");
	for (uint32_t i = 0; i < LATENCY_COUNT; i++) {
		for (uint32_t j = 0; j < STATISTIC_COUNT; j++) {
			cJSON_AddItemToObject(section_of(latency, latency_names[i]),
				latency_statistics[j], draw_number(prop, true));
		}
	}
}

/* Fields that are not checked when a result is opened. */
static void draw_blocks(struct prop *prop, cJSON *object, const char *field)
{
	switch (prop_below(prop, 5)) {
	case 0:
		return;
	case 1:
		cJSON_AddStringToObject(object, field, "many");
		return;
	case 2:
		cJSON_AddNumberToObject(object, field, -1);
		return;
	case 3:
		cJSON_AddNumberToObject(object, field, 1e300);
		return;
	default:
		cJSON_AddNumberToObject(object, field, prop_range(prop, 0, 3));
	}
}

static void draw_summary(struct prop *prop, struct side *side, const char *runner)
{
	cJSON *root = cJSON_CreateObject();
	char *text;

	cJSON_AddStringToObject(root, "schema", "quire-result-2");
	cJSON_AddStringToObject(root, "status", "complete");
	cJSON_AddStringToObject(section_of(root, "config"), "runner", runner);
	draw_blocks(prop, section_of(root, "config"), "kv_blocks");
	draw_blocks(prop, root, "found_kv_blocks");
	cJSON_AddStringToObject(section_of(root, "trace"), "name", "t");
	cJSON_AddStringToObject(section_of(root, "trace"), "xxh64", "00");
	cJSON_AddBoolToObject(root, "calibrated", true);
	cJSON_AddStringToObject(section_of(root, "load"), "verdict", "stable");
	cJSON_AddStringToObject(root, "result_hash", "00");
	draw_numbers(prop, root);
	text = cJSON_Print(root);
	temporary_write(side->folder, "summary.json", text, NULL);
	/* What a reader finds, which may be less exact than what was drawn. */
	side->summary = cJSON_Parse(text);
	require(side->summary != NULL, "no JSON: %s", text);
	cJSON_free(text);
	cJSON_Delete(root);
}

static void draw_step(struct prop *prop, struct step *step)
{
	for (uint32_t i = 0; i < WORK_COLUMNS; i++) {
		step->work[i] = i < 2 || prop_chance(prop, 1, 8) ? prop_range(prop, 0, 1) : 0;
	}
	step->elapsed_ns = prop_range(prop, 0, 4);
}

static void write_steps(const struct side *side)
{
	char text[4096] = "step\telapsed_ns\tmode\tdecode_rows\tprefill_rows\tprefill_tokens\t"
			  "cached_tokens\tdecode_context_tokens\tprefill_attention_pairs\t"
			  "sampled_rows\n";
	size_t used = strlen(text);

	for (uint32_t i = 0; i < side->step_count; i++) {
		const struct step *step = &side->steps[i];
		used += (size_t)snprintf(
			text + used, sizeof(text) - used, "%u\t%u\tnone", i, step->elapsed_ns);
		for (uint32_t j = 0; j < WORK_COLUMNS; j++) {
			used += (size_t)snprintf(
				text + used, sizeof(text) - used, "\t%u", step->work[j]);
		}
		used += (size_t)snprintf(text + used, sizeof(text) - used, "\n");
	}
	temporary_write(side->folder, "steps.tsv", text, NULL);
}

/* like: most steps do what this side's do; NULL: all are drawn. */
static void draw_side(struct prop *prop, struct side *side, const char *root, const char *name,
	const char *runner, const struct side *like)
{
	snprintf(side->folder, sizeof(side->folder), "%s/%s", root, name);
	require(mkdir(side->folder, 0777) == 0, "mkdir");
	temporary_write(side->folder, "timeline.tsv",
		"time_s\twidth_s\trunning\twaiting\tused_blocks\thit_tokens\tquery_tokens\t"
		"output_tokens\tprefill_tokens\tpreemptions\tsteps\tbusy_share\t"
		"wait_step\twait_seats\twait_blocks\twait_budget\twait_order\twait_router\twait_"
		"lost\n",
		NULL);
	temporary_write(side->folder, "step_grid.tsv",
		"decode_rows_low\tdecode_rows_high\tprefill_tokens_low\tprefill_tokens_high\t"
		"steps\tmean_ns\tmax_ns\n",
		NULL);
	temporary_write(side->folder, "latency.tsv", "metric\tupper_ns\tcount\n", NULL);
	draw_summary(prop, side, runner);
	side->has_steps = !prop_chance(prop, 1, 8);
	side->step_count = prop_range(prop, 0, STEPS_MAX);
	for (uint32_t i = 0; i < side->step_count; i++) {
		draw_step(prop, &side->steps[i]);
		if (like != NULL && i < like->step_count && !prop_chance(prop, 1, 6)) {
			memcpy(side->steps[i].work, like->steps[i].work,
				sizeof(side->steps[i].work));
		}
	}
	if (side->has_steps) {
		write_steps(side);
	}
}

/* ---- the naive reading ---- */

static const char *const kinds[] = {"decode", "prompt", "mixed"};

static uint32_t kind_of(const struct step *step)
{
	return step->work[1] == 0 ? 0 : step->work[0] == 0 ? 1 : 2;
}

/* steps.KIND.count or step_ms.KIND.mean. */
static bool step_figure(const struct side *side, const char *name, double *out)
{
	bool is_count = strncmp(name, "steps.", 6) == 0;
	uint32_t count = 0;
	double ns = 0;

	for (uint32_t i = 0; i < side->step_count; i++) {
		const char *kind = kinds[kind_of(&side->steps[i])];
		if (strncmp(strchr(name, '.') + 1, kind, strlen(kind)) == 0) {
			count++;
			ns += side->steps[i].elapsed_ns;
		}
	}
	*out = is_count ? count : count == 0 ? 0 : ns / count / 1e6;
	return is_count || count > 0;
}

static bool summary_figure(const struct side *side, const char *name, double *out)
{
	const cJSON *node = side->summary;
	char path[128], *rest = path;

	snprintf(path, sizeof(path), "%s", name);
	for (char *part; (part = strsep(&rest, ".")) != NULL;) {
		node = cJSON_GetObjectItemCaseSensitive(node, part);
	}
	bool is_there = cJSON_IsNumber(node) && node->valuedouble >= 0;
	*out = is_there ? node->valuedouble : 0;
	return is_there;
}

static bool is_of_steps(const char *name)
{
	return strncmp(name, "steps.", 6) == 0 || strncmp(name, "step_ms.", 8) == 0;
}

static bool figure_of(const struct side *side, const char *name, double *out)
{
	return is_of_steps(name) ? step_figure(side, name, out) : summary_figure(side, name, out);
}

/* The line that the table should have for a figure. */
static void expected_line(const struct trial *trial, const char *name, char *line, size_t size)
{
	double real, sim;
	char cells[3][400] = {"-", "-", "-"};
	bool has_real = figure_of(&trial->real, name, &real);
	bool has_sim = figure_of(&trial->sim, name, &sim);

	if (has_real) {
		snprintf(cells[0], sizeof(cells[0]), "%.15g", real);
	}
	if (has_sim) {
		snprintf(cells[1], sizeof(cells[1]), "%.15g", sim);
	}
	if (has_real && has_sim && (real > 0 ? isfinite(sim / real) : sim <= 0)) {
		snprintf(cells[2], sizeof(cells[2]), "%.6f", real > 0 ? sim / real - 1 : 0);
	}
	snprintf(line, size, "%s\t%s\t%s\t%s", name, cells[0], cells[1], cells[2]);
}

/* The steps of the same work, from the first on. */
static uint32_t same_steps(const struct trial *trial, char *error, size_t size)
{
	uint32_t same = 0, timed = 0;
	double sum = 0;

	while (same < trial->real.step_count && same < trial->sim.step_count &&
		memcmp(trial->real.steps[same].work, trial->sim.steps[same].work,
			sizeof(trial->real.steps[same].work)) == 0) {
		double real = trial->real.steps[same].elapsed_ns;
		sum += real > 0 ? fabs(trial->sim.steps[same].elapsed_ns - real) / real : 0;
		timed += real > 0;
		same++;
	}
	snprintf(error, size, "-");
	if (timed > 0) {
		snprintf(error, size, "%.6f", sum / timed);
	}
	return same;
}

/* ---- the demands ---- */

static char *table_of(const struct fidelity *fidelity)
{
	char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);

	require(file != NULL, "no memory");
	fidelity_print(fidelity, file);
	fclose(file);
	return text;
}

static void check_same(const struct trial *trial, const char *name, const char *line)
{
	char error[64], expected[128];
	uint32_t same = same_steps(trial, error, sizeof(error));

	if (strcmp(name, "steps.same.count") == 0) {
		snprintf(expected, sizeof(expected), "%s\t%u\t%u\t0", name, same, same);
		require(strcmp(line, expected) == 0, "'%s', not '%s'", line, expected);
	} else if (strcmp(name, "step_ms.same.mean_absolute_error") == 0) {
		snprintf(expected, sizeof(expected), "%s\t-\t-\t%s", name, error);
		require(strcmp(line, expected) == 0, "'%s', not '%s'", line, expected);
	}
}

/* Every line is right; returns how many there are. The text is cut up. */
static uint32_t check_lines(const struct trial *trial, char *table)
{
	uint32_t lines = 0;
	char *rest = table;

	for (char *line; (line = strsep(&rest, "\n")) != NULL && *line != '\0'; lines++) {
		char name[128] = "", expected[1400];
		if (lines == 0) {
			require(strcmp(line, "metric\treal\tsim\terror") == 0, "%s", line);
			continue;
		}
		memcpy(name, line, strcspn(line, "\t"));
		if (strstr(name, ".same.") != NULL) {
			check_same(trial, name, line);
			continue;
		}
		expected_line(trial, name, expected, sizeof(expected));
		require(strcmp(line, expected) == 0, "'%s', not '%s'", line, expected);
	}
	return lines;
}

/* Whatever is missing, no figure that has to be good loses its line. */
static void check_names(const char *table)
{
	static const char *const names[] = {"throughput.output_tokens_per_s", "time.makespan_s",
		"prefix_cache.hit_rate", "preemptions", "time.steps", "config.kv_blocks",
		"found_kv_blocks"};

	for (uint32_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char start[64];
		snprintf(start, sizeof(start), "\n%s\t", names[i]);
		require(strstr(table, start) != NULL, "no line for %s", names[i]);
	}
	for (uint32_t i = 0; i < LATENCY_COUNT * STATISTIC_COUNT; i++) {
		char start[64];
		if (!latency_is_main[i % STATISTIC_COUNT]) {
			continue;
		}
		snprintf(start, sizeof(start), "\nlatency_ms.%s.%s\t",
			latency_names[i / STATISTIC_COUNT],
			latency_statistics[i % STATISTIC_COUNT]);
		require(strstr(table, start) != NULL, "no line for %s", start + 1);
	}
}

static uint32_t count_of(const char *text, const char *part)
{
	uint32_t count = 0;

	for (; (text = strstr(text, part)) != NULL; text += strlen(part)) {
		count++;
	}
	return count;
}

/* The page colours each row of the table that both runs have, and each latency; what came from 0 is
   not passed over. */
static void check_page(const struct fidelity *fidelity, const char *page)
{
	struct fidelity_row rows[FIDELITY_ROWS_MAX];
	uint32_t count = fidelity_rows(fidelity, rows), from_zero = 0, shown = 0;
	const char *tables = strstr(page, "<h3>Latencies");

	for (uint32_t i = 0; i < count; i++) {
		from_zero +=
			!rows[i].error.has_value && rows[i].real.has_value && rows[i].sim.has_value;
		shown += strncmp(rows[i].name, SUMMARY_LATENCY_MS, strlen(SUMMARY_LATENCY_MS)) ==
				 0 ||
			 (rows[i].real.has_value && rows[i].sim.has_value);
	}
	require(tables != NULL, "no tables");
	require_equal(count_of(tables, "<strong class=\"error "), shown);
	require_equal(count_of(tables, "<strong class=\"error poor\">from 0</strong>"), from_zero);
	require(strstr(page, "nan") == NULL && strstr(page, "inf") == NULL, "%s", page);
}

/* What is said does not depend on which folder is named first. */
static void check_errors(struct trial *trial, struct result *first, struct result *second)
{
	struct error error = {0};
	struct fidelity fidelity, swapped;
	struct text page = {0}, other_page = {0};

	require(fidelity_open(&fidelity, first, second, &error) == STATUS_OK, "%s", error.text);
	require(fidelity_open(&swapped, second, first, &error) == STATUS_OK, "%s", error.text);
	require_equal(fidelity.has_steps, trial->real.has_steps && trial->sim.has_steps);
	require(fidelity.real == first && swapped.real == first, "the real run is mistaken");
	char *table = table_of(&fidelity), *other = table_of(&swapped);
	require(strcmp(table, other) == 0, "the order of the folders matters");
	check_names(table);
	uint32_t rows = check_lines(trial, table);
	struct fidelity_row all[FIDELITY_ROWS_MAX];
	require_equal(rows, 1 + fidelity_rows(&fidelity, all) + (fidelity.has_steps ? 3 : 0));
	page_fidelity(&page, &fidelity);
	page_fidelity(&other_page, &swapped);
	require(strcmp(page.bytes, other_page.bytes) == 0, "the order of the folders matters");
	check_page(&fidelity, page.bytes);
	text_deinit(&page);
	text_deinit(&other_page);
	free(table);
	free(other);
}

static void errors_are_those_of_a_naive_reading(struct prop *prop, const void *context)
{
	struct trial *trial = calloc(1, sizeof(*trial));
	struct result results[2];
	struct error error = {0};

	(void)context;
	require(trial != NULL, "no memory");
	temporary_folder(trial->root);
	/* results without a kind of their runner are of the kind of its name */
	draw_side(prop, &trial->real, trial->root, "real",
		prop_chance(prop, 1, 2) ? "cuda" : "reference", NULL);
	draw_side(prop, &trial->sim, trial->root, "sim", prop_chance(prop, 1, 2) ? "sim" : "tape",
		&trial->real);
	const char *folders[] = {trial->real.folder, trial->sim.folder};
	for (uint32_t i = 0; i < 2; i++) {
		require(result_open(&results[i], folders[i], &error) == STATUS_OK, "%s",
			error.text);
	}
	results_label(results, 2);
	page_name_runs(results, 2, true);
	check_errors(trial, &results[0], &results[1]);
	result_close(&results[0]);
	result_close(&results[1]);
	cJSON_Delete(trial->real.summary);
	cJSON_Delete(trial->sim.summary);
	temporary_remove(trial->root);
	free(trial);
}

Test(fidelity, errors_are_those_of_a_naive_reading)
{
	const struct prop_options options = {.name = "errors_are_those_of_a_naive_reading",
		.body = errors_are_those_of_a_naive_reading,
		.trials = 300};

	cr_assert(prop_holds(&options));
}

/* What computes and what it computes with is of the runner, and so is what the clock allows. All
   else that differs is named, one by one and in the order of the real run's configuration. */
Test(fidelity, settings_of_the_runner_may_differ_and_others_are_named)
{
	static const struct {
		const char *name;
		bool is_of_runner;
	} settings[] = {{"runner", true}, {"policy", false}, {"gpu", true}, {"weights", true},
		{"kv_blocks", false}, {"dtype", true}, {"kernels", true}, {"enforce_eager", true},
		{"model", false}, {"shared_prefix_attention", true},
		{"gpu_memory_utilization", true}, {"temperature", true}, {"clock", true},
		{"seed", false}, {"overlap", true}, {"kernel_times", false}, {"tp_transport", true},
		{"engine_process", true}, {"router", false}};
	enum { COUNT = sizeof(settings) / sizeof(settings[0]) };
	cJSON *configs[2] = {cJSON_CreateObject(), cJSON_CreateObject()};
	struct result real = {0}, sim = {0};
	const struct fidelity fidelity = {.real = &real, .sim = &sim};

	for (uint32_t i = 0; i < COUNT; i++) {
		cJSON_AddNumberToObject(configs[0], settings[i].name, i);
		cJSON_AddNumberToObject(configs[1], settings[i].name, i);
	}
	cJSON_AddNumberToObject(configs[0], "only_here", 1);
	cJSON_AddNumberToObject(configs[1], "only_there", 1);
	real.config.node = configs[0];
	sim.config.node = configs[1];
	require(fidelity_other_setting(&fidelity, 0) == NULL, "equal settings differ");
	for (uint32_t i = 0; i < COUNT; i++) {
		cJSON_SetNumberValue(
			cJSON_GetObjectItemCaseSensitive(configs[1], settings[i].name), 100 + i);
	}
	uint32_t named = 0;
	for (uint32_t i = 0; i < COUNT; i++) {
		if (!settings[i].is_of_runner) {
			const char *found = fidelity_other_setting(&fidelity, named++);
			require(found != NULL && strcmp(found, settings[i].name) == 0,
				"found %s, expected %s", found == NULL ? "none" : found,
				settings[i].name);
		}
	}
	require(fidelity_other_setting(&fidelity, named) == NULL, "%s is named too",
		fidelity_other_setting(&fidelity, named));
	cJSON_Delete(configs[0]);
	cJSON_Delete(configs[1]);
}

Test(fidelity, relative_errors)
{
	static const struct {
		double base, value;
		bool has_value;
		double error;
	} cases[] = {{4, 5, true, 0.25}, {4, 0, true, -1}, {0, 0, true, 0}, {0, 3, false, 0},
		{5e-324, 1e300, false, 0}, {1e300, 5e-324, true, -1}, {3, 3, true, 0}};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct result_value found = relative_error(cases[i].base, cases[i].value);
		require_equal(found.has_value, cases[i].has_value);
		require(fabs(found.value - cases[i].error) <= 0, "case %u: %g", i, found.value);
	}
}
