#include "bench/gate/decision_trail.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/integer.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* The trail of a run's decisions, against the steps themselves. */

enum { STEPS_MAX = 40000 };

struct made_run {
	uint32_t step_count;
	uint8_t rows[STEPS_MAX]; /* a decision of each step */
};

static void write_run(const struct made_run *run, uint32_t time, const char *path)
{
	FILE *file = fopen(path, "w");

	require(file != NULL, "%s", path);
	fputs("step\tstart_ns\tdecode_rows\twaiting\n", file);
	for (uint32_t i = 0; i < run->step_count; i++) {
		fprintf(file, "%u\t%u\t%u\t%u\n", i, i * time, run->rows[i], time);
	}
	fclose(file);
}

static void read_run(
	struct decision_trail *trail, const struct made_run *run, uint32_t time, const char *path)
{
	struct error error = {0};

	write_run(run, time, path);
	enum status status = decision_trail_read(trail, path, &error);
	require(status == STATUS_OK, "%s", error.text);
	require_equal(trail->step_count, run->step_count);
	require(trail->count == trail->step_count / trail->stride &&
			trail->count <= TRAIL_CHECKPOINTS_MAX &&
			(trail->stride == 1 || trail->count >= TRAIL_CHECKPOINTS_MAX / 2),
		"%u checkpoints of %u steps, %u apart", trail->count, run->step_count,
		(unsigned)trail->stride);
}

/* As a baseline keeps it. */
static void read_again(struct decision_trail *out, const struct decision_trail *trail)
{
	struct error error = {0};
	cJSON *json = decision_trail_to_json(trail);
	struct json_document document = {.name = "baseline", .root = json};
	struct json_object object = {.document = &document, .node = json};

	enum status status = decision_trail_from_json(out, &object, &error);
	require(status == STATUS_OK, "%s", error.text);
	cJSON_Delete(json);
}

/* The second run differs from one step on, or ends earlier or later, or is equal. The interval is
   one stride, or all behind the last checkpoint of both. */
static void parting_body(struct prop *prop, const void *context)
{
	static struct made_run a, b;
	const char *folder = context;
	char path[TEMPORARY_PATH_BYTES + 16];
	struct decision_trail a_trail, b_trail, kept;
	uint64_t first = UINT64_MAX, end = 0;

	a.step_count = prop_range(prop, 1, prop_chance(prop, 1, 4) ? STEPS_MAX : 300);
	for (uint32_t i = 0; i < a.step_count; i++) {
		a.rows[i] = (uint8_t)(i * 7);
	}
	b = a;
	uint32_t parting = prop_chance(prop, 1, 4) ? 0 : prop_range(prop, 0, a.step_count - 1);
	bool is_changed = prop_chance(prop, 1, 2), is_shorter = prop_chance(prop, 1, 3);
	if (is_changed) {
		b.rows[parting]++;
	}
	if (is_shorter && !is_changed) {
		b.step_count = parting;
	}
	prop_log(prop, "%u steps, %u in b, changed %d at %u\n", a.step_count, b.step_count,
		is_changed, parting);
	snprintf(path, sizeof(path), "%s/steps.tsv", folder);
	read_run(&a_trail, &a, 1, path);
	read_run(&b_trail, &b, 2, path);
	read_again(&kept, &a_trail);

	bool is_parted = decision_trail_part(&kept, &b_trail, &first, &end);
	require_equal(is_parted, is_changed || b.step_count != a.step_count);
	require(!is_parted || (first <= parting && parting < end), "[%u, %u) without %u",
		(unsigned)first, (unsigned)end, parting);
	uint64_t stride = u64_max(kept.stride, b_trail.stride);
	bool is_behind = end == u64_max(a.step_count, b.step_count) &&
			 first + stride > u64_min(a.step_count, b.step_count);
	require(!is_parted || end - first == stride || is_behind, "[%u, %u) of strides of %u",
		(unsigned)first, (unsigned)end, (unsigned)stride);
	require(a_trail.times != b_trail.times, "the times have equal hashes");
	decision_trail_close(&a_trail);
	decision_trail_close(&b_trail);
	decision_trail_close(&kept);
}

Test(decision_trail, the_step_where_two_runs_part_lies_in_the_interval)
{
	char folder[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	const struct prop_options options = {
		.name = "parting", .body = parting_body, .context = folder, .trials = 60};
	require(prop_holds(&options), "a trail is wrong");
	temporary_remove(folder);
}

Test(decision_trail, a_damaged_baseline_is_refused)
{
	static const char *const texts[] = {
		"{\"steps\": 4, \"stride\": 2, \"decisions\": \"0123456789abcdef\","
		" \"times\": \"0123456789abcdef\", \"checkpoints\": \"0011223344556677\"}",
		"{\"steps\": 4, \"stride\": 3, \"decisions\": \"0123456789abcdef\","
		" \"times\": \"0123456789abcdef\", \"checkpoints\": \"00112233\"}",
		"{\"steps\": 4, \"stride\": 2, \"decisions\": \"0123456789abcdef\","
		" \"times\": \"0123456789abcdef\", \"checkpoints\": \"00112233\"}",
		"{\"steps\": 4, \"stride\": 2, \"decisions\": \"0123456789abcde\","
		" \"times\": \"0123456789abcdef\", \"checkpoints\": \"0011223344556677\"}",
		"{\"steps\": 4, \"stride\": 2, \"decisions\": \"0123456789abcdef\","
		" \"times\": \"0123456789abcdef\", \"checkpoints\": \"001122334455667g\"}",
		"{\"steps\": 9007199254740991, \"stride\": 1, \"decisions\": \"0123456789abcdef\","
		" \"times\": \"0123456789abcdef\", \"checkpoints\": \"\"}",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct error error = {0};
		struct json_document document;
		struct json_object object;
		struct decision_trail trail;
		require(json_document_parse(&document, "b", texts[i], strlen(texts[i]), &error) ==
				STATUS_OK,
			"%s", error.text);
		json_root(&object, &document, &error);
		enum status status = decision_trail_from_json(&trail, &object, &error);
		require((status == STATUS_OK) == (i == 0), "text %zu: %s", i, error.text);
		decision_trail_close(&trail);
		json_document_close(&document);
	}
}
