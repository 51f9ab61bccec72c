#include "workloads/generate/generator.h"

#include "engine/base/check.h"
#include "engine/base/clock.h"
#include "engine/base/counter_hash.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "workloads/generate/fixed.h"
#include "engine/base/map.h"
#include "workloads/generate/zipf.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Each property is drawn from its own stream, so that changing one option does not change the draws
   of the others. */
enum purpose {
	DRAW_INPUT,
	DRAW_FOLLOW_UP,
	DRAW_OUTPUT,
	DRAW_TURNS,
	DRAW_PAUSE,
	DRAW_PREFIX,
	DRAWS
};

enum { PURPOSE_FIRST = 101, SESSION_NAME_BYTES = 24 };

static const uint64_t RESOLUTION_NS = 1000; /* of timestamps */

struct session {
	uint64_t number;
	uint64_t at_ns;	   /* of its next turn */
	uint64_t pause_ns; /* before its next turn */
	uint32_t turn, turn_count;
	uint32_t input_length, output_length; /* of its next turn */
	uint64_t prefix_nodes[PREFIX_LEVELS_MAX];
	uint64_t *ids; /* of the whole blocks so far */
	size_t id_capacity;
	uint32_t id_count;
};

struct generator {
	struct generator_options options;
	struct random draws[DRAWS];
	struct zipf levels[PREFIX_LEVELS_MAX];
	struct arrivals *arrivals;
	uint64_t row_count, session_count;
	uint64_t next_arrival_ns; /* of a new session */

	struct session **active; /* heap by time, then number, of sessions that have a next turn */
	size_t active_count, active_capacity;
	struct session *spare; /* a session that is over, to be reused */

	struct map prefix_ids;
	uint64_t next_id; /* never used before */
	uint64_t *ids;
	size_t id_capacity;
	char name[SESSION_NAME_BYTES];
};

static uint64_t next_arrival(struct generator *generator)
{
	return generator->arrivals == NULL ? 0 : arrivals_next(generator->arrivals);
}

struct generator *generator_open(const struct generator_options *options)
{
	struct generator *generator = memory_take(1, sizeof(*generator));

	check(options->trace_block_size >= 1 && options->context_max >= 1);
	check(options->level_count <= PREFIX_LEVELS_MAX);
	check(options->turns.high == 1 || options->profile != NULL);
	generator->options = *options;
	for (uint32_t i = 0; i < DRAWS; i++) {
		generator->draws[i] = random_stream(options->seed, PURPOSE_FIRST + i);
	}
	for (uint32_t i = 0; i < options->level_count; i++) {
		zipf_init(
			&generator->levels[i], options->levels[i].count, options->skew_millionths);
	}
	if (options->profile != NULL) {
		generator->arrivals = arrivals_open(options->profile, options->seed);
	}
	generator->next_arrival_ns = next_arrival(generator);
	return generator;
}

static void session_free(struct session *session)
{
	if (session != NULL) {
		free(session->ids);
		free(session);
	}
}

void generator_close(struct generator *generator)
{
	if (generator == NULL) {
		return;
	}
	for (size_t i = 0; i < generator->active_count; i++) {
		session_free(generator->active[i]);
	}
	for (uint32_t i = 0; i < PREFIX_LEVELS_MAX; i++) {
		zipf_deinit(&generator->levels[i]);
	}
	session_free(generator->spare);
	arrivals_close(generator->arrivals);
	map_deinit(&generator->prefix_ids);
	free(generator->active);
	free(generator->ids);
	free(generator);
}

/* ---- sessions in order of their next turn ---- */

static bool is_earlier(const struct session *a, const struct session *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->number < b->number;
}

static void active_push(struct generator *generator, struct session *session)
{
	generator->active = memory_grow(generator->active, &generator->active_capacity,
		generator->active_count + 1, sizeof(struct session *));
	size_t i = generator->active_count++;
	while (i > 0 && is_earlier(session, generator->active[(i - 1) / 2])) {
		generator->active[i] = generator->active[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	generator->active[i] = session;
}

static struct session *active_pop(struct generator *generator)
{
	struct session *first = generator->active[0];
	struct session *moved = generator->active[--generator->active_count];
	size_t count = generator->active_count;
	size_t i = 0;

	for (;;) {
		size_t child = 2 * i + 1;
		if (child + 1 < count &&
			is_earlier(generator->active[child + 1], generator->active[child])) {
			child++;
		}
		if (child >= count || !is_earlier(generator->active[child], moved)) {
			break;
		}
		generator->active[i] = generator->active[child];
		i = child;
	}
	if (count > 0) {
		generator->active[i] = moved;
	}
	return first;
}

/* ---- lengths ---- */

/* Draws the tokens that a turn adds to the conversation, and its completion length. */
static void draw_lengths(
	struct generator *generator, struct session *session, uint32_t said, bool is_first)
{
	const struct generator_options *options = &generator->options;
	uint32_t added;

	if (is_first && options->pair_count > 0) {
		const struct length_pair *pair = &options->pairs[random_below(
			&generator->draws[DRAW_INPUT], options->pair_count)];
		added = pair->input;
		session->output_length = pair->output;
	} else {
		added = is_first ? length_draw(&options->input, &generator->draws[DRAW_INPUT])
				 : length_draw(
					   &options->follow_up, &generator->draws[DRAW_FOLLOW_UP]);
		session->output_length =
			length_draw(&options->output, &generator->draws[DRAW_OUTPUT]);
	}
	session->input_length = u32_min(said + added, TRACE_LENGTH_MAX);
}

static uint64_t prefix_tokens(const struct generator_options *options)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < options->level_count; i++) {
		sum += options->levels[i].tokens;
	}
	return sum;
}

/* Walks down the prefix tree. A node is identified by a hash of the choices that lead to it. */
static void draw_prefix(struct generator *generator, struct session *session)
{
	uint64_t node = 0;

	for (uint32_t i = 0; i < generator->options.level_count; i++) {
		uint32_t choice = zipf_draw(&generator->levels[i], &generator->draws[DRAW_PREFIX]);
		node = counter_mix(node + choice + 1);
		session->prefix_nodes[i] = node;
	}
}

/* Shortens a first turn that is too long, its prompt first; the prefix is kept whole. */
static void fit_first_turn(const struct generator_options *options, struct session *session)
{
	uint64_t least = prefix_tokens(options) + 1;
	uint64_t room = options->context_max;

	if ((uint64_t)session->input_length + session->output_length <= room) {
		return;
	}
	session->output_length =
		(uint32_t)u64_max(u64_min(session->output_length, room - u64_min(room, least)), 1);
	session->input_length =
		(uint32_t)u64_max(least, room - u64_min(room, session->output_length));
}

static void begin_session(struct generator *generator)
{
	struct session *session = generator->spare;

	if (session == NULL) {
		session = memory_take(1, sizeof(*session));
	}
	generator->spare = NULL;
	session->number = generator->session_count++;
	session->at_ns = generator->next_arrival_ns;
	session->pause_ns = 0;
	session->turn = 0;
	session->turn_count = length_draw(&generator->options.turns, &generator->draws[DRAW_TURNS]);
	session->id_count = 0;
	draw_prefix(generator, session);
	draw_lengths(generator, session, (uint32_t)prefix_tokens(&generator->options), true);
	fit_first_turn(&generator->options, session);
	active_push(generator, session);
	generator->next_arrival_ns = next_arrival(generator);
}

/* ---- ids ---- */

static bool has_ids(const struct generator_options *options)
{
	return options->level_count > 0 || options->turns.high > 1;
}

/* The id of a block that ends within the prefix: sessions share it if their prefixes are equal up
   to its end. */
static uint64_t prefix_id(
	struct generator *generator, const struct session *session, uint64_t block_index)
{
	uint64_t end = (block_index + 1) * generator->options.trace_block_size;
	uint64_t covered = 0;
	uint32_t level = 0;

	for (; level < generator->options.level_count; level++) {
		covered += generator->options.levels[level].tokens;
		if (covered >= end) {
			break;
		}
	}
	uint64_t key = counter_hash(session->prefix_nodes[level], block_index);
	uint64_t id = *map_add(&generator->prefix_ids, key, generator->next_id);
	generator->next_id += id == generator->next_id;
	return id;
}

static void set_ids(struct generator *generator, struct session *session, struct trace_row *row)
{
	uint32_t block_size = generator->options.trace_block_size;
	uint32_t whole = row->input_length / block_size;
	uint64_t shared = prefix_tokens(&generator->options) / block_size;

	session->ids = memory_grow(
		session->ids, &session->id_capacity, (size_t)whole + 1, sizeof(*session->ids));
	while (session->id_count < whole) {
		uint32_t i = session->id_count++;
		session->ids[i] =
			i < shared ? prefix_id(generator, session, i) : generator->next_id++;
	}
	row->hash_ids = session->ids;
	row->hash_id_count = whole;
	if (row->input_length % block_size != 0) {
		session->ids[whole] = generator->next_id++; /* the next turn overwrites it */
		row->hash_id_count++;
	}
}

/* ---- rows ---- */

/* Fills a row with the values drawn when the turn was planned. */
static void fill_row(struct generator *generator, struct session *session, struct trace_row *row)
{
	*row = (struct trace_row){
		.index = generator->row_count,
		.arrival_ns = session->at_ns,
		.input_length = session->input_length,
		.output_length = session->output_length,
	};
	if (generator->options.turns.high > 1) {
		snprintf(generator->name, sizeof(generator->name), "%" PRIu64, session->number);
		row->session = generator->name;
		row->has_delay = session->turn > 0;
		row->delay_ns = session->pause_ns;
	}
	if (has_ids(&generator->options)) {
		set_ids(generator, session, row);
		row->block_size =
			generator->row_count == 0 ? generator->options.trace_block_size : 0;
	}
}

static uint64_t draw_pause_ns(struct generator *generator)
{
	uint64_t mean_us = generator->options.pause_ns / RESOLUTION_NS;
	uint64_t factor = (uint64_t)random_exponential(&generator->draws[DRAW_PAUSE]);

	/* mean_us < 2^42 and factor < 45 * 2^32: 16 fractional bits keep the product within 64
	   bits. */
	return ((mean_us * (factor >> 16)) >> 16) * RESOLUTION_NS;
}

/* Plans the next turn; false: the session is over. */
static bool plan_turn(struct generator *generator, struct session *session)
{
	const struct generator_options *options = &generator->options;
	uint32_t said = session->input_length + session->output_length;
	uint64_t busy_ns = session->output_length * options->token_ns;

	session->turn++;
	if (session->turn >= session->turn_count) {
		return false;
	}
	session->pause_ns = draw_pause_ns(generator);
	session->at_ns += busy_ns / RESOLUTION_NS * RESOLUTION_NS + session->pause_ns;
	draw_lengths(generator, session, said, false);
	return (uint64_t)session->input_length + session->output_length <= options->context_max;
}

static bool is_over(const struct generator *generator, uint64_t at_ns)
{
	uint64_t end_ns = generator->options.duration_ns;

	return at_ns > CLOCK_NS_MAX || (end_ns > 0 && at_ns >= end_ns);
}

bool generator_next(struct generator *generator, struct trace_row *row)
{
	if (generator->row_count == generator->options.request_count) {
		return false;
	}
	/* New sessions up to the time of the earliest turn: one of them may come before it. */
	while (!is_over(generator, generator->next_arrival_ns) &&
		(generator->active_count == 0 ||
			generator->next_arrival_ns < generator->active[0]->at_ns)) {
		begin_session(generator);
	}
	if (generator->active_count == 0 || is_over(generator, generator->active[0]->at_ns)) {
		return false;
	}
	struct session *session = active_pop(generator);
	fill_row(generator, session, row);
	generator->row_count++;
	/* The row points to the session's ids, which are valid until the next call. */
	if (plan_turn(generator, session)) {
		active_push(generator, session);
	} else {
		session_free(generator->spare);
		generator->spare = session;
	}
	return true;
}
