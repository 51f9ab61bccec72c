#include "bench/commands/commands.h"

#include "bench/replay/replay_config.h"
#include "reports/report.h"

#include <assert.h>
#include <cJSON.h>
#include <stdbool.h>
#include <stddef.h>

struct report_request {
	const char *out;
	bool is_forced;
};

static enum status run(struct command_line *line, struct error *error)
{
	const struct report_request *request = line->values;

	if (request->out == NULL) {
		return error_set(error, STATUS_USAGE, "--out is missing");
	}
	if (!request->is_forced) {
		TRY(report_refuse_old(request->out, error));
	}
	struct replay_config config;
	replay_config_default(&config);
	cJSON *json = replay_config_json(&config);
	char *defaults = cJSON_PrintUnformatted(json);
	enum status status = report_write(
		line->positionals, line->positional_count, request->out, defaults, error);
	cJSON_free(defaults);
	cJSON_Delete(json);
	return status;
}

static const struct option options[] = {
	{"out", OPTION_TEXT, offsetof(struct report_request, out), .argument = "FILE.html",
		.help = "file of the page; required"},
	{"force", OPTION_FLAG, offsetof(struct report_request, is_forced),
		.help = "replace a file that is no page of this command"},
};

static_assert((int)REPORT_RESULTS_MAX <= (int)POSITIONALS_MAX, "a folder is a positional");

const struct command command_report = {
	.name = "report",
	.title = "turn result folders into one HTML page with plots",
	.arguments = "DIR... --out FILE.html",
	.summary =
		"Turns the result folders of quire replay into one HTML page: the verdict, key\n"
		"figures, plots over time, latency curves, configuration and provenance. Several\n"
		"folders are laid over each other and compared with the first; up to 8. The page\n"
		"needs nothing else and can be sent as it is. gnuplot must be installed.\n"
		"Where several runs are compared, the settings that differ name them.\n\n"
		"The folder of a plan or a sweep has a page of its own: the answer with its "
		"intervals,\n"
		"latency and goodput against load; metrics over the grid. So has the "
		"file of\n"
		"quire gate --history: the last verdicts, since when each figure is what it is, "
		"and\n"
		"every figure over commits.\n\n"
		"A real run (runner cuda or reference) and a simulated one of the same trace, in\n"
		"either order, are compared: the error of every figure.",
	.examples = "  quire report result --out report.html\n"
		    "  quire report before after --out comparison.html\n"
		    "  quire report plan --out plan.html\n"
		    "  quire report history.jsonl --out gate.html\n"
		    "  quire report measured simulated --out errors.html\n",
	OPTIONS(options),
	.value_bytes = sizeof(struct report_request),
	.positional_minimum = 1,
	.positional_maximum = REPORT_RESULTS_MAX,
	.run = run,
};
