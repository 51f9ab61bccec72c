#include "engine/window.h"

#include <criterion/criterion.h>
#include <string.h>

#include "tests/harness/property.h"
#include "tests/harness/require.h"

/* Compares the decode window with an inspection of every sequence before every pass. */

enum { SEQUENCES = 60, PASSES = 200 };

struct scene {
	struct prop *prop;
	struct decode_window window;
	struct sequence_queue running;
	struct sequence sequences[SEQUENCES];
	uint32_t added;
};

/* A sequence whose prompt is computed and whose first token is sampled. */
static void add_sequence(struct scene *scene)
{
	struct sequence *sequence = &scene->sequences[scene->added];

	*sequence = (struct sequence){
		.prompt_count = prop_range(scene->prop, 1, 20),
		.max_tokens = prop_range(scene->prop, 2, 40),
		.status = SEQUENCE_RUNNING,
		.admission = scene->added++,
		.is_prompt_computed = true,
	};
	sequence->computed_count = sequence->prompt_count;
	sequence->token_count = sequence->prompt_count + 1;
	queue_push_back(&scene->running, sequence);
	window_join(&scene->window, sequence);
}

static struct sequence settled(const struct scene *scene, const struct sequence *sequence)
{
	struct sequence copy = *sequence;

	sequence_settle(&copy, scene->window.clock);
	return copy;
}

/* Whether in the next pass its last token begins a block, fills one, or is the last but one. */
static bool is_due(const struct scene *scene, const struct sequence *sequence)
{
	struct sequence now = settled(scene, sequence);
	uint32_t block_size = scene->window.block_size;

	return (now.token_count - 1) % block_size == 0 || now.token_count % block_size == 0 ||
	       sequence_completion_count(&now) + 1 == now.max_tokens;
}

static void require_same(struct scene *scene, uint32_t due_count)
{
	struct decode_window *window = &scene->window;
	uint64_t context = 0;
	uint32_t count = 0, longest = 0, due = 0;

	for (const struct sequence *s = scene->running.head; s != NULL; s = s->next) {
		bool is_inside = count < window->max_count;
		require_equal(s->is_decoding, is_inside);
		if (!is_inside) {
			continue;
		}
		struct sequence now = settled(scene, s);
		count++;
		context += now.token_count;
		longest = now.token_count > longest ? now.token_count : longest;
		if (is_due(scene, s)) {
			require(due < due_count && window->due[due] == s,
				"sequence %u is not collected, or not in order",
				(unsigned)s->admission);
			due++;
		}
	}
	require_equal(due, due_count);
	require_equal(window->count, count);
	require_equal(window->context, context);
	require_equal(window_longest_context(window, &scene->running), longest);
}

static void leave(struct scene *scene, struct sequence *sequence)
{
	window_leave(&scene->window, sequence);
	queue_remove(&scene->running, sequence);
}

static void pass(struct scene *scene)
{
	struct decode_window *window = &scene->window;
	uint32_t due_count = window_has_due(window) ? window_collect_due(window) : 0;

	require_same(scene, due_count);
	window_advance(window);
	for (uint32_t i = 0; i < due_count; i++) {
		struct sequence *sequence = window->due[i];
		sequence_settle(sequence, window->clock);
		if (sequence_completion_count(sequence) == sequence->max_tokens) {
			leave(scene, sequence);
		} else {
			window_refile(window, sequence);
		}
	}
}

static void body_window(struct prop *prop, const void *context)
{
	static struct scene scene;
	(void)context;

	memset(&scene, 0, sizeof(scene));
	scene.prop = prop;
	window_init(&scene.window, prop_range(prop, 1, 8), prop_range(prop, 1, 9), 1);
	for (uint32_t i = 0; i < PASSES; i++) {
		while (scene.added < SEQUENCES && prop_chance(prop, 1, 4)) {
			add_sequence(&scene);
		}
		if (scene.running.tail != NULL && prop_chance(prop, 1, 10)) {
			leave(&scene, scene.running.tail);
		}
		window_extend(&scene.window, &scene.running);
		window_check(&scene.window, &scene.running);
		pass(&scene);
	}
	window_deinit(&scene.window);
}

Test(window, visits_the_sequences_that_need_something_and_no_others)
{
	struct prop_options options = {.name = "window", .body = body_window, .trials = 2000};

	cr_assert(prop_holds(&options));
}

Test(window, an_empty_window_has_no_context)
{
	struct decode_window window;
	const struct sequence_queue running = {.head = NULL};

	window_init(&window, 4, 16, 1);
	window_extend(&window, &running);
	cr_assert_eq(window_longest_context(&window, &running), 0);
	cr_assert_not(window_has_due(&window));
	cr_assert_eq(window_collect_all(&window, &running), 0);
	window_check(&window, &running);
	window_deinit(&window);
}

static struct sequence beginning_a_block(uint64_t admission)
{
	return (struct sequence){.prompt_count = 4,
		.computed_count = 4,
		.token_count = 5,
		.max_tokens = 9,
		.status = SEQUENCE_RUNNING,
		.admission = admission,
		.is_prompt_computed = true};
}

/* However many are due at once, and in whatever order they joined. */
Test(window, many_due_sequences_come_in_the_order_of_their_admission)
{
	static const uint32_t counts[] = {1, 2, 3, 63, 64, 65, 66, 200};
	struct sequence sequences[200];

	for (uint32_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
		struct decode_window window;
		window_init(&window, counts[c], 4, 1);
		for (uint32_t i = 0; i < counts[c]; i++) {
			uint64_t place = (uint64_t)i * 101 % counts[c];
			sequences[i] = beginning_a_block(place << 30);
			window_join(&window, &sequences[i]);
		}
		require_equal(window_collect_due(&window), counts[c]);
		for (uint32_t i = 0; i < counts[c]; i++) {
			require_equal(window.due[i]->admission, (uint64_t)i << 30);
		}
		window_deinit(&window);
	}
}

/* Those that are due come in order of their admission, however many there have been. */
Test(window, due_sequences_come_in_the_order_of_any_number_of_admissions)
{
	static const uint64_t admissions[] = {0, 1, 255, 256, 65535, 65536, 65537, 131071, 131072,
		UINT64_C(0x7fffffff), UINT64_C(0x80000000), UINT64_C(0xffffffff),
		UINT64_C(0x100000000), UINT64_C(0x100000001), UINT64_C(0x8000000000000000),
		UINT64_MAX};
	enum { COUNT = sizeof(admissions) / sizeof(admissions[0]) };
	struct sequence sequences[COUNT];
	struct decode_window window;
	struct sequence_queue running = {0};

	window_init(&window, COUNT, 4, 1);
	for (uint32_t i = 0; i < COUNT; i++) {
		sequences[i] = beginning_a_block(admissions[i]);
		queue_push_back(&running, &sequences[i]);
		window_join(&window, &sequences[i]);
	}
	require_equal(window_collect_due(&window), COUNT);
	for (uint32_t i = 0; i < COUNT; i++) {
		require_equal(window.due[i]->admission, admissions[i]);
	}
	window_deinit(&window);
}
