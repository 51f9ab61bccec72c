#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/commands/commands.h"
#include "bench/commands/trace/trace_commands.h"
#include "bench/commands/trace/trace_request.h"
#include "bench/fleet/outages.h"
#include "bench/fleet/sight.h"
#include "bench/options/options.h"
#include "bench/replay/drawn_arrivals.h"
#include "bench/replay/run_to_folder.h"
#include "engine/base/number.h"
#include "engine/router/router.h"
#include "reports/results/metric.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"
#include "workloads/study/cache_curve.h"

/* Values of options that have several numbers in one text. The numbers are drawn at the ends of
   their ranges, just outside and malformed; the text is taken where all of them are right. */

enum { TEXT_BYTES = 256, FIELDS_MOST = 4 };

#define MILLION UINT64_C(1000000)

struct range {
	bool is_whole;	    /* an integer; else a decimal of at most six places, in millionths */
	uint64_t low, high; /* both are taken */
};

struct drawn_text {
	char text[TEXT_BYTES];
	uint64_t values[FIELDS_MOST];
	uint32_t count;
	bool is_good;
};

static void draw_number(struct prop *prop, const struct range *range, struct drawn_text *out)
{
	static const char *const bad[] = {
		"", "-1", "+1", " 1", "1 ", "1e3", "0x1", "x", "1.0000001", "1.5.", "1s", ";"};
	const uint64_t near[] = {range->low, range->high, range->low + 1,
		(range->low + range->high) / 2, range->high + 1, range->low - (range->low > 0), 0};
	char number[NUMBER_TEXT_BYTES] = "";
	uint32_t kind = (uint32_t)prop_below(prop, 24);
	uint64_t value = near[kind < 21 ? kind % 7 : 0];

	/* Half of what lies outside is drawn inside, so that longer texts are taken too. */
	if (kind >= 4 && kind < 14) {
		value = range->low + prop_below(prop, range->high - range->low + 1);
	}
	if (kind < 22) {
		number[(prop_chance(prop, 1, 2) ? short_decimal_text : decimal_text)(
			number, value, range->is_whole ? 0 : 6)] = '\0';
	} else {
		snprintf(number, sizeof(number), "%s", bad[prop_below(prop, 12)]);
	}
	out->is_good = out->is_good && kind < 22 && value >= range->low && value <= range->high;
	out->values[out->count++] = value;
	strcat(out->text, number);
}

/* `count` numbers with colons between them, sometimes one too many or too few. */
static struct drawn_text draw_text(
	struct prop *prop, const char *prefix, const struct range *ranges, uint32_t count)
{
	struct drawn_text out = {.is_good = true};
	uint32_t change = (uint32_t)prop_below(prop, 16);

	snprintf(out.text, sizeof(out.text), "%s", prefix);
	for (uint32_t i = 0; i < count; i++) {
		if (change == 0 && i + 1 == count) {
			out.is_good = false;
			break;
		}
		strcat(out.text, i == 0 ? "" : ":");
		draw_number(prop, &ranges[i], &out);
	}
	if (change == 1) {
		strcat(out.text, ":1");
		out.is_good = false;
	}
	prop_log(prop, "'%s'", out.text);
	return out;
}

static void require_taken(const struct drawn_text *drawn, enum status status, const char *option)
{
	require(status == (drawn->is_good ? STATUS_OK : STATUS_USAGE), "%s '%s' is %s", option,
		drawn->text, drawn->is_good ? "refused" : "taken");
}

static const struct range rate = {false, 1, MILLION *MILLION};

static void body_ramp(struct prop *prop, const void *context)
{
	const struct range ranges[] = {rate, rate, {true, 2, ARRIVAL_STEPS_MAX}};
	struct drawn_text drawn = draw_text(prop, "", ranges, 3);
	struct arrival_profile profile = {0};
	struct replay_config config;
	struct error error = {0};
	bool has_profile;

	(void)context;
	memset(&config, 0, sizeof(config));
	option_table_defaults(&replay_options, &config);
	config.duration_s = 600 * MILLION;
	config.ramp = drawn.text;
	enum status status = drawn_arrivals(&config, &profile, &has_profile, &error);
	require_taken(&drawn, status, "--ramp");
	if (status == STATUS_OK) {
		require_equal(profile.rate_from, drawn.values[0]);
		require_equal(profile.rate_to, drawn.values[1]);
		require_equal(profile.step_count, drawn.values[2]);
		require_equal(profile.step_ns, UINT64_C(600000000000) / drawn.values[2]);
	}
}

/* A request for a trace that is right but for what is drawn. */
static struct trace_request request_of(void)
{
	struct trace_request request;

	trace_request_init(&request, 0);
	request.requests = 1;
	request.input = request.output = "1";
	return request;
}

static void body_wave(struct prop *prop, const void *context)
{
	const struct range ranges[] = {{false, MILLION, MILLION * MILLION}, rate, rate};
	struct drawn_text drawn = draw_text(prop, "", ranges, 3);
	struct trace_request request = request_of();
	struct trace_plan plan;
	struct error error = {0};

	(void)context;
	request.wave = drawn.text;
	enum status status = trace_plan_open(&plan, &request, &error);
	require_taken(&drawn, status, "--wave");
	if (status == STATUS_OK) {
		const struct arrival_profile *profile = plan.options.profile;
		require_equal(profile->rate_from, drawn.values[1]);
		require_equal(profile->rate_to, drawn.values[2]);
		require(profile->swings, "no wave");
		/* There and back is a period. */
		require_equal(
			profile->step_ns, drawn.values[0] * 1000 / (2 * (profile->step_count - 1)));
	}
	trace_plan_close(&plan);
}

static void body_length(struct prop *prop, const void *context)
{
	const struct range tokens = {true, 1, TRACE_LENGTH_MAX / 4};
	const struct range uniform[] = {tokens, tokens};
	const struct range normal[] = {{true, 1, 131072}, {false, 0, 10 * MILLION}};
	uint32_t kind = (uint32_t)prop_below(prop, 3), place = (uint32_t)prop_below(prop, 3);
	struct drawn_text drawn = draw_text(prop, kind == 2 ? "lognormal:" : "",
		kind == 2 ? normal : uniform, kind == 0 ? 1 : 2);
	struct trace_request request = request_of();
	struct trace_plan plan;
	struct error error = {0};

	(void)context;
	if (kind == 0 && drawn.text[0] != '\0' && strchr(drawn.text, ':') != NULL) {
		return; /* LOW:1 is a text of the other kind */
	}
	if (kind == 1 && drawn.count == 1) {
		return;
	}
	drawn.is_good = drawn.is_good && (kind != 1 || drawn.values[0] <= drawn.values[1]);
	*(place == 0	     ? &request.input
		: place == 1 ? &request.output
			     : &request.follow_up) = drawn.text;
	enum status status = trace_plan_open(&plan, &request, &error);
	require_taken(&drawn, status, place == 0 ? "--input" : "--output");
	const struct generator_options *options = &plan.options;
	const struct length_draw *draw = place == 0   ? &options->input
					 : place == 1 ? &options->output
						      : &options->follow_up;
	if (status == STATUS_OK && kind == 2) {
		require_equal(draw->median, drawn.values[0]);
		require_equal(draw->sigma_millionths, drawn.values[1]);
	} else if (status == STATUS_OK) {
		require_equal(draw->low, drawn.values[0]);
		require_equal(draw->high, drawn.values[kind]);
	}
	trace_plan_close(&plan);
}

/* A level of a prefix, mostly of few tokens; without a count it has one. */
static struct drawn_text draw_level(struct prop *prop)
{
	const struct range ranges[] = {{true, 1, TRACE_LENGTH_MAX / 4}, {true, 1, 1 << 24}};
	struct drawn_text out = {.is_good = true};
	bool has_count = prop_chance(prop, 1, 2);

	if (prop_chance(prop, 1, 4)) {
		draw_number(prop, &ranges[0], &out);
		strcat(out.text, ":");
		draw_number(prop, &ranges[1], &out);
		return out;
	}
	out.values[0] = prop_range(prop, 1, 99);
	out.values[1] = has_count ? prop_range(prop, 1, 99) : 1;
	snprintf(out.text, sizeof(out.text), has_count ? "%u:%u" : "%u", (unsigned)out.values[0],
		(unsigned)out.values[1]);
	return out;
}

/* Up to eight levels whose tokens are not too many in all. */
static void body_prefix(struct prop *prop, const void *context)
{
	uint32_t levels = prop_range(prop, 1, PREFIX_LEVELS_MAX + 1);
	struct drawn_text parts[PREFIX_LEVELS_MAX + 1];
	struct trace_request request = request_of();
	char all[(PREFIX_LEVELS_MAX + 1) * TEXT_BYTES] = "";
	struct trace_plan plan;
	struct error error = {0};
	uint64_t sum = 0;
	bool is_good = levels <= PREFIX_LEVELS_MAX;

	(void)context;
	for (uint32_t i = 0; i < levels; i++) {
		parts[i] = draw_level(prop);
		sum += parts[i].values[0];
		is_good = is_good && parts[i].is_good;
		strcat(all, i == 0 ? "" : ",");
		strcat(all, parts[i].text);
	}
	is_good = is_good && sum <= TRACE_LENGTH_MAX / 4;
	prop_log(prop, "%s", all);
	request.prefix = all;
	enum status status = trace_plan_open(&plan, &request, &error);
	require(status == (is_good ? STATUS_OK : STATUS_USAGE), "--prefix '%s' is %s", all,
		is_good ? "refused" : "taken");
	for (uint32_t i = 0; i < levels && status == STATUS_OK; i++) {
		require_equal(plan.options.level_count, levels);
		require_equal(plan.options.levels[i].tokens, parts[i].values[0]);
		require_equal(plan.options.levels[i].count, parts[i].values[1]);
	}
	trace_plan_close(&plan);
}

static void body_view(struct prop *prop, const void *context)
{
	const struct range delay = {false, 0, UINT64_C(1000000000) * MILLION};
	struct drawn_text drawn = draw_text(prop, "delayed:", &delay, 1);
	struct error error = {0};
	enum sight_kind kind;
	uint64_t delay_ns;

	(void)context;
	enum status status = sight_parse(drawn.text, &kind, &delay_ns, &error);
	require_taken(&drawn, status, "--router-view");
	if (status == STATUS_OK) {
		require_equal(kind, SIGHT_DELAYED);
		require_equal(delay_ns, drawn.values[0]); /* millionths of a ms */
	}
}

static void body_outage(struct prop *prop, const void *context)
{
	static const char *const kinds[] = {"fail", "drain", "join", "leave"};
	const uint32_t replicas = prop_range(prop, 1, 4);
	const struct range ranges[] = {
		{true, 0, replicas - 1}, {false, 0, UINT64_C(1000000000) * MILLION}};
	uint32_t kind = (uint32_t)prop_below(prop, 4);
	struct drawn_text drawn = draw_text(prop, "", ranges, 2);
	struct outages outages;
	struct error error = {0};
	char text[2 * TEXT_BYTES];

	(void)context;
	char *colon = strchr(drawn.text, ':');
	if (colon != NULL) {
		*colon = '@';
	}
	snprintf(text, sizeof(text), "%s:%s", kinds[kind], drawn.text);
	drawn.is_good = drawn.is_good && kind < 3;
	strcpy(drawn.text, text);
	enum status status = outages_parse(&outages, text, replicas, &error);
	require_taken(&drawn, status, "--outages");
	if (status == STATUS_OK) {
		require_equal(outages.list[0].kind, kind);
		require_equal(outages.list[0].replica, drawn.values[0]);
		require_equal(outages.list[0].time_ns, drawn.values[1] * 1000);
	}
	outages_close(&outages);
}

/* NAME=NUMBER of each setting of each router. */
static void body_router(struct prop *prop, const void *context)
{
	uint32_t routers = 0, settings = 0;
	struct router router;
	struct error error = {0};
	char text[TEXT_BYTES];

	(void)context;
	while (router_at(routers) != NULL) {
		routers++;
	}
	const struct router_kind *kind = router_at((uint32_t)prop_below(prop, routers));
	while (settings < ROUTER_SETTINGS_MAX && kind->settings[settings].name != NULL) {
		settings++;
	}
	if (settings == 0) {
		return;
	}
	uint32_t own = (uint32_t)prop_below(prop, settings);
	const struct router_setting *setting = &kind->settings[own];
	const struct range range = {false, 0, setting->maximum * ROUTER_MILLION};
	snprintf(text, sizeof(text), "%s=", setting->name);
	struct drawn_text drawn = draw_text(prop, text, &range, 1);
	enum status status = router_open(&router, kind, drawn.text, 2, 1, &error);
	require_taken(&drawn, status, kind->name);
	for (uint32_t i = 0; i < settings && status == STATUS_OK; i++) {
		require_equal(
			router.settings[i], i == own ? drawn.values[0] : kind->settings[i].initial);
	}
	router_close(&router);
}

/* [+-]NUMBER[%|pt]: a change has a sign and a unit, a value neither; points are of shares. */
static void body_limit(struct prop *prop, const void *context)
{
	static const char *const metrics[] = {"ttft.p99", "hit_rate", "output_tokens_per_s"};
	static const char *const signs[] = {"", "+", "-"}, *const units[] = {"", "%", "pt"};
	const struct range numbers = {false, 0, 1000 * MILLION * MILLION};
	uint32_t metric = (uint32_t)prop_below(prop, 3), sign = (uint32_t)prop_below(prop, 3);
	uint32_t unit = (uint32_t)prop_below(prop, 3);
	bool is_least = prop_chance(prop, 1, 2), is_relative = prop_chance(prop, 2, 3);
	struct drawn_text drawn = {.is_good = true};
	struct metric_limit limits[METRIC_LIMITS_MAX];
	struct error error = {0};
	char text[2 * TEXT_BYTES];
	uint32_t count;

	(void)context;
	draw_number(prop, &numbers, &drawn);
	if (strpbrk(drawn.text, "+-s") != NULL || drawn.values[0] > numbers.high) {
		return; /* signs and units are drawn apart; there is no upper end */
	}
	if (unit == 0 && strcmp(drawn.text, "1 ") == 0) {
		return; /* a blank behind a limit is skipped */
	}
	snprintf(text, sizeof(text), "%s%s%s%s%s", metrics[metric],
		is_least ? ">=" : "<=", signs[sign], drawn.text, units[unit]);
	prop_log(prop, "%s", text);
	drawn.is_good = drawn.is_good && (sign > 0) == (unit > 0) && (sign == 0 || is_relative) &&
			(unit != 2 || metric == 1);
	strcpy(drawn.text, text);
	enum status status =
		metric_limits_parse("--gate", text, is_relative, limits, &count, &error);
	require_taken(&drawn, status, "--gate");
	if (status == STATUS_OK) {
		double amount = (double)drawn.values[0] / (unit > 0 ? 1e8 : 1e6);
		double difference = limits[0].amount - (sign == 2 ? -amount : amount);
		require_equal(count, 1);
		require(strcmp(limits[0].metric->name, metrics[metric]) == 0, "another metric");
		require_equal(limits[0].is_least, is_least);
		require_equal(limits[0].kind, unit == 0	  ? LIMIT_VALUE
					      : unit == 1 ? LIMIT_PERCENT
							  : LIMIT_POINTS);
		require(difference <= 1e-9 * amount && -difference <= 1e-9 * amount, "%.12g",
			limits[0].amount);
	}
}

/* What a command says of an option of a run of no trace: a wrong option is found before that. */
static enum status run_without_trace(
	const struct command *command, void *values, const char *folder, struct error *error)
{
	char path[TEMPORARY_PATH_BYTES + 16];
	struct command_line line = {.command = command, .values = values};

	snprintf(path, sizeof(path), "%s/nowhere.jsonl", folder);
	line.positionals[0] = path;
	line.positional_count = 1;
	return command->run(&line, error);
}

/* FROM:TO, either of which may be left out; both in seconds, and rising. */
static void body_timeline(struct prop *prop, const void *context)
{
	const struct range seconds = {false, 0, UINT64_C(1000000000) * MILLION};
	bool has_from = prop_chance(prop, 3, 4), has_to = prop_chance(prop, 3, 4);
	bool has_colon = !prop_chance(prop, 1, 12);
	struct drawn_text from = {.is_good = true}, to = {.is_good = true};
	struct replay_request request;
	struct error error = {0};
	char text[2 * TEXT_BYTES + 2];

	if (has_from) {
		draw_number(prop, &seconds, &from);
	}
	if (has_to) {
		draw_number(prop, &seconds, &to);
	}
	from.values[0] = has_from ? from.values[0] : 0;
	if (has_to && prop_chance(prop, 1, 4)) { /* just behind, at or before the other end */
		to = (struct drawn_text){.is_good = true};
		to.values[0] = from.values[0] + 1 - prop_below(prop, from.values[0] > 0 ? 3 : 2);
		to.text[decimal_text(to.text, to.values[0], 6)] = '\0';
		to.is_good = to.values[0] <= seconds.high;
	}
	has_to = to.text[0] != '\0'; /* an empty number is none */
	from.is_good = from.is_good || from.text[0] == '\0';
	from.values[0] = from.text[0] == '\0' ? 0 : from.values[0];
	to.is_good = !has_to || (to.is_good && to.values[0] > from.values[0]);
	snprintf(text, sizeof(text), "%s%s%s", from.text, has_colon ? ":" : "", to.text);
	prop_log(prop, "%s", text);
	command_defaults(&command_replay, &request);
	request.out = "never";
	request.timeline = "never";
	request.timeline_window_text = text;
	enum status status = run_without_trace(&command_replay, &request, context, &error);
	bool is_good = from.is_good && to.is_good && has_colon;
	require(status == (is_good ? STATUS_FILE : STATUS_USAGE), "'%s' is %s: %s", text,
		is_good ? "refused" : "taken", error.text);
	if (is_good) {
		require_equal(request.timeline_window.from_ns, from.values[0] * 1000);
		require_equal(request.timeline_window.to_ns, has_to ? to.values[0] * 1000 : 0);
	}
}

/* At most so many numbers of blocks, each at least 1. */
static void body_capacity(struct prop *prop, const void *context)
{
	const struct range blocks = {true, 1, UINT32_MAX};
	uint32_t count =
		prop_chance(prop, 1, 4) ? prop_range(prop, 63, 66) : prop_range(prop, 1, 4);
	uint32_t odd = (uint32_t)prop_below(prop, 2 * count);
	char all[66 * 40] = "", *argv[] = {"cache", "nowhere.jsonl", "--capacity", all, NULL};
	struct error error = {0};
	bool is_good = count <= CACHE_CURVE_ASKED_MAX;

	for (uint32_t i = 0; i < count; i++) {
		struct drawn_text drawn = {.is_good = true, .text = "7"};
		if (i == odd) {
			drawn.text[0] = '\0';
			draw_number(prop, &blocks, &drawn);
		}
		is_good = is_good && drawn.is_good;
		strcat(all, i == 0 ? "" : ",");
		strcat(all, drawn.text);
	}
	prop_log(prop, "%s", all);
	void *values = calloc(1, command_trace_cache.value_bytes);
	bool wants_help = false;
	struct command_line line = {
		.command = &command_trace_cache, .argc = 4, .argv = argv, .values = values};
	require(values != NULL, "out of memory");
	command_defaults(&command_trace_cache, values);
	enum status status = command_parse(&line, &wants_help, &error);
	if (status == STATUS_OK) {
		status = run_without_trace(&command_trace_cache, values, context, &error);
	}
	require(status == (is_good ? STATUS_FILE : STATUS_USAGE), "'%s' is %s: %s", all,
		is_good ? "refused" : "taken", error.text);
	free(values);
}

static void require_property_in(
	void (*body)(struct prop *prop, const void *context), const char *name)
{
	char folder[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	const struct prop_options options = {
		.name = name, .body = body, .context = folder, .trials = 2000};
	cr_assert(prop_holds(&options), "%s", name);
	temporary_remove(folder);
}

Test(value_texts, are_checked_before_a_trace_is_read, .timeout = 240)
{
	require_property_in(body_timeline, "--timeline-window");
	require_property_in(body_capacity, "--capacity");
}

static void require_property(void (*body)(struct prop *prop, const void *context), const char *name)
{
	const struct prop_options options = {.name = name, .body = body, .trials = 3000};

	cr_assert(prop_holds(&options), "%s", name);
}

Test(value_texts, are_taken_where_each_number_is_in_its_range, .timeout = 240)
{
	require_property(body_ramp, "--ramp");
	require_property(body_wave, "--wave");
	require_property(body_length, "--input");
	require_property(body_prefix, "--prefix");
	require_property(body_view, "--router-view");
	require_property(body_outage, "--outages");
	require_property(body_router, "--router-option");
	require_property(body_limit, "--gate");
}
