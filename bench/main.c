#include "bench/commands/commands.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct entry {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *summary;
};

static const struct entry entries[] = {
	{"replay", command_replay, "run a trace through the engine and write a result folder"},
	{"report", command_report, "turn result folders into one HTML page with plots"},
	{"compare", command_compare, "say where two results differ, and from which step on"},
	{"calibrate", command_calibrate, "fit the cost model to a GPU, and say how well it fits"},
	{"info", command_info, "show what memory leaves for KV blocks on a GPU"},
	{"trace", command_trace, "make and look at traces"},
	{"generate", command_generate, "continue texts with a model"},
	{"kernels", command_kernels, "time the operations of the GPU engine"},
	{"export", command_export, "write a model's weights for other programs"},
};

enum { ENTRY_COUNT = sizeof(entries) / sizeof(entries[0]) };

static void print_help(FILE *file)
{
	fprintf(file,
		"quire replays LLM-serving traces through a paged-KV Qwen3 engine whose scheduler\n"
		"and block manager are the same on a GPU and in simulation.\n\n"
		"usage: quire COMMAND ...      quire COMMAND --help teaches each\n\n");
	for (uint32_t i = 0; i < ENTRY_COUNT; i++) {
		fprintf(file, "  %-10s %s\n", entries[i].name, entries[i].summary);
	}
	fprintf(file,
		"\nfirst steps\n"
		"  quire trace make --requests 1000 --input 200:2000 --output 100:400 --rate 8 \\\n"
		"      --seed 1 --out chat.jsonl\n"
		"  quire replay chat.jsonl --model qwen3-0.6b --gpu h200 --out result\n"
		"  quire report result --out report.html\n\n"
		"exit codes: 0 good, 1 a verdict (results differ, a run failed), 2 wrong use or "
		"bad "
		"input\n");
}

/* A summary that nobody could read is not a run that went well. */
static int finish(int exit_code)
{
	if (fflush(stdout) != 0 || ferror(stdout)) {
		perror("quire: the standard output could not be written");
		return exit_code == 0 ? 2 : exit_code;
	}
	return exit_code;
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		print_help(stderr);
		return 2;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
		strcmp(argv[1], "help") == 0) {
		print_help(stdout);
		return 0;
	}
	for (uint32_t i = 0; i < ENTRY_COUNT; i++) {
		if (strcmp(entries[i].name, argv[1]) == 0) {
			return finish(entries[i].run(argc - 1, argv + 1));
		}
	}
	fprintf(stderr, "quire: unknown command '%s'; quire --help lists them\n", argv[1]);
	return 2;
}
