#include "engine/base/integer.h"
#include "engine/base/number.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/harness/property.h"
#include "tests/harness/require.h"

struct number_case {
	const char *text;
	bool is_number;
	uint64_t value;
};

Test(number, integers_are_only_digits)
{
	static const struct number_case cases[] = {
		{"0", true, 0}, {"7", true, 7}, {"007", true, 7},
		{"18446744073709551615", true, UINT64_MAX},
		{"000000000000000000000000000000018446744073709551615", true, UINT64_MAX},
		{"18446744073709551616", false, 0}, {"18446744073709551620", false, 0},
		{"99999999999999999999", false, 0}, {"36893488147419103232", false, 0},
		{"", false, 0}, {" 1", false, 0}, {"1 ", false, 0}, {"+1", false, 0},
		{"-1", false, 0}, {"-0", false, 0}, {"1.0", false, 0}, {"1e3", false, 0},
		{"0x10", false, 0}, {"1,000", false, 0},
		{"\xd9\xa3", false, 0}, /* an Arabic digit */
	};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t value = 99;
		require(text_to_u64(cases[i].text, &value) == cases[i].is_number, "'%s'",
			cases[i].text);
		require_equal(value, cases[i].is_number ? cases[i].value : 99);
	}
}

Test(number, decimals_have_up_to_six_places)
{
	static const struct number_case cases[] = {
		{"0", true, 0},
		{"1", true, 1000000},
		{"12", true, 12000000},
		{"0.5", true, 500000},
		{"0.000001", true, 1},
		{"1.000001", true, 1000001},
		{"00.10", true, 100000},
		{"18446744073709.551615", true, UINT64_MAX},
		{"18446744073709.551616", false, 0},
		{"18446744073710", false, 0},
		{"99999999999999999999", false, 0},
		{"999999999999999999999", false, 0},
		{"", false, 0},
		{".", false, 0},
		{".5", false, 0},
		{"1.", false, 0},
		{"1.0000001", false, 0},
		{"1.2.3", false, 0},
		{"1..2", false, 0},
		{"1.2 ", false, 0},
		{"1.-2", false, 0},
		{"+1.2", false, 0},
		{"-1", false, 0},
		{"1,5", false, 0},
		{"1e3", false, 0},
		{"inf", false, 0},
		{"nan", false, 0},
	};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t value = 99;
		require(text_to_millionths(cases[i].text, &value) == cases[i].is_number, "'%s'",
			cases[i].text);
		require_equal(value, cases[i].is_number ? cases[i].value : 99);
	}
}

struct decimal_case {
	const char *text;
	uint32_t places;
	bool is_number;
	uint64_t value;
};

Test(number, decimals_are_cut_at_a_place)
{
	static const struct decimal_case cases[] = {
		{"0", 9, true, 0},
		{"12", 3, true, 12000},
		{"0.5", 0, true, 0},
		{"0.9999", 3, true, 999},
		{"6.1114e1", 2, true, 6111},
		{"5e-3", 3, true, 5},
		{"5E+3", 0, true, 5000},
		{"0e999999999999", 9, true, 0},
		{"1e999999999999", 9, false, 0},
		{"1e-999999999999", 9, true, 0},
		{"18446744073709551615", 0, true, UINT64_MAX},
		{"18446744073709551616", 0, false, 0},
		{"1844674407370955161.5", 1, true, UINT64_MAX},
		{"", 0, false, 0},
		{".5", 3, false, 0},
		{"1.", 3, false, 0},
		{"1e", 3, false, 0},
		{"1e+", 3, false, 0},
		{"-1", 3, false, 0},
		{"1.2.3", 3, false, 0},
		{"1 ", 3, false, 0},
	};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct decimal_case *row = &cases[i];
		uint64_t value = 99;
		bool is_number = decimal_to_u64(row->text, strlen(row->text), row->places, &value);
		require(is_number == row->is_number, "'%s'", row->text);
		require_equal(value, is_number ? row->value : 99);
	}
}

static void require_digits(uint64_t value)
{
	char found[U64_DIGITS_MAX + 1], expected[U64_DIGITS_MAX + 1];

	found[u64_digits(found, value)] = '\0';
	snprintf(expected, sizeof(expected), "%llu", (unsigned long long)value);
	require(strcmp(found, expected) == 0, "%s is written as %s", expected, found);
}

/* As many digits as a number has, around every power of 2 and of 10. */
Test(number, digits_are_those_of_printf)
{
	uint64_t power = 1;

	for (uint32_t i = 0; i < 20; i++, power *= 10) {
		require_digits(power - 1);
		require_digits(power);
		require_digits(power + 1);
		require_digits(power / 7 * 5);
	}
	for (uint32_t i = 0; i < 64; i++) {
		require_digits((UINT64_C(1) << i) - 1);
		require_digits(UINT64_C(1) << i);
	}
	for (uint64_t i = 0; i < 20000; i++) {
		require_digits(i);
	}
	require_digits(UINT64_MAX);
}

/* Any number reads as itself, whatever zeros stand around it, and one that is ten times too large
   for 64 bits is refused. */
static void numbers_read_back(struct prop *prop, const void *context)
{
	char text[64], decimal[96];
	uint64_t number = prop_below(prop, UINT64_MAX) >> prop_below(prop, 64);
	uint32_t zeros = prop_range(prop, 0, 20), places = prop_range(prop, 0, 6);
	uint64_t value = 0, scale = 1;

	(void)context;
	int length = snprintf(text, sizeof(text), "%.*s%llu", (int)zeros, "00000000000000000000",
		(unsigned long long)number);
	prop_log(prop, "%s, %u places", text, places);
	require(text_to_u64(text, &value), "'%s' is no number", text);
	require_equal(value, number);
	require(!digits_to_u64(text, 0, &value), "nothing is a number");

	for (uint32_t i = 0; i < places; i++) {
		scale *= 10;
	}
	length = snprintf(decimal, sizeof(decimal), "%llu.%06llu",
		(unsigned long long)(number / 1000000), (unsigned long long)(number % 1000000));
	require(text_to_millionths(decimal, &value), "'%s' is no decimal", decimal);
	require_equal(value, number);
	require(decimal_to_u64(decimal, (size_t)length, places, &value), "'%s'", decimal);
	require_equal(value, (u128)number * scale / 1000000);

	snprintf(text, sizeof(text), "%llu0", (unsigned long long)number);
	bool fits = number <= UINT64_MAX / 10;
	require(text_to_u64(text, &value) == fits, "'%s'", text);
	if (fits) {
		require_equal(value, number * 10);
	}
}

Test(number, numbers_read_back)
{
	const struct prop_options options = {
		.name = "numbers read back", .body = numbers_read_back, .trials = 3000};

	cr_expect(prop_holds(&options));
}
