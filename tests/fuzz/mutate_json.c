#include <cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "tests/fuzz/mutate.h"

/* Changes of a JSON tree. They take names, texts and values from the tree itself where they can, so
   that what refers to something else in the file (a merge to two tokens, an end to a token) keeps
   doing so. */

enum { NODES_MAX = 4096, COPIES_MAX = 40 };

struct node {
	cJSON *item, *parent;
};

/* All values of a document, from the outside in. */
struct tree {
	cJSON *root;
	struct node nodes[NODES_MAX]; /* (count), the root first */
	uint32_t count;
};

static void list_nodes(struct tree *tree)
{
	tree->nodes[0] = (struct node){tree->root, NULL};
	tree->count = 1;
	for (uint32_t i = 0; i < tree->count; i++) {
		cJSON *child = NULL;
		cJSON_ArrayForEach(child, tree->nodes[i].item)
		{
			if (tree->count < NODES_MAX) {
				tree->nodes[tree->count++] =
					(struct node){child, tree->nodes[i].item};
			}
		}
	}
}

/* Any value but the root, one near it more often than one of a long list. */
static const struct node *draw_node(const struct tree *tree, struct draw *draw)
{
	uint32_t count = draw_below(draw, 2) == 0 ? u32_min(tree->count, 48) : tree->count;

	return count < 2 ? &tree->nodes[0] : &tree->nodes[1 + draw_below(draw, count - 1)];
}

static cJSON *draw_container(const struct tree *tree, struct draw *draw)
{
	const struct node *node = draw_node(tree, draw);
	bool is_container = cJSON_IsArray(node->item) || cJSON_IsObject(node->item);

	return is_container || node->parent == NULL ? node->item : node->parent;
}

/* Puts a value in the place of a node, under its name. */
static void replace(const struct node *node, cJSON *with)
{
	if (node->parent == NULL || with == NULL) {
		cJSON_Delete(with);
		return;
	}
	cJSON_free(with->string);
	with->string = NULL;
	if (node->item->string != NULL) {
		with->string = cJSON_malloc(strlen(node->item->string) + 1);
		check(with->string != NULL);
		strcpy(with->string, node->item->string);
	}
	cJSON_ReplaceItemViaPointer(node->parent, node->item, with);
}

/* Adds a value to a list or an object. */
static void add(cJSON *container, const char *name, cJSON *value)
{
	if (cJSON_IsObject(container)) {
		cJSON_AddItemToObject(container, name, value);
	} else if (cJSON_IsArray(container)) {
		cJSON_AddItemToArray(container, value);
	} else {
		cJSON_Delete(value);
	}
}

/* A name or text of the document. */
static const char *draw_text(const struct tree *tree, struct draw *draw)
{
	for (uint32_t attempt = 0; attempt < 8; attempt++) {
		const cJSON *item = draw_node(tree, draw)->item;
		const char *text = cJSON_IsString(item) && draw_below(draw, 2) == 0
					   ? item->valuestring
					   : item->string;
		if (text != NULL) {
			return text;
		}
	}
	return "x";
}

/* Another number for a number: the form of the document stays. */
static void change_number(struct tree *tree, struct draw *draw)
{
	const struct node *node = draw_node(tree, draw);

	for (uint32_t attempt = 0; attempt < 8 && !cJSON_IsNumber(node->item); attempt++) {
		node = draw_node(tree, draw);
	}
	double value = cJSON_IsNumber(node->item) ? node->item->valuedouble : 0;

	switch (draw_below(draw, 5)) {
	case 0:
		replace(node, cJSON_CreateNumber(value + 1));
		break;
	case 1:
		replace(node, cJSON_CreateNumber(value - 1));
		break;
	case 2:
		replace(node, cJSON_CreateNumber(value * 2));
		break;
	default:
		replace(node, cJSON_CreateRaw(draw_number(draw)));
	}
}

static void change_kind(struct tree *tree, struct draw *draw)
{
	static const char *const values[] = {"true", "false", "null", "[]", "{}", "\"\"", "\"x\"",
		"\"\\u0001\\u001b[0m\"", "\"\\ud83d\\ude00\\u0301\"", "[0]", "{\"x\":1}", "\" \"",
		"\"a b\"", "\"none\"", "[[\"a\",\"b\"]]"};
	uint32_t index = draw_below(draw, sizeof(values) / sizeof(values[0]));

	replace(draw_node(tree, draw), cJSON_CreateRaw(values[index]));
}

static void drop(struct tree *tree, struct draw *draw)
{
	const struct node *node = draw_node(tree, draw);

	if (node->parent != NULL) {
		cJSON_Delete(cJSON_DetachItemViaPointer(node->parent, node->item));
	}
}

/* A copy of one value in the place of another. */
static void copy_over(struct tree *tree, struct draw *draw)
{
	const struct node *from = draw_node(tree, draw), *to = draw_node(tree, draw);

	replace(to, cJSON_Duplicate(from->item, true));
}

/* The same value, or the same name, once more or many times. */
static void repeat(struct tree *tree, struct draw *draw)
{
	const struct node *node = draw_node(tree, draw);
	uint32_t copies = draw_below(draw, 4) == 0 ? draw_below(draw, COPIES_MAX) : 1;

	for (uint32_t i = 0; node->parent != NULL && i < copies; i++) {
		add(node->parent, node->item->string, cJSON_Duplicate(node->item, true));
	}
}

static void rename_item(struct tree *tree, struct draw *draw)
{
	const struct node *node = draw_node(tree, draw);
	const char *name = draw_text(tree, draw);

	if (node->item->string != NULL) {
		char *copy = cJSON_malloc(strlen(name) + 1);
		check(copy != NULL);
		strcpy(copy, name);
		cJSON_free(node->item->string);
		node->item->string = copy;
	}
}

/* Two texts of the document joined, with a blank between them or without one: a token made of two,
   a merge of two. It becomes a name with a number, or an item of a list. */
static void join_texts(struct tree *tree, struct draw *draw)
{
	struct text joined = {0};
	cJSON *container = draw_container(tree, draw);
	uint32_t kind = draw_below(draw, 3);

	text_add(&joined, draw_text(tree, draw));
	text_add(&joined, kind == 0 ? " " : "");
	text_add(&joined, draw_text(tree, draw));
	const char *text = joined.bytes == NULL ? "" : joined.bytes;
	if (kind == 2) {
		replace(draw_node(tree, draw), cJSON_CreateString(text));
	} else if (cJSON_IsObject(container)) {
		add(container, text, cJSON_CreateNumber(cJSON_GetArraySize(container)));
	} else {
		add(container, NULL, cJSON_CreateString(text));
	}
	text_deinit(&joined);
}

/* A text without some of its bytes, or with one more. */
static void change_text(struct tree *tree, struct draw *draw)
{
	const struct node *node = draw_node(tree, draw);
	struct text changed = {0};

	if (!cJSON_IsString(node->item)) {
		return;
	}
	const char *text = node->item->valuestring;
	uint32_t bytes = u32_from(strlen(text));
	uint32_t from = draw_below(draw, bytes + 1);
	uint32_t to = from + draw_below(draw, bytes - from + 1);
	text_add_bytes(&changed, text, from);
	if (draw_below(draw, 2) == 0) {
		const char byte = (char)(1 + draw_below(draw, 255));
		text_add_bytes(&changed, &byte, 1);
		to = from;
	}
	text_add(&changed, text + to);
	replace(node, cJSON_CreateString(changed.bytes == NULL ? "" : changed.bytes));
	text_deinit(&changed);
}

/* Half of the changes keep the form, since a reader refuses most others. */
static void apply(struct tree *tree, struct draw *draw)
{
	static void (*const changes[])(struct tree *, struct draw *) = {change_kind, drop,
		copy_over, repeat, rename_item, join_texts, join_texts, change_text};

	if (draw_below(draw, 2) == 0) {
		change_number(tree, draw);
	} else {
		changes[draw_below(draw, sizeof(changes) / sizeof(changes[0]))](tree, draw);
	}
}

void mutate_json(const char *text, size_t byte_count, struct draw *draw, struct text *out)
{
	struct tree *tree = calloc(1, sizeof(*tree));

	check(tree != NULL);
	tree->root = cJSON_ParseWithLength(text, byte_count);
	if (tree->root == NULL) {
		tree->root = cJSON_CreateObject();
	}
	list_nodes(tree);
	apply(tree, draw);
	char *printed = cJSON_PrintUnformatted(tree->root);
	text_add(out, printed == NULL ? "{}" : printed);
	cJSON_free(printed);
	cJSON_Delete(tree->root);
	free(tree);
}
