#include "bench/plan/asked_load.h"

#include "bench/plan/replicates.h"
#include "engine/base/integer.h"
#include "engine/base/number.h"

#include <math.h>

/* Shares of the load that is asked for: less than the first is another load, and a difference of
   more than the second is told. */
static const double LEAST = 0.9, TOLD = 0.02;

double asked_session_requests(const struct plan *plan)
{
	/* Each later turn has one gap before it. */
	uint64_t sessions = plan->trace_rows - plan->gap_count;

	return sessions == 0 ? 1 : (double)plan->trace_rows / (double)sessions;
}

uint64_t asked_rate_option(
	const struct plan *plan, const struct replay_config *config, uint64_t rate)
{
	if (config->sessions != SESSIONS_CLOSED) {
		return rate;
	}
	return u64_max(1, (uint64_t)((double)rate / asked_session_requests(plan) + 0.5));
}

struct asked_load asked_load_of(const struct plan *plan, uint32_t configuration, uint64_t load,
	const struct probe_figures *figures)
{
	struct replay_config config = plan->configurations[configuration].run.config;
	const struct plan_request *request = plan->request;

	knob_set(plan->knob, &config, load);
	struct asked_load asked = {
		.is_closed = config.sessions == SESSIONS_CLOSED,
		.is_drawn = config.rate > 0,
		.is_target = request->target_rate > 0 || request->target_speedup > 0,
		.arrived_per_s = figures->offered_per_s,
		.requests = figures->submitted,
	};
	if (request->target_rate > 0) {
		asked.asked_per_s = (double)request->target_rate / 1e6;
	} else if (asked.is_drawn) {
		asked.asked_per_s = (double)config.rate / 1e6 *
				    (asked.is_closed ? asked_session_requests(plan) : 1);
	} else {
		asked.asked_per_s = (double)config.speedup / 1e6 * plan_trace_rate(plan);
	}
	asked.is_known = (asked.is_drawn || asked.is_closed) && config.concurrency == 0 &&
			 figures->has_offered && asked.asked_per_s > 0;
	return asked;
}

bool asked_load_is_missed(const struct asked_load *load)
{
	return load->is_known && load->is_target && load->arrived_per_s < LEAST * load->asked_per_s;
}

bool asked_load_is_mean(const struct asked_load *load)
{
	return load->is_known && load->is_closed &&
	       load->arrived_per_s < (1 - TOLD) * load->asked_per_s;
}

void asked_load_add_text(struct text *text, const struct asked_load *load)
{
	if (!load->is_known ||
		fabs(load->arrived_per_s - load->asked_per_s) <= TOLD * load->asked_per_s) {
		return;
	}
	if (load->arrived_per_s < load->asked_per_s) {
		text_format(text, "only %.4g of the %.4g requests/s that are asked for arrive: ",
			load->arrived_per_s, load->asked_per_s);
	} else {
		text_format(text,
			"%.4g requests/s arrive where %.4g are asked for: ", load->arrived_per_s,
			load->asked_per_s);
	}
	if (asked_load_is_mean(load)) {
		text_format(text,
			"with --sessions closed a turn waits for the answer to the one before it, "
			"and the rate is a mean over the whole run, at whose end only a few "
			"sessions are left; a longer trace%s has less of that end, and with "
			"--sessions open no turn waits",
			load->is_drawn ? "" : " (--loop shared --max-requests N)");
		return;
	}
	text_add(text, "the times of ");
	text_add_count(text, load->requests, "request are drawn", "requests are drawn");
	text_add(text, load->is_closed
			       ? ", and the lengths of sessions differ; a longer trace "
				 "comes nearer"
			       : ", and differ by chance; more requests come nearer (--loop "
				 "shared --max-requests N)");
}
