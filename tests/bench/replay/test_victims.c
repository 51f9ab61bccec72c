#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"
#include "tests/harness/files.h"
#include "tests/harness/process.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* Whom a replay preempts where its blocks run out, by hand. Three requests of 16 tokens, which end
   at 46, run side by side: six blocks of 16 tokens hold two blocks of each. The first that comes to
   its third block finds none, so one of them gives up its two; the others end with three each, and
   it begins anew behind them. */

enum { REQUESTS = 3, PRIORITIES = 8, ARRIVALS = 4 };

struct request {
	unsigned priority, arrival;
};

static char folder[TEMPORARY_PATH_BYTES];

static void set_up(void)
{
	temporary_folder(folder);
}

static void tear_down(void)
{
	temporary_remove(folder);
}

TestSuite(victims, .init = set_up, .fini = tear_down);

/* Whether a goes behind b: of a larger number, or as large and later. */
static bool goes_behind(const struct request *a, const struct request *b)
{
	return a->priority > b->priority || (a->priority == b->priority && a->arrival > b->arrival);
}

/* With priorities the one that goes last, of equal ones the first; else the latest admission. */
static int victim_of(const struct request *requests, bool has_priorities)
{
	int victim = 0;

	for (int i = 1; i < REQUESTS; i++) {
		if (!has_priorities || goes_behind(&requests[i], &requests[victim])) {
			victim = i;
		}
	}
	return victim;
}

/* Those that are preempted finish last; their tokens are computed again. */
static void require_victim(const struct request *requests, bool has_priorities)
{
	char path[2 * TEMPORARY_PATH_BYTES], options[512];
	struct text trace = {0};
	int victim = victim_of(requests, has_priorities);

	for (int i = 0; i < REQUESTS; i++) {
		text_format(&trace,
			"{\"timestamp\":%u,\"input_length\":16,\"output_length\":30,"
			"\"priority\":%u}\n",
			requests[i].arrival, requests[i].priority);
	}
	temporary_write(folder, "trace.jsonl", trace.bytes, path);
	snprintf(options, sizeof(options),
		"replay @/trace.jsonl --policy vllm --scheduling-policy %s --block-size 16 "
		"--kv-blocks 7 --max-model-len 64 --out @/run --force",
		has_priorities ? "priority" : "fcfs");
	free(quire_output(folder, 0, options));
	snprintf(path, sizeof(path), "%s/run/requests.tsv", folder);
	char *table = file_read(path, NULL);
	const char *line = strchr(table, '\n') + 1;
	for (int i = 0; i < REQUESTS; i++) {
		int id, preemptions, recomputed;
		require(sscanf(line, "%d\t%*s\t%*s\t%*s\t%*s\t%*s\t%*s\t%*s\t%*s\t%*s\t%d\t%d", &id,
				&preemptions, &recomputed) == 3,
			"no row: %s", line);
		require(preemptions == (id == victim) && (recomputed > 0) == (id == victim),
			"request %d, not %d, of the trace\n%s%s", id, victim, trace.bytes, table);
		require((i == REQUESTS - 1) == (id == victim), "it does not end last:\n%s", table);
		line = strchr(line, '\n') + 1;
	}
	free(table);
	text_deinit(&trace);
}

/* Every combination of two priorities and of times that are the same or behind each other. */
Test(victims, the_one_that_goes_last_is_preempted, .timeout = 120)
{
	static const unsigned arrivals[ARRIVALS][REQUESTS] = {
		{0, 0, 0}, {0, 0, 1}, {0, 1, 1}, {0, 1, 2}};

	for (unsigned i = 0; i < ARRIVALS * PRIORITIES; i++) {
		struct request requests[REQUESTS];
		for (unsigned k = 0; k < REQUESTS; k++) {
			requests[k].arrival = arrivals[i / PRIORITIES][k];
			requests[k].priority = i % PRIORITIES >> k & 1;
		}
		require_victim(requests, true);
		require_victim(requests, false);
	}
}
