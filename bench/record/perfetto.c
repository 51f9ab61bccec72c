#include "bench/record/perfetto.h"

#include "bench/record/kernel_times.h"
#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "engine/base/number.h"
#include "engine/profiling/nvtx.h"

#include <stdio.h>
#include <stdlib.h>

enum { PROCESS_ENGINE = 1, PROCESS_REQUESTS, PROCESS_GPU };

enum { GPU_LANES = 4 };

enum request_stage { STAGE_NONE, STAGE_QUEUED, STAGE_PREFILL, STAGE_DECODE, STAGE_PREEMPTED };

/* A request in the engine, by the slot of its sequence. */
struct timeline_request {
	uint64_t id;
	enum request_stage stage; /* STAGE_NONE: the slot is free */
	uint64_t preemptions;
};

/* Where the run is, against the window. */
enum place { BEFORE, INSIDE, BEHIND };

struct perfetto {
	FILE *out; /* borrowed */
	struct perfetto_window window;
	enum place place;
	struct timeline_request *requests; /* (request_count) */
	uint32_t request_count;
	bool has_event;
	bool has_origin;
	uint64_t origin_ns;
	bool has_counts;
	uint64_t running, waiting, used_blocks; /* as last written */
	uint64_t kernels, kernels_not_shown;
	uint64_t lane_end_ns[GPU_LANES]; /* overlapping kernels are drawn in separate lanes */
};

static const char *stage_name(enum request_stage stage)
{
	static const char *const names[] = {"", "queued", "prefill", "decode", "preempted"};

	return names[stage];
}

static uint64_t since_origin(const struct perfetto *file, uint64_t time_ns)
{
	return time_ns > file->origin_ns ? time_ns - file->origin_ns : 0;
}

/* Starts an event with the fields that every kind has. */
static void event_begin(struct perfetto *file, const char *kind, int process, uint64_t time_ns)
{
	char text[NUMBER_TEXT_BYTES];
	uint64_t since_ns = since_origin(file, time_ns);

	since_ns = u64_min(u64_max(since_ns, file->window.from_ns), file->window.to_ns);
	decimal_text(text, since_ns, 3);
	fprintf(file->out, "%s{\"ph\":\"%s\",\"pid\":%d,\"ts\":%s", file->has_event ? ",\n" : "",
		kind, process, text);
	file->has_event = true;
}

static void put(struct perfetto *file, const char *key, uint64_t value)
{
	fprintf(file->out, "\"%s\":%llu", key, (unsigned long long)value);
}

static void put_more(struct perfetto *file, const char *key, uint64_t value)
{
	fputc(',', file->out);
	put(file, key, value);
}

static void name_process(struct perfetto *file, int process, const char *name)
{
	event_begin(file, "M", process, 0);
	fprintf(file->out, ",\"name\":\"process_name\",\"args\":{\"name\":\"%s\"}}", name);
}

static void name_thread(struct perfetto *file, int process, const char *name)
{
	event_begin(file, "M", process, 0);
	fprintf(file->out, ",\"tid\":1,\"name\":\"thread_name\",\"args\":{\"name\":\"%s\"}}", name);
}

struct perfetto *perfetto_open(FILE *out, uint32_t slot_count, const struct perfetto_window *window)
{
	struct perfetto *file = memory_take(1, sizeof(*file));

	file->out = out;
	file->window = *window;
	file->window.to_ns = window->to_ns == 0 ? UINT64_MAX : window->to_ns;
	file->place = window->from_ns == 0 ? INSIDE : BEFORE;
	file->requests = memory_take(slot_count, sizeof(*file->requests));
	file->request_count = slot_count;
	fputs("{\"traceEvents\":[\n", file->out);
	name_process(file, PROCESS_ENGINE, "engine");
	name_thread(file, PROCESS_ENGINE, "steps");
	name_process(file, PROCESS_REQUESTS, "requests");
	return file;
}

/* ---- requests ---- */

/* Begins ("b") or ends ("e") a slice of a request; its arguments, if any, follow. */
static void slice(
	struct perfetto *file, const char *kind, uint64_t id, const char *name, uint64_t time_ns)
{
	event_begin(file, kind, PROCESS_REQUESTS, time_ns);
	fprintf(file->out, ",\"tid\":1,\"cat\":\"request\",\"id\":\"%llu\",\"name\":\"%s\"",
		(unsigned long long)id, name);
}

static void slice_end(struct perfetto *file)
{
	fputc('}', file->out);
}

static void change_stage(struct perfetto *file, struct timeline_request *request,
	enum request_stage stage, uint64_t time_ns)
{
	if (file->place == INSIDE && request->stage != STAGE_NONE) {
		slice(file, "e", request->id, stage_name(request->stage), time_ns);
		slice_end(file);
	}
	request->stage = stage;
	if (file->place == INSIDE && stage != STAGE_NONE) {
		slice(file, "b", request->id, stage_name(stage), time_ns);
		slice_end(file);
	}
}

/* ---- the window ---- */

/* Begins what goes on at the window's start. */
static void enter_window(struct perfetto *file)
{
	uint64_t at_ns = file->origin_ns + file->window.from_ns;

	file->place = INSIDE;
	for (uint32_t i = 0; i < file->request_count; i++) {
		const struct timeline_request *request = &file->requests[i];
		if (request->stage != STAGE_NONE) {
			slice(file, "b", request->id, "request", at_ns);
			slice_end(file);
			slice(file, "b", request->id, stage_name(request->stage), at_ns);
			slice_end(file);
		}
	}
}

/* Ends the slices of a request at the window's end. */
static void cut_request(struct perfetto *file, const struct timeline_request *request)
{
	uint64_t at_ns = file->origin_ns + file->window.to_ns;

	slice(file, "e", request->id, stage_name(request->stage), at_ns);
	slice_end(file);
	slice(file, "e", request->id, "request", at_ns);
	slice_end(file);
}

/* Ends what goes on at the window's end. */
static void leave_window(struct perfetto *file)
{
	for (uint32_t i = 0; i < file->request_count; i++) {
		if (file->requests[i].stage != STAGE_NONE) {
			cut_request(file, &file->requests[i]);
		}
	}
	file->place = BEHIND;
}

static void enter_by(struct perfetto *file, uint64_t time_ns)
{
	if (file->place == BEFORE && since_origin(file, time_ns) >= file->window.from_ns) {
		enter_window(file);
	}
}

/* The run has come to this time. */
static void come_to(struct perfetto *file, uint64_t time_ns)
{
	enter_by(file, time_ns);
	if (file->place == INSIDE && since_origin(file, time_ns) >= file->window.to_ns) {
		leave_window(file);
	}
}

/* ---- arrivals and ends ---- */

static void note_origin(struct perfetto *file, uint64_t arrival_ns)
{
	if (!file->has_origin) {
		file->has_origin = true;
		file->origin_ns = arrival_ns;
	}
}

void perfetto_arrive(struct perfetto *file, uint32_t slot, const struct metrics_arrival *arrival)
{
	check(slot < file->request_count);
	struct timeline_request *request = &file->requests[slot];
	check(request->stage == STAGE_NONE);
	note_origin(file, arrival->arrival_ns);
	come_to(file, arrival->arrival_ns);
	*request = (struct timeline_request){.id = arrival->id, .stage = STAGE_QUEUED};
	/* A full engine takes a request that arrived in the window after its end. */
	bool is_late = file->place == BEHIND &&
		       since_origin(file, arrival->arrival_ns) < file->window.to_ns;
	if (file->place != INSIDE && !is_late) {
		return;
	}
	slice(file, "b", arrival->id, "request", arrival->arrival_ns);
	fputs(",\"args\":{", file->out);
	put(file, "id", arrival->id);
	put_more(file, "prompt_tokens", arrival->prompt_tokens);
	put_more(file, "max_tokens", arrival->max_tokens);
	fputs("}", file->out);
	slice_end(file);
	slice(file, "b", arrival->id, stage_name(STAGE_QUEUED), arrival->arrival_ns);
	slice_end(file);
	if (is_late) {
		cut_request(file, request);
	}
}

void perfetto_reject(struct perfetto *file, enum fit fit, const struct metrics_arrival *arrival)
{
	note_origin(file, arrival->arrival_ns);
	come_to(file, arrival->arrival_ns);
	if (file->place != INSIDE) {
		return;
	}
	event_begin(file, "i", PROCESS_REQUESTS, arrival->arrival_ns);
	fprintf(file->out, ",\"tid\":1,\"s\":\"p\",\"name\":\"rejected: %s\",\"args\":{",
		fit == FIT_TOO_LONG ? "too long" : "never fits");
	put(file, "id", arrival->id);
	put_more(file, "prompt_tokens", arrival->prompt_tokens);
	put_more(file, "max_tokens", arrival->max_tokens);
	fputs("}}", file->out);
}

static void end_request(struct perfetto *file, struct timeline_request *request, uint64_t time_ns,
	const char *status, uint64_t output_tokens)
{
	change_stage(file, request, STAGE_NONE, time_ns);
	if (file->place != INSIDE) {
		return;
	}
	slice(file, "e", request->id, "request", time_ns);
	fprintf(file->out, ",\"args\":{\"status\":\"%s\"", status);
	put_more(file, "output_tokens", output_tokens);
	put_more(file, "preemptions", request->preemptions);
	fputs("}", file->out);
	slice_end(file);
}

/* Decisions are dated at the step's start, tokens at its end. So the window may begin between
   them. */
static void request_event(
	struct perfetto *file, const struct event *event, uint64_t start_ns, uint64_t end_ns)
{
	if (event->sequence == NULL) {
		return; /* a rejection: written when it arrived */
	}
	struct timeline_request *request = &file->requests[event->sequence->slot];
	switch ((enum event_kind)event->kind) {
	case EVENT_ADMIT:
		change_stage(file, request, STAGE_PREFILL, start_ns);
		break;
	case EVENT_CHUNK:
		if (event->is_sampled) {
			enter_by(file, end_ns);
			change_stage(file, request, STAGE_DECODE, end_ns);
		}
		break;
	case EVENT_PREEMPT:
		/* Asynchronous, the step before may have ended it since. */
		if (request->stage != STAGE_NONE) {
			request->preemptions++;
			change_stage(file, request, STAGE_PREEMPTED, start_ns);
		}
		break;
	case EVENT_FINISH:
		enter_by(file, end_ns);
		request->preemptions = event->sequence->preemption_count;
		end_request(file, request, end_ns, "finished", event->a);
		break;
	case EVENT_REJECT:
	case EVENT_STALL:
	case EVENT_DROP:
	case EVENT_BLOCK_GIVEN:
		break;
	}
}

/* ---- steps ---- */

static void step_slice(struct perfetto *file, const struct step_decisions *decisions,
	uint64_t start_ns, uint64_t end_ns, uint64_t waiting)
{
	char length[NUMBER_TEXT_BYTES];
	struct step_counts counts = *decisions->counts;

	counts.waiting = waiting;
	decimal_text(length, end_ns - start_ns, 3);
	event_begin(file, "X", PROCESS_ENGINE, start_ns);
	fprintf(file->out, ",\"tid\":1,\"dur\":%s,\"name\":\"%s\",\"args\":{", length,
		step_kind_name(step_kind_of(&counts)));
	put(file, "step", decisions->step);
#define STEP_COUNT_ARGUMENT(column) put_more(file, #column, counts.column);
	STEP_COUNT_LIST(STEP_COUNT_ARGUMENT)
#undef STEP_COUNT_ARGUMENT
	fputs("}}", file->out);
}

static void counters(struct perfetto *file, const struct step_counts *counts, uint64_t start_ns,
	uint64_t waiting)
{
	if (!file->has_counts || file->running != counts->running || file->waiting != waiting) {
		event_begin(file, "C", PROCESS_ENGINE, start_ns);
		fputs(",\"name\":\"sequences\",\"args\":{", file->out);
		put(file, "running", counts->running);
		put_more(file, "waiting", waiting);
		fputs("}}", file->out);
	}
	if (!file->has_counts || file->used_blocks != counts->used_blocks) {
		event_begin(file, "C", PROCESS_ENGINE, start_ns);
		fputs(",\"name\":\"KV blocks\",\"args\":{", file->out);
		put(file, "used", counts->used_blocks);
		fputs("}}", file->out);
	}
	file->has_counts = true;
	file->running = counts->running;
	file->waiting = waiting;
	file->used_blocks = counts->used_blocks;
}

void perfetto_step(struct perfetto *file, const struct step_decisions *decisions, uint64_t start_ns,
	uint64_t end_ns, uint64_t waiting)
{
	const struct event_list *events = decisions->events;

	come_to(file, start_ns);
	if (file->place == INSIDE) {
		step_slice(file, decisions, start_ns, end_ns, waiting);
		counters(file, decisions->counts, start_ns, waiting);
	}
	for (size_t i = 0; i < events->count; i++) {
		request_event(file, &events->events[i], start_ns, end_ns);
	}
}

/* ---- kernels ---- */

void perfetto_kernel(struct perfetto *file, const char *operation, const char *kernel,
	uint64_t start_ns, uint64_t length_ns, uint64_t step, uint32_t layer)
{
	char length[NUMBER_TEXT_BYTES];
	uint32_t lane = 0;

	if (file->place != INSIDE) {
		return;
	}
	if (file->kernels == PERFETTO_KERNELS_MAX) {
		file->kernels_not_shown++;
		return;
	}
	if (file->kernels++ == 0) {
		name_process(file, PROCESS_GPU, "GPU");
		name_thread(file, PROCESS_GPU, "kernels");
	}
	while (lane + 1 < GPU_LANES && file->lane_end_ns[lane] > start_ns) {
		lane++;
	}
	file->lane_end_ns[lane] = start_ns + length_ns;
	decimal_text(length, length_ns, 3);
	event_begin(file, "X", PROCESS_GPU, start_ns);
	fprintf(file->out, ",\"tid\":%u,\"dur\":%s,\"name\":\"%s\",\"args\":{\"kernel\":\"",
		lane + 1, length, operation);
	for (const char *c = kernel; *c != '\0'; c++) {
		fputc(*c == '"' || *c == '\\' || (unsigned char)*c < ' ' ? '?' : *c, file->out);
	}
	fputc('"', file->out);
	put_more(file, "step", step);
	if (layer != RANGE_NO_LAYER) {
		put_more(file, "layer", layer);
	}
	fputs("}}", file->out);
}

/* ---- the end ---- */

void perfetto_end(struct perfetto *file, uint64_t end_ns)
{
	come_to(file, end_ns);
	for (uint32_t i = 0; i < file->request_count; i++) {
		if (file->requests[i].stage != STAGE_NONE) {
			end_request(file, &file->requests[i], end_ns, "unfinished", 0);
		}
	}
	fputs("\n],\"displayTimeUnit\":\"ms\",\"otherData\":{", file->out);
	put(file, "kernels_not_shown", file->kernels_not_shown);
	fputs("}}\n", file->out);
}

void perfetto_close(struct perfetto *file)
{
	if (file == NULL) {
		return;
	}
	free(file->requests);
	free(file);
}
