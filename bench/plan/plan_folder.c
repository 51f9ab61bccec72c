#include "bench/plan/plan_folder.h"

#include "bench/record/provenance.h"
#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/base/memory.h"
#include "engine/base/output_file.h"
#include "engine/base/table.h"
#include "reports/results/results.h"
#include "reports/results/sweep_file.h"

#include <cJSON.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- plan.json ---- */

static void add_value(cJSON *object, const char *name, struct result_value value)
{
	if (value.has_value) {
		cJSON_AddNumberToObject(object, name, value.value);
	} else {
		cJSON_AddNullToObject(object, name);
	}
}

static void add_limit(cJSON *object, const char *name, uint64_t ns)
{
	add_value(object, name, (struct result_value){ns > 0, (double)ns / 1e6});
}

static void add_slo(cJSON *root, const struct answers *answers)
{
	const struct objective *objective = &answers->plan->objective;
	cJSON *slo = cJSON_AddObjectToObject(root, "slo");

	cJSON_AddStringToObject(slo, "text", answers->slo.bytes);
	add_limit(slo, "ttft_ms", objective->slo.ttft_ns);
	add_limit(slo, "tpot_ms", objective->slo.tpot_ns);
	add_limit(slo, "e2e_ms", objective->slo.e2e_ns);
	cJSON_AddNumberToObject(slo, "attain", (double)objective->attain / 1e6);
	cJSON_AddStringToObject(
		slo, "limits", objective->limits_text == NULL ? "" : objective->limits_text);
}

/* The figures of the first run that came back: they have the trace's. */
static const struct probe_figures *first_figures(const struct plan *plan)
{
	for (size_t i = 0; i < plan->track_count; i++) {
		for (size_t k = 0; k < plan->tracks[i]->count; k++) {
			const struct track_probe *probe = &plan->tracks[i]->probes[k];
			if (track_probe_is_done(probe) && plan->tracks[i]->options.replicate == 0) {
				return &probe->figures;
			}
		}
	}
	return NULL;
}

static void add_trace(cJSON *root, const struct plan *plan)
{
	const struct probe_figures *figures = first_figures(plan);
	const char *path = plan->request->run.trace_path;
	cJSON *trace = cJSON_AddObjectToObject(root, SUMMARY_TRACE);
	char hash[17];

	cJSON_AddStringToObject(
		trace, SUMMARY_TRACE_NAME, strcmp(path, "-") == 0 ? "stdin" : path_name(path));
	snprintf(hash, sizeof(hash), "%016llx",
		(unsigned long long)(figures == NULL ? 0 : figures->trace_xxh64));
	cJSON_AddStringToObject(trace, SUMMARY_TRACE_XXH64, hash);
	cJSON_AddNumberToObject(
		trace, "requests", figures == NULL ? 0 : (double)figures->trace_requests);
	if (plan->request->made_by != NULL) {
		cJSON_AddStringToObject(trace, PLAN_MADE_BY, plan->request->made_by);
	}
}

static cJSON *configuration_json(const struct answers *answers, uint32_t index)
{
	const struct plan_configuration_state *state = &answers->plan->states[index];
	const struct configuration_answer *own = &answers->list[index];
	cJSON *object = cJSON_CreateObject();

	cJSON_AddStringToObject(object, "name", state->name);
	cJSON_AddStringToObject(object, "options", state->options);
	cJSON_AddStringToObject(object, "profile", state->profile);
	cJSON_AddBoolToObject(object, SUMMARY_CALIBRATED, state->is_calibrated);
	if (state->profile_note.byte_count > 0) {
		cJSON_AddStringToObject(object, SUMMARY_PROFILE_NOTE, state->profile_note.bytes);
	}
	if (state->is_beyond_memory) {
		cJSON_AddTrueToObject(object, SUMMARY_BEYOND_MEMORY);
		cJSON_AddNumberToObject(
			object, SUMMARY_FOUND_KV_BLOCKS, (double)state->found_kv_blocks);
	}
	cJSON_AddNumberToObject(object, "gpus", state->gpus);
	cJSON_AddItemToObject(object, "answer", plan_answer_json(&own->answer));
	cJSON *goodput = cJSON_AddObjectToObject(object, "goodput_per_gpu");
	add_value(goodput, "value", own->goodput_per_gpu);
	add_value(goodput, "low", own->goodput_interval.low);
	add_value(goodput, "high", own->goodput_interval.high);
	cJSON *against = cJSON_AddObjectToObject(object, "against_best");
	add_value(against, "value", own->against_best);
	add_value(against, "low", own->against_best_interval.low);
	add_value(against, "high", own->against_best_interval.high);
	add_value(object, "utilisation", own->utilisation);
	add_value(object, "throughput_per_gpu", own->throughput_per_gpu);
	add_value(object, "speed_per_user", own->speed_per_user);
	cJSON_AddNumberToObject(object, "rank", own->rank);
	cJSON *same = cJSON_AddArrayToObject(object, "same_as");
	for (uint32_t i = 0; i < answers->count; i++) {
		if (answers_are_same(answers, index, i)) {
			cJSON_AddItemToArray(
				same, cJSON_CreateString(answers->plan->states[i].name));
		}
	}
	cJSON_AddBoolToObject(object, "on_pareto_front", own->on_pareto_front);
	return object;
}

/* The configuration at its answer. */
static cJSON *config_json(const struct answers *answers, uint32_t index)
{
	const struct plan *plan = answers->plan;
	struct result_value pass = plan_answer_pass(&answers->list[index].answer);
	cJSON *config = cJSON_Duplicate(plan->states[index].config, true);

	if (pass.has_value) {
		cJSON_ReplaceItemInObject(
			config, knobs[plan->knob].field, cJSON_CreateNumber(pass.value));
	}
	return config;
}

void plan_json_write(const struct answers *answers, FILE *file)
{
	const struct plan *plan = answers->plan;
	const uint32_t best = answers->by_rank[0];
	cJSON *root = cJSON_CreateObject();

	cJSON_AddStringToObject(root, SUMMARY_SCHEMA, PLAN_SCHEMA);
	cJSON_AddStringToObject(root, SUMMARY_STATUS,
		plan->ended.status != STATUS_OK ? "failed"
		: plan->is_interrupted		? "interrupted"
						: "complete");
	cJSON_AddBoolToObject(root, SUMMARY_CALIBRATED, plan->states[best].is_calibrated);
	cJSON_AddItemToObject(root, "answer", plan_answer_json(&answers->list[best].answer));
	add_slo(root, answers);
	add_trace(root, plan);
	cJSON *list = cJSON_AddArrayToObject(root, "configurations");
	for (uint32_t i = 0; i < answers->count; i++) {
		cJSON_AddItemToArray(list, configuration_json(answers, answers->by_rank[i]));
	}
	cJSON_AddItemToObject(root, SUMMARY_CONFIG, config_json(answers, best));
	json_print(root, file);
	cJSON_Delete(root);
}

/* ---- plan.tsv ---- */

static enum probe_purpose purpose_of(const struct track *track, enum search_purpose purpose)
{
	static const enum probe_purpose of_search[] = {
		[SEARCH_FIRST] = PROBE_FIRST,
		[SEARCH_ALONE] = PROBE_ALONE,
		[SEARCH_BRACKET] = PROBE_BRACKET,
		[SEARCH_BISECT] = PROBE_BISECT,
		[SEARCH_SHAPE] = PROBE_SHAPE,
	};

	return track->options.kind == TRACK_SAMPLING ? PROBE_SAMPLING
	       : track->options.kind == TRACK_MODEL  ? PROBE_MODEL
						     : of_search[purpose];
}

static struct result_value latency(const struct probe_figures *figures, enum latency_metric metric,
	enum latency_statistic statistic)
{
	return (struct result_value){
		figures->has_latency[metric], figures->latency_ms[metric][statistic]};
}

static struct result_value number(double value)
{
	return (struct result_value){true, value};
}

/* What was run. */
static struct plan_probe row_of(const struct plan *plan, const struct track *track,
	const struct track_probe *probe, const struct replay_config *config)
{
	bool is_alone = probe->probe.purpose == SEARCH_ALONE;
	uint64_t scale = track->options.step_time_scale;
	const struct result_value none = {false, 0};

	return (struct plan_probe){
		.configuration = track->options.configuration,
		.purpose = purpose_of(track, probe->probe.purpose),
		.load = is_alone ? none : number(knob_value(plan->knob, probe->probe.load)),
		.replicate = number((double)track->options.replicate),
		.resample_seed = {config->resample_seed > 0, (double)config->resample_seed},
		.resample_window_s = {config->resample_window_s > 0,
			(double)config->resample_window_s / 1e6},
		.seed = number((double)config->seed),
		.step_time_scale = number(scale == 0 ? 1 : (double)scale / 1e6),
		.lost = number(is_alone ? 0 : (double)plan->request->spare),
		.failure = probe->failure,
	};
}

/* What came out. */
static void set_figures(
	struct plan_probe *row, const struct probe_figures *figures, uint32_t limits)
{
	row->has_verdict = true;
	row->verdict = figures->verdict;
	row->passes = number(figures->passes);
	for (uint32_t i = 0; i < limits; i++) {
		double value = figures->judged.values[i];
		row->limits[i] = (struct result_value){!isnan(value), isnan(value) ? 0 : value};
	}
	row->replicas = number((double)figures->replicas);
	row->offered_requests_per_s =
		(struct result_value){figures->has_offered, figures->offered_per_s};
	row->attained = number((double)figures->attained / (double)figures->submitted);
	row->attained_low = number(figures->interval.low);
	row->attained_high = number(figures->interval.high);
	row->goodput_requests_per_s = number(figures->goodput_per_s);
	row->output_tokens_per_s = number(figures->output_tokens_per_s);
	row->ttft_p50_ms = latency(figures, LATENCY_TTFT, STATISTIC_P50);
	row->ttft_p90_ms = latency(figures, LATENCY_TTFT, STATISTIC_P90);
	row->ttft_p99_ms = latency(figures, LATENCY_TTFT, STATISTIC_P99);
	row->tpot_p50_ms = latency(figures, LATENCY_TPOT, STATISTIC_P50);
	row->tpot_p90_ms = latency(figures, LATENCY_TPOT, STATISTIC_P90);
	row->tpot_p99_ms = latency(figures, LATENCY_TPOT, STATISTIC_P99);
	row->e2e_p50_ms = latency(figures, LATENCY_E2E, STATISTIC_P50);
	row->e2e_p99_ms = latency(figures, LATENCY_E2E, STATISTIC_P99);
	row->hit_rate = (struct result_value){figures->has_hit_rate, figures->hit_rate};
	row->preemptions = number((double)figures->preemptions);
	row->utilisation = (struct result_value){figures->has_utilisation, figures->utilisation};
	row->demand = (struct result_value){
		figures->has_utilisation && figures->has_offered, figures->demand};
	row->outside_share = (struct result_value){figures->has_outside, figures->outside_share};
}

static void write_probe(struct table_writer *table, const struct plan_limits *limits,
	const struct plan *plan, const struct track *track, const struct track_probe *probe)
{
	const struct probe_job job = plan_job(plan, track, &probe->probe);
	char outages[PROBE_OUTAGES_BYTES];
	struct run_request request = probe_request(&plan->context, &job, outages);
	struct plan_probe row = row_of(plan, track, probe, &request.config);
	struct text options = {0};

	replay_config_words(&request.config, &options);
	slo_add_words(&request.slo, &options);
	row.options =
		options.bytes == NULL ? NULL : options.bytes + 1; /* without the first blank */
	if (track_probe_is_done(probe)) {
		set_figures(&row, &probe->figures, plan->objective.limit_count);
	}
	plan_probe_write(table, plan->states[row.configuration].name, &row, limits);
	text_deinit(&options);
}

/* Rows by configuration, then in the order of its tracks and of their probes: none of these depends
   on what ran when. */
static void write_probes(const struct plan *plan, FILE *file)
{
	struct table_writer *table = memory_take(1, sizeof(*table));
	struct plan_limits limits = {.count = plan->objective.limit_count};
	struct text header = {0};

	memcpy(limits.list, plan->objective.limits, sizeof(limits.list));
	plan_probe_header(&header, &limits);
	table_begin(table, file, header.bytes);
	text_deinit(&header);
	for (uint32_t own = 0; own < plan->configuration_count; own++) {
		for (size_t i = 0; i < plan->track_count; i++) {
			const struct track *track = plan->tracks[i];
			bool is_own = track->options.configuration == own;
			for (size_t k = 0; is_own && k < track->count; k++) {
				if (track->probes[k].is_taken) {
					write_probe(table, &limits, plan, track, &track->probes[k]);
				}
			}
		}
	}
	table_end(table);
	free(table);
}

/* ---- the folder ---- */

enum status plan_folder_open(
	struct plan_folder *folder, const char *path, bool is_forced, struct error *error)
{
	static const char *const files[] = {PLAN_PROBES, RESULT_PROVENANCE};
	static const char *const others[] = {RESULT_SUMMARY, SWEEP_SUMMARY};
	char name[PATH_BYTES_MAX];
	bool has_plan, has_other;

	*folder = (struct plan_folder){.is_owned = false};
	TRY(owned_folder_open(&folder->owned, path, error));
	folder->is_owned = true;
	for (uint32_t i = 0; i < 2; i++) {
		TRY(path_format(name, error, "%s/%s", path, others[i]));
		TRY(path_is_there(name, &has_other, error));
		if (has_other) {
			return error_set(error, STATUS_USAGE,
				"%.200s: holds a result of another kind (%s), expected a new or "
				"empty folder",
				path, others[i]);
		}
	}
	TRY(path_format(name, error, "%s/%s", path, PLAN_SUMMARY));
	TRY(path_is_there(name, &has_plan, error));
	if (has_plan && !is_forced) {
		return error_set(error, STATUS_USAGE,
			"%.200s: holds a plan already; --force replaces it", path);
	}
	if (has_plan && !owned_folder_is_of_quire(name, PLAN_SCHEMA_PREFIX)) {
		return error_set(error, STATUS_FILE,
			"%.200s: its " PLAN_SUMMARY
			" was not written by quire, so --force does not replace it",
			path);
	}
	return is_forced ? STATUS_OK : owned_folder_refuse_old(path, files, 2, error);
}

void plan_folder_close(struct plan_folder *folder)
{
	if (folder->is_owned) {
		owned_folder_close(&folder->owned);
	}
	folder->is_owned = false;
}

enum { FILE_PROBES, FILE_PROVENANCE, FILE_SUMMARY, FILE_COUNT };

/* The files as they are made: an older one is NAME.old until all new ones have their names. */
struct plan_files {
	struct output_file outputs[FILE_COUNT];
	bool is_retired[FILE_COUNT], is_published[FILE_COUNT];
};

static bool old_name(const struct plan_files *files, uint32_t index, char *old)
{
	struct error too_long = {0};

	return path_format(old, &too_long, "%s.old", files->outputs[index].path) == STATUS_OK;
}

/* The summary first: a folder that has none holds no plan. */
static enum status retire_all(struct plan_files *files, struct error *error)
{
	char old[PATH_BYTES_MAX];

	for (uint32_t i = FILE_COUNT; i > 0; i--) {
		const char *path = files->outputs[i - 1].path;
		if (!old_name(files, i - 1, old)) {
			continue; /* too long for a file to be there */
		}
		files->is_retired[i - 1] = rename(path, old) == 0;
		if (!files->is_retired[i - 1] && errno != ENOENT) {
			return error_set(error, STATUS_FILE, "%.200s: cannot be replaced: %s", path,
				strerror(errno));
		}
	}
	return STATUS_OK;
}

static enum status publish_all(struct plan_files *files, struct error *error)
{
	TRY(retire_all(files, error));
	for (uint32_t i = 0; i < FILE_COUNT; i++) {
		TRY(output_file_publish(&files->outputs[i], error));
		files->is_published[i] = true;
	}
	return output_file_sync_folder(files->outputs[FILE_SUMMARY].path, error);
}

/* Removes older files, or brings them back, the summary last. */
static void settle(struct plan_files *files, bool is_done)
{
	char old[PATH_BYTES_MAX];

	for (uint32_t i = FILE_COUNT; i > 0 && !is_done; i--) {
		if (files->is_published[i - 1]) {
			unlink(files->outputs[i - 1].path);
		}
	}
	for (uint32_t i = 0; i < FILE_COUNT; i++) {
		if (files->is_retired[i] && old_name(files, i, old)) {
			(void)(is_done ? unlink(old) : rename(old, files->outputs[i].path));
		}
	}
}

static enum status write_files(const char *path, const struct answers *answers,
	struct plan_files *files, struct error *error)
{
	static const char *const names[FILE_COUNT] = {PLAN_PROBES, RESULT_PROVENANCE, PLAN_SUMMARY};
	const struct plan *plan = answers->plan;
	const struct plan_request *request = plan->request;
	const struct provenance provenance = {.argc = request->argc,
		.argv = request->argv,
		.wall_ns = monotonic_ns() - plan->start_ns,
		.device = ""};
	char name[PATH_BYTES_MAX];

	for (uint32_t i = 0; i < FILE_COUNT; i++) {
		TRY(path_format(name, error, "%s/%s", path, names[i]));
		TRY(output_file_open(&files->outputs[i], name, error));
	}
	write_probes(plan, files->outputs[FILE_PROBES].file);
	provenance_write(&provenance, files->outputs[FILE_PROVENANCE].file);
	plan_json_write(answers, files->outputs[FILE_SUMMARY].file);
	for (uint32_t i = 0; i < FILE_COUNT; i++) {
		TRY(output_file_finish(&files->outputs[i], error));
	}
	enum status status = publish_all(files, error);
	settle(files, files->is_published[FILE_SUMMARY]);
	return status;
}

enum status plan_folder_write(
	struct plan_folder *folder, const struct answers *answers, struct error *error)
{
	struct plan_files *files = memory_take(1, sizeof(*files));
	enum status status = write_files(folder->owned.path, answers, files, error);

	for (uint32_t i = 0; i < FILE_COUNT; i++) {
		output_file_abandon(&files->outputs[i]);
	}
	free(files);
	return status;
}
