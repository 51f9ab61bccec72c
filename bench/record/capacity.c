#include "bench/record/capacity.h"

#include "engine/policy.h"

void step_sums_join(struct step_sums *sums, const struct step_sums *other)
{
#define STEP_SUM_ADD(sum) sums->sum += other->sum;
	STEP_SUM_ADD(decode_steps)
	STEP_SUM_ADD(decode_rows)
	STEP_SUM_ADD(decode_context_tokens)
	STEP_SUM_ADD(decode_longest_context)
	STEP_SUM_ADD(prompts)
	STEP_SUM_ADD(prefill_tokens)
	STEP_SUM_ADD(prefill_attention_pairs)
	STEP_SUM_ADD(cached_tokens)
	STEP_SUM_ADD(shared_tokens)
	STEP_SUM_ADD(reread_tokens)
	STEP_SUM_ADD(repeat_tokens)
#undef STEP_SUM_ADD
	sums->running_peak = u64_max(sums->running_peak, other->running_peak);
	sums->used_blocks_peak = u64_max(sums->used_blocks_peak, other->used_blocks_peak);
	sums->tokens_peak = u64_max(sums->tokens_peak, other->tokens_peak);
}

/* Numbers of rows that are tried, evenly up to the most that fit. */
enum { CAPACITY_PARTS = 16 };

static double min(double a, double b)
{
	return a < b ? a : b;
}

static double max(double a, double b)
{
	return a > b ? a : b;
}

static double ratio(uint64_t numerator, uint64_t denominator)
{
	return denominator == 0 ? 0 : (double)numerator / (double)denominator;
}

static uint64_t count_of(double value)
{
	return (uint64_t)(value + 0.5);
}

/* Decode rows of a step at capacity. */
static double rows_at_capacity(const struct step_sums *sums, const struct engine_config *limits,
	double blocks_per_sequence)
{
	double rows = limits->max_num_seqs;

	if (blocks_per_sequence > 0) {
		rows = min(rows, limits->kv_block_count / blocks_per_sequence);
	}
	if (limits->policy->mixes_phases) {
		double prefill = ratio(sums->prefill_tokens, sums->decode_rows);
		rows = min(rows, limits->max_num_batched_tokens / (1 + prefill));
	}
	return max(rows, 1);
}

/* The decode rows of a step, whose contexts are those of the run's mean row. */
static struct step_counts decode_step(const struct step_sums *sums, double rows)
{
	double scale = rows / max(ratio(sums->decode_rows, sums->decode_steps), 1);

	return (struct step_counts){
		.decode_rows = count_of(rows),
		.decode_context_tokens =
			count_of(rows * ratio(sums->decode_context_tokens, sums->decode_rows)),
		.decode_longest_context =
			count_of(ratio(sums->decode_longest_context, sums->decode_steps)),
		.sampled_rows = count_of(rows),
		.running = count_of(rows),
		.shared_tokens = count_of(rows * ratio(sums->shared_tokens, sums->decode_rows)),
		/* More holders of the same blocks add readings, and hardly a distance. */
		.reread_tokens =
			count_of(min(scale, 1) * ratio(sums->reread_tokens, sums->decode_steps)),
		.repeat_tokens = count_of(rows * ratio(sums->repeat_tokens, sums->decode_rows)),
	};
}

/* Adds a chunk of `tokens` prompt tokens to a step. */
static void add_chunk(struct step_counts *counts, const struct step_sums *sums, double tokens)
{
	double length = ratio(sums->prefill_tokens, sums->prompts);
	double prompts = max(length > 0 ? tokens / length : 1, 1);

	counts->prefill_tokens = count_of(tokens);
	counts->prefill_rows = count_of(prompts);
	counts->sampled_rows += count_of(prompts);
	counts->running += count_of(prompts);
	counts->cached_tokens = count_of(prompts * ratio(sums->cached_tokens, sums->prompts));
	counts->prefill_attention_pairs =
		count_of(tokens * ratio(sums->prefill_attention_pairs, sums->prefill_tokens));
}

static bool price(const struct runner *pricer, const struct step_counts *counts, double *ns)
{
	struct error error = {0};
	uint64_t elapsed_ns;

	if (pricer->price(pricer->state, counts, &elapsed_ns, &error) != STATUS_OK) {
		return false;
	}
	*ns = (double)elapsed_ns;
	return true;
}

/* The time of the run's work where each step has `rows` decode rows. */
static bool time_at(const struct step_sums *sums, const struct engine_config *limits, double rows,
	const struct runner *pricer, double *ns)
{
	double length = ratio(sums->prefill_tokens, sums->prompts);
	double admitted = rows * ratio(sums->prompts, sums->decode_rows); /* prompts a step */
	double budget = limits->max_num_batched_tokens;
	double decode_ns = 0, chunk_ns = 0;
	bool shares = limits->policy->mixes_phases && sums->decode_rows > 0;
	struct step_counts decode = {0};

	if (sums->decode_rows > 0) {
		decode = decode_step(sums, rows);
		if (!price(pricer, &decode, &decode_ns)) {
			return false;
		}
	}
	*ns = (double)sums->decode_rows * decode_ns / max((double)decode.decode_rows, 1);
	if (sums->prefill_tokens == 0) {
		return true;
	}
	/* Prompts in steps of their own wait for each other until a budget is full. */
	double chunk = shares ? min(max(admitted, 1) * length, max(budget - rows, 1)) : budget;
	struct step_counts with_chunk = shares ? decode : (struct step_counts){0};
	add_chunk(&with_chunk, sums, max(chunk, 1));
	if (!price(pricer, &with_chunk, &chunk_ns)) {
		return false;
	}
	*ns += (double)sums->prefill_tokens * (chunk_ns - (shares ? decode_ns : 0)) /
	       (double)with_chunk.prefill_tokens;
	return true;
}

bool capacity_time(const struct step_sums *sums, const struct engine_config *limits,
	double blocks_per_sequence, const struct runner *pricer, double *ns)
{
	double rows = rows_at_capacity(sums, limits, blocks_per_sequence);
	double least = 0;

	if (pricer->price == NULL || sums->decode_rows + sums->prefill_tokens == 0) {
		return false;
	}
	for (uint32_t part = 1; part <= CAPACITY_PARTS; part++) {
		double time;
		double part_rows = max(rows * part / CAPACITY_PARTS, 1);
		if (!time_at(sums, limits, part_rows, pricer, &time)) {
			return false;
		}
		least = part == 1 ? time : min(least, time);
	}
	*ns = least;
	return true;
}
