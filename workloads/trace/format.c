#include "workloads/trace/format.h"

#include "engine/base/check.h"

#include <string.h>

/* The table. The last format that recognises a line wins. So a format comes after those whose
   fields are a subset of its own: Bailian's rows have all of Mooncake's fields, and the columns of
   Azure's and BurstGPT's files have common names. */
#define FORMAT_LIST(X)                                                                             \
	X(mooncake)                                                                                \
	X(bailian)                                                                                 \
	X(csv)                                                                                     \
	X(azure)                                                                                   \
	X(burstgpt)                                                                                \
	X(token_ids)                                                                               \
	X(vllm_bench)

#define FORMAT_EXTERN(name) extern const struct trace_format format_##name;
FORMAT_LIST(FORMAT_EXTERN)

#define FORMAT_ROW(name) &format_##name,
static const struct trace_format *const formats[] = {FORMAT_LIST(FORMAT_ROW)};

enum { FORMAT_COUNT = sizeof(formats) / sizeof(formats[0]) };

const struct trace_format *trace_format_at(uint32_t index)
{
	return index < FORMAT_COUNT ? formats[index] : NULL;
}

const struct trace_format *trace_format_find(const char *name)
{
	for (uint32_t i = 0; i < FORMAT_COUNT; i++) {
		if (strcmp(formats[i]->name, name) == 0) {
			return formats[i];
		}
	}
	return NULL;
}

const struct trace_format *trace_format_of_line(const char *line, size_t line_bytes)
{
	for (uint32_t i = FORMAT_COUNT; i-- > 0;) {
		if (formats[i]->recognises(line, line_bytes)) {
			return formats[i];
		}
	}
	return NULL;
}

static size_t count_of(char wanted, const char *line, size_t line_bytes)
{
	size_t count = 0;

	for (size_t i = 0; i < line_bytes; i++) {
		count += line[i] == wanted;
	}
	return count;
}

const char *trace_format_way_out(const char *line, size_t line_bytes)
{
	size_t commas = count_of(',', line, line_bytes);

	if (line[0] == '{' && strspn(line + 1, " \t") + 1 == line_bytes) {
		return "; an object of JSON is on one line: jq -c . writes it so";
	}
	if (line[0] == '{') {
		return "; a row of JSON has timestamp, input_length and output_length";
	}
	if (line[0] == '[') {
		return "; of JSON a line has one object: jq -c '.[]' writes those of an array so";
	}
	if (count_of('\t', line, line_bytes) > commas) {
		return "; columns are separated by commas, here by tabs: tr '\\t' , makes them "
		       "commas";
	}
	if (count_of(';', line, line_bytes) > commas) {
		return "; columns are separated by commas, here by semicolons: tr ';' , makes them "
		       "commas";
	}
	return commas > 0 ? csv_way_out(line, line_bytes) : "";
}

const char *trace_format_word(uint32_t index)
{
	if (index == 0) {
		return "any";
	}
	return index <= FORMAT_COUNT ? formats[index - 1]->name : NULL;
}

const struct trace_format *trace_format_of_word(uint32_t index)
{
	check(index <= FORMAT_COUNT);
	return index == 0 ? NULL : formats[index - 1];
}

bool line_contains(const char *line, size_t line_bytes, const char *text)
{
	size_t text_bytes = strlen(text);

	for (size_t i = 0; i + text_bytes <= line_bytes; i++) {
		const char *found = memchr(line + i, text[0], line_bytes - i - text_bytes + 1);
		if (found == NULL) {
			return false;
		}
		i = (size_t)(found - line);
		if (memcmp(found, text, text_bytes) == 0) {
			return true;
		}
	}
	return false;
}
