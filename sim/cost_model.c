#include "sim/cost_model.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "sim/price_by_operations.h"
#include "sim/price_by_rates.h"

#include <stdlib.h>
#include <string.h>

/* A step that was launched and not collected. */
struct flight {
	struct step_counts counts;
	uint64_t step;
	bool is_ahead; /* launched before its predecessor ended */
};

enum { FLIGHTS = 2 };

/* What the replicas of a fleet share. */
struct price_tables {
	uint64_t scale_millionths; /* of every step's time */
	bool is_calibrated;	   /* a calibrated profile prices by operations, others by rates */
	struct step_rates rates;
	struct operation_pricer pricer;
	double process_step, process_row; /* as in the profile */
	struct heat_prices heat;
	struct step_hull hull;
};

struct cost_model {
	struct price_tables *tables; /* owned by the runner of the first replica */
	bool owns_tables;
	double heat;
	struct flight flights[FLIGHTS];
	uint64_t launched, collected; /* steps */
};

static uint64_t scaled_ns(const struct price_tables *tables, double ns)
{
	uint64_t whole_ns = (uint64_t)(ns + 0.5);

	if (tables->scale_millionths == 1000000) {
		return whole_ns;
	}
	return (uint64_t)(((u128)whole_ns * tables->scale_millionths + 500000) / 1000000);
}

/* The host of an engine in a process of its own prepares a step while the one before it computes,
   so its time shows only where it is the longer one. */
static struct operation_price with_process(const struct price_tables *tables,
	const struct step_counts *counts, struct operation_price price)
{
	double rows = (double)(counts->decode_rows + counts->prefill_rows);
	double host = tables->process_step + tables->process_row * rows;

	if (price.gpu_ns + price.host_ns < host) {
		price.host_ns = host - price.gpu_ns;
	}
	return price;
}

static struct operation_price price_step(
	struct price_tables *tables, const struct step_counts *counts, bool is_ahead, double heat)
{
	struct step_price price;

	if (tables->is_calibrated) {
		struct operation_price rested =
			price_by_operations(&tables->pricer, counts, is_ahead);
		rested.gpu_ns += heat_extra_ns(&tables->heat, heat,
			heat_flops_ns(&tables->pricer.floors, counts), counts,
			rested.gpu_ns + rested.host_ns);
		return with_process(tables, counts, rested);
	}
	price_by_rates(&tables->rates, counts, &price);
	double gpu = 0;
	for (uint32_t i = 0; i < MODEL_LINEAR_COUNT; i++) {
		gpu += price.linear[i];
	}
	gpu += price.decode_attention + price.prefill_attention + price.elementwise;
	gpu += price.exchange + price.sampling + price.step_fixed;
	return (struct operation_price){.gpu_ns = gpu, .host_ns = price.host};
}

/* The price of a step at a heat; *ns: the same before it is rounded and scaled. */
static enum status time_at(struct price_tables *tables, double heat,
	const struct step_counts *counts, uint64_t step, bool is_ahead, struct step_time *time,
	double *ns, struct error *error)
{
	const struct operation_price price = price_step(tables, counts, is_ahead, heat);
	double elapsed = price.gpu_ns + price.host_ns;

	if (!(elapsed <= STEP_PRICE_LIMIT)) {
		return error_set(error, STATUS_INPUT,
			"step %llu: its price of %g ns is beyond 10^15, the profile's numbers are "
			"not for this model",
			(unsigned long long)step, elapsed);
	}
	time->elapsed_ns = scaled_ns(tables, elapsed);
	time->host_ns = u64_min(scaled_ns(tables, price.host_ns), time->elapsed_ns);
	time->gpu_ns = time->elapsed_ns - time->host_ns;
	time->is_outside = tables->is_calibrated && step_hull_is_outside(&tables->hull, counts);
	*ns = elapsed;
	return STATUS_OK;
}

/* The next step, at the heat that the steps before it left. */
static enum status cost_model_time(struct cost_model *model, const struct step_counts *counts,
	uint64_t step, bool is_ahead, struct step_time *time, struct error *error)
{
	struct price_tables *tables = model->tables;
	double ns = 0;

	TRY(time_at(tables, model->heat, counts, step, is_ahead, time, &ns, error));
	if (tables->heat.decay_ns > 0) {
		model->heat = heat_after(tables->heat.decay_ns, model->heat,
			heat_flops_ns(&tables->pricer.floors, counts), ns);
	}
	return STATUS_OK;
}

static enum status cost_model_execute(void *state, const struct batch *batch, int32_t *token_ids,
	struct step_time *time, struct error *error)
{
	(void)token_ids;
	return cost_model_time(state, &batch->counts, batch->step, batch->is_ahead, time, error);
}

static enum status cost_model_launch(void *state, const struct batch *batch, struct error *error)
{
	struct cost_model *model = state;

	(void)error;
	check(model->launched - model->collected < FLIGHTS);
	model->flights[model->launched % FLIGHTS] = (struct flight){.counts = batch->counts,
		.step = batch->step,
		.is_ahead = model->launched > model->collected};
	model->launched++;
	return STATUS_OK;
}

static enum status cost_model_collect(
	void *state, int32_t *token_ids, struct step_time *time, struct error *error)
{
	struct cost_model *model = state;

	(void)token_ids;
	check(model->launched > model->collected);
	const struct flight *flight = &model->flights[model->collected++ % FLIGHTS];
	return cost_model_time(model, &flight->counts, flight->step, flight->is_ahead, time, error);
}

static enum status cost_model_elapsed(
	void *state, const struct step_counts *counts, uint64_t *elapsed_ns, struct error *error)
{
	struct price_tables *tables = ((struct cost_model *)state)->tables;
	struct step_time time;
	double ns;

	TRY(time_at(tables, 0, counts, 0, tables->is_calibrated, &time, &ns, error));
	*elapsed_ns = time.elapsed_ns;
	return STATUS_OK;
}

void cost_model_price(
	const struct runner *cost_model, const struct step_counts *counts, struct step_price *out)
{
	const struct cost_model *model = cost_model->state;

	check(cost_model->execute == cost_model_execute && !model->tables->is_calibrated);
	price_by_rates(&model->tables->rates, counts, out);
}

/* A model of the same name may have another shape. */
static enum status check_shape(const struct gpu_profile *profile, const struct model_config *model,
	uint32_t ranks, struct error *error)
{
	const struct weight_shard shard = {.ranks = ranks};
	const struct model_config own = weight_shard_config(model, shard);

#define CHECK_SHAPE(field)                                                                         \
	if (profile->prices.shape.field != own.field) {                                            \
		return error_set(error, STATUS_USAGE,                                              \
			"profile %s was calibrated with %s of " #field " %u on a GPU, and prices " \
			"no other, found %u",                                                      \
			profile->name, profile->model, profile->prices.shape.field, own.field);    \
	}
	OPERATION_SHAPE_LIST(CHECK_SHAPE)
#undef CHECK_SHAPE
	return STATUS_OK;
}

static enum status check_profile(const struct gpu_profile *profile,
	const struct model_config *model, uint32_t ranks, struct error *error)
{
	if (profile->is_calibrated && strcmp(profile->model, model->name) != 0) {
		return error_set(error, STATUS_USAGE,
			"profile %s was calibrated with %s and prices no other model, found %s",
			profile->name, profile->model, model->name);
	}
	if (profile->is_calibrated && profile->ranks != ranks) {
		return error_set(error, STATUS_USAGE,
			"profile %s was calibrated with --tensor-parallel-size %u and prices no "
			"other, found %u",
			profile->name, profile->ranks, ranks);
	}
	if (profile->is_calibrated) {
		return check_shape(profile, model, ranks, error);
	}
	if (ranks > 1 && !profile->has_link) {
		return error_set(error, STATUS_USAGE,
			"profile %s has no section 'link', expected one for "
			"--tensor-parallel-size %u",
			profile->name, ranks);
	}
	return STATUS_OK;
}

static void cost_model_close(void *state)
{
	struct cost_model *model = state;

	if (model->owns_tables) {
		free(model->tables);
	}
	free(model);
}

static void fill_runner(struct runner *out, struct price_tables *tables, bool owns_tables)
{
	struct cost_model *state = memory_take(1, sizeof(*state));

	state->tables = tables;
	state->owns_tables = owns_tables;
	*out = (struct runner){
		.name = "sim",
		.state = state,
		.is_computing = false,
		.spread = operation_spread(&tables->pricer.floors),
		.readers = (uint32_t)tables->pricer.sharing.readers,
		.execute = cost_model_execute,
		/* Profiles of rates do not model what launching ahead saves. */
		.launch = tables->is_calibrated ? cost_model_launch : NULL,
		.collect = tables->is_calibrated ? cost_model_collect : NULL,
		.start = NULL,
		.price = cost_model_elapsed,
		.close = cost_model_close,
	};
}

enum status cost_model_open(struct runner *out, const struct model_config *model,
	const struct gpu_profile *profile, uint32_t ranks, struct error *error)
{
	TRY(check_profile(profile, model, ranks, error));
	struct price_tables *tables = memory_take(1, sizeof(*tables));
	tables->scale_millionths = 1000000;
	tables->is_calibrated = profile->is_calibrated;
	if (tables->is_calibrated) {
		operation_pricer_init(&tables->pricer, &profile->prices);
		tables->process_step = profile->process_step;
		tables->process_row = profile->process_row;
		tables->heat = profile->heat;
		tables->hull = profile->hull;
	} else {
		step_rates_init(&tables->rates, model, profile, ranks);
	}
	fill_runner(out, tables, true);
	return STATUS_OK;
}

void cost_model_open_beside(struct runner *out, const struct runner *first)
{
	const struct cost_model *model = first->state;

	check(first->execute == cost_model_execute);
	fill_runner(out, model->tables, false);
}

void cost_model_scale(struct runner *cost_model, uint64_t millionths)
{
	struct cost_model *model = cost_model->state;

	check(cost_model->execute == cost_model_execute);
	check(millionths > 0 && millionths <= COST_MODEL_SCALE_MAX);
	model->tables->scale_millionths = millionths;
}
