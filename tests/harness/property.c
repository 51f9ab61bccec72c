/* fork, alarm and MAP_ANONYMOUS are not C. */
#define _DEFAULT_SOURCE

#include "tests/harness/property.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/check.h"
#include "engine/base/counter_hash.h"

enum { CHOICE_LIMIT = 1 << 17, LOG_BYTES = 1 << 18, SHRINK_RUNS = 4000, TIMEOUT_S = 20 };

enum prop_mode { MODE_RANDOM, MODE_REPLAY, MODE_COUNT };

struct choice {
	uint64_t value;
	uint64_t bound;
};

/* Shared between parent and children: what a child leaves here survives it. */
struct prop {
	enum prop_mode mode;
	uint64_t seed; /* of the current random trial */
	uint64_t trial, trial_end;
	uint32_t given; /* choices prescribed (replay, count) */
	uint32_t count; /* choices made in the current trial */
	bool is_logging;
	bool is_over; /* the odometer has wrapped around */
	uint32_t log_length;
	struct choice choices[CHOICE_LIMIT];
	char log[LOG_BYTES];
};

uint64_t prop_below(struct prop *prop, uint64_t bound)
{
	check(bound >= 1);
	if (bound == 1 || prop->count == CHOICE_LIMIT) {
		return 0;
	}
	struct choice *choice = &prop->choices[prop->count];
	uint64_t value = 0;
	if (prop->mode == MODE_RANDOM) {
		value = counter_hash(counter_key(prop->seed, 0), prop->count) % bound;
	} else if (prop->count < prop->given) {
		value = choice->value < bound ? choice->value : bound - 1;
	}
	*choice = (struct choice){.value = value, .bound = bound};
	prop->count++;
	return value;
}

uint32_t prop_range(struct prop *prop, uint32_t low, uint32_t high)
{
	check(low <= high);
	return low + (uint32_t)prop_below(prop, (uint64_t)high - low + 1);
}

bool prop_chance(struct prop *prop, uint32_t hits, uint32_t of)
{
	return prop_below(prop, of) >= of - hits;
}

void prop_swarm(struct prop *prop, uint32_t *weights, uint32_t count)
{
	static const uint32_t choices[] = {4, 0, 1, 16};
	uint32_t sum = 0;
	for (uint32_t i = 0; i < count; i++) {
		weights[i] = choices[prop_below(prop, 4)];
		sum += weights[i];
	}
	if (sum == 0) {
		weights[0] = 1;
	}
}

uint32_t prop_weighted(struct prop *prop, const uint32_t *weights, uint32_t count)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < count; i++) {
		sum += weights[i];
	}
	uint64_t rest = prop_below(prop, sum);
	for (uint32_t i = 0; i < count; i++) {
		if (rest < weights[i]) {
			return i;
		}
		rest -= weights[i];
	}
	check(false);
	return 0;
}

void prop_log(struct prop *prop, const char *format, ...)
{
	if (!prop->is_logging || prop->log_length + 2 >= LOG_BYTES) {
		return;
	}
	va_list arguments;
	va_start(arguments, format);
	size_t room = LOG_BYTES - prop->log_length - 1;
	int length = vsnprintf(prop->log + prop->log_length, room, format, arguments);
	va_end(arguments);
	check(length >= 0);
	prop->log_length += (size_t)length < room ? (uint32_t)length : (uint32_t)room - 1;
	prop->log[prop->log_length++] = '\n';
	prop->log[prop->log_length] = '\0';
}

/* Advances the odometer: the last choice that can grow does, those behind it are dropped. */
static void advance(struct prop *prop)
{
	check(prop->count < CHOICE_LIMIT);
	uint32_t count = prop->count;
	while (count > 0 && prop->choices[count - 1].value + 1 == prop->choices[count - 1].bound) {
		count--;
	}
	if (count > 0) {
		prop->choices[count - 1].value++;
	}
	prop->given = count;
	prop->is_over = count == 0;
}

static void run_trials(struct prop *prop, const struct prop_options *options)
{
	while (prop->trial < prop->trial_end && !prop->is_over) {
		(void)alarm(options->timeout_s == 0 ? TIMEOUT_S : options->timeout_s);
		prop->count = 0;
		prop->log_length = 0;
		options->body(prop, options->context);
		if (prop->mode == MODE_COUNT) {
			advance(prop);
		}
		if (prop->mode == MODE_RANDOM) {
			prop->seed++;
		}
		prop->trial++;
	}
}

/* Runs trials [trial, trial_end) in a child; returns whether it survived all of them. */
static bool run_child(struct prop *prop, const struct prop_options *options, bool is_quiet)
{
	(void)fflush(NULL);
	pid_t child = fork();
	check(child >= 0);
	if (child == 0) {
		(void)signal(SIGALRM, SIG_DFL);
		(void)signal(SIGABRT, SIG_DFL);
		if (is_quiet) {
			int nowhere = open("/dev/null", O_WRONLY);
			check(nowhere >= 0);
			(void)dup2(nowhere, STDERR_FILENO);
		}
		run_trials(prop, options);
		_exit(0);
	}
	int status = 0;
	check(waitpid(child, &status, 0) == child);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool replay_fails(struct prop *prop, const struct prop_options *options, bool is_quiet)
{
	prop->mode = MODE_REPLAY;
	prop->is_over = false;
	prop->trial = 0;
	prop->trial_end = 1;
	return !run_child(prop, options, is_quiet);
}

/* The smallest failing record of choices so far. */
struct shrink {
	struct prop *prop;
	const struct prop_options *options;
	struct choice *best;	  /* (count) */
	struct choice *candidate; /* (CHOICE_LIMIT) */
	uint32_t count;
	uint32_t runs;
};

static uint32_t without_trailing_zeros(const struct choice *choices, uint32_t count)
{
	while (count > 0 && choices[count - 1].value == 0) {
		count--;
	}
	return count;
}

static bool is_smaller(
	const struct choice *a, uint32_t a_count, const struct choice *b, uint32_t b_count)
{
	if (a_count != b_count) {
		return a_count < b_count;
	}
	for (uint32_t i = 0; i < a_count; i++) {
		if (a[i].value != b[i].value) {
			return a[i].value < b[i].value;
		}
	}
	return false;
}

/* Keeps a candidate of `count` choices if it fails too and is smaller in its recorded form. */
static bool try_candidate(struct shrink *shrink, uint32_t count)
{
	if (shrink->runs == SHRINK_RUNS) {
		return false;
	}
	shrink->runs++;
	struct prop *prop = shrink->prop;
	prop->given = count;
	memcpy(prop->choices, shrink->candidate, count * sizeof(struct choice));
	if (!replay_fails(prop, shrink->options, true)) {
		return false;
	}
	uint32_t trimmed = without_trailing_zeros(prop->choices, prop->count);
	if (!is_smaller(prop->choices, trimmed, shrink->best, shrink->count)) {
		return false;
	}
	shrink->count = trimmed;
	memcpy(shrink->best, prop->choices, trimmed * sizeof(struct choice));
	return true;
}

static bool try_without(struct shrink *shrink, uint32_t start, uint32_t length)
{
	uint32_t rest = shrink->count - start - length;
	memcpy(shrink->candidate, shrink->best, start * sizeof(struct choice));
	memcpy(shrink->candidate + start, shrink->best + start + length,
		rest * sizeof(struct choice));
	return try_candidate(shrink, start + rest);
}

static bool try_value(struct shrink *shrink, uint32_t index, uint64_t value)
{
	memcpy(shrink->candidate, shrink->best, shrink->count * sizeof(struct choice));
	shrink->candidate[index].value = value;
	return try_candidate(shrink, shrink->count);
}

static bool shrink_spans(struct shrink *shrink)
{
	bool is_shrunk = false;
	for (uint32_t length = shrink->count; length >= 1; length /= 2) {
		for (uint32_t end = shrink->count; end >= length; end--) {
			if (end <= shrink->count && try_without(shrink, end - length, length)) {
				is_shrunk = true;
			}
		}
	}
	return is_shrunk;
}

static bool shrink_values(struct shrink *shrink)
{
	bool is_shrunk = false;
	for (uint32_t i = 0; i < shrink->count; i++) {
		uint64_t low = 0;
		while (i < shrink->count && low < shrink->best[i].value) {
			uint64_t value = shrink->best[i].value;
			if (try_value(shrink, i, low)) {
				is_shrunk = true;
			} else {
				low = low == 0 ? value - value / 2 : low + (value - low + 1) / 2;
			}
		}
	}
	return is_shrunk;
}

static void print_failure(struct shrink *shrink, bool is_random, uint64_t seed, uint32_t found)
{
	struct prop *prop = shrink->prop;
	prop->is_logging = true;
	memcpy(prop->choices, shrink->best, shrink->count * sizeof(struct choice));
	prop->given = shrink->count;
	prop->log_length = 0;
	prop->log[0] = '\0';
	bool is_failing = replay_fails(prop, shrink->options, true);
	fprintf(stderr, "\nproperty \"%s\" fails", shrink->options->name);
	if (is_random) {
		fprintf(stderr, "; again with PROP_SEED=%llu PROP_TRIALS=1",
			(unsigned long long)seed);
	}
	fprintf(stderr, "\n%u choices, %u after %u attempts to shrink them:", found, shrink->count,
		shrink->runs);
	for (uint32_t i = 0; i < shrink->count && i < 200; i++) {
		fprintf(stderr, " %llu", (unsigned long long)shrink->best[i].value);
	}
	fprintf(stderr, "\nthe script:\n%s", prop->log);
	if (is_failing) {
		fprintf(stderr, "and it ends with:\n");
		prop->given = shrink->count;
		memcpy(prop->choices, shrink->best, shrink->count * sizeof(struct choice));
		(void)replay_fails(prop, shrink->options, false);
	} else {
		fprintf(stderr,
			"(it does not fail again: the body depends on more than choices)\n");
	}
}

static void report_failure(struct prop *prop, const struct prop_options *options)
{
	if (options->is_silent) {
		return;
	}
	bool is_random = prop->mode == MODE_RANDOM;
	uint64_t seed = prop->seed;
	uint32_t found = prop->count;
	struct shrink shrink = {.prop = prop, .options = options};
	shrink.best = calloc(CHOICE_LIMIT, sizeof(struct choice));
	shrink.candidate = calloc(CHOICE_LIMIT, sizeof(struct choice));
	check(shrink.best != NULL && shrink.candidate != NULL);
	shrink.count = without_trailing_zeros(prop->choices, found);
	memcpy(shrink.best, prop->choices, shrink.count * sizeof(struct choice));
	const char *wish = getenv("PROP_SHRINK");
	if (wish == NULL || strcmp(wish, "0") != 0) {
		bool is_shrunk = true;
		while (is_shrunk && shrink.runs < SHRINK_RUNS) {
			is_shrunk = shrink_spans(&shrink);
			is_shrunk = shrink_values(&shrink) || is_shrunk;
		}
	}
	print_failure(&shrink, is_random, seed, found);
	free(shrink.best);
	free(shrink.candidate);
}

static struct prop *prop_open(void)
{
	struct prop *prop = mmap(NULL, sizeof(struct prop), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	check(prop != MAP_FAILED);
	return prop;
}

static uint64_t number_from_environment(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);
	return text == NULL ? otherwise : strtoull(text, NULL, 0);
}

/* Trials from one seed on; the failing one's seed and choices stay in the record. */
static bool holds_from(
	struct prop *prop, const struct prop_options *options, uint64_t seed, uint64_t trials)
{
	prop->mode = MODE_RANDOM;
	prop->seed = seed;
	prop->trial = 0;
	prop->trial_end = trials;
	if (run_child(prop, options, true)) {
		return true;
	}
	report_failure(prop, options);
	return false;
}

bool prop_holds(const struct prop_options *options)
{
	struct prop *prop = prop_open();
	bool is_holding = true;
	for (uint32_t i = 0; is_holding && i < options->always_count; i++) {
		is_holding = holds_from(prop, options, options->always_seeds[i], 1);
	}
	if (is_holding) {
		is_holding = holds_from(prop, options, number_from_environment("PROP_SEED", 1),
			number_from_environment("PROP_TRIALS", options->trials));
	}
	(void)munmap(prop, sizeof(*prop));
	return is_holding;
}

bool prop_holds_always(const struct prop_options *options, uint64_t *case_count)
{
	struct prop *prop = prop_open();
	prop->mode = MODE_COUNT;
	prop->trial_end = options->trials;
	bool is_holding = run_child(prop, options, true);
	*case_count = prop->trial;
	bool is_over = prop->is_over;
	if (!is_holding) {
		report_failure(prop, options);
	} else if (!is_over) {
		fprintf(stderr, "\nproperty \"%s\" has more than %u cases\n", options->name,
			options->trials);
	}
	(void)munmap(prop, sizeof(*prop));
	return is_holding && is_over;
}
