#include "sim/possible_step.h"

#include "engine/base/integer.h"

#include <math.h>
#include <stdio.h>

/* Positions in a sequence are 32 bit numbers. A table holds no larger count than 2^53. */
static const double context_most = UINT32_MAX, count_most = 9007199254740992.0;

static double most(double a, double b)
{
	return a > b ? a : b;
}

static bool is_within(struct step_fault *fault, const char *count, uint64_t found, double low,
	double high, const char *why)
{
	if ((double)found >= low && (double)found <= high) {
		return true;
	}
	fault->count = count;
	fault->found = found;
	snprintf(fault->expected, sizeof(fault->expected), "%.0f to %.0f: %s", low, high, why);
	return false;
}

/* The same of a count that may be unknown. */
static bool is_none_or_within(struct step_fault *fault, const char *count, uint64_t found,
	double low, double high, const char *why)
{
	return found == 0 || is_within(fault, count, found, low, high, why);
}

static bool decodes_are_possible(const struct step_counts *counts, struct step_fault *fault)
{
	double rows = (double)counts->decode_rows, context = (double)counts->decode_context_tokens;
	double mean = rows > 0 ? floor(context / rows) : 0;

	return is_within(fault, "decode_context_tokens", counts->decode_context_tokens, rows,
		       rows * context_most, "one or more for each of decode_rows") &&
	       is_none_or_within(fault, "decode_longest_context", counts->decode_longest_context,
		       mean, most(context - rows + 1, 0),
		       "from the mean of decode_rows to what the others leave");
}

static bool prompts_are_possible(const struct step_counts *counts, struct step_fault *fault)
{
	static const char of_tokens[] = "of that many prefill_tokens and prefill_rows";
	double rows = (double)counts->prefill_rows, tokens = (double)counts->prefill_tokens;
	double longest = (double)counts->prefill_longest_context;
	bool is_any = tokens > 0;
	/* A mean that is rounded down is up to 1 less. */
	double keys = longest > 0 ? longest + 1 : context_most;

	if (!is_within(fault, "prefill_rows", counts->prefill_rows, is_any, tokens,
		    "of that many prefill_tokens")) {
		return false;
	}
	double full = is_any ? rows + floor((tokens - rows) / PREFILL_TILE) : 0;
	double alone = is_any ? floor(tokens * (tokens / rows + 1) / 2) : 0;
	double tiles = counts->prefill_tiles > 0 ? (double)counts->prefill_tiles : full;
	double chain = (double)counts->prefill_chain_keys;
	return is_none_or_within(fault, "prefill_longest_context", counts->prefill_longest_context,
		       is_any ? ceil(tokens / rows) : 0, is_any ? context_most : 0, of_tokens) &&
	       is_within(fault, "prefill_attention_pairs", counts->prefill_attention_pairs, alone,
		       tokens * keys, of_tokens) &&
	       is_none_or_within(fault, "prefill_context_tokens", counts->prefill_context_tokens,
		       most(tokens, longest), rows * keys, of_tokens) &&
	       is_none_or_within(fault, "prefill_tiles", counts->prefill_tiles,
		       ceil(tokens / PREFILL_TILE), full, of_tokens) &&
	       is_none_or_within(fault, "prefill_tile_keys", counts->prefill_tile_keys, tokens,
		       tiles * keys, "of that many tiles") &&
	       is_none_or_within(fault, "prefill_chain_keys", counts->prefill_chain_keys, longest,
		       is_any ? count_most : 0, "at least the longest prompt's") &&
	       is_none_or_within(fault, "prefill_half_chain_keys", counts->prefill_half_chain_keys,
		       0, chain > 0 ? chain : (is_any ? count_most : 0),
		       "at most prefill_chain_keys");
}

static bool shares_are_possible(const struct step_counts *counts, struct step_fault *fault)
{
	double all = (double)counts->decode_context_tokens;
	double again = counts->shared_tokens > 0 ? (double)counts->shared_tokens : all;

	return is_within(fault, "shared_tokens", counts->shared_tokens, 0, all,
		       "at most decode_context_tokens") &&
	       is_within(fault, "reread_tokens", counts->reread_tokens, 0, again,
		       "at most what is shared") &&
	       is_within(fault, "repeat_tokens", counts->repeat_tokens, 0, again,
		       "at most what is shared") &&
	       is_within(fault, "prefill_shared_tokens", counts->prefill_shared_tokens, 0,
		       (double)counts->prefill_context_tokens, "at most prefill_context_tokens");
}

bool step_is_possible(const struct step_counts *counts, struct step_fault *fault)
{
	return decodes_are_possible(counts, fault) && prompts_are_possible(counts, fault) &&
	       is_within(fault, "sampled_rows", counts->sampled_rows, 0,
		       (double)counts->decode_rows + (double)counts->prefill_rows,
		       "at most the rows") &&
	       shares_are_possible(counts, fault);
}

void step_give_shares_to_rows(struct step_counts *counts)
{
	if (counts->decode_rows == 0 && counts->prefill_rows > 1) {
		counts->prefill_shared_tokens =
			u64_min(counts->shared_tokens, counts->prefill_context_tokens);
	}
	counts->shared_tokens = u64_min(counts->shared_tokens, counts->decode_context_tokens);
	counts->reread_tokens = u64_min(counts->reread_tokens, counts->shared_tokens);
	counts->repeat_tokens = u64_min(counts->repeat_tokens, counts->shared_tokens);
}
