/* flock is not POSIX. */
#define _DEFAULT_SOURCE

#include "tests/harness/cuda_device.h"

#include "kernels/linear/cublaslt.h"

#include <criterion/criterion.h>
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Descriptor of a file of this name for all tests of a machine; -1: none can be made. */
static int open_lock(const char *name)
{
	const char *folder = getenv("TMPDIR");
	char path[512];

	snprintf(path, sizeof(path), "%.400s/%s", folder == NULL ? "/tmp" : folder, name);
	return open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
}

/* Who waits for the device alone holds the door meanwhile, so that no other begins to share it and
   the wait ends. */
static void lock_device(int kind)
{
	static int device = -1;
	int door = open_lock("quire-tests-gpu-door");

	if (device < 0) {
		device = open_lock("quire-tests-gpu");
	}
	if (device >= 0) {
		flock(device, LOCK_UN);
	}
	if (door >= 0) {
		flock(door, LOCK_EX);
	}
	if (device >= 0) {
		flock(device, kind);
	}
	if (door >= 0) {
		close(door);
	}
}

void skip_without_device(void)
{
	int count = 0;

	if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
		cr_skip_test("no GPU");
	}
	lock_device(LOCK_SH);
}

void have_device_alone(void)
{
	lock_device(LOCK_EX);
}

static void count_two_devices(void *argument)
{
	int *has_two = argument, count = 0;

	*has_two = cudaGetDeviceCount(&count) == cudaSuccess && count >= 2;
}

void skip_without_two_devices(void)
{
	int *shared = shared_take(sizeof(*shared));

	run_apart(count_two_devices, shared);
	int has_two = *shared;
	shared_free(shared, sizeof(*shared));
	if (!has_two) {
		cr_skip_test("less than two GPUs");
	}
	lock_device(LOCK_SH);
}

void run_apart(void (*run)(void *argument), void *argument)
{
	int end = -1;

	fflush(NULL);
	pid_t child = fork();
	if (child == 0) {
		run(argument);
		fflush(NULL);
		_exit(0);
	}
	cr_assert(child > 0 && waitpid(child, &end, 0) == child);
	cr_assert(end == 0, "the process of the run ended with status %d", end);
}

void *shared_take(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	cr_assert(memory != MAP_FAILED);
	return memory;
}

void shared_free(void *memory, size_t bytes)
{
	munmap(memory, bytes);
}

void must(int code, const char *call)
{
	cr_assert(code == 0, "%s: %s", call, cublaslt_error_text(code));
}

void *device_take(size_t bytes)
{
	void *memory = NULL;

	must(cudaMalloc(&memory, bytes == 0 ? 1 : bytes), "cudaMalloc");
	must(cudaMemset(memory, 0xff, bytes), "cudaMemset"); /* NaN in bf16 and float32 */
	return memory;
}

void *device_copy(const void *host, size_t bytes)
{
	void *memory = device_take(bytes);

	must(cudaMemcpy(memory, host, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
	return memory;
}
