#include "workloads/generator.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "workloads/fixed.h"
#include "workloads/random.h"

#include <stdlib.h>

/* Each property of a row is drawn from a stream of its own, so that changing one option leaves the
   draws of the others as they were. */
enum purpose { PURPOSE_ARRIVAL = 100, PURPOSE_INPUT, PURPOSE_OUTPUT, PURPOSE_PREFIX };

static const uint64_t NS_PER_US = 1000;
static const uint64_t NS_TIMES_MILLION = UINT64_C(1000000000000000);

struct generator {
	struct generator_options options;
	struct random arrival, input, output, prefix;
	uint64_t row_count;
	uint64_t now_ns;
	uint64_t next_id; /* never used before */
	uint64_t *ids;
	size_t id_capacity;
};

struct generator *generator_open(const struct generator_options *options)
{
	struct generator *generator = memory_take(1, sizeof(*generator));

	check(options->prefix_count >= 1 && options->trace_block_size >= 1);
	generator->options = *options;
	generator->arrival = random_stream(options->seed, PURPOSE_ARRIVAL);
	generator->input = random_stream(options->seed, PURPOSE_INPUT);
	generator->output = random_stream(options->seed, PURPOSE_OUTPUT);
	generator->prefix = random_stream(options->seed, PURPOSE_PREFIX);
	generator->next_id = (uint64_t)options->prefix_count *
			     (options->prefix_tokens / options->trace_block_size);
	return generator;
}

void generator_close(struct generator *generator)
{
	if (generator != NULL) {
		free(generator->ids);
		free(generator);
	}
}

/* A gap of the Poisson process in whole microseconds. */
static uint64_t draw_gap_ns(struct generator *generator)
{
	uint64_t mean_ns = NS_TIMES_MILLION / generator->options.rate_millionths;
	uint64_t factor = (uint64_t)random_exponential(&generator->arrival);

	/* mean_ns <= 10^15 and factor < 45 * 2^32: halves keep the product in 64 bits. */
	uint64_t gap_ns = (mean_ns >> 16) * (factor >> 16) +
			  (((mean_ns & UINT16_MAX) * (factor >> 16)) >> 16);
	return gap_ns / NS_PER_US * NS_PER_US;
}

static void draw_ids(struct generator *generator, struct trace_row *row)
{
	const struct generator_options *options = &generator->options;
	uint32_t shared = options->prefix_tokens / options->trace_block_size;
	uint32_t count = (uint32_t)u64_divide_up(row->input_length, options->trace_block_size);
	uint64_t group = random_below(&generator->prefix, options->prefix_count);

	generator->ids = memory_grow(
		generator->ids, &generator->id_capacity, count, sizeof(*generator->ids));
	for (uint32_t i = 0; i < count; i++) {
		generator->ids[i] = i < shared ? group * shared + i : generator->next_id++;
	}
	row->hash_ids = generator->ids;
	row->hash_id_count = count;
}

bool generator_next(struct generator *generator, struct trace_row *row)
{
	const struct generator_options *options = &generator->options;

	if (generator->row_count == options->request_count) {
		return false;
	}
	if (options->rate_millionths > 0) {
		generator->now_ns += draw_gap_ns(generator);
	}
	*row = (struct trace_row){.index = generator->row_count,
		.arrival_ns = generator->now_ns,
		.turn_index = NO_TURN};
	row->input_length =
		options->prefix_tokens +
		random_range(&generator->input, options->input.low, options->input.high);
	row->output_length =
		random_range(&generator->output, options->output.low, options->output.high);
	if (options->prefix_tokens > 0) {
		draw_ids(generator, row);
	}
	generator->row_count++;
	return true;
}
