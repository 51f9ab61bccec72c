#include "engine/base/clock.h"

#include <time.h>

uint64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

void pause_ns(uint64_t ns)
{
	const uint64_t second = UINT64_C(1000000000);
	const struct timespec pause = {
		.tv_sec = (time_t)(ns / second), .tv_nsec = (long)(ns % second)};

	nanosleep(&pause, NULL);
}
