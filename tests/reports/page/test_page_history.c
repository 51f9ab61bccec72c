#include <cJSON.h>
#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/text.h"
#include "reports/report.h"
#include "reports/results/gate_words.h"
#include "tests/harness/files.h"
#include "tests/harness/made_history.h"
#include "tests/harness/made_result.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* The page of a gate's history: what needs work first, changes of level with their commits, a
   figure a metric, tables of all; and files that are not what they seem. */

static char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];

static void make_folder(void)
{
	temporary_folder(folder);
}

static void remove_folder(void)
{
	temporary_remove(folder);
}

TestSuite(page_history, .init = make_folder, .fini = remove_folder);

static char *page_of(struct made_history made)
{
	const char *file = path;

	make_history(folder, "h.jsonl", made, path);
	return make_page(folder, &file, 1, "page.html");
}

static void require_order(const char *page, const char *const *texts)
{
	for (uint32_t i = 0; texts[i] != NULL; i++) {
		page = strstr(page, texts[i]);
		require(page != NULL, "'%s' is missing, or not where it should be", texts[i]);
	}
}

Test(page_history, what_needs_work_comes_first)
{
	static const char *const texts[] = {"<title>Gate history: h.jsonl</title>",
		"30 runs, from a000000 (2026-11-01T09:10:46Z) to a00001d",
		"<section class=\"verdict overloaded\">", "1 REGRESSED, 3 PASS",
		"1 figure of 1 case is worse than in the level before its own.",
		"<th scope=\"row\">c0</th>", ">REGRESSED</span>",
		"ttft.p99 +15.0\u00a0% since a000014",
		"instructions \u22123.33\u00a0% since a000014", "a00001c, 2 runs</td>",
		"<th scope=\"row\">c1</th>", ">PASS</span>", "hit_rate +5.00\u00a0pt since a00000a",
		"a000000, 30 runs (all)", "id=\"changes\"", "binary segmentation", "more than 5,",
		"more than 0.01 % of the level", "<td class=\"words\">a000014</td>",
		"<td>80.0\u00a0ms</td><td>92.0\u00a0ms</td><td class=\"worse\">+15.0\u00a0% "
		"worse</td>",
		"<td class=\"words\">a00000a</td>", "figure-history-1", "figure-history-4",
		"id=\"levels\"", "id=\"runs\"", "id=\"quire-data\"", "\"history\":[{\"commit\"",
		NULL};
	char *page = page_of((struct made_history){30, 4});

	require_order(page, texts);
	require_lacks(page, "figure-history-5");
	require_lacks(page, ">nan");
	require_has(page, "c0: 92.0\u00a0ms in the last run; 1 change of level, the last since "
			  "a000014: 80.0\u00a0ms to 92.0\u00a0ms, worse.");
	require_has(page, "c2: 80.0\u00a0ms in the last run; one level in 30 runs.");
	require_sound_ids(page);
	require_self_contained(page);
	free(page);
}

/* The file with the first case of each run behind the others. */
static void turn_cases(const char *file)
{
	char *text = file_read(file, NULL);
	struct text turned = {0};

	for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
		cJSON *run = cJSON_Parse(line);
		cJSON *cases = cJSON_GetObjectItem(run, "cases");
		require(cJSON_GetArraySize(cases) > 1, "one case: %s", line);
		cJSON_AddItemToArray(cases, cJSON_DetachItemFromArray(cases, 0));
		char *printed = cJSON_PrintUnformatted(run);
		text_format(&turned, "%s\n", printed);
		free(printed);
		cJSON_Delete(run);
	}
	file_write(file, turned.bytes, turned.byte_count);
	text_deinit(&turned);
	free(text);
}

/* Whatever stands first in the file. */
Test(page_history, the_newest_change_comes_first)
{
	static const char *const commits[] = {"a000014", "a000014", "a00000a"};
	static const char cell[] = "<td class=\"words\">";
	const char *file = path;

	make_history(folder, "h.jsonl", (struct made_history){30, 4}, path);
	turn_cases(path);
	char *page = make_page(folder, &file, 1, "page.html");
	const char *at = strstr(page, "id=\"changes\"");
	for (uint32_t i = 0; i < 3; i++) {
		at = strstr(at, cell) + strlen(cell);
		require(strncmp(at, commits[i], 7) == 0, "change %u: %.7s", i, at);
	}
	free(page);
}

/* The file with each case many times, under names of their own. */
static void copy_cases(const char *file, uint32_t copies)
{
	char *text = file_read(file, NULL), name[64];
	struct text more = {0};

	for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
		cJSON *run = cJSON_Parse(line);
		cJSON *cases = cJSON_GetObjectItem(run, "cases");
		int count = cJSON_GetArraySize(cases);
		for (uint32_t i = 0; i < copies * (uint32_t)count; i++) {
			const cJSON *own = cJSON_GetArrayItem(cases, (int)i % count);
			cJSON *copy = cJSON_Duplicate(own, true);
			snprintf(name, sizeof(name), "copy%u", i);
			cJSON_AddItemToObject(cases, name, copy);
		}
		char *printed = cJSON_PrintUnformatted(run);
		text_add(&more, printed);
		text_add(&more, "\n");
		free(printed);
		cJSON_Delete(run);
	}
	file_write(file, more.bytes, more.byte_count);
	text_deinit(&more);
	free(text);
}

/* More changes than there are runs: neither number is taken for the other. */
Test(page_history, changes_of_many_cases_go_back_in_time)
{
	static const char cell[] = "<td class=\"words\">";
	const char *file = path;
	unsigned before = UINT32_MAX, count = 0;

	make_history(folder, "h.jsonl", (struct made_history){30, 3}, path);
	copy_cases(path, 12);
	char *page = make_page(folder, &file, 1, "page.html");
	const char *at = strstr(page, "id=\"changes\""), *end = strstr(at, "</table>");
	for (; (at = strstr(at, cell)) != NULL && at < end; count++) {
		unsigned run;
		at += strlen(cell);
		require(sscanf(at, "a%x", &run) == 1, "no commit: %.9s", at);
		require(run <= before, "%x stands behind %x", run, before);
		before = run;
	}
	require(count > 30, "%u changes", count);
	free(page);
}

/* Of many changes the latest are shown, and how many there are is said. */
Test(page_history, no_more_than_five_hundred_changes_are_shown, .timeout = 120)
{
	const char *file = path;
	unsigned shown = 0, all = 0;

	make_history(folder, "h.jsonl", (struct made_history){30, 3}, path);
	copy_cases(path, 200);
	char *page = make_page(folder, &file, 1, "page.html");
	const char *at = strstr(page, "id=\"changes\"");
	char *section = strndup(at, (size_t)(strstr(at, "</section>") - at));
	at = strstr(section, "The latest ");
	require(at != NULL && sscanf(at, "The latest %u of %u.", &shown, &all) == 2, "%.400s",
		section);
	require(shown == 500 && all > 500, "%u of %u", shown, all);
	require_equal(occurrences(section, "<td class=\"words\">a"), 500);
	free(section);
	free(page);
}

Test(page_history, a_level_alone_is_no_worse)
{
	char *page = page_of((struct made_history){2, 2});

	require_has(page, ". No figure is worse than in the level before its own.");
	free(page);
}

/* ---- the table of the last run, of drawn histories ---- */

enum { DRAWN_CASES = 14, DRAWN_RUNS = 12, DRAWN_FIGURES = 3 };

static const char *const drawn_figures[DRAWN_FIGURES] = {"ttft.p99", "tpot.p99", "e2e.p99"};

struct drawn_case {
	uint32_t index;
	enum gate_status status; /* of the last run */
	uint32_t since;		 /* run from which on it has this status */
	uint32_t worse, better;	 /* figures */
};

static uint32_t draw_below(uint64_t *state, uint32_t bound)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*state >> 33) % bound;
}

/* Cases of which several have the same status, and of these several as many worse figures. */
static void draw_cases(struct drawn_case *cases, uint64_t *state)
{
	static const enum gate_status few[] = {
		GATE_PASS, GATE_IMPROVED, GATE_REGRESSED, GATE_CHANGED, GATE_INVALID};
	uint32_t kinds = 1 + draw_below(state, 5);

	for (uint32_t i = 0; i < DRAWN_CASES; i++) {
		struct drawn_case *own = &cases[i];
		*own = (struct drawn_case){.index = i,
			.status = few[draw_below(state, kinds)],
			.since = draw_below(state, DRAWN_RUNS),
			.worse = draw_below(state, DRAWN_FIGURES + 1)};
		own->better = draw_below(state, DRAWN_FIGURES + 1 - own->worse);
		if (own->status == GATE_INVALID) {
			own->worse = own->better = 0;
		}
	}
}

/* Figures rise, fall or stay at a run in the middle. Those of other settings are far off. */
static void add_drawn_case(struct text *out, const struct drawn_case *own, uint32_t run)
{
	enum gate_status before = own->status == GATE_NEW ? GATE_FAILED : GATE_NEW;

	bool is_invalid = own->status == GATE_INVALID && run >= own->since;

	text_format(out, "%s\"case%u\":{\"verdict\":\"%s\",\"figures\":{",
		own->index == 0 ? "" : ",", own->index,
		gate_status_words[run < own->since ? before : own->status]);
	for (uint32_t i = 0; i < DRAWN_FIGURES; i++) {
		int change = i < own->worse ? 1 : i < own->worse + own->better ? -1 : 0;
		text_format(out, "%s\"%s\":%d", i == 0 ? "" : ",", drawn_figures[i],
			is_invalid	       ? 999
			: run < DRAWN_RUNS / 2 ? 80
					       : 80 + 10 * change);
	}
	text_add(out, "}}");
}

static void write_drawn(const struct drawn_case *cases)
{
	struct text text = {0};

	for (uint32_t run = 0; run < DRAWN_RUNS; run++) {
		text_format(&text, "{\"commit\":\"a%u\",\"date\":\"2026\",\"cases\":{", run);
		for (uint32_t i = 0; i < DRAWN_CASES; i++) {
			add_drawn_case(&text, &cases[i], run);
		}
		text_add(&text, "}}\n");
	}
	temporary_write(folder, "drawn.jsonl", text.bytes, path);
	text_deinit(&text);
}

/* Whether a stands above b: what costs more, then the later status, then more worse figures, then
   the order of the file. */
static bool is_above(const struct drawn_case *a, const struct drawn_case *b)
{
	if (gate_status_costs[a->status] != gate_status_costs[b->status]) {
		return gate_status_costs[a->status] > gate_status_costs[b->status];
	}
	if (a->status != b->status) {
		return a->status > b->status;
	}
	return a->worse != b->worse ? a->worse > b->worse : a->index < b->index;
}

static void require_drawn_row(const char *row, const struct drawn_case *own)
{
	char part[160];
	uint32_t runs = DRAWN_RUNS - own->since, changes = own->worse + own->better;

	snprintf(part, sizeof(part), ">case%u</th>", own->index);
	require_has(row, part);
	snprintf(part, sizeof(part), ">%s</span></td>", gate_status_words[own->status]);
	require_has(row, part);
	snprintf(part, sizeof(part), "<td class=\"words\">a%u, %u %s%s</td></tr>", own->since, runs,
		runs == 1 ? "run" : "runs", own->since == 0 ? " (all)" : "");
	require_has(row, part);
	require_equal(occurrences(row, " since a6"), changes);
	require_equal(occurrences(row, "+12.5"), own->worse);
	require_equal(occurrences(row, "<td class=\"words worse\">"), own->worse > 0);
	require_equal(occurrences(row, "<td class=\"words better\">"), own->better > 0);
}

/* Above the table: how many cases have each status, the worst first, and how much is worse. */
static void require_sentences(const char *page, const struct drawn_case *cases)
{
	struct text text = {0};
	uint32_t worse = 0, worse_cases = 0;

	for (uint32_t status = GATE_STATUS_COUNT; status-- > 0;) {
		uint32_t count = 0;
		for (uint32_t i = 0; i < DRAWN_CASES; i++) {
			count += cases[i].status == status;
		}
		if (count > 0) {
			text_format(&text, "%s%u %s", text.byte_count == 0 ? "\">" : ", ", count,
				gate_status_words[status]);
		}
	}
	text_add(&text, "</p>");
	require_has(page, text.bytes);
	text_deinit(&text);
	for (uint32_t i = 0; i < DRAWN_CASES; i++) {
		worse += cases[i].worse;
		worse_cases += cases[i].worse > 0;
	}
	text_format(&text, ". %u %s of %u %s ", worse, worse == 1 ? "figure" : "figures",
		worse_cases, worse_cases == 1 ? "case" : "cases");
	require_has(page, worse == 0 ? ". No figure is worse" : text.bytes);
	text_deinit(&text);
}

Test(page_history, cases_are_sorted_by_what_needs_work, .timeout = 120)
{
	uint64_t state = 5;

	for (uint32_t trial = 0; trial < 12; trial++) {
		struct drawn_case cases[DRAWN_CASES];
		const char *file = path;
		draw_cases(cases, &state);
		write_drawn(cases);
		char *page = make_page(folder, &file, 1, "page.html");
		require_sentences(page, cases);
		char *at = strstr(page, "id=\"last\"");
		require(at != NULL, "no table of the last run");
		for (uint32_t i = 0; i < DRAWN_CASES; i++) {
			const struct drawn_case *first = NULL; /* of those that are not shown yet */
			for (uint32_t j = 0; j < DRAWN_CASES; j++) {
				bool is_shown = cases[j].index == UINT32_MAX;
				bool is_first = first == NULL || is_above(&cases[j], first);
				first = !is_shown && is_first ? &cases[j] : first;
			}
			at = strstr(at, "<tr><th scope=\"row\">");
			require(at != NULL, "%u rows", i);
			char *end = strstr(at, "</tr>") + strlen("</tr>"), kept = *end;
			*end = '\0';
			require_drawn_row(at, first);
			*end = kept;
			at = end;
			cases[first - cases].index = UINT32_MAX;
		}
		free(page);
	}
}

/* A run of one case, or of other settings, takes nothing from the page. */
Test(page_history, a_run_of_one_case_leaves_the_others)
{
	static const char line[] = "{\"commit\":\"a%u\",\"date\":\"d%u\",\"cases\":{%s%s}}\n";
	static const char *const alone[] = {"", "",
		",\"two\":{\"verdict\":\"INVALID\",\"figures\":{\"ttft.p99\":555}}", "", ""};
	const char *one = "\"one\":{\"verdict\":\"PASS\",\"figures\":{\"ttft.p99\":4}}";
	const char *two = ",\"two\":{\"verdict\":\"PASS\",\"figures\":{\"ttft.p99\":80}}";
	const char *file = path;
	struct text text = {0};

	for (uint32_t run = 0; run < 5; run++) {
		text_format(&text, line, run, run, one, run < 2 ? two : alone[run]);
	}
	temporary_write(folder, "h.jsonl", text.bytes, path);
	text_deinit(&text);
	char *page = make_page(folder, &file, 1, "page.html");
	require_has(page, "1 INVALID, 1 PASS</p>");
	require_has(page, "The last run: a4 (d4), which has 1 of 2 cases; the other is as in its "
			  "own last run. No figure");
	const char *last = strstr(page, "id=\"last\"");
	require_has(last, "<td class=\"words\">a2 <small>d2</small></td><td class=\"words\">a2, 1 "
			  "run</td></tr>");
	require_has(strstr(page, "id=\"levels\""),
		"two <small>ttft.p99</small></th><td>80.0\u00a0ms</td><td class=\"words\">a1 "
		"<small>d1</small></td><td>80.0\u00a0ms</td><td class=\"words\">a0</td><td>2</td>");
	require_has(page, "two: 80.0\u00a0ms in its last run, a1 (d1); one level in 2 runs.");
	require_has(page, "one: 4.00\u00a0ms in the last run; one level in 5 runs.");
	require_has(strstr(page, "id=\"runs\""),
		"<td>4.00\u00a0ms</td><td>555\u00a0ms <small>INVALID</small></td>");
	free(page);
}

/* A figure that changes twice is worse or not by its last change, whatever the first was. */
Test(page_history, the_last_change_of_several_counts)
{
	static const struct {
		int levels[3];
		bool is_worse;
	} cases[] = {{{80, 90, 85}, false}, {{80, 70, 75}, true}, {{80, 90, 100}, true},
		{{80, 70, 60}, false}, {{80, 90, 70}, false}, {{80, 70, 90}, true}};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *file = path;
		struct text text = {0};
		for (uint32_t run = 0; run < 36; run++) {
			text_format(&text,
				"{\"commit\":\"a%u\",\"date\":\"2026\",\"cases\":{\"c\":"
				"{\"verdict\":\"PASS\",\"figures\":{\"ttft.p99\":%d}}}}\n",
				run, cases[i].levels[run / 12]);
		}
		temporary_write(folder, "twice.jsonl", text.bytes, path);
		text_deinit(&text);
		char *page = make_page(folder, &file, 1, "page.html");
		require_has(page, "2 changes of level, the last since a24");
		require_has(page, cases[i].is_worse ? ". 1 figure of 1 case is worse than"
						    : ". No figure is worse than");
		free(page);
	}
}

/* Of a figure like the utilisation more is neither better nor worse. */
Test(page_history, a_change_may_be_neither_better_nor_worse)
{
	const char *file = path;
	struct text other = {0};

	make_history(folder, "h.jsonl", (struct made_history){30, 4}, path);
	char *text = file_read(path, NULL);
	for (const char *at = text; *at != '\0';) {
		bool is_name = strncmp(at, "ttft.p99", 8) == 0;
		text_add_bytes(&other, is_name ? "utilisation" : at, is_name ? 11 : 1);
		at += is_name ? 8 : 1;
	}
	file_write(path, other.bytes, other.byte_count);
	text_deinit(&other);
	free(text);
	char *page = make_page(folder, &file, 1, "page.html");
	const char *changes = strstr(page, "id=\"changes\"");
	require(changes != NULL, "no changes");
	require_has(changes, "<td>+1,200\u00a0pt</td>");
	require_lacks(changes, "class=\"worse\"");
	require_lacks(changes, " worse</td>");
	free(page);
}

Test(page_history, odd_sizes_are_drawn)
{
	static const struct made_history sizes[] = {
		{1, 1}, {1, 0}, {2, 2}, {3, 40}, {201, 1}, {1100, 3}};

	for (uint32_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		char *page = page_of(sizes[i]);
		require_equal(occurrences(page, "<figure id=\"figure-history-"),
			sizes[i].cases == 0 ? 0 : 4);
		require_equal(
			occurrences(page, "<tr><th scope=\"row\">c0</th><td class=\"words\">"),
			sizes[i].cases > 0);
		require_lacks(page, ">nan");
		require_sound_ids(page);
		require(strlen(page) < 4000000, "%zu bytes", strlen(page));
		if (sizes[i].runs > 1024) {
			require_has(page, "1,024 runs, from");
			require_has(page, "the latest of 1100 in the file");
		}
		free(page);
	}
}

/* A name in the file is neither HTML nor a command of gnuplot. */
Test(page_history, hostile_texts_stay_text)
{
	static const char line[] =
		"{\"commit\":\"a\\tb\\nc%s\\\"'`id>x`<b>\",\"date\":\"<script>alert(1)</script>\","
		"\"cases\":{\"'.system('touch owned').'\\n<i>\":{\"verdict\":\"PASS\",\"figures\":"
		"{\"</script><script>alert(2)</script>'.system('touch owned').'\":%d,"
		"\"ttft.p99\":%d}}}}\n";
	char text[4096] = "", one[1024];
	const char *file = path;

	for (int i = 0; i < 8; i++) {
		snprintf(one, sizeof(one), line, "%d%n", i < 5 ? 1 : 1000000000, -i);
		strcat(text, one);
	}
	temporary_write(folder, "'<b>`id`.jsonl", text, path);
	char *page = make_page(folder, &file, 1, "page.html");
	require_lacks(page, "<script>alert");
	require_lacks(page, "<b>");
	require_lacks(page, "<i>&");
	require_has(page, "&lt;script&gt;alert(2)");
	require_equal(occurrences(page, "<figure id=\"figure-history-"), 2);
	require_has(page, ">a b c?d</text>"); /* of "a TAB b LF c%d", at the axis */
	require(access("owned", F_OK) != 0 && access("x", F_OK) != 0, "a name was run");
	require_self_contained(page);
	free(page);
}

static void require_refusal(const char *const *paths, uint32_t count, const char *out,
	enum status expected, const char *line)
{
	struct error error = {0};

	require_equal(report_write(paths, count, out, NULL, &error), expected);
	require(strstr(error.text, line) != NULL, "found \"%s\", expected \"%s\"", error.text,
		line);
}

Test(page_history, what_is_no_history_has_no_page)
{
	char out[TEMPORARY_PATH_BYTES + 16], other[TEMPORARY_PATH_BYTES];
	const char *paths[] = {path, other};

	snprintf(out, sizeof(out), "%s/none.html", folder);
	make_history(folder, "two.jsonl", (struct made_history){2, 1}, other);
	make_history(folder, "h.jsonl", (struct made_history){2, 1}, path);
	require_refusal(paths, 2, out, STATUS_USAGE, "found a gate's history beside other");
	char *before = file_read(path, NULL);
	require_refusal(paths, 1, path, STATUS_FILE, "is read by this command");
	char *after = file_read(path, NULL);
	cr_assert_str_eq(after, before);
	temporary_write(folder, "h.jsonl", "", NULL);
	require_refusal(paths, 1, out, STATUS_INPUT, "h.jsonl: found no line, expected");
	temporary_write(folder, "h.jsonl", "{}\n", NULL);
	require_refusal(paths, 1, out, STATUS_INPUT,
		"h.jsonl:1: found no line of quire gate --history; quire report takes folders of");
	temporary_write(folder, "h.jsonl", "time,tokens\n", NULL);
	require_refusal(paths, 1, out, STATUS_INPUT, "; quire report takes folders of");
	require(access(out, F_OK) != 0, "a page was written");
	free(before);
	free(after);
}

/* Verdicts alone are no figures over commits. */
Test(page_history, without_figures_there_are_no_empty_tables)
{
	const char *file = path;

	temporary_write(folder, "h.jsonl",
		"{\"commit\": \"a1\", \"date\": \"2026-11-01T00:00:00Z\", \"cases\": "
		"{\"c\": {\"verdict\": \"PASS\", \"figures\": {}}}}\n",
		path);
	char *page = make_page(folder, &file, 1, "page.html");
	require_has(page, "recorded no figures, only verdicts");
	require_lacks(page, "id=\"levels\"");
	require_lacks(page, "href=\"#figures\"");
	free(page);
}
