#include "reports/figures/plot.h"

#include "engine/base/output_file.h"
#include "engine/base/check.h"
#include "engine/base/embedded_file.h"
#include "reports/figures/gnuplot.h"
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

static enum status draw(const struct text *script, struct text *drawing, struct error *error)
{
	struct gnuplot gnuplot = {0};
	struct error later = {0};
	struct text svg = {0}, notes = {0};
	enum status status = gnuplot_start(&gnuplot, script, NULL, 0, error);
	bool has_failed = status != STATUS_OK;
	enum status finished = gnuplot_finish(&gnuplot, &svg, &notes, has_failed ? &later : error);

	status = has_failed ? status : finished;
	if (status == STATUS_OK) {
		svg_describe(drawing, &svg, &notes);
	}
	text_deinit(&svg);
	text_deinit(&notes);
	return status;
}

enum status plot_draw(struct plot *plot, const char *script, const char *path, struct error *error)
{
	struct text text = {0};
	struct text drawing = {0};

	enum status status = add_table(&text, plot->table, error);
	fclose(plot->table);
	plot->table = NULL;
	text_add(&text, "has_notes = 1\n");
	text_add_bytes(&text, plot->variables.bytes, plot->variables.byte_count);
	text_deinit(&plot->variables);
	add_file(&text, "style.gp");
	add_file(&text, script);
	if (status == STATUS_OK) {
		status = draw(&text, &drawing, error);
	}
	if (status == STATUS_OK) {
		status = write_drawing(&drawing, path, error);
	}
	text_deinit(&text);
	text_deinit(&drawing);
	return status;
}
