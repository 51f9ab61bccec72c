#include "reports/page/page_sections.h"

#include "engine/base/check.h"

#include <string.h>

/* JSON inside an element of HTML: a `<` can only be part of a string, where it may be written as an
   escape, so that no string ends the element. */
static void add_embedded(struct text *page, const cJSON *root)
{
	char *printed = cJSON_PrintUnformatted(root);
	const char *at = printed;

	check(printed != NULL);
	text_repair_utf8(printed);
	while (*at != '\0') {
		size_t bytes = strcspn(at, "<");
		text_add_bytes(page, at, bytes);
		at += bytes;
		if (*at == '<') {
			text_add(page, "\\u003c");
			at++;
		}
	}
	cJSON_free(printed);
}

void page_folder_name(struct text *name, const char *directory)
{
	size_t end = strlen(directory);

	while (end > 1 && directory[end - 1] == '/') {
		end--;
	}
	size_t start = end;
	while (start > 0 && directory[start - 1] != '/') {
		start--;
	}
	text_add_bytes(name, directory + start, end - start);
	text_add(name, "");
}

void page_data_of(struct text *page, const char *label, const char *name, const cJSON *summary,
	const cJSON *provenance)
{
	cJSON *folder = cJSON_CreateString(label);

	text_add(page, "{\"folder\":");
	add_embedded(page, folder);
	cJSON_Delete(folder);
	text_format(page, ",\"%s\":", name);
	add_embedded(page, summary);
	if (provenance != NULL) {
		text_add(page, ",\"provenance\":");
		add_embedded(page, provenance);
	}
	text_add(page, "}");
}

void page_data(struct text *page, const struct result *results, uint32_t count)
{
	text_add(page, "<script type=\"application/json\" id=\"quire-data\">[");
	for (uint32_t i = 0; i < count; i++) {
		text_add(page, i == 0 ? "\n" : ",\n");
		page_data_of(page, results[i].label.bytes, "summary", results[i].root.node,
			results[i].provenance.root);
	}
	text_add(page, "\n]</script>\n");
}

void page_close(struct text *page, const char *label, const char *name, const cJSON *summary,
	const cJSON *provenance, const char *script)
{
	text_add(page, "</main>\n<script type=\"application/json\" id=\"quire-data\">[\n");
	page_data_of(page, label, name, summary, provenance);
	text_add(page, "\n]</script>\n<script>\n");
	text_add(page, script);
	text_add(page, "</script>\n</body>\n</html>\n");
}
