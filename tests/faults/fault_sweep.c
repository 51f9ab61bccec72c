#define _GNU_SOURCE

#include "tests/faults/fault_sweep.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/memory.h"
#include "tests/faults/fault_program.h"
#include "tests/faults/folder_state.h"
#include "tests/harness/files.h"
#include "tests/harness/process.h"
#include "tests/harness/require.h"

/* ---- the ways to fail ---- */

struct way {
	const char *name;
	enum fault_place place; /* FAULT_PLACE_COUNT: every place */
	enum fault_effect effect;
	int value;
	bool is_lasting;
	uint32_t spacing; /* only each such operation; 0: all */
};

enum { ALLOCATION_SPACING = 23 }; /* of signals, which differ little from one to the next */

static const struct way ways[] = {
	{"fails once", FAULT_ALLOCATE, FAULT_ERROR, ENOMEM, false, 0},
	{"and all later fail", FAULT_ALLOCATE, FAULT_ERROR, ENOMEM, true, 3},
	{"fails", FAULT_MAP, FAULT_ERROR, ENOMEM, false, 0},
	{"fails, EACCES", FAULT_OPEN, FAULT_ERROR, EACCES, false, 0},
	{"and all later fail, EMFILE", FAULT_OPEN, FAULT_ERROR, EMFILE, true, 0},
	{"fails, EIO", FAULT_READ, FAULT_ERROR, EIO, false, 0},
	{"is short", FAULT_READ, FAULT_SHORT, 0, false, 0},
	{"fails, EINTR", FAULT_READ, FAULT_ERROR, EINTR, false, 0},
	{"fails, EIO", FAULT_WRITE, FAULT_ERROR, EIO, false, 0},
	{"finds the disk full", FAULT_WRITE, FAULT_FULL, 0, true, 0},
	{"is short", FAULT_WRITE, FAULT_SHORT, 0, false, 0},
	{"fails, EINTR", FAULT_WRITE, FAULT_ERROR, EINTR, false, 0},
	{"fails, EACCES", FAULT_RENAME, FAULT_ERROR, EACCES, false, 0},
	{"fails, EIO", FAULT_SYNC, FAULT_ERROR, EIO, false, 0},
	{"fails, EIO", FAULT_CLOSE, FAULT_ERROR, EIO, false, 0},
	{"fails, EACCES", FAULT_REMOVE, FAULT_ERROR, EACCES, false, 0},
	{"fails, EACCES", FAULT_MAKE_FOLDER, FAULT_ERROR, EACCES, false, 0},
	{"fails, EIO", FAULT_LOOK, FAULT_ERROR, EIO, false, 0},
	{"fails, EAGAIN", FAULT_SPAWN, FAULT_ERROR, EAGAIN, false, 0},
	{"fails, EINTR", FAULT_WAIT, FAULT_ERROR, EINTR, false, 0},
	{"gets SIGINT", FAULT_PLACE_COUNT, FAULT_SIGNAL, SIGINT, false, 0},
	{"gets SIGTERM", FAULT_PLACE_COUNT, FAULT_SIGNAL, SIGTERM, false, 2},
	{"gets SIGHUP", FAULT_PLACE_COUNT, FAULT_SIGNAL, SIGHUP, false, 2},
	{"is killed", FAULT_PLACE_COUNT, FAULT_SIGNAL, SIGKILL, false, 0},
	{"waits for another", FAULT_PLACE_COUNT, FAULT_SIGNAL, SIGSTOP, false, 0},
};

/* A sanitizer maps memory for itself and ends the program when it cannot, so that place is left
   out. Its runs take ten times as long, so only some operations of each place fail. */
#ifdef __SANITIZE_ADDRESS__
static const bool has_sanitizer = true;
#else
static const bool has_sanitizer = false;
#endif

enum { SANITIZED_POINTS = 4 };

/* Whether a run that ends there, or that another meets there, may leave other files than one that
   ends elsewhere. */
static bool changes_files(enum fault_place place)
{
	return place == FAULT_OPEN || place == FAULT_WRITE || place == FAULT_RENAME ||
	       place == FAULT_SYNC || place == FAULT_CLOSE || place == FAULT_REMOVE ||
	       place == FAULT_MAKE_FOLDER || place == FAULT_LOOK;
}

static uint32_t spacing_at(const struct way *way, enum fault_place place)
{
	bool is_at_place = way->place == FAULT_PLACE_COUNT || way->place == place;

	if (!is_at_place || (has_sanitizer && place == FAULT_MAP)) {
		return 0;
	}
	if (way->place != FAULT_PLACE_COUNT) {
		return way->spacing == 0 ? 1 : way->spacing;
	}
	if (way->value == SIGKILL || way->value == SIGSTOP) {
		return changes_files(place) ? 1 : 0;
	}
	uint32_t spacing = way->spacing == 0 ? 1 : way->spacing;
	return place == FAULT_ALLOCATE ? ALLOCATION_SPACING * spacing : spacing;
}

/* ---- one command ---- */

enum { NOTED_MAX = 2 }; /* bad runs that are told of each way to fail at a place */

struct sweep {
	const struct fault_command *command;
	struct fault_program program;
	struct folder_state before, after; /* a run without a fault */
	struct fault_run good;
	struct fault_tally *tally;
	bool has_changed;     /* the folder is not as before */
	uint32_t noted_count; /* bad runs of the way that is tried */
};

static const char *place_text(enum fault_place place)
{
	static const char *const texts[] = {
#define PLACE_TEXT(name, text) text,
		FAULT_PLACE_LIST(PLACE_TEXT)
#undef PLACE_TEXT
	};

	return texts[place];
}

/* Lines on stderr beyond those of the run without a fault. *is_ours: each names the program. */
static uint32_t new_lines(const struct sweep *sweep, const char *err, bool *is_ours)
{
	uint32_t count = 0;
	char line[1024];

	*is_ours = true;
	while (*err != '\0') {
		size_t bytes = strcspn(err, "\n");
		snprintf(line, sizeof(line), "%.*s\n", (int)bytes, err);
		if (strstr(sweep->good.err, line) == NULL || sweep->good.code == 2) {
			count++;
			*is_ours = *is_ours && strncmp(line, "quire", 5) == 0;
		}
		err += bytes + (err[bytes] == '\n');
	}
	return count;
}

static bool has_one_line(const struct sweep *sweep, const struct fault_run *run)
{
	bool is_ours;

	return new_lines(sweep, run->err, &is_ours) == 1 && is_ours;
}

/* Whether each file that a good run makes is there with its bytes; others may be there too. */
static bool has_all(
	const struct folder_state *found, const struct folder_state *wanted, struct text *why)
{
	for (uint32_t i = 0; i < wanted->count; i++) {
		const struct folder_entry *entry = &wanted->entries[i];
		const struct folder_entry *other = folder_state_find(found, entry->name);
		if (!folder_entry_is_equal(entry, other)) {
			text_format(
				why, "%s %.200s", other == NULL ? "no" : "another", entry->name);
			return false;
		}
	}
	return true;
}

/* Names that quire gives to what it has not finished. */
static bool is_temporary(const char *name)
{
	static const char *const ends[] = {".part", ".old", ".new", "/.quire-lock"};
	size_t bytes = strlen(name);

	for (uint32_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		size_t end = strlen(ends[i]);
		if (bytes > end && strcmp(name + bytes - end, ends[i]) == 0) {
			return true;
		}
	}
	return false;
}

/* Whether a name is `beside`, or a folder that it lies in. */
static bool is_beside(const char *name, const char *beside)
{
	size_t bytes = strlen(name);

	return beside != NULL && strncmp(beside, name, bytes) == 0 &&
	       (beside[bytes] == '\0' || beside[bytes] == '/');
}

/* A view of a state, to be freed: its entries, without `beside` (unless NULL) and, if has_rest,
   without temporary files. */
static struct folder_state view_of(
	const struct folder_state *state, bool has_rest, const char *beside)
{
	struct folder_state view = {.entries = memory_take(state->count, sizeof(*view.entries))};

	for (uint32_t i = 0; i < state->count; i++) {
		const char *name = state->entries[i].name;
		if (!(has_rest && is_temporary(name)) && !is_beside(name, beside)) {
			view.entries[view.count++] = state->entries[i];
		}
	}
	return view;
}

/* As folder_state_is_equal(), of such views. */
static bool is_nearly_equal(const struct folder_state *found, const struct folder_state *wanted,
	bool has_rest, const char *beside, struct text *why)
{
	struct folder_state a = view_of(found, has_rest, beside);
	struct folder_state b = view_of(wanted, has_rest, NULL);
	bool is_equal = folder_state_is_equal(&a, &b, why);

	free(a.entries);
	free(b.entries);
	return is_equal;
}

/* Whether nothing changed, except that an output beside the result may be there and whole: of two
   names one is the first to appear. */
static bool is_as_before(const struct sweep *sweep, const struct folder_state *found, bool has_rest,
	struct text *why)
{
	const char *beside = sweep->command->beside;
	bool is_whole = beside != NULL && folder_entry_is_equal(folder_state_find(found, beside),
						  folder_state_find(&sweep->after, beside));

	return is_nearly_equal(found, &sweep->before, has_rest, is_whole ? beside : NULL, why);
}

/* The file of a result that says whether it is complete. */
static bool is_summary_name(const char *name)
{
	return strstr(name, "/summary.json") != NULL || strstr(name, "/plan.json") != NULL;
}

/* A run that was interrupted, or failed at a step, has all files, and its summary says so. */
static bool is_cut_short(const struct sweep *sweep, const struct folder_state *found,
	const char *status, struct text *why)
{
	bool has_summary = false;

	for (uint32_t i = 0; i < found->count; i++) {
		const char *name = found->entries[i].name;
		if (folder_state_find(&sweep->after, name) == NULL) {
			text_format(why, "a new %.200s", name);
			return false;
		}
	}
	for (uint32_t i = 0; i < sweep->after.count; i++) {
		const struct folder_entry *wanted = &sweep->after.entries[i];
		const struct folder_entry *old = folder_state_find(&sweep->before, wanted->name);
		const struct folder_entry *entry = folder_state_find(found, wanted->name);
		bool is_written = !folder_entry_is_equal(wanted, old);
		bool is_summary = is_written && is_summary_name(wanted->name);
		bool is_good = entry != NULL &&
			       (is_written ? entry->kind != S_IFREG || entry->byte_count > 0
					   : folder_entry_is_equal(entry, wanted));
		if (is_good && is_summary) {
			is_good = strstr(entry->bytes, status) != NULL;
			has_summary = true;
		}
		if (!is_good) {
			text_format(why, "%s %.200s", entry == NULL ? "no" : "a bad", wanted->name);
			return false;
		}
	}
	return has_summary;
}

/* Whether all is as in `wanted` once a summary is, which `other` lacks: the summary of one state is
   not beside files of the other. */
static bool is_unmixed(const struct folder_state *found, const struct folder_state *wanted,
	const struct folder_state *other, struct text *why)
{
	for (uint32_t i = 0; i < wanted->count; i++) {
		const struct folder_entry *entry = &wanted->entries[i];
		if (is_summary_name(entry->name) &&
			folder_entry_is_equal(entry, folder_state_find(found, entry->name)) &&
			!folder_entry_is_equal(entry, folder_state_find(other, entry->name)) &&
			!has_all(found, wanted, why)) {
			text_format(why, " beside %.200s", entry->name);
			return false;
		}
	}
	return true;
}

/* Of a run that was killed: what has the name of a result is whole. */
static bool is_whole(const struct sweep *sweep, const struct folder_state *found, struct text *why)
{
	for (uint32_t i = 0; i < sweep->after.count; i++) {
		const char *name = sweep->after.entries[i].name;
		const struct folder_entry *entry = folder_state_find(found, name);
		const struct folder_entry *old = folder_state_find(&sweep->before, name);
		if (entry != NULL && !folder_entry_is_equal(entry, old) &&
			!folder_entry_is_equal(entry, &sweep->after.entries[i])) {
			text_format(why, "half of %.200s", name);
			return false;
		}
	}
	for (uint32_t i = 0; i < sweep->before.count; i++) {
		const char *name = sweep->before.entries[i].name;
		if (folder_state_find(found, name) == NULL &&
			folder_entry_is_equal(&sweep->before.entries[i],
				folder_state_find(&sweep->after, name))) {
			text_format(why, "no %.200s", name);
			return false;
		}
	}
	return is_unmixed(found, &sweep->before, &sweep->after, why) &&
	       is_unmixed(found, &sweep->after, &sweep->before, why);
}

/* Whether all files are those of a good run, but for the times in provenance.json. */
static bool is_same_work(
	const struct folder_state *found, const struct folder_state *wanted, struct text *why)
{
	for (uint32_t i = 0; i < wanted->count; i++) {
		const struct folder_entry *entry = &wanted->entries[i];
		const struct folder_entry *other = folder_state_find(found, entry->name);
		bool has_times = strstr(entry->name, "provenance.json") != NULL;
		if (has_times ? other == NULL : !folder_entry_is_equal(entry, other)) {
			text_format(why, "another %.200s", entry->name);
			return false;
		}
	}
	return true;
}

/* has_rest: what is not finished may be there too. */
static bool has_no_others(const struct folder_state *found, const struct folder_state *wanted,
	bool has_rest, struct text *why)
{
	for (uint32_t i = 0; i < found->count; i++) {
		const char *name = found->entries[i].name;
		if (folder_state_find(wanted, name) == NULL && !(has_rest && is_temporary(name))) {
			text_format(why, "a new %.200s", name);
			return false;
		}
	}
	return true;
}

/* Whether the sweep.json of an older sweep, which the command replaces, has all of its files
   beside it. */
static bool is_older_sweep_whole(
	const struct sweep *sweep, const struct folder_state *found, struct text *why)
{
	for (uint32_t i = 0; i < sweep->before.count; i++) {
		const struct folder_entry *entry = &sweep->before.entries[i];
		const char *name = entry->name;
		if (strstr(name, "/sweep.json") != NULL &&
			folder_entry_is_equal(entry, folder_state_find(found, name)) &&
			!folder_entry_is_equal(entry, folder_state_find(&sweep->after, name)) &&
			!has_all(found, &sweep->before, why)) {
			text_format(why, " beside the older %.200s", name);
			return false;
		}
	}
	return true;
}

/* Of a command that goes on where it was: it has left no other names than a whole run, and ends
   with the files of one when it is given again. */
static bool is_resumed(
	struct sweep *sweep, const struct folder_state *found, bool has_rest, struct text *why)
{
	struct fault_run again;
	struct folder_state end;

	if (!has_no_others(found, &sweep->after, has_rest, why) ||
		!is_older_sweep_whole(sweep, found, why)) {
		return false;
	}
	fault_program_run(&sweep->program, NULL, &again);
	folder_state_take(&end, sweep->program.folder);
	sweep->has_changed = true;
	bool is_good = again.code == sweep->good.code && is_same_work(&end, &sweep->after, why) &&
		       has_no_others(&end, &sweep->after, has_rest, why);
	if (!is_good) {
		text_format(why, "; again: exit code %d, %.200s", again.code, again.err);
	}
	folder_state_free(&end);
	fault_run_free(&again);
	return is_good;
}

static enum fault_outcome judge_end(struct sweep *sweep, const struct fault *fault,
	const struct fault_run *run, const struct folder_state *found, struct text *why)
{
	bool is_sent = fault->effect == FAULT_SIGNAL && run->signal == fault->value;
	struct text other = {0};
	bool has_rest = fault->place == FAULT_REMOVE; /* it is what was not removed */
	bool is_complete = is_nearly_equal(found, &sweep->after, has_rest, NULL, &other);
	bool is_untouched = is_as_before(sweep, found, has_rest, why);
	bool is_good = false;
	enum fault_outcome outcome = FAULT_BAD;

	if (run->signal != 0) {
		is_good = is_sent && (is_untouched || is_complete) && run->err[0] == '\0';
		outcome = FAULT_ENDED;
	} else if (run->code == sweep->good.code && run->code != 2 &&
		   strcmp(run->err, sweep->good.err) == 0) {
		is_good = is_complete && strcmp(run->out, sweep->good.out) == 0;
		outcome = FAULT_SUCCEEDED;
		text_format(why, "; %s", is_complete ? "another output" : other.bytes);
	} else if (run->code == 2) {
		/* The files are there when only the printing failed, or the disk does not confirm
		   their names. */
		is_good =
			is_untouched ||
			(is_complete && (fault->place == FAULT_SYNC ||
						strstr(run->err, "the standard output") != NULL)) ||
			is_cut_short(sweep, found, "\"failed\"", why);
		outcome = FAULT_REFUSED;
	} else if (run->code == 1 && fault->effect == FAULT_SIGNAL &&
		   strstr(run->err, "interrupted") != NULL) {
		is_good = is_untouched || is_complete ||
			  is_cut_short(sweep, found, "\"interrupted\"", why);
		outcome = FAULT_INTERRUPTED;
	}
	if (!is_good && sweep->command->is_resumed && (run->code == 1 || run->code == 2)) {
		outcome =
			strstr(run->err, "interrupted") != NULL ? FAULT_INTERRUPTED : FAULT_REFUSED;
		text_deinit(why);
		is_good = is_resumed(sweep, found, has_rest, why);
	}
	bool has_line =
		outcome == FAULT_ENDED || outcome == FAULT_SUCCEEDED || has_one_line(sweep, run);
	text_deinit(&other);
	return is_good && has_line ? outcome : FAULT_BAD;
}

/* After kill -9: no half result, and the command can be given again. */
static enum fault_outcome judge_killed(
	struct sweep *sweep, const struct folder_state *found, struct text *why)
{
	struct fault_run again;
	struct folder_state end;

	if (sweep->command->is_resumed) {
		return is_resumed(sweep, found, true, why) ? FAULT_ENDED : FAULT_BAD;
	}
	if (!is_whole(sweep, found, why)) {
		return FAULT_BAD;
	}
	fault_program_run(&sweep->program, NULL, &again);
	folder_state_take(&end, sweep->program.folder);
	sweep->has_changed = true;
	bool is_good = again.code == sweep->good.code && has_all(&end, &sweep->after, why);
	if (!is_good && again.code == 2 && has_one_line(sweep, &again)) {
		text_deinit(why);
		is_good = is_nearly_equal(&end, found, true, NULL, why);
	}
	if (!is_good) {
		text_format(why, "; again: exit code %d, %.200s", again.code, again.err);
	}
	folder_state_free(&end);
	fault_run_free(&again);
	return is_good ? FAULT_ENDED : FAULT_BAD;
}

/* The run has stopped; a second one runs to its end meanwhile, then the first goes on. */
static enum fault_outcome judge_two(struct sweep *sweep, struct fault_run *first, struct text *why)
{
	struct fault_run second;
	struct folder_state middle, end;
	int good = sweep->good.code;

	fault_program_run(&sweep->program, NULL, &second);
	folder_state_take(&middle, sweep->program.folder);
	bool (*has_files)(const struct folder_state *, const struct folder_state *, struct text *) =
		sweep->command->is_resumed ? is_same_work : has_all;
	bool is_good = second.code == good ? has_files(&middle, &sweep->after, why)
					   : second.code == 2 && has_one_line(sweep, &second);
	fault_program_continue(&sweep->program, first);
	folder_state_take(&end, sweep->program.folder);
	sweep->has_changed = true;
	is_good = is_good &&
		  (first->code == good || (first->code == 2 && has_one_line(sweep, first)));
	is_good = is_good && (first->code == good || second.code == good) &&
		  (sweep->command->is_resumed ? is_same_work(&end, &sweep->after, why)
					      : folder_state_is_equal(&end, &sweep->after, why));
	if (!is_good) {
		text_format(why, "; the other: exit code %d, %.150s", second.code, second.err);
	}
	folder_state_free(&middle);
	folder_state_free(&end);
	fault_run_free(&second);
	return is_good ? FAULT_SUCCEEDED : FAULT_BAD;
}

static enum fault_outcome judge(
	struct sweep *sweep, const struct fault *fault, struct fault_run *run, struct text *why)
{
	struct folder_state found;
	enum fault_outcome outcome = FAULT_BAD;

	if (run->is_stopped) {
		outcome = judge_two(sweep, run, why);
		return run->is_hung ? FAULT_BAD : outcome;
	}
	folder_state_take(&found, sweep->program.folder);
	sweep->has_changed = !folder_state_is_equal(&found, &sweep->before, why);
	text_deinit(why);
	bool is_reported = strstr(run->err, "Sanitizer: ") != NULL ||
			   strstr(run->err, "runtime error: ") != NULL;
	if (run->is_hung || is_reported) {
		text_add(why, run->is_hung ? "it hangs" : "a sanitizer reports");
	} else if (run->signal == SIGKILL && fault->value == SIGKILL) {
		outcome = judge_killed(sweep, &found, why);
	} else {
		outcome = judge_end(sweep, fault, run, &found, why);
	}
	folder_state_free(&found);
	return outcome;
}

static void note_bad(
	struct sweep *sweep, const char *what, const struct fault_run *run, const struct text *why)
{
	struct fault_tally *tally = sweep->tally;

	if (tally->noted_count < FAULT_BAD_SHOWN && sweep->noted_count++ < NOTED_MAX) {
		char *line = tally->bad[tally->noted_count++];
		snprintf(line, FAULT_BAD_BYTES, "%s: %s: exit code %d, signal %d, %.100s; %.160s",
			sweep->command->name, what, run->code, run->signal,
			why->byte_count == 0 ? "" : why->bytes, run->err);
		line[strcspn(line, "\n")] = '\0';
	}
}

static void restore(struct sweep *sweep)
{
	struct folder_state found;

	if (sweep->has_changed) {
		folder_state_take(&found, sweep->program.folder);
		folder_state_restore(&found, &sweep->before, sweep->program.folder);
		folder_state_free(&found);
	}
	sweep->has_changed = false;
}

static void run_with(struct sweep *sweep, const struct fault *fault, const char *what)
{
	struct fault_run run;
	struct text why = {0};

	fault_program_run(&sweep->program, fault, &run);
	enum fault_outcome outcome = judge(sweep, fault, &run, &why);
	if (outcome == FAULT_BAD) {
		note_bad(sweep, what, &run, &why);
	}
	sweep->tally->outcomes[outcome]++;
	restore(sweep);
	fault_run_free(&run);
	text_deinit(&why);
}

static void sweep_way(
	struct sweep *sweep, const struct way *way, enum fault_place place, uint32_t points_max)
{
	uint32_t count = sweep->good.board.counts[place];
	uint32_t spacing = spacing_at(way, place);
	char what[160];

	sweep->noted_count = 0;
	if (spacing == 0) {
		return;
	}
	if (points_max > 0 && count / points_max > spacing) {
		spacing = count / points_max;
	}
	for (uint32_t number = 1; number <= count; number += spacing) {
		const struct fault fault = {.place = place,
			.number = number,
			.effect = way->effect,
			.value = way->value,
			.is_lasting = way->is_lasting};
		snprintf(what, sizeof(what), "%s %u of %u %s", place_text(place), number, count,
			way->name);
		run_with(sweep, &fault, what);
	}
}

/* The ways in which the program that a figure is drawn by can fail. */
static void sweep_child(struct sweep *sweep)
{
	static const char *const orders[] = {"fail", "silent", "die", "half"};
	char path[2 * FAULT_PATH_BYTES], what[64];
	const struct fault none = {0};

	if (sweep->good.board.counts[FAULT_SPAWN] == 0) {
		return;
	}
	snprintf(path, sizeof(path), "%s/gnuplot", sweep->program.root);
	for (uint32_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
		file_write(path, orders[i], strlen(orders[i]));
		snprintf(what, sizeof(what), "gnuplot: %s", orders[i]);
		uint32_t refused = sweep->tally->outcomes[FAULT_REFUSED];
		run_with(sweep, &none, what);
		require(sweep->tally->outcomes[FAULT_REFUSED] == refused + 1,
			"%s: gnuplot's failure '%s' is not refused", sweep->command->name,
			orders[i]);
	}
	require(remove(path) == 0, "%s cannot be removed", path);
}

static void prepare(const struct sweep *sweep)
{
	if (sweep->command->prepare == NULL) {
		return;
	}
	struct process_result result =
		shell_run(sweep->program.folder, "quire='%s'; source='%s'; set -e; %s",
			QUIRE_EXECUTABLE, QUIRE_SOURCE_DIR, sweep->command->prepare);
	require(result.code == 0, "%s cannot be prepared: %s", sweep->command->name, result.err);
	process_result_free(&result);
}

/* The run without a fault, twice: its files and outputs are what all others are compared with. */
static bool begin(struct sweep *sweep)
{
	const char *program = sweep->command->program;
	struct fault_run again;
	struct folder_state repeated;
	struct text why = {0};

	fault_program_open(&sweep->program);
	prepare(sweep);
	folder_state_take(&sweep->before, sweep->program.folder);
	if (!fault_program_start(&sweep->program, program == NULL ? QUIRE_EXECUTABLE : program,
		    sweep->command->arguments)) {
		return false;
	}
	sweep->has_changed = true;
	restore(sweep);
	fault_program_run(&sweep->program, NULL, &sweep->good);
	folder_state_take(&sweep->after, sweep->program.folder);
	sweep->has_changed = true;
	restore(sweep);
	fault_program_run(&sweep->program, NULL, &again);
	folder_state_take(&repeated, sweep->program.folder);
	sweep->has_changed = true;
	restore(sweep);
	require(sweep->good.code == sweep->command->code, "%s: exit code %d, signal %d: %s",
		sweep->command->name, sweep->good.code, sweep->good.signal, sweep->good.err);
	require(folder_state_is_equal(&repeated, &sweep->after, &why) &&
			strcmp(again.out, sweep->good.out) == 0,
		"%s: two runs without a fault differ: %s\n%s%s", sweep->command->name,
		why.byte_count == 0 ? "output" : why.bytes, again.out, sweep->good.out);
	require(memcmp(again.board.counts, sweep->good.board.counts, sizeof(again.board.counts)) ==
			0,
		"%s: two runs without a fault do other operations", sweep->command->name);
	folder_state_free(&repeated);
	fault_run_free(&again);
	return true;
}

static void end(struct sweep *sweep)
{
	fault_program_close(&sweep->program);
	folder_state_free(&sweep->before);
	folder_state_free(&sweep->after);
	fault_run_free(&sweep->good);
}

bool fault_sweep(
	const struct fault_command *command, uint32_t points_max, struct fault_tally *tally)
{
	struct sweep sweep = {.command = command, .tally = tally};

	if (!begin(&sweep)) {
		fault_program_close(&sweep.program);
		return false;
	}
	sweep_child(&sweep);
	for (uint32_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		for (uint32_t place = 0; place < FAULT_PLACE_COUNT; place++) {
			sweep_way(&sweep, &ways[i], (enum fault_place)place, points_max);
		}
	}
	end(&sweep);
	return true;
}

void fault_sweep_require(const struct fault_command *command)
{
	const uint32_t points_max = has_sanitizer ? SANITIZED_POINTS : command->points_max;
	struct fault_tally *tally = memory_take(1, sizeof(*tally));
	const uint32_t *outcomes = tally->outcomes;

	if (!fault_sweep(command, points_max, tally)) {
		free(tally);
		cr_skip_test("the kernel has no syscall user dispatch");
	}
	uint32_t all = 0;
	for (uint32_t i = 0; i < FAULT_OUTCOME_COUNT; i++) {
		all += outcomes[i];
	}
	fprintf(stderr,
		"%s: %u faults: %u succeeded, %u refused, %u interrupted, %u ended, %u bad\n",
		command->name, all, outcomes[FAULT_SUCCEEDED], outcomes[FAULT_REFUSED],
		outcomes[FAULT_INTERRUPTED], outcomes[FAULT_ENDED], outcomes[FAULT_BAD]);
	for (uint32_t i = 0; i < tally->noted_count; i++) {
		fprintf(stderr, "  %s\n", tally->bad[i]);
	}
	require(outcomes[FAULT_BAD] == 0 && outcomes[FAULT_REFUSED] > 0,
		"%s: %u of %u faults end badly", command->name, outcomes[FAULT_BAD], all);
	free(tally);
}
