/*
 * What the lines that plant.py writes call. All mutants are compiled in. MUTANT=ID in the
 * environment chooses the one that acts. MUTANT_REACHED=FILE names a file of MUTANT_MOST bytes,
 * which gets a 1 at each ID whose place is run. -include puts this before all other headers.
 */
#ifndef QUIRE_TESTS_MUTANTS_MUTANT_H
#define QUIRE_TESTS_MUTANTS_MUTANT_H

#define MUTANT_MOST (1 << 17)

extern unsigned mutant_chosen;
extern unsigned char *mutant_reached;

static inline __attribute__((always_inline, unused)) int mutant(unsigned id)
{
	if (__builtin_expect(mutant_reached != 0, 0)) {
		mutant_reached[id] = 1;
	}
	return __builtin_expect(mutant_chosen == id, 0);
}

/* left OP right; left OTHER right in mutant id. Each operand is computed once. */
#define MUTANT_OPERATOR(id, left, op, other, right)                                                \
	({                                                                                         \
		__auto_type mutant_left = (left);                                                  \
		__auto_type mutant_right = (right);                                                \
		mutant(id) ? (mutant_left other mutant_right) : (mutant_left op mutant_right);     \
	})

/* && that becomes ||, and || that becomes &&. The right side is computed where these ask for it. */
#define MUTANT_AND(id, left, right)                                                                \
	({                                                                                         \
		_Bool mutant_left = (left);                                                        \
		mutant_left != (_Bool)mutant(id) ? (_Bool)(right) : mutant_left;                   \
	})
#define MUTANT_OR(id, left, right)                                                                 \
	({                                                                                         \
		_Bool mutant_left = (left);                                                        \
		mutant_left == (_Bool)mutant(id) ? (_Bool)(right) : mutant_left;                   \
	})

#define MUTANT_NOT(id, condition)                                                                  \
	({                                                                                         \
		_Bool mutant_condition = (condition);                                              \
		mutant(id) ? !mutant_condition : mutant_condition;                                 \
	})

#endif
