#include "bench/jobs/jobs_internal.h"

#include "engine/base/clock.h"
#include "engine/base/integer.h"
#include "engine/base/interrupt.h"
#include "engine/base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Workers as forked processes, each with a socket to the manager. A message is a head and the bytes
   of a job or of what came of it. The end of its socket tells of a worker's death. */

enum {
	CLOSE_PAUSES = 2000, /* of a ms: what a worker has to end by itself, then it is killed */
	PAUSE_NS = 1000 * 1000,
	CHUNK_BYTES = 1 << 16,
	LAST_LINE_BYTES = 400,
};

struct head {
	uint64_t bytes;
	uint64_t status; /* enum status; 0 in a job */
};

struct forked_worker {
	pid_t pid; /* 0: not started, or ended */
	int socket;
	bool is_busy;
	FILE *errors;	   /* its standard error */
	struct text inbox; /* what came of its message so far */
};

struct forked_jobs {
	struct jobs_options options;
	struct forked_worker *workers; /* (options.workers) */
	struct pollfd *polled;	       /* (options.workers) */
	uint32_t next;		       /* worker that is looked at first: none is starved */
};

/* ---- messages ---- */

/* False: the other side has ended. */
static bool send_all(int socket, const void *bytes, size_t count)
{
	const char *at = bytes;

	while (count > 0) {
		ssize_t sent = send(socket, at, count, MSG_NOSIGNAL);
		if (sent < 0 && errno != EINTR) {
			return false;
		}
		at += sent > 0 ? sent : 0;
		count -= sent > 0 ? (size_t)sent : 0;
	}
	return true;
}

static bool send_message(int socket, enum status status, const char *bytes, size_t count)
{
	const struct head head = {.bytes = count, .status = status};

	return send_all(socket, &head, sizeof(head)) && send_all(socket, bytes, count);
}

/* Whether a whole message has come; *head is its head. */
static bool is_whole(const struct text *inbox, struct head *head)
{
	if (inbox->byte_count < sizeof(*head)) {
		return false;
	}
	memcpy(head, inbox->bytes, sizeof(*head));
	return inbox->byte_count - sizeof(*head) >= head->bytes;
}

/* Adds what has come to the inbox. False: the other side has ended. */
static bool receive_some(int socket, struct text *inbox)
{
	char buffer[CHUNK_BYTES];
	ssize_t count = recv(socket, buffer, sizeof(buffer), MSG_DONTWAIT);

	if (count > 0) {
		text_add_bytes(inbox, buffer, (size_t)count);
	}
	return count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR));
}

/* Replaces `to` by the message without its head, and empties the inbox. */
static void take_message(struct text *inbox, struct text *to)
{
	size_t count = inbox->byte_count - sizeof(struct head);

	text_deinit(to);
	if (count > 0) { /* an empty text has no bytes */
		text_add_bytes(to, inbox->bytes + sizeof(struct head), count);
	}
	text_deinit(inbox);
}

/* ---- a worker ---- */

/* Waits for a job. False: there will be none, or this process was asked to end. */
static bool receive_job(int socket, struct text *job)
{
	struct text inbox = {0};
	struct head head;

	while (!is_whole(&inbox, &head)) {
		struct pollfd polled = {.fd = socket, .events = POLLIN};
		int count = poll(&polled, 1, JOBS_WAIT_MS);
		if (interrupt_is_pending() || (count > 0 && !receive_some(socket, &inbox))) {
			text_deinit(&inbox);
			return false;
		}
	}
	take_message(&inbox, job);
	return true;
}

/* The streams of a worker: stdin and stdout are /dev/null; stderr is a file, shown if it fails. */
static void take_streams(const struct forked_worker *worker)
{
	int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (nothing >= 0) {
		dup2(nothing, STDIN_FILENO);
		dup2(nothing, STDOUT_FILENO);
	}
	dup2(fileno(worker->errors), STDERR_FILENO);
}

/* The life of a worker. */
static _Noreturn void work(const struct forked_jobs *forked, int socket)
{
	struct text job = {0}, result = {0};

	while (receive_job(socket, &job)) {
		struct error error = {0};
		enum status status =
			forked->options.run(forked->options.context, &job, &result, &error);
		if (interrupt_is_pending()) {
			break; /* what it returned may be of half a run */
		}
		bool is_sent =
			status == STATUS_OK
				? send_message(socket, status, result.bytes, result.byte_count)
				: send_message(socket, status, error.text, strlen(error.text));
		text_deinit(&result);
		if (!is_sent) {
			break;
		}
	}
	_exit(0); /* without the exit functions of the process it was forked from */
}

/* ---- the manager ---- */

static enum status cannot_start(int reason, struct error *error)
{
	return error_set(error, STATUS_DEVICE, "a worker cannot be started: %s", strerror(reason));
}

static enum status start(struct forked_jobs *forked, uint32_t index, struct error *error)
{
	struct forked_worker *worker = &forked->workers[index];
	pid_t manager = getpid();
	int pair[2];

	worker->errors = tmpfile();
	if (worker->errors == NULL) {
		return cannot_start(errno, error);
	}
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
		return cannot_start(errno, error);
	}
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, "quire-worker");
		if (getppid() != manager) {
			_exit(2); /* it has died already */
		}
		/* Another's socket that stays open here would hide the manager's end. */
		close(pair[0]);
		for (uint32_t i = 0; i < forked->options.workers; i++) {
			if (forked->workers[i].pid > 0) {
				close(forked->workers[i].socket);
			}
		}
		take_streams(worker);
		work(forked, pair[1]);
	}
	int reason = errno;
	close(pair[1]);
	if (pid < 0) {
		close(pair[0]);
		return cannot_start(reason, error);
	}
	worker->pid = pid;
	worker->socket = pair[0];
	return STATUS_OK;
}

static void forget(struct forked_worker *worker)
{
	if (worker->pid > 0) {
		close(worker->socket);
	}
	if (worker->errors != NULL) {
		fclose(worker->errors);
	}
	text_deinit(&worker->inbox);
	*worker = (struct forked_worker){.pid = 0};
}

static enum status forked_give(
	void *state, uint32_t index, const struct text *job, struct error *error)
{
	struct forked_jobs *forked = state;
	struct forked_worker *worker = &forked->workers[index];

	if (worker->pid == 0 && start(forked, index, error) != STATUS_OK) {
		forget(worker);
		return error->status;
	}
	worker->is_busy = true;
	/* If it has died, its socket says so. */
	(void)send_message(worker->socket, STATUS_OK, job->bytes, job->byte_count);
	return STATUS_OK;
}

/* The last line that a worker wrote on its standard error; empty: none. */
static void read_last_line(FILE *errors, char *line)
{
	char bytes[LAST_LINE_BYTES];

	line[0] = '\0';
	if (fseek(errors, 0, SEEK_END) != 0) {
		return;
	}
	long end = ftell(errors);
	long begin = end > LAST_LINE_BYTES ? end - LAST_LINE_BYTES : 0;
	if (end < 0 || fseek(errors, begin, SEEK_SET) != 0) {
		return;
	}
	size_t count = fread(bytes, 1, sizeof(bytes) - 1, errors);
	while (count > 0 && bytes[count - 1] == '\n') {
		count--;
	}
	bytes[count] = '\0';
	const char *last = strrchr(bytes, '\n');
	snprintf(line, LAST_LINE_BYTES, "%s", last == NULL ? bytes : last + 1);
}

/* Says how a worker died, and forgets it. */
static void bury(struct forked_worker *worker, struct text *how)
{
	char line[LAST_LINE_BYTES];
	int end = 0;
	pid_t pid;

	/* Its socket has ended, so it has; but for one that closed the socket. */
	kill(worker->pid, SIGKILL);
	do {
		pid = waitpid(worker->pid, &end, 0);
	} while (pid < 0 && errno == EINTR);
	read_last_line(worker->errors, line);
	forget(worker);
	text_deinit(how);
	if (pid > 0 && WIFSIGNALED(end)) {
		text_format(how, "was killed by signal %d (%s)%s", WTERMSIG(end),
			strsignal(WTERMSIG(end)),
			WTERMSIG(end) == SIGKILL ? ", as where memory runs out" : "");
	} else {
		text_format(how, "ended with exit code %d", pid > 0 ? WEXITSTATUS(end) : 0);
	}
	if (line[0] != '\0') {
		text_make_printable(line);
		text_format(how, ": %s", line);
	}
}

/* Looks at a worker whose socket has something. */
static void look(struct forked_worker *worker, struct job_event *event)
{
	struct head head;

	if (!receive_some(worker->socket, &worker->inbox)) {
		bury(worker, &event->text);
		event->end = JOB_ORPHAN;
	} else if (is_whole(&worker->inbox, &head)) {
		take_message(&worker->inbox, &event->text);
		event->end = JOB_DONE;
		event->status = (enum status)head.status;
		worker->is_busy = false;
	}
}

static void forked_take(void *state, struct job_event *event)
{
	struct forked_jobs *forked = state;
	uint32_t count = forked->options.workers;
	uint32_t first = forked->next++ % count;
	nfds_t busy = 0;

	/* Only those that have a job: poll() takes no more than a process may open files. */
	for (uint32_t i = 0; i < count; i++) {
		const struct forked_worker *worker = &forked->workers[(first + i) % count];
		if (worker->is_busy) {
			forked->polled[busy++] =
				(struct pollfd){.fd = worker->socket, .events = POLLIN};
		}
	}
	if (poll(forked->polled, busy, JOBS_WAIT_MS) <= 0) {
		return;
	}
	busy = 0;
	for (uint32_t i = 0; i < count && event->end == JOB_RUNS; i++) {
		event->worker = (first + i) % count;
		struct forked_worker *worker = &forked->workers[event->worker];
		if (worker->is_busy && forked->polled[busy++].revents != 0) {
			look(worker, event);
		}
	}
}

/* ---- opening and closing ---- */

void *forked_jobs_open(const struct jobs_options *options)
{
	struct forked_jobs *forked = memory_take(1, sizeof(*forked));

	forked->options = *options;
	forked->workers = memory_take(options->workers, sizeof(*forked->workers));
	forked->polled = memory_take(options->workers, sizeof(*forked->polled));
	return forked;
}

/* Waits for the end of a worker; *pauses are left for all. */
static void await_end(const struct forked_worker *worker, uint32_t *pauses)
{
	while (waitpid(worker->pid, NULL, WNOHANG) == 0) {
		if (*pauses == 0) {
			kill(worker->pid, SIGKILL);
			while (waitpid(worker->pid, NULL, 0) < 0 && errno == EINTR) {
			}
			return;
		}
		(*pauses)--;
		pause_ns(PAUSE_NS);
	}
}

static void forked_close(void *state)
{
	struct forked_jobs *forked = state;
	uint32_t pauses = CLOSE_PAUSES;

	for (uint32_t i = 0; i < forked->options.workers; i++) {
		const struct forked_worker *worker = &forked->workers[i];
		if (worker->pid > 0) {
			shutdown(worker->socket, SHUT_WR);
			(void)(worker->is_busy && kill(worker->pid, SIGTERM));
		}
	}
	for (uint32_t i = 0; i < forked->options.workers; i++) {
		if (forked->workers[i].pid > 0) {
			await_end(&forked->workers[i], &pauses);
		}
		forget(&forked->workers[i]);
	}
	free(forked->workers);
	free(forked->polled);
	free(forked);
}

const struct jobs_transport forked_jobs = {
	.give = forked_give,
	.take = forked_take,
	.close = forked_close,
};
