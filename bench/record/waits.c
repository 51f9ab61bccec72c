#include "bench/record/waits.h"

#include "engine/base/check.h"

static void charge(struct waits *waits, enum wait_cause cause, uint64_t until_ns)
{
	check(until_ns >= waits->charged_ns);
	waits->ns[cause] += (u128)waits->measured_count * (until_ns - waits->charged_ns);
	waits->charged_ns = until_ns;
}

void waits_reach(struct waits *waits, uint64_t now_ns)
{
	charge(waits, WAIT_STEP, now_ns);
}

void waits_arrive(struct waits *waits, bool is_measured, uint64_t arrival_ns, uint64_t now_ns)
{
	check(arrival_ns <= now_ns);
	waits_reach(waits, now_ns);
	waits->count++;
	if (is_measured) {
		waits->measured_count++;
		waits->ns[WAIT_STEP] += now_ns - arrival_ns;
	}
}

void waits_admit(struct waits *waits, bool is_measured)
{
	check(waits->count > 0 && waits->measured_count >= is_measured);
	waits->count--;
	waits->measured_count -= is_measured;
}

void waits_step(struct waits *waits, enum wait_cause cause, uint64_t end_ns)
{
	charge(waits, cause, end_ns);
}
