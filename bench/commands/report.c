#include "bench/commands/commands.h"

#include "bench/options/options.h"
#include "reports/report.h"

#include <stdio.h>

int command_report(int argc, char **argv)
{
	const char *out_path = NULL;
	const struct option options[] = {
		{.name = "out",
			.kind = OPTION_TEXT,
			.value = &out_path,
			.argument = "FILE.html",
			.help = "where the page goes; needed"},
	};
	const struct command command = {
		.name = "report",
		.arguments = "DIR... --out FILE.html",
		.summary =
			"Turns the result folders of quire replay into one HTML page: the verdict, "
			"key\n"
			"figures, plots over time, latency curves, configuration and provenance. "
			"Several\n"
			"folders are laid over each other and compared with the first; up to 8. "
			"The page\n"
			"needs nothing else and can be sent as it is. gnuplot must be "
			"installed.\n\n"
			"A real run (runner cuda or reference) and a simulated one of the same "
			"trace, in\n"
			"either order, are held against each other: the error of every figure.",
		.examples = "  quire report result --out report.html\n"
			    "  quire report before after --out comparison.html\n"
			    "  quire report measured simulated --out errors.html\n",
		.options = options,
		.option_count = sizeof(options) / sizeof(options[0]),
		.positional_minimum = 1,
		.positional_maximum = REPORT_RESULTS_MAX,
	};
	const char *directories[REPORT_RESULTS_MAX];
	uint32_t count = 0;
	bool wants_help = false;
	struct error error = {0};

	enum status status =
		options_parse(&command, argc, argv, directories, &count, &wants_help, &error);
	if (status == STATUS_OK && wants_help) {
		command_help(&command);
		return 0;
	}
	if (status == STATUS_OK && out_path == NULL) {
		status = error_set(&error, STATUS_USAGE, "--out is missing");
	}
	if (status == STATUS_OK) {
		status = report_write(directories, count, out_path, &error);
	}
	return status == STATUS_OK ? 0 : command_fail(&command, &error);
}
