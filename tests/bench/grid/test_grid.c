#include "bench/grid/grid.h"
#include "bench/grid/grid_words.h"

#include "engine/base/number.h"
#include "engine/base/text.h"

#include "tests/harness/property.h"
#include "tests/harness/require.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(grid, .timeout = 60);

static void open_grid(struct grid *grid, const char *text, const struct option_texts *tries)
{
	struct replay_config base;
	struct error error = {0};

	replay_config_default(&base);
	require(grid_open(grid, text, tries, &base, &error) == STATUS_OK, "%s", error.text);
}

static struct replay_config applied(const struct grid *grid, uint32_t index)
{
	struct replay_config config;

	replay_config_default(&config);
	configuration_apply(&grid->list[index], &config);
	return config;
}

/* Every text of up to six characters: a word ends at the first separator without a backslash of
   its own before it, and a backslash stands for the character behind it. */
Test(grid, words_end_at_separators_that_are_not_escaped)
{
	static const char letters[] = "a,\\ ";
	enum { LETTERS = 4, BYTES_MAX = 6 };

	for (uint32_t bytes = 0, texts = 1; bytes <= BYTES_MAX; bytes++, texts *= LETTERS) {
		for (uint32_t n = 0; n < texts; n++) {
			char text[BYTES_MAX + 2], plain[BYTES_MAX + 1] = "";
			size_t end = 0, used = 0;
			for (uint32_t i = 0, rest = n; i < bytes; i++, rest /= LETTERS) {
				text[i] = letters[rest % LETTERS];
			}
			text[bytes] = ','; /* behind the text, and no part of it */
			text[bytes + 1] = '\0';
			for (bool is_escaped = false; end < bytes; end++) {
				if (!is_escaped && text[end] == ',') {
					break;
				}
				is_escaped = !is_escaped && text[end] == '\\';
				bool is_kept = !is_escaped || end + 1 == bytes;
				plain[used] = text[end];
				used += is_kept;
			}
			plain[used] = '\0';
			require_equal(grid_words_until(text, bytes, ','), end);
			if (end == bytes && strchr(plain, ' ') == NULL) {
				char *value = grid_words_value(text, bytes);
				cr_assert_str_eq(value, plain);
				free(value);
			}
		}
	}
}

/* Blanks, tabs and line breaks around the words of --grid and --try say nothing, wherever they
   stand and however many there are. */
Test(grid, any_blanks_stand_between_words)
{
	static const char *const blanks[] = {" ", "\t", "\n", "\n\n", " \n\t", "\t \n "};
	static const char *const edges[] = {"", " ", "\t", "\n", "\n\t "};
	enum { BLANKS = sizeof(blanks) / sizeof(blanks[0]) };
	enum { EDGES = sizeof(edges) / sizeof(edges[0]) };

	for (uint32_t n = 0; n < BLANKS * EDGES; n++) {
		const char *blank = blanks[n % BLANKS], *edge = edges[n / BLANKS];
		char text[256], try_text[256];
		const struct option_texts tries = {.count = 1, .list = {try_text}};
		struct grid grid;
		snprintf(text, sizeof(text),
			"%sgpu%s=%sh200%s,%sh100%s;%smax-num-seqs%s=%s1:4:x2%s", edge, edge, blank,
			edge, blank, blank, edge, blank, edge, blank);
		snprintf(try_text, sizeof(try_text),
			"%s--policy%svllm%s--spread-ties%s-tp%s2%s--router-option%s'a  b'%s", edge,
			blank, blank, blank, blank, blank, blank, edge);
		open_grid(&grid, text, &tries);
		require_equal(grid.count, 7);
		cr_assert_str_eq(grid.list[0].options, "--gpu h200 --max-num-seqs 1");
		cr_assert_str_eq(grid.list[5].options, "--gpu h100 --max-num-seqs 4");
		const struct replay_config config = applied(&grid, 6);
		cr_assert_str_eq(config.router_option, "a  b");
		require(config.policy == 2 && config.spread_ties &&
				config.tensor_parallel_size == 2,
			"other options: %s", grid.list[6].options);
		grid_close(&grid);
	}
}

/* Every option, whatever its neighbours in struct replay_config are. */
Test(grid, a_configuration_sets_its_own_options_alone)
{
	enum { OTHER = 0x5a };
	const struct option *rows = replay_options.rows;

	for (uint32_t i = 0; i < replay_options.count; i++) {
		struct configuration configuration = {.name = "one"};
		struct replay_config config;
		const unsigned char *bytes = (const unsigned char *)&config;
		*(bool *)((char *)&configuration.own + rows[i].given_offset) = true;
		memset(&config, OTHER, sizeof(config));
		configuration_apply(&configuration, &config);
		for (uint32_t j = 0; j < replay_options.count; j++) {
			require(bytes[rows[j].offset] == (j == i ? 0 : OTHER),
				"--%s changes the value of --%s", rows[i].name, rows[j].name);
			require(bytes[rows[j].given_offset] == (j == i ? 1 : OTHER),
				"--%s gives --%s", rows[i].name, rows[j].name);
		}
	}
}

Test(grid, the_last_option_varies_fastest)
{
	static const char *const names[] = {"gpu=h200,max-num-seqs=128",
		"gpu=h200,max-num-seqs=256", "gpu=h100,max-num-seqs=128",
		"gpu=h100,max-num-seqs=256"};
	struct grid grid;

	open_grid(&grid, "gpu=h200,h100; policy = vllm ;max-num-seqs=128, 256", NULL);
	require_equal(grid.count, 4);
	require_equal(grid.parameter_count, 3);
	for (uint32_t i = 0; i < 4; i++) {
		const struct replay_config config = applied(&grid, i);
		require(strcmp(grid.list[i].name, names[i]) == 0, "%s", grid.list[i].name);
		require(strcmp(config.gpu, i < 2 ? "h200" : "h100") == 0, "%s", config.gpu);
		require_equal(config.max_num_seqs, i % 2 == 0 ? 128 : 256);
		require_equal(config.policy, 2);
		require(config.given.gpu && config.given.policy && config.given.max_num_seqs,
			"not given");
		require(!config.given.kv_blocks, "given");
		require_equal(grid.list[i].values[0], i / 2);
		require_equal(grid.list[i].values[2], i % 2);
	}
	require(strcmp(grid.list[3].options, "--gpu h100 --policy vllm --max-num-seqs 256") == 0,
		"%s", grid.list[3].options);
	grid_close(&grid);
}

Test(grid, tries_come_behind_and_base_is_one)
{
	const struct option_texts tries = {.count = 4,
		.list = {"base", "--policy vllm --spread-ties", "-tp 2",
			"--router-option 'a=1,b=2'"}};
	struct grid grid;

	open_grid(&grid, "kv-blocks=100", &tries);
	require_equal(grid.count, 5);
	require(strcmp(grid.list[0].name, "kv-blocks=100") == 0, "%s", grid.list[0].name);
	require(strcmp(grid.list[1].name, "base") == 0, "%s", grid.list[1].name);
	require(strcmp(grid.list[2].name, "policy=vllm,spread-ties=on") == 0, "%s",
		grid.list[2].name);
	require(strcmp(grid.list[3].options, "--tensor-parallel-size 2") == 0, "%s",
		grid.list[3].options);
	require(strcmp(applied(&grid, 4).router_option, "a=1,b=2") == 0, "not kept together");
	grid_close(&grid);
	open_grid(&grid, NULL, NULL);
	require_equal(grid.count, 1);
	require(strcmp(grid.list[0].name, "base") == 0 && grid.list[0].options[0] == '\0', "%s",
		grid.list[0].name);
	grid_close(&grid);
}

/* ---- values ---- */

/* Names are those of folders: files of other folders, and characters that no folder has, are cut
   from them, but no two configurations write into one. */
Test(grid, no_two_configurations_have_one_name)
{
	const struct option_texts tries = {.count = 5,
		.list = {"--gpu one/card.json", "--gpu two/card.json", "--gpu card.json",
			"--gpu one/card.json --max-num-seqs 3",
			"--gpu two/card.json --max-num-seqs 3"}};
	static const char *const names[] = {"gpu=x.json", "gpu=x.json~2", "gpu=x.json~3",
		"gpu=card.json", "gpu=card.json~5", "gpu=card.json~6",
		"gpu=card.json,max-num-seqs=3", "gpu=card.json,max-num-seqs=3~8"};
	struct grid grid;

	open_grid(&grid, "gpu=one/x.json,two/x.json,three/x.json", &tries);
	require_equal(grid.count, 8);
	for (uint32_t i = 0; i < grid.count; i++) {
		cr_expect_str_eq(grid.list[i].name, names[i]);
		for (uint32_t j = 0; j < i; j++) {
			require(strcmp(grid.list[i].name, grid.list[j].name) != 0,
				"%s is the name of %s and %s", grid.list[i].name,
				grid.list[j].options, grid.list[i].options);
		}
	}
	grid_close(&grid);
}

/* A policy has defaults of its own, so an option that is given the usual one says something. */
Test(grid, a_default_that_is_given_is_a_configuration_of_its_own)
{
	const struct option_texts tries = {
		.count = 2, .list = {"--policy vllm", "--policy vllm --block-size 256"}};
	struct grid grid;

	open_grid(&grid, NULL, &tries);
	cr_assert_eq(grid.count, 2);
	struct replay_config first = applied(&grid, 0), second = applied(&grid, 1);
	replay_config_take_policy(&first);
	replay_config_take_policy(&second);
	cr_expect_eq(first.block_size, 16);
	cr_expect_eq(second.block_size, 256);
	grid_close(&grid);
}

static void expect_values(const char *text, const char *const *values)
{
	struct grid grid;
	uint32_t i = 0;

	open_grid(&grid, text, NULL);
	for (; values[i] != NULL; i++) {
		require(i < grid.parameters[0].value_count, "%s: too few", text);
		require(strcmp(grid.parameters[0].values[i], values[i]) == 0, "%s: %s", text,
			grid.parameters[0].values[i]);
	}
	require_equal(grid.parameters[0].value_count, i);
	require_equal(grid.count, i);
	grid_close(&grid);
}

#define VALUES(...)                                                                                \
	(const char *const[])                                                                      \
	{                                                                                          \
		__VA_ARGS__, NULL                                                                  \
	}

Test(grid, ranges_and_lists)
{
	expect_values("kv-blocks=1000:8000:x2", VALUES("1000", "2000", "4000", "8000"));
	expect_values("kv-blocks=1000:7999:x2", VALUES("1000", "2000", "4000"));
	expect_values("kv-blocks=100:200:+50,7", VALUES("100", "150", "200", "7"));
	expect_values("kv-blocks=3:10:x1.5", VALUES("3", "4", "6", "9"));
	expect_values("kv-blocks=5:5:+1", VALUES("5"));
	expect_values("speedup=0.5:2:x2", VALUES("0.5", "1", "2"));
	expect_values("speedup=1:1.5:+0.25", VALUES("1", "1.25", "1.5"));
	expect_values("rate=10,2.50", VALUES("10", "2.5"));
	expect_values("duration=60,2m", VALUES("60", "120"));
	expect_values("spread-ties=on,off", VALUES("on", "off"));
	expect_values("--kv-blocks=1,2", VALUES("1", "2"));
	expect_values("tp=1,2", VALUES("1", "2"));
	expect_values("num-gpu-blocks-override=7,8", VALUES("7", "8"));
	expect_values("ramp=1:2:3", VALUES("1:2:3"));
	expect_values("router-option=a=1\\,b=2,c=3", VALUES("a=1,b=2", "c=3"));
}

/* FROM:TO:xFACTOR and FROM:TO:+STEP, of a whole number and of a decimal: every value is the one
   before it, moved on and rounded down, as far as TO. */
enum { VALUES_LOOKED_AT = 200 };

static void body_range(struct prop *prop, const void *context)
{
	bool is_whole = prop_chance(prop, 1, 2), has_factor = prop_chance(prop, 1, 2);
	uint32_t places = is_whole ? 0 : 6;
	uint64_t unit = is_whole ? 1 : 1000000;
	uint64_t from = prop_below(prop, 5) * unit + (is_whole ? 0 : prop_below(prop, 3));
	uint64_t to = prop_below(prop, 60) * unit + (is_whole ? 0 : prop_below(prop, 3));
	uint64_t by = has_factor
			      ? 500000 * prop_below(prop, 8) + prop_below(prop, 3)
			      : prop_below(prop, 9) * unit + (is_whole ? 0 : prop_below(prop, 3));
	const char *name = is_whole ? "max-num-seqs" : "speedup";
	char value[256], parts[3][NUMBER_TEXT_BYTES], text[REPLAY_VALUE_BYTES];
	struct grid_range range;
	struct error error = {0};

	(void)context;
	parts[0][decimal_text(parts[0], from, places)] = '\0';
	parts[1][decimal_text(parts[1], to, places)] = '\0';
	parts[2][decimal_text(parts[2], by, has_factor ? 6 : places)] = '\0';
	snprintf(value, sizeof(value), "%s:%s:%s%s", parts[0], parts[1], has_factor ? "x" : "+",
		parts[2]);
	prop_log(prop, "%s=%s", name, value);
	require(grid_range_read(&range, name, value), "%s is no range", value);
	uint64_t second = has_factor ? from * by / 1000000 : from + by;
	bool is_good = from <= to && second > from;
	require_equal(
		grid_range_check(&range, name, value, &error), is_good ? STATUS_OK : STATUS_USAGE);
	uint64_t next = from;
	for (uint32_t i = 0; is_good && next <= to && i < VALUES_LOOKED_AT; i++) {
		char expected[NUMBER_TEXT_BYTES];
		expected[decimal_text(expected, next, places)] = '\0';
		require(grid_range_next(&range, text), "%s ends before %s", value, expected);
		require(strcmp(text, expected) == 0, "%s has %s, expected %s", value, text,
			expected);
		next = has_factor ? next * by / 1000000 : next + by;
	}
	require(!is_good || next <= to || !grid_range_next(&range, text), "%s has %s too", value,
		text);
}

Test(grid, a_range_has_every_value_up_to_its_end)
{
	const struct prop_options options = {.name = "range", .body = body_range, .trials = 2000};

	require(prop_holds(&options), "see above");
}

/* Other texts are values as they are: a part too few, another sign, a number that is none, or a
   range of an option that is no number. */
Test(grid, what_is_no_range_is_a_value)
{
	static const char *const cases[][2] = {{"max-num-seqs", "1:2"}, {"max-num-seqs", "1:2:3"},
		{"max-num-seqs", "1:2:*3"}, {"max-num-seqs", "1.5:2:x2"},
		{"max-num-seqs", "1:2.5:x2"}, {"max-num-seqs", "1:4:+0.5"},
		{"max-num-seqs", ":4:x2"}, {"max-num-seqs", "1::x2"}, {"max-num-seqs", "1:4:x"},
		{"speedup", "1:4:x1.0000001"}, {"speedup", "1:4:+-1"}, {"gpu", "1:4:x2"},
		{"no-such-option", "1:4:x2"},
		{"max-num-seqs", "1:4:x2.0000000000000000000000000000000000000000000000000"}};
	struct grid_range range;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		require(!grid_range_read(&range, cases[i][0], cases[i][1]), "%s is a range of %s",
			cases[i][1], cases[i][0]);
	}
}

/* ---- errors ---- */

static void expect_error(const char *grid_text, const char *try_text, const char *part)
{
	struct option_texts tries = {.count = try_text == NULL ? 0 : 1, .list = {try_text}};
	struct replay_config base;
	struct error error = {0};
	struct grid grid;

	replay_config_default(&base);
	base.kv_blocks = 77;
	base.given.kv_blocks = true;
	require(grid_open(&grid, grid_text, &tries, &base, &error) == STATUS_USAGE, "taken: %s",
		grid_text == NULL ? try_text : grid_text);
	require(strstr(error.text, part) != NULL, "'%s' lacks '%s'", error.text, part);
	grid_close(&grid);
}

Test(grid, what_is_wrong_is_named)
{
	expect_error("gpuu=h200", NULL, "--grid: unknown option --gpuu; did you mean --gpu?");
	expect_error("gpu", NULL, "found 'gpu', expected OPTION=VALUE");
	expect_error("", NULL, "expected OPTION=VALUE");
	expect_error("gpu=h200;", NULL, "found '', expected OPTION=VALUE");
	expect_error("=1", NULL, "unknown option --");
	expect_error("max-num-seqs=", NULL, "--max-num-seqs: found ''");
	expect_error("max-num-seqs=1,,2", NULL, "--max-num-seqs: found ''");
	expect_error("max-num-seqs=0", NULL, "expected an integer from 1 to 65536");
	expect_error("max-num-seqs=1,99999", NULL, "found '99999'");
	expect_error("policy=mixed,fifo", NULL, "--policy: found 'fifo', expected one of");
	expect_error("max-num-seqs=1,2,01", NULL, "max-num-seqs has 1 twice");
	expect_error("speedup=2,2.0", NULL, "speedup has 2 twice");
	expect_error("gpu=a;gpu=b", NULL, "gpu is there twice");
	expect_error("tp=1;tensor-parallel-size=2", NULL, "tensor-parallel-size is there twice");
	expect_error("kv-blocks=1,2", NULL, "--kv-blocks is given, and --grid varies it");
	expect_error("rate=1,inf", NULL, "sets --arrivals and not --rate");
	expect_error("sort=1", NULL, "expected on or off");
	expect_error("max-num-seqs=5:1:+1", NULL, "ends before it begins");
	expect_error("max-num-seqs=1:5:+0", NULL, "does not grow");
	expect_error("max-num-seqs=1:5:x1.5", NULL, "does not grow");
	expect_error("max-num-seqs=1:5:x1", NULL, "does not grow");
	expect_error("max-num-seqs=1:5", NULL, "found '1:5'");
	expect_error("max-num-seqs=1:199999:x3", NULL, "found '177147', expected");
	expect_error("max-num-seqs=1:60000:+1", NULL, "has more than 4096 values");
	expect_error("seed=1:1000:+1;warmup=1:1000:+1", NULL, "more than 10000 configurations");
	expect_error("gpu=a\tb", NULL, "has a tab or a line break");
	expect_error("out=x", NULL, "unknown option --out");
	expect_error("seed=1;sort=on;rate=1;speedup=1;replicas=1;gpu=a;model=b;router=random;"
		     "warmup=1",
		NULL, "more than 8 options");
	expect_error(NULL, "policy vllm", "one argument too many: 'policy', expected options");
	expect_error(NULL, "--polcy vllm", "did you mean --policy?");
	expect_error(NULL, "--sort --sort", "--sort is given twice");
	expect_error(NULL, " ", "found no option");
	expect_error(NULL, "--gpu 'h200", "a single quote is not closed");
	expect_error(NULL, "--help", "found --help");
	expect_error("speedup=1,2", "--speedup 2", "is the same configuration as speedup=2");
}

/* As many words as there is room for are options, whatever they are; one more is too many. */
Test(grid, a_try_has_at_most_254_words)
{
	for (uint32_t words = 253; words <= 257; words++) {
		struct text text = {0};
		for (uint32_t i = 0; i < words; i++) {
			text_add(&text, " --sort");
		}
		expect_error(NULL, text.bytes,
			words > 254 ? "--try has more than 254 words" : "--sort is given twice");
		text_deinit(&text);
	}
}

/* ---- a naive model: nested loops over texts ---- */

struct axis {
	const char *name;
	const char *values[4];
};

static const struct axis axes[] = {
	{"gpu", {"h200", "my/own file.json", "a,b;c", "h\\100"}},
	{"max-num-seqs", {"1", "128", "65536", "77"}},
	{"speedup", {"1.5", "2", "0.000001", "1000000000"}},
	{"policy", {"mixed", "vllm", "prefill-first", NULL}},
	{"spread-ties", {"on", "off", NULL, NULL}},
	{"outages", {"fail:0@1,join:0@2", "drain:1@3", NULL, NULL}},
};

enum { AXES = sizeof(axes) / sizeof(axes[0]) };

static void add_escaped(struct text *text, const char *value)
{
	for (; *value != '\0'; value++) {
		if (strchr(",;\\", *value) != NULL) {
			text_add(text, "\\");
		}
		text_add_bytes(text, value, 1);
	}
}

/* The option's value on a command line after a round through `options`, by a --try. */
static void check_round_trip(const struct configuration *configuration)
{
	struct option_texts tries = {.count = 1, .list = {configuration->options}};
	struct grid again;

	if (configuration->options[0] == '\0') {
		return;
	}
	open_grid(&again, NULL, &tries);
	require(strcmp(again.list[0].options, configuration->options) == 0, "%s became %s",
		configuration->options, again.list[0].options);
	grid_close(&again);
}

static void random_grid(struct prop *prop, const void *context)
{
	struct text text = {0};
	uint32_t chosen[AXES], counts[AXES], count = 0, product = 1;
	struct grid grid;

	(void)context;
	for (uint32_t i = 0; i < AXES; i++) {
		uint32_t most = 0;
		while (most < 4 && axes[i].values[most] != NULL) {
			most++;
		}
		counts[count] = (uint32_t)prop_below(prop, most + 1);
		if (counts[count] == 0) {
			continue;
		}
		text_add(&text, count == 0 ? "" : ";");
		text_add(&text, axes[i].name);
		for (uint32_t j = 0; j < counts[count]; j++) {
			text_add(&text, j == 0 ? "=" : prop_chance(prop, 1, 2) ? " , " : ",");
			add_escaped(&text, axes[i].values[j]);
		}
		product *= counts[count];
		chosen[count++] = i;
	}
	open_grid(&grid, count == 0 ? NULL : text.bytes, NULL);
	require_equal(grid.count, product);
	require_equal(grid.parameter_count, count);
	for (uint32_t n = 0; n < product; n++) {
		const struct replay_config config = applied(&grid, n);
		uint32_t rest = n;
		for (uint32_t i = count; i-- > 0; rest /= counts[i]) {
			const struct option *row = grid.parameters[i].option;
			const char *wanted = axes[chosen[i]].values[rest % counts[i]];
			char buffer[REPLAY_VALUE_BYTES];
			const char *found = replay_config_value(&config, row, buffer);
			require(strcmp(row->name, axes[chosen[i]].name) == 0, "%s", row->name);
			require(strcmp(found, wanted) == 0, "%s is %s", wanted, found);
			require_equal(grid.list[n].values[i], rest % counts[i]);
		}
		for (uint32_t other = 0; other < n; other++) {
			require(strcmp(grid.list[n].name, grid.list[other].name) != 0, "%s twice",
				grid.list[n].name);
		}
		require(strpbrk(grid.list[n].name, "/\\ ;'") == NULL, "%s", grid.list[n].name);
		if (n < 8) {
			check_round_trip(&grid.list[n]);
		}
	}
	grid_close(&grid);
	text_deinit(&text);
}

Test(grid, equals_nested_loops)
{
	const struct prop_options options = {.name = "grid", .body = random_grid, .trials = 200};

	require(prop_holds(&options), "see above");
}

/* ---- names ---- */

/* Values of which some begin others, and some are equal as names of folders. */
static const struct axis stems[] = {
	{"kv-blocks", {"9", "90", "900", "909"}},
	{"seed", {"10", "1", "100", "11"}},
	{"gpu", {"a", "x/ab", "ab c", "y/ab"}},
	{"speedup", {"1.5", "1", "1.05", "15"}},
	{"router-option", {"a_b", "a b", "a", "a bc"}},
};

enum { STEMS = sizeof(stems) / sizeof(stems[0]), NUMBER_BYTES = 12 };

static void naive_add_value(struct text *name, const char *option, const char *value)
{
	const char *slash = strrchr(value, '/');

	text_format(name, "%s%s=", name->byte_count > 0 ? "," : "", option);
	for (const char *at = slash == NULL ? value : slash + 1; *at != '\0'; at++) {
		text_add_bytes(name, *at == ' ' ? "_" : at, 1);
	}
}

/* What the index-th is called: by its values, shortened or with its number where need be. */
static void naive_name(const struct grid *grid, uint32_t index, struct text *name)
{
	bool is_long = name->byte_count + NUMBER_BYTES >= GRID_NAME_BYTES, is_taken = is_long;

	text_add(name, name->byte_count == 0 ? "base" : "");
	if (is_long) {
		name->byte_count = GRID_NAME_BYTES - NUMBER_BYTES - 1;
		name->bytes[name->byte_count] = '\0';
	}
	for (uint32_t i = 0; i < index; i++) {
		is_taken = is_taken || strcmp(grid->list[i].name, name->bytes) == 0;
	}
	if (is_taken) {
		text_format(name, "~%u", index + 1);
	}
	cr_assert_str_eq(grid->list[index].name, name->bytes);
}

/* A grid has the names of its configurations, and neither their beginnings nor longer ones. */
static void require_has(const struct grid *grid)
{
	char name[GRID_NAME_BYTES + 1];

	for (uint32_t n = 0; n < grid->count; n += 1 + grid->count / 16) {
		size_t bytes = strlen(grid->list[n].name);
		for (size_t length = 0; length <= bytes + 1; length++) {
			bool has = false;
			snprintf(name, sizeof(name), "%s0", grid->list[n].name);
			name[length] = '\0';
			for (uint32_t i = 0; i < grid->count; i++) {
				has = has || strcmp(grid->list[i].name, name) == 0;
			}
			require(grid_has(grid, name) == has, "'%s' is %sof the grid", name,
				has ? "" : "not ");
		}
	}
}

/* Draws how many values each axis has, and in which order. Returns the number of combinations. */
static uint32_t draw_stems(
	struct prop *prop, struct text *text, uint32_t *counts, const char *(*values)[4])
{
	uint32_t product = 1, used = 0;

	for (uint32_t i = 0; i < STEMS; i++) {
		uint32_t first = (uint32_t)prop_below(prop, 4),
			 step = prop_chance(prop, 1, 2) ? 1 : 3;
		counts[i] = (uint32_t)prop_below(prop, 5);
		for (uint32_t j = 0; j < counts[i]; j++) {
			values[i][j] = stems[i].values[(first + j * step) % 4];
			text_format(text, "%s%s",
				j > 0	   ? ","
				: used > 0 ? ";"
					   : "",
				j > 0 ? "" : stems[i].name);
			text_format(text, "%s%s", j > 0 ? "" : "=", values[i][j]);
		}
		used += counts[i] > 0;
		product *= counts[i] > 0 ? counts[i] : 1;
	}
	return product;
}

static void names_of_stems(struct prop *prop, const void *context)
{
	static const char *const tries[] = {"--max-num-seqs 12", "--max-num-seqs 1",
		"--max-num-seqs 123 --gpu x/a", "--gpu a --max-num-seqs 124"};
	enum { TRIES = sizeof(tries) / sizeof(tries[0]) };
	static const char *const names[TRIES] = {"max-num-seqs=12", "max-num-seqs=1",
		"gpu=a,max-num-seqs=123", "gpu=a,max-num-seqs=124"};
	const char *values[STEMS][4];
	uint32_t counts[STEMS];
	struct option_texts given = {.count = (uint32_t)prop_below(prop, TRIES + 1)};
	uint32_t first = (uint32_t)prop_below(prop, TRIES);
	struct text text = {0};
	struct grid grid;

	(void)context;
	uint32_t product = draw_stems(prop, &text, counts, values);
	for (uint32_t i = 0; i < given.count; i++) {
		given.list[i] = tries[(first + i) % TRIES];
	}
	prop_log(prop, "%s and %u tries", text.byte_count == 0 ? "none" : text.bytes, given.count);
	bool has_grid = text.byte_count > 0;
	open_grid(&grid, has_grid ? text.bytes : NULL, &given);
	uint32_t of_grid = has_grid ? product : 0;
	require_equal(grid.count, of_grid + given.count > 0 ? of_grid + given.count : 1);
	for (uint32_t n = 0; n < grid.count; n++) {
		struct text name = {0};
		uint32_t rest = n, places[STEMS];
		for (uint32_t i = STEMS; i-- > 0;) {
			places[i] = counts[i] > 0 ? rest % counts[i] : 0;
			rest /= counts[i] > 0 ? counts[i] : 1;
		}
		for (uint32_t i = 0; i < STEMS && n < of_grid; i++) {
			if (counts[i] > 1 || (counts[i] == 1 && product == 1)) {
				naive_add_value(&name, stems[i].name, values[i][places[i]]);
			}
		}
		text_add(&name, n < of_grid || given.count == 0
					? ""
					: names[(first + n - of_grid) % TRIES]);
		naive_name(&grid, n, &name);
		text_deinit(&name);
	}
	require_has(&grid);
	grid_close(&grid);
	text_deinit(&text);
}

/* A name gets a number only where another one is equal to it, not where one begins like it. */
Test(grid, names_that_begin_others_are_names_of_their_own)
{
	const struct prop_options options = {
		.name = "names", .body = names_of_stems, .trials = 300};

	require(prop_holds(&options), "see above");
}

/* Of every length up to the longest there is, one beside the other, whichever comes first. */
Test(grid, names_are_shortened_where_a_number_would_not_fit)
{
	char value[2][GRID_NAME_BYTES + 16], text[4 * GRID_NAME_BYTES];

	for (uint32_t bytes = 1; bytes < sizeof(value[0]) - 1; bytes++) {
		for (uint32_t order = 0; order < 2; order++) {
			struct grid grid;
			memset(value[0], 'x', bytes);
			memset(value[1], 'x', bytes + 1);
			value[0][bytes] = value[1][bytes + 1] = '\0';
			snprintf(text, sizeof(text), "gpu=%s,%s", value[order], value[1 - order]);
			open_grid(&grid, text, NULL);
			for (uint32_t n = 0; n < 2; n++) {
				struct text name = {0};
				naive_add_value(&name, "gpu", value[n == order ? 0 : 1]);
				naive_name(&grid, n, &name);
				text_deinit(&name);
			}
			require_has(&grid);
			grid_close(&grid);
		}
	}
}
