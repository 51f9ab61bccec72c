#include <criterion/criterion.h>

#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"
#include "tests/harness/files.h"
#include "tests/harness/process.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* Whole sessions at a shell, byte by byte: tests/fixtures/transcripts/NAME.txt holds command lines,
   each behind "$ ", and what they print to both outputs; the last line of one that fails is its
   exit code in brackets. A session starts in an empty folder that has the root of the project as
   `quire`. A transcript that has to change is replaced by the file that the failure names. */

#define TRANSCRIPTS QUIRE_SOURCE_DIR "/tests/fixtures/transcripts/"

/* Runs a command line, without its "$ ", and adds it and what it prints. */
static void add_command(struct text *found, const char *folder, const char *line)
{
	temporary_write(folder, ".command", line, NULL);
	struct process_result result = shell_run(
		folder, "quire() { \"" QUIRE_EXECUTABLE "\" \"$@\"; }; { . ./.command; } 2>&1");
	text_format(found, "$ %s\n", line);
	text_add(found, result.out);
	if (result.code != 0) {
		text_format(found, "[%d]\n", result.code);
	}
	process_result_free(&result);
}

/* The line of the first difference, from 1. */
static int line_of_difference(const char *a, const char *b)
{
	int line = 1;

	for (; *a == *b && *a != '\0'; a++, b++) {
		line += *a == '\n';
	}
	return line;
}

static void require_transcript(const char *name)
{
	char folder[TEMPORARY_PATH_BYTES], path[600];
	struct text found = {0};

	temporary_folder(folder);
	struct process_result link = shell_run(folder, "ln -s '" QUIRE_SOURCE_DIR "' quire");
	require_equal(link.code, 0);
	process_result_free(&link);
	snprintf(path, sizeof(path), TRANSCRIPTS "%s.txt", name);
	char *expected = file_read(path, NULL);
	for (char *at = expected; at != NULL; at = strstr(at, "\n$ ")) {
		at += *at == '\n';
		char *line = strndup(at + 2, strcspn(at + 2, "\n"));
		add_command(&found, folder, line);
		free(line);
	}
	if (strcmp(found.bytes, expected) != 0) {
		snprintf(path, sizeof(path), QUIRE_EXECUTABLE "-%s.txt", name);
		file_write(path, found.bytes, found.byte_count);
		require(false, "%s.txt:%d: other output; %s has it", name,
			line_of_difference(found.bytes, expected), path);
	}
	free(expected);
	text_deinit(&found);
	struct process_result removed = shell_run(folder, "rm -rf '%s'", folder);
	process_result_free(&removed);
}

Test(transcripts, plan)
{
	require_transcript("plan");
}

Test(transcripts, traces)
{
	require_transcript("traces");
}

Test(transcripts, results)
{
	require_transcript("results");
}

Test(transcripts, folders)
{
	require_transcript("folders");
}

Test(transcripts, refusals)
{
	require_transcript("refusals");
}

Test(transcripts, plan_corners)
{
	require_transcript("plan_corners");
}

Test(transcripts, gates)
{
	require_transcript("gates");
}

Test(transcripts, calibration)
{
	require_transcript("calibration");
}

Test(transcripts, sweeps)
{
	require_transcript("sweeps");
}

Test(transcripts, ranges)
{
	require_transcript("ranges");
}

Test(transcripts, fleets)
{
	require_transcript("fleets");
}

Test(transcripts, outages)
{
	require_transcript("outages");
}

Test(transcripts, options)
{
	require_transcript("options");
}

/* Whatever is counted, of one there is no plural: a new message that forgets it shows up here as
   soon as a session prints it. */
Test(transcripts, of_one_thing_there_is_no_plural)
{
	static const char pattern[] =
		"(^|[^-0-9.,:%=x] ?)1 (KV )?(hit |prompt |output |other )?"
		"(answers|blocks|bytes|cases|columns|figures|GPUs|ids|limits|preemptions|replicas|"
		"requests|rows|runs|seconds|sessions|tokens|traces|turns|values)([^a-z]|$)";
	struct process_result files =
		shell_run(QUIRE_SOURCE_DIR, "ls tests/fixtures/transcripts/*.txt "
					    "tests/fixtures/pages/*.txt");
	regex_t plural;
	regmatch_t match;
	char path[600];

	require_equal(regcomp(&plural, pattern, REG_EXTENDED | REG_NEWLINE), 0);
	require_equal(regexec(&plural, "of 1 requests", 1, &match, 0), 0);
	require_equal(regexec(&plural, "of 21 requests, 1 request", 1, &match, 0), REG_NOMATCH);
	for (char *name = strtok(files.out, "\n"); name != NULL; name = strtok(NULL, "\n")) {
		snprintf(path, sizeof(path), QUIRE_SOURCE_DIR "/%s", name);
		char *text = file_read(path, NULL);
		int found = regexec(&plural, text, 1, &match, 0);
		require(found == REG_NOMATCH, "%s: '%.*s'", name, (int)(match.rm_eo - match.rm_so),
			text + match.rm_so);
		free(text);
	}
	regfree(&plural);
	process_result_free(&files);
}
