#ifndef BENCH_PLAN_BINDING_H
#define BENCH_PLAN_BINDING_H

#include "bench/plan/objective.h"
#include "bench/plan/probe.h"
#include "engine/base/text.h"

/* What binds: why a run does not pass, and which option would help. */

/* ttft, tpot, e2e, rejections, overload, or the metric of a limit. A request may miss several
   limits; the one that most miss is named. */
const char *binding_name(const struct objective *objective, const struct probe_figures *figures);

/* "binds", or "bind" where the name is a plural. */
const char *binding_verb(const char *name);

/* What that is: seats, KV blocks, the token budget, the steps themselves or memory. */
void binding_add_text(
	struct text *text, const struct objective *objective, const struct probe_figures *figures);

/* How many requests were rejected, why, and the option that takes them. */
void binding_add_rejections(struct text *text, const struct probe_figures *figures);

/* `before`, then "240 miss TPOT, 12 miss TTFT"; nothing where no request misses. */
void binding_add_causes(struct text *text, const struct probe_figures *figures, const char *before);

/* "97.8 % are within it: 240 requests miss TPOT, 12 miss TTFT", or what else fails. */
void binding_add_misses(
	struct text *text, const struct objective *objective, const struct probe_figures *figures);

#endif
