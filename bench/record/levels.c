#include "bench/record/levels.h"

#include "engine/base/memory.h"

#include <stdlib.h>

void levels_init(struct levels *levels, uint32_t count, uint64_t width_ns)
{
	*levels = (struct levels){.count = count, .width_ns = width_ns};
	if (count == 0) {
		return;
	}
	levels->levels = memory_take(count, sizeof(*levels->levels));
	levels->figures = memory_take(count, sizeof(*levels->figures));
	for (uint32_t i = 0; i < count; i++) {
		histogram_init(&levels->levels[i].ttft);
		histogram_init(&levels->levels[i].tpot);
	}
}

void levels_deinit(struct levels *levels)
{
	for (uint32_t i = 0; i < levels->count; i++) {
		histogram_deinit(&levels->levels[i].ttft);
		histogram_deinit(&levels->levels[i].tpot);
	}
	free(levels->levels);
	free(levels->figures);
}

void level_progress_init(struct level_progress *progress, const struct levels *levels)
{
	*progress = (struct level_progress){
		.end_ns = levels->count == 0 ? UINT64_MAX : levels->width_ns};
}

struct level *levels_find(struct levels *levels, uint64_t arrival_ns)
{
	if (levels->count == 0) {
		return NULL;
	}
	uint64_t index = u64_min(arrival_ns / levels->width_ns, levels->count - 1);
	return &levels->levels[index];
}

/* Ends the current level with these sums. */
static void end_level(
	struct levels *levels, struct level_progress *progress, const struct run_sums *sums)
{
	const struct run_sums work = run_sums_between(&progress->start, sums);

	run_sums_join(&levels->levels[progress->index].work, &work);
	progress->start = *sums;
	progress->index++;
	progress->end_ns = progress->index == levels->count
				   ? UINT64_MAX
				   : (progress->index + (uint64_t)1) * levels->width_ns;
}

void levels_pass(struct levels *levels, struct level_progress *progress,
	const struct run_sums *sums, const struct timeline_step *step)
{
	while (progress->end_ns < step->end_ns) {
		struct run_sums cut = *sums;
		if (step->start_ns < progress->end_ns) {
			run_sums_add_time(&cut, step, progress->end_ns - step->start_ns);
		}
		end_level(levels, progress, &cut);
	}
}

void levels_end(struct levels *levels, struct level_progress *progress, const struct run_sums *sums)
{
	if (progress->index < levels->count) {
		end_level(levels, progress, sums);
	}
}

static uint64_t percentile(const struct histogram *histogram, uint32_t per_mille)
{
	return histogram->count == 0 ? 0 : histogram_percentile(histogram, per_mille);
}

void levels_figures(const struct levels *levels)
{
	for (uint32_t i = 0; i < levels->count; i++) {
		const struct level *level = &levels->levels[i];
		levels->figures[i] = (struct level_figures){
			.submitted = level->submitted,
			.finished = level->finished,
			.attained = level->attained,
			.has_ttft = level->ttft.count > 0,
			.has_tpot = level->tpot.count > 0,
			.ttft_p50_ns = percentile(&level->ttft, 500),
			.ttft_p99_ns = percentile(&level->ttft, 990),
			.tpot_p99_ns = percentile(&level->tpot, 990),
			.waiting = (double)level->work.waiting_ns / (double)levels->width_ns,
		};
	}
}
