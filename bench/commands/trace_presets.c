#include "bench/commands/trace_order.h"

/* Workloads to start from; workloads/README.md holds their statistics against those of real traces.
   Lengths are tokens; sizes of prefixes are multiples of the block size that hash ids stand for. */

#define MILLION UINT64_C(1000000)

const struct trace_preset trace_presets[TRACE_PRESET_COUNT] = {
	{
		/* What holds unless a preset or an option says otherwise. */
		.name = "none",
		.imitates = "nothing: every option is yours",
		.order = {.turns = "1",
			.trace_block_size = 512,
			.max_context = 131072,
			.think = 10 * MILLION,
			.load = {.arrivals = "trace", .ramp = "none"}},
	},
	{
		.name = "chat",
		.imitates =
			"people who talk to an assistant: a few system prompts, short messages, "
			"some turns",
		.order = {.requests = 5000,
			.prefix = "256:4",
			.zipf = MILLION,
			.input = "lognormal:90:1.2",
			.output = "lognormal:150:0.8",
			.turns = "1:7",
			.think = 25 * MILLION,
			.load.rate = 1400000,
			.trace_block_size = 16},
	},
	{
		.name = "agent",
		.imitates = "coding agents: one long system prompt, a context that grows by tool "
			    "results for many turns",
		.order = {.requests = 1000,
			.prefix = "16384:1,8192:12",
			.input = "lognormal:3000:1",
			.follow_up = "lognormal:1200:1.4",
			.output = "lognormal:200:1.1",
			.turns = "20:80",
			.think = 4 * MILLION,
			.load.rate = 20000,
			.max_context = 150000,
			.trace_block_size = 64},
	},
	{
		.name = "rag",
		.imitates = "questions about documents: instructions, a document by popularity, a "
			    "short question",
		.order = {.requests = 5000,
			.prefix = "512:1,2048:400",
			.zipf = 900000,
			.input = "lognormal:60:0.6",
			.output = "lognormal:180:0.6",
			.load.rate = 8 * MILLION,
			.trace_block_size = 256},
	},
	{
		.name = "batch",
		.imitates = "offline work: everything at once, nothing shared",
		.order = {.requests = 256, .input = "100:1024", .output = "100:1024"},
	},
};

static void take_text(const char **text, const char *preset)
{
	*text = preset != NULL ? preset : *text;
}

static void take_number(uint64_t *number, uint64_t preset)
{
	*number = preset != 0 ? preset : *number;
}

void trace_order_init(struct trace_order *order, uint32_t preset_index)
{
	const struct trace_order *preset = &trace_presets[preset_index].order;

	*order = trace_presets[0].order;
	take_text(&order->input, preset->input);
	take_text(&order->follow_up, preset->follow_up);
	take_text(&order->output, preset->output);
	take_text(&order->turns, preset->turns);
	take_text(&order->prefix, preset->prefix);
	take_number(&order->requests, preset->requests);
	take_number(&order->load.rate, preset->load.rate);
	take_number(&order->think, preset->think);
	take_number(&order->zipf, preset->zipf);
	take_number(&order->max_context, preset->max_context);
	take_number(&order->trace_block_size, preset->trace_block_size);
}
