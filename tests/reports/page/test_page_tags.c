#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/made_plan.h"
#include "tests/harness/made_result.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* Every tag of a page is closed, in order. */

enum { DEPTH_MAX = 64, NAME_BYTES = 32 };

struct open_tags {
	char name[DEPTH_MAX][NAME_BYTES];
	uint32_t count;
};

static bool has_no_end(const char *name)
{
	static const char *const names[] = {"meta", "br", "hr", "img", "link", "input", "col"};

	for (uint32_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(name, names[i]) == 0) {
			return true;
		}
	}
	return false;
}

/* Reads the tag at `at`, and returns what is behind it. */
static const char *read_tag(struct open_tags *tags, const char *at)
{
	bool is_end = at[1] == '/';
	const char *start = at + 1 + is_end;
	size_t bytes =
		strspn(start, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789");
	char name[NAME_BYTES];
	const char *end = start;

	require(bytes > 0 && bytes < NAME_BYTES, "no tag: %.60s", at);
	snprintf(name, sizeof(name), "%.*s", (int)bytes, start);
	for (char quote = 0; *end != '\0' && (quote != 0 || *end != '>'); end++) {
		bool is_quote = *end == '"' || *end == '\'';
		quote = quote == 0 && is_quote ? *end : quote == *end ? 0 : quote;
	}
	require(*end == '>', "a tag without an end: %.60s", at);
	if (is_end) {
		require(tags->count > 0 && strcmp(tags->name[tags->count - 1], name) == 0,
			"</%s> closes <%s>: %.80s", name,
			tags->count > 0 ? tags->name[tags->count - 1] : "", at);
		tags->count--;
	} else if (end[-1] != '/' && !has_no_end(name)) {
		require(tags->count < DEPTH_MAX, "too deep: %.60s", at);
		strcpy(tags->name[tags->count++], name);
	}
	/* What is in a script is no HTML. */
	bool is_script = !is_end && strcmp(name, "script") == 0;
	end = is_script ? strstr(end, "</script>") : end + 1;
	require(end != NULL, "a script without an end");
	return end;
}

static void require_closed_tags(const char *page)
{
	struct open_tags tags = {.count = 0};
	const char *at = page;

	while ((at = strchr(at, '<')) != NULL) {
		if (strncmp(at, "<!--", 4) == 0) {
			at = strstr(at, "-->");
			require(at != NULL, "a comment without an end");
		} else if (at[1] == '!' || at[1] == '?') {
			at = strchr(at, '>');
		} else {
			at = read_tag(&tags, at);
		}
	}
	require(tags.count == 0, "<%s> is never closed", tags.name[tags.count - 1]);
}

Test(page_tags, of_all_kinds_of_pages_are_closed)
{
	for (uint32_t i = 0; i < 6; i++) {
		char folder[TEMPORARY_PATH_BYTES], path[3][TEMPORARY_PATH_BYTES];
		struct made_result made[3] = {made_ordinary, made_ordinary, made_ordinary};
		temporary_folder(folder);
		made[0].operations = i == 1 ? 0 : made[0].operations;
		made[0].latency_buckets = i == 2 ? 0 : made[0].latency_buckets;
		made[0].status = i == 3 ? "failed" : i == 4 ? "interrupted" : made[0].status;
		made[0].is_calibrated = i != 5;
		made[1].runner = i == 5 ? "cuda" : NULL;
		made[1].device = i == 5 ? "NVIDIA H200" : NULL;
		for (uint32_t j = 0; j < 3; j++) {
			char name[] = {(char)('a' + j), '\0'};
			make_result(folder, name, &made[j], path[j]);
		}
		const char *directories[] = {path[0], path[1], path[2]};
		for (uint32_t count = 1; count <= 3; count++) {
			char *page = make_page(folder, directories, count, "page.html");
			require_closed_tags(page);
			free(page);
		}
		temporary_remove(folder);
	}
}

Test(page_tags, of_plans_and_sweeps_are_closed)
{
	for (uint32_t i = 0; i < 5; i++) {
		char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];
		struct made_plan plan = {.configurations = 1 + i % 3,
			.loads = 1 + 3 * i,
			.replicates = i % 2 * 5,
			.is_least = i == 2,
			.is_unmet = i == 3,
			.is_interrupted = i == 4,
			.has_cost = i > 2,
			.has_stretch = i == 1,
			.trace_name = "<b>&\"'.jsonl"};
		struct made_sweep sweep = {.parameters = 1 + i % 4,
			.values = 1 + i % 4,
			.has_failures = i > 3,
			.has_cache = i % 2 == 0};
		const char *directory = path;
		temporary_folder(folder);
		make_plan(folder, "plan", &plan, path);
		char *page = make_page(folder, &directory, 1, "page.html");
		require_closed_tags(page);
		require_self_contained(page);
		require_sound_ids(page);
		require_has(page, "&lt;b&gt;&amp;");
		free(page);
		make_sweep(folder, "sweep", &sweep, path);
		page = make_page(folder, &directory, 1, "page.html");
		require_closed_tags(page);
		require_self_contained(page);
		require_sound_ids(page);
		free(page);
		temporary_remove(folder);
	}
}
