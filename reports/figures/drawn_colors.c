#include "reports/figures/drawn_colors.h"

#include "engine/base/check.h"
#include "engine/base/embedded_file.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

extern const struct embedded_file report_files[];
extern const uint32_t report_files_count;

static bool read_line(const char *line, struct drawn_color *color)
{
	char start[64];
	char word[DRAWN_COLOR_NAME_BYTES - 4];
	uint32_t index;

	/* A copy of the line, since sscanf takes the length of the whole text on every call. */
	snprintf(start, sizeof(start), "%.*s", (int)strcspn(line, "\n"), line);
	if (sscanf(start, "palette_run[%2u] = 0x%6x", &index, &color->rgb) == 2) {
		snprintf(color->name, sizeof(color->name), "run-%u", index);
		return true;
	}
	if (sscanf(start, "%11[a-z]_color = \"#%6x\"", word, &color->rgb) == 2) {
		snprintf(color->name, sizeof(color->name), "%s", word);
		return true;
	}
	return false;
}

uint32_t drawn_colors(struct drawn_color *colors)
{
	const struct embedded_file *style =
		embedded_file_find(report_files, report_files_count, "style.gp");
	uint32_t count = 0;

	check(style != NULL);
	for (const char *line = style->bytes; line != NULL; line = strchr(line, '\n')) {
		line += *line == '\n';
		check(count < DRAWN_COLORS_MAX);
		count += read_line(line, &colors[count]);
	}
	check(count > 0);
	return count;
}
