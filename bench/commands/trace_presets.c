#include "bench/commands/trace_request.h"

/* workloads/README.md compares their statistics with those of real traces. Sizes of prefixes are
   multiples of the block size that hash ids stand for. */

static const struct trace_preset presets[] = {
	{"none", {{NULL, NULL}}},
	/* People who talk to an assistant: a few system prompts, short messages, some turns. */
	{"chat", {{"requests", "5000"}, {"prefix", "256:4"}, {"zipf", "1"},
			 {"input", "lognormal:90:1.2"}, {"output", "lognormal:150:0.8"},
			 {"turns", "1:7"}, {"think", "25"}, {"rate", "1.4"},
			 {"trace-block-size", "16"}}},
	/* Coding agents: one long system prompt, a context that tool results make longer for many
	   turns. */
	{"agent", {{"requests", "1000"}, {"prefix", "16384:1,8192:12"},
			  {"input", "lognormal:3000:1"}, {"follow-up", "lognormal:1200:1.4"},
			  {"output", "lognormal:200:1.1"}, {"turns", "20:80"}, {"think", "4"},
			  {"rate", "0.02"}, {"max-context", "150000"}, {"trace-block-size", "64"}}},
	/* Questions about documents: instructions, a document by popularity, a short question. */
	{"rag", {{"requests", "5000"}, {"prefix", "512:1,2048:400"}, {"zipf", "0.9"},
			{"input", "lognormal:60:0.6"}, {"output", "lognormal:180:0.6"},
			{"rate", "8"}, {"trace-block-size", "256"}}},
	/* Offline work: everything at once, nothing shared. */
	{"batch", {{"requests", "256"}, {"input", "100:1024"}, {"output", "100:1024"}}},
};

const struct trace_preset *trace_preset_at(uint32_t index)
{
	return index < sizeof(presets) / sizeof(presets[0]) ? &presets[index] : NULL;
}
