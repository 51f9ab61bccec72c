#include "bench/commands/commands.h"

#include "bench/commands/trace.h"
#include "bench/options/options.h"

#include <stdio.h>
#include <string.h>

struct entry {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *summary;
};

static const struct entry entries[] = {
	{"make", command_trace_make, "make a trace out of a seed"},
	{"stat", command_trace_stat, "what a trace holds: rates, lengths, what prompts share"},
	{"cache", command_trace_cache, "how much a prefix cache would find, against its size"},
	{"convert", command_trace_convert, "turn any trace into Mooncake's JSON lines"},
};

enum { ENTRY_COUNT = sizeof(entries) / sizeof(entries[0]) };

static void print_help(FILE *file)
{
	fprintf(file,
		"quire trace makes traces and looks at them without running an engine.\n\n"
		"usage: quire trace COMMAND ...      quire trace COMMAND --help teaches each\n\n");
	for (uint32_t i = 0; i < ENTRY_COUNT; i++) {
		fprintf(file, "  %-10s %s\n", entries[i].name, entries[i].summary);
	}
}

int command_trace(int argc, char **argv)
{
	if (argc < 2) {
		print_help(stderr);
		return 2;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
		print_help(stdout);
		return 0;
	}
	for (uint32_t i = 0; i < ENTRY_COUNT; i++) {
		if (strcmp(entries[i].name, argv[1]) == 0) {
			return entries[i].run(argc - 1, argv + 1);
		}
	}
	fprintf(stderr, "quire trace: unknown command '%s'; quire trace --help lists them\n",
		argv[1]);
	return 2;
}
