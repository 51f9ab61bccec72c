#include "engine/ranks/ranks_internal.h"

#include "engine/base/check.h"
#include "engine/base/clock.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "engine/ranks/ring.h"

#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Ranks as forked processes of one machine. They share anonymous memory and a socket with rank 0,
   over which file descriptors travel. Rank 0 alone looks for dead ranks, by waitpid(); the others
   see its verdict in the shared memory, and die with it. */

enum {
	PAGE_BYTES = 4096,
	NS_A_SECOND = 1000 * 1000 * 1000,
	PAUSE_NS = 1000 * 1000,
	CLOSE_SECONDS = 5,	  /* freeing the memory of a GPU takes some of them */
	CLOSE_FAILED_SECONDS = 1, /* nothing of a failed run is worth waiting for */
	KILLED_SECONDS = 5,	  /* a killed process may still be in a call of the driver */
};

/* The beginning of the shared memory; the data follows on the next page. */
struct region {
	_Alignas(CACHE_LINE) _Atomic uint32_t abort;	   /* set once, by the first to fail */
	_Alignas(CACHE_LINE) _Atomic uint32_t has_failure; /* failure is complete */
	struct error failure;
	_Alignas(CACHE_LINE) _Atomic uint32_t is_closing;
	struct ring ring;
	struct shared_word arrived[RANKS_MAX]; /* barriers that a rank has arrived at */
	/* Barrier n uses arrivals[n % 2]: a rank at barrier n + 2 has left n + 1, at which all
	   ranks had read those of n. */
	struct rank_arrival arrivals[2][RANKS_MAX];
	struct shared_word given[RANKS_MAX]; /* exchanges to which a rank has given its part */
	_Atomic int32_t pids[RANKS_MAX];     /* 0: has not begun */
};

struct forked {
	struct region *region;
	uint32_t barriers;    /* that this rank has arrived at */
	uint32_t exchanges;   /* to which this rank has given its part */
	unsigned char *parts; /* (2, count, exchange_bytes), shared, used in turn as arrivals are */
	int sockets[RANKS_MAX]; /* rank 0: to each rank; others: [0], to rank 0; -1: none */

	/* of rank 0 */
	pid_t pids[RANKS_MAX]; /* 0: not started, or seen to have ended */
	bool has_failed;       /* deaths were looked at: the first is the run's failure */
	struct error killed;   /* of a rank that a signal has killed: before any other failure */
};

/* ---- failures ---- */

/* Ends the run with a failure, unless it has one. */
static void set_failure(struct region *region, const struct error *failure)
{
	uint32_t none = 0;

	if (atomic_compare_exchange_strong(&region->abort, &none, 1)) {
		region->failure = *failure;
		atomic_store(&region->has_failure, 1);
	}
}

static void forked_fail(struct ranks *ranks, const struct error *error)
{
	struct forked *forked = ranks->state;
	struct error named = *error;

	if (ranks->index != 0 && strncmp(error->text, "rank ", 5) != 0) {
		error_set(&named, error->status, "rank %u: %.480s", ranks->index, error->text);
	}
	set_failure(forked->region, &named);
}

/* How a rank that was not asked to has ended. */
static void describe_end(
	const struct ranks *ranks, uint32_t rank, int wait_status, struct error *error)
{
	char where[RANK_WHERE_BYTES];

	ranks_where(ranks, where);
	if (WIFSIGNALED(wait_status)) {
		error_set(error, STATUS_DEVICE, "rank %u: killed by signal %d (%s)%s", rank,
			WTERMSIG(wait_status), strsignal(WTERMSIG(wait_status)), where);
	} else {
		error_set(error, STATUS_DEVICE, "rank %u: ended with exit code %d%s", rank,
			WEXITSTATUS(wait_status), where);
	}
}

/* Rank 0: makes the death of a rank the run's failure. A rank that a signal killed is the cause of
   what others report, so rank 0 prefers it. It does not replace their failure, which one of them
   may be writing. */
static void look_for_deaths(struct ranks *ranks)
{
	struct forked *forked = ranks->state;
	struct error failure = {0};
	int wait_status = 0;

	for (uint32_t r = 1; r < ranks->count && !forked->has_failed; r++) {
		if (forked->pids[r] == 0 ||
			waitpid(forked->pids[r], &wait_status, WNOHANG) != forked->pids[r]) {
			continue;
		}
		forked->pids[r] = 0;
		forked->has_failed = true;
		describe_end(ranks, r, wait_status, &failure);
		set_failure(forked->region, &failure);
		if (WIFSIGNALED(wait_status)) {
			forked->killed = failure;
		}
	}
}

static enum status forked_check(struct ranks *ranks, struct error *error)
{
	struct forked *forked = ranks->state;
	struct region *region = forked->region;

	if (ranks->index == 0) {
		look_for_deaths(ranks);
	}
	if (forked->killed.status != STATUS_OK) {
		*error = forked->killed;
		return error->status;
	}
	if (atomic_load(&region->abort) == 0) {
		return STATUS_OK;
	}
	/* The rank that failed may be writing its text, or may have been killed while it did. */
	for (uint32_t i = 0; i < 100 && atomic_load(&region->has_failure) == 0; i++) {
		pause_ns(PAUSE_NS);
	}
	if (atomic_load(&region->has_failure) == 0) {
		return error_set(error, STATUS_DEVICE, "a rank has failed and died");
	}
	*error = region->failure;
	return error->status;
}

/* What ends a wait of opening or for a message. */
static enum status check_wait(struct ranks *ranks, struct error *error)
{
	const struct forked *forked = ranks->state;

	TRY(forked_check(ranks, error));
	if (ranks->index != 0 && atomic_load(&forked->region->is_closing) != 0) {
		return error_set(error, STATUS_DEVICE, "rank 0 has ended the run");
	}
	return STATUS_OK;
}

/* ---- barriers, files and messages ---- */

static enum status forked_gather(struct ranks *ranks, const struct rank_arrival *own,
	struct rank_arrival *all, struct error *error)
{
	struct forked *forked = ranks->state;
	struct region *region = forked->region;
	uint32_t number = ++forked->barriers;
	struct rank_arrival *arrivals = region->arrivals[number % 2];
	uint64_t spin_ns = ranks->spin_ns;

	arrivals[ranks->index] = *own;
	shared_word_set(&region->arrived[ranks->index], number);
	for (uint32_t r = 0; r < ranks->count; r++) {
		while (!shared_word_await(&region->arrived[r], number, spin_ns, RANK_SLICE_NS)) {
			spin_ns = 0;
			TRY(check_wait(ranks, error));
		}
	}
	memcpy(all, arrivals, ranks->count * sizeof(*all));
	return STATUS_OK;
}

/* A message of one byte that carries a file descriptor. */
struct file_message {
	char byte;
	struct iovec bytes;
	struct msghdr header;
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
};

static void prepare_file_message(struct file_message *message)
{
	memset(message, 0, sizeof(*message));
	message->bytes = (struct iovec){&message->byte, 1};
	message->header.msg_iov = &message->bytes;
	message->header.msg_iovlen = 1;
	message->header.msg_control = message->control;
	message->header.msg_controllen = sizeof(message->control);
}

static enum status send_file(int socket, int fd, struct error *error)
{
	struct file_message message;

	prepare_file_message(&message);
	struct cmsghdr *control = CMSG_FIRSTHDR(&message.header);
	control->cmsg_level = SOL_SOCKET;
	control->cmsg_type = SCM_RIGHTS;
	control->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(control), &fd, sizeof(fd));
	if (sendmsg(socket, &message.header, MSG_NOSIGNAL) != 1) {
		return error_set(error, STATUS_DEVICE,
			"a file descriptor cannot be sent to another rank: %s", strerror(errno));
	}
	return STATUS_OK;
}

static enum status receive_file(struct ranks *ranks, int socket, int *fd, struct error *error)
{
	struct pollfd wait = {.fd = socket, .events = POLLIN};
	struct file_message message;

	*fd = -1;
	while (poll(&wait, 1, RANK_SLICE_NS / (1000 * 1000)) != 1) {
		TRY(check_wait(ranks, error));
	}
	prepare_file_message(&message);
	ssize_t count = recvmsg(socket, &message.header, MSG_CMSG_CLOEXEC);
	const struct cmsghdr *control = CMSG_FIRSTHDR(&message.header);
	if (count != 1 || control == NULL || control->cmsg_type != SCM_RIGHTS) {
		TRY(check_wait(ranks, error));
		return error_set(error, STATUS_DEVICE,
			"no file descriptor came from another rank: %s",
			count == 0 ? "it has ended" : strerror(errno));
	}
	memcpy(fd, CMSG_DATA(control), sizeof(*fd));
	return STATUS_OK;
}

static void close_files(int *fds, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		if (fds[i] >= 0) {
			close(fds[i]);
			fds[i] = -1;
		}
	}
}

/* Rank 0 collects the files of all and hands them to all, in the order of the ranks. */
static enum status pass_files(struct ranks *ranks, int own, int *fds, struct error *error)
{
	const struct forked *forked = ranks->state;

	if (ranks->index != 0) {
		TRY(send_file(forked->sockets[0], own, error));
		for (uint32_t r = 0; r < ranks->count; r++) {
			if (r != ranks->index) {
				TRY(receive_file(ranks, forked->sockets[0], &fds[r], error));
			}
		}
		return STATUS_OK;
	}
	for (uint32_t r = 1; r < ranks->count; r++) {
		TRY(receive_file(ranks, forked->sockets[r], &fds[r], error));
	}
	for (uint32_t to = 1; to < ranks->count; to++) {
		for (uint32_t r = 0; r < ranks->count; r++) {
			if (r != to) {
				TRY(send_file(forked->sockets[to], r == 0 ? own : fds[r], error));
			}
		}
	}
	return STATUS_OK;
}

static enum status forked_gather_files(struct ranks *ranks, int own, int *fds, struct error *error)
{
	for (uint32_t r = 0; r < ranks->count; r++) {
		fds[r] = -1;
	}
	TRY(ranks_barrier(ranks, error)); /* nobody waits for the file of a rank that failed */
	pass_files(ranks, own, fds, error);
	enum status status = ranks_barrier(ranks, error);
	if (status != STATUS_OK) {
		close_files(fds, ranks->count);
	}
	return status;
}

static enum status forked_exchange(
	struct ranks *ranks, void *all, size_t bytes, struct error *error)
{
	struct forked *forked = ranks->state;
	uint32_t number = ++forked->exchanges;
	size_t stride = ranks->exchange_bytes;
	unsigned char *parts = forked->parts + number % 2 * ranks->count * stride;
	unsigned char *to = all;

	memcpy(parts + ranks->index * stride, to + ranks->index * bytes, bytes);
	shared_word_set(&forked->region->given[ranks->index], number);
	for (uint32_t r = 0; r < ranks->count; r++) {
		if (r != ranks->index) {
			TRY(ranks_await(ranks, &forked->region->given[r], number, r,
				"part of an "
				"exchange",
				error));
			memcpy(to + r * bytes, parts + r * stride, bytes);
		}
	}
	return STATUS_OK;
}

static uint64_t forked_busy_ns(struct ranks *ranks, uint32_t rank)
{
	const struct forked *forked = ranks->state;
	pid_t pid = atomic_load(&forked->region->pids[rank]);
	struct timespec used = {0};
	clockid_t clock;

	if (pid == 0 || clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0) {
		return 0;
	}
	return (uint64_t)used.tv_sec * NS_A_SECOND + (uint64_t)used.tv_nsec;
}

static enum status forked_post(
	struct ranks *ranks, const struct rank_message *message, struct error *error)
{
	struct forked *forked = ranks->state;
	uint32_t slowest = 0;
	char where[RANK_WHERE_BYTES];

	for (uint64_t waited_ns = 0; waited_ns < ranks->limit_ns; waited_ns += RANK_SLICE_NS) {
		if (ring_post(&forked->region->ring, message, ranks->spin_ns, RANK_SLICE_NS,
			    &slowest)) {
			return STATUS_OK;
		}
		TRY(forked_check(ranks, error));
	}
	ranks_where(ranks, where);
	error_set(error, STATUS_DEVICE, "rank %u: took no message for %.1f s%s, so it hangs",
		slowest + 1, (double)ranks->limit_ns / 1e9, where);
	set_failure(forked->region, error);
	return error->status;
}

static enum status forked_receive(
	struct ranks *ranks, struct rank_message *message, struct error *error)
{
	struct forked *forked = ranks->state;
	uint64_t spin_ns = ranks->spin_ns;

	while (!ring_take(
		&forked->region->ring, ranks->index - 1, message, spin_ns, RANK_SLICE_NS)) {
		spin_ns = 0;
		TRY(check_wait(ranks, error));
		if (ranks->watch != NULL) {
			TRY(ranks->watch(ranks->watch_argument, error));
		}
	}
	return STATUS_OK;
}

/* ---- closing ---- */

/* Waits for the ranks to end, at most `seconds`; how many have not. */
static uint32_t await_ends(struct forked *forked, uint32_t count, uint32_t seconds)
{
	uint64_t deadline_ns = monotonic_ns() + (uint64_t)seconds * NS_A_SECOND;

	for (;;) {
		uint32_t alive = 0;
		for (uint32_t r = 1; r < count; r++) {
			pid_t pid = forked->pids[r];
			if (pid != 0 && waitpid(pid, NULL, WNOHANG) == pid) {
				forked->pids[r] = 0;
			}
			alive += forked->pids[r] != 0;
		}
		if (alive == 0 || monotonic_ns() >= deadline_ns) {
			return alive;
		}
		pause_ns(PAUSE_NS);
	}
}

static void end_processes(struct ranks *ranks)
{
	struct forked *forked = ranks->state;
	struct region *region = forked->region;
	const struct rank_message message = {.step = ranks->step, .kind = RANK_CLOSE};
	uint32_t slowest;
	bool is_orderly = atomic_load(&region->abort) == 0 && !forked->has_failed &&
			  ring_post(&region->ring, &message, 0, NS_A_SECOND, &slowest);

	atomic_store(&region->is_closing, 1);
	if (!is_orderly) {
		atomic_store(&region->abort, 1);
	}
	if (await_ends(forked, ranks->count, is_orderly ? CLOSE_SECONDS : CLOSE_FAILED_SECONDS) ==
		0) {
		return;
	}
	for (uint32_t r = 1; r < ranks->count; r++) {
		if (forked->pids[r] != 0) {
			kill(forked->pids[r], SIGKILL);
		}
	}
	await_ends(forked, ranks->count, KILLED_SECONDS);
}

static void forked_close(struct ranks *ranks)
{
	struct forked *forked = ranks->state;

	if (forked->region != NULL) {
		end_processes(ranks);
		munmap(ranks->memory, ranks->memory_bytes);
	}
	close_files(forked->sockets, RANKS_MAX);
	free(forked);
}

static const struct rank_transport transport = {
	.shares_memory = true,
	.gather = forked_gather,
	.gather_files = forked_gather_files,
	.exchange = forked_exchange,
	.busy_ns = forked_busy_ns,
	.post = forked_post,
	.receive = forked_receive,
	.look = forked_check,
	.fail = forked_fail,
	.close = forked_close,
};

/* ---- opening ---- */

static uint64_t whole_pages(uint64_t bytes)
{
	return u64_divide_up(bytes, (uint64_t)PAGE_BYTES) * PAGE_BYTES;
}

static enum status map_memory(
	struct ranks *ranks, const struct ranks_options *options, struct error *error)
{
	struct forked *forked = ranks->state;
	uint64_t region_bytes = whole_pages(sizeof(struct region));
	uint64_t data_bytes = whole_pages(options->data_bytes);
	uint64_t bytes = region_bytes + data_bytes + 2 * ranks->count * options->exchange_bytes;
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED) {
		return error_set(error, STATUS_MEMORY,
			"%llu bytes of memory that ranks share cannot be had: %s",
			(unsigned long long)bytes, strerror(errno));
	}
	ranks->memory = memory;
	ranks->memory_bytes = bytes;
	ranks->data = ranks->memory + region_bytes;
	forked->parts = ranks->data + data_bytes;
	forked->region = memory;
	ranks->abort = &forked->region->abort;
	ring_init(&forked->region->ring, ranks->count - 1, 0);
	atomic_store(&forked->region->pids[0], getpid());
	return STATUS_OK;
}

/* A terminal sends these to every process of a run, and rank 0 decides. */
static const int of_terminals[] = {SIGINT, SIGTERM, SIGHUP};

enum { OF_TERMINALS = sizeof(of_terminals) / sizeof(of_terminals[0]) };

static void block_terminals(sigset_t *before)
{
	sigset_t set;

	sigemptyset(&set);
	for (uint32_t i = 0; i < OF_TERMINALS; i++) {
		sigaddset(&set, of_terminals[i]);
	}
	sigprocmask(SIG_BLOCK, &set, before);
}

/* The life of a forked rank. It begins with the signals of terminals blocked; before: without. */
static _Noreturn void run_rank(struct ranks *ranks, uint32_t index, pid_t parent,
	const sigset_t *before, const struct ranks_options *options)
{
	struct error error = {0};
	char name[] = "quire-rank-0";

	/* The kernel kills this process when rank 0's thread dies; it may have done so already. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent) {
		_exit(2);
	}
	for (uint32_t i = 0; i < OF_TERMINALS; i++) {
		signal(of_terminals[i], SIG_IGN); /* and forgets one that has come since the fork */
	}
	sigprocmask(SIG_SETMASK, before, NULL);
	name[sizeof(name) - 2] = (char)('0' + index);
	prctl(PR_SET_NAME, name);
	ranks->index = index;
	const struct forked *forked = ranks->state;
	atomic_store(&forked->region->pids[index], getpid());
	enum status status = options->serve(ranks, options->argument, &error);
	if (status != STATUS_OK) {
		ranks_fail(ranks, &error);
	}
	/* Without the exit functions and buffered output of the process it was forked from. */
	_exit(status_exit_code(status));
}

static enum status start_rank(struct ranks *ranks, uint32_t index,
	const struct ranks_options *options, struct error *error)
{
	struct forked *forked = ranks->state;
	pid_t parent = getpid();
	sigset_t before;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
		return error_set(error, STATUS_DEVICE, "rank %u cannot be started: no socket: %s",
			index, strerror(errno));
	}
	block_terminals(&before); /* a rank must not heed one with its parent's handler */
	pid_t pid = fork();
	if (pid == 0) {
		close(pair[0]);
		close_files(forked->sockets, index);
		forked->sockets[0] = pair[1];
		run_rank(ranks, index, parent, &before, options);
	}
	int reason = errno;
	sigprocmask(SIG_SETMASK, &before, NULL);
	close(pair[1]);
	forked->sockets[index] = pair[0];
	if (pid < 0) {
		return error_set(error, STATUS_DEVICE, "rank %u cannot be started: %s", index,
			strerror(reason));
	}
	forked->pids[index] = pid;
	return STATUS_OK;
}

enum status forked_ranks_open(
	struct ranks *ranks, const struct ranks_options *options, struct error *error)
{
	struct forked *forked = memory_take(1, sizeof(*forked));

	/* The CUDA runtime loads the driver's library when it is first called. */
	check(dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD) == NULL);
	for (uint32_t r = 0; r < RANKS_MAX; r++) {
		forked->sockets[r] = -1;
	}
	ranks->transport = &transport;
	ranks->state = forked;
	TRY(map_memory(ranks, options, error));
	for (uint32_t r = 1; r < ranks->count; r++) {
		TRY(start_rank(ranks, r, options, error));
	}
	return STATUS_OK;
}
