#include "engine/policy.h"

#include <stddef.h>
#include <string.h>

static const struct policy *const policies[] = {&policy_mixed, &policy_prefill_first};

enum { POLICY_COUNT = sizeof(policies) / sizeof(policies[0]) };

const struct policy *policy_at(uint32_t index)
{
	return index < POLICY_COUNT ? policies[index] : NULL;
}

const struct policy *policy_find(const char *name)
{
	for (uint32_t i = 0; i < POLICY_COUNT; i++) {
		if (strcmp(policies[i]->name, name) == 0) {
			return policies[i];
		}
	}
	return NULL;
}
