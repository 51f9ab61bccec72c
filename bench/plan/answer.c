#include "bench/plan/answer.h"

#include "bench/fleet/replicas.h"
#include "bench/plan/binding.h"
#include "bench/plan/replicates.h"
#include "engine/base/memory.h"
#include "engine/base/number.h"
#include "engine/router/router.h"

#include <stdlib.h>
#include <string.h>

/* ---- numbers ---- */

static struct result_value value_of(bool has_value, double value)
{
	return (struct result_value){has_value, has_value ? value : 0};
}

static const struct probe_figures *figures_at(const struct track *track, uint32_t number)
{
	return number == SEARCH_NO_PROBE ? NULL : &track->probes[number].figures;
}

static const struct probe_figures *alone_of(const struct track *track)
{
	for (size_t i = 0; i < track->count; i++) {
		if (track->probes[i].probe.purpose == SEARCH_ALONE &&
			track_probe_is_done(&track->probes[i])) {
			return &track->probes[i].figures;
		}
	}
	return NULL;
}

static void set_loads(struct configuration_answer *own, const struct plan *plan,
	const struct replay_config *config, const struct search_answer *found)
{
	struct plan_answer *answer = &own->answer;
	bool is_least = knobs[plan->knob].is_least;
	bool has_pass = found->has_pass && !own->is_missed;
	struct result_value pass = value_of(has_pass, knob_value(plan->knob, found->highest_pass));
	struct result_value fail =
		value_of(found->has_fail, knob_value(plan->knob, found->lowest_fail));

	*(is_least ? &answer->lowest_pass : &answer->highest_pass) = pass;
	*(is_least ? &answer->highest_fail : &answer->lowest_fail) = fail;
	/* One replica or one block is the least there can be, so it is no bound. */
	answer->is_bound = has_pass && found->is_bound && !(is_least && found->is_complete);
	answer->is_least = is_least;
	answer->vary = knobs[plan->knob].name;
	answer->unit = plan->knob == KNOB_RATE && config->sessions == SESSIONS_CLOSED
			       ? PLAN_UNIT_SESSIONS
			       : knobs[plan->knob].unit;
	for (uint32_t i = 0; i < found->stretch_count; i++) {
		answer->stretches[i] =
			(struct plan_stretch){knob_value(plan->knob, found->stretches[i].from),
				knob_value(plan->knob, found->stretches[i].to)};
	}
	answer->stretch_count = found->stretch_count;
	if (is_least) { /* found from the highest down */
		for (uint32_t i = 0; i < found->stretch_count / 2; i++) {
			uint32_t other = found->stretch_count - 1 - i;
			struct plan_stretch kept = answer->stretches[i];
			answer->stretches[i] = answer->stretches[other];
			answer->stretches[other] = kept;
		}
	}
}

/* Queues need about as long as a latency to become what they stay. */
static bool is_short(const struct probe_figures *figures)
{
	return figures->has_offered && figures->has_latency[LATENCY_E2E] &&
	       figures->arrival_span_ms < figures->latency_ms[LATENCY_E2E][STATISTIC_P99];
}

static void set_run(struct configuration_answer *own, const struct plan *plan,
	const struct probe_figures *figures)
{
	struct plan_answer *answer = &own->answer;
	double gpus = (double)own->gpus;
	double price = (double)plan->request->cost_per_gpu_hour / 1e6;
	/* Of what arrives for a moment, as much is served for long as there is capacity for. Where
	   the trace ends no load tells what would be served in its place. */
	double carried = figures->demand > 1 ? 1 / figures->demand : 1;
	double goodput =
		own->is_limited ? figures->goodput_per_s : figures->offered_goodput_per_s * carried;
	double tokens = own->is_limited ? figures->output_tokens_per_s
					: figures->offered_tokens_per_s * carried;

	answer->attained = value_of(true, (double)figures->attained / (double)figures->submitted);
	answer->offered_requests_per_s = value_of(figures->has_offered, figures->offered_per_s);
	answer->goodput_requests_per_s = value_of(true, goodput);
	answer->output_tokens_per_s = value_of(true, tokens);
	answer->outside_share = value_of(figures->has_outside, figures->outside_share);
	answer->replicas = value_of(true, (double)figures->replicas);
	answer->gpus = value_of(true, gpus);
	answer->currency_per_gpu_hour = value_of(price > 0, price);
	answer->cost_per_million_tokens = value_of(
		price > 0 && tokens > 0, tokens > 0 ? gpus * price / 3600 / tokens * 1e6 : 0);
	own->goodput_per_gpu = value_of(true, goodput / gpus);
	own->throughput_per_gpu = value_of(true, tokens / gpus);
	own->utilisation = value_of(figures->has_utilisation, figures->utilisation);
	double tpot_ms = figures->latency_ms[LATENCY_TPOT][STATISTIC_P50];
	own->speed_per_user = value_of(tpot_ms > 0, tpot_ms > 0 ? 1000 / tpot_ms : 0);
}

static void set_alone(struct plan_answer *answer, const struct probe_figures *figures)
{
	uint64_t misses = figures->submitted - figures->attained;

	answer->alone.requests = value_of(true, (double)figures->submitted);
	answer->alone.misses = value_of(true, (double)misses);
	answer->alone.longest_tokens =
		value_of(figures->longest_missed > 0, (double)figures->longest_missed);
}

/* ---- sentences ---- */

static void add_count(struct text *text, double count)
{
	text_add_number(text, NUMBER_COUNT, true, count);
}

/* The load as its option: "--speedup 2.4". */
static void add_load(struct text *text, const struct plan *plan, uint64_t load)
{
	char number[NUMBER_TEXT_BYTES];

	knob_text(plan->knob, load, number);
	text_format(text, "--%s %s", knobs[plan->knob].name, number);
}

/* " for --target-rate 40": the load that is asked for, near which that of the run lies. */
static void add_target(struct text *text, const struct plan *plan)
{
	const struct plan_request *request = plan->request;
	bool is_rate = request->target_rate > 0;
	uint64_t target = is_rate ? request->target_rate : request->target_speedup;
	char number[NUMBER_TEXT_BYTES];

	if (target > 0) {
		knob_text(is_rate ? KNOB_RATE : KNOB_SPEEDUP, target, number);
		text_format(text, " for --target-%s %s", is_rate ? "rate" : "speedup", number);
	}
}

static void add_option(struct text *text, const struct plan *plan, uint64_t load)
{
	text_add(text, " (");
	add_load(text, plan, load);
	add_target(text, plan);
	text_add(text, ")");
}

static void add_who(struct text *text, const struct plan_configuration_state *state,
	const struct configuration_answer *own)
{
	uint64_t replicas = own->pass->replicas;

	if (replicas > 1) {
		text_format(text, "%llu replicas ", (unsigned long long)replicas);
		if (own->gpus != replicas) {
			text_format(text, "(%llu GPUs) ", (unsigned long long)own->gpus);
		}
		text_add(text, "of ");
	}
	text_add(text, state->model);
	text_add(text, " on ");
	text_add(text, state->profile);
}

static void add_carried(struct text *text, const struct configuration_answer *own)
{
	const struct probe_figures *figures = own->pass;

	text_add_number(text, NUMBER_RATE, true,
		figures->has_offered ? figures->offered_per_s : figures->finished_per_s);
	text_add(text, " requests/s");
	if (is_short(figures)) {
		text_format(text, " for %.3g s", figures->arrival_span_ms / 1e3);
	}
	if (asked_load_is_mean(&own->asked)) {
		text_add(text, " as a mean over the whole run");
	}
}

/* "3 replicas (3 GPUs) of qwen3-0.6b on h200 carry 10.2 requests/s" */
static void add_found(struct text *text, const struct plan *plan,
	const struct configuration_answer *own, const struct plan_configuration_state *state,
	const struct search_answer *found)
{
	if (plan->knob == KNOB_REPLICAS) {
		text_add_count(text, found->highest_pass, "replica (", "replicas (");
		text_add_count(text, own->gpus, "GPU) of ", "GPUs) of ");
		text_format(text, "%s on %s %s ", state->model, state->gpu,
			word_of_count(found->highest_pass, "carries", "carry"));
		add_carried(text, own);
	} else if (plan->knob == KNOB_KV_BLOCKS) {
		text_add_count(text, found->highest_pass, "KV block of ", "KV blocks of ");
		text_add_count(text, state->block_size, "token ", "tokens ");
		text_add(text, word_of_count(found->highest_pass, "carries ", "carry "));
		add_carried(text, own);
		text_add(text, " with ");
		add_who(text, state, own);
	} else {
		add_who(text, state, own);
		text_add(text, own->pass->replicas > 1 ? " carry " : " carries ");
		if (own->is_limited) {
			text_add(text, "all that the trace can show");
			add_option(text, plan, found->highest_pass);
			return;
		}
		text_add(text, own->answer.is_bound ? "at least " : "");
		if (plan->knob == KNOB_CONCURRENCY) {
			text_add_count(text, found->highest_pass, "request at a time, ",
				"requests at a time, ");
		}
		add_carried(text, own);
	}
	if (plan->knob != KNOB_REPLICAS || plan->request->spare == 0) {
		add_option(text, plan, found->highest_pass);
	} else {
		text_format(
			text, ", with %llu of them lost", (unsigned long long)plan->request->spare);
	}
}

/* "79 of 12,031 requests (0.66 %) miss it alone, the longest of 121,000 tokens: 60 miss TTFT, 19
   miss TPOT; --attain 0.99 could pass" */
static void add_alone(struct text *text, const struct configuration_answer *own)
{
	const struct probe_figures *alone = own->alone;
	uint64_t misses = alone->submitted - alone->attained;

	add_count(text, (double)misses);
	text_add(text, " of ");
	text_add_count(text, alone->submitted, "request (", "requests (");
	text_add_number(text, NUMBER_SHARE, true, (double)misses / (double)alone->submitted);
	text_format(text, ") %s it even with one request in the system at a time",
		word_of_count(misses, "misses", "miss"));
	if (alone->rejected > 0) {
		text_add(text, ", ");
		add_count(text, (double)alone->rejected);
		text_add(text, " of them rejected: ");
		binding_add_rejections(text, alone);
	}
	if (alone->longest_missed > 0) {
		text_add(text, ", the longest of ");
		text_add_count(text, alone->longest_missed, "token", "tokens");
	}
	if (alone->rejected < misses) {
		binding_add_causes(text, alone, alone->rejected > 0 ? "; " : ": ");
	}
	/* Hundredths, rounded down, since load takes away more. */
	uint64_t hundredths = 100 * alone->attained / alone->submitted;
	if (hundredths > 0) {
		text_format(text, "; --attain %.2f could pass", (double)hundredths / 100);
	}
}

/* "; --rate 0.5 cannot be run: REASON" */
static void add_void(struct text *text, const struct plan *plan, const struct track *track,
	const struct search_answer *found)
{
	if (found->void_probe == SEARCH_NO_PROBE) {
		return;
	}
	const struct track_probe *probe = &track->probes[found->void_probe];
	text_add(text, "; ");
	add_load(text, plan, probe->probe.load);
	text_format(text, " cannot be run: %s", probe->failure);
}

/* Why nothing passes. */
static void add_none(struct text *text, const struct answers *answers,
	const struct configuration_answer *own, const struct search_answer *found)
{
	const struct plan *plan = answers->plan;

	if (own->is_missed) {
		text_add(text, "not known: ");
		asked_load_add_text(text, &own->asked);
		text_add(text, "; ");
		add_load(text, plan, found->highest_pass);
		text_add(text, " passes what arrives");
		return;
	}
	if (!found->is_complete) {
		text_add(text, plan->is_interrupted ? "not known: no run that passes was found "
						      "before the interrupt"
						    : "not known: no run that passes was found");
		return;
	}
	if (!found->has_fail && !found->fails_alone) {
		text_add(text, "not known: the run at the load to begin with cannot be made");
		add_void(text, plan, own->track, found);
		return;
	}
	text_add(text,
		knobs[plan->knob].is_least ? "no number of them suffices for " : "no load passes ");
	if (knobs[plan->knob].is_least) {
		text_add_bytes(text, answers->slo.bytes, answers->slo.byte_count);
	} else {
		text_add(text, "(");
		text_add_bytes(text, answers->slo.bytes, answers->slo.byte_count);
		text_add(text, ")");
	}
	text_add(text, ": ");
	if (found->fails_alone && own->alone->judged.miss == MISS_LIMIT) {
		text_add(text, "with one request in the system at a time, ");
		binding_add_misses(text, &plan->objective, own->alone);
		return;
	}
	if (found->fails_alone) {
		add_alone(text, own);
		return;
	}
	text_add(text, "at ");
	add_load(text, plan, found->lowest_fail);
	text_add(text, ", ");
	binding_add_misses(text, &plan->objective, own->fail);
	add_void(text, plan, own->track, found);
	if (own->router_note.byte_count > 0) {
		text_format(text, "; %s", own->router_note.bytes);
	}
}

/* How all requests of the trace come, at the load behind which it shows no more. */
static void add_all_at_once(
	struct text *text, const struct plan_configuration_state *state, uint64_t requests)
{
	if (requests == 1) {
		text_add(text, "it has one request");
		return;
	}
	text_add(text, "there all its ");
	add_count(text, (double)requests);
	text_add(text, state->limit == LIMIT_ROWS ? " requests are in the system at a time"
						  : " requests come within one step");
}

/* Why no load was found that fails. */
static void add_no_fail(struct text *text, const struct plan *plan,
	const struct plan_configuration_state *state, const struct configuration_answer *own,
	const struct search_answer *found)
{
	if (found->void_probe != SEARCH_NO_PROBE) {
		add_void(text, plan, own->track, found);
	} else if (own->is_limited) {
		text_add(text, "; it cannot show more, for ");
		add_all_at_once(text, state, own->pass->trace_requests);
		text_add(text, "; a longer trace can");
	} else {
		text_add(text, "; no load was found that fails");
	}
}

static void set_sentence(struct answers *answers, struct configuration_answer *own,
	const struct plan_configuration_state *state, const struct search_answer *found)
{
	const struct plan *plan = answers->plan;
	struct text *text = &own->sentence;

	if (!own->is_found) {
		add_none(text, answers, own, found);
		return;
	}
	add_found(text, plan, own, state, found);
	text_add(text, ", ");
	text_add_bytes(text, answers->slo.bytes, answers->slo.byte_count);
	if (own->fail != NULL) {
		const char *name = own->answer.binding;
		text_format(text, "; %s %s", name, binding_verb(name));
	} else if (found->is_complete && !knobs[plan->knob].is_least) {
		add_no_fail(text, plan, state, own, found);
	}
	if (plan->is_interrupted && !found->is_complete) {
		text_add(text, "; interrupted, so this is a bound");
	}
}

/* The sentence on the run that fails next to the answer. */
static void set_why(struct configuration_answer *own, const struct plan *plan,
	const struct search_answer *found)
{
	if (own->fail == NULL) {
		return;
	}
	text_add(&own->why_not_more, "at ");
	add_load(&own->why_not_more, plan, found->lowest_fail);
	text_add(&own->why_not_more, ", ");
	binding_add_misses(&own->why_not_more, &plan->objective, own->fail);
}

static void set_short(struct configuration_answer *own)
{
	const struct probe_figures *figures = own->pass;

	if (figures == NULL || !is_short(figures)) {
		return;
	}
	text_format(&own->short_trace,
		"all requests arrive within %.3g s, less than their p99 latency of %.3g s: queues "
		"do not grow to what they become under a load that lasts, so the answer may be too "
		"good; --loop shared --max-requests N repeats the trace",
		figures->arrival_span_ms / 1e3,
		figures->latency_ms[LATENCY_E2E][STATISTIC_P99] / 1e3);
}

/* How many of ascending gaps are shorter than `most`. */
static size_t shorter_gaps(const struct plan *plan, double most)
{
	size_t low = 0, high = plan->gap_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if ((double)plan->gaps[middle] < most) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return low;
}

/* A load that is scaled squeezes the time between the turns of a session, while more traffic would
   be more sessions. */
static void set_early(struct configuration_answer *own, const struct plan *plan, uint32_t index)
{
	const double share_least = 0.1;
	const struct probe_figures *figures = own->pass;
	bool is_open = plan->configurations[index].run.config.sessions == SESSIONS_OPEN;

	if (figures == NULL || !is_open || plan->gap_count == 0 || !figures->has_offered ||
		!figures->has_latency[LATENCY_E2E] || plan->trace_span_ns == 0 ||
		plan->knob == KNOB_CONCURRENCY) {
		return;
	}
	double answer_ns = figures->latency_ms[LATENCY_E2E][STATISTIC_P50] * 1e6;
	size_t early =
		shorter_gaps(plan, answer_ns * figures->offered_per_s / plan_trace_rate(plan));
	double share = (double)early / (double)plan->gap_count;
	if (share < share_least) {
		return;
	}
	text_format(&own->early_turns,
		"about %.0f %% of the turns behind a session's first come sooner than half of all "
		"answers take: this load squeezes sessions, where more traffic would be more of "
		"them and hit less, so the answer may be too good; plan a trace of more sessions "
		"(quire trace make --session-rate), or with --sessions closed, whose rate is a "
		"mean over the whole run with its end",
		100 * share);
}

/* By the runs at the answer and next to it. */
static void set_router_note(struct configuration_answer *own, const struct replay_config *config)
{
	const struct probe_figures *runs[] = {own->pass, own->fail};

	for (uint32_t i = 0; i < 2 && own->router_note.byte_count == 0; i++) {
		if (runs[i] != NULL && runs[i]->is_router_blind) {
			replicas_add_blind(
				&own->router_note, router_at((uint32_t)config->router)->name);
		}
	}
}

static void set_texts(struct configuration_answer *own)
{
	struct plan_answer *answer = &own->answer;

	answer->sentence = own->sentence.bytes;
	answer->binding_text = own->binding_text.bytes;
	answer->why_not_more = own->why_not_more.bytes;
	answer->short_trace = own->short_trace.bytes;
	answer->early_turns = own->early_turns.bytes;
	answer->router_note = own->router_note.bytes;
}

/* Near the answer, goodput is in proportion to the load; of a larger fleet a GPU has the less of
   it. */
static void set_goodput_interval(struct configuration_answer *own)
{
	const struct plan_interval *loads = &own->answer.sampling.interval;
	double pass = plan_answer_pass(&own->answer).value;
	double goodput = own->goodput_per_gpu.value;
	bool is_least = own->answer.is_least;

	if (!own->goodput_per_gpu.has_value || !(pass > 0)) {
		return;
	}
	if (!is_least) {
		own->goodput_interval.low =
			value_of(loads->low.has_value, goodput * loads->low.value / pass);
		own->goodput_interval.high =
			value_of(loads->high.has_value, goodput * loads->high.value / pass);
	} else if (strcmp(own->answer.vary, "replicas") == 0) {
		own->goodput_interval.low = value_of(loads->high.has_value,
			loads->high.has_value ? goodput * pass / loads->high.value : 0);
		own->goodput_interval.high = value_of(loads->low.has_value,
			loads->low.has_value ? goodput * pass / loads->low.value : 0);
	}
}

static void answer_configuration(struct answers *answers, uint32_t index)
{
	const struct plan *plan = answers->plan;
	const struct plan_configuration_state *state = &plan->states[index];
	const struct track *track = plan->tracks[state->main];
	const struct search_answer found = search_answer(track->search);
	struct configuration_answer *own = &answers->list[index];
	const struct probe_figures *binding;

	if (found.has_pass && !found.fails_alone) {
		own->asked = asked_load_of(
			plan, index, found.highest_pass, figures_at(track, found.pass_probe));
		own->is_missed = asked_load_is_missed(&own->asked);
		own->is_found = !own->is_missed;
	}
	own->pass = own->is_found ? figures_at(track, found.pass_probe) : NULL;
	own->fail = figures_at(track, found.fail_probe);
	own->alone = alone_of(track);
	own->track = track;
	own->gpus =
		own->is_found ? (uint64_t)plan_gpus(state->gpus, (double)own->pass->replicas) : 0;
	own->is_limited = own->is_found && !found.has_fail && found.is_complete &&
			  state->limit != LIMIT_NONE && found.highest_pass == found.hardest;
	set_loads(own, plan, &plan->configurations[index].run.config, &found);
	if (own->is_found) {
		set_run(own, plan, own->pass);
	}
	if (own->alone != NULL) {
		set_alone(&own->answer, own->alone);
	}
	own->answer.spare = value_of(plan->request->spare > 0, (double)plan->request->spare);
	binding = found.fails_alone ? own->alone : own->fail;
	own->answer.binding = "";
	if (binding != NULL) {
		own->answer.binding = binding_name(&plan->objective, binding);
		binding_add_text(&own->binding_text, &plan->objective, binding);
	}
	set_router_note(own, &plan->configurations[index].run.config);
	set_sentence(answers, own, state, &found);
	set_why(own, plan, &found);
	set_short(own);
	set_early(own, plan, index);
	set_texts(own);
	replicates_answer(plan, index, &own->answer, &own->sampling, &own->model);
	set_goodput_interval(own);
}

/* ---- how configurations compare ---- */

/* Less than 0: a is better; more: b is. */
static int compare_least(double a, double b)
{
	return (a > b) - (a < b);
}

static double kv_tokens(const struct answers *answers, uint32_t index)
{
	return plan_answer_pass(&answers->list[index].answer).value *
	       (double)answers->plan->states[index].block_size;
}

/* Of a given load fewer GPUs are better, of KV blocks the smaller pool, and of a load that is
   looked for more goodput a GPU; then what has more head room. */
static int compare(const struct answers *answers, uint32_t a, uint32_t b)
{
	const struct configuration_answer *first = &answers->list[a], *second = &answers->list[b];
	int order = compare_least(second->is_found, first->is_found);

	if (order != 0 || !first->is_found) {
		return order;
	}
	if (knobs[answers->plan->knob].is_least) {
		order = compare_least((double)first->gpus, (double)second->gpus);
		if (order == 0 && answers->plan->knob == KNOB_KV_BLOCKS) {
			order = compare_least(kv_tokens(answers, a), kv_tokens(answers, b));
		}
	} else {
		order = compare_least(second->goodput_per_gpu.value, first->goodput_per_gpu.value);
	}
	return order != 0 ? order : compare_least(first->pass->demand, second->pass->demand);
}

/* Equal ones in the order given. Few, so an insertion sort does. */
static void rank(struct answers *answers)
{
	for (uint32_t i = 0; i < answers->count; i++) {
		uint32_t at = i;
		while (at > 0 && compare(answers, answers->by_rank[at - 1], i) > 0) {
			answers->by_rank[at] = answers->by_rank[at - 1];
			at--;
		}
		answers->by_rank[at] = i;
	}
	for (uint32_t i = 0; i < answers->count; i++) {
		answers->list[answers->by_rank[i]].rank = i + 1;
	}
}

/* On the front is what no other beats in throughput a GPU without losing speed a user. */
static void find_front(struct answers *answers)
{
	for (uint32_t i = 0; i < answers->count; i++) {
		struct configuration_answer *own = &answers->list[i];
		own->on_pareto_front = own->is_found && own->speed_per_user.has_value;
		for (uint32_t k = 0; k < answers->count && own->on_pareto_front; k++) {
			const struct configuration_answer *other = &answers->list[k];
			if (k == i || !other->is_found || !other->speed_per_user.has_value) {
				continue;
			}
			double more =
				other->throughput_per_gpu.value - own->throughput_per_gpu.value;
			double faster = other->speed_per_user.value - own->speed_per_user.value;
			own->on_pareto_front =
				!(more >= 0 && faster >= 0 && (more > 0 || faster > 0));
		}
	}
}

struct plan_interval answers_ratio(const struct answers *answers, uint32_t a, uint32_t b)
{
	const struct result_value *first = &answers->list[a].goodput_per_gpu;
	const struct result_value *second = &answers->list[b].goodput_per_gpu;
	struct band band = {0};

	if (first->has_value && second->has_value) {
		band = replicates_ratio(answers->plan, a, b, first->value, second->value);
	}
	return (struct plan_interval){
		value_of(band.has_low, band.low), value_of(band.has_high, band.high)};
}

bool answers_are_same(const struct answers *answers, uint32_t a, uint32_t b)
{
	const struct plan_interval ratio = answers_ratio(answers, a, b);

	return a != b && plan_ratio_is_one(&ratio);
}

static void compare_with_best(struct answers *answers)
{
	uint32_t best = answers->by_rank[0];
	const struct result_value *most = &answers->list[best].goodput_per_gpu;

	for (uint32_t i = 0; i < answers->count; i++) {
		struct configuration_answer *own = &answers->list[i];
		bool has_ratio =
			own->goodput_per_gpu.has_value && most->has_value && most->value > 0;
		own->against_best = value_of(
			has_ratio, has_ratio ? own->goodput_per_gpu.value / most->value : 0);
		if (has_ratio && i != best) {
			own->against_best_interval = answers_ratio(answers, i, best);
		}
	}
}

void answers_open(struct answers *answers, const struct plan *plan)
{
	*answers = (struct answers){.plan = plan, .count = plan->configuration_count};
	answers->list = memory_take(answers->count, sizeof(*answers->list));
	answers->by_rank = memory_take(answers->count, sizeof(*answers->by_rank));
	objective_text(&plan->objective, &answers->slo);
	for (uint32_t i = 0; i < answers->count; i++) {
		answer_configuration(answers, i);
	}
	rank(answers);
	find_front(answers);
	compare_with_best(answers);
}

void answers_close(struct answers *answers)
{
	for (uint32_t i = 0; i < answers->count; i++) {
		text_deinit(&answers->list[i].sentence);
		text_deinit(&answers->list[i].binding_text);
		text_deinit(&answers->list[i].why_not_more);
		text_deinit(&answers->list[i].short_trace);
		text_deinit(&answers->list[i].early_turns);
		text_deinit(&answers->list[i].router_note);
		text_deinit(&answers->list[i].sampling);
		text_deinit(&answers->list[i].model);
	}
	free(answers->list);
	free(answers->by_rank);
	text_deinit(&answers->slo);
	*answers = (struct answers){0};
}
