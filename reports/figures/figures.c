#include "reports/figures/figures.h"

#include <assert.h>
#include <stddef.h>

const struct figure figures[] = {
	{"sequences", "sequences.gp", NULL, "Running and waiting sequences",
		"A queue that keeps growing means that requests arrive faster than they are "
		"served. One that empties again was a burst. Waiting are those that a step leaves "
		"behind when it starts, preempted ones too; who arrives while it runs, waits at "
		"the router or lost an attempt counts in \u201cWhy requests wait\u201d alone.",
		false, false, FIGURE_OF_ALL},
	{"waits", "waits.gp", NULL, "Why requests wait",
		"Requests that have arrived and were never admitted, by what the first of them "
		"lacked. Those that arrived while a step was running wait for its end at least.",
		true, false, FIGURE_OF_ALL},
	{"throughput", "throughput.gp", NULL, "Tokens a second",
		"Generated tokens, and prompt tokens computed (those found in the cache cost "
		"nothing and are not counted): where one curve falls as the other rises, they "
		"compete for the same steps.",
		false, false, FIGURE_OF_ALL},
	{"kv-use", "kv_use.gp", NULL, "KV blocks in use",
		"The dashed line is the pool: a curve that lies on it makes sequences wait or be "
		"preempted, one far below it leaves memory to spare.",
		false, false, FIGURE_OF_ALL},
	{"hit-rate", "hit_rate.gp", NULL, "Prefix-cache hit rate",
		"Strong: hits of all prompt tokens admitted so far, whose end is the figure of the "
		"whole run; faint: the same within each slice of time.",
		false, false, FIGURE_OF_HITS},
	{"preemptions", "preemptions.gp", NULL, "Preemptions",
		"Counted from the start: a flat curve is good, a steep one is a time in which "
		"blocks ran out and work was thrown away to be done again.",
		false, false, FIGURE_OF_ALL},
	{"queue", "latency.gp", "queue", "Time in the queue",
		"From a request's intended arrival to its first admission: the part of the time to "
		"first token that more capacity would remove.",
		false, true, FIGURE_OF_ALL},
	{"ttft", "latency.gp", "ttft", "Time to first token",
		"From a request's intended arrival, so it includes the queue. The curve gives the "
		"share of requests that waited at most so long.",
		false, true, FIGURE_OF_ALL},
	{"tpot", "latency.gp", "tpot", "Time per output token",
		"Each request's mean time between its tokens after the first: how fast text "
		"streams to a reader.",
		false, true, FIGURE_OF_ALL},
	{"e2e", "latency.gp", "e2e", "End-to-end latency",
		"From a request's intended arrival to its last token; it grows with the length of "
		"the output.",
		false, true, FIGURE_OF_ALL},
	{"itl", "latency.gp", "itl", "Inter-token latency",
		"Every gap between two tokens, preemptions included: the long ones are the stalls "
		"that a reader notices.",
		false, true, FIGURE_OF_ALL},
	{"ttft-length", "ttft_length.gp", "ttft", "Time to first token by length of the prompt",
		"Of the requests of each octave of prompt lengths. Where the curves rise, long "
		"prompts wait for their own computation; where they are flat and high, all wait "
		"for others.",
		false, false, FIGURE_OF_REQUESTS},
	{"lengths", "lengths.gp", NULL, "Lengths of prompts and outputs",
		"Of all requests that the run read: prompts decide the work before the first "
		"token, "
		"outputs how long a request holds its KV blocks.",
		false, false, FIGURE_OF_REQUESTS},
	{"step-time", "step_time.gp", NULL, "Step time by what a step computed",
		"Each field is the mean over all steps of that composition: to the right more "
		"sequences decode at once, upwards more prompt tokens are computed beside them; "
		"empty fields never occurred.",
		true, false, FIGURE_OF_ALL},
	{"replicas", "replicas.gp", NULL, "Load of each replica",
		"Bars as high as each other mean that the router divides the work evenly. A "
		"replica "
		"that stands out holds what others would have to compute again, or was picked too "
		"often.",
		false, false, FIGURE_OF_FLEETS},
	{"operations", "operations.gp", NULL, "GPU time by operation",
		"From the bottom in order of their time in the whole run. What is missing to 100 % "
		"are the gaps between kernels, to which measuring adds, and time without work; "
		"kernels may overlap, so that their sum may be more.",
		true, false, FIGURE_OF_KERNELS},
	{"step-operations", "step_operations.gp", NULL, "GPU time of a step, by kind of step",
		"Steps that only decode, that only compute prompts, and that do both: their "
		"number, their mean time, and what it went to.",
		true, false, FIGURE_OF_KERNELS},
};

const uint32_t figure_count = sizeof(figures) / sizeof(figures[0]);

static_assert(sizeof(figures) / sizeof(figures[0]) <= FIGURES_MAX, "a report has room for each");
