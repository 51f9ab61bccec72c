#include "engine/ranks/ranks.h"

#include "engine/base/check.h"
#include "engine/base/memory.h"
#include "engine/base/number.h"
#include "engine/ranks/launch.h"
#include "engine/ranks/ranks_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- opening and closing ---- */

enum status ranks_open(struct ranks **out, const struct ranks_options *options, struct error *error)
{
	struct ranks *ranks = memory_take(1, sizeof(*ranks));

	check(options->count >= 2 && options->count <= RANKS_MAX);
	ranks->count = options->count;
	ranks->exchange_bytes = options->exchange_bytes;
	if (options->exchange_bytes > 0) {
		ranks->tokens = memory_take(ranks->count, options->exchange_bytes);
	}
	ranks->runs_after = options->runs_after;
	ranks->limit_ns = options->limit_ns == 0 ? RANK_LIMIT_NS : options->limit_ns;
	/* A rank that spins on another's processor keeps it from what is waited for. */
	ranks->spin_ns =
		sysconf(_SC_NPROCESSORS_ONLN) > (long)ranks->count ? SHARED_WORD_SPIN_NS : 0;
	enum status status = rank_launch_find().count > 1
				     ? mpi_ranks_open(ranks, options, error)
				     : forked_ranks_open(ranks, options, error);
	if (status != STATUS_OK) {
		ranks_close(ranks);
		return status;
	}
	*out = ranks;
	return STATUS_OK;
}

void ranks_close(struct ranks *ranks)
{
	if (ranks != NULL) {
		if (ranks->transport != NULL) {
			ranks->transport->close(ranks);
		}
		free(ranks->tokens);
		free(ranks);
	}
}

uint32_t ranks_index(const struct ranks *ranks)
{
	return ranks->index;
}

uint32_t ranks_count(const struct ranks *ranks)
{
	return ranks->count;
}

void *ranks_data(const struct ranks *ranks)
{
	return ranks->data;
}

void *ranks_memory(const struct ranks *ranks, size_t *bytes)
{
	*bytes = ranks->memory_bytes;
	return ranks->memory;
}

bool ranks_share_memory(const struct ranks *ranks)
{
	return ranks->transport->shares_memory;
}

_Atomic uint32_t *ranks_abort_word(const struct ranks *ranks)
{
	return ranks->abort;
}

void ranks_where(const struct ranks *ranks, char *text)
{
	if (ranks->step_count == 0) {
		snprintf(text, RANK_WHERE_BYTES, " while opening");
	} else {
		snprintf(text, RANK_WHERE_BYTES, " in step %llu", (unsigned long long)ranks->step);
	}
}

/* ---- collective functions ---- */

/* The error of the lowest rank that brought one. */
static enum status error_of(
	struct ranks *ranks, const struct rank_arrival *all, struct error *error)
{
	for (uint32_t r = 0; r < ranks->count; r++) {
		if (all[r].status == STATUS_OK) {
			continue;
		}
		ranks->is_common_error = true;
		if (r == 0) { /* the engine's own process: what it says needs no name */
			return error_set(error, (enum status)all[r].status, "%s", all[r].text);
		}
		return error_set(
			error, (enum status)all[r].status, "rank %u: %.480s", r, all[r].text);
	}
	return STATUS_OK;
}

/* A barrier with a payload. error is this rank's on entry and everybody's on return. */
static enum status gather(struct ranks *ranks, const void *payload, size_t bytes,
	struct rank_arrival *all, struct error *error)
{
	struct rank_arrival own = {.status = error->status, .bytes = (uint32_t)bytes};

	check(bytes <= RANK_PAYLOAD_BYTES);
	memcpy(own.text, error->text, sizeof(own.text));
	if (bytes > 0) {
		memcpy(own.payload, payload, bytes);
	}
	ranks->is_common_error = false;
	TRY(ranks->transport->gather(ranks, &own, all, error));
	TRY(error_of(ranks, all, error));
	for (uint32_t r = 0; r < ranks->count; r++) {
		check(all[r].bytes == bytes); /* all ranks call the same functions */
	}
	return STATUS_OK;
}

enum status ranks_barrier(struct ranks *ranks, struct error *error)
{
	struct rank_arrival all[RANKS_MAX];

	return gather(ranks, NULL, 0, all, error);
}

enum status ranks_gather(
	struct ranks *ranks, const void *own, size_t bytes, void *all, struct error *error)
{
	struct rank_arrival arrivals[RANKS_MAX];
	unsigned char *to = all;

	TRY(gather(ranks, own, bytes, arrivals, error));
	for (uint32_t r = 0; r < ranks->count; r++) {
		memcpy(to + r * bytes, arrivals[r].payload, bytes);
	}
	return STATUS_OK;
}

enum status ranks_broadcast(struct ranks *ranks, void *bytes, size_t count, struct error *error)
{
	struct rank_arrival arrivals[RANKS_MAX];

	TRY(gather(ranks, bytes, count, arrivals, error));
	memcpy(bytes, arrivals[0].payload, count);
	return STATUS_OK;
}

enum status ranks_agree(struct ranks *ranks, uint64_t value, const char *what, struct error *error)
{
	uint64_t values[RANKS_MAX];

	TRY(ranks_gather(ranks, &value, sizeof(value), values, error));
	for (uint32_t r = 1; r < ranks->count; r++) {
		if (values[r] != values[0]) {
			ranks->is_common_error = true;
			return error_set(error, STATUS_DEVICE,
				"rank %u has another %s than rank 0: %016llx and %016llx", r, what,
				(unsigned long long)values[r], (unsigned long long)values[0]);
		}
	}
	return STATUS_OK;
}

enum status ranks_agree_blocks(struct ranks *ranks, uint64_t found, uint64_t *block_count,
	char *warning, struct error *error)
{
	uint64_t counts[RANKS_MAX];
	uint32_t least = 0, most = 0;

	TRY(ranks_gather(ranks, &found, sizeof(found), counts, error));
	for (uint32_t r = 1; r < ranks->count; r++) {
		least = counts[r] < counts[least] ? r : least;
		most = counts[r] > counts[most] ? r : most;
	}
	*block_count = counts[least];
	warning[0] = '\0';
	if (counts[least] < counts[most] - counts[most] / 10) {
		snprintf(warning, RANK_WARNING_BYTES,
			"rank %u has room for %llu KV %s and rank %u for %llu: the smaller "
			"number holds for all; does something else use the GPU of rank %u?",
			least, (unsigned long long)counts[least],
			word_of_count(counts[least], "block", "blocks"), most,
			(unsigned long long)counts[most], least);
	}
	return STATUS_OK;
}

enum status ranks_gather_files(struct ranks *ranks, int own, int *fds, struct error *error)
{
	return ranks->transport->gather_files(ranks, own, fds, error);
}

/* ---- steps ---- */

enum status ranks_post(struct ranks *ranks, const struct rank_message *message, struct error *error)
{
	check(ranks->index == 0);
	ranks->step_count++;
	ranks->step = message->step;
	return ranks->transport->post(ranks, message, error);
}

enum status ranks_receive(struct ranks *ranks, struct rank_message *message, struct error *error)
{
	check(ranks->index != 0);
	TRY(ranks->transport->receive(ranks, message, error));
	if (message->kind != RANK_CLOSE) {
		ranks->step_count++;
		ranks->step = message->step;
	}
	return STATUS_OK;
}

void ranks_watch(struct ranks *ranks, enum status (*look)(void *argument, struct error *error),
	void *argument)
{
	ranks->watch = look;
	ranks->watch_argument = argument;
}

enum status ranks_check(struct ranks *ranks, struct error *error)
{
	return ranks->transport->look(ranks, error);
}

/* Whether a rank has computed for a twentieth of limit_ns. *busy_ns: its clock, brought up to date.
 */
static bool is_computing(struct ranks *ranks, uint32_t rank, uint64_t *busy_ns)
{
	uint64_t before_ns = *busy_ns;

	*busy_ns = ranks->transport->busy_ns(ranks, rank);
	return *busy_ns - before_ns >= ranks->limit_ns / 20;
}

enum status ranks_await(struct ranks *ranks, struct shared_word *word, uint32_t value,
	uint32_t rank, const char *what, struct error *error)
{
	uint64_t spin_ns = ranks->spin_ns;
	uint64_t waited_ns = 0, busy_ns = 0;
	char where[RANK_WHERE_BYTES];

	while (!shared_word_await(word, value, spin_ns, RANK_SLICE_NS)) {
		busy_ns = waited_ns == 0 ? ranks->transport->busy_ns(ranks, rank) : busy_ns;
		waited_ns += RANK_SLICE_NS;
		spin_ns = 0;
		TRY(ranks_check(ranks, error));
		if (waited_ns < ranks->limit_ns) {
			continue;
		}
		if (!is_computing(ranks, rank, &busy_ns)) {
			ranks_where(ranks, where);
			error_set(error, STATUS_DEVICE, "rank %u: no %s for %.1f s%s, so it hangs",
				rank, what, (double)ranks->limit_ns / 1e9, where);
			ranks_fail(ranks, error);
			return error->status;
		}
		waited_ns = 0;
	}
	return STATUS_OK;
}

enum status ranks_exchange(struct ranks *ranks, void *all, size_t bytes, struct error *error)
{
	check(bytes <= ranks->exchange_bytes);
	return ranks->transport->exchange(ranks, all, bytes, error);
}

enum status ranks_agree_tokens(
	struct ranks *ranks, const int32_t *token_ids, uint32_t count, struct error *error)
{
	int32_t *all = ranks->tokens;

	check(count * sizeof(*all) <= ranks->exchange_bytes);
	if (count > 0) {
		memcpy(all + (size_t)ranks->index * count, token_ids, count * sizeof(*all));
	}
	TRY(ranks_exchange(ranks, all, count * sizeof(*all), error));
	for (uint32_t r = 1; r < ranks->count; r++) {
		const int32_t *other = all + (size_t)r * count;
		for (uint32_t i = 0; i < count; i++) {
			if (other[i] != all[i]) {
				ranks->is_common_error = true;
				return error_set(error, STATUS_DEVICE,
					"rank %u has token %d for sampled row %u of step %llu, "
					"rank 0 has %d",
					r, other[i], i, (unsigned long long)ranks->step, all[i]);
			}
		}
	}
	return STATUS_OK;
}

void ranks_fail(struct ranks *ranks, const struct error *error)
{
	if (!ranks->is_common_error) {
		ranks->transport->fail(ranks, error);
	}
}
