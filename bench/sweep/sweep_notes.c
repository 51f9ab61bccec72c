#include "bench/sweep/sweep_internal.h"

#include "bench/replay/run.h"
#include "engine/base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a seed that changes nothing ---- */

/* Whether two runs differ in the seed alone. */
static bool are_of_one(const struct sweep_file *table, uint32_t a, uint32_t b, uint32_t seed)
{
	for (uint32_t i = 0; i < table->parameter_count; i++) {
		bool is_same = table->runs[a].values[i] == table->runs[b].values[i];
		if (i != seed && !is_same) {
			return false;
		}
	}
	return true;
}

static bool have_same_figures(const struct sweep_run *a, const struct sweep_run *b)
{
	for (uint32_t i = 0; i < SWEEP_METRIC_COUNT; i++) {
		const struct result_value *x = &a->metrics[i], *y = &b->metrics[i];
		if (x->has_value != y->has_value || x->value < y->value || x->value > y->value) {
			return false;
		}
	}
	return true;
}

/* The first complete run that differs from this one in the seed alone; itself if none is before. */
static uint32_t first_of_one(const struct sweep_file *table, uint32_t index, uint32_t seed)
{
	for (uint32_t i = 0; i < index; i++) {
		if (table->runs[i].status == SWEEP_RUN_COMPLETE &&
			are_of_one(table, i, index, seed)) {
			return i;
		}
	}
	return index;
}

static void tell_seed(const struct sweep_file *table)
{
	uint32_t seed = 0, pairs = 0;

	while (seed < table->parameter_count && strcmp(table->parameters[seed].name, "seed") != 0) {
		seed++;
	}
	for (uint32_t i = 0; i < table->run_count && seed < table->parameter_count; i++) {
		const struct sweep_run *run = &table->runs[i];
		uint32_t first =
			run->status == SWEEP_RUN_COMPLETE ? first_of_one(table, i, seed) : i;
		if (!have_same_figures(&table->runs[first], run)) {
			return;
		}
		pairs += first != i;
	}
	if (pairs > 0) {
		fprintf(stderr, "note: runs that differ in seed alone are equal: it draws token "
				"ids, and with --rate arrivals; resample-seed draws the requests "
				"from the trace\n");
	}
}

/* ---- all ---- */

static void tell_pools(const struct sweep_file *table)
{
	struct text pools = {0};

	if (sweep_add_unlike_pools(table, &pools)) {
		fprintf(stderr, "note: %s: --block-size gives all runs blocks of one size\n",
			pools.bytes);
	}
	text_deinit(&pools);
}

static void tell_positions(const struct sweep *sweep)
{
	bool is_noted = false;

	for (uint32_t i = 0; i < sweep->grid.count && !is_noted; i++) {
		struct replay_config config = sweep->request->run.config;
		configuration_apply(&sweep->grid.list[i], &config);
		is_noted = run_note_positions(&config, NULL, stderr);
	}
}

enum status sweep_tell(const struct sweep *sweep, struct error *error)
{
	struct sweep_file *table = memory_take(1, sizeof(*table));
	enum status status = sweep_file_open(table, sweep->request->out, error);

	if (status == STATUS_OK) {
		tell_pools(table);
		tell_seed(table);
		tell_positions(sweep);
	}
	sweep_file_close(table);
	free(table);
	return status;
}
