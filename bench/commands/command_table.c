#include "bench/commands/commands.h"
#include "bench/commands/trace/trace_commands.h"

#define MEMBER(name) &command_##name,

static const struct command *const commands[] = {QUIRE_COMMANDS(MEMBER) NULL};
static const struct command *const trace_commands[] = {QUIRE_TRACE_COMMANDS(MEMBER) NULL};

const struct command command_trace = {
	.name = "trace",
	.title = "make, convert and analyse traces",
	.summary = "quire trace makes, converts and analyses traces without running an engine.\n",
	.members = trace_commands,
};

const struct command command_quire = {
	.name = "",
	.title = "replay LLM-serving traces through a paged-KV engine",
	.summary = "quire replays LLM-serving traces through a paged-KV Qwen3 engine whose "
		   "scheduler\n"
		   "and block manager are the same on a GPU and in simulation.\n",
	.examples =
		"  quire trace make --requests 1000 --input 200:2000 --output 100:400 --rate 8 \\\n"
		"      --seed 1 --out chat.jsonl\n"
		"  quire replay chat.jsonl --model qwen3-0.6b --gpu h200 --out result\n"
		"  quire report result --out report.html\n"
		"\n"
		"exit codes: 0 success, 1 results differ or a run failed, 2 wrong use or bad "
		"input\n",
	.members = commands,
};
