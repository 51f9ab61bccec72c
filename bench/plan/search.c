#include "bench/plan/search.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"

#include <stdlib.h>
#include <string.h>

enum {
	MILLION = 1000000,
	WIDTH_MAX = 8,
	SHAPE_ROUNDS_MAX = 4,
	/* the factor of the first step from the start of a bracket, in thousandths; each further
	   step has the square of the one before */
	STEP_FIRST = 1250,
	STEP_MOST = 1000 * 1000 * 1000,
	START_SHARE = 900,	 /* of the load that is fully used, in thousandths */
	START_RANGE = 64,	 /* the start is at most so many times off the first load */
	NEAR = MILLION / 50,	 /* a shape load so near to a probe is not run */
	SHAPE_EXPECTED = 5,	 /* shape loads that are run: the others lie near a probe */
	CROSS_PARTS = 32,	 /* the least distance from a crossing, of a bracket */
	QUANTA_OF_PRECISION = 8, /* loads are rounded to an eighth of the precision or less */
};

/* Of the answer, in thousandths. */
static const uint32_t shape_shares[] = {500, 700, 850, 950, 1050, 1150, 1300};

struct outcome {
	struct search_probe probe;
	bool is_taken, is_void, passes, has_margin;
	double margin;
};

struct search {
	struct search_options options;
	struct outcome *probes; /* (count) by number */
	size_t count, capacity;
	uint32_t handed, taken; /* probes */
	uint64_t start;		/* of the bracket; 0: not decided */
	uint64_t turn;		/* the load that the next step goes from */
	uint64_t step;		/* its factor, in thousandths */
	bool goes_up;		/* the steps go to harder loads */
	double utilisation;
	uint64_t last_width; /* of the bracket when it was divided last; 0: never */
	uint32_t shape_rounds;
	bool has_ended;
};

/* ---- loads, by how hard they are ---- */

static bool is_harder(const struct search *search, uint64_t a, uint64_t b)
{
	return search->options.is_least ? a < b : a > b;
}

static uint64_t hardest(const struct search *search)
{
	return search->options.is_least ? search->options.minimum : search->options.maximum;
}

static uint64_t easiest(const struct search *search)
{
	return search->options.is_least ? search->options.maximum : search->options.minimum;
}

static uint64_t clamp(const struct search *search, u128 load)
{
	const struct search_options *options = &search->options;

	return load < options->minimum	 ? options->minimum
	       : load > options->maximum ? options->maximum
					 : (uint64_t)load;
}

/* load * numerator / denominator, at least one away from the load unless the factor is 1. */
static uint64_t scaled(
	const struct search *search, uint64_t load, uint64_t numerator, uint64_t denominator)
{
	u128 value = (u128)load * numerator / denominator;

	if (numerator > denominator && value <= load) {
		value = (u128)load + 1;
	} else if (numerator < denominator && value >= load) {
		value = (u128)load - 1;
	}
	return clamp(search, value);
}

/* A step of the bracket. */
static uint64_t stepped(const struct search *search, uint64_t load, uint64_t step)
{
	bool grows = search->goes_up != search->options.is_least;

	return scaled(search, load, grows ? step : 1000, grows ? 1000 : step);
}

/* ---- what is known ---- */

struct known {
	const struct outcome *pass, *fail, *alone; /* NULL: none */
};

static bool has_load(const struct outcome *outcome)
{
	return outcome->is_taken && !outcome->is_void && outcome->probe.purpose != SEARCH_ALONE;
}

/* The lowest load that fails, and the highest that passes below it. */
static struct known known_of(const struct search *search)
{
	struct known known = {0};

	for (size_t i = 0; i < search->count; i++) {
		const struct outcome *outcome = &search->probes[i];
		uint64_t load = outcome->probe.load;
		if (outcome->is_taken && !outcome->is_void &&
			outcome->probe.purpose == SEARCH_ALONE) {
			known.alone = outcome;
		}
		if (has_load(outcome) && !outcome->passes &&
			(known.fail == NULL || is_harder(search, known.fail->probe.load, load))) {
			known.fail = outcome;
		}
	}
	for (size_t i = 0; i < search->count; i++) {
		const struct outcome *outcome = &search->probes[i];
		uint64_t load = outcome->probe.load;
		if (has_load(outcome) && outcome->passes &&
			(known.fail == NULL || is_harder(search, known.fail->probe.load, load)) &&
			(known.pass == NULL || is_harder(search, load, known.pass->probe.load))) {
			known.pass = outcome;
		}
	}
	return known;
}

/* The probe of a load; NULL: none. */
static const struct outcome *find(const struct search *search, uint64_t load)
{
	for (size_t i = 0; i < search->count; i++) {
		if (search->probes[i].probe.load == load) {
			return &search->probes[i];
		}
	}
	return NULL;
}

/* ---- rounds ---- */

static void add_probe(struct search *search, enum search_purpose purpose, uint64_t load)
{
	if (purpose != SEARCH_ALONE && find(search, load) != NULL) {
		return;
	}
	search->probes = memory_grow(
		search->probes, &search->capacity, search->count + 1, sizeof(*search->probes));
	search->probes[search->count] = (struct outcome){
		.probe = {.number = u32_from(search->count), .purpose = purpose, .load = load}};
	search->count++;
}

static void first_round(struct search *search)
{
	add_probe(search, SEARCH_FIRST, search->options.first);
	if (search->options.starts_alone) {
		add_probe(search, SEARCH_ALONE, 0);
	}
}

/* The start of the bracket: where utilisation would be START_SHARE if it grew with the load. */
static uint64_t bracket_start(const struct search *search)
{
	const struct search_options *options = &search->options;
	uint64_t first = options->first;
	uint64_t low = u64_max(first / START_RANGE, 1), high = first * START_RANGE;

	if (!options->starts_by_utilisation || !(search->utilisation > 0)) {
		return first;
	}
	double used = search->utilisation / ((double)START_SHARE / 1000);
	double start = options->is_least ? (double)first * used : (double)first / used;
	bool passes = search->probes[0].passes;
	if ((start > (double)first) != (passes != options->is_least)) {
		return first; /* which says more than its utilisation */
	}
	if (start <= (double)low) {
		return clamp(search, low);
	}
	return clamp(search, start >= (double)high ? high : (uint64_t)(start + 0.5));
}

/* 10^k, the largest whose multiples are finer than the precision asks for. */
static uint64_t quantum(const struct search *search, uint64_t load)
{
	u128 most = (u128)load * search->options.precision / MILLION / QUANTA_OF_PRECISION;
	uint64_t power = 1;

	while ((u128)power * 10 <= most) {
		power *= 10;
	}
	return power;
}

/* The load between low and high, rounded so that it is short to write. */
static uint64_t rounded(const struct search *search, uint64_t low, uint64_t high, uint64_t load)
{
	uint64_t unit = quantum(search, load);
	uint64_t short_load = (load + unit / 2) / unit * unit;

	return short_load > low && short_load < high ? short_load : load;
}

/* The largest integer whose square is at most value. */
static uint64_t square_root(u128 value)
{
	uint64_t low = 0, high = UINT64_MAX;

	while (low < high) {
		uint64_t middle = high - (high - low) / 2;
		if ((u128)middle * middle <= value) {
			low = middle;
		} else {
			high = middle - 1;
		}
	}
	return low;
}

/* Adds the load to the round, rounded, if it is inside (low, high). */
static void add_inside(struct search *search, uint64_t low, uint64_t high, uint64_t load)
{
	if (load > low && load < high) {
		add_probe(search, SEARCH_BISECT, rounded(search, low, high, load));
	}
}

/* Probes on both sides of where the line through the margins of both ends crosses 0, so near that
   they are the last ones if it is right. False: it does not cross inside. */
static bool cross_round(
	struct search *search, const struct outcome *pass, const struct outcome *fail)
{
	uint64_t a = pass->probe.load, b = fail->probe.load;
	uint64_t low = u64_min(a, b), high = u64_max(a, b);
	double slope = fail->margin - pass->margin;

	if (!pass->has_margin || !fail->has_margin || !(slope > 0) || pass->margin > 0) {
		return false;
	}
	double share = -pass->margin / slope; /* of the way from the load that passes */
	double from_low = a < b ? share : 1 - share;
	uint64_t middle = low + (uint64_t)(from_low * (double)(high - low));
	u128 half = (u128)middle * search->options.precision / (MILLION / 1000) * 45 / 100000;
	uint64_t off = u64_max((uint64_t)half, (high - low) / CROSS_PARTS);
	if (search->options.width == 1) {
		add_inside(search, low, high, middle);
	} else {
		add_inside(search, low, high, middle > off ? middle - off : 0);
		add_inside(search, low, high, middle + off);
	}
	return search->handed < search->count;
}

/* Divides (a, b): by their geometric mean while they are far apart, then into equal parts, which
   differ little from equal ratios. */
static void part_round(struct search *search, uint64_t a, uint64_t b)
{
	uint64_t low = u64_min(a, b), high = u64_max(a, b);
	uint32_t width = search->options.width;

	if (high / 2 >= low) {
		uint64_t middle = square_root((u128)low * high);
		middle = u64_min(u64_max(middle, low + 1), high - 1);
		add_probe(search, SEARCH_BISECT, rounded(search, low, high, middle));
		return;
	}
	for (uint32_t i = 1; i <= width; i++) {
		uint64_t load = low + (uint64_t)((u128)(high - low) * i / (width + 1));
		add_inside(search, low, high, load);
	}
	if (search->handed == search->count) { /* no third of it was an integer of its own */
		add_probe(search, SEARCH_BISECT, low + (high - low) / 2);
	}
}

/* Divides a bracket. Where the last round did not halve it the margins mislead. */
static void bisect_round(
	struct search *search, const struct outcome *pass, const struct outcome *fail)
{
	uint64_t a = pass->probe.load, b = fail->probe.load;
	uint64_t wide = u64_max(a, b) - u64_min(a, b);
	bool misleads = search->last_width > 0 && wide > search->last_width / 2;

	search->last_width = misleads ? 0 : wide;
	if (misleads || !cross_round(search, pass, fail)) {
		part_round(search, a, b);
	}
}

static bool is_narrow(const struct search *search, uint64_t a, uint64_t b)
{
	uint64_t low = u64_min(a, b), high = u64_max(a, b);

	return high - low <= 1 ||
	       (u128)(high - low) * MILLION <= (u128)low * search->options.precision;
}

static bool is_near_a_probe(const struct search *search, uint64_t load)
{
	for (size_t i = 0; i < search->count; i++) {
		uint64_t other = search->probes[i].probe.load;
		uint64_t apart = other > load ? other - load : load - other;
		if (other > 0 && (u128)apart * MILLION <= (u128)load * NEAR) {
			return true;
		}
	}
	return false;
}

/* Probes around the answer. Nothing is added where all of them are known. */
static void shape_round(struct search *search, uint64_t answer)
{
	for (uint32_t i = 0; i < sizeof(shape_shares) / sizeof(shape_shares[0]); i++) {
		uint32_t share = shape_shares[i];
		uint64_t load = scaled(search, answer, search->options.is_least ? 1000 : share,
			search->options.is_least ? share : 1000);
		load = rounded(search, 0, UINT64_MAX, load);
		load = clamp(search, load);
		if (!is_near_a_probe(search, load)) {
			add_probe(search, SEARCH_SHAPE, load);
		}
	}
}

/* Adds the next steps of the bracket. They go on from load `turn` as long as that has the outcome
   of the bracket's start, and stay on this side of what is known. False: there are none. */
static bool step_round(struct search *search, const struct known *known)
{
	const struct outcome *ahead = search->goes_up ? known->pass : known->fail;
	const struct outcome *bound = search->goes_up ? known->fail : known->pass;

	if (ahead == NULL || ahead->probe.load != search->turn) {
		return false;
	}
	for (uint32_t i = 0; i < search->options.width; i++) {
		uint64_t load = stepped(search, search->turn, search->step);
		bool is_inside = bound == NULL ||
				 (search->goes_up ? is_harder(search, bound->probe.load, load)
						  : is_harder(search, load, bound->probe.load));
		if (load == search->turn || !is_inside) {
			break;
		}
		add_probe(search, SEARCH_BRACKET, load);
		search->turn = load;
		search->step = u64_min(u64_divide_up(search->step * search->step, 1000), STEP_MOST);
	}
	return search->handed < search->count;
}

/* Lets the steps go from `load`: up if it passes, else down. */
static void turn_bracket(struct search *search, uint64_t load, bool passes)
{
	search->turn = load;
	search->goes_up = passes;
	search->step = search->options.first_step > 0 ? search->options.first_step : STEP_FIRST;
}

/* Probes until a load passes and a harder one fails. False: so it is, or the axis ends before. */
static bool bracket_round(struct search *search, const struct known *known)
{
	const struct outcome *start = search->start == 0 ? NULL : find(search, search->start);

	if (start == NULL) {
		search->start = bracket_start(search);
		add_probe(search, SEARCH_BRACKET, search->start);
		if (search->handed < search->count) {
			return true;
		}
		start = find(search, search->start);
	}
	if (start->is_void) {
		start = &search->probes[0];
		search->start = start->probe.load;
	}
	if (search->step == 0) {
		turn_bracket(search, search->start, start->passes);
	}
	if (step_round(search, known)) {
		return true;
	}
	if (known->fail == NULL && known->pass->probe.load != hardest(search)) {
		turn_bracket(search, known->pass->probe.load, true);
	} else if (known->pass == NULL) {
		turn_bracket(search, known->fail->probe.load, false);
	} else {
		return false;
	}
	return step_round(search, known);
}

/* Decides the next round, of one probe or more, or ends the search. */
static void decide(struct search *search)
{
	struct known known = known_of(search);

	if (search->count == 0) {
		first_round(search);
		return;
	}
	if (search->probes[0].is_void || (known.alone != NULL && !known.alone->passes) ||
		(known.fail != NULL && known.fail->probe.load == easiest(search))) {
		search->has_ended = true;
		return;
	}
	if (bracket_round(search, &known)) {
		return;
	}
	if (known.pass == NULL) { /* what is easier has no outcome */
		search->has_ended = true;
		return;
	}
	if (known.fail != NULL &&
		!is_narrow(search, known.pass->probe.load, known.fail->probe.load)) {
		bisect_round(search, known.pass, known.fail);
		if (search->handed < search->count) {
			return;
		}
	}
	if (search->options.has_shape && search->shape_rounds < SHAPE_ROUNDS_MAX) {
		search->shape_rounds++;
		shape_round(search, known.pass->probe.load);
	}
	search->has_ended = search->handed == search->count;
}

/* ---- the interface ---- */

struct search *search_open(const struct search_options *options)
{
	struct search *search = memory_take(1, sizeof(*search));

	check(options->minimum >= 1 && options->minimum <= options->first);
	check(options->first <= options->maximum);
	check(options->maximum <= UINT64_MAX / START_RANGE);
	check(options->width >= 1 && options->width <= WIDTH_MAX);
	check(options->first_step == 0 || options->first_step > 1000);
	search->options = *options;
	return search;
}

void search_close(struct search *search)
{
	if (search != NULL) {
		free(search->probes);
	}
	free(search);
}

bool search_next(struct search *search, struct search_probe *probe)
{
	if (search->handed == search->count && search->taken == search->count &&
		!search->has_ended) {
		decide(search);
	}
	if (search->handed == search->count) {
		return false;
	}
	*probe = search->probes[search->handed++].probe;
	return true;
}

void search_take_margin(
	struct search *search, uint32_t number, bool passes, double utilisation, double margin)
{
	search_take(search, number, passes, utilisation);
	search->probes[number].has_margin = true;
	search->probes[number].margin = margin;
}

void search_take(struct search *search, uint32_t number, bool passes, double utilisation)
{
	check(number < search->handed && !search->probes[number].is_taken);
	search->probes[number].is_taken = true;
	search->probes[number].passes = passes;
	search->taken++;
	if (search->probes[number].probe.purpose == SEARCH_FIRST) {
		search->utilisation = utilisation;
	}
}

void search_take_nothing(struct search *search, uint32_t number)
{
	search_take(search, number, false, 0);
	search->probes[number].is_void = true;
}

void search_limit(struct search *search, uint64_t load)
{
	check(!search->options.is_least);
	search->options.maximum =
		u64_min(search->options.maximum, u64_max(load, search->options.first));
}

bool search_has_ended(const struct search *search)
{
	return search->has_ended;
}

uint32_t search_expected(const struct search *search)
{
	struct known known = known_of(search);
	uint32_t out = u32_from(search->count) - search->taken;
	uint32_t shape =
		search->options.has_shape && search->shape_rounds == 0 ? SHAPE_EXPECTED : 0;
	uint32_t parts = search->options.width + 1;

	if (search->has_ended) {
		return out;
	}
	if (known.pass == NULL || known.fail == NULL) {
		return out + 6 + shape;
	}
	uint64_t low = u64_min(known.pass->probe.load, known.fail->probe.load);
	uint64_t wide = u64_max(known.pass->probe.load, known.fail->probe.load) - low;
	uint32_t rounds = 0;
	while (wide > 1 && (u128)wide * MILLION > (u128)low * search->options.precision) {
		wide = wide / parts;
		rounds++;
	}
	return u32_max(out, rounds * search->options.width) + shape;
}

/* ---- the answer ---- */

static int compare_loads(const void *a, const void *b)
{
	uint64_t first = (*(const struct outcome *const *)a)->probe.load;
	uint64_t second = (*(const struct outcome *const *)b)->probe.load;

	return (first > second) - (first < second);
}

/* Names the runs of failing loads behind which a harder one passes. */
static void find_stretches(const struct search *search, struct search_answer *answer)
{
	const struct outcome **list = memory_take(search->count + 1, sizeof(*list));
	const struct outcome *from = NULL, *to = NULL;
	size_t count = 0;

	for (size_t i = 0; i < search->count; i++) {
		if (has_load(&search->probes[i])) {
			list[count++] = &search->probes[i];
		}
	}
	qsort((void *)list, count, sizeof(*list), compare_loads);
	for (size_t i = 0; i < count; i++) {
		const struct outcome *next = list[search->options.is_least ? count - 1 - i : i];
		if (!next->passes) {
			from = from == NULL ? next : from;
			to = next;
			continue;
		}
		if (from != NULL && answer->stretch_count < SEARCH_STRETCHES_MAX) {
			answer->stretches[answer->stretch_count++] =
				(struct search_stretch){u64_min(from->probe.load, to->probe.load),
					u64_max(from->probe.load, to->probe.load)};
		}
		from = NULL;
	}
	free((void *)list);
}

/* The probe without an outcome that says most about the answer. */
static uint32_t void_probe_of(const struct search *search, const struct known *known)
{
	const struct outcome *found = NULL;
	bool is_found_harder = false;

	for (size_t i = 0; i < search->count; i++) {
		const struct outcome *outcome = &search->probes[i];
		uint64_t load = outcome->probe.load;
		if (!outcome->is_void || outcome->probe.purpose == SEARCH_ALONE) {
			continue;
		}
		bool harder =
			known->pass != NULL && is_harder(search, load, known->pass->probe.load);
		bool is_nearer = found == NULL || (harder && !is_found_harder) ||
				 (harder == is_found_harder &&
					 is_harder(search, found->probe.load, load) == harder);
		found = is_nearer ? outcome : found;
		is_found_harder = is_nearer ? harder : is_found_harder;
	}
	return found == NULL ? SEARCH_NO_PROBE : found->probe.number;
}

struct search_answer search_answer(const struct search *search)
{
	struct known known = known_of(search);
	struct search_answer answer = {
		.is_complete = search->has_ended,
		.fails_alone = known.alone != NULL && !known.alone->passes,
		.has_pass = known.pass != NULL,
		.has_fail = known.fail != NULL,
		.pass_probe = SEARCH_NO_PROBE,
		.fail_probe = SEARCH_NO_PROBE,
		.void_probe = void_probe_of(search, &known),
		.hardest = hardest(search),
	};

	if (answer.has_pass) {
		answer.highest_pass = known.pass->probe.load;
		answer.pass_probe = known.pass->probe.number;
	}
	if (answer.has_fail) {
		answer.lowest_fail = known.fail->probe.load;
		answer.fail_probe = known.fail->probe.number;
	}
	answer.is_bound = answer.has_pass && (!answer.has_fail || !answer.is_complete);
	find_stretches(search, &answer);
	return answer;
}
