/* The protocol of the exchange as a state machine (kernels/exchange/exchange.h), of which every
   reachable state is visited: all orders of what ranks and their thread blocks do, and of when
   their stores arrive. No part may be read before it is there or when it has been overwritten, and
   no rank may wait for ever. Then the machine is broken in one place at a time, and a state that is
   wrong must be found. */

#include "engine/base/map.h"
#include "engine/base/memory.h"
#include "engine/shape/exchange_layout.h"
#include "tests/harness/require.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* ---- the machine ---- */

enum { RANKS_MOST = 3, BLOCKS_MOST = 2, OPS_MOST = 12 };

enum kind {
	PUSH,
	PUSH_SLICED, /* the kernel writes the partial buffer itself, from split-K slices */
	PULL,
	PULL_SLICED,
	NO_ROWS, /* ranks meet all the same */
	EXCHANGE_KINDS,
	CANDIDATES = EXCHANGE_KINDS, /* behind the exchanges of a step */
};

struct op {
	enum kind kind;
	uint8_t number; /* of the exchange in all steps; of candidates: of the step */
	uint8_t index;	/* of the exchange in its step */
};

/* What may be broken. */
struct machine {
	uint32_t ranks, blocks;
	uint32_t slots, partials; /* of these many of the layout, at most */
	bool skips_no_rows;	  /* no exchange without rows */
	bool flag_without_release;
	bool keeps_slots;  /* a slot is not emptied */
	bool empties_late; /* emptying is not awaited at the end of the kernel */
	bool reads_before_flag;
	struct op ops[OPS_MOST];
	uint32_t op_count;
};

enum { EXCHANGED, OF_CANDIDATES, AREAS };

/* Parts are the number of their exchange + 1; 0: empty. */
typedef uint8_t slots_of_peers[AREAS][EXCHANGE_SLOTS][RANKS_MOST][BLOCKS_MOST];

struct rank {
	uint8_t at;	  /* place in the program */
	bool has_partial; /* the linear layer in front of the exchange has ended */
	struct {
		uint8_t sent, got; /* bit r: to and from rank r */
	} blocks[BLOCKS_MOST];

	/* Memory. Each block has one row. */
	uint8_t partial[EXCHANGE_PARTIALS][BLOCKS_MOST];
	slots_of_peers slot;
	uint8_t flag[RANKS_MOST][BLOCKS_MOST];

	/* Stores to this memory that have not arrived: by this rank itself and by its peers. */
	uint8_t partial_coming[EXCHANGE_PARTIALS][BLOCKS_MOST];
	slots_of_peers slot_coming;
	uint8_t flag_coming[RANKS_MOST][BLOCKS_MOST];
	slots_of_peers emptying;
};

struct state {
	struct rank ranks[RANKS_MOST];
};

/* ---- all states ---- */

struct search {
	const struct machine *machine;
	struct map seen;    /* by hash: of 10^6 states two share one in one of 10^7 searches */
	struct state *open; /* (open_count) seen, and their successors are not */
	size_t open_count, open_capacity;
	bool has_next;	   /* the state that is looked at has a successor */
	const char *fault; /* NULL: none yet */
};

static void reach(struct search *search, const struct state *state)
{
	uint64_t key = XXH64(state, sizeof(*state), 0);

	search->has_next = true;
	if (map_find(&search->seen, key) == NULL) {
		map_add(&search->seen, key, 0);
		search->open = memory_grow(search->open, &search->open_capacity,
			search->open_count + 1, sizeof(*search->open));
		search->open[search->open_count++] = *state;
	}
}

/* ---- stores that arrive ---- */

static void arrive_slots(struct search *search, const struct state *from, uint32_t r)
{
	const struct rank *rank = &from->ranks[r];
	const uint8_t *coming = &rank->slot_coming[0][0][0][0];
	const uint8_t *emptying = &rank->emptying[0][0][0][0];

	for (size_t i = 0; i < sizeof(slots_of_peers); i++) {
		if (coming[i] != 0) {
			struct state next = *from;
			(&next.ranks[r].slot[0][0][0][0])[i] = coming[i];
			(&next.ranks[r].slot_coming[0][0][0][0])[i] = 0;
			reach(search, &next);
		}
		if (emptying[i] != 0) {
			struct state next = *from;
			(&next.ranks[r].slot[0][0][0][0])[i] = 0;
			(&next.ranks[r].emptying[0][0][0][0])[i] = 0;
			reach(search, &next);
		}
	}
}

static void arrive_words(struct search *search, const struct state *from, uint32_t r)
{
	const struct rank *rank = &from->ranks[r];

	for (size_t i = 0; i < sizeof(rank->flag); i++) {
		uint8_t value = (&rank->flag_coming[0][0])[i];
		if (value != 0) {
			struct state next = *from;
			(&next.ranks[r].flag[0][0])[i] = value;
			(&next.ranks[r].flag_coming[0][0])[i] = 0;
			reach(search, &next);
		}
	}
	for (size_t i = 0; i < sizeof(rank->partial); i++) {
		uint8_t value = (&rank->partial_coming[0][0])[i];
		if (value != 0) {
			struct state next = *from;
			(&next.ranks[r].partial[0][0])[i] = value;
			(&next.ranks[r].partial_coming[0][0])[i] = 0;
			reach(search, &next);
		}
	}
}

/* A rank's own stores to its own memory have arrived: at the end of a kernel. */
static void settle(struct rank *rank, const struct machine *machine)
{
	for (size_t i = 0; i < sizeof(slots_of_peers) && !machine->empties_late; i++) {
		if ((&rank->emptying[0][0][0][0])[i] != 0) {
			(&rank->slot[0][0][0][0])[i] = 0;
			(&rank->emptying[0][0][0][0])[i] = 0;
		}
	}
	for (size_t i = 0; i < sizeof(rank->partial); i++) {
		if ((&rank->partial_coming[0][0])[i] != 0) {
			(&rank->partial[0][0])[i] = (&rank->partial_coming[0][0])[i];
			(&rank->partial_coming[0][0])[i] = 0;
		}
	}
}

/* ---- what a rank does ---- */

static bool is_push(const struct op *op)
{
	return op->kind == PUSH || op->kind == PUSH_SLICED || op->kind == CANDIDATES;
}

static bool is_sliced(const struct op *op)
{
	return op->kind == PUSH_SLICED || op->kind == PULL_SLICED;
}

static uint32_t blocks_of(const struct machine *machine, const struct op *op)
{
	return op->kind == NO_ROWS || op->kind == CANDIDATES ? 1 : machine->blocks;
}

static uint8_t peers_of(const struct machine *machine, uint32_t r)
{
	return (uint8_t)(((1u << machine->ranks) - 1) & ~(1u << r));
}

static uint32_t partial_of(const struct machine *machine, const struct op *op)
{
	return op->index % machine->partials;
}

/* Sends a block's part, or its flag, to a peer. */
static void send(
	struct search *search, const struct state *from, uint32_t r, uint32_t b, uint32_t peer)
{
	const struct machine *machine = search->machine;
	const struct op *op = &machine->ops[from->ranks[r].at];
	struct state next = *from;
	struct rank *own = &next.ranks[r], *to = &next.ranks[peer];
	uint8_t value = (uint8_t)(op->number + 1);
	uint32_t area = op->kind == CANDIDATES ? OF_CANDIDATES : EXCHANGED;
	uint32_t i = partial_of(machine, op);

	if (is_sliced(op) && own->blocks[b].sent == 0) {
		own->partial_coming[i][b] = value;
	}
	own->blocks[b].sent |= (uint8_t)(1u << peer);
	if (is_push(op)) {
		uint8_t *coming = &to->slot_coming[area][op->number % machine->slots][r][b];
		search->fault = *coming != 0 ? "a slot is sent twice" : search->fault;
		*coming = value;
	} else {
		if (!machine->flag_without_release && own->partial_coming[i][b] != 0) {
			own->partial[i][b] = own->partial_coming[i][b];
			own->partial_coming[i][b] = 0;
		}
		to->flag_coming[r][b] = value;
	}
	reach(search, &next);
}

/* Whether the flags of all peers have arrived. */
static bool is_met(const struct machine *machine, const struct rank *rank, uint32_t r, uint32_t b)
{
	uint8_t epoch = (uint8_t)(machine->ops[rank->at].number + 1);

	for (uint32_t peer = 0; peer < machine->ranks; peer++) {
		if (peer != r && rank->flag[peer][b] < epoch) {
			return false;
		}
	}
	return true;
}

/* Takes the part of a peer, where it is there. */
static void collect(
	struct search *search, const struct state *from, uint32_t r, uint32_t b, uint32_t peer)
{
	const struct machine *machine = search->machine;
	const struct op *op = &machine->ops[from->ranks[r].at];
	struct state next = *from;
	struct rank *own = &next.ranks[r];
	uint8_t value = (uint8_t)(op->number + 1), found = value;
	uint32_t area = op->kind == CANDIDATES ? OF_CANDIDATES : EXCHANGED;

	own->blocks[b].got |= (uint8_t)(1u << peer);
	if (is_push(op)) {
		uint32_t slot = op->number % machine->slots;
		found = own->slot[area][slot][peer][b];
		if (found == 0) {
			return;
		}
		own->emptying[area][slot][peer][b] = !machine->keeps_slots;
	} else if (!machine->reads_before_flag && !is_met(machine, own, r, b)) {
		return;
	} else if (op->kind != NO_ROWS) {
		found = from->ranks[peer].partial[partial_of(machine, op)][b];
	}
	if (found != value) {
		search->fault = found < value ? "a part of an exchange before is read"
					      : "a part of a later exchange is read";
	}
	reach(search, &next);
}

/* The kernel ends and the next one begins. */
static void end_op(struct search *search, const struct state *from, uint32_t r)
{
	struct state next = *from;
	struct rank *rank = &next.ranks[r];

	settle(rank, search->machine);
	memset(rank->blocks, 0, sizeof(rank->blocks));
	rank->has_partial = false;
	rank->at++;
	reach(search, &next);
}

/* The linear layer in front of an exchange: it writes the partial buffer, or slices. */
static void write_partial(struct search *search, const struct state *from, uint32_t r)
{
	const struct machine *machine = search->machine;
	const struct op *op = &machine->ops[from->ranks[r].at];
	struct state next = *from;
	struct rank *rank = &next.ranks[r];

	rank->has_partial = true;
	if (!is_sliced(op) && op->kind != NO_ROWS) {
		memset(rank->partial[partial_of(machine, op)], op->number + 1, machine->blocks);
	}
	reach(search, &next);
}

static void act(struct search *search, const struct state *from, uint32_t r)
{
	const struct machine *machine = search->machine;
	const struct rank *rank = &from->ranks[r];
	const struct op *op = &machine->ops[rank->at];
	uint8_t peers = peers_of(machine, r);
	bool is_over = true;

	if (rank->at == machine->op_count) {
		return;
	}
	if (machine->skips_no_rows && op->kind == NO_ROWS) {
		end_op(search, from, r);
		return;
	}
	if (op->kind != CANDIDATES && !rank->has_partial) {
		write_partial(search, from, r);
		return;
	}
	for (uint32_t b = 0; b < blocks_of(machine, op); b++) {
		bool has_sent = rank->blocks[b].sent == peers;
		is_over = is_over && rank->blocks[b].got == peers;
		for (uint32_t peer = 0; peer < machine->ranks; peer++) {
			uint8_t bit = (uint8_t)(peers & (1u << peer));
			if (bit != 0 && !has_sent && (rank->blocks[b].sent & bit) == 0) {
				send(search, from, r, b, peer);
			}
			if (bit != 0 && has_sent && (rank->blocks[b].got & bit) == 0) {
				collect(search, from, r, b, peer);
			}
		}
	}
	if (is_over) {
		end_op(search, from, r);
	}
}

/* ---- searches ---- */

static bool is_finished(const struct machine *machine, const struct state *state)
{
	for (uint32_t r = 0; r < machine->ranks; r++) {
		if (state->ranks[r].at < machine->op_count) {
			return false;
		}
	}
	return true;
}

/* Visits all states: the fault of the first that is wrong, or NULL. */
static const char *fault_of(const struct machine *machine)
{
	struct search search = {.machine = machine};
	struct state state;

	memset(&state, 0, sizeof(state));
	reach(&search, &state);
	while (search.open_count > 0 && search.fault == NULL) {
		state = search.open[--search.open_count];
		search.has_next = false;
		for (uint32_t r = 0; r < machine->ranks; r++) {
			arrive_slots(&search, &state, r);
			arrive_words(&search, &state, r);
			act(&search, &state, r);
		}
		if (!search.has_next && !is_finished(machine, &state)) {
			search.fault = "ranks wait for ever";
		}
	}
	map_deinit(&search.seen);
	free(search.open);
	return search.fault;
}

/* A program of steps of `per_step` exchanges. The digits of `kinds` in base EXCHANGE_KINDS are the
   exchanges' kinds; the bits of `samples` tell which steps have candidates. */
static void set_program(struct machine *machine, uint32_t steps, uint32_t per_step, uint32_t kinds,
	uint32_t samples)
{
	machine->op_count = 0;
	for (uint32_t step = 0; step < steps; step++) {
		for (uint32_t i = 0; i < per_step; i++) {
			machine->ops[machine->op_count++] =
				(struct op){.kind = (enum kind)(kinds % EXCHANGE_KINDS),
					.number = (uint8_t)(step * per_step + i),
					.index = (uint8_t)i};
			kinds /= EXCHANGE_KINDS;
		}
		if ((samples >> step & 1) != 0) {
			machine->ops[machine->op_count++] =
				(struct op){.kind = CANDIDATES, .number = (uint8_t)step};
		}
	}
}
/* The first fault of programs of `steps` steps, one in `stride` of them, or NULL. */
static const char *fault_of_programs(
	struct machine *machine, uint32_t steps, uint32_t per_step, uint32_t stride)
{
	uint32_t programs = 1;
	const char *fault = NULL;

	for (uint32_t i = 0; i < steps * per_step; i++) {
		programs *= EXCHANGE_KINDS;
	}
	for (uint32_t kinds = 0; kinds < programs && fault == NULL; kinds += stride) {
		set_program(machine, steps, per_step, kinds, kinds % 8);
		fault = fault_of(machine);
	}
	return fault;
}

static const struct machine SOUND = {
	.ranks = 2, .blocks = 1, .slots = EXCHANGE_SLOTS, .partials = EXCHANGE_PARTIALS};

static void require_sound(struct machine machine, uint32_t steps, uint32_t stride)
{
	const char *fault = fault_of_programs(&machine, steps, 2, stride);

	require(fault == NULL, "%u ranks, %u blocks, %u slots: %s", machine.ranks, machine.blocks,
		machine.slots, fault);
}

Test(exchange_protocol, two_ranks_read_every_part_once_it_is_there)
{
	struct machine machine = SOUND;

	require_sound(machine, 2, 1);
	require_sound(machine, 3, 41);
	machine.slots = 2; /* which are enough */
	require_sound(machine, 2, 1);
	require_sound(machine, 3, 41);
	machine.blocks = 2;
	require_sound(machine, 2, 7);
}

Test(exchange_protocol, three_ranks_read_every_part_once_it_is_there)
{
	struct machine machine = SOUND;

	machine.ranks = 3;
	machine.slots = 2;
	require_sound(machine, 2, 209);
}

/* ---- the machine broken in one place ---- */

static void require_found(struct machine machine, uint32_t per_step, const char *expected)
{
	const char *fault = fault_of_programs(&machine, 2, per_step, 1);

	require(fault != NULL && strcmp(fault, expected) == 0, "expected '%s', found %s", expected,
		fault == NULL ? "no fault" : fault);
}

Test(exchange_protocol, one_slot_is_too_few)
{
	struct machine machine = SOUND;

	machine.slots = 1;
	require_found(machine, 2, "a slot is sent twice");
}

Test(exchange_protocol, one_partial_buffer_is_too_few)
{
	struct machine machine = SOUND;

	machine.partials = 1;
	require_found(machine, 2, "a part of a later exchange is read");
}

/* The last exchange of a step and the first of the next would use the same buffer. */
Test(exchange_protocol, a_step_has_an_even_number_of_exchanges)
{
	require_found(SOUND, 3, "a part of a later exchange is read");
}

Test(exchange_protocol, a_slot_that_is_not_emptied_is_read_again)
{
	struct machine machine = SOUND;

	machine.slots = 2;
	machine.keeps_slots = true;
	require_found(machine, 2, "a part of an exchange before is read");
}

Test(exchange_protocol, a_slot_is_empty_at_the_end_of_the_kernel)
{
	struct machine machine = SOUND;

	machine.slots = 2;
	machine.empties_late = true;
	require_found(machine, 2, "a part of an exchange before is read");
}

Test(exchange_protocol, a_part_is_not_read_before_its_flag)
{
	struct machine machine = SOUND;

	machine.reads_before_flag = true;
	require_found(machine, 2, "a part of an exchange before is read");
}

Test(exchange_protocol, a_flag_releases_what_the_kernel_has_written)
{
	struct machine machine = SOUND;

	machine.flag_without_release = true;
	require_found(machine, 2, "a part of an exchange before is read");
}

Test(exchange_protocol, ranks_meet_without_rows)
{
	struct machine machine = SOUND;

	machine.skips_no_rows = true;
	require_found(machine, 2, "a part of a later exchange is read");
}
