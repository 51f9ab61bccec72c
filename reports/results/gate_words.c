#include "reports/results/gate_words.h"

#define STATUS_WORD(status, word, cost, meaning) word,
const char *const gate_status_words[GATE_STATUS_COUNT] = {GATE_STATUS_LIST(STATUS_WORD)};
#undef STATUS_WORD
#define STATUS_MEANING(status, word, cost, meaning) meaning,
const char *const gate_status_meanings[GATE_STATUS_COUNT] = {GATE_STATUS_LIST(STATUS_MEANING)};
#undef STATUS_MEANING
#define STATUS_COST(status, word, cost, meaning) cost,
const int gate_status_costs[GATE_STATUS_COUNT] = {GATE_STATUS_LIST(STATUS_COST)};
#undef STATUS_COST

#define COST_NAME(cost, name, unit, title, limit, floor) name,
const char *const gate_cost_names[COST_COUNT] = {GATE_COST_LIST(COST_NAME)};
#undef COST_NAME
#define COST_TITLE(cost, name, unit, title, limit, floor) title,
const char *const gate_cost_titles[COST_COUNT] = {GATE_COST_LIST(COST_TITLE)};
#undef COST_TITLE
