#include "bench/commands/commands.h"
#include "bench/options/options.h"
#include "engine/model/config_json.h"
#include "engine/model/weights_export.h"
#include "engine/shape/model_config.h"
#include "engine/model/weights.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* The folder may be there; its files are not overwritten. */
static enum status make_folder(const char *path, struct error *error)
{
	if (mkdir(path, 0777) != 0 && errno != EEXIST) {
		return error_set(error, STATUS_FILE, "cannot make %s: %s", path, strerror(errno));
	}
	return STATUS_OK;
}

static enum status export_model(
	const char *model, const char *source, const char *folder, struct error *error)
{
	struct model_config config;
	struct weights *weights = NULL;

	enum status status = model_config_find(model, &config, error);
	if (status == STATUS_OK) {
		status = weights_open(&weights, &config, source, error);
	}
	if (status == STATUS_OK) {
		status = make_folder(folder, error);
	}
	if (status == STATUS_OK) {
		status = weights_export(weights, folder, error);
	}
	weights_close(weights);
	return status;
}

int command_export(int argc, char **argv)
{
	const char *model = NULL, *source = "dummy:0", *folder = NULL;
	bool wants_help = false;
	uint32_t positional_count = 0;
	struct error error = {STATUS_OK, ""};
	const struct option options[] = {
		{"model", OPTION_TEXT, &model, "NAME|DIR",
			"qwen3-0.6b, -1.7b, -4b, -8b, -14b, -32b, or a folder with a config.json",
			0, 0, NULL, NULL},
		{"weights", OPTION_TEXT, &source, "dummy:SEED|DIR",
			"made up from a seed (default dummy:0), or the safetensors of a folder", 0,
			0, NULL, NULL},
		{"out", OPTION_TEXT, &folder, "DIR",
			"gets config.json and model.safetensors, which must not be there", 0, 0,
			NULL, NULL},
	};
	const struct command command = {
		.name = "export",
		.arguments = "--model NAME|DIR --out DIR [--weights dummy:SEED|DIR]",
		.summary = "Writes a model's weights as bf16 safetensors with its config.json, "
			   "so that other\n"
			   "programs run the same model, made-up weights included.",
		.examples = "  quire export --model qwen3-0.6b --weights dummy:7 --out dummy-7\n",
		.options = options,
		.option_count = sizeof(options) / sizeof(options[0]),
	};

	enum status status =
		options_parse(&command, argc, argv, NULL, &positional_count, &wants_help, &error);
	if (status == STATUS_OK && wants_help) {
		command_help(&command);
		return 0;
	}
	if (status == STATUS_OK && (model == NULL || folder == NULL)) {
		status = error_set(&error, STATUS_USAGE, "expected --%s",
			model == NULL ? "model NAME|DIR" : "out DIR");
	}
	if (status == STATUS_OK) {
		status = export_model(model, source, folder, &error);
	}
	return status == STATUS_OK ? 0 : command_fail(&command, &error);
}
