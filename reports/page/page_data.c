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

void page_data(struct text *page, const struct result *results, uint32_t count)
{
	text_add(page, "<script type=\"application/json\" id=\"quire-data\">[");
	for (uint32_t i = 0; i < count; i++) {
		cJSON *label = cJSON_CreateString(results[i].label.bytes);
		text_add(page, i == 0 ? "\n{\"folder\":" : ",\n{\"folder\":");
		add_embedded(page, label);
		cJSON_Delete(label);
		text_add(page, ",\"summary\":");
		add_embedded(page, results[i].root.node);
		if (results[i].provenance.root != NULL) {
			text_add(page, ",\"provenance\":");
			add_embedded(page, results[i].provenance.root);
		}
		text_add(page, "}");
	}
	text_add(page, "\n]</script>\n");
}
