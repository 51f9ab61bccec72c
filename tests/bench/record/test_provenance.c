#include "bench/record/provenance.h"

#include <cJSON.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include "tests/harness/files.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

static cJSON *written(const struct provenance *provenance)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	temporary_write(folder, "provenance.json", "", path);
	FILE *file = fopen(path, "wb");
	require(file != NULL, "%s cannot be written", path);
	provenance_write(provenance, file);
	require(fclose(file) == 0, "%s cannot be written", path);
	char *text = file_read(path, NULL);
	cJSON *root = cJSON_Parse(text);
	require(root != NULL, "no JSON: %s", text);
	free(text);
	temporary_remove(folder);
	return root;
}

static const char *text_of(const cJSON *root, const char *field)
{
	const cJSON *node = cJSON_GetObjectItem(root, field);

	require(cJSON_IsString(node), "%s is no text", field);
	return node->valuestring;
}

Test(provenance, says_how_when_and_where_a_result_was_made)
{
	char *arguments[] = {"replay", "a trace.jsonl", "--out", "x\"y"};
	const struct provenance provenance = {
		.argc = 4, .argv = arguments, .wall_ns = 12345678901, .device = "a GPU"};
	struct tm date = {0};
	time_t before = time(NULL);
	cJSON *root = written(&provenance);

	cr_expect_str_eq(text_of(root, "command"), "quire replay 'a trace.jsonl' --out 'x\"y'");
	cr_expect_str_eq(text_of(root, "device"), "a GPU");
	cr_expect_float_eq(cJSON_GetObjectItem(root, "wall_s")->valuedouble, 12.345678901, 1e-9);
	cr_expect(strlen(text_of(root, "commit")) > 0);
	struct utsname system;
	char machine[sizeof(system.sysname) + sizeof(system.machine) + 8];
	require_equal(uname(&system), 0);
	snprintf(machine, sizeof(machine), "%s %s, ", system.sysname, system.machine);
	require(strncmp(text_of(root, "machine"), machine, strlen(machine)) == 0 &&
			strlen(text_of(root, "machine")) > strlen(machine),
		"'%s' does not begin with '%s'", text_of(root, "machine"), machine);
	int read = sscanf(text_of(root, "date"), "%4d-%2d-%2dT%2d:%2d:%2dZ", &date.tm_year,
		&date.tm_mon, &date.tm_mday, &date.tm_hour, &date.tm_min, &date.tm_sec);
	require(read == 6 && strlen(text_of(root, "date")) == 20, "the date is %s",
		text_of(root, "date"));
	date.tm_year -= 1900;
	date.tm_mon -= 1;
	time_t at = timegm(&date);
	require(at >= before && at <= time(NULL), "another time: %s", text_of(root, "date"));
	cJSON_Delete(root);
}

Test(provenance, names_no_device_where_only_the_host_computed)
{
	char *arguments[] = {"replay"};
	const struct provenance provenance = {.argc = 1, .argv = arguments, .device = ""};
	cJSON *root = written(&provenance);

	cr_expect_null(cJSON_GetObjectItem(root, "device"));
	cr_expect_str_eq(text_of(root, "command"), "quire replay");
	cJSON_Delete(root);
}

/* A command line beyond the room for it is cut, and stays JSON. */
Test(provenance, a_long_command_is_cut)
{
	static char longest[1 << 16];
	char *arguments[] = {"replay", longest, "--out", "x"};
	const struct provenance provenance = {.argc = 4, .argv = arguments, .device = ""};

	memset(longest, 'a', sizeof(longest) - 1);
	cJSON *root = written(&provenance);
	cr_expect_eq(strncmp(text_of(root, "command"), "quire replay aaaa", 17), 0);
	cJSON_Delete(root);
}
