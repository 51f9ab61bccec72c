#include "engine/base/unfinished.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/harness/files.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* Drawn trees of folders and files, some of which are completed or removed on the way, against a
   list that is kept by hand. Whenever everything unfinished is removed, that is gone, with each
   folder that is empty then, and nothing else is. */

enum { PATH_BYTES = 2 * TEMPORARY_PATH_BYTES, OPERATIONS = 40, DEPTH_MAX = 4 };

struct item {
	char path[PATH_BYTES];
	int parent; /* index of its folder; -1: the temporary one */
	uint32_t depth;
	bool is_folder, is_there;
	bool is_unfinished;
	struct unfinished *entry;
};

struct tree {
	char folder[TEMPORARY_PATH_BYTES];
	uint32_t count;
	struct item items[OPERATIONS]; /* (count) in the order in which they were made */
};

static bool is_empty(const struct tree *tree, uint32_t folder)
{
	for (uint32_t i = 0; i < tree->count; i++) {
		if (tree->items[i].parent == (int)folder && tree->items[i].is_there) {
			return false;
		}
	}
	return true;
}

static void remove_by_hand(struct tree *tree, uint32_t index)
{
	struct item *item = &tree->items[index];

	item->is_there = item->is_there && item->is_folder && !is_empty(tree, index);
	item->is_unfinished = false;
}

static void require_tree(const struct tree *tree)
{
	for (uint32_t i = 0; i < tree->count; i++) {
		const struct item *item = &tree->items[i];
		require((access(item->path, F_OK) == 0) == item->is_there, "%s is %s", item->path,
			item->is_there ? "gone" : "still there");
		require(unfinished_holds(item->path) == (item->is_unfinished && !item->is_folder),
			"%s is %sheld", item->path, item->is_unfinished ? "not " : "");
		require(!item->is_unfinished ||
				strcmp(unfinished_path(item->entry), item->path) == 0,
			"%s has another name", item->path);
	}
}

/* One that is there and of this kind; -1: the drawn one is not. */
static int pick(struct prop *prop, const struct tree *tree, bool is_folder)
{
	int index = (int)prop_below(prop, tree->count + 1) - 1;
	bool is_good = index >= 0 && tree->items[index].is_there &&
		       tree->items[index].is_folder == is_folder;

	return is_good ? index : -1;
}

static void make(struct prop *prop, struct tree *tree)
{
	int parent = pick(prop, tree, true);
	uint32_t depth = parent < 0 ? 0 : tree->items[parent].depth + 1;
	uint32_t kind = (uint32_t)prop_below(prop, 3);
	struct item *item = &tree->items[tree->count];
	const char *folder = parent < 0 ? tree->folder : tree->items[parent].path;

	if (depth > DEPTH_MAX) {
		return;
	}
	*item = (struct item){.parent = parent, .depth = depth, .is_folder = kind == 0};
	snprintf(item->path, sizeof(item->path), "%.700s/%u", folder, tree->count);
	if (kind == 0) {
		require_equal(unfinished_make_folder(&item->entry, item->path), 0);
	} else if (kind == 1) {
		int file = unfinished_create(&item->entry, item->path);
		require(file >= 0, "%s: %s", item->path, strerror(errno));
		close(file);
	} else {
		file_write(item->path, "x", 1);
		item->entry = unfinished_add(item->path);
	}
	item->is_there = item->is_unfinished = true;
	tree->count++;
	prop_log(prop, "%s %s", kind == 0 ? "folder" : kind == 1 ? "file" : "own", item->path);
}

/* What exists already is neither made nor listed. */
static void make_again(struct prop *prop, const struct tree *tree)
{
	bool is_folder = prop_chance(prop, 1, 2);
	int index = pick(prop, tree, is_folder);
	struct unfinished *entry;

	if (index >= 0) {
		const char *path = tree->items[index].path;
		int result = is_folder ? unfinished_make_folder(&entry, path)
				       : unfinished_create(&entry, path);
		require(result == -1 && errno == EEXIST && entry == NULL, "%s twice", path);
	}
}

static void complete(struct prop *prop, struct tree *tree)
{
	int index = pick(prop, tree, prop_chance(prop, 1, 2));
	bool is_kept = prop_chance(prop, 1, 2);

	if (index < 0 || !tree->items[index].is_unfinished) {
		return;
	}
	prop_log(prop, "%s %s", is_kept ? "keep" : "remove", tree->items[index].path);
	if (is_kept) {
		unfinished_keep(tree->items[index].entry);
		tree->items[index].is_unfinished = false;
	} else {
		unfinished_remove(tree->items[index].entry);
		remove_by_hand(tree, (uint32_t)index);
	}
}

static void remove_all(struct prop *prop, struct tree *tree)
{
	prop_log(prop, "remove all");
	unfinished_remove_all();
	for (uint32_t i = tree->count; i > 0; i--) {
		if (tree->items[i - 1].is_unfinished) {
			remove_by_hand(tree, i - 1);
		}
	}
}

static void remove_all_in_a_fork(struct prop *prop)
{
	pid_t child = fork();
	int state;

	prop_log(prop, "a fork removes all of its own: nothing");
	if (child == 0) {
		unfinished_remove_all();
		_exit(0);
	}
	require(waitpid(child, &state, 0) == child && state == 0, "the fork has failed");
}

static void body(struct prop *prop, const void *context)
{
	static struct tree tree;
	uint32_t operations = prop_range(prop, 1, OPERATIONS);

	(void)context;
	tree.count = 0;
	temporary_folder(tree.folder);
	for (uint32_t i = 0; i < operations; i++) {
		uint32_t kind = (uint32_t)prop_below(prop, 24);
		if (kind < 16) {
			make(prop, &tree);
		} else if (kind < 18) {
			make_again(prop, &tree);
		} else if (kind < 22) {
			complete(prop, &tree);
		} else if (kind == 22) {
			remove_all(prop, &tree);
		} else {
			remove_all_in_a_fork(prop);
		}
		require_tree(&tree);
	}
	remove_all(prop, &tree);
	require_tree(&tree);
	temporary_remove(tree.folder);
}

Test(unfinished, what_is_not_completed_is_removed_and_nothing_else, .timeout = 120)
{
	const struct prop_options options = {
		.name = "trees of unfinished files", .body = body, .trials = 250};

	cr_assert(prop_holds(&options));
}

/* As many as may be at once, and again once they are gone. */
Test(unfinished, the_list_may_be_full)
{
	char folder[TEMPORARY_PATH_BYTES], path[PATH_BYTES];

	temporary_folder(folder);
	for (uint32_t i = 0; i < 3 * UNFINISHED_MAX; i++) {
		struct unfinished *entry;
		snprintf(path, sizeof(path), "%s/%u", folder, i);
		int file = unfinished_create(&entry, path);
		require(file >= 0, "%s: %s", path, strerror(errno));
		close(file);
		if (i % UNFINISHED_MAX == UNFINISHED_MAX - 1) {
			unfinished_remove_all();
			require_equal(rmdir(folder), 0);
			require_equal(mkdir(folder, 0777), 0);
		}
	}
	temporary_remove(folder);
}
