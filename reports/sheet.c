#include "reports/sheet.h"

#include "engine/base/check.h"
#include "reports/report_files.h"

enum status sheet_add(struct sheet *sheet, const struct page_plot *shown, const char *script,
	struct plot **plot, struct error *error)
{
	check(sheet->count < SHEET_PLOTS_MAX);
	uint32_t index = sheet->count;

	*plot = &sheet->plots[index];
	TRY(plot_begin(*plot, error));
	sheet->scripts[index] = script;
	sheet->shown[index] = *shown;
	sheet->shown[index].drawing = &sheet->drawings[index];
	sheet->count++;
	return STATUS_OK;
}

enum status sheet_draw(struct sheet *sheet, struct error *error)
{
	enum status status = STATUS_OK;

	for (uint32_t i = 0; i < sheet->count && status == STATUS_OK; i++) {
		status = plot_start(&sheet->plots[i], sheet->scripts[i], error);
	}
	for (uint32_t i = 0; i < sheet->count; i++) {
		struct error later = {0};
		bool has_failed = status != STATUS_OK;
		enum status finished = plot_finish(
			&sheet->plots[i], &sheet->drawings[i], has_failed ? &later : error);
		status = has_failed ? status : finished;
	}
	return status;
}

void sheet_close(struct sheet *sheet)
{
	for (uint32_t i = 0; i < sheet->count; i++) {
		if (sheet->plots[i].table != NULL) {
			fclose(sheet->plots[i].table); /* it was not started */
		}
		text_deinit(&sheet->plots[i].variables);
		text_deinit(&sheet->drawings[i].svg);
		text_deinit(&sheet->drawings[i].notes);
	}
	*sheet = (struct sheet){0};
}

struct page_sheet sheet_page(const struct sheet *sheet, const struct json_object *defaults)
{
	return (struct page_sheet){.plots = sheet->shown,
		.plot_count = sheet->count,
		.defaults = *defaults,
		.style = report_file("page.css")->bytes,
		.script = report_file("page.js")->bytes};
}
