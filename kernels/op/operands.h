#ifndef KERNELS_OP_OPERANDS_H
#define KERNELS_OP_OPERANDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/op/launch.h"

/* The tensors that a case of an operation reads and writes. The operation's open() creates them
   with the functions below, for one of two uses:

       timed     set_count copies in device memory, initialised there. Successive launches use
                 successive sets, so that they find nothing in a cache. Outputs are zero. Only
                 lists of all sets are on the host too, where launches read them.
       checked   one set, on both sides: float32 on the host for the twin, the same values as bf16
                 on the device. Outputs and scratch are poisoned with NaN.

   Device memory is accessed through struct operand_memory, so this file needs no CUDA. */

struct op_case;
struct cublaslt;

/* A memory in which operands live. The functions return 0 or an error code of the device. */
struct operand_memory {
	int (*allocate)(void **out, size_t bytes, int byte); /* fills the memory with `byte` */
	void (*release)(void *memory);			     /* accepts NULL */
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

/* The indices of operands that nearly all operations have. Further operands of an operation
   follow from OPERAND_MORE on. */
enum { OPERAND_OUT, OPERAND_IN, OPERAND_WEIGHT, OPERAND_MORE, OPERANDS_MAX = 16 };

struct operand {
	enum operand_type type;
	size_t count;	 /* elements of a set; of OPERAND_BYTES: bytes */
	void *host;	 /* NULL: device only */
	uint8_t *device; /* the copy of set s lies at device + s * stride */
	size_t stride;	 /* bytes between sets; 0: all sets share one copy */

	/* An output is compared row by row. */
	bool is_output;
	size_t row_width;
	double tolerance; /* relative, in the norm of a row; 0: the same bits */
};

/* How random operands are filled: each value is a function of key and index alone. */
enum case_values {
	CASE_UNIFORM, /* in [-1, 1], values that bf16 holds */
	/* in [-4, 4]: products and sums are exact, so every order of summation has the same bits */
	CASE_INTEGERS,
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
	int code; /* of the first call that failed; later calls do nothing */
};

/* Relative tolerance for bf16 results: one rounding, and another order of summation. */
#define OPERAND_BF16_TOLERANCE 1e-2

/* count random bf16 elements, different in every set. The _shared form makes one copy for all
   sets. */
void operands_random(struct operands *operands, uint32_t index, size_t count);
void operands_random_shared(struct operands *operands, uint32_t index, size_t count);
void operands_random_float(struct operands *operands, uint32_t index, size_t count);

/* A list that all sets share. The bytes are copied. */
void operands_list(struct operands *operands, uint32_t index, const void *list, size_t bytes);

/* A list for one set; call it for each set in ascending order. */
void operands_list_of_set(
	struct operands *operands, uint32_t index, uint32_t set, const void *list, size_t bytes);

/* An output with memory of its own, in rows of row_width elements. */
void operands_output(struct operands *operands, uint32_t index, enum operand_type type,
	size_t count, size_t row_width, double tolerance);

/* Turns an operand into an output too: it is read and written. */
void operands_expect(struct operands *operands, uint32_t index, size_t row_width, double tolerance);

/* Scratch memory on the device that all sets share; its bytes are 0xff. */
void operands_scratch(struct operands *operands, uint32_t index, size_t bytes);
void operands_counters(
	struct operands *operands, uint32_t index, size_t bytes); /* the same, zeroed */

/* Uploads the host's values after a change. Does nothing unless checked. */
void operands_send(struct operands *operands, uint32_t index);

/* Poisons an output on the device with NaN again, before another checked launch. */
void operands_poison(struct operands *operands, uint32_t index);

/* Downloads set 0 after all launches, in the form of the host side: float32, or bytes. The
   result is allocated; NULL when the device failed. */
void *operands_fetch(struct operands *operands, uint32_t index);

/* The device memory of a set, and the host side of an operand. */
void *operand_at(const struct operands *operands, uint32_t index, uint32_t set);
void *operand_host(const struct operands *operands, uint32_t index);

void operands_close(struct operands *operands);

/* Writes the values of operands_random(). */
void case_fill(float *out, uint64_t count, uint64_t key, enum case_values values);

#endif
