#ifndef BENCH_PLAN_SEARCH_H
#define BENCH_PLAN_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The search for the highest load that passes, as a state machine that runs nothing itself. It
   names probes; its caller runs them, where and in what order it likes, and hands back what came
   out:

       search_next() ─► probe ─► (a run) ─► search_take() ─► ... ─► search_answer()

   Probes come in rounds. A round is decided only when the one before it was taken whole, so its
   probes depend on the outcomes and never on who ran them, or how many at a time.

       first    the load that was given, and one request in the system at a time
       bracket  from 0.9 of the load at which the first would be fully used, or from the first
                where it fails below that, up or down by growing factors, until a load passes and
                a higher one fails
       bisect   the bracket is divided until it is narrow enough, where it is by the margins of
                its ends, or in equal parts
       shape    loads at fixed shares of the answer, for what the search did not see

   A load that fails below one that passes makes the answer smaller: the answer is the highest load
   that passes below the lowest one that fails. The loads between are stretches of the answer.

   Where more is easier (KV blocks, replicas) the same holds the other way round: the answer is
   the least load that passes. In this header "higher" then means less. Loads are positive integers;
   of a speedup or a rate they are millionths. */

enum search_purpose {
	SEARCH_FIRST,
	SEARCH_ALONE, /* one request at a time; has no load */
	SEARCH_BRACKET,
	SEARCH_BISECT,
	SEARCH_SHAPE,
};

struct search_options {
	bool is_least;		   /* more is easier: the answer is the least that passes */
	uint64_t minimum, maximum; /* of a load; minimum >= 1 */
	uint64_t first;		   /* the load of the first probe, within them */
	uint64_t precision;	   /* of the answer, relative, in millionths; 1 apart is exact */
	uint64_t first_step;	   /* of the bracket, a factor in thousandths above 1000; 0: 1250 */
	uint32_t width;		   /* probes of a round while a bracket is divided; 1 to 8 */
	bool starts_alone;	   /* the first round also has a request at a time */
	bool starts_by_utilisation; /* else the first load is the start of the bracket */
	bool has_shape;
};

struct search_probe {
	uint32_t number; /* from 0, in the order of search_next() */
	enum search_purpose purpose;
	uint64_t load; /* 0: SEARCH_ALONE */
};

struct search;

/* To be closed. */
struct search *search_open(const struct search_options *options);
void search_close(struct search *search);

/* The next probe to run. False: those that were handed out must be taken first, or the search has
   ended. */
bool search_next(struct search *search, struct search_probe *probe);

/* The outcome of probe `number`, once. utilisation: of the first probe, what share it used of what
   there is; 0: not known. */
void search_take(struct search *search, uint32_t number, bool passes, double utilisation);

/* The same with how clear the outcome is: 0 at the border, below it where the run passes, above it
   where it fails, and roughly a straight line in between. The search looks where the line of two
   outcomes crosses 0, and divides in equal parts where that does not help. */
void search_take_margin(
	struct search *search, uint32_t number, bool passes, double utilisation, double margin);

/* There is no outcome of probe `number`: the run cannot be made at its load, or one request at a
   time says nothing of other loads. The search goes on without it, on this side of it; without an
   outcome of the first probe it ends. */
void search_take_nothing(struct search *search, uint32_t number);

/* Loads that are harder than this one change nothing any more: none of them is probed. To be called
   before a harder one was handed out, of a search whose answer is the most that passes. */
void search_limit(struct search *search, uint64_t load);

bool search_has_ended(const struct search *search);

/* How many probes are still to come, about, those that are out included. */
uint32_t search_expected(const struct search *search);

/* Loads that fail, though a harder one passes. */
struct search_stretch {
	uint64_t from, to; /* the least and the most of them that were probed */
};

enum { SEARCH_STRETCHES_MAX = 16 };

#define SEARCH_NO_PROBE UINT32_MAX

/* What is known, at any time. */
struct search_answer {
	bool is_complete; /* the search has ended */
	bool fails_alone; /* a request at a time fails, so every load does */
	bool has_pass, has_fail;
	uint64_t highest_pass; /* below the lowest fail */
	uint64_t lowest_fail;
	uint32_t pass_probe, fail_probe; /* their numbers, or SEARCH_NO_PROBE */
	uint32_t void_probe; /* the easiest without an outcome that is harder than highest_pass,
				else one that is easier; or SEARCH_NO_PROBE */
	uint64_t hardest;    /* the end of the range that was searched (search_limit()) */
	/* highest_pass is a bound and may not be the answer: no load failed, or the search did not
	   end. */
	bool is_bound;
	uint32_t stretch_count; /* the first SEARCH_STRETCHES_MAX are named */
	struct search_stretch stretches[SEARCH_STRETCHES_MAX];
};
struct search_answer search_answer(const struct search *search);

#endif
