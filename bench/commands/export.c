#include "bench/commands/commands.h"
#include "bench/record/owned_folder.h"
#include "bench/replay/replay_config.h"
#include "engine/model/config_json.h"
#include "engine/model/weights_export.h"
#include "engine/shape/model_config.h"
#include "engine/model/weights.h"

#include <stddef.h>

static enum status export_model(
	const char *model, const char *source, const char *folder, struct error *error)
{
	struct model_config config;
	struct weights *weights = NULL;
	struct owned_folder owned;

	TRY(model_config_find(model, &config, error));
	TRY(weights_open(&weights, &config, source, error));
	enum status status = owned_folder_open(&owned, folder, error);
	if (status == STATUS_OK) {
		status = weights_export(weights, folder, error);
		owned_folder_close(&owned);
	}
	weights_close(weights);
	return status;
}

struct export_request {
	struct replay_config config; /* model and weights */
	const char *folder;
};

static enum status run(struct command_line *line, struct error *error)
{
	const struct export_request *request = line->values;
	const struct replay_config *config = &request->config;

	if (config->model == NULL || request->folder == NULL) {
		return error_set(error, STATUS_USAGE, "expected --%s",
			config->model == NULL ? "model NAME|DIR" : "out DIR");
	}
	const char *weights = config->weights == NULL ? config->model : config->weights;
	return export_model(config->model, weights, request->folder, error);
}

static const struct option options[] = {
	{FROM_TABLE("model"), .initial = ""},
	{FROM_TABLE("weights"), .argument = "dummy:SEED|DIR", .initial = "dummy:0", .none = "",
		.help = "random ones of a seed, or the safetensors of a folder"},
	{"out", OPTION_TEXT, offsetof(struct export_request, folder), .argument = "DIR",
		.help = "receives config.json and model.safetensors, which must not exist yet"},
};

const struct command command_export = {
	.name = "export",
	.title = "write a model's weights for other programs",
	.arguments = "--model NAME|DIR --out DIR [--weights dummy:SEED|DIR]",
	.summary =
		"Writes a model's weights as bf16 safetensors with its config.json, so that other\n"
		"programs run the same model, random weights included.",
	.examples = "  quire export --model qwen3-0.6b --weights dummy:7 --out dummy-7\n",
	OPTIONS(options),
	.table = &replay_options,
	.table_offset = offsetof(struct export_request, config),
	.value_bytes = sizeof(struct export_request),
	.run = run,
};
