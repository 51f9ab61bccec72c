#ifndef TESTS_FUZZ_TARGETS_H
#define TESTS_FUZZ_TARGETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a fuzzer calls. A target takes arbitrary bytes, reads them as one kind of input, and demands
   what every reader of quire promises: an input is accepted and then works, or it is refused with a
   status and one line. A broken promise, a sanitizer's report or a failed check ends the process.

   X(name, mutator, changes, what it reads). tests/fuzz/NAME_target.c defines fuzz_NAME(). For the
   mutators see tests/fuzz/mutate.h. Inputs to start from are in tests/fuzz/corpus/NAME; the
   ordinary test runs them and `changes` mutations of each, and demands that a target accepts
   one of them at least: else the format has changed, and the corpus reaches nothing. */
#define FUZZ_TARGETS(X)                                                                            \
	X(trace, bytes, 60,                                                                        \
		"a trace, by a first byte that chooses format, sorting and block size")            \
	X(model_files, bytes, 300, "config.json, safetensors or tokenizer.json, by a first byte")  \
	X(config, sections, 400, "a model's folder: config.json, generation_config.json")          \
	X(checkpoint, sections, 300, "a folder of safetensors, with or without an index")          \
	X(tokenizer, sections, 100, "tokenizer.json, and prompts.jsonl to encode and decode")      \
	X(tape, sections, 150, "summary.json and steps.tsv of a recorded run, which is replayed")  \
	X(price, sections, 100, "summary.json and steps.tsv of a run, whose steps are priced")     \
	X(profile, sections, 200, "profile.json of a GPU, which prices steps")                     \
	X(result, sections, 60, "two result folders, a/ and b/, compared and made into a page")    \
	X(plan, sections, 60, "a plan, a sweep, a gate's history or its suite")                    \
	X(points, sections, 60, "points.tsv, or the runs of a calibration, to fit a profile to")   \
	X(options, command_line, 200, "a command line, one argument on each line")

#define FUZZ_DECLARE(name, mutator, changes, what)                                                 \
	bool fuzz_##name(const uint8_t *bytes, size_t byte_count);
FUZZ_TARGETS(FUZZ_DECLARE)
#undef FUZZ_DECLARE

/* The first byte of an input of model_files, modulo FUZZ_READERS. */
enum { FUZZ_CONFIG, FUZZ_SAFETENSORS, FUZZ_TOKENIZER, FUZZ_READERS };

struct fuzz_target {
	const char *name;

	/* Whether the input was accepted. */
	bool (*run)(const uint8_t *bytes, size_t byte_count);

	/* Changes an input in place, so that its form mostly stays: see tests/fuzz/mutate.h. */
	size_t (*mutate)(uint8_t *bytes, size_t byte_count, size_t room, uint64_t seed);
};

enum {
#define FUZZ_COUNT(name, mutator, changes, what) +1
	FUZZ_TARGET_COUNT = FUZZ_TARGETS(FUZZ_COUNT)
#undef FUZZ_COUNT
};

extern const struct fuzz_target fuzz_targets[FUZZ_TARGET_COUNT];

/* NULL: no target has that name. */
const struct fuzz_target *fuzz_target_find(const char *name);

#endif
