#include "reports/figures/gnuplot.h"

#include "engine/base/check.h"

#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static void close_files(struct gnuplot *gnuplot)
{
	FILE **files[] = {&gnuplot->script, &gnuplot->output, &gnuplot->errors};

	for (uint32_t i = 0; i < 3; i++) {
		if (*files[i] != NULL) {
			fclose(*files[i]);
		}
		*files[i] = NULL;
	}
}

static enum status open_files(
	struct gnuplot *gnuplot, const struct text *script, struct error *error)
{
	gnuplot->script = tmpfile();
	gnuplot->output = tmpfile();
	gnuplot->errors = tmpfile();
	bool is_open =
		gnuplot->script != NULL && gnuplot->output != NULL && gnuplot->errors != NULL;
	bool is_written = is_open &&
			  fwrite(script->bytes, 1, script->byte_count, gnuplot->script) ==
				  script->byte_count &&
			  fseek(gnuplot->script, 0, SEEK_SET) == 0; /* flushes first */

	if (!is_written) {
		return error_set(error, STATUS_FILE,
			"a temporary file for gnuplot cannot be written: %s", strerror(errno));
	}
	return STATUS_OK;
}

static int spawn(struct gnuplot *gnuplot, char *const *argv)
{
	char locale[] = "LC_ALL=C.UTF-8";
	char *environment[] = {locale, NULL};
	const int files[] = {
		fileno(gnuplot->script), fileno(gnuplot->output), fileno(gnuplot->errors)};
	posix_spawn_file_actions_t actions;

	int failure = posix_spawn_file_actions_init(&actions);
	if (failure != 0) {
		return failure;
	}
	for (int i = 0; i < 3 && failure == 0; i++) {
		failure = posix_spawn_file_actions_adddup2(&actions, files[i], i);
	}
	if (failure == 0) {
		failure = posix_spawnp(
			&gnuplot->process, "gnuplot", &actions, NULL, argv, environment);
	}
	posix_spawn_file_actions_destroy(&actions);
	return failure;
}

enum status gnuplot_start(struct gnuplot *gnuplot, const struct text *script,
	const char *const *arguments, uint32_t count, struct error *error)
{
	const char *argv[6 + GNUPLOT_ARGUMENTS_MAX] = {
		"gnuplot", "-d", "-c", "/dev/stdin", "/dev/stdout"};

	check(count <= GNUPLOT_ARGUMENTS_MAX);
	check(script->byte_count > 0);
	for (uint32_t i = 0; i < count; i++) {
		argv[5 + i] = arguments[i];
	}
	TRY(open_files(gnuplot, script, error));
	/* posix_spawn's parameter is not const, but it does not change the arguments. */
	int failure = spawn(gnuplot, (char *const *)argv);
	if (failure == 0) {
		return STATUS_OK;
	}
	gnuplot->process = 0;
	if (failure == ENOENT || failure == EACCES) {
		return error_set(error, STATUS_FILE,
			"gnuplot draws the figures and was not found: install gnuplot 5.4 or later "
			"(on Debian and Ubuntu: apt-get install gnuplot-nox)");
	}
	return error_set(error, STATUS_FILE, "gnuplot cannot be started: %s", strerror(failure));
}

static bool read_whole(FILE *file, struct text *text)
{
	char buffer[65536];
	size_t size;

	if (fseek(file, 0, SEEK_SET) != 0) {
		return false;
	}
	while ((size = fread(buffer, 1, sizeof(buffer), file)) > 0) {
		text_add_bytes(text, buffer, size);
	}
	return ferror(file) == 0;
}

/* The last line of gnuplot's error output, which has the reason. */
static void complaint_line(FILE *errors, char *line, size_t size)
{
	struct text text = {0};

	(void)read_whole(errors, &text);
	while (text.byte_count > 0 && strchr("\n\r ", text.bytes[text.byte_count - 1]) != NULL) {
		text.bytes[--text.byte_count] = '\0';
	}
	const char *start = text.byte_count == 0 ? "" : strrchr(text.bytes, '\n');
	start = start == NULL ? text.bytes : *start == '\n' ? start + 1 : start;
	snprintf(line, size, "%s", *start == '\0' ? "no reason given" : start);
	text_deinit(&text);
}

/* gnuplot ends well even where the disk refused a part of its drawing. */
static enum status take_drawing(struct gnuplot *gnuplot, struct text *output, struct error *error)
{
	size_t begun = output->byte_count;

	errno = 0;
	if (!read_whole(gnuplot->output, output)) {
		return error_set(
			error, STATUS_FILE, "a drawing cannot be read: %s", strerror(errno));
	}
	if (output->byte_count == begun) {
		return error_set(
			error, STATUS_FILE, "gnuplot drew nothing; is its svg terminal there?");
	}
	if (strstr(output->bytes + begun, "</svg>") == NULL) {
		return error_set(error, STATUS_FILE,
			"gnuplot drew no whole SVG: found %zu bytes without an end; is there room "
			"for a temporary file of this size?",
			output->byte_count - begun);
	}
	return STATUS_OK;
}

enum status gnuplot_finish(
	struct gnuplot *gnuplot, struct text *output, struct text *notes, struct error *error)
{
	enum status status = STATUS_OK;
	int state = 0;
	char line[256];

	if (gnuplot->process != 0) {
		pid_t ended;
		do {
			ended = waitpid(gnuplot->process, &state, 0);
		} while (ended < 0 && errno == EINTR);
		check(ended == gnuplot->process);
		gnuplot->process = 0;
		if (WIFEXITED(state) && WEXITSTATUS(state) == 0) {
			status = take_drawing(gnuplot, output, error);
			(void)read_whole(gnuplot->errors, notes);
		} else {
			complaint_line(gnuplot->errors, line, sizeof(line));
			status = error_set(error, STATUS_FILE, "gnuplot failed: %s", line);
		}
	}
	close_files(gnuplot);
	return status;
}
