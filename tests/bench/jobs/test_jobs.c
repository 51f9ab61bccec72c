#include "bench/jobs/jobs.h"

#include "engine/base/clock.h"
#include "engine/base/interrupt.h"
#include "engine/base/memory.h"

#include "tests/harness/process.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

TestSuite(jobs, .timeout = 60);

/* ---- jobs that a test makes up ---- */

enum act {
	ACT_RETURN,
	ACT_FAIL,
	ACT_DIE_ONCE,	/* kill -9 of the first worker that has it */
	ACT_DIE_ALWAYS, /* of every worker */
	ACT_LEAVE,	/* the first worker that has it ends with an exit code */
	ACT_PRINT,	/* prints a line on its standard output */
	ACT_DEAF,	/* does not look at interrupts, and never ends */
};

enum { JOBS_MAX = 64, RESULT_BYTES_MAX = 1 << 18 };

struct order {
	uint64_t seed;
	uint32_t act;
	uint32_t pause_us;
	uint32_t result_bytes; /* of whole words */
	uint32_t index;	       /* of the scene's counts */
	uint32_t padding_bytes;
	uint32_t spare;
};

/* Shared with the workers. */
struct scene {
	_Atomic uint32_t begun[JOBS_MAX];  /* times that a job was begun */
	_Atomic int32_t pids[JOBS_MAX];	   /* of the worker that began it last */
	_Atomic uint32_t places[JOBS_MAX]; /* of its last begin, among all begins from 1 */
	_Atomic uint32_t begins;
};

static struct scene *open_scene(void)
{
	struct scene *scene = mmap(
		NULL, sizeof(*scene), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	require(scene != MAP_FAILED, "no memory");
	return scene;
}

/* What a job gives, which a worker and the model compute alike. */
static void fill(const struct order *order, struct text *result)
{
	for (uint64_t i = 0; i < order->result_bytes / sizeof(i); i++) {
		uint64_t word = XXH64(&i, sizeof(i), order->seed);
		text_add_bytes(result, (const char *)&word, sizeof(word));
	}
}

static enum status run(
	void *context, const struct text *job, struct text *result, struct error *error)
{
	struct scene *scene = context;
	struct order order;

	require(job->byte_count >= sizeof(order), "a short job");
	memcpy(&order, job->bytes, sizeof(order));
	require_equal(job->byte_count, sizeof(order) + order.padding_bytes);
	uint32_t before = atomic_fetch_add(&scene->begun[order.index], 1);
	atomic_store(&scene->pids[order.index], getpid());
	atomic_store(&scene->places[order.index], atomic_fetch_add(&scene->begins, 1) + 1);
	pause_ns(order.pause_us * UINT64_C(1000));
	if (order.act == ACT_DIE_ALWAYS || (order.act == ACT_DIE_ONCE && before == 0)) {
		for (uint32_t i = 0; i < (order.index % 2 == 0 ? 1 : 300); i++) {
			fprintf(stderr, "the first lines\n"); /* one, or more than are kept */
		}
		fprintf(stderr, "last words of %u\n", order.index);
		raise(SIGKILL);
	}
	if (order.act == ACT_LEAVE && before == 0) {
		_exit(3);
	}
	if (order.act == ACT_PRINT) {
		printf("a line of a worker\n");
		fflush(stdout);
	}
	while (order.act == ACT_DEAF) {
		pause_ns(UINT64_C(1000000));
	}
	fill(&order, result);
	return order.act == ACT_FAIL ? error_set(error, STATUS_INPUT, "job of seed %llu fails",
					       (unsigned long long)order.seed)
				     : STATUS_OK;
}

static void describe(void *context, const struct text *job, struct text *text)
{
	struct order order;

	(void)context;
	memcpy(&order, job->bytes, sizeof(order));
	text_format(text, "the order of seed %llu", (unsigned long long)order.seed);
}

static uint64_t add(struct jobs *jobs, const struct order *order)
{
	struct text bytes = {0};
	static const char padding[JOBS_MAX * 4096];

	text_add_bytes(&bytes, (const char *)order, sizeof(*order));
	text_add_bytes(&bytes, padding, order->padding_bytes);
	uint64_t number = jobs_add(jobs, bytes.bytes, bytes.byte_count);
	text_deinit(&bytes);
	return number;
}

/* ---- a naive model: every job done at once, here ---- */

static void expect(const struct order *order, enum status status, const struct text *result,
	const struct error *error)
{
	struct text wanted = {0};
	char line[ERROR_TEXT_BYTES];

	if (order->act == ACT_FAIL) {
		snprintf(line, sizeof(line), "job of seed %llu fails",
			(unsigned long long)order->seed);
		require_equal(status, STATUS_INPUT);
		require(strcmp(error->text, line) == 0, "'%s'", error->text);
		require_equal(result->byte_count, 0);
		return;
	}
	if (order->act == ACT_DIE_ALWAYS) {
		require_equal(status, STATUS_DEVICE);
		snprintf(line, sizeof(line), "the order of seed %llu: its worker was ",
			(unsigned long long)order->seed);
		require(strncmp(error->text, line, strlen(line)) == 0, "'%s'", error->text);
		require(strstr(error->text, "killed by signal 9") != NULL &&
				strstr(error->text, "last words of ") != NULL &&
				strstr(error->text, "first line") == NULL,
			"'%s'", error->text);
		return;
	}
	fill(order, &wanted);
	require(status == STATUS_OK, "%s", error->text);
	require_equal(result->byte_count, wanted.byte_count);
	require((result->bytes == NULL) == (wanted.bytes == NULL), "bytes of an empty text");
	require(wanted.byte_count == 0 ||
			memcmp(result->bytes, wanted.bytes, wanted.byte_count + 1) == 0,
		"other bytes");
	text_deinit(&wanted);
}

static struct order draw_order(struct prop *prop, uint32_t index, bool may_die)
{
	static const uint32_t sizes[] = {0, 8, 4096, 65536, RESULT_BYTES_MAX};

	return (struct order){
		.seed = prop_below(prop, 1000),
		.act = may_die			 ? prop_below(prop, 5)
		       : prop_chance(prop, 1, 5) ? ACT_FAIL
						 : ACT_RETURN,
		.pause_us = prop_below(prop, 3) * 500,
		.result_bytes = sizes[prop_below(prop, 5)],
		.index = index,
		.padding_bytes = prop_chance(prop, 1, 4) ? (uint32_t)prop_below(prop, 200000) : 0,
	};
}

/* Takes jobs back, and adds one for every third that comes. */
static void random_jobs(struct prop *prop, const void *context)
{
	struct scene *scene = open_scene();
	struct order orders[JOBS_MAX];
	bool is_done[JOBS_MAX] = {false};
	const struct jobs_options options = {.workers = prop_range(prop, 1, 5),
		.run = run,
		.describe = describe,
		.context = scene};
	uint32_t first = prop_range(prop, 0, 12), extra = prop_range(prop, 0, 4);
	uint32_t count = first + extra, added = 0, done = 0;
	struct error error = {0};
	struct text result = {0};
	struct jobs *jobs;

	(void)context;
	for (uint32_t i = 0; i < count; i++) {
		orders[i] = draw_order(prop, i, options.workers > 1);
	}
	require_equal(jobs_open(&jobs, &options, &error), STATUS_OK);
	while (added < first) {
		require_equal(add(jobs, &orders[added]), added);
		added++;
	}
	while (jobs_pending(jobs) > 0) {
		uint64_t number;
		error = (struct error){0};
		enum status status = jobs_next(jobs, &number, &result, &error);
		require(number < added, "no such job: %s", error.text);
		require(!is_done[number], "it came twice");
		is_done[number] = true;
		expect(&orders[number], status, &result, &error);
		uint32_t begun = atomic_load(&scene->begun[number]);
		uint32_t act = orders[number].act;
		require_equal(begun, act == ACT_RETURN || act == ACT_FAIL ? 1 : 2);
		if (++done % 3 == 0 && added < count) {
			require_equal(add(jobs, &orders[added]), added);
			added++;
		}
	}
	require_equal(done, added);
	text_deinit(&result);
	jobs_close(jobs);
	require(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "a worker is left");
}

Test(jobs, every_job_comes_back_once_with_its_result)
{
	const struct prop_options options = {.name = "jobs", .body = random_jobs, .trials = 150};

	require(prop_holds(&options), "see above");
}

/* ---- ends ---- */

static const struct order long_order = {.pause_us = 30 * 1000 * 1000, .seed = 1};

static void begin_long_jobs(struct jobs **jobs, struct scene *scene, uint32_t count)
{
	const struct jobs_options options = {
		.workers = 2, .run = run, .describe = describe, .context = scene};
	struct error error = {0};

	interrupt_catch();
	require_equal(jobs_open(jobs, &options, &error), STATUS_OK);
	for (uint32_t i = 0; i < count; i++) {
		struct order order = long_order;
		order.index = i;
		add(*jobs, &order);
	}
}

/* Sends a signal to the process a while after the first job has begun. */
static pid_t signal_later(const struct scene *scene, int signal)
{
	pid_t target = getpid(), child = fork();

	if (child == 0) {
		while (atomic_load(&scene->pids[0]) == 0) {
			pause_ns(1000000);
		}
		pause_ns(20000000);
		kill(target, signal);
		_exit(0);
	}
	return child;
}

Test(jobs, an_interrupt_ends_the_wait_and_the_workers)
{
	struct scene *scene = open_scene();
	struct error error = {0};
	struct text result = {0};
	struct jobs *jobs;
	uint64_t number;

	begin_long_jobs(&jobs, scene, 5);
	pid_t child = signal_later(scene, SIGTERM);
	uint64_t start_ns = monotonic_ns();
	require_equal(jobs_next(jobs, &number, &result, &error), STATUS_VERDICT);
	require_equal(number, JOBS_NONE);
	require(strcmp(error.text, "interrupted") == 0, "%s", error.text);
	jobs_close(jobs);
	require(monotonic_ns() - start_ns < UINT64_C(8000000000), "it took too long");
	require(waitpid(child, NULL, 0) == child, "no child");
	require(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "a worker is left");
	require_equal(atomic_load(&scene->begun[2]), 0);
}

/* As above with one worker, which is this process: its job ends early and says so. */
static enum status run_until_interrupted(
	void *context, const struct text *job, struct text *result, struct error *error)
{
	(void)context, (void)job, (void)result;
	interrupt_hold();
	raise(SIGINT);
	bool is_pending = interrupt_is_pending();
	interrupt_release();
	return is_pending ? error_set(error, STATUS_VERDICT, "half a run") : STATUS_OK;
}

Test(jobs, an_interrupt_of_a_job_in_this_process_is_the_callers)
{
	const struct jobs_options options = {.workers = 1, .run = run_until_interrupted};
	struct error error = {0};
	struct text result = {0};
	struct jobs *jobs;
	uint64_t number;

	interrupt_catch();
	require_equal(jobs_open(&jobs, &options, &error), STATUS_OK);
	jobs_add(jobs, "a", 1);
	jobs_add(jobs, "b", 1);
	require_equal(jobs_next(jobs, &number, &result, &error), STATUS_VERDICT);
	require_equal(number, JOBS_NONE);
	require_equal(jobs_pending(jobs), 1);
	jobs_close(jobs);
}

/* A worker that is told to end dies; its job is done again. */
Test(jobs, a_signal_to_a_worker_loses_no_job)
{
	struct scene *scene = open_scene();
	const struct jobs_options options = {
		.workers = 2, .run = run, .describe = describe, .context = scene};
	const struct order order = {.pause_us = 200000, .seed = 3, .result_bytes = 800};
	struct error error = {0};
	struct text result = {0};
	struct jobs *jobs;
	uint64_t number;

	interrupt_catch();
	require_equal(jobs_open(&jobs, &options, &error), STATUS_OK);
	add(jobs, &order);
	pid_t child = fork();
	if (child == 0) {
		while (atomic_load(&scene->pids[0]) == 0) {
			pause_ns(1000000);
		}
		kill(atomic_load(&scene->pids[0]), SIGTERM);
		_exit(0);
	}
	require_equal(jobs_next(jobs, &number, &result, &error), STATUS_OK);
	expect(&order, STATUS_OK, &result, &error);
	require_equal(atomic_load(&scene->begun[0]), 2);
	require(waitpid(child, NULL, 0) == child, "no child");
	text_deinit(&result);
	jobs_close(jobs);
}

/* Jobs are handed out in the order of their numbers, and one whose worker died has an older one
   than those that were not handed out yet. */
Test(jobs, a_job_that_lost_its_worker_is_the_next_one)
{
	enum { COUNT = 8 };
	struct scene *scene = open_scene();
	const struct jobs_options options = {
		.workers = 2, .run = run, .describe = describe, .context = scene};
	struct error error = {0};
	struct text result = {0};
	struct jobs *jobs;
	uint64_t number;

	interrupt_catch();
	require_equal(jobs_open(&jobs, &options, &error), STATUS_OK);
	for (uint32_t i = 0; i < COUNT; i++) {
		/* The first dies while the second holds the other worker. */
		const struct order order = {.act = i == 0 ? ACT_DIE_ONCE : ACT_RETURN,
			.pause_us = i == 1 ? 1000000 : 20000,
			.seed = i,
			.index = i};
		add(jobs, &order);
	}
	for (uint32_t i = 0; i < COUNT; i++) {
		require_equal(jobs_next(jobs, &number, &result, &error), STATUS_OK);
		text_deinit(&result);
	}
	require_equal(atomic_load(&scene->begun[0]), 2);
	require_equal(atomic_load(&scene->places[0]), 3);
	for (uint32_t i = 2; i + 1 < COUNT; i++) {
		require(atomic_load(&scene->places[i]) < atomic_load(&scene->places[i + 1]),
			"job %u was begun behind the next one", i);
	}
	jobs_close(jobs);
}

Test(jobs, workers_die_with_the_manager)
{
	struct scene *scene = open_scene();
	uint32_t gone = 0;

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	pid_t manager = fork();
	if (manager == 0) {
		struct error error = {0};
		struct text result = {0};
		struct jobs *jobs;
		uint64_t number;
		begin_long_jobs(&jobs, scene, 2);
		jobs_next(jobs, &number, &result, &error);
		_exit(0);
	}
	while (atomic_load(&scene->pids[0]) == 0 || atomic_load(&scene->pids[1]) == 0) {
		pause_ns(1000000);
	}
	kill(manager, SIGKILL);
	while (waitpid(-1, NULL, 0) > 0) {
		gone++;
	}
	require_equal(gone, 3);
}

Test(jobs, an_error_does_not_end_the_others)
{
	struct scene *scene = open_scene();
	const struct jobs_options options = {
		.workers = 3, .run = run, .describe = describe, .context = scene};
	struct error error = {0};
	struct text result = {0};
	struct jobs *jobs;
	uint32_t good = 0;

	require_equal(jobs_open(&jobs, &options, &error), STATUS_OK);
	for (uint32_t i = 0; i < 20; i++) {
		const struct order order = {
			.seed = i, .index = i, .act = i % 2 == 0 ? ACT_FAIL : ACT_RETURN};
		add(jobs, &order);
	}
	while (jobs_pending(jobs) > 0) {
		uint64_t number;
		error = (struct error){0};
		good += jobs_next(jobs, &number, &result, &error) == STATUS_OK;
	}
	require_equal(good, 10);
	text_deinit(&result);
	jobs_close(jobs);
	jobs_close(NULL);
}

/* Adds one order to jobs that do not describe themselves, and takes it back. */
static enum status do_one(struct jobs *jobs, const struct order *order, struct error *error)
{
	struct text result = {0};
	uint64_t number;

	*error = (struct error){0};
	uint64_t added = add(jobs, order);
	enum status status = jobs_next(jobs, &number, &result, error);
	require_equal(number, added);
	text_deinit(&result);
	return status;
}

static struct jobs *open_nameless(struct scene *scene)
{
	const struct jobs_options options = {.workers = 2, .run = run, .context = scene};
	struct error error = {0};
	struct jobs *jobs;

	require_equal(jobs_open(&jobs, &options, &error), STATUS_OK);
	return jobs;
}

Test(jobs, one_without_a_description_has_its_number)
{
	struct scene *scene = open_scene();
	struct jobs *jobs = open_nameless(scene);
	const struct order dies = {.act = ACT_DIE_ALWAYS, .index = 1};
	struct error error;

	require_equal(do_one(jobs, &(struct order){.seed = 1}, &error), STATUS_OK);
	require_equal(do_one(jobs, &dies, &error), STATUS_DEVICE);
	require(strncmp(error.text, "job 1: its worker was killed by signal 9", 40) == 0, "'%s'",
		error.text);
	jobs_close(jobs);
}

Test(jobs, workers_print_nothing)
{
	struct jobs *jobs = open_nameless(open_scene());
	struct capture capture;
	struct error error;

	capture_begin(&capture, STDOUT_FILENO);
	require_equal(do_one(jobs, &(struct order){.act = ACT_PRINT}, &error), STATUS_OK);
	jobs_close(jobs);
	char *printed = capture_end(&capture);
	require(printed[0] == '\0', "'%s'", printed);
	free(printed);
}

static _Atomic uint32_t bad_ends;

static void on_child(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)context;
	bad_ends += info->si_code != CLD_EXITED || info->si_status != 0;
}

/* An idle worker leaves with exit code 0 when the jobs are closed. */
Test(jobs, idle_workers_end_by_themselves)
{
	struct sigaction action = {
		.sa_sigaction = on_child, .sa_flags = SA_SIGINFO | SA_NOCLDSTOP | SA_RESTART};
	struct jobs *jobs = open_nameless(open_scene());
	struct error error;

	require_equal(sigaction(SIGCHLD, &action, NULL), 0);
	require_equal(do_one(jobs, &(struct order){.seed = 1}, &error), STATUS_OK);
	jobs_close(jobs);
	require_equal(bad_ends, 0);
}

/* A worker that is busy has 2 s to end by itself. */
Test(jobs, a_worker_that_does_not_end_is_killed)
{
	interrupt_catch();
	struct scene *scene = open_scene();
	struct jobs *jobs = open_nameless(scene);
	struct error error = {0};
	struct text result = {0};
	uint64_t number;

	add(jobs, &(struct order){.act = ACT_DEAF});
	add(jobs, &(struct order){.index = 1});
	require_equal(jobs_next(jobs, &number, &result, &error), STATUS_OK);
	require_equal(number, 1);
	while (atomic_load(&scene->pids[0]) == 0) {
		pause_ns(1000000);
	}
	uint64_t start_ns = monotonic_ns();
	jobs_close(jobs);
	uint64_t waited_ns = monotonic_ns() - start_ns;
	require(waited_ns > UINT64_C(1500000000) && waited_ns < UINT64_C(10000000000), "%llu ns",
		(unsigned long long)waited_ns);
	require(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "a worker is left");
	text_deinit(&result);
}

/* As where no process can be started: there is no descriptor for a worker's socket. */
Test(jobs, that_no_worker_can_be_started_is_an_error)
{
	struct jobs *jobs = open_nameless(open_scene());
	const struct rlimit limit = {.rlim_cur = 3, .rlim_max = 64};
	struct error error = {0};
	struct text result = {0};
	uint64_t number;

	add(jobs, &(struct order){.seed = 1});
	require_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	require_equal(jobs_next(jobs, &number, &result, &error), STATUS_DEVICE);
	require_equal(number, JOBS_NONE);
	require(strcmp(error.text, "a worker cannot be started: Too many open files") == 0, "'%s'",
		error.text);
	require_equal(jobs_pending(jobs), 1);
	jobs_close(jobs);
}
