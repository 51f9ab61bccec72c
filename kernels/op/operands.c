#include "kernels/op/operands.h"

#include "engine/base/check.h"
#include "engine/base/counter_hash.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "kernels/op/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 256, POISON = 0xff }; /* NaN in bf16 and float32, -1 as an id */

void case_fill(float *out, uint64_t count, uint64_t key, enum case_values values)
{
	uint64_t stream = counter_key(key, 0);

	for (uint64_t i = 0; i < count; i++) {
		uint32_t bits = (uint32_t)counter_hash(stream, i);
		if (values == CASE_INTEGERS) {
			out[i] = (float)((int32_t)counter_below(bits, 9) - 4);
		} else {
			float value = ((float)(bits >> 8) + 0.5f) * 0x1p-23f - 1;
			out[i] = bf16_to_float(bf16_from_float(value));
		}
	}
}

static void note(struct operands *operands, int code)
{
	operands->code = operands->code == 0 ? code : operands->code;
}

static size_t device_bytes(const struct operand *operand)
{
	static const size_t sizes[] = {
		[OPERAND_BF16] = 2, [OPERAND_FLOAT] = 4, [OPERAND_BYTES] = 1};

	return operand->count * sizes[operand->type];
}

static size_t host_bytes(const struct operand *operand)
{
	return operand->count * (operand->type == OPERAND_BYTES ? 1 : sizeof(float));
}

void *operand_at(const struct operands *operands, uint32_t index, uint32_t set)
{
	check(set < operands->set_count);
	return operands->operand[index].device + operands->operand[index].stride * set;
}

void *operand_host(const struct operands *operands, uint32_t index)
{
	check(operands->operand[index].host != NULL);
	return operands->operand[index].host;
}

/* Allocates an operand on the device, and on the host when checked. */
static struct operand *open_operand(struct operands *operands, uint32_t index,
	enum operand_type type, size_t count, bool is_shared, int byte)
{
	struct operand *operand = &operands->operand[index];

	check(index < OPERANDS_MAX && operand->device == NULL);
	check(!operands->is_checked || operands->set_count == 1);
	*operand = (struct operand){.type = type, .count = count};
	size_t stride = u64_divide_up(device_bytes(operand), ALIGNMENT) * ALIGNMENT;
	uint32_t sets = is_shared ? 1 : operands->set_count;
	operand->stride = sets == 1 ? 0 : stride;
	if (operands->code == 0) {
		note(operands,
			operands->memory->allocate((void **)&operand->device, stride * sets, byte));
	}
	if (operands->is_checked) {
		operand->host = memory_take(host_bytes(operand), 1);
		memset(operand->host, byte, host_bytes(operand));
	}
	return operand;
}

void operands_send(struct operands *operands, uint32_t index)
{
	const struct operand *operand = &operands->operand[index];
	size_t bytes = device_bytes(operand);
	const float *values = operand->host;
	uint16_t *bits = NULL;

	if (!operands->is_checked || operands->code != 0) {
		return;
	}
	if (operand->type == OPERAND_BF16) {
		bits = memory_take(operand->count, sizeof(*bits));
		for (size_t i = 0; i < operand->count; i++) {
			bits[i] = bf16_from_float(values[i]);
		}
	}
	note(operands, operands->memory->send(
			       operand->device, bits == NULL ? operand->host : bits, bytes));
	free(bits);
}

static void open_random(struct operands *operands, uint32_t index, enum operand_type type,
	size_t count, bool is_shared)
{
	struct operand *operand = open_operand(operands, index, type, count, is_shared, 0);
	uint32_t sets = is_shared ? 1 : operands->set_count;

	if (operands->is_checked) {
		case_fill(operand->host, count, index + 1, operands->values);
		operands_send(operands, index);
		return;
	}
	for (uint32_t set = 0; set < sets && operands->code == 0; set++) {
		uint64_t key = counter_key(index, (uint64_t)set + 1);
		void *out = operand_at(operands, index, set);
		note(operands, type == OPERAND_BF16
				       ? operands->memory->fill_bf16(out, count, key)
				       : operands->memory->fill_float(out, count, key));
	}
}

void operands_random(struct operands *operands, uint32_t index, size_t count)
{
	open_random(operands, index, OPERAND_BF16, count, false);
}

void operands_random_shared(struct operands *operands, uint32_t index, size_t count)
{
	open_random(operands, index, OPERAND_BF16, count, true);
}

void operands_random_float(struct operands *operands, uint32_t index, size_t count)
{
	open_random(operands, index, OPERAND_FLOAT, count, false);
}

static void fill_list(
	struct operands *operands, uint32_t index, uint32_t set, const void *list, size_t bytes)
{
	if (operands->operand[index].host != NULL) {
		memcpy(operands->operand[index].host, list, bytes);
	}
	if (operands->code == 0) {
		note(operands,
			operands->memory->send(operand_at(operands, index, set), list, bytes));
	}
}

void operands_list(struct operands *operands, uint32_t index, const void *list, size_t bytes)
{
	struct operand *operand = open_operand(operands, index, OPERAND_BYTES, bytes, true, 0);

	if (operand->host == NULL) {
		operand->host = memory_take(bytes, 1);
	}
	fill_list(operands, index, 0, list, bytes);
}

void operands_list_of_set(
	struct operands *operands, uint32_t index, uint32_t set, const void *list, size_t bytes)
{
	if (set == 0) {
		open_operand(operands, index, OPERAND_BYTES, bytes, false, 0);
	}
	check(operands->operand[index].count == bytes);
	fill_list(operands, index, set, list, bytes);
}

void operands_output(struct operands *operands, uint32_t index, enum operand_type type,
	size_t count, size_t row_width, double tolerance)
{
	open_operand(operands, index, type, count, false, operands->is_checked ? POISON : 0);
	operands_expect(operands, index, row_width, tolerance);
}

void operands_expect(struct operands *operands, uint32_t index, size_t row_width, double tolerance)
{
	struct operand *operand = &operands->operand[index];

	check(row_width > 0 && operand->count % row_width == 0);
	operand->is_output = true;
	operand->row_width = row_width;
	operand->tolerance = tolerance;
}

void operands_scratch(struct operands *operands, uint32_t index, size_t bytes)
{
	open_operand(operands, index, OPERAND_BYTES, bytes, true, POISON);
}

void operands_counters(struct operands *operands, uint32_t index, size_t bytes)
{
	open_operand(operands, index, OPERAND_BYTES, bytes, true, 0);
}

void operands_poison(struct operands *operands, uint32_t index)
{
	const struct operand *operand = &operands->operand[index];

	if (operands->code == 0) {
		note(operands,
			operands->memory->set(operand->device, POISON, device_bytes(operand)));
	}
}

void *operands_fetch(struct operands *operands, uint32_t index)
{
	const struct operand *operand = &operands->operand[index];
	unsigned char *bytes = memory_take(device_bytes(operand), 1);

	if (operands->code == 0) {
		note(operands,
			operands->memory->fetch(bytes, operand->device, device_bytes(operand)));
	}
	if (operands->code != 0) {
		free(bytes);
		return NULL;
	}
	if (operand->type != OPERAND_BF16) {
		return bytes;
	}
	float *values = memory_take(operand->count, sizeof(*values));
	for (size_t i = 0; i < operand->count; i++) {
		uint16_t bits;
		memcpy(&bits, bytes + i * sizeof(bits), sizeof(bits));
		values[i] = bf16_to_float(bits);
	}
	free(bytes);
	return values;
}

void operands_close(struct operands *operands)
{
	for (uint32_t i = 0; i < OPERANDS_MAX; i++) {
		operands->memory->release(operands->operand[i].device);
		free(operands->operand[i].host);
		operands->operand[i] = (struct operand){0};
	}
}
