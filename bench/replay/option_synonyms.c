#include "bench/replay/option_synonyms.h"

#include <stddef.h>

#define SAME(theirs, ours)                                                                         \
	{                                                                                          \
		.name = (theirs), .option = (ours)                                                 \
	}
#define MEANS(theirs, ours, text)                                                                  \
	{                                                                                          \
		.name = (theirs), .option = (ours), .value = (text)                                \
	}
#define SAY(theirs, text)                                                                          \
	{                                                                                          \
		.name = (theirs), .help = (text)                                                   \
	}

const struct option_synonym option_synonyms[] = {
	/* accepted */
	{.name = "request-rate", .option = "arrivals", .begins = "inf", .value = "at-once"},
	{.name = "rate", .option = "arrivals", .begins = "inf", .value = "at-once"},
	SAME("request-rate", "rate"),
	SAME("num-prompts", "max-requests"),
	SAME("tp", "tensor-parallel-size"),
	SAME("num-warmups", "warmup"),
	SAME("num-gpu-blocks-override", "kv-blocks"),
	SAME("device-memory-utilization", "gpu-memory-utilization"),
	MEANS("no-enable-prefix-caching", "enable-prefix-caching", "off"),
	MEANS("no-async-scheduling", "async-scheduling", "off"),
	MEANS("no-enable-chunked-prefill", "enable-chunked-prefill", "off"),
	{.name = "goodput", .option = "slo-ttft-ms", .begins = "ttft:"},
	{.name = "goodput", .option = "slo-tpot-ms", .begins = "tpot:"},
	{.name = "goodput", .option = "slo-e2e-ms", .begins = "e2el:"},
	SAME("result-dir", "out"),
	SAME("output-dir", "out"),

	/* explained */
	SAY("goodput", "as a limit of goodput quire has ttft:MS, tpot:MS and e2el:MS "
		       "(--slo-ttft-ms, --slo-tpot-ms, --slo-e2e-ms)"),
	SAY("backend", "quire serves no API: --runner says what computes the steps"),
	SAY("base-url", "quire sends nothing: --runner cuda is its own engine, on this machine"),
	SAY("host", "quire sends nothing: --runner cuda is its own engine, on this machine"),
	SAY("port", "quire sends nothing: --runner cuda is its own engine, on this machine"),
	SAY("endpoint", "quire sends nothing: --runner cuda is its own engine, on this machine"),
	SAY("dataset-path", "the trace is the first argument: quire replay TRACE"),
	SAY("dataset-name", "the format of a trace is known by its first line, or --format"),
	SAY("random-input-len", "quire trace make --input makes a trace of such requests"),
	SAY("random-output-len", "quire trace make --output makes a trace of such requests"),
	SAY("random-range-ratio", "quire trace make --input LOW:HIGH draws lengths between two"),
	SAY("random-prefix-len", "quire trace make --prefix makes a trace of shared prefixes"),
	SAY("prefix-repetition-prefix-len",
		"quire trace make --prefix makes a trace of shared prefixes"),
	SAY("out",
		"this command prints what it finds: --json for programs, and --plot FILE draws it, "
		"where it has them"),
	SAY("columns", "quire trace convert --columns makes a trace of a CSV log"),
	SAY("ramp-up-strategy", "--ramp FROM:TO:STEPS raises the rate over --duration"),
	SAY("ramp-up-start-rps", "--ramp FROM:TO:STEPS raises the rate over --duration"),
	SAY("ramp-up-end-rps", "--ramp FROM:TO:STEPS raises the rate over --duration"),
	SAY("metric-percentiles",
		"percentiles are not chosen: summary.json always has min, p50, p90, p95, p99, "
		"p99_9, max and std of every metric, and latency.tsv gives any other"),
	SAY("percentile-metrics", "every metric has its percentiles in summary.json"),
	SAY("save-result", "--out DIR writes the result"),
	SAY("save-detailed", "--out DIR writes a row for each request"),
	SAY("result-filename", "--out DIR writes the result"),
	SAY("metadata", "provenance.json has the command line, machine and version"),
	SAY("ignore-eos", "a replay always generates the trace's output lengths"),
	SAY("disable-tqdm", "progress is shown only where stderr is a terminal or a file"),
	SAY("profile", "--kernel-times and --timeline show where the time goes"),
	SAY("gpus", "--gpu names the GPU, --tensor-parallel-size divides a model among several, "
		    "--replicas runs several engines"),
	SAY("pipeline-parallel-size", "quire divides a model by --tensor-parallel-size only"),
	SAY("data-parallel-size", "--replicas N runs N engines, and --router says which one a "
				  "request goes to"),
	SAY("data-parallel-external-lb", "--router says which of the --replicas a request goes to"),
	SAY("data-parallel-hybrid-lb", "--router says which of the --replicas a request goes to"),
	SAY("decode-context-parallel-size", "quire divides a model by --tensor-parallel-size only"),
	SAY("prefill-context-parallel-size",
		"quire divides a model by --tensor-parallel-size only"),
	SAY("enable-expert-parallel", "quire knows dense models only"),
	SAY("enable-eplb", "quire knows dense models only"),
	SAY("enable-return-routed-experts", "quire knows dense models only"),
	SAY("aux-output-config", "quire's runners give token ids only"),
	SAY("hf-overrides", "--model DIR takes a folder with a config.json: change it there"),
	SAY("convert", "quire knows models that generate text only"),
	SAY("kv-cache-memory-bytes",
		"--kv-blocks says how many KV blocks there are, and quire info how large one is"),
	SAY("kv-transfer-config", "quire moves no KV cache between engines"),
	SAY("ec-transfer-config", "quire knows text only"),
	SAY("enable-lora", "quire knows one model without adapters"),
	SAY("max-num-partial-prefills",
		"vLLM's v1 scheduler does not heed it, and neither does quire"),
	SAY("max-long-partial-prefills",
		"vLLM's v1 scheduler does not heed it, and neither does quire"),
	SAY("max-num-scheduled-tokens", "--max-num-batched-tokens is the limit of a step"),
	SAY("max-num-active-seqs", "--max-num-seqs with that number decides alike"),
	SAY("max-num-queued-reqs", "quire turns no request away: a run says how long they queue"),
	SAY("max-num-queued-tokens", "quire turns no request away: a run says how long they queue"),
	SAY("performance-mode", "throughput doubles vLLM's defaults: --max-num-seqs 2048 "
				"--max-num-batched-tokens 16384; the others change times only"),
	SAY("prefill-schedule-interval", "quire admits prompts in every step"),
	SAY("long-prefill-token-threshold-adaptive",
		"--long-prefill-token-threshold does not depend on how many wait"),
	SAY("scheduler-reserve-full-isl",
		"it is the default; --no-scheduler-reserve-full-isl switches it off"),
	SAY("scheduler-cls", "--policy chooses the scheduler: vllm is vLLM's own"),
	SAY("prefix-match-unit", "quire finds whole KV blocks: --block-size"),
	SAY("prefix-cache-retention-interval", "quire knows models with full attention only"),
	SAY("disable-sliding-window", "quire knows models with full attention only"),
	SAY("quantization", "quire computes and prices bf16 only"),
	SAY("quantization-config", "quire computes and prices bf16 only"),
	SAY("kv-cache-dtype", "quire keeps K and V in bf16 only"),
	SAY("swap-space", "quire has no swap: what is preempted is computed again"),
	SAY("cpu-offload-gb", "quire keeps the weights on the GPU"),
	SAY("offload-backend", "quire keeps the weights on the GPU"),
	SAY("kv-offloading-size", "quire has no KV cache beyond the GPU's"),
	SAY("kv-offloading-backend", "quire has no KV cache beyond the GPU's"),
	SAY("speculative-config", "quire computes one token a row and step"),
	SAY("spec-method", "quire computes one token a row and step"),
	SAY("spec-model", "quire computes one token a row and step"),
	SAY("spec-tokens", "quire computes one token a row and step"),
	SAY("load-format", "--weights dummy:SEED makes weights up"),
	SAY("served-model-name", "quire serves no API"),
	SAY("tokenizer", "a replay needs no tokenizer: prompts are token ids"),
	{.name = NULL},
};
