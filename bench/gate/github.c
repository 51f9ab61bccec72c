#include "bench/gate/github.h"

#include "bench/gate/gate_print.h"
#include "engine/base/replaced_file.h"

#include <stdlib.h>
#include <string.h>

bool gate_is_on_github(void)
{
	const char *actions = getenv("GITHUB_ACTIONS");

	return actions != NULL && strcmp(actions, "true") == 0;
}

const char *gate_summary_path(void)
{
	const char *path = getenv("GITHUB_STEP_SUMMARY");

	return path == NULL || path[0] == '\0' ? NULL : path;
}

static enum status add(const struct gate *gate, struct replaced_file *file, struct error *error)
{
	bool is_there;

	TRY(replaced_file_old(file, "GITHUB_STEP_SUMMARY", &is_there, error));
	if (is_there) {
		TRY(replaced_file_copy(file, file->path, error));
	}
	gate_print_markdown(gate, file->output.file);
	return replaced_file_commit(file, error);
}

enum status gate_add_to_summary(const struct gate *gate, struct error *error)
{
	const char *path = gate_summary_path();
	struct replaced_file file;

	if (path == NULL) {
		return STATUS_OK;
	}
	enum status status = replaced_file_open(&file, path, error);
	if (status == STATUS_OK) {
		status = add(gate, &file, error);
	}
	replaced_file_abandon(&file);
	return status;
}
