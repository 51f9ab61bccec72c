#include "engine/ranks/ranks.h"

#include "tests/harness/require.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Ranks as forked processes: what they exchange while they open and in steps. Their failures are
   in test_rank_failures.c. */

enum { COUNT = 4 };

/* The shared data of these tests. */
struct scene {
	struct shared_word done[COUNT]; /* steps that a rank has seen */
	uint64_t input;			/* of the step, by rank 0 */
	uint64_t output[COUNT];		/* of the step, by each rank */
	int32_t pids[COUNT];
};

static const struct scene *scene_of(const struct ranks *ranks)
{
	return ranks_data(ranks);
}

/* What each rank does in a step: it depends on the message, on the data and on the rank. */
static uint64_t answer(const struct rank_message *message, uint64_t input, uint32_t rank)
{
	return message->step * 1000003 + message->rows * 101 + input * 7 + rank;
}

static enum status serve_steps(struct ranks *ranks, void *argument, struct error *error)
{
	struct scene *scene = ranks_data(ranks);
	uint32_t own = ranks_index(ranks);
	struct rank_message message;

	(void)argument; /* they need none */
	scene->pids[own] = getpid();
	TRY(ranks_barrier(ranks, error));
	for (uint32_t count = 1;; count++) {
		TRY(ranks_receive(ranks, &message, error));
		if (message.kind == RANK_CLOSE) {
			return STATUS_OK;
		}
		scene->output[own] = answer(&message, scene->input, own);
		shared_word_set(&scene->done[own], count);
	}
}

static struct ranks *open_ranks(enum status (*serve)(struct ranks *, void *, struct error *))
{
	const struct ranks_options options = {
		.count = COUNT, .data_bytes = sizeof(struct scene), .serve = serve};
	struct ranks *ranks = NULL;
	struct error error = {0};

	require(ranks_open(&ranks, &options, &error) == STATUS_OK, "%s", error.text);
	return ranks;
}

static void run_step(struct ranks *ranks, uint32_t count)
{
	struct scene *scene = ranks_data(ranks);
	const struct rank_message message = {
		.step = count * 3, .kind = RANK_STEP_GRAPH, .rows = count % 17};
	struct error error = {0};

	scene->input = (uint64_t)count * count;
	require(ranks_post(ranks, &message, &error) == STATUS_OK, "%s", error.text);
	for (uint32_t r = 1; r < COUNT; r++) {
		require(ranks_await(ranks, &scene->done[r], count, r, "answer", &error) ==
				STATUS_OK,
			"%s", error.text);
		require_equal(scene->output[r], answer(&message, scene->input, r));
	}
}

Test(ranks, compute_each_step_and_end_when_they_are_closed)
{
	struct ranks *ranks = open_ranks(serve_steps);
	struct error error = {0};
	int32_t pids[COUNT];

	cr_assert_eq(ranks_index(ranks), 0);
	cr_assert_eq(ranks_count(ranks), COUNT);
	cr_assert_eq((uintptr_t)ranks_data(ranks) % 4096, 0);
	cr_assert_eq(ranks_barrier(ranks, &error), STATUS_OK);
	for (uint32_t count = 1; count <= 2000; count++) {
		run_step(ranks, count);
	}
	memcpy(pids, scene_of(ranks)->pids, sizeof(pids));
	ranks_close(ranks);
	for (uint32_t r = 1; r < COUNT; r++) {
		require(pids[r] > 0 && kill(pids[r], 0) == -1 && errno == ESRCH,
			"rank %u is still there", r);
	}
}

static uint32_t count_descriptors(void)
{
	uint32_t count = 0;

	for (int i = 0; i < 256; i++) {
		count += fcntl(i, F_GETFD) >= 0;
	}
	return count;
}

/* A program may open and close ranks many times. */
Test(ranks, leave_no_descriptor_open)
{
	uint32_t before = count_descriptors();

	for (uint32_t i = 0; i < 3; i++) {
		struct ranks *ranks = open_ranks(serve_steps);
		struct error error = {0};
		cr_assert_eq(ranks_barrier(ranks, &error), STATUS_OK, "%s", error.text);
		ranks_close(ranks);
		require_equal(count_descriptors(), before);
	}
}

Test(ranks, share_memory_that_begins_with_zeros)
{
	struct ranks *ranks = open_ranks(serve_steps);
	struct error error = {0};
	size_t bytes = 0;
	unsigned char *memory = ranks_memory(ranks, &bytes);
	unsigned char *data = ranks_data(ranks);
	unsigned char *word = (unsigned char *)ranks_abort_word(ranks);

	cr_assert_eq((uintptr_t)memory % 4096, 0);
	cr_assert(data >= memory && data + sizeof(struct scene) <= memory + bytes);
	cr_assert(word >= memory && word + sizeof(uint32_t) <= data);
	cr_assert_eq(*ranks_abort_word(ranks), 0);
	cr_assert_eq(scene_of(ranks)->input, 0);
	cr_assert_eq(ranks_barrier(ranks, &error), STATUS_OK);
	ranks_close(ranks);
}

/* Messages are not lost or repeated when rank 0 posts as many as there is room for. */
static enum status serve_sum(struct ranks *ranks, void *argument, struct error *error)
{
	struct scene *scene = ranks_data(ranks);
	uint32_t own = ranks_index(ranks);
	struct rank_message message;
	uint64_t next = 0;

	(void)argument; /* it needs none */
	for (;;) {
		TRY(ranks_receive(ranks, &message, error));
		if (message.kind == RANK_CLOSE) {
			return STATUS_OK;
		}
		require_equal(message.step, next);
		next++;
		scene->output[own] += message.tokens;
		shared_word_set(&scene->done[own], (uint32_t)next);
	}
}

Test(ranks, receive_every_message_that_is_posted_without_waiting)
{
	enum { STEPS = 20000 };
	struct ranks *ranks = open_ranks(serve_sum);
	struct scene *scene = ranks_data(ranks);
	struct error error = {0};
	uint64_t sum = 0;

	for (uint32_t step = 0; step < STEPS; step++) {
		const struct rank_message message = {.step = step, .tokens = step % 977};
		sum += message.tokens;
		require(ranks_post(ranks, &message, &error) == STATUS_OK, "%s", error.text);
	}
	for (uint32_t r = 1; r < COUNT; r++) {
		require(ranks_await(ranks, &scene->done[r], STEPS, r, "sum", &error) == STATUS_OK,
			"%s", error.text);
		require_equal(scene->output[r], sum);
	}
	ranks_close(ranks);
}

/* ---- collective functions ---- */

/* One rank has room for far fewer blocks than the others, and one for more. */
static enum status agree_on_least(
	struct ranks *ranks, uint32_t least, uint32_t most, struct error *error)
{
	uint32_t own = ranks_index(ranks);
	uint64_t value;
	char warning[RANK_WARNING_BYTES], expected[RANK_WARNING_BYTES];

	TRY(ranks_agree_blocks(ranks,
		own == least  ? 899
		: own == most ? 1001
			      : 1000,
		&value, warning, error));
	require_equal(value, 899);
	snprintf(expected, sizeof(expected),
		"rank %u has room for 899 KV blocks and rank %u for 1001: the smaller number holds "
		"for all; does something else use the GPU of rank %u?",
		least, most, least);
	require(strcmp(warning, expected) == 0, "%s", warning);
	return STATUS_OK;
}

/* What all ranks do, rank 0 too; a failed requirement aborts the process. */
static enum status exchange(struct ranks *ranks, struct error *error)
{
	uint32_t own = ranks_index(ranks);
	uint64_t values[COUNT], value = own * own + 5;
	unsigned char id[RANK_PAYLOAD_BYTES];
	char warning[RANK_WARNING_BYTES];

	for (uint32_t i = 0; i < 50; i++) {
		value += i;
		TRY(ranks_gather(ranks, &value, sizeof(value), values, error));
		for (uint32_t r = 0; r < COUNT; r++) {
			require_equal(values[r], value - own * own + r * r);
		}
		memset(id, (int)(own * 50 + i), sizeof(id));
		TRY(ranks_broadcast(ranks, id, sizeof(id), error));
		require_equal(id[0], i);
		require_equal(id[sizeof(id) - 1], i);
	}
	TRY(ranks_agree(ranks, 77, "number", error));
	TRY(ranks_agree_blocks(ranks, 1000 - own, &value, warning, error));
	require_equal(value, 1000 - (COUNT - 1));
	require(warning[0] == '\0', "%s", warning);
	for (uint32_t pair = 0; pair < COUNT * COUNT; pair++) {
		uint32_t least = pair / COUNT, most = pair % COUNT;
		if (least != most) {
			TRY(agree_on_least(ranks, least, most, error));
		}
	}
	return STATUS_OK;
}

static enum status serve_exchange(struct ranks *ranks, void *argument, struct error *error)
{
	struct rank_message message;

	(void)argument; /* it needs none */
	TRY(exchange(ranks, error));
	return ranks_receive(ranks, &message, error);
}

Test(ranks, give_each_other_values_while_they_open)
{
	struct ranks *ranks = open_ranks(serve_exchange);
	struct error error = {0};

	cr_assert_eq(exchange(ranks, &error), STATUS_OK, "%s", error.text);
	ranks_close(ranks);
}

enum { EXCHANGE_BYTES = 40000 };

static unsigned char byte_of(uint32_t rank, uint32_t round, size_t i)
{
	return (unsigned char)(rank * 77 + round * 13 + i * (i + 3));
}

/* Parts of all sizes, as partial sums and candidates have, one after the other. */
static enum status exchange_parts(struct ranks *ranks, struct error *error)
{
	static unsigned char all[COUNT * EXCHANGE_BYTES];
	uint32_t own = ranks_index(ranks);

	for (uint32_t round = 0; round < 300; round++) {
		size_t bytes = round % 3 == 0 ? round % 9 : EXCHANGE_BYTES - 7 * round;
		memset(all, 0, sizeof(all));
		for (size_t i = 0; i < bytes; i++) {
			all[own * bytes + i] = byte_of(own, round, i);
		}
		TRY(ranks_exchange(ranks, all, bytes, error));
		for (uint32_t r = 0; r < COUNT; r++) {
			for (size_t i = 0; i < bytes; i++) {
				require(all[r * bytes + i] == byte_of(r, round, i),
					"rank %u, round %u: byte %zu of rank %u is wrong", own,
					round, i, r);
			}
		}
	}
	return STATUS_OK;
}

static enum status serve_parts(struct ranks *ranks, void *argument, struct error *error)
{
	struct rank_message message;

	(void)argument; /* it needs none */
	TRY(exchange_parts(ranks, error));
	return ranks_receive(ranks, &message, error);
}

Test(ranks, give_each_other_parts_of_any_size)
{
	const struct ranks_options options = {
		.count = COUNT, .exchange_bytes = EXCHANGE_BYTES, .serve = serve_parts};
	struct ranks *ranks = NULL;
	struct error error = {0};

	cr_assert_eq(ranks_open(&ranks, &options, &error), STATUS_OK, "%s", error.text);
	cr_assert_eq(exchange_parts(ranks, &error), STATUS_OK, "%s", error.text);
	ranks_close(ranks);
}

/* Each rank makes a pipe, keeps its reading end and gives the writing end to all; each then writes
   its number into the pipes of the others. */
static enum status exchange_files(struct ranks *ranks, struct error *error)
{
	uint32_t own = ranks_index(ranks);
	uint32_t sum = 0;
	int ends[2], fds[COUNT];
	unsigned char byte;

	require(pipe(ends) == 0, "no pipe");
	TRY(ranks_gather_files(ranks, ends[1], fds, error));
	for (uint32_t r = 0; r < COUNT; r++) {
		byte = (unsigned char)(1 << own);
		require((fds[r] == -1) == (r == own), "rank %u has file %d of rank %u", own, fds[r],
			r);
		require(r == own || (write(fds[r], &byte, 1) == 1 && close(fds[r]) == 0),
			"rank %u cannot write to rank %u", own, r);
	}
	for (uint32_t r = 0; r + 1 < COUNT; r++) {
		require(read(ends[0], &byte, 1) == 1, "rank %u reads nothing", own);
		sum += byte;
	}
	require_equal(sum, (1u << COUNT) - 1 - (1u << own));
	return ranks_barrier(ranks, error);
}

static enum status serve_files(struct ranks *ranks, void *argument, struct error *error)
{
	struct rank_message message;

	(void)argument; /* it needs none */
	TRY(exchange_files(ranks, error));
	return ranks_receive(ranks, &message, error);
}

Test(ranks, give_each_other_file_descriptors)
{
	struct ranks *ranks = open_ranks(serve_files);
	struct error error = {0};

	cr_assert_eq(exchange_files(ranks, &error), STATUS_OK, "%s", error.text);
	ranks_close(ranks);
}
