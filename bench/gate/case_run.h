#ifndef BENCH_GATE_CASE_RUN_H
#define BENCH_GATE_CASE_RUN_H

#include <sys/stat.h>

#include "bench/gate/child.h"
#include "bench/gate/evidence.h"
#include "bench/gate/judge.h"
#include "bench/gate/suite.h"

/* The runs of a case, one child process after the other: the trace is made where the case says how,
   the case is run, with the other program beside it if there is one, and then run under callgrind
   where instructions are counted. Runs that measure time are repeated, in the order A B B A. */

enum { PLAN_MAX = 2 * SUITE_REPEATS_MAX + 4 };

enum plan_kind { PLAN_MAKE, PLAN_RUN, PLAN_COUNT };

struct planned_run {
	enum plan_kind kind;
	bool is_base; /* by the other program */
	uint32_t run; /* from 0 */
};

struct case_run {
	const struct suite_case *rules;
	const char *program, *against; /* against NULL: there is no other program */
	const char *out;	       /* folder of all results */
	const char *recorded;	       /* folder of runs that are taken, none is made; or NULL */
	bool records;		       /* it runs as the baseline's runs did */
	struct planned_run plan[PLAN_MAX];
	uint32_t plan_count, next;
	struct child child;
	struct stat
		older; /* the summary.json that was in the run's folder before it; zeroed: none */
	bool counts_instructions; /* valgrind is there */
	struct evidence evidence, base;
	struct gate_verdict *verdict; /* gets FAILED, or NEW, and the reason */
	bool is_over;		      /* the verdict has it; there is nothing to judge */
	struct error broken; /* no verdict: a program that cannot be started, a file not read */
};

/* Whether the case measures time, its runner's or the program's, so that it must run alone and more
   than once. records: it runs as the baseline's runs did. */
bool case_measures_time(const struct suite_case *rules, bool records);

void case_run_plan(struct case_run *run);

/* Takes the results RECORDED/CASE, RECORDED/CASE.2 and so on in place of runs. */
void case_run_take_recorded(struct case_run *run);

/* Starts the next planned run. False: all are done, or the case has failed. */
bool case_run_start(struct case_run *run);

/* Takes the results of the child that ended. */
void case_run_ended(struct case_run *run);

void case_run_close(struct case_run *run);

/* The file of a trace that the case makes. out: folder of all results. */
enum status case_run_made_trace(
	const char *out, const struct suite_case *rules, char *path, struct error *error);

/* The folder of a run's result. */
enum status case_run_folder(const struct case_run *run, const struct planned_run *planned,
	char *path, struct error *error);

#endif
