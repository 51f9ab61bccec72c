#include "bench/commands/commands.h"
#include "bench/options/options.h"
#include "bench/replay/replay_session.h"
#include "engine/base/check.h"
#include "workloads/trace/trace.h"

#include <string.h>

#ifndef QUIRE_CHECK_STEPS
#define QUIRE_CHECK_STEPS 0
#endif

static const char summary[] =
	"Replays a trace through the engine: every request goes through the scheduler and the "
	"block\n"
	"manager, and a runner says how long each step takes. Writes a result folder (requests,\n"
	"timeline, latencies, summary) for `quire report` and `quire compare`, and prints a "
	"summary.\n"
	"The same trace, options and seed give the same bytes everywhere.\n";

static const char examples[] =
	"  quire replay chat.jsonl --model qwen3-0.6b --gpu h200 --out result\n"
	"  quire replay chat.jsonl --slo-ttft-ms 500 --slo-tpot-ms 25 --speedup 2 --out twice\n"
	"  quire replay chat.jsonl --concurrency 64 --max-num-seqs 64 --out closed\n"
	"  quire replay chat.jsonl --kv-blocks 800 --policy prefill-first \\\n"
	"      --max-num-batched-tokens 40960 --out small\n";

#define BILLION UINT64_C(1000000000)

enum { OPTIONS_MAX = 48 };

/* Appends rows to the table; returns their number with them. */
static uint32_t append_options(
	struct option *rows, uint32_t count, const struct option *added, uint32_t added_count)
{
	check(count + added_count <= OPTIONS_MAX);
	memcpy(rows + count, added, added_count * sizeof(*added));
	return count + added_count;
}

static uint32_t simulation_options(struct replay_order *order, struct option *rows, uint32_t count)
{
	struct replay_config *c = &order->config;
	struct replay_given *g = &order->given;
	const struct option added[] = {
		{.kind = OPTION_HEADING, .help = "what is simulated"},
		{"model", OPTION_TEXT, &c->model, "NAME|DIR",
			"qwen3-0.6b (default), -1.7b, -4b, -8b, -14b, -32b, or a folder with a "
			"config.json",
			0, 0, NULL, &g->model},
		{"runner", OPTION_TEXT, &c->runner, "NAME",
			"sim (default) prices each step by a cost model; cuda computes tokens on "
			"the GPU, reference on the CPU; tape plays a recorded run",
			0, 0, NULL, &g->runner},
		{"gpu", OPTION_TEXT, &c->gpu, "NAME|FILE.json",
			"profile of the cost model: h200 (default), h100, a100, b200, l40s, "
			"rtx4090; h200-qwen3-0.6b and h200-qwen3-8b, which were calibrated for "
			"these models; or a file of your own",
			0, 0, NULL, &g->gpu},
		{"weights", OPTION_TEXT, &c->weights, "DIR|dummy:SEED",
			"of a runner that computes: the safetensors of a folder, or made up from a "
			"seed; default: those of the model's folder",
			0, 0, NULL, &g->weights},
		{"dtype", OPTION_TEXT, &c->dtype, "float32|bfloat16",
			"what the reference rounds weights, activations, keys and values to; "
			"default float32",
			0, 0, NULL, &g->dtype},
		{"kernels", OPTION_TEXT, &c->kernels, "auto|general",
			"of the CUDA runner: auto (default) takes the fastest for the GPU, general "
			"those that run on sm_80 and later",
			0, 0, NULL, &g->kernels},
		{"enforce-eager", OPTION_FLAG, &order->is_eager, NULL,
			"the CUDA runner launches decode steps one operation at a time instead of "
			"as "
			"a graph",
			0, 0, NULL, &g->enforce_eager},
		{"overlap", OPTION_TEXT, &c->overlap, "on|off",
			"on (default): the CUDA runner is given a step before the one before it "
			"has ended, where that one's duration decides nothing; same steps either "
			"way",
			0, 0, NULL, &g->overlap},
		{"clock", OPTION_TEXT, &c->clock, "virtual|wall",
			"virtual (default) jumps over idle time; wall waits for every arrival, so "
			"that the load on a runner that computes is the real one",
			0, 0, NULL, &g->clock},
		{"tape", OPTION_TEXT, &order->tape, "DIR",
			"the recorded run of --runner tape; its configuration is taken over, and "
			"options "
			"given again must agree",
			0, 0, NULL, NULL},
	};

	return append_options(rows, count, added, sizeof(added) / sizeof(added[0]));
}

static uint32_t engine_options(struct replay_order *order, struct option *rows, uint32_t count)
{
	struct replay_config *c = &order->config;
	struct replay_given *g = &order->given;
	const struct option added[] = {
		{.kind = OPTION_HEADING, .help = "engine"},
		{"policy", OPTION_TEXT, &c->policy, "NAME",
			"mixed (default): decode rows and prompt chunks share a step; "
			"prefill-first: whole "
			"prompts first, as nano-vllm does",
			0, 0, NULL, &g->policy},
		{"admission", OPTION_TEXT, &c->admission, "exact|seed",
			"prefill-first only: count what a prompt needs (exact, default), or all of "
			"it as if "
			"nothing were cached (seed)",
			0, 0, NULL, &g->admission},
		{"block-size", OPTION_COUNT, &c->block_size, "TOKENS",
			"tokens a KV block holds, 1 to 65536, default 256", 1, 65536, NULL,
			&g->block_size},
		{"kv-blocks", OPTION_COUNT, &c->kv_blocks, "N",
			"blocks in the KV pool; default: what the GPU's memory leaves, or 1 GiB of "
			"the host's for the reference",
			1, 1 << 28, NULL, &g->kv_blocks},
		{"gpu-memory-utilization", OPTION_MILLIONTHS, &c->gpu_memory_utilization, "SHARE",
			"share of the GPU's memory that may be used, default 0.9", 1, 1000000, NULL,
			&g->gpu_memory_utilization},
		{"max-num-seqs", OPTION_COUNT, &c->max_num_seqs, "N",
			"sequences in a step, default 512", 1, 65536, NULL, &g->max_num_seqs},
		{"max-num-batched-tokens", OPTION_COUNT, &c->max_num_batched_tokens, "N",
			"tokens in a step, default 16384", 1, 1 << 28, NULL,
			&g->max_num_batched_tokens},
		{"max-model-len", OPTION_COUNT, &c->max_model_len, "N",
			"prompt and output tokens of a request at most; longer ones are rejected; "
			"default: "
			"the model's own limit",
			1, 1 << 28, NULL, &g->max_model_len},
	};

	return append_options(rows, count, added, sizeof(added) / sizeof(added[0]));
}

static uint32_t load_options(struct replay_order *order, struct option *rows, uint32_t count)
{
	struct replay_config *c = &order->config;
	struct replay_given *g = &order->given;
	const struct option added[] = {
		{.kind = OPTION_HEADING, .help = "load"},
		{"format", OPTION_TEXT, &c->trace_format, "NAME",
			"of the trace; default: told by its first line", 0, 0, NULL,
			&g->trace_format},
		{"sort", OPTION_FLAG, &order->is_sorted, NULL,
			"put rows that are out of order in order of time (reads the whole trace "
			"first)",
			0, 0, NULL, &g->sort},
		{"sessions", OPTION_TEXT, &c->sessions, "open|closed",
			"open (default): turns of a session arrive at their timestamps; closed: "
			"not "
			"before the turn before has finished and its think time has passed",
			0, 0, NULL, &g->sessions},
		{"rate", OPTION_MILLIONTHS, &c->rate, "R",
			"requests/s drawn in place of the trace's times", 1, BILLION * 1000, NULL,
			&g->rate},
		{"arrivals", OPTION_TEXT, &c->arrivals, "KIND",
			"with --rate or --ramp: poisson (default), gamma, constant", 0, 0, NULL,
			&g->arrivals},
		{"burstiness", OPTION_MILLIONTHS, &c->burstiness, "B",
			"shape of gamma arrivals: 1 is Poisson, below it burstier", 10000, BILLION,
			NULL, &g->burstiness},
		{"ramp", OPTION_TEXT, &c->ramp, "FROM:TO:STEPS",
			"requests/s that rise or fall in equal steps over --duration", 0, 0, NULL,
			&g->ramp},
		{"duration", OPTION_MILLIONTHS, &c->duration_s, "S",
			"requests that would arrive S seconds in, or later, do not", 1,
			BILLION * 1000000, NULL, &g->duration_s},
		{"speedup", OPTION_MILLIONTHS, &c->speedup, "X",
			"divides the trace's times, default 1; at most 6 decimal places", 1,
			BILLION * 1000000, NULL, &g->speedup},
		{"concurrency", OPTION_COUNT, &c->concurrency, "N",
			"closed loop: N requests at the start, then one for each that leaves; the "
			"trace's "
			"times are not used",
			1, 1 << 28, NULL, &g->concurrency},
		{"max-requests", OPTION_COUNT, &c->max_requests, "N",
			"stop reading the trace after N rows", 1, UINT64_C(1) << 53, NULL,
			&g->max_requests},
		{"warmup", OPTION_COUNT, &c->warmup, "N",
			"leave the first N requests out of the statistics (they do fill the cache)",
			0, UINT64_C(1) << 53, NULL, &g->warmup},
		{"trace-block-size", OPTION_COUNT, &c->trace_block_size, "TOKENS",
			"tokens that one hash id of the trace stands for; default: the format's "
			"own, 512 "
			"for Mooncake",
			1, 1 << 20, NULL, &g->trace_block_size},
		{"tokens", OPTION_TEXT, &c->tokens, "forced|sampled",
			"forced (default): completions are made from the seed, so cache and "
			"lengths are the "
			"same under every runner; sampled: what a model samples",
			0, 0, NULL, &g->tokens},
		{"temperature", OPTION_MILLIONTHS, &c->temperature, "T",
			"of sampled tokens, default 1; 0 is greedy", 0, 100 * 1000000, NULL,
			&g->temperature},
		{"seed", OPTION_COUNT, &c->seed, "N", "of all token ids, default 0", 0,
			UINT64_C(1) << 53, NULL, &g->seed},
	};

	return append_options(rows, count, added, sizeof(added) / sizeof(added[0]));
}

static uint32_t result_options(struct replay_order *order, struct option *rows, uint32_t count)
{
	const struct option added[] = {
		{.kind = OPTION_HEADING, .help = "service level (for attainment and goodput)"},
		{"slo-ttft-ms", OPTION_MILLIONTHS, &order->slo_ttft_ns, "MS",
			"time to the first token, from arrival", 1, BILLION * 1000000, NULL, NULL},
		{"slo-tpot-ms", OPTION_MILLIONTHS, &order->slo_tpot_ns, "MS",
			"time per output token after the first", 1, BILLION * 1000000, NULL, NULL},
		{.kind = OPTION_HEADING, .help = "results"},
		{"out", OPTION_TEXT, &order->out, "DIR", "folder to write; must hold no result yet",
			0, 0, NULL, NULL},
		{"force", OPTION_FLAG, &order->is_forced, NULL, "replace a result that is there", 0,
			0, NULL, NULL},
		{"steps", OPTION_FLAG, &order->wants_steps, NULL,
			"also write steps.tsv, a row for each step", 0, 0, NULL, NULL},
		{"kernel-times", OPTION_FLAG, &order->wants_kernel_times, NULL,
			"CUDA runner only: measure every kernel, by operation and layer, into "
			"kernels.tsv (makes steps a little longer)",
			0, 0, NULL, NULL},
		{"timeline", OPTION_TEXT, &order->timeline, "FILE",
			"also write steps, requests and, with --kernel-times, kernels for Perfetto "
			"(ui.perfetto.dev) or chrome://tracing",
			0, 0, NULL, NULL},
		{"check", OPTION_FLAG, &order->is_checking, NULL,
			"verify every invariant of the engine after each step (slow)", 0, 0, NULL,
			NULL},
	};

	return append_options(rows, count, added, sizeof(added) / sizeof(added[0]));
}

int command_replay(int argc, char **argv)
{
	struct replay_order order = {
		.argc = argc, .argv = argv, .is_checking = QUIRE_CHECK_STEPS != 0};
	struct option rows[OPTIONS_MAX];
	uint32_t count = 0;
	struct error error = {0};
	bool wants_help;
	uint32_t positional_count;

	replay_config_default(&order.config);
	count = simulation_options(&order, rows, count);
	count = engine_options(&order, rows, count);
	count = load_options(&order, rows, count);
	count = result_options(&order, rows, count);
	const struct command command = {
		.name = "replay",
		.arguments = "TRACE --out DIR [options]",
		.summary = summary,
		.examples = examples,
		.option_count = count,
		.options = rows,
		.positional_minimum = 1,
		.positional_maximum = 1,
	};
	enum status status = options_parse(
		&command, argc, argv, &order.trace_path, &positional_count, &wants_help, &error);
	if (wants_help) {
		command_help(&command);
		return 0;
	}
	order.config.enforce_eager = order.is_eager;
	order.config.sort = order.is_sorted;
	if (status == STATUS_OK && order.out == NULL) {
		status = error_set(&error, STATUS_USAGE, "--out DIR says where the result goes");
	}
	if (status == STATUS_OK) {
		status = replay_session_run(&order, &error);
	}
	return status == STATUS_OK ? 0 : command_fail(&command, &error);
}
