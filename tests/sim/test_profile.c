#include "sim/profile.h"

#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/files.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

static char folder[TEMPORARY_PATH_BYTES];

static void set_up(void)
{
	temporary_folder(folder);
}

static void tear_down(void)
{
	temporary_remove(folder);
}

TestSuite(profile_file, .init = set_up, .fini = tear_down);

static enum status read_back(
	const cJSON *root, const char *name, struct gpu_profile *out, struct error *error)
{
	char path[TEMPORARY_PATH_BYTES];
	char *text = cJSON_Print(root);

	*error = (struct error){0};
	temporary_write(folder, name, text, path);
	enum status status = gpu_profile_find(path, out, error);
	free(text);
	return status;
}

/* The expected range where the number is far below all ranges, and whether it may be missing. */
static void note_number(FILE *out, cJSON *root, cJSON *parent, cJSON *number, const char *path)
{
	struct gpu_profile gpu;
	struct error error;
	double value = number->valuedouble;

	cJSON_SetNumberValue(number, -1e300);
	enum status status = read_back(root, "p.json", &gpu, &error);
	const char *expected = strstr(error.text, "expected a");
	fprintf(out, "%s: %s", path, status == STATUS_OK ? "anything" : expected);
	cJSON_SetNumberValue(number, value);

	char *name = strdup(number->string);
	cJSON *taken = cJSON_DetachItemViaPointer(parent, number);
	status = read_back(root, "p.json", &gpu, &error);
	require(status == STATUS_OK || strstr(error.text, "found nothing") != NULL, "%s",
		error.text);
	fprintf(out, "%s\n", status == STATUS_OK ? ", or nothing" : "");
	cJSON_AddItemToObject(parent, name, taken);
	free(name);
}

/* What the fit left of its own points is for readers: quire does not read it. */
static void note_numbers(FILE *out, cJSON *root, cJSON *object, const char *path)
{
	cJSON *children[64], *child = NULL;
	size_t count = 0;

	cJSON_ArrayForEach(child, object)
	{
		require(count < 64, "many fields");
		children[count++] = child;
	}
	for (size_t i = 0; i < count; i++) {
		char inner[256];
		snprintf(inner, sizeof(inner), "%s%s%s", path, path[0] == '\0' ? "" : ".",
			children[i]->string);
		if (cJSON_IsObject(children[i])) {
			note_numbers(out, root, children[i], inner);
		} else if (cJSON_IsNumber(children[i]) && strstr(inner, ".fitted.") == NULL) {
			note_number(out, root, object, children[i], inner);
		}
	}
}

static void require_ranges(const char *name, const char *expected)
{
	char path[256], *found = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&found, &size);

	snprintf(path, sizeof(path), QUIRE_SOURCE_DIR "/sim/profiles/%s.json", name);
	char *text = file_read(path, NULL);
	cJSON *root = cJSON_Parse(text);
	note_numbers(out, root, root, "");
	fclose(out);
	require(strcmp(found, expected) == 0, "found\n%s", found);
	cJSON_Delete(root);
	free(text);
	free(found);
}

Test(profile_file, each_number_of_a_data_sheet_has_its_range)
{
	require_ranges("h200-datasheet",
		"numbers.memory_bytes.value: expected a number in [1e+06, 1e+15]\n"
		"numbers.context_bytes.value: expected a number in [0, 1e+12]\n"
		"numbers.memory_rate.value: expected a number in [1, 1e+06]\n"
		"numbers.product_sustained.value: expected a number in [0.01, 1]\n"
		"numbers.decode_attention_fixed.value: expected a number in [0, 1e+09]\n"
		"numbers.decode_attention_row.value: expected a number in [0, 1e+09]\n"
		"numbers.decode_attention_rate.value: expected a number in [1, 1e+06]\n"
		"numbers.prefill_attention_fixed.value: expected a number in [0, 1e+09]\n"
		"numbers.prefill_attention_token.value: expected a number in [0, 1e+09]\n"
		"numbers.prefill_attention_rate.value: expected a number in [0.1, 1e+06]\n"
		"numbers.elementwise_fixed.value: expected a number in [0, 1e+09]\n"
		"numbers.sampling_fixed.value: expected a number in [0, 1e+09]\n"
		"numbers.sampling_rate.value: expected a number in [0.01, 1e+06]\n"
		"numbers.step_fixed.value: expected a number in [0, 1e+09]\n"
		"numbers.host_fixed.value: expected a number in [0, 1e+09]\n"
		"numbers.host_row.value: expected a number in [0, 1e+09]\n"
		"limits.read_rate.value: expected a number in [1, 1e+06]\n"
		"limits.flop_rate.value: expected a number in [0.1, 1e+06]\n"
		"limits.multiprocessors.value: expected a number in [1, 4096]\n"
		"link.link_fixed.value: expected a number in [0, 1e+09]\n"
		"link.link_rank.value: expected a number in [0, 1e+09]\n"
		"link.link_rate.value: expected a number in [0.1, 1e+06]\n"
		"link.host_rank.value: expected a number in [0, 1e+09]\n"
		"products.qkv.floor.value: expected a number in [0, 1e+09]\n"
		"products.qkv.memory_rate.value: expected a number in [1, 1e+06]\n"
		"products.qkv.flop_rate.value: expected a number in [0.1, 1e+06]\n"
		"products.o.floor.value: expected a number in [0, 1e+09]\n"
		"products.o.memory_rate.value: expected a number in [1, 1e+06]\n"
		"products.o.flop_rate.value: expected a number in [0.1, 1e+06]\n"
		"products.gate_up.floor.value: expected a number in [0, 1e+09]\n"
		"products.gate_up.memory_rate.value: expected a number in [1, 1e+06]\n"
		"products.gate_up.flop_rate.value: expected a number in [0.1, 1e+06]\n"
		"products.down.floor.value: expected a number in [0, 1e+09]\n"
		"products.down.memory_rate.value: expected a number in [1, 1e+06]\n"
		"products.down.flop_rate.value: expected a number in [0.1, 1e+06]\n"
		"products.lm_head.floor.value: expected a number in [0, 1e+09]\n"
		"products.lm_head.memory_rate.value: expected a number in [1, 1e+06]\n"
		"products.lm_head.flop_rate.value: expected a number in [0.1, 1e+06]\n");
}

/* A profile says how far cards are from the mean of those measured, or not. */
Test(profile_file, the_spread_of_cards_is_read)
{
	static const struct {
		const char *text, *fault; /* NULL: none */
		double spread;
	} cases[] = {
		{"\"card_spread\": \"0.025\",", NULL, 0.025},
		{"", NULL, 0},
		{"\"card_spread\": \"0.500000\",", NULL, 0.5},
		{"\"card_spread\": \"0.500001\",", "field calibration.card_spread", 0},
		{"\"card_spread\": \"-0.1\",", "field calibration.card_spread", 0},
		{"\"card_spread\": 0.1,", "field calibration.card_spread", 0},
	};
	static const char where[] = "\"calibration\":\t{";
	char path[TEMPORARY_PATH_BYTES];
	char *whole = file_read(QUIRE_SOURCE_DIR "/tests/fixtures/calibrated_profile.json", NULL);
	char *behind = strstr(whole, where);
	size_t bytes = strlen(whole) + 64;
	char *text = malloc(bytes);

	require(behind != NULL, "no calibration");
	behind += strlen(where);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct gpu_profile profile;
		struct error error = {0};
		snprintf(text, bytes, "%.*s%s%s", (int)(behind - whole), whole, cases[i].text,
			behind);
		temporary_write(folder, "p.json", text, path);
		enum status status = gpu_profile_find(path, &profile, &error);
		require(status == (cases[i].fault == NULL ? STATUS_OK : STATUS_INPUT), "%s: %s",
			cases[i].text, error.text);
		if (cases[i].fault == NULL) {
			require(fabs(profile.card_spread - cases[i].spread) < 1e-12, "%g",
				profile.card_spread);
		} else {
			require(strstr(error.text, cases[i].fault) != NULL, "%s", error.text);
		}
	}
	free(text);
	free(whole);
}

Test(profile_file, each_number_of_a_calibrated_profile_has_its_range)
{
	require_ranges("h200-vllm-qwen3-0.6b",
		"tensor_parallel_size: expected an integer in [1, 8], or nothing\n"
		"memory.memory_bytes: expected a number in [1e+06, 1e+15]\n"
		"memory.context_bytes: expected a number in [0, 1e+12]\n"
		"memory.engine_bytes: expected a number in [1, 1e+12], or nothing\n"
		"engine_process.step_ns: expected a number in [0, 1e+09]\n"
		"engine_process.row_ns: expected a number in [0, 1e+09]\n"
		"residuals.held_out.points: expected an integer in [0, 4294967295]\n"
		"residuals.held_out.mean: expected a number in [0, 1e+15]\n"
		"residuals.held_out.p50: expected a number in [0, 1e+15]\n"
		"residuals.held_out.p90: expected a number in [0, 1e+15]\n"
		"residuals.held_out.p99: expected a number in [0, 1e+15]\n"
		"residuals.held_out.max: expected a number in [0, 1e+15]\n"
		"residuals.held_out.bias: expected a number in [-1e+15, 1e+15]\n"
		"limits.read_rate.value: expected a number in [1, 1e+06]\n"
		"limits.flop_rate.value: expected a number in [0.1, 1e+06]\n"
		"limits.multiprocessors.value: expected a number in [1, 4096]\n"
		"shape.hidden_size: expected an integer in [1, 16777216]\n"
		"shape.num_hidden_layers: expected an integer in [1, 16777216]\n"
		"shape.num_attention_heads: expected an integer in [1, 16777216]\n"
		"shape.num_key_value_heads: expected an integer in [1, 16777216]\n"
		"shape.head_dim: expected an integer in [1, 16777216]\n"
		"shape.intermediate_size: expected an integer in [1, 16777216]\n"
		"shape.vocab_size: expected an integer in [1, 16777216]\n"
		"hull.largest.decode_rows: expected an integer in [0, 9007199254740992]\n"
		"hull.largest.prefill_rows: expected an integer in [0, 9007199254740992]\n"
		"hull.largest.prefill_tokens: expected an integer in [0, 9007199254740992]\n"
		"hull.largest.decode_context_tokens: expected an integer in [0, 9007199254740992]\n"
		"hull.largest.decode_longest_context: expected an integer in [0, "
		"9007199254740992]\n"
		"hull.largest.prefill_attention_pairs: expected an integer in [0, "
		"9007199254740992]\n"
		"hull.largest.prefill_longest_context: expected an integer in [0, "
		"9007199254740992]\n"
		"hull.largest.sampled_rows: expected an integer in [0, 9007199254740992]\n"
		"hull.largest.shared_tokens: expected an integer in [0, 9007199254740992]\n");
}

/* A name is that of the file, or as much of it as there is room for. */
Test(profile_file, a_long_name_is_cut)
{
	for (size_t length = 1; length < 2 * GPU_PROFILE_NAME_BYTES; length++) {
		char path[TEMPORARY_PATH_BYTES], name[256];
		struct gpu_profile gpu;
		struct error error;
		memset(name, 'n', length);
		strcpy(name + length, ".json");
		char *text = file_read(QUIRE_SOURCE_DIR "/sim/profiles/a100-datasheet.json", NULL);
		temporary_write(folder, name, text, path);
		error = (struct error){0};
		require(gpu_profile_find(path, &gpu, &error) == STATUS_OK, "%s", error.text);
		size_t kept = length < GPU_PROFILE_NAME_BYTES ? length : GPU_PROFILE_NAME_BYTES - 1;
		require_equal(strnlen(gpu.name, sizeof(gpu.name)), kept);
		free(text);
	}
}

/* ---- the hash of a profile ---- */

enum { HASHES_MAX = 2000 };

struct hashes {
	cJSON *root;
	uint32_t count;
	uint64_t values[HASHES_MAX];
};

static bool add_hash_of(struct hashes *hashes)
{
	struct gpu_profile gpu;
	struct error error;

	if (read_back(hashes->root, "p.json", &gpu, &error) != STATUS_OK) {
		return false;
	}
	for (uint32_t i = 0; i < hashes->count; i++) {
		require(hashes->values[i] != gpu.xxh64, "hashes %u and %u are equal", i,
			hashes->count);
	}
	require(hashes->count < HASHES_MAX, "many hashes");
	hashes->values[hashes->count++] = gpu.xxh64;
	return true;
}

/* With each leaf changed in turn, a number by a millionth and a text by a letter, where the profile
   is still accepted. */
static void add_hashes_of_leaves(struct hashes *hashes, cJSON *parent)
{
	cJSON *node = NULL;

	cJSON_ArrayForEach(node, parent)
	{
		if (cJSON_IsObject(node) || cJSON_IsArray(node)) {
			add_hashes_of_leaves(hashes, node);
		} else if (cJSON_IsNumber(node)) {
			double value = node->valuedouble;
			cJSON_SetNumberValue(node, value == 0 ? 1e-6 : value * (1 - 1e-6));
			(void)add_hash_of(hashes);
			cJSON_SetNumberValue(node, value);
		} else if (cJSON_IsString(node)) {
			char *text = node->valuestring, longer[512];
			snprintf(longer, sizeof(longer), "%s!", text);
			node->valuestring = longer;
			(void)add_hash_of(hashes);
			node->valuestring = text;
		}
	}
}

/* A field that quire does not read counts too: its name, its kind and where it is. */
static void add_hashes_of_fields(struct hashes *hashes)
{
	static const char *const notes[] = {"1", "2", "\"1\"", "true", "false", "null", "[]", "{}",
		"[1,2]", "[2,1]", "[[1],2]", "[[1,2]]", "{\"a\":1}", "{\"b\":1}", "{\"a\":\"b\"}",
		"{\"a\":{},\"b\":1}", "{\"a\":{\"b\":1}}"};

	for (size_t i = 0; i < 2 * (sizeof(notes) / sizeof(notes[0])); i++) {
		const char *name = i % 2 == 0 ? "note" : "nota";
		cJSON_AddItemToObject(hashes->root, name, cJSON_Parse(notes[i / 2]));
		require(add_hash_of(hashes), "refused with %s", notes[i / 2]);
		cJSON_DeleteItemFromObject(hashes->root, name);
	}
}

static void require_own_hashes(const char *path, uint32_t least)
{
	static struct hashes hashes;
	struct gpu_profile plain, dense;
	char *text = file_read(path, NULL), name[TEMPORARY_PATH_BYTES];
	struct error error = {0};

	hashes = (struct hashes){.root = cJSON_Parse(text)};
	require(add_hash_of(&hashes), "the profile is refused");
	add_hashes_of_leaves(&hashes, hashes.root);
	add_hashes_of_fields(&hashes);
	require(hashes.count >= least, "only %u profiles", hashes.count);
	free(text);
	text = cJSON_PrintUnformatted(hashes.root);
	temporary_write(folder, "dense.json", text, name);
	require(gpu_profile_find(path, &plain, &error) == STATUS_OK &&
			gpu_profile_find(name, &dense, &error) == STATUS_OK,
		"%s", error.text);
	require_equal(plain.xxh64, dense.xxh64);
	require_equal(plain.xxh64, hashes.values[0]);
	cJSON_Delete(hashes.root);
	free(text);
}

/* Results and baselines name a profile by its hash: wherever two differ but in blanks, so do their
   hashes. */
Test(profile_file, each_value_is_part_of_the_hash, .timeout = 120)
{
	require_own_hashes(QUIRE_SOURCE_DIR "/sim/profiles/h200-datasheet.json", 110);
	require_own_hashes(QUIRE_SOURCE_DIR "/tests/fixtures/calibrated_profile.json", 250);
}
