#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/jobs/jobs.h"
#include "bench/plan/bands.h"
#include "bench/replay/run.h"
#include "engine/base/memory.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"
#include "workloads/generate/generator.h"
#include "workloads/trace/trace_writer.h"

/* How often the sampling interval of a plan holds the capacity of the process that sends the
   requests: the median of the capacities of many traces of it. Each trace is searched as a plan
   does, and so are 40 replicates, of other seeds and drawn from it. */

#define MILLION UINT64_C(1000000)
#define NS_PER_S UINT64_C(1000000000)

enum {
	REPLICATES = 40,
	TRUTH_SEED = 1000000,
	PRECISION = 10000,
	COARSENESS = 5,
	WORKERS = 2,
	QUICK_S = 3
};

/* What sends the requests, and what is asked of the server. */
struct process {
	const char *name;
	uint64_t duration_s, sessions_per_s;
	uint64_t burstiness; /* of gamma arrivals, in millionths; 0: Poisson */
	uint32_t turns;	     /* of a session at most */
	uint64_t first;	     /* speedup, in millionths: about the capacity */
	uint64_t slo_ttft_ns, attain;
};

static void write_trace(const struct process *process, uint64_t seed, const char *path)
{
	const struct arrival_profile profile = {
		.kind = process->burstiness > 0 ? ARRIVALS_GAMMA : ARRIVALS_POISSON,
		.burstiness_millionths = process->burstiness,
		.rate_from = process->sessions_per_s * MILLION,
		.rate_to = process->sessions_per_s * MILLION,
		.step_count = 1,
		.resolution_ns = 1000,
	};
	const struct generator_options options = {
		.request_count = MILLION,
		.seed = seed,
		.input = {LENGTH_LOG_NORMAL, 16, 8000, 1000, 500000},
		.follow_up = {LENGTH_UNIFORM, 50, 500, 0, 0},
		.output = {LENGTH_UNIFORM, 1, 4, 0, 0},
		.turns = {LENGTH_UNIFORM, 1, process->turns, 0, 0},
		.pause_ns = NS_PER_S / 10,
		.context_max = 16000,
		.profile = &profile,
		.duration_ns = process->duration_s * NS_PER_S,
		.levels = {{.tokens = 256, .count = 2}},
		.level_count = 1,
		.trace_block_size = 64,
	};
	struct generator *generator = generator_open(&options);
	FILE *file = fopen(path, "wb");
	struct trace_row row;

	require(file != NULL, "%s cannot be written", path);
	while (generator_next(generator, &row)) {
		trace_write_row(file, &row);
	}
	generator_close(generator);
	require(fclose(file) == 0, "%s cannot be written", path);
}

struct probe {
	uint64_t speedup, resample_seed, window_ns;
};

struct probed {
	bool passes;
	double margin;		      /* of the share that attains; below 0 where it passes */
	uint64_t latency_ns, span_ns; /* p99 of e2e; of the trace */
};

static struct probed run_probe(
	const struct process *process, const char *path, const struct probe *probe)
{
	struct run_request request = {.trace_path = path, .slo.ttft_ns = process->slo_ttft_ns};
	struct run_outcome outcome;
	struct error error = {0};

	replay_config_default(&request.config);
	request.config.speedup = probe->speedup;
	request.config.resample_seed = probe->resample_seed;
	request.config.resample_window_s = probe->window_ns / 1000;
	request.config.kv_blocks = 2000;
	request.config.max_num_seqs = 32;
	require(run_replay(&request, &outcome, &error) == STATUS_OK, "%s", error.text);
	uint64_t attained = outcome.slo_attained * MILLION;
	uint64_t needed = outcome.measured_submitted * process->attain;
	return (struct probed){
		.passes = outcome.verdict != VERDICT_OVERLOADED && attained >= needed,
		.margin = ((double)needed - (double)attained) / (double)needed,
		.latency_ns = outcome.latency[LATENCY_E2E].ns[STATISTIC_P99],
		.span_ns =
			(uint64_t)((double)outcome.last_arrival_ns * (double)probe->speedup / 1e6),
	};
}

static struct search_options search_of(const struct process *process)
{
	return (struct search_options){
		.minimum = 1000,
		.maximum = 1000 * MILLION,
		.first = process->first,
		.precision = PRECISION,
		.first_step = 1100,
		.width = 1,
	};
}

enum { PROBES_MAX = 200 };

/* Searches and returns what was found; *at: the run that passes; *value: by band_value(). */
static uint64_t search_capacity(const struct process *process, const char *path,
	const struct search_options *options, const struct probe *draw, struct probed *at,
	uint64_t *value)
{
	static struct probed runs[PROBES_MAX];
	struct search *search = search_open(options);
	struct search_probe probe;

	while (search_next(search, &probe)) {
		struct probe run = *draw;
		run.speedup = probe.load;
		require(probe.number < PROBES_MAX, "a search without an end");
		runs[probe.number] = run_probe(process, path, &run);
		search_take(search, probe.number, runs[probe.number].passes, 0);
	}
	struct search_answer answer = search_answer(search);
	search_close(search);
	bool has_both = answer.has_pass && answer.has_fail;
	*value = band_value(&answer, false, has_both ? runs[answer.pass_probe].margin : 0,
		has_both ? runs[answer.fail_probe].margin : 0);
	if (answer.has_pass) {
		*at = runs[answer.pass_probe];
	}
	return answer.highest_pass;
}

struct study {
	const struct process *process;
	char folder[TEMPORARY_PATH_BYTES];
};

/* A trace, and whether replicates are drawn from it. */
struct job {
	uint64_t seed;
	bool is_drawn_from;
};

struct result {
	uint64_t answer;
	uint64_t value; /* as band_value() */
	struct band_window window;
	uint64_t drawn[REPLICATES];
};

static enum status run_job(
	void *context, const struct text *text, struct text *out, struct error *error)
{
	const struct study *study = context;
	const struct process *process = study->process;
	const struct search_options plan = search_of(process);
	struct job job;
	struct result result;
	struct probed at = {0};
	char path[TEMPORARY_PATH_BYTES + 32];

	(void)error;
	memcpy(&job, text->bytes, sizeof(job));
	memset(&result, 0, sizeof(result));
	snprintf(path, sizeof(path), "%s/%llu.jsonl", study->folder, (unsigned long long)job.seed);
	write_trace(process, job.seed, path);
	result.answer =
		search_capacity(process, path, &plan, &(struct probe){0}, &at, &result.value);
	require(result.answer > 0, "no capacity");
	double latency_ns = (double)at.latency_ns * (double)result.answer / 1e6;
	result.window = band_window_of(at.span_ns, (uint64_t)latency_ns);
	const struct search_options from = band_search(&plan, result.answer, COARSENESS);
	for (uint32_t i = 0; i < REPLICATES && job.is_drawn_from; i++) {
		const struct probe draw = {
			.resample_seed = i + 1, .window_ns = result.window.window_ns / 1000 * 1000};
		search_capacity(process, path, &from, &draw, &at, &result.drawn[i]);
	}
	unlink(path);
	text_add_bytes(out, (const char *)&result, sizeof(result));
	return STATUS_OK;
}

static const struct process processes[] = {
	{"bursts", 5, 200, 300000, 1, 700000, 20000000, 950000},
	{"poisson", 6, 200, 0, 1, 1000000, 20000000, 950000},
	{"sessions", 6, 80, 0, 4, 1000000, 20000000, 950000},
};

/* ---- the study ---- */

struct share {
	uint64_t held, below, above; /* truths: in the interval, below it, above it */
	double width;		     /* of all, relative to the truth */
};

static void count(struct share *share, const struct band *band, double truth)
{
	bool is_below = band->has_low && truth < band->low;
	bool is_above = band->has_high && truth > band->high;

	share->below += is_below;
	share->above += is_above;
	share->held += !is_below && !is_above;
	share->width += (band->high - band->low) / truth;
}

static void print_share(const struct study *study, const char *method, const struct share *share)
{
	double total = (double)(share->held + share->below + share->above);

	printf("%s, %s: %.1f %% of %.0f intervals hold the capacity, %llu lie above it, %llu "
	       "below; mean width %.1f %%\n",
		study->process->name, method, 100 * (double)share->held / total, total,
		(unsigned long long)share->below, (unsigned long long)share->above,
		100 * share->width / total);
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The median of the further traces' capacities. */
static double truth_of(const struct result *further, uint64_t count)
{
	uint64_t *values = memory_take(count, sizeof(*values));

	for (uint64_t i = 0; i < count; i++) {
		values[i] = further[i].value;
	}
	qsort(values, count, sizeof(*values), by_value);
	double truth = ((double)values[(count - 1) / 2] + (double)values[count / 2]) / 2;
	free(values);
	return truth;
}

/* results: (further + traces). */
static void run_all(struct study *study, uint64_t further, uint64_t traces, struct result *results)
{
	const struct jobs_options options = {.workers = WORKERS, .run = run_job, .context = study};
	struct error error = {0};
	struct jobs *jobs;
	struct text text = {0};
	uint64_t number;

	temporary_folder(study->folder);
	require(jobs_open(&jobs, &options, &error) == STATUS_OK, "%s", error.text);
	for (uint64_t i = 0; i < further + traces; i++) {
		struct job job;
		memset(&job, 0, sizeof(job));
		job.seed = i < further ? TRUTH_SEED + i : i - further + 1;
		job.is_drawn_from = i >= further;
		jobs_add(jobs, &job, sizeof(job));
	}
	while (jobs_pending(jobs) > 0) {
		enum status status = jobs_next(jobs, &number, &text, &error);
		require(status == STATUS_OK, "%s", error.text);
		memcpy(&results[number], text.bytes, sizeof(*results));
	}
	text_deinit(&text);
	jobs_close(jobs);
	temporary_remove(study->folder);
}

/* Of other seeds a trace has 40 of the further ones, others for each trace as far as there are
   enough. */
static void judge(const struct study *study, const struct result *results, uint64_t further,
	uint64_t traces, struct share *seeds, struct share *drawn)
{
	double truth = truth_of(results, further);

	for (uint64_t i = 0; i < traces; i++) {
		const struct result *result = &results[further + i];
		uint64_t fresh[REPLICATES];
		for (uint64_t k = 0; k < REPLICATES; k++) {
			fresh[k] =
				results[(i * REPLICATES + k + i * REPLICATES / further) % further]
					.value;
		}
		struct band band = band_of_sampling((double)result->answer, fresh, REPLICATES, 0);
		count(seeds, &band, truth);
		band = band_of_sampling(
			(double)result->answer, result->drawn, REPLICATES, result->window.windows);
		count(drawn, &band, truth);
	}
	print_share(study, "other seeds", seeds);
	print_share(study, "block bootstrap", drawn);
}

/* COVERAGE_TRACES: so many traces of each process and 400 further ones. */
Test(coverage, intervals_hold_the_capacity_of_the_process, .timeout = 14400)
{
	const char *wanted = getenv("COVERAGE_TRACES");
	uint64_t traces = wanted == NULL ? 20 : strtoull(wanted, NULL, 10);
	uint64_t further = wanted == NULL ? 80 : 400;

	for (size_t i = 0; i < sizeof(processes) / sizeof(processes[0]); i++) {
		struct process process = processes[i];
		struct study study = {.process = &process};
		struct share seeds = {0}, drawn = {0};
		if (wanted == NULL && i > 0) {
			break;
		}
		process.duration_s = wanted == NULL ? QUICK_S : process.duration_s;
		struct result *results = memory_take(further + traces, sizeof(*results));
		run_all(&study, further, traces, results);
		judge(&study, results, further, traces, &seeds, &drawn);
		free(results);
		/* At 95 % each, 16 of 20 or fewer are held once in 60 times. */
		require(seeds.held * 100 >= traces * 85, "seeds hold %llu of %llu",
			(unsigned long long)seeds.held, (unsigned long long)traces);
		require(drawn.width < 2 * seeds.width, "draws lie twice as far apart as seeds");
		require(drawn.held * 100 >= traces * 85, "draws hold %llu of %llu",
			(unsigned long long)drawn.held, (unsigned long long)traces);
	}
}
