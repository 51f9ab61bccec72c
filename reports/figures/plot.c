#include "reports/figures/plot.h"

#include "engine/base/output_file.h"
#include "engine/base/check.h"
#include "engine/base/embedded_file.h"
#include "reports/figures/svg.h"
#include "engine/base/text.h"

#include <errno.h>
#include <string.h>

extern const struct embedded_file report_files[];
extern const uint32_t report_files_count;

enum status plot_begin(struct plot *plot, struct error *error)
{
	*plot = (struct plot){.table = tmpfile()};
	if (plot->table == NULL) {
		return error_set(error, STATUS_FILE, "a temporary file cannot be written: %s",
			strerror(errno));
	}
	return STATUS_OK;
}

void plot_set_text(struct plot *plot, const char *name, const char *value)
{
	text_format(&plot->variables, "%s = ", name);
	text_add_gnuplot_string(&plot->variables, value);
	text_add(&plot->variables, "\n");
}

void plot_set_number(struct plot *plot, const char *name, double value)
{
	text_format(&plot->variables, "%s = %.17g\n", name, value);
}

void plot_set_text_at(struct plot *plot, const char *name, uint32_t number, const char *value)
{
	char variable[64];

	snprintf(variable, sizeof(variable), "%s_%u", name, number);
	plot_set_text(plot, variable, value);
}

const char *plot_kind(enum number_format format)
{
	return format == NUMBER_SHARE ? "share"
	       : format == NUMBER_TIME_MS || format == NUMBER_MS || format == NUMBER_TIME_S
		       ? "time"
		       : "plain";
}

double plot_value(enum number_format format, const char *unit, double value)
{
	return strcmp(unit, "ms") == 0	? value / 1000
	       : format == NUMBER_SHARE ? 100 * value
					: value;
}

/* The table is part of the script, as a data block, so that no path needs quoting. */
static enum status add_table(struct text *text, FILE *table, struct error *error)
{
	char buffer[4096];
	size_t bytes;

	text_add(text, "$table << END_OF_TABLE\n");
	errno = 0;
	bool is_whole = fflush(table) == 0 && !ferror(table) && fseek(table, 0, SEEK_SET) == 0;
	while ((bytes = fread(buffer, 1, sizeof(buffer), table)) > 0) {
		text_add_bytes(text, buffer, bytes);
	}
	text_add(text, "END_OF_TABLE\ntable = '$table'\n");
	if (is_whole && !ferror(table)) {
		return STATUS_OK;
	}
	return error_set(error, STATUS_FILE, "the temporary file of a figure failed: %s",
		strerror(errno == 0 ? EIO : errno));
}

static void add_file(struct text *text, const char *name)
{
	const struct embedded_file *file =
		embedded_file_find(report_files, report_files_count, name);

	check(file != NULL);
	text_add_bytes(text, file->bytes, file->size);
}

static enum status write_drawing(const struct text *drawing, const char *path, struct error *error)
{
	struct output_file output;

	TRY(output_file_open(&output, path, error));
	fwrite(drawing->bytes, 1, drawing->byte_count, output.file);
	return output_file_commit(&output, error);
}

enum status plot_start(struct plot *plot, const char *script, struct error *error)
{
	struct text text = {0};

	enum status status = add_table(&text, plot->table, error);
	fclose(plot->table);
	plot->table = NULL;
	text_add(&text, "has_notes = 1\n");
	text_add_bytes(&text, plot->variables.bytes, plot->variables.byte_count);
	text_deinit(&plot->variables);
	add_file(&text, "style.gp");
	add_file(&text, script);
	if (status == STATUS_OK) {
		status = gnuplot_start(&plot->gnuplot, &text, NULL, 0, error);
	}
	text_deinit(&text);
	return status;
}

enum status plot_finish(struct plot *plot, struct figure_drawing *drawing, struct error *error)
{
	return gnuplot_finish(&plot->gnuplot, &drawing->svg, &drawing->notes, error);
}

enum status plot_draw(struct plot *plot, const char *script, const char *path, struct error *error)
{
	struct figure_drawing drawing = {0};
	struct text described = {0};
	struct error later = {0};

	enum status status = plot_start(plot, script, error);
	bool has_failed = status != STATUS_OK;
	enum status finished = plot_finish(plot, &drawing, has_failed ? &later : error);
	status = has_failed ? status : finished;
	if (status == STATUS_OK) {
		svg_describe(&described, &drawing.svg, &drawing.notes);
		status = write_drawing(&described, path, error);
	}
	text_deinit(&described);
	text_deinit(&drawing.svg);
	text_deinit(&drawing.notes);
	return status;
}
