#ifndef KERNELS_OP_OPERANDS_H
#define KERNELS_OP_OPERANDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/op/launch.h"

/* The tensors that a case of an operation reads and writes. An operation's open() makes them with
   the functions below, for one of two uses:

       timed     set_count copies in device memory, filled there, so that successive launches find
		 nothing in a cache; outputs are zero
       checked   one set, on both sides: float32 on the host for the twin, the same values as bf16
		 on the device; outputs and scratch are poisoned with NaN

   Device memory is reached through struct operand_memory, so this file needs no CUDA. */

struct op_case;
struct cublaslt;

/* The functions return 0 or an error code of the device. */
struct operand_memory {
	int (*take)(void **out, size_t bytes, int byte); /* every byte is `byte` */
	void (*release)(void *memory);			 /* accepts NULL */
	int (*set)(void *memory, int byte, size_t bytes);
	int (*send)(void *to, const void *host, size_t bytes);
	int (*fetch)(void *host, const void *from, size_t bytes); /* waits for all launches */
	int (*fill_bf16)(uint16_t *out, size_t count, uint64_t key);
	int (*fill_float)(float *out, size_t count, uint64_t key);
};

enum operand_type {
	OPERAND_BF16,  /* on the host float32, values that bf16 holds */
	OPERAND_FLOAT, /* float32 on both sides */
	OPERAND_BYTES, /* ids, tables and the like: the same bytes on both sides */
};

/* Where operations keep what nearly all of them have; the others' tensors follow. */
enum { OPERAND_OUT, OPERAND_IN, OPERAND_WEIGHT, OPERAND_MORE, OPERANDS_MAX = 16 };

struct operand {
	enum operand_type type;
	size_t count;	 /* elements of a set; of OPERAND_BYTES: bytes */
	void *host;	 /* NULL if the host does not read it */
	uint8_t *device; /* the copy of set s lies at device + s * stride */
	size_t stride;	 /* bytes; 0: all sets share it */

	/* An output is compared row by row. */
	bool is_output;
	size_t row_width;
	double tolerance; /* relative, in the norm of a row; 0: the same bits */
};

/* Kinds of random values; each is a function of key and index only. */
enum case_values {
	CASE_UNIFORM,  /* in [-1, 1], values that bf16 holds */
	CASE_INTEGERS, /* in [-4, 4]: their products and sums are exact, so any order is right */
};

struct operands {
	/* set by the caller before open(); the rest is zeroed */
	const struct op_case *op_case;
	const struct operand_memory *memory;
	enum kernel_path path;
	struct cublaslt *cublaslt; /* borrowed */
	uint32_t processors;	   /* of the device */
	uint32_t set_count;	   /* 1 when checked */
	bool is_checked;
	enum case_values values; /* when checked */

	struct operand operand[OPERANDS_MAX];
	int code; /* of the first call that failed; nothing is done after it */
};

/* A tolerance for results in bf16: one rounding, and sums in another order. */
#define OPERAND_BF16_TOLERANCE 1e-2

/* count elements of bf16, other values in every set; _shared: one copy for all sets. */
void operands_random(struct operands *operands, uint32_t index, size_t count);
void operands_random_shared(struct operands *operands, uint32_t index, size_t count);
void operands_random_float(struct operands *operands, uint32_t index, size_t count);

/* A list that all sets share; it is copied. */
void operands_list(struct operands *operands, uint32_t index, const void *list, size_t bytes);

/* A list for one set: called for each in ascending order. */
void operands_list_of_set(
	struct operands *operands, uint32_t index, uint32_t set, const void *list, size_t bytes);

/* An output of its own memory, in rows of row_width elements. */
void operands_output(struct operands *operands, uint32_t index, enum operand_type type,
	size_t count, size_t row_width, double tolerance);

/* Marks an existing operand as an output too: it is read and written. */
void operands_expect(struct operands *operands, uint32_t index, size_t row_width, double tolerance);

/* Device memory that all sets share. */
void operands_scratch(struct operands *operands, uint32_t index, size_t bytes);
void operands_counters(struct operands *operands, uint32_t index, size_t bytes); /* zero */

/* Puts the host's values on the device after they were changed; nothing unless checked. */
void operands_send(struct operands *operands, uint32_t index);

/* Before another launch of what is checked: an output is NaN on the device again. */
void operands_poison(struct operands *operands, uint32_t index);

/* The device's values of set 0 after all launches, as the host side has them: float32, or bytes.
   Allocated; NULL when the device failed. */
void *operands_fetch(struct operands *operands, uint32_t index);

/* Device memory of a set; the host side. */
void *operand_at(const struct operands *operands, uint32_t index, uint32_t set);
void *operand_host(const struct operands *operands, uint32_t index);

void operands_close(struct operands *operands);

/* The values that operands_random() gives. */
void case_fill(float *out, uint64_t count, uint64_t key, enum case_values values);

#endif
