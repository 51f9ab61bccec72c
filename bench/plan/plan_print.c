#include "bench/plan/plan_print.h"

#include "bench/plan/binding.h"
#include "bench/plan/replicates.h"
#include "engine/base/memory.h"
#include "engine/base/number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the runs of the best configuration ---- */

static int compare_loads(const void *a, const void *b)
{
	const struct track_probe *first = *(const struct track_probe *const *)a;
	const struct track_probe *second = *(const struct track_probe *const *)b;

	return (first->probe.load > second->probe.load) - (first->probe.load < second->probe.load);
}

static void print_time(
	struct text *text, const struct probe_figures *figures, enum latency_metric metric)
{
	if (figures->has_latency[metric]) {
		text_format(text, " %11.1f", figures->latency_ms[metric][STATISTIC_P99]);
	} else {
		text_format(text, " %11s", "-");
	}
}

static void print_probe(
	struct text *text, const struct plan *plan, const struct track_probe *probe, bool is_answer)
{
	const struct probe_figures *figures = &probe->figures;
	char load[NUMBER_TEXT_BYTES] = "1 at a time";

	if (probe->probe.purpose != SEARCH_ALONE) {
		knob_text(plan->knob, probe->probe.load, load);
	}
	if (probe->failure != NULL) {
		text_format(text, "   %-12s cannot be run: %s\n", load, probe->failure);
		return;
	}
	text_format(text, "%s %-12s %10.4g %8.2f%% %10.4g", is_answer ? "->" : "  ", load,
		figures->has_offered ? figures->offered_per_s : figures->finished_per_s,
		100 * (double)figures->attained / (double)figures->submitted,
		figures->goodput_per_s);
	print_time(text, figures, LATENCY_TTFT);
	print_time(text, figures, LATENCY_TPOT);
	print_time(text, figures, LATENCY_E2E);
	if (figures->has_utilisation) {
		text_format(text, " %6.1f%%", 100 * figures->utilisation);
	} else {
		text_format(text, " %7s", "-");
	}
	text_format(text, "  %s\n", figures->passes ? "passes" : "fails");
}

static void print_probes(
	struct text *text, const struct plan *plan, const struct configuration_answer *own)
{
	const struct track *track = own->track;
	const struct search_answer found = search_answer(track->search);
	const struct track_probe **list = memory_take(track->count + 1, sizeof(*list));
	size_t count = 0;

	for (size_t i = 0; i < track->count; i++) {
		if (track->probes[i].is_taken) {
			list[count++] = &track->probes[i];
		}
	}
	qsort((void *)list, count, sizeof(*list), compare_loads);
	text_format(text, "\n   %-12s %10s %9s %10s %11s %11s %11s %7s\n", knobs[plan->knob].name,
		"requests/s", "attained", "goodput", "ttft p99 ms", "tpot p99 ms", "e2e p99 ms",
		"used");
	for (size_t i = 0; i < count; i++) {
		print_probe(text, plan, list[i],
			own->is_found && list[i]->probe.number == found.pass_probe);
	}
	free((void *)list);
}

/* ---- the configurations ---- */

/* Why a configuration has no answer, behind the word "none". */
static void print_reason(
	struct text *text, const struct plan *plan, const struct configuration_answer *own)
{
	const struct search_answer found = search_answer(own->track->search);

	text_add(text, "  ");
	if (own->is_missed) {
		asked_load_add_text(text, &own->asked);
	} else if (found.fails_alone && own->alone != NULL) {
		text_add(text, "with one request at a time, ");
		binding_add_misses(text, &plan->objective, own->alone);
	} else if (own->why_not_more.byte_count > 0) {
		text_add(text, own->why_not_more.bytes);
	} else if (found.void_probe != SEARCH_NO_PROBE) {
		text_add(text, own->track->probes[found.void_probe].failure);
	} else {
		text_add(text, "not known");
	}
}

static void print_configuration(struct text *text, const struct answers *answers, uint32_t index)
{
	const struct plan_configuration_state *state = &answers->plan->states[index];
	const struct configuration_answer *own = &answers->list[index];
	struct result_value pass = plan_answer_pass(&own->answer);

	text_format(text, "  %-4u %-40s", own->rank, state->name);
	if (!own->is_found) {
		text_format(text, " %10s", "none");
		print_reason(text, answers->plan, own);
		text_add(text, "\n");
		return;
	}
	text_format(
		text, knobs[answers->plan->knob].is_fraction ? " %10.4g" : " %10.0f", pass.value);
	text_format(text, " %6llu %12.4g %12.4g %12.4g", (unsigned long long)own->gpus,
		own->goodput_per_gpu.value, own->throughput_per_gpu.value,
		own->speed_per_user.value);
	if (own->utilisation.has_value) {
		text_format(text, " %6.1f%%", 100 * own->utilisation.value);
	} else {
		text_format(text, " %7s", "-");
	}
	text_format(text, "  %s%s\n", state->profile, own->on_pareto_front ? "  front" : "");
}

/* How two neighbours in rank compare, on the same draws of the trace. */
static void print_pair(struct text *text, const struct answers *answers, uint32_t a, uint32_t b)
{
	const struct plan_interval ratio = answers_ratio(answers, a, b);
	const char *first = answers->plan->states[a].name;
	const char *second = answers->plan->states[b].name;

	if (answers->plan->knob == KNOB_REPLICAS && answers->list[b].is_found &&
		answers->list[a].gpus == answers->list[b].gpus &&
		answers->list[a].pass->demand < answers->list[b].pass->demand) {
		text_format(text, "  %s and %s need the same GPUs; the first has more head room\n",
			first, second);
	}
	if (!ratio.low.has_value || !ratio.high.has_value) {
		return;
	}
	if (answers_are_same(answers, a, b)) {
		text_format(text, "  %s and %s do not differ: ", first, second);
	} else {
		text_format(text, "  %s is ahead of %s: ", first, second);
	}
	plan_add_ratio(text, &ratio);
	text_add(text, " times its goodput a GPU\n");
}

/* Another policy, model or number of GPUs may have a profile of its own. */
static void print_profiles(struct text *text, const struct answers *answers)
{
	const struct plan_configuration_state *states = answers->plan->states;
	const uint32_t best = answers->by_rank[0];

	for (uint32_t i = 0; i < answers->count; i++) {
		if (answers->list[i].is_found &&
			strcmp(states[i].profile, states[best].profile) != 0) {
			text_format(text,
				"  note: they are priced by different profiles, whose errors "
				"differ "
				"too\n");
			return;
		}
	}
}

static void print_configurations(struct text *text, const struct answers *answers)
{
	if (answers->count == 1) {
		return;
	}
	text_format(text, "\n  %-4s %-40s %10s %6s %12s %12s %12s %7s  %s\n", "rank",
		"configuration", knobs[answers->plan->knob].name, "GPUs", "goodput/GPU",
		"tokens/s/GPU", "tokens/s/user", "used", "profile");
	for (uint32_t i = 0; i < answers->count; i++) {
		print_configuration(text, answers, answers->by_rank[i]);
	}
	for (uint32_t i = 0; i + 1 < answers->count; i++) {
		print_pair(text, answers, answers->by_rank[i], answers->by_rank[i + 1]);
	}
	print_profiles(text, answers);
}

/* ---- the whole ---- */

static void print_stretches(struct text *text, const struct configuration_answer *own)
{
	const struct plan_answer *answer = &own->answer;

	for (uint32_t i = 0; i < answer->stretch_count; i++) {
		const struct plan_stretch *stretch = &answer->stretches[i];
		text_format(text, "note: %s %g", answer->vary, stretch->from);
		if (stretch->to > stretch->from) {
			text_format(text, " to %g", stretch->to);
		}
		text_add(text, " fails although a harder load passes: the answer stays clear of "
			       "it\n");
	}
}

static void print_details(struct text *text, const struct plan_configuration_state *state,
	const struct configuration_answer *own, bool is_least)
{
	const struct plan_answer *answer = &own->answer;

	if (own->binding_text.byte_count > 0) {
		text_format(text, "  binds     %s\n", own->binding_text.bytes);
	}
	if (own->is_found && own->why_not_more.byte_count > 0) {
		text_format(text, "  not %-5s %s\n", is_least ? "fewer" : "more",
			own->why_not_more.bytes);
	}
	if (own->is_found && own->alone != NULL && answer->alone.misses.value > 0) {
		text_format(text,
			"  alone     %.0f of %.0f %s %s it with one in the system at a time\n",
			answer->alone.misses.value, answer->alone.requests.value,
			word_of_count(
				(uint64_t)answer->alone.requests.value, "request", "requests"),
			word_of_count((uint64_t)answer->alone.misses.value, "misses", "miss"));
	}
	if (own->sampling.byte_count > 0) {
		text_format(text, "  sampling  %s\n", own->sampling.bytes);
	}
	if (own->model.byte_count > 0) {
		text_format(text, "  model     %s\n", own->model.bytes);
	}
	if (!state->is_calibrated) {
		text_format(text,
			"  prices    uncalibrated: the times of profile %s were never compared "
			"with a run of this engine on a GPU\n",
			state->uncalibrated);
	}
	/* Where there is a model interval its text says so. */
	if (own->model.byte_count == 0 && answer->outside_share.has_value &&
		answer->outside_share.value > OUTSIDE_MOST) {
		text_format(text,
			"  outside   %.1f %% of the step time is of steps unlike those that the "
			"profile "
			"was fitted to\n",
			100 * answer->outside_share.value);
	}
	if (answer->cost_per_million_tokens.has_value) {
		text_format(text,
			"  costs     %.4g a million output tokens, in the unit of "
			"--cost-per-gpu-hour %.4g\n",
			answer->cost_per_million_tokens.value, answer->currency_per_gpu_hour.value);
	}
}

/* What about the profiles is not as was asked for, of each configuration with such a one. */
static void print_profile_notes(struct text *text, const struct plan *plan)
{
	for (uint32_t i = 0; i < plan->configuration_count; i++) {
		const struct plan_configuration_state *state = &plan->states[i];
		if (state->profile_note.byte_count == 0) {
			continue;
		}
		text_add(text, "note: ");
		if (plan->configuration_count > 1) {
			text_format(text, "%s: ", state->name);
		}
		text_format(text, "%s\n", state->profile_note.bytes);
	}
}

/* A rate leaves nothing of the times of the trace. */
static void print_arrivals(
	struct text *text, const struct plan *plan, const struct replay_config *config)
{
	const char *kept = plan->request->target_rate > 0 ? "--target-speedup" : "--vary speedup";

	if (plan->request->target_rate == 0 && plan->knob != KNOB_RATE) {
		return;
	}
	if (config->sessions == SESSIONS_CLOSED) {
		text_format(text,
			"note: with --sessions closed --rate is of sessions, of %.3g requests each "
			"on average\n",
			asked_session_requests(plan));
	}
	text_format(text,
		"note: arrivals are drawn at the rate, without the bursts of the trace; %s keeps "
		"its times\n",
		kept);
}

/* How the load that arrives differs from the one that is asked for. */
static void print_asked(struct text *text, const struct configuration_answer *own)
{
	struct text note = {0};

	asked_load_add_text(&note, &own->asked);
	if (own->is_found && note.byte_count > 0) {
		text_format(text, "note: %s\n", note.bytes);
	}
	text_deinit(&note);
}

/* A closed loop begins with all of its seats filled at once. */
static void print_start(struct text *text, const struct plan *plan,
	const struct configuration_answer *own, const struct replay_config *config)
{
	if (plan->knob == KNOB_CONCURRENCY && own->is_found && config->warmup == 0) {
		text_add(text, "note: all requests at a time begin at time 0, and what they wait "
			       "for there counts, the less the longer the trace is: --warmup N "
			       "leaves the first N requests out\n");
	}
}

void plan_warn_of_memory(const struct plan *plan)
{
	for (uint32_t i = 0; i < plan->configuration_count; i++) {
		const struct plan_configuration_state *state = &plan->states[i];
		if (state->is_beyond_memory) {
			fprintf(stderr,
				"warning: %s: %llu KV %s more than the memory of %s has room for, "
				"which is %llu\n",
				state->name, (unsigned long long)state->kv_blocks,
				word_of_count(state->kv_blocks, "block is", "blocks are"),
				state->gpu, (unsigned long long)state->found_kv_blocks);
		}
	}
}

void plan_note_positions(const struct plan *plan)
{
	bool is_noted = false;

	for (uint32_t i = 0; i < plan->configuration_count && !is_noted; i++) {
		is_noted = run_note_positions(&plan->configurations[i].run.config, NULL, stderr);
	}
}

void plan_print(struct text *text, const struct answers *answers)
{
	const uint32_t best = answers->by_rank[0];
	const struct configuration_answer *own = &answers->list[best];
	const struct plan *plan = answers->plan;

	text_format(text, "%s\n", own->sentence.bytes);
	if (!own->is_found && answers->count == 1 && !plan->is_interrupted) {
		return;
	}
	print_details(text, &plan->states[best], own, knobs[plan->knob].is_least);
	if (plan->request->made_by != NULL) {
		text_format(text, "  trace     %s\n", plan->request->made_by);
	}
	print_profile_notes(text, plan);
	print_arrivals(text, plan, &plan->configurations[best].run.config);
	print_asked(text, own);
	print_start(text, plan, own, &plan->configurations[best].run.config);
	print_stretches(text, own);
	if (own->is_found && own->router_note.byte_count > 0) {
		text_format(text, "note: %s\n", own->router_note.bytes);
	}
	if (own->early_turns.byte_count > 0) {
		text_format(text, "note: %s\n", own->early_turns.bytes);
	}
	if (own->short_trace.byte_count > 0) {
		text_format(text, "note: %s\n", own->short_trace.bytes);
	}
	print_probes(text, plan, own);
	print_configurations(text, answers);
}
