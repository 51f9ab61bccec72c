#include "workloads/trace/trace_writer.h"

#include "workloads/trace/format.h"

#include <inttypes.h>
#include <string.h>

enum { NS_PER_MS = 1000000, IDS_BYTES = 4096, ID_BYTES_MAX = 22 };

static void write_milliseconds(FILE *file, uint64_t ns)
{
	uint64_t rest = ns % NS_PER_MS;
	int places = 6;

	fprintf(file, "%" PRIu64, ns / NS_PER_MS);
	if (rest == 0) {
		return;
	}
	while (rest % 10 == 0) {
		rest /= 10;
		places--;
	}
	fprintf(file, ".%0*" PRIu64, places, rest);
}

/* Ids make up nearly all of a trace, so they are formatted by hand instead of by fprintf. */
static void write_ids(FILE *file, const uint64_t *ids, uint32_t count)
{
	char buffer[IDS_BYTES];
	size_t used = 0;

	for (uint32_t i = 0; i < count; i++) {
		char digits[ID_BYTES_MAX];
		size_t at = sizeof(digits);
		uint64_t id = ids[i];
		do {
			digits[--at] = (char)('0' + id % 10);
			id /= 10;
		} while (id > 0);
		if (i > 0) {
			digits[--at] = ',';
		}
		if (used + ID_BYTES_MAX > sizeof(buffer)) {
			fwrite(buffer, 1, used, file);
			used = 0;
		}
		memcpy(buffer + used, digits + at, sizeof(digits) - at);
		used += sizeof(digits) - at;
	}
	fwrite(buffer, 1, used, file);
}

/* Escapes JSON's two special characters and control characters; the rest is UTF-8 already. */
static void write_text(FILE *file, const char *text)
{
	fputc('"', file);
	for (; *text != '\0'; text++) {
		unsigned char c = (unsigned char)*text;
		if (c == '"' || c == '\\') {
			fprintf(file, "\\%c", c);
		} else if (c < ' ') {
			fprintf(file, "\\u%04x", (unsigned)c);
		} else {
			fputc(c, file);
		}
	}
	fputc('"', file);
}

void trace_write_row(FILE *file, const struct trace_row *row)
{
	fputs("{\"timestamp\":", file);
	write_milliseconds(file, row->arrival_ns);
	fprintf(file, ",\"input_length\":%" PRIu32 ",\"output_length\":%" PRIu32, row->input_length,
		row->output_length);
	if (row->session != NULL) {
		fputs(",\"session_id\":", file);
		write_text(file, row->session);
	}
	if (row->has_delay) {
		fputs(",\"delay\":", file);
		write_milliseconds(file, row->delay_ns);
	}
	if (row->priority != 0) {
		fprintf(file, ",\"priority\":%" PRId32, row->priority);
	}
	if (row->stored_length > 0) {
		fprintf(file, ",\"stored_length\":%" PRIu32, row->stored_length);
	}
	if (row->block_size > 0 && row->block_size != MOONCAKE_BLOCK_SIZE) {
		fprintf(file, ",\"block_size\":%" PRIu32, row->block_size);
	}
	if (row->hash_ids != NULL) {
		fputs(",\"hash_ids\":[", file);
		write_ids(file, row->hash_ids, row->hash_id_count);
		fputc(']', file);
	}
	fputs("}\n", file);
}
