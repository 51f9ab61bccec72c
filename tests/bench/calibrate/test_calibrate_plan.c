#include "bench/calibrate/plan.h"

#include "workloads/trace/trace.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/counter_hash.h"
#include "engine/base/map.h"
#include "engine/base/memory.h"
#include "tests/harness/files.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* The trace of a measuring plan, read back: which prompts share what, and in which order the
   scenes come. */

enum {
	SCENES_MOST = 400,
	SCENE_S = 10000, /* from one scene to the next */
	CONTEXT = 2048,	 /* of what precedes a scene: a sequence that decodes, or prompts */
};

struct row {
	uint64_t arrival_ns;
	uint64_t first_id; /* index into the ids of all */
	uint32_t scene, ids, input, output, stored;
	bool is_of_session, is_follower;
};

struct plan {
	struct row *rows; /* (count) owned */
	uint64_t *ids;	  /* of all rows, owned */
	size_t row_capacity, id_capacity;
	uint32_t count, scenes, chosen;
};

static char folder[TEMPORARY_PATH_BYTES];

static void set_up(void)
{
	temporary_folder(folder);
}

static void tear_down(void)
{
	temporary_remove(folder);
}

TestSuite(calibrate_plan, .init = set_up, .fini = tear_down);

/* About the times of a small model, so that no prompt is cut. */
static enum status price(
	void *state, const struct step_counts *counts, uint64_t *elapsed_ns, struct error *error)
{
	(void)state;
	(void)error;
	*elapsed_ns = 500000 + 4000 * counts->prefill_tokens + counts->decode_context_tokens / 4;
	return STATUS_OK;
}

static const struct runner pricer = {.name = "test", .price = price};

static struct calibrate_plan plan_of(uint64_t seed)
{
	return (struct calibrate_plan){.pricer = &pricer,
		.seed = seed,
		.budget_s = 1e9,
		.block_size = 256,
		.kv_blocks = 4000,
		.max_num_seqs = 512,
		.max_num_batched_tokens = 16384,
		.max_model_len = 131072};
}

static void add_row(struct plan *plan, const struct trace_row *row, uint64_t *id_count)
{
	struct row *mine;

	plan->rows =
		memory_grow(plan->rows, &plan->row_capacity, plan->count + 1, sizeof(*plan->rows));
	plan->ids = memory_grow(plan->ids, &plan->id_capacity, *id_count + row->hash_id_count + 1,
		sizeof(*plan->ids));
	mine = &plan->rows[plan->count++];
	*mine = (struct row){.arrival_ns = row->arrival_ns,
		.first_id = *id_count,
		.scene = (uint32_t)(row->arrival_ns / (SCENE_S * UINT64_C(1000000000))),
		.ids = row->hash_id_count,
		.input = row->input_length,
		.output = row->output_length,
		.stored = row->stored_length,
		.is_of_session = row->session != NULL,
		.is_follower = row->has_delay};
	for (uint32_t i = 0; i < row->hash_id_count; i++) {
		plan->ids[(*id_count)++] = row->hash_ids[i];
	}
}

/* As a replay reads it. */
static void make_plan_of(struct plan *plan, const struct calibrate_plan *wanted)
{
	char path[TEMPORARY_PATH_BYTES + 32];
	const struct trace_options options = {.trace_block_size = CALIBRATE_ID_TOKENS};
	struct calibrate_plan_size size;
	struct trace *trace;
	struct trace_row row;
	struct error error = {0};
	uint64_t id_count = 0;
	bool has_row = true;

	memset(plan, 0, sizeof(*plan));
	snprintf(path, sizeof(path), "%s/plan.jsonl", folder);
	FILE *file = fopen(path, "w");
	calibrate_plan_write(wanted, file, &size);
	fclose(file);
	plan->chosen = size.scenes;
	require(trace_open(&trace, path, &options, &error) == STATUS_OK, "%s", error.text);
	for (;;) {
		require(trace_next(trace, &row, &has_row, &error) == STATUS_OK, "%s", error.text);
		if (!has_row) {
			break;
		}
		add_row(plan, &row, &id_count);
	}
	trace_close(trace);
	plan->scenes = plan->rows[plan->count - 1].scene;
	require(plan->scenes < SCENES_MOST, "%u scenes", plan->scenes);
}

static void make_plan(struct plan *plan, uint64_t seed)
{
	const struct calibrate_plan wanted = plan_of(seed);

	make_plan_of(plan, &wanted);
}

static void free_plan(struct plan *plan)
{
	free(plan->rows);
	free(plan->ids);
}

/* ---- ids ---- */

/* How many leading ids of a row another row has too: an id has one place in all rows, behind the
   same ids, and all rows that have it are of one scene. first_row: by id. */
static uint32_t shared_ids(const struct plan *plan, uint32_t index, struct map *first_row)
{
	const struct row *row = &plan->rows[index];
	uint32_t shared = 0;

	for (uint32_t i = 0; i < row->ids; i++) {
		uint64_t id = plan->ids[row->first_id + i];
		uint64_t first = *map_add(first_row, id, index);
		const struct row *other = &plan->rows[first];
		if (first == index) {
			continue;
		}
		require(shared == i, "row %u: id %llu behind one of its own", index,
			(unsigned long long)id);
		require(i < other->ids && plan->ids[other->first_id + i] == id,
			"row %u: id %llu has another place in row %llu", index,
			(unsigned long long)id, (unsigned long long)first);
		require_equal(other->scene, row->scene);
		shared = i + 1;
	}
	return shared;
}

Test(calibrate_plan, an_id_is_of_one_place_in_one_scene)
{
	struct plan plan;
	struct map first_row = {0};
	uint32_t most = 0;

	make_plan(&plan, 3);
	for (uint32_t i = 0; i < plan.count; i++) {
		const struct row *row = &plan.rows[i];
		uint32_t shared = shared_ids(&plan, i, &first_row);
		require(row->ids == 0 || row->ids == (row->input - 1) / CALIBRATE_ID_TOKENS + 1,
			"row %u: %u ids of %u tokens", i, row->ids, row->input);
		/* What is shared is not computed: a prompt computes the rest. */
		require(shared * CALIBRATE_ID_TOKENS <= row->stored,
			"row %u: %u ids shared, %u tokens stored", i, shared, row->stored);
		most = shared > most ? shared : most;
	}
	require_equal(most * CALIBRATE_ID_TOKENS, 122880);
	map_deinit(&first_row);
	free_plan(&plan);
}

/* The shared prefixes of a scene. */
struct sharing {
	uint32_t prefixes, most, least; /* rows with the same prefix */
};

/* Rows of sequences that share one are told by their first id, which a lone row has alone. */
static struct sharing sharing_of(const struct plan *plan, uint32_t begin, uint32_t end)
{
	struct map sharers = {0};
	struct sharing sharing = {.least = UINT32_MAX};

	for (uint32_t i = begin; i < end; i++) {
		if (plan->rows[i].ids > 0) {
			++*map_add(&sharers, plan->ids[plan->rows[i].first_id], 0);
		}
	}
	for (uint32_t i = begin; i < end; i++) {
		const struct row *row = &plan->rows[i];
		uint64_t first = row->ids > 0 ? plan->ids[row->first_id] : 0;
		uint64_t *count = row->ids > 0 ? map_find(&sharers, first) : NULL;
		if (count != NULL && *count > 1) {
			sharing.prefixes++;
			sharing.most = *count > sharing.most ? (uint32_t)*count : sharing.most;
			sharing.least = *count < sharing.least ? (uint32_t)*count : sharing.least;
			*count = 0; /* counted */
		}
	}
	map_deinit(&sharers);
	return sharing;
}

static uint32_t scene_end(const struct plan *plan, uint32_t begin)
{
	uint32_t end = begin;

	while (end < plan->count && plan->rows[end].scene == plan->rows[begin].scene) {
		end++;
	}
	return end;
}

Test(calibrate_plan, the_prefixes_of_a_scene_have_as_many_rows)
{
	struct plan plan;
	uint32_t one = 0, several = 0, most = 0;

	make_plan(&plan, 3);
	for (uint32_t begin = 0; begin < plan.count; begin = scene_end(&plan, begin)) {
		const struct sharing sharing = sharing_of(&plan, begin, scene_end(&plan, begin));
		one += sharing.prefixes == 1;
		several += sharing.prefixes > 1;
		most = sharing.prefixes > most ? sharing.prefixes : most;
		require(sharing.prefixes == 0 || sharing.most - sharing.least <= 1,
			"scene %u: %u to %u rows share a prefix", plan.rows[begin].scene,
			sharing.least, sharing.most);
	}
	require(one >= 10 && several >= 8, "%u scenes with one prefix, %u with several", one,
		several);
	require_equal(most, 16);
	free_plan(&plan);
}

/* Two turns of a session with ids would be one text; one without any tells them apart. */
Test(calibrate_plan, turns_have_ids_and_none_in_turn)
{
	struct plan plan;
	uint32_t turns = 0, stored = 0;

	make_plan(&plan, 3);
	for (uint32_t i = 1; i < plan.count; i++) {
		const struct row *row = &plan.rows[i];
		require(row->ids > 0 || row->is_follower, "row %u has no ids", i);
		if (row->is_follower) {
			bool is_first = !plan.rows[i - 1].is_follower;
			bool has_ids = row->ids > 0;
			require(has_ids == (!is_first && plan.rows[i - 1].ids == 0),
				"row %u and the turn before it", i);
			turns++;
			stored += row->stored > 0;
		}
	}
	require(turns > 400 && stored > 100, "%u turns, %u with a prefix", turns, stored);
	free_plan(&plan);
}

/* ---- small engines ---- */

/* Engines of which some limit is at, below or above what scenes ask for. */
Test(calibrate_plan, a_small_engine_can_run_every_request)
{
	static const uint32_t lengths[] = {1000, 2047, 2048, 2049, 20000, 33000, 40000, 131072};
	static const uint32_t tokens[] = {512, 2048, 16384};

	for (uint32_t i = 0; i < 24; i++) {
		struct calibrate_plan wanted = plan_of(i);
		struct plan plan;
		wanted.max_model_len = lengths[i % 8];
		wanted.max_num_batched_tokens = tokens[i / 8];
		wanted.kv_blocks = 4 * (wanted.max_model_len / wanted.block_size + 1);
		wanted.max_num_seqs = 8;
		make_plan_of(&plan, &wanted);
		for (uint32_t k = 0; k < plan.count; k++) {
			const struct row *row = &plan.rows[k];
			require(row->input + row->output <= wanted.max_model_len,
				"%u tokens at most, row %u: %u and %u", wanted.max_model_len, k,
				row->input, row->output);
			require(row->stored < row->input, "row %u: %u of %u stored", k, row->stored,
				row->input);
		}
		require(plan.chosen > 0, "no scene for %u tokens", wanted.max_model_len);
		free_plan(&plan);
	}
}

/* The rows that arrive at once with that of `begin`. */
static uint32_t batch_end(const struct plan *plan, uint32_t begin)
{
	uint32_t end = begin;

	while (end < plan->count && plan->rows[end].arrival_ns == plan->rows[begin].arrival_ns) {
		end++;
	}
	return end;
}

/* Requests that are there at once have seats, but for the turns, which follow others. */
static void require_seats(
	const struct plan *plan, const struct calibrate_plan *wanted, uint32_t begin, uint32_t end)
{
	uint32_t rows = 0;

	for (uint32_t i = begin; i < end; i++) {
		const struct row *row = &plan->rows[i];
		require(row->stored < row->input &&
				row->input + row->output <= wanted->max_model_len,
			"row %u: %u of %u stored, then %u", i, row->stored, row->input,
			row->output);
		rows += !row->is_follower;
	}
	require(rows <= wanted->max_num_seqs, "row %u: %u at once", begin, rows);
}

/* A batch of prompts that arrive at once behind prefixes of as many tokens. */
static bool is_prefill_batch(const struct plan *plan, uint32_t begin, uint32_t end)
{
	bool is_batch = end - begin > 1;

	for (uint32_t i = begin; i < end; i++) {
		const struct row *row = &plan->rows[i];
		is_batch = is_batch && row->output == 1 && row->ids > 0 && row->stored > 0 &&
			   row->stored == plan->rows[begin].stored;
	}
	return is_batch;
}

static uint32_t count_prefixes(const struct plan *plan, uint32_t begin, uint32_t end)
{
	uint32_t count = 1;

	for (uint32_t i = begin + 1; i < end; i++) {
		count += plan->ids[plan->rows[i].first_id] != plan->ids[plan->rows[i - 1].first_id];
	}
	return count;
}

/* How many prefixes prompts have where there are seats for all of them, by the prefix' tokens. */
static void find_groups(struct map *groups)
{
	struct plan plan;

	make_plan(&plan, 3);
	for (uint32_t begin = 0, end; begin < plan.count; begin = end) {
		end = batch_end(&plan, begin);
		uint32_t prefixes = count_prefixes(&plan, begin, end);
		if (is_prefill_batch(&plan, begin, end) && prefixes < end - begin) {
			*map_add(groups, plan.rows[begin].stored, prefixes) = prefixes;
		}
	}
	free_plan(&plan);
	require_equal(*map_find(groups, 1024), 4);
	require_equal(*map_find(groups, 7680), 1);
}

/* Of as many prompts as there are seats for, as many share each prefix but for the last one, in
   the order of the prompts, and there are no more prefixes than of many prompts. */
static void require_shares(
	const struct plan *plan, struct map *groups, uint32_t begin, uint32_t end)
{
	const uint64_t *known = map_find(groups, plan->rows[begin].stored);
	uint64_t most = known == NULL ? end - begin : *known; /* else each has its own */
	uint64_t each = (end - begin + most - 1) / most;

	for (uint32_t i = begin + 1; i < end; i++) {
		uint64_t own = plan->ids[plan->rows[i].first_id];
		uint64_t before = plan->ids[plan->rows[i - 1].first_id];
		require((own != before) == ((i - begin) % each == 0),
			"prompt %u of %u behind %u tokens: at most %llu prefixes", i - begin,
			end - begin, plan->rows[begin].stored, (unsigned long long)most);
	}
}

static void check_small(const struct calibrate_plan *wanted, struct map *groups, uint32_t *batches)
{
	struct plan plan;
	struct map first_row = {0};

	make_plan_of(&plan, wanted);
	for (uint32_t i = 0; i < plan.count; i++) {
		uint32_t shared = shared_ids(&plan, i, &first_row);
		require(shared * CALIBRATE_ID_TOKENS <= plan.rows[i].stored, "row %u", i);
	}
	/* What warms the GPU up is not measured, and may wait for a seat. */
	for (uint32_t begin = scene_end(&plan, 0), end; begin < plan.count; begin = end) {
		end = batch_end(&plan, begin);
		require_seats(&plan, wanted, begin, end);
		if (is_prefill_batch(&plan, begin, end)) {
			require_shares(&plan, groups, begin, end);
			++*batches;
		}
	}
	map_deinit(&first_row);
	free_plan(&plan);
}

/* ---- the pool ---- */

/* Blocks of the requests that are there at once, those of equal ids counted once. Of turns that
   follow each other only the largest. */
static uint64_t blocks_of(
	const struct plan *plan, const struct calibrate_plan *wanted, uint32_t begin, uint32_t end)
{
	struct map seen = {0};
	uint64_t blocks = 0, largest = 0;

	for (uint32_t i = begin; i < end; i++) {
		const struct row *row = &plan->rows[i];
		uint64_t known = 0;
		for (uint32_t j = 0; j < row->ids; j++) {
			uint64_t *times = map_add(&seen, plan->ids[row->first_id + j], 0);
			known += (*times)++ > 0;
		}
		uint64_t tokens = row->input + row->output - known * CALIBRATE_ID_TOKENS;
		uint64_t own = (tokens + wanted->block_size - 1) / wanted->block_size;
		bool is_turn = row->is_follower;
		blocks += is_turn ? (own > largest ? own - largest : 0) : own;
		largest = is_turn ? (own > largest ? own : largest) : 0;
	}
	map_deinit(&seen);
	return blocks;
}

/* Contexts are stored and not computed, which only a pool with room for all of them can do: else
   some wait, lose what was stored, and take minutes of a large model's GPU. Prompts of one token
   follow each other. */
Test(calibrate_plan, rows_that_decode_together_have_room_in_the_pool)
{
	uint32_t batches = 0, full = 0;

	for (uint32_t i = 0; i < 24; i++) {
		struct calibrate_plan wanted = plan_of(i);
		struct plan plan;
		wanted.kv_blocks = 560 + 140 * i;
		make_plan_of(&plan, &wanted);
		for (uint32_t begin = scene_end(&plan, 0), end; begin < plan.count; begin = end) {
			end = batch_end(&plan, begin);
			if (plan.rows[begin].output == 1) {
				continue;
			}
			uint64_t blocks = blocks_of(&plan, &wanted, begin, end);
			require(blocks <= wanted.kv_blocks, "scene %u: %llu blocks of a pool of %u",
				plan.rows[begin].scene, (unsigned long long)blocks,
				wanted.kv_blocks);
			full += 10 * blocks > 8 * (uint64_t)wanted.kv_blocks;
			batches++;
		}
		free_plan(&plan);
	}
	require(batches > 1000 && full > 20, "%u batches, %u of more than 80 %%", batches, full);
}

/* However few seats there are, and where they end a group of prompts or a graph's bucket. */
Test(calibrate_plan, any_number_of_seats_is_planned_for)
{
	static const uint32_t larger[] = {17, 23, 24, 31, 32, 33, 48, 63, 64, 65, 100, 127, 128,
		129, 255, 256, 257, 384, 511, 512, 513, 1024};
	struct map groups = {0};

	find_groups(&groups);
	for (uint32_t i = 1; i <= 16 + sizeof(larger) / sizeof(larger[0]); i++) {
		struct calibrate_plan wanted = plan_of(i);
		uint32_t batches = 0;
		wanted.max_num_seqs = i <= 16 ? i : larger[i - 17];
		check_small(&wanted, &groups, &batches);
		require(wanted.max_num_seqs == 1 ? batches == 0 : batches >= 6,
			"%u seats: %u batches of prompts", wanted.max_num_seqs, batches);
	}
	map_deinit(&groups);
}

static void plan_for_few(struct prop *prop, const void *context)
{
	static const uint32_t blocks[] = {16, 64, 128, 256};
	struct calibrate_plan wanted = plan_of(prop_below(prop, 1000));
	uint32_t batches = 0;

	wanted.max_num_seqs = prop_range(prop, 1, prop_chance(prop, 1, 2) ? 12 : 80);
	wanted.max_num_batched_tokens =
		wanted.max_num_seqs + (prop_chance(prop, 1, 4) ? 0 : prop_range(prop, 0, 9000));
	wanted.block_size = blocks[prop_below(prop, 4)];
	wanted.max_model_len = prop_range(prop, 64, prop_chance(prop, 1, 2) ? 4000 : 140000);
	wanted.kv_blocks = wanted.max_model_len / wanted.block_size + 1;
	wanted.kv_blocks += (uint32_t)prop_below(prop, 8 * wanted.kv_blocks);
	prop_log(prop, "%u seats, %u tokens, %u blocks of %u, %u long", wanted.max_num_seqs,
		wanted.max_num_batched_tokens, wanted.kv_blocks, wanted.block_size,
		wanted.max_model_len);
	check_small(&wanted, (struct map *)(uintptr_t)context, &batches);
}

/* Prompts that are cut for lack of length or of blocks keep the order of their prefixes. */
Test(calibrate_plan, any_small_engine_is_planned_for)
{
	struct map groups = {0};
	struct prop_options options = {
		.name = "few", .body = plan_for_few, .context = &groups, .trials = 150};

	find_groups(&groups);
	cr_assert(prop_holds(&options));
	map_deinit(&groups);
}

/* ---- where contexts end ---- */

static enum status slow_price(
	void *state, const struct step_counts *counts, uint64_t *elapsed_ns, struct error *error)
{
	enum status status = price(state, counts, elapsed_ns, error);

	*elapsed_ns *= 20;
	return status;
}

static enum status fast_price(
	void *state, const struct step_counts *counts, uint64_t *elapsed_ns, struct error *error)
{
	enum status status = price(state, counts, elapsed_ns, error);

	*elapsed_ns /= 20;
	return status;
}

/* In each quarter of a block, as in traffic: kernels read whole splits. Scenes of more rows than
   here compute fewer tokens of each. */
Test(calibrate_plan, contexts_end_anywhere_in_a_block)
{
	static const struct runner fast = {.name = "fast", .price = fast_price};
	struct calibrate_plan wanted = plan_of(2);
	struct plan plan;
	uint32_t ends[4] = {0}, count = 0;

	wanted.pricer = &fast;
	make_plan_of(&plan, &wanted);
	for (uint32_t begin = 0, end; begin < plan.count; begin = end) {
		end = scene_end(&plan, begin);
		for (uint32_t i = begin; i < end && end - begin <= 64; i++) {
			const struct row *row = &plan.rows[i];
			bool is_context =
				row->stored > 0 && row->output > 4 && row->input != CONTEXT + 1;
			uint32_t own = row->input - row->stored;
			require(!is_context || own <= 256, "row %u computes %u tokens", i, own);
			count += is_context;
			ends[(own - 1) % 256 / 64] += is_context;
		}
	}
	for (uint32_t i = 0; i < 4; i++) {
		require(ends[i] > count / 8, "%u of %u contexts end in quarter %u", ends[i], count,
			i);
	}
	free_plan(&plan);
}

/* The tokens that are computed of a scene's contexts take 0.4 s on the mean, however slow the
   model, or twice as long where all contexts are equal. Four of each are computed always. */
Test(calibrate_plan, the_ends_of_contexts_take_little_time)
{
	static const struct runner slow = {.name = "slow", .price = slow_price};
	struct calibrate_plan wanted = plan_of(4);
	struct plan plan;
	uint32_t begin = 0;

	wanted.pricer = &slow;
	make_plan_of(&plan, &wanted);
	begin = scene_end(&plan, 0);
	for (uint32_t scene = 1; scene <= plan.scenes; scene++) {
		uint64_t computed = 0, rows = 0;
		uint32_t end = scene_end(&plan, begin);
		for (; begin < end; begin++) {
			const struct row *row = &plan.rows[begin];
			bool is_context = row->stored > 0 && row->output > 4;
			computed += is_context ? row->input - row->stored : 0;
			rows += is_context;
		}
		require((double)computed * 80000e-9 < 0.85 + (double)rows * 4 * 80000e-9,
			"scene %u computes %llu tokens of %llu contexts", scene,
			(unsigned long long)computed, (unsigned long long)rows);
	}
	free_plan(&plan);
}

/* ---- order ---- */

/* A scene as it is played, without the sequences and the prompts that cool or heat the GPU before
   it or its prompts. */
struct played {
	uint64_t counts; /* hash of the lengths of its rows */
	uint32_t rows;
	bool is_hot;
};

static bool is_rest(const struct row *row)
{
	return row->input == CONTEXT + 1 && row->stored == CONTEXT;
}

static bool is_prelude(const struct row *row, bool *is_hot)
{
	*is_hot = row->input == CONTEXT && row->stored == 0 && row->output == 1;
	return *is_hot || is_rest(row);
}

/* Of scenes 1 to plan->scenes, each of which must begin on its ten thousand seconds. */
static void list_scenes(const struct plan *plan, struct played *scenes)
{
	uint32_t begin = scene_end(plan, 0);

	for (uint32_t scene = 1; scene <= plan->scenes; scene++) {
		struct played *played = &scenes[scene - 1];
		uint32_t end = scene_end(plan, begin);
		bool is_hot = false;
		require_equal(plan->rows[begin].scene, scene);
		*played = (struct played){0};
		for (; is_prelude(&plan->rows[begin], &is_hot); begin++) {
			played->is_hot |= is_hot;
		}
		for (; begin < end; begin++) {
			const struct row *row = &plan->rows[begin];
			if (is_rest(row)) {
				continue;
			}
			played->counts = counter_hash(played->counts, row->input);
			played->counts = counter_hash(
				played->counts, (uint64_t)row->output << 32 | row->stored);
			played->rows++;
		}
	}
}

static uint32_t find_next(
	const struct played *scenes, uint32_t count, uint32_t from, uint64_t counts)
{
	while (from < count && scenes[from].counts != counts) {
		from++;
	}
	return from;
}

Test(calibrate_plan, each_third_plays_the_scenes_with_prompts_and_its_share_of_the_others)
{
	struct plan plan;
	struct played scenes[SCENES_MOST];
	uint32_t begin[3] = {UINT32_MAX, UINT32_MAX, UINT32_MAX}, end[3] = {0}, thrice = 0;

	make_plan(&plan, 3);
	list_scenes(&plan, scenes);
	for (uint32_t i = 0; i < plan.scenes; i++) {
		uint32_t at[4] = {i};
		if (find_next(scenes, i, 0, scenes[i].counts) < i) {
			continue; /* seen */
		}
		for (uint32_t j = 1; j < 4; j++) {
			at[j] = find_next(scenes, plan.scenes, at[j - 1] + 1, scenes[i].counts);
		}
		require(at[3] >= plan.scenes && (at[1] >= plan.scenes) == (at[2] >= plan.scenes),
			"scene %u is played neither once nor three times", i + 1);
		if (at[1] < plan.scenes) {
			thrice++;
			for (uint32_t j = 0; j < 3; j++) {
				require(scenes[at[j]].is_hot == (j == 1), "scene %u", at[j] + 1);
				begin[j] = at[j] < begin[j] ? at[j] : begin[j];
				end[j] = at[j] + 1 > end[j] ? at[j] + 1 : end[j];
			}
		}
	}
	uint32_t once = plan.scenes - 3 * thrice;
	require_equal(once + thrice, plan.chosen);
	require(once > 25 && thrice > 30, "%u scenes once, %u three times", once, thrice);
	require(end[0] <= begin[1] && end[1] <= begin[2], "thirds overlap");
	for (uint32_t j = 0; j < 3; j++) {
		uint32_t from = j == 0 ? 0 : end[j - 1], to = j == 2 ? plan.scenes : begin[j + 1];
		require(to - from >= thrice + once / 6, "third %u has %u of %u scenes", j + 1,
			to - from, plan.scenes);
	}
	free_plan(&plan);
}

/* The scenes of single prompts behind nothing: in each third all lengths, shortest first, between
   them those of the usual lengths that take 3 to 150 ms behind a rest, but not in the hot third. */
Test(calibrate_plan, prompts_are_measured_rested_and_hot)
{
	static const uint32_t rested[] = {
		768, 1023, 1024, 1025, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384};
	enum { RESTED = sizeof(rested) / sizeof(rested[0]), LENGTHS = 71 };
	struct plan plan;
	struct played scenes[SCENES_MOST];
	uint32_t found = 0;

	make_plan(&plan, 3);
	list_scenes(&plan, scenes);
	for (uint32_t begin = 0, end; begin < plan.count; begin = end) {
		uint32_t lengths = 0, rests = 0, latest = 0;
		bool is_hot = false, is_behind_rest = false;
		end = scene_end(&plan, begin);
		uint32_t i = begin;
		while (i < end && is_prelude(&plan.rows[i], &is_hot)) {
			i++;
		}
		if (end - i < LENGTHS || plan.rows[i].input != 1 || plan.rows[i].stored > 0) {
			continue;
		}
		is_hot = scenes[plan.rows[i].scene - 1].is_hot;
		for (; i < end; i++) {
			const struct row *row = &plan.rows[i];
			if (is_rest(row)) {
				require(!is_hot && !is_behind_rest,
					"two rests, or one of a hot GPU");
				is_behind_rest = true;
				continue;
			}
			require(row->input > latest && row->stored == 0 && row->output == 1,
				"%u tokens behind %u", row->input, latest);
			if (is_behind_rest) {
				require(rests < RESTED && row->input == rested[rests],
					"%u tokens are rested", row->input);
				rests++;
			}
			latest = row->input;
			is_behind_rest = false;
			lengths++;
		}
		require_equal(lengths, LENGTHS);
		require_equal(rests, is_hot ? 0 : RESTED);
		found++;
	}
	require_equal(found, 3);
	free_plan(&plan);
}

/* Which of the scenes of as many rows is first or last is drawn. */
Test(calibrate_plan, the_order_is_drawn_by_the_seed)
{
	enum { SEEDS = 24 };
	uint32_t first[SEEDS], last[SEEDS], firsts = 0, lasts = 0;

	for (uint32_t seed = 0; seed < SEEDS; seed++) {
		struct plan plan;
		struct played scenes[SCENES_MOST];
		bool has_first = false, has_last = false;
		make_plan(&plan, seed);
		list_scenes(&plan, scenes);
		first[seed] = scenes[0].rows;
		last[seed] = scenes[plan.scenes - 1].rows;
		for (uint32_t i = 0; i < seed; i++) {
			has_first |= first[i] == first[seed];
			has_last |= last[i] == last[seed];
		}
		firsts += !has_first;
		lasts += !has_last;
		free_plan(&plan);
	}
	require(firsts >= SEEDS / 3 && lasts >= SEEDS / 3,
		"%u first scenes and %u last ones of %u seeds", firsts, lasts, (uint32_t)SEEDS);
}

Test(calibrate_plan, the_same_seed_gives_the_same_bytes)
{
	char path[TEMPORARY_PATH_BYTES + 32];
	struct plan plan;
	size_t bytes, again;

	snprintf(path, sizeof(path), "%s/plan.jsonl", folder);
	make_plan(&plan, 5);
	char *text = file_read(path, &bytes);
	free_plan(&plan);
	make_plan(&plan, 5);
	char *same = file_read(path, &again);
	require(bytes == again && memcmp(text, same, bytes) == 0, "two plans of a seed differ");
	free_plan(&plan);
	free(same);
	free(text);
}
