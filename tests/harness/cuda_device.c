/* flock is not POSIX. */
#define _DEFAULT_SOURCE

#include "tests/harness/cuda_device.h"

#include "kernels/linear/cublaslt.h"

#include <criterion/criterion.h>
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* The devices that this process sees, whatever their order in CUDA_VISIBLE_DEVICES. */
enum { DEVICES_MAX = 16 };

struct devices {
	int count;
	char names[DEVICES_MAX][32]; /* ascending, such as 0000:1b:00.0 */
};

static int compare_names(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void find_devices(void *argument)
{
	struct devices *devices = argument;
	int count = 0;

	if (cudaGetDeviceCount(&count) != cudaSuccess) {
		return;
	}
	devices->count = count < DEVICES_MAX ? count : DEVICES_MAX;
	for (int i = 0; i < devices->count; i++) {
		cudaDeviceGetPCIBusId(devices->names[i], sizeof(devices->names[i]), i);
	}
	qsort(devices->names, (size_t)devices->count, sizeof(devices->names[0]), compare_names);
}

/* Descriptor of a file for all tests of a machine, whatever their TMPDIR; -1: none can be made. */
static int open_lock(const char *device, const char *suffix)
{
	char path[128];

	snprintf(path, sizeof(path), "/tmp/quire-tests-gpu-%s%s", device, suffix);
	return open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
}

static void set_lock(int lock, int kind)
{
	if (lock >= 0) {
		flock(lock, kind);
	}
}

/* Locks each of the devices, in the same order in every process. Who waits for a device alone holds
   its door meanwhile, so that no other begins to share it and the wait ends. */
static void lock_devices(const struct devices *found, int kind)
{
	static struct devices devices;
	static int locks[DEVICES_MAX];

	for (int i = 0; i < devices.count; i++) {
		set_lock(locks[i], LOCK_UN);
	}
	if (found != NULL && devices.count == 0) {
		devices = *found;
		for (int i = 0; i < devices.count; i++) {
			locks[i] = open_lock(devices.names[i], "");
		}
	}
	for (int i = 0; i < devices.count; i++) {
		int door = open_lock(devices.names[i], "-door");
		set_lock(door, LOCK_EX);
		set_lock(locks[i], kind);
		if (door >= 0) {
			close(door);
		}
	}
}

void skip_without_device(void)
{
	struct devices found = {0};

	find_devices(&found);
	if (found.count == 0) {
		cr_skip_test("no GPU");
	}
	lock_devices(&found, LOCK_SH);
}

bool takes_few(void)
{
	return getenv("CUDA_TESTS_FEW") != NULL;
}

void have_device_alone(void)
{
	lock_devices(NULL, LOCK_EX);
}

void skip_without_two_devices(void)
{
	struct devices *shared = shared_take(sizeof(*shared));

	run_apart(find_devices, shared);
	const struct devices found = *shared;
	shared_free(shared, sizeof(*shared));
	if (found.count < 2) {
		cr_skip_test("less than two GPUs");
	}
	lock_devices(&found, LOCK_SH);
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
