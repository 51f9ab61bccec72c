#include "bench/kernels/cuda_kernel_table.h"

#include "engine/base/integer.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

enum { LAUNCHES_MAX = 256, LAUNCHES_MIN = 8 };

/* Rows of all launches together in a graph, about. */
static const uint64_t ROWS_OF_GRAPH = 1 << 17;

void kernel_table_begin(FILE *table)
{
	struct cudaDeviceProp properties;
	char date[16];
	struct tm utc;
	const time_t now = time(NULL);

	gmtime_r(&now, &utc);
	strftime(date, sizeof(date), "%Y-%m-%d", &utc);
	bool is_known = cudaGetDeviceProperties(&properties, 0) == cudaSuccess;
	fprintf(table, "# %s, %s\n", is_known ? properties.name : "unknown GPU", date);
	fprintf(table, "kernel\tcase\trows\tbytes\tflops\tlaunches\tus\tus_min\tus_max\t"
		       "gb_per_s\ttflop_per_s\tfloor_us\tbound\tshare\n");
}

const struct exchange_case *exchange_case_at(uint32_t index)
{
	static const struct exchange_case cases[] = {{1, 1024}, {4, 1024}, {16, 1024}, {32, 1024},
		{64, 1024}, {128, 1024}, {256, 1024}, {512, 1024}, {2048, 1024}, {16384, 1024},
		{1, 4096}, {4, 4096}, {16, 4096}, {32, 4096}, {64, 4096}, {128, 4096}, {256, 4096},
		{512, 4096}, {2048, 4096}, {16384, 4096}, {1, 5120}, {4, 5120}, {16, 5120},
		{32, 5120}, {64, 5120}, {128, 5120}, {256, 5120}, {512, 5120}, {2048, 5120},
		{16384, 5120}};

	return index < sizeof(cases) / sizeof(cases[0]) ? &cases[index] : NULL;
}

uint32_t exchange_case_launches(const struct exchange_case *c)
{
	const uint64_t wanted = ROWS_OF_GRAPH / c->rows;

	return (uint32_t)u64_max(LAUNCHES_MIN, u64_min(wanted, LAUNCHES_MAX));
}

static int compare_times(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

void kernel_table_sort(double *times_us, uint32_t repeats)
{
	qsort(times_us, repeats, sizeof(*times_us), compare_times);
}

void kernel_table_add_exchange(FILE *table, const char *kernel, const struct exchange_case *c,
	uint32_t ranks, uint64_t bytes, double *times_us, uint32_t repeats)
{
	kernel_table_sort(times_us, repeats);
	const double us = times_us[repeats / 2];

	fprintf(table,
		"%s\t%ux%u, %u ranks\t%u\t%llu\t0\t%u\t%.3f\t%.3f\t%.3f\t%.1f\t0.00\t-\t-\t-\n",
		kernel, c->rows, c->width, ranks, c->rows, (unsigned long long)bytes,
		exchange_case_launches(c), us, times_us[0], times_us[repeats - 1],
		(double)bytes / us / 1e3);
	fflush(table);
}
