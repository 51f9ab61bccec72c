#include "bench/calibrate/profile.h"

#include "reports/figures/plot.h"
#include "engine/base/json.h"
#include "engine/base/output_file.h"
#include "engine/step_record.h"

#include <math.h>
#include <stdio.h>

enum { NUMBER_BYTES = 40 };

/* Six decimals: the precision to which calibrate_fit() rounds heights. */
static void number_text(char *text, double value)
{
	int length = snprintf(text, NUMBER_BYTES, "%.6f", value);

	while (length > 1 && text[length - 1] == '0') {
		text[--length] = '\0';
	}
	if (text[length - 1] == '.') {
		text[length - 1] = '\0';
	}
}

static void add_number(cJSON *object, const char *name, double value)
{
	char text[NUMBER_BYTES];

	number_text(text, value);
	cJSON_AddRawToObject(object, name, text);
}

static void add_array(cJSON *object, const char *name, const double *values, uint32_t count)
{
	cJSON *array = cJSON_AddArrayToObject(object, name);
	char text[NUMBER_BYTES];

	for (uint32_t i = 0; i < count; i++) {
		number_text(text, values[i]);
		cJSON_AddItemToArray(array, cJSON_CreateRaw(text));
	}
}

static void add_errors(cJSON *object, const char *name, const struct calibrate_errors *errors)
{
	cJSON *inner = cJSON_AddObjectToObject(object, name);

	add_number(inner, "points", errors->points);
	add_number(inner, "mean", errors->mean);
	add_number(inner, "p50", errors->p50);
	add_number(inner, "p90", errors->p90);
	add_number(inner, "p99", errors->p99);
	add_number(inner, "max", errors->max);
	add_number(inner, "bias", errors->bias);
}

static cJSON *profile_json(const struct calibrate_fit *fit, const struct calibrate_points *points,
	const struct gpu_profile *memory, uint32_t ranks)
{
	const struct calibrate_origin *origin = &points->origin;
	cJSON *root = cJSON_CreateObject();
	char text[512], times[16] = "";

	if (ranks > 1) {
		snprintf(times, sizeof(times), "%u x ", ranks);
	}
	snprintf(text, sizeof(text), "%s%s with %s, calibrated %s at commit %s", times,
		origin->device, origin->model, origin->date, origin->commit);
	cJSON_AddStringToObject(root, "schema", "quire-calibrated-1");
	cJSON_AddStringToObject(root, "description", text);
	cJSON_AddStringToObject(root, "model", origin->model);
	add_number(root, "tensor_parallel_size", ranks);
	cJSON *section = cJSON_AddObjectToObject(root, "memory");
	add_number(section, "memory_bytes", memory->memory_bytes);
	add_number(section, "context_bytes", memory->context_bytes);
	section = cJSON_AddObjectToObject(root, "calibration");
#define ADD_ORIGIN(key, bytes)                                                                     \
	if (origin->key[0] != '\0') {                                                              \
		cJSON_AddStringToObject(section, #key, origin->key);                               \
	}
	CALIBRATE_ORIGIN_LIST(ADD_ORIGIN)
#undef ADD_ORIGIN
	section = cJSON_AddObjectToObject(root, "residuals");
	add_errors(section, "fitted", &fit->fitted);
	add_errors(section, "held_out", &fit->held_out);
	section = cJSON_AddObjectToObject(root, "curves");
	for (uint32_t i = 0; i < STEP_CURVE_COUNT; i++) {
		enum step_curve curve = (enum step_curve)i;
		const struct step_curve_table *table = &fit->curves[i];
		cJSON *inner = cJSON_AddObjectToObject(section, step_curve_name(curve));
		cJSON_AddStringToObject(inner, "what", step_curve_what(curve));
		add_array(inner, "at", table->at, table->count);
		add_array(inner, "ns", table->ns, table->count);
	}
	return root;
}

/* Refuses heights that no reader of the profile would take: they come of times that do not belong
   to their counts. Written so that NaN is refused too. */
static enum status check_heights(const struct calibrate_fit *fit, struct error *error)
{
	for (uint32_t i = 0; i < STEP_CURVE_COUNT; i++) {
		const struct step_curve_table *table = &fit->curves[i];
		for (uint32_t j = 0; j < table->count; j++) {
			if (!(fabs(table->ns[j]) <= STEP_CURVE_LIMIT)) {
				return error_set(error, STATUS_INPUT,
					"curve %s: found a height of %g ns, expected at most "
					"10^15: the times do not belong to the counts",
					step_curve_name((enum step_curve)i), table->ns[j]);
			}
		}
	}
	return STATUS_OK;
}

enum status calibrate_profile_write(const char *path, const struct calibrate_fit *fit,
	const struct calibrate_points *points, const struct gpu_profile *memory,
	struct error *error)
{
	struct output_file output;
	uint32_t ranks;

	TRY(calibrate_points_ranks(points, &ranks, error));
	TRY(check_heights(fit, error));
	TRY(output_file_open(&output, path, error));
	cJSON *root = profile_json(fit, points, memory, ranks);
	json_print(root, output.file);
	cJSON_Delete(root);
	return output_file_commit(&output, error);
}

enum status calibrate_plot(const struct calibrate_fit *fit, const struct calibrate_points *points,
	const char *name, const char *path, struct error *error)
{
	struct plot plot;
	char subject[160];

	TRY(plot_begin(&plot, error));
	snprintf(subject, sizeof(subject), "%s: %.2f %% mean error on held-out steps", name,
		fit->held_out.mean * 100);
	fprintf(plot.table, "kind\theld_out\tmeasured_ns\tpredicted_ns\n");
	for (size_t i = 0; i < points->count; i++) {
		const struct calibrate_point *point = &points->points[i];
		const struct step_counts *counts = &point->counts;
		fprintf(plot.table, "%s\t%d\t%llu\t%llu\n", step_kind_name(step_kind_of(counts)),
			point->is_held_out, (unsigned long long)point->elapsed_ns,
			(unsigned long long)point->predicted_ns);
	}
	plot_set_text(&plot, "subject", subject);
	return plot_draw(&plot, "calibration.gp", path, error);
}
