#ifndef ENGINE_BASE_STATUS_H
#define ENGINE_BASE_STATUS_H

/* How the world's failures travel: a status to branch on and one line of text for a person.
   Every function that can fail for an outside reason returns enum status and, when that is not
   STATUS_OK, has written the line into the caller's struct error. The last column is the exit code
   of the program when the failure reaches main: 1 is a verdict, 2 wrong use, bad input or a failed
   resource. */

#define STATUS_LIST(X)                                                                             \
	X(STATUS_OK, "ok", 0)                                                                      \
	X(STATUS_VERDICT, "verdict", 1) /* a difference, a regression, a diverged or failed run */ \
	X(STATUS_USAGE, "usage", 2)	/* options that are wrong or do not go together */         \
	X(STATUS_INPUT, "input", 2)	/* a file that is not what it should be */                 \
	X(STATUS_FILE, "file", 2)	/* a file that cannot be opened, read or written */        \
	X(STATUS_MEMORY, "memory", 2)	/* host or device memory that was asked for and refused */ \
	X(STATUS_DEVICE, "device", 2)	/* a device or a device library that failed */

enum status {
#define STATUS_ENUM(name, text, exit_code) name,
	STATUS_LIST(STATUS_ENUM)
#undef STATUS_ENUM
};

enum { ERROR_TEXT_BYTES = 512 };

/* Owned by the caller; text is one line without a line break, empty while all is well.

   An error starts as {0}, and who handles one and goes on sets it to {0} again: sticky functions do
   nothing but return error->status once it is set. A list of them needs one check at its end, and
   tells the first error. Headers say which functions are sticky; such a function begins with
   TRY(error->status). */
struct error {
	enum status status;
	char text[ERROR_TEXT_BYTES];
};

/* Writes the line (cut to the buffer) and returns status, so a function can `return
 * error_set(...)`. */
enum status error_set(struct error *error, enum status status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Returns the status of a call that failed: for functions with nothing to release. A function that
   has something calls an inner one made of TRY lines and releases after it. */
#define TRY(call)                                                                                  \
	do {                                                                                       \
		const enum status try_status = (call);                                             \
		if (try_status != STATUS_OK) {                                                     \
			return try_status;                                                         \
		}                                                                                  \
	} while (0)

const char *status_text(enum status status);
int status_exit_code(enum status status);

#endif
