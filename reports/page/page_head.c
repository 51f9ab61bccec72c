#include "reports/page/page_sections.h"

#include "engine/base/integer.h"
#include "engine/base/number.h"
#include "reports/figures/drawn_colors.h"
#include "reports/page/page_elements.h"

#include <string.h>

static void add_title(
	struct text *page, const struct result *results, uint32_t count, bool is_fidelity)
{
	if (count == 1) {
		text_add(page, results[0].label.bytes);
	} else if (is_fidelity) {
		text_add(page, "Simulated against real");
	} else {
		text_format(page, "%u replays compared", count);
	}
}

/* How many GPUs there were, if more than one. */
static void add_gpu_count(struct text *page, const struct result *result)
{
	const cJSON *ranks = json_find(&result->config, "tensor_parallel_size");

	if (cJSON_IsNumber(ranks) && ranks->valuedouble > 1) {
		page_json(page, ranks);
		text_add(page, " \u00d7 ");
	}
}

/* The GPU of the run, from provenance.json, or else the cost model's profile. */
static void add_gpu(struct text *page, const struct result *result)
{
	const struct json_object provenance = {.node = result->provenance.root};
	const cJSON *device =
		provenance.node != NULL ? json_find(&provenance, PROVENANCE_DEVICE) : NULL;

	if (cJSON_IsString(device)) {
		text_add_escaped(page, device->valuestring);
	} else {
		page_config_text(page, result, "gpu");
	}
}

const char *page_fleet_table(const struct result *result)
{
	const cJSON *fleet = json_find(&result->config, "fleet");
	bool has_groups = cJSON_IsString(fleet) && strcmp(fleet->valuestring, "none") != 0;

	return has_groups ? fleet->valuestring : NULL;
}

/* What the run was on. Replicas that differ have a GPU each, which the file names. */
static void add_machines(struct text *page, const struct result *result)
{
	if (page_fleet_table(result) != NULL) {
		text_add(page, "the replicas of ");
		text_add_escaped(page, page_fleet_table(result));
		return;
	}
	add_gpu_count(page, result);
	add_gpu(page, result);
}

/* A number of summary.json that only some results have; 0 where it is null or absent. */
static double number_in(const struct result *result, const char *section, const char *field)
{
	const cJSON *object = json_find(&result->root, section);
	const cJSON *node = cJSON_GetObjectItemCaseSensitive(object, field);

	return cJSON_IsNumber(node) ? node->valuedouble : 0;
}

/* What the figures are not of: requests left out at both ends, and a trace that was too short. */
static void add_window(struct text *page, const struct result *result)
{
	double warmup = number_in(result, "window", "warmup_requests");
	double cooldown = number_in(result, "window", "cooldown_requests");
	double ran_out = number_in(result, SUMMARY_TRACE, "ran_out_s");

	if (warmup + cooldown > 0) {
		text_add(page, "; measured from ");
		text_add_number(page, NUMBER_TIME_S, true, number_in(result, "window", "start_s"));
		text_add(page, " to ");
		text_add_number(page, NUMBER_TIME_S, true, number_in(result, "window", "end_s"));
		text_add(page, ", without ");
		text_add_count(page, (uint64_t)warmup, "request", "requests");
		text_add(page, " of the warm-up and ");
		text_add_number(page, NUMBER_COUNT, true, cooldown);
		text_add(page, " of the cooldown");
	}
	if (ran_out > 0) {
		text_add(page, " <span class=\"badge\">the trace ran out at ");
		text_add_number(page, NUMBER_TIME_S, true, ran_out);
		text_add(page, "</span>");
	}
}

/* A line that describes the run. */
static void add_run_line(struct text *page, const struct result *result)
{
	text_add(page, "<strong>");
	page_config_text(page, result, "model");
	text_add(page, "</strong> on <strong>");
	add_machines(page, result);
	text_add(page, "</strong> (runner ");
	page_config_text(page, result, "runner");
	text_add(page, ", policy ");
	page_config_text(page, result, "policy");
	text_add(page, "), trace <strong>");
	text_add_escaped(page, result->trace_name);
	text_add(page, "</strong> of ");
	page_value(page, result, VALUE_TRACE_REQUESTS);
	text_add(page, word_of_count((uint64_t)result->numbers[VALUE_TRACE_REQUESTS].value,
			       " request", " requests"));
	add_window(page, result);
	if (!result->is_calibrated) {
		text_add(page,
			" <span class=\"badge\" title=\"The times come from a cost model "
			"that was not checked against a run on this GPU.\">uncalibrated</span>");
	}
}

static bool has_same_run_line(const struct result *one, const struct result *other)
{
	struct text lines[2] = {{0}, {0}};

	add_run_line(&lines[0], one);
	add_run_line(&lines[1], other);
	bool is_same = strcmp(lines[0].bytes, lines[1].bytes) == 0;
	text_deinit(&lines[0]);
	text_deinit(&lines[1]);
	return is_same;
}

/* What all runs share stands once, then what each has of its own. */
static void add_run_lines(struct text *page, const struct result *results, uint32_t count)
{
	bool is_same = true;

	for (uint32_t i = 1; i < count; i++) {
		is_same = is_same && has_same_run_line(&results[0], &results[i]);
	}
	if (is_same) {
		text_add(page, "<p class=\"run\">");
		add_run_line(page, &results[0]);
		text_add(page, "</p>\n");
	}
	if (count == 1) {
		return;
	}
	text_add(page, "<ol class=\"runs\">\n");
	for (uint32_t i = 0; i < count; i++) {
		text_add(page, "<li>");
		page_name(page, &results[i], i);
		text_add(page, ": ");
		page_run_differences(page, results, count, i);
		if (!is_same) {
			text_add(page, "; ");
			add_run_line(page, &results[i]);
		}
		text_add(page, "</li>\n");
	}
	text_add(page, "</ol>\n");
}

static void add_contents(
	struct text *page, const struct result *results, uint32_t count, bool is_fidelity)
{
	text_add(page, "<nav aria-label=\"Contents\">");
	if (is_fidelity) {
		text_add(page, "<a href=\"#fidelity\">Errors</a> ");
	} else if (count > 1) {
		text_add(page, "<a href=\"#comparison\">Side by side</a> ");
	}
	text_add(page, page_has_levels(results, count) ? "<a href=\"#levels\">Levels</a> " : "");
	text_add(page, page_has_fleet(results, count) ? "<a href=\"#fleet\">Replicas</a> " : "");
	text_add(page, "<a href=\"#figures\">Figures</a> ");
	text_add(page, is_fidelity ? "" : "<a href=\"#latency\">Latency</a> ");
	text_add(page,
		"<a href=\"#totals\">Totals</a> <a href=\"#configuration\">Configuration</a> "
		"<a href=\"#provenance\">Provenance</a></nav>\n");
}

/* The style sheet's variables for the figures' colours, except their background, which the page
   does not use. */
static void add_drawn_colors(struct text *page)
{
	struct drawn_color colors[DRAWN_COLORS_MAX];
	uint32_t count = drawn_colors(colors);

	text_add(page, ":root {\n");
	for (uint32_t i = 0; i < count; i++) {
		if (strcmp(colors[i].name, "background") != 0) {
			text_format(page, "\t--%s: #%06x;\n", colors[i].name, colors[i].rgb);
		}
	}
	text_add(page, "}\n\n");
}

void page_open(struct text *page, const char *title, const char *kind, const char *style)
{
	text_add(page, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		       "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
		       "<meta name=\"color-scheme\" content=\"light dark\">\n"
		       /* Whatever the page's texts hold: nothing is loaded, nothing is sent. */
		       "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
		       "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n<title>");
	text_add_escaped(page, title);
	text_add(page, "</title>\n<style>\n");
	add_drawn_colors(page);
	text_add(page, style);
	text_format(page, "</style>\n</head>\n<body>\n<header>\n" PAGE_MARK "%s</p>\n", kind);
}

void page_open_titled(
	struct text *page, const char *what, const char *name, const char *kind, const char *style)
{
	struct text title = {0};

	text_add(&title, what);
	text_add(&title, ": ");
	text_add(&title, name);
	page_open(page, title.bytes, kind, style);
	text_add(page, "<h1>");
	text_add_escaped(page, title.bytes);
	text_add(page, "</h1>\n");
	text_deinit(&title);
}

void page_contents(struct text *page, const struct page_link *links)
{
	text_add(page, "<nav aria-label=\"Contents\">");
	for (uint32_t i = 0; links[i].target != NULL; i++) {
		text_format(page, "%s<a href=\"#%s\">%s</a>", i == 0 ? "" : " ", links[i].target,
			links[i].title);
	}
	text_add(page, "</nav>\n</header>\n<main>\n");
}

void page_head(struct text *page, const struct result *results, uint32_t count, bool is_fidelity,
	const char *style)
{
	struct text title = {0};

	add_title(&title, results, count, is_fidelity);
	text_add(&title, count == 1 ? " \u2013 replay report" : "");
	page_open(page, title.bytes, "replay report", style);
	text_deinit(&title);
	add_title(&title, results, count, is_fidelity);
	text_add(page, "<h1>");
	text_add_escaped(page, title.bytes);
	text_add(page, "</h1>\n");
	text_deinit(&title);
	add_run_lines(page, results, count);
	add_contents(page, results, count, is_fidelity);
	bool is_neutral = is_fidelity || page_traces_differ(results, count);
	text_add(
		page, is_neutral ? "</header>\n<main class=\"neutral\">\n" : "</header>\n<main>\n");
}

void page_banners(struct text *page, const struct result *results, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct result *result = &results[i];
		if (strcmp(result->status, "complete") == 0) {
			continue;
		}
		text_format(page, "<p class=\"banner\" role=\"alert\"><strong>%s</strong> ",
			result->status);
		if (count > 1) {
			page_name(page, result, i);
			text_add(page, ": ");
		}
		if (strcmp(result->status, "failed") == 0) {
			text_add(page, "The run broke off, and all figures end there: ");
			text_add_escaped(page, result->failure);
		} else {
			text_add(page, "The run was stopped by hand; all figures describe the part "
				       "before that.");
		}
		text_add(page, "</p>\n");
	}
	if (page_traces_differ(results, count)) {
		text_add(page,
			"<p class=\"banner\" role=\"alert\"><strong>different traces</strong> "
			"These runs served different requests. What differs between them comes "
			"from the traces as well as from the settings, so no difference is "
			"marked as better or worse.</p>\n");
	}
}

void page_caution(struct text *page)
{
	text_add(page, "<p class=\"caution\"><span class=\"badge\">uncalibrated</span> The "
		       "times come from a cost model that was not checked against a run on "
		       "this GPU: scheduling, cache hits and counts are exact for these "
		       "times, the times themselves are an estimate.</p>\n");
}

void page_note(struct text *page, const char *name, const char *note)
{
	if (note != NULL && note[0] != '\0') {
		text_add(page, "<p class=\"caution\">");
		text_add_escaped(page, name);
		text_add(page, ": ");
		text_add_escaped(page, note);
		text_add(page, ".</p>\n");
	}
}

/* Requests that were rejected for a reason, and what takes them: an option, or a column of the
   fleet's table. */
static void add_rejection(struct text *page, const struct result *result, uint64_t count,
	const char *exceeded, const char *option, const char *column, double needed)
{
	bool is_column = page_fleet_table(result) != NULL;

	text_add(page, "<p class=\"caution\">");
	text_add_escaped(page, result->label.bytes);
	text_add(page, ": ");
	text_add_count(page, count, "request (", "requests (");
	text_add_number(
		page, NUMBER_SHARE, true, (double)count / result->numbers[VALUE_SUBMITTED].value);
	text_format(page, ") %s %s and %s rejected; %s %.0f%s takes all.</p>\n",
		word_of_count(count, "exceeds", "exceed"), exceeded,
		word_of_count(count, "was", "were"), is_column ? column : option, needed,
		is_column ? " in every row of --fleet" : "");
}

static double number_of(const struct json_object *object, const char *field)
{
	const cJSON *node = json_find(object, field);

	return cJSON_IsNumber(node) ? node->valuedouble : 0;
}

static void add_rejections(struct text *page, const struct result *result)
{
	const cJSON *requests = json_find(&result->root, SUMMARY_REQUESTS);
	const cJSON *too_long =
		cJSON_GetObjectItemCaseSensitive(requests, SUMMARY_LONGEST_TOO_LONG);
	const cJSON *never_fits =
		cJSON_GetObjectItemCaseSensitive(requests, SUMMARY_LONGEST_NEVER_FITS);
	double block_size = number_of(&result->config, "block_size");

	if (cJSON_IsNumber(too_long)) {
		add_rejection(page, result,
			(uint64_t)result->numbers[VALUE_REJECTED_TOO_LONG].value, "max_model_len",
			"--max-model-len", "max_model_len", too_long->valuedouble);
	}
	if (cJSON_IsNumber(never_fits) && never_fits->valuedouble >= 1 && block_size > 0) {
		add_rejection(page, result,
			(uint64_t)result->numbers[VALUE_REJECTED_NEVER_FITS].value, "the KV pool",
			"--kv-blocks", "kv_blocks",
			/* the last token needs no K/V */
			(double)u64_divide_up(
				(uint64_t)never_fits->valuedouble - 1, (uint64_t)block_size));
	}
}

static void add_beyond_memory(struct text *page, const struct result *result)
{
	text_add(page, "<p class=\"caution\">");
	text_add_escaped(page, result->label.bytes);
	text_add(page, ": the run assumes ");
	text_add_count(
		page, (uint64_t)number_of(&result->config, "kv_blocks"), "KV block", "KV blocks");
	text_add(page, ", and the GPU\u2019s memory has room for ");
	text_add_number(
		page, NUMBER_COUNT, true, number_of(&result->root, SUMMARY_FOUND_KV_BLOCKS));
	text_add(page, ".</p>\n");
}

void page_calibration(struct text *page, const struct result *results, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		add_rejections(page, &results[i]);
		if (results[i].is_beyond_memory) {
			add_beyond_memory(page, &results[i]);
		}
		page_note(page, results[i].label.bytes, results[i].profile_note);
	}
	for (uint32_t i = 0; i < count; i++) {
		if (!results[i].is_calibrated) {
			page_caution(page);
			return;
		}
	}
	for (uint32_t i = 0; i < count; i++) {
		struct result_value outside = results[i].numbers[VALUE_OUTSIDE_TIME];
		if (outside.has_value && outside.value > OUTSIDE_MOST) {
			text_add(page, "<p class=\"caution\">");
			text_add_escaped(page, results[i].label.bytes);
			text_format(page,
				": %.1f %% of the time is in steps unlike those that the profile "
				"was fitted to. Their prices are a guess.</p>\n",
				outside.value * 100);
		}
	}
}
