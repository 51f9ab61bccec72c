#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/ranks/ranks.h"

#include "tests/harness/require.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* What happens when ranks fail, while they open and in steps: rank 0 gets one line that names the
   rank and the cause, every rank ends, and all of it takes less than 15 s. */

/* Steps have the engine's numbers, which need not be how many a rank has had. */
enum { COUNT = 4, PHASES = 3, FIRST_STEP = 7, STEPS = 50, FAILING_STEP = 20, NONE = -1 };

/* How the failing rank fails. */
enum act {
	ACT_NONE,
	ACT_KILL,   /* kill -9 */
	ACT_ABORT,  /* a failed check() */
	ACT_STOP,   /* SIGSTOP: it hangs, though it has computed before */
	ACT_DOZE,   /* it hangs, but for a look at the time now and then */
	ACT_WATCH,  /* its watch sees an error while it waits for a step */
	ACT_REPORT, /* ranks_fail(), as after an error of its GPU */
	ACT_ACCUSE, /* the same, of another rank */
	ACT_RETURN, /* serve returns an error */
	ACT_LEAVE,  /* serve returns without an error */
	ACT_BUSY,   /* no failure: it computes for longer than the limit */
	ACT_TOKENS, /* it has another token than the others */
	ACT_DIFFER, /* only while opening: it has another configuration */
};

struct plan {
	enum act act;
	uint32_t rank; /* that fails */
	int32_t phase; /* of opening, or NONE: in step FAILING_STEP */
	uint32_t row;  /* of ACT_TOKENS */
};

struct scene {
	struct shared_word done[COUNT]; /* steps that a rank has computed */
	struct shared_word dozes;	/* 1: the failing rank has begun to */
	int32_t pids[COUNT];
};

static enum status see_error(void *argument, struct error *error)
{
	return error_set(error, STATUS_DEVICE, "%s", (const char *)argument);
}

static void compute_for(uint64_t ns)
{
	uint64_t start_ns = monotonic_ns();

	while (monotonic_ns() - start_ns < ns) {
	}
}

/* Of its own time, over a twentieth of the limit. */
static void compute_before(void)
{
	while (clock() < CLOCKS_PER_SEC / 10) {
	}
}

static enum status fail(struct ranks *ranks, enum act act, struct error *error)
{
	static char trap[] = "a planted trap";

	switch (act) {
	case ACT_WATCH:
		ranks_watch(ranks, see_error, trap);
		break;
	case ACT_KILL:
		raise(SIGKILL);
		break;
	case ACT_ABORT:
		raise(SIGABRT);
		break;
	case ACT_STOP:
		raise(SIGSTOP);
		break;
	case ACT_DOZE:
		shared_word_set(&((struct scene *)ranks_data(ranks))->dozes, 1);
		for (;;) {
			pause_ns(10 * 1000 * 1000);
		}
	case ACT_REPORT:
	case ACT_ACCUSE:
		error_set(error, STATUS_DEVICE,
			act == ACT_REPORT ? "a planted trap" : "rank 2: does not answer");
		ranks_fail(ranks, error);
		for (;;) {
			pause(); /* as a process that its driver holds */
		}
	case ACT_RETURN:
		return error_set(error, STATUS_MEMORY, "no memory, says the test");
	case ACT_BUSY:
		compute_for(UINT64_C(2500000000));
		break;
	default:
		break;
	}
	return STATUS_OK;
}

/* Opens in phases, as all ranks do. */
static enum status open_phases(struct ranks *ranks, const struct plan *plan, struct error *error)
{
	bool is_failing = ranks_index(ranks) == plan->rank;

	for (int32_t phase = 0; phase < PHASES; phase++) {
		uint64_t configuration = 7;
		if (is_failing && phase == plan->phase) {
			if (plan->act == ACT_LEAVE) {
				return STATUS_OK;
			}
			fail(ranks, plan->act, error); /* the barrier carries its error */
			configuration += plan->act == ACT_DIFFER;
		}
		TRY(ranks_agree(ranks, configuration, "configuration", error));
	}
	return STATUS_OK;
}

/* A step of a rank: it waits for all ranks' words of the step before, as an exchange does. */
static enum status compute(
	struct ranks *ranks, const struct plan *plan, uint32_t step, struct error *error)
{
	struct scene *scene = ranks_data(ranks);
	int32_t tokens[] = {5, (int32_t)step, 9};

	shared_word_set(&scene->done[ranks_index(ranks)], step);
	for (uint32_t r = 0; r < COUNT; r++) {
		TRY(ranks_await(ranks, &scene->done[r], step, r, "partial sums", error));
	}
	if (plan->act == ACT_TOKENS && step == FAILING_STEP && ranks_index(ranks) == plan->rank) {
		tokens[plan->row] = 7;
	}
	return ranks_agree_tokens(ranks, tokens, 3, error);
}

static enum status serve(struct ranks *ranks, void *argument, struct error *error)
{
	const struct plan *plan = argument;
	struct scene *scene = ranks_data(ranks);
	struct rank_message message;

	scene->pids[ranks_index(ranks)] = getpid();
	if (plan->act == ACT_STOP && plan->rank == ranks_index(ranks)) {
		compute_before();
	}
	TRY(open_phases(ranks, plan, error));
	if (plan->act == ACT_LEAVE && plan->phase != NONE && plan->rank == ranks_index(ranks)) {
		return STATUS_OK;
	}
	for (;;) {
		TRY(ranks_receive(ranks, &message, error));
		if (message.kind == RANK_CLOSE) {
			return STATUS_OK;
		}
		if (plan->phase == NONE && message.step == FAILING_STEP &&
			plan->rank == ranks_index(ranks)) {
			TRY(fail(ranks, plan->act, error));
			if (plan->act == ACT_LEAVE) {
				return STATUS_OK;
			}
			if (plan->act == ACT_WATCH) {
				continue; /* its GPU never ends the step */
			}
		}
		TRY(compute(ranks, plan, (uint32_t)message.step, error));
	}
}

/* The ranks of a plan, which the caller keeps until they are closed. */
static struct ranks_options serving(struct plan *plan)
{
	return (struct ranks_options){.count = COUNT,
		.data_bytes = sizeof(struct scene),
		.exchange_bytes = 64,
		.serve = serve,
		.argument = plan};
}

static enum status run_steps(struct ranks *ranks, const struct plan *plan, struct error *error)
{
	for (uint32_t step = FIRST_STEP; step <= STEPS; step++) {
		const struct rank_message message = {.step = step, .kind = RANK_STEP_GRAPH};
		TRY(ranks_post(ranks, &message, error));
		TRY(compute(ranks, plan, step, error));
	}
	return STATUS_OK;
}

/* Whether a process runs, or is stopped; one that has ended and was not waited for does not. */
static bool is_alive(int32_t pid)
{
	char path[64], state = 0;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	FILE *file = fopen(path, "r");
	if (file == NULL) {
		return false;
	}
	bool is_read = fscanf(file, "%*d (%*[^)]) %c", &state) == 1;
	fclose(file);
	return is_read && state != 'Z' && state != 'X';
}

/* Waits until no rank is alive, at most 15 s; kills those that are. */
static void require_gone(const int32_t *pids)
{
	uint64_t start_ns = monotonic_ns();

	bool are_gone = true;
	for (uint32_t r = 1; r < COUNT; r++) {
		while (is_alive(pids[r]) && monotonic_ns() - start_ns < UINT64_C(15000000000)) {
			pause_ns(1000 * 1000);
		}
		if (is_alive(pids[r])) {
			kill(pids[r], SIGKILL);
			are_gone = false;
		}
	}
	require(are_gone, "ranks were still there after 15 s");
}

/* Runs the plan; *error is what rank 0 says in the end. */
static enum status run_plan(const struct plan *plan, struct error *error)
{
	struct plan copy = *plan;
	struct ranks_options options = serving(&copy);
	struct ranks *ranks = NULL;
	uint64_t start_ns = monotonic_ns();
	int32_t pids[COUNT];

	options.limit_ns = 1000 * 1000 * 1000;
	memset(error, 0, sizeof(*error));
	require(ranks_open(&ranks, &options, error) == STATUS_OK, "%s", error->text);
	enum status status = open_phases(ranks, plan, error);
	if (status == STATUS_OK) {
		status = run_steps(ranks, plan, error);
	}
	const struct scene *scene = ranks_data(ranks);
	memcpy(pids, scene->pids, sizeof(pids));
	uint64_t close_ns = monotonic_ns();
	ranks_close(ranks);
	/* Ranks that do not end are killed after a second; those that have are not awaited. */
	require(monotonic_ns() - close_ns < UINT64_C(4000000000), "closing took more than 4 s");
	for (uint32_t r = 1; r < COUNT; r++) {
		require(pids[r] == 0 || kill(pids[r], 0) == -1, "rank %u is still there", r);
	}
	require(monotonic_ns() - start_ns < UINT64_C(15000000000), "it took more than 15 s");
	return status;
}

static void require_failure(enum act act, int32_t phase, enum status status, const char *text)
{
	for (uint32_t rank = 1; rank < COUNT; rank += 2) {
		const struct plan plan = {.act = act, .rank = rank, .phase = phase};
		struct error error;
		char expected[ERROR_TEXT_BYTES];
		snprintf(expected, sizeof(expected), text, rank);
		require_equal(run_plan(&plan, &error), status);
		require_equal(error.status, status);
		require(strcmp(error.text, expected) == 0, "found '%s', expected '%s'", error.text,
			expected);
	}
}

Test(rank_failures, of_none_end_the_run_without_an_error)
{
	const struct plan plan = {.act = ACT_NONE, .rank = 1, .phase = NONE};
	struct error error;

	cr_assert_eq(run_plan(&plan, &error), STATUS_OK, "%s", error.text);
	cr_assert_str_eq(error.text, "");
}

/* ---- in a step ---- */

Test(rank_failures, name_a_rank_that_is_killed_in_a_step)
{
	require_failure(
		ACT_KILL, NONE, STATUS_DEVICE, "rank %u: killed by signal 9 (Killed) in step 20");
}

Test(rank_failures, name_a_rank_whose_check_fails_in_a_step)
{
	require_failure(
		ACT_ABORT, NONE, STATUS_DEVICE, "rank %u: killed by signal 6 (Aborted) in step 20");
}

Test(rank_failures, name_a_rank_that_hangs_in_a_step)
{
	require_failure(ACT_STOP, NONE, STATUS_DEVICE,
		"rank %u: no partial sums for 1.0 s in step 20, so it hangs");
	require_failure(ACT_DOZE, NONE, STATUS_DEVICE,
		"rank %u: no partial sums for 1.0 s in step 20, so it hangs");
}

Test(rank_failures, pass_on_what_a_rank_reports_in_a_step)
{
	require_failure(ACT_REPORT, NONE, STATUS_DEVICE, "rank %u: a planted trap");
}

Test(rank_failures, pass_on_what_a_rank_reports_of_another)
{
	require_failure(ACT_ACCUSE, NONE, STATUS_DEVICE, "rank 2: does not answer");
}

Test(rank_failures, pass_on_what_a_rank_sees_while_it_waits_for_a_step)
{
	require_failure(ACT_WATCH, NONE, STATUS_DEVICE, "rank %u: a planted trap");
}

Test(rank_failures, pass_on_what_a_rank_returns_in_a_step)
{
	require_failure(ACT_RETURN, NONE, STATUS_MEMORY, "rank %u: no memory, says the test");
}

Test(rank_failures, name_a_rank_that_leaves_in_a_step)
{
	require_failure(
		ACT_LEAVE, NONE, STATUS_DEVICE, "rank %u: ended with exit code 0 in step 20");
}

Test(rank_failures, name_the_first_token_that_differs)
{
	static const int32_t own[] = {5, 20, 9};

	for (uint32_t row = 0; row < 3; row++) {
		const struct plan plan = {.act = ACT_TOKENS, .rank = 1, .phase = NONE, .row = row};
		struct error error;
		char expected[ERROR_TEXT_BYTES];
		snprintf(expected, sizeof(expected),
			"rank 1 has token 7 for sampled row %u of step 20, rank 0 has %d", row,
			own[row]);
		cr_expect_eq(run_plan(&plan, &error), STATUS_DEVICE);
		cr_expect_str_eq(error.text, expected);
	}
}

Test(rank_failures, name_each_rank_whose_token_differs)
{
	require_failure(ACT_TOKENS, NONE, STATUS_DEVICE,
		"rank %u has token 7 for sampled row 0 of step 20, rank 0 has 5");
}

Test(rank_failures, do_not_include_a_rank_that_computes_for_longer_than_the_limit)
{
	const struct plan plan = {.act = ACT_BUSY, .rank = 2, .phase = NONE};
	struct error error;

	cr_assert_eq(run_plan(&plan, &error), STATUS_OK, "%s", error.text);
}

/* ---- while they open ---- */

Test(rank_failures, name_a_rank_that_is_killed_in_any_phase_of_opening)
{
	for (int32_t phase = 0; phase < PHASES; phase++) {
		require_failure(ACT_KILL, phase, STATUS_DEVICE,
			"rank %u: killed by signal 9 (Killed) while opening");
	}
}

Test(rank_failures, pass_on_the_error_of_any_phase_of_opening)
{
	for (int32_t phase = 0; phase < PHASES; phase++) {
		require_failure(
			ACT_RETURN, phase, STATUS_MEMORY, "rank %u: no memory, says the test");
	}
}

Test(rank_failures, name_a_rank_that_leaves_in_any_phase_of_opening)
{
	for (int32_t phase = 0; phase < PHASES; phase++) {
		require_failure(ACT_LEAVE, phase, STATUS_DEVICE,
			"rank %u: ended with exit code 0 while opening");
	}
}

Test(rank_failures, refuse_a_configuration_that_differs)
{
	require_failure(ACT_DIFFER, 1, STATUS_DEVICE,
		"rank %u has another configuration than rank 0: 0000000000000008 and "
		"0000000000000007");
}

Test(rank_failures, say_what_rank_0_fails_with_without_a_name)
{
	const struct plan plan = {.act = ACT_RETURN, .rank = 0, .phase = 1};
	struct error error;

	cr_assert_eq(run_plan(&plan, &error), STATUS_MEMORY);
	cr_assert_str_eq(error.text, "no memory, says the test");
}

/* ---- starting and closing ---- */

Test(rank_failures, end_the_ranks_that_started_when_one_cannot)
{
	const struct rlimit limit = {.rlim_cur = 16, .rlim_max = 16};
	const struct plan plan = {.act = ACT_NONE, .rank = 1, .phase = NONE};
	struct plan copy = plan;
	const struct ranks_options options = serving(&copy);
	struct ranks *ranks = NULL;
	struct error error = {0};
	int last = dup(0);

	/* Room for the sockets of one rank. */
	while (last >= 0 && last < 16 - 4) {
		last = dup(0);
	}
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	cr_assert_eq(ranks_open(&ranks, &options, &error), STATUS_DEVICE);
	cr_assert(strstr(error.text, "cannot be started: no socket: Too many open files") != NULL,
		"%s", error.text);
	cr_assert_eq(waitpid(-1, NULL, WNOHANG), -1, "a rank is still there");
}

Test(rank_failures, end_ranks_that_wait_at_a_barrier_when_rank_0_closes)
{
	struct plan plan = {.act = ACT_NONE, .rank = 1, .phase = NONE};
	const struct ranks_options options = serving(&plan);
	struct ranks *ranks = NULL;
	struct error error = {0};
	uint64_t start_ns = monotonic_ns();

	cr_assert_eq(ranks_open(&ranks, &options, &error), STATUS_OK, "%s", error.text);
	ranks_close(ranks);
	cr_assert_eq(waitpid(-1, NULL, WNOHANG), -1, "a rank is still there");
	/* Sooner than the 5 s after which they would be killed. */
	cr_assert_lt(monotonic_ns() - start_ns, UINT64_C(4000000000));
}

/* argument: (COUNT) errors in shared memory, with which each rank's wait for a step has ended. */
static enum status await_step(struct ranks *ranks, void *argument, struct error *error)
{
	struct error *ends = argument;
	struct rank_message message;

	TRY(ranks_barrier(ranks, error));
	(void)ranks_receive(ranks, &message, error);
	ends[ranks_index(ranks)] = *error;
	return error->status;
}

Test(rank_failures, end_the_wait_for_a_step_in_every_rank)
{
	struct error *ends = mmap(NULL, COUNT * sizeof(*ends), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	const struct ranks_options options = {
		.count = COUNT, .serve = await_step, .argument = ends};
	struct ranks *ranks = NULL;
	struct error error = {0}, failure = {0};
	uint64_t start_ns = monotonic_ns();

	cr_assert_neq((void *)ends, MAP_FAILED);
	cr_assert_eq(ranks_open(&ranks, &options, &error), STATUS_OK, "%s", error.text);
	cr_assert_eq(ranks_barrier(ranks, &error), STATUS_OK, "%s", error.text);
	error_set(&failure, STATUS_MEMORY, "no memory, says rank 0");
	ranks_fail(ranks, &failure);
	for (uint32_t r = 1; r < COUNT; r++) {
		const volatile enum status *status = &ends[r].status;
		while (*status == STATUS_OK && monotonic_ns() - start_ns < UINT64_C(10000000000)) {
			pause_ns(1000 * 1000);
		}
	}
	ranks_close(ranks);
	for (uint32_t r = 1; r < COUNT; r++) {
		require_equal(ends[r].status, STATUS_MEMORY);
		require(strcmp(ends[r].text, failure.text) == 0, "rank %u: '%s'", r, ends[r].text);
	}
	munmap(ends, COUNT * sizeof(*ends));
}

Test(rank_failures, do_not_wait_for_ever_to_post_to_a_rank_that_hangs)
{
	const struct plan plan = {.act = ACT_STOP, .rank = 3, .phase = NONE};
	struct plan copy = plan;
	struct ranks_options options = serving(&copy);
	struct ranks *ranks = NULL;
	struct error error = {0};
	const struct rank_message message = {.step = FAILING_STEP};
	enum status status = STATUS_OK;

	options.limit_ns = 300 * 1000 * 1000;
	cr_assert_eq(ranks_open(&ranks, &options, &error), STATUS_OK, "%s", error.text);
	cr_assert_eq(open_phases(ranks, &plan, &error), STATUS_OK);
	for (uint32_t i = 0; i < 10 && status == STATUS_OK; i++) {
		status = ranks_post(ranks, &message, &error);
	}
	cr_assert_eq(status, STATUS_DEVICE);
	/* The others wait for its partial sums, so one of them may be named. */
	cr_assert(strstr(error.text, "so it hangs") != NULL, "%s", error.text);
	ranks_close(ranks);
	cr_assert_eq(waitpid(-1, NULL, WNOHANG), -1, "a rank is still there");
}

/* ---- signals ---- */

/*
 * Rank 0 as a process that the test can kill: runs steps for ever, or idles before step stops_at,
 * UINT32_MAX for none; or idles once another rank dozes. pids: shared with the test; the first is
 * set when the time to kill has come.
 */
static _Noreturn void run_rank_0(int32_t *pids, uint32_t stops_at, enum act act)
{
	struct plan plan = {.act = act, .rank = 1, .phase = NONE};
	const struct ranks_options options = serving(&plan);
	struct ranks *ranks = NULL;
	struct error error = {0};

	require(ranks_open(&ranks, &options, &error) == STATUS_OK, "%s", error.text);
	require(open_phases(ranks, &plan, &error) == STATUS_OK, "%s", error.text);
	memcpy(pids + 1, ((const struct scene *)ranks_data(ranks))->pids + 1,
		(COUNT - 1) * sizeof(*pids));
	for (uint32_t step = FIRST_STEP;; step++) {
		const struct rank_message message = {.step = step};
		if (step == stops_at) {
			pids[0] = getpid();
			pause();
		}
		if (step == FAILING_STEP && act == ACT_DOZE) {
			struct shared_word *dozes = &((struct scene *)ranks_data(ranks))->dozes;
			require(ranks_post(ranks, &message, &error) == STATUS_OK &&
					ranks_await(ranks, dozes, 1, 1, "sleep", &error) ==
						STATUS_OK,
				"%s", error.text);
			pids[0] = getpid();
			pause();
		}
		require(ranks_post(ranks, &message, &error) == STATUS_OK &&
				compute(ranks, &plan, step, &error) == STATUS_OK,
			"%s", error.text);
		if (stops_at == UINT32_MAX && act == ACT_NONE) {
			pids[0] = getpid();
		}
	}
}

static void kill_rank_0(uint32_t stops_at, enum act act)
{
	volatile int32_t *pids = mmap(NULL, COUNT * sizeof(*pids), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int32_t copy[COUNT];
	pid_t child = fork();

	if (child == 0) {
		run_rank_0((int32_t *)pids, stops_at, act);
	}
	while (pids[0] == 0) {
		pause_ns(1000 * 1000);
	}
	for (uint32_t r = 0; r < COUNT; r++) {
		copy[r] = pids[r];
		require(r == 0 || is_alive(copy[r]), "rank %u has ended too early", r);
	}
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	require_gone(copy);
}

Test(rank_failures, kill_all_ranks_with_rank_0_in_a_step)
{
	kill_rank_0(UINT32_MAX, ACT_NONE);
}

Test(rank_failures, kill_all_ranks_with_rank_0_when_it_idles)
{
	kill_rank_0(FIRST_STEP + 4, ACT_NONE);
}

/* One that hangs does not see that rank 0 is gone. */
Test(rank_failures, kill_all_ranks_with_rank_0_though_one_hangs)
{
	kill_rank_0(UINT32_MAX, ACT_DOZE);
}

Test(rank_failures, are_not_caused_by_what_a_terminal_sends_to_all)
{
	const struct plan plan = {.act = ACT_NONE, .rank = 1, .phase = NONE};
	struct plan copy = plan;
	const struct ranks_options options = serving(&copy);
	const int signals[] = {SIGINT, SIGTERM, SIGHUP};
	struct ranks *ranks = NULL;
	struct error error = {0};

	cr_assert_eq(ranks_open(&ranks, &options, &error), STATUS_OK, "%s", error.text);
	cr_assert_eq(open_phases(ranks, &plan, &error), STATUS_OK);
	const struct scene *scene = ranks_data(ranks);
	for (uint32_t i = 0; i < 3; i++) {
		for (uint32_t r = 1; r < COUNT; r++) {
			cr_assert_eq(kill(scene->pids[r], signals[i]), 0);
		}
	}
	cr_assert_eq(run_steps(ranks, &plan, &error), STATUS_OK, "%s", error.text);
	ranks_close(ranks);
}

static void interrupt_itself(void)
{
	raise(SIGINT);
	raise(SIGTERM);
	raise(SIGHUP);
}

/* These signals come to a rank before it has done anything. */
Test(rank_failures, are_not_caused_by_what_a_terminal_sends_while_they_start)
{
	const struct plan plan = {.act = ACT_NONE, .rank = 1, .phase = NONE};
	struct plan copy = plan;
	const struct ranks_options options = serving(&copy);
	struct ranks *ranks = NULL;
	struct error error = {0};
	sigset_t mask;

	cr_assert_eq(pthread_atfork(NULL, NULL, interrupt_itself), 0);
	cr_assert_eq(ranks_open(&ranks, &options, &error), STATUS_OK, "%s", error.text);
	cr_assert_eq(open_phases(ranks, &plan, &error), STATUS_OK, "%s", error.text);
	cr_assert_eq(run_steps(ranks, &plan, &error), STATUS_OK, "%s", error.text);
	ranks_close(ranks);
	cr_assert_eq(sigprocmask(SIG_BLOCK, NULL, &mask), 0);
	cr_assert(sigismember(&mask, SIGINT) == 0, "rank 0 cannot be interrupted any more");
}
