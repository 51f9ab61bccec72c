/* A library to preload (LD_PRELOAD) into a program, which makes one operation of it fail.

   Instead of main() it runs a server: for each order it forks a process that runs main() with the
   fault on the board, and answers with the way it ended. So a run costs a fork, not the start of a
   program.

   Allocations are wrapped. System calls are caught by the kernel's syscall user dispatch: each
   raises SIGSYS, whose handler makes the call or lets it fail. So nothing escapes that libc or
   another library does without calling a function that could be wrapped.

   The clock stands still but for a microsecond with each reading, so that outputs with times are
   equal in all runs. For the same reason a wait for a child lasts until one ends. */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "tests/faults/fault_board.h"

enum { DISPATCH_ALLOW = 0, DISPATCH_BLOCK = 1, NO_DISPATCH = 77, KERNEL_SIGNAL_BYTES = 8 };

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif

static struct fault_board *board; /* NULL: outside of a run */
static volatile char dispatch = DISPATCH_ALLOW;

/* Counts an operation. Whether the fault hits it; a signal is sent from here. */
static bool is_struck(enum fault_place place)
{
	if (board == NULL) {
		return false;
	}
	const struct fault *fault = &board->fault;
	uint32_t number = ++board->counts[place];
	bool is_hit = fault->effect != FAULT_NONE && fault->place == place &&
		      (number == fault->number || (fault->is_lasting && number > fault->number));
	if (!is_hit) {
		return false;
	}
	board->struck++;
	if (fault->effect == FAULT_SIGNAL) {
		kill(getpid(), fault->value);
		return false;
	}
	return true;
}

/* ---- allocations ---- */

static bool is_allocation_struck(void)
{
	char before = dispatch;

	dispatch = DISPATCH_ALLOW;
	bool is_hit = is_struck(FAULT_ALLOCATE);
	dispatch = before;
	if (is_hit) {
		errno = ENOMEM;
	}
	return is_hit;
}

#define NEXT(type, name, parameters)                                                               \
	static type(*next) parameters;                                                             \
	if (next == NULL) {                                                                        \
		*(void **)&next = dlsym(RTLD_NEXT, #name);                                         \
	}

void *malloc(size_t bytes)
{
	NEXT(void *, malloc, (size_t));
	return is_allocation_struck() ? NULL : next(bytes);
}

void *calloc(size_t count, size_t bytes)
{
	NEXT(void *, calloc, (size_t, size_t));
	return is_allocation_struck() ? NULL : next(count, bytes);
}

void *realloc(void *memory, size_t bytes)
{
	NEXT(void *, realloc, (void *, size_t));
	return is_allocation_struck() ? NULL : next(memory, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
	NEXT(void *, aligned_alloc, (size_t, size_t));
	return is_allocation_struck() ? NULL : next(alignment, bytes);
}

int posix_memalign(void **memory, size_t alignment, size_t bytes)
{
	NEXT(int, posix_memalign, (void **, size_t, size_t));
	return is_allocation_struck() ? ENOMEM : next(memory, alignment, bytes);
}

/* ---- the clock ---- */

static uint64_t now_ns = UINT64_C(1750000000) * 1000000000;

int clock_gettime(clockid_t clock, struct timespec *out)
{
	(void)clock;
	now_ns += 1000;
	out->tv_sec = (time_t)(now_ns / 1000000000);
	out->tv_nsec = (long)(now_ns % 1000000000);
	return 0;
}

time_t time(time_t *out)
{
	time_t now = (time_t)(now_ns / 1000000000);

	if (out != NULL) {
		*out = now;
	}
	return now;
}

int nanosleep(const struct timespec *pause, struct timespec *left)
{
	(void)left;
	now_ns += (uint64_t)pause->tv_sec * 1000000000 + (uint64_t)pause->tv_nsec;
	return 0;
}

/* ---- processes ---- */

/* The process is made with the parent's memory and all signals blocked, where no system call may be
   caught. */
int posix_spawnp(pid_t *process, const char *file, const posix_spawn_file_actions_t *actions,
	const posix_spawnattr_t *attributes, char *const *arguments, char *const *environment)
{
	NEXT(int, posix_spawnp,
		(pid_t *, const char *, const posix_spawn_file_actions_t *,
			const posix_spawnattr_t *, char *const *, char *const *));
	char before = dispatch;

	dispatch = DISPATCH_ALLOW;
	int code = is_struck(FAULT_SPAWN)
			   ? board->fault.value
			   : next(process, file, actions, attributes, arguments, environment);
	dispatch = before;
	return code;
}

/* ---- system calls ---- */

/* Returns from a signal handler by a system call that is not caught, since it lies here. */
extern const char restore_begin[], restore_end[];
void restore(void);
__asm__(".text\n"
	".globl restore_begin, restore, restore_end\n"
	".hidden restore_begin, restore, restore_end\n"
	"restore_begin:\n"
	"restore:\n"
	"	mov $15, %eax\n"
	"	syscall\n"
	"	nop\n"
	"	nop\n"
	"restore_end:\n");

/* The latest file of /proc that was opened. What it says of the machine may be missing anywhere, so
   its failures are no faults. */
static long proc_file = -1;

static bool is_in_proc(long number, const greg_t *registers)
{
	return (number == SYS_openat &&
		       strncmp((const char *)registers[REG_RSI], "/proc/", 6) == 0) ||
	       ((number == SYS_read || number == SYS_close) && registers[REG_RDI] == proc_file);
}

/* FAULT_PLACE_COUNT: of no interest. */
static enum fault_place place_of(long number, const greg_t *registers)
{
	if (is_in_proc(number, registers)) {
		return FAULT_PLACE_COUNT;
	}
	switch (number) {
	case SYS_open:
	case SYS_creat:
	case SYS_openat:
		return FAULT_OPEN;
	case SYS_read:
	case SYS_pread64:
	case SYS_readv:
		return FAULT_READ;
	case SYS_write:
	case SYS_pwrite64:
	case SYS_writev:
		return registers[REG_RDI] == STDERR_FILENO ? FAULT_PLACE_COUNT : FAULT_WRITE;
	case SYS_mmap:
	case SYS_mremap:
	case SYS_brk:
		return FAULT_MAP;
	case SYS_rename:
	case SYS_renameat:
	case SYS_renameat2:
	case SYS_link:
	case SYS_linkat:
	case SYS_symlink:
		return FAULT_RENAME;
	case SYS_fsync:
	case SYS_fdatasync:
	case SYS_syncfs:
		return FAULT_SYNC;
	case SYS_close:
		return FAULT_CLOSE;
	case SYS_unlink:
	case SYS_unlinkat:
	case SYS_rmdir:
		return FAULT_REMOVE;
	case SYS_mkdir:
	case SYS_mkdirat:
		return FAULT_MAKE_FOLDER;
	case SYS_stat:
	case SYS_fstat:
	case SYS_lstat:
	case SYS_newfstatat:
	case SYS_statx:
	case SYS_access:
	case SYS_faccessat:
	case SYS_faccessat2:
	case SYS_readlink:
	case SYS_readlinkat:
	case SYS_getcwd:
	case SYS_getdents64:
	case SYS_lseek:
	case SYS_ftruncate:
	case SYS_fallocate:
	case SYS_flock:
	case SYS_fcntl:
		return FAULT_LOOK;
	case SYS_wait4:
	case SYS_waitid:
		return FAULT_WAIT;
	default:
		return FAULT_PLACE_COUNT;
	}
}

static long call(long number, const greg_t *registers)
{
	long result = syscall(number, registers[REG_RDI], registers[REG_RSI], registers[REG_RDX],
		registers[REG_R10], registers[REG_R8], registers[REG_R9]);

	if (number == SYS_openat && is_in_proc(number, registers)) {
		proc_file = result;
	} else if (number == SYS_close && registers[REG_RDI] == proc_file) {
		proc_file = -1;
	}
	return result == -1 ? -errno : result;
}

/* The mask that the handler's return sets again has to change with the program's, and SIGSYS has to
   stay out of it. */
static long change_mask(greg_t *registers, ucontext_t *context)
{
	uint64_t set = 0;

	if (registers[REG_RSI] != 0) {
		memcpy(&set, (const void *)registers[REG_RSI], sizeof(set));
		set &= ~(UINT64_C(1) << (SIGSYS - 1));
		registers[REG_RSI] = (greg_t)&set;
	}
	long result = call(SYS_rt_sigprocmask, registers);
	syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &context->uc_sigmask, KERNEL_SIGNAL_BYTES);
	return result;
}

/* What a file that was written loses when its bytes do not reach the disk. */
static void lose_half(int file)
{
	struct stat found;
	int flags = fcntl(file, F_GETFL);

	if (flags >= 0 && (flags & O_ACCMODE) != O_RDONLY && fstat(file, &found) == 0 &&
		S_ISREG(found.st_mode)) {
		(void)!ftruncate(file, found.st_size / 2);
	}
}

static long fail(long number, enum fault_place place, greg_t *registers)
{
	const struct fault *fault = &board->fault;
	bool is_first = board->struck == 1;

	if (fault->effect == FAULT_SHORT || (fault->effect == FAULT_FULL && is_first)) {
		if (registers[REG_RDX] > 1) {
			registers[REG_RDX] /= 2;
		}
		return call(number, registers);
	}
	if (fault->effect == FAULT_FULL) {
		return -ENOSPC;
	}
	if (number == SYS_brk) {
		return syscall(SYS_brk, 0);
	}
	if (place == FAULT_CLOSE || place == FAULT_SYNC) {
		lose_half((int)registers[REG_RDI]);
	}
	if (place == FAULT_CLOSE) {
		(void)call(number, registers);
	}
	return -fault->value;
}

static void on_call(int number_of_signal, siginfo_t *info, void *raised)
{
	(void)number_of_signal;
	(void)info;
	dispatch = DISPATCH_ALLOW;
	int error = errno;
	ucontext_t *context = raised;
	greg_t saved[NGREG];
	long number = (long)context->uc_mcontext.gregs[REG_RAX];
	long result;

	memcpy(saved, context->uc_mcontext.gregs, sizeof(saved));
	if (number == SYS_wait4) {
		saved[REG_RDX] &= ~(greg_t)WNOHANG;
	}
	enum fault_place place = place_of(number, saved);
	if (number == SYS_rt_sigprocmask) {
		result = change_mask(saved, context);
	} else if (place != FAULT_PLACE_COUNT && is_struck(place)) {
		result = fail(number, place, saved);
	} else {
		result = call(number, saved);
	}
	context->uc_mcontext.gregs[REG_RAX] = result;
	errno = error;
	dispatch = DISPATCH_BLOCK;
}

/* As the kernel takes it. */
struct kernel_sigaction {
	void (*handler)(int, siginfo_t *, void *);
	unsigned long flags;
	void (*restorer)(void);
	uint64_t mask;
};

static void catch_calls(void)
{
	const struct kernel_sigaction action = {
		.handler = on_call,
		.flags = SA_SIGINFO | SA_NODEFER | 0x04000000 /* SA_RESTORER */,
		.restorer = restore,
	};
	size_t bytes = (size_t)(restore_end - restore_begin);

	if (syscall(SYS_rt_sigaction, SIGSYS, &action, NULL, KERNEL_SIGNAL_BYTES) != 0 ||
		prctl(PR_SET_SYSCALL_USER_DISPATCH, 1, restore_begin, bytes, &dispatch) != 0) {
		_exit(NO_DISPATCH);
	}
}

/* ---- the server ---- */

static int (*program_main)(int, char **, char **);

/* True: it is stopped, not ended. A run has ended when the processes that it has started have, too:
   one that was killed may otherwise meet the next run while it dies. They are the server's children
   by then, and in the group of the run. */
static bool answer_with_end(pid_t process)
{
	int state = 0;

	if (waitpid(process, &state, WUNTRACED) != process) {
		_exit(1);
	}
	while (!WIFSTOPPED(state) && waitpid(-process, NULL, 0) > 0) {
	}
	if (write(FAULT_ANSWERS, &state, sizeof(state)) != sizeof(state)) {
		_exit(1);
	}
	return WIFSTOPPED(state);
}

static int serve(int count, char **arguments, char **environment)
{
	char order;
	pid_t stopped = 0;

	void *memory = mmap(NULL, sizeof(struct fault_board), PROT_READ | PROT_WRITE, MAP_SHARED,
		FAULT_BOARD, 0);
	if (memory == MAP_FAILED) { /* not started by a test */
		return program_main(count, arguments, environment);
	}
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	while (read(FAULT_ORDERS, &order, 1) == 1) {
		if (order == FAULT_CONTINUE) {
			kill(stopped, SIGCONT);
			(void)answer_with_end(stopped);
			continue;
		}
		pid_t process = fork();
		(void)setpgid(process, process); /* by both: either may be the first */
		if (process == 0) {
			close(FAULT_ORDERS);
			close(FAULT_ANSWERS);
			close(FAULT_BOARD);
			board = memory;
			catch_calls();
			dispatch = DISPATCH_BLOCK;
			return program_main(count, arguments, environment);
		}
		((struct fault_board *)memory)->process = process;
		if (answer_with_end(process)) {
			stopped = process;
		}
	}
	_exit(0);
}

/* Both are what libc declares them to be; neither is in a header. */
int __libc_start_main(int (*main)(int, char **, char **), int count, char **arguments,
	void (*init)(void), void (*fini)(void), void (*loader_fini)(void), void *stack_end);

int __libc_start_main(int (*main)(int, char **, char **), int count, char **arguments,
	void (*init)(void), void (*fini)(void), void (*loader_fini)(void), void *stack_end)
{
	NEXT(int, __libc_start_main,
		(int (*)(int, char **, char **), int, char **, void (*)(void), void (*)(void),
			void (*)(void), void *));
	program_main = main;
	return next(serve, count, arguments, init, fini, loader_fini, stack_end);
}
