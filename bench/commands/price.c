#include "bench/commands/commands.h"
#include "bench/price/price_study.h"
#include "engine/base/json.h"
#include "engine/base/memory.h"
#include "engine/base/output_file.h"
#include "engine/base/path.h"
#include "engine/model/config_json.h"
#include "engine/router/router.h"
#include "engine/shape/weight_shape.h"
#include "reports/results/result.h"
#include "reports/results/result_names.h"
#include "reports/results/results.h"
#include "sim/cost_model.h"
#include "sim/profile_choice.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct price_request {
	const char *gpu, *model, *out; /* model, out NULL: the recorded one; no file */
	uint64_t most;
};

/* The models of a run, and what they price by. */
struct opened {
	struct gpu_profile_choice choice;
	struct price_models models;
	struct runner *of_replica; /* (replicas) owned; zeroed: not open */
};

static void close_model(const struct runner *runner)
{
	if (runner->close != NULL) {
		runner->close(runner->state);
	}
}

static void close_models(struct opened *opened)
{
	for (uint32_t i = 0; i < opened->models.replicas; i++) {
		close_model(&opened->of_replica[i]);
	}
	close_model(&opened->models.host);
	free(opened->of_replica);
}

/* To be closed after a failure too. */
static enum status open_models(struct opened *out, const struct json_object *config,
	const struct price_request *request, struct error *error)
{
	const char *name, *policy;
	struct model_config model;
	uint32_t ranks, replicas = 1;

	json_text(config, "policy", &policy, error);
	json_text(config, "model", &name, error);
	TRY(json_u32(config, "tensor_parallel_size", 1, TENSOR_PARALLEL_MAX, &ranks, error));
	if (json_has(config, "replicas")) {
		TRY(json_u32(config, "replicas", 1, ROUTER_REPLICAS_MAX, &replicas, error));
	}
	name = request->model != NULL ? request->model : name;
	TRY(model_config_find(name, &model, error));
	TRY(weight_shard_check(&model, (struct weight_shard){.ranks = ranks}, error));
	TRY(gpu_profile_choose(request->gpu, policy, model.name, ranks, &out->choice, error));
	out->of_replica = memory_take(replicas, sizeof(*out->of_replica));
	out->models.of_replica = out->of_replica;
	out->models.replicas = replicas;
	TRY(cost_model_open(&out->of_replica[0], &model, &out->choice.profile, ranks, error));
	for (uint32_t i = 1; i < replicas; i++) {
		cost_model_open_beside(&out->of_replica[i], &out->of_replica[0]);
	}
	cost_model_open_beside(&out->models.host, &out->of_replica[0]);
	out->models.has_hull = out->choice.profile.is_calibrated;
	return STATUS_OK;
}

/* Reads the steps, and writes each where a file is asked for. */
static enum status read_steps(struct price_study *study, const char *directory,
	const struct price_models *models, const char *out, struct error *error)
{
	struct output_file file = {.file = NULL};

	if (out == NULL) {
		return price_study_read(study, directory, models, NULL, error);
	}
	TRY(output_file_open(&file, out, error));
	struct table_writer *each = memory_take(1, sizeof(*each));
	table_begin(each, file.file, PRICE_STEP_COLUMNS);
	enum status status = price_study_read(study, directory, models, each, error);
	table_end(each);
	free(each);
	if (status == STATUS_OK) {
		status = output_file_commit(&file, error);
	}
	output_file_abandon(&file);
	return status;
}

/* Whether a summary names the profile's content as what priced its steps. */
static bool has_priced(const struct gpu_profile *profile, const struct json_object *summary)
{
	struct error ignored = {0};
	const char *recorded = "";
	char own[17];

	json_text(summary, SUMMARY_PROFILE_XXH64, &recorded, &ignored); /* of real runs: none */
	snprintf(own, sizeof(own), "%016llx", (unsigned long long)profile->xxh64);
	return strcmp(recorded, own) == 0;
}

/* Its own prices are those of --step-time-scale, which the table does not have. */
static void tell_scale(const struct json_object *config)
{
	struct error ignored = {0};
	double scale = 1;

	if (json_has(config, "step_time_scale")) {
		json_double(config, "step_time_scale", 0, 1e15, &scale, &ignored);
	}
	if (scale != 1) {
		printf("its times were priced and multiplied by %g (--step-time-scale), which the "
		       "prices below are not\n",
			scale);
	}
}

static enum status show(const char *directory, const struct json_object *summary,
	const struct price_request *request, struct error *error)
{
	struct price_study study = {.cell_count = 0};
	struct opened opened = {.of_replica = NULL};
	struct json_object config;

	TRY(json_object(summary, SUMMARY_CONFIG, &config, error));
	enum status status = open_models(&opened, &config, request, error);
	if (status == STATUS_OK) {
		status = read_steps(&study, directory, &opened.models, request->out, error);
	}
	close_models(&opened);
	if (status == STATUS_OK) {
		const struct gpu_profile_choice *choice = &opened.choice;
		printf("%s priced by profile %s: %s\n", directory, choice->profile.name,
			choice->profile.description);
		if (choice->note[0] != '\0') {
			printf("uncalibrated: %s\n", choice->note);
		}
		if (!choice->profile.is_calibrated) {
			printf("profile of rates: it was fitted to no steps, so none is inside or "
			       "outside "
			       "of what it knows\n");
		}
		if (has_priced(&choice->profile, summary)) {
			printf("its steps were priced by this profile when they were simulated, "
			       "which says nothing of a GPU\n");
			tell_scale(&config);
		}
		price_study_print(&study, (uint32_t)request->most, stdout);
	}
	price_study_close(&study);
	return status;
}

static enum status run(struct command_line *line, struct error *error)
{
	const struct price_request *request = line->values;
	const char *directory = line->positionals[0];
	struct json_document summary;
	struct json_object root;

	TRY(result_names_refuse("--out", request->out, "priced.tsv", error));
	TRY(result_summary_open(&summary, directory, error));
	json_root(&root, &summary, error);
	enum status status = show(directory, &root, request, error);
	json_document_close(&summary);
	return status;
}

static const struct option options[] = {
	{"gpu", OPTION_TEXT, offsetof(struct price_request, gpu), .argument = "GPU",
		.initial = "h200",
		.help = "whose prices: a GPU, a profile, or FILE.json of quire calibrate"},
	{"model", OPTION_TEXT, offsetof(struct price_request, model), .argument = "MODEL",
		.help = "where the recorded one is a path that this machine lacks"},
	{"most", OPTION_COUNT, offsetof(struct price_request, most), .argument = "N",
		.initial = "16", .minimum = 0, .maximum = 100000,
		.help = "kinds of steps to name, those first that add most to the error"},
	{"out", OPTION_TEXT, offsetof(struct price_request, out), .argument = "FILE.tsv",
		.help = "write every step with its measured and its predicted time"},
};

const struct command command_price = {
	.name = "price",
	.title = "price the steps of a recorded run, and show where a profile errs",
	.arguments = "DIR [options]",
	.summary =
		"Prices every step of DIR/steps.tsv by a profile and sums up how far the prices\n"
		"are from the recorded times. Steps are priced as they were, so no error of\n"
		"decisions or of arrivals is in it. Columns of the tables:\n"
		"  time, %   share of the recorded time\n"
		"  error, %  priced over recorded, of the sum of such steps\n"
		"  |error|   the mean of each step's, weighted by time\n"
		"  adds, %   what such steps add to the error of all\n\n"
		"A one-sided error has |error| as large as error: its cause is in the profile.\n"
		"|error| alone is noise, or steps that differ in something else. The steps of a\n"
		"run are recorded with --steps, and always where a GPU computes.",
	.examples = "  quire price real\n"
		    "  quire price real --gpu mine/mine.json --out priced.tsv\n",
	OPTIONS(options),
	.value_bytes = sizeof(struct price_request),
	.positional_minimum = 1,
	.positional_maximum = 1,
	.run = run,
};
