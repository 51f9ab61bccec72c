#ifndef ENGINE_BASE_JSON_H
#define ENGINE_BASE_JSON_H

#include "engine/base/status.h"

#include <cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Configuration and summaries in JSON, read with errors that name the file, the field, what was
   found and what was expected. A thin layer over cJSON, whose tree stays open to readers that want
   to walk it themselves.

       struct json_document document;
       struct json_object root, rope;

       TRY(json_document_open(&document, path, error));
       json_root(&root, &document, error);
       json_u32(&root, "hidden_size", 1, 65536, &config->hidden_size, error);
       json_object(&root, "rope_parameters", &rope, error);
       json_double(&rope, "rope_theta", 1, 1e12, &config->rope_theta, error);
       json_document_close(&document);
       return error->status;

   All but json_document_open() and json_document_parse() are sticky (engine/base/status.h): after
   the first error the rest of such a list does nothing. Values that were not read stay as they
   were; objects become empty, without any field.

   Names are matched exactly; a field that is there twice is refused when it is read. Limits: a file
   of 16 MiB, nesting of 1,000 (cJSON's own). */

enum { JSON_NAME_BYTES = 256, JSON_PATH_BYTES = 128 };

struct json_document {
	char name[JSON_NAME_BYTES]; /* as errors call it: the path, cut in front when too long */
	cJSON *root;		    /* owned; NULL when closed */
};

/* An object within a document, which it borrows. */
struct json_object {
	const struct json_document *document;
	const cJSON *node;
	char path[JSON_PATH_BYTES]; /* of the object, "" for the root, else "a.b" */
};

/* Reads a file; a text that is no JSON is refused with the line where it stops being it. */
enum status json_document_open(struct json_document *out, const char *path, struct error *error);

/* Parses `length` bytes; `name` is what errors call them. */
enum status json_document_parse(struct json_document *out, const char *name, const char *text,
	size_t length, struct error *error);

/* Frees the tree; a zeroed or closed document is accepted. */
void json_document_close(struct json_document *document);

/* The document's outermost value, which must be an object. */
enum status json_root(
	struct json_object *out, const struct json_document *document, struct error *error);

/* Is the field there, and not null? */
bool json_has(const struct json_object *object, const char *field);

/* The value of a field, or NULL when it is not there. It may be a JSON null. */
const cJSON *json_find(const struct json_object *object, const char *field);

/* A field that must be there, of its kind and within [minimum, maximum]. */
enum status json_object(const struct json_object *object, const char *field,
	struct json_object *out, struct error *error);
enum status json_u64(const struct json_object *object, const char *field, uint64_t minimum,
	uint64_t maximum, uint64_t *out, struct error *error); /* maximum <= 2^53 */
enum status json_u32(const struct json_object *object, const char *field, uint32_t minimum,
	uint32_t maximum, uint32_t *out, struct error *error);
enum status json_double(const struct json_object *object, const char *field, double minimum,
	double maximum, double *out, struct error *error);
enum status json_bool(
	const struct json_object *object, const char *field, bool *out, struct error *error);

/* A text; the pointer dies with the document. */
enum status json_text(
	const struct json_object *object, const char *field, const char **out, struct error *error);

/* "NAME: field a.b: found FOUND, expected EXPECTED" for a value that the caller finds wanting. */
enum status json_refuse(const struct json_object *object, const char *field, const char *expected,
	struct error *error);

#endif
