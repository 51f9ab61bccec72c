#include "tests/fuzz/targets.h"

#include <cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/compare/compare.h"
#include "reports/figures/figures.h"
#include "reports/page/page.h"
#include "reports/results/fidelity.h"
#include "reports/results/result.h"
#include "tests/fuzz/sections.h"
#include "tests/harness/made_result.h"
#include "tests/harness/require.h"

#define RESULT_FILES(folder)                                                                       \
	folder "/" RESULT_SUMMARY, folder "/" RESULT_PROVENANCE, folder "/" RESULT_STEPS,          \
		folder "/" RESULT_TIMELINE, folder "/" RESULT_STEP_GRID,                           \
		folder "/" RESULT_LATENCY, folder "/" RESULT_REQUESTS, folder "/" RESULT_KERNELS,  \
		folder "/" RESULT_KERNEL_PHASES, folder "/" RESULT_KERNEL_TIMELINE

static const char *const names[] = {RESULT_FILES("a"), RESULT_FILES("b"), NULL};

/* The comparison as a table and as JSON, which must be JSON. */
static bool compare(const char *a, const char *b)
{
	struct comparison comparison;
	struct error error = {0};
	char *text = NULL;
	size_t byte_count = 0;
	enum status status = comparison_open(&comparison, a, b, &error);

	require_refused_in_one_line(status, &error);
	if (status != STATUS_OK) {
		return false;
	}
	FILE *file = open_memstream(&text, &byte_count);
	comparison_print(&comparison, file);
	rewind(file);
	comparison_print_json(&comparison, file);
	fclose(file);
	cJSON *root = cJSON_ParseWithLength(text, byte_count);
	require(cJSON_IsObject(root), "no JSON: '%s'", text);
	cJSON_Delete(root);
	free(text);
	comparison_close(&comparison);
	return true;
}

/* The page, with the same drawing for every figure, since gnuplot would take seconds. */
static bool write_page(struct result *results)
{
	static char svg[] = "<svg viewBox=\"0 0 9 9\"><path id=\"p\" d=\"M0 0\"/></svg>";
	struct figure_drawing drawings[VIEW_COUNT][FIGURES_MAX] = {0};
	struct fidelity fidelity;
	struct text page = {0};
	struct error error = {0};
	bool is_pair = fidelity_is_pair(&results[0], &results[1]);
	enum status status = fidelity_open(&fidelity, &results[0], &results[1], &error);

	require_refused_in_one_line(status, &error);
	for (uint32_t i = 0; i < FIGURES_MAX; i++) {
		drawings[VIEW_MAIN][i].svg =
			(struct text){.bytes = svg, .byte_count = sizeof(svg) - 1};
	}
	bool has_fidelity = is_pair && status == STATUS_OK;
	error = (struct error){0};
	page_name_runs(results, 2, has_fidelity);
	const struct page_request request = {.results = results,
		.count = 2,
		.fidelity = has_fidelity ? &fidelity : NULL,
		.drawings = drawings,
		.style = "",
		.script = ""};
	status = page_write(&page, &request, &error);
	require_refused_in_one_line(status, &error);
	require(page.bytes == NULL || occurrences(page.bytes, "<script") == 2, "a script");
	text_deinit(&page);
	return status == STATUS_OK;
}

static bool read_and_write_page(const char *a, const char *b)
{
	struct result results[2] = {0};
	bool is_written = false;
	struct error error = {0};
	enum status status = result_open(&results[0], a, &error);

	require_refused_in_one_line(status, &error);
	if (status == STATUS_OK) {
		status = result_open(&results[1], b, &error);
		require_refused_in_one_line(status, &error);
	}
	if (status == STATUS_OK) {
		results_label(results, 2);
		is_written = write_page(results);
	}
	result_close(&results[0]);
	result_close(&results[1]);
	return is_written;
}

bool fuzz_result(const uint8_t *bytes, size_t byte_count)
{
	char folder[TEMPORARY_PATH_BYTES], a[SECTIONS_PATH_BYTES], b[SECTIONS_PATH_BYTES];

	sections_unpack(bytes, byte_count, names, folder);
	sections_path(a, folder, "a");
	sections_path(b, folder, "b");
	bool is_compared = compare(a, b);
	bool is_written = read_and_write_page(a, b);
	sections_remove(folder);
	return is_compared && is_written;
}
