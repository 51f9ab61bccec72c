#ifndef ENGINE_BASE_STATUS_H
#define ENGINE_BASE_STATUS_H

/* How failures are reported: a status to branch on and one line of text for the user. Every
   function that can fail for an external reason returns enum status. When that is not STATUS_OK, it
   has written the line into the caller's struct error. The last column is the exit code of the
   program when the failure reaches main: 1 is a verdict, 2 wrong use, bad input or a failed
   resource. */

#define STATUS_LIST(X)                                                                             \
	X(STATUS_OK, 0)                                                                            \
	X(STATUS_VERDICT, 1) /* a difference, a regression, a diverged or failed run */            \
	X(STATUS_USAGE, 2)   /* options that are wrong or contradict each other */                 \
	X(STATUS_INPUT, 2)   /* a file with invalid content */                                     \
	X(STATUS_FILE, 2)    /* a file that cannot be opened, read or written */                   \
	X(STATUS_MEMORY, 2)  /* host or device memory that could not be allocated */               \
	X(STATUS_DEVICE, 2)  /* a device or a device library that failed */

enum status {
#define STATUS_ENUM(name, exit_code) name,
	STATUS_LIST(STATUS_ENUM)
#undef STATUS_ENUM
};

enum { ERROR_TEXT_BYTES = 512 };

/* Owned by the caller; text is one line of printable UTF-8, empty while there is no error.

   An error starts as {0}. Code that handles an error and continues must reset it to {0}. Sticky
   functions only return error->status once it is set, so a list of calls needs one check at its
   end, which reports the first error. Headers state which functions are sticky; such a function
   begins with TRY(error->status). */
struct error {
	enum status status;
	char text[ERROR_TEXT_BYTES];
};

/* Writes the line (cut to the buffer) and returns status, so a function can `return
 * error_set(...)`. */
enum status error_set(struct error *error, enum status status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Returns from the function if a call fails. For functions with nothing to release; a function with
   resources calls an inner function that uses TRY, and releases them after it. */
#define TRY(call)                                                                                  \
	do {                                                                                       \
		const enum status try_status = (call);                                             \
		if (try_status != STATUS_OK) {                                                     \
			return try_status;                                                         \
		}                                                                                  \
	} while (0)

int status_exit_code(enum status status);

#endif
